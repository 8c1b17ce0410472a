/* Numbers and strings that captured code merely passes on, and which are then not guarded.
 *
 * The counter of a loop that is broken by a print is on the stack of every capture that starts in the loop. If its value
 * were guarded, each turn would be captured anew. So a plain value that lies in the root frame when a capture starts is
 * seen as a copy of its own, which is known by its identity. Instructions that only move values about leave it alone;
 * the first one that looks at it makes its value count, and then it is guarded. What can't be told is looked at.
 *
 * Only instructions of the root frame can meet such a copy: it counts before it is passed to any function. */
#include "lazy.h"

struct MgLazy {
    PyObject *copy;   /* strong */
    PyObject *value;  /* borrowed: what the arguments of the capture hold */
    MgSource *source; /* borrowed */
    long used;        /* the first instruction that looked at it, 0 for none */
};

int
mg_lazy_fits(PyObject *value)
{
    /* there is only one empty string, and containers find a NaN by its identity */
    return PyLong_CheckExact(value) || (PyFloat_CheckExact(value) && !mg_is_nan(value)) ||
           (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) > 0);
}

/* An object of the same value and another identity. New. */
static PyObject *
copy_of(PyObject *value)
{
    if (PyFloat_CheckExact(value)) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
    }
    if (PyUnicode_CheckExact(value)) {
        return _PyUnicode_Copy(value);
    }
    Py_ssize_t size = Py_ABS(Py_SIZE(value));
    PyLongObject *copy = _PyLong_New(size); /* never one of the shared small ones */
    if (copy != NULL) {
        memcpy(copy->ob_digit, ((PyLongObject *)value)->ob_digit, sizeof(digit) * (size_t)(size == 0 ? 1 : size));
        Py_SET_SIZE(copy, Py_SIZE(value));
    }
    return (PyObject *)copy;
}

static MgLazy *
find(const MgCapture *capture, PyObject *value)
{
    for (int i = 0; i < capture->lazy_count; i++) {
        if (capture->lazy[i].copy == value) {
            return &capture->lazy[i];
        }
    }
    return NULL;
}

PyObject *
mg_lazy_new(MgCapture *capture, PyObject *value, MgSource *source)
{
    MgLazy *grown = PyMem_Realloc(capture->lazy, sizeof(MgLazy) * (size_t)(capture->lazy_count + 1));
    if (grown == NULL) {
        return PyErr_NoMemory();
    }
    capture->lazy = grown;
    PyObject *copy = copy_of(value);
    if (copy == NULL) {
        return NULL;
    }
    grown[capture->lazy_count++] = (MgLazy){Py_NewRef(copy), value, source, 0};
    return copy;
}

PyObject *
mg_lazy_value(const MgCapture *capture, PyObject *value)
{
    MgLazy *lazy = find(capture, value);
    return lazy == NULL ? NULL : lazy->value;
}

MgSource *
mg_lazy_source(const MgCapture *capture, PyObject *value)
{
    MgLazy *lazy = find(capture, value);
    return lazy == NULL ? NULL : lazy->source;
}

static uint64_t
path_of(const MgSource *source, int level)
{
    int ends = source->base == NULL || level == MG_MOST_LEVELS; /* the same in path_of of callable.c */
    return mg_source_path(source, ends ? 0 : path_of(source->base, level + 1));
}

static int
use(MgCapture *capture, PyObject *value, long step)
{
    MgLazy *lazy = value == NULL || !mg_lazy_fits(value) ? NULL : find(capture, value);
    if (lazy == NULL || lazy->used > 0) {
        return MG_OK;
    }
    if (capture->changing.count > 0 && mg_paths_have(&capture->changing, path_of(lazy->source, 0))) {
        PyObject *text = mg_source_text(lazy->source);
        int result = mg_capture_abort(capture, MG_REASON_CHANGING, text == NULL ? NULL : "%U", text);
        Py_XDECREF(text);
        return result;
    }
    lazy->used = step;
    return MG_OK;
}

/* How many values on the stack an instruction looks at; -1 if that is not known. */
static int
operands(int opcode, int oparg)
{
    switch (opcode) {
        case NOP:
        case RESUME:
        case EXTENDED_ARG:
        case POP_TOP:
        case PUSH_NULL:
        case COPY:
        case SWAP:
        case LOAD_CONST:
        case LOAD_FAST:
        case LOAD_CLOSURE:
        case LOAD_DEREF:
        case LOAD_GLOBAL:
        case LOAD_NAME:
        case STORE_FAST:
        case DELETE_FAST:
        case COPY_FREE_VARS:
        case KW_NAMES:
        case PRECALL:
        case JUMP_FORWARD:
        case JUMP_BACKWARD:
        case JUMP_BACKWARD_NO_INTERRUPT:
        case RETURN_VALUE:
        case FOR_ITER: /* an iterator */
        case LOAD_ASSERTION_ERROR:
        case IMPORT_FROM: /* a module */
            return 0;
        case UNARY_POSITIVE:
        case UNARY_NEGATIVE:
        case UNARY_NOT:
        case UNARY_INVERT:
        case LOAD_ATTR:
        case LOAD_METHOD:
        case STORE_DEREF:
        case STORE_GLOBAL:
        case STORE_NAME:
        case GET_ITER:
        case UNPACK_SEQUENCE:
        case UNPACK_EX:
        case BEFORE_WITH:
        case LIST_APPEND:
        case SET_ADD:
        case LIST_EXTEND:
        case SET_UPDATE:
        case DICT_UPDATE:
        case DICT_MERGE:
        case POP_JUMP_FORWARD_IF_FALSE:
        case POP_JUMP_FORWARD_IF_TRUE:
        case POP_JUMP_FORWARD_IF_NONE:
        case POP_JUMP_FORWARD_IF_NOT_NONE:
        case POP_JUMP_BACKWARD_IF_FALSE:
        case POP_JUMP_BACKWARD_IF_TRUE:
        case POP_JUMP_BACKWARD_IF_NONE:
        case POP_JUMP_BACKWARD_IF_NOT_NONE:
        case JUMP_IF_FALSE_OR_POP:
        case JUMP_IF_TRUE_OR_POP:
            return 1;
        case FORMAT_VALUE:
            return (oparg & FVS_MASK) == FVS_HAVE_SPEC ? 2 : 1;
        case BINARY_OP:
        case BINARY_SUBSCR:
        case COMPARE_OP:
        case CONTAINS_OP:
        case IS_OP:
        case STORE_ATTR:
        case DELETE_SUBSCR:
        case MAP_ADD:
            return 2;
        case STORE_SUBSCR:
            return 3;
        case BUILD_TUPLE:
        case BUILD_LIST:
        case BUILD_SET:
        case BUILD_STRING:
        case BUILD_SLICE:
            return oparg;
        case BUILD_CONST_KEY_MAP:
            return oparg + 1;
        case BUILD_MAP:
            return 2 * oparg;
        case CALL:
            return oparg + 2;
        default:
            return -1;
    }
}

int
mg_lazy_use(MgCapture *capture, MgFrame *frame, const MgUnit *next, int opcode, int oparg, PyObject **sp, long step)
{
    PyObject **base = frame->localsplus + frame->f_code->co_nlocalsplus;
    if (opcode == MAKE_CELL) {
        return use(capture, frame->localsplus[oparg], step);
    }
    if (opcode == BUILD_TUPLE && mg_opcode_base[_Py_OPCODE(next[1])] == RETURN_VALUE) {
        return MG_OK; /* nobody looks into it any more */
    }
    int count = operands(opcode, oparg);
    if (count < 0 || count > sp - base) {
        count = (int)(sp - base);
    }
    for (int i = 1; i <= count; i++) {
        if (use(capture, sp[-i], step) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_lazy_guard(MgCapture *capture, long stopped)
{
    for (int i = 0; i < capture->lazy_count; i++) {
        MgLazy *lazy = &capture->lazy[i];
        if (lazy->used > 0 && lazy->used != stopped &&
            mg_capture_guard(capture, MG_GUARD_VALUE, lazy->source, lazy->value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

void
mg_lazy_free(MgCapture *capture)
{
    for (int i = 0; i < capture->lazy_count; i++) {
        Py_DECREF(capture->lazy[i].copy);
    }
    PyMem_Free(capture->lazy);
    capture->lazy = NULL;
    capture->lazy_count = 0;
}
