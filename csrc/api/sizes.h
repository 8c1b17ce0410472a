/* The algebra of sizes, for tests: what Python sees of it. */
#ifndef MG_SIZES_H
#define MG_SIZES_H

#include "base/magneto.h"

/* sizes(symbols, questions): see its docstring. */
PyObject *mg_sizes_ask(PyObject *module, PyObject *args);
extern const char mg_sizes_doc[];

#endif
