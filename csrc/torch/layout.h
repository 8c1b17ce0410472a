/* Where tensors hold their metadata in memory, and torch's global state in words: what guards read without a call. */
#ifndef MG_LAYOUT_H
#define MG_LAYOUT_H

#include "torch/torchabi.h"

/* Where a Python tensor and a TensorImpl hold what guards look at, in bytes; found by probing at start-up. */
typedef struct {
    size_t impl;           /* of the TensorImpl pointer in a Python tensor */
    int known;             /* the rest is known, and was seen to be right */
    size_t dim;            /* in a TensorImpl */
    size_t sizes, strides; /* the same, for up to MG_INLINE_DIMS dimensions */
    size_t rest;     /* two words: dtype, device and flags; the dispatch keys, so layout, conjugate and the like */
    size_t autograd; /* the pointer to the AutogradMeta, which may be NULL */
    size_t flag;     /* in an AutogradMeta: the byte requires_grad_ */
    size_t view;     /* in an AutogradMeta: a byte that is 1 for a view, and 0 for others */
    size_t storage;  /* the pointer to the StorageImpl in a TensorImpl; 0 if it is not known */
    size_t function; /* in an AutogradMeta: a word that is 0 if there is no grad_fn */
} MgTensorLayout;

enum { MG_INLINE_DIMS = 5 };

extern MgTensorLayout mg_tensor_layout;

/* The TensorImpl of a tensor. */
static inline const char *
mg_tensor_impl(PyObject *tensor)
{
    return *(const char **)((char *)tensor + mg_tensor_layout.impl);
}

/* A word at an offset. */
static inline uint64_t
mg_word_at(const char *start, size_t offset)
{
    return *(const uint64_t *)(const void *)(start + offset);
}

/* The AutogradMeta of a tensor, or NULL. For this and the next two the layout must be known. */
static inline const char *
mg_tensor_autograd(PyObject *tensor)
{
    return *(const char *const *)(const void *)(mg_tensor_impl(tensor) + mg_tensor_layout.autograd);
}

static inline int
mg_tensor_is_leaf(PyObject *tensor)
{
    const char *meta = mg_tensor_autograd(tensor);
    return meta == NULL || mg_word_at(meta, mg_tensor_layout.function) == 0;
}

enum { MG_MEMORY_UNSURE = 2 }; /* beside 1 and 0: libtorch has to be asked */
static inline int
mg_tensor_needs_grad(PyObject *tensor)
{
    const char *meta = mg_tensor_autograd(tensor);
    if (meta == NULL || meta[mg_tensor_layout.flag] != 0) {
        return meta != NULL;
    }
    return mg_word_at(meta, mg_tensor_layout.function) != 0 ? 1 : meta[mg_tensor_layout.view] ? MG_MEMORY_UNSURE : 0;
}

typedef struct {                 /* torch's global state in words */
    uint64_t flags;              /* grad mode, inference mode, default dtype, determinism, overrides */
    uint64_t included, excluded; /* dispatch keys of this thread: autocast and the like */
} MgState;

/* 1 and the state, if it can be read this way and no mode with a Python object is on; else 0. */
int mg_layout_read_state(MgState *state);
void mg_layout_set_keys(const MgState *state); /* one that was read on this thread */
int mg_layout_knows_state(void);
uint64_t mg_layout_keys(PyObject *tensor); /* its dispatch keys, as torch tells them; 0 if it does not */

/* 1 if a mode or a tracer is on that sees operations, other than torch's for the default device; -1 with an exception. */
int mg_layout_has_modes(void);
/* Finds all of this. It may not be found: then it is not used. */
void mg_layout_find(void);

#endif
