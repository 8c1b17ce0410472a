/* An entry: one captured and compiled version of a function, with all that is needed to run it again. */
#ifndef MG_ENTRY_H
#define MG_ENTRY_H

#include "ir/effect.h"
#include "entry/exit.h"
#include "guard/guard.h"
#include "entry/plan.h"
#include "entry/run.h"
#include "entry/storage.h"

/* One operation of the graph, ready to be executed; see replay.c. */
typedef struct MgOperation MgOperation;

struct MgEntry {
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
    PyObject *weakrefs,
        *pending;    /* the latter, strong: (entry, inputs) -> what was compiled in the background, or None; or NULL */
    PyObject *check; /* strong: one more guard, a callable that gets the inputs and returns a bool; or NULL */
    MgStorages storages; /* which inputs may share a storage */
    MgExitFrame *frames; /* owned: where it stops, or NULL if it returns */
    int frame_count;
    PyObject *lattice;    /* strong: what varied when it was captured; NULL if nothing did */
    PyObject *symbols;    /* strong: the session that the symbols in the graph belong to; or NULL if it has none */
    PyObject *settings;   /* strong: how to undo what the graph does to torch's settings, should it fail; or NULL */
    PyObject *exit_state; /* strong: torch's global state at a break, or NULL if it is that of the start */
    int *managers;        /* owned: nodes of the plan: torch's context managers that are open at a break */
    int manager_count, is_muted; /* the graph is run with the __torch_function__ of tensors switched off */
    MgStops stops;               /* entries that stop where an operation of this one has raised */
    int is_exact;                /* it is one of those, and stops in the very instruction */
    int is_last;          /* it stops where something raises, and fits more calls than do: others are tried before it */
    PyObject *codes;      /* strong: a list of the codes of the frames that were captured, the root first; or NULL */
    PyObject *compile_id; /* strong: the number of its compilation, such as "0/1", as Python gave it; or NULL */
    MgProfile profile;
    uint64_t hits, last_run; /* the latter: the number of its last run among those of its callable */
};

extern PyTypeObject MgEntry_Type;
int mg_entry_types_ready(void);
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
 * entry stops at a break; or NULL with an exception: then *failure tells if an operation of the graph raised it. */
PyObject *mg_entry_run(MgEntry *entry, const MgRegisters *registers, PyObject *owner, MgExit **exit,
                       MgFailure *failure);

/* The same with the outputs of the graph given (`outputs` are strong, followed by room for the memo of the plan: both
 * are dropped). For an entry that stops at a break: MG_OK with *exit, or MG_ERR. */
int mg_entry_stop(MgEntry *entry, PyObject **registers, PyObject **outputs, PyObject *owner, MgExit **exit);

/* Has our own replay run a graph that a backend has compiled, and drops the outputs. As mg_replay_run. */
int mg_entry_replay(MgEntry *entry, const MgRegisters *registers, MgFailure *failure);

#endif
