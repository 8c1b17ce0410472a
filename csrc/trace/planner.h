/* Makes plans: what has to be built again on each call, and of what. */
#ifndef MG_PLANNER_H
#define MG_PLANNER_H

#include "capture/level.h"
#include "entry/plan.h"

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

/* 1 if the hash of a key, whose node is `index`, was made by Python code, and is the same in each call. */
int mg_plan_hash_is_python(const MgPlanner *planner, int index, PyObject *key);

#endif
