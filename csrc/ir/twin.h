/* Tensors without data: interned metadata, and the twins that stand for tensors during a capture. */
#ifndef MG_TWIN_H
#define MG_TWIN_H

#include "ir/source.h"
#include "torch/torchabi.h"

enum {
    MG_META_REQUIRES_GRAD = 1,
    MG_META_NON_LEAF = 2,
    MG_META_PARAMETER = 4,
    MG_META_CONJUGATE = 8, /* its values are the conjugates of what its memory holds */
    MG_META_NEGATIVE = 16, /* its values are the negatives of what its memory holds */
    /* of a tensor that requires grad, and that for this reason can't be changed in place in grad mode: */
    MG_META_LEAF_VIEW = 32,  /* a view of a leaf */
    MG_META_MULTI_VIEW = 64, /* one of several views that one operation gave */
};

/* What is known of a tensor without its data. Interned, unless it has symbols: equal metadata is one object. */
typedef struct {
    PyObject_HEAD
    PyObject *dtype;  /* strong */
    PyObject *device; /* strong */
    int flags;        /* MG_META_... */
    int dim;
    int varies;        /* a size or stride is another at other calls: an MgDimObject */
    PyObject *sizes;   /* strong: torch.Size, also of sizes that vary */
    PyObject *strides; /* strong: tuple */
    PyObject *fake;    /* strong: the FakeTensor, if a size, a stride or the offset is a symbol; else NULL */
} MgMeta;

extern PyTypeObject MgMeta_Type;
/* What a twin stands for; hangs in the twin's slot. */
typedef struct MgTwin MgTwin;
struct MgTwin {
    PyObject_HEAD
    MgMeta *meta;     /* strong */
    int node;         /* where it comes from: index in the recording, -1 while it is not there */
    MgSource *source; /* of an outside tensor, else NULL; borrowed from the capture */
    PyObject *real;   /* strong: the outside tensor, else NULL */
    PyObject *fake;   /* strong: the FakeTensor of an operation with symbols that it took part in, else NULL */
    int shares;       /* it shares memory with others that are not in its ring */
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
/* Metadata of an outside tensor. New. NULL without an exception if it has no plain strides, or torch refuses to tell. */
MgMeta *mg_meta_of_tensor(PyObject *tensor);
/* Metadata from its parts; sizes and strides are sequences of ints and MgDimObjects, or with a FakeTensor also of symbols. New. */
MgMeta *mg_meta_get(PyObject *dtype, PyObject *device, PyObject *sizes, PyObject *strides, int flags, PyObject *fake);
int mg_meta_sweep(void); /* forgets what nobody else holds; MG_OK or MG_ERR */

#endif
