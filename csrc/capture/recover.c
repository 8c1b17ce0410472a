/* What must be right again after an interrupt or a fork.
 *
 * A signal handler may raise between any two instructions of Python code, so code in Python can't be relied on to put
 * things back. C code can: signals are served by interpreters only, between instructions.
 *
 * A fork copies only the thread that forks. Locks that other threads hold would never be free in the child; so the thread
 * that forks takes them first, which also means that nobody is in the middle of what they protect. It waits for a bounded
 * time, since whoever holds one may wait for it; a lock that it does not get by then is made anew in the child. */
#include "capture/recover.h"

#include "capture/origin.h"
#include "cpython/aside.h"

/* ---- interrupts ---- */

int
mg_recover_interrupt(MgCapture *capture)
{
    PyObject *type, *value, *traceback;
    mg_recover_frames();
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    if (value != NULL) {
        Py_XSETREF(capture->interrupt, value);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return mg_capture_abort(capture, MG_REASON_EXCEPTION, "raised by a signal handler");
}

/* 1 if a frame is to be emptied: `all` that are not the user's, or only those that enter or leave a context. */
static int
is_cleared(PyCodeObject *code, int all)
{
    return mg_origin_of(code) != MG_ORIGIN_USER &&
           (all || PyUnicode_CompareWithASCIIString(code->co_name, "__enter__") == 0 ||
            PyUnicode_CompareWithASCIIString(code->co_name, "__exit__") == 0);
}

enum { MOST_FRAMES = 512 };

/* Empties frames of a traceback, the innermost first, as they would have been left. */
static void
clear_traceback(PyObject *traceback, int all)
{
    PyFrameObject *frames[MOST_FRAMES];
    int count = 0;
    for (PyObject *at = traceback; at != NULL && PyTraceBack_Check(at) && count < MOST_FRAMES;
         at = (PyObject *)((PyTracebackObject *)at)->tb_next) {
        frames[count++] = (PyFrameObject *)Py_NewRef(((PyTracebackObject *)at)->tb_frame);
    }
    while (count-- > 0) {
        PyCodeObject *code = PyFrame_GetCode(frames[count]);
        if (is_cleared(code, all)) {
            Py_XDECREF(PyObject_CallMethod((PyObject *)frames[count], "clear", NULL));
            PyErr_Clear(); /* it is still being executed */
        }
        Py_DECREF(code);
        Py_DECREF(frames[count]);
    }
}

/* The same for an exception, and for those that it was raised from or while they were handled. No exception is set. */
static void
clear_exception(PyObject *value)
{
    PyObject *at = Py_XNewRef(value);
    for (int i = 0; at != NULL && i < 16; i++) {
        PyObject *traceback = PyException_GetTraceback(at);
        clear_traceback(traceback, !PyObject_TypeCheck(at, (PyTypeObject *)PyExc_Exception));
        Py_XDECREF(traceback);
        PyObject *cause = PyException_GetCause(at);
        Py_SETREF(at, cause != NULL ? cause : PyException_GetContext(at));
    }
    Py_XDECREF(at);
}

void
mg_recover_frames(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && PyExceptionInstance_Check(value)) {
        clear_traceback(traceback, !PyErr_GivenExceptionMatches(type, PyExc_Exception));
        clear_exception(value);
    }
    PyErr_Restore(type, value, traceback);
}

PyObject *
mg_recover_clear_frames(PyObject *module, PyObject *error)
{
    (void)module;
    if (!PyExceptionInstance_Check(error)) {
        PyErr_SetString(PyExc_TypeError, "an exception is needed");
        return NULL;
    }
    PyObject *traceback = PyException_GetTraceback(error);
    clear_traceback(traceback, 1);
    Py_XDECREF(traceback);
    clear_exception(error);
    Py_RETURN_NONE;
}

/* ---- locks and forks ---- */

static PyObject *kept_locks; /* strong: a list of threading.RLocks */

/* 1 if this thread holds a lock, 0 if not, -1 with an exception. */
static int
is_owned(PyObject *lock)
{
    PyObject *owned = PyObject_CallMethod(lock, "_is_owned", NULL);
    int result = owned == NULL ? -1 : PyObject_IsTrue(owned);
    Py_XDECREF(owned);
    return result;
}

static PyObject *
before_fork(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(kept_locks); i++) {
        PyObject *got = PyObject_CallMethod(PyList_GET_ITEM(kept_locks, i), "acquire", "id", 1, 10.0);
        if (got == NULL) { /* interrupted: the fork can't be stopped */
            PyErr_WriteUnraisable(NULL);
        }
        Py_XDECREF(got);
    }
    Py_RETURN_NONE;
}

/* Lets go of what before_fork took: had it not got a lock, this thread would not have it. */
static PyObject *
after_fork(PyObject *module, PyObject *is_child)
{
    (void)module;
    for (Py_ssize_t i = PyList_GET_SIZE(kept_locks); i-- > 0;) {
        PyObject *lock = PyList_GET_ITEM(kept_locks, i);
        int owned = is_owned(lock);
        PyObject *done = owned > 0                           ? PyObject_CallMethod(lock, "release", NULL)
                         : owned == 0 && is_child == Py_True ? PyObject_CallMethod(lock, "_at_fork_reinit", NULL)
                                                             : NULL;
        Py_XDECREF(done);
        if (PyErr_Occurred()) {
            PyErr_WriteUnraisable(lock);
        }
    }
    Py_RETURN_NONE;
}

static PyObject *
after_fork_in_parent(PyObject *module, PyObject *unused)
{
    (void)unused;
    return after_fork(module, Py_False);
}

static PyObject *
after_fork_in_child(PyObject *module, PyObject *unused)
{
    (void)unused;
    return after_fork(module, Py_True);
}

static PyMethodDef fork_functions[] = {
    {"before_fork", before_fork, METH_NOARGS, NULL},
    {"after_fork_in_parent", after_fork_in_parent, METH_NOARGS, NULL},
    {"after_fork_in_child", after_fork_in_child, METH_NOARGS, NULL},
};

/* Has CPython call the functions above. MG_OK or MG_ERR. */
static int
register_functions(void)
{
    PyObject *before = PyCFunction_New(&fork_functions[0], NULL);
    PyObject *parent = PyCFunction_New(&fork_functions[1], NULL);
    PyObject *child = PyCFunction_New(&fork_functions[2], NULL);
    PyObject *os = mg_aside_import("os");
    PyObject *function = os == NULL ? NULL : PyObject_GetAttrString(os, "register_at_fork");
    PyObject *none = PyTuple_New(0), *done = NULL;
    PyObject *names =
        before == NULL || parent == NULL || child == NULL
            ? NULL
            : Py_BuildValue("{sOsOsO}", "before", before, "after_in_parent", parent, "after_in_child", child);
    if (function != NULL && none != NULL && names != NULL) {
        done = PyObject_Call(function, none, names);
    }
    Py_XDECREF(before);
    Py_XDECREF(parent);
    Py_XDECREF(child);
    Py_XDECREF(os);
    Py_XDECREF(function);
    Py_XDECREF(none);
    Py_XDECREF(names);
    Py_XDECREF(done);
    return done == NULL ? MG_ERR : MG_OK;
}

PyObject *
mg_recover_keep_at_fork(PyObject *module, PyObject *lock)
{
    (void)module;
    if (kept_locks == NULL) {
        PyObject *locks = PyList_New(0);
        if (locks == NULL) {
            return NULL;
        }
        kept_locks = locks;
        if (register_functions() < 0) {
            Py_CLEAR(kept_locks);
            return NULL;
        }
    }
    int known = PySequence_Contains(kept_locks, lock);
    if (known < 0 || (known == 0 && PyList_Append(kept_locks, lock) < 0)) {
        return NULL;
    }
    Py_RETURN_NONE;
}
