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
#include "exit.h"

#include "alias.h"
#include "check.h"
#include "except.h"
#include "finalizer.h"
#include "place.h"
#include "reserve.h"
#include "trace.h"
#include "world.h"
#include "worldbase.h"

static __thread struct {
    MgExit *exit; /* strong: to be taken by the next frame of its function */
    int index;
    int reserve; /* see mg_exit_enter */
} pending;

/* ---- snapshots ---- */

static void
snapshot_clear(MgSnapshot *snapshot)
{
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
mg_exit_clear(MgCapture *capture)
{
    for (int i = 0; i < capture->snapshot_count; i++) {
        snapshot_clear(&capture->snapshots[i]);
    }
    capture->snapshot_count = 0;
}

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
    if (!capture->point || frame != capture->root || slot >= capture->argument_count) {
        return 0;
    }
    PyObject *value = mg_twin_original(frame->localsplus[slot]), *had = capture->arguments[slot];
    MgRecord *record = value == had || !mg_is_twin(value) ? NULL : mg_world_record(capture, value);
    return value == had || (record != NULL && record->object == had);
}

/* What becomes of a local that is not read any more. Eager keeps it to the end of the frame; so does the root, if it has
 * it already, and so do others if its finalizer may run; and if it is built for something else (a call that gets it may wait
 * for its end, by a weak reference): `*dead` is then set. New, or NULL if it is dropped. */
static PyObject *
keep_dead(MgCapture *capture, MgFrame *frame, int slot, char *dead)
{
    PyObject *value = frame->localsplus[slot];
    if (value == NULL || !is_missed(value)) {
        return NULL;
    }
    if (is_own(capture, frame, slot)) {
        return Py_NewRef(&mg_exit_own);
    }
    for (int i = 0; capture->point && frame == capture->root && i < capture->argument_count; i++) {
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

/* 1 if the code names one of these. */
static int
names_one(PyCodeObject *code, const char *const *names, size_t count)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
        for (size_t k = 0; k < count; k++) {
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i), names[k]) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

/* 1 if the code may ask how many references there are to an object, of which locals have some. */
static int
counts_references(PyCodeObject *code)
{
    static const char *const ways[] = {"getrefcount", "_use_count", "get_referrers"};
    return names_one(code, ways, Py_ARRAY_LENGTH(ways));
}

static int
snapshot_add(MgCapture *capture, MgFrame *frame, const MgUnit *next, PyObject **sp, int awaiting)
{
    MgSnapshot *grown = PyMem_Realloc(capture->snapshots, sizeof(MgSnapshot) * (size_t)(capture->snapshot_count + 1));
    if (grown == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->snapshots = grown;
    int count = (int)(sp - frame->localsplus);
    PyObject **slots = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    char *dead = PyMem_Calloc((size_t)count + 1, 1);
    if (slots == NULL || dead == NULL) {
        PyMem_Free(slots);
        PyMem_Free(dead);
        PyErr_NoMemory();
        return MG_ERR;
    }
    int offset = (int)(next - mg_frame_code_start(frame));
    MgHandler handler; /* of the call that is under way: it may fail */
    int has_handler = awaiting && mg_except_find(frame->f_code, offset - 1, &handler);
    int all = counts_references(capture->snapshot_count == 0 ? frame->f_code : capture->snapshots[0].code);
    for (int i = 0; i < count; i++) {
        int is_local = i < frame->f_code->co_nlocalsplus;
        if (!is_local || all || mg_exit_is_live(frame->f_code, offset, i) ||
            (has_handler && mg_exit_is_live(frame->f_code, handler.target, i))) {
            slots[i] = Py_XNewRef(frame->localsplus[i]);
        }
        else {
            slots[i] = keep_dead(capture, frame, i, &dead[i]);
        }
    }
    capture->snapshots[capture->snapshot_count++] = (MgSnapshot){
        .code = (PyCodeObject *)Py_NewRef((PyObject *)frame->f_code),
        .function = Py_NewRef((PyObject *)frame->f_func),
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
    MgPlace place = mg_place_of(frame->f_code);
    if (capture->whole > 0 || place == MG_PLACE_OWN ||
        (capture->reason != MG_REASON_FAULT && place == MG_PLACE_LIBRARY)) {
        return 0;
    }
    return frame->owner == FRAME_OWNED_BY_THREAD && (frame->f_code->co_flags & CO_OPTIMIZED) != 0 &&
           !_PyFrame_IsIncomplete(frame);
}

/* 1 if the instruction that could not be captured has left no trace, so that it can be executed from its start. Native
 * code that was stopped half-way may have changed anything: part of a list is sorted, an iterator has moved on. */
static int
is_untouched(const MgCapture *capture, long step, int is_call)
{
    if (capture->stop == step || capture->reason == MG_REASON_FAULT) {
        return 1;
    }
    return capture->mark_step == step && capture->mark == mg_exit_mark(capture) && (!is_call || capture->clean);
}

void
mg_exit_take(MgCapture *capture, MgFrame *frame, const MgUnit *before, PyObject **before_sp, const MgUnit *after,
             PyObject **after_sp, long step, int direct, long raised)
{
    if (!capture->can_break) {
        return;
    }
    int innermost = capture->snapshot_count == 0 && capture->restart == 0 && !capture->inner_lost;
    int result = MG_ERR;
    if (!can_rebuild(capture, frame)) { /* the break belongs to whoever called this frame */
        mg_exit_clear(capture);
        capture->inner_lost = 1;
        capture->restart = 0;
    }
    else if (raised > 0) { /* an exception can't be made again with its traceback: stop before it is raised */
        mg_exit_clear(capture);
        capture->restart = raised;
        capture->inner_lost = 0;
        result = MG_OK;
    }
    else if (innermost && !is_untouched(capture, step, after != NULL)) {
        capture->restart = step;
        result = MG_OK;
    }
    else if (innermost) {
        result = snapshot_add(capture, frame, before, before_sp, 0);
        capture->stopped = frame == capture->root ? step : 0;
    }
    else if (capture->restart == 0 && !capture->inner_lost && capture->inner_direct && after != NULL) {
        result = snapshot_add(capture, frame, after, after_sp, 1);
    }
    else if (capture->inner_lost || !capture->inner_direct || after == NULL) {
        mg_exit_clear(capture);
        capture->restart = step; /* again, up to this instruction */
        capture->inner_lost = 0;
        result = MG_OK;
    }
    else {
        result = MG_OK; /* an inner frame asked for the restart, and was called directly */
    }
    if (result < 0 && capture->inner_lost == 0) { /* no memory for the snapshot */
        capture->can_break = 0;
        mg_capture_check(capture); /* that exception goes on in place of this one */
    }
    capture->inner_direct = direct;
    if (frame == capture->root) {
        capture->root_taken = 1;
    }
}

int
mg_exit_ready(const MgCapture *capture)
{
    return capture->can_break && capture->restart == 0 && !capture->inner_lost && capture->snapshot_count > 0 &&
           capture->root_taken;
}

/* ---- which locals are live ---- */

/* 1 if the code may look at its locals by other ways than its bytecode. */
static int
looks_at_locals(PyCodeObject *code)
{
    static const char *const ways[] = {"locals",    "vars",         "dir",   "eval",       "exec",
                                       "_getframe", "currentframe", "stack", "breakpoint", "set_trace"};
    return names_one(code, ways, Py_ARRAY_LENGTH(ways)) || counts_references(code);
}

/* Live locals before each unit, as bits; codes with more locals than bits have all of them live. NULL without an exception
 * if there is no memory. */
static uint64_t *
find_live(PyCodeObject *code)
{
    int size = (int)Py_SIZE(code);
    MgUnit *units = _PyCode_CODE(code);
    uint64_t *live = PyMem_Calloc((size_t)size + 1, sizeof(uint64_t));
    uint64_t *handler_of = PyMem_Calloc((size_t)size + 1, sizeof(uint64_t)); /* target + 1 of the covering handler */
    if (live == NULL || handler_of == NULL) {
        PyMem_Free(live);
        PyMem_Free(handler_of);
        return NULL;
    }
    Py_ssize_t cursor = 0;
    int start, end;
    MgHandler handler;
    while (mg_except_next(code, &cursor, &start, &end, &handler)) {
        for (int i = start; i < end && i < size; i++) {
            handler_of[i] = (uint64_t)handler.target + 1;
        }
    }
    uint8_t *opcodes = PyMem_Calloc((size_t)size + 1, 1); /* 0 for a unit that is no instruction */
    int *opargs = PyMem_Calloc((size_t)size + 1, sizeof(int));
    for (int i = 0, prefix = 0; opcodes != NULL && opargs != NULL && i < size;) {
        int opcode = mg_opcode_base[_Py_OPCODE(units[i])];
        opcodes[i] = (uint8_t)opcode;
        opargs[i] = prefix << 8 | _Py_OPARG(units[i]);
        prefix = opcode == EXTENDED_ARG ? opargs[i] : 0;
        i += 1 + mg_opcode_caches[opcode];
    }
    int all = looks_at_locals(code), failed = opcodes == NULL || opargs == NULL;
    for (int changed = 1; changed && !all && !failed;) {
        changed = 0;
        for (int i = size; i-- > 0;) {
            int opcode = opcodes[i], oparg = opargs[i];
            if (opcode == 0) {
                continue;
            }
            int distance = mg_check_jump(opcode, oparg), behind = i + 1 + mg_opcode_caches[opcode];
            uint64_t now = mg_check_goes_on(opcode) && behind < size ? live[behind] : 0;
            if (distance != 0 || opcode == FOR_ITER || opcode == SEND) {
                int target = i + 1 + distance;
                now |= target >= 0 && target < size ? live[target] : 0;
            }
            if (oparg < 64) {
                if (opcode == STORE_FAST) {
                    now &= ~((uint64_t)1 << oparg);
                }
                else if (opcode == LOAD_FAST || opcode == DELETE_FAST || opcode == LOAD_CLOSURE) {
                    now |= (uint64_t)1 << oparg;
                }
            }
            if (handler_of[i] != 0) {
                now |= live[handler_of[i] - 1];
            }
            if (now != live[i]) {
                live[i] = now;
                changed = 1;
            }
        }
    }
    if (all) {
        memset(live, 255, sizeof(uint64_t) * (size_t)size);
    }
    PyMem_Free(opcodes);
    PyMem_Free(opargs);
    PyMem_Free(handler_of);
    if (failed) {
        PyMem_Free(live);
        return NULL;
    }
    return live;
}

/* The same, found once and kept with the code object. NULL without an exception if there is no room for it. */
static const uint64_t *
known_live(PyCodeObject *code)
{
    static Py_ssize_t index = -1;
    void *live = NULL;
    if (index < 0) {
        index = _PyEval_RequestCodeExtraIndex(PyMem_Free);
    }
    if (index < 0 || (_PyCode_GetExtra((PyObject *)code, index, &live) == 0 && live != NULL)) {
        return live;
    }
    live = find_live(code);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (live != NULL && mg_code_set_extra(code, index, live) < 0) {
        PyMem_Free(live);
        live = NULL;
    }
    PyErr_Restore(type, value, traceback);
    return live;
}

int
mg_exit_is_live(PyCodeObject *code, int offset, int slot)
{
    if (slot >= code->co_nlocals || slot >= 64 || code->co_nlocalsplus > 64) {
        return 1; /* cells, and what has no bit */
    }
    const uint64_t *live = known_live(code);
    if (live == NULL) {
        return 1;
    }
    if (PyBytes_AS_STRING(code->co_localspluskinds)[slot] & CO_FAST_CELL) {
        return 1;
    }
    if (slot == 0 && code->co_nfreevars > 0) { /* super() without arguments reads it behind the bytecode's back */
        return 1;
    }
    return (live[offset] >> slot & 1) != 0;
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
    if (exit == NULL || --exit->references > 0) {
        return;
    }
    for (int i = 0; i < exit->count; i++) {
        snapshot_clear(&exit->frames[i]);
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
    if (exit == NULL || (PyObject *)frame->f_func != exit->frames[pending.index].function) {
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
    PyObject **slots = frame->localsplus;
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
    frame->prev_instr = mg_frame_code_start(frame) + from->offset - 1;
    return slots + count;
}
