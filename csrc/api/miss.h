/* Misses: what Python is told of a call that fits no entry. */
#ifndef MG_MISS_H
#define MG_MISS_H

#include "api/callable.h"
#include "policy/stance.h"

/* Tells Python why no entry fits, if there are any; it may raise. 1 if it does not want to hear it again, 0, or -1. */
int mg_miss_tell(MgCompiled *self, MgEntry **entries, int count, PyObject *const *arguments, int limit);

/* Raises because a stance forbids captures, and says why none of the entries fits. */
void mg_miss_refuse(MgCompiled *self, MgEntry **entries, int count, PyObject *const *arguments, MgStance stance,
                    PyCodeObject *code);

#endif
