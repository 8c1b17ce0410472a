/* How the search for an entry, and its run, has ended. */
#ifndef MG_ENDING_H
#define MG_ENDING_H

#include "entry/replay.h"

/* How the run of an entry has ended, if not with a result. */
typedef struct {
    MgExit *exit;      /* owned: it stops at a break; or NULL */
    MgEntry *entry;    /* strong: an operation of its graph has raised, the exception is set; or NULL */
    MgFailure failure; /* owned: what there is by then */
    PyObject *region;  /* strong: the look-up as a profiler sees it, while it lasts; or NULL */
} MgEnding;

/* What came of the search for an entry. The first three are those of predicates, such as the guards'. */
typedef enum {
    MG_FOUND_ERROR = -1,  /* an exception is set, and nothing has run */
    MG_FOUND_NONE = 0,    /* none fits */
    MG_FOUND_ONE = 1,     /* it fits, and has run: its result, or an exception or MgEnding.exit */
    MG_FOUND_CHANGED = 2, /* the lists of entries changed meanwhile: to be tried again */
    MG_FOUND_RAISED = 3,  /* it fits, and an operation of its graph has raised: see MgEnding.failure */
} MgFound;

void mg_ending_clear(MgEnding *ending);

#endif
