/* Containers within the arguments of an operation: lists, tuples, dicts and slices. */
#ifndef MG_STRUCTURE_H
#define MG_STRUCTURE_H

#include "base/magneto.h"

/* What stands for a part of a container. New; NULL with an exception. */
typedef PyObject *(*MgMapPart)(void *context, PyObject *part);

/* 1 if mg_structure_map knows how to take the value apart. */
int mg_structure_is(PyObject *value);

/* A container like `value` with other parts; a torch.Size becomes a tuple, since its parts need not be numbers. New. */
PyObject *mg_structure_map(PyObject *value, MgMapPart map, void *context);

/* 1 for the type of a tuple that can be made again of its items: a tuple, a torch.Size, a named tuple. Runs no code. */
int mg_structure_is_plain_tuple(PyTypeObject *type);

/* 1 if a class of lists or tuples has methods that torch may ask in place of looking at the items. Runs no code. */
int mg_structure_has_own_ways(PyTypeObject *type);

#endif
