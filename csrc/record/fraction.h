/* Floats that are an int divided by a constant: rounded and compared without taking their values. */
#ifndef MG_FRACTION_H
#define MG_FRACTION_H

#include "capture/capture.h"

typedef struct {
    MgDim above;
    int64_t below; /* positive */
} MgFraction;

/* Reads a number: 1 if it is such a float, 0 or MG_ERR. It adds a guard that nothing is lost by rounding. */
int mg_fraction_read(MgCapture *capture, PyObject *number, MgFraction *fraction);

/* Two ints that compare as such a float does with an int or a float: 1, 0 if there are none, or MG_ERR. */
int mg_fraction_compare(MgCapture *capture, PyObject *number, PyObject *other, MgDim *left, MgDim *right);

/* math.floor(), ceil(), trunc(), int() or round() of a number: 1 with the result, 0 if it is something else. */
int mg_fraction_called(MgCapture *capture, PyObject *callable, PyObject *number, PyObject **result);

#endif
