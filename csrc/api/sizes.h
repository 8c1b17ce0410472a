/* The algebra of sizes: what Python sees of it. */
#ifndef MG_SIZES_H
#define MG_SIZES_H

#include "base/magneto.h"

/* sizes(symbols, questions): see its docstring. */
PyObject *mg_sizes_ask(PyObject *module, PyObject *args);
extern const char mg_sizes_doc[];

/* size_symbol(number), size(tree), decide(relation, left, right), float_value(object): see their docstrings. */
PyObject *mg_sizes_symbol(PyObject *module, PyObject *argument);
PyObject *mg_sizes_size(PyObject *module, PyObject *argument);
PyObject *mg_sizes_decide(PyObject *module, PyObject *args);
PyObject *mg_sizes_float(PyObject *module, PyObject *argument);
extern const char mg_sizes_symbol_doc[], mg_sizes_size_doc[], mg_sizes_decide_doc[], mg_sizes_float_doc[];

#endif
