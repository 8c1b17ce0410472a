/* Numbers that vary, for C code: most of it wants ints and floats, and asks for their types.
 *
 * Captured code sees a number that varies as an object of another type (record/number.h). Containers and operators pass it on,
 * or compute with it by its own operators. All other C code gets the value, which becomes a guard: else it could refuse the
 * object, or take it for something else. */
#include "policy/calls.h"

#include "cpython/depth.h"
#include "cpython/shadow.h"
#include "record/number.h"
#include "torch/kinds.h"

/* 1 if a class makes what holds or iterates over its arguments, or asks them for their texts. */
static int
is_transparent_type(PyTypeObject *type)
{
    static PyTypeObject *const types[] = {&PyZip_Type,      &PyEnum_Type,  &PyMap_Type,   &PyFilter_Type,
                                          &PyReversed_Type, &PySlice_Type, &PyRange_Type, &PyUnicode_Type};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (type == types[i]) {
            return 1;
        }
    }
    if (strncmp(type->tp_name, "itertools.", 10) == 0 && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return strcmp(type->tp_name, "itertools.count") != 0; /* which tells ints from other numbers */
    }
    return type == mg_kinds.partial || mg_shadow_base(type) != NULL;
}

int
mg_plain_is_transparent(PyObject *callable)
{
    if (PyType_Check(callable)) {
        return is_transparent_type((PyTypeObject *)callable);
    }
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
        return mg_shadow_base(PyDescr_TYPE(callable)) != NULL;
    }
    if (!PyCFunction_Check(callable)) {
        return 0;
    }
    PyObject *self = PyCFunction_GET_SELF(callable), *module = ((PyCFunctionObject *)callable)->m_module;
    if (self != NULL && !PyModule_Check(self)) {
        return mg_shadow_base(PyType_Check(self) ? (PyTypeObject *)self : Py_TYPE(self)) != NULL;
    }
    if (module == NULL || !PyUnicode_Check(module)) {
        return 0;
    }
    if (PyUnicode_CompareWithASCIIString(module, "math") == 0) { /* it multiplies by the operator */
        return strcmp(((PyCFunctionObject *)callable)->m_ml->ml_name, "prod") == 0;
    }
    return PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
           PyUnicode_CompareWithASCIIString(module, "_operator") == 0;
}

static PyObject *make_plain(MgCapture *capture, PyObject *value, MgWalk *walk);

/* The items of a tuple with values in place of numbers: itself if it has none. New. */
static PyObject *
plain_tuple(MgCapture *capture, PyObject *tuple, MgWalk *walk)
{
    PyObject *items = PyTuple_New(PyTuple_GET_SIZE(tuple));
    int any = 0;
    for (Py_ssize_t i = 0; items != NULL && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = make_plain(capture, PyTuple_GET_ITEM(tuple, i), walk);
        if (item == NULL) {
            Py_CLEAR(items);
            break;
        }
        any = any || item != PyTuple_GET_ITEM(tuple, i);
        PyTuple_SET_ITEM(items, i, item);
    }
    if (items == NULL || !any) {
        Py_XDECREF(items);
        return items == NULL ? NULL : Py_NewRef(tuple);
    }
    return Py_IS_TYPE(tuple, mg_torch.size) ? mg_symbol_size(items) : items;
}

/* Puts values in place of the numbers in a list, or among the values of a dict. MG_OK or MG_ERR. */
static int
make_content_plain(MgCapture *capture, PyObject *container, MgWalk *walk)
{
    PyObject *key, *item;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyList_CheckExact(container) && i < PyList_GET_SIZE(container); i++) {
        item = make_plain(capture, PyList_GET_ITEM(container, i), walk);
        if (item == NULL) {
            return MG_ERR;
        }
        PyObject *before = PyList_GET_ITEM(container, i);
        PyList_SET_ITEM(container, i, item);
        Py_DECREF(before);
    }
    while (PyDict_CheckExact(container) && PyDict_Next(container, &position, &key, &item)) {
        PyObject *plain = make_plain(capture, item, walk);
        int status = plain == NULL ? MG_ERR : plain == item ? MG_OK : PyDict_SetItem(container, key, plain);
        Py_XDECREF(plain);
        if (status < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static PyObject *
make_plain(MgCapture *capture, PyObject *value, MgWalk *walk)
{
    if (mg_is_number(value)) {
        return mg_number_is_backed(value) ? mg_number_take(capture, value) : Py_NewRef(value);
    }
    int is_tuple = PyTuple_CheckExact(value) || Py_IS_TYPE(value, mg_torch.size);
    if (!is_tuple && !PyList_CheckExact(value) && !PyDict_CheckExact(value)) {
        return Py_NewRef(value);
    }
    PyObject *result = NULL;
    if (!mg_walk_enter(walk)) {
        result = Py_NewRef(value); /* what lies so deep has no numbers: it was mapped, or is no argument */
    }
    else if (is_tuple) {
        result = plain_tuple(capture, value, walk);
    }
    else {
        result = make_content_plain(capture, value, walk) < 0 ? NULL : Py_NewRef(value);
    }
    mg_walk_leave(walk);
    return result;
}

PyObject *
mg_plain_value(MgCapture *capture, PyObject *value)
{
    MgWalk walk = MG_WALK;
    return make_plain(capture, value, &walk);
}
