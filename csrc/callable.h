/* The compiled callable: binds arguments, finds an entry, runs it; captures when there is none. */
#ifndef MG_CALLABLE_H
#define MG_CALLABLE_H

#include "entry.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function; /* strong: what is compiled */
    PyObject *compile;  /* strong: (entry) -> compiled callable, or None for our own replay */
    PyObject *failed;   /* strong: told of a capture that was aborted */
    PyObject *missed;   /* strong: told why no entry fits, before a recapture; or None */
    MgEntry **entries;  /* strong, most recent first */
    int entry_count, entry_room;
    int limit;    /* of entries */
    int failures; /* aborted captures so far */
    int skip;     /* calls to be left alone before capture is tried again */
    uint64_t captures;
    PyObject *weakrefs;
} MgCompiled;

extern PyTypeObject MgCompiled_Type;
int mg_callable_types_ready(void);

#endif
