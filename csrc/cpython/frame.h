/* Fields of CPython's frames, and of the tags by which it numbers changes. */
#ifndef MG_FRAME_H
#define MG_FRAME_H

#include "base/magneto.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"

typedef struct _PyInterpreterFrame MgFrame;
typedef _Py_CODEUNIT MgUnit;

/* Borrowed parts of a frame. */
static inline PyCodeObject *
mg_frame_code(const MgFrame *frame)
{
    return frame->f_code;
}

static inline PyFunctionObject *
mg_frame_function(const MgFrame *frame)
{
    return frame->f_func;
}

static inline PyObject *
mg_frame_globals(const MgFrame *frame)
{
    return frame->f_globals;
}

static inline PyObject *
mg_frame_builtins(const MgFrame *frame)
{
    return frame->f_builtins;
}

/* The namespace of a class body or of a module; NULL for a function. */
static inline PyObject *
mg_frame_namespace(const MgFrame *frame)
{
    return frame->f_locals;
}

/* Its locals, followed by its stack; how many slots are in use is known only while it does not run (-1 if it does). */
static inline PyObject **
mg_frame_slots(MgFrame *frame)
{
    return frame->localsplus;
}

static inline int
mg_frame_depth(const MgFrame *frame)
{
    return frame->stacktop;
}

static inline void
mg_frame_set_depth(MgFrame *frame, Py_ssize_t depth)
{
    frame->stacktop = (int)depth;
}

/* The last instruction that was started. */
static inline MgUnit *
mg_frame_at(const MgFrame *frame)
{
    return frame->prev_instr;
}

static inline void
mg_frame_set_at(MgFrame *frame, MgUnit *at)
{
    frame->prev_instr = at;
}

static inline MgFrame *
mg_frame_caller(const MgFrame *frame)
{
    return frame->previous;
}

/* The frame that the thread executes, and whether a trace or profile function wants to see it. */
static inline MgFrame *
mg_frame_current(const PyThreadState *tstate)
{
    return tstate->cframe->current_frame;
}

static inline int
mg_frame_is_traced(const PyThreadState *tstate)
{
    return tstate->cframe->use_tracing;
}

#endif
