/* Our own replay of a graph: see entry.h. */
#ifndef MG_REPLAY_H
#define MG_REPLAY_H

#include "entry/entry.h"

/* Makes the operations of an entry ready to be executed; frees them. */
int mg_replay_prepare(MgEntry *entry);
void mg_replay_free(MgEntry *entry);

/* Executes them. Takes the references in `inputs`. MG_OK with `outputs` filled with new references; or MG_ERR, and
 * *failure says what there is by then if an operation has raised. */
int mg_replay_run(MgEntry *entry, PyObject **inputs, PyObject **outputs, MgFailure *failure);

/* The value of a node before the one that raised. New; NULL if it is not there, perhaps with an exception. */
PyObject *mg_replay_value(const MgEntry *entry, const MgFailure *failure, int node);

/* Lets go of the values. */
void mg_replay_forget(MgFailure *failure);

#endif
