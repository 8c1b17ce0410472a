/* Outside objects that captured code has met. */
#ifndef MG_OUTSIDE_H
#define MG_OUTSIDE_H

#include "capture/capture.h"
#include "torch/plain.h"

/* Adds one, which is reached at `source`: NULL with an exception. */
MgOutside *mg_outside_new(MgCapture *capture, PyObject *object, MgSource *source, MgKind kind, int provisional);

/* The outside object with this address, or NULL; and the same if it may also be what captured code sees of one. */
MgOutside *mg_outside_find(MgCapture *capture, PyObject *object);
MgOutside *mg_outside_of(MgCapture *capture, PyObject *object);

/* The one whose attributes are asked for: also if it is the shadow of an object of a Python class. */
MgOutside *mg_outside_owner(MgCapture *capture, PyObject *owner);

/* That of a dict, list or other object that is known by identity alone: globals, cells of guarded functions. */
MgOutside *mg_outside_pin(MgCapture *capture, PyObject *object);

/* The object that counts for `is`: a view stands for its original. Borrowed. */
PyObject *mg_outside_identity(MgCapture *capture, PyObject *object);

#endif
