/* Answers that somebody outside keeps: torch's settings, and functions that remember their results. */
#ifndef MG_POLICY_QUERY_H
#define MG_POLICY_QUERY_H

#include "capture/capture.h"

/* Asks a C function of torch that only tells a setting, and guards that it returns the same answer again. New. */
PyObject *mg_query_setting(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                           PyObject *kwnames);

/* Calls a function that changes settings of torch's, which queries tell: really done, and recorded. `parts` is what
 * _rules.py says of it. New. */
PyObject *mg_query_change(MgCapture *capture, PyObject *function, PyObject *parts, PyObject *const *args,
                          Py_ssize_t count, PyObject *kwnames);

/* type.__subclasses__(class): guarded to give the same classes. New. */
PyObject *mg_query_subclasses(MgCapture *capture, PyObject *callable, PyObject *class);

/* Calls a function whose result follows from its arguments, or is taken for granted: for real. The arguments are guarded
 * as a whole, functions and objects by identity. New. */
PyObject *mg_query_constant(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                            PyObject *kwnames);

/* Calls a function that functools.lru_cache has wrapped: for real, as its cache is no part of the program. New. */
PyObject *mg_query_cached(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                          PyObject *kwnames);

/* Looks for the function that functools.singledispatch calls for a class; `function` is its inner `dispatch`. New. */
PyObject *mg_query_dispatch(MgCapture *capture, PyObject *function, PyObject *const *args, Py_ssize_t count,
                            PyObject *kwnames);

/* 1 if an outside object is still held where it was found, by nothing that captured code has changed: then it lives, not
 * only because the capture holds it. -1 with an exception. */
int mg_query_lives(MgCapture *capture, const MgOutside *record);

#endif
