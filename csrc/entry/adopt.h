/* What was compiled in the background takes the place of an entry's replay, while the entry is in use. */
#ifndef MG_ADOPT_H
#define MG_ADOPT_H

#include "entry/entry.h"

/* The inputs of the graph as a tuple. New. */
PyObject *mg_entry_input_tuple(MgEntry *entry, const MgRegisters *registers);

/* What was compiled is there: has it take the place of the replay. May run any code. 1 if its guards are others now, 0 if all
 * is as it was, or -1. */
int mg_entry_adopt(MgEntry *entry, const MgRegisters *registers);

/* Holds a tuple of inputs in place of those that the capture saw, or with None none. None, new. */
PyObject *mg_entry_hold_inputs(MgEntry *entry, PyObject *inputs);

#endif
