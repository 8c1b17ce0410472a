/* Shape functions: what an operation returns, worked out in C from metadata alone. */
#ifndef MG_SHAPE_H
#define MG_SHAPE_H

#include "capture/capture.h"
#include "ir/outcome.h"
#include "size/facts.h"

/* Finds the operations of torch that have a shape function. Called again, it does nothing. */
int mg_shape_init(void);

/* The outcome of an operation, as magneto/_propagate.py would return it. `inputs` is a list of
 * (node, Meta) pairs for the references in the arguments, `state` torch's global state as _rules.py reads it. Sizes and
 * ints may be MgDimObjects if there are `facts`, which the outcome then rests on; so may the answers to questions about
 * metadata. New; NULL without an exception if there is no shape function for the target, or it does not know these
 * arguments: guards that it took until then stay. */
MgOutcome *mg_shape_outcome(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *inputs,
                            PyObject *state, MgFacts *facts);

/* 1 if what an operation returns does not depend on which tensors are leaves, and it writes to none but those that it names
 * in its outcome; as far as is known. */
int mg_shape_ignores_leaves(MgNodeKind kind, PyObject *target, PyObject *args);

/* Adds to a propagation key, a list, the settings of torch's that an operation depends on and that are not in that state. */
int mg_shape_add_settings(PyObject *target, PyObject *key);

/* 1 for the CPU as a device or a name, or NULL. */
int mg_shape_is_cpu(PyObject *device);

#endif
