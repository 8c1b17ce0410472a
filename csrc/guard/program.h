/* What a guard program is made of. */
#ifndef MG_PROGRAM_H
#define MG_PROGRAM_H

#include "capture/capture.h"
#include "torch/tensorcheck.h"

/* One guard. */
typedef struct {
    MgGuardKind kind;
    int source;
    int other;
    int place;          /* in the program's places, -1 for none */
    PyObject *expected; /* strong */
    Py_ssize_t index;
    MgTensorCheck *tensor; /* for tensors; borrowed from the program */
} MgCheck;

/* Loads one source, then makes its checks. */
typedef struct {
    MgSource source; /* a copy; owns its key; base is not used */
    int base;        /* register of the base, -1 if it has none */
    int first_check, check_count;
} MgStep;

typedef struct MgFast MgFast; /* see fast.h */

typedef struct {
    MgStep *steps;
    int step_count; /* also the number of registers */
    MgCheck *checks;
    int check_count;
    MgPlace *places; /* owned: the lines that asked for the checks */
    int place_count;
    MgTensorChecks tensors;
    PyObject *state; /* strong: torch's global state */
    MgState words;   /* the same in words, if it was seen to be the same */
    int words_known;
    const int *inputs; /* borrowed from the entry: registers that the graph needs */
    int input_count;
    const int *kept; /* borrowed from the entry: registers that are needed besides */
    int kept_count;
    PyObject *registered;      /* strong: (class, ABC) -> whether it is a subclass, if no more rests on ABCs; or NULL */
    int is_loose;              /* guards were dropped: other calls than those that it was captured for may use it */
    int any_state;             /* torch's global state may be another: that guard was dropped */
    int no_active_exception;   /* nobody may be handling an exception */
    MgFast *fast;              /* owned: the fast path, or NULL */
    MgFast *retired;           /* owned: former ones, which are freed when nobody uses the registers any more */
    uint8_t *changes;          /* owned: how often the object at a step was another one; NULL before the first */
    uint32_t armed, fast_hits; /* how often the fast path was made, and was taken */
    int suspect;               /* one more than the check that failed last, which is made first; 0 for none */
    PyObject **spare;          /* owned: room for registers that nobody uses now, or NULL */
} MgProgram;

/* What the sources of a call gave. */
typedef struct {
    PyObject **values;  /* borrowed references; if `fast` is set, only those that the entry needs besides its inputs */
    const MgFast *fast; /* the fast path, if it was taken; borrowed */
} MgRegisters;

#endif
