/* Questions about types and other objects that the tables of magneto/_rules.py answer. None runs code. */
#ifndef MG_TYPEKIND_H
#define MG_TYPEKIND_H

#include "torch/kinds.h"

/* Takes the tables that it knows. */
void mg_kind_configure(PyObject *tables);

int mg_kind_is_constant(PyTypeObject *type);        /* of immutable objects, guarded by identity */
int mg_kind_is_harmless(PyTypeObject *type);        /* a C type whose methods touch nothing but their arguments */
int mg_kind_is_plain_tensor(PyTypeObject *type);    /* a tensor class that behaves like torch.Tensor */
int mg_kind_is_plain_parameter(PyTypeObject *type); /* nn.Parameter, or a subclass with no behaviour of its own */
int mg_kind_is_wrapper(PyTypeObject *type);         /* a class of tensors around others, that tells of them */
int mg_kind_is_value(PyTypeObject *type);           /* of numpy's scalars, which are guarded by value */
int mg_kind_is_graph_constant(PyObject *value);     /* an object that a graph may hold as an argument */

int mg_kind_is_module(PyTypeObject *type);         /* torch.nn.Module or a subclass */
int mg_kind_is_module_getattr(PyObject *function); /* torch.nn.Module.__getattr__ as torch has it */
int mg_kind_is_tensor_attribute(PyObject *name);   /* an attribute of a tensor that follows from its metadata */

/* What a graph has in place of an argument such as `int`; NULL if nothing. Borrowed. */
PyObject *mg_kind_stand_in(PyObject *value);

/* The function of the module operator that a method of tensors stands for when C code calls it, or NULL; borrowed. */
PyObject *mg_kind_operator_of(PyObject *name);

/* Numbers, also those of numpy's, and of Python classes over a builtin one that torch takes for a number without asking the class. */
int mg_kind_is_number(PyObject *value);    /* 1 or 0 */
PyObject *mg_kind_number(PyObject *value); /* the number of a builtin class with the same value; new */

#endif
