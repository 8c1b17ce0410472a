/* Commit: makes an entry of a capture that has come to its end, or to a break. */
#ifndef MG_COMMIT_H
#define MG_COMMIT_H

#include "entry/entry.h"

/* An entry from a finished capture whose root returned `result` (borrowed; NULL if it stopped at a break). New; NULL with an
 * exception, which may be that of an aborted capture. Takes the recording out of the capture. */
MgEntry *mg_commit(MgCapture *capture, PyObject *result);

#endif
