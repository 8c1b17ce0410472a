/* The rules: what captured code may call, and how.
 *
 * A Python function is inlined: it is called, and its frame comes back to us through the hook. A torch function is
 * recorded. A C function runs for real only if the tables know it to be harmless: its result depends on nothing but its
 * arguments, and it changes nothing else. Functions that look into objects (getattr, isinstance, len, ...) go through
 * the world. Everything else ends the capture. */
#include "policy/rules.h"

#include "capture/callee.h"
#include "capture/origin.h"
#include "capture/protocol.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "ir/alias.h"
#include "policy/query.h"
#include "policy/calls.h"
#include "policy/control.h"
#include "policy/callback.h"
#include "policy/ruletable.h"
#include "policy/stance.h"
#include "record/record.h"
#include "record/script.h"
#include "record/symbol.h"
#include "torch/kinds.h"
#include "torch/state.h"
#include "torch/typekind.h"
#include "world/classes.h"
#include "world/override.h"
#include "world/tensor.h"
#include "world/world.h"

static const char *const rule_names[MG_RULE_COUNT] = {
#define MG_RULE(NAME, text, handler) text,
#include "policy/rules.def"
#undef MG_RULE
};

struct MgRules mg_rules;

/* ---- tables ---- */

static int
take_calls(PyObject *table)
{
    Py_ssize_t position = 0;
    PyObject *callable, *name;
    while (PyDict_Next(table, &position, &callable, &name)) {
        const char *text = PyUnicode_AsUTF8(name);
        int rule = MG_RULE_NONE;
        for (int i = 0; text != NULL && i < MG_RULE_COUNT; i++) {
            if (strcmp(text, rule_names[i]) == 0) {
                rule = i;
            }
        }
        if (rule == MG_RULE_NONE) {
            PyErr_Format(PyExc_ValueError, "unknown rule %R", name);
            return MG_ERR;
        }
        if (PyList_Append(mg_rules.kept, callable) < 0 ||
            mg_table_set(&mg_rules.calls, callable, NULL, (void *)(uintptr_t)rule) < 0) {
            return MG_ERR;
        }
        if (Py_IS_TYPE(callable, &PyMethodDescr_Type) &&
            mg_table_set(&mg_rules.methods, ((PyMethodDescrObject *)callable)->d_method, NULL, callable) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Takes all tables that there are out of a dict. */
static int
take_tables(PyObject *tables)
{
    const struct {
        const char *name;
        PyObject **slot;
    } wanted[] = {
        {"owner_names", &mg_rules.owner_names},   {"native_modules", &mg_rules.native_modules},
        {"managers", &mg_rules.managers},         {"setters", &mg_rules.setters},
        {"operator_abs", &mg_rules.operator_abs}, {"polyfills", &mg_rules.polyfills},
        {"no_override", &mg_rules.no_override},   {"call_code", &mg_rules.call_code},
        {"prepared", &mg_rules.prepared},
    };
    if (mg_rules.kept == NULL && (mg_rules.kept = PyList_New(0)) == NULL) {
        return MG_ERR;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        PyObject *value = mg_dict_take(tables, wanted[i].name);
        if (value != NULL) {
            Py_XSETREF(*wanted[i].slot, Py_NewRef(value));
        }
    }
    PyObject *origins = mg_dict_take(tables, "origins");
    if (origins != NULL && mg_origin_configure(origins) < 0) {
        return MG_ERR;
    }
    mg_classes_configure(tables);
    mg_state_configure(tables);
    mg_kind_configure(tables);
    if (mg_kinds_configure(tables) < 0 || mg_torch_configure(tables) < 0) {
        return MG_ERR;
    }
    mg_stance_configure(tables);
    PyObject *symbols = mg_dict_take(tables, "symbols");
    if (symbols != NULL) {
        mg_symbol_configure(symbols);
    }
    PyObject *calls = mg_dict_take(tables, "calls");
    return mg_script_configure(tables) < 0 || (calls != NULL && take_calls(calls) < 0) ? MG_ERR
                                                                                       : mg_control_configure(tables);
}

int
mg_rules_configure(PyObject *tables)
{
    PyObject *rest = PyDict_Copy(tables); /* each part takes its own out of it */
    int status = rest == NULL ? MG_ERR : take_tables(rest);
    Py_ssize_t position = 0;
    PyObject *name;
    if (status == MG_OK && PyDict_Next(rest, &position, &name, NULL)) {
        PyErr_Format(PyExc_ValueError, "there is no table %R", name);
        status = MG_ERR;
    }
    Py_XDECREF(rest);
    return status;
}

int
mg_rules_prepare(MgFrame *frame)
{
    PyObject *code = (PyObject *)mg_frame_code(frame), **slots = mg_frame_slots(frame);
    PyObject *prepare = mg_rules.prepared == NULL ? NULL : PyDict_GetItemWithError(mg_rules.prepared, code);
    if (prepare == NULL || slots[0] == NULL || slots[1] == NULL) {
        return PyErr_Occurred() ? MG_ERR : MG_OK;
    }
    PyObject *result = PyObject_CallFunctionObjArgs(prepare, slots[0], slots[1], NULL);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

static MgRule
rule_of(PyObject *callable)
{
    return (MgRule)(uintptr_t)mg_table_get(&mg_rules.calls, callable, NULL);
}

/* 1 if a set of names has this one, which may be anything, or NULL. */
static int
in_set(PyObject *set, PyObject *name)
{
    int found = set == NULL || name == NULL || !PyUnicode_CheckExact(name) ? 0 : PySet_Contains(set, name);
    if (found < 0) {
        mg_error_clear();
    }
    return found > 0;
}

/* 1 for a function of TorchDynamo's own: it keeps books about modules, in callbacks of weak references too. */
static int
is_bookkeeping(PyObject *function)
{
    static const char prefix[] = "torch._dynamo";
    PyObject *module = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_module : NULL;
    return module != NULL && PyUnicode_CheckExact(module) && PyUnicode_IS_COMPACT_ASCII(module) &&
           PyUnicode_GET_LENGTH(module) >= (Py_ssize_t)strlen(prefix) &&
           memcmp(PyUnicode_1BYTE_DATA(module), prefix, strlen(prefix)) == 0;
}

int
mg_rules_is_apart(PyObject *function)
{
    if (mg_kinds_has(MG_SET_APART, function)) {
        return 1;
    }
    if (!is_bookkeeping(function)) {
        return 0;
    }
    int mark = mg_rules_watched(function);
    return mark != MG_MARK_NONE; /* some of TorchDynamo's functions are to be looked into */
}

PyObject *
mg_call_keep_constant(MgCapture *capture, PyObject *result)
{
    if (result == NULL || !mg_kinds_has(MG_SET_KEPT, Py_TYPE(result))) {
        return result;
    }
    PyObject *view = mg_world_adopt(capture, result);
    Py_DECREF(result);
    return view;
}

PyObject *
mg_call_unknown(MgCapture *capture, PyObject *callable)
{
    if (!PyCallable_Check(callable)) {
        return PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", Py_TYPE(callable)->tp_name);
    }
    capture->call.clean = capture->call.pure;
    mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    return NULL;
}

/* 1 if the first argument of a call, or the first behind `self`, is looked up in a set or a dict, or becomes a key of it. */
static int
is_key(PyObject *callable, PyObject *const *args, Py_ssize_t index)
{
    PyObject *self = index == 0 && PyCFunction_Check(callable)                 ? PyCFunction_GET_SELF(callable)
                     : index == 1 && Py_IS_TYPE(callable, &PyMethodDescr_Type) ? args[0]
                                                                               : NULL;
    return self != NULL && (PyAnySet_Check(self) || PyDict_Check(self));
}

PyObject *
mg_call_native(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    capture->call.pure = 0;
    int own = mg_call_shows_address(callable) && mg_is_bound_builtin(callable)
                  ? mg_call_note_address(capture, callable, PyCFunction_GET_SELF(callable))
                  : 0;
    if (own < 0) {
        return NULL;
    }
    for (Py_ssize_t i = 0; mg_call_shows_address(callable) && i < count; i++) {
        own = mg_call_note_address(capture, callable, args[i]);
        if (own < 0) {
            return NULL;
        }
    }
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject *small[8];
    PyObject **exposed = total <= 8 ? small : PyMem_Calloc((size_t)total, sizeof(PyObject *));
    if (exposed == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    PyObject *result = NULL;
    Py_ssize_t ready = 0;
    int takes_values = mg_capture_varies(capture) && !mg_plain_is_transparent(callable);
    for (; ready < total; ready++) {
        PyObject *value = is_key(callable, args, ready) ? mg_twin_original(args[ready]) : args[ready];
        exposed[ready] = mg_world_expose(capture, value);
        if (takes_values && exposed[ready] != NULL) {
            Py_SETREF(exposed[ready], mg_plain_value(capture, exposed[ready]));
        }
        if (exposed[ready] == NULL) {
            break;
        }
        if (mg_protocol_guard_calls(capture, exposed[ready]) < 0) {
            ready++;
            break;
        }
    }
    int shows = mg_call_shows_address(callable);
    for (Py_ssize_t i = 0; i < ready && !shows; i++) { /* sorted(..., key=str) */
        shows = exposed[i] == (PyObject *)&PyUnicode_Type || mg_call_shows_address(exposed[i]);
    }
    for (Py_ssize_t i = 0; shows && i < ready; i++) {
        capture->reads.addresses = capture->reads.addresses || mg_rules_has_address(exposed[i]);
        capture->reads.named = capture->reads.named || mg_protocol_has_name(exposed[i]);
    }
    int called = mg_callback_position(callable, count);
    Py_ssize_t factory = mg_callback_factory(callable);
    if (ready == total && factory >= 0 && factory < count && !mg_classes_is_factory(capture, exposed[factory]) &&
        !PyErr_Occurred()) {
        mg_call_unknown(capture, exposed[factory]);
    }
    for (Py_ssize_t i = 0; i < ready; i++) {
        if (i < count ? i == called : mg_callback_is_called(callable, PyTuple_GET_ITEM(kwnames, i - count))) {
            exposed[i] = mg_callback_wrap(exposed[i]);
            if (exposed[i] == NULL) {
                exposed[i] = Py_NewRef(Py_None); /* to be dropped below */
                break;
            }
        }
    }
    if (ready == total && !PyErr_Occurred()) {
        result = PyObject_Vectorcall(callable, exposed, (size_t)count, kwnames);
        result = mg_call_keep_constant(capture, mg_world_touch(capture, result));
        for (Py_ssize_t i = 0; result != NULL && PyUnicode_Check(result) && !capture->reads.named && i < total; i++) {
            capture->reads.named = mg_protocol_has_name(exposed[i]);
        }
        if (result != NULL && own && mg_call_note_id(capture, result) < 0) {
            Py_CLEAR(result);
        }
    }
    for (Py_ssize_t i = 0; i < ready; i++) {
        Py_DECREF(exposed[i]);
    }
    if (exposed != small) {
        PyMem_Free(exposed);
    }
    return result;
}

/* ---- calls ---- */

PyObject *
mg_call_class(MgCapture *capture, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    capture->call.pure = 0;
    if (type == mg_torch.tensor) {
        return mg_record_call(capture, MG_NODE_FUNCTION, (PyObject *)type, args, count, kwnames);
    }
    if (mg_kind_is_wrapper(type)) { /* made by one node, as by TorchDynamo */
        return mg_record_call(capture, MG_NODE_FUNCTION, (PyObject *)type, args, count, kwnames);
    }
    if (mg_override_is_class(type) && type != mg_torch.parameter) {
        return mg_override_make(capture, type, args, count, kwnames);
    }
    if (PyType_IsSubtype(type, mg_torch.base)) {
        return mg_call_unknown(capture, (PyObject *)type);
    }
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        if (mg_kind_is_harmless(type) || PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException)) {
            return mg_call_native(capture, (PyObject *)type, args, count, kwnames);
        }
        return mg_call_unknown(capture, (PyObject *)type);
    }
    /* a Python class: every C-level base must be one that keeps to itself */
    for (PyTypeObject *base = type->tp_base; base != NULL; base = base->tp_base) {
        if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) && base != &PyBaseObject_Type && base != &PyType_Type &&
            !mg_kind_is_harmless(base) && !PyType_IsSubtype(base, (PyTypeObject *)PyExc_BaseException)) {
            return mg_call_unknown(capture, (PyObject *)type);
        }
    }
    if (mg_protocol_guard(capture, type) < 0 || mg_protocol_guard(capture, Py_TYPE(type)) < 0 ||
        mg_world_guard_lookup(capture, type, MG_STRING("__init__")) < 0) {
        return NULL; /* C code may meet the instance again, in a container */
    }
    PyObject *finalizer = _PyType_Lookup(type, MG_STRING("__del__"));
    int has_finalizer = finalizer != NULL;
    if (has_finalizer && !PyFunction_Check(finalizer)) { /* CPython calls it, and prints what it raises */
        return mg_call_unknown(capture, (PyObject *)type);
    }
    capture->finals.finalizers += has_finalizer;
    PyObject *result = NULL;
    if (type->tp_new == PyBaseObject_Type.tp_new) { /* arguments go to __init__, which is Python */
        result = mg_world_touch(capture, PyObject_Vectorcall((PyObject *)type, args, (size_t)count, kwnames));
    }
    else {
        result = mg_call_native(capture, (PyObject *)type, args, count, kwnames);
    }
    if (result != NULL && has_finalizer && mg_outside_of(capture, result) == NULL && /* __new__ may give an old one */
        mg_capture_add_mortal(capture, result) < 0) {
        Py_CLEAR(result);
    }
    return result;
}

/* The rule for a builtin function that no table names. */
static MgRule
builtin_rule(PyObject *callable)
{
    PyObject *self = ((PyCFunctionObject *)callable)->m_self; /* also of a static method, as torch's functions are */
    PyObject *module = ((PyCFunctionObject *)callable)->m_module;
    if ((self != NULL && mg_kinds_has(MG_SET_OWNERS, self)) || in_set(mg_rules.owner_names, module)) {
        return MG_RULE_RECORD;
    }
    if (in_set(mg_rules.native_modules, module)) {
        return MG_RULE_NATIVE;
    }
    return MG_RULE_NONE;
}

/* Calls with `self` in front of the arguments. */
static PyObject *
call_with_self(MgCapture *capture, PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t count,
               PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject *small[10];
    PyObject **all = total + 2 <= 10 ? small : PyMem_Calloc((size_t)total + 2, sizeof(PyObject *));
    if (all == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    all[1] = self;
    if (total > 0) {
        memcpy(all + 2, args, sizeof(PyObject *) * (size_t)total);
    }
    PyObject *result =
        mg_rules_call(capture, function, all + 1, (size_t)(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    if (all != small) {
        PyMem_Free(all);
    }
    return result;
}

/* 1 if a method of dict's is called on an OrderedDict that has another of this name: it would part its items from their
 * order, and only CPython can do that. 0, or -1. */
static int
bypasses_order(PyObject *callable, PyTypeObject *owner, PyObject *self)
{
    if (owner != &PyDict_Type || !PyODict_Check(self)) {
        return 0;
    }
    PyObject *name = mg_aside_getattr(callable, MG_STRING("__name__"));
    int result = name == NULL ? -1 : _PyType_Lookup(&PyODict_Type, name) != _PyType_Lookup(&PyDict_Type, name);
    Py_XDECREF(name);
    return result;
}

/* 1 for the __init__ of a C type. Called for what is made already, it may change what no shadow shows: the limit of a deque,
 * the factory of a defaultdict. */
static int
is_init(PyObject *callable)
{
    return Py_IS_TYPE(callable, &PyWrapperDescr_Type) && PyDescr_NAME(callable) == MG_STRING("__init__");
}

/* A bound method of a C type, or the unbound descriptor with its object in front. */
static PyObject *
call_c_method(MgCapture *capture, PyObject *callable, PyTypeObject *owner, PyObject *self, PyObject *const *args,
              Py_ssize_t count, PyObject *kwnames)
{
    if (owner == mg_torch.base || owner == mg_torch.tensor) {
        return mg_is_twin(self) ? mg_call_record_method(capture, callable, args, count, kwnames)
                                : mg_call_unknown(capture, callable);
    }
    if (mg_kind_is_harmless(owner) || PyType_IsSubtype(owner, (PyTypeObject *)PyExc_BaseException)) {
        MgOutside *record = mg_outside_of(capture, self);
        if (record != NULL && record->object == self && (Py_TYPE(self)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
            record->kind != MG_KIND_TUPLE && !mg_kinds_has(MG_SET_KEPT, Py_TYPE(self))) {
            mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(self)->tp_name);
            return NULL;
        }
        int bypasses = record != NULL && is_init(callable) ? 1 : bypasses_order(callable, owner, self);
        return bypasses < 0   ? NULL
               : bypasses > 0 ? mg_call_unknown(capture, callable)
                              : mg_call_native(capture, callable, args, count, kwnames);
    }
    int is_call = Py_IS_TYPE(callable, &PyWrapperDescr_Type) && PyDescr_NAME(callable) == MG_STRING("__call__");
    return mg_call_unknown(capture, is_call ? self : callable); /* what the user has called */
}

static PyObject *
call_partial(MgCapture *capture, PyObject *partial, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *result = NULL, *all = NULL, *keywords = NULL;
    MgOutside *record = mg_outside_of(capture, partial);
    int is_argument = record != NULL && record->kind == MG_KIND_INSTANCE; /* its parts are guarded one by one */
    PyObject *parts[] = {MG_STRING("func"), MG_STRING("args"), MG_STRING("keywords")};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(parts); i++) {
        parts[i] = i > 0 && parts[i - 1] == NULL ? NULL
                   : is_argument                 ? mg_world_getattr(capture, partial, parts[i])
                                                 : PyObject_GetAttr(partial, parts[i]);
    }
    PyObject *function = parts[0], *bound = parts[1], *named = parts[2];
    if (function == NULL || bound == NULL || named == NULL) {
        goto done;
    }
    if (record != NULL && !is_argument) { /* an outside partial is guarded by identity: its parts are what they are */
        if (mg_outside_pin(capture, function) == NULL || mg_outside_pin(capture, bound) == NULL ||
            mg_outside_pin(capture, named) == NULL) {
            goto done;
        }
        mg_outside_of(capture, bound)->kind = MG_KIND_TUPLE;
    }
    PyObject *exposed = mg_world_expose(capture, bound);
    PyObject *exposed_named = exposed == NULL ? NULL : mg_world_expose(capture, named);
    if (exposed_named != NULL) {
        Py_ssize_t own = PyTuple_GET_SIZE(exposed);
        all = PyTuple_New(own + count);
        keywords = PyDict_Copy(exposed_named);
        for (Py_ssize_t i = 0; all != NULL && keywords != NULL && i < own + count; i++) {
            PyObject *value =
                i < own ? mg_world_touch(capture, Py_NewRef(PyTuple_GET_ITEM(exposed, i))) : Py_NewRef(args[i - own]);
            if (value == NULL) {
                Py_CLEAR(all);
                break;
            }
            PyTuple_SET_ITEM(all, i, value);
        }
        for (Py_ssize_t i = 0; all != NULL && keywords != NULL && kwnames != NULL && i < PyTuple_GET_SIZE(kwnames);
             i++) {
            if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[count + i]) < 0) {
                Py_CLEAR(all);
            }
        }
        if (all != NULL && keywords != NULL) {
            result = mg_rules_call_tuple(capture, function, all, keywords);
        }
    }
    Py_XDECREF(exposed);
    Py_XDECREF(exposed_named);
done:
    Py_XDECREF(function);
    Py_XDECREF(bound);
    Py_XDECREF(named);
    Py_XDECREF(all);
    Py_XDECREF(keywords);
    return result;
}

/* np.sqrt(2) and the like. Where it has no proper result numpy warns, or does as it was told. */
static PyObject *
call_arithmetic(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!mg_kind_is_number(args[i])) {
            return mg_call_unknown(capture, callable);
        }
    }
    PyObject *result = kwnames != NULL ? NULL : PyObject_Vectorcall(callable, args, (size_t)count, NULL);
    if (result != NULL && mg_kind_is_number(result)) {
        double value = PyFloat_AsDouble(result);
        if (!PyErr_Occurred() && value - value == 0) {
            return result;
        }
    }
    mg_error_clear();
    Py_XDECREF(result);
    return mg_call_unknown(capture, callable);
}

/* An outside weak reference is called. It is guarded by what it refers to; if it has a callback, both by identity. */
static PyObject *
call_weakref(MgCapture *capture, PyObject *reference)
{
    PyObject *object = PyWeakref_GET_OBJECT(reference);
    MgOutside *record = mg_outside_of(capture, object);
    if (mg_outside_of(capture, reference) == NULL || record == NULL || record->object != object) {
        return mg_call_unknown(capture, reference);
    }
    int lives = mg_query_lives(capture, record);
    if (lives <= 0) {
        return lives < 0 ? NULL : mg_call_unknown(capture, reference);
    }
    PyObject *view = mg_world_touch(capture, Py_NewRef(object));
    if (view != NULL && mg_weakref_is_plain(reference)) { /* neither of them need be kept, nor referred to */
        MgSource *source = mg_outside_of(capture, reference)->source;
        if (mg_capture_guard_pair(capture, MG_GUARD_REFERENT, source, record->source) < 0) {
            Py_CLEAR(view);
        }
        return view;
    }
    PyObject *weak = view == NULL ? NULL : PyWeakref_NewRef(object, NULL); /* the entry must not keep it alive */
    if (weak == NULL || mg_capture_guard(capture, MG_GUARD_WEAK, record->source, weak) < 0) {
        Py_CLEAR(view);
    }
    Py_XDECREF(weak);
    return view;
}

int
mg_rules_watched(PyObject *function)
{
    MgRule rule = rule_of(function);
    if (rule == MG_RULE_NONE && PyFunction_Check(function)) { /* one that a function of torch's makes */
        rule = rule_of(PyFunction_GET_CODE(function));
    }
    if (rule != MG_RULE_NONE) {
        int inlined = rule == MG_RULE_INLINE || rule == MG_RULE_POLYFILL || rule == MG_RULE_STAND_IN;
        return inlined ? MG_MARK_NONE : MG_MARK_DISABLED;
    }
    PyObject *other;
    int mark = mg_control_mark(function, &other);
    if (mark < 0) {
        mg_error_clear();
    }
    return mark < 0 ? MG_MARK_SKIPPED : mark;
}

/* A builtin method bound to what captured code sees of its object. New; `method` itself if that is the same. */
static PyObject *
bind_again(MgCapture *capture, PyObject *method, PyObject *self)
{
    if (self == NULL || PyModule_Check(self) || PyType_Check(self) || mg_is_twin(self)) {
        return Py_NewRef(method);
    }
    PyObject *touched = mg_world_touch(capture, Py_NewRef(method)); /* guarded from now on */
    if (touched == NULL) {
        return NULL;
    }
    Py_DECREF(touched);
    /* a method from outside holds an object from outside */
    PyObject *view = mg_outside_of(capture, method) != NULL ? mg_world_adopt(capture, self) : Py_NewRef(self);
    PyObject *seen = view == NULL ? NULL : mg_world_expose(capture, view);
    PyObject *bound = NULL;
    if (seen == self) {
        bound = Py_NewRef(method);
    }
    else if (seen != NULL) {
        PyCFunctionObject *old = (PyCFunctionObject *)method;
        bound = PyCMethod_New(old->m_ml, seen, old->m_module, PyCFunction_GET_CLASS(method));
    }
    Py_XDECREF(view);
    Py_XDECREF(seen);
    return bound;
}

/* A constant function is called: its result is what it returns now. */
static PyObject *
call_constant(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (mg_call_any_twin(args, count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)))) {
        return mg_call_refuse(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
    }
    PyObject *result = mg_query_constant(capture, callable, args, count, kwnames);
    PyObject *view = result == NULL ? NULL : mg_world_adopt(capture, result);
    Py_XDECREF(result);
    return view;
}

/* Calls what a user, or the judge, has said something about. */
static PyObject *
call_marked(MgCapture *capture, int mark, PyObject *other, PyObject *callable, PyObject *const *args, size_t nargsf,
            PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    switch ((MgMark)mark) {
        case MG_MARK_DISABLED:
            return mg_call_refuse(capture, MG_REASON_DISABLED, callable, args, count);
        case MG_MARK_TRANSFORM:
            return mg_call_refuse(capture, MG_REASON_TRANSFORM, callable, args, count);
        case MG_MARK_FORBIDDEN:
            mg_callee_abort(capture, MG_REASON_FORBIDDEN, callable);
            return NULL;
        case MG_MARK_CONSTANT:
            return call_constant(capture, callable, args, count, kwnames);
        case MG_MARK_RECORDED:
            return mg_special_call(&(MgCall){capture, MG_RULE_RECORD, callable, args, count, kwnames});
        case MG_MARK_SCRIPTED: {
            int fits = mg_script_fits(callable, args, count, kwnames);
            if (fits <= 0) {
                return fits < 0 ? NULL : mg_call_refuse(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
            }
        }
            /* fall through */
        case MG_MARK_REPLACED: {
            MgOutside *record = mg_outside_of(capture, callable);
            if (record != NULL && mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, record->object) < 0) {
                return NULL;
            }
            Py_INCREF(other);
            PyObject *result =
                (mark == MG_MARK_SCRIPTED ? mg_script_call : mg_rules_call)(capture, other, args, nargsf, kwnames);
            Py_DECREF(other);
            return result;
        }
        default:
            break;
    }
    return mark < 0 ? NULL : mg_call_refuse(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
}

/* A builtin function or method. */
static PyObject *
call_builtin(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *self = PyCFunction_GET_SELF(callable);
    MgRule rule = builtin_rule(callable);
    if (rule != MG_RULE_NONE) {
        return mg_special_call(&(MgCall){capture, rule, callable, args, count, kwnames});
    }
    PyObject *bound = bind_again(capture, callable, self);
    if (bound != callable) {
        PyObject *result = bound == NULL ? NULL : mg_rules_call(capture, bound, args, nargsf, kwnames);
        Py_XDECREF(bound);
        return result;
    }
    Py_DECREF(bound);
    PyObject *unbound = mg_table_get(&mg_rules.methods, ((PyCFunctionObject *)callable)->m_ml, NULL);
    if (unbound != NULL && self != NULL) { /* a method that the tables name, bound to an object */
        return call_with_self(capture, unbound, self, args, count, kwnames);
    }
    if (mg_is_bound_builtin(callable)) { /* list.append bound to a list */
        if (mg_is_twin(self)) {
            PyObject *method = mg_torch_method_of(callable);
            return method == NULL ? mg_call_unknown(capture, callable)
                                  : call_with_self(capture, method, self, args, count, kwnames);
        }
        PyTypeObject *owner = Py_TYPE(self); /* the C type that the method is of */
        while (owner->tp_flags & Py_TPFLAGS_HEAPTYPE && owner->tp_base != NULL && !mg_kinds_has(MG_SET_KEPT, owner)) {
            owner = owner->tp_base;
        }
        return call_c_method(capture, callable, owner, self, args, count, kwnames);
    }
    if (self != NULL && PyType_Check(self) && mg_kind_is_harmless((PyTypeObject *)self)) {
        return mg_call_native(capture, callable, args, count, kwnames); /* dict.fromkeys */
    }
    return mg_call_unknown(capture, callable);
}

/* A method of a C type, called with the object in front. */
static PyObject *
call_descriptor(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (count == 0) {
        return PyObject_Vectorcall(callable, args, 0, kwnames); /* raises */
    }
    if (kwnames == NULL && (count == 2 || count == 3) && PyDescr_TYPE(callable) == &PyDict_Type &&
        PyUnicode_CompareWithASCIIString(PyDescr_NAME(callable), "get") == 0) {
        PyObject *value;
        int found = mg_world_find_item(capture, args[0], args[1], &value);
        if (found != MG_UNCLEAR) {
            return found < 0 ? NULL : found > 0 ? value : Py_NewRef(count == 3 ? args[2] : Py_None);
        }
    }
    return call_c_method(capture, callable, PyDescr_TYPE(callable), args[0], args, count, kwnames);
}

/* object.__init__ bound to an instance, and the like. */
static PyObject *
call_method_wrapper(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (mg_outside_of(capture, callable) != NULL) { /* what one from outside is bound to is not guarded */
        return mg_call_unknown(capture, callable);
    }
    PyObject *self = mg_aside_getattr(callable, MG_STRING("__self__"));
    PyObject *name = self == NULL ? NULL : mg_aside_getattr(callable, MG_STRING("__name__"));
    if (name != NULL && Py_IS_TYPE(self, &PyGetSetDescr_Type) && count > 0 && mg_is_twin(args[0]) && kwnames == NULL &&
        PyUnicode_CompareWithASCIIString(name, "__get__") == 0 &&
        PyType_IsSubtype(mg_torch.tensor, PyDescr_TYPE(self))) { /* Tensor.shape.__get__ */
        PyObject *value = mg_tensor_getattr(capture, args[0], PyDescr_NAME(self));
        Py_DECREF(self);
        Py_DECREF(name);
        return value;
    }
    PyObject *class = self == NULL ? NULL : mg_aside_getattr(callable, MG_STRING("__objclass__"));
    PyObject *descriptor = class == NULL || name == NULL ? NULL : PyObject_GetAttr(class, name);
    PyObject *result = descriptor == NULL ? NULL : call_with_self(capture, descriptor, self, args, count, kwnames);
    Py_XDECREF(self);
    Py_XDECREF(name);
    Py_XDECREF(class);
    Py_XDECREF(descriptor);
    return result;
}

/* A function with a cache: numbers that vary take their values, since they are its keys. */
static PyObject *
call_cached(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    if (!mg_capture_varies(capture) || total == 0) {
        return mg_query_cached(capture, callable, args, count, kwnames);
    }
    PyObject *plain = PyTuple_New(total);
    for (Py_ssize_t i = 0; plain != NULL && i < total; i++) {
        PyObject *value = mg_plain_value(capture, args[i]);
        if (value == NULL) {
            Py_CLEAR(plain);
            break;
        }
        PyTuple_SET_ITEM(plain, i, value);
    }
    PyObject *result =
        plain == NULL ? NULL : mg_query_cached(capture, callable, ((PyTupleObject *)plain)->ob_item, count, kwnames);
    Py_XDECREF(plain);
    return result;
}

/* An object whose class says how it is called. */
static PyObject *
call_object(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyTypeObject *type = Py_TYPE(callable);
    PyObject *object, *inner = mg_tracer.unwrap(callable, &object);
    if (inner != NULL) {   /* what is compiled inside another is just what it was before */
        MgSource *source = /* the callable is guarded by identity, and holds its object for good */
            object == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, object, 0);
        PyObject *view = source == NULL ? NULL : mg_world_reach(capture, object, source);
        Py_XDECREF(view);
        return object != NULL && view == NULL ? NULL : mg_rules_call(capture, inner, args, nargsf, kwnames);
    }
    PyObject *name = MG_STRING("__call__");
    PyObject *function = type->tp_flags & Py_TPFLAGS_HEAPTYPE ? _PyType_Lookup(type, name) : NULL;
    if (function == NULL) {
        return mg_call_unknown(capture, callable);
    }
    if (mg_world_guard_lookup(capture, type, name) < 0) {
        return NULL;
    }
    if (Py_TYPE(function)->tp_descr_get == NULL || Py_IS_TYPE(function, &PyStaticMethod_Type)) {
        return mg_rules_call(capture, function, args, nargsf, kwnames);
    }
    return call_with_self(capture, function, callable, args, PyVectorcall_NARGS(nargsf), kwnames);
}

/* dict[str, int](): what is made of a class in C that gives its objects no attributes can't be told of the alias. */
static PyObject *
call_alias(MgCapture *capture, PyObject *alias, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *origin = mg_aside_getattr(alias, MG_STRING("__origin__"));
    if (origin == NULL) {
        return NULL;
    }
    int is_plain = PyType_Check(origin) && !(((PyTypeObject *)origin)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
                   ((PyTypeObject *)origin)->tp_dictoffset == 0;
    PyObject *result = is_plain ? mg_rules_call(capture, origin, args, nargsf, kwnames)
                                : call_object(capture, alias, args, nargsf, kwnames);
    Py_DECREF(origin);
    return result;
}

/* A call that neither the tables nor users say anything about: what it is, is said by the type of the callable. */
static PyObject *
call_by_type(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyTypeObject *type = Py_TYPE(callable);
    PyObject *result;
    if (type == &PyFunction_Type) { /* inlined: its frame is captured */
        capture->call.direct_pending = capture->call.pure;
        capture->call.direct = 1;
        result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
        capture->call.direct = 0;
        return mg_world_touch(capture, result);
    }
    if (type == &PyMethod_Type) {
        PyObject *function = Py_NewRef(PyMethod_GET_FUNCTION(callable)), *self = Py_NewRef(PyMethod_GET_SELF(callable));
        result = call_with_self(capture, function, self, args, count, kwnames);
        Py_DECREF(function);
        Py_DECREF(self);
        return result;
    }
    if (PyCFunction_Check(callable)) {
        return call_builtin(capture, callable, args, nargsf, kwnames);
    }
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
        return call_descriptor(capture, callable, args, count, kwnames);
    }
    if (type == &_PyMethodWrapper_Type) {
        return call_method_wrapper(capture, callable, args, count, kwnames);
    }
    if (type == &PyStaticMethod_Type) { /* the function that it wraps, which never changes */
        PyObject *function = type->tp_descr_get(callable, NULL, (PyObject *)type);
        result = function == NULL ? NULL : mg_rules_call(capture, function, args, nargsf, kwnames);
        Py_XDECREF(function);
        return result;
    }
    if (PyWeakref_CheckRefExact(callable) && count == 0 && kwnames == NULL) {
        return call_weakref(capture, callable);
    }
    if (mg_kinds_has(MG_SET_RECORDED, type)) {
        return mg_record_call(capture, MG_NODE_FUNCTION, callable, args, count, kwnames);
    }
    if (PyType_Check(callable)) {
        return mg_call_class(capture, (PyTypeObject *)callable, args, count, kwnames);
    }
    if (mg_kinds_has(MG_SET_ARITHMETIC, type)) {
        return call_arithmetic(capture, callable, args, count, kwnames);
    }
    if (kwnames == NULL && mg_callback_getter(capture, callable, args, count, &result)) {
        return result;
    }
    if (type == mg_kinds.lru_cache) {
        return call_cached(capture, callable, args, count, kwnames);
    }
    if (type == mg_kinds.partial) {
        return call_partial(capture, callable, args, count, kwnames);
    }
    if (type == &Py_GenericAliasType) {
        return call_alias(capture, callable, args, nargsf, kwnames);
    }
    return call_object(capture, callable, args, nargsf, kwnames);
}

PyObject *
mg_rules_call(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyTypeObject *type = Py_TYPE(callable);
    if (capture->symbols.session != NULL || mg_capture_varies(capture)) {
        PyObject *result, *exposed = NULL;
        if (callable == (PyObject *)mg_torch.size && count == 1 &&
            PyTuple_Check(args[0])) { /* with the numbers in it */
            exposed = mg_world_expose(capture, args[0]);
            if (exposed == NULL) {
                return NULL;
            }
        }
        int called = mg_number_call(capture, callable, exposed == NULL ? args : &exposed, count, kwnames, &result);
        Py_XDECREF(exposed);
        if (called) {
            return result;
        }
    }
    if (count == 1 && kwnames == NULL && mg_is_twin(args[0]) &&
        (capture->symbols.allow_scalars || mg_record_known_number(capture, args[0]) != NULL) &&
        (callable == (PyObject *)&PyLong_Type || callable == (PyObject *)&PyFloat_Type ||
         callable == (PyObject *)&PyBool_Type)) {
        return mg_tensor_item(capture, args[0], callable);
    }
    MgRule rule = rule_of(callable);
    if (MG_UNLIKELY(mg_control_overriding) && rule != MG_RULE_USER_BREAK) {
        PyObject *other;
        MgMark mark = mg_control_override(callable, &other);
        if (mark != MG_MARK_NONE) {
            return call_marked(capture, mark, other, callable, args, nargsf, kwnames);
        }
    }
    if (rule > MG_RULE_INLINE) {
        PyObject *other;
        MgMark mark = type == &PyFunction_Type ? mg_control_said(callable, &other) : MG_MARK_NONE;
        return mark != MG_MARK_NONE ? call_marked(capture, mark, other, callable, args, nargsf, kwnames)
                                    : mg_special_call(&(MgCall){capture, rule, callable, args, count, kwnames});
    }
    if (type == &PyFunction_Type && rule == MG_RULE_NONE) {
        rule = rule_of(PyFunction_GET_CODE(callable));
        if (rule > MG_RULE_INLINE) {
            return mg_special_call(&(MgCall){capture, rule, callable, args, count, kwnames});
        }
    }
    if (rule == MG_RULE_NONE) {
        PyObject *other;
        Py_ssize_t known = PyList_GET_SIZE(mg_rules.kept);
        int mark = mg_control_mark(callable, &other);
        int is_told = mark > MG_MARK_NONE || (mark == MG_MARK_NONE && PyList_GET_SIZE(mg_rules.kept) > known);
        if (is_told && rule_of(callable) != MG_RULE_NONE) { /* the judge has named the function itself */
            return mg_rules_call(capture, callable, args, nargsf, kwnames);
        }
        if (mark != MG_MARK_NONE) {
            return call_marked(capture, mark, other, callable, args, nargsf, kwnames);
        }
    }
    return call_by_type(capture, callable, args, nargsf, kwnames);
}

PyObject *
mg_rules_call_tuple(MgCapture *capture, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), names = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
    PyObject **all = PyMem_Calloc((size_t)(count + names) + 2, sizeof(PyObject *));
    PyObject *kwnames = names == 0 ? NULL : PyTuple_New(names);
    PyObject *result = NULL;
    if (all == NULL || (names > 0 && kwnames == NULL)) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        all[i + 1] = PyTuple_GET_ITEM(args, i);
    }
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (names > 0 && PyDict_Next(kwargs, &position, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "keywords must be strings");
            goto done;
        }
        PyTuple_SET_ITEM(kwnames, i, Py_NewRef(key));
        all[1 + count + i++] = value;
    }
    result = mg_rules_call(capture, callable, all + 1, (size_t)count | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
done:
    PyMem_Free(all);
    Py_XDECREF(kwnames);
    return result;
}
