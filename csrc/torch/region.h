/* Regions: what torch's profilers are told of looking for an entry, and of running one. */
#ifndef MG_REGION_H
#define MG_REGION_H

#include "base/magneto.h"

typedef struct {
    const uint64_t *version; /* that of the globals of torch.autograd.profiler; see watch.h */
    uint64_t silent;         /* what it was when no profiler was on */
} MgProfilers;

extern MgProfilers mg_profilers;

/* Finds torch's profilers, once. MG_OK or MG_ERR. */
int mg_region_find(void);

/* 1 if one is on: the globals have changed since none was. Runs no code. */
int mg_region_look(void);

/* 1 if somebody in this process has switched one of torch's profilers on. Reads one word if not. */
static inline int
mg_region_is_wanted(void)
{
    return MG_UNLIKELY(*mg_profilers.version != mg_profilers.silent) && mg_region_look();
}

/* Starts the region "<name><number>"; `number` is a string, or NULL. New; NULL without an exception if it can't be had.
 * Torch decides whether the thread is one of those that are recorded. */
PyObject *mg_region_enter(const char *name, PyObject *number);

/* Ends one, which may be NULL; an exception that is set stays. */
void mg_region_leave(PyObject *region);

#endif
