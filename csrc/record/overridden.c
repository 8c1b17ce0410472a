/* Operations on tensors whose classes override `__torch_function__`: they are called, not recorded. See world/override.c. */
#include "record/overridden.h"

#include "capture/tracer.h"

int
mg_overridden_is_other(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyType_Check(object) && !mg_torch_is_tensor(object) &&
           !PyLong_Check(object) && !PyFloat_Check(object) && !PyComplex_Check(object) && !PyUnicode_Check(object) &&
           !PyTuple_Check(object) && !PyList_Check(object) && !PyDict_Check(object) &&
           _PyType_Lookup(type, MG_STRING("__torch_function__")) != NULL;
}

/* 1 if an object that is no tensor comes before the first tensor: torch would call its method with the class of twins. */
static int
starts_with_other(PyObject *const *args, Py_ssize_t total)
{
    int twins = 0, first = 0;
    for (Py_ssize_t i = 0; i < total; i++) {
        int is_other = mg_overridden_is_other(args[i]);
        first |= is_other && !twins;
        twins |= !is_other && !PyLong_Check(args[i]) && !PyFloat_Check(args[i]) && args[i] != Py_None;
    }
    return first && twins;
}

int
mg_overridden_is(const MgCapture *capture, PyObject *const *args, Py_ssize_t total)
{
    for (Py_ssize_t i = 0; i < total; i++) {
        if (MG_UNLIKELY(mg_is_twin(args[i]) ? mg_twin_of(args[i])->overrides : mg_overridden_is_other(args[i]))) {
            return mg_capture_overrides(capture);
        }
    }
    return 0;
}

PyObject *
mg_overridden_call(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
                   PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)), ready = 0;
    PyObject **exposed = PyMem_Calloc((size_t)total + 1, sizeof(PyObject *)), *result = NULL;
    if (exposed == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    while (ready < total && (exposed[ready] = mg_tracer.expose(capture, args[ready])) != NULL) {
        ready++;
    }
    long outer = capture->torch.overriding;
    if (ready == total &&
        (starts_with_other(exposed, total) || outer == capture->steps)) { /* torch has asked us back */
        mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "an object with a __torch_function__");
    }
    else if (ready == total) {
        capture->torch.overriding = capture->steps;
        result = kind == MG_NODE_METHOD ? PyObject_VectorcallMethod(target, exposed, (size_t)count, kwnames)
                                        : PyObject_Vectorcall(target, exposed, (size_t)count, kwnames);
        capture->torch.overriding = outer;
        result = mg_tracer.touch(capture, result);
    }
    while (ready-- > 0) {
        Py_DECREF(exposed[ready]);
    }
    PyMem_Free(exposed);
    return result;
}

int
mg_overridden_check(MgCapture *capture, PyObject *twins)
{
    PyObject *name = MG_STRING("__torch_function__");
    const char *class = NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(twins); i++) {
        const MgTwin *twin = mg_twin_of(PyList_GET_ITEM(twins, i));
        if (MG_LIKELY(twin->type == NULL)) {
            continue;
        }
        class = twin->type->tp_name;
        capture->graph.muted |= twin->overrides;
        capture->graph.wrappers |= (twin->meta->flags & MG_META_WRAPPER) && /* of which it is a part to be called */
                                   _PyType_Lookup(twin->type, name) != _PyType_Lookup(mg_torch.tensor, name);
    }
    return class != NULL && capture->graph.wrappers && (capture->graph.muted || capture->torch.muted > 0)
               ? mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "%s", class)
               : MG_OK;
}
