/* torch.Tensor and nn.Parameter as classes: what programs add to them, replace in them, and give to single tensors. */
#ifndef MG_TENSORCLASS_H
#define MG_TENSORCLASS_H

#include "capture/capture.h"

/* The class that captured code sees of a twin. */
static inline PyTypeObject *
mg_tensor_class_of(const MgTwin *twin)
{
    if (twin->type != NULL) {
        return twin->type;
    }
    if (!(twin->meta->flags & MG_META_PARAMETER)) {
        return mg_torch.tensor;
    }
    PyTypeObject *type = twin->real == NULL ? NULL : Py_TYPE(twin->real);
    return type != NULL && PyType_IsSubtype(type, mg_torch.parameter) ? type : mg_torch.parameter;
}

/* What the class has by this name, guarded; borrowed, NULL without an exception if it has none. *is_own is 1 if it is torch's
 * own, 0 if it is the program's, -1 with an exception. */
PyObject *mg_tensor_class_find(MgCapture *capture, const MgTwin *twin, PyObject *name, int *is_own);

/* What a tensor from outside has by this name in its own dict: 1 with a new reference to what captured code sees, 0 if it
 * has nothing, which is guarded; or -1. */
int mg_tensor_own_attribute(MgCapture *capture, const MgTwin *twin, PyObject *name, PyObject **value);

/* A class attribute that is the program's: a function, a property, a value. New. */
PyObject *mg_tensor_class_get(MgCapture *capture, PyObject *object, PyObject *name, PyObject *found);

/* Called before an operation is recorded. MG_ERR if the program has replaced the special methods that it comes to. */
int mg_tensor_class_check(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count);
int mg_tensor_class_check_special(MgCapture *capture, PyObject *object, PyObject *name);

#endif
