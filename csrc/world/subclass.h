/* Wrappers: tensors of classes that wrap other tensors (`__torch_dispatch__`, `__tensor_flatten__`). */
#ifndef MG_SUBCLASS_H
#define MG_SUBCLASS_H

#include "capture/outside.h"

/* Makes a twin for one from outside, and guards what it holds. MG_OK or MG_ERR. */
int mg_subclass_reach(MgCapture *capture, MgOutside *record);

/* What one that an operation made has in its dict. New; NULL without an exception if it has nothing of this name. `getattr`
 * is the builtin function. */
PyObject *mg_subclass_getattr(MgCapture *capture, PyObject *object, PyObject *name, PyObject *getattr);

#endif
