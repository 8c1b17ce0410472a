/* Exits: where a capture stops before the end, the frames as they are there, and how they go on. */
#ifndef MG_EXIT_H
#define MG_EXIT_H

#include "capture/capture.h"

/* Frames that are to go on, with their real values; the outermost is first. */
typedef struct MgExit {
    int references;
    int count;
    PyObject *owner; /* strong: the compiled callable */
    PyObject *error; /* strong: what the next instruction of the innermost frame has raised; NULL if it is executed */
    MgSnapshot *frames; /* owned */
} MgExit;

/* A frame at the end of an entry that stops at a break; the outermost is first. */
typedef struct {
    PyCodeObject *code; /* strong */
    int function;       /* node of the plan */
    int offset;
    int awaiting;
    int count;  /* of slots */
    int *slots; /* owned: nodes of the plan, -1 for an empty slot, MG_EXIT_OWN for one that stays as it is */
} MgExitFrame;

enum { MG_EXIT_OWN = -2 };
extern PyObject mg_exit_own; /* the same, in a snapshot */

/* Called as an aborted capture unwinds through a frame: takes the frame, if a break is possible here. `before` is the
 * instruction that could not be captured, with the stack before it; `after` is what follows a call, with the stack
 * before the result is pushed, or NULL if the instruction is no call. `direct` says whether the frame was called by an
 * instruction of the frame below it with nothing in between; `raised` is the number of the instruction that raised what
 * the frame is handling, or 0. */
void mg_exit_take(MgCapture *capture, MgFrame *frame, const MgUnit *before, PyObject **before_sp, const MgUnit *after,
                  PyObject **after_sp, long step, int direct, long raised);

/* A number that grows with all that a capture has seen: reads, guards, operations. */
static inline long
mg_exit_mark(const MgCapture *capture)
{
    return (long)capture->reads.guard_count + capture->graph.node_count + capture->met.record_count;
}

/* 1 if the capture has a usable snapshot, up to its root. */
int mg_exit_ready(const MgCapture *capture);

MgExit *mg_exit_new(PyObject *owner, int count);
void mg_exit_release(MgExit *exit);

/* Enters frame `index` of the exit: its function is called, and the hook finds the frame. New result. */
PyObject *mg_exit_enter(MgExit *exit, int index);

/* If this frame was made by mg_exit_enter: the exit, a reference that the caller takes, and the index. */
MgExit *mg_exit_pending(MgFrame *frame, int *index);

/* Puts the values of frame `index` into a real frame whose stack ends at `sp`. The new end of the stack. */
PyObject **mg_exit_place(MgExit *exit, int index, MgFrame *frame, PyObject **sp);

#endif
