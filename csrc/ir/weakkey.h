/* Keys of dicts that a guard program refers to without keeping them alive. */
#ifndef MG_WEAKKEY_H
#define MG_WEAKKEY_H

#include "base/magneto.h"

extern PyObject *mg_weak_mark; /* strong: the first item of what stands for such a key; NULL before there was one */

/* What stands for a key that can be referred to weakly. New. */
PyObject *mg_weak_key_new(PyObject *key);

static inline int
mg_weak_key_is(PyObject *key)
{
    return PyTuple_CheckExact(key) && PyTuple_GET_SIZE(key) == 2 && mg_weak_mark != NULL &&
           PyTuple_GET_ITEM(key, 0) == mg_weak_mark;
}

/* The key itself; NULL, without an exception, if it is gone. Borrowed. */
static inline PyObject *
mg_weak_key_get(PyObject *key)
{
    if (MG_UNLIKELY(mg_weak_key_is(key))) {
        PyObject *object = PyWeakref_GET_OBJECT(PyTuple_GET_ITEM(key, 1));
        return object == Py_None ? NULL : object;
    }
    return key;
}

/* A tuple with the keys themselves, None for those that are gone. New. */
PyObject *mg_weak_keys(PyObject *keys);

#endif
