/* The algebra of sizes, for tests: what Python sees of it. */
#ifndef MG_SIZES_H
#define MG_SIZES_H

#include "size/facts.h"

/* sizes(symbols, questions): see its docstring. */
PyObject *mg_sizes_ask(PyObject *module, PyObject *args);
extern const char mg_sizes_doc[];

/* size(symbols, expression): see its docstring. */
PyObject *mg_sizes_make(PyObject *module, PyObject *args);
extern const char mg_sizes_make_doc[];

/* The facts of symbols as in that docstring, to be freed. MG_OK or MG_ERR. */
int mg_sizes_read(PyObject *symbols, MgFacts *facts);

/* The guards as a list of texts, in which symbols are s0, s1, ... New. */
PyObject *mg_sizes_guards(const MgFacts *facts);

#endif
