/* Sizes: what Python's operators make of them, their values and their texts. */
#include "size/expr.h"

#include "size/poly.h"

enum { MOST_DEPTH = 16, MOST_EXPONENT = 8 };

/* ---- plain numbers ---- */

static int
int_pow(int64_t base, int64_t exponent, int64_t *result)
{
    *result = 1;
    if (exponent < 0) {
        return 0; /* a float */
    }
    for (; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(*result, base, result)) {
            return 0;
        }
        if (base == 0 || base == 1) {
            break;
        }
        if (base == -1) {
            *result = exponent % 2 == 0 ? 1 : -1;
            break;
        }
    }
    return 1;
}

int
mg_int_operate(MgAtomKind kind, int64_t left, int64_t right, int64_t *result)
{
    switch (kind) {
        case MG_ATOM_FLOORDIV:
        case MG_ATOM_MOD: {
            if (right == 0 || (left == INT64_MIN && right == -1)) {
                return 0;
            }
            int64_t quotient = left / right, rest = left % right;
            int down = rest != 0 && (rest < 0) != (right < 0); /* C truncates, Python floors */
            *result = kind == MG_ATOM_MOD ? rest + (down ? right : 0) : quotient - down;
            return 1;
        }
        case MG_ATOM_MIN:
            *result = left < right ? left : right;
            return 1;
        case MG_ATOM_MAX:
            *result = left > right ? left : right;
            return 1;
        case MG_ATOM_POW:
            return int_pow(left, right, result);
        case MG_ATOM_AND:
            *result = left & right;
            return 1;
        case MG_ATOM_OR:
            *result = left | right;
            return 1;
        case MG_ATOM_XOR:
            *result = left ^ right;
            return 1;
        case MG_ATOM_SYMBOL:
            break;
    }
    return 0;
}

/* ---- polynomials ---- */

int
mg_dim_symbol(int symbol, int64_t hint, MgDim *result)
{
    static int made; /* all before it come first, so that the order of their ids is theirs */
    MgPoly poly;
    for (; made < symbol; made++) {
        if (mg_atom(MG_ATOM_SYMBOL, made, NULL, NULL) == NULL) {
            return 0;
        }
    }
    return mg_poly_atom(mg_atom(MG_ATOM_SYMBOL, symbol, NULL, NULL), &poly) && mg_poly_dim(&poly, hint, result);
}

const MgExpr *
mg_dim_expr(MgDim dim)
{
    MgPoly poly;
    return dim.e != NULL ? dim.e : mg_poly_of(dim, &poly) ? mg_poly_intern(&poly) : NULL;
}

int
mg_dim_add(MgDim a, MgDim b, MgDim *result)
{
    MgPoly left, right;
    int64_t hint;
    if (__builtin_add_overflow(a.v, b.v, &hint)) {
        return 0;
    }
    if (a.e == NULL && b.e == NULL) {
        *result = mg_dim(hint);
        return 1;
    }
    return mg_poly_of(a, &left) && mg_poly_of(b, &right) && mg_poly_add(&left, &right, 1, &left) &&
           mg_poly_dim(&left, hint, result);
}

int
mg_dim_sub(MgDim a, MgDim b, MgDim *result)
{
    MgPoly left, right;
    int64_t hint;
    if (__builtin_sub_overflow(a.v, b.v, &hint)) {
        return 0;
    }
    if (a.e == NULL && b.e == NULL) {
        *result = mg_dim(hint);
        return 1;
    }
    return mg_poly_of(a, &left) && mg_poly_of(b, &right) && mg_poly_add(&left, &right, -1, &left) &&
           mg_poly_dim(&left, hint, result);
}

int
mg_dim_mul(MgDim a, MgDim b, MgDim *result)
{
    MgPoly left, right, product;
    int64_t hint;
    if (__builtin_mul_overflow(a.v, b.v, &hint)) {
        return 0;
    }
    if (a.e == NULL && b.e == NULL) {
        *result = mg_dim(hint);
        return 1;
    }
    return mg_poly_of(a, &left) && mg_poly_of(b, &right) && mg_poly_mul(&left, &right, &product) &&
           mg_poly_dim(&product, hint, result);
}

/* ---- atoms ---- */

/* The size that is an atom of two polynomials. */
static int
make_atom(MgAtomKind kind, const MgPoly *left, const MgPoly *right, int64_t hint, MgDim *result)
{
    MgPoly poly;
    const MgExpr *a = mg_poly_intern(left), *b = mg_poly_intern(right);
    return a != NULL && b != NULL && mg_poly_atom(mg_atom(kind, 0, a, b), &poly) && mg_poly_dim(&poly, hint, result);
}

/* Splits a into by * quotient + rest, coefficient by coefficient, with those of the rest from 0 to by - 1. */
static int
split(const MgPoly *a, int64_t by, MgPoly *quotient, MgPoly *rest)
{
    quotient->count = rest->count = 0;
    for (int i = 0; i < a->count; i++) {
        int64_t whole, part;
        if (!mg_int_operate(MG_ATOM_FLOORDIV, a->terms[i].coefficient, by, &whole) ||
            !mg_int_operate(MG_ATOM_MOD, a->terms[i].coefficient, by, &part)) {
            return 0;
        }
        quotient->terms[quotient->count] = (MgTerm){a->terms[i].product, whole};
        rest->terms[rest->count] = (MgTerm){a->terms[i].product, part};
        quotient->count += whole != 0;
        rest->count += part != 0;
    }
    return 1;
}

/* The atom `poly` is, if it is one of this kind with a positive number on the right. */
static const MgAtom *
atom_by_number(const MgPoly *poly, MgAtomKind kind, int64_t *number)
{
    const MgProduct *product = poly->count == 1 && poly->terms[0].coefficient == 1 ? poly->terms[0].product : NULL;
    if (mg_product_count(product) != 1 || product->factors[0].power != 1) {
        return NULL;
    }
    const MgAtom *atom = product->factors[0].atom;
    int is_number = atom->kind == (int64_t)kind && mg_expr_count(atom->right) == 1 &&
                    atom->right->terms[0].product == NULL && atom->right->terms[0].coefficient > 0;
    *number = is_number ? atom->right->terms[0].coefficient : 0;
    return is_number ? atom : NULL;
}

/* a // by for a number greater than 0. */
static int
divide_by_number(MgPoly *a, int64_t by, int64_t hint, MgDim *result)
{
    MgPoly quotient, rest, divisor;
    int64_t inner;
    if (!split(a, by, &quotient, &rest)) {
        return 0;
    }
    if (mg_poly_is_constant(&rest)) { /* less than the divisor */
        return mg_poly_dim(&quotient, hint, result);
    }
    const MgAtom *nested = atom_by_number(&rest, MG_ATOM_FLOORDIV, &inner);
    if (nested != NULL && !__builtin_mul_overflow(inner, by, &inner)) { /* (a // b) // c is a // (b * c) */
        by = inner;
        (void)mg_poly_of((MgDim){0, nested->left}, &rest);
    }
    (void)mg_poly_of(mg_dim(by), &divisor);
    int64_t common = mg_gcd(mg_poly_content(&rest, 1), by);
    for (int i = 0; i < rest.count; i++) {
        rest.terms[i].coefficient /= common;
    }
    divisor.terms[0].coefficient /= common;
    return make_atom(MG_ATOM_FLOORDIV, &rest, &divisor, hint, result) && mg_poly_of(*result, &rest) &&
           mg_poly_add(&quotient, &rest, 1, &rest) && mg_poly_dim(&rest, hint, result);
}

/* a % by for a number greater than 0. */
static int
rest_by_number(const MgPoly *a, int64_t by, int64_t hint, MgDim *result)
{
    MgPoly quotient, rest, divisor;
    (void)mg_poly_of(mg_dim(by), &divisor);
    if (!split(a, by, &quotient, &rest)) {
        return 0;
    }
    return mg_poly_is_constant(&rest) ? mg_poly_dim(&rest, hint, result)
                                      : make_atom(MG_ATOM_MOD, &rest, &divisor, hint, result);
}

static int
divide(MgAtomKind kind, MgPoly *a, MgPoly *b, int64_t hint, MgDim *result)
{
    MgPoly exact;
    int is_mod = kind == MG_ATOM_MOD;
    if (mg_poly_is_constant(b)) {
        int64_t by = mg_poly_constant(b);
        if (by < 0 && is_mod) { /* the rest has the sign of the divisor */
            return make_atom(kind, a, b, hint, result);
        }
        if (by < 0 && (!mg_poly_scale(a, -1, a) || __builtin_sub_overflow(0, by, &by))) {
            return 0;
        }
        return by == 0 ? 0 : is_mod ? rest_by_number(a, by, hint, result) : divide_by_number(a, by, hint, result);
    }
    if (mg_poly_divide(a, b, &exact)) {
        *result = mg_dim(0);
        return is_mod ? 1 : mg_poly_dim(&exact, hint, result);
    }
    return make_atom(kind, a, b, hint, result);
}

/* min and max: the order of the two does not matter, and a known difference decides. */
static int
choose(MgAtomKind kind, MgDim a, MgDim b, int64_t hint, MgDim *result)
{
    MgPoly left, right, difference;
    if (!mg_poly_of(a, &left) || !mg_poly_of(b, &right)) {
        return 0;
    }
    if (mg_poly_add(&left, &right, -1, &difference) && mg_poly_is_constant(&difference)) {
        int takes_left = (mg_poly_constant(&difference) < 0) == (kind == MG_ATOM_MIN);
        *result = takes_left ? a : b;
        return 1;
    }
    const MgExpr *x = mg_poly_intern(&left), *y = mg_poly_intern(&right);
    int swap = x != NULL && y != NULL && y->id < x->id;
    return make_atom(kind, swap ? &right : &left, swap ? &left : &right, hint, result);
}

static int
raise_to(MgDim a, MgDim b, int64_t hint, MgDim *result)
{
    MgPoly base, exponent;
    if (b.e == NULL && b.v <= MOST_EXPONENT) {
        *result = mg_dim(1);
        int good = 1;
        for (int64_t i = 0; good && i < b.v; i++) {
            good = mg_dim_mul(*result, a, result);
        }
        return good;
    }
    return mg_poly_of(a, &base) && mg_poly_of(b, &exponent) && make_atom(MG_ATOM_POW, &base, &exponent, hint, result);
}

int
mg_dim_operate(MgAtomKind kind, MgDim a, MgDim b, MgDim *result)
{
    int64_t hint;
    MgPoly left, right;
    if (!mg_int_operate(kind, a.v, b.v, &hint)) {
        return 0;
    }
    if (a.e == NULL && b.e == NULL) {
        *result = mg_dim(hint);
        return 1;
    }
    switch (kind) {
        case MG_ATOM_FLOORDIV:
        case MG_ATOM_MOD:
            return mg_poly_of(a, &left) && mg_poly_of(b, &right) && divide(kind, &left, &right, hint, result);
        case MG_ATOM_MIN:
        case MG_ATOM_MAX:
            return choose(kind, a, b, hint, result);
        case MG_ATOM_POW:
            return raise_to(a, b, hint, result);
        default:
            return mg_poly_of(a, &left) && mg_poly_of(b, &right) && make_atom(kind, &left, &right, hint, result);
    }
}

/* ---- values and texts ---- */

static int
eval(const MgExpr *expr, const int64_t *symbols, int depth, int64_t *value)
{
    int64_t sum = 0;
    for (int i = 0; i < mg_expr_count(expr); i++) {
        const MgTerm *term = &expr->terms[i];
        int64_t product = term->coefficient;
        for (int k = 0; k < mg_product_count(term->product); k++) {
            const MgAtom *atom = term->product->factors[k].atom;
            int64_t left, right, power;
            if (atom->kind == MG_ATOM_SYMBOL) {
                left = symbols[atom->symbol];
            }
            else if (depth == MOST_DEPTH || !eval(atom->left, symbols, depth + 1, &left) ||
                     !eval(atom->right, symbols, depth + 1, &right) ||
                     !mg_int_operate((MgAtomKind)atom->kind, left, right, &left)) {
                return 0;
            }
            if (!int_pow(left, term->product->factors[k].power, &power) ||
                __builtin_mul_overflow(product, power, &product)) {
                return 0;
            }
        }
        if (__builtin_add_overflow(sum, product, &sum)) {
            return 0;
        }
    }
    *value = sum;
    return 1;
}

int
mg_expr_eval(const MgExpr *expr, const int64_t *symbols, int64_t *value)
{
    return eval(expr, symbols, 0, value);
}

static PyObject *text_of(const MgExpr *expr, PyObject *names, int depth);

static PyObject *
atom_text(const MgAtom *atom, PyObject *names, int depth)
{
    static const char *const formats[] = {
        [MG_ATOM_FLOORDIV] = "((%U)//(%U))", [MG_ATOM_MOD] = "((%U)%%(%U))", [MG_ATOM_MIN] = "min(%U, %U)",
        [MG_ATOM_MAX] = "max(%U, %U)",       [MG_ATOM_POW] = "((%U)**(%U))", [MG_ATOM_AND] = "((%U)&(%U))",
        [MG_ATOM_OR] = "((%U)|(%U))",        [MG_ATOM_XOR] = "((%U)^(%U))",
    };
    if (atom->kind == MG_ATOM_SYMBOL) {
        return names == NULL ? PyUnicode_FromFormat("s%lld", (long long)atom->symbol)
                             : Py_XNewRef(PyList_GetItem(names, (Py_ssize_t)atom->symbol));
    }
    PyObject *left = depth > 0 ? text_of(atom->left, names, depth - 1) : PyUnicode_FromString("...");
    PyObject *right = depth > 0 ? text_of(atom->right, names, depth - 1) : PyUnicode_FromString("...");
    PyObject *text = left == NULL || right == NULL ? NULL : PyUnicode_FromFormat(formats[atom->kind], left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return text;
}

static PyObject *
text_of(const MgExpr *expr, PyObject *names, int depth)
{
    int count = mg_expr_count(expr);
    PyObject *text = PyUnicode_FromString(count == 0 ? "0" : "");
    const MgTerm *terms[MG_MOST_TERMS]; /* the greatest first: the order of ids is another in each process */
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && mg_product_is_greater(expr->terms[i].product, terms[at - 1]->product); at--) {
            terms[at] = terms[at - 1];
        }
        terms[at] = &expr->terms[i];
    }
    for (int i = 0; text != NULL && i < count; i++) {
        const MgTerm *term = terms[i];
        const MgProduct *product = term->product;
        const char *sign = text == NULL || PyUnicode_GET_LENGTH(text) == 0 ? "" : " + ";
        int shows = product == NULL || term->coefficient != 1;
        PyObject *more = shows ? PyUnicode_FromFormat("%U%s%lld", text, sign, (long long)term->coefficient)
                               : PyUnicode_FromFormat("%U%s", text, sign);
        Py_SETREF(text, more);
        for (int k = 0; text != NULL && k < mg_product_count(product); k++) {
            PyObject *atom = atom_text(product->factors[k].atom, names, depth);
            const char *times = k > 0 || shows ? "*" : "";
            int64_t power = product->factors[k].power;
            more = atom == NULL ? NULL
                   : power == 1 ? PyUnicode_FromFormat("%U%s%U", text, times, atom)
                                : PyUnicode_FromFormat("%U%s%U**%lld", text, times, atom, (long long)power);
            Py_XDECREF(atom);
            Py_SETREF(text, more);
        }
    }
    return text;
}

PyObject *
mg_expr_text(const MgExpr *expr, PyObject *names)
{
    return text_of(expr, names, MOST_DEPTH);
}
