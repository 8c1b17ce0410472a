/* What a guard program is made of. */
#ifndef MG_PROGRAM_H
#define MG_PROGRAM_H

#include "capture.h"
#include "tensorcheck.h"

/* One guard. */
typedef struct {
    MgGuardKind kind;
    int source;
    int other;
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
    MgTensorChecks tensors;
    PyObject *state; /* strong: torch's global state */
    MgState words;   /* the same in words, if it was seen to be the same */
    int words_known;
    const int *inputs; /* borrowed from the entry: registers that the graph needs */
    int input_count;
    const int *kept; /* borrowed from the entry: registers that are needed besides */
    int kept_count;
    PyObject *registered;  /* strong: (class, ABC) -> whether it is a subclass, if no more rests on ABCs; or NULL */
    int calm;              /* nobody may be handling an exception */
    MgFast *fast;          /* owned: the quick way, or NULL */
    MgFast *retired;       /* owned: former ones, which are freed when nobody uses the registers any more */
    uint8_t *changes;      /* owned: how often the object at a step was another one; NULL before the first */
    uint32_t armed, quick; /* how often the quick way was made, and was taken */
    int suspect;           /* one more than the check that failed last, which is made first; 0 for none */
    PyObject **spare;      /* owned: room for registers that nobody uses now, or NULL */
} MgProgram;

/* What the sources of a call gave. */
typedef struct {
    PyObject **values;  /* borrowed references; if `fast` is set, only those that the entry needs besides its inputs */
    const MgFast *fast; /* the quick way, if it was taken; borrowed */
} MgRegisters;

#endif
