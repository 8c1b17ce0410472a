/* Types and other objects that the core knows by their identity: a class can have any name, and any hash. */
#ifndef MG_KINDS_H
#define MG_KINDS_H

#include "base/magneto.h"

/* Sets of types; see the tables in magneto/_rules.py. */
typedef enum {
    MG_SET_CONSTANT,   /* immutable objects, guarded by identity */
    MG_SET_HARMLESS,   /* C types whose methods touch nothing but their arguments */
    MG_SET_TENSOR,     /* tensor classes that behave like torch.Tensor */
    MG_SET_GRAPH,      /* their instances may be arguments in a graph */
    MG_SET_RECORDED,   /* their instances are recorded when they are called */
    MG_SET_OWNERS,     /* no types: what builtin functions that are recorded are bound to */
    MG_SET_KEPT,       /* immutable C types whose instances can't be made again */
    MG_SET_VALUES,     /* numpy's scalars */
    MG_SET_ARITHMETIC, /* functions that are harmless on numbers: numpy's */
    MG_SET_APART,      /* no types: Python functions that C code calls for itself */
    MG_SET_ITERATORS,  /* iterators whose __reduce__ tells all that there is to tell, and runs no Python code */
    MG_SET_COUNT,
} MgSet;

/* Single types; strong, NULL before the tables are there. */
extern struct MgKinds {
    PyTypeObject *partial;              /* functools.partial */
    PyTypeObject *lru_cache, *lru_link; /* functools.lru_cache returns it; what its cache holds if it has a limit */
    PyTypeObject *key_wrapper;          /* what functools.cmp_to_key returns */
    PyTypeObject *attrgetter, *itemgetter, *methodcaller; /* of the module operator */
    PyTypeObject *tuple_getter;                           /* a field of a namedtuple */
    PyTypeObject *cached_property;                        /* functools.cached_property */
    PyTypeObject *union_type;                             /* of X | Y */
    PyTypeObject *tensor_type;                            /* the metaclass of torch.FloatTensor and its kin */
    PyTypeObject *device_context;                         /* the mode that torch.device enters */
    PyTypeObject *qscheme;                                /* torch.qscheme */
    PyTypeObject *autograd_node;                          /* of a node of autograd's graphs that is none of Python's */
} mg_kinds;

/* Takes the tables that it knows. MG_OK or MG_ERR. */
int mg_kinds_configure(PyObject *tables);

/* 1 or 0: runs no code. */
int mg_kinds_has(MgSet set, const void *object);

/* 1 if a dict or set of functions and methods can be asked for the object without running Python code. */
int mg_kinds_is_quiet(PyObject *object);

/* 1 if the hash of an object is made by a Python function of its class: it may do anything. Not for tensors, whose hash is
 * their address, that of another tensor in each call. Runs no code. */
int mg_kinds_hashes_in_python(PyObject *object);

/* 1 for a builtin method that is bound to an object: list.append of a list. */
static inline int
mg_is_bound_builtin(PyObject *object)
{
    PyObject *self = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : NULL;
    return self != NULL && !PyModule_Check(self) && !PyType_Check(self);
}

/* 1 for a functools.partial, but not for one of a subclass. */
static inline int
mg_is_partial(PyObject *object)
{
    return Py_TYPE(object) == mg_kinds.partial;
}

/* 1 for a node of autograd's graphs that is none of Python's: each operation has a type, made by one function. */
static inline int
mg_is_autograd_node(PyObject *object)
{
    return mg_kinds.autograd_node != NULL && Py_TYPE(object)->tp_dealloc == mg_kinds.autograd_node->tp_dealloc;
}

/* 1 for what operator.attrgetter, itemgetter and methodcaller give. */
static inline int
mg_is_getter(PyTypeObject *type)
{
    return type == mg_kinds.attrgetter || type == mg_kinds.itemgetter || type == mg_kinds.methodcaller;
}

#endif
