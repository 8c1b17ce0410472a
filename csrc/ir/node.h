/* The operations of a recording. */
#ifndef MG_NODE_H
#define MG_NODE_H

#include "ir/source.h"

typedef enum { MG_NODE_INPUT, MG_NODE_FUNCTION, MG_NODE_METHOD } MgNodeKind;

/* Whether an operation can be run once more, see mg_record_is_repeatable. */
typedef enum { MG_REPEATS_UNKNOWN, MG_REPEATS, MG_REPEATS_NOT } MgRepeats;

/* One operation of the recording. */
typedef struct {
    MgNodeKind kind;
    PyObject *target;   /* strong: a callable, or the name of a method */
    PyObject *args;     /* strong: a tuple in which MgRef objects stand for earlier nodes; NULL for an input */
    PyObject *kwargs;   /* strong: a dict, or NULL */
    PyObject *value;    /* strong: metadata of the result: MgMeta, or a tuple or list of them; None if it has none */
    PyObject *stack;    /* strong: a tuple of (code, line) pairs, innermost last; NULL for an input */
    MgSource *source;   /* of an input */
    PyObject *real;     /* strong: the tensor that an input stands for */
    int is_number;      /* it computes a number that varies from call to call of others */
    int in_module;      /* an input: an attribute of an nn.Module, or in one, leads to it */
    int is_part;        /* it only takes something out of another: no node is made of it if nobody uses it */
    PyObject *name;     /* strong: the name of the variable it was first stored in, or NULL */
    PyObject *bindings; /* strong: where symbols come first in its result, for a backend; or NULL */
    int users;
    int writes;   /* it writes to memory that tensors from outside may share */
    int is_state; /* it changes torch's state, and nothing else */
    int leaves;   /* it leaves one of torch's context managers, which the node that it is given has entered */
    int alive;    /* captured code could reach its value until there were so many nodes; 0 for the whole capture */
    MgRepeats repeats;
} MgNode;

/* A reference to a node inside recorded arguments. */
typedef struct {
    PyObject_HEAD
    int index;
} MgRef;

extern PyTypeObject MgRef_Type;

/* A node that has gone into a subgraph leaves nothing but its place: nobody uses it, and no node is made of it. */
static inline int
mg_node_is_gone(const MgNode *node)
{
    return node->kind == MG_NODE_FUNCTION && node->target == Py_None;
}

/* A node for Python: (index, kind, target, args, kwargs, value, stack, text, name, root, bindings, in_module). `text` and `root`
 * tell where an input comes from, and may be NULL. New. */
PyObject *mg_node_describe(const MgNode *node, int index, PyObject *text, PyObject *root);

/* Takes one user from each node from `first` on, up to `end`, that `value` refers to. */
void mg_node_forget_uses(PyObject *value, MgNode *nodes, int first, int end);

/* Drops what a node owns. */
void mg_node_clear(MgNode *node);

int mg_node_types_ready(void); /* MG_OK or MG_ERR */

#endif
