/* How a compiled nn.Module is called.
 *
 * nn.Module.__call__ runs hooks and then forward. As long as there are no hooks, and forward is what was compiled, a
 * call of the wrapper goes straight to the compiled forward; all else is left to Python. */
#include "wrapper.h"

#include "callable.h"

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
 * the module nor its class has got other methods. That is remembered for their version tags. `dict` is the wrapper's
 * instance dict, `inner` the module's. */
static int
is_plain(MgModuleCall *self, MgCompiled *quick, PyObject *dict, PyObject *module, PyObject *inner)
{
    PyTypeObject *type = Py_TYPE(module);
    if (MG_LIKELY(((PyDictObject *)dict)->ma_version_tag == quick->plain_tags[0] &&
                  ((PyDictObject *)inner)->ma_version_tag == quick->plain_tags[1] && type->tp_version_tag != 0 &&
                  type->tp_version_tag == quick->plain_tags[2])) {
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
    quick->plain_tags[0] = ((PyDictObject *)dict)->ma_version_tag;
    quick->plain_tags[1] = ((PyDictObject *)inner)->ma_version_tag;
    quick->plain_tags[2] = type->tp_version_tag;
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

static PyObject *
module_call(MgModuleCall *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *dict = count == 0 ? NULL : mg_instance_dict(args[0]);
    if (dict == NULL) {
        PyErr_SetString(PyExc_TypeError, "a compiled module is needed");
        return NULL;
    }
    if (mg_capture_current != NULL) {
        return PyObject_Vectorcall(self->inlined, args, (size_t)count, kwnames);
    }
    if (self->own != Py_None && has_hooks(dict)) {
        return PyObject_Vectorcall(self->own, args, (size_t)count, kwnames);
    }
    PyObject *quick = quick_call(self, dict);
    if (quick == NULL) { /* a forward that the wrapper itself was given comes first */
        int given = self->own != Py_None && find(dict, MG_STRING("forward")) != NULL;
        return PyObject_Vectorcall(given ? self->own : self->slow, args, (size_t)count, kwnames);
    }
    Py_INCREF(quick);
    PyObject *result = PyObject_Vectorcall(quick, args + 1, (size_t)count - 1, kwnames);
    Py_DECREF(quick);
    return result;
}

/* ---- the type ---- */

static int
wrapper_traverse(MgModuleCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->own);
    Py_VISIT(self->slow);
    Py_VISIT(self->inlined);
    Py_VISIT(self->global_hooks);
    Py_VISIT(self->methods);
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

static PyMemberDef wrapper_members[] = {
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
    .tp_members = wrapper_members,
};

int
mg_wrapper_types_ready(void)
{
    return PyType_Ready(&MgModuleCall_Type);
}
