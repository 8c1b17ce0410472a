/* How a compiled nn.Module is called. */
#ifndef MG_WRAPPER_H
#define MG_WRAPPER_H

#include "cpython/cpython311.h"

/* The class attributes `__call__` and `forward` of magneto's module wrapper. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *own;          /* strong: called if the wrapper has hooks of its own; or None */
    PyObject *slow;         /* strong: called if the module has hooks, or another forward than the compiled one */
    PyObject *inlined;      /* strong: called if the caller is being captured */
    PyObject *global_hooks; /* strong: a tuple of dicts */
    PyObject *methods;      /* strong: nn.Module's __call__ and _call_impl */
    PyObject *name;         /* strong: that of the class attribute; NULL if it is none */
} MgModuleCall;

extern PyTypeObject MgModuleCall_Type;

/* A base of that wrapper: its instances can be called without a dict of keywords. */
extern PyTypeObject MgCaller_Type;

int mg_wrapper_types_ready(void);

#endif
