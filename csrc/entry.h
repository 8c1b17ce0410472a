/* An entry: one captured and compiled version of a function, with all that is needed to run it again. */
#ifndef MG_ENTRY_H
#define MG_ENTRY_H

#include "effect.h"
#include "exit.h"
#include "guard.h"
#include "plan.h"
#include "storage.h"

/* One operation of the graph, ready to be executed; see replay.c. */
typedef struct MgOperation MgOperation;

/* Where the time goes, in nanoseconds, while somebody wants to know. */
typedef struct {
    int is_on;
    uint64_t tries, runs;         /* of its guards, and of the graph */
    uint64_t guard, graph, whole; /* `whole` is from the start of the guards, of runs only */
} MgProfile;

typedef struct {
    PyObject_HEAD
    MgProgram guards;
    MgPlan plan;
    int result; /* node of the plan */
    MgEffect *effects;
    int effect_count;
    MgNode *nodes; /* the recording; taken over from the capture */
    int node_count;
    int *inputs; /* registers, in the order of the input nodes that are used */
    int *input_nodes, input_count;
    PyObject **spare_inputs; /* owned: room for the inputs of a call that nobody uses now, or NULL */
    int *outputs;            /* nodes */
    int output_count;
    int *kept; /* registers that the plan and the effects need after the graph has run */
    int kept_count;
    MgOperation *operations; /* one for each node, or NULL if a backend has compiled the graph */
    PyObject *compiled;      /* strong: what the backend gave, or NULL */
    PyObject *check;         /* strong: one more guard, a callable that gets the inputs and gives a bool; or NULL */
    MgStorages storages;     /* which inputs may share a storage */
    MgExitFrame *frames;     /* owned: where it stops, or NULL if it returns */
    int frame_count;
    int first_write;      /* no node before this one writes to tensors from outside */
    PyObject *symbols;    /* strong: the session that the symbols in the graph belong to; or NULL if it has none */
    PyObject *settings;   /* strong: how to undo what the graph does to torch's settings, should it fail; or NULL */
    PyObject *exit_state; /* strong: torch's global state at a break, or NULL if it is that of the start */
    int *managers;        /* owned: nodes of the plan: torch's context managers that are open at a break */
    int manager_count;
    int is_proven; /* its operations have once run to the end */
    uint64_t hits;
    MgProfile profile;
    uint64_t last_run; /* the number of its last run among those of its callable */
} MgEntry;

extern PyTypeObject MgEntry_Type;
int mg_entry_types_ready(void);

/* An entry from a finished capture whose root returned `result` (borrowed; NULL if it stopped at a break). New; NULL with an exception, which may be
 * that of an aborted capture. Takes the recording out of the capture. */
MgEntry *mg_entry_new(MgCapture *capture, PyObject *result);

/* The graph as lists for a backend adapter: (nodes, outputs, inputs). New. */
PyObject *mg_entry_describe(MgEntry *entry);

/* 1 if nothing is lost when the node is left out: an input or a part of a result that nobody uses. */
int mg_entry_is_unused(const MgNode *node);

void mg_entry_forget_inputs(MgEntry *entry); /* lets go of the tensors that the capture saw */
uint64_t mg_entry_clock(void);               /* nanoseconds on a clock that only goes forward */

/* 1 if the inputs share storages as they may; 0 or -1. Runs no code. And the backend's own guard on them: 1, 0 or -1. */
int mg_entry_is_apart(MgEntry *entry, const MgRegisters *registers);
int mg_entry_check(MgEntry *entry, const MgRegisters *registers);

/* Runs the graph and all that belongs to it, on the registers of its guards. The result, new; or NULL and *exit, if the
 * entry stops at a break; or NULL with an exception; or NULL without one, if the graph raised, nothing has happened, and
 * CPython is to do it all. */
PyObject *mg_entry_run(MgEntry *entry, const MgRegisters *registers, PyObject *owner, MgExit **exit);

#endif
