/* Twins that are other objects for the same tensor, or that share its memory. */
#ifndef MG_ALIAS_H
#define MG_ALIAS_H

#include "ir/twin.h"

/* What an operation gave that returns one of its arguments. The graph tells it from the argument, the program does not:
 * `is` goes by the original. Hangs in the twin's other slot, while the first is shared. */
typedef struct {
    PyObject_HEAD
    PyObject *original; /* strong: the first twin */
    int node;           /* of the operation */
} MgAlias;

extern Py_ssize_t mg_twin_alias_offset;

/* NULL for an original. */
static inline MgAlias *
mg_twin_alias(PyObject *object)
{
    return *(MgAlias **)((char *)object + mg_twin_alias_offset);
}

/* What `is` goes by; borrowed. Objects that are no twins are their own originals. */
static inline PyObject *
mg_twin_original(PyObject *object)
{
    return mg_is_twin(object) && mg_twin_alias(object) != NULL ? mg_twin_alias(object)->original : object;
}

/* The node that gave this very object, -1 if there is none yet. */
static inline int
mg_twin_node(PyObject *object)
{
    return mg_twin_alias(object) != NULL ? mg_twin_alias(object)->node : mg_twin_of(object)->node;
}

/* A new object for the tensor of a twin, as the operation `node` returns it. */
PyObject *mg_twin_new_alias(PyObject *twin, int node);

/* 1 if tensors that are not known here may share the twin's memory. */
static inline int
mg_twin_is_shared(const MgTwin *twin)
{
    return twin->source != NULL || twin->next != twin || twin->shares;
}

#endif
