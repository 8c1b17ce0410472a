/* The PEP 523 hook: who gets which frame. */
#ifndef MG_HOOK_H
#define MG_HOOK_H

#include "cpython/cpython311.h"

/* Once, at import. MG_ERR with an exception if this process can't be served. */
int mg_hook_init(void);

/* Counts one more (or one less) user of the hook; it is installed while there is at least one. */
void mg_hook_acquire(void);
void mg_hook_release(void);

/* Every frame on every thread goes to the interpreter while this is on. Returns what it was before. */
int mg_hook_interpret_all(int enable);

/* Calls `callable` with every frame below it, on this thread, executed by the interpreter. */
PyObject *mg_hook_interpret(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* Calls `callable`, which must not end halfway. On the main thread signals wait until it is over. On others, where CPython
 * would serve the exceptions that threads set on each other, its frames are executed by the interpreter, which does not. */
PyObject *mg_hook_uninterrupted(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* Calls `callable` in CPython on behalf of a compiled callable: the functions that run below are captured on their own,
 * if they are worth it; its own frame is not. With NULL nothing below is captured. */
PyObject *mg_hook_call_watched(PyObject *owner, PyObject *callable, PyObject *const *args, size_t nargsf,
                               PyObject *kwnames);

/* What tests want to know: whether the hook is installed, its users, and the frames executed so far. */
int mg_hook_installed(void);
int mg_hook_users(void);
uint64_t mg_hook_frames(void);

#endif
