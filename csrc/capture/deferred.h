/* Numbers and strings that captured code merely passes on, and which are then not guarded. */
#ifndef MG_DEFERRED_H
#define MG_DEFERRED_H

#include "capture/capture.h"

#include <math.h>

/* 1 for a NaN, which is equal to nothing but itself. */
static inline int
mg_is_nan(PyObject *value)
{
    return PyFloat_CheckExact(value) && isnan(PyFloat_AS_DOUBLE(value));
}

/* What captured code sees of a plain value that the root frame holds, at `source`: a copy that is known by its identity. New. */
PyObject *mg_deferred_new(MgCapture *capture, PyObject *value, MgSource *source);

/* 1 if a value may be seen that way: numbers but no bools, strings that are not empty. */
int mg_deferred_fits(PyObject *value);

/* The source of such a copy, and what it is a copy of; or NULL. Borrowed. */
MgSource *mg_deferred_source(const MgCapture *capture, PyObject *value);
PyObject *mg_deferred_value(const MgCapture *capture, PyObject *value);

/* An instruction of the root is about to be executed: notes which of its operands count from now on. MG_ERR if one
 * changes from call to call, so that the capture stops here. */
int mg_deferred_use(MgCapture *capture, MgFrame *frame, const MgUnit *next, int opcode, int oparg, PyObject **sp,
                    long step);

/* Guards all that was used; what was used only by the instruction with number `stopped` was not. MG_OK or MG_ERR. */
int mg_deferred_guard(MgCapture *capture, long stopped);

void mg_deferred_free(MgCapture *capture);

#endif
