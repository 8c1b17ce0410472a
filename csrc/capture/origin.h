/* Whose code it is: the user's, the standard library's, torch's. */
#ifndef MG_ORIGIN_H
#define MG_ORIGIN_H

#include "cpython/cpython311.h"

typedef enum {
    MG_ORIGIN_USER,    /* anything that no table names */
    MG_ORIGIN_LIBRARY, /* Python's standard library: a break in it belongs to whoever called it */
    MG_ORIGIN_TORCH,
    MG_ORIGIN_MODULES, /* torch's nn.Modules, captured like the user's own */
    MG_ORIGIN_OWN,     /* magneto */
} MgOrigin;

/* Takes a list of (prefix of file names, place); the first that fits is taken. */
int mg_origin_configure(PyObject *prefixes);

MgOrigin mg_origin_of(PyCodeObject *code);

#endif
