/* The tables of sets: in which order a set is walked depends on where its items lie, and that on all that was done to it. */
#ifndef MG_SETLAYOUT_H
#define MG_SETLAYOUT_H

#include "base/magneto.h"

/* A new set or frozenset (`type`) with the items of a set, each in the place where it lies there. */
PyObject *mg_set_copy(PyTypeObject *type, PyObject *set);

/* The same for an empty set of any type. MG_OK or MG_ERR. */
int mg_set_copy_into(PyObject *target, PyObject *set);

/* Where the items of a set lie, and their hashes. New bytes. */
PyObject *mg_set_places(PyObject *set);

/* 1 if items with these hashes lie in these places. */
int mg_set_has_places(PyObject *set, PyObject *places);

/* Puts items into an empty set, in these places: as many as there are, in the order of a walk. 1, or 0 if they have other
 * hashes than those that lay there, or MG_ERR. */
int mg_set_fill(PyObject *set, PyObject *const *items, PyObject *places);

/* Makes the content of a set that of another, item by item: what is in both stays where it is. If the set has the places
 * `before`, which may be NULL, it gets those of `content`. MG_OK or MG_ERR. */
int mg_set_become(PyObject *set, PyObject *content, PyObject *before);

/* The items of a set in their order, whatever a class that extends it says. A new list. */
PyObject *mg_set_items(PyObject *set);

#endif
