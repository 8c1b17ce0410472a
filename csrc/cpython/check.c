/* Whole-state checks before each instruction, in builds with MG_CHECKS.
 *
 * The stack depth before each instruction follows from the bytecode alone: it is worked out once for each code object,
 * by following all paths and all handlers from the start, and kept with the code object. A frame whose stack has
 * another depth, or holds a dead object, or that is not linked as it should be, stops the process with a message that
 * names the code and the offset: nothing after that could be trusted. */
#include "cpython/check.h"

#include "cpython/except.h"
#include "cpython/opcodes.h"

enum { UNREACHABLE = -1 };

/* What an instruction does to the depth of the stack, when it goes on or when it jumps. */
static int
stack_effect(int opcode, int oparg, int jump)
{
    switch (opcode) {
        case PRECALL: /* the compiler books the arguments here, the stack loses them at CALL */
            return 0;
        case CALL:
            return -oparg - 1;
        case RETURN_GENERATOR: /* the generator starts with what the first send() gives it */
            return 1;
        default:
            return PyCompile_OpcodeStackEffectWithJump(opcode, opcode >= HAVE_ARGUMENT ? oparg : 0, jump);
    }
}

/* A path still to be followed: an offset, and the depth with which it is reached. */
typedef struct {
    int offset;
    int depth;
} Path;

/* Follows one path until it ends or meets what is known, and pushes the other way of each jump. */
static void
follow(PyCodeObject *code, Path path, int *depths, Path *todo, int *todo_count)
{
    MgUnit *units = _PyCode_CODE(code);
    int size = (int)Py_SIZE(code), oparg = 0, chained = 0;
    int offset = path.offset, depth = path.depth;
    while (offset >= 0 && offset < size && (depths[offset] == UNREACHABLE || chained)) {
        int opcode = mg_opcode_base[_Py_OPCODE(units[offset])];
        oparg = (chained ? oparg << 8 : 0) | _Py_OPARG(units[offset]);
        depths[offset] = depth;
        chained = opcode == EXTENDED_ARG;
        if (chained) {
            offset++;
            continue;
        }
        int behind = offset + 1 + mg_opcode_caches[opcode];
        int distance, is_jump = mg_opcode_jumps(opcode, oparg, &distance);
        if (is_jump) {
            todo[(*todo_count)++] = (Path){offset + 1 + distance, depth + stack_effect(opcode, oparg, 1)};
        }
        if (!mg_opcode_goes_on(opcode)) {
            return;
        }
        depth += stack_effect(opcode, oparg, is_jump ? 0 : -1);
        offset = behind;
    }
}

/* The depths of a code object as a new array; NULL without an exception if there is no memory for it. */
static int *
find_depths(PyCodeObject *code)
{
    int size = (int)Py_SIZE(code);
    int *depths = PyMem_RawMalloc(sizeof(int) * (size_t)size);
    Path *todo = PyMem_RawMalloc(sizeof(Path) * ((size_t)size * 3 + 16));
    if (depths == NULL || todo == NULL) {
        PyMem_RawFree(depths);
        PyMem_RawFree(todo);
        return NULL;
    }
    for (int i = 0; i < size; i++) {
        depths[i] = UNREACHABLE;
    }
    int count = 0;
    todo[count++] = (Path){0, 0};
    Py_ssize_t cursor = 0;
    int start, end;
    MgHandler handler;
    while (mg_except_next(code, &cursor, &start, &end, &handler)) {
        todo[count++] = (Path){handler.target, handler.depth + handler.push_lasti + 1};
        if (count > size * 2) {
            break;
        }
    }
    while (count > 0) {
        Path path = todo[--count];
        follow(code, path, depths, todo, &count);
    }
    PyMem_RawFree(todo);
    return depths;
}

PyObject *
mg_check_depths(PyCodeObject *code)
{
    int *depths = find_depths(code);
    if (depths == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *list = PyList_New(Py_SIZE(code));
    for (Py_ssize_t i = 0; list != NULL && i < Py_SIZE(code); i++) {
        PyObject *depth = PyLong_FromLong(depths[i]);
        if (depth == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, depth);
    }
    PyMem_RawFree(depths);
    return list;
}

#if MG_CHECKS

/* The depths of a code object, found once and kept with it. */
static int *
known_depths(PyCodeObject *code)
{
    static Py_ssize_t slot = -1;
    void *depths = NULL;
    if (slot < 0) {
        slot = _PyEval_RequestCodeExtraIndex(PyMem_RawFree);
        if (slot < 0) {
            Py_FatalError("magneto: no slot for checks");
        }
    }
    if (_PyCode_GetExtra((PyObject *)code, slot, &depths) == 0 && depths != NULL) {
        return depths;
    }
    depths = find_depths(code);
    if (depths == NULL) {
        Py_FatalError("magneto: no memory for checks");
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    MG_STARVE_PAUSE();
    if (mg_code_set_extra(code, slot, depths) < 0) {
        Py_FatalError("magneto: no memory for checks");
    }
    MG_STARVE_RESUME();
    PyErr_Restore(type, value, traceback);
    return depths;
}

static void
fail(MgFrame *frame, const MgUnit *next, const char *what, long found, long expected)
{
    const char *name = PyUnicode_AsUTF8(frame->f_code->co_qualname);
    fprintf(stderr, "magneto: check failed in %s at offset %ld (opcode %d): %s (found %ld, expected %ld)\n",
            name != NULL ? name : "?", (long)(next - mg_frame_code_start(frame)), mg_opcode_base[_Py_OPCODE(*next)],
            what, found, expected);
    Py_FatalError("magneto: inconsistent interpreter state");
}

/* 1 if the object can be alive. */
static int
looks_alive(PyObject *object)
{
    return Py_REFCNT(object) > 0 && Py_REFCNT(object) < ((Py_ssize_t)1 << 40) && Py_TYPE(object) != NULL;
}

void
mg_check_state(PyThreadState *tstate, MgFrame *frame, const MgCFrame *link, const MgUnit *next, PyObject **top)
{
    PyCodeObject *code = frame->f_code;
    long offset = (long)(next - mg_frame_code_start(frame));
    if (tstate->cframe != link || link->current_frame != frame) {
        fail(frame, next, "the frame is not the current one", 0, 1);
    }
    /* a capture that starts in the middle of a frame executes it under two links */
    if (link->previous == NULL ||
        (frame->previous != link->previous->current_frame && frame != link->previous->current_frame)) {
        fail(frame, next, "the frame is not linked to its caller", 0, 1);
    }
    if (frame->stacktop != -1) {
        fail(frame, next, "an executing frame shows its stack", frame->stacktop, -1);
    }
    if (offset < 0 || offset >= Py_SIZE(code)) {
        fail(frame, next, "the offset is outside the code", offset, Py_SIZE(code));
    }
    if (PyErr_Occurred() != NULL) {
        fail(frame, next, "an exception is set between instructions", 1, 0);
    }
    long depth = (long)(top - (frame->localsplus + code->co_nlocalsplus));
    long expected = known_depths(code)[offset];
    if (depth != expected) {
        fail(frame, next, "stack depth", depth, expected);
    }
    if (depth > code->co_stacksize) {
        fail(frame, next, "stack overflow", depth, code->co_stacksize);
    }
    for (PyObject **slot = frame->localsplus; slot < top; slot++) {
        if (*slot != NULL && !looks_alive(*slot)) {
            fail(frame, next, "a dead object in slot", (long)(slot - frame->localsplus), 0);
        }
    }
}

#endif
