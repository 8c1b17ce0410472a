/* The pinned tensors of a fast path: parameters and buffers, mostly, of which only the metadata can have changed. */
#ifndef MG_PINNED_H
#define MG_PINNED_H

#include "torch/tensorcheck.h"

typedef struct MgPinned MgPinned; /* one of them, and the guard on it */

typedef struct {
    MgPinned *items; /* owned, with room to read ahead; those with the same guard lie together */
    int count;
} MgPinnedTensors;

/* Takes so many tensors and their guards, in any order; `numbers` are those of the guards among all. MG_OK, or MG_ERR if there
 * is no memory, without an exception. */
int mg_pinned_make(MgPinnedTensors *tensors, int count, PyObject *const *objects, MgTensorCheck *const *guards,
                   const int *numbers);
void mg_pinned_free(MgPinnedTensors *tensors);

/* 1 if all are as they must be; else 0 or -1, and *failed is the number of the guard; MG_PINNED_UNKNOWN if one has another
 * type than it had. */
enum { MG_PINNED_UNKNOWN = 2 };
int mg_pinned_run(const MgPinnedTensors *tensors, int *failed);

#endif
