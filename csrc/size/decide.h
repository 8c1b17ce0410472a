/* Sizes as shape functions use them: arithmetic that always has a result, questions that always have an answer.
 *
 * Sizes that are the same at each call cost a test of a pointer. Of the others an expression is made; where that is too hard,
 * the values of the call are taken for good. A question that does not follow from what is known is decided by the values of
 * the call, and becomes a guard. So code on sizes reads as if they were numbers, and can't take one for granted by mistake:
 * MgDim is a struct, which C does not compare. */
#ifndef MG_DECIDE_H
#define MG_DECIDE_H

#include "size/compute.h"

/* The facts that questions are decided by: those of the capture whose operation is worked out. The GIL is held all the time,
 * and no Python code runs. */
typedef struct {
    MgFacts *facts; /* borrowed; NULL if all sizes are numbers */
    int failed;     /* there was no memory: an exception is set, and the results are worth nothing */
    int asked;      /* so they are if the value of a float that varies was asked for, which nothing here can guard */
} MgSizes;

extern MgSizes mg_sizes;

/* The slow path of what follows; and whether two are known to be equal, without a guard. */
int mg_size_decide(MgRelation relation, MgDim a, MgDim b);
int mg_size_knows_eq(MgDim a, MgDim b);
/* The value, for good: of a size that is another one at other calls it becomes a guard that it is this one. */
int64_t mg_size_value(MgDim a);

/* a == b, a < b, a <= b: 1 or 0. */
static inline int
mg_size_eq(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? a.v == b.v : mg_size_decide(MG_RELATION_EQ, a, b);
}

static inline int
mg_size_lt(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? a.v < b.v : mg_size_decide(MG_RELATION_LT, a, b);
}

static inline int
mg_size_le(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? a.v <= b.v : mg_size_decide(MG_RELATION_LE, a, b);
}

/* 1 if a == b is known, without a guard: what is asked first where that spares other questions. */
static inline int
mg_size_known_eq(MgDim a, MgDim b)
{
    return MG_LIKELY(a.e == NULL && b.e == NULL) ? a.v == b.v : mg_size_knows_eq(a, b);
}

/* Comparisons with a number. */
static inline int
mg_size_is(MgDim a, int64_t number)
{
    return mg_size_eq(a, mg_dim(number));
}

static inline int
mg_size_below(MgDim a, int64_t number)
{
    return mg_size_lt(a, mg_dim(number));
}

static inline int
mg_size_above(MgDim a, int64_t number)
{
    return mg_size_lt(mg_dim(number), a);
}

#endif
