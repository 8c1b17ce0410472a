/* Asides: the one way for the core to run Python that is no part of the captured program. */
#ifndef MG_ASIDE_H
#define MG_ASIDE_H

#include "base/magneto.h"

#include <stdbool.h>

struct MgCapture;

/* What an aside has put away. On the C stack of whoever begins it; nothing in it may be used by others. */
typedef struct {
    struct MgCapture *capture;          /* borrowed: the one that is suspended, or NULL */
    PyObject *owner;                    /* borrowed: who watched the frames of this thread */
    struct _PyInterpreterFrame *frame;  /* borrowed: the program's */
    _PyErr_StackItem *handled;          /* borrowed: the exceptions that the program handles */
    _PyErr_StackItem none;              /* what is seen in their place */
    PyObject *type, *value, *traceback; /* strong: an exception that was in flight */
    int functions;                      /* torch's state of function modes and overrides; -1 if it stays as it is */
    int outer;                          /* the program's, if another aside lies around this one; else -1 */
    char profiled;                      /* whether torch's profilers and observers see operations of this thread */
} MgAside;

/* How many asides this thread is in: while it is in one, nothing is captured. */
extern __thread int mg_aside_depth __attribute__((tls_model("initial-exec")));

/* How torch's function modes are read and switched off (0 is enabled, 1 without `__torch_function__`, 2 without modes too),
 * and its profilers. */
typedef struct {
    int (*get_functions)(void);
    void (*set_functions)(int state);
    bool (*is_profiled)(void), (*has_observers)(void);
    void (*set_profiled)(bool on);
} MgAsideControls;

/* Once, when torch is known. */
void mg_aside_configure(const MgAsideControls *controls);

/* From here to the end the core asks something for its own ends: the capture is suspended, no frame is watched, torch's
 * function modes and the `__torch_function__` of tensors are off, its profilers don't see operations, the program's frames,
 * the exception that it handles and one that is in flight are out of sight. So neither the builtins nor the handlers of the
 * program have any part in it. */
void mg_aside_begin(MgAside *aside);

/* The same for an operation that is tried on stand-ins: torch's function modes, such as that of a default device, are what
 * the program has made of them. */
void mg_aside_begin_operation(MgAside *aside);

/* The exception of the aside stays set, unless one was in flight before, which is set again. */
void mg_aside_end(MgAside *aside);

/* What the program has made of torch's function modes and of the `__torch_function__` of tensors (DisableTorchFunction), also
 * inside an aside. The numbers are torch's. */
typedef enum { MG_OVERRIDES_ON, MG_OVERRIDES_MODES_ONLY, MG_OVERRIDES_OFF } MgOverrides;
MgOverrides mg_aside_overrides(void);

/* Questions that one line can ask. All give new references, or NULL with an exception. */
PyObject *mg_aside_import(const char *module);
PyObject *mg_aside_find(const char *module, const char *name); /* an attribute of a module */
PyObject *mg_aside_getattr(PyObject *object, PyObject *name);
PyObject *mg_aside_call(PyObject *callable, PyObject *const *args, Py_ssize_t count);
/* The same; signals wait, so that code which handles errors does not get what their handlers raise. For short calls. */
PyObject *mg_aside_ask(PyObject *callable, PyObject *const *args, Py_ssize_t count);

/* Between the two torch's profilers see no operation of this thread. The first returns what the second is to be told. */
int mg_aside_hide_operations(void);
void mg_aside_show_operations(int profiled);
int mg_aside_mute(void); /* the same for the `__torch_function__` of tensors, which is not called in between */
void mg_aside_unmute(int muted);

/* For code of the program that runs for real: only the capture is suspended, which may be NULL; profilers see operations. */
void mg_aside_suspend(struct MgCapture *capture);
void mg_aside_resume(struct MgCapture *capture);

#if MG_CHECKS
/* Stops the process if the core is about to capture inside an aside. */
void mg_aside_check(const struct MgCapture *capture);
#endif

#endif
