/* The version tags of dicts.
 *
 * CPython numbers all changes of all dicts, with one counter. If it stands still, no dict was changed. It moves with each
 * call that has keywords or gives a dict, though: so the tags of dicts that are made for a call are *claimed*, and those
 * are not counted. A tag is claimed only if it is sure to be of a dict that no guard has looked at, and only once. */
#include "tags.h"

#include "check.h"
#include "shadow.h"

static uint64_t asked;   /* how often mg_tags_count was called, which changes a dict itself */
static uint64_t claimed; /* how many tags are of no account */
static uint64_t newest;  /* no tag up to this one may be claimed any more: it is, or somebody has asked since */

static void
move(uint64_t tag)
{
    newest = tag > newest ? tag : newest;
}

uint64_t
mg_tags_count(void)
{
    static PyObject *probe;
    if (probe == NULL && (probe = PyDict_New()) == NULL) {
        PyErr_Clear();
        return MG_TAGS_UNKNOWN;
    }
    if (PyDict_SetItem(probe, MG_STRING("asked"), asked & 1 ? Py_True : Py_False) < 0) { /* another one each time */
        PyErr_Clear();
        return MG_TAGS_UNKNOWN;
    }
    move(mg_dict_tag(probe));
    return mg_dict_tag(probe) - ++asked - claimed;
}

MgNewTags
mg_tags_start(void)
{
    return (MgNewTags){.asked = asked};
}

void
mg_tags_end(const MgNewTags *new)
{
    claimed += new->asked == asked ? new->count : 0; /* else a guard may have seen one of the dicts */
    move(new->last);
}

/* The mapping that a load has pushed, if it is a variable's. Borrowed; NULL if it is not known. */
static PyObject *
loaded(MgFrame *frame, int opcode, int oparg)
{
    PyObject *scope = NULL, *name = NULL;
    switch (opcode) {
        case LOAD_FAST:
            return frame->localsplus[oparg];
        case LOAD_DEREF:
            return PyCell_GET(frame->localsplus[oparg]);
        case LOAD_GLOBAL:
            scope = frame->f_globals;
            name = PyTuple_GET_ITEM(frame->f_code->co_names, oparg >> 1);
            break;
        case LOAD_NAME:
            scope = frame->f_locals;
            name = PyTuple_GET_ITEM(frame->f_code->co_names, oparg);
            break;
        default:
            break;
    }
    PyObject *found = scope != NULL && PyDict_CheckExact(scope) ? mg_dict_find(scope, name) : NULL;
    return found == &mg_dict_unknown ? NULL : found;
}

/* 1 if the instruction at which a frame is calls something with the dict that those right before it have made, of one
 * variable's dict and with no code in between. */
static int
merges(MgFrame *frame, const int *depths)
{
    MgUnit *units = mg_frame_code_start(frame);
    int call = mg_frame_lasti(frame), merge = call - 1, load = call - 2, depth = depths[call];
    if (load > 0 && depths[load] < 0) { /* what precedes is a cache */
        load -= INLINE_CACHE_ENTRIES_LOAD_GLOBAL;
    }
    int make = load - 1;
    if (make < 0 || depth < 3 || depths[merge] != depth + 1 || depths[load] != depth || depths[make] != depth - 1) {
        return 0;
    }
    int opcode = mg_opcode_base[_Py_OPCODE(units[load])];
    if (load + 1 + mg_opcode_caches[opcode] != merge || mg_opcode_base[_Py_OPCODE(units[merge])] != DICT_MERGE ||
        mg_opcode_base[_Py_OPCODE(units[make])] != BUILD_MAP || _Py_OPARG(units[make]) != 0) {
        return 0;
    }
    PyObject *mapping = loaded(frame, opcode, _Py_OPARG(units[load]));
    return mapping != NULL && PyDict_CheckExact(mapping); /* another one would have run code */
}

void
mg_tags_note_call(PyObject *callable, PyObject *kwnames)
{
    MgFrame *frame = PyThreadState_Get()->cframe->current_frame;
    if (frame == NULL || mg_frame_lasti(frame) < 3 ||
        mg_opcode_base[_Py_OPCODE(*frame->prev_instr)] != CALL_FUNCTION_EX || !(_Py_OPARG(*frame->prev_instr) & 1)) {
        return;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(kwnames, i))) { /* comparing it may have run code */
            return;
        }
    }
    const int *depths = mg_check_known_depths(frame->f_code);
    if (depths == NULL || !merges(frame, depths)) {
        return;
    }
    /* the callable is still on the stack; the dict, above its arguments, is not any more, but it lives */
    PyObject **top = frame->localsplus + frame->f_code->co_nlocalsplus + depths[mg_frame_lasti(frame)];
    if (top[-3] != callable || !PyDict_CheckExact(top[-1]) || PyDict_GET_SIZE(top[-1]) == 0) {
        return;
    }
    uint64_t tag = mg_dict_tag(top[-1]);
    if (tag - 1 >
        newest) { /* its own last two: when it was made or got its last but one key, and when it got the last */
        claimed += 2;
        move(tag);
    }
}
