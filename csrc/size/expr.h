/* Expressions over the sizes and numbers that differ from call to call.
 *
 * An expression is a polynomial with int64 coefficients over atoms: a symbol, or an operation that is no polynomial, of two
 * expressions. Expressions are interned, and live as long as the process: equal polynomials are one object. Symbols are
 * numbers that a capture gives out, so that expressions outlive it. Nothing here raises: what is too hard (an overflow, too
 * many terms, no memory) is told by 0, and the caller takes the value in place of the expression. */
#ifndef MG_EXPR_H
#define MG_EXPR_H

#include "base/magneto.h"

typedef struct MgExpr MgExpr;

/* A size. */
typedef struct {
    int64_t v;       /* its value in the call that is captured */
    const MgExpr *e; /* NULL: it is v at each call */
} MgDim;

typedef enum {
    MG_ATOM_SYMBOL,
    MG_ATOM_FLOORDIV, /* as Python's //, and so are the others */
    MG_ATOM_MOD,
    MG_ATOM_MIN,
    MG_ATOM_MAX,
    MG_ATOM_POW,
    MG_ATOM_AND,
    MG_ATOM_OR,
    MG_ATOM_XOR,
} MgAtomKind;

static inline MgDim
mg_dim(int64_t value)
{
    return (MgDim){value, NULL};
}

/* These make a size of others, as Python's operators do. 1, or 0 if that is too hard, or if Python would raise. */
int mg_dim_symbol(int symbol, int64_t hint, MgDim *result);
int mg_dim_add(MgDim a, MgDim b, MgDim *result);
int mg_dim_sub(MgDim a, MgDim b, MgDim *result);
int mg_dim_mul(MgDim a, MgDim b, MgDim *result);
int mg_dim_operate(MgAtomKind kind, MgDim a, MgDim b, MgDim *result); /* the divisor is known not to be 0 */

/* The expression of a size, also of a constant. NULL if there is no memory. */
const MgExpr *mg_dim_expr(MgDim dim);

/* `left` kind `right`, as Python has it. 1, or 0 if it overflows or Python would raise. */
int mg_int_operate(MgAtomKind kind, int64_t left, int64_t right, int64_t *result);

/* The value for other values of the symbols. 1, or 0 if it overflows or divides by 0. */
int mg_expr_eval(const MgExpr *expr, const int64_t *symbols, int64_t *value);

/* A text that Python evaluates; `names` is a list with the names of the symbols, or NULL for s0, s1, ... New. */
PyObject *mg_expr_text(const MgExpr *expr, PyObject *names);

#endif
