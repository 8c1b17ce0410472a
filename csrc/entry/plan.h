/* Plans: how the objects that outlive a captured part are built again on each call. */
#ifndef MG_PLAN_H
#define MG_PLAN_H

#include "base/table.h"

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
    MG_PLAN_CALL,     /* what `object` returns for the parts */
    MG_PLAN_PLACED,   /* an iterator over what the method `object` returns for the one part, a dict or a set */
    MG_PLAN_ITERATOR, /* callable, arguments, state: as __reduce__ gave them; no state is -1 */
    MG_PLAN_PARTIAL,  /* function, args, keywords */
    MG_PLAN_SUBCLASS, /* the tensor that is the first part, as one of the class `object`; and its dict, or -1 */
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

/* Builds one node. `memo` has room for one reference for each node, NULL at first; the result is borrowed from it. */
PyObject *mg_plan_build(const MgPlan *plan, int node, PyObject **registers, PyObject *const *outputs, PyObject **memo);

/* Puts iterators over dicts where they were, when all effects are applied. */
void mg_plan_place(const MgPlan *plan, PyObject *const *memo);

void mg_plan_free(MgPlan *plan);

/* The builtin class that a class is over. */
PyTypeObject *mg_plan_c_base(PyTypeObject *type);

/* 1 if an instance of a class over such a one is made empty, and given its content then. */
int mg_plan_is_filled(PyTypeObject *base);

/* 1 for a builtin exception class whose instances hold no more than their arguments. */
int mg_plan_is_plain_exception(PyTypeObject *base);

/* What a function has of its own, besides its cells. */
enum { MG_FUNCTION_PARTS = 7 };
void mg_plan_function_parts(PyFunctionObject *function, PyObject **parts[MG_FUNCTION_PARTS]);

#endif
