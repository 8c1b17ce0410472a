/* The graph of a function that an operator is given: while it is recorded, and when it is an argument of the operator. */
#ifndef MG_SUBGRAPH_H
#define MG_SUBGRAPH_H

#include "ir/node.h"

typedef struct MgSubgraph MgSubgraph;
struct MgSubgraph {
    PyObject_HEAD
    /* while it is recorded: */
    MgSubgraph *outer; /* strong: the one within which it is, NULL in the root */
    int is_open;       /* it is recorded now */
    int start;         /* nodes from here on are its own, but for inputs that come from outside the capture */
    int may_write;     /* to tensors that it is given */
    int is_level;      /* of a transform: a level of autograd's own, at which tensors from around it require no grad */
    int manager_count; /* torch's context managers that were open when it began */
    PyObject *state;   /* strong: torch's state when it began */
    PyObject *before;  /* strong: what was there when it began, see capture/writes.h; NULL if it may write to that */
    PyObject *met;     /* strong: a dict, node -> what captured code has for it, of outer recordings */
    PyObject *forced;  /* strong: a list of nodes of outer recordings that are inputs, used or not */
    PyObject *written; /* strong: a set of nodes of outer recordings that it has written to */
    /* when it is closed: */
    PyObject *own;     /* strong: a list of the nodes that are inputs of its own */
    PyObject *inputs;  /* strong: a list of nodes: its own inputs, then those of outer recordings */
    PyObject *metas;   /* strong: a list of the metadata of the inputs from outer recordings */
    PyObject *nodes;   /* strong: a list of its nodes, as mg_node_describe gives them */
    PyObject *outputs; /* strong: a tuple or list of references to nodes, and constants; or only one of them */
    PyObject *values;  /* strong: a tuple of the metadata of the outputs, or the constants */
    PyObject
        *groups;    /* strong: how many of the inputs from outer recordings both of two graphs use, only the first, only
                        * the second; None if it is alone */
    PyObject *name; /* strong: that of the attribute which holds it; None before it has one */
    PyObject *module; /* strong: the GraphModule for our own replay; NULL before it is needed */
    PyObject *notes;  /* strong: a dict, what the operator's GraphModule has in `meta`; or None */
};

extern PyTypeObject MgSubgraph_Type;

static inline int
mg_is_subgraph(PyObject *object)
{
    return Py_IS_TYPE(object, &MgSubgraph_Type);
}

/* One that is open, and empty. New. */
MgSubgraph *mg_subgraph_new(void);

/* Drops what only the recording of it needs. */
void mg_subgraph_end(MgSubgraph *subgraph);

/* The GraphModule that runs it. Borrowed; NULL with an exception. Runs Python code, as an aside. */
PyObject *mg_subgraph_module(MgSubgraph *subgraph);

int mg_subgraph_types_ready(void); /* MG_OK or MG_ERR */

#endif
