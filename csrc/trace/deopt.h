/* Deoptimisation: where an operation of a graph has raised, the program goes on in frames of its own. */
#ifndef MG_DEOPT_H
#define MG_DEOPT_H

#include "entry/entry.h"

/* What tensors from outside were like before the graph ran: a table of metadata, which borrows from the entry and the
 * failure; to be freed. MG_OK or MG_ERR. */
int mg_deopt_metas(const MgEntry *entry, const MgFailure *failure, MgTable *metas);

/* Keeps `stop`, an entry that was captured again up to where operation `node` of `entry` was recorded, for the next time;
 * 1. 0 if what it records is not what the graph did, -1 with an exception. */
int mg_deopt_keep(MgEntry *entry, int node, MgEntry *stop);

/* The entry that was kept for an operation, borrowed, or NULL; and forgetting it. */
MgEntry *mg_deopt_find(const MgEntry *entry, int node);
void mg_deopt_forget(MgEntry *entry, int node);

/* Builds the frames of `stop` from the values that the failed run of `entry` has left. `error` (borrowed) is raised by
 * the innermost, unless its instruction is to be executed once more. 1 with *exit; 0 if that is not possible; -1. */
int mg_deopt_run(MgEntry *entry, const MgFailure *failure, MgEntry *stop, PyObject *const *arguments, PyObject *error,
                 PyObject *owner, MgExit **exit);

/* 1 if all operations from `first` to `last` can be run once more, and leave nothing else than they left. */
int mg_deopt_is_repeatable(const MgEntry *entry, int first, int last);

#endif
