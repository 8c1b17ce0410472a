/* The world: reads from outside, guarded; writes to outside, held back. What the interpreter calls in tracing mode. */
#ifndef MG_WORLD_H
#define MG_WORLD_H

#include "capture/outside.h"
#include "capture/protocol.h"

/* All results are new references or MG_OK / 1 / 0; NULL or MG_ERR with an exception, which may be that of an aborted
 * capture. */

/* Captured code reads `object` (borrowed) from outside, at `source`: guards it and returns what captured code sees. */
PyObject *mg_world_reach(MgCapture *capture, PyObject *object, MgSource *source);

/* A value (stolen) is about to reach the stack: swaps an outside object for its view. */
PyObject *mg_world_touch(MgCapture *capture, PyObject *value);

/* What C code may use in place of `object` (borrowed): a shadow of an outside container, else the object itself. What C
 * code can't use at all ends the capture. */
PyObject *mg_world_expose(MgCapture *capture, PyObject *object);

/* The same for a value that captured code stores where C code may see it. */
PyObject *mg_world_escape(MgCapture *capture, PyObject *object);

/* Captured code asks whether two values are one object: if they are plain and equal, that is guarded. MG_OK or MG_ERR. */
int mg_world_guard_values(MgCapture *capture, PyObject *left, PyObject *right);

/* What captured code sees of an outside object that a guarded constant holds for good: the `self` of a builtin method,
 * the parts of a partial. New. */
PyObject *mg_world_adopt(MgCapture *capture, PyObject *object);

/* Guards the MRO of a type, which isinstance goes by. */
int mg_world_guard_mro(MgCapture *capture, PyTypeObject *type);

/* The start of a frame: the root's arguments become sources; an inlined function is guarded. */
int mg_world_enter_root(MgCapture *capture, MgFrame *frame);
int mg_world_enter_frame(MgCapture *capture, MgFrame *frame);
int mg_world_enter_function(MgCapture *capture, PyObject *function); /* guards for a call of it */

/* Names. */
PyObject *mg_world_load_global(MgCapture *capture, MgFrame *frame, PyObject *name);
int mg_world_store_global(MgCapture *capture, MgFrame *frame, PyObject *name, PyObject *value);
PyObject *mg_world_load_cell(MgCapture *capture, PyObject *cell);
int mg_world_store_cell(MgCapture *capture, PyObject *cell, PyObject *value);

/* Attributes. mg_world_get_method returns 1 if *method is unbound and takes the owner as its first argument. */
PyObject *mg_world_getattr(MgCapture *capture, PyObject *owner, PyObject *name);

/* 1 if an instance has an attribute of a name that its class does not have; 0, which is guarded too, or -1. */
int mg_world_has_own(MgCapture *capture, PyObject *object, PyObject *name);
int mg_world_get_method(MgCapture *capture, PyObject *owner, PyObject *name, PyObject **method);
int mg_world_setattr(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value);

/* As object.__getattribute__ and object.__setattr__: with no regard to overridden ones. */
PyObject *mg_world_generic_getattr(MgCapture *capture, PyObject *owner, PyObject *name);

/* 1 for a compiled function, which says through `__class__` that it is a function. */
int mg_world_is_compiled(PyObject *object);
int mg_world_generic_setattr(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value);

/* The item of an outside dict, looked up without looking at its other items: 1 with the item, 0 if there is none, -1; or
 * MG_UNCLEAR, if the dict or the key is not as simple as that. */
enum { MG_UNCLEAR = 2 };
int mg_world_find_item(MgCapture *capture, PyObject *dict, PyObject *key, PyObject **item);

/* Items, length, containment. */
PyObject *mg_world_getitem(MgCapture *capture, PyObject *container, PyObject *key);
int mg_world_setitem(MgCapture *capture, PyObject *container, PyObject *key, PyObject *value);
int mg_world_contains(MgCapture *capture, PyObject *container, PyObject *key);
Py_ssize_t mg_world_length(MgCapture *capture, PyObject *object);
PyObject *mg_world_iter(MgCapture *capture, PyObject *iterable);

/* Guards what `name` is on a type, for an operation that CPython looks up there by itself. */
int mg_world_guard_lookup(MgCapture *capture, PyTypeObject *type, PyObject *name);

#endif
