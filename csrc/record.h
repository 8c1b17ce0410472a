/* Recording: operations on twins become nodes of a graph. */
#ifndef MG_RECORD_H
#define MG_RECORD_H

#include "capture.h"

/* The Python function that works out the result of an operation from metadata alone; see magneto/_propagate.py. */
int mg_record_init(PyObject *propagate);

/* Makes an outside tensor's twin an input of the graph, unless it is one already. */
int mg_record_input(MgCapture *capture, PyObject *twin);

/* Records target(*args, **kwargs), or for a method args[0].target(...). The result as captured code sees it: twins, or
 * a plain value where the operation only asked for metadata. New. */
PyObject *mg_record_call(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames);

/* Changes of torch's state, such as grad mode: recorded as they are, and really made. */
PyObject *mg_record_state(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count);

/* A context manager of torch's is entered: target(*args), whose result a later mg_record_exit(target, node) gets. The
 * node's number, or -1. `args` is stolen. */
int mg_record_enter(MgCapture *capture, PyObject *target, PyObject *args);
int mg_record_exit(MgCapture *capture, PyObject *target, int node);

/* A setting of torch's is changed: target([maker(name) for name in names], False). */
int mg_record_setting(MgCapture *capture, PyObject *target, PyObject *maker, PyObject *names);

/* Ends the capture for the reason that a propagation function gave as a text. */
void mg_record_refuse(MgCapture *capture, PyObject *text);

/* torch._check of a number that is a condition; `message` is a function, or NULL. */
PyObject *mg_record_check(MgCapture *capture, PyObject *target, PyObject *condition, PyObject *message);

/* Operators and attributes of twins; those that are operators of numbers also take a number. */
PyObject *mg_record_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right);
PyObject *mg_record_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right);
PyObject *mg_record_unary(MgCapture *capture, int opcode, PyObject *value);
PyObject *mg_record_absolute(MgCapture *capture, PyObject *value);
PyObject *mg_record_getattr(MgCapture *capture, PyObject *twin, PyObject *name);
int mg_record_get_method(MgCapture *capture, PyObject *twin, PyObject *name, PyObject **method);
int mg_record_setattr(MgCapture *capture, PyObject *twin, PyObject *name, PyObject *value);
PyObject *mg_record_getitem(MgCapture *capture, PyObject *twin, PyObject *key);
int mg_record_setitem(MgCapture *capture, PyObject *twin, PyObject *key, PyObject *value);
Py_ssize_t mg_record_length(MgCapture *capture, PyObject *twin);
PyObject *mg_record_len(MgCapture *capture, PyObject *twin); /* may be a number */
PyObject *mg_record_iter(MgCapture *capture, PyObject *twin);

/* 1 if an operation can be run once more and leaves nothing else than it left the first time: it neither writes nor draws
 * random numbers, as the schemas of the operators that it comes to tell; 0 if that is not known. An exception stays. */
int mg_record_is_repeatable(MgNode *nodes, int index);

/* The same for C code: the class of twins has it in its slot. */
PyObject *mg_record_iter_slot(PyObject *twin);

/* A torch function that C code called on twins: Twin.__torch_function__(func, types, args, kwargs). */
PyObject *mg_record_torch_function(PyObject *const *args, Py_ssize_t count);

/* x.item(), or int(x), float(x), bool(x) if `type` is not NULL; and x.tolist(). */
PyObject *mg_record_item(MgCapture *capture, PyObject *twin, PyObject *type);
PyObject *mg_record_tolist(MgCapture *capture, PyObject *twin);

/* A node that holds the number of another one as a tensor, for the end of the graph. Its index, or -1. */
int mg_record_scalar(MgCapture *capture, int node);

/* Gives a node the name of the variable that it is stored in. */
void mg_record_name(MgCapture *capture, PyObject *value, PyObject *name);

#endif
