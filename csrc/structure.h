/* Containers within the arguments of an operation: lists, tuples, dicts and slices. */
#ifndef MG_STRUCTURE_H
#define MG_STRUCTURE_H

#include "magneto.h"

/* What stands for a part of a container. New; NULL with an exception. */
typedef PyObject *(*MgMapPart)(void *context, PyObject *part);

/* 1 if mg_structure_map knows how to take the value apart. */
int mg_structure_is(PyObject *value);

/* A container like `value` with other parts; a torch.Size becomes a tuple, since its parts need not be numbers. New. */
PyObject *mg_structure_map(PyObject *value, MgMapPart map, void *context);

#endif
