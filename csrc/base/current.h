/* The capture of this thread, as far as every floor may know it. */
#ifndef MG_CURRENT_H
#define MG_CURRENT_H

#include <Python.h>

/* The first fields of each MgCapture (capture/capture.h). */
#define MG_CAPTURE_HEAD                                                                                                \
    int suspended;       /* > 0 while code runs that is not to be captured; see aside.h */                             \
    int reason;          /* an MgReason: why it was aborted; 0 while it is alive */                                    \
    int profiled;        /* whether torch's profilers are to see code that runs for real; see mg_aside_suspend */      \
    int starved;         /* there was no memory for something that was taken for an answer; see mg_error_clear */     \
    PyObject *interrupt; /* strong: what a signal handler raised; it goes to the caller, past all captured frames */

typedef struct {
    MG_CAPTURE_HEAD
} MgCaptureHead;

/* Borrowed: the capture that is under way on this thread, or NULL. */
extern __thread MgCaptureHead *mg_current __attribute__((tls_model("initial-exec")));

/* Borrowed: the compiled callable that captures frames which start now in CPython, on this thread; or NULL. */
extern __thread PyObject *mg_watcher __attribute__((tls_model("initial-exec")));

/* Sets it, and returns the one that it was before. */
static inline PyObject *
mg_watch(PyObject *owner)
{
    PyObject *before = mg_watcher;
    mg_watcher = owner;
    return before;
}

/* Strong: the class of the exception that unwinds an aborted capture; NULL before there is any. */
extern PyObject *mg_abort_exception;

/* Clears an exception that means no more than "no" to the caller. If there was no memory, or an interrupt came, a capture
 * that is under way has taken that for an answer: it is aborted before the next instruction. */
void mg_error_clear(void);

#endif
