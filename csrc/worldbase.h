/* What the files of the world share: kinds of objects, records, and the dicts behind instances and modules. */
#ifndef MG_WORLDBASE_H
#define MG_WORLDBASE_H

#include "kinds.h"
#include "world.h"

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

MgRecord *mg_world_find(MgCapture *capture, PyObject *object);

/* The record of an object whose attributes are asked for: also if it is the shadow of an object of a Python class. */
MgRecord *mg_world_owner(MgCapture *capture, PyObject *owner);

/* What captured code sees, new. */
PyObject *mg_world_view(MgRecord *record);

/* The value of `key` in an outside dict as captured code sees it. 1 found, 0 missing, -1 error. */
int mg_world_dict_get(MgCapture *capture, MgRecord *record, PyObject *key, PyObject **result);

/* Holds back dict[key] = value, or the deletion of key if value is NULL. */
int mg_world_dict_set(MgCapture *capture, MgRecord *record, PyObject *key, PyObject *value);

/* The record of an outside instance's dict; NULL without an exception if it has none. */
MgRecord *mg_world_dict_record(MgCapture *capture, MgRecord *owner);

/* Guards which object a record is of. It is not kept alive, if it can be referred to weakly; tensors are kept, since programs
 * look for weak references to them. MG_OK or MG_ERR. */
int mg_world_guard_object(MgCapture *capture, const MgRecord *record);

#endif
