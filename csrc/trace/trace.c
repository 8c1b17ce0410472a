/* Tracing mode: what the interpreter asks for at single instructions, and the life of a capture from start to end. */
#include "trace/trace.h"

#include "capture/callee.h"
#include "capture/deferred.h"
#include "capture/protocol.h"
#include "capture/recover.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "cpython/except.h"
#include "cpython/ops.h"
#include "policy/control.h"
#include "policy/rules.h"
#include "record/arithmetic.h"
#include "record/record.h"
#include "record/number.h"
#include "torch/state.h"
#include "trace/hook.h"
#include "world/tensor.h"
#include "world/world.h"

long mg_trace_fault;

enum { STEP_LIMIT = 20 * 1000 * 1000 };

/* ---- a capture's life ---- */

/* What is to be captured: a call, or the rest of a frame. */
typedef struct {
    PyObject *callable;
    PyObject *const *args;
    size_t nargsf;
    PyObject *kwnames;
    MgFrame *frame;
} Subject;

/* Drops the first slots of a frame. After a capture these are its locals, which hold values of the capture's own: its stack
 * is empty. */
static void
drop_slots(MgFrame *frame, int count)
{
    for (int i = 0; i < count; i++) {
        Py_CLEAR(mg_frame_slots(frame)[i]);
    }
}

/* Takes off the exception of an abort what captured code was handling when it was stopped: its frames hold what must not be
 * finalized for real. */
static void
forget_context(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (value != NULL && PyExceptionInstance_Check(value)) {
        PyException_SetContext(value, NULL);
        PyException_SetTraceback(value, Py_None);
    }
    Py_XDECREF(traceback);
    PyErr_Restore(type, value, NULL);
}

/* Runs what is captured, in tracing mode; the interpreter's and torch's state are looked after. The result is borrowed
 * from the capture. */
static PyObject *
run_subject(MgCapture *capture, const Subject *subject)
{
    assert(capture->reason == MG_REASON_NONE && capture->root == NULL && capture->result == NULL); /* it is new */
    MgCapture *outer = mg_capture_current;
    PyThreadState *tstate = PyThreadState_Get();
    capture->profiled = mg_aside_hide_operations(); /* not those that a capture makes for itself: twins, say */
    mg_collections_hold();
    capture->torch.entry_state = mg_state_read();
    PyObject *handled = Py_XNewRef(tstate->exc_info->exc_value);
    PyObject *topmost = PyErr_GetHandledException(); /* may be a caller's, if this is a generator */
    capture->around.handled = topmost;
    PyObject *result = NULL;
    if (capture->torch.entry_state != NULL && mg_control_begin() == MG_OK) {
        capture->torch.state = Py_NewRef(capture->torch.entry_state);
        mg_capture_find_log(capture);
        mg_hook_acquire();
        mg_capture_enter(capture);
        result = subject->frame != NULL
                     ? mg_tracer.eval(tstate, subject->frame, 0)
                     : PyObject_Vectorcall(subject->callable, subject->args, subject->nargsf, subject->kwnames);
        if (result != NULL && capture->starved && capture->reason == MG_REASON_NONE) {
            Py_CLEAR(result);
            mg_capture_abort(capture, MG_REASON_MEMORY, NULL);
        }
        if (result == NULL && capture->reason == MG_REASON_NONE) {
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            int starved = type != NULL && PyErr_GivenExceptionMatches(type, PyExc_MemoryError);
            mg_capture_abort(capture, starved ? MG_REASON_MEMORY : MG_REASON_EXCEPTION, type == NULL ? NULL : "%S",
                             type);
            /* it goes here, with its traceback: the frames there hold what must not be finalized for real */
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
        }
        else if (result == NULL) {
            forget_context();
        }
        Py_XSETREF(tstate->exc_info->exc_value, Py_XNewRef(handled)); /* the same, if it was aborted in a handler */
        Py_CLEAR(capture->graph.touched);                             /* plans pass on what they do not look into */
        if (subject->frame != NULL) { /* what its locals held goes here, as it does at the end of a call */
            drop_slots(subject->frame, mg_frame_code(subject->frame)->co_nlocalsplus);
        }
        assert(mg_capture_current == capture && (result != NULL || capture->reason != MG_REASON_NONE));
        mg_capture_enter(outer);
        mg_hook_release();
    }
    else if (subject->frame != NULL) { /* it was not run */
        drop_slots(subject->frame, mg_frame_depth(subject->frame));
    }
    Py_XDECREF(handled);
    Py_XDECREF(topmost);
    mg_collections_release();
    mg_aside_show_operations(capture->profiled);
    capture->profiled = 0;
    capture->result = result;
    return result;
}

PyObject *
mg_trace_run(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Subject subject = {callable, args, nargsf, kwnames, NULL};
    PyObject *result = run_subject(capture, &subject);
    if (result != NULL && mg_rules_check_managers(capture) < 0) {
        result = NULL;
    }
    if (result != NULL && capture->root == NULL) { /* the call never reached a Python frame */
        mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
        result = NULL;
    }
    return result;
}

PyObject *
mg_trace_frame(MgCapture *capture, MgFrame *frame, MgUnit *next, PyObject **sp)
{
    int count = (int)(sp - mg_frame_slots(frame));
    PyObject **saved = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    if (saved == NULL) {
        return PyErr_NoMemory();
    }
    MgUnit *at = mg_frame_at(frame);
    for (int i = 0; i < count; i++) {
        saved[i] = Py_XNewRef(mg_frame_slots(frame)[i]);
    }
    mg_frame_set_at(frame, next - 1);
    mg_frame_set_depth(frame, count);
    capture->breaks.point = 1;
    capture->breaks.point_count = count;
    Subject subject = {.frame = frame};
    PyObject *result = run_subject(capture, &subject);
    for (int i = 0; i < count; i++) {
        mg_frame_slots(frame)[i] = saved[i];
    }
    PyMem_Free(saved);
    mg_frame_set_at(frame, at);
    mg_frame_set_depth(frame, -1);
    return result != NULL && mg_rules_check_managers(capture) < 0 ? NULL : result;
}

int
mg_trace_step(MgCapture *capture)
{
    if (MG_UNLIKELY(capture->reason != MG_REASON_NONE)) {
        return mg_capture_check(capture);
    }
    if (MG_UNLIKELY(capture->starved)) {
        return mg_capture_abort(capture, MG_REASON_MEMORY, NULL);
    }
    if (MG_UNLIKELY(++capture->steps == capture->breaks.stop)) {
        return mg_capture_abort(capture, capture->breaks.stop_reason, NULL);
    }
    if (MG_UNLIKELY(capture->steps == mg_trace_fault)) {
        return mg_capture_abort(capture, MG_REASON_FAULT, NULL);
    }
    if (MG_UNLIKELY(capture->steps > STEP_LIMIT)) {
        return mg_capture_abort(capture, MG_REASON_TOO_LONG, NULL);
    }
    return MG_OK;
}

/* The object that __init__ is about to fill, if it has a finalizer: should __init__ raise, nobody else gets to see it. */
static int
note_object(MgCapture *capture, MgFrame *frame)
{
    PyObject *object = mg_frame_code(frame)->co_argcount == 0 ? NULL : mg_frame_slots(frame)[0];
    if (object == NULL || PyUnicode_CompareWithASCIIString(mg_frame_code(frame)->co_name, "__init__") != 0 ||
        _PyType_Lookup(Py_TYPE(object), MG_STRING("__del__")) == NULL || mg_outside_of(capture, object) != NULL) {
        return MG_OK;
    }
    return mg_capture_add_mortal(capture, object);
}

/* Notes the code of a frame among those that were captured. */
static int
note_code(MgCapture *capture, PyCodeObject *code)
{
    MgSurroundings *around = &capture->around;
    if (mg_table_get(&around->known_codes, code, NULL) != NULL) {
        return MG_OK;
    }
    if ((around->codes == NULL && (around->codes = PyList_New(0)) == NULL) ||
        PyList_Append(around->codes, (PyObject *)code) < 0) {
        return MG_ERR;
    }
    return mg_table_set(&around->known_codes, code, NULL, code);
}

int
mg_trace_enter(MgCapture *capture, MgFrame *frame)
{
    if (capture->reason != MG_REASON_NONE) {
        /* a generator of the aborted capture is closed: nothing of it is to run */
        return PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_GeneratorExit) ? MG_ERR : mg_capture_check(capture);
    }
#if MG_CHECKS
    mg_aside_check(capture);
#endif
    capture->reads.innermost = NULL;
    PyObject *type, *value, *traceback; /* what is thrown into a generator */
    PyErr_Fetch(&type, &value, &traceback);
    int result = capture->root == NULL ? mg_world_enter_root(capture, frame) : mg_world_enter_frame(capture, frame);
    if (result == MG_OK && capture->finals.finalizers > 0) {
        result = note_object(capture, frame);
    }
    if (result == MG_OK) {
        result = note_code(capture, mg_frame_code(frame));
    }
    if (result == MG_OK) {
        PyErr_Restore(type, value, traceback);
    }
    else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    return result;
}

int
mg_trace_serve(MgCapture *capture, PyThreadState *tstate)
{
    mg_aside_suspend(capture); /* a signal handler is no part of the program */
    int result = mg_pending_serve(tstate);
    mg_aside_resume(capture);
    return result < 0 ? mg_recover_interrupt(capture) : result; /* nor is what it raises */
}

/* ---- stack slots ---- */

int
mg_trace_expose(MgCapture *capture, PyObject **slot)
{
    PyObject *exposed = mg_world_expose(capture, *slot);
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return MG_ERR;
    }
    Py_SETREF(*slot, exposed);
    return MG_OK;
}

int
mg_trace_format(MgCapture *capture, PyObject **slot)
{
    capture->reads.addresses = capture->reads.addresses || mg_rules_has_address(*slot);
    capture->reads.named = capture->reads.named || mg_protocol_has_name(*slot);
    return mg_rules_note_text(capture, *slot) < 0 ? MG_ERR : mg_trace_expose(capture, slot);
}

int
mg_trace_unpackable(MgCapture *capture, PyObject **slot)
{
    if (mg_is_twin(*slot)) {
        PyObject *iterator = mg_tensor_iter(capture, *slot);
        if (iterator == NULL) {
            return MG_ERR;
        }
        Py_SETREF(*slot, iterator);
        return MG_OK;
    }
    return mg_trace_expose(capture, slot);
}

int
mg_trace_unpack(MgCapture *capture, PyObject **slot, int count)
{
    MgOutside *record = PyTuple_CheckExact(*slot) ? mg_outside_of(capture, *slot) : NULL;
    if (record == NULL || record->kind != MG_KIND_TUPLE || PyTuple_GET_SIZE(*slot) != count) {
        return mg_trace_unpackable(capture, slot);
    }
    PyObject *seen = mg_capture_guard_length(capture, record->source, count) < 0 ? NULL : PyTuple_New(count);
    for (int i = 0; seen != NULL && i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(*slot, i);
        MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ITEM, record->source, NULL, i);
        PyObject *view = source == NULL                                   ? NULL
                         : source->view == NULL && mg_deferred_fits(item) ? mg_deferred_new(capture, item, source)
                                                                          : mg_world_reach(capture, item, source);
        if (view == NULL) {
            Py_CLEAR(seen);
            break;
        }
        PyTuple_SET_ITEM(seen, i, view);
    }
    if (seen == NULL) {
        return MG_ERR;
    }
    Py_SETREF(*slot, seen);
    return MG_OK;
}

int
mg_trace_touch_all(MgCapture *capture, PyObject **slots, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        slots[i] = mg_world_touch(capture, slots[i]);
        if (slots[i] == NULL) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_trace_direct(MgCapture *capture)
{
    int direct = capture->call.direct_pending || capture->root == NULL;
    capture->call.direct_pending = 0;
    return direct;
}

int
mg_trace_own_iterator(MgCapture *capture, PyObject *iterator)
{
    if (mg_outside_of(capture, iterator) != NULL) { /* using it up would be a write to outside */
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "an iterator from outside");
    }
    return MG_OK;
}

int
mg_trace_used(MgCapture *capture, PyObject *value)
{
    return mg_is_twin(value) ? mg_record_input(capture, value) : MG_OK;
}

int
mg_trace_escape(MgCapture *capture, PyObject **slots, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *exposed = mg_world_escape(capture, slots[i]);
        if (exposed == NULL) {
            return MG_ERR;
        }
        Py_SETREF(slots[i], exposed);
    }
    return MG_OK;
}

/* 1 for a special method whose result C code takes only if it is an int, or a float. */
static int
returns_number(PyCodeObject *code)
{
    static const char *const names[] = {"__index__",       "__len__",  "__hash__",    "__int__",   "__float__",
                                        "__length_hint__", "__bool__", "__complex__", "__sizeof__"};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (PyUnicode_CompareWithASCIIString(code->co_name, names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

int
mg_trace_return(MgCapture *capture, MgFrame *frame, PyObject **slot)
{
    if (mg_is_number(*slot) && mg_number_is_backed(*slot) && returns_number(mg_frame_code(frame))) {
        PyObject *value = mg_number_take(capture, *slot);
        if (value == NULL) {
            return MG_ERR;
        }
        Py_SETREF(*slot, value);
    }
    return mg_trace_escape(capture, slot, 1);
}

int
mg_trace_raises(MgCapture *capture, PyObject *exception)
{
    if (PyExceptionInstance_Check(exception) && mg_outside_of(capture, exception) != NULL) {
        return mg_capture_abort(capture, MG_REASON_STORE, "the traceback of an exception from outside");
    }
    return MG_OK;
}

/* Whether two numbers that vary are one object: known of those that lie outside as they are, and guarded. 1, 0 or MG_ERR; 2 for
 * others. */
static int
are_same_numbers(MgCapture *capture, PyObject *left, PyObject *right)
{
    enum { LEAST_SHARED = -5, MOST_SHARED = 256 }; /* CPython has one object for each of these */
    if (!mg_is_number(left)) {
        PyObject *other = left;
        left = right;
        right = other;
    }
    if (!mg_is_number(left) || (!mg_is_number(right) && !PyLong_CheckExact(right))) {
        return 2;
    }
    if (PyLong_CheckExact(right)) { /* a constant */
        int overflow;
        long long value = PyLong_AsLongLongAndOverflow(right, &overflow);
        int compares = !overflow && value >= LEAST_SHARED && value <= MOST_SHARED && mg_number_is_backed(left) &&
                       mg_number_kind(left) == MG_NUMBER_INT;
        PyObject *equal = compares ? mg_arithmetic_compare(capture, Py_EQ, left, right) : NULL;
        int result = !compares ? 2 : equal == NULL ? MG_ERR : equal == Py_True;
        Py_XDECREF(equal);
        return result;
    }
    MgSource *a = mg_number_source(capture, left), *b = mg_number_source(capture, right);
    if (a == NULL || b == NULL || a->raw == NULL || b->raw == NULL) {
        return 2;
    }
    int same = a->raw == b->raw;
    int status = a == b ? MG_OK : mg_capture_guard_pair(capture, same ? MG_GUARD_ALIAS : MG_GUARD_DISTINCT, a, b);
    return status < 0 ? MG_ERR : same;
}

int
mg_trace_same(MgCapture *capture, PyObject *left, PyObject *right)
{
    if (mg_trace_used(capture, left) < 0 || mg_trace_used(capture, right) < 0) {
        return MG_ERR;
    }
    if (mg_world_guard_values(capture, left, right) < 0) {
        return MG_ERR;
    }
    if (mg_outside_identity(capture, left) == mg_outside_identity(capture, right)) {
        return 1;
    }
    int same = are_same_numbers(capture, left, right);
    if (same != 2) {
        return same;
    }
    if ((mg_is_number(left) && (mg_is_number(right) || PyLong_Check(right))) ||
        (mg_is_number(right) && PyLong_Check(left))) { /* small ints are shared */
        return mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "whether two numbers are one object");
    }
    MgOutside *a = mg_outside_of(capture, left), *b = mg_outside_of(capture, right);
    if (a == NULL || b == NULL || (a->kind == MG_KIND_CONSTANT && b->kind == MG_KIND_CONSTANT)) {
        return 0;
    }
    return mg_capture_guard_pair(capture, MG_GUARD_DISTINCT, a->source, b->source);
}

/* ---- functions ---- */

int
mg_trace_generator(MgCapture *capture, PyCodeObject *code)
{
    if (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) {
        return mg_capture_abort(capture, MG_REASON_ASYNC, NULL);
    }
    return MG_OK;
}

int
mg_trace_new_function(MgCapture *capture, PyObject *function)
{
    return mg_table_set(&capture->inside, function, NULL, function);
}

PyObject *
mg_trace_call_ex(MgCapture *capture, PyObject *callable, PyObject *positional, PyObject *keywords)
{
    PyObject *result = NULL, *named = NULL, *arguments = NULL, *exposed = NULL;
    if (keywords != NULL) {
        named = mg_world_expose(capture, keywords);
        if (named == NULL) {
            return NULL;
        }
        if (!PyDict_CheckExact(named)) {
            PyObject *dict = PyDict_New();
            if (dict == NULL || mg_ops_dict_merge(dict, named, callable) < 0) {
                Py_XDECREF(dict);
                goto done;
            }
            Py_SETREF(named, dict);
        }
        else if (Py_REFCNT(named) > 1) {
            PyObject *dict = PyDict_Copy(named);
            if (dict == NULL) {
                goto done;
            }
            Py_SETREF(named, dict);
        }
    }
    exposed = Py_NewRef(positional);
    if (mg_trace_unpackable(capture, &exposed) < 0) {
        goto done;
    }
    arguments = PySequence_Tuple(exposed);
    if (arguments == NULL) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(exposed)->tp_iter == NULL) {
            mg_error_clear();
            result = mg_ops_call_ex(callable, positional, keywords); /* raises as CPython does */
        }
        goto done;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(arguments);
    if (size > 0 && (arguments == exposed || Py_REFCNT(arguments) > 1)) { /* its items are to be swapped */
        PyObject *copy = PyTuple_New(size);
        for (Py_ssize_t i = 0; copy != NULL && i < size; i++) {
            PyTuple_SET_ITEM(copy, i, Py_NewRef(PyTuple_GET_ITEM(arguments, i)));
        }
        Py_SETREF(arguments, copy);
        if (arguments == NULL) {
            goto done;
        }
    }
    if (mg_trace_touch_all(capture, ((PyTupleObject *)arguments)->ob_item, PyTuple_GET_SIZE(arguments)) < 0) {
        goto done;
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (named != NULL && PyDict_Next(named, &position, &key, &value)) {
        PyObject *view = mg_world_touch(capture, Py_NewRef(value));
        int status = view == NULL ? MG_ERR : PyDict_SetItem(named, key, view); /* no new key: the walk stays valid */
        Py_XDECREF(view);
        if (status < 0) {
            goto done;
        }
    }
    result = mg_rules_call_tuple(capture, callable, arguments, named);
done:
    Py_XDECREF(named);
    Py_XDECREF(arguments);
    Py_XDECREF(exposed);
    return result;
}

/* ---- operators ---- */

PyObject *
mg_trace_unary(MgCapture *capture, MgUnary operator, PyObject *value)
{
    if (mg_is_twin(value)) {
        return mg_arithmetic_unary(capture, operator, value);
    }
    PyObject *exposed = mg_world_expose(capture, value);
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return NULL;
    }
    PyObject *result = operator == MG_NEGATIVE   ? PyNumber_Negative(exposed)
                       : operator == MG_POSITIVE ? PyNumber_Positive(exposed)
                                                 : PyNumber_Invert(exposed);
    Py_DECREF(exposed);
    return mg_world_touch(capture, result);
}

/* 1 if a twin and this value can meet in a recorded operator. */
static int
is_operand(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == mg_twin_class || mg_is_number(value) || type == &PyLong_Type || type == &PyFloat_Type ||
        type == &PyBool_Type || type == &PyComplex_Type) {
        return 1;
    }
    /* an object of a Python class over a number that has all the number's own operators, such as an IntEnum */
    PyTypeObject *base = PyLong_Check(value) ? &PyLong_Type : PyFloat_Check(value) ? &PyFloat_Type : NULL;
    return base != NULL && type->tp_richcompare == base->tp_richcompare && type->tp_as_number != NULL &&
           memcmp(type->tp_as_number, base->tp_as_number, sizeof(PyNumberMethods)) == 0;
}

/* Both operands of a native operator as C code may see them. MG_OK with new references. */
static int
expose_both(MgCapture *capture, PyObject *left, PyObject *right, PyObject **a, PyObject **b)
{
    *b = NULL;
    *a = mg_world_expose(capture, left);
    *b = *a == NULL ? NULL : mg_world_expose(capture, right);
    if (*b != NULL && (mg_is_number(*a) || mg_is_number(*b))) {
        Py_SETREF(*a, mg_number_beside(capture, *a, *b));
        Py_SETREF(*b, *a == NULL ? NULL : mg_number_beside(capture, *b, *a));
    }
    if (*b == NULL || mg_protocol_guard_calls(capture, *a) < 0 || mg_protocol_guard_calls(capture, *b) < 0) {
        Py_CLEAR(*a);
        Py_CLEAR(*b);
        return MG_ERR;
    }
    return MG_OK;
}

PyObject *
mg_trace_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    if ((mg_is_twin(left) || mg_is_twin(right)) && is_operand(left) && is_operand(right)) {
        return mg_arithmetic_binary(capture, operation, left, right);
    }
    PyObject *a, *b;
    if ((capture->symbols.session != NULL || mg_capture_varies(capture)) &&
        mg_symbol_size_binary(operation, left, right, &a)) {
        return a;
    }
    if (PyUnicode_Check(left) && (operation == NB_REMAINDER || operation == NB_INPLACE_REMAINDER)) {
        capture->reads.addresses = capture->reads.addresses || mg_rules_has_address(right);
        capture->reads.named = capture->reads.named || mg_protocol_has_name(right);
        if (mg_rules_note_text(capture, right) < 0) {
            return NULL;
        }
    }
    if (expose_both(capture, left, right, &a, &b) < 0) {
        return NULL;
    }
    PyObject *result = mg_ops_binary[operation](a, b);
    Py_DECREF(a);
    Py_DECREF(b);
    return mg_world_touch(capture, result);
}

PyObject *
mg_trace_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    int number = (mg_is_number(left) && !PyComplex_Check(right)) || (mg_is_number(right) && !PyComplex_Check(left));
    if ((mg_is_twin(left) || mg_is_twin(right) || number) && is_operand(left) && is_operand(right)) {
        return mg_arithmetic_compare(capture, operation, left, right);
    }
    PyObject *a, *b;
    if (expose_both(capture, left, right, &a, &b) < 0) {
        return NULL;
    }
    PyObject *result = PyObject_RichCompare(a, b, operation);
    Py_DECREF(a);
    Py_DECREF(b);
    return mg_world_touch(capture, result);
}

int
mg_trace_misnames(MgCapture *capture)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value == NULL                       ? NULL
                     : PyUnicode_Check(value)            ? value
                     : !PyExceptionInstance_Check(value) ? NULL
                     : PyTuple_GET_SIZE(((PyBaseExceptionObject *)value)->args) > 0
                         ? PyTuple_GET_ITEM(((PyBaseExceptionObject *)value)->args, 0)
                         : NULL;
    PyObject *name = text != NULL && PyUnicode_CheckExact(text) ? MG_STRING("Tensor") : NULL;
    int found = name == NULL ? 0 : PyUnicode_Find(text, name, 0, PyUnicode_GET_LENGTH(text), 1) >= 0;
    PyErr_Restore(type, value, traceback);
    return found ? mg_capture_abort(capture, MG_REASON_OPAQUE, "an error that names the class of a tensor") : MG_OK;
}

/* ---- the rest ---- */

int
mg_trace_match_class(MgCapture *capture, PyObject *subject)
{
    if (mg_is_twin(subject) || mg_is_number(subject)) {
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "a class pattern on %s", Py_TYPE(subject)->tp_name);
    }
    return mg_world_guard_mro(capture, Py_TYPE(subject));
}

PyObject *
mg_trace_getattr(PyObject *owner, PyObject *name)
{
    return mg_world_getattr(mg_capture_current, owner, name);
}

int
mg_trace_manager(MgCapture *capture, PyObject *manager)
{
    if (mg_world_guard_lookup(capture, Py_TYPE(manager), MG_STRING("__enter__")) < 0) {
        return MG_ERR;
    }
    return mg_world_guard_lookup(capture, Py_TYPE(manager), MG_STRING("__exit__"));
}

PyObject *
mg_trace_enter_with(MgCapture *capture, PyObject *manager, PyObject *enter)
{
    (void)manager;
    return mg_rules_call(capture, enter, NULL, 0, NULL);
}

int
mg_trace_delete_global(MgCapture *capture, MgFrame *frame, PyObject *name)
{
    (void)frame;
    return mg_capture_abort(capture, MG_REASON_STORE, "deleting the global %U", name);
}

/* A name in the namespace of a class body that captured code executes. 1, 0 or -1. */
static int
local_name(MgCapture *capture, MgFrame *frame, PyObject *name, PyObject **result)
{
    *result = NULL;
    if (mg_frame_namespace(frame) == NULL || !PyDict_CheckExact(mg_frame_namespace(frame))) {
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "the namespace of a class body");
    }
    PyObject *value = PyDict_GetItemWithError(mg_frame_namespace(frame), name);
    if (value == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    *result = mg_world_touch(capture, Py_NewRef(value));
    return *result == NULL ? -1 : 1;
}

PyObject *
mg_trace_load_name(MgCapture *capture, MgFrame *frame, PyObject *name)
{
    PyObject *value;
    int found = local_name(capture, frame, name, &value);
    return found > 0 ? value : found < 0 ? NULL : mg_world_load_global(capture, frame, name);
}

PyObject *
mg_trace_load_classderef(MgCapture *capture, MgFrame *frame, int slot)
{
    PyObject *value;
    int found = local_name(capture, frame, PyTuple_GET_ITEM(mg_frame_code(frame)->co_localsplusnames, slot), &value);
    if (found == 0) {
        value = mg_world_load_cell(capture, mg_frame_slots(frame)[slot]);
        if (value == NULL) {
            mg_except_unbound(mg_frame_code(frame), slot);
        }
    }
    return value;
}

/* What a dict from outside has at a name, which is guarded. New; NULL if there is nothing, or with an exception. */
static PyObject *
read_name(MgCapture *capture, PyObject *dict, PyObject *name)
{
    PyObject *value = NULL;
    int found = mg_outside_pin(capture, dict) == NULL ? -1 : mg_world_find_item(capture, dict, name, &value);
    return found == 1 ? value : NULL;
}

/* The whole name of a module, given relative to the package of the code that imports it. New; NULL if capture stops. */
static PyObject *
absolute_name(MgCapture *capture, MgFrame *frame, PyObject *name, int level)
{
    if (level == 0) {
        return Py_NewRef(name);
    }
    PyObject *package = read_name(capture, mg_frame_globals(frame), MG_STRING("__package__")), *whole = NULL;
    Py_ssize_t end = package != NULL && PyUnicode_Check(package) ? PyUnicode_GET_LENGTH(package) : -1;
    for (; end > 0 && level > 1; level--) {
        end = PyUnicode_FindChar(package, '.', 0, end, -1);
    }
    PyObject *base = end > 0 ? PyUnicode_Substring(package, 0, end) : NULL;
    if (base != NULL) {
        whole = PyUnicode_GET_LENGTH(name) == 0 ? Py_NewRef(base) : PyUnicode_FromFormat("%U.%U", base, name);
    }
    else if (!PyErr_Occurred()) {
        mg_capture_abort(capture, MG_REASON_IMPORT, "%U", name);
    }
    Py_XDECREF(package);
    Py_XDECREF(base);
    return whole;
}

/* A module that has been imported, which is guarded. New; NULL if capture stops. */
static PyObject *
find_module(MgCapture *capture, PyObject *name)
{
    PyObject *module = read_name(capture, PyImport_GetModuleDict(), name);
    if (module == Py_None || (module == NULL && !PyErr_Occurred())) {
        Py_CLEAR(module);
        mg_capture_abort(capture, MG_REASON_IMPORT, "%U", name);
    }
    return module;
}

/* 1 if a module has all these names, so that importing them from it does nothing more. */
static int
has_names(PyObject *module, PyObject *names)
{
    PyObject *dict = PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
    int has = dict != NULL && PyTuple_Check(names);
    for (Py_ssize_t i = 0; has > 0 && i < PyTuple_GET_SIZE(names); i++) {
        has = PyDict_Contains(dict, PyTuple_GET_ITEM(names, i));
    }
    return has;
}

PyObject *
mg_trace_import_name(MgCapture *capture, PyThreadState *tstate, MgFrame *frame, PyObject *name, PyObject *fromlist,
                     PyObject *level)
{
    PyObject *function = read_name(capture, mg_frame_builtins(frame), MG_STRING("__import__"));
    int depth = function == tstate->interp->import_func && PyLong_Check(level) ? (int)PyLong_AsLong(level) : -1;
    Py_XDECREF(function);
    if (depth < 0 && !PyErr_Occurred()) {
        mg_capture_abort(capture, MG_REASON_IMPORT, "%U", name);
    }
    PyObject *whole = depth < 0 ? NULL : absolute_name(capture, frame, name, depth);
    PyObject *module = whole == NULL ? NULL : find_module(capture, whole);
    int has_list = fromlist == Py_None ? 0 : module == NULL ? 0 : PyObject_IsTrue(fromlist);
    if (module != NULL && has_list == 0) { /* what is bound is the outermost package */
        Py_ssize_t dot = PyUnicode_FindChar(whole, '.', 0, PyUnicode_GET_LENGTH(whole), 1);
        PyObject *first = dot < 0 ? NULL : PyUnicode_Substring(whole, 0, dot);
        if (dot != -1) {
            Py_SETREF(module, first == NULL ? NULL : find_module(capture, first));
        }
        Py_XDECREF(first);
    }
    else if (module != NULL) {
        int has = has_list < 0 ? -1 : has_names(module, fromlist);
        if (has == 0) { /* a submodule, or one that a lazy module loads now */
            mg_aside_suspend(capture);
            PyObject *real = mg_ops_import_name(tstate, frame, name, fromlist, level);
            mg_aside_resume(capture);
            has = real == NULL ? -1 : 1;
            Py_XDECREF(real);
        }
        if (has < 0) {
            Py_CLEAR(module);
        }
    }
    Py_XDECREF(whole);
    return module;
}

PyObject *
mg_trace_import_from(MgCapture *capture, PyObject *module, PyObject *name)
{
    PyObject *value = mg_world_getattr(capture, module, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) { /* a submodule, or an ImportError */
        mg_error_clear();
        mg_capture_abort(capture, MG_REASON_IMPORT, "%U", name);
    }
    return value;
}
