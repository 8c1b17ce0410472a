/* Which of many entries can fit a call, from the guards in which they differ. */
#ifndef MG_DISPATCH_H
#define MG_DISPATCH_H

#include "entry/entry.h"

/* From how many entries on it pays. */
enum { MG_DISPATCH_FROM = 4 };

typedef struct MgDispatch MgDispatch;

/* A decision between entries, which are borrowed: it is good until their list changes. NULL without an exception if they
 * can't be told apart, or memory is out. */
MgDispatch *mg_dispatch_new(MgEntry *const *entries, int count);

/* The entries that can fit these arguments: no other one does. Borrowed, in the order in which to try them. */
MgEntry **mg_dispatch_find(MgDispatch *dispatch, PyObject *const *arguments, int *count);

void mg_dispatch_free(MgDispatch *dispatch);

#endif
