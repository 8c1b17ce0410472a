/* Operators that a program has added to torch's (torch.library).
 *
 * One whose result tensors without data can tell is an operation like any other, as it is for TorchDynamo: its kernel runs when the
 * graph does. But a kernel in Python may read and write what captured code reads and writes, before and after it. So a
 * graph ends where an operator and captured code meet at an object or a global: magneto/_operators.py finds out what the functions
 * of a kernel may get at. Of a kernel that was registered with a torch.library.Library nobody can tell, and a fake one
 * must have no effects: where that is not known a graph ends before the operator.
 * With fullgraph all of them are recorded. */
#include "record/operator.h"

#include "capture/outside.h"
#include "cpython/aside.h"
#include "torch/kernels.h"
#include "torch/kinds.h"

/* MG_ERR if captured code has written to the global of this name, or (`read`) read it. */
static int
check_name(MgCapture *capture, const MgOutside *globals, PyObject *name, int read)
{
    int found = globals->held == NULL ? 0 : PyDict_Contains(globals->held, name);
    for (int i = 0; read && found == 0 && i < capture->reads.sources.count; i++) {
        const MgSource *source = capture->reads.sources.items[i];
        found = source->kind == MG_SOURCE_DICT_ITEM && source->base == globals->source && source->key != NULL &&
                PyUnicode_Check(source->key) && PyUnicode_Compare(source->key, name) == 0;
    }
    return found == 0  ? MG_OK
           : found < 0 ? MG_ERR
                       : mg_capture_abort(capture, MG_REASON_SKIPPED_CALL, "an operator that may change %U", name);
}

/* The same for all names that the functions of kernels read and write. */
static int
check_names(MgCapture *capture, PyObject *entry)
{
    const MgOutside *globals = mg_outside_find(capture, PyTuple_GET_ITEM(entry, 0));
    for (Py_ssize_t k = 1; globals != NULL && k <= 2; k++) {
        PyObject *name;
        Py_ssize_t position = 0;
        Py_hash_t hash;
        while (_PySet_NextEntry(PyTuple_GET_ITEM(entry, k), &position, &name, &hash)) {
            if (check_name(capture, globals, name, k == 2) < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

/* Checks what captured code has met so far, and notes the rest. */
static int
check_known(MgCapture *capture, PyObject *known)
{
    PyObject *objects = PyTuple_GET_ITEM(known, 1), *names = PyTuple_GET_ITEM(known, 2);
    if (PyTuple_GET_ITEM(known, 0) == Py_True) {
        return mg_capture_abort(capture, MG_REASON_SKIPPED_CALL, "an operator whose kernels may do anything");
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++) {
        const MgOutside *record = mg_outside_find(capture, PyList_GET_ITEM(objects, i));
        if (record != NULL && !record->provisional) {
            return mg_capture_abort(capture, MG_REASON_SKIPPED_CALL, "an operator that may change a %s",
                                    Py_TYPE(record->object)->tp_name);
        }
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++) {
        if (check_names(capture, PyList_GET_ITEM(names, i)) < 0) {
            return MG_ERR;
        }
    }
    if (PyList_GET_SIZE(objects) + PyList_GET_SIZE(names) > 0) {
        if (capture->graph.touched == NULL && (capture->graph.touched = PyList_New(0)) == NULL) {
            return MG_ERR;
        }
        return PyList_Append(capture->graph.touched, known);
    }
    return MG_OK;
}

/* 1 if a program has given an operator of torch's own, which a function or method is named for, another kernel. */
static int
is_replaced(PyObject *target)
{
    PyObject *name = PyUnicode_Check(target) ? Py_NewRef(target) : mg_aside_getattr(target, MG_STRING("__name__"));
    const char *text = name == NULL || !PyUnicode_Check(name) ? NULL : PyUnicode_AsUTF8(name);
    int found =
        text == NULL || mg_kernels_replaces(text) || (strcmp(text, "truediv") == 0 && mg_kernels_replaces("div"));
    Py_XDECREF(name);
    mg_error_clear();
    return found;
}

int
mg_operator_check(MgCapture *capture, PyObject *target)
{
    static PyObject *ask; /* strong */
    if (MG_UNLIKELY(mg_kernels_count() > 0) && capture->breaks.can_break && is_replaced(target)) {
        return mg_capture_abort(capture, MG_REASON_SKIPPED_CALL, "an operator that was given another kernel");
    }
    if (!mg_kinds_has(MG_SET_RECORDED, Py_TYPE(target)) || PyType_Check(target)) {
        return 0;
    }
    if (ask == NULL && (ask = mg_aside_find("magneto._operators", "kernels_of")) == NULL) {
        return MG_ERR;
    }
    PyObject *known = mg_aside_call(ask, &target, 1);
    int status = known == NULL ? MG_ERR : known != Py_None;
    if (status > 0 && capture->breaks.can_break && check_known(capture, known) < 0) {
        status = MG_ERR;
    }
    Py_XDECREF(known);
    return status;
}

int
mg_operator_look(MgCapture *capture, PyObject *object)
{
    for (Py_ssize_t i = 0; capture->graph.touched != NULL && i < PyList_GET_SIZE(capture->graph.touched); i++) {
        PyObject *objects = PyTuple_GET_ITEM(PyList_GET_ITEM(capture->graph.touched, i), 1);
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(objects); k++) {
            if (PyList_GET_ITEM(objects, k) == object) {
                return mg_capture_abort(capture, MG_REASON_OPAQUE, "what an operator may have changed");
            }
        }
    }
    return MG_OK;
}

int
mg_operator_look_name(MgCapture *capture, PyObject *globals, PyObject *name)
{
    for (Py_ssize_t i = 0; capture->graph.touched != NULL && i < PyList_GET_SIZE(capture->graph.touched); i++) {
        PyObject *names = PyTuple_GET_ITEM(PyList_GET_ITEM(capture->graph.touched, i), 2);
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(names); k++) {
            PyObject *entry = PyList_GET_ITEM(names, k);
            int found = PyTuple_GET_ITEM(entry, 0) == globals ? PySet_Contains(PyTuple_GET_ITEM(entry, 2), name) : 0;
            if (found != 0) {
                return found < 0
                           ? MG_ERR
                           : mg_capture_abort(capture, MG_REASON_OPAQUE, "%U, which an operator may change", name);
            }
        }
    }
    return MG_OK;
}
