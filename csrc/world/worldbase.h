/* What the files of the world share: kinds of objects, records, and the dicts behind instances and modules. */
#ifndef MG_WORLDBASE_H
#define MG_WORLDBASE_H

#include "capture/outside.h"
#include "world/world.h"

/* What captured code sees, new. */
PyObject *mg_world_view(MgOutside *record);

/* The value of `key` in an outside dict as captured code sees it. 1 found, 0 missing, -1 error. */
int mg_world_dict_get(MgCapture *capture, MgOutside *record, PyObject *key, PyObject **result);

/* Holds back dict[key] = value, or the deletion of key if value is NULL. */
int mg_world_dict_set(MgCapture *capture, MgOutside *record, PyObject *key, PyObject *value);

/* The record of an outside instance's dict; NULL without an exception if it has none. */
MgOutside *mg_world_dict_record(MgCapture *capture, MgOutside *owner);

/* Guards which object a record is of. It is not kept alive, if it can be referred to weakly; tensors are kept, since programs
 * look for weak references to them. MG_OK or MG_ERR. */
int mg_world_guard_object(MgCapture *capture, const MgOutside *record);

/* 1 for an object of a class over a C type of which only that type's own functions know what it holds. */
int mg_world_has_hidden_state(PyObject *object);

/* Makes `view` what captured code sees of the record's object. Steals `view`. */
int mg_world_set_view(MgCapture *capture, MgOutside *record, PyObject *view);

/* Which kind an object with identity is. */
MgKind mg_world_kind_of(PyObject *object, MgSource *source);

/* Guards a record that captured code really uses now. */
int mg_world_activate(MgCapture *capture, MgOutside *record);

/* 1 for what captured code may have in its hands although nothing but its type is guarded: see enter_point. */
int mg_world_is_in_slot(const MgOutside *record);

/* What stands for an item of an exposed container, to which we have so many references ourselves. New. */
PyObject *mg_world_expose_item(MgCapture *capture, PyObject *item, MgSource *source, int ours);

/* Returns a container its shadow, and everything in it. */
int mg_world_expose_record(MgCapture *capture, MgOutside *record);

#endif
