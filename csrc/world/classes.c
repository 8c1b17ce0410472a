/* Classes: what isinstance and issubclass say of what captured code sees. */
#include "world/classes.h"
#include "world/tensorclass.h"

#include "capture/level.h"
#include "capture/registry.h"
#include "cpython/aside.h"
#include "record/symbol.h"
#include "torch/kinds.h"
#include "torch/typekind.h"
#include "world/world.h"

static PyObject *abc_check; /* strong: abc.ABCMeta.__instancecheck__ */

void
mg_classes_configure(PyObject *tables)
{
    PyObject *check = mg_dict_take(tables, "abc_check");
    if (check != NULL) {
        Py_XSETREF(abc_check, Py_NewRef(check));
    }
}

PyObject *
mg_classes_of(PyObject *value)
{
    if (mg_is_number(value)) {
        return (PyObject *)mg_number_class(value);
    }
    if (mg_is_twin(value)) {
        return (PyObject *)mg_tensor_class_of(mg_twin_of(value));
    }
    return (PyObject *)Py_TYPE(value);
}

/* 1 if a twin stands for a tensor of a type such as torch.FloatTensor: a dtype and a device. 0 or -1. */
static int
is_of_tensor_type(PyObject *twin, PyObject *type)
{
    MgMeta *meta = mg_twin_of(twin)->meta;
    PyObject *dtype = mg_aside_getattr(type, MG_STRING("dtype"));
    PyObject *cuda = dtype == NULL ? NULL : mg_aside_getattr(type, MG_STRING("is_cuda"));
    PyObject *sparse = cuda == NULL ? NULL : mg_aside_getattr(type, MG_STRING("is_sparse"));
    PyObject *device = sparse == NULL ? NULL : mg_aside_getattr(meta->device, MG_STRING("type"));
    int result = -1;
    if (device != NULL) {
        const char *wanted = cuda == Py_True ? "cuda" : "cpu";
        result = dtype == meta->dtype && sparse == Py_False && PyUnicode_CompareWithASCIIString(device, wanted) == 0;
    }
    Py_XDECREF(dtype);
    Py_XDECREF(cuda);
    Py_XDECREF(sparse);
    Py_XDECREF(device);
    return result;
}

int
mg_classes_check(PyObject *value, PyObject *classes, int asks)
{
    if (PyTuple_Check(classes)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++) {
            int result = mg_classes_check(value, PyTuple_GET_ITEM(classes, i), asks);
            if (result != 0) {
                return result;
            }
        }
        return 0;
    }
    if (Py_IS_TYPE(classes, mg_kinds.union_type)) { /* X | Y */
        PyObject *arguments = mg_aside_getattr(classes, MG_STRING("__args__"));
        int result = arguments == NULL ? -1 : PyTuple_Check(arguments) ? mg_classes_check(value, arguments, asks) : 0;
        Py_XDECREF(arguments);
        return result;
    }
    /* a metaclass of the user's may look at the object itself; its frame is captured */
    PyObject *check =
        asks && PyType_Check(classes) ? _PyType_Lookup(Py_TYPE(classes), MG_STRING("__instancecheck__")) : NULL;
    int is_parameter = mg_is_twin(value) && (mg_twin_of(value)->meta->flags & MG_META_PARAMETER) != 0;
    if (check != NULL && PyFunction_Check(check) && check != abc_check &&
        !(is_parameter && mg_kind_is_plain_parameter((PyTypeObject *)classes))) {
        return PyObject_IsInstance(value, classes);
    }
    if (Py_IS_TYPE(classes, mg_kinds.tensor_type)) { /* torch.FloatTensor */
        return mg_is_twin(value) ? is_of_tensor_type(value, classes) : 0;
    }
    if (!PyType_Check(classes)) { /* raises, or has a method of its own for it */
        return PyObject_IsInstance(value, classes);
    }
    if (mg_is_number(value)) {
        return PyObject_IsSubclass(mg_classes_of(value), classes);
    }
    if (classes == (PyObject *)mg_torch.parameter) {
        return (mg_twin_of(value)->meta->flags & MG_META_PARAMETER) != 0;
    }
    if (classes == (PyObject *)mg_twin_class) {
        return 0;
    }
    return PyObject_IsSubclass(mg_classes_of(value), classes);
}

/* Guards what decides whether something is an instance or a subclass of classes that C code may use: special methods of
 * them and of their metaclasses, and what was registered with ABCs. */
static int
guard_classes(MgCapture *capture, PyObject *classes)
{
    if (PyTuple_Check(classes)) {
        int status = mg_depth_enter(capture);
        if (status < 0) {
            return MG_ERR;
        }
        for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(classes); i++) {
            status = guard_classes(capture, PyTuple_GET_ITEM(classes, i));
        }
        mg_depth_leave(capture);
        return status;
    }
    if (!PyType_Check(classes)) { /* a union holds classes for good; anything else is guarded by itself */
        PyObject *parts =
            Py_IS_TYPE(classes, mg_kinds.union_type) ? mg_aside_getattr(classes, MG_STRING("__args__")) : NULL;
        int result = parts == NULL ? (PyErr_Occurred() ? MG_ERR : MG_OK) : guard_classes(capture, parts);
        Py_XDECREF(parts);
        return result;
    }
    PyTypeObject *meta = Py_TYPE(classes);
    if (meta == &PyType_Type) {
        return MG_OK;
    }
    PyObject *const methods[] = {_PyType_Lookup(meta, MG_STRING("__instancecheck__")),
                                 _PyType_Lookup(meta, MG_STRING("__subclasscheck__"))};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(methods); i++) {
        if (methods[i] == NULL || (!PyFunction_Check(methods[i]) && !Py_IS_TYPE(methods[i], &PyMethodDescr_Type))) {
            return mg_capture_abort(capture, MG_REASON_OPAQUE, "class %s", ((PyTypeObject *)classes)->tp_name);
        }
    }
    if (mg_world_guard_lookup(capture, meta, MG_STRING("__instancecheck__")) < 0 ||
        mg_world_guard_lookup(capture, meta, MG_STRING("__subclasscheck__")) < 0 ||
        mg_world_guard_lookup(capture, (PyTypeObject *)classes, MG_STRING("__subclasshook__")) < 0) {
        return MG_ERR;
    }
    return _PyType_Lookup((PyTypeObject *)classes, MG_STRING("_abc_impl")) == NULL ? MG_OK : mg_registry_guard(capture);
}

PyObject *
mg_classes_expose(MgCapture *capture, PyObject *classes)
{
    PyObject *exposed = mg_world_expose(capture, classes);
    if (exposed != NULL && guard_classes(capture, exposed) < 0) {
        Py_CLEAR(exposed);
    }
    return exposed;
}

int
mg_classes_is_factory(MgCapture *capture, PyObject *factory)
{
    if (PyMethod_Check(factory)) {
        factory = PyMethod_GET_FUNCTION(factory);
    }
    if (PyFunction_Check(factory) || !PyCallable_Check(factory)) {
        return 1;
    }
    if (!PyType_Check(factory)) {
        return 0;
    }
    PyTypeObject *type = (PyTypeObject *)factory;
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return mg_kind_is_harmless(type);
    }
    PyTypeObject *base = type;
    while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        base = base->tp_base;
    }
    PyObject *made = _PyType_Lookup(type, MG_STRING("__init__"));
    return mg_type_is_python(type) && Py_TYPE(type)->tp_call == PyType_Type.tp_call && mg_kind_is_harmless(base) &&
           type->tp_new == base->tp_new && made != NULL &&
           (PyFunction_Check(made) || Py_IS_TYPE(made, &PyWrapperDescr_Type)) &&
           mg_world_guard_lookup(capture, type, MG_STRING("__new__")) == MG_OK &&
           mg_world_guard_lookup(capture, type, MG_STRING("__init__")) == MG_OK;
}
