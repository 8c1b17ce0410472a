/* Control: what users say about functions (disabled, forbidden, constant, ...) and about breaks. */
#ifndef MG_CONTROL_H
#define MG_CONTROL_H

#include "capture/capture.h"

/* What is to become of a call in captured code. */
typedef enum {
    MG_MARK_NONE,      /* nothing was said */
    MG_MARK_DISABLED,  /* a break: its user does not want it captured */
    MG_MARK_SKIPPED,   /* a break: it belongs to a module whose functions are called whole */
    MG_MARK_TRANSFORM, /* a break: a transform of functions, or an operator that is given functions */
    MG_MARK_FORBIDDEN, /* an error: it makes no sense in captured code */
    MG_MARK_CONSTANT,  /* called during the capture; its result is taken for granted */
    MG_MARK_RECORDED,  /* one node of the graph */
    MG_MARK_REPLACED,  /* another function is called in its place */
    MG_MARK_SCRIPTED,  /* a script: the function that it was made of may be called in its place, see script.h */
} MgMark;

/* Takes what magneto/_control.py passes: "judge", "flags", "refresh", "look", "replaced", "ignored". */
int mg_control_configure(PyObject *tables);

/* At the start of a capture: finds what users have said through torch._dynamo since. MG_ERR if that is interrupted. */
int mg_control_begin(void);

/* How many entries there may be, by the settings as they are now; `own` is what the callable itself says, -1 for nothing;
 * `is_call` is 0 if the callable runs already. -1 if nothing is to be captured, -2 with an exception. Runs Python code: it is
 * asked where no entry fits. */
int mg_control_limit(int own, int is_call);

/* What was said about a callable. *other is the replacement, borrowed. -1 with an exception. */
int mg_control_mark(PyObject *callable, PyObject **other);

/* What the attributes of a Python function say, which goes before what the tables say. *other as above. */
MgMark mg_control_said(PyObject *function, PyObject **other);

/* Whether anything was said about callables that the rules know: that they are refused (torch._dynamo.disallow_in_graph) or
 * replaced (substitute_in_graph). If so, what was said about this one. */
extern int mg_control_overriding;
MgMark mg_control_override(PyObject *callable, PyObject **other);

/* 1 if calls of a function that would be a break are left out: a logging function that is ignored. -1 with an exception. */
int mg_control_ignores(PyObject *callable, PyObject *const *args, Py_ssize_t count);

/* For a disabled function: NULL if nothing that it calls is to be captured. Else the code of the function that it wraps, or
 * its own. Borrowed. */
PyObject *mg_control_spared(PyFunctionObject *function);

/* 1 if a break is an error here, because of error_on_graph_break; 0 is guarded. -1 with an exception. */
int mg_control_error_on_break(MgCapture *capture);

/* Says so outside captured code: makes torch's flag, or ours if torch has none, the object `value`. What it was, new; NULL
 * without an exception if that can't be done. */
PyObject *mg_control_set_error_on_break(PyObject *value);

#endif
