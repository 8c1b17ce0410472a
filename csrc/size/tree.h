/* Expressions as Python values, for code in Python: an int, "s0" for the symbol 0, or (operator, tree, tree). */
#ifndef MG_TREE_H
#define MG_TREE_H

#include "size/facts.h"

/* The tree of an expression. New; NULL with an exception. */
PyObject *mg_tree_of(const MgExpr *expr);

/* The size that a tree says, for the values that the symbols of `facts` have in this call: 1, 0 if it is too hard, or MG_ERR.
 * With `decides` a divisor is decided not to be 0; else the caller knows that. */
int mg_tree_read(MgFacts *facts, PyObject *tree, int decides, MgDim *result);

/* The relation of this name ("==", "!=", "<", "<="), or -1; and the other way round. */
int mg_relation_of(PyObject *name);
const char *mg_relation_name(MgRelation relation);

#endif
