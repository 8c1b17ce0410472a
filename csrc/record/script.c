/* Functions that torch.jit.script has compiled.
 *
 * Captured code calls the Python function that one was made of, as TorchDynamo does, where it does the same: with tensors
 * and plain numbers of the very types that the script declares, and code that reads nothing else (magneto/_scripts.py).
 * The interpreter of scripts raises other errors, copies lists, and has its own control flow. So whatever ends the capture in
 * there, an exception that leaves the function, and a result that a script returns otherwise end it before the call: the
 * script itself is called, as a whole. */
#include "record/script.h"

#include "capture/tracer.h"
#include "cpython/aside.h"
#include "ir/twin.h"

static PyObject *is_as_written; /* strong */

int
mg_script_configure(PyObject *tables)
{
    PyObject *function = mg_dict_take(tables, "is_as_written");
    if (function != NULL) {
        Py_XSETREF(is_as_written, Py_NewRef(function));
    }
    return MG_OK;
}

int
mg_script_fits(PyObject *script, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject *kinds = PyList_New(total), *names = kwnames == NULL ? PyTuple_New(0) : Py_NewRef(kwnames);
    for (Py_ssize_t i = 0; kinds != NULL && i < total; i++) {
        PyList_SET_ITEM(kinds, i, Py_NewRef((PyObject *)Py_TYPE(args[i])));
    }
    PyObject *arguments[] = {script, kinds, names};
    PyObject *answer = kinds == NULL || names == NULL || is_as_written == NULL
                           ? NULL
                           : mg_aside_call(is_as_written, arguments, Py_ARRAY_LENGTH(arguments));
    int fits = answer == NULL ? -1 : answer == Py_True;
    Py_XDECREF(answer);
    Py_XDECREF(kinds);
    Py_XDECREF(names);
    return fits;
}

/* 1 for what a script returns as Python does: tensors and numbers, and tuples of them. */
static int
is_plain_result(PyObject *result)
{
    PyTypeObject *type = Py_TYPE(result);
    if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++) {
            PyObject *item = PyTuple_GET_ITEM(result, i);
            if (Py_IS_TYPE(item, &PyTuple_Type) || !is_plain_result(item)) {
                return 0;
            }
        }
        return 1;
    }
    return mg_is_twin(result) || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           result == Py_None;
}

PyObject *
mg_script_call(MgCapture *capture, PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    capture->breaks.whole++;
    PyObject *result = mg_tracer.call(capture, function, args, nargsf, kwnames);
    capture->breaks.whole--;
    if (result == NULL ? capture->reason == MG_REASON_NONE : !is_plain_result(result)) {
        Py_CLEAR(result);
        mg_capture_abort(capture, MG_REASON_SKIPPED_CALL, "a script");
    }
    return result;
}
