/* Operations on tensors whose classes override `__torch_function__`: they are called, not recorded. */
#ifndef MG_OVERRIDDEN_H
#define MG_OVERRIDDEN_H

#include "capture/capture.h"

/* 1 for an object that is no tensor, and has a __torch_function__. */
int mg_overridden_is_other(PyObject *object);

/* 1 if one of the arguments has a __torch_function__ that is to be called now. What lies in containers is found when it is
 * mapped. */
int mg_overridden_is(const MgCapture *capture, PyObject *const *args, Py_ssize_t total);

/* Really calls an operation: torch finds the __torch_function__ of twins, and that of the class is called from there. New. */
PyObject *mg_overridden_call(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args,
                             Py_ssize_t count, PyObject *kwnames);

/* Notes whether the graph must be run with these switched off, and whether it calls those of wrappers. MG_ERR if both. */
int mg_overridden_check(MgCapture *capture, PyObject *twins);

#endif
