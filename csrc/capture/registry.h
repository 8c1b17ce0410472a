/* What is registered with abstract base classes, which decides what isinstance and issubclass say. */
#ifndef MG_REGISTRY_H
#define MG_REGISTRY_H

#include "capture/capture.h"

/* Guards that nothing is registered. MG_OK or MG_ERR. With mg_registry_note for all that was asked, what is registered may
 * change as long as the answers do not; without, set MgCapture.registry_read. */
int mg_registry_guard(MgCapture *capture);

/* Notes what was found out of ABCs when a program asked whether `class`, the class of a value as the program sees it, or the
 * value itself if `is_subclass`, is one of some classes. MG_OK or MG_ERR. */
int mg_registry_note(MgCapture *capture, PyObject *classes, PyObject *value, PyObject *class, int is_subclass);

/* Guards what `match` sees of a class: being registered with collections.abc.Sequence or Mapping changes that. */
int mg_registry_guard_match(MgCapture *capture, PyTypeObject *class);

/* 1 for the C function that tells a number which changes when something is registered. */
int mg_registry_is_token(PyObject *function);

/* 1 if the classes are or are not subclasses of the ABCs as it was noted in MgCapture.registered, else 0. May run any code. */
int mg_registry_is_same(PyObject *registered);

#endif
