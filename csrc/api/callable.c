/* The type of compiled callables: what they hold and what Python sees of them. Entries belong to the callable and die with it. */
#include "api/callable.h"

#include "api/bind.h"
#include "api/parts.h"
#include "api/session.h"
#include "capture/varying.h"
#include "cpython/aside.h"
#include "entry/replay.h"
#include "policy/control.h"
#include "policy/stance.h"
#include "torch/layout.h"
#include "trace/deopt.h"
#include "trace/hook.h"
#include "base/vector.h"

#include <structmember.h>
#include <time.h>

int mg_callable_scalars, mg_callable_shapes;
int mg_callable_static = 1, mg_callable_automatic = 1;

static int
compiled_traverse(MgCompiled *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->former);
    Py_VISIT(self->code);
    Py_VISIT(self->compile);
    Py_VISIT(self->stopped);
    Py_VISIT(self->missed);
    Py_VISIT(self->captured);
    Py_VISIT(self->untold);
    Py_VISIT(self->owed);
    Py_VISIT(self->started);
    Py_VISIT(self->ended);
    Py_VISIT(self->filter);
    Py_VISIT(self->dict);
    for (int i = 0; i < self->entry_count; i++) {
        Py_VISIT(self->entries[i]);
    }
    for (int i = 0; i < self->point_count; i++) {
        MgResumePoint *point = &self->points[i];
        Py_VISIT(point->code);
        Py_VISIT(point->globals);
        for (int k = 0; k < point->entry_count; k++) {
            Py_VISIT(point->entries[k]);
        }
    }
    return 0;
}

static void
drop_entries(MgCompiled *self)
{
    MgResumePoint *points = self->points;
    MgEntry **entries = self->entries;
    int point_count = self->point_count, count = self->entry_count;
    mg_dispatch_free(self->decision.dispatch);
    self->decision = (MgDecision){0};
    self->points = NULL;
    self->entries = NULL;
    self->point_count = self->entry_count = self->entry_room = 0;
    self->changes++; /* all is taken out before anything is dropped: dropping can run any code */
    mg_compiled_free_points(points, point_count);
    for (int i = 0; i < count; i++) {
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
}

static int
compiled_clear(MgCompiled *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->former);
    Py_CLEAR(self->code);
    Py_CLEAR(self->compile);
    Py_CLEAR(self->stopped);
    Py_CLEAR(self->missed);
    Py_CLEAR(self->captured);
    Py_CLEAR(self->untold);
    Py_CLEAR(self->owed);
    Py_CLEAR(self->started);
    Py_CLEAR(self->ended);
    Py_CLEAR(self->filter);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->lattice);
    drop_entries(self);
    return 0;
}

static void
compiled_dealloc(MgCompiled *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    compiled_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function",  "compile", "stopped", "missed", "limit",  "captured",
                            "fullgraph", "started", "ended",   "filter", "strict", NULL};
    PyObject *function, *compile, *stopped, *missed = Py_None, *captured = Py_None;
    PyObject *started = Py_None, *ended = Py_None, *filter = Py_None;
    int limit = -1, fullgraph = 0, strict = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OiOpOOOi", names, &function, &compile, &stopped, &missed,
                                     &limit, &captured, &fullgraph, &started, &ended, &filter, &strict)) {
        return NULL;
    }
    if (mg_torch.tensor == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "configure() comes first");
        return NULL;
    }
    if (!PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "only a callable can be compiled");
        return NULL;
    }
    MgCompiled *self = (MgCompiled *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = (vectorcallfunc)(strict < 0 ? mg_compiled_call : mg_compiled_call_strictly);
    self->function = Py_NewRef(function);
    self->compile = Py_NewRef(compile);
    self->missed = Py_NewRef(missed);
    self->captured = Py_NewRef(captured);
    self->stopped = Py_NewRef(stopped);
    self->started = Py_NewRef(started);
    self->ended = Py_NewRef(ended);
    self->filter = Py_NewRef(filter);
    self->limit = limit;
    self->dynamic = MG_DYNAMIC_AUTOMATIC;
    self->fullgraph = fullgraph;
    self->strict = strict;
    return (PyObject *)self;
}

static PyObject *
compiled_entries(MgCompiled *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(self->entry_count);
    for (int i = 0; list != NULL && i < self->entry_count; i++) {
        MgEntry *entry = self->entries[i];
        int at = i; /* the list of entries is in this order only if it is short */
        while (at > 0 && ((MgEntry *)PyList_GET_ITEM(list, at - 1))->last_run < entry->last_run) {
            PyList_SET_ITEM(list, at, PyList_GET_ITEM(list, at - 1));
            at--;
        }
        PyList_SET_ITEM(list, at, Py_NewRef((PyObject *)entry));
    }
    for (int i = 0; list != NULL && i < self->point_count; i++) {
        for (int k = 0; list != NULL && k < self->points[i].entry_count; k++) {
            if (PyList_Append(list, (PyObject *)self->points[i].entries[k]) < 0) {
                Py_CLEAR(list);
            }
        }
    }
    return list;
}

static PyObject *
compiled_reset(MgCompiled *self, PyObject *unused)
{
    (void)unused;
    drop_entries(self);
    Py_CLEAR(self->lattice);
    self->failures = self->skip = self->told = self->warm = 0;
    Py_RETURN_NONE;
}

static PyObject *
compiled_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyMethodDef compiled_methods[] = {
    {"entries", (PyCFunction)compiled_entries, METH_NOARGS, "The entries, most recent first."},
    {"reset", (PyCFunction)compiled_reset, METH_NOARGS, "Forget all entries and failures."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef compiled_members[] = {
    {"profiling", T_INT, offsetof(MgCompiled, profiling), 0, "Whether calls are timed."},
    {"function", T_OBJECT, offsetof(MgCompiled, function), READONLY, "What is compiled."},
    {"stopped", T_OBJECT, offsetof(MgCompiled, stopped), READONLY, "What is told why captures stop."},
    {"captures", T_ULONGLONG, offsetof(MgCompiled, captures), READONLY, "How often capture was tried."},
    {"failures", T_INT, offsetof(MgCompiled, failures), READONLY, "How often capture was aborted."},
    {"breaks", T_INT, offsetof(MgCompiled, breaks), 0, "Whether graphs may end at a break."},
    {"fullgraph", T_INT, offsetof(MgCompiled, fullgraph), READONLY, "Whether no call may run in CPython."},
    {"plain", T_INT, offsetof(MgCompiled, plain), 0, "Whether only what the function calls is captured."},
    {"is_object", T_INT, offsetof(MgCompiled, is_object), 0, "Whether it is an object that is compiled."},
    {"forced", T_INT, offsetof(MgCompiled, forced), 0, "Whether it was made for a forced backend."},
    {"dynamic", T_INT, offsetof(MgCompiled, dynamic), 0, "Which sizes become symbols: -1 if they vary, 0 none, 1 all."},
    {"limit", T_INT, offsetof(MgCompiled, limit), 0, "How many entries there may be; -1 for the common limit."},
    {NULL, 0, 0, 0, NULL},
};

/* To isinstance() and inspect it is a function, as what torch.compile returns is. */
static PyObject *
compiled_class(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    return Py_NewRef((PyObject *)&PyFunction_Type);
}

/* An attribute that functions have, of the function that is compiled. */
static PyObject *
compiled_of_function(MgCompiled *self, void *name)
{
    PyObject *function = PyMethod_Check(self->function) ? PyMethod_GET_FUNCTION(self->function) : self->function;
    return PyObject_GetAttrString(function, name);
}

static PyGetSetDef compiled_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, "Its attributes.", NULL},
    {"__class__", compiled_class, NULL, "The class of functions.", NULL},
    {"__code__", (getter)compiled_of_function, NULL, "The function's.", "__code__"},
    {"__defaults__", (getter)compiled_of_function, NULL, "The function's.", "__defaults__"},
    {"__kwdefaults__", (getter)compiled_of_function, NULL, "The function's.", "__kwdefaults__"},
    {"__closure__", (getter)compiled_of_function, NULL, "The function's.", "__closure__"},
    {"__globals__", (getter)compiled_of_function, NULL, "The function's.", "__globals__"},
    {"__builtins__", (getter)compiled_of_function, NULL, "The function's.", "__builtins__"},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject MgCompiled_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Compiled",
    .tp_doc = "A callable that captures, compiles and runs a function.",
    .tp_basicsize = sizeof(MgCompiled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = compiled_new,
    .tp_dealloc = (destructor)compiled_dealloc,
    .tp_traverse = (traverseproc)compiled_traverse,
    .tp_clear = (inquiry)compiled_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(MgCompiled, vectorcall),
    .tp_weaklistoffset = offsetof(MgCompiled, weakrefs),
    .tp_dictoffset = offsetof(MgCompiled, dict),
    .tp_getset = compiled_getset,
    .tp_descr_get = compiled_get,
    .tp_methods = compiled_methods,
    .tp_members = compiled_members,
};

int
mg_callable_types_ready(void)
{
    return PyType_Ready(&MgCompiled_Type);
}
