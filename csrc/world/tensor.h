/* Tensors as captured code sees them: items, attributes and methods of twins. */
#ifndef MG_TENSOR_H
#define MG_TENSOR_H

#include "capture/capture.h"

int mg_tensor_init(void); /* MG_OK or MG_ERR */

PyObject *mg_tensor_getattr(MgCapture *capture, PyObject *twin, PyObject *name);
int mg_tensor_get_method(MgCapture *capture, PyObject *twin, PyObject *name, PyObject **method);
int mg_tensor_setattr(MgCapture *capture, PyObject *twin, PyObject *name, PyObject *value);
PyObject *mg_tensor_getitem(MgCapture *capture, PyObject *twin, PyObject *key);
int mg_tensor_setitem(MgCapture *capture, PyObject *twin, PyObject *key, PyObject *value);
Py_ssize_t mg_tensor_length(MgCapture *capture, PyObject *twin);
PyObject *mg_tensor_len(MgCapture *capture, PyObject *twin); /* may be a number */
PyObject *mg_tensor_iter(MgCapture *capture, PyObject *twin);

/* The same for C code: the class of twins has it in its slot. */
PyObject *mg_tensor_iter_slot(PyObject *twin);

/* A torch function that C code called on twins: Twin.__torch_function__(func, types, args, kwargs). */
PyObject *mg_tensor_torch_function(PyObject *const *args, Py_ssize_t count);

/* x.item(), or int(x), float(x), bool(x) if `type` is not NULL; and x.tolist(). */
PyObject *mg_tensor_item(MgCapture *capture, PyObject *twin, PyObject *type);
PyObject *mg_tensor_tolist(MgCapture *capture, PyObject *twin);

#endif
