/* What a capture or an entry knows of its symbols: what Python sees of it, and may decide. */
#ifndef MG_API_FACTS_H
#define MG_API_FACTS_H

#include "base/magneto.h"

/* size_symbol(owner, number), size_of(owner, tree), decide(owner, relation, left, right), float_value(object): see their
 * docstrings. */
PyObject *mg_api_size_symbol(PyObject *module, PyObject *args);
PyObject *mg_api_size_of(PyObject *module, PyObject *args);
PyObject *mg_api_decide(PyObject *module, PyObject *args);
PyObject *mg_api_float_value(PyObject *module, PyObject *argument);
extern const char mg_api_size_symbol_doc[], mg_api_size_of_doc[], mg_api_decide_doc[], mg_api_float_value_doc[];

#endif
