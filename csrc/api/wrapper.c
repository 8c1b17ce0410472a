/* How a compiled nn.Module is called.
 *
 * nn.Module.__call__ runs hooks and then forward. As long as there are no hooks, and forward is what was compiled, a
 * call of the wrapper goes straight to the compiled forward; all else is left to Python. */
#include "api/wrapper.h"

#include "api/callable.h"
#include "cpython/aside.h"
#include "cpython/watch.h"

#include <structmember.h>

/* The value of a string key in a dict, with no Python code. Borrowed; NULL without an exception if it is not known. */
static PyObject *
find(PyObject *dict, PyObject *key)
{
    PyObject *value = PyDict_CheckExact(dict) ? mg_dict_find(dict, key) : NULL;
    return value == &mg_dict_unknown ? NULL : value;
}

/* 1 if a module, given by its instance dict, has hooks that run when it is called. */
static int
has_hooks(PyObject *dict)
{
    PyObject *const names[] = {MG_STRING("_forward_hooks"), MG_STRING("_forward_pre_hooks"),
                               MG_STRING("_backward_hooks"), MG_STRING("_backward_pre_hooks")};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *hooks = find(dict, names[i]);
        if (hooks == NULL || !PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) > 0) {
            return 1;
        }
    }
    return 0;
}

/* 1 if a call of the wrapper is one of the module's hooks and of the forward that was compiled: neither the wrapper nor
 * the module nor its class has got other methods. Their words are remembered for which that holds. `dict` is the wrapper's
 * instance dict, `inner` the module's. */
static int
is_plain(MgModuleCall *self, MgCompiled *quick, PyObject *dict, PyObject *module, PyObject *inner)
{
    PyTypeObject *type = Py_TYPE(module);
    if (MG_LIKELY(mg_watch_dict(dict) == quick->plain_words[0] && mg_watch_dict(inner) == quick->plain_words[1] &&
                  mg_watch_type(type) != 0 && mg_watch_type(type) == quick->plain_words[2])) {
        return 1;
    }
    PyObject *function = quick->function, *forward = find(inner, MG_STRING("forward"));
    if (find(dict, MG_STRING("forward")) != NULL || find(inner, MG_STRING("_call_impl")) != NULL ||
        _PyType_Lookup(type, MG_STRING("__call__")) != PyTuple_GET_ITEM(self->methods, 0) ||
        _PyType_Lookup(type, MG_STRING("_call_impl")) != PyTuple_GET_ITEM(self->methods, 1)) {
        return 0;
    }
    if (forward != NULL ? forward != function
                        : !PyMethod_Check(function) || PyMethod_GET_SELF(function) != module ||
                              PyMethod_GET_FUNCTION(function) != _PyType_Lookup(type, MG_STRING("forward"))) {
        return 0;
    }
    quick->plain_words[0] = mg_watch_dict(dict);
    quick->plain_words[1] = mg_watch_dict(inner);
    quick->plain_words[2] = mg_watch_type(type);
    return 1;
}

/* The compiled forward, if a call of the wrapper may go straight to it. Borrowed; NULL if it may not. */
static PyObject *
quick_call(MgModuleCall *self, PyObject *dict)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->global_hooks); i++) {
        if (PyDict_GET_SIZE(PyTuple_GET_ITEM(self->global_hooks, i)) > 0) {
            return NULL;
        }
    }
    PyObject *quick = find(dict, MG_STRING("_quick")), *modules = find(dict, MG_STRING("_modules"));
    PyObject *module = modules == NULL ? NULL : find(modules, MG_STRING("_orig_mod"));
    PyObject *inner = module == NULL ? NULL : mg_instance_dict(module);
    if (quick == NULL || inner == NULL || !Py_IS_TYPE(quick, &MgCompiled_Type) || has_hooks(inner)) {
        return NULL;
    }
    return is_plain(self, (MgCompiled *)quick, dict, module, inner) ? quick : NULL;
}

/* What a call of a compiled module is a call of: the compiled forward, which does not get the module, or a function that
 * does. Borrowed; NULL with an exception. */
static PyObject *
target_of(MgModuleCall *self, PyObject *wrapper, int *gets_module)
{
    PyObject *dict = wrapper == NULL ? NULL : mg_instance_dict(wrapper);
    *gets_module = 1;
    if (dict == NULL) {
        PyErr_SetString(PyExc_TypeError, "a compiled module is needed");
        return NULL;
    }
    if (mg_capture_current != NULL) {
        return self->inlined;
    }
    if (self->own != Py_None && has_hooks(dict)) {
        return self->own;
    }
    PyObject *quick = quick_call(self, dict);
    if (quick == NULL) { /* a forward that the wrapper itself was given comes first */
        return self->own != Py_None && find(dict, MG_STRING("forward")) != NULL ? self->own : self->slow;
    }
    *gets_module = 0;
    return quick;
}

static PyObject *
module_call(MgModuleCall *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int gets_module;
    PyObject *target = Py_XNewRef(target_of(self, count == 0 ? NULL : args[0], &gets_module));
    if (target == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if (Py_EnterRecursiveCall(" while calling a Python object") == 0) {
        result = gets_module ? PyObject_Vectorcall(target, args, (size_t)count, kwnames)
                             : PyObject_Vectorcall(target, args + 1, (size_t)count - 1, kwnames);
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(target);
    return result;
}

/* ---- calls without a dict of keywords ---- */

/* What a compiled module starts with. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
} Caller;

/* Calls a function with a module in front of the arguments. */
static PyObject *
call_with(PyObject *function, PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    enum { FEW = 16 };
    PyObject *few[FEW];
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject **all = total < FEW ? few : PyMem_Malloc(sizeof(PyObject *) * (size_t)(total + 1));
    if (all == NULL) {
        return PyErr_NoMemory();
    }
    all[0] = module;
    memcpy(all + 1, args, sizeof(PyObject *) * (size_t)total);
    PyObject *result = PyObject_Vectorcall(function, all, (size_t)count + 1, kwnames);
    if (all != few) {
        PyMem_Free(all);
    }
    return result;
}

/* A call of a compiled module: what its class says, as type's own slot would do it. */
static PyObject *
caller_call(PyObject *module, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *method = _PyType_Lookup(Py_TYPE(module), MG_STRING("__call__")), *target = NULL;
    int gets_module = 1;
    if (method == NULL) {
        PyErr_Format(PyExc_TypeError, "'%s' object is not callable", Py_TYPE(module)->tp_name);
        return NULL;
    }
    if (MG_LIKELY(Py_IS_TYPE(method, &MgModuleCall_Type))) {
        target = Py_XNewRef(target_of((MgModuleCall *)method, module, &gets_module));
    }
    else { /* the class was given another */
        descrgetfunc get = Py_TYPE(method)->tp_descr_get;
        gets_module = 0;
        target = get == NULL ? Py_NewRef(method) : get(method, module, (PyObject *)Py_TYPE(module));
    }
    if (target == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if (Py_EnterRecursiveCall(" while calling a Python object") == 0) {
        result = gets_module ? call_with(target, module, args, count, kwnames)
                             : PyObject_Vectorcall(target, args, nargsf, kwnames);
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(target);
    return result;
}

static PyObject *
caller_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    Caller *self = (Caller *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = caller_call;
    }
    return (PyObject *)self;
}

/* A class whose instances can be called is made one whose instances are called straight: CPython does not do that for
 * classes that can be changed, but here a change of __call__ is seen. Subclasses are as they always are. */
static PyObject *
caller_straight(PyObject *type, PyObject *unused)
{
    (void)unused;
    if (((PyTypeObject *)type)->tp_call == NULL) {
        PyErr_SetString(PyExc_TypeError, "the class has no __call__");
        return NULL;
    }
    ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    PyType_Modified((PyTypeObject *)type);
    Py_RETURN_NONE;
}

static PyMethodDef caller_methods[] = {
    {"_call_straight", caller_straight, METH_NOARGS | METH_CLASS, "Have instances of this very class called straight."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject MgCaller_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Caller",
    .tp_doc = "A base of what is called like a compiled module.",
    .tp_basicsize = sizeof(Caller),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = caller_new,
    .tp_methods = caller_methods,
    .tp_vectorcall_offset = offsetof(Caller, vectorcall),
};

/* ---- the type ---- */

static int
wrapper_traverse(MgModuleCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->own);
    Py_VISIT(self->slow);
    Py_VISIT(self->inlined);
    Py_VISIT(self->global_hooks);
    Py_VISIT(self->methods);
    Py_VISIT(self->name);
    return 0;
}

static int
wrapper_clear(MgModuleCall *self)
{
    Py_CLEAR(self->own);
    Py_CLEAR(self->slow);
    Py_CLEAR(self->inlined);
    Py_CLEAR(self->global_hooks);
    Py_CLEAR(self->methods);
    Py_CLEAR(self->name);
    return 0;
}

static void
wrapper_dealloc(MgModuleCall *self)
{
    PyObject_GC_UnTrack(self);
    wrapper_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
wrapper_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"own", "slow", "inlined", "global_hooks", "methods", NULL};
    PyObject *own, *slow, *inlined, *global_hooks, *methods;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!O!", names, &own, &slow, &inlined, &PyTuple_Type,
                                     &global_hooks, &PyTuple_Type, &methods)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(methods) != 2) {
        PyErr_SetString(PyExc_TypeError, "methods must be a tuple of two");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(global_hooks); i++) {
        if (!PyDict_Check(PyTuple_GET_ITEM(global_hooks, i))) {
            PyErr_SetString(PyExc_TypeError, "global_hooks must be a tuple of dicts");
            return NULL;
        }
    }
    MgModuleCall *self = (MgModuleCall *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = (vectorcallfunc)module_call;
    self->own = Py_NewRef(own);
    self->slow = Py_NewRef(slow);
    self->inlined = Py_NewRef(inlined);
    self->global_hooks = Py_NewRef(global_hooks);
    self->methods = Py_NewRef(methods);
    return (PyObject *)self;
}

static PyObject *
wrapper_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyObject *
wrapper_set_name(MgModuleCall *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "a class and a name are needed");
        return NULL;
    }
    Py_XSETREF(self->name, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

/* The signature is that of any module's call: a module, and whatever its forward takes. */
static PyObject *
wrapper_signature(MgModuleCall *self, void *unused)
{
    (void)unused;
    PyObject *inspect = mg_aside_import("inspect");
    PyObject *result = inspect == NULL ? NULL : PyObject_CallMethod(inspect, "signature", "O", self->inlined);
    Py_XDECREF(inspect);
    return result;
}

static PyMethodDef wrapper_methods[] = {
    {"__set_name__", (PyCFunction)(void (*)(void))wrapper_set_name, METH_FASTCALL, "Note the name of the attribute."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef wrapper_getset[] = {
    {"__signature__", (getter)wrapper_signature, NULL, "What it takes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef wrapper_members[] = {
    {"__name__", T_OBJECT_EX, offsetof(MgModuleCall, name), READONLY, "The name of the attribute."},
    {"inlined", T_OBJECT, offsetof(MgModuleCall, inlined), READONLY, "What is captured in its place."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgModuleCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.ModuleCall",
    .tp_doc = "How a compiled nn.Module is called.",
    .tp_basicsize = sizeof(MgModuleCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = wrapper_new,
    .tp_dealloc = (destructor)wrapper_dealloc,
    .tp_traverse = (traverseproc)wrapper_traverse,
    .tp_clear = (inquiry)wrapper_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(MgModuleCall, vectorcall),
    .tp_descr_get = wrapper_get,
    .tp_methods = wrapper_methods,
    .tp_getset = wrapper_getset,
    .tp_members = wrapper_members,
};

int
mg_wrapper_types_ready(void)
{
    return PyType_Ready(&MgModuleCall_Type) < 0 || PyType_Ready(&MgCaller_Type) < 0 ? MG_ERR : MG_OK;
}
