/* Questions that are asked again on later calls: what a function returns for certain arguments. */
#ifndef MG_QUERY_H
#define MG_QUERY_H

#include "capture/level.h"

/* 1 if the guard program can compare such a value. */
int mg_query_compares(PyObject *value, MgWalk *walk);

/* What a function returns for arguments that can be compared, guarded by asking again. New. */
PyObject *mg_query_ask(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count);

#endif
