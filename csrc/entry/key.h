/* What a graph is, in bytes: two recordings with the same bytes are the same graph for a backend. */
#ifndef MG_KEY_H
#define MG_KEY_H

#include "entry/entry.h"
#include "ir/subgraph.h"

/* (bytes, objects, state): the structure of the graph; the functions, classes and other objects that it mentions, in the order of
 * their first use; torch's global state. None if it can't be told from others, or holds what belongs to one call. New. */
PyObject *mg_entry_key(MgEntry *entry);

/* (bytes, objects): the same for a closed subgraph of a recording with so many nodes. None if it can't be told from others. New. */
PyObject *mg_subgraph_key(const MgSubgraph *subgraph, int node_count);

#endif
