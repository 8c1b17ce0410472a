/* Binding: the arguments of a call as the function's locals would hold them. */
#include "api/bind.h"

#include "cpython/cpython311.h"
#include "cpython/watch.h"

void
mg_bound_clear(MgBound *bound)
{
    for (int i = 0; bound->held && i < bound->count; i++) {
        Py_DECREF(bound->values[i]);
    }
    Py_XDECREF(bound->rest);
    Py_XDECREF(bound->keywords);
    if (bound->values != bound->small) {
        PyMem_Free(bound->values);
    }
}

static Py_ssize_t
find_name(PyCodeObject *code, PyObject *name, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) {
            return i;
        }
    }
    for (int i = from; i < to; i++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), name) == 0) {
            return i;
        }
    }
    return -1;
}

int
mg_bind(PyFunctionObject *function, PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames,
        MgBound *bound)
{
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    int positional = code->co_argcount, named = code->co_kwonlyargcount;
    int has_rest = (code->co_flags & CO_VARARGS) != 0, has_keywords = (code->co_flags & CO_VARKEYWORDS) != 0;
    int offset = self != NULL;
    bound->count = positional + named + has_rest + has_keywords;
    bound->rest = bound->keywords = NULL;
    bound->held = 0;
    bound->values = bound->count <= 32 ? bound->small : PyMem_Malloc(sizeof(PyObject *) * (size_t)bound->count);
    if (bound->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(bound->values, 0, sizeof(PyObject *) * (size_t)bound->count);
    Py_ssize_t total = given + offset, direct = total < positional ? total : positional;
    for (Py_ssize_t i = 0; i < direct; i++) {
        bound->values[i] = i < offset ? self : args[i - offset];
    }
    if (total > positional && !has_rest) {
        return 0;
    }
    if (has_rest) {
        Py_ssize_t extra = total > positional ? total - positional : 0;
        bound->rest = PyTuple_New(extra);
        if (bound->rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = 0; i < extra; i++) {
            Py_ssize_t from = positional + i;
            PyTuple_SET_ITEM(bound->rest, i, Py_NewRef(self != NULL && from < offset ? self : args[from - offset]));
        }
        bound->values[positional + named] = bound->rest;
    }
    MgOwnChanges own = mg_watch_own_start();
    if (has_keywords) {
        bound->keywords = PyDict_New();
        if (bound->keywords == NULL) {
            return -1;
        }
        mg_watch_own_note(&own, bound->keywords, 0);
        bound->values[positional + named + has_rest] = bound->keywords;
    }
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < names; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        Py_ssize_t slot = find_name(code, name, code->co_posonlyargcount, positional + named);
        if (slot >= 0) {
            if (bound->values[slot] != NULL) {
                return 0;
            }
            bound->values[slot] = args[given + i];
        }
        else if (!has_keywords) {
            return 0;
        }
        else {
            uint64_t tag = mg_watch_dict(bound->keywords);
            if (PyDict_SetItem(bound->keywords, name, args[given + i]) < 0) {
                return -1;
            }
            mg_watch_own_note(&own, bound->keywords, tag);
        }
    }
    mg_watch_own_end(&own);
    PyObject *defaults = function->func_defaults;
    Py_ssize_t default_count = defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
    for (int i = 0; i < positional; i++) {
        if (bound->values[i] == NULL) {
            Py_ssize_t at = i - (positional - default_count);
            if (defaults == NULL || at < 0) {
                return 0;
            }
            bound->values[i] = PyTuple_GET_ITEM(defaults, at);
        }
    }
    for (int i = positional; i < positional + named; i++) {
        if (bound->values[i] == NULL) {
            PyObject *dict = function->func_kwdefaults;
            bound->values[i] = dict == NULL ? NULL : mg_dict_find(dict, PyTuple_GET_ITEM(code->co_localsplusnames, i));
            if (bound->values[i] == NULL || bound->values[i] == &mg_dict_unknown) {
                return 0;
            }
        }
    }
    for (int i = 0; i < bound->count; i++) {
        Py_INCREF(bound->values[i]);
    }
    bound->held = 1;
    return 1;
}
