/* Keys of dicts that a guard program refers to without keeping them alive: (mark, weak reference). */
#include "ir/weakkey.h"

PyObject *mg_weak_mark;

PyObject *
mg_weak_key_new(PyObject *key)
{
    if (mg_weak_mark == NULL && (mg_weak_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type)) == NULL) {
        return NULL;
    }
    PyObject *reference = PyWeakref_NewRef(key, NULL);
    PyObject *result = reference == NULL ? NULL : PyTuple_Pack(2, mg_weak_mark, reference);
    Py_XDECREF(reference);
    return result;
}

PyObject *
mg_weak_keys(PyObject *keys)
{
    PyObject *result = PyTuple_New(PyTuple_GET_SIZE(keys));
    for (Py_ssize_t i = 0; result != NULL && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = mg_weak_key_get(PyTuple_GET_ITEM(keys, i));
        PyTuple_SET_ITEM(result, i, Py_NewRef(key == NULL ? Py_None : key));
    }
    return result;
}
