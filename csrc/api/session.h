/* Sessions: what Python is told before and after all that is done to capture and compile a frame. */
#ifndef MG_SESSION_H
#define MG_SESSION_H

#include "api/callable.h"

/* A frame is about to be captured: a call of `code` (offset -1), or the rest of a frame from an offset on, in instructions.
 * MG_OK or MG_ERR; if it is MG_OK, mg_session_end must follow. May run any code. */
int mg_session_begin(MgCompiled *self, PyCodeObject *code, int offset);

/* It is over, with an entry or without; an exception that is set stays, and is told. If Python raises and there was no
 * exception before, the entry is dropped and the exception set. May run any code. */
void mg_session_end(MgCompiled *self, MgEntry **entry);

#endif
