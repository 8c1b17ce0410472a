/* Tracing mode: what the interpreter asks for at single instructions, and the life of a capture from start to end. */
#ifndef MG_TRACE_H
#define MG_TRACE_H

#include "capture/capture.h"
#include "record/arithmetic.h"

/* Captures a call of `callable` on this thread. The result as captured code sees it, borrowed from the capture; NULL
 * with an exception. If the capture was aborted, capture->reason says why. */
PyObject *mg_trace_run(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* Captures the rest of a frame, from `next` with the stack up to `sp`; the frame is put back as it was. */
PyObject *mg_trace_frame(MgCapture *capture, MgFrame *frame, MgUnit *next, PyObject **sp);

/* For tests: captures stop before their n-th instruction; 0 for never. */
extern long mg_trace_fault;

/* Before each instruction. */
int mg_trace_step(MgCapture *capture);

/* Instructions. MG_OK or MG_ERR, or a new reference. A PyObject ** is a stack slot whose object may be swapped. */
int mg_trace_enter(MgCapture *capture, MgFrame *frame);
int mg_trace_serve(MgCapture *capture, PyThreadState *tstate);
int mg_trace_expose(MgCapture *capture, PyObject **slot);
int mg_trace_format(MgCapture *capture, PyObject **slot);
int mg_trace_escape(MgCapture *capture, PyObject **slots, Py_ssize_t count);
int mg_trace_return(MgCapture *capture, MgFrame *frame, PyObject **slot); /* to C code */
int mg_trace_unpackable(MgCapture *capture, PyObject **slot);
int mg_trace_unpack(MgCapture *capture, PyObject **slot, int count); /* the same, in the root frame */
int mg_trace_touch_all(MgCapture *capture, PyObject **slots, Py_ssize_t count);
int mg_trace_direct(MgCapture *capture);
int mg_trace_own_iterator(MgCapture *capture, PyObject *iterator);
int mg_trace_raises(MgCapture *capture, PyObject *exception);           /* MG_OK or MG_ERR */
int mg_trace_same(MgCapture *capture, PyObject *left, PyObject *right); /* `is`: 1, 0 or -1 */
int mg_trace_used(MgCapture *capture, PyObject *value);
/* MG_ERR, with the capture stopped, if the exception that was raised may name a twin's class where eager names that of a
 * parameter. */
int mg_trace_misnames(MgCapture *capture);
int mg_trace_generator(MgCapture *capture, PyCodeObject *code);
int mg_trace_new_function(MgCapture *capture, PyObject *function);
int mg_trace_match_class(MgCapture *capture, PyObject *subject);
PyObject *mg_trace_getattr(PyObject *owner, PyObject *name); /* in the capture of this thread */
int mg_trace_manager(MgCapture *capture, PyObject *manager);
int mg_trace_delete_global(MgCapture *capture, MgFrame *frame, PyObject *name);
PyObject *mg_trace_unary(MgCapture *capture, MgUnary operator, PyObject *value);
PyObject *mg_trace_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right);
PyObject *mg_trace_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right);
PyObject *mg_trace_call_ex(MgCapture *capture, PyObject *callable, PyObject *positional, PyObject *keywords);
PyObject *mg_trace_enter_with(MgCapture *capture, PyObject *manager, PyObject *enter);
PyObject *mg_trace_load_name(MgCapture *capture, MgFrame *frame, PyObject *name);
PyObject *mg_trace_load_classderef(MgCapture *capture, MgFrame *frame, int slot);
PyObject *mg_trace_import_name(MgCapture *capture, PyThreadState *tstate, MgFrame *frame, PyObject *name,
                               PyObject *fromlist, PyObject *level);
PyObject *mg_trace_import_from(MgCapture *capture, PyObject *module, PyObject *name);

#endif
