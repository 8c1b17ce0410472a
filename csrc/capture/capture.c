/* A capture under way: what was read, what was written, what was recorded.
 *
 * All that a capture owns hangs on its MgCapture, and nothing outside was touched: dropping it is the abort. */
#include "capture/capture.h"

#include "capture/deferred.h"
#include "capture/place.h"
#include "capture/tracer.h"
#include "capture/varying.h"
#include "cpython/aside.h"
#include "ir/subgraph.h"
#include "torch/state.h"
#include "base/vector.h"

#include <stdarg.h>
#include <structmember.h>

PyObject *mg_capture_deleted;
MgTracer mg_tracer;

static uint64_t captures;

static const struct {
    const char *name, *text, *hint;
} reasons[MG_REASON_COUNT] = {
#define MG_REASON(NAME, text, hint) {#NAME, text, hint},
#include "capture/reasons.def"
#undef MG_REASON
};

const char *
mg_reason_name(MgReason reason)
{
    return reasons[reason].name;
}

const char *
mg_reason_text(MgReason reason)
{
    return reasons[reason].text;
}

const char *
mg_reason_hint(MgReason reason)
{
    return reasons[reason].hint;
}

/* Captured code can't reach the value of a node any more. */
static void
node_is_dead(int node, uint64_t number)
{
    MgCapture *capture = mg_capture_current;
    if (capture != NULL && capture->number == number && node >= 0 && node < capture->graph.node_count) {
        capture->graph.nodes[node].alive = capture->graph.node_count;
    }
}

int
mg_capture_types_ready(void)
{
    mg_twin_gone = node_is_dead;
    if (mg_abort_exception == NULL) {
        mg_abort_exception = PyErr_NewExceptionWithDoc("magneto._core.CaptureAborted",
                                                       "Unwinds an aborted capture; never seen by user code.",
                                                       PyExc_BaseException, NULL);
    }
    if (mg_capture_deleted == NULL) {
        mg_capture_deleted = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    }
    return mg_abort_exception == NULL || mg_capture_deleted == NULL ? MG_ERR : MG_OK;
}

/* ---- life ---- */

MgCapture *
mg_capture_new(void)
{
    MgCapture *capture = PyMem_Calloc(1, sizeof(MgCapture));
    if (capture == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    capture->number = ++captures;
    capture->keep = PyList_New(0);
    if (capture->keep == NULL) {
        PyMem_Free(capture);
        return NULL;
    }
    return capture;
}

int
mg_capture_add_mortal(MgCapture *capture, PyObject *object)
{
    if (!PyObject_IS_GC(object)) {
        return MG_OK; /* in no cycle: it goes when the capture does, at the latest */
    }
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return mg_capture_abort(capture, MG_REASON_REBUILD, "an object with a finalizer");
    }
    if (capture->finals.mortals == NULL) {
        capture->finals.mortals = PyList_New(0);
    }
    PyObject *reference = capture->finals.mortals == NULL ? NULL : PyWeakref_NewRef(object, NULL);
    int result = reference == NULL ? MG_ERR : PyList_Append(capture->finals.mortals, reference);
    Py_XDECREF(reference);
    return result;
}

/* What captured code made and what is still there, in cycles, is never finalized: in eager it does not exist. */
static void
spare_mortals(MgCapture *capture)
{
    for (Py_ssize_t i = 0; capture->finals.mortals != NULL && i < PyList_GET_SIZE(capture->finals.mortals); i++) {
        PyObject *object = PyWeakref_GET_OBJECT(PyList_GET_ITEM(capture->finals.mortals, i));
        if (object != Py_None) {
            mg_object_set_finalized(object);
        }
    }
    Py_CLEAR(capture->finals.mortals);
}

void
mg_snapshot_clear(MgSnapshot *snapshot)
{
    assert(snapshot->count == 0 || snapshot->slots != NULL);
    for (int i = 0; i < snapshot->count; i++) {
        Py_XDECREF(snapshot->slots[i]);
    }
    PyMem_Free(snapshot->slots);
    PyMem_Free(snapshot->dead);
    Py_XDECREF(snapshot->code);
    Py_XDECREF(snapshot->function);
    *snapshot = (MgSnapshot){0};
}

void
mg_capture_clear_snapshots(MgCapture *capture)
{
    for (int i = 0; i < capture->breaks.snapshot_count; i++) {
        mg_snapshot_clear(&capture->breaks.snapshots[i]);
    }
    capture->breaks.snapshot_count = 0;
}

void
mg_capture_free(MgCapture *capture)
{
    if (capture == NULL) {
        return;
    }
    assert(mg_capture_current != capture);                                  /* it was left */
    assert(capture->graph.node_count == 0 || capture->graph.nodes != NULL); /* its entry may have taken them */
    /* finalizers of what captured code made must not run for real: in eager they run once, and not now */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    MgCapture *outer = mg_capture_current;
    mg_collections_hold(); /* those of strangers must run, but not here */
    mg_tracer.hold_hook(1);
    mg_capture_enter(capture);
    capture->ending = 1;
    capture->suspended = 0;
    if (capture->reason == MG_REASON_NONE) {
        capture->reason = MG_REASON_EXCEPTION;
    }
    spare_mortals(capture);
    for (int i = 0; i < capture->graph.node_count; i++) {
        mg_node_clear(&capture->graph.nodes[i]);
    }
    for (int i = 0; i < capture->reads.guard_count; i++) {
        Py_XDECREF(capture->reads.guards[i].expected);
    }
    for (int i = 0; i < capture->met.record_count; i++) {
        MgOutside *record = capture->met.record_list[i];
        Py_CLEAR(record->view);
        Py_CLEAR(record->held);
        Py_CLEAR(record->slots);
    }
    for (int i = 0; i < capture->finals.watch_count; i++) {
        Py_DECREF(capture->finals.watches[i].item);
    }
    PyMem_Free(capture->finals.watches);
    PyMem_Free(capture->finals.quiets);
    mg_table_free(&capture->finals.drops);
    mg_table_free(&capture->finals.storied);
    mg_capture_clear_snapshots(capture);
    mg_deferred_free(capture);
    Py_XDECREF(capture->around.codes);
    mg_table_free(&capture->around.known_codes);
    Py_XDECREF(capture->result);
    Py_XDECREF(capture->keep);
    Py_XDECREF(capture->reads.ids);
    Py_XDECREF(capture->graph.touched);
    Py_XDECREF(capture->graph.subgraph);
    Py_XDECREF(capture->graph.names);
    Py_XDECREF(capture->graph.regions);
    Py_XDECREF(capture->detail);
    Py_XDECREF(capture->torch.state);
    Py_XDECREF(capture->torch.entry_state);
    Py_XDECREF(capture->graph.stack);
    Py_XDECREF(capture->reads.queries);
    Py_XDECREF(capture->reads.registered);
    Py_XDECREF(capture->torch.settings);
    Py_XDECREF(capture->torch.managers);
    Py_XDECREF(capture->where);
    Py_XDECREF(capture->interrupt);
    Py_XDECREF(capture->symbols.session);
    mg_varyings_free(&capture->varying);
    mg_sources_free(&capture->reads.sources);
    mg_capture_enter(outer);
    /* only now: twins that go note that in their nodes, and those of sources go last */
    PyMem_Free(capture->breaks.snapshots);
    PyMem_Free(capture->graph.nodes);
    PyMem_Free(capture->reads.guards);
    mg_places_free(capture);
    mg_table_free(&capture->met.records);
    mg_table_free(&capture->met.views);
    mg_table_free(&capture->reads.guarded);
    mg_table_free(&capture->inside);
    mg_tracer.hold_hook(-1);
    mg_collections_release();
    /* objects from outside that captured code let go of: their finalizers run */
    for (int i = 0; i < capture->met.record_count; i++) {
        Py_XDECREF(capture->met.record_list[i]->object);
        PyMem_Free(capture->met.record_list[i]);
    }
    for (int i = 0; i < capture->argument_count; i++) {
        Py_XDECREF(capture->arguments[i]);
    }
    PyMem_Free(capture->met.record_list);
    PyMem_Free(capture->arguments);
    PyErr_Restore(type, value, traceback);
    PyMem_Free(capture);
}

/* ---- abort ---- */

int
mg_capture_abort(MgCapture *capture, MgReason reason, const char *detail, ...)
{
    assert(reason > MG_REASON_NONE && reason < MG_REASON_COUNT);
    if (capture->reason == MG_REASON_NONE) {
        int starved = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError);
        PyErr_Clear();
        capture->reason = starved ? MG_REASON_MEMORY : (int)reason;
        if (capture->reason == MG_REASON_MEMORY) { /* what was seen since may be wrong: nothing comes of it */
            capture->breaks.can_break = 0;
        }
        if (detail != NULL) {
            va_list list;
            va_start(list, detail);
            Py_XSETREF(capture->detail, PyUnicode_FromFormatV(detail, list));
            va_end(list);
            if (capture->detail == NULL) {
                PyErr_Clear();
            }
        }
        else {
            Py_CLEAR(capture->detail);
        }
        Py_XSETREF(capture->where, mg_capture_stack(capture));
        if (capture->where == NULL) {
            PyErr_Clear();
        }
    }
    PyErr_SetNone(mg_abort_exception);
    return MG_ERR;
}

void
mg_capture_find_log(MgCapture *capture)
{
    static PyObject *module; /* strong: warnings */
    if (module == NULL && (module = mg_aside_import("warnings")) == NULL) {
        PyErr_Clear();
        return;
    }
    PyObject *show = PyDict_GetItemString(PyModule_GetDict(module), "_showwarnmsg_impl");
    PyObject *self = show != NULL && PyCFunction_Check(show) ? PyCFunction_GET_SELF(show) : NULL;
    capture->reads.log = self != NULL && PyList_Check(self) ? self : NULL;
}

int
mg_capture_look(MgCapture *capture, PyObject *object)
{
    if (MG_LIKELY(capture->reads.log == NULL || object != capture->reads.log)) {
        return MG_OK;
    }
    capture->reads.reads_log = 1;
    for (int i = 0; i < capture->graph.node_count; i++) {
        if (capture->graph.nodes[i].kind != MG_NODE_INPUT) {
            return mg_capture_abort(capture, MG_REASON_OPAQUE, "the list that warnings are added to");
        }
    }
    return MG_OK;
}

int
mg_capture_operate(MgCapture *capture)
{
    return capture->reads.reads_log
               ? mg_capture_abort(capture, MG_REASON_RESULT, "a warning that goes to a list which was read")
               : MG_OK;
}

int
mg_capture_handles(MgCapture *capture)
{
    PyObject *topmost = PyErr_GetHandledException();
    Py_XDECREF(topmost);
    if (topmost == NULL) {
        capture->around.no_active_exception = 1;
    }
    return topmost == NULL || topmost != capture->around.handled
               ? MG_OK
               : mg_capture_abort(capture, MG_REASON_OPAQUE, "the exception that the caller handles");
}

int
mg_capture_check(MgCapture *capture)
{
    if (MG_LIKELY(capture->reason == MG_REASON_NONE)) {
        return MG_OK;
    }
    PyErr_SetNone(mg_abort_exception);
    return MG_ERR;
}

/* The outside module that a frame of nn.Module._call_impl calls. Borrowed; NULL for any other frame. */
static MgOutside *
called_module(MgCapture *capture, MgFrame *frame)
{
    PyCodeObject *code = mg_frame_code(frame);
    if (code->co_argcount != 1 || mg_frame_slots(frame)[0] == NULL ||
        !mg_is_text(code->co_name, MG_STRING("_call_impl"))) {
        return NULL;
    }
    PyObject *self = mg_frame_slots(frame)[0];
    if (PyCell_Check(self)) {
        self = PyCell_GET(self);
    }
    MgOutside *record = mg_table_get(&capture->met.records, self, NULL);
    return record != NULL && record->source != NULL ? record : NULL;
}

/* The place of a frame in a stack: its code, an offset, and for a frame that calls a module the number of its source and
 * its class. New; `old`, the place at the same depth of the last stack, if that is the same. */
static PyObject *
place_of(MgCapture *capture, MgFrame *frame, PyObject *old)
{
    int offset = mg_frame_lasti(frame) * (int)sizeof(MgUnit);
    MgOutside *module = called_module(capture, frame);
    if (old != NULL && PyTuple_GET_ITEM(old, 0) == (PyObject *)mg_frame_code(frame) &&
        PyLong_AsLong(PyTuple_GET_ITEM(old, 1)) == offset && PyTuple_GET_SIZE(old) == (module == NULL ? 2 : 4) &&
        (module == NULL || PyLong_AsLong(PyTuple_GET_ITEM(old, 2)) == module->source->id)) {
        return Py_NewRef(old);
    }
    return module == NULL
               ? Py_BuildValue("(Oi)", mg_frame_code(frame), offset)
               : Py_BuildValue("(OiiO)", mg_frame_code(frame), offset, module->source->id, Py_TYPE(module->object));
}

PyObject *
mg_capture_stack(MgCapture *capture)
{
    PyThreadState *tstate = PyThreadState_Get();
    Py_ssize_t count = 0;
    MgFrame *outermost = mg_frame_current(tstate);
    for (; outermost != NULL; outermost = mg_frame_caller(outermost)) {
        count++;
        if (outermost == capture->root) {
            break;
        }
    }
    if (outermost == NULL && capture->end.code != NULL) {
        return Py_BuildValue("((Oi))", capture->end.code, capture->end.offset);
    }
    PyObject *stack = PyTuple_New(count);
    MgFrame *frame = mg_frame_current(tstate);
    Py_ssize_t known = capture->graph.stack == NULL ? 0 : PyTuple_GET_SIZE(capture->graph.stack);
    for (Py_ssize_t i = count; stack != NULL && i-- > 0; frame = mg_frame_caller(frame)) {
        PyObject *place = place_of(capture, frame, i < known ? PyTuple_GET_ITEM(capture->graph.stack, i) : NULL);
        if (place == NULL) {
            Py_CLEAR(stack);
            break;
        }
        PyTuple_SET_ITEM(stack, i, place);
    }
    if (stack != NULL) {
        Py_XSETREF(capture->graph.stack, Py_NewRef(stack));
    }
    return stack;
}

/* ---- guards ---- */

static int
add_guard(MgCapture *capture, MgGuard guard)
{
    if (MG_VECTOR_RESERVE(capture->reads.guards, capture->reads.guard_count, capture->reads.guard_room, 256) < 0) {
        return MG_ERR;
    }
    assert(guard.source != NULL && guard.kind < MG_GUARD_COUNT);
    Py_XINCREF(guard.expected);
    guard.place = mg_place_now(capture);
    capture->reads.guards[capture->reads.guard_count++] = guard;
    return MG_OK;
}

/* 1 if a guard of this kind on the source is new (and is now known), 0 if there is one, -1 on error. */
static int
is_new(MgCapture *capture, MgGuardKind kind, MgSource *source)
{
    void *tag = MG_GUARDED(kind);
    if (mg_table_get(&capture->reads.guarded, source, tag) != NULL) {
        return 0;
    }
    return mg_table_set(&capture->reads.guarded, source, tag, source) < 0 ? -1 : 1;
}

int
mg_capture_guard(MgCapture *capture, MgGuardKind kind, MgSource *source, PyObject *expected)
{
    int fresh = is_new(capture, kind, source);
    if (fresh <= 0) {
        return fresh;
    }
    return add_guard(capture, (MgGuard){.kind = kind, .source = source, .expected = expected});
}

int
mg_capture_guard_length(MgCapture *capture, MgSource *source, Py_ssize_t length)
{
    assert(length >= 0);
    int fresh = is_new(capture, MG_GUARD_LENGTH, source);
    if (fresh <= 0) {
        return fresh;
    }
    return add_guard(capture, (MgGuard){.kind = MG_GUARD_LENGTH, .source = source, .index = length});
}

int
mg_capture_guard_many(MgCapture *capture, MgGuardKind kind, MgSource *source, PyObject *expected, Py_ssize_t index)
{
    return add_guard(capture, (MgGuard){.kind = kind, .source = source, .expected = expected, .index = index});
}

int
mg_capture_guard_lacks(MgCapture *capture, MgSource *source, PyObject *name)
{
    void *tag = MG_GUARDED(MG_GUARD_LACKS);
    PyObject *names = mg_table_get(&capture->reads.guarded, source, tag); /* the guard has it */
    if (names != NULL) {
        int known = PySequence_Contains(names, name);
        return known != 0 ? (known < 0 ? MG_ERR : MG_OK) : PyList_Append(names, name);
    }
    names = Py_BuildValue("[O]", name);
    int result =
        names == NULL || add_guard(capture, (MgGuard){.kind = MG_GUARD_LACKS, .source = source, .expected = names}) < 0
            ? MG_ERR
            : mg_table_set(&capture->reads.guarded, source, tag, names);
    Py_XDECREF(names);
    return result;
}

int
mg_capture_guard_limit(MgCapture *capture, MgSource *source, Py_ssize_t limit)
{
    int fresh = is_new(capture, MG_GUARD_LIMIT, source);
    if (fresh <= 0) {
        return fresh;
    }
    return add_guard(capture, (MgGuard){.kind = MG_GUARD_LIMIT, .source = source, .index = limit});
}

int
mg_capture_guard_apart(MgCapture *capture, MgSource *const *sources, int count, int total)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(int) * total);
    if (bytes == NULL) {
        return MG_ERR;
    }
    int *ids = (int *)(void *)PyBytes_AS_STRING(bytes);
    assert(count >= 0 && count <= total && total > 0);
    MgSource *last = sources[0];
    for (int i = 0; i < total; i++) {
        ids[i] = sources[i]->id;
        last = sources[i]->id > last->id ? sources[i] : last;
    }
    int result =
        add_guard(capture, (MgGuard){.kind = MG_GUARD_APART, .source = last, .expected = bytes, .index = count});
    Py_DECREF(bytes);
    return result;
}

int
mg_capture_guard_pair(MgCapture *capture, MgGuardKind kind, MgSource *source, MgSource *other)
{
    assert(other != NULL);
    return add_guard(capture, (MgGuard){.kind = kind, .source = source, .other = other});
}

int
mg_capture_overrides(const MgCapture *capture)
{
    return capture->torch.muted == 0 && mg_aside_overrides() == MG_OVERRIDES_ON;
}

PyObject *
mg_capture_state_key(MgCapture *capture)
{
    if (capture->torch.state == NULL) {
        capture->torch.state = mg_state_read();
    }
    if (MG_UNLIKELY(capture->torch.settings != NULL) && capture->torch.state != NULL) {
        return PyTuple_Pack(2, capture->torch.state, PyTuple_GET_ITEM(capture->torch.settings, 2));
    }
    return Py_XNewRef(capture->torch.state);
}
