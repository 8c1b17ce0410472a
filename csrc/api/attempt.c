/* Attempts: captures what has no entry yet, again and with less if it must, and has a backend compile what came of it. */
#include "api/parts.h"

#include "api/callable.h"
#include "capture/recover.h"
#include "capture/varying.h"
#include "cpython/aside.h"
#include "cpython/except.h"
#include "entry/loosen.h"
#include "entry/replay.h"
#include "policy/control.h"
#include "policy/rules.h"
#include "torch/layout.h"
#include "torch/state.h"
#include "trace/commit.h"
#include "trace/deopt.h"
#include "trace/trace.h"

#include <structmember.h>
#include <time.h>

static void
stop_clear(MgStopped *stop)
{
    Py_CLEAR(stop->detail);
    Py_CLEAR(stop->where);
    stop->reason = MG_REASON_NONE;
}

/* Tells Python why a graph ends ("break"), or why there is none ("skip", or "error" if it has to raise); it may raise in
 * any case, or return what to raise if the call itself does not. MG_OK or MG_ERR. */
static int
tell_stop(MgCompiled *self, const MgStopped *stop, const char *action)
{
    assert(stop->reason > MG_REASON_NONE && stop->reason < MG_REASON_COUNT);
    PyObject *result = PyObject_CallFunction(
        self->stopped, "ssOOs", mg_reason_name(stop->reason), mg_reason_text(stop->reason),
        stop->detail == NULL ? Py_None : stop->detail, stop->where == NULL ? Py_None : stop->where, action);
    if (result != NULL && result != Py_None) {
        Py_XSETREF(self->owed, Py_NewRef(result));
    }
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

/* Tells Python that a capture was aborted, and puts off the next. */
static int
tell_failure(MgCompiled *self, const MgStopped *stop)
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

/* Tells captures of this place in the program from others that share the lattice. */
static uint64_t
salt_of(const MgSubject *subject)
{
    if (subject->frame == NULL) {
        return 0;
    }
    uint64_t place = (uint64_t)(uintptr_t)mg_frame_code(subject->frame) ^
                     (uint64_t)(subject->next - mg_frame_code_start(subject->frame)) << 48;
    return place * 0x9e3779b97f4a7c15u;
}

/* The backend has taken floats for constants, whose nodes are in the list: they do not vary from now on. */
static void
fix_floats(MgCompiled *self, const MgSubject *subject, const MgEntry *entry, PyObject *nodes)
{
    for (Py_ssize_t i = 0; self->lattice != NULL && i < PyList_GET_SIZE(nodes); i++) {
        long node = PyLong_AsLong(PyList_GET_ITEM(nodes, i));
        for (int k = 0; k < entry->input_count; k++) {
            if (entry->input_nodes[k] == node) {
                uint64_t path = mg_guard_path(&entry->guards, entry->inputs[k]);
                mg_lattice_fix_float((MgLattice *)self->lattice, path, salt_of(subject));
            }
        }
    }
}

/* Returns the graph of a new entry to the backend. MG_OK, MG_ERR, or MG_BREAK if it can't do with sizes or floats that vary:
 * `only_floats` is set if it is floats, which are constants from now on. */
static int
compile_entry(MgCompiled *self, const MgSubject *subject, MgEntry *entry, int *only_floats)
{
    PyObject *compiled = Py_NewRef(Py_None);
    *only_floats = 0;
    if (self->compile != Py_None && entry->node_count > entry->input_count) {
        Py_SETREF(compiled, PyObject_CallOneArg(self->compile, (PyObject *)entry));
        if (compiled != NULL && PyList_Check(compiled)) {
            fix_floats(self, subject, entry, compiled);
            *only_floats = 1;
            Py_DECREF(compiled);
            return MG_BREAK;
        }
        if (compiled == NULL || compiled == Py_NotImplemented) {
            Py_XDECREF(compiled);
            return compiled == NULL ? MG_ERR : MG_BREAK;
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

/* ---- one capture: start, run, judge, commit or abort, end ---- */

/* Gives a capture what has varied so far. MG_OK or MG_ERR. */
static int
take_lattice(MgCompiled *self, const MgSubject *subject, MgCapture *capture)
{
    capture->varying.salt = salt_of(subject);
    if (subject->is_again) {
        capture->varying.lattice = (MgLattice *)Py_XNewRef((PyObject *)subject->frozen);
        return MG_OK;
    }
    if (self->lattice == NULL && (self->lattice = (PyObject *)mg_lattice_new()) == NULL) {
        return MG_ERR;
    }
    MgDynamic dynamic = (MgDynamic)self->dynamic;
    if (dynamic == MG_DYNAMIC_AUTOMATIC) { /* what the settings say */
        dynamic = !mg_callable_static ? MG_DYNAMIC_ALL : mg_callable_automatic ? dynamic : MG_DYNAMIC_NONE;
    }
    mg_lattice_set((MgLattice *)self->lattice, dynamic);
    capture->varying.lattice = (MgLattice *)Py_NewRef(self->lattice);
    return MG_OK;
}

/* A new capture, with what it may do and where it has to stop. NULL with an exception if there is no memory. */
static MgCapture *
start_capture(MgCompiled *self, const MgSubject *subject, const MgTry *try)
{
    MgCapture *capture = mg_capture_new();
    if (capture == NULL) {
        return NULL;
    }
    capture->breaks.can_break = (self->breaks && !self->fullgraph) || try->metas != NULL;
    capture->graph.metas = try->metas;
    capture->breaks.stop_node = try->stop_node;
    capture->breaks.stop = try->stop;
    capture->breaks.stop_reason = try->stop_reason;
    capture->around.not_compiling = try->untold;
    capture->symbols.allow_scalars = self->fullgraph || mg_callable_scalars;
    capture->symbols.allow_shapes = self->fullgraph || mg_callable_shapes;
    capture->graph.foreign = self->compile != Py_None;
    capture->changing = subject->changing;
    if (take_lattice(self, subject, capture) < 0) {
        mg_capture_free(capture);
        return NULL;
    }
    return capture;
}

/* Runs the call in tracing mode. What it returns; NULL if the capture stopped: the capture knows why. */
static PyObject *
run_capture(MgCapture *capture, const MgCompiled *self, const MgSubject *subject)
{
    PyObject *result = subject->frame != NULL
                           ? mg_trace_frame(capture, subject->frame, subject->next, subject->sp)
                           : mg_trace_run(capture, self->function, subject->args, subject->nargsf, subject->kwnames);
    return capture->finals.dropped > 0 ? NULL : result;
}

/* What may become of a capture. */
typedef struct {
    int can_break; /* what comes before the stop can be an entry that ends in a break */
    int strict;    /* the stop has to raise */
} Verdict;

/* Judges a capture by the reason for which it stopped, if it did. A capture up to step `asked` was told to stop there. */
static Verdict
judge(MgCapture *capture, MgTry *try, int stopped, long asked)
{
    int raised = capture->reason == MG_REASON_EXCEPTION && asked == 0;
    int can_break = capture->breaks.can_break && !raised;
    int hard = capture->reason == MG_REASON_TRANSFORM || (capture->reason == MG_REASON_OPERATION_FAILED && can_break);
    if (hard && capture->around.saw_is_compiling) {
        try->failed = 1;
    }
    if (raised && capture->breaks.can_break && capture->interrupt == NULL && capture->graph.node_count > 0) {
        try->stop = capture->breaks.raised; /* again, up to there: what comes before is captured */
    }
    int is_error = stopped && can_break && try->metas == NULL ? mg_control_error_on_break(capture) : 0;
    if (is_error < 0) {
        mg_recover_interrupt(capture);
    }
    int strict = capture->reason == MG_REASON_FORBIDDEN || is_error > 0;
    return (Verdict){.can_break = can_break && !strict && is_error >= 0, .strict = strict};
}

/* Makes an entry of all that was captured, or of what comes before the break. NULL if there is none; try->stop is then where
 * the next capture should stop, and try->lost how far this one came if nothing can be built again there (0 if not). */
static MgEntry *
commit_capture(MgCapture *capture, PyObject *result, Verdict verdict, MgTry *try)
{
    MgEntry *entry = NULL;
    assert(result == NULL || capture->reason == MG_REASON_NONE); /* it came to its end */
    if (result != NULL) {
        entry = mg_commit(capture, result);
    }
    else if (verdict.can_break && capture->finals.dropped > 0) {
        try->stop = capture->finals.dropped;
    }
    else if (verdict.can_break && mg_exit_ready(capture)) {
        PyErr_Clear();
        entry = mg_commit(capture, NULL);
    }
    else if (verdict.can_break && capture->breaks.restart > 0) {
        try->stop = capture->breaks.restart;
    }
    if (entry == NULL && verdict.can_break && capture->breaks.refused) {
        try->lost = capture->steps;
    }
    assert(entry == NULL || (entry->frames == NULL) == (result != NULL)); /* it returns, or stops at a break */
    return entry;
}

/* Ends a capture, and puts the state of the process back. Returns the entry; NULL, with an exception, if an interrupt came. */
static MgEntry *
end_capture(MgCapture *capture, MgEntry *entry, MgTry *try)
{
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
    return entry;
}

/* An entry, or NULL: with an exception, or without one if nothing came of it. */
static MgEntry *
capture_once(MgCompiled *self, const MgSubject *subject, MgTry *try)
{
    long asked = try->stop;
    MgCapture *capture = start_capture(self, subject, try);
    try->stop = try->lost = 0;
    stop_clear(&try->why);
    if (capture == NULL) {
        return NULL;
    }
    mg_collections_hold(); /* what it leaves in cycles must not be finalized before it is marked, when the capture is freed */
    PyObject *result = run_capture(capture, self, subject);
    Verdict verdict = judge(capture, try, result == NULL, asked);
    MgEntry *entry = commit_capture(capture, result, verdict, try);
    try->why = (MgStopped){capture->reason, Py_XNewRef(capture->detail), Py_XNewRef(capture->where), verdict.strict};
    try->too_much = capture->varying.is_too_much;
    try->unfit |= capture->varying.is_unfit;
    entry = end_capture(capture, entry, try);
    mg_collections_release();
    return entry;
}

/* ---- several captures of one call ---- */

/* The same, again and again while a capture has to stop earlier than the one before. The reason of the first is kept
 * if that is where the last stopped. */
static MgEntry *
capture_until(MgCompiled *self, const MgSubject *subject, MgTry *try)
{
    enum { LIMIT = 16 };
    MgEntry *entry = NULL;
    MgStopped first = {.reason = try->stop_reason};
    for (int i = 0; i < LIMIT; i++) {
        entry = capture_once(self, subject, try);
        if (try->stop == 0) {
            break;
        }
        if (first.reason == MG_REASON_NONE) {
            first = try->why;
            try->why = (MgStopped){.reason = MG_REASON_NONE};
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
codes_with_last(PyObject *codes, const MgStopped *why)
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
capture_telling(MgCompiled *self, const MgSubject *subject, MgTry *try)
{
    enum { LIMIT = 4 };
    try->untold = Py_XNewRef(self->untold); /* another thread may replace that meanwhile */
    MgEntry *entry = capture_until(self, subject, try);
    for (int i = 0; i < LIMIT && try->failed && !PyErr_Occurred(); i++) {
        PyObject *codes = codes_with_last(try->untold, &try->why);
        if (codes == NULL) {
            break;
        }
        MgTry other = {.untold = codes};
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
capture_before(MgCompiled *self, const MgSubject *subject, const MgTry *before)
{
    enum { LIMIT = 16 };
    MgEntry *best = NULL;
    MgTry try = {.untold = before->untold, .metas = before->metas, .stop_node = before->stop_node};
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

/* Drops the guards that the user does not want. MG_OK or MG_ERR. */
static int
loosen_entry(MgCompiled *self, MgEntry *entry, const MgSubject *subject)
{
    PyObject *const *arguments = subject->frame != NULL ? mg_frame_slots(subject->frame) : subject->bound;
    if (self->filter == Py_None || arguments == NULL) {
        return MG_OK;
    }
    PyObject *filter = PyObject_CallNoArgs(self->filter);
    int status = filter == NULL ? MG_ERR : filter == Py_None ? MG_OK : mg_entry_loosen(entry, filter, arguments);
    Py_XDECREF(filter);
    return status;
}

static MgEntry *capture_compiled(MgCompiled *self, const MgSubject *subject);

/* Captures a call whose sizes can't vary after all: with the sizes and numbers that it has. */
static MgEntry *
capture_fixed(MgCompiled *self, const MgSubject *subject)
{
    MgSubject fixed = *subject;
    fixed.is_again = 1;
    fixed.frozen = NULL;
    self->captures--;
    return capture_compiled(self, &fixed);
}

/* Captures a call whose floats can't vary after all; if they vary again, with the sizes that it has. */
static MgEntry *
capture_without_floats(MgCompiled *self, const MgSubject *subject)
{
    MgSubject same = *subject;
    same.without_floats = 1;
    if (subject->without_floats || subject->is_again) {
        return capture_fixed(self, subject);
    }
    self->captures--;
    return capture_compiled(self, &same);
}

/* Captures a call. A new entry, or NULL: with an exception, or without one if the call is to be made in CPython. */
static MgEntry *
capture_compiled(MgCompiled *self, const MgSubject *subject)
{
    self->captures++;
    double start = now();
    MgTry try = {0};
    MgEntry *entry = capture_telling(self, subject, &try);
    if (entry == NULL && try.lost > 0) {
        entry = capture_before(self, subject, &try);
    }
    Py_CLEAR(try.untold);
    if (try.unfit && !subject->is_again && !PyErr_Occurred()) {
        Py_CLEAR(entry);
        try.too_much = 1;
    }
    if (entry == NULL && try.too_much && !PyErr_Occurred()) {
        stop_clear(&try.why);
        return capture_fixed(self, subject);
    }
    int status = MG_OK;
    if (entry == NULL && (try.why.reason == MG_REASON_UNINITIALIZED || try.why.reason == MG_REASON_MEMORY) &&
        !try.why.strict) {
        self->captures--; /* the call is made in CPython, and makes the parameters: the next one is captured */
    }
    else if (entry == NULL && !PyErr_Occurred() && try.why.reason != MG_REASON_NONE) {
        status = tell_failure(self, &try.why);
    }
    else if (entry != NULL && entry->frames != NULL) {
        entry->is_last = try.why.reason == MG_REASON_OPERATION_FAILED || try.why.reason == MG_REASON_EXCEPTION;
        status = tell_stop(self, &try.why, "break");
    }
    stop_clear(&try.why);
    if (status < 0) {
        Py_CLEAR(entry);
    }
    if (entry == NULL) {
        return NULL;
    }
    if (loosen_entry(self, entry, subject) < 0) {
        Py_CLEAR(entry);
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
    int only_floats;
    status = compile_entry(self, subject, entry, &only_floats);
    if (status != MG_OK) {
        Py_CLEAR(entry);
    }
    return status != MG_BREAK ? entry
           : only_floats      ? capture_without_floats(self, subject)
                              : capture_fixed(self, subject);
}

MgEntry *
mg_compiled_capture_subject(MgCompiled *self, const MgSubject *subject)
{
    MgState keys;
    int knows_keys = mg_layout_read_state(&keys);
    PyObject *state = mg_state_read();
    int is_ready = state != NULL && (subject->frame == NULL || mg_rules_prepare(subject->frame) == MG_OK);
    MgEntry *entry = is_ready ? capture_compiled(self, subject) : NULL;
    if (MG_UNLIKELY(entry == NULL && state != NULL && PyErr_Occurred())) {
        PyObject *type, *value, *traceback;
        mg_recover_frames();
        PyErr_Fetch(&type, &value, &traceback);
        if (mg_state_apply(state) < 0) { /* another interrupt: one is enough */
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

/* Captures a call once more, up to the operation that has raised. A new entry that stops there, or at an earlier place; or
 * NULL, perhaps with an exception. */
static MgEntry *
capture_up_to(MgCompiled *self, const MgSubject *subject, const MgEnding *ending)
{
    MgTable metas = {0};
    PyObject *untold = Py_XNewRef(self->untold);
    MgTry try = {
        .stop_node = ending->failure.node + 1, .stop_reason = MG_REASON_FAULT, .untold = untold, .metas = &metas};
    MgSubject same = *subject;
    same.changing = (MgPaths){.count = 0};
    same.is_again = 1;
    same.frozen = (MgLattice *)ending->entry->lattice;
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

int
mg_compiled_deoptimise(MgCompiled *self, const MgSubject *subject, PyObject *const *arguments, MgEnding *ending)
{
    PyObject *error = mg_except_take(PyThreadState_Get());
    MgEntry *entry = ending->entry;
    MgEntry *stop = (MgEntry *)Py_XNewRef((PyObject *)mg_deopt_find(entry, ending->failure.node));
    int done = entry->guards.is_loose ? -1 : 0; /* a capture of this call may be another program */
    if (stop != NULL && done == 0) {
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
    mg_ending_clear(ending);
    return done;
}
