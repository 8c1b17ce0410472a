/* The compiled callable: binds arguments, finds an entry, runs it; captures when there is none.
 *
 * Entries belong to the callable and die with it. What can't be captured runs in CPython: after an aborted capture the
 * call is simply made, since nothing outside was touched. A callable that keeps failing is tried less and less often. */
#include "callable.h"

#include "control.h"
#include "deopt.h"
#include "depth.h"
#include "except.h"
#include "hook.h"
#include "layout.h"
#include "recover.h"
#include "replay.h"
#include "rules.h"
#include "stance.h"
#include "tags.h"
#include "trace.h"
#include "world.h"
#include "aside.h"

#include <structmember.h>
#include <time.h>

int mg_callable_limit = 8;
int mg_callable_scalars, mg_callable_shapes;

/* ---- binding ---- */

/* The arguments of a call as the function's locals hold them. */
typedef struct {
    PyObject **values; /* strong once they are held: code that runs meanwhile may replace a default */
    int count;
    int held;
    PyObject *rest;     /* strong: the *args tuple, or NULL */
    PyObject *keywords; /* strong: the **kwargs dict, or NULL */
    PyObject *small[32];
} Bound;

static void
bound_clear(Bound *bound)
{
    for (int i = 0; bound->held && i < bound->count; i++) {
        Py_DECREF(bound->values[i]);
    }
    Py_XDECREF(bound->rest);
    Py_XDECREF(bound->keywords);
    if (bound->values != bound->small) {
        PyMem_Free(bound->values);
    }
}

static Py_ssize_t
find_name(PyCodeObject *code, PyObject *name, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) {
            return i;
        }
    }
    for (int i = from; i < to; i++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Binds the arguments of a call. 1, or 0 if they do not fit (then the call itself will say so), or -1. */
static int
bind(PyFunctionObject *function, PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *kwnames,
     Bound *bound)
{
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    int positional = code->co_argcount, named = code->co_kwonlyargcount;
    int has_rest = (code->co_flags & CO_VARARGS) != 0, has_keywords = (code->co_flags & CO_VARKEYWORDS) != 0;
    int offset = self != NULL;
    bound->count = positional + named + has_rest + has_keywords;
    bound->rest = bound->keywords = NULL;
    bound->held = 0;
    bound->values = bound->count <= 32 ? bound->small : PyMem_Malloc(sizeof(PyObject *) * (size_t)bound->count);
    if (bound->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(bound->values, 0, sizeof(PyObject *) * (size_t)bound->count);
    Py_ssize_t total = given + offset, direct = total < positional ? total : positional;
    for (Py_ssize_t i = 0; i < direct; i++) {
        bound->values[i] = i < offset ? self : args[i - offset];
    }
    if (total > positional && !has_rest) {
        return 0;
    }
    if (has_rest) {
        Py_ssize_t extra = total > positional ? total - positional : 0;
        bound->rest = PyTuple_New(extra);
        if (bound->rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = 0; i < extra; i++) {
            Py_ssize_t from = positional + i;
            PyTuple_SET_ITEM(bound->rest, i, Py_NewRef(self != NULL && from < offset ? self : args[from - offset]));
        }
        bound->values[positional + named] = bound->rest;
    }
    MgNewTags tags = mg_tags_start();
    if (has_keywords) {
        bound->keywords = PyDict_New();
        if (bound->keywords == NULL) {
            return -1;
        }
        mg_tags_note(&tags, bound->keywords, 0);
        bound->values[positional + named + has_rest] = bound->keywords;
    }
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < names; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        Py_ssize_t slot = find_name(code, name, code->co_posonlyargcount, positional + named);
        if (slot >= 0) {
            if (bound->values[slot] != NULL) {
                return 0;
            }
            bound->values[slot] = args[given + i];
        }
        else if (!has_keywords) {
            return 0;
        }
        else {
            uint64_t tag = mg_dict_tag(bound->keywords);
            if (PyDict_SetItem(bound->keywords, name, args[given + i]) < 0) {
                return -1;
            }
            mg_tags_note(&tags, bound->keywords, tag);
        }
    }
    mg_tags_end(&tags);
    PyObject *defaults = function->func_defaults;
    Py_ssize_t default_count = defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
    for (int i = 0; i < positional; i++) {
        if (bound->values[i] == NULL) {
            Py_ssize_t at = i - (positional - default_count);
            if (defaults == NULL || at < 0) {
                return 0;
            }
            bound->values[i] = PyTuple_GET_ITEM(defaults, at);
        }
    }
    for (int i = positional; i < positional + named; i++) {
        if (bound->values[i] == NULL) {
            PyObject *dict = function->func_kwdefaults;
            bound->values[i] = dict == NULL ? NULL : mg_dict_find(dict, PyTuple_GET_ITEM(code->co_localsplusnames, i));
            if (bound->values[i] == NULL || bound->values[i] == &mg_dict_unknown) {
                return 0;
            }
        }
    }
    for (int i = 0; i < bound->count; i++) {
        Py_INCREF(bound->values[i]);
    }
    bound->held = 1;
    return 1;
}

/* ---- entries ---- */

static int
add_entry(MgCompiled *self, MgEntry *entry)
{
    if (self->entry_count == self->entry_room) {
        int room = self->entry_room == 0 ? 4 : self->entry_room * 2;
        MgEntry **entries = PyMem_Realloc(self->entries, sizeof(MgEntry *) * (size_t)room);
        if (entries == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        self->entries = entries;
        self->entry_room = room;
    }
    memmove(self->entries + 1, self->entries, sizeof(MgEntry *) * (size_t)self->entry_count);
    self->entries[0] = (MgEntry *)Py_NewRef((PyObject *)entry);
    self->entry_count++;
    self->changes++;
    return MG_OK;
}

/* Whether torch's global state is that of the entry: 1, 0 or -1; 2 if the entries changed meanwhile, since that may run
 * code and let other threads run. */
static int
check_state(MgCompiled *self, MgEntry *entry)
{
    uint64_t changes = self->changes;
    int good = mg_guard_same_state(&entry->guards);
    return good >= 0 && self->changes != changes ? 2 : good;
}

/* The backend's own guard, after which the registers are still good: 1, 0 or -1; 2 if the entries changed meanwhile. */
static int
run_check(MgCompiled *self, MgEntry *entry, PyObject *const *arguments, MgRegisters *registers)
{
    int apart = MG_LIKELY(entry->storages.count == 0) ? 1 : mg_entry_is_apart(entry, registers);
    if (MG_LIKELY(entry->check == NULL) || apart != 1) {
        return apart;
    }
    int failed;
    uint64_t changes = self->changes;
    int good = mg_entry_check(entry, registers); /* may run any code */
    if (good >= 0 && self->changes != changes) {
        return 2;
    }
    good = good > 0 ? check_state(self, entry) : good;
    return good == 1 ? mg_guard_run(&entry->guards, arguments, registers, &failed) : good;
}

/* How the run of an entry has ended, if not with a result. */
typedef struct {
    MgExit *exit;      /* owned: it stops at a break; or NULL */
    MgEntry *entry;    /* strong: an operation of its graph has raised, the exception is set; or NULL */
    MgFailure failure; /* owned: what there is by then */
} Ending;

static void
ending_clear(Ending *ending)
{
    mg_replay_forget(&ending->failure);
    Py_CLEAR(ending->entry);
}

/* The hooks that get the tensors which are saved for backward: a tuple, or None. New. */
static PyObject *
saving_hooks(void)
{
    static PyObject *top; /* strong */
    if (top == NULL) {
        top = mg_aside_find("torch._C._autograd", "_top_saved_tensors_default_hooks");
    }
    PyObject *yes = Py_True;
    return top == NULL ? NULL : mg_aside_call(top, &yes, 1);
}

/* 1 if something gets the tensors that are saved for backward: it would get them twice. 0 or -1. */
static int
has_any_saving_hooks(void)
{
    PyObject *hooks = saving_hooks();
    int found = hooks == NULL ? -1 : hooks != Py_None;
    Py_XDECREF(hooks);
    return found;
}

/* What a backend made of a graph has raised. Which operation of the program that was, only our own replay can tell: it runs
 * the graph once more, if that does nothing but give results. 3 with ending->failure and the exception of the operation;
 * or -1 with that of the backend. */
static int
replay_compiled(MgEntry *entry, PyObject *const *arguments, Ending *ending)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    ending->failure = (MgFailure){0};
    int failed = -1, good = entry->symbols == NULL && PyErr_GivenExceptionMatches(type, PyExc_Exception) &&
                            mg_deopt_is_repeatable(entry, 0, entry->node_count - 1) && has_any_saving_hooks() == 0;
    MgRegisters registers = {.values = good ? mg_guard_take_room(&entry->guards) : NULL};
    if (registers.values != NULL && mg_guard_run(&entry->guards, arguments, &registers, &failed) == 1) {
        (void)mg_entry_replay(entry, &registers, &ending->failure);
    }
    if (registers.values != NULL) {
        mg_guard_give_room(&entry->guards, registers.values);
    }
    if (ending->failure.values == NULL || !PyErr_ExceptionMatches(PyExc_Exception)) {
        mg_replay_forget(&ending->failure);
        PyErr_Restore(type, value, traceback); /* clears any other */
        return -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    ending->entry = (MgEntry *)Py_NewRef((PyObject *)entry);
    return 3;
}

/* Tries an entry of a list: 1 with its result, or NULL and *ending; 0 if it does not fit, 2 if the entries changed
 * meanwhile, 3 if an operation of its graph has raised, -1. */
static int
try_entry(MgCompiled *self, MgEntry **entries, int index, PyObject *const *arguments, PyObject **result, Ending *ending)
{
    int failed = -1;
    MgEntry *entry = (MgEntry *)Py_NewRef((PyObject *)entries[index]);
    MgRegisters registers = {.values = NULL};
    uint64_t changes = self->changes;
    entry->profile.is_on = self->profiling;
    uint64_t start = MG_UNLIKELY(self->profiling) ? mg_entry_clock() : 0;
    int good = check_state(self, entry);
    if (good == 1) {
        registers.values = mg_guard_take_room(&entry->guards);
        good = registers.values == NULL ? -1 : mg_guard_run(&entry->guards, arguments, &registers, &failed);
    }
    if (good == 1) {
        good = run_check(self, entry, arguments, &registers);
    }
    if (MG_UNLIKELY(start != 0)) {
        entry->profile.guard += mg_entry_clock() - start;
        entry->profile.tries++;
    }
    if (good == 1) {
        entry->last_run = ++self->runs;
        if (index > 0 && entries[index] == entry) { /* most recent first; code that ran may have moved them already */
            memmove(entries + 1, entries, sizeof(MgEntry *) * (size_t)index);
            entries[0] = entry;
        }
        *result = mg_entry_run(entry, &registers, (PyObject *)self, &ending->exit, &ending->failure);
        if (MG_UNLIKELY(ending->failure.values != NULL)) {
            ending->entry = (MgEntry *)Py_NewRef((PyObject *)entry);
            good = 3;
        }
        else if (MG_UNLIKELY(ending->failure.is_compiled)) {
            good = replay_compiled(entry, arguments, ending);
        }
        if (MG_UNLIKELY(start != 0)) {
            entry->profile.whole += mg_entry_clock() - start;
        }
    }
    if (registers.values != NULL) {
        mg_guard_give_room(&entry->guards, registers.values);
        good = good == 0 && self->changes != changes ? 2 : good;
    }
    if (good == 0) {
        int renewed = mg_guard_renew(&entry->guards, arguments, failed);
        good = renewed < 0 ? -1 : renewed > 0 || self->changes != changes ? 2 : 0;
    }
    Py_DECREF(entry);
    return good;
}

/* With both ways of running guards: none but the candidates may fit. MG_OK or MG_ERR. */
static int
check_decision(MgEntry **entries, int entry_count, MgEntry **candidates, int count, PyObject *const *arguments)
{
    for (int i = 0; i < entry_count; i++) {
        int is_candidate = 0, failed;
        for (int k = 0; k < count; k++) {
            is_candidate = is_candidate || candidates[k] == entries[i];
        }
        PyObject **room = is_candidate ? NULL : mg_guard_take_room(&entries[i]->guards);
        int good = room == NULL ? 0 : mg_guard_run_all(&entries[i]->guards, arguments, room, &failed);
        if (room != NULL) {
            mg_guard_give_room(&entries[i]->guards, room);
        }
        if (good > 0) {
            PyErr_SetString(PyExc_SystemError, "magneto: an entry fits that was not thought to");
        }
        if (good != 0 || PyErr_Occurred()) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Finds an entry whose guards hold and runs it. The result, or NULL and *ending; *found says whether there was one, and is
 * 2 if the entries changed meanwhile: then it must be tried again; 3 if an operation of its graph has raised. */
static PyObject *
try_entries(MgCompiled *self, MgEntry **entries, int entry_count, MgDecision *decision, PyObject *const *arguments,
            int *found, Ending *ending)
{
    PyObject *result = NULL;
    *found = 0;
    if (entry_count >= MG_DISPATCH_FROM) {
        if (MG_UNLIKELY(decision->changes != self->changes + 1)) {
            mg_dispatch_free(decision->dispatch);
            decision->dispatch = mg_dispatch_new(entries, entry_count);
            decision->changes = self->changes + 1; /* 0 is none */
        }
        MgDispatch *dispatch = decision->dispatch;
        if (dispatch != NULL) {
            int count;
            MgEntry **candidates = mg_dispatch_find(dispatch, arguments, &count);
            if (MG_UNLIKELY(mg_guard_mode == 2) &&
                check_decision(entries, entry_count, candidates, count, arguments) < 0) {
                *found = -1;
                return NULL;
            }
            for (int i = 0; i < count; i++) {
                int runs_code = candidates[i]->check != NULL || candidates[i]->guards.registered != NULL;
                int good = try_entry(self, candidates, i, arguments, &result, ending);
                if (good != 0) {
                    *found = good;
                    return result;
                }
                if (runs_code) { /* it may have run any code, and another thread may have asked meanwhile */
                    candidates = mg_dispatch_find(dispatch, arguments, &count);
                }
            }
            return NULL;
        }
    }
    for (int i = 0; i < entry_count; i++) {
        int good = try_entry(self, entries, i, arguments, &result, ending);
        if (good != 0) {
            *found = good;
            return result;
        }
    }
    return NULL;
}

/* The same for the callable's own entries, if they are still those of the code that the arguments were bound for. */
static PyObject *
try_own(MgCompiled *self, PyObject *code, PyObject *const *arguments, int *found, Ending *ending)
{
    PyObject *result = NULL;
    int tries = 0;
    *found = 0;
    do {
        if (MG_UNLIKELY(self->code != code)) {
            return NULL;
        }
        result = try_entries(self, self->entries, self->entry_count, &self->decision, arguments, found, ending);
    } while (MG_UNLIKELY(*found == 2) && ++tries < 100);
    *found = *found == 2 ? 0 : *found;
    return result;
}

/* Why no entry fits, as a list of texts. New. */
static PyObject *
explain_miss(MgCompiled *self, PyObject *const *arguments)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < self->entry_count; i++) {
        MgEntry *entry = (MgEntry *)Py_NewRef((PyObject *)self->entries[i]); /* its text may run any code */
        PyObject **registers = PyMem_Malloc(sizeof(PyObject *) * (size_t)(entry->guards.step_count + 1));
        int failed = -1;
        PyObject *text = NULL;
        if (registers != NULL && mg_guard_run_all(&entry->guards, arguments, registers, &failed) == 0) {
            text = mg_guard_reason(&entry->guards, failed, registers);
        }
        else if (!PyErr_Occurred() && mg_guard_same_state(&entry->guards) == 0) {
            text = PyUnicode_FromString("torch's global state");
        }
        else if (!PyErr_Occurred()) {
            text = entry->check == NULL ? NULL : PyObject_GetAttrString(entry->check, "text");
            if (text == NULL) {
                PyErr_Clear();
                text = PyUnicode_FromString("the backend's guard on its inputs");
            }
        }
        PyMem_Free(registers);
        Py_DECREF(entry);
        if (text == NULL || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    return list;
}

/* ---- capturing ---- */

/* Why a capture has stopped. */
typedef struct {
    MgReason reason;
    PyObject *detail; /* strong, or NULL */
    PyObject *where;  /* strong, or NULL */
    int strict;       /* an error, whatever else may be possible */
} Stop;

static void
stop_clear(Stop *stop)
{
    Py_CLEAR(stop->detail);
    Py_CLEAR(stop->where);
    stop->reason = MG_REASON_NONE;
}

/* Tells Python why a graph ends ("break"), or why there is none ("skip", or "error" if it has to raise); it may raise in
 * any case. MG_OK or MG_ERR. */
static int
tell_stop(MgCompiled *self, const Stop *stop, const char *outcome)
{
    const char *name = mg_reason_name(stop->reason), *text = mg_reason_text(stop->reason);
    PyObject *detail = stop->detail == NULL ? Py_None : stop->detail;
    PyObject *where = stop->where == NULL ? Py_None : stop->where;
    PyObject *result = self->stopped == Py_None
                           ? PyObject_CallFunction(self->failed, "ssOO", name, text, detail, where)
                           : PyObject_CallFunction(self->stopped, "sssOO", outcome, name, text, detail, where);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

/* Tells Python that a capture was aborted, and puts off the next. */
static int
tell_failure(MgCompiled *self, const Stop *stop)
{
    self->failures++;
    if (!self->fullgraph && !stop->strict) {
        self->skip = self->failures < 2 ? 0 : self->failures < 20 ? 1 << (self->failures - 2) : 1 << 18;
    }
    return tell_stop(self, stop, stop->strict ? "error" : "skip");
}

/* Adds the guards on values of tensors to the backend's own. */
static int
guard_values(MgEntry *entry)
{
    if (entry->symbols == NULL) {
        return MG_OK;
    }
    PyObject *check = PyObject_CallMethod(entry->symbols, "guard", "OO", (PyObject *)entry,
                                          entry->check == NULL ? Py_None : entry->check);
    if (check == NULL) {
        return MG_ERR;
    }
    Py_XSETREF(entry->check, check == Py_None ? NULL : Py_NewRef(check));
    Py_DECREF(check);
    return MG_OK;
}

/* Gives the graph of a new entry to the backend. MG_OK or MG_ERR. */
static int
compile_entry(MgCompiled *self, MgEntry *entry)
{
    PyObject *compiled = Py_NewRef(Py_None);
    if (self->compile != Py_None && entry->node_count > entry->input_count) {
        Py_SETREF(compiled, PyObject_CallOneArg(self->compile, (PyObject *)entry));
        if (compiled == NULL) {
            return MG_ERR;
        }
    }
    if (compiled == Py_None && entry->symbols != NULL && entry->node_count > 0) { /* our replay makes no checks */
        Py_SETREF(compiled, PyObject_CallMethod(entry->symbols, "finish", "O", (PyObject *)entry));
        if (compiled == NULL) {
            return MG_ERR;
        }
    }
    mg_entry_forget_inputs(entry);
    if (compiled == Py_None) {
        Py_DECREF(compiled);
        return mg_replay_prepare(entry) < 0 ? MG_ERR : guard_values(entry);
    }
    if (PyTuple_Check(compiled) && PyTuple_GET_SIZE(compiled) == 2) {
        entry->compiled = Py_NewRef(PyTuple_GET_ITEM(compiled, 0));
        entry->check = Py_NewRef(PyTuple_GET_ITEM(compiled, 1));
        Py_DECREF(compiled);
    }
    else {
        entry->compiled = compiled;
    }
    return guard_values(entry);
}

/* Seconds on a clock that only goes forward. */
static double
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

enum { EMPTY_BYTES = 64 }; /* of bits, for the slots of a frame: larger frames are left to CPython */

/* What is captured: a call, or the rest of a frame. */
typedef struct {
    PyObject *const *args;
    size_t nargsf;
    PyObject *kwnames;
    MgFrame *frame; /* NULL for a call */
    MgUnit *next;
    PyObject **sp;
    MgPaths changing; /* sources whose values keep changing */
} Subject;

/* One try of a capture. */
typedef struct {
    long stop;            /* in: the instruction to stop at, or 0; out: the same for the next try, or 0 */
    MgReason stop_reason; /* in: the reason to stop there */
    long lost;            /* out: how far it got until something lived that can't be built again, or 0 */
    Stop why;             /* out: why it stopped */
    PyObject *untold; /* in: codes that are told that they are not compiled, or NULL; who made it says who owns it */
    int failed;       /* out: an operation failed, or a transform was met, in code that was told that it is compiled */
    int stop_node;    /* in: stop before this node is recorded; one more than its number, 0 for none */
    const MgTable *metas; /* in: borrowed: the call is under way, and its tensors had this metadata before; or NULL */
} Try;

/* An entry, or NULL: with an exception, or without one if nothing came of it. */
static MgEntry *
capture_once(MgCompiled *self, const Subject *subject, Try *try)
{
    MgEntry *entry = NULL;
    MgCapture *capture = mg_capture_new();
    long stop = try->stop;
    try->stop = try->lost = 0;
    stop_clear(&try->why);
    if (capture == NULL) {
        return NULL;
    }
    mg_collections_hold(); /* what it leaves in cycles must not be finalized before it is marked, when the capture is freed */
    capture->can_break = (self->breaks && !self->fullgraph) || try->metas != NULL;
    capture->metas = try->metas;
    capture->stop_node = try->stop_node;
    capture->stop = stop;
    capture->stop_reason = try->stop_reason;
    capture->untold = try->untold;
    capture->allow_scalars = self->fullgraph || mg_callable_scalars;
    capture->allow_shapes = self->fullgraph || mg_callable_shapes;
    capture->foreign = self->compile != Py_None;
    capture->changing = subject->changing;
    PyObject *result = subject->frame != NULL
                           ? mg_trace_frame(capture, subject->frame, subject->next, subject->sp)
                           : mg_trace_run(capture, self->function, subject->args, subject->nargsf, subject->kwnames);
    if (capture->dropped > 0) {
        result = NULL;
    }
    int raised = capture->reason == MG_REASON_EXCEPTION && stop == 0;
    int can_break = capture->can_break && !raised;
    int hard = capture->reason == MG_REASON_TRANSFORM || (capture->reason == MG_REASON_OPERATION_FAILED && can_break);
    if (hard && capture->told) {
        try->failed = 1;
    }
    if (raised && capture->can_break && capture->interrupt == NULL && capture->node_count > 0) {
        try->stop = capture->raised; /* again, up to there: what comes before is captured */
    }
    int is_error = result == NULL && can_break && try->metas == NULL ? mg_control_error_on_break(capture) : 0;
    if (is_error < 0) {
        mg_recover_interrupt(capture);
    }
    int strict = capture->reason == MG_REASON_FORBIDDEN || is_error > 0;
    can_break = can_break && !strict && is_error >= 0;
    if (result != NULL) {
        entry = mg_entry_new(capture, result);
    }
    else if (can_break && capture->dropped > 0) {
        try->stop = capture->dropped;
    }
    else if (can_break && mg_exit_ready(capture)) {
        PyErr_Clear();
        entry = mg_entry_new(capture, NULL);
    }
    else if (can_break && capture->restart > 0) {
        try->stop = capture->restart;
    }
    if (entry == NULL && can_break && capture->refused) {
        try->lost = capture->steps;
    }
    try->why = (Stop){capture->reason, Py_XNewRef(capture->detail), Py_XNewRef(capture->where), strict};
    if (entry != NULL || capture->reason != MG_REASON_NONE) {
        PyErr_Clear();
    }
    int restored = mg_rules_restore_state(capture);
    if (capture->interrupt != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(capture->interrupt), capture->interrupt);
    }
    if (capture->interrupt != NULL || restored < 0) {
        try->stop = try->lost = 0;
        Py_CLEAR(entry);
    }
    mg_capture_free(capture);
    mg_collections_release();
    return entry;
}

/* The same, again and again while a capture has to stop earlier than the one before. The reason of the first is kept
 * if that is where the last stopped. */
static MgEntry *
capture_until(MgCompiled *self, const Subject *subject, Try *try)
{
    enum { LIMIT = 16 };
    MgEntry *entry = NULL;
    Stop first = {.reason = try->stop_reason};
    for (int i = 0; i < LIMIT; i++) {
        entry = capture_once(self, subject, try);
        if (try->stop == 0) {
            break;
        }
        if (first.reason == MG_REASON_NONE) {
            first = try->why;
            try->why = (Stop){.reason = MG_REASON_NONE};
            try->stop_reason = first.reason;
        }
    }
    if (first.where != NULL && try->why.reason == first.reason) {
        first.strict = try->why.strict;
        stop_clear(&try->why);
        try->why = first;
    }
    else {
        stop_clear(&first);
    }
    try->stop = 0;
    return entry;
}

/* The codes that are told that they are not compiled, and one more: that of the function that met a transform, or None for
 * all if an operation failed, whose arguments may come from anywhere. New set; NULL without an exception if that is among
 * them already, or not known. */
static PyObject *
codes_with_last(PyObject *codes, const Stop *why)
{
    PyObject *code = why->reason == MG_REASON_TRANSFORM ? NULL : Py_None;
    for (Py_ssize_t i = why->where == NULL ? 0 : PyTuple_GET_SIZE(why->where); code == NULL && i-- > 0;) {
        PyObject *one = PyTuple_GET_ITEM(PyTuple_GET_ITEM(why->where, i), 0);
        int is_part = PyUnicode_READ_CHAR(((PyCodeObject *)one)->co_name, 0) == '<'; /* a comprehension */
        code = is_part ? NULL : one;
    }
    int known = code == NULL ? 1 : codes == NULL ? 0 : PySet_Contains(codes, code);
    PyObject *more = known != 0 ? NULL : PySet_New(codes);
    if (more != NULL && PySet_Add(more, code) < 0) {
        Py_CLEAR(more);
    }
    return more;
}

/* The same. What code does only because it is compiled may fail, as steps of some optimizers do, or lead to a transform of
 * functions: if it does not stop there when told that it is not, it is told so from then on. try->untold is new. */
static MgEntry *
capture_telling(MgCompiled *self, const Subject *subject, Try *try)
{
    enum { LIMIT = 4 };
    try->untold = Py_XNewRef(self->untold); /* another thread may replace that meanwhile */
    MgEntry *entry = capture_until(self, subject, try);
    for (int i = 0; i < LIMIT && try->failed && !PyErr_Occurred(); i++) {
        PyObject *codes = codes_with_last(try->untold, &try->why);
        if (codes == NULL) {
            break;
        }
        Try other = {.untold = codes};
        MgEntry *second = capture_until(self, subject, &other);
        int same = PyErr_Occurred() ? -1 : other.why.reason == try->why.reason;
        if (same > 0 && try->why.where != NULL && other.why.where != NULL) {
            same = PyObject_RichCompareBool(try->why.where, other.why.where, Py_EQ);
        }
        if (same != 0) {
            Py_DECREF(codes);
            Py_XDECREF(second);
            stop_clear(&other.why);
            break;
        }
        Py_XSETREF(self->untold, Py_NewRef(codes));
        Py_XDECREF(entry);
        Py_XDECREF(try->untold);
        stop_clear(&try->why);
        entry = second;
        *try = other;
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(entry);
    }
    return entry;
}

/* Something lives at the end of what was captured that can't be built again, a suspended generator say: finds the last
 * place before it exists. An entry that stops there, or NULL. */
static MgEntry *
capture_before(MgCompiled *self, const Subject *subject, const Try *before)
{
    enum { LIMIT = 16 };
    MgEntry *best = NULL;
    Try try = {.untold = before->untold, .metas = before->metas, .stop_node = before->stop_node};
    long low = 0, high = before->lost;
    for (int i = 0; i < LIMIT && high - low > 1 && !PyErr_Occurred(); i++) {
        try.stop = low + (high - low) / 2;
        try.stop_reason = before->why.reason;
        long middle = try.stop;
        MgEntry *entry = capture_until(self, subject, &try);
        if (entry != NULL) {
            Py_XSETREF(best, entry);
            low = middle;
        }
        else {
            high = middle;
        }
    }
    stop_clear(&try.why);
    if (PyErr_Occurred()) {
        Py_CLEAR(best);
    }
    return best;
}

/* Captures a call. A new entry, or NULL: with an exception, or without one if the call is to be made in CPython. */
static MgEntry *
capture_compiled(MgCompiled *self, const Subject *subject)
{
    self->captures++;
    double start = now();
    Try try = {0};
    MgEntry *entry = capture_telling(self, subject, &try);
    if (entry == NULL && try.lost > 0) {
        entry = capture_before(self, subject, &try);
    }
    Py_CLEAR(try.untold);
    int status = MG_OK;
    if (entry == NULL && (try.why.reason == MG_REASON_UNINITIALIZED || try.why.reason == MG_REASON_MEMORY) &&
        !try.why.strict) {
        self->captures--; /* the call is made in CPython, and makes the parameters: the next one is captured */
    }
    else if (entry == NULL && !PyErr_Occurred() && try.why.reason != MG_REASON_NONE) {
        status = tell_failure(self, &try.why);
    }
    else if (entry != NULL && entry->frames != NULL) {
        status = tell_stop(self, &try.why, "break");
    }
    stop_clear(&try.why);
    if (status < 0) {
        Py_CLEAR(entry);
    }
    if (entry == NULL) {
        return NULL;
    }
    if (self->captured != Py_None) {
        PyObject *told = PyObject_CallFunction(self->captured, "Od", (PyObject *)entry, now() - start);
        if (told == NULL) {
            Py_CLEAR(entry);
            return NULL;
        }
        Py_DECREF(told);
    }
    if (compile_entry(self, entry) < 0) {
        Py_CLEAR(entry);
    }
    return entry;
}

/* The same. If it raises, torch's state is what it was: an interrupt may have left contexts open. */
static MgEntry *
capture_subject(MgCompiled *self, const Subject *subject)
{
    MgState keys;
    int knows_keys = mg_layout_read_state(&keys);
    PyObject *state = mg_rules_read_state();
    MgEntry *entry = state == NULL ? NULL : capture_compiled(self, subject);
    if (MG_UNLIKELY(entry == NULL && state != NULL && PyErr_Occurred())) {
        PyObject *type, *value, *traceback;
        mg_recover_frames();
        PyErr_Fetch(&type, &value, &traceback);
        if (mg_rules_apply_state(state) < 0) { /* another interrupt: one is enough */
            PyErr_Clear();
        }
        if (knows_keys) {
            mg_layout_set_keys(&keys);
        }
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(state);
    return entry;
}

/* ---- operations that raise ---- */

/* Captures a call once more, up to the operation that has raised. A new entry that stops there, or at an earlier place; or
 * NULL, perhaps with an exception. */
static MgEntry *
capture_up_to(MgCompiled *self, const Subject *subject, const Ending *ending)
{
    MgTable metas = {0};
    PyObject *untold = Py_XNewRef(self->untold);
    Try try = {
        .stop_node = ending->failure.node + 1, .stop_reason = MG_REASON_FAULT, .untold = untold, .metas = &metas};
    Subject same = *subject;
    same.changing = (MgPaths){.count = 0};
    MgEntry *stop = NULL;
    if (mg_deopt_metas(ending->entry, &ending->failure, &metas) == MG_OK) {
        stop = capture_until(self, &same, &try);
        if (stop == NULL && try.lost > 0 && !PyErr_Occurred()) {
            stop = capture_before(self, &same, &try);
        }
    }
    stop_clear(&try.why);
    mg_table_free(&metas);
    Py_XDECREF(untold);
    if (stop != NULL && stop->frames == NULL) {
        Py_CLEAR(stop);
    }
    return stop;
}

/* An operation of a graph has raised: the program goes on there, with the error. 1 with ending->exit; 0 without an
 * exception if CPython is to make the call; -1 with the operation's exception. */
static int
deoptimise(MgCompiled *self, const Subject *subject, PyObject *const *arguments, Ending *ending)
{
    PyObject *error = mg_except_take(PyThreadState_Get());
    MgEntry *entry = ending->entry;
    MgEntry *stop = (MgEntry *)Py_XNewRef((PyObject *)mg_deopt_find(entry, ending->failure.node));
    int done = 0;
    if (stop != NULL) {
        done = mg_deopt_run(entry, &ending->failure, stop, arguments, error, (PyObject *)self, &ending->exit);
    }
    if (done == 0 && !PyErr_Occurred()) {
        Py_XSETREF(stop, capture_up_to(self, subject, ending));
        if (stop != NULL && mg_deopt_keep(entry, ending->failure.node, stop) > 0) {
            done = mg_deopt_run(entry, &ending->failure, stop, arguments, error, (PyObject *)self, &ending->exit);
        }
    }
    Py_XDECREF(stop);
    PyErr_Clear(); /* the operation's is the one to be told of */
    if (done == 0) {
        int repeats = PyErr_GivenExceptionMatches(error, PyExc_Exception) &&
                      mg_deopt_is_repeatable(entry, 0, ending->failure.node);
        done = repeats ? 0 : -1;
    }
    if (done < 0) {
        mg_except_restore(Py_NewRef(error));
    }
    Py_DECREF(error);
    ending_clear(ending);
    return done;
}

/* Tells Python why no entry fits; it may raise. 1 if it does not want to hear it again, 0, or -1. */
static int
tell_miss(MgCompiled *self, PyObject *const *arguments, int limit)
{
    if (self->missed == Py_None) {
        return 0;
    }
    PyObject *texts = explain_miss(self, arguments);
    PyObject *told =
        texts == NULL ? NULL : PyObject_CallFunction(self->missed, "OO", texts, limit > 0 ? Py_True : Py_False);
    Py_XDECREF(texts);
    int result = told == NULL ? -1 : PyObject_IsTrue(told);
    Py_XDECREF(told);
    return result;
}

/* The call as it is, in CPython; what it calls may be captured on its own. */
static PyObject *
call_plainly(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *owner = self->breaks && !self->fullgraph ? (PyObject *)self : NULL;
    return mg_hook_call_watched(owner, self->function, args, nargsf, kwnames);
}

/* ---- stances ---- */

/* 1 if a stance makes captures errors: what was captured in vain before is then left to CPython. */
static int
is_strict(MgStance stance)
{
    return stance == MG_STANCE_FAIL_ON_RECOMPILE || stance == MG_STANCE_SKIP_GUARDS;
}

/* 1 if hooks of the program's get the tensors that are saved for backward: code may look at what they do, operation by
 * operation. Those that torch itself sets, for checkpoints say, tell the program nothing. 0 or -1. */
static int
has_saving_hooks(void)
{
    PyObject *hooks = saving_hooks();
    PyObject *pack = hooks != NULL && PyTuple_Check(hooks) ? PyTuple_GET_ITEM(hooks, 0) : NULL;
    PyObject *module = pack != NULL && PyFunction_Check(pack) ? ((PyFunctionObject *)pack)->func_module : NULL;
    const char *name = module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    int found = hooks == NULL ? -1 : pack != NULL && (name == NULL || strncmp(name, "torch.", strlen("torch.")) != 0);
    if (found > 0) {
        PyErr_Clear();
    }
    Py_XDECREF(hooks);
    return found;
}

/* Whether a call that no entry fits is to be captured: not under a mode of the program's, which would see how that is
 * done. 1 if it is, 0 if it is to be made in CPython, -1 with an exception. */
static int
may_capture(MgCompiled *self, MgStance stance, PyCodeObject *code)
{
    int modes = mg_layout_has_modes();
    modes = modes == 0 ? has_saving_hooks() : modes;
    if (modes != 0) {
        return modes < 0 ? -1 : 0;
    }
    switch (stance) {
        case MG_STANCE_EAGER_ON_RECOMPILE:
            return 0;
        case MG_STANCE_FAIL_ON_RECOMPILE:
            PyErr_Format(PyExc_RuntimeError,
                         "Detected recompile when the stance is 'fail_on_recompile'. filename: '%U', function name: "
                         "'%U', line number: %d",
                         code->co_filename, code->co_name, code->co_firstlineno);
            return -1;
        case MG_STANCE_SKIP_GUARDS:
            PyErr_SetString(PyExc_RuntimeError,
                            "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you "
                            "have not warmed up your model with enough inputs such that you can guarantee no more "
                            "recompilations.");
            return -1;
        case MG_STANCE_EAGER_THEN_COMPILE:
            self->warm++;
            return self->warm > 1;
        default:
            return 1;
    }
}

/* A call under a stance that does not use the entries of this callable. New. */
static PyObject *
call_elsewhere(MgCompiled *self, MgStance stance, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (stance == MG_STANCE_INVALID) {
        PyErr_SetString(PyExc_RuntimeError, "torch.compiler.set_stance was given a stance that there is not");
        return NULL;
    }
    PyObject *outer = mg_hook_watch(NULL); /* nor is anything below to be captured */
    PyObject *target =
        stance == MG_STANCE_FORCE_BACKEND ? mg_stance_forced((PyObject *)self) : Py_NewRef(self->function);
    PyObject *result = target == NULL ? NULL : PyObject_Vectorcall(target, args, nargsf, kwnames);
    Py_XDECREF(target);
    mg_hook_watch(outer);
    return result;
}

/* Entries are made for a code, whose arguments they look at: with another one they go. */
static void
take_code(MgCompiled *self, PyObject *code)
{
    PyObject *before = self->code;
    MgEntry **entries = self->entries;
    int count = self->entry_count;
    mg_dispatch_free(self->decision.dispatch);
    self->decision = (MgDecision){0};
    self->code = Py_NewRef(code);
    self->entries = NULL;
    self->entry_count = self->entry_room = 0;
    self->changes++;
    self->failures = self->skip = self->told = self->warm = 0;
    for (int i = 0; i < count; i++) { /* from here on, any code can run */
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
    Py_XDECREF(before);
}

/* The class of the object that is compiled may have got another __call__: its method takes the place of the old one. 1, 0
 * if it has none that can be captured, or MG_ERR. */
static int
take_method(MgCompiled *self, PyObject *object)
{
    PyObject *found = _PyType_Lookup(Py_TYPE(object), MG_STRING("__call__"));
    if (MG_LIKELY(found == PyMethod_GET_FUNCTION(self->function))) {
        return 1;
    }
    if (found == NULL || !PyFunction_Check(found)) {
        return 0;
    }
    PyObject *method = PyMethod_New(found, object);
    if (method == NULL || (self->former == NULL && (self->former = PyList_New(0)) == NULL) ||
        PyList_Append(self->former, self->function) < 0) {
        Py_XDECREF(method);
        return MG_ERR;
    }
    Py_SETREF(self->function, method); /* the old one lives on */
    take_code(self, PyFunction_GET_CODE(found));
    return 1;
}

static PyObject *
compiled_call(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *function = self->function, *object = NULL;
    if (PyMethod_Check(function)) {
        object = PyMethod_GET_SELF(function);
        if (self->is_object) {
            int taken = take_method(self, object);
            if (taken <= 0) {
                return taken < 0 ? NULL : PyObject_Vectorcall(object, args, nargsf, kwnames);
            }
        }
        function = PyMethod_GET_FUNCTION(self->function);
    }
    if (!PyFunction_Check(function) || mg_capture_current != NULL || mg_aside_depth > 0 ||
        PyThreadState_Get()->cframe->use_tracing) {
        return PyObject_Vectorcall(self->function, args, nargsf, kwnames);
    }
    MgStance stance = mg_stance_get();
    if (MG_UNLIKELY(stance != MG_STANCE_DEFAULT) && (stance == MG_STANCE_FORCE_EAGER || stance == MG_STANCE_INVALID ||
                                                     (stance == MG_STANCE_FORCE_BACKEND && !self->forced))) {
        return call_elsewhere(self, stance, args, nargsf, kwnames);
    }
    if (MG_UNLIKELY(PyFunction_GET_CODE(function) != self->code)) {
        take_code(self, PyFunction_GET_CODE(function));
    }
    PyObject *code = PyFunction_GET_CODE(function); /* kept alive as long as it is that of the callable */
    Bound bound;
    int fits = bind((PyFunctionObject *)function, object, args, PyVectorcall_NARGS(nargsf), kwnames, &bound);
    PyObject *result = NULL;
    Ending ending = {.exit = NULL};
    Subject subject = {.args = args, .nargsf = nargsf, .kwnames = kwnames};
    int found = 0;
    PyObject *outer = mg_hook_watch(NULL); /* neither graphs nor backends are to be captured */
    if (fits < 0) {
        goto done;
    }
    if (fits > 0) {
        result = try_own(self, code, bound.values, &found, &ending);
        if (found != 0) {
            goto done;
        }
    }
    if (is_strict(stance) && self->entry_count == 0 && (self->plain || self->failures > 0)) {
        result = call_plainly(self, args, nargsf, kwnames);
        goto done;
    }
    int wanted = fits == 0 ? 1 : may_capture(self, stance, (PyCodeObject *)PyFunction_GET_CODE(function));
    if (wanted < 0) {
        goto done;
    }
    if (wanted == 0) {
        result = PyObject_Vectorcall(self->function, args, nargsf, kwnames);
        goto done;
    }
    int limit = self->limit < 0 ? mg_callable_limit : self->limit;
    if (fits > 0 && self->entry_count >= limit && self->told != limit + 1) {
        int enough = tell_miss(self, bound.values, limit);
        if (enough < 0) {
            goto done;
        }
        self->told = enough ? limit + 1 : 0;
    }
    if (fits == 0 || self->code != code || self->plain || self->skip > 0 || self->entry_count >= limit) {
        self->skip -= self->skip > 0;
        result = call_plainly(self, args, nargsf, kwnames);
        goto done;
    }
    if (self->entry_count > 0 && tell_miss(self, bound.values, 0) < 0) {
        goto done;
    }
    uint64_t changes = self->changes;
    MgEntry *entry = capture_subject(self, &subject);
    if (entry == NULL) {
        if (!PyErr_Occurred()) {
            result = call_plainly(self, args, nargsf, kwnames);
        }
        goto done;
    }
    if (self->code != code) {
        Py_DECREF(entry);
        result = call_plainly(self, args, nargsf, kwnames);
        goto done;
    }
    if (self->changes != changes) { /* another thread may have captured the same meanwhile */
        result = try_own(self, code, bound.values, &found, &ending);
        if (found != 0) {
            Py_DECREF(entry);
            goto done;
        }
    }
    int status = add_entry(self, entry);
    if (status == MG_OK) { /* run it as on any later call */
        result = try_own(self, code, bound.values, &found, &ending);
        if (found == 0 && !PyErr_Occurred()) { /* its guards do not hold for the very call it was made from */
            PyErr_Clear();
            result = call_plainly(self, args, nargsf, kwnames);
        }
    }
    Py_DECREF(entry);
done:
    if (MG_UNLIKELY(found == 3) && deoptimise(self, &subject, bound.values, &ending) == 0) {
        result = PyObject_Vectorcall(self->function, args, nargsf, kwnames);
    }
    bound_clear(&bound);
    if (ending.exit != NULL) { /* it stops at a break: the frames are made, and go on */
        mg_hook_acquire();
        mg_hook_watch((PyObject *)self);
        result = mg_exit_enter(ending.exit, 0);
        mg_hook_release();
        mg_exit_release(ending.exit);
    }
    mg_hook_watch(outer);
    return result;
}

/* ---- continuing after a break ---- */

/* Which slots are empty: those of dead locals are not told apart. MG_ERR if the frame is too large. */
static int
find_empty(MgFrame *frame, int offset, int depth, uint8_t *empty)
{
    if (depth >= 8 * EMPTY_BYTES) {
        return MG_ERR;
    }
    memset(empty, 0, EMPTY_BYTES);
    for (int i = 0; i < depth; i++) {
        if (frame->localsplus[i] == NULL &&
            (i >= frame->f_code->co_nlocalsplus || mg_exit_is_live(frame->f_code, offset, i))) {
            empty[i / 8] |= (uint8_t)(1 << i % 8);
        }
    }
    return MG_OK;
}

/* Frees what points hold, which can run any code. */
static void
free_points(MgPoint *points, int count)
{
    for (int i = 0; i < count; i++) {
        MgPoint *point = &points[i];
        for (int k = 0; k < point->entry_count; k++) {
            Py_DECREF(point->entries[k]);
        }
        PyMem_Free(point->entries);
        mg_dispatch_free(point->decision.dispatch);
        PyMem_Free(point->empty);
        Py_DECREF(point->code);
        Py_DECREF(point->globals);
    }
    PyMem_Free(points);
}

enum { MOST_POINTS = 1024, OLD = 8 * MOST_POINTS };

/* Makes room if there are too many points: code that is made anew for each call, by exec() say, has its own. Those that
 * have not been looked for for long go. 1 if there is room, 0 if not, -1 with an exception. */
static int
make_room(MgCompiled *self)
{
    if (self->point_count < MOST_POINTS) {
        return 1;
    }
    MgPoint *old = PyMem_Malloc(sizeof(MgPoint) * MOST_POINTS);
    if (old == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int kept = 0, gone = 0;
    for (int i = 0; i < self->point_count; i++) {
        if (self->looks - self->points[i].used > OLD) {
            old[gone++] = self->points[i];
        }
        else {
            self->points[kept++] = self->points[i];
        }
    }
    self->point_count = kept;
    self->changes++;
    free_points(old, gone);
    return gone > 0;
}

/* The capture point for a place in a code object; made if it is new. NULL with an exception, or without one if there are
 * too many. */
static MgPoint *
find_point(MgCompiled *self, MgFrame *frame, int offset, int depth, const uint8_t *empty)
{
    self->looks++;
    for (int i = 0; i < self->point_count; i++) {
        MgPoint *point = &self->points[i];
        if (point->code == frame->f_code && point->offset == offset && point->depth == depth &&
            memcmp(point->empty, empty, (size_t)depth / 8 + 1) == 0) {
            point->used = self->looks;
            return point;
        }
    }
    if (make_room(self) <= 0) {
        return NULL;
    }
    MgPoint *points = PyMem_Realloc(self->points, sizeof(MgPoint) * (size_t)(self->point_count + 1));
    uint8_t *copy = PyMem_Malloc(EMPTY_BYTES);
    if (points != NULL) {
        self->points = points;
    }
    if (points == NULL || copy == NULL) {
        PyMem_Free(copy);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(copy, empty, EMPTY_BYTES);
    self->points[self->point_count] = (MgPoint){.code = (PyCodeObject *)Py_NewRef((PyObject *)frame->f_code),
                                                .globals = Py_NewRef(frame->f_globals),
                                                .offset = offset,
                                                .depth = depth,
                                                .used = self->looks,
                                                .empty = copy};
    return &self->points[self->point_count++];
}

static uint64_t
path_of(const MgProgram *guards, int step, int level)
{
    const MgStep *at = &guards->steps[step];
    int ends = at->base < 0 || level == MG_MOST_LEVELS;
    return mg_source_path(&at->source, ends ? 0 : path_of(guards, at->base, level + 1));
}

enum { MANY_TEXTS = 6 }; /* a string is one of a few more often than a number is: entries for so many */

/* None of these entries of a point fits: finds the plain values that two of them do not like. MG_OK or MG_ERR. */
static int
find_changes(PyObject *entries, MgFrame *frame, MgPaths *changes)
{
    MgPaths once = {.count = 0};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++) {
        MgProgram *guards = &((MgEntry *)PyTuple_GET_ITEM(entries, i))->guards;
        PyObject **registers = PyMem_Malloc(sizeof(PyObject *) * (size_t)(guards->step_count + 1));
        if (registers == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        int failed = -1;
        int fits = mg_guard_run_all(guards, frame->localsplus, registers, &failed);
        PyMem_Free(registers);
        if (fits < 0) {
            return MG_ERR;
        }
        if (fits > 0 || failed < 0 || guards->checks[failed].kind != MG_GUARD_VALUE ||
            (PyUnicode_Check(guards->checks[failed].expected) && PyTuple_GET_SIZE(entries) < MANY_TEXTS)) {
            continue;
        }
        uint64_t path = path_of(guards, guards->checks[failed].source, 0);
        if (mg_paths_have(&once, path)) {
            mg_paths_add(changes, path);
        }
        mg_paths_add(&once, path);
    }
    return MG_OK;
}

/* What changes from call to call at a point, as far as its entries tell; the point is found anew, since reading torch's
 * state may let others run. NULL with an exception. */
static MgPoint *
note_changes(MgCompiled *self, MgPoint *point, MgFrame *frame, int offset, int depth, const uint8_t *empty)
{
    if (point->entry_count < 2) {
        return point;
    }
    PyObject *entries = PyTuple_New(point->entry_count);
    for (int i = 0; entries != NULL && i < point->entry_count; i++) {
        PyTuple_SET_ITEM(entries, i, Py_NewRef((PyObject *)point->entries[i]));
    }
    MgPaths changes = {.count = 0};
    int status = entries == NULL ? MG_ERR : find_changes(entries, frame, &changes);
    Py_XDECREF(entries);
    point = status < 0 ? NULL : find_point(self, frame, offset, depth, empty);
    for (int i = 0; point != NULL && i < changes.count; i++) {
        mg_paths_add(&point->changing, changes.items[i]);
    }
    return point;
}

static int
point_add(MgCompiled *self, MgPoint *point, MgEntry *entry)
{
    MgEntry **entries = PyMem_Realloc(point->entries, sizeof(MgEntry *) * (size_t)(point->entry_count + 1));
    if (entries == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    memmove(entries + 1, entries, sizeof(MgEntry *) * (size_t)point->entry_count);
    entries[0] = (MgEntry *)Py_NewRef((PyObject *)entry);
    point->entries = entries;
    point->entry_count++;
    self->changes++;
    return MG_OK;
}

/* 1 if an entry is worth keeping: one that does nothing but return is left to CPython. */
static int
does_something(MgEntry *entry)
{
    return entry->node_count > entry->input_count || entry->frames != NULL;
}

/* What comes of a frame for which no entry has run. Where memory ran out CPython goes on with it: the frame may be about
 * to leave a block, where no handler sees an error. */
static MgContinue
without_entry(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
    }
    return PyErr_Occurred() ? MG_CONTINUE_ERROR : MG_CONTINUE_PLAIN;
}

static MgContinue
continue_frame(MgCompiled *self, MgFrame *frame, MgUnit *next, PyObject **sp, PyObject **result, Ending *ending)
{
    int offset = (int)(next - mg_frame_code_start(frame)), depth = (int)(sp - frame->localsplus);
    uint8_t empty[EMPTY_BYTES];
    if (find_empty(frame, offset, depth, empty) < 0) {
        return MG_CONTINUE_PLAIN;
    }
    MgPoint *point = find_point(self, frame, offset, depth, empty);
    if (point == NULL) {
        return without_entry();
    }
    if (self->fullgraph || !self->breaks || point->given_up || point->globals != frame->f_globals ||
        mg_capture_current != NULL) {
        return MG_CONTINUE_PLAIN;
    }
    int found = 2;
    for (int tries = 0; found == 2 && tries < 100; tries++) {
        point = find_point(self, frame, offset, depth, empty); /* trying may have let others run */
        if (point == NULL) {
            return without_entry();
        }
        *result =
            try_entries(self, point->entries, point->entry_count, &point->decision, frame->localsplus, &found, ending);
    }
    if (found == 0 || found == 2) {
        MgStance stance = mg_stance_get();
        point = find_point(self, frame, offset, depth, empty);
        if (point != NULL && is_strict(stance) && point->entry_count == 0 && point->failures > 0) {
            return MG_CONTINUE_PLAIN;
        }
        int wanted =
            may_capture(self, stance == MG_STANCE_EAGER_THEN_COMPILE ? MG_STANCE_DEFAULT : stance, frame->f_code);
        if (wanted <= 0) {
            return without_entry();
        }
        int limit = self->limit < 0 ? mg_callable_limit : self->limit;
        point = find_point(self, frame, offset, depth, empty); /* the backend's guard may have run any code */
        if (point == NULL) {
            return without_entry();
        }
        if (point->entry_count >= limit) {
            return MG_CONTINUE_PLAIN;
        }
        point = note_changes(self, point, frame, offset, depth, empty);
        if (point == NULL) {
            return without_entry();
        }
        Subject subject = {.frame = frame, .next = next, .sp = sp};
        subject.changing = point->changing;
        int captures = (int)self->captures;
        MgEntry *entry = capture_subject(self, &subject);
        if (entry == NULL && PyErr_Occurred()) {
            return without_entry();
        }
        point = find_point(self, frame, offset, depth, empty); /* so may the backend: the table may be another */
        if (point == NULL) {
            Py_XDECREF(entry);
            return without_entry();
        }
        if (entry == NULL && (int)self->captures == captures) { /* it does not count, see there */
            return MG_CONTINUE_PLAIN;
        }
        if (entry == NULL) {
            point->given_up = ++point->failures > 2;
            return MG_CONTINUE_PLAIN;
        }
        if (!does_something(entry)) {
            point->given_up = ++point->failures > 2;
            Py_DECREF(entry);
            return MG_CONTINUE_PLAIN;
        }
        int status = point_add(self, point, entry);
        Py_DECREF(entry);
        if (status < 0) {
            return without_entry();
        }
        *result =
            try_entries(self, point->entries, point->entry_count, &point->decision, frame->localsplus, &found, ending);
        if (found == 2) { /* others have run: the frame goes on as it is */
            return MG_CONTINUE_PLAIN;
        }
        if (found == 0) {
            point = find_point(self, frame, offset, depth, empty);
            if (point != NULL) {
                point->given_up = 1;
            }
            return without_entry();
        }
    }
    if (found < 0) {
        return without_entry();
    }
    Subject subject = {.frame = frame, .next = next, .sp = sp};
    if (found == 3 && deoptimise(self, &subject, frame->localsplus, ending) == 0) {
        return MG_CONTINUE_PLAIN;
    }
    if (ending->exit != NULL) {
        return MG_CONTINUE_EXIT;
    }
    return *result != NULL ? MG_CONTINUE_RETURN : MG_CONTINUE_ERROR;
}

MgContinue
mg_callable_continue(PyObject *owner, MgFrame *frame, MgUnit *next, PyObject **sp, PyObject **result, MgExit **exit)
{
    PyObject *outer = mg_hook_watch(NULL);
    Ending ending = {.exit = NULL};
    MgContinue how = continue_frame((MgCompiled *)owner, frame, next, sp, result, &ending);
    *exit = ending.exit;
    mg_hook_watch(outer);
    return how;
}

/* ---- the type ---- */

static int
compiled_traverse(MgCompiled *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->former);
    Py_VISIT(self->code);
    Py_VISIT(self->compile);
    Py_VISIT(self->failed);
    Py_VISIT(self->missed);
    Py_VISIT(self->captured);
    Py_VISIT(self->untold);
    Py_VISIT(self->stopped);
    Py_VISIT(self->dict);
    for (int i = 0; i < self->entry_count; i++) {
        Py_VISIT(self->entries[i]);
    }
    for (int i = 0; i < self->point_count; i++) {
        MgPoint *point = &self->points[i];
        Py_VISIT(point->code);
        Py_VISIT(point->globals);
        for (int k = 0; k < point->entry_count; k++) {
            Py_VISIT(point->entries[k]);
        }
    }
    return 0;
}

static void
drop_entries(MgCompiled *self)
{
    MgPoint *points = self->points;
    MgEntry **entries = self->entries;
    int point_count = self->point_count, count = self->entry_count;
    mg_dispatch_free(self->decision.dispatch);
    self->decision = (MgDecision){0};
    self->points = NULL;
    self->entries = NULL;
    self->point_count = self->entry_count = self->entry_room = 0;
    self->changes++; /* all is taken out before anything is dropped: dropping can run any code */
    free_points(points, point_count);
    for (int i = 0; i < count; i++) {
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
}

static int
compiled_clear(MgCompiled *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->former);
    Py_CLEAR(self->code);
    Py_CLEAR(self->compile);
    Py_CLEAR(self->failed);
    Py_CLEAR(self->missed);
    Py_CLEAR(self->captured);
    Py_CLEAR(self->untold);
    Py_CLEAR(self->stopped);
    Py_CLEAR(self->dict);
    drop_entries(self);
    return 0;
}

static void
compiled_dealloc(MgCompiled *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    compiled_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "compile",   "failed",  "missed", "limit",
                            "captured", "fullgraph", "stopped", NULL};
    PyObject *function, *compile, *failed, *missed = Py_None, *captured = Py_None, *stopped = Py_None;
    int limit = -1, fullgraph = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OiOpO", names, &function, &compile, &failed, &missed, &limit,
                                     &captured, &fullgraph, &stopped)) {
        return NULL;
    }
    if (mg_torch.tensor == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "configure() comes first");
        return NULL;
    }
    if (!PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "only a callable can be compiled");
        return NULL;
    }
    MgCompiled *self = (MgCompiled *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = (vectorcallfunc)compiled_call;
    self->function = Py_NewRef(function);
    self->compile = Py_NewRef(compile);
    self->failed = Py_NewRef(failed);
    self->missed = Py_NewRef(missed);
    self->captured = Py_NewRef(captured);
    self->stopped = Py_NewRef(stopped);
    self->limit = limit;
    self->fullgraph = fullgraph;
    return (PyObject *)self;
}

static PyObject *
compiled_entries(MgCompiled *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(self->entry_count);
    for (int i = 0; list != NULL && i < self->entry_count; i++) {
        MgEntry *entry = self->entries[i];
        int at = i; /* the list of entries is in this order only if it is short */
        while (at > 0 && ((MgEntry *)PyList_GET_ITEM(list, at - 1))->last_run < entry->last_run) {
            PyList_SET_ITEM(list, at, PyList_GET_ITEM(list, at - 1));
            at--;
        }
        PyList_SET_ITEM(list, at, Py_NewRef((PyObject *)entry));
    }
    for (int i = 0; list != NULL && i < self->point_count; i++) {
        for (int k = 0; list != NULL && k < self->points[i].entry_count; k++) {
            if (PyList_Append(list, (PyObject *)self->points[i].entries[k]) < 0) {
                Py_CLEAR(list);
            }
        }
    }
    return list;
}

static PyObject *
compiled_reset(MgCompiled *self, PyObject *unused)
{
    (void)unused;
    drop_entries(self);
    self->failures = self->skip = self->told = self->warm = 0;
    Py_RETURN_NONE;
}

static PyObject *
compiled_get(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyMethodDef compiled_methods[] = {
    {"entries", (PyCFunction)compiled_entries, METH_NOARGS, "The entries, most recent first."},
    {"reset", (PyCFunction)compiled_reset, METH_NOARGS, "Forget all entries and failures."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef compiled_members[] = {
    {"profiling", T_INT, offsetof(MgCompiled, profiling), 0, "Whether calls are timed."},
    {"function", T_OBJECT, offsetof(MgCompiled, function), READONLY, "What is compiled."},
    {"failed", T_OBJECT, offsetof(MgCompiled, failed), READONLY, "What is told of aborted captures."},
    {"captures", T_ULONGLONG, offsetof(MgCompiled, captures), READONLY, "How often capture was tried."},
    {"failures", T_INT, offsetof(MgCompiled, failures), READONLY, "How often capture was aborted."},
    {"breaks", T_INT, offsetof(MgCompiled, breaks), 0, "Whether graphs may end at a break."},
    {"fullgraph", T_INT, offsetof(MgCompiled, fullgraph), READONLY, "Whether no call may run in CPython."},
    {"plain", T_INT, offsetof(MgCompiled, plain), 0, "Whether only what the function calls is captured."},
    {"is_object", T_INT, offsetof(MgCompiled, is_object), 0, "Whether it is an object that is compiled."},
    {"forced", T_INT, offsetof(MgCompiled, forced), 0, "Whether it was made for a forced backend."},
    {"limit", T_INT, offsetof(MgCompiled, limit), 0, "How many entries there may be; -1 for the common limit."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef compiled_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, "Its attributes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject MgCompiled_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Compiled",
    .tp_doc = "A callable that captures, compiles and runs a function.",
    .tp_basicsize = sizeof(MgCompiled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = compiled_new,
    .tp_dealloc = (destructor)compiled_dealloc,
    .tp_traverse = (traverseproc)compiled_traverse,
    .tp_clear = (inquiry)compiled_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(MgCompiled, vectorcall),
    .tp_weaklistoffset = offsetof(MgCompiled, weakrefs),
    .tp_dictoffset = offsetof(MgCompiled, dict),
    .tp_getset = compiled_getset,
    .tp_descr_get = compiled_get,
    .tp_methods = compiled_methods,
    .tp_members = compiled_members,
};

int
mg_callable_types_ready(void)
{
    return PyType_Ready(&MgCompiled_Type);
}
