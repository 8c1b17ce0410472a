/* Callables that captured code hands to C code, such as a key function: their calls come back to the rules. */
#ifndef MG_CALLBACK_H
#define MG_CALLBACK_H

#include "capture/capture.h"

int mg_callback_types_ready(void);

/* Which positional argument the C function or class `callable` calls, if any: 0 for map, 1 for accumulate; -1 for none. */
int mg_callback_position(PyObject *callable, Py_ssize_t count);

/* 1 if it calls its keyword argument `name`, as sorted does its key. */
int mg_callback_is_called(PyObject *callable, PyObject *name);

/* Which positional argument becomes the factory of a defaultdict, -1 if none; and whether C code may call such a factory: a
 * Python function, whose frame is captured, or a class that does no harm, which is guarded. 0 with an exception, or without. */
Py_ssize_t mg_callback_factory(PyObject *callable);
/* Calls an operator.attrgetter, itemgetter or methodcaller by the rules of captured code: 1 with *result, 0 if `callable`
 * is none of them. *result is new, or NULL with an exception. */
int mg_callback_getter(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                       PyObject **result);

/* What such a function may be given in place of `argument` (stolen): itself, or a callable whose calls go through the
 * rules. New; NULL with an exception. */
PyObject *mg_callback_wrap(PyObject *argument);

#endif
