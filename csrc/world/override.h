/* Tensor subclasses that override `__torch_function__`: what captured code sees of the protocol. */
#ifndef MG_OVERRIDE_H
#define MG_OVERRIDE_H

#include "capture/outside.h"

/* 1 if the class of a tensor overrides nothing but what its `__torch_function__` does: it is captured as Python. */
int mg_override_is_class(PyTypeObject *type);

/* Makes a twin for a tensor from outside of such a class. MG_OK or MG_ERR. */
int mg_override_reach(MgCapture *capture, MgOutside *record);

/* 1 if torch would call the `__torch_function__` of what the object stands for, now. */
int mg_override_has(const MgCapture *capture, PyObject *object);

/* Calls the `__torch_function__` of the tensors among the arguments, in torch's order: (func, types, args, kwargs), without
 * the last if it is NULL; and of objects that are no tensors, if their classes are in the tuple `others`. New. NULL without an exception if there are none. */
PyObject *mg_override_call(MgCapture *capture, PyObject *function, PyObject *others, PyObject *args, PyObject *kwargs);

/* torch.Tensor.__torch_function__(cls, func, types, args, kwargs), which all inherit. New. */
PyObject *mg_override_default(MgCapture *capture, PyObject *const *args, Py_ssize_t count);

/* x.as_subclass(type), and a tensor of the class that a call of it makes. New. */
PyObject *mg_override_as_subclass(MgCapture *capture, PyObject *twin, PyObject *type);
PyObject *mg_override_make(MgCapture *capture, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                           PyObject *kwnames);

#endif
