/* The arguments of an operation: as the graph holds them, and as the key of what it returns. */
#ifndef MG_ARGUMENTS_H
#define MG_ARGUMENTS_H

#include "capture/capture.h"

/* What is collected while the arguments of an operation are mapped. */
typedef struct {
    MgCapture *capture;
    PyObject *key;     /* list: the propagation key */
    PyObject *twins;   /* list: the twins, in order of appearance; never an alias */
    PyObject *aliases; /* list or NULL: the aliases among the arguments, and the references to their tensors, in turn */
    PyObject *numbers; /* list: the numbers that depend on data; NULL if there are none */
    int symbolic;      /* there are symbols among the arguments */
    int varies;        /* there are sizes or numbers among them that vary from call to call */
    int infers;        /* the operation takes the dtype of its result from numpy's scalars among the arguments, */
    int stores;        /* or puts them into a tensor, which takes fewer of them */
    int takes;         /* it is given the values of numbers that vary: backends compute something else with those */
    int containers;    /* how many there were so far */
    int overridden;    /* a tensor among them has a __torch_function__ that is to be called */
    int added; /* a program has added the operator, or it is given subgraphs: what it returns may be another thing each time */
} MgMapping;

PyObject *mg_record_new_ref(int index);

int mg_record_key_add(MgMapping *mapping, PyObject *part);

void mg_record_use_aliases(MgMapping *mapping);

/* Maps positional and keyword arguments. MG_OK with *args (a tuple) and *kwargs (a dict or NULL) new. */
int mg_record_map_arguments(MgMapping *mapping, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                            PyObject **mapped_args, PyObject **mapped_kwargs);

/* 1 if the dtype of what an operation returns is that of numpy's scalars among its arguments, which to all others are numbers
 * like Python's. */
int mg_record_infers_dtype(MgNodeKind kind, PyObject *target, PyObject *kwnames);

int mg_record_is_named(PyObject *target, const char *name);

/* Takes the values of all sizes and numbers of an operation for good. MG_OK or MG_ERR. */
int mg_record_specialize(MgMapping *mapping, PyObject *args, PyObject *kwargs);

#endif
