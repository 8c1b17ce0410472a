/* Misses: what Python is told of a call that fits no entry. */
#include "api/miss.h"

/* Entries of which is told why they don't fit, the newest first: what a miss costs must not grow with their number. */
#define MOST_TOLD 16

/* Why none of a tuple of entries fits, as a list of texts. New. */
static PyObject *
explain_miss(PyObject *entries, PyObject *const *arguments)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < PyTuple_GET_SIZE(entries); i++) {
        MgEntry *entry = (MgEntry *)PyTuple_GET_ITEM(entries, i);
        PyObject *text = mg_guard_explain(&entry->guards, arguments);
        if (text == NULL && !PyErr_Occurred()) {
            text = entry->check == NULL ? NULL : PyObject_GetAttrString(entry->check, "text");
            if (text == NULL) {
                PyErr_Clear();
                text = PyUnicode_FromString("the backend's guard on its inputs");
            }
        }
        if (text == NULL || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    return list;
}

/* A tuple of entries, since texts may run any code; and why none of them fits. MG_OK, or MG_ERR with neither. */
static int
explain_all(MgEntry **entries, int count, PyObject *const *arguments, PyObject **tried, PyObject **texts)
{
    *tried = PyTuple_New(count);
    for (int i = 0; *tried != NULL && i < count; i++) {
        PyTuple_SET_ITEM(*tried, i, Py_NewRef((PyObject *)entries[i]));
    }
    *texts = *tried == NULL ? NULL : explain_miss(*tried, arguments);
    if (*texts == NULL) {
        Py_CLEAR(*tried);
        return MG_ERR;
    }
    return MG_OK;
}

int
mg_miss_tell(MgCompiled *self, MgEntry **entries, int count, PyObject *const *arguments, int limit)
{
    if (self->missed == Py_None || count == 0) {
        return 0;
    }
    PyObject *tried, *texts;
    if (explain_all(entries, limit > 0 || count < MOST_TOLD ? count : MOST_TOLD, arguments, &tried, &texts) < 0) {
        return -1;
    }
    PyObject *told = PyObject_CallFunction(self->missed, "OOO", texts, limit > 0 ? Py_True : Py_False, tried);
    Py_DECREF(texts);
    Py_DECREF(tried);
    int result = told == NULL ? -1 : PyObject_IsTrue(told);
    Py_XDECREF(told);
    return result;
}

void
mg_miss_refuse(MgCompiled *self, MgEntry **entries, int count, PyObject *const *arguments, MgStance stance,
               PyCodeObject *code)
{
    PyObject *tried, *texts;
    if (explain_all(entries, count, arguments, &tried, &texts) < 0) {
        return;
    }
    PyObject *name =
        PyUnicode_FromString(stance == MG_STANCE_SKIP_GUARDS ? "skip_guard_eval_unsafe" : "fail_on_recompile");
    if (name != NULL && self->missed != Py_None) { /* raises */
        PyObject *told = PyObject_CallFunction(self->missed, "OOOOO", texts, Py_False, tried, name, (PyObject *)code);
        Py_XDECREF(told);
    }
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "Detected recompile when the stance is '%U'", name);
    }
    Py_XDECREF(name);
    Py_DECREF(texts);
    Py_DECREF(tried);
}
