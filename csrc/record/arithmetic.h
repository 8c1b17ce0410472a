/* Operators on tensors and on numbers that depend on data. */
#ifndef MG_ARITHMETIC_H
#define MG_ARITHMETIC_H

#include "capture/capture.h"

/* operator.<name>; borrowed, for good. And a call of it. */
PyObject *mg_arithmetic_function(const char *name);
PyObject *mg_arithmetic_record(MgCapture *capture, const char *name, PyObject *const *args, Py_ssize_t count);

/* The operators of instructions, on twins and numbers. */
typedef enum { MG_NEGATIVE, MG_POSITIVE, MG_INVERT } MgUnary;
PyObject *mg_arithmetic_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right);
PyObject *mg_arithmetic_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right);
PyObject *mg_arithmetic_unary(MgCapture *capture, MgUnary operator, PyObject *value);
PyObject *mg_arithmetic_absolute(MgCapture *capture, PyObject *value);

/* torch._check of a number that is a condition; `message` is a function, or NULL. */
PyObject *mg_arithmetic_check(MgCapture *capture, PyObject *target, PyObject *condition, PyObject *message);

#endif
