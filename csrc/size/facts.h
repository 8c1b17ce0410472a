/* What a capture knows of its symbols, and the decisions that it makes on sizes.
 *
 * A decision that follows from what is known costs nothing. Else the values of the call decide, which is a guard: it is noted,
 * and known from then on. */
#ifndef MG_FACTS_H
#define MG_FACTS_H

#include "size/expr.h"

typedef enum { MG_RELATION_EQ, MG_RELATION_NE, MG_RELATION_LT, MG_RELATION_LE } MgRelation;

/* A relation that held in the call that is captured, and must hold for an entry to fit. */
typedef struct {
    MgRelation relation;
    MgDim left, right;
    int place; /* what MgFacts.where returned when it was noted, or -1 */
} MgSizeGuard;

/* `low` and `high` are bounds that are reached at most; INT64_MIN and INT64_MAX are none. */
typedef struct {
    int64_t low, high;
} MgRange;

typedef struct {
    MgRange given;      /* what it must be in for an entry to fit, apart from all guards */
    MgRange range;      /* what it is in by all that is known */
    const MgExpr *same; /* an expression that it equals, over other symbols; or NULL */
} MgSizeSymbol;

/* A range that a guard tells of an expression: without a constant, with coefficients that have no common divisor. */
typedef struct {
    const MgExpr *expr;
    MgRange range;
} MgSizeBound;

typedef struct {
    MgSizeSymbol *symbols;       /* owned */
    int64_t *hints;              /* owned: of the symbols */
    MgSizeBound *bounds;         /* owned */
    MgSizeBound *holes;          /* owned: values (low) that an expression does not have */
    MgSizeGuard *guards;         /* owned */
    int (*where)(void *context); /* the number of the place in the program that asks for a guard, or -1; or NULL */
    void *context;               /* borrowed */
    int symbol_count, symbol_room, hint_room, bound_count, bound_room, hole_count, hole_room, guard_count, guard_room;
} MgFacts;

void mg_facts_free(MgFacts *facts);

/* A copy, to go back to. MG_OK or MG_ERR. */
int mg_facts_copy(const MgFacts *facts, MgFacts *copy);

/* A new symbol, with its value in this call and the range that it has anyway. 1, 0 if there are too many, or MG_ERR. */
int mg_facts_symbol(MgFacts *facts, int64_t hint, MgRange range, MgDim *result);

/* Whether a relation holds: 1, 0, or MG_ERR. */
int mg_facts_decide(MgFacts *facts, MgRelation relation, MgDim a, MgDim b);

/* The same without a guard: 1 if it is known to hold, 0 if it is known not to, 2 if neither. */
int mg_facts_know(const MgFacts *facts, MgRelation relation, MgDim a, MgDim b);

/* The one symbol that a guard is about; -1 if there are several. */
int mg_facts_symbol_of(const MgSizeGuard *guard);

/* A size with all symbols replaced that are known to equal something else. */
MgDim mg_facts_simplify(const MgFacts *facts, MgDim dim);

/* The range of a size. */
MgRange mg_facts_range(const MgFacts *facts, MgDim dim);

/* Takes the value of a size for good: a guard that it is the same. MG_OK or MG_ERR. */
int mg_facts_specialize(MgFacts *facts, MgDim dim);

/* The same for each symbol of an expression that can't be computed: in it something overflows. MG_OK or MG_ERR. */
int mg_facts_specialize_symbols(MgFacts *facts, const MgExpr *expr);

#endif
