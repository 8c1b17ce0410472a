/* Dropping guards: what a filter of the user's sees of a guard program, and what is left of it. */
#ifndef MG_DROP_H
#define MG_DROP_H

#include "guard/guard.h"

/* What must be found at a step, whatever guards are dropped. */
typedef enum {
    MG_NEED_NOTHING,
    MG_NEED_PRESENT, /* an object: the entry returns it, or writes to it */
    MG_NEED_TENSOR,  /* a tensor: the graph gets it */
} MgNeed;

/* The checks of a program as a list of (kind, source as text, whether there is a value, value, chain, expected, guard as
 * text): the chain has the objects through which the value is reached, itself first. New. */
PyObject *mg_drop_describe(const MgProgram *program, PyObject *const *registers);

/* Keeps the checks that are marked, and has what the entry needs be there all the same; `needs` are by step. With
 * `any_state` torch's global state may be another. MG_OK, or MG_ERR with the program as it was. */
int mg_drop_checks(MgProgram *program, const uint8_t *keep, const uint8_t *needs, int any_state);

#endif
