/* A capture under way: what was read, what was written, what was recorded.
 *
 * All that a capture owns hangs on its MgCapture, and nothing outside was touched: dropping it is the abort. */
#include "capture.h"

#include "aside.h"
#include "exit.h"
#include "hook.h"
#include "lazy.h"

#include <stdarg.h>
#include <structmember.h>

__thread MgCapture *mg_capture_current;
PyObject *mg_capture_deleted;

static PyObject *abort_exception; /* strong: the class of the exception that unwinds an aborted capture */
static uint64_t captures;

static const struct {
    const char *name, *text, *hint;
} reasons[MG_REASON_COUNT] = {
#define MG_REASON(NAME, text, hint) {#NAME, text, hint},
#include "breaks.def"
#undef MG_REASON
};

const char *
mg_reason_name(MgReason reason)
{
    return reasons[reason].name;
}

const char *
mg_reason_text(MgReason reason)
{
    return reasons[reason].text;
}

const char *
mg_reason_hint(MgReason reason)
{
    return reasons[reason].hint;
}

/* ---- references to nodes ---- */

static PyObject *
ref_repr(MgRef *self)
{
    return PyUnicode_FromFormat("%%%d", self->index);
}

static PyMemberDef ref_members[] = {
    {"index", T_INT, offsetof(MgRef, index), READONLY, "The number of the node."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgRef_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Ref",
    .tp_basicsize = sizeof(MgRef),
    .tp_dealloc = (destructor)PyObject_Free,
    .tp_repr = (reprfunc)ref_repr,
    .tp_members = ref_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_capture_types_ready(void)
{
    if (PyType_Ready(&MgRef_Type) < 0) {
        return MG_ERR;
    }
    if (abort_exception == NULL) {
        abort_exception = PyErr_NewExceptionWithDoc("magneto._core.CaptureAborted",
                                                    "Unwinds an aborted capture; never seen by user code.",
                                                    PyExc_BaseException, NULL);
    }
    if (mg_capture_deleted == NULL) {
        mg_capture_deleted = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    }
    return abort_exception == NULL || mg_capture_deleted == NULL ? MG_ERR : MG_OK;
}

/* ---- life ---- */

MgCapture *
mg_capture_new(void)
{
    MgCapture *capture = PyMem_Calloc(1, sizeof(MgCapture));
    if (capture == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    capture->number = ++captures;
    capture->keep = PyList_New(0);
    if (capture->keep == NULL) {
        PyMem_Free(capture);
        return NULL;
    }
    return capture;
}

void
mg_node_clear(MgNode *node)
{
    Py_CLEAR(node->target);
    Py_CLEAR(node->args);
    Py_CLEAR(node->kwargs);
    Py_CLEAR(node->value);
    Py_CLEAR(node->stack);
    Py_CLEAR(node->real);
    Py_CLEAR(node->name);
    Py_CLEAR(node->bindings);
}

int
mg_capture_add_mortal(MgCapture *capture, PyObject *object)
{
    if (!PyObject_IS_GC(object)) {
        return MG_OK; /* in no cycle: it goes when the capture does, at the latest */
    }
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return mg_capture_abort(capture, MG_REASON_REBUILD, "an object with a finalizer");
    }
    if (capture->mortals == NULL) {
        capture->mortals = PyList_New(0);
    }
    PyObject *reference = capture->mortals == NULL ? NULL : PyWeakref_NewRef(object, NULL);
    int result = reference == NULL ? MG_ERR : PyList_Append(capture->mortals, reference);
    Py_XDECREF(reference);
    return result;
}

/* What captured code made and what is still there, in cycles, is never finalized: in eager it does not exist. */
static void
spare_mortals(MgCapture *capture)
{
    for (Py_ssize_t i = 0; capture->mortals != NULL && i < PyList_GET_SIZE(capture->mortals); i++) {
        PyObject *object = PyWeakref_GET_OBJECT(PyList_GET_ITEM(capture->mortals, i));
        if (object != Py_None) {
            mg_object_set_finalized(object);
        }
    }
    Py_CLEAR(capture->mortals);
}

void
mg_capture_free(MgCapture *capture)
{
    if (capture == NULL) {
        return;
    }
    /* finalizers of what captured code made must not run for real: in eager they run once, and not now */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    MgCapture *outer = mg_capture_current;
    mg_collections_hold(); /* those of strangers must run, but not here */
    mg_hook_acquire();
    mg_capture_current = capture;
    capture->ending = 1;
    capture->suspended = 0;
    if (capture->reason == MG_REASON_NONE) {
        capture->reason = MG_REASON_EXCEPTION;
    }
    spare_mortals(capture);
    for (int i = 0; i < capture->node_count; i++) {
        mg_node_clear(&capture->nodes[i]);
    }
    for (int i = 0; i < capture->guard_count; i++) {
        Py_XDECREF(capture->guards[i].expected);
    }
    for (int i = 0; i < capture->record_count; i++) {
        MgRecord *record = capture->record_list[i];
        Py_CLEAR(record->view);
        Py_CLEAR(record->held);
        Py_CLEAR(record->slots);
    }
    for (int i = 0; i < capture->watch_count; i++) {
        Py_DECREF(capture->watches[i].item);
    }
    PyMem_Free(capture->watches);
    PyMem_Free(capture->quiets);
    mg_table_free(&capture->drops);
    mg_table_free(&capture->storied);
    mg_exit_clear(capture);
    mg_lazy_free(capture);
    Py_XDECREF(capture->result);
    Py_XDECREF(capture->keep);
    Py_XDECREF(capture->ids);
    Py_XDECREF(capture->touched);
    Py_XDECREF(capture->detail);
    Py_XDECREF(capture->state);
    Py_XDECREF(capture->entry_state);
    Py_XDECREF(capture->stack);
    Py_XDECREF(capture->queries);
    Py_XDECREF(capture->registered);
    Py_XDECREF(capture->settings);
    Py_XDECREF(capture->managers);
    Py_XDECREF(capture->where);
    Py_XDECREF(capture->interrupt);
    Py_XDECREF(capture->symbols);
    mg_sources_free(&capture->sources);
    mg_capture_current = outer;
    /* only now: twins that go note that in their nodes, and those of sources go last */
    PyMem_Free(capture->snapshots);
    PyMem_Free(capture->nodes);
    PyMem_Free(capture->guards);
    mg_table_free(&capture->records);
    mg_table_free(&capture->views);
    mg_table_free(&capture->guarded);
    mg_table_free(&capture->inside);
    mg_hook_release();
    mg_collections_release();
    /* objects from outside that captured code let go of: their finalizers run */
    for (int i = 0; i < capture->record_count; i++) {
        Py_XDECREF(capture->record_list[i]->object);
        PyMem_Free(capture->record_list[i]);
    }
    for (int i = 0; i < capture->argument_count; i++) {
        Py_XDECREF(capture->arguments[i]);
    }
    PyMem_Free(capture->record_list);
    PyMem_Free(capture->arguments);
    PyErr_Restore(type, value, traceback);
    PyMem_Free(capture);
}

/* ---- abort ---- */

void
mg_error_clear(void)
{
    MgCapture *capture = mg_capture_current;
    if (capture == NULL || capture->reason != MG_REASON_NONE || !PyErr_Occurred() ||
        PyErr_ExceptionMatches(abort_exception)) { /* the last one is that of another capture, on trial */
        PyErr_Clear();
        return;
    }
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
        capture->starved = 1;
    }
    else if (!PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_GeneratorExit) &&
             capture->interrupt == NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        Py_XSETREF(capture->interrupt, Py_XNewRef(value));
        capture->starved = 1;
        PyErr_Restore(type, value, traceback);
    }
    PyErr_Clear();
}

int
mg_capture_abort(MgCapture *capture, MgReason reason, const char *detail, ...)
{
    if (capture->reason == MG_REASON_NONE) {
        int starved = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError);
        PyErr_Clear();
        capture->reason = starved ? MG_REASON_MEMORY : reason;
        if (capture->reason == MG_REASON_MEMORY) { /* what was seen since may be wrong: nothing comes of it */
            capture->can_break = 0;
        }
        if (detail != NULL) {
            va_list list;
            va_start(list, detail);
            Py_XSETREF(capture->detail, PyUnicode_FromFormatV(detail, list));
            va_end(list);
            if (capture->detail == NULL) {
                PyErr_Clear();
            }
        }
        else {
            Py_CLEAR(capture->detail);
        }
        Py_XSETREF(capture->where, mg_capture_stack(capture));
        if (capture->where == NULL) {
            PyErr_Clear();
        }
    }
    PyErr_SetNone(abort_exception);
    return MG_ERR;
}

void
mg_capture_find_log(MgCapture *capture)
{
    static PyObject *module; /* strong: warnings */
    if (module == NULL && (module = mg_aside_import("warnings")) == NULL) {
        PyErr_Clear();
        return;
    }
    PyObject *show = PyDict_GetItemString(PyModule_GetDict(module), "_showwarnmsg_impl");
    PyObject *self = show != NULL && PyCFunction_Check(show) ? PyCFunction_GET_SELF(show) : NULL;
    capture->log = self != NULL && PyList_Check(self) ? self : NULL;
}

int
mg_capture_look(MgCapture *capture, PyObject *object)
{
    if (MG_LIKELY(capture->log == NULL || object != capture->log)) {
        return MG_OK;
    }
    capture->reads_log = 1;
    for (int i = 0; i < capture->node_count; i++) {
        if (capture->nodes[i].kind != MG_NODE_INPUT) {
            return mg_capture_abort(capture, MG_REASON_OPAQUE, "the list that warnings are added to");
        }
    }
    return MG_OK;
}

int
mg_capture_operate(MgCapture *capture)
{
    return capture->reads_log
               ? mg_capture_abort(capture, MG_REASON_RESULT, "a warning that goes to a list which was read")
               : MG_OK;
}

int
mg_capture_handles(MgCapture *capture)
{
    PyObject *topmost = PyErr_GetHandledException();
    Py_XDECREF(topmost);
    if (topmost == NULL) {
        capture->calm = 1;
    }
    return topmost == NULL || topmost != capture->handled
               ? MG_OK
               : mg_capture_abort(capture, MG_REASON_OPAQUE, "the exception that the caller handles");
}

int
mg_capture_check(MgCapture *capture)
{
    if (MG_LIKELY(capture->reason == MG_REASON_NONE)) {
        return MG_OK;
    }
    PyErr_SetNone(abort_exception);
    return MG_ERR;
}

/* The outside module that a frame of nn.Module._call_impl calls. Borrowed; NULL for any other frame. */
static MgRecord *
called_module(MgCapture *capture, MgFrame *frame)
{
    PyCodeObject *code = frame->f_code;
    if (code->co_argcount != 1 || frame->localsplus[0] == NULL ||
        PyUnicode_CompareWithASCIIString(code->co_name, "_call_impl") != 0) {
        return NULL;
    }
    PyObject *self = frame->localsplus[0];
    if (PyCell_Check(self)) {
        self = PyCell_GET(self);
    }
    MgRecord *record = mg_table_get(&capture->records, self, NULL);
    return record != NULL && record->source != NULL ? record : NULL;
}

/* The place of a frame in a stack: its code, an offset, and for a frame that calls a module the number of its source and
 * its class. New; `old`, the place at the same depth of the last stack, if that is the same. */
static PyObject *
place_of(MgCapture *capture, MgFrame *frame, PyObject *old)
{
    int offset = mg_frame_lasti(frame) * (int)sizeof(MgUnit);
    MgRecord *module = called_module(capture, frame);
    if (old != NULL && PyTuple_GET_ITEM(old, 0) == (PyObject *)frame->f_code &&
        PyLong_AsLong(PyTuple_GET_ITEM(old, 1)) == offset && PyTuple_GET_SIZE(old) == (module == NULL ? 2 : 4) &&
        (module == NULL || PyLong_AsLong(PyTuple_GET_ITEM(old, 2)) == module->source->id)) {
        return Py_NewRef(old);
    }
    return module == NULL ? Py_BuildValue("(Oi)", frame->f_code, offset)
                          : Py_BuildValue("(OiiO)", frame->f_code, offset, module->source->id, Py_TYPE(module->object));
}

PyObject *
mg_capture_stack(MgCapture *capture)
{
    PyThreadState *tstate = PyThreadState_Get();
    Py_ssize_t count = 0;
    for (MgFrame *frame = tstate->cframe->current_frame; frame != NULL; frame = frame->previous) {
        count++;
        if (frame == capture->root) {
            break;
        }
    }
    PyObject *stack = PyTuple_New(count);
    MgFrame *frame = tstate->cframe->current_frame;
    Py_ssize_t known = capture->stack == NULL ? 0 : PyTuple_GET_SIZE(capture->stack);
    for (Py_ssize_t i = count; stack != NULL && i-- > 0; frame = frame->previous) {
        PyObject *place = place_of(capture, frame, i < known ? PyTuple_GET_ITEM(capture->stack, i) : NULL);
        if (place == NULL) {
            Py_CLEAR(stack);
            break;
        }
        PyTuple_SET_ITEM(stack, i, place);
    }
    if (stack != NULL) {
        Py_XSETREF(capture->stack, Py_NewRef(stack));
    }
    return stack;
}

/* ---- guards ---- */

static int
add_guard(MgCapture *capture, MgGuard guard)
{
    if (capture->guard_count == capture->guard_room) {
        int room = capture->guard_room == 0 ? 256 : capture->guard_room * 2;
        MgGuard *guards = PyMem_Realloc(capture->guards, sizeof(MgGuard) * (size_t)room);
        if (guards == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        capture->guards = guards;
        capture->guard_room = room;
    }
    Py_XINCREF(guard.expected);
    capture->guards[capture->guard_count++] = guard;
    return MG_OK;
}

/* 1 if a guard of this kind on the source is new (and is now known), 0 if there is one, -1 on error. */
static int
is_new(MgCapture *capture, MgGuardKind kind, MgSource *source)
{
    void *tag = (void *)(uintptr_t)(kind + 1);
    if (mg_table_get(&capture->guarded, source, tag) != NULL) {
        return 0;
    }
    return mg_table_set(&capture->guarded, source, tag, source) < 0 ? -1 : 1;
}

int
mg_capture_guard(MgCapture *capture, MgGuardKind kind, MgSource *source, PyObject *expected)
{
    int fresh = is_new(capture, kind, source);
    if (fresh <= 0) {
        return fresh;
    }
    return add_guard(capture, (MgGuard){.kind = kind, .source = source, .expected = expected});
}

int
mg_capture_guard_length(MgCapture *capture, MgSource *source, Py_ssize_t length)
{
    int fresh = is_new(capture, MG_GUARD_LENGTH, source);
    if (fresh <= 0) {
        return fresh;
    }
    return add_guard(capture, (MgGuard){.kind = MG_GUARD_LENGTH, .source = source, .index = length});
}

int
mg_capture_guard_many(MgCapture *capture, MgGuardKind kind, MgSource *source, PyObject *expected, Py_ssize_t index)
{
    return add_guard(capture, (MgGuard){.kind = kind, .source = source, .expected = expected, .index = index});
}

int
mg_capture_guard_lacks(MgCapture *capture, MgSource *source, PyObject *name)
{
    void *tag = (void *)(uintptr_t)(MG_GUARD_LACKS + 1);
    PyObject *names = mg_table_get(&capture->guarded, source, tag); /* the guard has it */
    if (names != NULL) {
        int known = PySequence_Contains(names, name);
        return known != 0 ? (known < 0 ? MG_ERR : MG_OK) : PyList_Append(names, name);
    }
    names = Py_BuildValue("[O]", name);
    int result =
        names == NULL || add_guard(capture, (MgGuard){.kind = MG_GUARD_LACKS, .source = source, .expected = names}) < 0
            ? MG_ERR
            : mg_table_set(&capture->guarded, source, tag, names);
    Py_XDECREF(names);
    return result;
}

int
mg_capture_guard_limit(MgCapture *capture, MgSource *source, Py_ssize_t limit)
{
    int fresh = is_new(capture, MG_GUARD_LIMIT, source);
    if (fresh <= 0) {
        return fresh;
    }
    return add_guard(capture, (MgGuard){.kind = MG_GUARD_LIMIT, .source = source, .index = limit});
}

int
mg_capture_guard_apart(MgCapture *capture, MgSource *const *sources, int count, int total)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(int) * total);
    if (bytes == NULL) {
        return MG_ERR;
    }
    int *ids = (int *)(void *)PyBytes_AS_STRING(bytes);
    MgSource *last = sources[0];
    for (int i = 0; i < total; i++) {
        ids[i] = sources[i]->id;
        last = sources[i]->id > last->id ? sources[i] : last;
    }
    int result =
        add_guard(capture, (MgGuard){.kind = MG_GUARD_APART, .source = last, .expected = bytes, .index = count});
    Py_DECREF(bytes);
    return result;
}

int
mg_capture_guard_pair(MgCapture *capture, MgGuardKind kind, MgSource *source, MgSource *other)
{
    return add_guard(capture, (MgGuard){.kind = kind, .source = source, .other = other});
}
