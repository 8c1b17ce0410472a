/* Finalizers: what the program notices when an outside object goes, and where it would go. */
#ifndef MG_FINALIZER_H
#define MG_FINALIZER_H

#include "capture/capture.h"

/* 1 if code may run when this object goes: its finalizer, callbacks of weak references, handlers of a generator that is not at
 * its end. */
int mg_finalizer_has(PyObject *object);

/* The same for what the object contains, as far as lists, tuples and dicts go; with a capture, only of outside objects. */
int mg_finalizer_within(MgCapture *capture, PyObject *object);

/* Captured code lets go of a reference that an outside object has to `old` (borrowed, or NULL). MG_ERR, with the capture
 * stopped, if code may run then. */
int mg_finalizer_drop(MgCapture *capture, PyObject *old);

/* What lies in a slot of the root frame is dropped: on later calls it must have no finalizer. */
int mg_finalizer_let_go(MgCapture *capture, MgFrame *frame, int slot);

/* A container has its shadow: from now on mg_finalizer_check looks whether captured code takes something with a finalizer
 * out of it. MG_OK or MG_ERR. */
int mg_finalizer_watch(MgCapture *capture, MgOutside *record);

/* The same for what lies in the slots of the root frame, which is one in the middle. */
int mg_finalizer_watch_frame(MgCapture *capture, PyCodeObject *code);

/* Before instruction `step` of a frame, which is about to call something with the topmost `arguments` of its stack (0 if it
 * is no call), if capture->finals.watch_count is not 0: MG_ERR, with the capture stopped, and to be made again up to the
 * instruction before, if that has let go of what is watched. */
int mg_finalizer_check(MgCapture *capture, MgFrame *frame, PyObject **sp, int arguments, long step);

/* On later calls what an effect writes over must have no finalizer. `key` and `index` are those of the effect. */
int mg_finalizer_guard(MgCapture *capture, int kind, MgSource *target, PyObject *key, Py_ssize_t index);

/* Makes one guard of all that must have no finalizer: references to one object count together. MG_OK or MG_ERR. */
int mg_finalizer_seal(MgCapture *capture);

/* That guard: 1 if no finalizer would run, 0, or -1 with an exception. `numbers` has `count` registers, and what of each is
 * let go of, as in MgQuiet. Runs no Python code. */
int mg_finalizer_are_quiet(PyObject *numbers, Py_ssize_t count, PyObject **registers);

#endif
