/* Whose code it is, by the names of files: a table of prefixes that magneto/_rules.py passes. */
#include "capture/origin.h"

static PyObject *known; /* strong: a list of (prefix, place) */

int
mg_origin_configure(PyObject *prefixes)
{
    if (!PyList_Check(prefixes)) {
        PyErr_SetString(PyExc_TypeError, "the places are not a list");
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(prefixes); i++) {
        PyObject *prefix;
        int place;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(prefixes, i), "Ui", &prefix, &place)) {
            return MG_ERR;
        }
    }
    Py_XSETREF(known, Py_NewRef(prefixes));
    return MG_OK;
}

MgOrigin
mg_origin_of(PyCodeObject *code)
{
    PyObject *name = code->co_filename;
    for (Py_ssize_t i = 0; known != NULL && i < PyList_GET_SIZE(known); i++) {
        PyObject *pair = PyList_GET_ITEM(known, i), *prefix = PyTuple_GET_ITEM(pair, 0);
        if (PyUnicode_Tailmatch(name, prefix, 0, PyUnicode_GET_LENGTH(name), -1) > 0) {
            return (MgOrigin)PyLong_AsLong(PyTuple_GET_ITEM(pair, 1));
        }
    }
    return MG_ORIGIN_USER;
}
