/* Calls that captured code makes by a rule of their own: what carries out each rule of rules.def. */
#include "policy/calls.h"

#include "capture/callee.h"
#include "capture/origin.h"
#include "capture/protocol.h"
#include "capture/registry.h"
#include "cpython/aside.h"
#include "policy/query.h"
#include "policy/control.h"
#include "policy/rules.h"
#include "policy/ruletable.h"
#include "record/record.h"
#include "record/subgraph.h"
#include "record/symbol.h"
#include "torch/typekind.h"
#include "world/classes.h"
#include "world/override.h"
#include "world/tensor.h"
#include "world/world.h"
#include "world/worldbase.h"

/* 1 in Tensor.__hash__, which C code calls: sets and dicts of tensors are built anew after a break. */
static int
hashes_tensor(PyObject *value)
{
    static PyObject *code; /* strong */
    if (!mg_is_twin(value)) {
        return 0;
    }
    if (code == NULL) {
        PyObject *function = PyObject_GetAttrString((PyObject *)mg_torch.tensor, "__hash__");
        code = function != NULL && PyFunction_Check(function) ? Py_NewRef(PyFunction_GET_CODE(function)) : NULL;
        Py_XDECREF(function);
        mg_error_clear();
    }
    return code != NULL && (PyObject *)mg_frame_code(mg_frame_current(PyThreadState_Get())) == code;
}

PyObject *
mg_call_refuse(MgCapture *capture, MgReason reason, PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    int ignored = mg_control_ignores(callable, args, count);
    if (ignored != 0) {
        return ignored < 0 ? NULL : Py_NewRef(Py_None);
    }
    capture->call.clean = capture->call.pure;
    mg_callee_abort(capture, reason, callable);
    return NULL;
}

/* graph_break(msg): the message goes with the reason. NULL. */
static PyObject *
break_for_user(MgCapture *capture, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    int given = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)) > 0 && PyUnicode_Check(args[0]) &&
                PyUnicode_GET_LENGTH(args[0]) > 0;
    capture->call.clean = capture->call.pure;
    mg_capture_abort(capture, MG_REASON_USER_BREAK, given ? "%U" : NULL, args == NULL ? NULL : args[0]);
    return NULL;
}

int
mg_rules_truth(MgCapture *capture, PyObject *value)
{
    if (value == Py_True || value == Py_False || value == Py_None) {
        return value == Py_True;
    }
    if (mg_is_twin(value)) {
        PyObject *known = mg_record_known_number(capture, value);
        return known != NULL ? PyObject_IsTrue(known) : mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, NULL);
    }
    if (mg_is_number(value)) {
        return mg_number_truth(capture, value);
    }
    MgOutside *record = mg_outside_of(capture, value);
    if (record != NULL && record->kind != MG_KIND_INSTANCE && record->kind != MG_KIND_CONSTANT &&
        record->kind != MG_KIND_FUNCTION && record->kind != MG_KIND_CELL && record->kind != MG_KIND_OPAQUE &&
        record->kind != MG_KIND_METHOD && record->kind != MG_KIND_VALUE &&
        !(Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE)) { /* a container: true if it has a length */
        Py_ssize_t length = mg_world_length(capture, value);
        return length < 0 ? -1 : length > 0;
    }
    if (record != NULL && record->view != NULL) { /* its shadow was made after the value was loaded */
        value = record->view;
    }
    else if (record != NULL && record->kind == MG_KIND_OPAQUE) {
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "the truth of %s", Py_TYPE(value)->tp_name);
    }
    PyTypeObject *type = Py_TYPE(value);
    int looks = (type->tp_as_number != NULL && type->tp_as_number->nb_bool != NULL) ||
                (type->tp_as_mapping != NULL && type->tp_as_mapping->mp_length != NULL) ||
                (type->tp_as_sequence != NULL && type->tp_as_sequence->sq_length != NULL);
    PyObject *exposed = looks ? mg_world_expose(capture, value) : mg_world_escape(capture, value);
    int truth = exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0 ? -1 : PyObject_IsTrue(exposed);
    Py_XDECREF(exposed);
    return truth;
}

/* 1 for issubclass and its kin, 0 for isinstance. */
static int
asks_subclass(PyObject *callable)
{
    const char *name = PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name
                       : PyObject_TypeCheck(callable, &PyMethodDescr_Type)
                           ? ((PyMethodDescrObject *)callable)->d_method->ml_name
                           : "";
    return strstr(name, "subclass") != NULL;
}

/* Raises what CPython raises for a call with wrong arguments. NULL. */
static PyObject *
call_wrongly(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *result = PyObject_Vectorcall(callable, args, (size_t)count, kwnames);
    if (result != NULL) { /* nothing was wrong */
        Py_DECREF(result);
        mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    }
    return NULL;
}

/* Whether an object is an instance of classes that have no say in that themselves. 1, 0, or -1 if one of them has. */
static int
is_of_types(PyTypeObject *type, PyObject *classes)
{
    if (PyType_CheckExact(classes)) {
        return PyType_IsSubtype(type, (PyTypeObject *)classes);
    }
    int result = PyTuple_CheckExact(classes) ? 0 : -1;
    for (Py_ssize_t i = 0; result == 0 && i < PyTuple_GET_SIZE(classes); i++) {
        result = is_of_types(type, PyTuple_GET_ITEM(classes, i));
    }
    return result;
}

/* The same for an object that C code may not see: 1, 0, or -1, with an exception or if its type alone does not tell. */
static int
is_of_types_unseen(MgCapture *capture, PyObject *value, PyObject *classes)
{
    PyTypeObject *type = Py_TYPE(value);
    MgOutside *record = mg_is_plain_value(value) ? NULL : mg_outside_find(capture, value);
    PyObject *name = MG_STRING("__class__");
    if (record == NULL || record->kind != MG_KIND_INSTANCE || !mg_world_has_hidden_state(value) ||
        _PyType_Lookup(type, name) != _PyType_Lookup(&PyBaseObject_Type, name)) {
        return -1;
    }
    return mg_world_guard_lookup(capture, type, name) < 0 ? -1 : is_of_types(type, classes);
}

/* isinstance or issubclass; also where a metaclass's method is called, with the class in front. */
static PyObject *
do_isinstance(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
              int class_first)
{
    if (count != 2 || kwnames != NULL) {
        return mg_call_native(capture, callable, args, count, kwnames); /* raises */
    }
    if (!class_first && asks_subclass(callable) && mg_is_twin(args[0])) {
        return call_wrongly(capture, callable, args, count, kwnames);
    }
    PyObject *value = args[class_first], *result = NULL, *classes = mg_classes_expose(capture, args[!class_first]);
    if (classes == NULL) {
        return NULL;
    }
    if (mg_is_twin(value) || mg_is_number(value)) {
        int answer = mg_is_twin(value) && !class_first && mg_record_input(capture, value) < 0
                         ? -1
                         : mg_classes_check(value, classes, !class_first);
        result = answer < 0 ? NULL : PyBool_FromLong(answer);
    }
    else if (mg_world_guard_mro(capture, PyType_Check(value) ? (PyTypeObject *)value : Py_TYPE(value)) == MG_OK) {
        PyObject *both[2] = {class_first ? classes : value, class_first ? value : classes};
        int known = class_first || asks_subclass(callable) ? -1 : is_of_types_unseen(capture, value, classes);
        result = known >= 0         ? PyBool_FromLong(known)
                 : PyErr_Occurred() ? NULL
                                    : mg_call_native(capture, callable, both, 2, NULL);
    }
    if (result != NULL &&
        mg_registry_note(capture, classes, value, mg_classes_of(value), asks_subclass(callable)) < 0) {
        Py_CLEAR(result);
    }
    Py_DECREF(classes);
    return result;
}

static PyObject *
do_getattr(MgCapture *capture, PyObject *const *args, Py_ssize_t count)
{
    PyObject *name = Py_NewRef(args[1]);
    PyUnicode_InternInPlace(&name);
    PyObject *result = mg_world_getattr(capture, args[0], name);
    Py_DECREF(name);
    if (result == NULL && count == 3 && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        mg_error_clear();
        return Py_NewRef(args[2]);
    }
    return result;
}

static PyObject *
do_hasattr(MgCapture *capture, PyObject *const *args)
{
    PyObject *result = do_getattr(capture, args, 2);
    if (result != NULL) {
        Py_DECREF(result);
        Py_RETURN_TRUE;
    }
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        mg_error_clear();
        Py_RETURN_FALSE;
    }
    return NULL;
}

static PyObject *
do_setattr(MgCapture *capture, PyObject *const *args, int generic, int deleting)
{
    PyObject *name = Py_NewRef(args[1]);
    PyUnicode_InternInPlace(&name);
    PyObject *value = deleting ? NULL : args[2];
    int result = generic ? mg_world_generic_setattr(capture, args[0], name, value)
                         : mg_world_setattr(capture, args[0], name, value);
    Py_DECREF(name);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
do_callable(MgCapture *capture, PyObject *value)
{
    if (mg_world_guard_lookup(capture, Py_TYPE(value), MG_STRING("__call__")) < 0) {
        return NULL;
    }
    return PyBool_FromLong(PyCallable_Check(value));
}

static PyObject *
do_next(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    MgOutside *record = count > 0 ? mg_outside_of(capture, args[0]) : NULL;
    if (record != NULL && record->kind == MG_KIND_OPAQUE) {
        mg_capture_abort(capture, MG_REASON_OPAQUE, "an iterator from outside");
        return NULL;
    }
    return mg_call_native(capture, callable, args, count, kwnames);
}

/* id(value): guarded for an outside object. That of an inside one is a number that means nothing to anybody else: only
 * good as a key, which libraries use it for. */
static PyObject *
do_id(MgCapture *capture, PyObject *callable, PyObject *value)
{
    MgOutside *record = mg_outside_of(capture, value);
    PyObject *id = PyLong_FromVoidPtr(mg_outside_identity(capture, value));
    if (id == NULL) {
        return NULL;
    }
    if (hashes_tensor(value)) {
        if (record != NULL) {
            record->is_key = 1;
        }
        return id;
    }
    if (record != NULL && record->kind == MG_KIND_TENSOR && record->source->kind == MG_SOURCE_LOCAL &&
        capture->breaks.can_break) { /* another one at each call, which an entry would keep */
        Py_DECREF(id);
        return mg_call_unknown(capture, callable);
    }
    if (record != NULL) {
        PyObject *view = mg_world_touch(capture, Py_NewRef(value));
        Py_XDECREF(view);
        if (view == NULL || mg_world_guard_object(capture, record) < 0) {
            Py_CLEAR(id);
        }
        return id;
    }
    MgFrame *frame = mg_frame_current(PyThreadState_Get());
    if (capture->breaks.can_break && (frame == NULL || mg_origin_of(mg_frame_code(frame)) == MG_ORIGIN_USER)) {
        Py_DECREF(id);
        return mg_call_unknown(capture, callable); /* behind a break it would be another */
    }
    if (mg_call_note_id(capture, id) < 0) {
        Py_CLEAR(id);
    }
    return id;
}

/* super() without arguments: what CPython would read off the frame, past the world, is given to it. */
static PyObject *
do_super(MgCapture *capture, PyObject *callable)
{
    PyObject *self, *class_cell;
    int in_cell;
    MgFrame *frame = mg_frame_current(PyThreadState_Get());
    if (frame == NULL || !mg_frame_super(frame, &self, &in_cell, &class_cell)) {
        return PyObject_CallNoArgs(callable);
    }
    PyObject *parts[2] = {mg_world_load_cell(capture, class_cell), NULL};
    if (parts[0] != NULL) {
        parts[1] = in_cell ? mg_world_load_cell(capture, self) : Py_NewRef(self);
    }
    PyObject *result = NULL;
    if (parts[1] != NULL && mg_is_twin(parts[1])) { /* to C code it is of another class */
        mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "super() in a method");
    }
    else if (parts[1] != NULL) {
        result = PyObject_Vectorcall(callable, parts, 2, NULL);
    }
    else if (!PyErr_Occurred()) { /* an empty cell: an error whose text tells which */
        result = mg_call_unknown(capture, callable);
    }
    Py_XDECREF(parts[0]);
    Py_XDECREF(parts[1]);
    return result;
}

int
mg_call_any_twin(PyObject *const *args, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (mg_is_twin(args[i]) || mg_is_number(args[i])) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
call_polyfill(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *function = PyDict_GetItemWithError(mg_rules.polyfills, callable);
    if (function == NULL) {
        return PyErr_Occurred() ? NULL : mg_call_unknown(capture, callable);
    }
    return mg_rules_call(capture, function, args, (size_t)count, kwnames);
}

PyObject *
mg_call_record_method(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                      PyObject *kwnames)
{
    PyObject *name = mg_aside_getattr(callable, MG_STRING("__name__"));
    PyObject *result = NULL;
    if (name != NULL) {
        PyUnicode_InternInPlace(&name);
        result = mg_record_call(capture, MG_NODE_METHOD, name, args, count, kwnames);
    }
    Py_XDECREF(name);
    return result;
}

/* 1 if sum() of it is arithmetic that C code can do by itself: a list or tuple of numbers. */
static int
adds_up_numbers(MgCapture *capture, PyObject *value)
{
    MgOutside *record = mg_outside_of(capture, value);
    PyObject *seen = record != NULL && record->view != NULL ? record->view : value;
    if (!PyList_Check(seen) && !PyTuple_Check(seen)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(seen); i++) {
        PyObject *item = PyList_Check(seen) ? PyList_GET_ITEM(seen, i) : PyTuple_GET_ITEM(seen, i);
        if (!PyLong_CheckExact(item) && !PyFloat_CheckExact(item)) {
            return 0;
        }
    }
    return 1;
}

/* Whether captured code is compiled: it is, unless that got it into trouble. */
static PyObject *
tell_compiling(MgCapture *capture)
{
    MgFrame *frame = mg_frame_current(PyThreadState_Get());
    if ((PyObject *)mg_frame_code(frame) ==
        mg_rules.call_code) { /* it would leave out the hooks that are always called */
        Py_RETURN_FALSE;
    }
    int all = capture->around.not_compiling == NULL ? 0 : PySet_Contains(capture->around.not_compiling, Py_None);
    for (; capture->around.not_compiling != NULL && frame != NULL; frame = mg_frame_caller(frame)) {
        int found = all != 0 ? all : PySet_Contains(capture->around.not_compiling, (PyObject *)mg_frame_code(frame));
        if (found != 0) {
            return found < 0 ? NULL : Py_NewRef(Py_False);
        }
        if (frame == capture->root) {
            break;
        }
    }
    capture->around.saw_is_compiling = 1;
    Py_RETURN_TRUE;
}

/* 1 if torch asks this object for its __torch_function__, 0 or -1. A twin stands for a tensor that has none of its own. */
static int
overrides_torch(MgCapture *capture, PyObject *value)
{
    if (mg_is_twin(value) && mg_twin_of(value)->overrides) {
        return 1;
    }
    if (mg_is_twin(value) || mg_is_number(value) || mg_kind_is_number(value) || value == Py_None ||
        PyUnicode_CheckExact(value) || PyTuple_CheckExact(value) || PyList_CheckExact(value) ||
        PyDict_CheckExact(value)) {
        return 0;
    }
    PyObject *function = mg_world_getattr(capture, value, MG_STRING("__torch_function__"));
    if (function == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return -1;
        }
        PyErr_Clear(); /* as torch does */
        return 0;
    }
    Py_DECREF(function);
    return function != mg_rules.no_override;
}

/* has_torch_function(values), or the same of the arguments themselves. */
static PyObject *
has_overrides(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    PyObject *values = NULL;
    if (PyCFunction_Check(callable) &&
        strcmp(((PyCFunctionObject *)callable)->m_ml->ml_name, "_has_torch_function") == 0) {
        values = count == 1 ? mg_world_expose(capture, args[0]) : NULL;
        if (values == NULL || (!PyTuple_Check(values) && !PyList_Check(values))) {
            Py_XDECREF(values);
            return PyErr_Occurred() ? NULL : mg_call_unknown(capture, callable);
        }
    }
    Py_ssize_t total = values == NULL ? count : Py_SIZE(values);
    int found = 0;
    for (Py_ssize_t i = 0; found == 0 && i < total && (values == NULL || i < Py_SIZE(values)); i++) {
        found = overrides_torch(capture, values == NULL ? args[i] : PySequence_Fast_ITEMS(values)[i]);
    }
    Py_XDECREF(values);
    return found < 0 ? NULL : PyBool_FromLong(found && mg_capture_overrides(capture)); /* part of the state */
}

/* Calls a function of constants, as it would be called without a capture; a break if they are none. */
static PyObject *
call_folded(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    for (Py_ssize_t i = 0; i < total; i++) {
        PyTypeObject *type = Py_TYPE(args[i]);
        int is_class = PyType_Check(args[i]) && !mg_is_heap_type((PyTypeObject *)args[i]); /* which nobody changes */
        if (type != &PyUnicode_Type && type != &PyBytes_Type && type != &PyLong_Type && type != &PyFloat_Type &&
            type != &PyBool_Type && args[i] != Py_None && !mg_kind_is_constant(type) && !is_class) {
            return mg_call_refuse(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
        }
    }
    capture->call.pure = 0;
    mg_aside_suspend(capture);
    PyObject *result = PyObject_Vectorcall(callable, args, (size_t)count, kwnames);
    mg_aside_resume(capture);
    return mg_call_keep_constant(capture, result);
}

/* ---- what carries out the rules ---- */

static PyObject *
unknown(const MgCall *call)
{
    return mg_call_unknown(call->capture, call->callable);
}

/* 1 for a call with so many arguments, all by position. */
static int
has_plain(const MgCall *call, Py_ssize_t count)
{
    return call->count == count && call->kwnames == NULL;
}

/* 1 for a call of a method of tensors, with the tensor in front. */
static int
is_of_tensor(const MgCall *call)
{
    return call->count > 0 && mg_is_twin(call->args[0]);
}

static PyObject *
wrongly(const MgCall *call)
{
    return call_wrongly(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
record_as(const MgCall *call, PyObject *target)
{
    return mg_record_call(call->capture, MG_NODE_FUNCTION, target, call->args, call->count, call->kwnames);
}

static PyObject *
call_unknown(const MgCall *call)
{
    return unknown(call);
}

/* What a special method of a tensor whose number is known gives. New; NULL without an exception if it is none of these. */
static PyObject *
convert_known(const MgCall *call)
{
    PyObject *known = has_plain(call, 1) ? mg_record_known_number(call->capture, call->args[0]) : NULL;
    PyObject *name =
        known != NULL && Py_IS_TYPE(call->callable, &PyMethodDescr_Type) ? PyDescr_NAME(call->callable) : NULL;
    if (name == NULL) {
        return NULL;
    }
    if (PyUnicode_CompareWithASCIIString(name, "__bool__") == 0) {
        return PyBool_FromLong(PyObject_IsTrue(known));
    }
    if (PyUnicode_CompareWithASCIIString(name, "__float__") == 0) {
        return PyNumber_Float(known);
    }
    int is_index = PyUnicode_CompareWithASCIIString(name, "__index__") == 0;
    return (is_index && PyLong_CheckExact(known)) || PyUnicode_CompareWithASCIIString(name, "__int__") == 0
               ? PyNumber_Long(known)
               : NULL;
}

static PyObject *
call_refuse(const MgCall *call)
{
    PyObject *converted = call->rule == MG_RULE_VALUE ? convert_known(call) : NULL;
    if (converted != NULL || PyErr_Occurred()) {
        return converted;
    }
    MgReason reason = call->rule == MG_RULE_VALUE    ? MG_REASON_TENSOR_VALUE
                      : call->rule == MG_RULE_OUTPUT ? MG_REASON_OUTPUT
                                                     : MG_REASON_SKIPPED_CALL;
    return mg_call_refuse(call->capture, reason, call->callable, call->args, call->count);
}

static PyObject *
call_user_break(const MgCall *call)
{
    return break_for_user(call->capture, call->args, call->count, call->kwnames);
}

static PyObject *
call_fold(const MgCall *call)
{
    return call_folded(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_record(const MgCall *call)
{
    return record_as(call, call->callable);
}

static PyObject *
call_method(const MgCall *call)
{
    return is_of_tensor(call)
               ? mg_call_record_method(call->capture, call->callable, call->args, call->count, call->kwnames)
               : unknown(call);
}

static PyObject *
call_harmless(const MgCall *call)
{
    return mg_call_native(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_operator(const MgCall *call)
{
    if (!mg_call_any_twin(call->args, call->count)) {
        return call_harmless(call);
    }
    PyObject *first = call->args[0];
    if (!mg_is_twin(first) && !mg_is_number(first) && !mg_kind_is_number(first)) {
        return unknown(call); /* an operation of what is no tensor, such as a dict */
    }
    return record_as(call, call->callable);
}

static PyObject *
call_abs(const MgCall *call)
{
    return mg_call_any_twin(call->args, call->count) ? record_as(call, mg_rules.operator_abs) : call_harmless(call);
}

static PyObject *
call_getitem(const MgCall *call)
{
    return call->count == 2 && is_of_tensor(call) ? mg_tensor_getitem(call->capture, call->args[0], call->args[1])
                                                  : unknown(call);
}

static PyObject *
call_setitem(const MgCall *call)
{
    if (call->count != 3 || !is_of_tensor(call)) {
        return unknown(call);
    }
    return mg_tensor_setitem(call->capture, call->args[0], call->args[1], call->args[2]) < 0 ? NULL
                                                                                             : Py_NewRef(Py_None);
}

static PyObject *
call_item(const MgCall *call)
{
    return has_plain(call, 1) && is_of_tensor(call) ? mg_tensor_item(call->capture, call->args[0], NULL)
                                                    : unknown(call);
}

static PyObject *
call_tolist(const MgCall *call)
{
    return has_plain(call, 1) && is_of_tensor(call) ? mg_tensor_tolist(call->capture, call->args[0]) : unknown(call);
}

static PyObject *
call_enter(const MgCall *call)
{
    return call->count == 1 ? mg_call_enter(call->capture, call->callable, call->args[0]) : unknown(call);
}

static PyObject *
call_exit(const MgCall *call)
{
    return call->count > 0 ? mg_call_exit(call->capture, call->args[0]) : unknown(call);
}

static PyObject *
call_constant(const MgCall *call)
{
    if (call->capture->torch.muted > 0 && PyCFunction_Check(call->callable) &&
        strcmp(((PyCFunctionObject *)call->callable)->m_ml->ml_name, "_is_torch_function_enabled") == 0) {
        Py_RETURN_FALSE; /* captured code has switched it off */
    }
    /* with a tensor it is a question about metadata */
    return mg_call_any_twin(call->args, call->count + (call->kwnames == NULL ? 0 : PyTuple_GET_SIZE(call->kwnames)))
               ? record_as(call, call->callable)
               : mg_query_constant(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_query(const MgCall *call)
{
    call->capture->reads.registry_read |= mg_registry_is_token(call->callable);
    return mg_query_setting(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_reversed(const MgCall *call)
{
    if (has_plain(call, 1) && is_of_tensor(call)) {
        return mg_record_call(call->capture, MG_NODE_METHOD, MG_STRING("__reversed__"), call->args, 1, NULL);
    }
    return mg_call_class(call->capture, (PyTypeObject *)call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_looked_into(const MgCall *call)
{
    return call_polyfill(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_sum(const MgCall *call)
{
    return call->count > 0 && adds_up_numbers(call->capture, call->args[0]) ? call_harmless(call)
                                                                            : call_looked_into(call);
}

static PyObject *
call_dispatch(const MgCall *call)
{
    return mg_query_dispatch(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_state(const MgCall *call)
{
    if (call->kwnames != NULL) {
        return unknown(call);
    }
    PyObject *result = mg_record_state(call->capture, call->callable, call->args, call->count);
    Py_CLEAR(call->capture->torch.state);
    return result;
}

static PyObject *
call_setting(const MgCall *call)
{
    PyObject *parts = PyDict_GetItemWithError(mg_rules.setters, call->callable);
    return parts == NULL
               ? unknown(call)
               : mg_query_change(call->capture, call->callable, parts, call->args, call->count, call->kwnames);
}

static PyObject *
call_isinstance(const MgCall *call)
{
    return do_isinstance(call->capture, call->callable, call->args, call->count, call->kwnames, 0);
}

static PyObject *
call_instancecheck(const MgCall *call)
{
    return do_isinstance(call->capture, call->callable, call->args, call->count, call->kwnames, 1);
}

static PyObject *
call_type(const MgCall *call)
{
    return has_plain(call, 1) ? Py_NewRef(mg_classes_of(call->args[0])) : unknown(call);
}

static PyObject *
call_getattr(const MgCall *call)
{
    PyObject *const *args = call->args;
    if (call->kwnames != NULL || call->count < 2 || call->count > (call->rule == MG_RULE_GETATTR ? 3 : 2) ||
        !PyUnicode_Check(args[1])) {
        return wrongly(call);
    }
    return call->rule == MG_RULE_GETATTR   ? do_getattr(call->capture, args, call->count)
           : call->rule == MG_RULE_HASATTR ? do_hasattr(call->capture, args)
           : mg_is_twin(args[0])           ? mg_tensor_getattr(call->capture, args[0], args[1])
                                           : mg_world_generic_getattr(call->capture, args[0], args[1]);
}

static PyObject *
call_setattr(const MgCall *call)
{
    int deleting = call->rule == MG_RULE_DELATTR || call->rule == MG_RULE_OBJECT_DELATTR;
    int generic = call->rule == MG_RULE_OBJECT_SETATTR || call->rule == MG_RULE_OBJECT_DELATTR;
    if (!has_plain(call, deleting ? 2 : 3) || !PyUnicode_Check(call->args[1])) {
        return wrongly(call);
    }
    return do_setattr(call->capture, call->args, generic, deleting);
}

/* What __len__ of a Python class has returned, as len() gives it: a number that varies stays one. Steals it. New. */
static PyObject *
length_of(MgCapture *capture, PyObject *result)
{
    if (result != NULL && mg_is_number(result) && mg_number_kind(result) == MG_NUMBER_INT) {
        PyObject *zero = PyLong_FromLong(0);
        PyObject *negative = zero == NULL ? NULL : mg_arithmetic_compare(capture, Py_LT, result, zero);
        int is_negative = negative == NULL ? -1 : mg_rules_truth(capture, negative);
        Py_XDECREF(zero);
        Py_XDECREF(negative);
        if (is_negative == 0) {
            return result;
        }
        if (is_negative < 0) {
            Py_CLEAR(result);
        }
    }
    Py_XSETREF(result, result == NULL ? NULL : PyNumber_Index(result));
    Py_ssize_t length = result == NULL ? -1 : PyNumber_AsSsize_t(result, PyExc_OverflowError);
    if (length < 0 && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
    }
    Py_XDECREF(result);
    return length < 0 ? NULL : PyLong_FromSsize_t(length);
}

static PyObject *
call_len(const MgCall *call)
{
    if (!has_plain(call, 1)) {
        return wrongly(call);
    }
    if (is_of_tensor(call)) {
        return mg_tensor_len(call->capture, call->args[0]);
    }
    PyTypeObject *type = Py_TYPE(call->args[0]);
    PyObject *name = MG_STRING("__len__");
    PyObject *function =
        mg_capture_varies(call->capture) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) ? _PyType_Lookup(type, name) : NULL;
    if (function != NULL && PyFunction_Check(function)) {
        if (mg_world_guard_lookup(call->capture, type, name) < 0) {
            return NULL;
        }
        call->capture->call.pure = 0;
        return length_of(call->capture, mg_rules_call(call->capture, function, call->args, 1, NULL));
    }
    Py_ssize_t length = mg_world_length(call->capture, call->args[0]);
    return length < 0 ? NULL : PyLong_FromSsize_t(length);
}

static PyObject *
call_iter(const MgCall *call)
{
    return has_plain(call, 1) ? mg_world_iter(call->capture, call->args[0]) : call_harmless(call);
}

static PyObject *
call_next(const MgCall *call)
{
    return do_next(call->capture, call->callable, call->args, call->count, call->kwnames);
}

static PyObject *
call_vars(const MgCall *call)
{
    if (!has_plain(call, 1)) {
        return unknown(call);
    }
    PyObject *found = mg_world_getattr(call->capture, call->args[0], MG_STRING("__dict__"));
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        mg_error_clear();
        PyErr_SetString(PyExc_TypeError, "vars() argument must have __dict__ attribute");
    }
    return found;
}

static PyObject *
call_callable(const MgCall *call)
{
    return has_plain(call, 1) ? do_callable(call->capture, call->args[0]) : wrongly(call);
}

static PyObject *
call_bool(const MgCall *call)
{
    if (has_plain(call, 0)) {
        Py_RETURN_FALSE;
    }
    if (!has_plain(call, 1)) {
        return wrongly(call);
    }
    int truth = mg_rules_truth(call->capture, call->args[0]);
    return truth < 0 ? NULL : PyBool_FromLong(truth);
}

static PyObject *
call_super(const MgCall *call)
{
    return has_plain(call, 0) ? do_super(call->capture, call->callable)
                              : PyObject_Vectorcall(call->callable, call->args, (size_t)call->count, call->kwnames);
}

static PyObject *
call_is_compiling(const MgCall *call)
{
    return tell_compiling(call->capture);
}

static PyObject *
call_overrides(const MgCall *call)
{
    return call->kwnames == NULL ? has_overrides(call->capture, call->callable, call->args, call->count)
                                 : unknown(call);
}

/* ---- __torch_function__ ---- */

static PyObject *
call_mute(const MgCall *call)
{
    call->capture->torch.muted++;
    return Py_NewRef(Py_None);
}

static PyObject *
call_unmute(const MgCall *call)
{
    if (call->capture->torch.muted == 0) {
        mg_capture_abort(call->capture, MG_REASON_STATE, "a context manager is left that was not entered last");
        return NULL;
    }
    call->capture->torch.muted--;
    return Py_NewRef(Py_None);
}

/* handle_torch_function(function, relevant, *args, **kwargs) */
static PyObject *
call_handle(const MgCall *call)
{
    Py_ssize_t names = call->kwnames == NULL ? 0 : PyTuple_GET_SIZE(call->kwnames);
    PyObject *args = call->count < 2 ? NULL : PyTuple_New(call->count - 2),
             *kwargs = args == NULL ? NULL : PyDict_New();
    for (Py_ssize_t i = 2; args != NULL && i < call->count; i++) {
        PyTuple_SET_ITEM(args, i - 2, Py_NewRef(call->args[i]));
    }
    for (Py_ssize_t i = 0; kwargs != NULL && i < names; i++) {
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(call->kwnames, i), call->args[call->count + i]) < 0) {
            Py_CLEAR(kwargs);
        }
    }
    PyObject *relevant = kwargs == NULL ? NULL : mg_world_expose(call->capture, call->args[1]);
    int is_list = relevant != NULL && PyList_Check(relevant);
    int is_known = relevant != NULL && (is_list || PyTuple_Check(relevant));
    PyObject *others = is_known ? PyTuple_New(Py_SIZE(relevant)) : NULL; /* their classes */
    for (Py_ssize_t i = 0; others != NULL && i < PyTuple_GET_SIZE(others); i++) {
        PyObject *one = is_list ? PyList_GET_ITEM(relevant, i) : PyTuple_GET_ITEM(relevant, i);
        PyTuple_SET_ITEM(others, i, Py_NewRef((PyObject *)Py_TYPE(one)));
    }
    PyObject *result = others == NULL ? NULL : mg_override_call(call->capture, call->args[0], others, args, kwargs);
    Py_XDECREF(relevant);
    Py_XDECREF(others);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result == NULL && !PyErr_Occurred() ? unknown(call) : result;
}

static PyObject *
call_torch_function(const MgCall *call)
{
    return call->kwnames == NULL ? mg_override_default(call->capture, call->args, call->count) : unknown(call);
}

/* torch._C._disabled_torch_function_impl(func, types, args, kwargs): the function itself, whose results stay plain. */
static PyObject *
call_disabled_function(const MgCall *call)
{
    if (!has_plain(call, 4)) {
        return unknown(call);
    }
    PyObject *types = PyTuple_New(0);
    PyObject *const args[] = {(PyObject *)mg_torch.tensor, call->args[0], types, call->args[2], call->args[3]};
    PyObject *result = types == NULL ? NULL : mg_override_default(call->capture, args, 5);
    Py_XDECREF(types);
    return result;
}

static PyObject *
call_as_subclass(const MgCall *call)
{
    return has_plain(call, 2) && is_of_tensor(call) /* which no class overrides */
               ? mg_override_as_subclass(call->capture, call->args[0], call->args[1])
               : unknown(call);
}

/* torch.Tensor._make_subclass(type, data, require_grad=False): without history, and a leaf. */
static PyObject *
call_make_subclass(const MgCall *call)
{
    int plain = has_plain(call, 2) || (has_plain(call, 3) && call->args[2] == Py_False);
    if (!plain || !mg_is_twin(call->args[1])) {
        return unknown(call);
    }
    call->capture->torch.muted++;
    PyObject *data = mg_record_call(call->capture, MG_NODE_METHOD, MG_STRING("detach"), call->args + 1, 1, NULL);
    call->capture->torch.muted--;
    PyObject *result = data == NULL ? NULL : mg_override_as_subclass(call->capture, data, call->args[0]);
    Py_XDECREF(data);
    return result;
}

/* torch.Tensor.__new__(type, data): an alias. */
static PyObject *
call_new_tensor(const MgCall *call)
{
    return has_plain(call, 2) && mg_is_twin(call->args[1])
               ? mg_override_as_subclass(call->capture, call->args[1], call->args[0])
               : unknown(call);
}

/* Of an exception that captured code handles. */
static PyObject *
call_exc_info(const MgCall *call)
{
    return mg_capture_handles(call->capture) < 0 ? NULL : call_harmless(call);
}

static PyObject *
call_nothing(const MgCall *call)
{
    (void)call;
    Py_RETURN_NONE;
}

static PyObject *
call_id(const MgCall *call)
{
    return has_plain(call, 1) ? do_id(call->capture, call->callable, call->args[0]) : unknown(call);
}

static PyObject *
call_subclasses(const MgCall *call)
{
    return has_plain(call, 1) && PyType_Check(call->args[0])
               ? mg_query_subclasses(call->capture, call->callable, call->args[0])
               : unknown(call);
}

/* A Python function whose frames can't be split by a break: what stops the capture in there stops it before the call. */
static PyObject *
call_whole(const MgCall *call)
{
    MgCapture *capture = call->capture;
    if (!PyFunction_Check(call->callable)) {
        return unknown(call);
    }
    capture->breaks.whole++;
    capture->call.direct = 1;
    PyObject *result = PyObject_Vectorcall(call->callable, call->args, (size_t)call->count, call->kwnames);
    capture->call.direct = 0;
    capture->breaks.whole--;
    return mg_world_touch(capture, result);
}

/* 1 if one of the arguments that are given by keyword is of a kind. */
static int
has_keyword(const MgCall *call, int (*is_kind)(PyObject *))
{
    Py_ssize_t names = call->kwnames == NULL ? 0 : PyTuple_GET_SIZE(call->kwnames);
    for (Py_ssize_t i = 0; i < names; i++) {
        if (is_kind(call->args[call->count + i])) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
call_scaled(const MgCall *call)
{
    int by_tensor = has_keyword(call, mg_is_twin) || (call->capture->graph.foreign && has_keyword(call, mg_is_number));
    return is_of_tensor(call) && by_tensor ? call_looked_into(call) : call_method(call);
}

static PyObject *
call_each(const MgCall *call)
{
    int varies = call->count == 2 && (mg_is_number(call->args[1]) || has_keyword(call, mg_is_number));
    return varies && call->capture->graph.foreign ? call_looked_into(call) : call_record(call);
}

static PyObject *
call_rated(const MgCall *call)
{
    if (call->capture->graph.foreign) { /* torch has no FakeTensor kernels for them, which backends ask for */
        return mg_call_refuse(call->capture, MG_REASON_SKIPPED_CALL, call->callable, call->args, call->count);
    }
    return has_keyword(call, mg_is_number) ? call_looked_into(call) : call_record(call);
}

/* A Python function that captured code is led past: where that stops, CPython calls the function itself. */
static PyObject *
call_stand_in(const MgCall *call)
{
    call->capture->breaks.whole++;
    PyObject *result = call_looked_into(call);
    call->capture->breaks.whole--;
    return result;
}

static PyObject *
call_subgraph(const MgCall *call)
{
    return call->kwnames != NULL ? unknown(call) : mg_subgraph_act(call->capture, call->args, call->count);
}

static PyObject *(*const handlers[MG_RULE_COUNT])(const MgCall *call) = {
#define MG_RULE(NAME, text, handler) handler,
#include "policy/rules.def"
#undef MG_RULE
};

PyObject *
mg_special_call(const MgCall *call)
{
    switch (call->rule) {
        case MG_RULE_BREAK:
        case MG_RULE_VALUE:
        case MG_RULE_OUTPUT:
        case MG_RULE_USER_BREAK:
        case MG_RULE_FOLD:
            break; /* nothing is begun: the call instruction can be executed from its start */
        default:
            call->capture->call.pure = 0;
    }
    assert(call->rule > MG_RULE_INLINE && call->rule < MG_RULE_COUNT);
    return handlers[call->rule](call);
}
