/* Floats that vary: compared and rounded without taking their values. */
#ifndef MG_REAL_H
#define MG_REAL_H

#include "capture/capture.h"

/* A comparison of numbers whose values in this call are known: 1 with the answer, which is guarded; 0 if that is too hard. */
int mg_real_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result);

/* A guard that a float which was computed is one that is finite, and that nothing raises on the way. 1, 0 if that is too hard,
 * or MG_ERR. */
int mg_real_guard(MgCapture *capture, PyObject *number);

/* int(), round(), math.floor(), ceil() or trunc() of such a float: 1 with the result, 0 if it is something else. */
int mg_real_called(MgCapture *capture, PyObject *callable, PyObject *number, PyObject **result);

#endif
