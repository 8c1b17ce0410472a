/* Whole-state checks before each instruction, in builds with MG_CHECKS. */
#ifndef MG_CHECK_H
#define MG_CHECK_H

#include "cpython/cpython311.h"

#if MG_CHECKS
/* Stops the process with a message if the state of the frame that is about to execute `next` can't be right. */
void mg_check_state(PyThreadState *tstate, MgFrame *frame, const MgCFrame *link, const MgUnit *next, PyObject **top);
#endif

/* The stack depth that the code's own effect gives before each unit, as a list (-1: not reachable). For tests. */
PyObject *mg_check_depths(PyCodeObject *code);

#endif
