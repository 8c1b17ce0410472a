/* What lower floors ask of higher ones: the one way up, installed by api/module.c. */
#ifndef MG_TRACER_H
#define MG_TRACER_H

#include "capture/capture.h"

struct MgExit;

/* What becomes of a frame that goes on after a break. */
typedef enum {
    MG_CONTINUE_ERROR = -1, /* an exception is set */
    MG_CONTINUE_PLAIN,      /* nothing more to capture: CPython goes on */
    MG_CONTINUE_RETURN,     /* it returns *result */
    MG_CONTINUE_EXIT,       /* it goes on at *exit */
    MG_CONTINUE_STEP,       /* one more instruction, and then again */
} MgContinue;

typedef struct {
    /* record and world, of policy: mg_rules_call */
    PyObject *(*call)(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

    /* record, of world: mg_world_expose, mg_world_touch, mg_world_has_own, mg_tensor_class_check */
    PyObject *(*expose)(MgCapture *capture, PyObject *object);
    PyObject *(*touch)(MgCapture *capture, PyObject *value);
    int (*has_own)(MgCapture *capture, PyObject *object, PyObject *name);
    int (*check_operands)(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count);

    /* capture, of record: mg_number_of, mg_number_of_float */
    PyObject *(*number)(MgCapture *capture, MgDim dim);
    PyObject *(*real)(MgCapture *capture, PyObject *value, MgSource *source);

    /* capture, of trace: one more user of the hook, or one less. policy, of trace: mg_trace_run */
    void (*hold_hook)(int more);
    PyObject *(*run)(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

    /* world and policy, of api: what a compiled callable has compiled, borrowed, and what that is bound to, or NULL; NULL for others */
    PyObject *(*unwrap)(PyObject *callable, PyObject **object);

    /* trace, of interp: mg_interp_eval, mg_interp_resume, mg_interp_watch */
    PyObject *(*eval)(PyThreadState *tstate, MgFrame *frame, int throwflag);
    PyObject *(*resume)(PyThreadState *tstate, MgFrame *frame, struct MgExit *exit, int index);
    PyObject *(*watch)(PyThreadState *tstate, MgFrame *frame, PyObject *owner);

    /* interp, of api: mg_callable_continue */
    MgContinue (*proceed)(PyObject *owner, MgFrame *frame, MgUnit *next, PyObject **sp, PyObject **result,
                          struct MgExit **exit);
} MgTracer;

extern MgTracer mg_tracer;

#endif
