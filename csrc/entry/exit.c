/* Exits: where a capture stops before the end, the frames as they are there, and how they go on.
 *
 * A break is deoptimisation. The capture unwinds, and each frame on the way leaves a snapshot: the innermost before the
 * instruction that could not be captured, the others behind the call that is under way. An entry made from that runs the
 * graph up to the break, and then makes the frames real: it calls the functions again, with any arguments, and the hook
 * fills in the locals, the stack and the offset before the first instruction is executed.
 *
 * A frame can be taken only if its caller is a captured frame in the middle of a call instruction. Where C code lies in
 * between (a key function, __init__ under type.__call__, a property), what was taken is dropped, and the capture is made
 * again up to the instruction of the caller that led there: `restart` holds its number. The same is done if an
 * instruction was stopped half-way. */
#include "entry/exit.h"

#include "base/reserve.h"
#include "capture/finalizer.h"
#include "capture/outside.h"
#include "capture/origin.h"
#include "cpython/except.h"
#include "cpython/liveness.h"
#include "ir/alias.h"

static __thread struct {
    MgExit *exit; /* strong: to be taken by the next frame of its function */
    int index;
    int reserve; /* see mg_exit_enter */
} pending;

/* ---- snapshots ---- */

/* Stands for what a slot of the root has in it already, and keeps. */
PyObject mg_exit_own = {.ob_refcnt = 1, .ob_type = &PyBaseObject_Type};

/* 1 if the program can tell when a reference to an object goes: by what happens with the last one, by a count (an array is
 * not resized while somebody else has it), by addresses of a tensor's memory, by parts of its graph that autograd does not
 * keep alive; and if it holds such an object. */
static int
is_missed(PyObject *object)
{
    return !mg_is_plain_value(object) && !mg_is_singleton(object) && !PyFunction_Check(object) &&
           !PyType_Check(object) && !PyModule_Check(object);
}

/* 1 if a slot of the root still has in it what it had when the capture began. */
static int
is_own(MgCapture *capture, MgFrame *frame, int slot)
{
    if (!capture->breaks.point || frame != capture->root || slot >= capture->argument_count) {
        return 0;
    }
    PyObject *value = mg_twin_original(mg_frame_slots(frame)[slot]), *had = capture->arguments[slot];
    MgOutside *record = value == had || !mg_is_twin(value) ? NULL : mg_outside_of(capture, value);
    return value == had || (record != NULL && record->object == had);
}

/* What becomes of a local that is not read any more. Eager keeps it to the end of the frame; so does the root, if it has
 * it already, and so do others if its finalizer may run; and if it is built for something else (a call that gets it may wait
 * for its end, by a weak reference): `*dead` is then set. New, or NULL if it is dropped. */
static PyObject *
keep_dead(MgCapture *capture, MgFrame *frame, int slot, char *dead)
{
    PyObject *value = mg_frame_slots(frame)[slot];
    if (value == NULL || !is_missed(value)) {
        return NULL;
    }
    if (is_own(capture, frame, slot)) {
        return Py_NewRef(&mg_exit_own);
    }
    for (int i = 0; capture->breaks.point && frame == capture->root && i < capture->argument_count; i++) {
        if (capture->arguments[i] == value) { /* it came from another slot, or the stack */
            return Py_NewRef(value);
        }
    }
    if (!mg_is_twin(value) &&
        mg_finalizer_within(NULL, value)) { /* what captured code made goes with its frame, and is seen to */
        return mg_finalizer_within(capture, value) ? Py_NewRef(value) : NULL;
    }
    *dead = 1;
    return Py_NewRef(value);
}

static int
snapshot_add(MgCapture *capture, MgFrame *frame, const MgUnit *next, PyObject **sp, int awaiting)
{
    MgSnapshot *grown =
        PyMem_Realloc(capture->breaks.snapshots, sizeof(MgSnapshot) * (size_t)(capture->breaks.snapshot_count + 1));
    if (grown == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->breaks.snapshots = grown;
    int count = (int)(sp - mg_frame_slots(frame));
    PyObject **slots = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    char *dead = PyMem_Calloc((size_t)count + 1, 1);
    if (slots == NULL || dead == NULL) {
        PyMem_Free(slots);
        PyMem_Free(dead);
        PyErr_NoMemory();
        return MG_ERR;
    }
    assert(count >= mg_frame_code(frame)->co_nlocalsplus &&
           count <= mg_frame_code(frame)->co_nlocalsplus + mg_frame_code(frame)->co_stacksize);
    int offset = (int)(next - mg_frame_code_start(frame));
    MgHandler handler; /* of the call that is under way: it may fail */
    int has_handler = awaiting && mg_except_find(mg_frame_code(frame), offset - 1, &handler);
    assert(offset >= awaiting && offset < (int)Py_SIZE(mg_frame_code(frame))); /* behind the call that it waits for */
    int all = mg_code_counts_references(capture->breaks.snapshot_count == 0 ? mg_frame_code(frame)
                                                                            : capture->breaks.snapshots[0].code);
    for (int i = 0; i < count; i++) {
        int is_local = i < mg_frame_code(frame)->co_nlocalsplus;
        if (!is_local || all || mg_code_is_live(mg_frame_code(frame), offset, i) ||
            (has_handler && mg_code_is_live(mg_frame_code(frame), handler.target, i))) {
            slots[i] = Py_XNewRef(mg_frame_slots(frame)[i]);
        }
        else {
            slots[i] = keep_dead(capture, frame, i, &dead[i]);
        }
    }
    capture->breaks.snapshots[capture->breaks.snapshot_count++] = (MgSnapshot){
        .code = (PyCodeObject *)Py_NewRef((PyObject *)mg_frame_code(frame)),
        .function = Py_NewRef((PyObject *)mg_frame_function(frame)),
        .offset = offset,
        .awaiting = awaiting,
        .count = count,
        .slots = slots,
        .dead = dead,
    };
    return MG_OK;
}

/* 1 if the frame can be made again in the middle: a plain function's. A function of the
 * standard library is called again as a whole: nobody gains by a capture of its innards. */
static int
can_rebuild(MgCapture *capture, MgFrame *frame)
{
    MgOrigin place = mg_origin_of(mg_frame_code(frame));
    if (capture->breaks.whole > 0 || place == MG_ORIGIN_OWN ||
        (capture->reason != MG_REASON_FAULT && place == MG_ORIGIN_LIBRARY)) {
        return 0;
    }
    return frame->owner == FRAME_OWNED_BY_THREAD && (mg_frame_code(frame)->co_flags & CO_OPTIMIZED) != 0 &&
           !_PyFrame_IsIncomplete(frame);
}

/* 1 if the instruction that could not be captured has left no trace, so that it can be executed from its start. Native
 * code that was stopped half-way may have changed anything: part of a list is sorted, an iterator has moved on. */
static int
is_untouched(const MgCapture *capture, long step, int is_call)
{
    if (capture->breaks.stop == step || capture->reason == MG_REASON_FAULT) {
        return 1;
    }
    return capture->breaks.mark_step == step && capture->breaks.mark == mg_exit_mark(capture) &&
           (!is_call || capture->call.clean);
}

void
mg_exit_take(MgCapture *capture, MgFrame *frame, const MgUnit *before, PyObject **before_sp, const MgUnit *after,
             PyObject **after_sp, long step, int direct, long raised)
{
    if (!capture->breaks.can_break) {
        return;
    }
    assert(capture->reason != MG_REASON_NONE); /* frames leave snapshots while the capture unwinds */
    int innermost = capture->breaks.snapshot_count == 0 && capture->breaks.restart == 0 && !capture->breaks.inner_lost;
    int result = MG_ERR;
    if (!can_rebuild(capture, frame)) { /* the break belongs to whoever called this frame */
        mg_capture_clear_snapshots(capture);
        capture->breaks.inner_lost = 1;
        capture->breaks.restart = 0;
    }
    else if (raised > 0) { /* an exception can't be made again with its traceback: stop before it is raised */
        mg_capture_clear_snapshots(capture);
        capture->breaks.restart = raised;
        capture->breaks.inner_lost = 0;
        result = MG_OK;
    }
    else if (innermost && !is_untouched(capture, step, after != NULL)) {
        capture->breaks.restart = step;
        result = MG_OK;
    }
    else if (innermost) {
        result = snapshot_add(capture, frame, before, before_sp, 0);
        capture->breaks.stopped = frame == capture->root ? step : 0;
    }
    else if (capture->breaks.restart == 0 && !capture->breaks.inner_lost && capture->breaks.inner_direct &&
             after != NULL) {
        result = snapshot_add(capture, frame, after, after_sp, 1);
    }
    else if (capture->breaks.inner_lost || !capture->breaks.inner_direct || after == NULL) {
        mg_capture_clear_snapshots(capture);
        capture->breaks.restart = step; /* again, up to this instruction */
        capture->breaks.inner_lost = 0;
        result = MG_OK;
    }
    else {
        result = MG_OK; /* an inner frame asked for the restart, and was called directly */
    }
    if (result < 0 && capture->breaks.inner_lost == 0) { /* no memory for the snapshot */
        capture->breaks.can_break = 0;
        mg_capture_check(capture); /* that exception goes on in place of this one */
    }
    capture->breaks.inner_direct = direct;
    if (frame == capture->root) {
        capture->breaks.root_taken = 1;
    }
}

int
mg_exit_ready(const MgCapture *capture)
{
    return capture->breaks.can_break && capture->breaks.restart == 0 && !capture->breaks.inner_lost &&
           capture->breaks.snapshot_count > 0 && capture->breaks.root_taken;
}

/* ---- going on ---- */

MgExit *
mg_exit_new(PyObject *owner, int count)
{
    MgExit *exit = PyMem_Calloc(1, sizeof(MgExit));
    MgSnapshot *frames = PyMem_Calloc((size_t)count + 1, sizeof(MgSnapshot));
    if (exit == NULL || frames == NULL) {
        PyMem_Free(exit);
        PyMem_Free(frames);
        PyErr_NoMemory();
        return NULL;
    }
    exit->references = 1;
    exit->count = count;
    exit->frames = frames;
    exit->owner = Py_NewRef(owner);
    return exit;
}

void
mg_exit_release(MgExit *exit)
{
    assert(exit == NULL || exit->references > 0);
    if (exit == NULL || --exit->references > 0) {
        return;
    }
    for (int i = 0; i < exit->count; i++) {
        mg_snapshot_clear(&exit->frames[i]);
    }
    PyMem_Free(exit->frames);
    Py_XDECREF(exit->error);
    Py_DECREF(exit->owner);
    PyMem_Free(exit);
}

/* Starts a frame of the exit. New result; or NULL, and the exit is still pending if the frame was not started. */
static PyObject *
start_frame(MgExit *exit, int index)
{
    assert(index >= 0 && index < exit->count);
    MgSnapshot *frame = &exit->frames[index];
    PyCodeObject *code = frame->code;
    int positional = code->co_argcount, named = code->co_kwonlyargcount;
    PyObject **args = PyMem_Calloc((size_t)(positional + named) + 2, sizeof(PyObject *));
    PyObject *kwnames = args != NULL && named > 0 ? PyTuple_New(named) : NULL;
    if (args == NULL || (named > 0 && kwnames == NULL)) {
        PyMem_Free(args);
        Py_XDECREF(kwnames);
        return PyErr_NoMemory();
    }
    for (int i = 0; i < positional + named; i++) { /* any arguments: the real values are put in their place */
        args[i + 1] = Py_None;
    }
    for (int i = 0; i < named; i++) {
        PyTuple_SET_ITEM(kwnames, i, Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, positional + i)));
    }
    PyObject *function = Py_NewRef(frame->function);
    PyObject *result =
        PyObject_Vectorcall(function, args + 1, (size_t)positional | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    Py_DECREF(function);
    PyMem_Free(args);
    Py_XDECREF(kwnames);
    return result;
}

PyObject *
mg_exit_enter(MgExit *exit, int index)
{
    int reserve = 0;
    exit->references++;
    pending.exit = exit;
    pending.index = index;
    pending.reserve = 0;
    PyObject *result = start_frame(exit, index);
    /* what lies before the frame has been done, and blocks that it is to leave are entered: there is no way back */
    if (result == NULL && pending.exit == exit && mg_reserve_open(&reserve)) {
        pending.reserve = 1;
        result = start_frame(exit, index);
    }
    if (pending.exit == exit) { /* the frame was never started */
        mg_reserve_close(pending.reserve);
        pending.exit = NULL;
        mg_exit_release(exit);
    }
    return result;
}

MgExit *
mg_exit_pending(MgFrame *frame, int *index)
{
    MgExit *exit = pending.exit;
    if (exit == NULL || (PyObject *)mg_frame_function(frame) != exit->frames[pending.index].function) {
        return NULL;
    }
    *index = pending.index;
    pending.exit = NULL;
    mg_reserve_close(pending.reserve);
    return exit;
}

PyObject **
mg_exit_place(MgExit *exit, int index, MgFrame *frame, PyObject **sp)
{
    MgSnapshot *from = &exit->frames[index];
    PyObject **slots = mg_frame_slots(frame);
    int old = (int)(sp - slots), count = from->count;
    /* first put all in place, then drop: a finalizer may look at the frame. The snapshot has room for what the frame had. */
    for (int i = 0; i < old || i < count; i++) {
        PyObject *had = i < old ? slots[i] : NULL;
        slots[i] = i < count ? from->slots[i] : NULL;
        if (slots[i] == &mg_exit_own) {
            slots[i] = had;
            had = NULL;
            Py_DECREF(&mg_exit_own);
        }
        from->slots[i] = had;
    }
    for (int i = 0; i < old; i++) {
        Py_CLEAR(from->slots[i]);
    }
    mg_frame_set_at(frame, mg_frame_code_start(frame) + from->offset - 1);
    return slots + count;
}
