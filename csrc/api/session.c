/* Sessions: what Python is told before and after all that is done to capture and compile a frame.
 *
 * Between the two, on the same thread, come the other calls of this callable's observers: why no entry fits, why a capture
 * stopped, what was captured; and the backend. Sessions nest: a backend may call what is compiled. */
#include "api/session.h"

int
mg_session_begin(MgCompiled *self, PyCodeObject *code, int offset)
{
    if (self->started == Py_None) {
        return MG_OK;
    }
    PyObject *told = PyObject_CallFunction(self->started, "Oi", (PyObject *)code, offset);
    Py_XDECREF(told);
    return told == NULL ? MG_ERR : MG_OK;
}

void
mg_session_end(MgCompiled *self, MgEntry **entry)
{
    if (self->ended == Py_None) {
        return;
    }
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    if (type != NULL) {
        PyErr_NormalizeException(&type, &error, &traceback);
    }
    PyObject *told = PyObject_CallFunction(self->ended, "OO", *entry == NULL ? Py_None : (PyObject *)*entry,
                                           error == NULL ? Py_None : error);
    if (type != NULL) {
        PyErr_Restore(type, error, traceback); /* clears any other */
    }
    else if (told == NULL) {
        Py_CLEAR(*entry);
    }
    Py_XDECREF(told);
}
