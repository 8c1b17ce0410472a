/* Containers within the arguments of an operation: lists, tuples, dicts and slices. */
#include "ir/structure.h"

#include "torch/torchabi.h"

int
mg_structure_is(PyObject *value)
{
    return PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PySlice_Check(value);
}

int
mg_structure_is_plain_tuple(PyTypeObject *type)
{
    return type == &PyTuple_Type || type == mg_torch.size || _PyType_Lookup(type, MG_STRING("_make")) != NULL;
}

int
mg_structure_has_own_ways(PyTypeObject *type)
{
    PyTypeObject *base = type->tp_flags & Py_TPFLAGS_LIST_SUBCLASS ? &PyList_Type : &PyTuple_Type;
    if (type == base || type == mg_torch.size) {
        return 0;
    }
    PyObject *const names[] = {MG_STRING("__len__"),   MG_STRING("__getitem__"),       MG_STRING("__iter__"),
                               MG_STRING("__index__"), MG_STRING("__int__"),           MG_STRING("__float__"),
                               MG_STRING("__array__"), MG_STRING("__torch_function__")};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (_PyType_Lookup(type, names[i]) != _PyType_Lookup(base, names[i])) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
map_sequence(PyObject *value, MgMapPart map, void *context)
{
    int is_list = PyList_Check(value);
    Py_ssize_t size = Py_SIZE(value);
    PyObject *result = is_list ? PyList_New(size) : PyTuple_New(size);
    for (Py_ssize_t i = 0; result != NULL && i < size; i++) {
        PyObject *item = map(context, is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i));
        if (item == NULL) {
            Py_CLEAR(result);
            break;
        }
        if (is_list) {
            PyList_SET_ITEM(result, i, item);
        }
        else {
            PyTuple_SET_ITEM(result, i, item);
        }
    }
    if (result != NULL && !is_list && Py_TYPE(value) != &PyTuple_Type && Py_TYPE(value) != mg_torch.size &&
        mg_structure_is_plain_tuple(Py_TYPE(value))) {
        PyObject *made =
            PyObject_CallMethodOneArg((PyObject *)Py_TYPE(value), MG_STRING("_make"), result); /* a named tuple */
        Py_DECREF(result);
        result = made;
    }
    return result;
}

static PyObject *
map_dict(PyObject *value, MgMapPart map, void *context)
{
    PyObject *result = PyDict_New();
    Py_ssize_t position = 0;
    PyObject *key, *item;
    while (result != NULL && PyDict_Next(value, &position, &key, &item)) {
        PyObject *mapped = map(context, item);
        if (mapped == NULL || PyDict_SetItem(result, key, mapped) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(mapped);
    }
    return result;
}

PyObject *
mg_structure_map(PyObject *value, MgMapPart map, void *context)
{
    if (!PySlice_Check(value)) {
        return PyDict_Check(value) ? map_dict(value, map, context) : map_sequence(value, map, context);
    }
    PySliceObject *slice = (PySliceObject *)value;
    PyObject *start = map(context, slice->start);
    PyObject *stop = start == NULL ? NULL : map(context, slice->stop);
    PyObject *step = stop == NULL ? NULL : map(context, slice->step);
    PyObject *result = step == NULL ? NULL : PySlice_New(start, stop, step);
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return result;
}
