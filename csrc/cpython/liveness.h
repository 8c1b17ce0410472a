/* Which locals of a code object are live where. */
#ifndef MG_LIVENESS_H
#define MG_LIVENESS_H

#include "cpython/cpython311.h"

/* 1 if the local in `slot` can still be read from `offset` on. */
int mg_code_is_live(PyCodeObject *code, int offset, int slot);

/* 1 if the code may count references to its objects, or look at their addresses. */
int mg_code_counts_references(PyCodeObject *code);

#endif
