/* Types and other objects that the core knows by their identity. */
#include "torch/kinds.h"

#include "base/table.h"
#include "torch/torchabi.h"

struct MgKinds mg_kinds;

static MgTable sets;   /* (object, MgSet + 1) -> object */
static PyObject *kept; /* strong: list of all objects in the table */

/* Adds the items of a set to one of ours. */
static int
take_set(MgSet number, PyObject *set)
{
    PyObject *iterator = PyObject_GetIter(set), *item;
    int result = iterator == NULL ? MG_ERR : MG_OK;
    while (result == MG_OK && (item = PyIter_Next(iterator)) != NULL) {
        result =
            PyList_Append(kept, item) < 0 ? MG_ERR : mg_table_set(&sets, item, (void *)((uintptr_t)number + 1), item);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return result < 0 || PyErr_Occurred() ? MG_ERR : MG_OK;
}

int
mg_kinds_configure(PyObject *tables)
{
    static const char *const names[MG_SET_COUNT] = {
        [MG_SET_CONSTANT] = "constant_types",  [MG_SET_HARMLESS] = "harmless_types",
        [MG_SET_TENSOR] = "tensor_types",      [MG_SET_GRAPH] = "graph_types",
        [MG_SET_RECORDED] = "record_types",    [MG_SET_OWNERS] = "record_owners",
        [MG_SET_KEPT] = "kept_types",          [MG_SET_VALUES] = "value_types",
        [MG_SET_ARITHMETIC] = "arithmetic",    [MG_SET_APART] = "apart",
        [MG_SET_ITERATORS] = "iterator_types",
    };
    const struct {
        const char *name;
        PyTypeObject **slot;
    } single[] = {
        {"partial", &mg_kinds.partial},
        {"lru_cache", &mg_kinds.lru_cache},
        {"lru_link", &mg_kinds.lru_link},
        {"key_wrapper", &mg_kinds.key_wrapper},
        {"attrgetter", &mg_kinds.attrgetter},
        {"itemgetter", &mg_kinds.itemgetter},
        {"methodcaller", &mg_kinds.methodcaller},
        {"tuple_getter", &mg_kinds.tuple_getter},
        {"cached_property", &mg_kinds.cached_property},
        {"union_type", &mg_kinds.union_type},
        {"tensor_type", &mg_kinds.tensor_type},
        {"device_context", &mg_kinds.device_context},
        {"qscheme", &mg_kinds.qscheme},
        {"autograd_node", &mg_kinds.autograd_node},
    };
    if (kept == NULL && (kept = PyList_New(0)) == NULL) {
        return MG_ERR;
    }
    for (int i = 0; i < MG_SET_COUNT; i++) {
        PyObject *set = mg_dict_take(tables, names[i]);
        if (set != NULL && take_set((MgSet)i, set) < 0) {
            return MG_ERR;
        }
    }
    PyObject *kinds = mg_dict_take(tables, "kinds");
    for (size_t i = 0; kinds != NULL && i < Py_ARRAY_LENGTH(single); i++) {
        PyObject *type = PyDict_GetItemString(kinds, single[i].name);
        if (type == NULL || !PyType_Check(type)) {
            PyErr_Format(PyExc_ValueError, "the tables have no type '%s'", single[i].name);
            return MG_ERR;
        }
        Py_XSETREF(*single[i].slot, (PyTypeObject *)Py_NewRef(type));
    }
    return MG_OK;
}

int
mg_kinds_has(MgSet set, const void *object)
{
    return mg_table_get(&sets, object, (void *)((uintptr_t)set + 1)) != NULL;
}

int
mg_kinds_is_quiet(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return type == &PyFunction_Type || type == &PyMethod_Type || PyCFunction_Check(object) ||
           (type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare) ||
           (PyType_Check(object) && type->tp_hash == PyType_Type.tp_hash &&
            type->tp_richcompare == PyType_Type.tp_richcompare);
}

int
mg_kinds_hashes_in_python(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *hash =
        type->tp_flags & Py_TPFLAGS_HEAPTYPE ? _PyType_Lookup(type, MG_STRING("__hash__")) : NULL; /* borrowed */
    return hash != NULL && PyFunction_Check(hash) && !PyType_IsSubtype(type, mg_torch.tensor);
}
