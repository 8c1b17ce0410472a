/* Polynomials over atoms, and where they are interned. */
#include "size/poly.h"

#include <stddef.h>

enum { MOST_FACTORS = 16, MOST_POWER = 64, MOST_INTERNED = 1 << 20, MOST_STEPS = 64, CHUNK = 1 << 16 };

/* ---- interning ---- */

/* What is interned starts like this, and goes on with `size` bytes that say what it is. */
typedef struct {
    uint64_t hash;
    uint32_t id, size;
    char content[];
} Interned;

typedef struct {
    Interned **slots; /* owned, as long as the process; a power of two of them */
    uint32_t mask, used;
} Set;

static Set atoms, products, exprs;

static uint64_t
hash_of(const char *content, size_t size)
{
    uint64_t hash = 0x9E3779B97F4A7C15u ^ size, word;
    for (size_t i = 0; i + sizeof(word) <= size; i += sizeof(word)) { /* it is made of words */
        memcpy(&word, content + i, sizeof(word));
        hash = (hash ^ word) * 0xBF58476D1CE4E5B9u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Makes room for one more. 1, or 0 if there is no memory, or too many are there. */
static int
make_room(Set *set)
{
    if (set->used >= MOST_INTERNED) {
        return 0;
    }
    if (set->slots != NULL && set->used < set->mask / 2) {
        return 1;
    }
    uint32_t room = set->slots == NULL ? 256 : (set->mask + 1) * 2;
    Interned **slots = PyMem_RawCalloc(room, sizeof(*slots));
    if (slots == NULL) {
        return 0;
    }
    for (uint32_t i = 0; set->slots != NULL && i <= set->mask; i++) {
        uint32_t at = set->slots[i] == NULL ? 0 : (uint32_t)set->slots[i]->hash & (room - 1);
        while (set->slots[i] != NULL && slots[at] != NULL) {
            at = (at + 1) & (room - 1);
        }
        if (set->slots[i] != NULL) {
            slots[at] = set->slots[i];
        }
    }
    PyMem_RawFree(set->slots);
    set->slots = slots;
    set->mask = room - 1;
    return 1;
}

/* Memory for one that is interned. It is taken from chunks, which are never freed. NULL if there is none. */
static Interned *
take_memory(size_t size)
{
    static char *chunk; /* what is left of the latest */
    static size_t left;
    size = (sizeof(Interned) + size + 7) / 8 * 8;
    if (left < size) {
        size_t made = size > CHUNK ? size : CHUNK;
        char *memory = PyMem_RawMalloc(made);
        if (memory == NULL) {
            return NULL;
        }
        chunk = memory;
        left = made;
    }
    Interned *taken = (Interned *)chunk;
    chunk += size;
    left -= size;
    return taken;
}

/* The one with this content. Ids start with 1. */
static const void *
intern(Set *set, const void *content, size_t size)
{
    if (!make_room(set)) {
        return NULL;
    }
    uint64_t hash = hash_of(content, size);
    uint32_t at = (uint32_t)hash & set->mask;
    for (; set->slots[at] != NULL; at = (at + 1) & set->mask) {
        const Interned *one = set->slots[at];
        if (one->hash == hash && one->size == size && memcmp(one->content, content, size) == 0) {
            return one;
        }
    }
    Interned *made = take_memory(size);
    if (made == NULL) {
        return NULL;
    }
    *made = (Interned){.hash = hash, .id = ++set->used, .size = (uint32_t)size};
    memcpy(made->content, content, size);
    set->slots[at] = made;
    return made;
}

_Static_assert(offsetof(MgAtom, kind) == offsetof(Interned, content), "an atom is an interned object");
_Static_assert(offsetof(MgProduct, factors) == offsetof(Interned, content), "and so is a product");
_Static_assert(offsetof(MgExpr, terms) == offsetof(Interned, content), "and an expression");

const MgAtom *
mg_atom(MgAtomKind kind, int symbol, const MgExpr *left, const MgExpr *right)
{
    struct {
        int64_t kind, symbol;
        const MgExpr *left, *right;
    } content = {kind, symbol, left, right};
    return intern(&atoms, &content, sizeof(content));
}

const MgExpr *
mg_poly_intern(const MgPoly *poly)
{
    return intern(&exprs, poly->terms, sizeof(MgTerm) * (size_t)poly->count);
}

/* ---- products ---- */

static uint32_t
product_id(const MgProduct *product)
{
    return product == NULL ? 0 : product->id;
}

/* a * b, or with `sign` -1 a / b; *good is 0 if that is too hard, or no product. */
static const MgProduct *
combine(const MgProduct *a, const MgProduct *b, int sign, int *good)
{
    struct MgFactor factors[MOST_FACTORS];
    int count = 0, i = 0, k = 0, many = mg_product_count(a), more = mg_product_count(b);
    *good = 0;
    while (i < many || k < more) {
        const struct MgFactor *x = i < many ? &a->factors[i] : NULL, *y = k < more ? &b->factors[k] : NULL;
        int takes_x = x != NULL && (y == NULL || x->atom->id <= y->atom->id);
        int takes_y = y != NULL && (x == NULL || y->atom->id <= x->atom->id);
        int64_t power = (takes_x ? x->power : 0) + (takes_y ? sign * y->power : 0);
        if (power < 0 || power > MOST_POWER || count == MOST_FACTORS) {
            return NULL;
        }
        factors[count] = (struct MgFactor){takes_x ? x->atom : y->atom, power};
        count += power != 0;
        i += takes_x;
        k += takes_y;
    }
    const MgProduct *made = count == 0 ? NULL : intern(&products, factors, sizeof(struct MgFactor) * (size_t)count);
    *good = count == 0 || made != NULL;
    return made;
}

const MgProduct *
mg_product_without(const MgProduct *product, const MgAtom *atom, int *good)
{
    struct MgFactor one = {atom, 1};
    const MgProduct *single = intern(&products, &one, sizeof(one));
    *good = 0;
    return single == NULL ? NULL : combine(product, single, -1, good);
}

int
mg_poly_atom(const MgAtom *atom, MgPoly *result)
{
    struct MgFactor one = {atom, 1};
    const MgProduct *single = atom == NULL ? NULL : intern(&products, &one, sizeof(one));
    result->count = 1;
    result->terms[0] = (MgTerm){single, 1};
    return single != NULL;
}

int
mg_product_is_greater(const MgProduct *a, const MgProduct *b)
{
    int many = mg_product_count(a), more = mg_product_count(b);
    for (int i = 0; i < many && i < more; i++) {
        if (a->factors[i].atom != b->factors[i].atom) {
            return a->factors[i].atom->id < b->factors[i].atom->id;
        }
        if (a->factors[i].power != b->factors[i].power) {
            return a->factors[i].power > b->factors[i].power;
        }
    }
    return many > more;
}

/* ---- polynomials ---- */

/* Adds a term; the others are in order. */
static int
add_term(MgPoly *poly, const MgProduct *product, int64_t coefficient)
{
    int at = poly->count;
    while (at > 0 && product_id(poly->terms[at - 1].product) >= product_id(product)) {
        at--;
    }
    if (at < poly->count && poly->terms[at].product == product) {
        if (__builtin_add_overflow(poly->terms[at].coefficient, coefficient, &poly->terms[at].coefficient)) {
            return 0;
        }
        if (poly->terms[at].coefficient == 0) {
            poly->count--;
            memmove(&poly->terms[at], &poly->terms[at + 1], sizeof(MgTerm) * (size_t)(poly->count - at));
        }
        return 1;
    }
    if (coefficient == 0) {
        return 1;
    }
    if (poly->count == MG_MOST_TERMS) {
        return 0;
    }
    memmove(&poly->terms[at + 1], &poly->terms[at], sizeof(MgTerm) * (size_t)(poly->count - at));
    poly->terms[at] = (MgTerm){product, coefficient};
    poly->count++;
    return 1;
}

int
mg_poly_of(MgDim dim, MgPoly *result)
{
    if (dim.e == NULL) {
        result->count = dim.v != 0;
        result->terms[0] = (MgTerm){NULL, dim.v};
        return 1;
    }
    result->count = mg_expr_count(dim.e);
    memcpy(result->terms, dim.e->terms, dim.e->size);
    return 1;
}

int
mg_poly_scale(const MgPoly *a, int64_t factor, MgPoly *result)
{
    int count = factor == 0 ? 0 : a->count;
    for (int i = 0; i < count; i++) {
        const MgTerm *term = &a->terms[i];
        result->terms[i].product = term->product;
        if (__builtin_mul_overflow(term->coefficient, factor, &result->terms[i].coefficient)) {
            return 0;
        }
    }
    result->count = count;
    return 1;
}

int
mg_poly_add(const MgPoly *a, const MgPoly *b, int64_t factor, MgPoly *result)
{
    MgPoly sum = *a;
    for (int i = 0; i < b->count; i++) {
        int64_t coefficient;
        if (__builtin_mul_overflow(b->terms[i].coefficient, factor, &coefficient) ||
            !add_term(&sum, b->terms[i].product, coefficient)) {
            return 0;
        }
    }
    *result = sum;
    return 1;
}

int
mg_poly_mul(const MgPoly *a, const MgPoly *b, MgPoly *result)
{
    assert(result != a && result != b);
    result->count = 0;
    for (int i = 0; i < a->count; i++) {
        for (int k = 0; k < b->count; k++) {
            int64_t coefficient;
            int good;
            const MgProduct *product = combine(a->terms[i].product, b->terms[k].product, 1, &good);
            if (!good || __builtin_mul_overflow(a->terms[i].coefficient, b->terms[k].coefficient, &coefficient) ||
                !add_term(result, product, coefficient)) {
                return 0;
            }
        }
    }
    return 1;
}

static const MgTerm *
leading(const MgPoly *poly)
{
    const MgTerm *best = &poly->terms[0];
    for (int i = 1; i < poly->count; i++) {
        best = mg_product_is_greater(poly->terms[i].product, best->product) ? &poly->terms[i] : best;
    }
    return best;
}

int
mg_poly_divide(const MgPoly *a, const MgPoly *b, MgPoly *result)
{
    assert(result != a && result != b);
    MgPoly rest = *a, step = {.count = 1}, part;
    result->count = 0;
    if (b->count == 0) {
        return 0;
    }
    const MgTerm *by = leading(b);
    for (int i = 0; rest.count > 0; i++) {
        int good;
        const MgTerm *first = leading(&rest);
        const MgProduct *product = combine(first->product, by->product, -1, &good);
        if (!good || i == MOST_STEPS || first->coefficient == INT64_MIN || first->coefficient % by->coefficient != 0) {
            return 0;
        }
        step.terms[0] = (MgTerm){product, first->coefficient / by->coefficient};
        if (!mg_poly_mul(&step, b, &part) || !mg_poly_add(&rest, &part, -1, &rest) ||
            !add_term(result, product, step.terms[0].coefficient)) {
            return 0;
        }
    }
    return 1;
}

int64_t
mg_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = b == -1 ? 0 : a % b;
        a = b;
        b = rest;
    }
    return a == INT64_MIN ? 1 : a < 0 ? -a : a;
}

int64_t
mg_poly_content(const MgPoly *poly, int all)
{
    int64_t content = 0;
    for (int i = 0; i < poly->count; i++) {
        content = poly->terms[i].product == NULL && !all ? content : mg_gcd(content, poly->terms[i].coefficient);
    }
    return content;
}

int
mg_poly_dim(const MgPoly *poly, int64_t hint, MgDim *result)
{
    if (mg_poly_is_constant(poly)) {
        *result = mg_dim(mg_poly_constant(poly));
        assert(result->v == hint);
        return 1;
    }
    *result = (MgDim){hint, mg_poly_intern(poly)};
    return result->e != NULL;
}

int
mg_poly_normalize(const MgPoly *poly, MgNormal *normal)
{
    int64_t content = mg_poly_content(poly, 0);
    normal->constant = mg_poly_constant(poly);
    normal->p.count = 0;
    normal->scale = content;
    for (int i = 0; i < poly->count; i++) {
        const MgTerm *term = &poly->terms[i];
        if (term->coefficient == INT64_MIN) {
            return 0;
        }
        if (term->product != NULL) {
            if (normal->p.count == 0 && term->coefficient < 0) {
                normal->scale = -content;
            }
            normal->p.terms[normal->p.count++] = (MgTerm){term->product, term->coefficient / normal->scale};
        }
    }
    return content > 0;
}
