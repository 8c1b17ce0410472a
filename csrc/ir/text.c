/* Objects as texts, for reasons and messages: the same in each run, since they are counted, and never long.
 *
 * What is told of an object must not run code of the user's: it is asked for where the state is anything but ready for
 * that. So nobody's __repr__ is called but those of plain values. */
#include "ir/text.h"

#include "torch/kinds.h"
#include "torch/torchabi.h"

enum { MOST_ITEMS = 16, MOST_LEVELS = 3, LONGEST = 200, SHOWN = 100, MOST_BITS = 256 };

static PyObject *text_of(PyObject *object, int level);

/* 1 if the text of the object is its repr, which is short and runs no other code. */
static int
is_short(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || PyBool_Check(object) ||
        PyFloat_CheckExact(object) || PyComplex_CheckExact(object)) {
        return 1;
    }
    return type == mg_torch.device || type == mg_torch.dtype || type == mg_torch.layout ||
           type == mg_torch.memory_format || type == mg_torch.size || type == mg_kinds.qscheme;
}

/* The beginning of a string or of bytes. */
static PyObject *
long_text(PyObject *object)
{
    Py_ssize_t size = PySequence_Size(object);
    PyObject *start = PySequence_GetSlice(object, 0, SHOWN);
    PyObject *text = start == NULL ? NULL : PyUnicode_FromFormat("%R... (%zd in all)", start, size);
    Py_XDECREF(start);
    return text;
}

/* The texts of the first items of an iterable, joined by commas; sorted if they have no order of their own. */
static PyObject *
items_text(PyObject *items, Py_ssize_t size, int level, int sorted)
{
    PyObject *texts = PyList_New(0), *comma = PyUnicode_FromString(", "), *result = NULL, *item;
    PyObject *iterator = texts == NULL || comma == NULL ? NULL : PyObject_GetIter(items);
    Py_ssize_t most = level < MOST_LEVELS && (size <= MOST_ITEMS || !sorted) ? MOST_ITEMS : 0;
    while (iterator != NULL && PyList_GET_SIZE(texts) < most && (item = PyIter_Next(iterator)) != NULL) {
        PyObject *text = text_of(item, level + 1);
        Py_DECREF(item);
        if (text == NULL || PyList_Append(texts, text) < 0) {
            Py_XDECREF(text);
            break;
        }
        Py_DECREF(text);
    }
    if (iterator != NULL && !PyErr_Occurred() && (!sorted || PyList_Sort(texts) == 0)) {
        PyObject *rest = size <= most ? NULL : PyUnicode_FromFormat("... (%zd in all)", size);
        if (size <= most || (rest != NULL && PyList_Append(texts, rest) == 0)) {
            result = PyUnicode_Join(comma, texts);
        }
        Py_XDECREF(rest);
    }
    Py_XDECREF(iterator);
    Py_XDECREF(texts);
    Py_XDECREF(comma);
    return result;
}

/* Puts what the items give between brackets. */
static PyObject *
bracketed(const char *format, PyObject *items, Py_ssize_t size, int level, int sorted)
{
    PyObject *inner = items_text(items, size, level, sorted);
    PyObject *text = inner == NULL ? NULL : PyUnicode_FromFormat(format, inner);
    Py_XDECREF(inner);
    return text;
}

static PyObject *
slice_text(PySliceObject *slice, int level)
{
    PyObject *parts = PyTuple_Pack(3, slice->start, slice->stop, slice->step);
    PyObject *text = parts == NULL ? NULL : bracketed("slice(%U)", parts, 3, level, 0);
    Py_XDECREF(parts);
    return text;
}

static PyObject *
text_of(PyObject *object, int level)
{
    if (is_short(object)) {
        return PyObject_Repr(object);
    }
    if (PyLong_CheckExact(object)) {
        size_t bits = _PyLong_NumBits(object);
        return bits > MOST_BITS ? PyUnicode_FromFormat("an int of %zu bits", bits) : PyObject_Repr(object);
    }
    if (PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) {
        return PySequence_Size(object) <= LONGEST ? PyObject_Repr(object) : long_text(object);
    }
    if (PyTuple_CheckExact(object)) {
        Py_ssize_t size = PyTuple_GET_SIZE(object);
        return bracketed(size == 1 ? "(%U,)" : "(%U)", object, size, level, 0);
    }
    if (PyList_CheckExact(object)) {
        return bracketed("[%U]", object, PyList_GET_SIZE(object), level, 0);
    }
    if (PyFrozenSet_CheckExact(object)) {
        return bracketed("frozenset({%U})", object, PySet_GET_SIZE(object), level, 1);
    }
    if (PySlice_Check(object)) {
        return slice_text((PySliceObject *)object, level);
    }
    if (PyType_Check(object)) {
        return PyUnicode_FromFormat("the class %s", ((PyTypeObject *)object)->tp_name);
    }
    if (PyFunction_Check(object)) {
        return PyUnicode_FromFormat("<function %U>", ((PyFunctionObject *)object)->func_qualname);
    }
    if (PyCFunction_Check(object)) {
        return PyUnicode_FromFormat("<built-in function %s>", ((PyCFunctionObject *)object)->m_ml->ml_name);
    }
    return PyUnicode_FromFormat("an object of class %s", Py_TYPE(object)->tp_name);
}

PyObject *
mg_text_of(PyObject *object)
{
    return text_of(object, 0);
}
