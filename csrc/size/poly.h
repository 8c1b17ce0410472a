/* Polynomials while they are worked on, before they are interned. */
#ifndef MG_POLY_H
#define MG_POLY_H

#include "size/terms.h"

enum { MG_MOST_TERMS = 48 };

typedef struct {
    int count;
    MgTerm terms[MG_MOST_TERMS]; /* as in MgExpr */
} MgPoly;

/* These return 1, or 0 if that is too hard. `result` may be one of the arguments of the first three only. */
int mg_poly_of(MgDim dim, MgPoly *result);
int mg_poly_scale(const MgPoly *a, int64_t factor, MgPoly *result);
int mg_poly_add(const MgPoly *a, const MgPoly *b, int64_t factor, MgPoly *result); /* a + factor * b */
int mg_poly_mul(const MgPoly *a, const MgPoly *b, MgPoly *result);
int mg_poly_divide(const MgPoly *a, const MgPoly *b, MgPoly *result); /* 0 also if b is no divisor of a */

/* An atom, interned, and the polynomial that is one. */
const MgAtom *mg_atom(MgAtomKind kind, int symbol, const MgExpr *left, const MgExpr *right);
int mg_poly_atom(const MgAtom *atom, MgPoly *result);

/* Whether the first comes after the second in an order in which a product of greater ones is greater. */
int mg_product_is_greater(const MgProduct *a, const MgProduct *b);

/* The product without one power of an atom, interned; *good is 0 if there is no memory. */
const MgProduct *mg_product_without(const MgProduct *product, const MgAtom *atom, int *good);

/* The interned expression; NULL if there is no memory. */
const MgExpr *mg_poly_intern(const MgPoly *poly);

/* The polynomial as a size with this hint. 1 or 0. */
int mg_poly_dim(const MgPoly *poly, int64_t hint, MgDim *result);

/* The constant term. */
static inline int64_t
mg_poly_constant(const MgPoly *poly)
{
    return poly->count > 0 && poly->terms[0].product == NULL ? poly->terms[0].coefficient : 0;
}

/* 1 if there is nothing but a constant. */
static inline int
mg_poly_is_constant(const MgPoly *poly)
{
    return poly->count == 0 || (poly->count == 1 && poly->terms[0].product == NULL);
}

/* A polynomial as scale * p + constant: p is normal, it has no constant, no common divisor, and a positive first coefficient. */
typedef struct {
    MgPoly p;
    int64_t scale, constant;
} MgNormal;

/* 1, or 0 if that is too hard. */
int mg_poly_normalize(const MgPoly *poly, MgNormal *normal);

/* The greatest number that divides both; at least a divisor if they are too large. */
int64_t mg_gcd(int64_t a, int64_t b);

/* The greatest number that divides all coefficients but the constant; with `all`, that as well. 0 if there are none. */
int64_t mg_poly_content(const MgPoly *poly, int all);

#endif
