/* The rules: what captured code may call, and how. */
#ifndef MG_RULES_H
#define MG_RULES_H

#include "capture.h"

/* Takes the tables that magneto/rules.py gives: a dict of names to tables. */
int mg_rules_configure(PyObject *tables);

/* Calls `callable` by the rules of captured code: inline, record, run natively, or end the capture. New. */
PyObject *mg_rules_call(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf,
                        PyObject *kwnames);

/* The same for f(*args, **kwargs); `kwargs` is a dict or NULL. */
PyObject *mg_rules_call_tuple(MgCapture *capture, PyObject *callable, PyObject *args, PyObject *kwargs);

/* What becomes of a frame of a function that CPython executes below a break: an MgMark. */
int mg_rules_watched(PyObject *function);

/* 1 or 0. */
int mg_rules_is_constant_type(PyTypeObject *type);     /* immutable objects, guarded by identity */
int mg_rules_is_harmless_type(PyTypeObject *type);     /* C types whose methods touch nothing but their arguments */
int mg_rules_is_plain_tensor_type(PyTypeObject *type); /* tensor classes that behave like torch.Tensor */
int mg_rules_is_graph_constant(PyObject *value);       /* objects that a graph may hold as an argument */

int mg_rules_is_cached_property(PyTypeObject *type); /* functools.cached_property itself */
int mg_rules_is_module_getattr(PyObject *function);  /* torch.nn.Module.__getattr__ as torch has it */

/* What a graph has in place of an argument such as `int`; NULL if nothing. Borrowed. */
PyObject *mg_rules_stand_in(PyObject *value);

int mg_rules_is_tensor_attribute(PyObject *name); /* attributes of a tensor that follow from its metadata */

/* Numbers that are not of a builtin class: those of Python classes over one, and numpy's. */
int mg_rules_is_number(PyObject *value);        /* 1 or 0 */
PyObject *mg_rules_number(PyObject *value);     /* the number of a builtin class with the same value; new */
int mg_rules_is_value_type(PyTypeObject *type); /* 1 for numpy's scalars, which are guarded by value */

/* 1 for Python functions that C code calls for its own ends: they run for real, and are no part of the program. */
int mg_rules_is_apart(PyObject *function);

/* 1 if the repr or the hash of a value (borrowed) may tell the address of an object that need not be the same again. */
int mg_rules_has_address(PyObject *value);

/* Before a text is made of a value: stops the capture if it tells what would be another address behind a break. */
int mg_rules_note_text(MgCapture *capture, PyObject *value);

/* The function of the module operator that a method of tensors stands for when C code calls it, or NULL; borrowed. */
PyObject *mg_rules_operator_of(PyObject *name);

/* Torch's global state as one hashable object, new: grad mode, autocast and so on. */
PyObject *mg_rules_read_state(void);

/* With all that has a plain word equal: 1 if the rest of torch's global state is that of `state`, 0 or -1. */
int mg_rules_same_extra_state(PyObject *state);

/* 1 if a state is told in full by words and by what mg_rules_same_extra_state looks at. */
int mg_rules_is_plain_state(PyObject *state);

/* Puts torch's global state back to what it was when the capture started. MG_OK or MG_ERR. */
int mg_rules_restore_state(MgCapture *capture);

/* Makes torch's global state this one. MG_OK or MG_ERR. */
int mg_rules_apply_state(PyObject *state);

/* Keeps what autocast has cast (1) while a graph leaves it and it is entered anew; lets it go (0). */
int mg_rules_hold_casts(int hold);

/* MG_ERR if captured code has left a context manager of torch's open. */
int mg_rules_check_managers(MgCapture *capture);

/* The state that the running capture is in. New. */
PyObject *mg_rules_state_key(void);

/* Truth of a value (borrowed) in captured code: 1, 0 or -1. */
int mg_rules_truth(MgCapture *capture, PyObject *value);

#endif
