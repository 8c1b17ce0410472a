/* The guard program: loads every source that an entry needs, once, and checks it. */
#ifndef MG_GUARD_H
#define MG_GUARD_H

#include "capture.h"

/* What a tensor must be like, in libtorch's own terms. */
typedef struct {
    int64_t dim;
    int32_t dtype, device_type, device_index;
    int requires_grad, leafness; /* leaves, and views of them, are told apart only if they require a gradient */
    int conjugate, negative;     /* its values are the conjugates or negatives of what its memory holds */
    int64_t *dims;               /* owned: sizes, then strides */
} MgTensorCheck;

typedef struct {
    MgGuardKind kind;
    int source;
    int other;
    PyObject *expected; /* strong */
    Py_ssize_t index;
    MgTensorCheck *tensor; /* owned, for tensors */
} MgCheck;

/* Loads one source, then makes its checks. */
typedef struct {
    MgSource source; /* a copy; owns its key; base is not used */
    int base;        /* register of the base, -1 if it has none */
    int first_check, check_count;
    char *text; /* owned: the source as Python text */
} MgStep;

typedef struct {
    MgStep *steps;
    int step_count; /* also the number of registers */
    MgCheck *checks;
    int check_count;
    PyObject *state; /* strong: torch's global state */
} MgProgram;

/* Compiles the guards of a capture. MG_OK or MG_ERR. */
int mg_guard_compile(MgProgram *program, MgCapture *capture);

/* Runs the program on the arguments of a call. 1 with `registers` filled (borrowed references), or 0; -1 with an
 * exception. *failed is the index of the check that failed, or -1. */
int mg_guard_run(const MgProgram *program, PyObject *const *arguments, PyObject **registers, int *failed);

/* A check as text, such as "L['x'] is a float32 tensor of size (2, 3)". New. */
PyObject *mg_guard_text(const MgProgram *program, int check);

/* A source as text. New. */
PyObject *mg_guard_source_text(const MgProgram *program, int step);

void mg_guard_free(MgProgram *program);

#endif
