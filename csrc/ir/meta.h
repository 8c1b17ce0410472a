/* Metadata: what is known of a tensor without its data. */
#ifndef MG_META_H
#define MG_META_H

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
    MG_META_WRAPPER = 128,   /* of a class that wraps other tensors (__torch_dispatch__): `fake` is an instance of it */
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
    PyObject *fake;    /* strong: the FakeTensor, if it has symbols; of a wrapper one around FakeTensors; else NULL */
} MgMeta;

extern PyTypeObject MgMeta_Type;

/* Metadata of an outside tensor. New. NULL without an exception if it has no plain strides, or torch refuses to tell. */
MgMeta *mg_meta_of_tensor(PyObject *tensor);
/* Metadata from its parts; sizes and strides are sequences of ints and MgDimObjects, or with a FakeTensor also of symbols. New. */
MgMeta *mg_meta_get(PyObject *dtype, PyObject *device, PyObject *sizes, PyObject *strides, int flags, PyObject *fake);
int mg_meta_sweep(void); /* forgets what nobody else holds; MG_OK or MG_ERR */

#endif
