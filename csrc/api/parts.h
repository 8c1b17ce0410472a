/* What the files of the compiled callable share. */
#ifndef MG_PARTS_H
#define MG_PARTS_H

#include "api/callable.h"
#include "api/ending.h"
#include "policy/stance.h"

/* Why a capture has stopped. */
typedef struct {
    MgReason reason;
    PyObject *detail; /* strong, or NULL */
    PyObject *where;  /* strong, or NULL */
    int strict;       /* an error, whatever else may be possible */
} MgStopped;

/* What is captured: a call, or the rest of a frame. */
typedef struct {
    PyObject *const *args;
    size_t nargsf;
    PyObject *kwnames;
    PyObject *const *bound; /* the arguments as the function's locals, or NULL if they do not fit it */
    MgFrame *frame;         /* NULL for a call */
    MgUnit *next;
    PyObject **sp;
    MgPaths changing;             /* sources whose values keep changing */
    MgLattice *frozen;            /* borrowed: if `is_again`, what varied then; NULL if nothing did */
    int is_again, without_floats; /* it was captured before, and is so again; floats became constants */
} MgSubject;

/* One try of a capture. */
typedef struct {
    long stop;            /* in: the instruction to stop at, or 0; out: the same for the next try, or 0 */
    MgReason stop_reason; /* in: the reason to stop there */
    long lost;            /* out: how far it got until something lived that can't be built again, or 0 */
    MgStopped why;        /* out: why it stopped */
    PyObject *untold; /* in: codes that are told that they are not compiled, or NULL; who made it says who owns it */
    int failed;       /* out: an operation failed, or a transform was met, in code that was told that it is compiled */
    int too_much, unfit;  /* out: there are more guards on sizes than an entry can have; see MgVaryings */
    int stop_node;    /* in: stop before this node is recorded; one more than its number, 0 for none */
    const MgTable *metas; /* in: borrowed: the call is under way, and its tensors had this metadata before; or NULL */
} MgTry;

/* Adds an entry to an array that has room for it: where it is tried. */
void mg_compiled_insert(MgEntry **entries, int count, MgEntry *entry);

enum { EMPTY_BYTES = 64 }; /* of bits, for the slots of a frame: larger frames are left to CPython */

/* Finds an entry whose guards hold and runs it. The result, or NULL and *ending; *found says what came of it. */
PyObject *mg_compiled_try_entries(MgCompiled *self, MgEntry **entries, int entry_count, MgDecision *decision,
                                  PyObject *const *arguments, MgFound *found, MgEnding *ending);

/* The hooks that get the tensors which are saved for backward: a tuple, or None. New. */
PyObject *mg_compiled_saving_hooks(void);

/* The compiled callable's vectorcall. */
PyObject *mg_compiled_call(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* The same for one that says whether breaks are errors. */
PyObject *mg_compiled_call_strictly(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* 1 if a stance makes captures errors: what was captured in vain before is then left to CPython. */
int mg_compiled_is_strict(MgStance stance);

/* Whether a call that no entry fits is to be captured: not under a mode of the program's, which would see how that is
 * done. 1 if it is, 0 if it is to be made in CPython, MG_MAY_NOT if the stance makes an error of it, -1 with an exception. */
enum { MG_MAY_NOT = 2 };
int mg_compiled_may_capture(MgCompiled *self, MgStance stance);

/* The same. If it raises, torch's state is what it was: an interrupt may have left contexts open. */
MgEntry *mg_compiled_capture_subject(MgCompiled *self, const MgSubject *subject);

/* An operation of a graph has raised: the program goes on there, with the error. 1 with ending->exit; 0 without an
 * exception if CPython is to make the call; -1 with the operation's exception. */
int mg_compiled_deoptimise(MgCompiled *self, const MgSubject *subject, PyObject *const *arguments, MgEnding *ending);

/* Frees what points hold, which can run any code. */
void mg_compiled_free_points(MgResumePoint *points, int count);

#endif
