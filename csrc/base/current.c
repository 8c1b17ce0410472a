/* The capture of this thread, as far as every floor may know it. */
#include "base/current.h"

__thread MgCaptureHead *mg_current __attribute__((tls_model("initial-exec")));
__thread PyObject *mg_watcher __attribute__((tls_model("initial-exec")));
PyObject *mg_abort_exception;

void
mg_error_clear(void)
{
    MgCaptureHead *capture = mg_current;
    if (capture == NULL || capture->reason != 0 || !PyErr_Occurred() ||
        PyErr_ExceptionMatches(mg_abort_exception)) { /* the last one is that of another capture, on trial */
        PyErr_Clear();
        return;
    }
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
        capture->starved = 1;
    }
    else if (!PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_GeneratorExit) &&
             capture->interrupt == NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        Py_XSETREF(capture->interrupt, Py_XNewRef(value));
        capture->starved = 1;
        PyErr_Restore(type, value, traceback);
    }
    PyErr_Clear();
}
