/* Our own replay of a graph: see entry.h. */
#ifndef MG_REPLAY_H
#define MG_REPLAY_H

#include "entry.h"

/* Makes the operations of an entry ready to be executed; frees them. */
int mg_replay_prepare(MgEntry *entry);
void mg_replay_free(MgEntry *entry);

/* Executes them. Takes the references in `inputs`. MG_OK with `outputs` filled with new references; MG_ERR, and
 * *without_trace is 1 if all is as before, and CPython can do it anew. */
int mg_replay_run(MgEntry *entry, PyObject **inputs, PyObject **outputs, int *without_trace);

#endif
