/* Shadows: copies of outside containers that captured code may use and change in their place.
 *
 * A shadow is of the same type as the original, and is made and filled by the builtin type's own functions, whatever a
 * Python class that extends it has overridden. Reading an original here runs no Python code. */
#include "cpython/cpython311.h"

#include "cpython/aside.h"
#include "cpython/shadow.h"

PyTypeObject *mg_deque_type, *mg_defaultdict_type, *mg_namespace_type;
PyObject *mg_shadow_factory;

/* ---- layouts that CPython keeps to itself; mg_shadow_init checks them ---- */

enum { DEQUE_BLOCK = 64 };

typedef struct DequeBlock {
    struct DequeBlock *left;
    PyObject *items[DEQUE_BLOCK];
    struct DequeBlock *right;
} DequeBlock;

typedef struct {
    PyObject_VAR_HEAD
    DequeBlock *left, *right;
    Py_ssize_t left_index, right_index;
    size_t state;
    Py_ssize_t limit;
} Deque;

typedef struct OrderedNode {
    PyObject *key;
    Py_hash_t hash;
    struct OrderedNode *next, *previous;
} OrderedNode;

typedef struct {
    PyDictObject dict;
    OrderedNode *first, *last;
    OrderedNode **
        table; /* the nodes by their place in the dict; made again from the list where `keys` is not that of the dict */
    Py_ssize_t table_size;
    void *keys;
    size_t state; /* changes whenever the order does */
} Ordered;

typedef struct {
    PyObject_HEAD
    PyObject *mapping;
} Proxy;

PyObject *
mg_deque_item(PyObject *deque, Py_ssize_t index)
{
    Deque *self = (Deque *)deque;
    if (index < 0 || index >= Py_SIZE(self)) {
        return NULL;
    }
    index += self->left_index;
    DequeBlock *block = self->left;
    for (; index >= DEQUE_BLOCK; index -= DEQUE_BLOCK) {
        block = block->right;
    }
    return block->items[index];
}

PyObject *
mg_deque_items(PyObject *deque)
{
    Py_ssize_t size = Py_SIZE(deque);
    PyObject *items = PyList_New(size);
    for (Py_ssize_t i = 0; items != NULL && i < size; i++) {
        PyList_SET_ITEM(items, i, Py_NewRef(mg_deque_item(deque, i)));
    }
    return items;
}

Py_ssize_t
mg_deque_limit(PyObject *deque)
{
    return ((Deque *)deque)->limit;
}

PyObject *
mg_proxy_mapping(PyObject *proxy)
{
    return ((Proxy *)proxy)->mapping;
}

int
mg_dict_next(PyObject *dict, MgDictWalk *walk, PyObject **key, PyObject **value)
{
    if (!PyODict_Check(dict)) {
        return _PyDict_Next(dict, &walk->position, key, value, &walk->hash);
    }
    OrderedNode *node = walk->started ? walk->node : ((Ordered *)dict)->first;
    walk->started = 1;
    if (node == NULL) {
        return 0;
    }
    walk->node = node->next;
    walk->hash = node->hash;
    *key = node->key;
    *value = mg_dict_find_same(dict, node->key, node->hash);
    return *value != NULL;
}

int
mg_dict_is_walked(PyObject *dict, const MgDictWalk *walk, Py_ssize_t count)
{
    return count == PyDict_GET_SIZE(dict) &&
           (!PyODict_Check(dict) || (walk->started ? walk->node : ((Ordered *)dict)->first) == NULL);
}

/* The node of a key that an OrderedDict has; NULL with an exception if there is none. */
static OrderedNode *
ordered_find(Ordered *self, PyObject *key, Py_hash_t hash)
{
    OrderedNode *node = self->first;
    while (node != NULL && node->key != key) {
        node = node->next;
    }
    if (node != NULL) {
        return node;
    }
    size_t state = self->state;
    for (node = self->first; node != NULL; node = node->next) {
        PyObject *other = Py_NewRef(node->key);
        int same = node->hash != hash ? 0 : PyObject_RichCompareBool(other, key, Py_EQ);
        Py_DECREF(other);
        if (same < 0) {
            return NULL;
        }
        if (state != self->state) {
            break;
        }
        if (same > 0) {
            return node;
        }
    }
    PyErr_SetString(PyExc_RuntimeError, "an OrderedDict was changed while a key was looked for");
    return NULL;
}

static int
ordered_delete(Ordered *self, PyObject *key, Py_hash_t hash)
{
    OrderedNode *node = ordered_find(self, key, hash);
    if (node == NULL || _PyDict_DelItem_KnownHash((PyObject *)self, node->key, hash) < 0) {
        return MG_ERR;
    }
    *(node->previous == NULL ? &self->first : &node->previous->next) = node->next;
    *(node->next == NULL ? &self->last : &node->next->previous) = node->previous;
    self->keys = NULL;
    self->state++;
    Py_DECREF(node->key);
    PyMem_Free(node);
    return MG_OK;
}

/* dict[key] = value in an OrderedDict. */
static int
ordered_set(Ordered *self, PyObject *key, PyObject *value, Py_hash_t hash)
{
    int known = _PyDict_Contains_KnownHash((PyObject *)self, key, hash);
    OrderedNode *node = known != 0 ? NULL : PyMem_Malloc(sizeof(OrderedNode));
    if (known == 0 && node == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    if (known < 0 || _PyDict_SetItem_KnownHash((PyObject *)self, key, value, hash) < 0) {
        PyMem_Free(node);
        return MG_ERR;
    }
    if (node != NULL) {
        *node = (OrderedNode){Py_NewRef(key), hash, NULL, self->last};
        *(self->last == NULL ? &self->first : &self->last->next) = node;
        self->last = node;
        self->keys = NULL;
        self->state++;
    }
    return MG_OK;
}

int
mg_dict_set_known(PyObject *dict, PyObject *key, PyObject *value, Py_hash_t hash)
{
    if (PyODict_Check(dict)) {
        return value == NULL ? ordered_delete((Ordered *)dict, key, hash)
                             : ordered_set((Ordered *)dict, key, value, hash);
    }
    return value == NULL ? _PyDict_DelItem_KnownHash(dict, key, hash)
                         : _PyDict_SetItem_KnownHash(dict, key, value, hash);
}

/* 1 if what is done to an OrderedDict here is what its own methods would do: three keys are added, one is deleted, one moved. */
static int
ordered_holds(void)
{
    PyObject *dict = PyODict_New(), *keys = NULL, *moved = NULL, *list = NULL, *expected = NULL;
    int good = dict != NULL;
    for (long i = 0; good && i < 12; i++) {
        PyObject *number = PyLong_FromLong(i);
        good = number != NULL &&
               (i % 2 ? mg_dict_set_known(dict, number, Py_None, i) : PyODict_SetItem(dict, number, Py_None)) == 0 &&
               (i % 3 || mg_dict_set_known(dict, number, NULL, i) == 0);
        Py_XDECREF(number);
    }
    moved = good ? PyObject_CallMethod(dict, "move_to_end", "i", 1) : NULL;
    keys = moved == NULL ? NULL : PyObject_CallMethod(dict, "keys", NULL);
    list = keys == NULL ? NULL : PySequence_List(keys);
    expected = list == NULL ? NULL : Py_BuildValue("[iiiiiiii]", 2, 4, 5, 7, 8, 10, 11, 1);
    good = expected != NULL && PyObject_RichCompareBool(list, expected, Py_EQ) > 0 && PyDict_GET_SIZE(dict) == 8;
    Py_XDECREF(dict);
    Py_XDECREF(moved);
    Py_XDECREF(keys);
    Py_XDECREF(list);
    Py_XDECREF(expected);
    return good;
}

/* 1 if the layouts above are those of this CPython. */
static int
layouts_hold(void)
{
    int good = 0;
    PyObject *deque = NULL, *ordered = NULL, *proxy = NULL, *dict = NULL;
    deque = PyObject_CallFunction((PyObject *)mg_deque_type, "(iii)i", 1, 2, 3, 7);
    ordered = PyODict_New();
    dict = PyDict_New();
    proxy = dict == NULL ? NULL : PyDictProxy_New(dict);
    if (deque == NULL || ordered == NULL || proxy == NULL) {
        goto done;
    }
    for (int i = 0; i < 3; i++) {
        PyObject *number = PyLong_FromLong(i);
        int status = number == NULL ? -1 : PyODict_SetItem(ordered, number, Py_None);
        Py_XDECREF(number);
        if (status < 0) {
            goto done;
        }
    }
    PyObject *moved = PyObject_CallMethod(ordered, "move_to_end", "i", 0);
    if (moved == NULL) {
        goto done;
    }
    Py_DECREF(moved);
    MgDictWalk walk = {0};
    PyObject *key, *value;
    long expected[] = {1, 2, 0};
    int index = 0;
    good = mg_proxy_mapping(proxy) == dict && mg_deque_limit(deque) == 7;
    while (good && mg_dict_next(ordered, &walk, &key, &value)) {
        good = index < 3 && PyLong_Check(key) && PyLong_AsLong(key) == expected[index++] && value == Py_None;
    }
    good = good && index == 3;
    for (Py_ssize_t i = 0; good && i < 3; i++) {
        PyObject *item = mg_deque_item(deque, i);
        good = item != NULL && PyLong_CheckExact(item) && PyLong_AsLong(item) == i + 1;
    }
done:
    Py_XDECREF(deque);
    Py_XDECREF(ordered);
    Py_XDECREF(proxy);
    Py_XDECREF(dict);
    return good;
}

int
mg_shadow_init(void)
{
    if (mg_shadow_factory != NULL) {
        return MG_OK;
    }
    PyObject *module = mg_aside_import("collections");
    if (module == NULL) {
        return MG_ERR;
    }
    mg_deque_type = (PyTypeObject *)PyObject_GetAttrString(module, "deque");
    mg_defaultdict_type = (PyTypeObject *)PyObject_GetAttrString(module, "defaultdict");
    Py_DECREF(module);
    PyObject *types = mg_aside_import("types");
    mg_namespace_type = types == NULL ? NULL : (PyTypeObject *)PyObject_GetAttrString(types, "SimpleNamespace");
    Py_XDECREF(types);
    if (mg_deque_type == NULL || mg_defaultdict_type == NULL || mg_namespace_type == NULL) {
        return MG_ERR;
    }
    PyObject *factory = mg_dict_get(mg_defaultdict_type->tp_dict, "default_factory");
    if (factory == NULL || !Py_IS_TYPE(factory, &PyMemberDescr_Type) || !layouts_hold() || !ordered_holds()) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ImportError,
                            "magneto does not know this CPython's deque, OrderedDict or mappingproxy");
        }
        return MG_ERR;
    }
    mg_shadow_factory = Py_NewRef(factory);
    return MG_OK;
}

/* ---- shadows ---- */

PyTypeObject *
mg_shadow_base(PyTypeObject *type)
{
    while (type->tp_flags & Py_TPFLAGS_HEAPTYPE && type->tp_base != NULL) {
        type = type->tp_base;
    }
    return type == &PyList_Type || type == &PyDict_Type || type == &PyODict_Type || type == mg_defaultdict_type ||
                   type == &PySet_Type || type == &PyFrozenSet_Type || type == mg_deque_type || type == &PyTuple_Type
               ? type
               : NULL;
}

PyObject *
mg_shadow_empty(PyTypeObject *type, PyTypeObject *base, Py_ssize_t limit)
{
    PyObject *arguments = PyTuple_New(0);
    PyObject *made = arguments == NULL ? NULL : base->tp_new(type, arguments, NULL);
    Py_XDECREF(arguments);
    if (made == NULL) {
        return NULL;
    }
    int status = 0;
    if (base == mg_deque_type) {
        arguments = limit < 0 ? PyTuple_New(0) : Py_BuildValue("(()n)", limit);
        status = arguments == NULL ? -1 : base->tp_init(made, arguments, NULL);
        Py_XDECREF(arguments);
    }
    if (status < 0) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *
mg_shadow_tuple(PyTypeObject *type, PyObject *items)
{
    if (type == &PyTuple_Type) {
        return Py_NewRef(items);
    }
    PyObject *mark = MG_STRING("n_sequence_fields"); /* of a structseq */
    PyObject *arguments = mark == NULL ? NULL : PyTuple_Pack(1, items);
    PyObject *made = arguments == NULL ? NULL
                     : mg_shadow_base(type) == &PyTuple_Type && type->tp_itemsize == PyTuple_Type.tp_itemsize &&
                             _PyType_Lookup(type, mark) == NULL
                         ? PyTuple_Type.tp_new(type, arguments, NULL)
                         : type->tp_new(type, arguments, NULL); /* a structseq, a torch.Size */
    Py_XDECREF(arguments);
    return made;
}

/* Calls a method of the builtin type itself. MG_OK or MG_ERR. */
static int
call_base(PyTypeObject *base, const char *name, PyObject *self, PyObject *argument)
{
    PyObject *method = mg_dict_get(base->tp_dict, name);
    PyObject *result = method == NULL     ? NULL
                       : argument == NULL ? PyObject_CallOneArg(method, self)
                                          : PyObject_CallFunctionObjArgs(method, self, argument, NULL);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

int
mg_shadow_add(PyObject *container, PyObject *item)
{
    if (PyList_Check(container)) {
        return PyList_Append(container, item);
    }
    if (PyAnySet_Check(container)) {
        return PySet_Add(container, item);
    }
    return call_base(mg_deque_type, "append", container, item);
}

int
mg_shadow_set(PyObject *dict, PyObject *key, PyObject *value)
{
    if (PyODict_Check(dict)) {
        return value == NULL ? PyODict_DelItem(dict, key) : PyODict_SetItem(dict, key, value);
    }
    return value == NULL ? PyDict_DelItem(dict, key) : PyDict_SetItem(dict, key, value);
}

int
mg_shadow_clear(PyObject *container)
{
    if (PyList_Check(container)) {
        return PyList_SetSlice(container, 0, PyList_GET_SIZE(container), NULL);
    }
    if (PyAnySet_Check(container)) {
        return PySet_Clear(container);
    }
    if (PyODict_Check(container)) {
        return call_base(&PyODict_Type, "clear", container, NULL);
    }
    if (PyDict_Check(container)) {
        PyDict_Clear(container);
        return MG_OK;
    }
    return call_base(mg_deque_type, "clear", container, NULL);
}
