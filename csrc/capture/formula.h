/* Formulas: ints and answers that are computed from floats, evaluated anew by the guards of each call.
 *
 * `int(rate)` and `rate > 0.5` are such ones. A formula is a list of steps on a stack: floats that lie at sources, ints that
 * are expressions over symbols, constants, and calls of functions of C code on them. What it gives is the value of a symbol. */
#ifndef MG_FORMULA_H
#define MG_FORMULA_H

#include "ir/source.h"
#include "size/expr.h"

typedef struct MgFormula MgFormula; /* a Python object */
extern PyTypeObject MgFormula_Type;

/* What a register's source is as a text, for mg_formula_text. New. */
typedef PyObject *(*MgRegisterText)(const void *context, int id);

/* An empty formula. New. */
MgFormula *mg_formula_new(void);

/* These add a step. 1, 0 if there are too many, or MG_ERR. */
int mg_formula_constant(MgFormula *formula, PyObject *number);                 /* an int or a float */
int mg_formula_float(MgFormula *formula, MgSource *source);                    /* a float from outside */
int mg_formula_int(MgFormula *formula, const MgExpr *expr);                    /* an int that varies */
int mg_formula_call(MgFormula *formula, PyObject *function, Py_ssize_t count); /* of the last results */
int mg_formula_compare(MgFormula *formula, int operation);                     /* of the last two: Py_LT and the like */

/* The registers that it looks at: how many, and one of them. */
int mg_formula_count(const MgFormula *formula);
int mg_formula_register(const MgFormula *formula, int index);

/* 1 if two formulas are the same. */
int mg_formula_same(const MgFormula *left, const MgFormula *right);

/* 1 if it is a comparison. */
int mg_formula_compares(const MgFormula *formula);

/* What it gives, True and False as 1 and 0. `values` are those of the symbols. 1, or 0 if that is no int of 64 bits, or raises.
 * No Python code runs. */
int mg_formula_run(const MgFormula *formula, PyObject *const *registers, const int64_t *values, int64_t *result);

/* As Python text; `names` are those of the symbols. New. */
PyObject *mg_formula_text(const MgFormula *formula, MgRegisterText text_of, const void *context, PyObject *names);

int mg_formula_types_ready(void); /* MG_OK or MG_ERR */

#endif
