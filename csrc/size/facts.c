/* Decisions on sizes.
 *
 * A relation is one between the difference of both sides and 0. The difference is `sign * content * p + constant`, where p has
 * no constant, no common divisor, and a positive first coefficient: so relations that say the same are about the same p, and
 * what guards tell of it is a range. Ranges come from three places, and the narrowest counts: from guards on p; from the
 * ranges of its atoms; and from p with each atom written as its low plus something that is not negative, since then
 * coefficients of one sign alone decide. The last proves what contiguity and broadcasting ask. */
#include "size/facts.h"

#include "base/vector.h"
#include "size/poly.h"

enum { MOST_SYMBOLS = 4096, MOST_DEPTH = 16 };
enum { UNKNOWN = 2 };

static const MgRange everything = {INT64_MIN, INT64_MAX};

void
mg_facts_free(MgFacts *facts)
{
    PyMem_Free(facts->symbols);
    PyMem_Free(facts->hints);
    PyMem_Free(facts->bounds);
    PyMem_Free(facts->holes);
    PyMem_Free(facts->guards);
    *facts = (MgFacts){0};
}

/* A copy of an array, with room for one more; or NULL with an exception. */
static void *
copy_array(const void *items, size_t size)
{
    void *copy = PyMem_Malloc(size + 1);
    if (copy == NULL) {
        PyErr_NoMemory();
    }
    else if (size > 0) {
        memcpy(copy, items, size);
    }
    return copy;
}

int
mg_facts_copy(const MgFacts *facts, MgFacts *copy)
{
    *copy = *facts;
    copy->symbols = copy_array(facts->symbols, sizeof(MgSizeSymbol) * (size_t)facts->symbol_room);
    copy->hints = copy_array(facts->hints, sizeof(int64_t) * (size_t)facts->hint_room);
    copy->bounds = copy_array(facts->bounds, sizeof(MgSizeBound) * (size_t)facts->bound_room);
    copy->holes = copy_array(facts->holes, sizeof(MgSizeBound) * (size_t)facts->hole_room);
    copy->guards = copy_array(facts->guards, sizeof(MgSizeGuard) * (size_t)facts->guard_room);
    if (copy->symbols == NULL || copy->hints == NULL || copy->bounds == NULL || copy->holes == NULL ||
        copy->guards == NULL) {
        mg_facts_free(copy);
        return MG_ERR;
    }
    return MG_OK;
}

int
mg_facts_symbol(MgFacts *facts, int64_t hint, MgRange range, MgDim *result)
{
    assert(range.low <= hint && hint <= range.high);
    if (facts->symbol_count == MOST_SYMBOLS || !mg_dim_symbol(facts->symbol_count, hint, result)) {
        return 0;
    }
    if (MG_VECTOR_RESERVE(facts->symbols, facts->symbol_count, facts->symbol_room, 8) < 0 ||
        MG_VECTOR_RESERVE(facts->hints, facts->symbol_count, facts->hint_room, 8) < 0) {
        return MG_ERR;
    }
    facts->hints[facts->symbol_count] = hint;
    facts->symbols[facts->symbol_count++] = (MgSizeSymbol){.given = range, .range = range};
    return 1;
}

/* ---- ranges ---- */

/* a * b and a + b with numbers without a bound, and bounds in place of what overflows. */
static int64_t
times(int64_t a, int64_t b)
{
    int64_t result;
    if (a == 0 || b == 0) {
        return 0;
    }
    int is_infinite = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
    return is_infinite || __builtin_mul_overflow(a, b, &result) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : result;
}

static int64_t
plus(int64_t a, int64_t b, int64_t none)
{
    int64_t result;
    if (a == none || b == none) {
        return none;
    }
    return __builtin_add_overflow(a, b, &result) ? (a < 0 ? INT64_MIN : INT64_MAX) : result;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static MgRange
range_times(MgRange a, MgRange b)
{
    int64_t ends[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)};
    return (MgRange){smaller(smaller(ends[0], ends[1]), smaller(ends[2], ends[3])),
                     larger(larger(ends[0], ends[1]), larger(ends[2], ends[3]))};
}

/* What is in both; a range that is empty is left as the first, which nothing can be in. */
static MgRange
range_both(MgRange a, MgRange b)
{
    return (MgRange){larger(a.low, b.low), smaller(a.high, b.high)};
}

static MgRange range_of(const MgFacts *facts, const MgExpr *expr, int depth);

/* a // b for a positive b. */
static MgRange
range_divided(MgRange a, MgRange b)
{
    MgRange range = everything;
    if (b.low < 1) {
        return range;
    }
    if (a.low != INT64_MIN) { /* the farther from 0, the smaller the divisor */
        (void)mg_int_operate(MG_ATOM_FLOORDIV, a.low, a.low < 0 ? b.low : b.high, &range.low);
    }
    if (a.high != INT64_MAX) {
        (void)mg_int_operate(MG_ATOM_FLOORDIV, a.high, a.high < 0 ? b.high : b.low, &range.high);
    }
    return range;
}

static MgRange
range_atom(const MgFacts *facts, const MgAtom *atom, int depth)
{
    if (atom->kind == MG_ATOM_SYMBOL) {
        return facts->symbols[atom->symbol].range;
    }
    if (depth == MOST_DEPTH) {
        return everything;
    }
    MgRange a = range_of(facts, atom->left, depth + 1), b = range_of(facts, atom->right, depth + 1);
    switch ((MgAtomKind)atom->kind) {
        case MG_ATOM_FLOORDIV:
            return range_divided(a, b);
        case MG_ATOM_MOD:
            if (b.low < 1) {
                return everything;
            }
            return (MgRange){0, smaller(b.high == INT64_MAX ? b.high : b.high - 1, a.low >= 0 ? a.high : INT64_MAX)};
        case MG_ATOM_MIN:
            return (MgRange){smaller(a.low, b.low), smaller(a.high, b.high)};
        case MG_ATOM_MAX:
            return (MgRange){larger(a.low, b.low), larger(a.high, b.high)};
        case MG_ATOM_POW:
            return a.low >= 1 && b.low >= 0 ? (MgRange){1, INT64_MAX} : everything;
        case MG_ATOM_AND:
            return a.low >= 0 && b.low >= 0 ? (MgRange){0, smaller(a.high, b.high)} : everything;
        default:
            return a.low >= 0 && b.low >= 0 ? (MgRange){0, INT64_MAX} : everything;
    }
}

static MgRange
range_term(const MgFacts *facts, const MgTerm *term, int depth)
{
    MgRange range = {term->coefficient, term->coefficient};
    for (int i = 0; i < mg_product_count(term->product); i++) {
        MgRange atom = range_atom(facts, term->product->factors[i].atom, depth), power = {1, 1};
        for (int64_t k = 0; k < term->product->factors[i].power; k++) {
            power = range_times(power, atom);
        }
        if (term->product->factors[i].power % 2 == 0) {
            power.low = larger(power.low, 0);
        }
        range = range_times(range, power);
    }
    return range;
}

/* By the ranges of the atoms. */
static MgRange
range_sum(const MgFacts *facts, const MgTerm *terms, int count, int depth)
{
    MgRange sum = {0, 0};
    for (int i = 0; i < count; i++) {
        MgRange range = range_term(facts, &terms[i], depth);
        sum.low = plus(sum.low, range.low, INT64_MIN);
        sum.high = plus(sum.high, range.high, INT64_MAX);
    }
    return sum;
}

/* By each atom written as its low and something that is not negative. */
static MgRange
range_shifted(const MgFacts *facts, const MgTerm *terms, int count, int depth)
{
    MgPoly sum = {.count = 0};
    for (int i = 0; i < count; i++) {
        MgPoly product = {.count = 1}, factor, next;
        product.terms[0] = (MgTerm){NULL, terms[i].coefficient};
        for (int k = 0; k < mg_product_count(terms[i].product); k++) {
            const struct MgFactor *at = &terms[i].product->factors[k];
            int64_t low = range_atom(facts, at->atom, depth).low;
            MgPoly constant;
            if (low == INT64_MIN || !mg_poly_atom(at->atom, &factor) || !mg_poly_of(mg_dim(low), &constant) ||
                !mg_poly_add(&factor, &constant, 1, &factor)) {
                return everything;
            }
            for (int64_t power = 0; power < at->power; power++) {
                if (!mg_poly_mul(&product, &factor, &next)) {
                    return everything;
                }
                product = next;
            }
        }
        if (!mg_poly_add(&sum, &product, 1, &sum)) {
            return everything;
        }
    }
    int grows = 0, shrinks = 0;
    for (int i = 0; i < sum.count; i++) {
        grows += sum.terms[i].product != NULL && sum.terms[i].coefficient > 0;
        shrinks += sum.terms[i].product != NULL && sum.terms[i].coefficient < 0;
    }
    int64_t constant = mg_poly_constant(&sum);
    return (MgRange){shrinks == 0 ? constant : INT64_MIN, grows == 0 ? constant : INT64_MAX};
}

/* ---- differences ---- */

static const MgSizeBound *
find_bound(const MgSizeBound *bounds, int count, const MgExpr *expr)
{
    for (int i = 0; i < count; i++) {
        if (bounds[i].expr == expr) {
            return &bounds[i];
        }
    }
    return NULL;
}

static MgRange
range_normal(const MgFacts *facts, const MgPoly *p, int depth)
{
    MgRange range = range_sum(facts, p->terms, p->count, depth);
    range = range_both(range, range_shifted(facts, p->terms, p->count, depth));
    const MgExpr *expr = facts->bound_count > 0 ? mg_poly_intern(p) : NULL;
    const MgSizeBound *bound = expr == NULL ? NULL : find_bound(facts->bounds, facts->bound_count, expr);
    return bound == NULL ? range : range_both(range, bound->range);
}

static MgRange
range_poly(const MgFacts *facts, const MgPoly *poly, int depth)
{
    MgNormal normal;
    if (mg_poly_is_constant(poly)) {
        return (MgRange){mg_poly_constant(poly), mg_poly_constant(poly)};
    }
    if (!mg_poly_normalize(poly, &normal)) {
        return everything;
    }
    MgRange range = range_times(range_normal(facts, &normal.p, depth), (MgRange){normal.scale, normal.scale});
    return (MgRange){plus(range.low, normal.constant, INT64_MIN), plus(range.high, normal.constant, INT64_MAX)};
}

static MgRange
range_of(const MgFacts *facts, const MgExpr *expr, int depth)
{
    MgPoly poly;
    (void)mg_poly_of((MgDim){0, expr}, &poly);
    return range_poly(facts, &poly, depth);
}

MgRange
mg_facts_range(const MgFacts *facts, MgDim dim)
{
    dim = mg_facts_simplify(facts, dim);
    return dim.e == NULL ? (MgRange){dim.v, dim.v} : range_of(facts, dim.e, 0);
}

/* ---- replacements ---- */

static int simplify(const MgFacts *facts, MgDim dim, int depth, MgDim *result);

/* An expression as a size. 1, or 0 if its value overflows. */
static int
hint_of(const MgFacts *facts, const MgExpr *expr, MgDim *dim)
{
    *dim = (MgDim){0, expr};
    if (mg_expr_count(expr) == 0 || (mg_expr_count(expr) == 1 && expr->terms[0].product == NULL)) {
        *dim = mg_dim(mg_expr_count(expr) == 0 ? 0 : expr->terms[0].coefficient);
        return 1;
    }
    return mg_expr_eval(expr, facts->hints, &dim->v);
}

/* An atom with the symbols in it replaced. */
static int
simplify_atom(const MgFacts *facts, const MgAtom *atom, int depth, MgDim *result)
{
    MgDim left, right;
    if (atom->kind == MG_ATOM_SYMBOL) {
        const MgSizeSymbol *symbol = &facts->symbols[atom->symbol];
        return symbol->same == NULL ? mg_dim_symbol((int)atom->symbol, facts->hints[atom->symbol], result)
                                    : hint_of(facts, symbol->same, &left) && simplify(facts, left, depth + 1, result);
    }
    return hint_of(facts, atom->left, &left) && hint_of(facts, atom->right, &right) &&
           simplify(facts, left, depth + 1, &left) && simplify(facts, right, depth + 1, &right) &&
           mg_dim_operate((MgAtomKind)atom->kind, left, right, result);
}

static int
simplify(const MgFacts *facts, MgDim dim, int depth, MgDim *result)
{
    if (dim.e == NULL) {
        *result = dim;
        return 1;
    }
    if (depth > MOST_DEPTH) {
        return 0;
    }
    MgDim sum = mg_dim(0);
    for (int i = 0; i < mg_expr_count(dim.e); i++) {
        const MgProduct *product = dim.e->terms[i].product;
        MgDim term = mg_dim(dim.e->terms[i].coefficient), atom;
        for (int k = 0; k < mg_product_count(product); k++) {
            if (!simplify_atom(facts, product->factors[k].atom, depth, &atom)) {
                return 0;
            }
            for (int64_t power = 0; power < product->factors[k].power; power++) {
                if (!mg_dim_mul(term, atom, &term)) {
                    return 0;
                }
            }
        }
        if (!mg_dim_add(sum, term, &sum)) {
            return 0;
        }
    }
    *result = sum;
    return 1;
}

MgDim
mg_facts_simplify(const MgFacts *facts, MgDim dim)
{
    MgDim result;
    int any = 0;
    for (int i = 0; dim.e != NULL && !any && i < facts->symbol_count; i++) {
        any = facts->symbols[i].same != NULL;
    }
    return any && simplify(facts, dim, 0, &result) ? result : dim;
}

/* ---- decisions ---- */

/* A quotient that is known to leave no rest: its divisor times it is what is divided. Multiplies the difference by such
 * divisors, one by one; its sign stays. */
static void
clear_quotients(const MgFacts *facts, MgPoly *d)
{
    for (int i = 0; i < d->count; i++) {
        const MgProduct *product = d->terms[i].product;
        for (int k = 0; k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            int64_t by = atom->kind == MG_ATOM_FLOORDIV && mg_expr_count(atom->right) == 1 &&
                                 atom->right->terms[0].product == NULL
                             ? atom->right->terms[0].coefficient
                             : 0;
            MgDim whole, rest;
            if (by < 2 || product->factors[k].power != 1 || !hint_of(facts, atom->left, &whole) ||
                !mg_dim_operate(MG_ATOM_MOD, whole, mg_dim(by), &rest)) {
                continue;
            }
            MgRange range = rest.e == NULL ? (MgRange){rest.v, rest.v} : range_of(facts, rest.e, 0);
            if (range.low != 0 || range.high != 0) {
                continue;
            }
            MgPoly sum = {.count = 0}, part, left, next;
            int good = mg_poly_of(whole, &left);
            for (int m = 0; good && m < d->count; m++) {
                int has;
                const MgProduct *other = mg_product_without(d->terms[m].product, atom, &has);
                part.count = 1;
                part.terms[0] = (MgTerm){has ? other : d->terms[m].product, d->terms[m].coefficient};
                good = has ? mg_poly_mul(&part, &left, &next) : mg_poly_scale(&part, by, &next);
                good = good && mg_poly_add(&sum, &next, 1, &sum);
            }
            if (good) {
                *d = sum;
                clear_quotients(facts, d);
                return;
            }
        }
    }
}

/* Whether `d relation 0`: 1, 0 or UNKNOWN. */
static int
know(const MgFacts *facts, MgRelation relation, const MgPoly *d, const MgNormal *normal)
{
    MgRange range = range_poly(facts, d, 0);
    if (relation == MG_RELATION_LT) {
        return range.high < 0 ? 1 : range.low >= 0 ? 0 : UNKNOWN;
    }
    if (relation == MG_RELATION_LE) {
        return range.high <= 0 ? 1 : range.low > 0 ? 0 : UNKNOWN;
    }
    int equal = range.low == 0 && range.high == 0 ? 1 : range.low > 0 || range.high < 0 ? 0 : UNKNOWN;
    if (equal == UNKNOWN && normal->constant % normal->scale != 0) {
        equal = 0;
    }
    const MgExpr *expr = equal != UNKNOWN || facts->hole_count == 0 ? NULL : mg_poly_intern(&normal->p);
    for (int i = 0; expr != NULL && i < facts->hole_count; i++) {
        if (facts->holes[i].expr == expr && facts->holes[i].range.low == -normal->constant / normal->scale) {
            equal = 0;
        }
    }
    return equal == UNKNOWN ? UNKNOWN : equal == (relation == MG_RELATION_EQ);
}

/* The difference in both forms. 1, or 0 if that is too hard. */
static int
differ(const MgFacts *facts, MgDim a, MgDim b, MgPoly *d, MgNormal *normal)
{
    MgPoly right;
    a = mg_facts_simplify(facts, a);
    b = mg_facts_simplify(facts, b);
    if (!mg_poly_of(a, d) || !mg_poly_of(b, &right) || !mg_poly_add(d, &right, -1, d)) {
        return 0;
    }
    clear_quotients(facts, d);
    if (mg_poly_is_constant(d)) {
        normal->p.count = 0;
        normal->scale = 1;
        normal->constant = mg_poly_constant(d);
        return 1;
    }
    return mg_poly_normalize(d, normal);
}

static int
holds(MgRelation relation, int64_t a, int64_t b)
{
    return relation == MG_RELATION_EQ   ? a == b
           : relation == MG_RELATION_NE ? a != b
           : relation == MG_RELATION_LT ? a < b
                                        : a <= b;
}

int
mg_facts_know(const MgFacts *facts, MgRelation relation, MgDim a, MgDim b)
{
    MgPoly d;
    MgNormal normal;
    if (a.e == b.e && (a.e != NULL || a.v == b.v)) {
        return holds(relation, 0, 0);
    }
    if (!differ(facts, a, b, &d, &normal)) {
        return UNKNOWN;
    }
    return mg_poly_is_constant(&d) ? holds(relation, mg_poly_constant(&d), 0) : know(facts, relation, &d, &normal);
}

/* Adds what is known of an expression. MG_OK or MG_ERR. */
static int
note_bound(MgFacts *facts, const MgPoly *p, MgRange range)
{
    const MgExpr *expr = mg_poly_intern(p);
    const MgProduct *product = p->count == 1 ? p->terms[0].product : NULL;
    if (product != NULL && mg_product_count(product) == 1 && product->factors[0].power == 1 &&
        p->terms[0].coefficient == 1 && product->factors[0].atom->kind == MG_ATOM_SYMBOL) {
        MgSizeSymbol *symbol = &facts->symbols[product->factors[0].atom->symbol];
        symbol->range = range_both(symbol->range, range);
        return MG_OK;
    }
    MgSizeBound *bound = (MgSizeBound *)find_bound(facts->bounds, facts->bound_count, expr);
    if (bound != NULL) {
        bound->range = range_both(bound->range, range);
        return MG_OK;
    }
    if (expr == NULL) {
        return MG_OK; /* the next decision makes a guard of its own */
    }
    if (MG_VECTOR_RESERVE(facts->bounds, facts->bound_count, facts->bound_room, 8) < 0) {
        return MG_ERR;
    }
    facts->bounds[facts->bound_count++] = (MgSizeBound){expr, range};
    return MG_OK;
}

/* 1 if a symbol is in an expression. */
static int
has_symbol(const MgExpr *expr, int64_t symbol, int depth)
{
    for (int i = 0; i < mg_expr_count(expr); i++) {
        const MgProduct *product = expr->terms[i].product;
        for (int k = 0; k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            if (atom->kind == MG_ATOM_SYMBOL ? atom->symbol == symbol
                                             : depth == 0 || has_symbol(atom->left, symbol, depth - 1) ||
                                                   has_symbol(atom->right, symbol, depth - 1)) {
                return 1;
            }
        }
    }
    return 0;
}

/* The only symbol of an expression, given that `found` is the one of another part, -1 for none; -2 if there are several. */
static int
only_symbol(const MgExpr *expr, int found, int depth)
{
    for (int i = 0; expr != NULL && found != -2 && i < mg_expr_count(expr); i++) {
        const MgProduct *product = expr->terms[i].product;
        for (int k = 0; found != -2 && k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            if (atom->kind == MG_ATOM_SYMBOL) {
                found = found == -1 || found == (int)atom->symbol ? (int)atom->symbol : -2;
            }
            else {
                found = depth == 0 ? -2 : only_symbol(atom->left, found, depth - 1);
                found = found == -2 ? found : only_symbol(atom->right, found, depth - 1);
            }
        }
    }
    return found;
}

int
mg_facts_symbol_of(const MgSizeGuard *guard)
{
    int found = only_symbol(guard->left.e, -1, MOST_DEPTH);
    found = found == -2 ? found : only_symbol(guard->right.e, found, MOST_DEPTH);
    return found == -2 ? -1 : found;
}

/* scale * p + constant is at least `low`, or with `sign` -1 at most: what that says of p is noted. MG_OK or MG_ERR. */
static int
note_end(MgFacts *facts, const MgNormal *normal, int64_t end, int sign)
{
    int64_t bound, scale = normal->scale;
    MgRange range = everything;
    if (__builtin_sub_overflow(end, normal->constant, &bound) || bound == INT64_MIN) {
        return MG_OK;
    }
    if ((scale > 0) == (sign < 0)) { /* p <= floor(bound / scale) */
        (void)mg_int_operate(MG_ATOM_FLOORDIV, bound, scale, &range.high);
    }
    else { /* p >= ceil(bound / scale) */
        (void)mg_int_operate(MG_ATOM_FLOORDIV, -bound, scale, &range.low);
        range.low = -range.low;
    }
    return note_bound(facts, &normal->p, range);
}

/* Notes the range of a polynomial. MG_OK or MG_ERR. */
static int
note_range(MgFacts *facts, const MgPoly *poly, MgRange range)
{
    MgNormal normal;
    if (mg_poly_is_constant(poly) || !mg_poly_normalize(poly, &normal)) {
        return MG_OK;
    }
    int status = range.low == INT64_MIN ? MG_OK : note_end(facts, &normal, range.low, 1);
    return status < 0 || range.high == INT64_MAX ? status : note_end(facts, &normal, range.high, -1);
}

/* d is 0: a symbol in it that has the coefficient 1 or -1 and is nowhere else equals the rest. The latest one goes. MG_OK or
 * MG_ERR. */
static int
replace_symbol(MgFacts *facts, const MgPoly *d)
{
    for (int symbol = facts->symbol_count - 1; symbol >= 0; symbol--) {
        for (int i = 0; i < d->count; i++) {
            const MgProduct *product = d->terms[i].product;
            int64_t coefficient = d->terms[i].coefficient;
            if (mg_product_count(product) != 1 || product->factors[0].power != 1 ||
                product->factors[0].atom->kind != MG_ATOM_SYMBOL || product->factors[0].atom->symbol != symbol ||
                (coefficient != 1 && coefficient != -1)) {
                continue;
            }
            MgPoly rest = *d;
            rest.count--;
            memmove(&rest.terms[i], &rest.terms[i + 1], sizeof(MgTerm) * (size_t)(rest.count - i));
            const MgExpr *same = mg_poly_scale(&rest, -coefficient, &rest) ? mg_poly_intern(&rest) : NULL;
            if (same != NULL && !has_symbol(same, symbol, MOST_DEPTH)) {
                facts->symbols[symbol].same = same;
                return note_range(facts, &rest, facts->symbols[symbol].range);
            }
        }
    }
    return MG_OK;
}

/* Learns that `d relation 0`. MG_OK or MG_ERR. */
static int
learn(MgFacts *facts, MgRelation relation, const MgPoly *d, const MgNormal *normal)
{
    if (relation == MG_RELATION_NE) {
        const MgExpr *expr = normal->constant % normal->scale == 0 ? mg_poly_intern(&normal->p) : NULL;
        if (expr == NULL) {
            return MG_OK;
        }
        if (MG_VECTOR_RESERVE(facts->holes, facts->hole_count, facts->hole_room, 8) < 0) {
            return MG_ERR;
        }
        int64_t value = -normal->constant / normal->scale;
        facts->holes[facts->hole_count++] = (MgSizeBound){expr, {value, value}};
        return MG_OK;
    }
    if (relation == MG_RELATION_EQ) {
        int64_t value = -normal->constant / normal->scale;
        if (note_bound(facts, &normal->p, (MgRange){value, value}) < 0) {
            return MG_ERR;
        }
        return replace_symbol(facts, d);
    }
    return note_end(facts, normal, relation == MG_RELATION_LT ? -1 : 0, -1);
}

int
mg_facts_decide(MgFacts *facts, MgRelation relation, MgDim a, MgDim b)
{
    MgPoly d;
    MgNormal normal;
    int known = mg_facts_know(facts, relation, a, b);
    if (known != UNKNOWN) {
        assert(known == holds(relation, a.v, b.v));
        return known;
    }
    int result = holds(relation, a.v, b.v);
    MgSizeGuard guard = {relation, a, b, facts->where == NULL ? -1 : facts->where(facts->context)};
    if (!result) { /* its opposite */
        static const MgRelation opposites[] = {MG_RELATION_NE, MG_RELATION_EQ, MG_RELATION_LE, MG_RELATION_LT};
        guard.relation = opposites[relation];
        int turns = relation == MG_RELATION_LT || relation == MG_RELATION_LE;
        guard.left = turns ? b : a;
        guard.right = turns ? a : b;
    }
    if (MG_VECTOR_RESERVE(facts->guards, facts->guard_count, facts->guard_room, 8) < 0) {
        return MG_ERR;
    }
    facts->guards[facts->guard_count++] = guard;
    if (differ(facts, guard.left, guard.right, &d, &normal) && learn(facts, guard.relation, &d, &normal) < 0) {
        return MG_ERR;
    }
    return result;
}

int
mg_facts_specialize(MgFacts *facts, MgDim dim)
{
    int equal = mg_facts_decide(facts, MG_RELATION_EQ, dim, mg_dim(dim.v));
    assert(equal != 0);
    return equal < 0 ? MG_ERR : MG_OK;
}

static int
specialize_symbols(MgFacts *facts, const MgExpr *expr, int depth)
{
    int status = MG_OK;
    for (int i = 0; depth > 0 && status == MG_OK && i < mg_expr_count(expr); i++) {
        const MgProduct *product = expr->terms[i].product;
        for (int k = 0; status == MG_OK && k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            MgDim dim;
            if (atom->kind == MG_ATOM_SYMBOL) {
                int good = mg_dim_symbol((int)atom->symbol, facts->hints[atom->symbol], &dim);
                status = good ? mg_facts_specialize(facts, dim) : MG_OK;
            }
            else {
                status = specialize_symbols(facts, atom->left, depth - 1);
                status = status < 0 ? status : specialize_symbols(facts, atom->right, depth - 1);
            }
        }
    }
    return status;
}

int
mg_facts_specialize_symbols(MgFacts *facts, const MgExpr *expr)
{
    return specialize_symbols(facts, expr, MOST_DEPTH);
}
