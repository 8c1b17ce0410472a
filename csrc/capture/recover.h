/* What must be right again after an interrupt or a fork: frames that hold managers open, locks. */
#ifndef MG_RECOVER_H
#define MG_RECOVER_H

#include "capture/capture.h"

/* Has the exception that is set, raised by Python code that the core has called, end the capture and go to the caller of
 * the compiled callable, past all handlers of captured code. Returns MG_ERR. */
int mg_recover_interrupt(MgCapture *capture);

/* Empties frames of torch's and our own code in the tracebacks of the exception that is set: all if it is no Exception, else
 * those that enter or leave a context. What an interrupt has left open is closed now, and not when somebody drops the
 * exception. */
void mg_recover_frames(void);

/* Python: clear_frames(error), keep_at_fork(lock). */
PyObject *mg_recover_clear_frames(PyObject *module, PyObject *error);
PyObject *mg_recover_keep_at_fork(PyObject *module, PyObject *lock);

#endif
