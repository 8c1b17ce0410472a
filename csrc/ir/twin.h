/* Twins: tensors without data that stand for tensors during a capture. */
#ifndef MG_TWIN_H
#define MG_TWIN_H

#include "ir/meta.h"
#include "ir/source.h"

/* What a twin stands for; hangs in the twin's slot. */
typedef struct MgTwin MgTwin;
struct MgTwin {
    PyObject_HEAD
    MgMeta *meta;       /* strong */
    int node;           /* where it comes from: index in the recording, -1 while it is not there */
    MgSource *source;   /* of an outside tensor, else NULL; borrowed from the capture */
    PyObject *real;     /* strong: the outside tensor, else NULL */
    PyObject *fake;     /* strong: the FakeTensor of an operation with symbols that it took part in, else NULL */
    PyTypeObject *type; /* strong: its class, if that is a subclass with behaviour of its own; else NULL */
    int overrides;      /* that class has a __torch_function__ to be called */
    PyObject *base;     /* strong: the twin that became one of that class; else NULL */
    PyObject *dict;     /* strong: the attributes that captured code has given to one that it made; or NULL */
    int is_part;        /* a wrapper from outside holds it */
    int shares;         /* it shares memory with others that are not in its ring */
    long row;     /* if it is a row, or its view, of what requires grad: the instruction that made all rows; else 0 */
    int gradless; /* a view of what requires grad, made where gradients were off: not for a backend to give back */
    uint64_t capture; /* the number of the capture it belongs to */
    int changes;      /* what its operations did to it, see storage.h */
    MgTwin *next;     /* the ring of twins that are views of one tensor; borrowed: a dying twin leaves it */
    MgTwin *previous;
};

extern PyTypeObject MgTwin_Type;
extern PyTypeObject *mg_twin_class; /* their Python class, and where its slot is; set by mg_twin_init */
extern Py_ssize_t mg_twin_offset;

static inline int
mg_is_twin(PyObject *object)
{
    return Py_TYPE(object) == mg_twin_class;
}

static inline MgTwin *
mg_twin_of(PyObject *object)
{
    return *(MgTwin **)((char *)object + mg_twin_offset);
}

int mg_twin_init(PyObject *twin_class), mg_twin_types_ready(void);
extern void (*mg_twin_gone)(int node, uint64_t capture); /* set by captures: nothing reaches a node's value any more */
PyObject *mg_twin_new(MgMeta *meta, uint64_t capture);
/* The FakeTensor that stands for a twin in operations with symbols, or NULL; borrowed. */
PyObject *mg_twin_fake(const MgTwin *twin);
/* Makes a new twin a view of what `other` is a view of. */
void mg_twin_join(MgTwin *twin, MgTwin *other);

#endif
