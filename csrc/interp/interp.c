/* The interpreter: one loop over CPython's own frames, one handler for each opcode of CPython 3.11.
 *
 * A frame arrives from the hook with its arguments bound and leaves as CPython expects it back: the value returned, or
 * NULL with an exception set, the stack empty (or, for a generator that yields, saved), the thread's frame chain as it
 * was. Python functions are called through their vectorcall, so CPython pushes and pops their frames, and the hook
 * hands them here.
 *
 * Invariants, at the start of each instruction:
 *   - mg_frame_at(frame) is the unit before `next`, or the last unit of the instruction before it;
 *   - [stack base, sp) holds strong references or NULL where the bytecode says so;
 *   - `frame` is the thread's current one, by way of `link`.
 * mg_frame_depth(frame) is -1 while a frame executes, so that the garbage collector and frame.clear() leave its stack alone.
 *
 * Specialised opcodes are executed as what they were made of, and inline caches are skipped: CPython may specialise
 * the same code object at the same time, on another thread or in another frame.
 *
 * A frame can be handed over to CPython before any instruction (see hand_over): that is how a trace function set in
 * mid-frame gets its events, and how a generator object is made. */
#include "interp/interp.h"

#include "capture/finalizer.h"
#include "capture/deferred.h"
#include "capture/place.h"
#include "capture/registry.h"
#include "capture/tracer.h"
#include "cpython/check.h"
#include "cpython/depth.h"
#include "cpython/except.h"
#include "cpython/match.h"
#include "cpython/opcodes.h"
#include "cpython/ops.h"
#include "policy/rules.h"
#include "record/record.h"
#include "trace/trace.h"
#include "world/world.h"

int mg_interp_counting;
uint64_t mg_interp_counts[256];

/* Where the handler of each opcode is, specialised ones included; set by mg_interp_init. */
static const void *handlers[256];

/* ---- the vocabulary of the loop ---- */

#define PUSH(value) (*sp++ = (value))
#define POP() (*--sp)
#define PEEK(n) (sp[-(n)])
#define TOP() (sp[-1])

#define OP(name) do_##name: mg_frame_set_at(frame, next++);
#define NAME_AT(index) PyTuple_GET_ITEM(names, (index))
#define SKIP_CACHES(name) (next += MG_CACHES_##name)

/* To the next instruction. The low byte becomes 255, the probe, if something wants to see each instruction. */
#define DISPATCH() \
    do { \
        unsigned word = *next; \
        oparg = word >> 8; \
        goto *handlers[(word & 255) | link.use_tracing | probe]; \
    } while (0)

/* To the next instruction in a sequence that must not be interrupted: after a prefix of its argument, or the names of keywords. */
#define DISPATCH_CHAINED(prefix) \
    do { \
        unsigned word = *next; \
        oparg = (int)((unsigned)(prefix) << 8 | word >> 8); \
        chained = 1; \
        goto *handlers[(word & 255) | (probe & ~link.use_tracing)]; \
    } while (0)

/* To the next instruction after one that may have run for long, or jumped back: others get their turn first. */
#define DISPATCH_SERVING() \
    do { \
        if (MG_UNLIKELY(mg_pending_work(tstate))) { \
            goto serve; \
        } \
        DISPATCH(); \
    } while (0)

/* In tracing mode: the capture must stop before this instruction, whose operands are all still in their places. */
#define STOP_IF(failed) \
    do { \
        if (MG_UNLIKELY(failed) && capture != NULL && capture->reason != MG_REASON_NONE) { \
            goto stopped; \
        } \
    } while (0)

#define ERROR_IF(condition) \
    do { \
        if (MG_UNLIKELY(condition)) { \
            goto error; \
        } \
    } while (0)

/* What nothing has been taken off the stack for yet has failed: the capture stops before the instruction, or it raises. */
#define STOP_OR_RAISE_IF(failed) \
    do { \
        if (MG_UNLIKELY(failed)) { \
            STOP_IF(1); \
            goto error; \
        } \
    } while (0)

/* In tracing mode what goes through the world, in plain mode what CPython does. */
#define EITHER(traced, plain) (MG_UNLIKELY(capture != NULL) ? (traced) : (plain))

/* Drops `count` values off the stack. */
static inline PyObject **
drop(PyObject **sp, Py_ssize_t count)
{
    while (count-- > 0) {
        PyObject *value = *--sp;
        Py_DECREF(value);
    }
    return sp;
}

/* The exception that is being handled, NULL if there is none. Borrowed. */
static inline PyObject *
handled_now(PyThreadState *tstate)
{
    PyObject *exc = tstate->exc_info->exc_value;
    return exc == Py_None ? NULL : exc;
}

/* Empties the stack down to `base`. */
static PyObject **
drop_all(PyObject **sp, PyObject **base)
{
    while (sp > base) {
        PyObject *value = *--sp;
        Py_XDECREF(value);
    }
    return sp;
}

/* Truth of a value (stolen): 1, 0 or -1. */
static inline int
take_truth(MgCapture *capture, PyObject *value)
{
    if (value == Py_True || value == Py_False) {
        int truth = value == Py_True;
        Py_DECREF(value);
        return truth;
    }
    int truth = EITHER(mg_rules_truth(capture, value), PyObject_IsTrue(value));
    if (MG_UNLIKELY(truth < 0) && capture != NULL && capture->reason != MG_REASON_NONE) {
        return -1; /* the value stays where it is */
    }
    Py_DECREF(value);
    return truth;
}

/* A tuple of the `count` values below `sp`, whose references it takes. */
static PyObject *
tuple_from_stack(PyObject **sp, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    if (tuple != NULL) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyTuple_SET_ITEM(tuple, i, sp[i - count]);
        }
    }
    return tuple;
}

static PyObject *
list_from_stack(PyObject **sp, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    if (list != NULL) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyList_SET_ITEM(list, i, sp[i - count]);
        }
    }
    return list;
}

/* A set of the `count` values below `sp`, which stay where they are. */
static PyObject *
set_from_stack(PyObject **sp, Py_ssize_t count)
{
    PyObject *set = PySet_New(NULL);
    for (Py_ssize_t i = 0; set != NULL && i < count; i++) {
        if (PySet_Add(set, sp[i - count]) < 0) {
            Py_CLEAR(set);
        }
    }
    return set;
}

/* A dict of the values below `sp`, which stay where they are: pairs, or values whose keys are in a tuple. */
static PyObject *
dict_from_stack(PyObject **sp, Py_ssize_t count, PyObject *keys)
{
    PyObject *dict = _PyDict_NewPresized(count);
    for (Py_ssize_t i = 0; dict != NULL && i < count; i++) {
        PyObject *key = keys != NULL ? PyTuple_GET_ITEM(keys, i) : sp[2 * (i - count)];
        PyObject *value = keys != NULL ? sp[i - count] : sp[2 * (i - count) + 1];
        if (PyDict_SetItem(dict, key, value) < 0) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

/* container[key]; the commonest pairs without the detour through slots. */
static inline PyObject *
subscript(PyObject *container, PyObject *key)
{
    if (PyDict_CheckExact(container)) {
        PyObject *value = PyDict_GetItemWithError(container, key);
        if (MG_LIKELY(value != NULL)) {
            return Py_NewRef(value);
        }
        if (!PyErr_Occurred()) {
            _PyErr_SetKeyError(key);
        }
        return NULL;
    }
    if (PyLong_CheckExact(key)) {
        size_t index;
        if (mg_long_is_small(key, &index)) {
            if (PyList_CheckExact(container) && index < (size_t)PyList_GET_SIZE(container)) {
                return Py_NewRef(PyList_GET_ITEM(container, index));
            }
            if (PyTuple_CheckExact(container) && index < (size_t)PyTuple_GET_SIZE(container)) {
                return Py_NewRef(PyTuple_GET_ITEM(container, index));
            }
        }
    }
    return PyObject_GetItem(container, key);
}

/* The value of a global or builtin name, new. */
static inline PyObject *
load_global(MgFrame *frame, PyObject *name)
{
    PyObject *globals = mg_frame_globals(frame), *builtins = mg_frame_builtins(frame);
    Py_hash_t hash = ((PyASCIIObject *)name)->hash;
    if (MG_LIKELY(hash != -1 && PyDict_CheckExact(globals) && PyDict_CheckExact(builtins))) {
        PyObject *value = _PyDict_GetItem_KnownHash(globals, name, hash);
        if (value == NULL && !PyErr_Occurred()) {
            value = _PyDict_GetItem_KnownHash(builtins, name, hash);
        }
        if (MG_LIKELY(value != NULL)) {
            return Py_NewRef(value);
        }
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    return mg_ops_load_global(globals, builtins, name);
}

/* A function object from code, with the parts that `flags` says lie below `sp` on the stack. Moves *top. */
static PyObject *
make_function(MgFrame *frame, PyObject *code, int flags, PyObject ***top)
{
    PyFunctionObject *function = (PyFunctionObject *)PyFunction_New(code, mg_frame_globals(frame));
    if (function == NULL) {
        return NULL;
    }
    PyObject **sp = *top;
    if (flags & 8) {
        function->func_closure = POP();
    }
    if (flags & 4) {
        function->func_annotations = POP();
    }
    if (flags & 2) {
        function->func_kwdefaults = POP();
    }
    if (flags & 1) {
        function->func_defaults = POP();
    }
    *top = sp;
    return (PyObject *)function;
}

/* `a + b` of strings about to be stored where `a` lives: takes the reference out of the local, so that the string can
 * grow in place. Without this, building a string by += would be quadratic. */
static PyObject *
append_string(PyObject **locals, const MgUnit *store, PyObject *left, PyObject *right)
{
    if (mg_opcode_stores_local(*store) && locals[_Py_OPARG(*store)] == left) {
        locals[_Py_OPARG(*store)] = NULL;
        Py_DECREF(left); /* the stack's reference is the last of ours */
    }
    PyUnicode_Append(&left, right); /* steals left; NULL on error */
    Py_DECREF(right);
    return left;
}

/* 1 for a frame of what CPython calls when an object goes, and whose errors it prints: a __del__, whatever its name is. Asked
 * when the frame starts. */
static int
is_finalizer(MgFrame *frame)
{
    PyCodeObject *code = mg_frame_code(frame);
    if (PyUnicode_CompareWithASCIIString(code->co_name, "__del__") == 0) {
        return 1;
    }
    PyObject *self = code->co_nlocalsplus > 0 ? mg_frame_slots(frame)[0] : NULL;
    if (code->co_argcount == 0 && self != NULL && PyTuple_CheckExact(self)) { /* *args */
        self = PyTuple_GET_SIZE(self) > 0 ? PyTuple_GET_ITEM(self, 0) : NULL;
    }
    if (self == NULL || Py_TYPE(self)->tp_finalize == NULL || !PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE)) {
        return 0;
    }
    return _PyType_Lookup(Py_TYPE(self), MG_STRING("__del__")) == (PyObject *)mg_frame_function(frame);
}

/* ---- the loop ---- */

static PyObject *
run(PyThreadState *tstate, MgFrame *frame, int throwflag, MgExit *exit, int index, PyObject *watcher)
{
    if (MG_UNLIKELY(frame == NULL)) { /* mg_interp_init asks for the labels */
        static const void *const labels[256] = {
#define MG_OPCODE(NAME, handler, looks, flow, local, takes) [NAME] = &&do_##handler,
#include "cpython/opcodes.def"
#undef MG_OPCODE
        };
        for (int i = 0; i < 256; i++) {
            const void *label = labels[mg_opcode_base[i]];
            handlers[i] = label != NULL ? label : &&unknown;
        }
        handlers[255] = &&instrument;
        return NULL;
    }

    MgCFrame link;
    mg_frame_enter(tstate, frame, &link);
    if (mg_recursion_enter(tstate)) {
        tstate->recursion_remaining--;
        goto unwound;
    }

    PyCodeObject *const code = mg_frame_code(frame);
    PyObject *const consts = code->co_consts;
    PyObject *const names = code->co_names;
    PyObject **const locals = mg_frame_slots(frame);
    MgUnit *next = mg_frame_at(frame) + 1;
    PyObject **sp = locals + mg_frame_depth(frame);
    PyObject *kwnames = NULL; /* borrowed from consts; between the names of keywords and the call */
    const MgExit *const first_exit = exit;
    PyObject *const compiled = exit != NULL ? exit->owner : watcher;          /* borrowed: our caller holds it */
    MgCapture *const capture = compiled != NULL ? NULL : mg_capture_active(); /* NULL in plain mode */
    const uint8_t probe = MG_CHECKS || mg_interp_counting || capture != NULL || compiled != NULL ? 255 : 0;
    int chained = 0;                                         /* the next instruction belongs to the one before it */
    int skip = watcher != NULL ? mg_code_prologue(code) : 0; /* instructions to be executed before capture is tried */
    /* Borrowed: while this frame handles an exception, its stack holds what was handled before. */
    PyObject *const handled_before = compiled != NULL || capture != NULL ? handled_now(tstate) : NULL;
    long handler_step = 0; /* the instruction that raised what this frame is handling */
    const int called_directly = capture != NULL ? mg_trace_direct(capture) : 0;
    const int direct = capture != NULL && capture->call.direct; /* the caller is captured code, not C code */
    const long entered = capture != NULL ? capture->steps : 0;  /* the instruction that led here */
    /* a generator is closed, perhaps because it goes: what its handlers do can't be left out, nor made later */
    const int closing = capture != NULL && throwflag && PyErr_ExceptionMatches(PyExc_GeneratorExit);
    MgUnit *break_next = NULL, *await_next = NULL;
    PyObject **break_sp = NULL, **await_sp = NULL;
    long break_step = 0;
    int oparg;
    mg_frame_set_depth(frame, -1);

    const int is_root = capture != NULL && capture->root == NULL; /* a finalizer may be what is captured itself */
    const int finalizes = capture != NULL && !is_root && !direct && !throwflag && is_finalizer(frame);
    if (MG_UNLIKELY(capture != NULL)) {
        if (capture->reason != MG_REASON_NONE && (throwflag || capture->ending || finalizes)) {
            /* a generator that a frame let go of where the capture stops: eager would run its handlers later */
            MgHandler handler;
            int at = (int)(mg_frame_at(frame) - mg_frame_code_start(frame));
            capture->finals.finalizers += throwflag && !capture->ending && mg_except_find(code, at, &handler);
            goto dead; /* what is left of an aborted capture is being dropped: none of its code runs any more */
        }
        if (mg_trace_enter(capture, frame) < 0) {
            goto error;
        }
        capture->finals.finalizers -= finalizes;
    }
    if (throwflag) {
        goto error;
    }
    if (MG_UNLIKELY(exit != NULL)) {
        goto resume;
    }
    DISPATCH();

    /* ---- stack, constants, locals ---- */

    OP(nothing)
        DISPATCH();

    OP(resume) {
        if (oparg < 2) {
            DISPATCH_SERVING();
        }
        DISPATCH();
    }

    OP(pop_top) {
        if (MG_UNLIKELY(capture != NULL)) {
            int held = mg_finalizer_let_go(capture, frame, (int)(sp - locals) - 1);
            STOP_OR_RAISE_IF(held < 0);
        }
        PyObject *value = POP();
        Py_DECREF(value);
        DISPATCH();
    }

    OP(push_null) {
        PUSH(NULL);
        DISPATCH();
    }

    OP(copy) {
        PyObject *value = PEEK(oparg);
        PUSH(Py_NewRef(value));
        DISPATCH();
    }

    OP(swap) {
        PyObject *value = TOP();
        TOP() = PEEK(oparg);
        PEEK(oparg) = value;
        DISPATCH();
    }

    OP(load_const) {
        PyObject *value = PyTuple_GET_ITEM(consts, oparg);
        PUSH(Py_NewRef(value));
        DISPATCH();
    }

    OP(load_local) {
        PyObject *value = locals[oparg];
        if (MG_UNLIKELY(value == NULL)) {
            goto unbound_local;
        }
        PUSH(Py_NewRef(value));
        DISPATCH();
    }

    OP(load_closure) {
        PyObject *value = locals[oparg];
        if (MG_UNLIKELY(value == NULL)) {
            goto unbound_local;
        }
        PUSH(Py_NewRef(value));
        DISPATCH();
    }

    OP(store_local) {
        PyObject *old = locals[oparg];
        if (MG_UNLIKELY(capture != NULL)) {
            int held = mg_finalizer_let_go(capture, frame, oparg);
            STOP_OR_RAISE_IF(held < 0);
            mg_record_name(capture, TOP(), PyTuple_GET_ITEM(code->co_localsplusnames, oparg));
        }
        locals[oparg] = POP();
        Py_XDECREF(old);
        DISPATCH();
    }

    OP(delete_local) {
        PyObject *old = locals[oparg];
        if (MG_UNLIKELY(old == NULL)) {
            goto unbound_local;
        }
        int held = capture == NULL ? 0 : mg_finalizer_let_go(capture, frame, oparg);
        STOP_OR_RAISE_IF(held < 0);
        locals[oparg] = NULL;
        Py_DECREF(old);
        DISPATCH();
    }

    /* ---- cells ---- */

    OP(make_cell) {
        PyObject *cell = PyCell_New(locals[oparg]);
        ERROR_IF(cell == NULL);
        PyObject *old = locals[oparg];
        locals[oparg] = cell;
        Py_XDECREF(old);
        DISPATCH();
    }

    OP(copy_free_vars) {
        PyObject *closure = mg_frame_function(frame)->func_closure;
        PyObject **free_slot = locals + code->co_nlocalsplus - oparg;
        for (int i = 0; i < oparg; i++) {
            free_slot[i] = Py_NewRef(PyTuple_GET_ITEM(closure, i));
        }
        DISPATCH();
    }

    OP(load_cell) {
        PyObject *value = EITHER(mg_world_load_cell(capture, locals[oparg]), Py_XNewRef(PyCell_GET(locals[oparg])));
        STOP_IF(value == NULL);
        if (MG_UNLIKELY(value == NULL)) {
            mg_except_unbound(code, oparg); /* unless an exception is set */
            goto error;
        }
        PUSH(value);
        DISPATCH();
    }

    OP(load_class_cell) {
        PyObject *value = EITHER(mg_trace_load_classderef(capture, frame, oparg), mg_ops_load_classderef(frame, oparg));
        STOP_OR_RAISE_IF(value == NULL);
        PUSH(value);
        DISPATCH();
    }

    OP(store_cell) {
        PyObject *cell = locals[oparg];
        PyObject *value = POP();
        if (MG_UNLIKELY(capture != NULL)) {
            if (oparg < code->co_nlocalsplus - code->co_nfreevars) {
                mg_record_name(capture, value, PyTuple_GET_ITEM(code->co_localsplusnames, oparg));
            }
            int status = mg_world_store_cell(capture, cell, value);
            STOP_IF(status < 0);
            Py_DECREF(value);
            ERROR_IF(status < 0);
            DISPATCH();
        }
        PyObject *old = PyCell_GET(cell);
        PyCell_SET(cell, value);
        Py_XDECREF(old);
        DISPATCH();
    }

    OP(delete_cell) {
        PyObject *cell = locals[oparg];
        if (MG_UNLIKELY(capture != NULL)) {
            PyObject *value = mg_world_load_cell(capture, cell);
            if (value == NULL) {
                mg_except_unbound(code, oparg);
                goto error;
            }
            Py_DECREF(value);
            int status = mg_world_store_cell(capture, cell, NULL);
            STOP_OR_RAISE_IF(status < 0);
            DISPATCH();
        }
        PyObject *old = PyCell_GET(cell);
        if (MG_UNLIKELY(old == NULL)) {
            mg_except_unbound(code, oparg);
            goto error;
        }
        PyCell_SET(cell, NULL);
        Py_DECREF(old);
        DISPATCH();
    }

    /* ---- names and attributes ---- */

    OP(load_global) {
        PyObject *value =
            EITHER(mg_world_load_global(capture, frame, NAME_AT(oparg >> 1)), load_global(frame, NAME_AT(oparg >> 1)));
        STOP_OR_RAISE_IF(value == NULL);
        if (oparg & 1) {
            PUSH(NULL);
        }
        PUSH(value);
        SKIP_CACHES(load_global);
        DISPATCH();
    }

    OP(store_global) {
        PyObject *value = POP();
        int status = EITHER(mg_world_store_global(capture, frame, NAME_AT(oparg), value),
                            PyDict_SetItem(mg_frame_globals(frame), NAME_AT(oparg), value));
        STOP_IF(status < 0);
        Py_DECREF(value);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(delete_global) {
        int status =
            EITHER(mg_trace_delete_global(capture, frame, NAME_AT(oparg)), mg_ops_delete_global(frame, NAME_AT(oparg)));
        STOP_OR_RAISE_IF(status < 0);
        DISPATCH();
    }

    OP(load_name) {
        PyObject *value =
            EITHER(mg_trace_load_name(capture, frame, NAME_AT(oparg)), mg_ops_load_name(frame, NAME_AT(oparg)));
        STOP_OR_RAISE_IF(value == NULL);
        PUSH(value);
        DISPATCH();
    }

    OP(store_name) {
        PyObject *value = POP();
        int status = mg_ops_store_name(frame, NAME_AT(oparg), value);
        Py_DECREF(value);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(delete_name) {
        ERROR_IF(mg_ops_delete_name(frame, NAME_AT(oparg)) < 0);
        DISPATCH();
    }

    OP(get_attribute) {
        PyObject *owner = TOP();
        PyObject *value =
            EITHER(mg_world_getattr(capture, owner, NAME_AT(oparg)), PyObject_GetAttr(owner, NAME_AT(oparg)));
        STOP_OR_RAISE_IF(value == NULL);
        TOP() = value;
        Py_DECREF(owner);
        SKIP_CACHES(get_attribute);
        DISPATCH();
    }

    OP(set_attribute) {
        PyObject *owner = POP();
        PyObject *value = POP();
        int status = EITHER(mg_world_setattr(capture, owner, NAME_AT(oparg), value),
                            PyObject_SetAttr(owner, NAME_AT(oparg), value));
        STOP_IF(status < 0);
        Py_DECREF(value);
        Py_DECREF(owner);
        ERROR_IF(status < 0);
        SKIP_CACHES(set_attribute);
        DISPATCH();
    }

    OP(delete_attribute) {
        PyObject *owner = POP();
        int status = EITHER(mg_world_setattr(capture, owner, NAME_AT(oparg), NULL),
                            PyObject_SetAttr(owner, NAME_AT(oparg), NULL));
        STOP_IF(status < 0);
        Py_DECREF(owner);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(load_method) {
        PyObject *owner = TOP();
        PyObject *method = NULL;
        int unbound = EITHER(mg_world_get_method(capture, owner, NAME_AT(oparg), &method),
                             _PyObject_GetMethod(owner, NAME_AT(oparg), &method));
        STOP_OR_RAISE_IF(method == NULL);
        if (unbound) { /* method, self */
            TOP() = method;
            PUSH(owner);
        }
        else { /* NULL, callable */
            TOP() = NULL;
            Py_DECREF(owner);
            PUSH(method);
        }
        SKIP_CACHES(load_method);
        DISPATCH();
    }

    /* ---- operators ---- */

    OP(positive) {
        PyObject *value = TOP();
        PyObject *result = EITHER(mg_trace_unary(capture, MG_POSITIVE, value), PyNumber_Positive(value));
        STOP_IF(result == NULL);
        TOP() = result;
        Py_DECREF(value);
        ERROR_IF(result == NULL);
        DISPATCH();
    }

    OP(negative) {
        PyObject *value = TOP();
        PyObject *result = EITHER(mg_trace_unary(capture, MG_NEGATIVE, value), PyNumber_Negative(value));
        STOP_IF(result == NULL);
        TOP() = result;
        Py_DECREF(value);
        ERROR_IF(result == NULL);
        DISPATCH();
    }

    OP(invert) {
        PyObject *value = TOP();
        PyObject *result = EITHER(mg_trace_unary(capture, MG_INVERT, value), PyNumber_Invert(value));
        STOP_IF(result == NULL);
        TOP() = result;
        Py_DECREF(value);
        ERROR_IF(result == NULL);
        DISPATCH();
    }

    OP(logical_not) {
        int truth = take_truth(capture, POP());
        STOP_OR_RAISE_IF(truth < 0);
        PUSH(Py_NewRef(truth ? Py_False : Py_True));
        DISPATCH();
    }

    OP(binary_operator) {
        PyObject *right = POP();
        PyObject *left = TOP();
        PyObject *result;
        SKIP_CACHES(binary_operator);
        if ((oparg == NB_ADD || oparg == NB_INPLACE_ADD) && PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right)) {
            TOP() = NULL;
            result = append_string(locals, next, left, right);
            TOP() = result;
            ERROR_IF(result == NULL);
            DISPATCH();
        }
        result = EITHER(mg_trace_binary(capture, oparg, left, right), mg_ops_binary[oparg](left, right));
        STOP_IF(result == NULL);
        TOP() = result;
        Py_DECREF(left);
        Py_DECREF(right);
        ERROR_IF(result == NULL);
        DISPATCH();
    }

    OP(compare) {
        PyObject *right = POP();
        PyObject *left = TOP();
        PyObject *result =
            EITHER(mg_trace_compare(capture, oparg, left, right), PyObject_RichCompare(left, right, oparg));
        STOP_IF(result == NULL);
        TOP() = result;
        Py_DECREF(left);
        Py_DECREF(right);
        ERROR_IF(result == NULL);
        SKIP_CACHES(compare);
        DISPATCH();
    }

    OP(compare_identity) {
        PyObject *right = POP();
        PyObject *left = TOP();
        int same = EITHER(mg_trace_same(capture, left, right), left == right);
        STOP_IF(same < 0);
        if (MG_UNLIKELY(same < 0)) {
            PUSH(right);
            goto error;
        }
        TOP() = Py_NewRef(same ^ oparg ? Py_True : Py_False);
        Py_DECREF(left);
        Py_DECREF(right);
        DISPATCH();
    }

    OP(contains) {
        PyObject *container = POP();
        PyObject *value = POP();
        int found = EITHER(mg_world_contains(capture, container, value), PySequence_Contains(container, value));
        STOP_IF(found < 0);
        Py_DECREF(value);
        Py_DECREF(container);
        ERROR_IF(found < 0);
        PUSH(Py_NewRef(found ^ oparg ? Py_True : Py_False));
        DISPATCH();
    }

    OP(get_item) {
        PyObject *key = POP();
        PyObject *container = TOP();
        PyObject *value = EITHER(mg_world_getitem(capture, container, key), subscript(container, key));
        STOP_IF(value == NULL);
        TOP() = value;
        Py_DECREF(container);
        Py_DECREF(key);
        ERROR_IF(value == NULL);
        SKIP_CACHES(get_item);
        DISPATCH();
    }

    OP(set_item) {
        PyObject *key = PEEK(1), *container = PEEK(2), *value = PEEK(3);
        int status = EITHER(mg_world_setitem(capture, container, key, value), PyObject_SetItem(container, key, value));
        STOP_IF(status < 0);
        sp -= 3;
        Py_DECREF(value);
        Py_DECREF(container);
        Py_DECREF(key);
        ERROR_IF(status < 0);
        SKIP_CACHES(set_item);
        DISPATCH();
    }

    OP(delete_item) {
        PyObject *key = PEEK(1), *container = PEEK(2);
        int status = EITHER(mg_world_setitem(capture, container, key, NULL), PyObject_DelItem(container, key));
        STOP_IF(status < 0);
        sp -= 2;
        Py_DECREF(container);
        Py_DECREF(key);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(get_len) {
        Py_ssize_t length = EITHER(mg_world_length(capture, TOP()), PyObject_Length(TOP()));
        STOP_OR_RAISE_IF(length < 0);
        PyObject *boxed = PyLong_FromSsize_t(length);
        ERROR_IF(boxed == NULL);
        PUSH(boxed);
        DISPATCH();
    }

    /* ---- building values ---- */

    OP(build_tuple) {
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - oparg, oparg) < 0);
        PyObject *tuple = tuple_from_stack(sp, oparg);
        ERROR_IF(tuple == NULL);
        sp -= oparg;
        PUSH(tuple);
        DISPATCH();
    }

    OP(build_list) {
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - oparg, oparg) < 0);
        PyObject *list = list_from_stack(sp, oparg);
        ERROR_IF(list == NULL);
        sp -= oparg;
        PUSH(list);
        DISPATCH();
    }

    OP(build_set) {
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - oparg, oparg) < 0);
        PyObject *set = set_from_stack(sp, oparg);
        sp = drop(sp, oparg);
        ERROR_IF(set == NULL);
        PUSH(set);
        DISPATCH();
    }

    OP(build_map) {
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - 2 * oparg, 2 * oparg) < 0);
        PyObject *dict = dict_from_stack(sp, oparg, NULL);
        ERROR_IF(dict == NULL);
        sp = drop(sp, 2 * oparg);
        PUSH(dict);
        DISPATCH();
    }

    OP(build_const_key_map) {
        PyObject *keys = TOP();
        if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != oparg) {
            PyErr_SetString(PyExc_SystemError, "bad BUILD_CONST_KEY_MAP keys argument");
            goto error;
        }
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - 1 - oparg, oparg) < 0);
        PyObject *dict = dict_from_stack(sp - 1, oparg, keys);
        ERROR_IF(dict == NULL);
        sp = drop(sp, oparg + 1);
        PUSH(dict);
        DISPATCH();
    }

    OP(build_string) {
        PyObject *empty = PyUnicode_New(0, 0);
        ERROR_IF(empty == NULL);
        PyObject *string = _PyUnicode_JoinArray(empty, sp - oparg, oparg);
        Py_DECREF(empty);
        ERROR_IF(string == NULL);
        sp = drop(sp, oparg);
        PUSH(string);
        DISPATCH();
    }

    OP(build_slice) {
        PyObject *step = oparg == 3 ? POP() : NULL;
        PyObject *stop = POP();
        PyObject *start = TOP();
        PyObject *slice = PySlice_New(start, stop, step);
        TOP() = slice;
        Py_DECREF(start);
        Py_DECREF(stop);
        Py_XDECREF(step);
        ERROR_IF(slice == NULL);
        DISPATCH();
    }

    OP(format_value) {
        PyObject *spec = oparg & 4 ? POP() : NULL;
        if (MG_UNLIKELY(capture != NULL) && mg_trace_format(capture, &TOP()) < 0) {
            STOP_IF(1);
            Py_XDECREF(spec);
            goto error;
        }
        PyObject *value = POP();
        PyObject *result = mg_ops_format(value, oparg & 3, spec);
        Py_DECREF(value);
        Py_XDECREF(spec);
        ERROR_IF(result == NULL);
        PUSH(result);
        DISPATCH();
    }

    OP(list_append) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 1)) < 0) {
            STOP_IF(1);
            goto error;
        }
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - 1, 1) < 0);
        PyObject *value = POP();
        int status = PyList_Append(PEEK(oparg), value);
        Py_DECREF(value);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(set_add) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 1)) < 0) {
            STOP_IF(1);
            goto error;
        }
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - 1, 1) < 0);
        PyObject *value = POP();
        int status = PySet_Add(PEEK(oparg), value);
        Py_DECREF(value);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(map_add) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 2)) < 0) {
            STOP_IF(1);
            goto error;
        }
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - 2, 2) < 0);
        PyObject *value = POP();
        PyObject *key = POP();
        int status = PyDict_SetItem(PEEK(oparg), key, value);
        Py_DECREF(key);
        Py_DECREF(value);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(list_extend) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 1)) < 0) {
            STOP_IF(1);
            goto error;
        }
        STOP_IF(capture != NULL && mg_trace_unpackable(capture, &TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *iterable = POP();
        int status = mg_ops_list_extend(PEEK(oparg), iterable);
        Py_DECREF(iterable);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(set_update) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 1)) < 0) {
            STOP_IF(1);
            goto error;
        }
        STOP_IF(capture != NULL && mg_trace_unpackable(capture, &TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *iterable = POP();
        int status = _PySet_Update(PEEK(oparg), iterable);
        Py_DECREF(iterable);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(dict_update) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 1)) < 0) {
            STOP_IF(1);
            goto error;
        }
        STOP_IF(capture != NULL && mg_trace_expose(capture, &TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *mapping = POP();
        int status = mg_ops_dict_update(PEEK(oparg), mapping);
        Py_DECREF(mapping);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(dict_merge) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &PEEK(oparg + 1)) < 0) {
            STOP_IF(1);
            goto error;
        }
        STOP_IF(capture != NULL && mg_trace_expose(capture, &TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *mapping = POP();
        int status = mg_ops_dict_merge(PEEK(oparg), mapping, PEEK(2 + oparg));
        Py_DECREF(mapping);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    OP(list_to_tuple) {
        if (MG_UNLIKELY(capture != NULL) && mg_trace_expose(capture, &TOP()) < 0) {
            STOP_IF(1);
            goto error;
        }
        PyObject *list = TOP();
        PyObject *tuple = PyList_AsTuple(list);
        TOP() = tuple;
        Py_DECREF(list);
        ERROR_IF(tuple == NULL);
        DISPATCH();
    }

    OP(unpack_sequence) {
        STOP_IF(capture != NULL && (frame == capture->root ? mg_trace_unpack(capture, &TOP(), oparg)
                                                           : mg_trace_unpackable(capture, &TOP())) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *sequence = POP();
        PyObject **items = PyTuple_CheckExact(sequence)  ? ((PyTupleObject *)sequence)->ob_item
                           : PyList_CheckExact(sequence) ? ((PyListObject *)sequence)->ob_item
                                                         : NULL;
        if (items != NULL && Py_SIZE(sequence) == oparg) {
            for (int i = oparg; i-- > 0;) {
                PUSH(Py_NewRef(items[i]));
            }
        }
        else if (mg_ops_unpack(sequence, oparg, -1, sp + oparg) < 0) {
            Py_DECREF(sequence);
            goto error;
        }
        else {
            sp += oparg;
        }
        Py_DECREF(sequence);
        ERROR_IF(capture != NULL && mg_trace_touch_all(capture, sp - oparg, oparg) < 0);
        SKIP_CACHES(unpack_sequence);
        DISPATCH();
    }

    OP(unpack_ex) {
        int before = oparg & 255, after = oparg >> 8;
        STOP_IF(capture != NULL && mg_trace_unpackable(capture, &TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *sequence = POP();
        int status = mg_ops_unpack(sequence, before, after, sp + before + 1 + after);
        Py_DECREF(sequence);
        ERROR_IF(status < 0);
        sp += before + 1 + after;
        ERROR_IF(capture != NULL && mg_trace_touch_all(capture, sp - (before + 1 + after), before + 1 + after) < 0);
        DISPATCH();
    }

    /* ---- jumps ---- */

    OP(jump_forward) {
        next += oparg;
        DISPATCH();
    }

    OP(jump_backward) {
        next -= oparg;
        DISPATCH_SERVING();
    }

    OP(jump_backward_no_interrupt) {
        next -= oparg;
        DISPATCH();
    }

    OP(pop_jump_forward_if_false) {
        int truth = take_truth(capture, POP());
        STOP_OR_RAISE_IF(truth < 0);
        next += truth ? 0 : oparg;
        DISPATCH();
    }

    OP(pop_jump_forward_if_true) {
        int truth = take_truth(capture, POP());
        STOP_OR_RAISE_IF(truth < 0);
        next += truth ? oparg : 0;
        DISPATCH();
    }

    OP(pop_jump_backward_if_false) {
        int truth = take_truth(capture, POP());
        STOP_OR_RAISE_IF(truth < 0);
        if (!truth) {
            next -= oparg;
            DISPATCH_SERVING();
        }
        DISPATCH();
    }

    OP(pop_jump_backward_if_true) {
        int truth = take_truth(capture, POP());
        STOP_OR_RAISE_IF(truth < 0);
        if (truth) {
            next -= oparg;
            DISPATCH_SERVING();
        }
        DISPATCH();
    }

    OP(pop_jump_forward_if_none) {
        STOP_IF(capture != NULL && mg_trace_used(capture, TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *value = POP();
        next += value == Py_None ? oparg : 0;
        Py_DECREF(value);
        DISPATCH();
    }

    OP(pop_jump_forward_if_not_none) {
        STOP_IF(capture != NULL && mg_trace_used(capture, TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *value = POP();
        next += value != Py_None ? oparg : 0;
        Py_DECREF(value);
        DISPATCH();
    }

    OP(pop_jump_backward_if_none) {
        STOP_IF(capture != NULL && mg_trace_used(capture, TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *value = POP();
        int jump = value == Py_None;
        Py_DECREF(value);
        if (jump) {
            next -= oparg;
            DISPATCH_SERVING();
        }
        DISPATCH();
    }

    OP(pop_jump_backward_if_not_none) {
        STOP_IF(capture != NULL && mg_trace_used(capture, TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *value = POP();
        int jump = value != Py_None;
        Py_DECREF(value);
        if (jump) {
            next -= oparg;
            DISPATCH_SERVING();
        }
        DISPATCH();
    }

    OP(jump_if_false_or_pop) {
        int truth = EITHER(mg_rules_truth(capture, TOP()), PyObject_IsTrue(TOP()));
        STOP_OR_RAISE_IF(truth < 0);
        if (truth) {
            PyObject *value = POP();
            Py_DECREF(value);
        }
        else {
            next += oparg;
        }
        DISPATCH();
    }

    OP(jump_if_true_or_pop) {
        int truth = EITHER(mg_rules_truth(capture, TOP()), PyObject_IsTrue(TOP()));
        STOP_OR_RAISE_IF(truth < 0);
        if (truth) {
            next += oparg;
        }
        else {
            PyObject *value = POP();
            Py_DECREF(value);
        }
        DISPATCH();
    }

    OP(extend_argument)
        DISPATCH_CHAINED(oparg);

    /* ---- iteration ---- */

    OP(get_iterator) {
        PyObject *iterable = TOP();
        PyObject *iterator = EITHER(mg_world_iter(capture, iterable), PyObject_GetIter(iterable));
        STOP_IF(iterator == NULL);
        TOP() = iterator;
        Py_DECREF(iterable);
        ERROR_IF(iterator == NULL);
        DISPATCH();
    }

    OP(next_item) {
        PyObject *iterator = TOP();
        STOP_IF(capture != NULL && mg_trace_own_iterator(capture, iterator) < 0);
        PyObject *value = Py_TYPE(iterator)->tp_iternext(iterator);
        STOP_IF(value == NULL);
        if (value != NULL) {
            if (MG_UNLIKELY(capture != NULL)) {
                value = mg_world_touch(capture, value);
                ERROR_IF(value == NULL);
            }
            PUSH(value);
            DISPATCH();
        }
        if (MG_UNLIKELY(_PyErr_Occurred(tstate) != NULL)) {
            ERROR_IF(!PyErr_ExceptionMatches(PyExc_StopIteration));
            if (MG_UNLIKELY(link.use_tracing)) {
                mg_trace_exception(tstate, frame);
            }
            PyErr_Clear();
        }
        sp--;
        Py_DECREF(iterator);
        next += oparg;
        DISPATCH();
    }

    OP(get_yield_from_iter) {
        STOP_IF(capture != NULL && mg_trace_unpackable(capture, &TOP()) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *iterable = TOP();
        PyObject *iterator = mg_ops_get_yield_from_iter(code, iterable);
        ERROR_IF(iterator == NULL);
        TOP() = iterator;
        Py_DECREF(iterable);
        DISPATCH();
    }

    OP(send) {
        PyObject *value = POP();
        PyObject *receiver = TOP();
        PyObject *result;
        PySendResult status = PyIter_Send(receiver, value, &result);
        Py_DECREF(value);
        ERROR_IF(status == PYGEN_ERROR);
        if (MG_UNLIKELY(capture != NULL)) {
            result = mg_world_touch(capture, result);
            ERROR_IF(result == NULL);
        }
        if (status == PYGEN_RETURN) {
            TOP() = result;
            Py_DECREF(receiver);
            next += oparg;
        }
        else {
            PUSH(result);
        }
        DISPATCH();
    }

    OP(yield_value) {
        ERROR_IF(capture != NULL && mg_trace_escape(capture, sp - 1, 1) < 0);
        PyObject *value = POP();
        _PyFrame_GetGenerator(frame)->gi_frame_state = FRAME_SUSPENDED;
        mg_frame_set_depth(frame, sp - locals);
        mg_recursion_leave(tstate);
        mg_frame_leave(tstate, &link);
        return value;
    }

    OP(async_gen_wrap) {
        PyObject *wrapped = mg_async_gen_wrap(TOP());
        TOP() = wrapped;
        ERROR_IF(wrapped == NULL);
        DISPATCH();
    }

    OP(return_generator) { /* CPython makes the generator out of this frame, and returns it as the result */
        STOP_IF(capture != NULL && mg_trace_generator(capture, code) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        next--;
        mg_frame_set_at(frame, next - 1);
        mg_frame_set_depth(frame, sp - locals);
        mg_recursion_leave(tstate);
        mg_frame_leave(tstate, &link);
        PyObject *generator = _PyEval_EvalFrameDefault(tstate, frame, 0);
        if (MG_UNLIKELY(capture != NULL) && generator != NULL && mg_capture_add_mortal(capture, generator) < 0) {
            Py_CLEAR(generator);
        }
        return generator;
    }

    OP(return_value) {
        ERROR_IF(MG_UNLIKELY(capture != NULL) && !direct && frame != capture->root &&
                 mg_trace_return(capture, frame, sp - 1) < 0);
        if (MG_UNLIKELY(capture != NULL) && frame == capture->root) {
            mg_place_end(capture);
        }
        PyObject *value = POP();
        mg_frame_set_depth(frame, sp - locals);
        mg_recursion_leave(tstate);
        mg_frame_leave(tstate, &link);
        return value;
    }

    OP(get_awaitable) {
        PyObject *object = TOP();
        PyObject *iterator = mg_ops_get_awaitable(object, oparg);
        TOP() = iterator;
        Py_DECREF(object);
        ERROR_IF(iterator == NULL);
        DISPATCH();
    }

    OP(get_aiter) {
        PyObject *object = TOP();
        PyObject *iterator = mg_ops_get_aiter(object);
        TOP() = iterator;
        Py_DECREF(object);
        ERROR_IF(iterator == NULL);
        DISPATCH();
    }

    OP(get_anext) {
        PyObject *awaitable = mg_ops_get_anext(TOP());
        ERROR_IF(awaitable == NULL);
        PUSH(awaitable);
        DISPATCH();
    }

    OP(end_async_for) {
        PyObject *exc = POP();
        if (PyErr_GivenExceptionMatches(exc, PyExc_StopAsyncIteration)) {
            PyObject *iterator = POP();
            Py_DECREF(exc);
            Py_DECREF(iterator);
            DISPATCH();
        }
        mg_except_restore(exc);
        goto unwind;
    }

    /* ---- calls ---- */

    OP(keyword_names) {
        kwnames = PyTuple_GET_ITEM(consts, oparg);
        DISPATCH_CHAINED(0);
    }

    OP(before_call) { /* a bound method in the callable's place becomes function and self */
        PyObject *callable = PEEK(oparg + 1);
        if (PEEK(oparg + 2) == NULL && Py_IS_TYPE(callable, &PyMethod_Type)) {
            PEEK(oparg + 2) = Py_NewRef(PyMethod_GET_FUNCTION(callable));
            PEEK(oparg + 1) = Py_NewRef(PyMethod_GET_SELF(callable));
            Py_DECREF(callable);
        }
        SKIP_CACHES(before_call);
        if (kwnames != NULL) {
            DISPATCH_CHAINED(0);
        }
        DISPATCH();
    }

    OP(call) {
        int count = oparg + (PEEK(oparg + 2) != NULL);
        PyObject **arguments = sp - count;
        PyObject *callable = arguments[-1];
        if (MG_UNLIKELY(capture != NULL)) {
            await_sp = arguments - 1 - (count == oparg);
            await_next = next + INLINE_CACHE_ENTRIES_CALL;
            capture->call.pure = 1;
        }
        else if (count == oparg && Py_IS_TYPE(callable, &PyMethod_Type)) {
            callable = mg_ops_unbind(arguments--);
            count++;
        }
        size_t positional = (size_t)count - (kwnames != NULL ? (size_t)PyTuple_GET_SIZE(kwnames) : 0);
        PyObject *result =
            EITHER(mg_rules_call(capture, callable, arguments, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames),
                   mg_ops_call(callable, arguments, count, positional, kwnames));
        STOP_IF(result == NULL);
        kwnames = NULL;
        sp = arguments - 1;
        Py_DECREF(callable);
        for (int i = 0; i < count; i++) {
            Py_XDECREF(arguments[i]);
        }
        if (count == oparg) {
            sp--; /* the NULL below the callable */
        }
        ERROR_IF(result == NULL);
        PUSH(result);
        SKIP_CACHES(call);
        DISPATCH_SERVING();
    }

    OP(call_with_stars) {
        PyObject *keywords = oparg & 1 ? POP() : NULL;
        PyObject *positional = POP();
        PyObject *callable = POP();
        if (MG_UNLIKELY(capture != NULL)) {
            await_sp = sp - 1;
            await_next = next;
            capture->call.pure = 1;
        }
        PyObject *result = EITHER(mg_trace_call_ex(capture, callable, positional, keywords),
                                  mg_ops_call_ex(callable, positional, keywords));
        STOP_IF(result == NULL);
        sp--; /* the NULL below the callable */
        Py_DECREF(callable);
        Py_DECREF(positional);
        Py_XDECREF(keywords);
        ERROR_IF(result == NULL);
        PUSH(result);
        DISPATCH_SERVING();
    }

    OP(make_function) {
        if (capture != NULL) { /* calls take defaults and cells out of these unseen */
            for (int i = 0, flags = oparg; flags != 0; flags &= flags - 1) {
                STOP_IF(mg_trace_expose(capture, sp - 2 - i++) < 0);
            }
        }
        PyObject *function_code = POP();
        PyObject *function = make_function(frame, function_code, oparg, &sp);
        Py_DECREF(function_code);
        ERROR_IF(function == NULL);
        PUSH(function);
        ERROR_IF(capture != NULL && mg_trace_new_function(capture, function) < 0);
        DISPATCH();
    }

    OP(load_build_class) {
        PyObject *builder = mg_ops_load_build_class(frame);
        ERROR_IF(builder == NULL);
        PUSH(builder);
        DISPATCH();
    }

    OP(setup_annotations) {
        ERROR_IF(mg_ops_setup_annotations(frame) < 0);
        DISPATCH();
    }

    OP(print_expr) {
        PyObject *value = POP();
        int status = mg_ops_print_expr(value);
        Py_DECREF(value);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    /* ---- imports ---- */

    OP(import_name) {
        PyObject *fromlist = POP();
        PyObject *level = TOP();
        PyObject *module = EITHER(mg_trace_import_name(capture, tstate, frame, NAME_AT(oparg), fromlist, level),
                                  mg_ops_import_name(tstate, frame, NAME_AT(oparg), fromlist, level));
        STOP_IF(module == NULL);
        TOP() = module;
        Py_DECREF(level);
        Py_DECREF(fromlist);
        ERROR_IF(module == NULL);
        DISPATCH();
    }

    OP(import_from) {
        PyObject *value =
            EITHER(mg_trace_import_from(capture, TOP(), NAME_AT(oparg)), mg_ops_import_from(TOP(), NAME_AT(oparg)));
        STOP_OR_RAISE_IF(value == NULL);
        PUSH(value);
        DISPATCH();
    }

    OP(import_star) {
        PyObject *module = POP();
        int status = mg_ops_import_star(tstate, frame, module);
        Py_DECREF(module);
        ERROR_IF(status < 0);
        DISPATCH();
    }

    /* ---- exceptions and context managers ---- */

    OP(load_assertion_error) {
        PUSH(Py_NewRef(PyExc_AssertionError));
        DISPATCH();
    }

    OP(raise_exception) {
        STOP_IF(capture != NULL &&
                (oparg == 0 ? mg_capture_handles(capture) : mg_trace_raises(capture, PEEK(oparg))) < 0);
        PyObject *cause = oparg == 2 ? POP() : NULL;
        PyObject *exc = oparg >= 1 ? POP() : NULL;
        if (mg_except_raise(tstate, exc, cause)) {
            goto unwind;
        }
        goto error;
    }

    OP(raise_again) {
        if (oparg) {
            PyObject *lasti = PEEK(oparg + 1);
            if (!PyLong_Check(lasti)) {
                PyErr_SetString(PyExc_SystemError, "lasti is not an int");
                goto error;
            }
            mg_frame_set_at(frame, mg_frame_code_start(frame) + PyLong_AsLong(lasti));
        }
        mg_except_restore(POP());
        goto unwind;
    }

    OP(push_exc_info) {
        _PyErr_StackItem *info = tstate->exc_info;
        if (MG_UNLIKELY(capture != NULL)) {
            capture->reads.named = 1; /* its text may have names in it */
        }
        PyObject *exc = TOP();
        TOP() = info->exc_value != NULL ? info->exc_value : Py_NewRef(Py_None);
        PUSH(exc);
        info->exc_value = Py_NewRef(exc);
        DISPATCH();
    }

    OP(pop_except) {
        _PyErr_StackItem *info = tstate->exc_info;
        PyObject *handled_exc = info->exc_value;
        info->exc_value = POP();
        Py_XDECREF(handled_exc);
        DISPATCH();
    }

    OP(check_exc_match) {
        PyObject *types = POP();
        int matches = mg_except_match(TOP(), types);
        Py_DECREF(types);
        ERROR_IF(matches < 0);
        PUSH(Py_NewRef(matches ? Py_True : Py_False));
        DISPATCH();
    }

    OP(check_eg_match) {
        PyObject *types = POP();
        PyObject *exc = TOP();
        PyObject *match = NULL, *rest = NULL;
        int status = mg_except_group_match(exc, types, &match, &rest);
        Py_DECREF(types);
        ERROR_IF(status < 0);
        TOP() = rest;
        PUSH(match);
        if (match != Py_None) {
            PyErr_SetHandledException(match);
        }
        Py_DECREF(exc);
        DISPATCH();
    }

    OP(prep_reraise_star) {
        PyObject *raised = POP();
        PyObject *original = TOP();
        PyObject *result = mg_except_group_reraise(original, raised);
        TOP() = result;
        Py_DECREF(raised);
        Py_DECREF(original);
        ERROR_IF(result == NULL);
        DISPATCH();
    }

    OP(before_with) {
        PyObject *manager = TOP();
        PyObject *enter, *leave;
        STOP_IF(capture != NULL && mg_trace_manager(capture, manager) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        ERROR_IF(mg_ops_with_methods(manager, 0, &enter, &leave) < 0);
        PyObject *result = EITHER(mg_trace_enter_with(capture, manager, enter), PyObject_CallNoArgs(enter));
        Py_DECREF(enter);
        if (MG_UNLIKELY(result == NULL) && capture != NULL && capture->reason != MG_REASON_NONE) {
            Py_DECREF(leave);
            goto stopped;
        }
        TOP() = leave;
        Py_DECREF(manager);
        ERROR_IF(result == NULL);
        PUSH(result);
        DISPATCH();
    }

    OP(before_async_with) {
        PyObject *manager = TOP();
        PyObject *enter, *leave;
        ERROR_IF(mg_ops_with_methods(manager, 1, &enter, &leave) < 0);
        PyObject *result = EITHER(mg_trace_enter_with(capture, manager, enter), PyObject_CallNoArgs(enter));
        Py_DECREF(enter);
        if (MG_UNLIKELY(result == NULL) && capture != NULL && capture->reason != MG_REASON_NONE) {
            Py_DECREF(leave);
            goto stopped;
        }
        TOP() = leave;
        Py_DECREF(manager);
        ERROR_IF(result == NULL);
        PUSH(result);
        DISPATCH();
    }

    OP(with_except_start) { /* exit function, lasti, handled exception, exception */
        PyObject *exc = TOP();
        PyObject *traceback = PyException_GetTraceback(exc);
        PyObject *arguments[4] = {NULL, (PyObject *)Py_TYPE(exc), exc, traceback != NULL ? traceback : Py_None};
        PyObject *result =
            EITHER(mg_rules_call(capture, PEEK(4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL),
                   PyObject_Vectorcall(PEEK(4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL));
        Py_XDECREF(traceback);
        STOP_OR_RAISE_IF(result == NULL);
        PUSH(result);
        DISPATCH();
    }

    /* ---- pattern matching ---- */

    OP(match_mapping) {
        int known = capture == NULL || mg_registry_guard_match(capture, Py_TYPE(TOP())) == MG_OK;
        STOP_OR_RAISE_IF(!known);
        int matches = Py_TYPE(TOP())->tp_flags & Py_TPFLAGS_MAPPING ? 1 : 0;
        PUSH(Py_NewRef(matches ? Py_True : Py_False));
        DISPATCH();
    }

    OP(match_sequence) {
        int known = capture == NULL || mg_registry_guard_match(capture, Py_TYPE(TOP())) == MG_OK;
        STOP_OR_RAISE_IF(!known);
        int matches = Py_TYPE(TOP())->tp_flags & Py_TPFLAGS_SEQUENCE ? 1 : 0;
        PUSH(Py_NewRef(matches ? Py_True : Py_False));
        DISPATCH();
    }

    OP(match_keys) {
        STOP_IF(capture != NULL && (mg_trace_expose(capture, &PEEK(2)) < 0 || mg_trace_expose(capture, &TOP()) < 0));
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *values = mg_match_keys(PEEK(2), PEEK(1));
        ERROR_IF(values == NULL);
        PUSH(values);
        DISPATCH();
    }

    OP(match_class) {
        STOP_IF(capture != NULL && mg_trace_match_class(capture, PEEK(3)) < 0);
        ERROR_IF(capture != NULL && PyErr_Occurred());
        PyObject *keyword_names = POP();
        PyObject *type = POP();
        PyObject *subject = TOP();
        PyObject *values =
            mg_match_class(subject, type, oparg, keyword_names, EITHER(mg_trace_getattr, PyObject_GetAttr));
        TOP() = values;
        Py_DECREF(keyword_names);
        Py_DECREF(type);
        Py_DECREF(subject);
        ERROR_IF(values == NULL);
        DISPATCH();
    }

    /* ---- off the straight path ---- */

serve:
    ERROR_IF(EITHER(mg_trace_serve(capture, tstate), mg_pending_serve(tstate)) < 0);
    DISPATCH();

instrument:
    /* Something wants to see this instruction: a trace function (then CPython takes over), a count, a check. */
    {
        int opcode = mg_opcode_base[_Py_OPCODE(*next)];
        if (link.use_tracing) { /* never in the middle of a sequence: see DISPATCH_CHAINED */
            STOP_IF(capture != NULL && mg_capture_abort(capture, MG_REASON_TRACING, NULL) < 0);
            ERROR_IF(capture != NULL && PyErr_Occurred());
            goto hand_over;
        }
        if (mg_interp_counting) {
            mg_interp_counts[opcode]++;
        }
        if (capture != NULL) {
            if (!chained) {
                break_next = next;
                break_sp = sp;
                break_step = capture->steps + 1;
                await_sp = NULL;
                capture->breaks.mark_step = break_step;
                capture->breaks.mark = mg_exit_mark(capture);
            }
            int swallowed = capture->reason != MG_REASON_NONE; /* somebody went on after an abort */
            if (mg_trace_step(capture) < 0) {
                if (swallowed || chained) {
                    goto error;
                }
                goto stopped;
            }
            if (MG_UNLIKELY(capture->finals.watch_count > 0) &&
                mg_finalizer_check(capture, frame, sp, mg_opcode_takes(opcode, oparg), break_step) < 0) {
                if (capture->reason == MG_REASON_NONE) {
                    goto error;
                }
                goto unwind;
            }
            if (capture->reads.deferred_count > 0 && frame == capture->root &&
                mg_deferred_use(capture, frame, next, opcode, oparg, sp, break_step) < 0) {
                if (capture->reason == MG_REASON_NONE) { /* there was no memory */
                    goto error;
                }
                goto stopped;
            }
        }
        else if (compiled != NULL && !chained) {
            if (skip > 0) {
                skip--; /* the instruction that could not be captured */
            }
            else {
                PyObject *value = NULL;
                MgExit *onward = NULL;
                mg_frame_set_at(frame, next - 1);
                int handling = handled_now(tstate) != handled_before || mg_opcode_handles(opcode) ||
                               mg_except_forgets(frame, next);
                switch (handling ? MG_CONTINUE_STEP /* a handler is not captured: on to its end */
                                 : mg_tracer.proceed(compiled, frame, next, sp, &value, &onward)) {
                    case MG_CONTINUE_STEP:
                        break;
                    case MG_CONTINUE_RETURN:
                        sp = drop_all(sp, locals + code->co_nlocalsplus);
                        mg_frame_set_depth(frame, sp - locals);
                        mg_recursion_leave(tstate);
                        mg_frame_leave(tstate, &link);
                        return value;
                    case MG_CONTINUE_EXIT:
                        exit = onward;
                        index = 0;
                        goto resume;
                    case MG_CONTINUE_PLAIN:
                        goto hand_over;
                    default:
                        mg_frame_set_at(frame, next); /* raised where the capture starts: handlers around that see it */
                        goto error;
                }
            }
        }
        chained = 0;
#if MG_CHECKS
        mg_check_state(tstate, frame, &link, next, sp);
#endif
        goto *handlers[opcode];
    }

resume:
    /* The frame goes on where a captured part has stopped: with the values that it left, after the inner frames. */
    sp = mg_exit_place(exit, index, frame, sp);
    next = mg_frame_at(frame) + 1;
    skip = 1;
    {
        int is_onward = exit->owner == compiled && index == 0 && exit != first_exit;
        if (index + 1 < exit->count) {
            PyObject *value = mg_exit_enter(exit, index + 1);
            if (is_onward) {
                mg_exit_release(exit);
            }
            ERROR_IF(value == NULL);
            PUSH(value);
            skip = 0;
        }
        else {
            PyObject *raised = exit->error;
            exit->error = NULL;
            if (is_onward) {
                mg_exit_release(exit);
            }
            if (raised != NULL) {
                mg_frame_set_at(frame, next++);
                mg_except_restore(raised);
                goto error;
            }
        }
    }
    DISPATCH();

stopped:
    /* The capture must stop before this instruction. */
    mg_exit_take(capture, frame, break_next, break_sp, await_sp != NULL ? await_next : NULL, await_sp, break_step,
                 called_directly, handled_now(tstate) != handled_before ? handler_step : 0);
    sp = break_sp;
    goto unwind;

hand_over:
    /* CPython goes on with this frame from `next`, as if it had executed all before it. */
    mg_frame_set_at(frame, next - 1);
    mg_frame_set_depth(frame, sp - locals);
    mg_recursion_leave(tstate);
    mg_frame_leave(tstate, &link);
    return _PyEval_EvalFrameDefault(tstate, frame, 0);

unknown:
    mg_frame_set_at(frame, next++);
    PyErr_Format(PyExc_SystemError, "unknown opcode %d", _Py_OPCODE(*mg_frame_at(frame)));
    goto error;

unbound_local:
    mg_except_name(PyExc_UnboundLocalError, "cannot access local variable '%s' where it is not associated with a value",
                   PyTuple_GET_ITEM(code->co_localsplusnames, oparg));
    goto error;

error:
    /* An exception is set: this frame becomes part of its traceback. */
    kwnames = NULL;
    if (MG_UNLIKELY(!_PyErr_Occurred(tstate))) {
        PyErr_SetString(PyExc_SystemError, "error return without exception set");
    }
    if (MG_UNLIKELY(link.use_tracing)) {
        goto error_traced;
    }
    if (MG_UNLIKELY(capture != NULL && _PyErr_ExceptionMatches(tstate, PyExc_MemoryError))) {
        mg_capture_abort(capture, MG_REASON_MEMORY, NULL); /* who has memory would go another way */
    }
    if (MG_LIKELY(capture == NULL || capture->reason == MG_REASON_NONE)) {
        if (capture != NULL && tstate->curexc_traceback == NULL) { /* no frame has seen it yet */
            capture->breaks.raised = break_step;
            if (MG_UNLIKELY(capture->graph.parameters) && mg_trace_misnames(capture) < 0) {
                capture->finals.dropped = capture->finals.dropped == 0 ? break_step : capture->finals.dropped;
                goto unwind;
            }
        }
        mg_traceback_here(tstate, frame);
    }
    else {
        capture->breaks.can_break = 0; /* it was aborted where the instruction can't be undone */
    }

unwind:
    /* An exception is set and its traceback is right: to the handler, or out of the frame. */
    {
        MgHandler handler;
        PyObject **base = locals + code->co_nlocalsplus;
        int aborted = capture != NULL && capture->reason != MG_REASON_NONE; /* no handler may see that */
        if (MG_UNLIKELY(aborted) && handled_now(tstate) != handled_before) {
            Py_XSETREF(tstate->exc_info->exc_value, Py_XNewRef(handled_before));
        }
        if (aborted || !mg_except_find(code, (int)(next - 1 - mg_frame_code_start(frame)), &handler)) {
            while (sp > base) {
                PyObject *value = POP();
                Py_XDECREF(value);
            }
            mg_frame_set_depth(frame, sp - locals);
            if (MG_UNLIKELY(link.use_tracing)) {
                mg_trace_unwind(tstate, frame);
            }
            if (MG_UNLIKELY(aborted) && ((closing && !direct) || finalizes)) {
                capture->finals.dropped = capture->finals.dropped == 0 ? entered : capture->finals.dropped;
                PyErr_Clear(); /* CPython would print it */
                if (closing) {
                    PyErr_SetNone(PyExc_GeneratorExit);
                    goto unwound;
                }
                mg_recursion_leave(tstate);
                mg_frame_leave(tstate, &link);
                return Py_NewRef(Py_None);
            }
            goto unwound;
        }
        while (sp > base + handler.depth) {
            if (MG_UNLIKELY(capture != NULL) && mg_finalizer_let_go(capture, frame, (int)(sp - locals) - 1) < 0) {
                capture->finals.dropped = capture->finals.dropped == 0 ? break_step : capture->finals.dropped;
                goto unwind;
            }
            PyObject *value = POP();
            Py_XDECREF(value);
        }
        if (handler.push_lasti) {
            PyObject *lasti = PyLong_FromLong((long)(mg_frame_at(frame) - mg_frame_code_start(frame)));
            if (lasti == NULL) {
                goto unwind;
            }
            PUSH(lasti);
        }
        PyObject *taken = mg_except_take(tstate);
        if (MG_UNLIKELY(capture != NULL && PyErr_GivenExceptionMatches(taken, PyExc_MemoryError))) {
            Py_DECREF(taken); /* there was no memory to make an exception of what was raised */
            mg_capture_abort(capture, MG_REASON_MEMORY, NULL);
            goto unwind;
        }
        PUSH(taken);
        next = mg_frame_code_start(frame) + handler.target;
        if (handled_now(tstate) == handled_before) {
            handler_step = break_step;
        }
        DISPATCH();
    }

dead:
    sp = drop_all(sp, locals + code->co_nlocalsplus);
    mg_frame_set_depth(frame, sp - locals);
    if (!throwflag) {
        mg_recursion_leave(tstate);
        mg_frame_leave(tstate, &link);
        return Py_NewRef(Py_None);
    }
    goto unwound;

unwound:
    mg_recursion_leave(tstate);
    mg_frame_leave(tstate, &link);
    return NULL;

error_traced:
    /* A trace or profile function was set by the instruction that failed. A trace function is told by CPython, which
     * also knows where the frame came from when it tells of the handler's line. That is as if the exception were
     * thrown into the frame, but with no call to tell of: hence tracing is off at first, and on again by the event. */
    {
        int opcode = mg_opcode_base[_Py_OPCODE(*mg_frame_at(frame))];
        ptrdiff_t ahead = next - mg_frame_at(frame);
        if (tstate->c_tracefunc != NULL && ahead > 0 && ahead <= 1 + mg_opcode_caches[opcode]) {
            mg_frame_set_depth(frame, sp - locals);
            link.use_tracing = 0;
            mg_recursion_leave(tstate);
            mg_frame_leave(tstate, &link);
            return _PyEval_EvalFrameDefault(tstate, frame, 1);
        }
        mg_traceback_here(tstate, frame);
        mg_trace_exception(tstate, frame);
        goto unwind;
    }
}

void
mg_interp_init(void)
{
    run(NULL, NULL, 0, NULL, 0, NULL);
}

PyObject *
mg_interp_eval(PyThreadState *tstate, MgFrame *frame, int throwflag)
{
    if (mg_stack_is_short()) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: no room on the C stack");
        return NULL;
    }
    if (mg_frame_is_traced(tstate)) { /* a trace or profile function wants CPython's own events */
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    return run(tstate, frame, throwflag, NULL, 0, NULL);
}

PyObject *
mg_interp_resume(PyThreadState *tstate, MgFrame *frame, MgExit *exit, int index)
{
    PyObject *result = run(tstate, frame, 0, exit, index, NULL);
    mg_exit_release(exit);
    return result;
}

PyObject *
mg_interp_watch(PyThreadState *tstate, MgFrame *frame, PyObject *owner)
{
    /* With an error set: torch's parser of arguments goes on after one, and calls Python code. */
    if (mg_stack_is_short() || mg_frame_is_traced(tstate) || PyErr_Occurred() != NULL) {
        return _PyEval_EvalFrameDefault(tstate, frame, 0);
    }
    Py_INCREF(owner);
    PyObject *result = run(tstate, frame, 0, NULL, 0, owner);
    Py_DECREF(owner);
    return result;
}
