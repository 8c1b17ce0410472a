/* Exceptions as the bytecode sees them: the handler table, raising, matching, and groups for `except*`. */
#ifndef MG_EXCEPT_H
#define MG_EXCEPT_H

#include "cpython/cpython311.h"

/* Where an exception goes: the handler's offset in code units, the stack depth there, and whether the offset of the
 * instruction that raised is pushed too. */
typedef struct {
    int target;
    int depth;
    int push_lasti;
} MgHandler;

/* Finds the handler that covers `offset` (in code units). 1 if there is one, else 0. */
int mg_except_find(PyCodeObject *code, int offset, MgHandler *handler);

/* Walks the handlers of a code object one by one; `cursor` starts as 0. 1 if `handler`, `start` and `end` were set. */
int mg_except_next(PyCodeObject *code, Py_ssize_t *cursor, int *start, int *end, MgHandler *handler);

/* The statement `raise exc from cause`; both references are stolen and may be NULL. Sets an exception in any case;
 * 1 if it is a plain re-raise, to which no traceback entry is added. */
int mg_except_raise(PyThreadState *tstate, PyObject *exc, PyObject *cause);

/* Makes `value` (stolen) the exception in flight again, with its own traceback. */
void mg_except_restore(PyObject *value);

/* The exception in flight as one normalised object with its traceback attached, no longer in flight. New. */
PyObject *mg_except_take(PyThreadState *tstate);

/* `except types`: 1 or 0, -1 if `types` can't be caught. */
int mg_except_match(PyObject *value, PyObject *types);

/* `except* types`: splits `value` into what matches and the rest, both new (None where empty). */
int mg_except_group_match(PyObject *value, PyObject *types, PyObject **match, PyObject **rest);

/* What is left to raise after all `except*` clauses ran: None or an exception, new. */
PyObject *mg_except_group_reraise(PyObject *original, PyObject *raised);

/* NameError and its kin, for a name that is not bound. `format` has one %s. */
void mg_except_name(PyObject *type, const char *format, PyObject *name);
void mg_except_unbound(PyCodeObject *code, int slot);

/* 1 for each of the three instructions at the end of a handler that forget its exception: `e = None; del e`. Captured code
 * could forget its view of it alone, and the frame would be in a cycle with the traceback. */
int mg_except_forgets(MgFrame *frame, MgUnit *next);

#endif
