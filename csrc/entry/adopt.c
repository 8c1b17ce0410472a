/* What was compiled in the background takes the place of an entry's replay, while the entry is in use.
 *
 * The entry has been replayed so far, and other threads may replay it just now: nothing that a replay reads changes. What
 * compiles is called with the inputs of a call whose guards hold, so torch's state is that of the capture. */
#include "entry/adopt.h"

int
mg_entry_adopt(MgEntry *entry, const MgRegisters *registers)
{
    PyObject *pending = entry->pending, *result = NULL; /* taken: other threads go on with the replay */
    entry->pending = NULL;
    PyObject *inputs = mg_entry_input_tuple(entry, registers);
    if (inputs != NULL) {
        result = PyObject_CallFunctionObjArgs(pending, (PyObject *)entry, inputs, NULL);
        Py_DECREF(inputs);
    }
    Py_DECREF(pending);
    if (result == NULL || result == Py_None || entry->compiled != NULL) {
        Py_XDECREF(result);
        return result == NULL ? -1 : 0;
    }
    if (PyTuple_Check(result) && PyTuple_GET_SIZE(result) == 2) {
        Py_XSETREF(entry->check, Py_NewRef(PyTuple_GET_ITEM(result, 1)));
        entry->compiled = Py_NewRef(PyTuple_GET_ITEM(result, 0));
        Py_DECREF(result);
    }
    else {
        entry->compiled = result;
    }
    return 1;
}

PyObject *
mg_entry_hold_inputs(MgEntry *self, PyObject *inputs)
{
    mg_entry_forget_inputs(self);
    if (inputs == Py_None) {
        Py_RETURN_NONE;
    }
    if (!PyTuple_Check(inputs) || PyTuple_GET_SIZE(inputs) != self->input_count) {
        PyErr_SetString(PyExc_ValueError, "these are not the inputs of the graph");
        return NULL;
    }
    for (int i = 0; i < self->input_count; i++) {
        MgNode *node = &self->nodes[self->input_nodes[i]];
        if (Py_IS_TYPE(node->value, &MgMeta_Type)) {
            Py_XSETREF(node->real, Py_NewRef(PyTuple_GET_ITEM(inputs, i)));
        }
    }
    Py_RETURN_NONE;
}
