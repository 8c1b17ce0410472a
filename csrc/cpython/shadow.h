/* Shadows: copies of outside containers that captured code may use and change in their place. */
#ifndef MG_SHADOW_H
#define MG_SHADOW_H

#include "base/magneto.h"

/* Looks the types up, and checks that CPython lays their objects out as it is known here. MG_OK or MG_ERR. */
int mg_shadow_init(void);

/* The builtin container that a type is or extends: list, dict, OrderedDict, defaultdict, set, frozenset, deque, tuple.
 * Borrowed; NULL if it is none. */
PyTypeObject *mg_shadow_base(PyTypeObject *type);

extern PyTypeObject *mg_deque_type, *mg_defaultdict_type, *mg_namespace_type;

/* The descriptor of defaultdict.default_factory. */
extern PyObject *mg_shadow_factory;

/* An empty container of a type, made by the builtin type `base` alone: no code of a Python class runs. `limit` is that of
 * a deque, -1 for none. New. */
PyObject *mg_shadow_empty(PyTypeObject *type, PyTypeObject *base, Py_ssize_t limit);

/* A tuple of a type from a plain tuple of its items, with no code of a Python class. New. */
PyObject *mg_shadow_tuple(PyTypeObject *type, PyObject *items);

/* Adds to the end of a list, deque or set, or sets an item of a dict, by the builtin type's own means. */
int mg_shadow_add(PyObject *container, PyObject *item);
int mg_shadow_set(PyObject *dict, PyObject *key, PyObject *value); /* deletes if value is NULL */
int mg_shadow_clear(PyObject *container);

/* Sets or deletes an item of a dict, OrderedDicts among them, whose key has this hash: its __hash__ is not called. */
int mg_dict_set_known(PyObject *dict, PyObject *key, PyObject *value, Py_hash_t hash);

/* Walks a dict in its own order, which is not that of PyDict_Next for an OrderedDict. Borrowed key and value. */
typedef struct {
    Py_ssize_t position;
    void *node;
    Py_hash_t hash; /* of the last key */
    int started;
} MgDictWalk;
int mg_dict_next(PyObject *dict, MgDictWalk *walk, PyObject **key, PyObject **value);

/* 1 if a walk that gave so many items gave all: dict's own methods can part the items of an OrderedDict from its order. */
int mg_dict_is_walked(PyObject *dict, const MgDictWalk *walk, Py_ssize_t count);

/* Deques. The item is borrowed, NULL if there is none; the limit is -1 if there is none. */
PyObject *mg_deque_item(PyObject *deque, Py_ssize_t index);
Py_ssize_t mg_deque_limit(PyObject *deque);
PyObject *mg_deque_items(PyObject *deque); /* a new list */

/* What a mappingproxy stands for. Borrowed. */
PyObject *mg_proxy_mapping(PyObject *proxy);

#endif
