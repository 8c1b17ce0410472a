/* The compiled callable: binds arguments, finds an entry, runs it; captures when there is none. */
#ifndef MG_CALLABLE_H
#define MG_CALLABLE_H

#include "entry/dispatch.h"
#include "capture/tracer.h"

/* The decision between the entries of a list, if it was made. */
typedef struct {
    MgDispatch *dispatch; /* owned, or NULL */
    uint64_t changes;     /* of the lists of entries, when it was made */
} MgDecision;

/* A place in a frame at which capture starts again after a break. */
typedef struct {
    PyCodeObject *code; /* strong */
    PyObject *globals;  /* strong */
    int offset, depth, entry_count;
    uint8_t *empty;    /* owned: a bit for each slot, set if the slot is empty and somebody may look */
    MgEntry **entries; /* strong, most recent first */
    MgDecision decision;
    MgPaths changing;       /* sources whose values keep changing */
    int failures, given_up; /* the latter: nothing to capture here, left to CPython */
    uint64_t used;          /* when it was last looked for, by the callable's `looks` */
} MgResumePoint;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function; /* strong: what is compiled */
    PyObject *code;     /* strong: its code when it was last called, which the entries are for; or NULL */
    PyObject *compile;  /* strong: (entry) -> compiled callable, or None for our own replay */
    PyObject *stopped;  /* strong: told why a capture stopped, and what becomes of the call */
    PyObject *missed;   /* strong: told why no entry fits, before a recapture or when there may be no more; or None */
    PyObject *captured; /* strong: told of each new entry, and how long its capture took; or None */
    PyObject *started;  /* strong: told of the code and offset, before it is captured; or None */
    PyObject *ended;    /* strong: told of the new entry or the exception, when that is over; or None */
    PyObject *filter;   /* strong: () -> what says which guards of a new entry are kept, or None; or None */
    MgEntry **entries;  /* strong, most recent first */
    int entry_count, entry_room;
    MgDecision decision;
    MgResumePoint *points; /* owned */
    int point_count;
    int profiling; /* calls are timed */
    int breaks;    /* graphs may end at a break */
    int limit;     /* of entries; -1 for that of the settings */
    int strict;    /* breaks are errors (1) or not (0) while it is called, unless captured code says otherwise; -1 */
    int dynamic;   /* an MgDynamic: which sizes and numbers become symbols */
    PyObject *lattice; /* strong: what has varied so far; or NULL */
    int fullgraph;     /* no call may run in CPython for want of a capture: each failure is told */
    int told;          /* the limit that `missed` was told of, and does not want to hear again */
    PyObject *untold;  /* strong: codes told that they are not compiled (None: all), or NULL */
    PyObject *owed;    /* strong: an exception for a call that was not captured, in case it raises none; or NULL */
    int failures;      /* aborted captures so far */
    int warm, plain;  /* a first call was left to CPython: "eager_then_compile"; only what it calls is to be captured */
    int is_object;    /* what is compiled is an object: its class may get another __call__ */
    PyObject *former; /* strong: list of what `function` was before that, for calls that are under way; or NULL */
    int forced;       /* made for a forced backend: called whatever backend is forced */
    int skip;         /* calls to be left alone before capture is tried again */
    uint64_t captures, changes, runs, looks; /* changes of the lists of entries, looks for points; all ever */
    uint64_t plain_words[3]; /* for a compiled module: those for which its calls were seen to be plain; see wrapper.c */
    PyObject *dict;          /* strong: attributes such as __name__ and __wrapped__; or NULL */
    PyObject *weakrefs;
} MgCompiled;

/* Whether values that depend on data become symbols in captures that are not fullgraph: numbers, and sizes. */
extern int mg_callable_scalars, mg_callable_shapes;

/* What settings say of sizes: they are static when they are met for the first time; those that vary become symbols. */
extern int mg_callable_static, mg_callable_automatic;

/* The rest of a frame, from `next` with the stack up to `sp`, is a capture point: finds or makes an entry, and runs it. */
MgContinue mg_callable_continue(PyObject *owner, MgFrame *frame, MgUnit *next, PyObject **sp, PyObject **result,
                                MgExit **exit);
extern PyTypeObject MgCompiled_Type;
int mg_callable_types_ready(void);

#endif
