/* Structural pattern matching: keys of a mapping, attributes of a class.
 *
 * A pattern that does not match is None, never an error; an error is only what user code raised, or a pattern that
 * can't be right. */
#include "cpython/match.h"

PyObject *
mg_match_keys(PyObject *subject, PyObject *keys)
{
    Py_ssize_t count = PyTuple_GET_SIZE(keys);
    if (count == 0) {
        return PyTuple_New(0);
    }
    PyObject *get = NULL, *seen = NULL, *missing = NULL, *values = NULL;
    PyObject *result = NULL;
    /* `get` with a default of our own: subscripting could create keys (defaultdict), and None may be a value */
    get = PyObject_GetAttr(subject, MG_STRING("get"));
    seen = PySet_New(NULL);
    missing = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    values = PyTuple_New(count);
    if (get == NULL || seen == NULL || missing == NULL || values == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i);
        int duplicate = PySet_Contains(seen, key);
        if (duplicate > 0) {
            PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
        }
        if (duplicate != 0 || PySet_Add(seen, key) < 0) {
            goto done;
        }
        PyObject *value = PyObject_CallFunctionObjArgs(get, key, missing, NULL);
        if (value == NULL) {
            goto done;
        }
        if (value == missing) {
            Py_DECREF(value);
            result = Py_NewRef(Py_None);
            goto done;
        }
        PyTuple_SET_ITEM(values, i, value);
    }
    result = Py_NewRef(values);
done:
    Py_XDECREF(get);
    Py_XDECREF(seen);
    Py_XDECREF(missing);
    Py_XDECREF(values);
    return result;
}

/* Appends the subject's attribute `name` to `found`. 1, or 0 if it has none, or -1 with an exception. */
static int
take_attribute(PyObject *subject, PyObject *type, PyObject *name, PyObject *seen, PyObject *found, getattrofunc get)
{
    int duplicate = PySet_Contains(seen, name);
    if (duplicate > 0) {
        PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                     ((PyTypeObject *)type)->tp_name, name);
    }
    if (duplicate != 0 || PySet_Add(seen, name) < 0) {
        return -1;
    }
    PyObject *value = get(subject, name);
    if (value == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return -1;
        }
        mg_error_clear();
        return 0;
    }
    int result = PyList_Append(found, value);
    Py_DECREF(value);
    return result < 0 ? -1 : 1;
}

/* The positional part. 1, 0 or -1 as above. */
static int
take_positional(PyObject *subject, PyObject *type, Py_ssize_t count, PyObject *seen, PyObject *found, getattrofunc get)
{
    const char *type_name = ((PyTypeObject *)type)->tp_name;
    int itself = 0; /* one positional pattern stands for the subject as a whole, as for int(x) */
    int result = -1;
    PyObject *names = get(type, MG_STRING("__match_args__"));
    if (names != NULL) {
        if (!PyTuple_CheckExact(names)) {
            PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type_name,
                         Py_TYPE(names)->tp_name);
            goto done;
        }
    }
    else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        mg_error_clear();
        itself = PyType_HasFeature((PyTypeObject *)type, _Py_TPFLAGS_MATCH_SELF);
    }
    else {
        return -1;
    }
    Py_ssize_t allowed = itself ? 1 : names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (allowed < count) {
        PyErr_Format(PyExc_TypeError, "%s() accepts %d positional sub-pattern%s (%d given)", type_name, (int)allowed,
                     allowed == 1 ? "" : "s", (int)count);
        goto done;
    }
    if (itself) {
        result = PyList_Append(found, subject) < 0 ? -1 : 1;
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) {
            PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
            goto done;
        }
        int taken = take_attribute(subject, type, name, seen, found, get);
        if (taken <= 0) {
            result = taken;
            goto done;
        }
    }
    result = 1;
done:
    Py_XDECREF(names);
    return result;
}

PyObject *
mg_match_class(PyObject *subject, PyObject *type, Py_ssize_t count, PyObject *names, getattrofunc get)
{
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "called match pattern must be a type");
        return NULL;
    }
    int status = PyObject_IsInstance(subject, type);
    if (status < 0) {
        return NULL;
    }
    if (status == 0) {
        Py_RETURN_NONE;
    }
    PyObject *result = NULL;
    PyObject *seen = PySet_New(NULL);
    PyObject *found = PyList_New(0);
    if (seen == NULL || found == NULL) {
        goto done;
    }
    if (count > 0) {
        status = take_positional(subject, type, count, seen, found, get);
    }
    for (Py_ssize_t i = 0; status > 0 && i < PyTuple_GET_SIZE(names); i++) {
        status = take_attribute(subject, type, PyTuple_GET_ITEM(names, i), seen, found, get);
    }
    if (status > 0) {
        result = PyList_AsTuple(found);
    }
    else if (status == 0) {
        result = Py_NewRef(Py_None);
    }
done:
    Py_XDECREF(seen);
    Py_XDECREF(found);
    return result;
}
