/* Operators that a program has added to torch's. */
#ifndef MG_OPERATOR_H
#define MG_OPERATOR_H

#include "capture/capture.h"

/* Before an operation is recorded: 1 if a program has added its operator, else 0. MG_ERR if the capture stops before it, for its
 * kernels may get at what captured code has read or written. */
int mg_operator_check(MgCapture *capture, PyObject *target);

/* MG_ERR if an operator that was recorded may have changed an object, or the global of a name: it runs when the graph does. */
int mg_operator_look(MgCapture *capture, PyObject *object);
int mg_operator_look_name(MgCapture *capture, PyObject *globals, PyObject *name);

#endif
