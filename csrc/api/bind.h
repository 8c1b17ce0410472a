/* Binding: the arguments of a call as the function's locals would hold them. */
#ifndef MG_BIND_H
#define MG_BIND_H

#include "base/magneto.h"

/* The arguments of a call as the function's locals hold them. */
typedef struct {
    PyObject **values; /* strong once they are held: code that runs meanwhile may replace a default */
    int count;
    int held;
    PyObject *rest;     /* strong: the *args tuple, or NULL */
    PyObject *keywords; /* strong: the **kwargs dict, or NULL */
    PyObject *small[32];
} MgBound;

/* Binds the arguments of a call. 1, or 0 if they do not fit (then the call itself will say so), or -1. */
int mg_bind(PyFunctionObject *function, PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames,
            MgBound *bound);

void mg_bound_clear(MgBound *bound);

#endif
