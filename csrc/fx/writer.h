/* Writes nodes into a torch.fx.Graph, as Graph.create_node does, without its price. */
#ifndef MG_WRITER_H
#define MG_WRITER_H

#include "base/magneto.h"

extern PyTypeObject MgWriter_Type;

/* _core.graph_state(graph): all that decides what the graph computes, as a tuple: nodes in their order, with targets and
 * arguments. A later one is made of the same objects if nobody has edited the graph: _core.is_same_state(one, other). */
PyObject *mg_writer_graph_state(PyObject *module, PyObject *graph);
PyObject *mg_writer_is_same_state(PyObject *module, PyObject *args);

/* _core.input_names(source): the name of an input by its source, such as `L_self_modules_lin_parameters_weight_`, and its name
 * in the state_dict, or None if it is no parameter or buffer. */
PyObject *mg_writer_input_names(PyObject *module, PyObject *text);

int mg_writer_types_ready(void); /* MG_OK or MG_ERR */

#endif
