/* Questions about types and other objects that the tables of magneto/_rules.py answer. */
#include "torch/typekind.h"

#include "torch/torchabi.h"

static struct {
    PyObject *operators;      /* strong: names of methods of tensors -> functions of the module operator */
    PyObject *attributes;     /* strong: names of attributes of tensors that follow from the metadata */
    PyObject *stand_ins;      /* strong: classes -> what torch takes them for: dtypes, names of tensor types */
    PyObject *module;         /* strong: torch.nn.Module */
    PyObject *module_getattr; /* strong: torch.nn.Module.__getattr__, */
    PyObject *module_code;    /* strong: and its code at start-up */
} named;

void
mg_kind_configure(PyObject *tables)
{
    const struct {
        const char *name;
        PyObject **slot;
    } wanted[] = {
        {"operators", &named.operators}, {"attributes", &named.attributes},         {"stand_ins", &named.stand_ins},
        {"module", &named.module},       {"module_getattr", &named.module_getattr}, {"module_code", &named.module_code},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        PyObject *value = mg_dict_take(tables, wanted[i].name);
        if (value != NULL) {
            Py_XSETREF(*wanted[i].slot, Py_NewRef(value));
        }
    }
}

int
mg_kind_is_constant(PyTypeObject *type)
{
    if (mg_kinds_has(MG_SET_CONSTANT, type)) {
        return 1;
    }
    /* enum members: classes made by a metaclass that is in the set */
    return mg_kinds_has(MG_SET_CONSTANT, Py_TYPE(type));
}

int
mg_kind_is_harmless(PyTypeObject *type)
{
    return mg_kinds_has(MG_SET_HARMLESS, type);
}

int
mg_kind_is_plain_tensor(PyTypeObject *type)
{
    return mg_kinds_has(MG_SET_TENSOR, type);
}

/* 1 if a class changes nothing of what a parameter is and does: it may have names of its own, and a constructor. */
static int
adds_only_names(PyTypeObject *type)
{
    static const char *const harmless[] = {"__module__", "__doc__",     "__new__",         "__init__",
                                           "__dict__",   "__weakref__", "__annotations__", "__qualname__"};
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(type->tp_dict, &position, &name, &value)) {
        int is_harmless = 0;
        for (size_t i = 0; !is_harmless && i < Py_ARRAY_LENGTH(harmless); i++) {
            is_harmless = PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, harmless[i]) == 0;
        }
        int is_special = PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) > 2 &&
                         PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
        if (!is_harmless && (!PyUnicode_CheckExact(name) || is_special || _PyType_Lookup(mg_torch.parameter, name))) {
            return 0;
        }
    }
    return 1;
}

int
mg_kind_is_plain_parameter(PyTypeObject *type)
{
    if (!PyType_IsSubtype(type, mg_torch.parameter) || Py_TYPE(type) != Py_TYPE(mg_torch.parameter)) {
        return 0;
    }
    while (type != mg_torch.parameter) {
        if (!adds_only_names(type) || PyTuple_GET_SIZE(type->tp_bases) != 1) {
            return 0;
        }
        type = type->tp_base;
    }
    return 1;
}

int
mg_kind_is_wrapper(PyTypeObject *type)
{
    PyObject *name = MG_STRING("__torch_dispatch__");
    return PyType_IsSubtype(type, mg_torch.tensor) && _PyType_Lookup(type, MG_STRING("__tensor_flatten__")) != NULL &&
           _PyType_Lookup(type, MG_STRING("__tensor_unflatten__")) != NULL &&
           _PyType_Lookup(type, name) != _PyType_Lookup(mg_torch.tensor, name);
}

int
mg_kind_is_value(PyTypeObject *type)
{
    return mg_kinds_has(MG_SET_VALUES, type);
}

int
mg_kind_is_graph_constant(PyObject *value)
{
    return mg_kinds_has(MG_SET_GRAPH, Py_TYPE(value)) || mg_kinds_has(MG_SET_CONSTANT, Py_TYPE(Py_TYPE(value)));
}

int
mg_kind_is_module(PyTypeObject *type)
{
    return named.module != NULL && PyType_IsSubtype(type, (PyTypeObject *)named.module);
}

int
mg_kind_is_module_getattr(PyObject *function)
{
    return function == named.module_getattr && ((PyFunctionObject *)function)->func_code == named.module_code;
}

int
mg_kind_is_tensor_attribute(PyObject *name)
{
    return named.attributes != NULL && PyUnicode_CheckExact(name) && PySet_Contains(named.attributes, name) > 0;
}

PyObject *
mg_kind_stand_in(PyObject *value)
{
    return named.stand_ins == NULL || !(Py_IS_TYPE(value, &PyType_Type) || Py_IS_TYPE(value, mg_kinds.tensor_type))
               ? NULL
               : PyDict_GetItemWithError(named.stand_ins, value);
}

PyObject *
mg_kind_operator_of(PyObject *name)
{
    return named.operators == NULL ? NULL : PyDict_GetItemWithError(named.operators, name);
}

/* 1 if a class over a builtin one says itself what its numbers are worth, or what operations on them do. */
static int
has_own_ways(PyTypeObject *type, PyTypeObject *base)
{
    PyObject *const names[] = {
        MG_STRING("__torch_function__"), MG_STRING("__index__"), MG_STRING("__int__"), MG_STRING("__float__"),
        MG_STRING("__complex__"),        MG_STRING("__bool__"),  MG_STRING("__len__"), MG_STRING("__getitem__"),
        MG_STRING("__array__")};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (_PyType_Lookup(type, names[i]) != _PyType_Lookup(base, names[i])) {
            return 1;
        }
    }
    return 0;
}

int
mg_kind_is_number(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    PyTypeObject *base = PyLong_Check(value)      ? &PyLong_Type
                         : PyFloat_Check(value)   ? &PyFloat_Type
                         : PyComplex_Check(value) ? &PyComplex_Type
                                                  : NULL;
    if (mg_kind_is_value(type)) {
        return 1;
    }
    if (base == NULL || type == base || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        return base != NULL;
    }
    return type->tp_getattro == PyObject_GenericGetAttr && !has_own_ways(type, base);
}

PyObject *
mg_kind_number(PyObject *value)
{
    if (PyLong_Check(value)) {
        return _PyLong_Copy((PyLongObject *)value);
    }
    if (PyFloat_Check(value)) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
    }
    if (PyComplex_Check(value)) {
        return PyComplex_FromCComplex(((PyComplexObject *)value)->cval);
    }
    return PyObject_CallMethod(value, "item", NULL);
}
