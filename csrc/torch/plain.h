/* Values without an identity worth keeping. */
#ifndef MG_PLAIN_H
#define MG_PLAIN_H

#include "torch/torchabi.h"

static inline int
mg_is_heap_type(PyTypeObject *type)
{
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
}

/* 1 for values that have no identity worth keeping: equal ones can stand for each other. */
static inline int
mg_is_plain_value(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type ||
           type == &PyComplex_Type;
}

/* 1 for immutable singletons and objects of torch that are compared by identity. */
static inline int
mg_is_singleton(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || type == &PyBool_Type ||
           type == mg_torch.dtype || type == mg_torch.layout || type == mg_torch.memory_format;
}

#endif
