/* Control: what users say about functions (disabled, forbidden, constant, ...) and about breaks.
 *
 * They say it by attributes of a function, which torch.compiler's decorators set and magneto's own set too; by sets of ids
 * that torch._dynamo keeps; and by module names, on which `judge` in magneto/_rules.py has the last word.
 * Nothing here imports torch._dynamo: what is not loaded has not been used. */
#include "policy/control.h"

#include "capture/callee.h"
#include "capture/outside.h"
#include "cpython/aside.h"
#include "ir/source.h"
#include "torch/kinds.h"

int mg_control_overriding;

enum { MOST_MODULES = 10000 };
enum { OWN_REFUSED = 3 }; /* graph_break, skip_frame and step_unsupported of torch._dynamo are refused from the start */

static struct {
    PyObject *judge;    /* strong: (name of a module) -> "inline", "skip" or "transform" */
    PyObject *modules;  /* strong: names of modules -> marks, as ints */
    PyObject *flags;    /* strong: list of (dict, key) of the flags that make breaks errors */
    PyObject *refresh;  /* strong: looks for what was said through torch._dynamo */
    PyObject *look;     /* strong: (limit of a callable, is it a call?) -> how many entries it may have now */
    PyObject *replaced; /* strong: callables -> functions that are called in their place */
    PyObject *ignored;  /* strong: set of functions and methods whose calls are left out where they would be breaks */
    PyObject *scripted; /* strong: the class of functions that torch.jit.script has made of others */
    PyObject *rules;    /* strong: the dict of torch._dynamo.trace_rules, or NULL while it is not loaded */
    PyObject *allowed;  /* strong: sets of ids, or NULL if they are empty; the same for the next two */
    PyObject *refused;
    PyObject *leaves;
} control;

/* ---- tables ---- */

int
mg_control_configure(PyObject *tables)
{
    const struct {
        const char *name;
        PyObject **slot;
    } wanted[] = {{"judge", &control.judge},       {"flags", &control.flags},       {"refresh", &control.refresh},
                  {"replaced", &control.replaced}, {"scripted", &control.scripted}, {"ignored", &control.ignored},
                  {"look", &control.look}};
    int changed = 0;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        PyObject *value = mg_dict_take(tables, wanted[i].name);
        if (value != NULL) {
            Py_XSETREF(*wanted[i].slot, Py_NewRef(value));
            changed = changed || i == 0;
        }
    }
    if (changed || control.modules == NULL) { /* a new judge: nothing of what the old one said holds */
        PyObject *modules = PyDict_New();
        if (modules == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(control.modules, modules);
    }
    return MG_OK;
}

/* Puts a set of ids that torch._dynamo.trace_rules keeps into a slot, if there is anything in it. MG_OK or MG_ERR. */
static int
find_ids(const char *name, PyObject **slot)
{
    PyObject *keeper = mg_dict_get(control.rules, name);
    PyObject *ids = keeper == NULL ? NULL : PyObject_GetAttr(keeper, MG_STRING("function_ids"));
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return MG_ERR;
    }
    PyErr_Clear();
    if (ids != NULL && (!PySet_Check(ids) || PySet_GET_SIZE(ids) == 0)) {
        Py_CLEAR(ids);
    }
    Py_XSETREF(*slot, ids);
    return MG_OK;
}

/* The dict of a module that is loaded already. Borrowed; NULL without an exception if it is not. */
static PyObject *
find_module(const char *name)
{
    PyObject *module = mg_dict_get(PyImport_GetModuleDict(), name);
    return module == NULL || !PyModule_Check(module) ? NULL : PyModule_GetDict(module);
}

/* Adds torch's own flag for breaks that are errors, once there is one. An exception is left set. */
static void
find_flag(void)
{
    PyObject *dict = find_module("torch._dynamo.utils");
    if (control.flags == NULL || dict == NULL ||
        PyDict_GetItemWithError(dict, MG_STRING("_error_on_graph_break")) == NULL) {
        return;
    }
    PyObject *pair = Py_BuildValue("(Os)", dict, "_error_on_graph_break");
    if (pair != NULL) {
        (void)PyList_Append(control.flags, pair);
    }
    Py_XDECREF(pair);
}

/* Finds out whether there is anything that goes before the rules. */
static void
override(void)
{
    mg_control_overriding = (control.refused != NULL && PySet_GET_SIZE(control.refused) > OWN_REFUSED) ||
                            (control.replaced != NULL && PyDict_GET_SIZE(control.replaced) > 0);
}

int
mg_control_begin(void)
{
    if (control.refresh != NULL) {
        PyObject *result = mg_aside_ask(control.refresh, NULL, 0);
        if (result == NULL && (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))) {
            return MG_ERR; /* an interrupt is its caller's */
        }
        mg_error_clear();
        Py_XDECREF(result);
    }
    override();
    if (control.rules == NULL) {
        control.rules = Py_XNewRef(find_module("torch._dynamo.trace_rules"));
        if (control.rules == NULL) {
            return PyErr_Occurred() ? MG_ERR : MG_OK;
        }
    }
    if (control.flags != NULL && PyList_GET_SIZE(control.flags) < 2) {
        find_flag();
    }
    if (PyErr_Occurred() || find_ids("_allowed_callable_ids", &control.allowed) < 0 ||
        find_ids("_disallowed_callable_ids", &control.refused) < 0 ||
        find_ids("_leaf_function_ids", &control.leaves) < 0) {
        return MG_ERR;
    }
    override();
    return MG_OK;
}

int
mg_control_limit(int own, int is_call)
{
    if (control.look == NULL) {
        return own;
    }
    PyObject *given = PyLong_FromLong(own);
    PyObject *arguments[] = {given, is_call ? Py_True : Py_False};
    PyObject *limit = given == NULL ? NULL : mg_aside_ask(control.look, arguments, 2);
    int result = limit == NULL || limit == Py_None ? -1 : _PyLong_AsInt(limit);
    Py_XDECREF(given);
    Py_XDECREF(limit);
    return PyErr_Occurred() ? -2 : result;
}

/* 1 if a set has the id of an object. */
static int
has_id(PyObject *ids, PyObject *object)
{
    if (ids == NULL) {
        return 0;
    }
    PyObject *id = PyLong_FromVoidPtr(object);
    int found = id == NULL ? -1 : PySet_Contains(ids, id);
    Py_XDECREF(id);
    if (found < 0) {
        mg_error_clear();
    }
    return found > 0;
}

MgMark
mg_control_override(PyObject *callable, PyObject **other)
{
    if (control.replaced != NULL && mg_kinds_is_quiet(callable)) {
        *other = PyDict_GetItemWithError(control.replaced, callable);
        if (*other != NULL) {
            return MG_MARK_REPLACED;
        }
        mg_error_clear();
    }
    return has_id(control.refused, callable) ? MG_MARK_SKIPPED : MG_MARK_NONE;
}

int
mg_control_ignores(PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    if (control.ignored == NULL || PySet_GET_SIZE(control.ignored) == 0) {
        return 0;
    }
    int found = mg_kinds_is_quiet(callable) ? PySet_Contains(control.ignored, callable) : 0;
    if (found == 0 && count > 0 && PyFunction_Check(callable)) { /* logger.info, of one logger only */
        PyObject *method = PyMethod_New(callable, args[0]);
        found = method == NULL ? -1 : PySet_Contains(control.ignored, method);
        Py_XDECREF(method);
    }
    return found;
}

/* ---- marks ---- */

/* 1 if this function is itself the wrapper that its attributes speak of, and no copy of them. */
static int
is_own_wrapper(PyObject *function, PyObject *dict)
{
    PyObject *id;
    return mg_callee_says(dict, MG_STRING("_torchdynamo_wrapper_id"), &id) && PyLong_Check(id) &&
           PyLong_AsVoidPtr(id) == (void *)function;
}

PyObject *
mg_control_spared(PyFunctionObject *function)
{
    PyObject *dict = function->func_dict, *inner = NULL;
    PyObject *recursive =
        dict == NULL ? NULL : PyDict_GetItemWithError(dict, MG_STRING("_torchdynamo_disable_recursive"));
    if (recursive != Py_False) {
        mg_error_clear();
        return NULL;
    }
    if (!is_own_wrapper((PyObject *)function, dict) ||
        !mg_callee_says(dict, MG_STRING("_torchdynamo_orig_callable"), &inner)) {
        return function->func_code;
    }
    inner = PyMethod_Check(inner) ? PyMethod_GET_FUNCTION(inner) : inner;
    return PyFunction_Check(inner) ? ((PyFunctionObject *)inner)->func_code : function->func_code;
}

/* What the attributes of a function say. */
static MgMark
mark_of_attributes(PyObject *function, PyObject *dict, PyObject **other)
{
    if (mg_callee_says(dict, MG_STRING("_torchdynamo_disable"), NULL)) {
        return MG_MARK_DISABLED;
    }
    if (mg_callee_says(dict, MG_STRING("_dynamo_forbidden"), NULL)) {
        return MG_MARK_FORBIDDEN;
    }
    if (mg_callee_says(dict, MG_STRING("_dynamo_marked_constant"), NULL)) {
        return MG_MARK_CONSTANT;
    }
    PyObject *rule, *name, *id;
    if (mg_callee_says(dict, MG_STRING("_magneto_rule"), &rule) && PyArg_ParseTuple(rule, "UO", &name, &id) &&
        PyLong_Check(id) && PyLong_AsVoidPtr(id) == (void *)function) {
        return PyUnicode_CompareWithASCIIString(name, "record") == 0 ? MG_MARK_RECORDED : MG_MARK_SKIPPED;
    }
    mg_error_clear();
    if (mg_callee_says(dict, MG_STRING("__torch_dynamo_polyfill__"), other)) {
        return MG_MARK_REPLACED;
    }
    if (mg_callee_says(dict, MG_STRING("_torchdynamo_inline"), other) && is_own_wrapper(function, dict)) {
        return MG_MARK_REPLACED; /* what torch.compile gave */
    }
    return MG_MARK_NONE;
}

MgMark
mg_control_said(PyObject *function, PyObject **other)
{
    PyObject *dict = ((PyFunctionObject *)function)->func_dict;
    *other = NULL;
    return dict == NULL || PyDict_GET_SIZE(dict) == 0 ? MG_MARK_NONE : mark_of_attributes(function, dict, other);
}

/* What is to become of functions of a module; the judge is asked once for each name. -1 with an exception. */
static int
mark_of_module(PyObject *name)
{
    if (name == NULL || !PyUnicode_CheckExact(name) || control.judge == NULL) {
        return MG_MARK_NONE;
    }
    PyObject *known = PyDict_GetItemWithError(control.modules, name);
    if (known != NULL) {
        return (int)PyLong_AsLong(known);
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    PyObject *verdict = mg_aside_ask(control.judge, &name, 1);
    const char *text = verdict != NULL && PyUnicode_Check(verdict) ? PyUnicode_AsUTF8(verdict) : NULL;
    int mark = text == NULL                     ? -1
               : strcmp(text, "skip") == 0      ? MG_MARK_SKIPPED
               : strcmp(text, "transform") == 0 ? MG_MARK_TRANSFORM
                                                : MG_MARK_NONE;
    Py_XDECREF(verdict);
    known = mark < 0 ? NULL : PyLong_FromLong(mark);
    if (PyDict_GET_SIZE(control.modules) >= MOST_MODULES) { /* modules of many names are made */
        PyDict_Clear(control.modules);
    }
    if (known == NULL || PyDict_SetItem(control.modules, name, known) < 0) {
        mark = -1;
    }
    Py_XDECREF(known);
    return mark;
}

int
mg_control_mark(PyObject *callable, PyObject **other)
{
    *other = NULL;
    if (MG_UNLIKELY(control.allowed != NULL) && has_id(control.allowed, callable)) {
        return has_id(control.leaves, callable) ? MG_MARK_SKIPPED : MG_MARK_RECORDED;
    }
    if (PyFunction_Check(callable)) {
        MgMark mark = mg_control_said(callable, other);
        if (mark != MG_MARK_NONE) {
            return mark;
        }
        PyObject *name = PyDict_GetItemWithError(((PyFunctionObject *)callable)->func_globals, MG_STRING("__name__"));
        return name == NULL && PyErr_Occurred() ? -1 : mark_of_module(name);
    }
    if ((PyObject *)Py_TYPE(callable) == control.scripted) { /* the function it was made of */
        PyObject **dict = _PyObject_GetDictPtr(callable);
        int found = dict != NULL && *dict != NULL && mg_callee_says(*dict, MG_STRING("_torchdynamo_inline"), other);
        return found ? MG_MARK_SCRIPTED : MG_MARK_NONE;
    }
    if (PyType_Check(callable) && ((PyTypeObject *)callable)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        PyTypeObject *type = (PyTypeObject *)callable;
        if (_PyType_Lookup(type, MG_STRING("_dynamo_forbidden")) == Py_True) {
            return MG_MARK_FORBIDDEN;
        }
        PyObject *const names[] = {MG_STRING("__init__"), MG_STRING("__new__")};
        for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
            PyObject *method = _PyType_Lookup(type, names[i]);
            if (method != NULL && PyFunction_Check(method) && mg_callee_is_disabled((PyFunctionObject *)method)) {
                return MG_MARK_DISABLED;
            }
        }
        if (PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException)) {
            return MG_MARK_NONE;
        }
        PyObject *name = PyDict_GetItemWithError(type->tp_dict, MG_STRING("__module__"));
        int mark = name == NULL && PyErr_Occurred() ? -1 : mark_of_module(name);
        return mark != MG_MARK_TRANSFORM ? mark : MG_MARK_NONE;
    }
    return MG_MARK_NONE;
}

/* ---- breaks that are errors ---- */

/* What captured code sees at dict[key]; what it has not written is guarded. Borrowed; NULL, without an exception if there
 * is nothing. */
static PyObject *
read_flag(MgCapture *capture, PyObject *dict, PyObject *key)
{
    MgOutside *record = mg_outside_of(capture, dict);
    PyObject *held = record == NULL || record->held == NULL ? NULL : PyDict_GetItemWithError(record->held, key);
    if (held != NULL || PyErr_Occurred()) {
        return held == mg_capture_deleted ? NULL : held;
    }
    PyObject *value = PyDict_GetItemWithError(dict, key);
    if (value != NULL) {
        MgSource *base = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, dict, 0);
        MgSource *source =
            base == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_DICT_ITEM, base, key, 0);
        if (source == NULL || mg_capture_guard(capture, MG_GUARD_IDENTITY, source, value) < 0) {
            return NULL;
        }
    }
    return value;
}

int
mg_control_error_on_break(MgCapture *capture)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback); /* that of the abort */
    int strict = 0;
    for (Py_ssize_t i = 0; control.flags != NULL && i < PyList_GET_SIZE(control.flags); i++) {
        PyObject *pair = PyList_GET_ITEM(control.flags, i);
        PyObject *value = read_flag(capture, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        strict = strict || value == Py_True;
        if (PyErr_Occurred()) {
            Py_XDECREF(type);
            Py_XDECREF(error);
            Py_XDECREF(traceback);
            return -1;
        }
    }
    PyErr_Restore(type, error, traceback);
    return strict;
}

PyObject *
mg_control_set_error_on_break(PyObject *value)
{
    if (control.flags != NULL && PyList_GET_SIZE(control.flags) < 2) {
        find_flag();
        mg_error_clear();
    }
    Py_ssize_t count = control.flags == NULL ? 0 : PyList_GET_SIZE(control.flags);
    PyObject *pair = count == 0 ? NULL : PyList_GET_ITEM(control.flags, count - 1); /* torch's comes last */
    PyObject *before = pair == NULL ? NULL : PyDict_GetItem(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    Py_XINCREF(before);
    if (before != NULL && PyDict_SetItem(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), value) < 0) {
        mg_error_clear();
        Py_CLEAR(before);
    }
    return before;
}
