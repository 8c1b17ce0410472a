/* Arithmetic on sizes that always has a result; see decide.h. */
#ifndef MG_COMPUTE_H
#define MG_COMPUTE_H

#include "size/facts.h"

/* The slow path of what follows. */
typedef enum {
    MG_SIZE_ADD,
    MG_SIZE_SUB,
    MG_SIZE_MUL,
    MG_SIZE_FLOORDIV,
    MG_SIZE_MOD,
    MG_SIZE_MIN,
    MG_SIZE_MAX
} MgSizeOperator;
MgDim mg_size_operate(MgSizeOperator operator, MgDim a, MgDim b);

/* a + b, a - b, a * b; a // b and a % b as Python has them, for a b that is not 0; the smaller, the larger. */
static inline MgDim
mg_size_add(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? mg_dim((int64_t)((uint64_t)a.v + (uint64_t)b.v))
                                                 : mg_size_operate(MG_SIZE_ADD, a, b);
}

static inline MgDim
mg_size_sub(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? mg_dim((int64_t)((uint64_t)a.v - (uint64_t)b.v))
                                                 : mg_size_operate(MG_SIZE_SUB, a, b);
}

static inline MgDim
mg_size_mul(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? mg_dim((int64_t)((uint64_t)a.v * (uint64_t)b.v))
                                                 : mg_size_operate(MG_SIZE_MUL, a, b);
}

static inline MgDim
mg_size_floordiv(MgDim a, MgDim b)
{
    return mg_size_operate(MG_SIZE_FLOORDIV, a, b);
}

static inline MgDim
mg_size_mod(MgDim a, MgDim b)
{
    return mg_size_operate(MG_SIZE_MOD, a, b);
}

static inline MgDim
mg_size_min(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? (a.v < b.v ? a : b) : mg_size_operate(MG_SIZE_MIN, a, b);
}

static inline MgDim
mg_size_max(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? (a.v > b.v ? a : b) : mg_size_operate(MG_SIZE_MAX, a, b);
}

#endif
