/* What is registered with abstract base classes, which decides what isinstance and issubclass say. */
#ifndef MG_REGISTRY_H
#define MG_REGISTRY_H

#include "capture.h"

/* Guards whether a value is an instance of an ABC, or a subclass if it is a class. `class` is the class of the value as
 * the program sees it. MG_OK or MG_ERR. */
int mg_registry_guard(MgCapture *capture, PyObject *abc, PyObject *value, PyObject *class);

/* Guards all that is registered. MG_OK or MG_ERR. */
int mg_registry_guard_all(MgCapture *capture);

/* 1 for the C function that tells a number which changes when something is registered. */
int mg_registry_is_token(PyObject *function);

/* 1 if the classes are or are not subclasses of the ABCs as it was noted in MgCapture.registered; 0 or -1. May run any
 * code. */
int mg_registry_is_same(PyObject *registered);

#endif
