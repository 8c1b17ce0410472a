/* Callables that captured code hands to C code, such as a key function: their calls come back to the rules.
 *
 * `map(getattr, objects, names)` would read attributes behind the world's back. So C functions that call others get a
 * wrapper in place of every callable but a Python function, whose frame is captured anyway. */
#include "policy/callback.h"

#include "capture/callee.h"
#include "cpython/shadow.h"
#include "policy/rules.h"
#include "torch/kinds.h"
#include "world/world.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *callable; /* strong */
} Route;

static PyObject *
route_call(Route *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    MgCapture *capture = mg_capture_current;
    if (capture == NULL || capture->suspended > 0) {
        return PyObject_Vectorcall(self->callable, args, nargsf, kwnames);
    }
    if (mg_capture_check(capture) < 0) {
        return NULL;
    }
    Py_ssize_t count = PyVectorcall_NARGS(nargsf), total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject **views = PyMem_Calloc((size_t)total + 2, sizeof(PyObject *));
    if (views == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = NULL;
    Py_ssize_t ready = 0;
    for (; ready < total; ready++) { /* C code has them out of containers */
        views[ready + 1] = mg_world_touch(capture, Py_NewRef(args[ready]));
        if (views[ready + 1] == NULL) {
            break;
        }
    }
    if (ready == total) {
        result =
            mg_rules_call(capture, self->callable, views + 1, (size_t)count | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    }
    for (Py_ssize_t i = 0; i < ready; i++) {
        Py_DECREF(views[i + 1]);
    }
    PyMem_Free(views);
    if (result != NULL) { /* it goes to C code */
        PyObject *exposed = mg_world_escape(capture, result);
        Py_DECREF(result);
        return exposed;
    }
    return NULL;
}

static int
route_traverse(Route *self, visitproc visit, void *arg)
{
    Py_VISIT(self->callable);
    return 0;
}

static int
route_clear(Route *self)
{
    Py_CLEAR(self->callable);
    return 0;
}

static void
route_dealloc(Route *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->callable);
    PyObject_GC_Del(self);
}

static PyTypeObject route_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Route",
    .tp_basicsize = sizeof(Route),
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)route_dealloc,
    .tp_traverse = (traverseproc)route_traverse,
    .tp_clear = (inquiry)route_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Route, vectorcall),
};

int
mg_callback_types_ready(void)
{
    return PyType_Ready(&route_type);
}

/* The name of a builtin function or class without that of its module. */
static const char *
short_name(PyObject *callable)
{
    const char *name = PyType_Check(callable)        ? ((PyTypeObject *)callable)->tp_name
                       : PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name
                       : Py_IS_TYPE(callable, &PyMethodDescr_Type)
                           ? ((PyMethodDescrObject *)callable)->d_method->ml_name
                           : "";
    const char *dot = strrchr(name, '.');
    return dot == NULL ? name : dot + 1;
}

static int
is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

int
mg_callback_position(PyObject *callable, Py_ssize_t count)
{
    static const char *const first[] = {"map",       "filter",      "starmap", "takewhile",
                                        "dropwhile", "filterfalse", "reduce",  "cmp_to_key"};
    static const char *const second[] = {"accumulate", "groupby"};
    const char *name = short_name(callable);
    if (strcmp(name, "sub") == 0 || strcmp(name, "subn") == 0) { /* of a pattern, which may be in front */
        int bound = PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) != NULL &&
                    !PyModule_Check(PyCFunction_GET_SELF(callable));
        return bound ? 0 : Py_IS_TYPE(callable, &PyMethodDescr_Type) ? 1 : -1;
    }
    if (is_one_of(name, first, Py_ARRAY_LENGTH(first)) || (count == 2 && strcmp(name, "iter") == 0)) {
        return 0;
    }
    return is_one_of(name, second, Py_ARRAY_LENGTH(second)) ? 1 : -1;
}

int
mg_callback_is_called(PyObject *callable, PyObject *name)
{
    static const char *const callers[] = {"sorted",      "sort",   "min",         "max",          "accumulate",
                                          "groupby",     "bisect", "bisect_left", "bisect_right", "insort",
                                          "insort_left", "sub",    "subn",        "cmp_to_key",   "insort_right"};
    static const char *const names[] = {"key", "func", "repl", "mycmp"};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            return is_one_of(short_name(callable), callers, Py_ARRAY_LENGTH(callers));
        }
    }
    return 0;
}

Py_ssize_t
mg_callback_factory(PyObject *callable)
{
    if (PyType_Check(callable)) { /* a class may have an __init__ of its own, which comes to that of defaultdict */
        return ((PyTypeObject *)callable)->tp_init == mg_defaultdict_type->tp_init ? 0 : -1;
    }
    return Py_IS_TYPE(callable, &PyWrapperDescr_Type) && PyDescr_TYPE(callable) == mg_defaultdict_type &&
                   PyUnicode_CompareWithASCIIString(PyDescr_NAME(callable), "__init__") == 0
               ? 1
               : -1;
}

/* One attribute, by a dotted name. New. */
static PyObject *
get_dotted(MgCapture *capture, PyObject *object, PyObject *path)
{
    PyObject *dot = PyUnicode_FromString(".");
    PyObject *parts = dot == NULL ? NULL : PyUnicode_Split(path, dot, -1);
    Py_XDECREF(dot);
    PyObject *result = parts == NULL ? NULL : Py_NewRef(object);
    for (Py_ssize_t i = 0; result != NULL && i < PyList_GET_SIZE(parts); i++) {
        PyObject *name = Py_NewRef(PyList_GET_ITEM(parts, i));
        PyUnicode_InternInPlace(&name);
        Py_SETREF(result, mg_world_getattr(capture, result, name));
        Py_DECREF(name);
    }
    Py_XDECREF(parts);
    return result;
}

/* Calls the method that a methodcaller names. New. */
static PyObject *
call_named(MgCapture *capture, PyObject *object, PyObject *arguments)
{
    PyObject *method = get_dotted(capture, object, PyTuple_GET_ITEM(arguments, 0));
    PyObject *rest = method == NULL ? NULL : PyTuple_GetSlice(arguments, 1, PyTuple_GET_SIZE(arguments));
    PyObject *result = rest == NULL ? NULL : mg_rules_call_tuple(capture, method, rest, NULL);
    Py_XDECREF(method);
    Py_XDECREF(rest);
    return result;
}

int
mg_callback_getter(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject **result)
{
    PyTypeObject *type = Py_TYPE(callable);
    int attribute = type == mg_kinds.attrgetter, method = type == mg_kinds.methodcaller;
    *result = NULL;
    if (!mg_is_getter(type) || count != 1) {
        return 0;
    }
    PyObject *reduced = PyObject_CallMethod(callable, "__reduce__", NULL);
    if (reduced == NULL) {
        return 1;
    }
    PyObject *keys = PyTuple_GET_SIZE(reduced) > 1 ? PyTuple_GET_ITEM(reduced, 1) : NULL;
    if (keys == NULL || !PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) == 0 ||
        PyTuple_GET_ITEM(reduced, 0) != (PyObject *)Py_TYPE(callable)) { /* a methodcaller with keywords */
        mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    }
    else if (method) {
        *result = call_named(capture, args[0], keys);
    }
    else {
        Py_ssize_t size = PyTuple_GET_SIZE(keys);
        PyObject *values = PyTuple_New(size);
        for (Py_ssize_t i = 0; values != NULL && i < size; i++) {
            PyObject *key = PyTuple_GET_ITEM(keys, i);
            PyObject *value = attribute ? get_dotted(capture, args[0], key) : mg_world_getitem(capture, args[0], key);
            PyObject *exposed = value == NULL ? NULL : size == 1 ? Py_NewRef(value) : mg_world_escape(capture, value);
            Py_XDECREF(value);
            if (exposed == NULL) {
                Py_CLEAR(values);
                break;
            }
            PyTuple_SET_ITEM(values, i, exposed);
        }
        *result = values == NULL ? NULL : size == 1 ? Py_NewRef(PyTuple_GET_ITEM(values, 0)) : Py_NewRef(values);
        Py_XDECREF(values);
    }
    Py_DECREF(reduced);
    return 1;
}

PyObject *
mg_callback_wrap(PyObject *argument)
{
    if (argument == NULL || argument == Py_None || PyFunction_Check(argument) || mg_is_twin(argument) ||
        !PyCallable_Check(argument) || Py_IS_TYPE(argument, mg_kinds.key_wrapper) ||
        argument == (PyObject *)&PyLong_Type || argument == (PyObject *)&PyFloat_Type ||
        argument == (PyObject *)&PyBool_Type || Py_IS_TYPE(argument, &route_type) ||
        (!PyCFunction_Check(argument) && !PyType_Check(argument) && Py_TYPE(argument)->tp_iter != NULL)) {
        return argument;
    }
    Route *route = PyObject_GC_New(Route, &route_type);
    if (route == NULL) {
        Py_DECREF(argument);
        return NULL;
    }
    route->vectorcall = (vectorcallfunc)route_call;
    route->callable = argument;
    PyObject_GC_Track(route);
    return (PyObject *)route;
}
