/* Loosening: an entry whose guards a filter of the user's has dropped in part. */
#ifndef MG_LOOSEN_H
#define MG_LOOSEN_H

#include "entry/entry.h"

/* Has a filter say which guards of a new entry are kept: it gets what mg_drop_describe returns, and returns a list of as many
 * bools, and one more for torch's global state. `arguments` are those of the call that was captured. MG_OK or MG_ERR. */
int mg_entry_loosen(MgEntry *entry, PyObject *filter, PyObject *const *arguments);

#endif
