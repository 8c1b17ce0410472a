/* Whether captured code has written to what was there before: objects that it made itself, and those from outside. */
#ifndef MG_WRITES_H
#define MG_WRITES_H

#include "capture/capture.h"

/* What there is now, as far as the objects in the tuple `roots` lead to it, and of outside objects what was written so far. New;
 * NULL, with the capture aborted, if that can't be told. Runs no code. */
PyObject *mg_writes_note(MgCapture *capture, PyObject *roots);

/* Adds a shadow that was made since to all that subgraphs under way have noted. MG_OK or MG_ERR. */
int mg_writes_add_shadow(MgCapture *capture, PyObject *shadow);

/* 1 if something of what was noted is not what it was; 0, or -1. Runs no code. */
int mg_writes_changed(MgCapture *capture, PyObject *noted);

#endif
