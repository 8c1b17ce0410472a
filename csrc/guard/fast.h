/* The fast path through a guard program: what has not changed since it last held is not looked at again. */
#ifndef MG_FAST_H
#define MG_FAST_H

#include "guard/guard.h"
#include "cpython/watch.h"

/* What mg_fast_run returns if all steps must be run. */
#define MG_FAST_UNKNOWN 2

/* Makes the fast path anew from the registers of a run in which all guards held. Does nothing if it can't. */
void mg_fast_arm(MgProgram *program, PyObject *const *registers);

/* 1 if all guards hold: then registers->fast is set, and the values of live and kept registers are. 0 if one does not:
 * *failed says which. MG_FAST_UNKNOWN, or -1 with an exception. */
int mg_fast_run(MgProgram *program, PyObject *const *arguments, MgRegisters *registers, int *failed);

/* The inputs of the graph, borrowed: those that are pinned, and those that are in their registers. */
void mg_fast_inputs(const MgFast *fast, const MgProgram *program, PyObject *const *values, PyObject **inputs);

/* How much of it there is: words, live steps and checks, tensors; and how often no dict had changed. */
typedef struct {
    int words, steps, checks, tensors;
    unsigned unchanged;
} MgFastSize;

MgFastSize mg_fast_size(const MgFast *fast);

/* 1 if a check is made on every run. */
int mg_fast_is_live(const MgFast *fast, int check);

int mg_fast_traverse(const MgFast *fast, visitproc visit, void *arg);
void mg_fast_free(MgFast *fast);

#endif
