/* Structural pattern matching: keys of a mapping, attributes of a class. */
#ifndef MG_MATCH_H
#define MG_MATCH_H

#include "base/magneto.h"

/* The values of `keys` in a mapping as a tuple, or None if one is missing. New; NULL with an exception. */
PyObject *mg_match_keys(PyObject *subject, PyObject *keys);

/* `get` reads attributes. The attributes that `type(count positional, names...)` asks for as a tuple, or None if it does not match. New. */
PyObject *mg_match_class(PyObject *subject, PyObject *type, Py_ssize_t count, PyObject *names, getattrofunc get);

#endif
