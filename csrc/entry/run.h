/* What is known of the runs of an entry: where their time goes, and how they fail. */
#ifndef MG_RUN_H
#define MG_RUN_H

#include "base/magneto.h"

typedef struct MgEntry MgEntry;

/* Where the time goes, in nanoseconds, while somebody wants to know. */
typedef struct {
    int is_on;
    uint64_t tries, runs;         /* of its guards, and of the graph */
    uint64_t guard, graph, whole; /* `whole` is from the start of the guards, of runs only */
} MgProfile;

/* An operation of a graph has raised: what there is by then. */
typedef struct {
    int node;  /* the operation */
    int count; /* of nodes */
    PyObject *
        *values;     /* owned, strong: those of the nodes so far, NULL if nobody needs one; NULL if nothing is known */
    int is_compiled; /* what a backend compiled has raised: which operation it was is not known */
} MgFailure;

/* Entries that stop where an operation of another one has raised; see deopt.c. */
typedef struct {
    MgEntry **entries; /* owned, strong */
    int *nodes;        /* owned: those operations */
    int count;
} MgStops;

#endif
