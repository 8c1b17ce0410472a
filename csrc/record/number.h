/* Numbers that vary from call to call: what captured code does with sizes and ints that have become symbols.
 *
 * Unlike those that depend on data (symbol.h), their value in this call is known: whatever can't do with an expression takes the
 * value, and guards it. */
#ifndef MG_RECORD_NUMBER_H
#define MG_RECORD_NUMBER_H

#include "record/symbol.h"

/* 1 for a number whose value in this call is known. */
static inline int
mg_number_is_backed(PyObject *number)
{
    return ((MgNumber *)number)->dim.e != NULL || ((MgNumber *)number)->parts != NULL;
}

/* An int as captured code sees it: a number, or a plain int if it is the same at each call. New. */
PyObject *mg_number_of(MgCapture *capture, MgDim dim);

/* A float from outside that varies, as captured code sees it. New. */
PyObject *mg_number_of_float(MgCapture *capture, PyObject *value, MgSource *source);

/* The same for a size or a tuple of sizes in metadata, or in an outcome; anything else is returned as it is. New. */
PyObject *mg_number_wrap(MgCapture *capture, PyObject *value);

/* The value, for good. New. */
PyObject *mg_number_take(MgCapture *capture, PyObject *number);

/* What an operator gets of an operand that stands beside another: a number takes its value if the other is of a class of C code,
 * numpy's say. New. */
PyObject *mg_number_beside(MgCapture *capture, PyObject *value, PyObject *other);

/* Operators: 1 if the operation was carried out here, with its result; 0 if there is no such number among the operands, or
 * something else has to deal with it. */
int mg_number_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result);
int mg_number_compared(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result);
int mg_number_unary(MgCapture *capture, MgUnary operator, PyObject *number, PyObject **result);
/* The answer in this call alone, without a guard: 1, or 0 if there is none. */
int mg_number_compute(int operation, PyObject *left, PyObject *right, int64_t *answer);
/* Whether a container has a number, as `in` asks: ints that are constants, and few of them. 1, 0, MG_ERR; 2 for others. */
int mg_number_is_in(MgCapture *capture, PyObject *number, PyObject *container);
int mg_number_absolute(MgCapture *capture, PyObject *number, PyObject **result);

/* A call that has such a number as its first or second argument: as mg_number_call. */
int mg_number_called(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                     PyObject **result);

/* The number as the arguments of an operation hold it until its outcome is known: an MgDimObject, for a float the number itself;
 * or a plain number if it has become one. New. */
PyObject *mg_number_argument(MgCapture *capture, PyObject *number);

/* An argument with references in place of sizes: nodes are made for them. New. */
PyObject *mg_number_refer(MgCapture *capture, PyObject *argument);

/* The node of the recording that has the value of a number. -1 with an exception. */
int mg_number_node(MgCapture *capture, PyObject *number);

/* A reference to the node of an expression, or an int if it is a constant. New. */
PyObject *mg_number_ref(MgCapture *capture, const MgExpr *expr);

/* Has the graph take the symbols in the sizes and strides of an input, as a backend wants it. MG_OK or MG_ERR. */
int mg_number_bind(MgCapture *capture, const MgMeta *meta);

/* Makes nodes for those symbols, and adds their numbers to a list. MG_OK or MG_ERR. */
int mg_number_symbols(MgCapture *capture, const MgMeta *meta, PyObject *list);

/* The source of a number that lies outside as it is; borrowed. NULL for others. */
MgSource *mg_number_source(MgCapture *capture, PyObject *number);

/* 1 if a value is the number that captured code sees in place of this very int from outside. */
int mg_number_is_from(MgCapture *capture, PyObject *value, PyObject *object);

/* Takes the values of all sizes in an argument, or in metadata, for good. MG_OK or MG_ERR. */
int mg_number_specialize(MgCapture *capture, PyObject *argument);

/* Metadata by what is known now: sizes that have come to be numbers are numbers. New. */
MgMeta *mg_number_simplify(MgCapture *capture, MgMeta *meta);

#endif
