/* How an outside object is reached again on a later call.
 *
 * Sources are interned: one description, one MgSource, so that a guard on it is made once and its object is loaded once.
 * They form a tree by `base`, and a base always has a smaller id than what is built on it: walking them in order of id
 * loads everything with no recursion. Loading runs no Python code, so that what was loaded stays valid. */
#include "cpython/cpython311.h"

#include "cpython/shadow.h"
#include "ir/path.h"
#include "ir/source.h"
#include "ir/text.h"
#include "ir/weakkey.h"
#include "torch/torchabi.h"
#include "base/vector.h"

#include <structmember.h>

/* 1 if what lies at this item of a dict are the parameters or the buffers of a module. */
static int
holds_parameters(MgSourceKind kind, const MgSource *base, PyObject *key)
{
    return kind == MG_SOURCE_DICT_ITEM && base->kind == MG_SOURCE_DICT && (base->is_fixed & MG_FIXED_MODULE) &&
           PyUnicode_CheckExact(key) &&
           (mg_is_text(key, MG_STRING("_parameters")) || mg_is_text(key, MG_STRING("_buffers")));
}

MgSource *
mg_source_get(MgSources *sources, MgSourceKind kind, MgSource *base, PyObject *key, Py_ssize_t index)
{
    /* keys are interned strings or kept alive by the source that has them; equal keys that are not the same object
     * just make two sources */
    uintptr_t tag = key != NULL ? (uintptr_t)key : ((uintptr_t)index << 1 | 1);
    uintptr_t first = (uintptr_t)base ^ ((uintptr_t)kind << 56);
    MgSource *known = mg_table_get(&sources->known, (void *)first, (void *)tag);
    if (known != NULL) {
        return known;
    }
    if (MG_VECTOR_RESERVE(sources->items, sources->count, sources->room, 128) < 0) {
        return NULL;
    }
    MgSource *source = PyMem_Calloc(1, sizeof(MgSource));
    if (source == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    source->kind = kind;
    source->base = base;
    source->key = Py_XNewRef(key);
    source->index = index;
    source->is_fixed = base == NULL ? 0 : base->is_fixed | (holds_parameters(kind, base, key) ? MG_FIXED_PARAMETER : 0);
    assert(base == NULL || base->id < sources->count); /* what it is reached from comes first */
    source->id = sources->count;
    if (mg_table_set(&sources->known, (void *)first, (void *)tag, source) < 0) {
        Py_XDECREF(key);
        PyMem_Free(source);
        return NULL;
    }
    sources->items[sources->count++] = source;
    return source;
}

static PyObject *
function_part(PyObject *function, Py_ssize_t index)
{
    if (!PyFunction_Check(function)) {
        return NULL;
    }
    switch (index) {
        case 0:
            return PyFunction_GET_CODE(function);
        case 1:
            return PyFunction_GET_DEFAULTS(function);
        case 2:
            return PyFunction_GET_KW_DEFAULTS(function);
        case 3:
            return PyFunction_GET_CLOSURE(function);
        case 4:
            return PyFunction_GET_GLOBALS(function);
        default:
            return PyFunction_GET_ANNOTATIONS(function);
    }
}

PyObject **
mg_source_name_slot(PyObject *base, Py_ssize_t index)
{
    if (PyFunction_Check(base)) {
        PyFunctionObject *function = (PyFunctionObject *)base;
        return index == 0   ? &function->func_name
               : index == 1 ? &function->func_qualname
               : index == 2 ? &function->func_doc
                            : &function->func_module;
    }
    if (!PyType_Check(base) || !(((PyTypeObject *)base)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return NULL;
    }
    return index == 0 ? &((PyHeapTypeObject *)base)->ht_name : &((PyHeapTypeObject *)base)->ht_qualname;
}

static PyObject *
name_part(PyObject *base, Py_ssize_t index)
{
    PyObject **slot = mg_source_name_slot(base, index);
    return slot == NULL ? NULL : *slot;
}

/* The index-th item of a set in its present order. Borrowed. */
static PyObject *
set_item(PyObject *set, Py_ssize_t index)
{
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &position, &item, &hash)) {
        if (index-- == 0) {
            return item;
        }
    }
    return NULL;
}

/* A slot of an object through its member descriptor: the reference that the object holds. */
static PyObject *
slot_value(PyObject *object, PyObject *descriptor)
{
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        return NULL;
    }
    PyMemberDescrObject *member = (PyMemberDescrObject *)descriptor;
    int type = member->d_member->type;
    if ((type != T_OBJECT_EX && type != T_OBJECT) || !PyObject_TypeCheck(object, member->d_common.d_type)) {
        return NULL;
    }
    return *(PyObject **)((char *)object + member->d_member->offset);
}

/* A size or stride of a tensor as an int, which the source keeps until another one is loaded. Borrowed. */
static PyObject *
size_of(MgSource *source, PyObject *tensor)
{
    MgTensor info;
    if (!mg_torch_is_tensor(tensor) || mg_torch_read(tensor, &info) < 0 || source->index >= info.dim) {
        return NULL;
    }
    int64_t size = (source->kind == MG_SOURCE_SIZE ? info.sizes : info.strides)[source->index];
    if (source->view == NULL || PyLong_AsLongLong(source->view) != size) {
        PyObject *number = PyLong_FromLongLong(size);
        if (number == NULL) {
            mg_error_clear();
            return NULL;
        }
        Py_XSETREF(source->view, number);
    }
    return source->view;
}

PyObject *
mg_source_load(const MgSource *source, PyObject *base, PyObject *const *arguments)
{
    PyObject *key;
    switch (source->kind) {
        case MG_SOURCE_LOCAL:
            return arguments[source->index];
        case MG_SOURCE_CONST:
            return mg_weak_key_get(source->key);
        case MG_SOURCE_DICT:
            return mg_instance_dict(base);
        case MG_SOURCE_DICT_ITEM:
            key = mg_weak_key_get(source->key);
            return key != NULL && PyDict_Check(base) ? mg_dict_find(base, key) : NULL;
        case MG_SOURCE_ITEM:
            if (PyTuple_Check(base)) {
                return source->index < PyTuple_GET_SIZE(base) ? PyTuple_GET_ITEM(base, source->index) : NULL;
            }
            if (PyList_Check(base)) {
                return source->index < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, source->index) : NULL;
            }
            if (PyObject_TypeCheck(base, mg_deque_type)) {
                return mg_deque_item(base, source->index);
            }
            return NULL;
        case MG_SOURCE_ATTR:
            return slot_value(base, source->key);
        case MG_SOURCE_CELL:
            return PyCell_Check(base) ? PyCell_GET(base) : NULL;
        case MG_SOURCE_TYPE:
            return (PyObject *)Py_TYPE(base);
        case MG_SOURCE_LOOKUP:
            return PyType_Check(base) ? _PyType_Lookup((PyTypeObject *)base, source->key) : NULL;
        case MG_SOURCE_FUNCTION:
            return function_part(base, source->index);
        case MG_SOURCE_METHOD:
            if (!PyMethod_Check(base)) { /* of a builtin that is bound to a tensor, too */
                PyObject *method = mg_torch_method_of(base);
                return method == NULL || source->index == 0 ? method : PyCFunction_GET_SELF(base);
            }
            return source->index == 0 ? PyMethod_GET_FUNCTION(base) : PyMethod_GET_SELF(base);
        case MG_SOURCE_SET_ITEM:
            return PyAnySet_Check(base) ? set_item(base, source->index) : NULL;
        case MG_SOURCE_PROXY:
            return Py_IS_TYPE(base, &PyDictProxy_Type) ? mg_proxy_mapping(base) : NULL;
        case MG_SOURCE_GRAD:
            return mg_torch_grad(base);
        case MG_SOURCE_NAME:
            return name_part(base, source->index);
        case MG_SOURCE_SIZE:
        case MG_SOURCE_STRIDE:
            return size_of((MgSource *)source, base);
        case MG_SOURCE_MRO:
            return PyType_Check(base) ? ((PyTypeObject *)base)->tp_mro : NULL;
    }
    return NULL;
}

/* How a constant object shows in a source's text. */
static PyObject *
const_text(PyObject *constant)
{
    PyObject *object = mg_weak_key_get(constant);
    if (object == NULL) {
        return PyUnicode_FromString("an object that is gone");
    }
    if (PyModule_Check(object)) {
        const char *name = PyModule_GetName(object);
        if (name != NULL) {
            return PyUnicode_FromFormat("__import__('%s')", name);
        }
        mg_error_clear();
    }
    if (PyFunction_Check(object)) {
        return PyUnicode_FromFormat("<function %U>", ((PyFunctionObject *)object)->func_qualname);
    }
    if (PyType_Check(object)) {
        return PyUnicode_FromFormat("<class %s>", ((PyTypeObject *)object)->tp_name);
    }
    if (PyDict_Check(object)) {
        PyObject *name = PyDict_GetItemWithError(object, MG_STRING("__name__"));
        if (name != NULL && PyUnicode_Check(name)) {
            return PyUnicode_FromFormat("G<%U>", name);
        }
        return PyUnicode_FromString("G");
    }
    return PyUnicode_FromFormat("<%s>", Py_TYPE(object)->tp_name);
}

/* A key as text. New. */
static PyObject *
key_text(PyObject *key)
{
    PyObject *object = mg_weak_key_get(key);
    return object == NULL ? PyUnicode_FromString("an object that is gone") : mg_text_of(object);
}

/* 1 if base[key] is an attribute of what the dict belongs to. */
static int
is_attribute(const MgSource *source)
{
    return source->base->kind == MG_SOURCE_DICT && PyUnicode_CheckExact(source->key);
}

int
mg_source_note(MgSource *source, PyObject *text)
{
    if (source->kind != MG_SOURCE_CONST || source->note != NULL) {
        Py_XDECREF(text);
        return MG_OK;
    }
    source->note = text;
    return text == NULL ? MG_ERR : MG_OK;
}

/* The same for a source at a level of a text: what is deeper is left out. */
static PyObject *
text_at(const MgSource *source, int level)
{
    static const char *const name_parts[] = {"__name__", "__qualname__", "__doc__", "__module__"};
    static const char *const function_parts[] = {"__code__",    "__defaults__", "__kwdefaults__",
                                                 "__closure__", "__globals__",  "__annotations__"};
    if (source == NULL || level > MG_SOURCE_LEVELS) {
        return PyUnicode_FromString("...");
    }
    if (source->kind == MG_SOURCE_LOCAL) {
        return PyUnicode_FromFormat("L[%R]", source->key);
    }
    if (source->kind == MG_SOURCE_CONST) {
        return source->note == NULL        ? const_text(source->key)
               : PyCell_Check(source->key) ? PyUnicode_FromFormat("the cell of %U", source->note)
                                           : Py_NewRef(source->note);
    }
    if (source->kind == MG_SOURCE_CELL && source->base->kind == MG_SOURCE_CONST && source->base->note != NULL) {
        return Py_NewRef(source->base->note);
    }
    if (source->kind == MG_SOURCE_DICT_ITEM && is_attribute(source)) {
        PyObject *owner = text_at(source->base->base, level + 1);
        PyObject *text = owner == NULL ? NULL : PyUnicode_FromFormat("%U.%U", owner, source->key);
        Py_XDECREF(owner);
        return text;
    }
    if (source->kind == MG_SOURCE_DICT_ITEM && source->base->kind == MG_SOURCE_CONST) {
        if (source->base->note != NULL && PyUnicode_Check(source->key)) {
            return PyUnicode_FromFormat("%U.%U", source->base->note, source->key);
        }
        PyObject *name = key_text(source->key);
        PyObject *text = name == NULL ? NULL : PyUnicode_FromFormat("G[%U]", name);
        Py_XDECREF(name);
        return text;
    }
    PyObject *base = text_at(source->base, level + 1);
    if (base == NULL) {
        return NULL;
    }
    PyObject *text = NULL, *key;
    switch (source->kind) {
        case MG_SOURCE_DICT:
            text = PyUnicode_FromFormat("%U.__dict__", base);
            break;
        case MG_SOURCE_DICT_ITEM:
            key = key_text(source->key);
            text = key == NULL ? NULL : PyUnicode_FromFormat("%U[%U]", base, key);
            Py_XDECREF(key);
            break;
        case MG_SOURCE_ITEM:
            text = PyUnicode_FromFormat("%U[%zd]", base, source->index);
            break;
        case MG_SOURCE_ATTR:
            text = PyUnicode_FromFormat("%U.%U", base, PyDescr_NAME(source->key));
            break;
        case MG_SOURCE_CELL:
            text = PyUnicode_FromFormat("%U.cell_contents", base);
            break;
        case MG_SOURCE_TYPE:
            text = PyUnicode_FromFormat("type(%U)", base);
            break;
        case MG_SOURCE_LOOKUP:
            text = PyUnicode_FromFormat("%U.%U", base, source->key);
            break;
        case MG_SOURCE_FUNCTION:
            text = PyUnicode_FromFormat("%U.%s", base, function_parts[source->index]);
            break;
        case MG_SOURCE_METHOD:
            text = PyUnicode_FromFormat("%U.%s", base, source->index == 0 ? "__func__" : "__self__");
            break;
        case MG_SOURCE_SET_ITEM:
            text = PyUnicode_FromFormat("list(%U)[%zd]", base, source->index);
            break;
        case MG_SOURCE_PROXY:
            text = PyUnicode_FromFormat("dict behind %U", base);
            break;
        case MG_SOURCE_GRAD:
            text = PyUnicode_FromFormat("%U.grad", base);
            break;
        case MG_SOURCE_SIZE:
            text = PyUnicode_FromFormat("%U.size()[%zd]", base, source->index);
            break;
        case MG_SOURCE_STRIDE:
            text = PyUnicode_FromFormat("%U.stride()[%zd]", base, source->index);
            break;
        case MG_SOURCE_NAME:
            text = PyUnicode_FromFormat("%U.%s", base, name_parts[source->index]);
            break;
        case MG_SOURCE_MRO:
            text = PyUnicode_FromFormat("%U.__mro__", base);
            break;
        default:
            break;
    }
    Py_DECREF(base);
    return text;
}

PyObject *
mg_source_text(const MgSource *source)
{
    return text_at(source, 0);
}

void
mg_sources_free(MgSources *sources)
{
    for (int i = 0; i < sources->count; i++) {
        Py_XDECREF(sources->items[i]->key);
        Py_XDECREF(sources->items[i]->view);
        Py_XDECREF(sources->items[i]->note);
        PyMem_Free(sources->items[i]);
    }
    PyMem_Free(sources->items);
    mg_table_free(&sources->known);
    *sources = (MgSources){0};
}

uint64_t
mg_source_path(const MgSource *source, uint64_t base)
{
    uint64_t parts[] = {(uint64_t)source->kind, (uint64_t)source->index,
                        source->key != NULL && PyUnicode_CheckExact(source->key) ? (uint64_t)PyObject_Hash(source->key)
                                                                                 : (uint64_t)(uintptr_t)source->key};
    uint64_t path = base;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(parts); i++) {
        path = (path ^ parts[i]) * 0x9e3779b97f4a7c15u;
        path ^= path >> 29;
    }
    return path;
}

int
mg_paths_have(const MgPaths *paths, uint64_t path)
{
    for (int i = 0; i < paths->count; i++) {
        if (paths->items[i] == path) {
            return 1;
        }
    }
    return 0;
}

void
mg_paths_add(MgPaths *paths, uint64_t path)
{
    const int room = (int)Py_ARRAY_LENGTH(paths->items);
    if (mg_paths_have(paths, path)) {
        return;
    }
    if (paths->count == room) {
        memmove(paths->items, paths->items + 1, sizeof(uint64_t) * (size_t)(room - 1));
        paths->count--;
    }
    paths->items[paths->count++] = path;
}
