/* Whose code it is: the user's, the standard library's, torch's. */
#ifndef MG_PLACE_H
#define MG_PLACE_H

#include "cpython311.h"

typedef enum {
    MG_PLACE_USER,    /* anything that no table names */
    MG_PLACE_LIBRARY, /* Python's standard library: a break in it belongs to whoever called it */
    MG_PLACE_TORCH,
    MG_PLACE_MODULES, /* torch's nn.Modules, captured like the user's own */
    MG_PLACE_OWN,     /* magneto */
} MgPlace;

/* Takes a list of (prefix of file names, place); the first that fits is taken. */
int mg_place_configure(PyObject *prefixes);

MgPlace mg_place_of(PyCodeObject *code);

#endif
