/* Plans: how the objects that outlive a captured part are built again on each call. */
#ifndef MG_PLAN_H
#define MG_PLAN_H

#include "depth.h"

typedef enum {
    MG_PLAN_CONST,  /* the object itself */
    MG_PLAN_SOURCE, /* what a register of the guard program holds */
    MG_PLAN_OUTPUT, /* an output of the graph */
    MG_PLAN_NUMBER, /* an output of the graph as a number: the value of a tensor, or a bool */
    MG_PLAN_TUPLE,  /* of type `object` */
    MG_PLAN_LIST,
    MG_PLAN_SET,  /* of type `object` */
    MG_PLAN_DICT, /* of type `object`; parts are keys and values in turn */
    MG_PLAN_SLICE,
    MG_PLAN_METHOD,   /* function, self */
    MG_PLAN_BOUND,    /* the builtin function `object`, bound to the one part */
    MG_PLAN_FUNCTION, /* like the function `object`; parts are its cells */
    MG_PLAN_CELL,
    MG_PLAN_INSTANCE, /* of type `object`; parts: its dict, its content as a container or value, then descriptor and
                       * value of each slot; index is the limit of a deque */
    MG_PLAN_CALL,     /* what `object` gives for the parts */
    MG_PLAN_PLACED,   /* an iterator over what the method `object` gives for the one part, a dict or a set */
    MG_PLAN_ITERATOR, /* callable, arguments, state: as __reduce__ gave them; no state is -1 */
    MG_PLAN_PARTIAL,  /* function, args, keywords */
} MgPlanKind;

typedef struct {
    MgPlanKind kind;
    int index;        /* of a register or an output */
    PyObject *object; /* strong, or NULL */
    PyObject *places; /* strong: where a set has its items, hashes of a dict's keys, or where an iterator stands (an
                       * MgIteratorState); NULL if it need not know */
    int *parts;       /* owned: indices of other nodes */
    int part_count;
    int complete; /* an instance or set whose parts are all known, while the plan is made */
} MgPlanNode;

typedef struct {
    MgPlanNode *nodes;
    int count, room;
    MgTable known; /* object -> node index + 1, while the plan is made */
} MgPlan;

/* A part of a node that is being added. */
typedef struct {
    int node, part;
} MgPlanStep;

/* What a plan needs to know of the capture while it is made: the graph's outputs so far, and the way to what is added. */
typedef struct {
    MgCapture *capture;
    MgPlan *plan;
    int *outputs; /* owned by the caller: node indices */
    int output_count, output_room;
    MgPlanStep path[MG_MOST_LEVELS]; /* from the value that the caller adds down to this one */
    int path_count;
} MgPlanner;

/* MG_ERR, and the capture is aborted, if objects live whose finalizers would be lost: also those that nothing leads to. */
int mg_plan_accept(MgPlanner *planner);

/* Adds `value` and all that hangs on it. Its node index, or -1 (the capture may be aborted). */
int mg_plan_add(MgPlanner *planner, PyObject *value);

/* The node of an object that is there without anything more being built, or a tensor without another output of the graph;
 * -1 if it is not. */
int mg_plan_find(MgPlanner *planner, PyObject *value);

/* Builds one node. `memo` has room for one reference for each node, NULL at first; the result is borrowed from it. */
PyObject *mg_plan_build(const MgPlan *plan, int node, PyObject **registers, PyObject *const *outputs, PyObject **memo);

/* Puts iterators over dicts where they were, when all effects are applied. */
void mg_plan_place(const MgPlan *plan, PyObject *const *memo);

void mg_plan_free(MgPlan *plan);

#endif
