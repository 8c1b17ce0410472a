/* What an expression is made of: terms, products, atoms. All of them are interned. */
#ifndef MG_TERMS_H
#define MG_TERMS_H

#include "size/expr.h"

typedef struct {
    uint64_t hash;
    uint32_t id, size;
    int64_t kind;               /* an MgAtomKind */
    int64_t symbol;             /* for MG_ATOM_SYMBOL */
    const MgExpr *left, *right; /* for the others; may be constants */
} MgAtom;

/* A product of powers of atoms, in the order of their ids. */
typedef struct {
    uint64_t hash;
    uint32_t id, size;
    struct MgFactor {
        const MgAtom *atom;
        int64_t power;
    } factors[];
} MgProduct;

typedef struct {
    const MgProduct *product; /* NULL: 1 */
    int64_t coefficient;
} MgTerm;

struct MgExpr {
    uint64_t hash;
    uint32_t id, size;
    MgTerm terms[]; /* in the order of the products' ids, the constant first; no coefficient is 0 */
};

static inline int
mg_expr_count(const MgExpr *expr)
{
    return (int)(expr->size / sizeof(MgTerm));
}

static inline int
mg_product_count(const MgProduct *product)
{
    return product == NULL ? 0 : (int)(product->size / sizeof(struct MgFactor));
}

#endif
