/* Guards on sizes that other guards imply.
 *
 * A guard on one normal expression (poly.h) says that it is in a range, or that it is not one value. Of all guards on it the
 * two matter that give its range; of values that it does not have, those in the range. */
#include "size/prune.h"

#include "base/table.h"
#include "size/poly.h"

typedef struct {
    MgRange range;
    int low, high; /* the guards that say so; -1 if none does */
} Bound;

/* What a guard says on its own. */
typedef struct {
    const MgExpr *expr; /* NULL: of no normal expression */
    MgRange range;
    int is_hole; /* it does not have the value range.low */
} Fact;

static Fact
fact_of(const MgSizeGuard *guard)
{
    MgPoly d, right;
    MgNormal normal;
    Fact fact = {NULL, {INT64_MIN, INT64_MAX}, guard->relation == MG_RELATION_NE};
    if (!mg_poly_of(guard->left, &d) || !mg_poly_of(guard->right, &right) || !mg_poly_add(&d, &right, -1, &d) ||
        mg_poly_is_constant(&d) || !mg_poly_normalize(&d, &normal)) {
        return fact;
    }
    int64_t bound; /* scale * p <= bound, or == bound */
    if (__builtin_sub_overflow(guard->relation == MG_RELATION_LT ? -1 : 0, normal.constant, &bound) ||
        bound == INT64_MIN) {
        return fact;
    }
    if (guard->relation == MG_RELATION_EQ || guard->relation == MG_RELATION_NE) {
        fact.range.low = fact.range.high = bound / normal.scale;
        fact.expr = bound % normal.scale == 0 ? mg_poly_intern(&normal.p) : NULL;
        return fact;
    }
    if (normal.scale > 0) {
        (void)mg_int_operate(MG_ATOM_FLOORDIV, bound, normal.scale, &fact.range.high);
    }
    else { /* p >= ceil(bound / scale) */
        (void)mg_int_operate(MG_ATOM_FLOORDIV, -bound, normal.scale, &fact.range.low);
        fact.range.low = -fact.range.low;
    }
    fact.expr = mg_poly_intern(&normal.p);
    return fact;
}

/* Notes which guards on an expression are the strongest; `bounds` are by the first guard on it. MG_OK or MG_ERR. */
static int
note_fact(MgTable *known, Bound *bounds, const Fact *fact, int guard)
{
    int at = (int)(intptr_t)mg_table_get(known, fact->expr, NULL) - 1;
    if (at < 0) {
        at = guard;
        if (mg_table_set(known, fact->expr, NULL, (void *)(intptr_t)(at + 1)) < 0) {
            return MG_ERR;
        }
        bounds[at] = (Bound){{INT64_MIN, INT64_MAX}, -1, -1};
    }
    Bound *bound = &bounds[at];
    if (fact->is_hole) {
        return MG_OK;
    }
    if (fact->range.low > bound->range.low) {
        bound->range.low = fact->range.low;
        bound->low = guard;
    }
    if (fact->range.high < bound->range.high) {
        bound->range.high = fact->range.high;
        bound->high = guard;
    }
    return MG_OK;
}

int
mg_facts_prune(MgFacts *facts)
{
    MgTable known = {0}; /* expressions -> the first guard on each, plus 1 */
    int count = facts->guard_count, kept = 0, status = MG_OK;
    Fact *said = PyMem_Malloc(sizeof(Fact) * ((size_t)count + 1));
    Bound *bounds = PyMem_Malloc(sizeof(Bound) * ((size_t)count + 1));
    if (said == NULL || bounds == NULL) {
        PyErr_NoMemory();
        status = MG_ERR;
    }
    for (int i = 0; status == MG_OK && i < count; i++) {
        said[i] = fact_of(&facts->guards[i]);
        status = said[i].expr == NULL ? MG_OK : note_fact(&known, bounds, &said[i], i);
    }
    for (int i = 0; status == MG_OK && i < count; i++) {
        const Fact *fact = &said[i];
        int keep = 1;
        if (fact->expr != NULL) {
            const Bound *bound = &bounds[(intptr_t)mg_table_get(&known, fact->expr, NULL) - 1];
            keep = fact->is_hole ? fact->range.low >= bound->range.low && fact->range.low <= bound->range.high
                                 : bound->low == i || bound->high == i;
        }
        if (keep) {
            facts->guards[kept++] = facts->guards[i];
        }
    }
    facts->guard_count = status == MG_OK ? kept : count;
    mg_table_free(&known);
    PyMem_Free(said);
    PyMem_Free(bounds);
    return status;
}
