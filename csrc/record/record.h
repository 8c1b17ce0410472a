/* Recording: operations on twins become nodes of a graph. */
#ifndef MG_RECORD_H
#define MG_RECORD_H

#include "capture/capture.h"
#include "ir/outcome.h"

/* The Python function that works out the result of an operation from metadata alone; see magneto/_propagate.py. */
int mg_record_init(PyObject *propagate);

/* Empties the propagation cache, and forgets metadata that nobody uses. MG_OK or MG_ERR. */
int mg_record_forget(void);

/* Makes an outside tensor's twin an input of the graph, unless it is one already. */
int mg_record_input(MgCapture *capture, PyObject *twin);

/* Records target(*args, **kwargs), or for a method args[0].target(...). The result as captured code sees it: twins, or
 * a plain value where the operation only asked for metadata. New. */
PyObject *mg_record_call(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames);

/* The same for an operator that is given subgraphs; `outcome` is what is known of it, or NULL. */
PyObject *mg_record_known(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count,
                          PyObject *kwnames, MgOutcome *outcome);

/* A node for an input of a subgraph that is no node of another recording. Its number, or -1. */
int mg_record_placeholder(MgCapture *capture, PyObject *meta);

/* Nodes for numbers that vary from call to call: an input of the graph, and target(*args), in whose arguments references stand
 * for other nodes. `value` is an MgDimObject or a float. Their number, or -1. */
int mg_record_number_input(MgCapture *capture, MgSource *source, PyObject *value);
int mg_record_number(MgCapture *capture, PyObject *target, PyObject *args, PyObject *value);

/* Changes of torch's state, such as grad mode: recorded as they are, and really made. */
PyObject *mg_record_state(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count);

/* A context manager of torch's is entered: target(*args), whose result a later mg_record_exit(target, node) gets. The
 * node's number, or -1. `args` is stolen. */
int mg_record_enter(MgCapture *capture, PyObject *target, PyObject *args);
int mg_record_exit(MgCapture *capture, PyObject *target, int node);

/* A setting of torch's is changed: target([maker(name) for name in names], False). */
int mg_record_setting(MgCapture *capture, PyObject *target, PyObject *maker, PyObject *names);

/* Ends the capture for the reason of a refusal. */
void mg_record_refuse(MgCapture *capture, const MgOutcome *outcome);

/* 1 if an operation can be run once more and leaves nothing else than it left the first time: it neither writes nor draws
 * random numbers, as the schemas of the operators that it comes to tell; 0 if that is not known. An exception stays. */
int mg_record_is_repeatable(MgNode *nodes, int index);

/* A node that holds the number of another one as a tensor, for the end of the graph. Its index, or -1. */
int mg_record_scalar(MgCapture *capture, int node);

/* Returns a node the name of the variable that it is stored in. */
void mg_record_name(MgCapture *capture, PyObject *value, PyObject *name);

/* The int or bool that a tensor holds which was made of it (`torch.tensor(2)`) and given to no operation; NULL if it is not
 * known. Borrowed. */
PyObject *mg_record_known_number(const MgCapture *capture, PyObject *object);

#endif
