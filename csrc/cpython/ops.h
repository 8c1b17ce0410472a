/* The larger instructions of the interpreter: names, imports, unpacking, calls with star arguments, `with`, `async`. */
#ifndef MG_OPS_H
#define MG_OPS_H

#include "cpython/cpython311.h"

/* Names. Results are new, NULL with an exception. */
PyObject *mg_ops_load_name(MgFrame *frame, PyObject *name);
PyObject *mg_ops_load_global(PyObject *globals, PyObject *builtins, PyObject *name);
PyObject *mg_ops_load_classderef(MgFrame *frame, int slot);
PyObject *mg_ops_load_build_class(MgFrame *frame);
int mg_ops_store_name(MgFrame *frame, PyObject *name, PyObject *value);
int mg_ops_delete_name(MgFrame *frame, PyObject *name);
int mg_ops_delete_global(MgFrame *frame, PyObject *name);
int mg_ops_setup_annotations(MgFrame *frame);

/* Imports. */
PyObject *mg_ops_import_name(PyThreadState *tstate, MgFrame *frame, PyObject *name, PyObject *fromlist,
                             PyObject *level);
PyObject *mg_ops_import_from(PyObject *module, PyObject *name);
int mg_ops_import_star(PyThreadState *tstate, MgFrame *frame, PyObject *module);

/* Unpacks `iterable` so that its first item ends up in top[-1], the second in top[-2], ...; with `after` >= 0 there is
 * a starred target between `before` and `after` plain ones. MG_ERR leaves nothing in the slots. */
int mg_ops_unpack(PyObject *iterable, int before, int after, PyObject **top);

/* f(*positional, **keywords); `keywords` may be NULL. */
PyObject *mg_ops_call_ex(PyObject *callable, PyObject *positional, PyObject *keywords);

/* Displays with stars: [*a], {**a}, f(**a). */
int mg_ops_list_extend(PyObject *list, PyObject *iterable);
int mg_ops_dict_update(PyObject *dict, PyObject *mapping);
int mg_ops_dict_merge(PyObject *dict, PyObject *mapping, PyObject *callable);

/* Looks up the two methods of a context manager, async or not. MG_OK with both new. */
int mg_ops_with_methods(PyObject *manager, int is_async, PyObject **enter, PyObject **leave);

/* Async iteration and await. */
PyObject *mg_ops_get_awaitable(PyObject *object, int context);
PyObject *mg_ops_get_aiter(PyObject *object);
PyObject *mg_ops_get_anext(PyObject *iterator);
PyObject *mg_ops_get_yield_from_iter(PyCodeObject *code, PyObject *iterable);

/* f-strings: conversion 0 to 3, and a format spec that may be NULL. */
PyObject *mg_ops_format(PyObject *value, int conversion, PyObject *spec);

/* The value of an expression statement in interactive mode. */
int mg_ops_print_expr(PyObject *value);

/* The operator of BINARY_OP. */
typedef PyObject *(*MgBinary)(PyObject *, PyObject *);
extern const MgBinary mg_ops_binary[26];

/* A call whose arguments become the callee's alone, as in CPython; set until the callee's frame starts. */
typedef struct {
    PyObject *function; /* borrowed; NULL if there is none */
    PyObject **arguments;
    int count;
} MgMove;
extern __thread MgMove mg_ops_move __attribute__((tls_model("initial-exec")));

/* Calls with arguments on a frame's stack; afterwards some of them may be NULL. */
PyObject *mg_ops_call(PyObject *callable, PyObject **arguments, int count, size_t positional, PyObject *kwnames);

/* A frame starts: if it is the callee's, its caller lets go of the arguments. */
void mg_ops_take_arguments(void);
static inline void
mg_ops_start(PyFunctionObject *function)
{
    if (mg_ops_move.function == (PyObject *)function) {
        mg_ops_take_arguments();
    }
}

/* Takes a bound method below the arguments of a call apart. Its function, borrowed. */
PyObject *mg_ops_unbind(PyObject **arguments);

#endif
