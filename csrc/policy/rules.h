/* The rules: what captured code may call, and how. */
#ifndef MG_RULES_H
#define MG_RULES_H

#include "capture/capture.h"

/* Takes the tables that magneto/_rules.py passes: a dict of names to tables. */
int mg_rules_configure(PyObject *tables); /* a dict; ValueError for a name that is not known */

/* Calls `callable` by the rules of captured code: inline, record, run natively, or end the capture. New. */
PyObject *mg_rules_call(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf,
                        PyObject *kwnames);

/* The same for f(*args, **kwargs); `kwargs` is a dict or NULL. */
PyObject *mg_rules_call_tuple(MgCapture *capture, PyObject *callable, PyObject *args, PyObject *kwargs);

/* Before the rest of a frame is captured: makes what its code would make at the first call only. MG_OK or MG_ERR. */
int mg_rules_prepare(MgFrame *frame);

/* What becomes of a frame of a function that CPython executes below a break: an MgMark. */
int mg_rules_watched(PyObject *function);

/* 1 for Python functions that C code calls for its own ends: they run for real, and are no part of the program. */
int mg_rules_is_apart(PyObject *function);

/* 1 if the repr or the hash of a value (borrowed) may tell the address of an object that need not be the same again. */
int mg_rules_has_address(PyObject *value);

/* Before a text is made of a value: stops the capture if it tells what would be another address behind a break. */
int mg_rules_note_text(MgCapture *capture, PyObject *value);

/* Puts torch's global state back to what it was when the capture started. MG_OK or MG_ERR. */
int mg_rules_restore_state(MgCapture *capture);

/* MG_ERR if captured code has left a context manager of torch's open. */
int mg_rules_check_managers(MgCapture *capture);

/* Truth of a value (borrowed) in captured code: 1, 0 or -1. */
int mg_rules_truth(MgCapture *capture, PyObject *value);

#endif
