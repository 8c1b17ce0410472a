/* What a call that is not captured is called in reasons, and whether users have switched capture off for it. */
#ifndef MG_CALLEE_H
#define MG_CALLEE_H

#include "capture/capture.h"

/* 1 if a function's dict of attributes has a true value under a name; if `value` is not NULL, any but None, borrowed. */
int mg_callee_says(PyObject *dict, PyObject *name, PyObject **value);

/* 1 for a function that users have disabled. */
int mg_callee_is_disabled(PyFunctionObject *function);

/* The name of a callable with its module, and what was said when it was disabled. New. */
PyObject *mg_callee_text(PyObject *callable);

/* Ends the capture at a call: the reason names the callable. MG_ERR. */
int mg_callee_abort(MgCapture *capture, MgReason reason, PyObject *callable);

#endif
