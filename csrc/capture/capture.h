/* A capture under way: what was read, what was written, what was recorded. */
#ifndef MG_CAPTURE_H
#define MG_CAPTURE_H

#include "cpython/cpython311.h"
#include "ir/node.h"
#include "ir/path.h"
#include "ir/source.h"
#include "ir/twin.h"
#include "size/facts.h"

typedef enum {
#define MG_REASON(NAME, text, hint) MG_REASON_##NAME,
#include "capture/reasons.def"
#undef MG_REASON
    MG_REASON_COUNT,
} MgReason;

/* How captured code sees an outside object. */
typedef enum {
    MG_KIND_TENSOR,   /* as a twin */
    MG_KIND_CONSTANT, /* as itself, guarded by identity: function, class, module, builtin */
    MG_KIND_FUNCTION, /* as itself, guarded by its code: a function that may be made anew for each call */
    MG_KIND_VALUE,    /* as itself, guarded by its value: a slice or range of numbers */
    MG_KIND_INSTANCE, /* as itself; reads are guarded one by one, writes held back */
    MG_KIND_TUPLE,    /* as itself; items are guarded when they are used */
    MG_KIND_LIST,     /* as itself for single reads, as a shadow otherwise; the same for the next two */
    MG_KIND_DICT,
    MG_KIND_SET,
    MG_KIND_DEQUE,
    MG_KIND_PROXY,  /* a mappingproxy: as a proxy of what captured code sees of its dict */
    MG_KIND_METHOD, /* a bound method: as one over what captured code sees of its parts */
    MG_KIND_CELL,
    MG_KIND_OPAQUE, /* as itself, guarded by identity; C code may not touch it */
} MgKind;

/* An outside object that captured code has met, or may meet (then it is provisional, and not guarded yet). */
typedef struct {
    PyObject *object;      /* strong */
    Py_ssize_t references; /* that it has outside, as far as is known; see finalizer.c */
    MgSource *source;      /* the first way to it; borrowed from the capture's sources */
    PyObject *view;        /* strong: what captured code sees; NULL while it is the object itself */
    PyObject *held;  /* strong: writes held back, a dict of key -> value or the deletion mark; NULL if there are none */
    PyObject *slots; /* strong: the same for the slots of an instance, by descriptor; NULL if there are none */
    MgKind kind;
    int provisional;
    int unfinished; /* the capture ended while its shadow was made: that says nothing */
    int exposed;    /* C code may have looked into it and compared it: its content is guarded, and it must stay apart */
    int is_key;     /* a key of a dict, or a tensor that was hashed: look-ups compare other objects with it */
} MgOutside;

/* What must hold for the capture to be valid again. */
typedef enum {
    MG_GUARD_TYPE,       /* type(source) is expected */
    MG_GUARD_IDENTITY,   /* source is expected */
    MG_GUARD_VALUE,      /* type and value of source are those of expected: numbers, strings */
    MG_GUARD_ABSENT,     /* nothing is found at source */
    MG_GUARD_LENGTH,     /* len(source) is index */
    MG_GUARD_KEYS,       /* the keys of the dict, in order, are those of the tuple expected */
    MG_GUARD_TENSOR,     /* metadata of the tensor is expected (an MgMeta) */
    MG_GUARD_ALIAS,      /* source is other */
    MG_GUARD_DISTINCT,   /* source is not other */
    MG_GUARD_APART,      /* the objects of some sources are no others': expected is bytes, see mg_capture_guard_apart */
    MG_GUARD_METHODS,    /* special methods of the type: see protocol.c */
    MG_GUARD_QUERY,      /* source is a tuple of a C function and its arguments: what it returns is expected */
    MG_GUARD_LIMIT,      /* the limit of the deque is index */
    MG_GUARD_LACKS,      /* the instance dict of source has none of the names in the list expected */
    MG_GUARD_REFERENT,   /* source is a plain weak reference to other */
    MG_GUARD_WEAK,       /* source is what the weak reference expected points at */
    MG_GUARD_PRESENT,    /* something is found at source; in place of guards that were dropped */
    MG_GUARD_ANY_TENSOR, /* a tensor is; the same */
    MG_GUARD_QUIET,      /* no finalizer runs if some sources are written over: see mg_finalizer_seal */
    MG_GUARD_SIZES,      /* sizes and numbers that vary are in relations: see sizeguard.c */
    MG_GUARD_COUNT,
} MgGuardKind;

/* What else is known of a source, or of a type, in MgReads.guarded: tags behind the kinds of guards. */
enum {
    MG_GUARDED_QUIET = MG_GUARD_COUNT, /* it is in the list of what has no finalizer, */
    MG_GUARDED_QUIET_ITEMS,            /* and so are its items */
    MG_GUARDED_DICT,                   /* another object has the same instance dict */
    MG_GUARDED_PROTOCOL,               /* a type: what C code looks up on it is guarded */
};
#define MG_GUARDED(tag) ((void *)(uintptr_t)((tag) + 1))

/* What an entry lets go of: the object at a source, or, if index is not negative, its items from there on. */
typedef struct {
    MgSource *source; /* borrowed */
    Py_ssize_t index;
} MgQuiet;

/* An item of an outside container that has a finalizer. */
typedef struct {
    MgOutside *record; /* of the container; borrowed */
    PyObject *item;    /* strong */
    Py_ssize_t count;  /* how often the shadow has it */
    uint64_t tag;      /* version of the shadow, a dict, when that was counted; 0 if it is another container */
} MgWatch;

/* A place in the program: a code object, and the offset of an instruction in bytes. */
typedef struct {
    PyCodeObject *code; /* strong */
    int offset;
    int is_start; /* nothing of it was executed yet: its arguments are guarded */
} MgPlace;

typedef struct {
    MgGuardKind kind;
    int place;          /* the line that asked for it, in MgReads.places; -1 if none did */
    MgSource *source;   /* borrowed */
    MgSource *other;    /* borrowed, or NULL */
    PyObject *expected; /* strong, or NULL */
    Py_ssize_t index;
} MgGuard;

/* A live frame at a break, taken while the capture unwinds. */
typedef struct {
    PyCodeObject *code; /* strong */
    PyObject *function; /* strong */
    int offset;         /* of the next instruction, in code units */
    int awaiting;       /* the frame waits for the result of the next inner one, and pushes it */
    int count;          /* of slots: locals, then the stack */
    PyObject **slots;   /* strong, may be NULL */
    char *dead;         /* owned: 1 for a local that is not read any more, and kept if it is built anyway; or NULL */
} MgSnapshot;

typedef struct MgDeferred MgDeferred; /* see deferred.c */

/* What captured code has read, and must find again. */
typedef struct {
    MgSources sources;
    MgGuard *guards; /* owned */
    int guard_count, guard_room;
    MgTable guarded;      /* (source, kind) -> guard index + 1 */
    PyObject *queries;    /* strong: (function, *arguments) -> answer, of settings that were asked for; or NULL */
    PyObject *registered; /* strong: (class, ABC) -> whether it is a subclass, where that was asked; or NULL */
    int registry_read;    /* something else rests on what is registered with ABCs */
    int tensor_classes;   /* which of torch.Tensor and nn.Parameter were looked at: see tensorclass.c */
    int named;            /* a text with the name of a type or a function in it may have been made */
    int addresses;        /* addresses of objects may have been read: by their default repr or hash */
    PyObject *ids;        /* strong: a set of what id() gave for objects of this capture; NULL if it gave nothing */
    PyObject *log;        /* borrowed, only compared: the list that warnings are added to, or NULL */
    int reads_log;        /* captured code has looked into that list */
    MgDeferred *deferred; /* owned: plain values that nobody has looked at yet */
    int deferred_count;
    MgPlace *places; /* owned: lines that asked for guards; see place.c */
    int place_count, place_room;
    int place; /* that of the instruction before `place_step` */
    long place_step;
    MgTable origins;    /* code (strong) -> whose it is, and one */
    MgFrame *innermost; /* borrowed: the frame for which `users` was found; NULL since another frame was entered */
    MgFrame *users;     /* borrowed: the innermost frame of the user's */
} MgReads;

/* The outside objects that it has met. */
typedef struct {
    MgTable records;         /* object -> MgOutside */
    MgTable views;           /* view -> MgOutside, where the view is another object */
    MgOutside **record_list; /* owned, in the order of creation */
    int record_count, record_room;
} MgMet;

enum { MG_PARTS_GIVEN = 1, MG_PARTS_WRITTEN = 2 }; /* one is an input; one, or a wrapper from outside, is written to */

/* What was recorded. */
typedef struct {
    MgNode *nodes; /* owned */
    int node_count, node_room;
    PyObject *stack; /* strong: what mg_capture_stack gave last, or NULL */
    PyObject
        *touched;    /* strong: list of what kernels in Python of recorded operators may get at, or NULL; operator.c */
    int foreign;     /* a backend gets the graph: it is not run as it is */
    int wrote;       /* a tensor from outside was written to, or one that may share its memory */
    int first_write; /* no node before this one did that */
    int changes;     /* MG_CHANGED_...: what was done to tensors from outside */
    int asks_leaves; /* it may matter which tensors are leaves */
    int parameters;  /* a parameter was met */
    int muted;       /* it is run with the __torch_function__ of tensors switched off: it was called by the capture */
    int wrappers;    /* it has operations that call one of a wrapper's */
    int parts;       /* MG_PARTS_...: what was done with tensors that wrappers hold */
    const MgTable *metas;        /* borrowed: metadata that tensors from outside had before a graph ran; or NULL */
    struct MgSubgraph *subgraph; /* strong: the innermost one that is recorded now; NULL in the root */
    PyObject *names;             /* strong: a dict, how many subgraphs have a name with this prefix; or NULL */
    PyObject *regions;           /* strong: a list of (key, subgraph) that may be used again; or NULL */
    int closed;                  /* how many were recorded: their nodes are gone, see mg_node_is_gone */
} MgGraph;

/* Values that depend on data; see symbol.c. */
typedef struct {
    PyObject *session; /* strong: what symbolic values belong to; NULL while there are none */
    int allow_scalars; /* x.item() may become a symbol */
    int allow_shapes;  /* so may the sizes of x.nonzero() */
} MgSymbols;

/* Where the value of a symbol is found at a call. */
typedef enum { MG_VARYING_SIZE, MG_VARYING_STRIDE, MG_VARYING_VALUE, MG_VARYING_FORMULA } MgVaryingKind;

typedef struct {
    MgSource *source; /* borrowed: of the tensor, of the int, or the last one that a formula looks at */
    MgVaryingKind kind;
    int index;                 /* the dimension */
    int place;                 /* the line that read it, as in MgGuard */
    int is_marked, is_ranged;  /* a user says that it varies, and within which bounds */
    int is_guess;              /* it has not been seen to vary, but all sizes are symbols */
    struct MgFormula *formula; /* borrowed from MgVaryings.formulas: what computes it; or NULL */
    PyObject *operand;         /* borrowed from there: the float that it rounds; or NULL */
    PyObject *function;        /* borrowed from there: what rounds it; or NULL */
} MgVarying;

typedef struct MgLattice MgLattice; /* a Python object, see varying.h */

/* Sizes and numbers that vary from call to call; see varying.h. */
typedef struct {
    MgLattice *lattice; /* strong: what has varied so far; NULL if nothing is to */
    int is_used;        /* something varies */
    int is_too_much;    /* there are more guards on sizes than an entry can have */
    int is_unfit;       /* an operator takes no float that varies: the call is to be captured with constants */
    uint64_t salt;      /* tells this place in the program from others that share the lattice */
    MgFacts facts;
    MgVarying *origins; /* owned: by symbol */
    int origin_room;
    MgTable nodes;      /* expression -> node of the recording that computes it, plus 1 */
    PyObject *outcomes; /* strong: propagation key -> outcome, for operations on such sizes; or NULL */
    PyObject *session;  /* strong: what asks torch about operations on such sizes, see fallback.c; or NULL */
    PyObject *formulas; /* strong: a list of the formulas of symbols, and what they are of; or NULL */
} MgVaryings;

/* What is done in place of x[i], where i has tensors: by default, those without dimensions are numbers, which are read. */
typedef enum {
    MG_INDEXING_PLAIN,
    MG_INDEXING_INDEX, /* as under TransformGetItemToIndex: magneto._higher.index */
    MG_INDEXING_ITEM,  /* the same, but it is recorded as x[i]: magneto._higher.item */
} MgIndexing;

/* Torch's global state. */
typedef struct {
    PyObject *state;       /* strong: as it is now; NULL if it must be read */
    PyObject *entry_state; /* strong: the same, at the start */
    PyObject *settings;    /* strong: (function, arguments that undo what it did, what is set now); NULL if unchanged */
    PyObject *managers;    /* strong: a list of (manager, context, node, exit function) that were entered; or NULL */
    int muted;             /* how often captured code has switched off the __torch_function__ of tensors */
    MgIndexing indexing;
    long overriding; /* the step in which torch is asked whose __torch_function__ to call, or 0 */
} MgTorchState;

/* What would run code when it goes; see finalizer.c. */
typedef struct {
    PyObject *mortals; /* strong: a list of weak references to what captured code made that has a finalizer; or NULL */
    MgTable drops;     /* object -> how many of its outside references captured code has let go of */
    MgWatch *watches;  /* owned: what captured code must not take out of shadows */
    int watch_count;
    MgTable storied; /* tensors whose storages have Python objects with finalizers */
    MgQuiet *quiets; /* owned: what must have no finalizer on later calls */
    int quiet_count;
    Py_ssize_t root_depth; /* slots of the root frame, without the arguments of the call under way */
    long finalizers;       /* how many objects with a __del__ captured code has made that still live */
    long dropped;          /* the instruction at which one went whose finalizer could not be captured; 0 if none did */
} MgFinals;

/* Where it stops, and the frames as they are there; see exit.c. */
typedef struct {
    int can_break; /* a snapshot is wanted if the capture must stop */
    long stop;     /* stop before this instruction, 0 for never */
    int stop_node; /* stop before this node is recorded; one more than its number, 0 for never */
    int is_exact;  /* it has stopped there */
    MgReason stop_reason;
    long stopped;          /* the instruction of the root that could not be captured; 0 if it is another frame's */
    long raised;           /* the instruction that raised the last exception, in whichever frame */
    long restart;          /* the capture must be made again, up to this instruction; 0 if not */
    long mark_step, mark;  /* the last instruction that was started, and mg_exit_mark before it */
    MgSnapshot *snapshots; /* owned, innermost first */
    int snapshot_count;
    int inner_direct; /* the frame that was taken last was called by an instruction of the next one */
    int inner_lost;   /* the frame that was left last can't be made again */
    int refused;      /* an object that lives on can't be built again */
    int root_taken;
    int whole;       /* > 0 in a function that a break can't split: it is called again as a whole */
    int point;       /* the root is a frame in the middle, not a call */
    int point_count; /* the slots of that frame */
} MgBreaks;

/* The call that is under way. */
typedef struct {
    int direct;         /* the next frame is called by captured code, not by C code */
    int direct_pending; /* the same, as the frame will note it */
    int pure;           /* what is called now gives its result to the call instruction as it is */
    int clean;          /* it was stopped before it was begun: the call instruction can be executed from its start */
} MgCallState;

/* What captured code knows of where it runs. */
typedef struct {
    PyObject *handled;       /* borrowed: the exception that was handled when it started; NULL if none */
    int no_active_exception; /* captured code knows that nobody handles one */
    int saw_is_compiling;    /* captured code asked whether it is compiled, and was told so */
    PyObject *not_compiling; /* borrowed: codes that are told that they are not, and what they call; or NULL */
    PyObject *codes;         /* strong: a list of the codes of all its frames, each once; or NULL */
    MgTable known_codes;     /* those in the list */
} MgSurroundings;

typedef struct MgCapture MgCapture;
struct MgCapture {
    MG_CAPTURE_HEAD
    uint64_t number;
    MgFrame *root;        /* the outermost captured frame; NULL before it starts */
    PyObject **arguments; /* strong: the root's locals as they came */
    int argument_count;
    MgReads reads;
    MgMet met;
    MgGraph graph;
    MgSymbols symbols;
    MgVaryings varying;
    MgTorchState torch;
    MgFinals finals;
    MgBreaks breaks;
    MgCallState call;
    MgSurroundings around;
    PyObject *result; /* strong: what the root returned, or NULL */
    PyObject *keep;   /* strong: a list of objects that must live as long as the capture */
    MgTable inside;   /* functions and cells that captured code made */
    PyObject *detail; /* strong: text for the reason, or NULL */
    PyObject *where;  /* strong: a tuple of (code, line) pairs where it stopped, or NULL */
    MgPlace end;      /* where the root has returned; no code before that */
    long steps;       /* instructions executed so far */
    MgPaths changing; /* sources whose values differ from call to call */
    int quiet;        /* > 0 while tensors are reached that nobody has used yet */
    int level;        /* how deep a walker is in a structure of objects; see level.h */
    int ending;       /* the capture is being freed: no code of its may run */
    MgCapture *outer; /* borrowed: of a trial, the capture that wants to know what a function does; see query.c */
};

/* The capture of this thread, or NULL; and one that takes its place, or NULL. */
#define mg_capture_current ((MgCapture *)mg_current)
static inline void
mg_capture_enter(MgCapture *capture)
{
    mg_current = (MgCaptureHead *)capture;
}

/* The capture that frames of this thread belong to now, or NULL. */
static inline MgCapture *
mg_capture_active(void)
{
    MgCapture *capture = mg_capture_current;
    return capture != NULL && capture->suspended == 0 ? capture : NULL;
}

/* 1 if a size or number is no constant, because it varies from call to call. */
static inline int
mg_capture_varies(const MgCapture *capture)
{
    return capture->varying.is_used;
}

/* Marks a key as deleted in MgOutside.held. */
extern PyObject *mg_capture_deleted;

int mg_capture_types_ready(void);
MgCapture *mg_capture_new(void);
void mg_capture_free(MgCapture *capture);

/* Drops what a frame holds that was taken on the way to a break; and all of them. */
void mg_snapshot_clear(MgSnapshot *snapshot);
void mg_capture_clear_snapshots(MgCapture *capture);

/* Captured code has made an object with a finalizer, such as a generator: if it outlives the capture, in a cycle, the
 * finalizer must not run. MG_OK or MG_ERR. */
int mg_capture_add_mortal(MgCapture *capture, PyObject *object);

/* Ends the capture with a reason; `detail` is a printf-like text and may be NULL. Sets the exception that unwinds all
 * captured frames, which no handler of theirs can catch, and returns MG_ERR. */
int mg_capture_abort(MgCapture *capture, MgReason reason, const char *detail, ...);

/* MG_ERR, with the exception set again, if the capture was aborted and somebody swallowed its exception. */
int mg_capture_check(MgCapture *capture);

/* Called where captured code asks which exception is handled: one of its own, or none, which is guarded. The capture is
 * aborted if it is a caller's. */
int mg_capture_handles(MgCapture *capture);

/* Kernels warn when the graph runs. So where warnings are added to a list (`warnings.catch_warnings(record=True)`), captured
 * code that looks into it and operations are not of one graph: MG_ERR before a look at an object that is the list, and before
 * an operation. */
void mg_capture_find_log(MgCapture *capture);
int mg_capture_look(MgCapture *capture, PyObject *object);
int mg_capture_operate(MgCapture *capture);

/* Adds a guard unless there is one of this kind on the source already. `expected` is borrowed. */
int mg_capture_guard(MgCapture *capture, MgGuardKind kind, MgSource *source, PyObject *expected);
/* 1 if there is one. */
static inline int
mg_capture_is_guarded(const MgCapture *capture, MgGuardKind kind, const MgSource *source)
{
    return mg_table_get(&capture->reads.guarded, source, MG_GUARDED(kind)) != NULL;
}

int mg_capture_guard_length(MgCapture *capture, MgSource *source, Py_ssize_t length);
int mg_capture_guard_limit(MgCapture *capture, MgSource *source, Py_ssize_t limit);
int mg_capture_guard_many(MgCapture *capture, MgGuardKind kind, MgSource *source, PyObject *expected,
                          Py_ssize_t index); /* even if there is one */
int mg_capture_guard_lacks(MgCapture *capture, MgSource *source, PyObject *name);
int mg_capture_guard_pair(MgCapture *capture, MgGuardKind kind, MgSource *source, MgSource *other);

/* The first `count` of `total` sources must be distinct objects, and none of them one of the rest. */
int mg_capture_guard_apart(MgCapture *capture, MgSource *const *sources, int count, int total);

/* 1 if captured code has the __torch_function__ of tensors called. */
int mg_capture_overrides(const MgCapture *capture);

/* The state of torch that captured code is in. New. */
PyObject *mg_capture_state_key(MgCapture *capture);

/* A tuple of (code, offset) for the frames from the root to the current one; where a module is called also the number of
 * its source, and its class. New. */
PyObject *mg_capture_stack(MgCapture *capture);

/* 1 if a graph may end for this reason, and the program go on: not where it is to end in an error. */
static inline int
mg_reason_is_break(MgReason reason)
{
    return reason != MG_REASON_EXCEPTION && reason != MG_REASON_FORBIDDEN;
}

const char *mg_reason_name(MgReason reason);
const char *mg_reason_text(MgReason reason);
const char *mg_reason_hint(MgReason reason);

#endif
