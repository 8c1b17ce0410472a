/* The guard program: loads every source that an entry needs, once, and checks it. */
#ifndef MG_GUARD_H
#define MG_GUARD_H

#include "guard/program.h"

/* Compiles the guards of a capture. MG_OK or MG_ERR. */
int mg_guard_compile(MgProgram *program, MgCapture *capture);

/* 1 if torch's global state is what it was, 0 or -1. Comes before all else: it may run Python code of torch's, and so let
 * other threads run. */
int mg_guard_same_state(MgProgram *program);

/* Runs the program on the arguments of a call, the fast path if it can; runs no Python code. 1 with the registers filled
 * (there is room for them), or 0; -1 with an exception. *failed is the index of the check that failed. */
int mg_guard_run(MgProgram *program, PyObject *const *arguments, MgRegisters *registers, int *failed);

/* The same, by every step and check. */
int mg_guard_run_all(MgProgram *program, PyObject *const *arguments, PyObject **registers, int *failed);

/* After check `failed` did not hold: if it says that nothing was registered with an ABC since, but what was is nothing to
 * these guards, and all others hold, it is made to hold. 1 if it was, 0 or -1; may run any code. */
int mg_guard_renew(MgProgram *program, PyObject *const *arguments, int failed);

/* The inputs of the graph, borrowed. */
void mg_guard_inputs(const MgProgram *program, const MgRegisters *registers, PyObject **inputs);

/* Room for registers, and giving it back when they are no longer used: that may run any code. NULL with an exception. */
PyObject **mg_guard_take_room(MgProgram *program);
void mg_guard_give_room(MgProgram *program, PyObject **room);

/* One check: 1, 0 or -1. */
int mg_guard_check(MgCheck *check, PyObject **registers);

/* How guards are run. */
typedef enum {
    MG_GUARDS_ALL,  /* all of them */
    MG_GUARDS_FAST, /* the fast path */
    MG_GUARDS_BOTH, /* both, and a difference is an error */
} MgGuardMode;

extern MgGuardMode mg_guard_mode;

/* A check as text, such as "L['x'] is a float32 tensor of size (2, 3)". New. */
PyObject *mg_guard_text(const MgProgram *program, int check);

/* Why the program does not hold for the arguments of a call, as in "L['n'] == 3, but it is 4", with the line that asked for
 * the check: a magneto._stack.FailedGuard, which is a str. New; NULL without an exception if it holds. May run any code. */
PyObject *mg_guard_explain(MgProgram *program, PyObject *const *arguments);

/* Equality of plain values of one type, with no Python code: 1, 0 or -1. */
int mg_guard_same_value(PyObject *value, PyObject *expected);

/* The guard on sizes that vary (MgSizeGuards), borrowed; NULL if there is none. */
PyObject *mg_guard_sizes(const MgProgram *program);

/* The path of a source: see path.h. */
uint64_t mg_guard_path(const MgProgram *program, int step);

/* A source as text. New. */
PyObject *mg_guard_source_text(const MgProgram *program, int step);

int mg_guard_traverse(const MgProgram *program, visitproc visit, void *arg);
void mg_guard_free(MgProgram *program);

#endif
