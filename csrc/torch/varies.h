/* What a tensor must be like, and what may differ in tensors that one guard is for. */
#ifndef MG_VARIES_H
#define MG_VARIES_H

#include "torch/layout.h"

/* Which sizes and strides of a tensor may be others than those of the example. */
enum { MG_VARYING_DIMS = 8, MG_STRIDE_FIXED = -1, MG_STRIDE_ANY = -2 };
typedef struct {
    int any;       /* some may */
    uint8_t sizes; /* bits */
    int8_t
        strides[MG_VARYING_DIMS]; /* MG_STRIDE_FIXED, MG_STRIDE_ANY, or the dimension whose size times stride it is */
} MgTensorVaries;

/* What a tensor must be like, in libtorch's own terms. */
typedef struct {
    int64_t dim;
    int32_t dtype, device_type, device_index;
    int requires_grad, leafness; /* the latter MG_LEAF_ANY for those that require no gradient, or if nobody asked */
    int conjugate, negative;     /* its values are the conjugates or negatives of what its memory holds */
    int64_t *dims;               /* owned: sizes, then strides */
    int64_t sizes[MG_INLINE_DIMS], strides[MG_INLINE_DIMS]; /* the same again, if there are so few */
    MgTensorVaries varies;
    int index;           /* among those of its program */
    int quick;           /* the layout is known, and the sizes lie in the TensorImpl */
    uint64_t keys;       /* dispatch keys, if the layout is known */
    uint64_t rest, mask; /* dtype, device and flags, and the bits of them that were never seen to be otherwise */
} MgTensorCheck;

#endif
