/* How the files of the policy carry out calls, for each other. */
#ifndef MG_CALLS_H
#define MG_CALLS_H

#include "policy/ruletable.h"
#include "policy/rules.h"

/* A result (stolen) that can't be made again, but never changes, is a constant of the entry. New. */
PyObject *mg_call_keep_constant(MgCapture *capture, PyObject *result);

PyObject *mg_call_unknown(MgCapture *capture, PyObject *callable);

/* Runs a harmless C function on what captured code sees. */
PyObject *mg_call_native(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames);

/* 1 if a C function passes on numbers that vary, or computes with them by their own operators; see plain.c. */
int mg_plain_is_transparent(PyObject *callable);

/* A value for C code that is not: numbers that vary, also in containers, have taken their values. New. */
PyObject *mg_plain_value(MgCapture *capture, PyObject *value);

/* A class is called: its instance is made by CPython, and its __init__ is captured. */
PyObject *mg_call_class(MgCapture *capture, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                        PyObject *kwnames);

/* 1 for functions that show the address of an object that has no better way. */
int mg_call_shows_address(PyObject *callable);

/* Before a C function is given a value and may tell its address: stops the capture if that would be another behind a
 * break. 1 if the result is good for nobody outside, or 0, or MG_ERR. */
int mg_call_note_address(MgCapture *capture, PyObject *callable, PyObject *value);

/* Adds to the numbers that a plan does not pass on. */
int mg_call_note_id(MgCapture *capture, PyObject *id);

/* manager.__enter__(): autocast, inference_mode. Recorded as TorchDynamo does, and really done. */
PyObject *mg_call_enter(MgCapture *capture, PyObject *callable, PyObject *manager);

/* manager.__exit__(...). */
PyObject *mg_call_exit(MgCapture *capture, PyObject *manager);

/* Ends the capture at a call that is not to be captured. NULL; or None if the call is to be left out. */
PyObject *mg_call_refuse(MgCapture *capture, MgReason reason, PyObject *callable, PyObject *const *args,
                         Py_ssize_t count);

/* 1 if there is a twin, or a number that depends on data, among the arguments. */
int mg_call_any_twin(PyObject *const *args, Py_ssize_t count);

/* A method of tensors is called, with the tensor in front: a node under its name. */
PyObject *mg_call_record_method(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                                PyObject *kwnames);

#endif
