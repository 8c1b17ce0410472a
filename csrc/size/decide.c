/* Sizes as shape functions use them: the part that makes expressions and guards. */
#include "size/decide.h"

MgSizes mg_sizes;

int
mg_size_decide(MgRelation relation, MgDim a, MgDim b)
{
    assert(mg_sizes.facts != NULL);
    int result = mg_sizes.failed ? 0 : mg_facts_decide(mg_sizes.facts, relation, a, b);
    mg_sizes.failed = mg_sizes.failed || result < 0;
    return result > 0;
}

int
mg_size_knows_eq(MgDim a, MgDim b)
{
    assert(mg_sizes.facts != NULL);
    return mg_facts_know(mg_sizes.facts, MG_RELATION_EQ, a, b) == 1;
}

int64_t
mg_size_value(MgDim a)
{
    if (a.e != NULL && !mg_sizes.failed) {
        assert(mg_sizes.facts != NULL);
        mg_sizes.failed = mg_facts_specialize(mg_sizes.facts, a) < 0;
    }
    return a.v;
}

/* One try: 1, or 0 if it is too hard. */
static int
try_operator(MgSizeOperator operator, MgDim a, MgDim b, MgDim *result)
{
    switch (operator) {
        case MG_SIZE_ADD:
            return mg_dim_add(a, b, result);
        case MG_SIZE_SUB:
            return mg_dim_sub(a, b, result);
        case MG_SIZE_MUL:
            return mg_dim_mul(a, b, result);
        case MG_SIZE_FLOORDIV:
            return mg_dim_operate(MG_ATOM_FLOORDIV, a, b, result);
        case MG_SIZE_MOD:
            return mg_dim_operate(MG_ATOM_MOD, a, b, result);
        case MG_SIZE_MIN:
            return mg_dim_operate(MG_ATOM_MIN, a, b, result);
        case MG_SIZE_MAX:
            return mg_dim_operate(MG_ATOM_MAX, a, b, result);
    }
    return 0;
}

/* Of two sizes that are known to be in an order, the smaller or the larger is one of them. 1 if it is known. */
static int
choose(MgSizeOperator operator, MgDim a, MgDim b, MgDim *result)
{
    if (operator != MG_SIZE_MIN && operator != MG_SIZE_MAX) {
        return 0;
    }
    int left = mg_facts_know(mg_sizes.facts, MG_RELATION_LE, a, b) == 1; /* a is the smaller, or as small */
    if (!left && mg_facts_know(mg_sizes.facts, MG_RELATION_LE, b, a) != 1) {
        return 0;
    }
    *result = left == (operator == MG_SIZE_MIN) ? a : b;
    return 1;
}

MgDim
mg_size_operate(MgSizeOperator operator, MgDim a, MgDim b)
{
    MgDim result = mg_dim(0);
    if (a.e == NULL && b.e == NULL) {
        return try_operator(operator, a, b, &result) ? result : mg_dim(0);
    }
    assert(mg_sizes.facts != NULL);
    a = mg_facts_simplify(mg_sizes.facts, a);
    b = mg_facts_simplify(mg_sizes.facts, b);
    if (choose(operator, a, b, &result)) {
        return result;
    }
    if ((operator == MG_SIZE_FLOORDIV || operator == MG_SIZE_MOD) && mg_size_eq(b, mg_dim(0))) {
        return mg_dim(0); /* the caller has said that this is not so */
    }
    if (try_operator(operator, a, b, &result)) {
        return mg_facts_simplify(mg_sizes.facts, result);
    }
    a = mg_dim(mg_size_value(a));
    b = mg_dim(mg_size_value(b));
    return try_operator(operator, a, b, &result) ? result : mg_dim(0);
}
