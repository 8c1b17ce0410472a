/* The metadata of a node of a torch.fx.Graph: a dict whose values are made when they are first read. */
#ifndef MG_NODEMETA_H
#define MG_NODEMETA_H

#include "base/magneto.h"

typedef struct {
    PyDictObject dict;
    PyObject *make; /* strong: make(number, key) returns a value, the same at each call; NULL once all are there */
    int number;     /* of the node, for it */
} MgNodeMeta;

extern PyTypeObject MgNodeMeta_Type;

/* What stands in the dict for a value that was not made yet. Immortal. */
extern PyObject mg_unmade;

/* Metadata with these items, of which some may be mg_unmade. New. */
PyObject *mg_node_meta(PyObject *items, PyObject *make, int number);

/* _core.made(meta): what is there, as a plain dict without the values that were not made yet. */
PyObject *mg_node_meta_made(PyObject *module, PyObject *meta);

int mg_node_meta_types_ready(void); /* MG_OK or MG_ERR */

#endif
