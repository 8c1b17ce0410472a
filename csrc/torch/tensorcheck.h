/* What a tensor must be like, and whether one is. */
#ifndef MG_TENSORCHECK_H
#define MG_TENSORCHECK_H

#include "torch/layout.h"
#include "torch/varies.h"

enum { MG_LEAF_NO, MG_LEAF, MG_LEAF_VIEW, MG_LEAF_ANY }; /* a view of a leaf can't be written to, either */

typedef struct {
    MgTensorCheck **items;
    int count;
} MgTensorChecks; /* owned, of a program: one for all that are alike */

/* The check for tensors like this one, but for what may vary, and leaves like it, if that was asked for. Borrowed, or NULL. */
MgTensorCheck *mg_tensor_check_get(MgTensorChecks *checks, PyObject *tensor, int asks_leaves,
                                   const MgTensorVaries *varies);
void mg_tensor_checks_free(MgTensorChecks *checks);

/* Whether a tensor is as it must be, by libtorch's functions: 1, 0 or -1. */
int mg_tensor_check_ask(PyObject *tensor, MgTensorCheck *check);

/* 1 if sizes and strides that differ from the example's differ only in what may vary. */
int mg_tensor_check_varies(const int64_t *sizes, const int64_t *strides, const MgTensorCheck *check);

/* For a quick check: 1 or 0 from memory alone; MG_MEMORY_UNSURE if libtorch must be asked. */
static inline int
mg_tensor_check_memory(PyObject *tensor, const MgTensorCheck *check)
{
    const char *impl = mg_tensor_impl(tensor);
    const int64_t *sizes = (const int64_t *)(const void *)(impl + mg_tensor_layout.sizes);
    const int64_t *strides = (const int64_t *)(const void *)(impl + mg_tensor_layout.strides);
    int64_t dim = (int64_t)mg_word_at(impl, mg_tensor_layout.dim);
    if (dim != check->dim) {
        return 0;
    }
    for (int64_t i = 0; i < dim; i++) {
        if (sizes[i] != check->dims[i] || strides[i] != check->dims[dim + i]) {
            if (!check->varies.any || !mg_tensor_check_varies(sizes, strides, check)) {
                return 0;
            }
            break;
        }
    }
    if (mg_word_at(impl, mg_tensor_layout.rest + 8) != check->keys) {
        return 0;
    }
    if (((mg_word_at(impl, mg_tensor_layout.rest) ^ check->rest) & check->mask) != 0) {
        return MG_MEMORY_UNSURE;
    }
    int needs = mg_tensor_needs_grad(tensor);
    if (needs == MG_MEMORY_UNSURE || needs != check->requires_grad || check->leafness == MG_LEAF_ANY) {
        return needs == MG_MEMORY_UNSURE ? needs : needs == check->requires_grad;
    }
    return check->leafness == MG_LEAF ? mg_tensor_is_leaf(tensor) : MG_MEMORY_UNSURE;
}

/* Whether a tensor is as it must be: 1, 0 or -1. */
static inline int
mg_tensor_check_holds(PyObject *tensor, MgTensorCheck *check)
{
    if (MG_LIKELY(check->quick)) {
        int same = mg_tensor_check_memory(tensor, check);
        if (MG_LIKELY(same != MG_MEMORY_UNSURE)) {
            return same;
        }
    }
    return mg_tensor_check_ask(tensor, check);
}

#endif
