/* The interpreter: executes CPython 3.11's own frames, instruction by instruction. */
#ifndef MG_INTERP_H
#define MG_INTERP_H

#include "entry/exit.h"

/* Executes a frame as _PyEval_EvalFrameDefault would: new result, or NULL with an exception. */
PyObject *mg_interp_eval(PyThreadState *tstate, MgFrame *frame, int throwflag);

/* Executes a frame that an exit has made, from where it stopped. Takes the reference to the exit. */
PyObject *mg_interp_resume(PyThreadState *tstate, MgFrame *frame, MgExit *exit, int index);

/* Executes a frame that starts under a compiled callable, though not captured by it: it may be captured on its own. */
PyObject *mg_interp_watch(PyThreadState *tstate, MgFrame *frame, PyObject *owner);

/* Must be called once before the first frame is executed. */
void mg_interp_init(void);

/* Counting of executed instructions by base opcode, for tests of coverage. */
extern int mg_interp_counting;
extern uint64_t mg_interp_counts[256];

#endif
