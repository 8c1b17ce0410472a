/* Containers within the arguments of an operation: lists, tuples, dicts and slices. */
#include "structure.h"

#include "torchabi.h"

int
mg_structure_is(PyObject *value)
{
    return PyList_Check(value) || PyTuple_Check(value) || PyDict_Check(value) || PySlice_Check(value);
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
    if (result != NULL && !is_list && Py_TYPE(value) != &PyTuple_Type && Py_TYPE(value) != mg_torch.size) {
        PyObject *made = PyObject_CallMethod((PyObject *)Py_TYPE(value), "_make", "O", result); /* a named tuple */
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
