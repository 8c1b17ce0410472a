/* Context managers of torch's: two nodes, and torch's state as it is in between. */
#include "policy/calls.h"

#include "base/reserve.h"
#include "cpython/aside.h"
#include "policy/rules.h"
#include "policy/ruletable.h"
#include "record/record.h"
#include "torch/state.h"
#include "world/world.h"

int
mg_rules_restore_state(MgCapture *capture)
{
    int set = capture->torch.settings != NULL;
    if (!mg_state_is_kept() || capture->torch.entry_state == NULL ||
        (capture->torch.state == capture->torch.entry_state && !set)) {
        return MG_OK; /* nothing has changed it */
    }
    MgAside aside;
    mg_aside_begin(&aside);
    int reserve = 0;
    mg_reserve_use(&reserve);
    if (set && mg_state_undo(capture->torch.settings) < 0) {
        mg_error_clear();
    }
    while (capture->torch.managers != NULL &&
           PyList_GET_SIZE(capture->torch.managers) > 0) { /* left open by an abort */
        Py_ssize_t last = PyList_GET_SIZE(capture->torch.managers) - 1;
        PyObject *item = Py_NewRef(PyList_GET_ITEM(capture->torch.managers, last));
        PyObject *left = PyObject_CallOneArg(PyTuple_GET_ITEM(item, 3), PyTuple_GET_ITEM(item, 1));
        Py_DECREF(item);
        Py_XDECREF(left);
        if (left == NULL || PyList_SetSlice(capture->torch.managers, last, last + 1, NULL) < 0) {
            mg_error_clear();
            Py_CLEAR(capture->torch.managers);
        }
    }
    int status = mg_state_apply(capture->torch.entry_state);
    mg_reserve_close(reserve);
    mg_aside_end(&aside);
    return status;
}

int
mg_rules_check_managers(MgCapture *capture)
{
    if (capture->torch.muted > 0) {
        return mg_capture_abort(capture, MG_REASON_STATE, "a context manager is entered and not left");
    }
    if (capture->torch.managers == NULL || PyList_GET_SIZE(capture->torch.managers) == 0) {
        return MG_OK;
    }
    return mg_capture_abort(capture, MG_REASON_STATE, "a context manager is entered and not left");
}

/* Sets the attributes in which a manager keeps what its __exit__ needs, in case the capture ends before that. */
static int
note_state(MgCapture *capture, PyObject *manager, PyObject *notes, PyObject *args)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *attributes = PyObject_Call(notes, args, NULL);
    mg_aside_end(&aside);
    Py_ssize_t position = 0;
    PyObject *name, *value;
    int result = attributes == NULL ? MG_ERR : MG_OK;
    while (result == MG_OK && PyDict_Next(attributes, &position, &name, &value)) {
        result = mg_world_setattr(capture, manager, name, value);
    }
    Py_XDECREF(attributes);
    return result;
}

/* Leaves a context in any case; an exception that is set stays. */
static void
leave_manager(PyObject *exit, PyObject *context)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int reserve = 0;
    mg_reserve_use(&reserve);
    PyObject *left = PyObject_CallOneArg(exit, context);
    mg_reserve_close(reserve);
    Py_XDECREF(left);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

PyObject *
mg_call_enter(MgCapture *capture, PyObject *callable, PyObject *manager)
{
    PyObject *parts = PyDict_GetItemWithError(mg_rules.managers, callable);
    if (parts == NULL) {
        return PyErr_Occurred() ? NULL : mg_call_unknown(capture, callable);
    }
    PyObject *enter = PyTuple_GET_ITEM(parts, 0), *names = PyTuple_GET_ITEM(parts, 2);
    PyObject *args = PyTuple_New(PyTuple_GET_SIZE(names)), *context = NULL, *item = NULL;
    for (Py_ssize_t i = 0; args != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *value = mg_world_getattr(capture, manager, PyTuple_GET_ITEM(names, i));
        if (value == NULL) {
            Py_CLEAR(args);
            break;
        }
        PyTuple_SET_ITEM(args, i, value);
    }
    if (args != NULL && note_state(capture, manager, PyTuple_GET_ITEM(parts, 3), args) < 0) {
        Py_CLEAR(args);
    }
    if (args != NULL) {
        MgAside aside;
        mg_aside_begin(&aside);
        context = PyObject_Call(enter, args, NULL);
        mg_aside_end(&aside);
        Py_CLEAR(capture->torch.state);
    }
    PyObject *shown = context == NULL                           ? NULL
                      : mg_outside_of(capture, manager) != NULL ? Py_NewRef(args)
                                                                : PyObject_CallOneArg(PyTuple_GET_ITEM(parts, 4), args);
    int node = shown == NULL ? -1 : mg_record_enter(capture, enter, shown);
    if (context != NULL && capture->torch.managers == NULL) {
        capture->torch.managers = PyList_New(0);
    }
    if (node >= 0 && capture->torch.managers != NULL) {
        item = Py_BuildValue("(OOiO)", manager, context, node, PyTuple_GET_ITEM(parts, 1));
    }
    int result = item == NULL ? MG_ERR : PyList_Append(capture->torch.managers, item);
    if (result < 0 && context != NULL) { /* nobody knows that it was entered */
        leave_manager(PyTuple_GET_ITEM(parts, 1), context);
    }
    Py_XDECREF(item);
    Py_XDECREF(context);
    Py_XDECREF(args);
    return result < 0 ? NULL : Py_NewRef(manager);
}

PyObject *
mg_call_exit(MgCapture *capture, PyObject *manager)
{
    Py_ssize_t last = capture->torch.managers == NULL ? -1 : PyList_GET_SIZE(capture->torch.managers) - 1;
    PyObject *item = last < 0 ? NULL : PyList_GET_ITEM(capture->torch.managers, last);
    if (item == NULL || PyTuple_GET_ITEM(item, 0) != manager) {
        mg_capture_abort(capture, MG_REASON_STATE, "a context manager is left that was not entered last");
        return NULL;
    }
    Py_INCREF(item);
    PyObject *exit = PyTuple_GET_ITEM(item, 3);
    PyObject *context = PyTuple_GET_ITEM(item, 1);
    PyObject *result = mg_aside_call(exit, &context, 1);
    Py_CLEAR(capture->torch.state);
    int reserve = 0;
    if (result != NULL && PyList_SetSlice(capture->torch.managers, last, last + 1, NULL) < 0 &&
        (!mg_reserve_open(&reserve) || PyList_SetSlice(capture->torch.managers, last, last + 1, NULL) < 0)) {
        Py_CLEAR(result);
    }
    mg_reserve_close(reserve);
    if (result == NULL || mg_record_exit(capture, exit, (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 2))) < 0) {
        Py_CLEAR(result);
    }
    Py_DECREF(item);
    Py_XDECREF(result);
    return result == NULL ? NULL : Py_NewRef(Py_None);
}
