/* Protocols: what C code looks up on the types of the objects that it is given. */
#ifndef MG_PROTOCOL_H
#define MG_PROTOCOL_H

#include "capture/capture.h"

/* Guards all that C code may look up on a type, once a capture. MG_OK or MG_ERR. */
int mg_protocol_guard(MgCapture *capture, PyTypeObject *type);

/* Guards the methods that C code may call on an object of a Python class: comparison, length, iteration and so on. */
int mg_protocol_guard_calls(MgCapture *capture, PyObject *object);

/* 1 if a type has all that it had when it was guarded: what MG_GUARD_METHODS expects. Runs no Python code. */
int mg_protocol_same(PyTypeObject *type, PyObject *expected);

/* 1 if a text of the value may have the name of a type or a function in it. */
int mg_protocol_has_name(PyObject *value);

/* Where such a text may have been made (MgCapture.named), guards the names of all types and functions that were met. */
int mg_protocol_guard_names(MgCapture *capture);

#endif
