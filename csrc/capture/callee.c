/* What a call that is not captured is called in reasons, and whether users have switched capture off for it. */
#include "capture/callee.h"

#include "cpython/aside.h"
#include "ir/text.h"

/* 1 if a dict of attributes has a true value under this name; borrowed in *value if it is asked for. */
int
mg_callee_says(PyObject *dict, PyObject *name, PyObject **value)
{
    PyObject *found = name == NULL ? NULL : PyDict_GetItemWithError(dict, name);
    if (found == NULL) {
        mg_error_clear();
        return 0;
    }
    if (value != NULL) {
        *value = found;
    }
    return value != NULL ? found != Py_None : found == Py_True;
}

int
mg_callee_is_disabled(PyFunctionObject *function)
{
    PyObject *dict = function->func_dict;
    return dict != NULL && PyDict_GET_SIZE(dict) > 0 && mg_callee_says(dict, MG_STRING("_torchdynamo_disable"), NULL);
}

/* An attribute of a callable, if reading it runs no code of the user's. New; NULL, with or without an exception. */
static PyObject *
plain_attribute(PyObject *callable, const char *name)
{
    PyTypeObject *type = Py_TYPE(callable);
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_Check(callable)) {
        PyObject *key = PyUnicode_FromString(name), *found = key == NULL ? NULL : _PyType_Lookup(type, key);
        int is_c = found != NULL && (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type));
        int plain = key != NULL && type->tp_getattro == PyObject_GenericGetAttr &&
                    (found == NULL || is_c || strcmp(name, "__module__") == 0);
        Py_XDECREF(key);
        if (!plain) {
            return NULL;
        }
    }
    return PyObject_GetAttrString(callable, name);
}

PyObject *
mg_callee_text(PyObject *callable)
{
    MgAside aside; /* what C code reads may be Python code */
    mg_aside_begin(&aside);
    PyObject *name = plain_attribute(callable, "__qualname__");
    if (name == NULL) {
        mg_error_clear();
        name = plain_attribute(callable, "__name__"); /* torch's operators have no other */
    }
    PyObject *module = name == NULL ? NULL : plain_attribute(callable, "__module__");
    PyObject *text = NULL, *reason = NULL;
    if (name != NULL && PyUnicode_Check(name) &&
        (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type))) {
        mg_error_clear();
        text = Py_NewRef(name);
    }
    else if (module == NULL || !PyUnicode_Check(name) || !PyUnicode_Check(module)) {
        mg_error_clear();
        text = mg_text_of(callable);
    }
    else {
        text = PyUnicode_FromFormat("%U.%U", module, name);
    }
    if (text != NULL && PyFunction_Check(callable) && ((PyFunctionObject *)callable)->func_dict != NULL &&
        mg_callee_says(((PyFunctionObject *)callable)->func_dict, MG_STRING("_torchdynamo_disable_msg"), &reason) &&
        PyUnicode_Check(reason)) {
        Py_SETREF(text, PyUnicode_FromFormat("%U (%U)", text, reason));
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    mg_aside_end(&aside);
    return text;
}

int
mg_callee_abort(MgCapture *capture, MgReason reason, PyObject *callable)
{
    PyObject *text = mg_callee_text(callable);
    int status = mg_capture_abort(capture, reason, text == NULL ? NULL : "%U", text);
    Py_XDECREF(text);
    return status;
}
