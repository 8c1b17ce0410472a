/* Numbers and strings that captured code merely passes on, and which are then not guarded.
 *
 * The counter of a loop that is broken by a print is on the stack of every capture that starts in the loop. If its value
 * were guarded, each turn would be captured anew. So a plain value that lies in the root frame when a capture starts is
 * seen as a copy of its own, which is known by its identity. Instructions that only move values about leave it alone;
 * the first one that looks at it makes its value count, and then it is guarded. What can't be told is looked at.
 *
 * Only instructions of the root frame can meet such a copy: it counts before it is passed to any function. */
#include "capture/deferred.h"

#include "capture/place.h"
#include "capture/tracer.h"
#include "capture/varying.h"
#include "cpython/opcodes.h"

struct MgDeferred {
    PyObject *copy;   /* strong */
    PyObject *value;  /* borrowed: what the arguments of the capture hold */
    MgSource *source; /* borrowed */
    PyObject *number; /* strong: what captured code sees of one that varies from call to call, or NULL */
    long used;        /* the first instruction that looked at it, 0 for none */
    int place;        /* of that instruction, as in MgGuard */
};

int
mg_deferred_fits(PyObject *value)
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
    return mg_long_copy(value);
}

static MgDeferred *
find(const MgCapture *capture, PyObject *value)
{
    for (int i = 0; i < capture->reads.deferred_count; i++) {
        if (capture->reads.deferred[i].copy == value) {
            return &capture->reads.deferred[i];
        }
    }
    return NULL;
}

PyObject *
mg_deferred_new(MgCapture *capture, PyObject *value, MgSource *source)
{
    MgDeferred *grown =
        PyMem_Realloc(capture->reads.deferred, sizeof(MgDeferred) * (size_t)(capture->reads.deferred_count + 1));
    if (grown == NULL) {
        return PyErr_NoMemory();
    }
    capture->reads.deferred = grown;
    PyObject *copy = copy_of(value);
    if (copy == NULL) {
        return NULL;
    }
    grown[capture->reads.deferred_count++] = (MgDeferred){Py_NewRef(copy), value, source, NULL, 0, -1};
    return copy;
}

PyObject *
mg_deferred_value(const MgCapture *capture, PyObject *value)
{
    MgDeferred *lazy = find(capture, value);
    return lazy == NULL ? NULL : lazy->value;
}

MgSource *
mg_deferred_source(const MgCapture *capture, PyObject *value)
{
    MgDeferred *lazy = find(capture, value);
    return lazy == NULL ? NULL : lazy->source;
}

static uint64_t
path_of(const MgSource *source, int level)
{
    int ends = source->base == NULL || level == MG_MOST_LEVELS; /* the same in path_of of guard.c */
    return mg_source_path(source, ends ? 0 : path_of(source->base, level + 1));
}

/* A value that varies from call to call is seen as a number. MG_OK or MG_ERR. */
static int
find_number(MgCapture *capture, MgDeferred *lazy)
{
    MgDim dim;
    int is_float = PyFloat_CheckExact(lazy->value);
    int varies = is_float ? mg_varying_float(capture, lazy->source, lazy->value)
                          : mg_varying_int(capture, lazy->source, 0, lazy->value, &dim);
    if (varies > 0) {
        lazy->source->raw = lazy->value;
        lazy->number = is_float ? mg_tracer.real(capture, lazy->value, lazy->source) : mg_tracer.number(capture, dim);
    }
    return varies < 0 || (varies > 0 && lazy->number == NULL) ? MG_ERR : MG_OK;
}

/* An instruction looks at what is in a slot. */
static int
use(MgCapture *capture, MgFrame *frame, const MgUnit *next, int opcode, PyObject **slot, long step)
{
    PyObject *value = *slot;
    MgDeferred *lazy = value == NULL || !mg_deferred_fits(value) ? NULL : find(capture, value);
    int has_identity =
        !mg_opcode_asks_identity(opcode) || PyLong_CheckExact(value); /* which numbers that are computed lack */
    if (lazy != NULL && lazy->used == 0 && has_identity && find_number(capture, lazy) < 0) {
        return MG_ERR;
    }
    if (lazy != NULL && lazy->number != NULL) {
        Py_SETREF(*slot, Py_NewRef(lazy->number)); /* the entry keeps the copy */
    }
    if (lazy == NULL || lazy->used > 0) {
        return MG_OK;
    }
    if (lazy->number == NULL && capture->changing.count > 0 &&
        mg_paths_have(&capture->changing, path_of(lazy->source, 0))) {
        PyObject *text = mg_source_text(lazy->source);
        int result = mg_capture_abort(capture, MG_REASON_CHANGING, text == NULL ? NULL : "%U", text);
        Py_XDECREF(text);
        return result;
    }
    lazy->used = step;
    lazy->place = mg_place_at(capture, frame, next);
    return MG_OK;
}

int
mg_deferred_use(MgCapture *capture, MgFrame *frame, const MgUnit *next, int opcode, int oparg, PyObject **sp, long step)
{
    PyObject **base = mg_frame_slots(frame) + mg_frame_code(frame)->co_nlocalsplus;
    if (mg_opcode_makes_cell(opcode)) {
        return use(capture, frame, next, opcode, &mg_frame_slots(frame)[oparg], step);
    }
    if (mg_opcode_returns_tuple(opcode, next)) {
        return MG_OK; /* nobody looks into it any more */
    }
    int count = mg_opcode_looks_at(opcode, oparg);
    if (count < 0 || count > sp - base) {
        count = (int)(sp - base);
    }
    for (int i = 1; i <= count; i++) {
        if (use(capture, frame, next, opcode, &sp[-i], step) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_deferred_guard(MgCapture *capture, long stopped)
{
    for (int i = 0; i < capture->reads.deferred_count; i++) {
        MgDeferred *lazy = &capture->reads.deferred[i];
        int count = capture->reads.guard_count;
        PyObject *expected = lazy->number != NULL ? (PyObject *)Py_TYPE(lazy->value) : lazy->value;
        if (lazy->used > 0 && lazy->used != stopped &&
            mg_capture_guard(capture, lazy->number != NULL ? MG_GUARD_TYPE : MG_GUARD_VALUE, lazy->source, expected) <
                0) {
            return MG_ERR;
        }
        if (capture->reads.guard_count > count) {
            capture->reads.guards[count].place = lazy->place;
        }
    }
    return MG_OK;
}

void
mg_deferred_free(MgCapture *capture)
{
    for (int i = 0; i < capture->reads.deferred_count; i++) {
        Py_DECREF(capture->reads.deferred[i].copy);
        Py_XDECREF(capture->reads.deferred[i].number);
    }
    PyMem_Free(capture->reads.deferred);
    capture->reads.deferred = NULL;
    capture->reads.deferred_count = 0;
}
