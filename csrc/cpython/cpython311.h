/* All that knows CPython 3.11's internal structs: frames, code, the thread's frame chain, pending work.
 *
 * No other file includes a pycore_ header. The inline accessors below are what the
 * interpreter's hot loop needs; everything else is a function in cpython311.c. */
#ifndef MG_CPYTHON311_H
#define MG_CPYTHON311_H

#include "base/magneto.h"

#include <stdbool.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "magneto knows the frame layout of CPython 3.11 only"
#endif

#include "internal/pycore_ceval.h"
#include "internal/pycore_code.h"
#include "internal/pycore_gc.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"
#include "internal/pycore_pyerrors.h"
#include "internal/pycore_pystate.h"
#include "cpython/frame.h"
#include "frameobject.h"
#include "opcode.h"

typedef _PyCFrame MgCFrame;

/* From a specialised opcode to the one it was made of, and the number of inline cache units behind each. */
extern const uint8_t mg_opcode_base[256];
extern const uint8_t mg_opcode_caches[256];

/* The first instruction of the frame's code. */
static inline MgUnit *
mg_frame_code_start(MgFrame *frame)
{
    return _PyCode_CODE(frame->f_code);
}

/* The offset, in code units, of an instruction of the frame's; and of the one that it is at. */
static inline int
mg_frame_offset(MgFrame *frame, const MgUnit *at)
{
    return (int)(at - mg_frame_code_start(frame));
}

static inline int
mg_frame_lasti(MgFrame *frame)
{
    return mg_frame_offset(frame, frame->prev_instr);
}

/* Makes `frame` the current one of the thread, under a C-level link that lives on the C stack. */
static inline void
mg_frame_enter(PyThreadState *tstate, MgFrame *frame, MgCFrame *link)
{
    MgCFrame *outer = tstate->cframe;
    link->use_tracing = outer->use_tracing;
    link->previous = outer;
    link->current_frame = frame;
    frame->is_entry = true;
    if (outer->current_frame != frame) { /* it is, when a capture starts in the middle of a frame */
        frame->previous = outer->current_frame;
    }
    tstate->cframe = link;
}

/* Undoes mg_frame_enter; a trace function that was set meanwhile stays in force for the outer frame. */
static inline void
mg_frame_leave(PyThreadState *tstate, MgCFrame *link)
{
    tstate->cframe = link->previous;
    tstate->cframe->use_tracing = link->use_tracing;
}

/* Hides the frames of the thread from Python code of ours that is called next, until they are shown again: a frame there
 * that outlives its call, in a traceback that somebody keeps, would keep them and their locals too. */
static inline MgFrame *
mg_frames_hide(PyThreadState *tstate)
{
    MgFrame *frame = tstate->cframe->current_frame;
    tstate->cframe->current_frame = NULL;
    return frame;
}

static inline void
mg_frames_show(PyThreadState *tstate, MgFrame *frame)
{
    tstate->cframe->current_frame = frame;
}

/* Whether something waits for this thread: a signal, a pending call, a GIL request, an asynchronous exception. */
static inline int
mg_pending_work(PyThreadState *tstate)
{
    return _Py_atomic_load_relaxed(&tstate->interp->ceval.eval_breaker);
}

static inline int
mg_recursion_enter(PyThreadState *tstate)
{
    return MG_UNLIKELY(tstate->recursion_remaining-- <= 0) ? _Py_CheckRecursiveCall(tstate, "") : 0;
}

static inline void
mg_recursion_leave(PyThreadState *tstate)
{
    tstate->recursion_remaining++;
}

/* Serves whatever waits, in CPython's order. MG_OK, or MG_ERR with the exception that came of it. */
int mg_pending_serve(PyThreadState *tstate);

/* With 1, signals, pending calls and exceptions of other threads wait on this thread, as far as the interpreter serves them;
 * with -1 no longer. Nests. */
void mg_pending_hold(int more);

/* On the main thread: leaves signals waiting, whoever asks for them, and returns 1. Elsewhere, or if they wait already, 0. */
int mg_signals_hold(void);
void mg_signals_release(PyThreadState *tstate);

/* Adds an entry for the current frame to the traceback of the exception in flight. */
void mg_traceback_here(PyThreadState *tstate, MgFrame *frame);

/* Tells a trace or profile function that was set in mid-frame of an exception, or of the frame's end by one. */
void mg_trace_exception(PyThreadState *tstate, MgFrame *frame);
void mg_trace_unwind(PyThreadState *tstate, MgFrame *frame);

/* 1 if a class and all its heap bases are made by class statements: C types made at run time have fields of their own,
 * which nobody else knows how to fill. */
int mg_type_is_python(PyTypeObject *type);

/* What super() without arguments reads of a frame that runs: its first argument, as *self, which is a cell that holds it if
 * *in_cell is set, and the cell of the class. Borrowed. 1, or 0 where CPython would raise. */
int mg_frame_super(MgFrame *frame, PyObject **self, int *in_cell, PyObject **class_cell);

/* How many instructions a frame executes before the first of its body. */
int mg_code_prologue(PyCodeObject *code);

/* Keeps `extra` with a code object, at an index of _PyEval_RequestCodeExtraIndex. */
int mg_code_set_extra(PyCodeObject *code, Py_ssize_t index, void *extra);

/* Puts an iterator over a list at an index, even one behind the list's end: the list may grow yet. 1, or 0 if it is no
 * such iterator, or the index is no integer. */
int mg_list_iterator_place(PyObject *iterator, PyObject *index);

/* Where an iterator over a dict or a set stands. */
typedef struct {
    Py_ssize_t consumed; /* how many of the items that are there now lie before it */
    Py_ssize_t grown;    /* how many items have come since it was made, less those that have gone */
    Py_ssize_t left;     /* how many items it has yet to give, by its own count */
    int failed;          /* it has noticed that, and will give none */
} MgIteratorState;

/* The dict or set that an iterator goes over, borrowed, and where it stands; NULL if it is used up. And putting one there. */
PyObject *mg_iterator_look(PyObject *iterator, MgIteratorState *state);
void mg_iterator_place(PyObject *iterator, const MgIteratorState *state);

/* The instance dict of an object, made if it has none yet; borrowed, NULL without an exception. No collection runs. */
PyObject *mg_instance_dict(PyObject *object);

/* 1 if an object has a value of this name, an interned string, in its instance dict. Makes no dict, and runs no code. */
int mg_instance_has(PyObject *object, PyObject *name);

/* A dict's value for a key of an exact builtin type, with no Python code: borrowed, NULL without an exception if there is
 * none. Where only the __eq__ of another key could tell, it is `mg_dict_unknown`, an object that nobody else has. */
PyObject *mg_dict_find(PyObject *dict, PyObject *key);

/* The value of a key that is in the dict itself, with no code of any key. Borrowed; NULL if it is not there. */
PyObject *mg_dict_find_same(PyObject *dict, PyObject *key, Py_hash_t hash);
extern PyObject mg_dict_unknown;
extern PyTypeObject *mg_dict_plain_type; /* one more type whose objects are compared by C code alone; or NULL */

/* Marks an object that the garbage collector knows as finalized: its finalizer will not be called. */
void mg_object_set_finalized(PyObject *object);

/* The awaitable's iterator, for `await`; NULL with an exception. */
PyObject *mg_awaitable_iter(PyObject *object);

/* 1 if the coroutine is suspended in an `await` or `yield from`. */
int mg_coroutine_is_awaiting(PyObject *coroutine);
static inline MgFrame *
mg_generator_frame(PyGenObject *generator)
{
    return (MgFrame *)generator->gi_iframe;
}

/* 1 for an int that is not negative and fits into one digit, which *value is then. */
static inline int
mg_long_is_small(PyObject *number, size_t *value)
{
    Py_ssize_t size = Py_SIZE(number);
    *value = size == 0 ? 0 : ((PyLongObject *)number)->ob_digit[0];
    return size == 0 || size == 1;
}

/* An int of the same value and another identity: never one of the shared small ones. New. */
PyObject *mg_long_copy(PyObject *number);

/* Wraps a value that an async generator yields, so that it can be told from what it awaits. Steals `value`. */
PyObject *mg_async_gen_wrap(PyObject *value);

/* The dict of the frame's names as `import *` sees it, and writing it back. Results are borrowed. */
PyObject *mg_frame_locals_for_import(PyThreadState *tstate, MgFrame *frame);
void mg_frame_locals_written(PyThreadState *tstate);

#endif
