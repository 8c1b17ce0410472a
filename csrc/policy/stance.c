/* Stances: what is done about captures at all, as magneto.set_stance and torch.compiler.set_stance say.
 *
 * torch keeps its stance in a global of torch._dynamo.eval_frame. As nothing here imports that, the dict that is watched is
 * that of all modules until it is loaded, and that of the module from then on: a call costs one comparison. */
#include "policy/stance.h"

#include "cpython/watch.h"

MgStance mg_stance_current;
PyDictObject *mg_stance_watched;
uint64_t mg_stance_version;

static MgStance own;     /* magneto's */
static PyObject *forced; /* strong: (compiled callable) -> the one to call under force_backend */

void
mg_stance_configure(PyObject *tables)
{
    PyObject *value = mg_dict_take(tables, "forced");
    if (value != NULL) {
        Py_XSETREF(forced, Py_NewRef(value));
    }
}

/* What torch's object says; `known` becomes 0 if there was no memory to ask it. */
static MgStance
stance_of(PyObject *stance, int *known)
{
    static const char *const names[] = {"default",           "force_eager",        "eager_on_recompile",
                                        "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"};
    PyObject *name = PyObject_GetAttr(stance, MG_STRING("stance"));
    PyObject *backend = name == NULL ? NULL : PyObject_GetAttr(stance, MG_STRING("backend"));
    PyObject *skip = backend == NULL ? NULL : PyObject_GetAttr(stance, MG_STRING("skip_guard_eval_unsafe"));
    MgStance result = MG_STANCE_INVALID;
    for (size_t i = 0; name != NULL && PyUnicode_Check(name) && i < Py_ARRAY_LENGTH(names); i++) {
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            result = (MgStance)i;
        }
    }
    if (result == MG_STANCE_DEFAULT && backend != NULL && backend != Py_None) {
        result = MG_STANCE_FORCE_BACKEND;
    }
    else if (result == MG_STANCE_DEFAULT && skip == Py_True) {
        result = MG_STANCE_SKIP_GUARDS;
    }
    Py_XDECREF(name);
    Py_XDECREF(backend);
    Py_XDECREF(skip);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        *known = 0;
        result = MG_STANCE_FORCE_EAGER; /* that is right in any case */
    }
    mg_error_clear();
    return result;
}

void
mg_stance_refresh(void)
{
    static int found; /* the module of torch's stance, whose dict is watched then */
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyObject *modules = PyImport_GetModuleDict(), *stance = NULL;
    if (mg_stance_watched == NULL && PyDict_CheckExact(modules)) {
        mg_stance_watched = (PyDictObject *)Py_NewRef(modules);
    }
    if (!found) {
        PyObject *module = PyDict_GetItemWithError(modules, MG_STRING("torch._dynamo.eval_frame"));
        PyObject *dict = module == NULL || !PyModule_Check(module) ? NULL : PyModule_GetDict(module);
        if (dict != NULL && PyDict_GetItemWithError(dict, MG_STRING("_stance")) != NULL) {
            Py_XSETREF(mg_stance_watched, (PyDictObject *)Py_NewRef(dict));
            found = 1;
        }
    }
    if (mg_stance_watched != NULL) {
        mg_stance_version = mg_watch_dict((PyObject *)mg_stance_watched);
        stance = found ? PyDict_GetItemWithError((PyObject *)mg_stance_watched, MG_STRING("_stance")) : NULL;
    }
    Py_XINCREF(stance);
    int known = 1;
    MgStance theirs = stance == NULL ? MG_STANCE_DEFAULT : stance_of(stance, &known);
    mg_stance_version = known ? mg_stance_version : 0; /* of no dict: it is asked again */
    Py_XDECREF(stance);
    mg_stance_current = own != MG_STANCE_DEFAULT ? own : theirs;
    PyErr_Restore(type, error, traceback);
}

void
mg_stance_set(MgStance stance)
{
    own = stance;
    mg_stance_refresh();
}

PyObject *
mg_stance_forced(PyObject *compiled)
{
    return forced == NULL ? Py_NewRef(compiled) : PyObject_CallOneArg(forced, compiled);
}
