/* The rules: what captured code may call, and how.
 *
 * A Python function is inlined: it is called, and its frame comes back to us through the hook. A torch function is
 * recorded. A C function runs for real only if the tables know it to be harmless: its result depends on nothing but its
 * arguments, and it changes nothing else. Functions that look into objects (getattr, isinstance, len, ...) go through
 * the world. Everything else ends the capture. */
#include "rules.h"

#include "answer.h"
#include "callable.h"
#include "depth.h"
#include "classes.h"
#include "control.h"
#include "kinds.h"
#include "lazy.h"
#include "place.h"
#include "protocol.h"
#include "record.h"
#include "recover.h"
#include "reserve.h"
#include "registry.h"
#include "route.h"
#include "script.h"
#include "stance.h"
#include "symbol.h"
#include "world.h"
#include "worldbase.h"
#include "wrapper.h"
#include "aside.h"

typedef enum {
    RULE_NONE,
    RULE_INLINE,
    RULE_RECORD,
    RULE_METHOD, /* a Python function that is a method of torch.Tensor */
    RULE_NATIVE,
    RULE_CONSTANT,
    RULE_QUERY,    /* tells a setting of torch's */
    RULE_POLYFILL, /* looked into in the shape of a Python function */
    RULE_FOLD,     /* the same for arguments that are all constants: its result is what it gives now */
    RULE_STATE,
    RULE_SETTING, /* changes what queries tell */
    RULE_BREAK,
    RULE_VALUE,      /* breaks that tell more: the value of a tensor, */
    RULE_OUTPUT,     /* input and output, */
    RULE_USER_BREAK, /* graph_break() */
    RULE_ISINSTANCE,
    RULE_ISSUBCLASS,
    RULE_TYPE,
    RULE_GETATTR,
    RULE_SETATTR,
    RULE_DELATTR,
    RULE_HASATTR,
    RULE_LEN,
    RULE_ITER,
    RULE_NEXT,
    RULE_VARS,
    RULE_CALLABLE,
    RULE_BOOL,
    RULE_SUPER,
    RULE_OBJECT_GETATTR,
    RULE_OBJECT_SETATTR,
    RULE_OBJECT_DELATTR,
    RULE_IS_COMPILING,
    RULE_ID,
    RULE_SUBCLASSES, /* type.__subclasses__ */
    RULE_INSTANCECHECK,
    RULE_OVERRIDES, /* has_torch_function and its kin */
    RULE_SUM,
    RULE_REVERSED,
    RULE_DISPATCH, /* the part of functools.singledispatch that looks for the function */
    RULE_NOTHING,
    RULE_EXC_INFO,
    RULE_OPERATOR, /* a function of the module operator: recorded on twins */
    RULE_ABS,
    RULE_ENTER, /* __enter__ and __exit__ of torch's context managers: two nodes */
    RULE_EXIT,
    RULE_GETITEM, /* Tensor.__getitem__ and __setitem__ */
    RULE_SETITEM,
    RULE_ITEM, /* the value of a tensor as a number: a symbol, if the capture allows it */
    RULE_TOLIST,
    RULE_COUNT,
} Rule;

static const char *const rule_names[RULE_COUNT] = {
    [RULE_NONE] = "none",
    [RULE_INLINE] = "inline",
    [RULE_RECORD] = "record",
    [RULE_METHOD] = "method",
    [RULE_NATIVE] = "native",
    [RULE_CONSTANT] = "constant",
    [RULE_QUERY] = "query",
    [RULE_POLYFILL] = "polyfill",
    [RULE_FOLD] = "fold",
    [RULE_STATE] = "state",
    [RULE_SETTING] = "setting",
    [RULE_BREAK] = "break",
    [RULE_VALUE] = "value",
    [RULE_OUTPUT] = "output",
    [RULE_USER_BREAK] = "user_break",
    [RULE_ISINSTANCE] = "isinstance",
    [RULE_ISSUBCLASS] = "issubclass",
    [RULE_TYPE] = "type",
    [RULE_GETATTR] = "getattr",
    [RULE_SETATTR] = "setattr",
    [RULE_DELATTR] = "delattr",
    [RULE_HASATTR] = "hasattr",
    [RULE_LEN] = "len",
    [RULE_ITER] = "iter",
    [RULE_NEXT] = "next",
    [RULE_VARS] = "vars",
    [RULE_CALLABLE] = "callable",
    [RULE_BOOL] = "bool",
    [RULE_SUPER] = "super",
    [RULE_OBJECT_GETATTR] = "object_getattr",
    [RULE_OBJECT_SETATTR] = "object_setattr",
    [RULE_OBJECT_DELATTR] = "object_delattr",
    [RULE_IS_COMPILING] = "is_compiling",
    [RULE_ID] = "id",
    [RULE_SUBCLASSES] = "subclasses",
    [RULE_INSTANCECHECK] = "instancecheck",
    [RULE_OVERRIDES] = "overrides",
    [RULE_SUM] = "sum",
    [RULE_REVERSED] = "reversed",
    [RULE_DISPATCH] = "dispatch",
    [RULE_NOTHING] = "nothing",
    [RULE_EXC_INFO] = "exc_info",
    [RULE_OPERATOR] = "operator",
    [RULE_ABS] = "abs",
    [RULE_ENTER] = "enter",
    [RULE_EXIT] = "exit",
    [RULE_GETITEM] = "getitem",
    [RULE_SETITEM] = "setitem",
    [RULE_ITEM] = "item",
    [RULE_TOLIST] = "tolist",
};

static struct {
    MgTable calls;            /* callable -> Rule */
    MgTable methods;          /* PyMethodDef -> the descriptor among the callables */
    PyObject *kept;           /* strong: list of the callables above */
    PyObject *owner_names;    /* names of C modules whose functions are recorded */
    PyObject *native_modules; /* the same of those whose functions are harmless */
    PyObject *state_readers;  /* list of callables without arguments */
    PyObject *state_words;    /* list, one for each reader: None if it is to be asked, else a tuple; see rules.py */
    PyObject *state_writers;  /* list of callables that set what the readers read, or None */
    PyObject *hold_casts;     /* callable: keeps autocast's cache, or lets it go */
    PyObject *managers;       /* __enter__ -> (enter function, exit function, names of its arguments, what it notes) */
    PyObject *setters;        /* functions that change settings -> what they are asked for; see rules.py */
    PyObject *operator_abs;   /* what abs() is on a tensor */
    PyObject *operators;      /* names of methods of tensors -> functions of the module operator */
    PyObject *attributes;     /* names of attributes of tensors that follow from the metadata */
    PyObject *polyfills;      /* C functions -> Python functions that do the same, to be inlined in their place */
    PyObject *stand_ins;      /* Python's classes of numbers -> the dtypes that torch takes them for */
    PyObject *no_override;    /* a __torch_function__ that does not count */
    PyObject *module_getattr; /* torch.nn.Module.__getattr__, */
    PyObject *module_code;    /* strong: and its code at start-up */
    PyObject *call_code;      /* the code of torch.nn.Module._call_impl */
} rules;

/* ---- tables ---- */

static int
take_calls(PyObject *table)
{
    Py_ssize_t position = 0;
    PyObject *callable, *name;
    while (PyDict_Next(table, &position, &callable, &name)) {
        const char *text = PyUnicode_AsUTF8(name);
        int rule = RULE_NONE;
        for (int i = 0; text != NULL && i < RULE_COUNT; i++) {
            if (strcmp(text, rule_names[i]) == 0) {
                rule = i;
            }
        }
        if (rule == RULE_NONE) {
            PyErr_Format(PyExc_ValueError, "unknown rule %R", name);
            return MG_ERR;
        }
        if (PyList_Append(rules.kept, callable) < 0 ||
            mg_table_set(&rules.calls, callable, NULL, (void *)(uintptr_t)rule) < 0) {
            return MG_ERR;
        }
        if (Py_IS_TYPE(callable, &PyMethodDescr_Type) &&
            mg_table_set(&rules.methods, ((PyMethodDescrObject *)callable)->d_method, NULL, callable) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_rules_configure(PyObject *tables)
{
    const struct {
        const char *name;
        PyObject **slot;
    } wanted[] = {
        {"owner_names", &rules.owner_names},     {"native_modules", &rules.native_modules},
        {"state_readers", &rules.state_readers}, {"state_words", &rules.state_words},
        {"state_writers", &rules.state_writers}, {"hold_casts", &rules.hold_casts},
        {"managers", &rules.managers},           {"setters", &rules.setters},
        {"operator_abs", &rules.operator_abs},   {"operators", &rules.operators},
        {"attributes", &rules.attributes},       {"polyfills", &rules.polyfills},
        {"stand_ins", &rules.stand_ins},         {"module_getattr", &rules.module_getattr},
        {"module_code", &rules.module_code},     {"no_override", &rules.no_override},
        {"call_code", &rules.call_code},
    };
    if (rules.kept == NULL && (rules.kept = PyList_New(0)) == NULL) {
        return MG_ERR;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        PyObject *value = PyDict_GetItemString(tables, wanted[i].name);
        if (value != NULL) {
            Py_XSETREF(*wanted[i].slot, Py_NewRef(value));
        }
    }
    PyObject *places = PyDict_GetItemString(tables, "places");
    if (places != NULL && mg_place_configure(places) < 0) {
        return MG_ERR;
    }
    mg_classes_configure(tables);
    if (mg_kinds_configure(tables) < 0 || mg_torch_configure(tables) < 0) {
        return MG_ERR;
    }
    mg_stance_configure(tables);
    PyObject *symbols = PyDict_GetItemString(tables, "symbols");
    if (symbols != NULL) {
        mg_symbol_configure(symbols);
    }
    PyObject *calls = PyDict_GetItemString(tables, "calls");
    return mg_script_configure(tables) < 0 || (calls != NULL && take_calls(calls) < 0) ? MG_ERR
                                                                                       : mg_control_configure(tables);
}

static Rule
rule_of(PyObject *callable)
{
    return (Rule)(uintptr_t)mg_table_get(&rules.calls, callable, NULL);
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

int
mg_rules_is_constant_type(PyTypeObject *type)
{
    if (mg_kinds_has(MG_SET_CONSTANT, type)) {
        return 1;
    }
    /* enum members: classes made by a metaclass that is in the set */
    return mg_kinds_has(MG_SET_CONSTANT, Py_TYPE(type));
}

int
mg_rules_is_harmless_type(PyTypeObject *type)
{
    return mg_kinds_has(MG_SET_HARMLESS, type);
}

int
mg_rules_is_module_getattr(PyObject *function)
{
    return function == rules.module_getattr && ((PyFunctionObject *)function)->func_code == rules.module_code;
}

int
mg_rules_is_cached_property(PyTypeObject *type)
{
    return type == mg_kinds.cached_property;
}

int
mg_rules_is_plain_tensor_type(PyTypeObject *type)
{
    return mg_kinds_has(MG_SET_TENSOR, type);
}

int
mg_rules_is_graph_constant(PyObject *value)
{
    return mg_kinds_has(MG_SET_GRAPH, Py_TYPE(value)) || mg_kinds_has(MG_SET_CONSTANT, Py_TYPE(Py_TYPE(value)));
}

PyObject *
mg_rules_stand_in(PyObject *value)
{
    return rules.stand_ins == NULL || !Py_IS_TYPE(value, &PyType_Type)
               ? NULL
               : PyDict_GetItemWithError(rules.stand_ins, value);
}

int
mg_rules_is_value_type(PyTypeObject *type)
{
    return mg_kinds_has(MG_SET_VALUES, type);
}

int
mg_rules_is_number(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_getattro != PyObject_GenericGetAttr) {
        return 0; /* torch asks it for __torch_function__: code of the class runs */
    }
    return PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value) || mg_rules_is_value_type(type);
}

PyObject *
mg_rules_number(PyObject *value)
{
    if (PyLong_Check(value)) {
        return _PyLong_Copy((PyLongObject *)value);
    }
    if (PyFloat_Check(value)) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
    }
    if (PyComplex_Check(value)) {
        return PyComplex_FromCComplex(((PyComplexObject *)value)->cval);
    }
    return PyObject_CallMethod(value, "item", NULL);
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

int
mg_rules_is_tensor_attribute(PyObject *name)
{
    return in_set(rules.attributes, name);
}

PyObject *
mg_rules_operator_of(PyObject *name)
{
    return rules.operators == NULL ? NULL : PyDict_GetItemWithError(rules.operators, name);
}

PyObject *
mg_rules_read_state(void)
{
    Py_ssize_t count = rules.state_readers == NULL ? 0 : PyList_GET_SIZE(rules.state_readers);
    PyObject *state = PyTuple_New(count);
    MgAside aside;
    mg_aside_begin(&aside);
    for (Py_ssize_t i = 0; state != NULL && i < count; i++) {
        PyObject *value = PyObject_CallNoArgs(PyList_GET_ITEM(rules.state_readers, i));
        if (value == NULL) {
            Py_CLEAR(state);
            break;
        }
        PyTuple_SET_ITEM(state, i, value);
    }
    mg_aside_end(&aside);
    return state;
}

int
mg_rules_same_extra_state(PyObject *state)
{
    Py_ssize_t count = rules.state_words == NULL ? 0 : PyList_GET_SIZE(rules.state_words);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (MG_LIKELY(PyList_GET_ITEM(rules.state_words, i) != Py_None)) {
            continue;
        }
        MgAside aside;
        mg_aside_begin(&aside);
        PyObject *value = PyObject_CallNoArgs(PyList_GET_ITEM(rules.state_readers, i));
        int same = value == NULL ? -1 : PyObject_RichCompareBool(value, PyTuple_GET_ITEM(state, i), Py_EQ);
        Py_XDECREF(value);
        mg_aside_end(&aside);
        if (same <= 0) {
            return same;
        }
    }
    return 1;
}

int
mg_rules_is_plain_state(PyObject *state)
{
    Py_ssize_t count = rules.state_words == NULL ? 0 : PyList_GET_SIZE(rules.state_words);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *words = PyList_GET_ITEM(rules.state_words, i);
        if (words != Py_None && PyTuple_GET_SIZE(words) == 1) { /* only this value has a word */
            int same = PyObject_RichCompareBool(PyTuple_GET_ITEM(words, 0), PyTuple_GET_ITEM(state, i), Py_EQ);
            if (same <= 0) {
                mg_error_clear();
                return 0;
            }
        }
    }
    return count > 0 && count == PyTuple_GET_SIZE(state);
}

int
mg_rules_restore_state(MgCapture *capture)
{
    int set = capture->settings != NULL;
    if (rules.state_writers == NULL || capture->entry_state == NULL ||
        (capture->state == capture->entry_state && !set)) {
        return MG_OK; /* nothing has changed it */
    }
    MgAside aside;
    mg_aside_begin(&aside);
    int reserve = 0;
    mg_reserve_use(&reserve);
    if (set && mg_answer_undo(capture->settings) < 0) {
        mg_error_clear();
    }
    while (capture->managers != NULL && PyList_GET_SIZE(capture->managers) > 0) { /* left open by an abort */
        Py_ssize_t last = PyList_GET_SIZE(capture->managers) - 1;
        PyObject *item = Py_NewRef(PyList_GET_ITEM(capture->managers, last));
        PyObject *left = PyObject_CallOneArg(PyTuple_GET_ITEM(item, 3), PyTuple_GET_ITEM(item, 1));
        Py_DECREF(item);
        Py_XDECREF(left);
        if (left == NULL || PyList_SetSlice(capture->managers, last, last + 1, NULL) < 0) {
            mg_error_clear();
            Py_CLEAR(capture->managers);
        }
    }
    int status = mg_rules_apply_state(capture->entry_state);
    mg_reserve_close(reserve);
    mg_aside_end(&aside);
    return status;
}

int
mg_rules_apply_state(PyObject *state)
{
    if (rules.state_writers == NULL) {
        return MG_OK;
    }
    MgAside aside;
    mg_aside_begin(&aside);
    int status = mg_recover_state(rules.state_readers, rules.state_writers, state);
    mg_aside_end(&aside);
    return status;
}

int
mg_rules_hold_casts(int hold)
{
    PyObject *value = hold ? Py_True : Py_False;
    PyObject *result = rules.hold_casts == NULL ? Py_NewRef(Py_None) : mg_aside_call(rules.hold_casts, &value, 1);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

int
mg_rules_check_managers(MgCapture *capture)
{
    if (capture->managers == NULL || PyList_GET_SIZE(capture->managers) == 0) {
        return MG_OK;
    }
    return mg_capture_abort(capture, MG_REASON_STATE, "a context manager is entered and not left");
}

PyObject *
mg_rules_state_key(void)
{
    MgCapture *capture = mg_capture_current;
    if (capture->state == NULL) {
        capture->state = mg_rules_read_state();
    }
    if (MG_UNLIKELY(capture->settings != NULL) && capture->state != NULL) {
        return PyTuple_Pack(2, capture->state, PyTuple_GET_ITEM(capture->settings, 2));
    }
    return Py_XNewRef(capture->state);
}

/* ---- native calls ---- */

/* 1 for functions that show the address of an object that has no better way. */
static int
shows_address(PyObject *callable)
{
    if (callable == (PyObject *)&PyUnicode_Type) {
        return 1;
    }
    if (!PyCFunction_Check(callable)) {
        return Py_IS_TYPE(callable, &PyMethodDescr_Type) && PyDescr_TYPE(callable) == &PyUnicode_Type; /* format */
    }
    const char *name = ((PyCFunctionObject *)callable)->m_ml->ml_name;
    return strcmp(name, "repr") == 0 || strcmp(name, "hash") == 0 || strcmp(name, "format") == 0 ||
           strcmp(name, "ascii") == 0;
}

/* The same at a level of a structure; what lies too deep may have one. */
static int
has_address(PyObject *value, MgWalk *walk)
{
    PyTypeObject *type = Py_TYPE(value);
    if (PyType_Check(value)) { /* guarded by identity */
        return type->tp_repr != PyType_Type.tp_repr;
    }
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || type == mg_torch.size) {
        PyObject **items = PySequence_Fast_ITEMS(value);
        int found = !mg_walk_enter(walk);
        for (Py_ssize_t i = 0; !found && i < Py_SIZE(value); i++) {
            found = items[i] == value || PyList_CheckExact(items[i]) || has_address(items[i], walk);
        }
        mg_walk_leave(walk);
        return found;
    }
    return type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type && type != &PyBool_Type &&
           type != &PyBytes_Type && value != Py_None && type != mg_torch.dtype && type != mg_torch.device &&
           !mg_rules_is_constant_type(type);
}

int
mg_rules_has_address(PyObject *value)
{
    MgWalk walk = MG_WALK;
    return has_address(value, &walk);
}

/* A result (stolen) that can't be made again, but never changes, is a constant of the entry. New. */
static PyObject *
keep_constant(MgCapture *capture, PyObject *result)
{
    if (result == NULL || !mg_kinds_has(MG_SET_KEPT, Py_TYPE(result))) {
        return result;
    }
    PyObject *view = mg_world_adopt(capture, result);
    Py_DECREF(result);
    return view;
}

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
    return code != NULL && (PyObject *)PyThreadState_Get()->cframe->current_frame->f_code == code;
}

static PyObject *unknown_call(MgCapture *capture, PyObject *callable);
static int tells_inside(MgCapture *capture, PyObject *value, int hashed);

/* tells_inside for what a tuple, list or dict holds. */
static int
holds_inside(MgCapture *capture, PyObject *value, int hashed)
{
    if (mg_depth_enter(capture) < 0) {
        return MG_ERR;
    }
    int found = Py_ReprEnter(value); /* it may hold itself */
    if (found != 0) {
        mg_depth_leave(capture);
        return found < 0 ? MG_ERR : 0;
    }
    if (PyDict_CheckExact(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (found == 0 && PyDict_Next(value, &position, &key, &item)) {
            found = tells_inside(capture, key, hashed);
            found = found != 0 ? found : tells_inside(capture, item, hashed);
        }
    }
    else {
        for (Py_ssize_t i = 0; found == 0 && i < Py_SIZE(value); i++) {
            found = tells_inside(capture, PySequence_Fast_ITEMS(value)[i], hashed);
        }
    }
    MG_STARVE_PAUSE(); /* CPython leaves the object on its list if there is no memory to make that shorter */
    Py_ReprLeave(value);
    MG_STARVE_RESUME();
    mg_depth_leave(capture);
    return found;
}

/* What a text or a hash (`hashed`) tells of the address of an object that captured code made: 1 if it does, and each call
 * makes its own. Outside objects are guarded: tensors here, others when the entry is made. Or MG_ERR. */
static int
tells_inside(MgCapture *capture, PyObject *value, int hashed)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyTuple_Type || (!hashed && (type == &PyList_Type || type == &PyDict_Type))) {
        return holds_inside(capture, value, hashed);
    }
    if (mg_is_bound_builtin(value)) { /* the address of what it is bound to */
        return mg_is_twin(PyCFunction_GET_SELF(value)) || mg_world_record(capture, value) == NULL;
    }
    if (hashed && mg_is_nan(value)) { /* which has its address for a hash */
        MgSource *lazy = mg_lazy_source(capture, value);
        return lazy == NULL ? 0 : mg_capture_guard(capture, MG_GUARD_IDENTITY, lazy, value);
    }
    int tensor = mg_is_twin(value);
    if (tensor ? !hashed
               : !(hashed ? type->tp_hash == PyBaseObject_Type.tp_hash : type->tp_repr == PyBaseObject_Type.tp_repr) &&
                     type != &PyFunction_Type && type != &PyMethod_Type) {
        return 0;
    }
    MgRecord *record = mg_world_record(capture, value);
    if (record == NULL) {
        return tensor || mg_table_get(&capture->inside, value, NULL) != NULL || type != &PyFunction_Type;
    }
    return tensor || record->kind == MG_KIND_FUNCTION
               ? mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, record->object)
               : 0;
}

/* Before a C function is given a value and may tell its address: stops the capture if that would be another behind a
 * break. 1 if the result is good for nobody outside, or 0, or MG_ERR. */
static int
note_address(MgCapture *capture, PyObject *callable, PyObject *value)
{
    int hashed = PyCFunction_Check(callable) && strcmp(((PyCFunctionObject *)callable)->m_ml->ml_name, "hash") == 0;
    int inside = tells_inside(capture, value, hashed);
    if (inside > 0 && capture->can_break) {
        unknown_call(capture, callable);
        return MG_ERR;
    }
    return inside > 0 && hashed ? 1 : inside < 0 ? MG_ERR : 0;
}

int
mg_rules_note_text(MgCapture *capture, PyObject *value)
{
    return note_address(capture, (PyObject *)&PyUnicode_Type, value);
}

/* Adds to the numbers that a plan does not pass on. */
static int
note_id(MgCapture *capture, PyObject *id)
{
    return (capture->ids == NULL && (capture->ids = PySet_New(NULL)) == NULL) || PySet_Add(capture->ids, id) < 0
               ? MG_ERR
               : MG_OK;
}

static PyObject *
unknown_call(MgCapture *capture, PyObject *callable)
{
    if (!PyCallable_Check(callable)) {
        return PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", Py_TYPE(callable)->tp_name);
    }
    capture->clean = capture->pure;
    mg_control_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    return NULL;
}

/* Ends the capture at a call that is not to be captured. NULL; or None if the call is to be left out. */
static PyObject *
refuse_call(MgCapture *capture, MgReason reason, PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    int ignored = mg_control_ignores(callable, args, count);
    if (ignored != 0) {
        return ignored < 0 ? NULL : Py_NewRef(Py_None);
    }
    capture->clean = capture->pure;
    mg_control_abort(capture, reason, callable);
    return NULL;
}

/* graph_break(msg): the message goes with the reason. NULL. */
static PyObject *
break_for_user(MgCapture *capture, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    int given = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)) > 0 && PyUnicode_Check(args[0]) &&
                PyUnicode_GET_LENGTH(args[0]) > 0;
    capture->clean = capture->pure;
    mg_capture_abort(capture, MG_REASON_USER_BREAK, given ? "%U" : NULL, args == NULL ? NULL : args[0]);
    return NULL;
}

/* Runs a harmless C function on what captured code sees. */
static PyObject *
call_native(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    capture->pure = 0;
    int own = 0;
    for (Py_ssize_t i = 0; shows_address(callable) && i < count; i++) {
        own = note_address(capture, callable, args[i]);
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
    for (; ready < total; ready++) {
        exposed[ready] = mg_world_expose(capture, args[ready]);
        if (exposed[ready] == NULL) {
            break;
        }
        if (mg_world_guard_protocols(capture, exposed[ready]) < 0) {
            ready++;
            break;
        }
    }
    int shows = shows_address(callable);
    for (Py_ssize_t i = 0; i < ready && !shows; i++) { /* sorted(..., key=str) */
        shows = exposed[i] == (PyObject *)&PyUnicode_Type || shows_address(exposed[i]);
    }
    for (Py_ssize_t i = 0; shows && i < ready; i++) {
        capture->addresses = capture->addresses || mg_rules_has_address(exposed[i]);
        capture->named = capture->named || mg_protocol_has_name(exposed[i]);
    }
    int called = mg_route_position(callable, count);
    Py_ssize_t factory = mg_route_factory(callable);
    if (ready == total && factory >= 0 && factory < count && !mg_route_is_factory(capture, exposed[factory]) &&
        !PyErr_Occurred()) {
        unknown_call(capture, exposed[factory]);
    }
    for (Py_ssize_t i = 0; i < ready; i++) {
        if (i < count ? i == called : mg_route_is_called(callable, PyTuple_GET_ITEM(kwnames, i - count))) {
            exposed[i] = mg_route_wrap(exposed[i]);
            if (exposed[i] == NULL) {
                exposed[i] = Py_NewRef(Py_None); /* to be dropped below */
                break;
            }
        }
    }
    if (ready == total && !PyErr_Occurred()) {
        result = PyObject_Vectorcall(callable, exposed, (size_t)count, kwnames);
        result = keep_constant(capture, mg_world_touch(capture, result));
        for (Py_ssize_t i = 0; result != NULL && PyUnicode_Check(result) && !capture->named && i < total; i++) {
            capture->named = mg_protocol_has_name(exposed[i]);
        }
        if (result != NULL && own && note_id(capture, result) < 0) {
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

/* ---- functions that look into objects ---- */

int
mg_rules_truth(MgCapture *capture, PyObject *value)
{
    if (value == Py_True || value == Py_False || value == Py_None) {
        return value == Py_True;
    }
    if (mg_is_twin(value)) {
        return mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, NULL);
    }
    if (mg_is_number(value)) {
        return mg_number_truth(capture, value);
    }
    MgRecord *record = mg_world_record(capture, value);
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
    int truth = exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0 ? -1 : PyObject_IsTrue(exposed);
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
        mg_control_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    }
    return NULL;
}

/* isinstance or issubclass; also where a metaclass's method is called, with the class in front. */
static PyObject *
do_isinstance(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
              int class_first)
{
    if (count != 2 || kwnames != NULL) {
        return call_native(capture, callable, args, count, kwnames); /* raises */
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
        result = call_native(capture, callable, both, 2, NULL);
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
    MgRecord *record = count > 0 ? mg_world_record(capture, args[0]) : NULL;
    if (record != NULL && record->kind == MG_KIND_OPAQUE) {
        mg_capture_abort(capture, MG_REASON_OPAQUE, "an iterator from outside");
        return NULL;
    }
    return call_native(capture, callable, args, count, kwnames);
}

/* id(value): guarded for an outside object. That of an inside one is a number that means nothing to anybody else: only
 * good as a key, which libraries use it for. */
static PyObject *
do_id(MgCapture *capture, PyObject *callable, PyObject *value)
{
    MgRecord *record = mg_world_record(capture, value);
    PyObject *id = PyLong_FromVoidPtr(mg_world_identity(capture, value));
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
        capture->can_break) { /* another one at each call, which an entry would keep */
        Py_DECREF(id);
        return unknown_call(capture, callable);
    }
    if (record != NULL) {
        PyObject *view = mg_world_touch(capture, Py_NewRef(value));
        Py_XDECREF(view);
        if (view == NULL || mg_world_guard_object(capture, record) < 0) {
            Py_CLEAR(id);
        }
        return id;
    }
    MgFrame *frame = PyThreadState_Get()->cframe->current_frame;
    if (capture->can_break && (frame == NULL || mg_place_of(frame->f_code) == MG_PLACE_USER)) {
        Py_DECREF(id);
        return unknown_call(capture, callable); /* behind a break it would be another */
    }
    if (note_id(capture, id) < 0) {
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
    MgFrame *frame = PyThreadState_Get()->cframe->current_frame;
    if (frame == NULL || !mg_frame_super(frame, &self, &in_cell, &class_cell)) {
        return PyObject_CallNoArgs(callable);
    }
    PyObject *parts[2] = {mg_world_load_cell(capture, class_cell), NULL};
    if (parts[0] != NULL) {
        parts[1] = in_cell ? mg_world_load_cell(capture, self) : Py_NewRef(self);
    }
    PyObject *result = NULL;
    if (parts[1] != NULL) {
        result = PyObject_Vectorcall(callable, parts, 2, NULL);
    }
    else if (!PyErr_Occurred()) { /* an empty cell: an error whose text tells which */
        result = unknown_call(capture, callable);
    }
    Py_XDECREF(parts[0]);
    Py_XDECREF(parts[1]);
    return result;
}

/* ---- context managers of torch ---- */

/* Sets the attributes in which a manager keeps what its __exit__ needs, in case the capture ends before that. */
static int
note_state(MgCapture *capture, PyObject *manager, PyObject *notes, PyObject *args)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *attributes = PyObject_Call(notes, args, NULL);
    mg_aside_end(&aside);
    Py_ssize_t position = 0;
    PyObject *name, *value;
    int result = attributes == NULL ? MG_ERR : MG_OK;
    while (result == MG_OK && PyDict_Next(attributes, &position, &name, &value)) {
        result = mg_world_setattr(capture, manager, name, value);
    }
    Py_XDECREF(attributes);
    return result;
}

/* Leaves a context in any case; an exception that is set stays. */
static void
leave_manager(PyObject *exit, PyObject *context)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int reserve = 0;
    mg_reserve_use(&reserve);
    PyObject *left = PyObject_CallOneArg(exit, context);
    mg_reserve_close(reserve);
    Py_XDECREF(left);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

/* manager.__enter__(): autocast, inference_mode. Recorded as TorchDynamo does, and really done. */
static PyObject *
do_enter(MgCapture *capture, PyObject *callable, PyObject *manager)
{
    PyObject *parts = PyDict_GetItemWithError(rules.managers, callable);
    if (parts == NULL) {
        return PyErr_Occurred() ? NULL : unknown_call(capture, callable);
    }
    PyObject *enter = PyTuple_GET_ITEM(parts, 0), *names = PyTuple_GET_ITEM(parts, 2);
    PyObject *args = PyTuple_New(PyTuple_GET_SIZE(names)), *context = NULL, *item = NULL;
    for (Py_ssize_t i = 0; args != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *value = mg_world_getattr(capture, manager, PyTuple_GET_ITEM(names, i));
        if (value == NULL) {
            Py_CLEAR(args);
            break;
        }
        PyTuple_SET_ITEM(args, i, value);
    }
    if (args != NULL && note_state(capture, manager, PyTuple_GET_ITEM(parts, 3), args) < 0) {
        Py_CLEAR(args);
    }
    if (args != NULL) {
        MgAside aside;
        mg_aside_begin(&aside);
        context = PyObject_Call(enter, args, NULL);
        mg_aside_end(&aside);
        Py_CLEAR(capture->state);
    }
    PyObject *shown = context == NULL ? NULL
                      : mg_world_record(capture, manager) != NULL
                          ? Py_NewRef(args)
                          : PyObject_CallOneArg(PyTuple_GET_ITEM(parts, 4), args);
    int node = shown == NULL ? -1 : mg_record_enter(capture, enter, shown);
    if (context != NULL && capture->managers == NULL) {
        capture->managers = PyList_New(0);
    }
    if (node >= 0 && capture->managers != NULL) {
        item = Py_BuildValue("(OOiO)", manager, context, node, PyTuple_GET_ITEM(parts, 1));
    }
    int result = item == NULL ? MG_ERR : PyList_Append(capture->managers, item);
    if (result < 0 && context != NULL) { /* nobody knows that it was entered */
        leave_manager(PyTuple_GET_ITEM(parts, 1), context);
    }
    Py_XDECREF(item);
    Py_XDECREF(context);
    Py_XDECREF(args);
    return result < 0 ? NULL : Py_NewRef(manager);
}

/* manager.__exit__(...). */
static PyObject *
do_exit(MgCapture *capture, PyObject *manager)
{
    Py_ssize_t last = capture->managers == NULL ? -1 : PyList_GET_SIZE(capture->managers) - 1;
    PyObject *item = last < 0 ? NULL : PyList_GET_ITEM(capture->managers, last);
    if (item == NULL || PyTuple_GET_ITEM(item, 0) != manager) {
        mg_capture_abort(capture, MG_REASON_STATE, "a context manager is left that was not entered last");
        return NULL;
    }
    Py_INCREF(item);
    PyObject *exit = PyTuple_GET_ITEM(item, 3);
    PyObject *context = PyTuple_GET_ITEM(item, 1);
    PyObject *result = mg_aside_call(exit, &context, 1);
    Py_CLEAR(capture->state);
    int reserve = 0;
    if (result != NULL && PyList_SetSlice(capture->managers, last, last + 1, NULL) < 0 &&
        (!mg_reserve_open(&reserve) || PyList_SetSlice(capture->managers, last, last + 1, NULL) < 0)) {
        Py_CLEAR(result);
    }
    mg_reserve_close(reserve);
    if (result == NULL || mg_record_exit(capture, exit, (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 2))) < 0) {
        Py_CLEAR(result);
    }
    Py_DECREF(item);
    Py_XDECREF(result);
    return result == NULL ? NULL : Py_NewRef(Py_None);
}

/* ---- calls ---- */

static PyObject *call_folded(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count,
                             PyObject *kwnames);

/* 1 if there is a twin, or a number that depends on data, among the arguments. */
static int
any_twin(PyObject *const *args, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (mg_is_twin(args[i]) || mg_is_number(args[i])) {
            return 1;
        }
    }
    return 0;
}

static PyObject *call_class(MgCapture *capture, PyTypeObject *type, PyObject *const *args, Py_ssize_t count,
                            PyObject *kwnames);

static PyObject *
call_polyfill(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *function = PyDict_GetItemWithError(rules.polyfills, callable);
    if (function == NULL) {
        return PyErr_Occurred() ? NULL : unknown_call(capture, callable);
    }
    return mg_rules_call(capture, function, args, (size_t)count, kwnames);
}

/* A method of tensors is called, with the tensor in front: a node under its name. */
static PyObject *
record_method(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
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
    MgRecord *record = mg_world_record(capture, value);
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
    MgFrame *frame = PyThreadState_Get()->cframe->current_frame;
    if ((PyObject *)frame->f_code == rules.call_code) { /* it would leave out the hooks that are always called */
        Py_RETURN_FALSE;
    }
    int all = capture->untold == NULL ? 0 : PySet_Contains(capture->untold, Py_None);
    for (; capture->untold != NULL && frame != NULL; frame = frame->previous) {
        int found = all != 0 ? all : PySet_Contains(capture->untold, (PyObject *)frame->f_code);
        if (found != 0) {
            return found < 0 ? NULL : Py_NewRef(Py_False);
        }
        if (frame == capture->root) {
            break;
        }
    }
    capture->told = 1;
    Py_RETURN_TRUE;
}

/* 1 if torch asks this object for its __torch_function__, 0 or -1. A twin stands for a tensor that has none of its own. */
static int
overrides_torch(MgCapture *capture, PyObject *value)
{
    if (mg_is_twin(value) || mg_is_number(value) || mg_rules_is_number(value) || value == Py_None ||
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
    return function != rules.no_override;
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
            return PyErr_Occurred() ? NULL : unknown_call(capture, callable);
        }
    }
    Py_ssize_t total = values == NULL ? count : Py_SIZE(values);
    int found = 0;
    for (Py_ssize_t i = 0; found == 0 && i < total && (values == NULL || i < Py_SIZE(values)); i++) {
        found = overrides_torch(capture, values == NULL ? args[i] : PySequence_Fast_ITEMS(values)[i]);
    }
    Py_XDECREF(values);
    return found < 0 ? NULL : PyBool_FromLong(found && mg_aside_overrides() == 0); /* part of the state */
}

static PyObject *
call_special(MgCapture *capture, Rule rule, PyObject *callable, PyObject *const *args, Py_ssize_t count,
             PyObject *kwnames)
{
    switch (rule) {
        case RULE_BREAK:
            return refuse_call(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
        case RULE_VALUE:
            return refuse_call(capture, MG_REASON_TENSOR_VALUE, callable, args, count);
        case RULE_OUTPUT:
            return refuse_call(capture, MG_REASON_OUTPUT, callable, args, count);
        case RULE_USER_BREAK:
            return break_for_user(capture, args, count, kwnames);
        case RULE_FOLD:
            return call_folded(capture, callable, args, count, kwnames);
        default:
            break;
    }
    capture->pure = 0;
    switch (rule) {
        case RULE_RECORD:
            return mg_record_call(capture, MG_NODE_FUNCTION, callable, args, count, kwnames);
        case RULE_METHOD:
            return count > 0 && mg_is_twin(args[0]) ? record_method(capture, callable, args, count, kwnames)
                                                    : unknown_call(capture, callable);
        case RULE_NATIVE:
            return call_native(capture, callable, args, count, kwnames);
        case RULE_OPERATOR:
            if (!any_twin(args, count)) {
                return call_native(capture, callable, args, count, kwnames);
            }
            if (!mg_is_twin(args[0]) && !mg_is_number(args[0]) && !mg_rules_is_number(args[0])) {
                return unknown_call(capture, callable); /* an operation of what is no tensor, such as a dict */
            }
            return mg_record_call(capture, MG_NODE_FUNCTION, callable, args, count, kwnames);
        case RULE_ABS:
            return any_twin(args, count)
                       ? mg_record_call(capture, MG_NODE_FUNCTION, rules.operator_abs, args, count, kwnames)
                       : call_native(capture, callable, args, count, kwnames);
        case RULE_GETITEM:
            return count == 2 && mg_is_twin(args[0]) ? mg_record_getitem(capture, args[0], args[1])
                                                     : unknown_call(capture, callable);
        case RULE_SETITEM:
            if (count != 3 || !mg_is_twin(args[0])) {
                return unknown_call(capture, callable);
            }
            return mg_record_setitem(capture, args[0], args[1], args[2]) < 0 ? NULL : Py_NewRef(Py_None);
        case RULE_ITEM:
            if (count == 0 || !mg_is_twin(args[0])) {
                return unknown_call(capture, callable);
            }
            return count == 1 && kwnames == NULL ? mg_record_item(capture, args[0], NULL)
                                                 : unknown_call(capture, callable);
        case RULE_TOLIST:
            return count == 1 && kwnames == NULL && mg_is_twin(args[0]) ? mg_record_tolist(capture, args[0])
                                                                        : unknown_call(capture, callable);
        case RULE_ENTER:
            return count == 1 ? do_enter(capture, callable, args[0]) : unknown_call(capture, callable);
        case RULE_EXIT:
            return count > 0 ? do_exit(capture, args[0]) : unknown_call(capture, callable);
        case RULE_CONSTANT:
            /* with a tensor it is a question about metadata */
            return any_twin(args, count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)))
                       ? mg_record_call(capture, MG_NODE_FUNCTION, callable, args, count, kwnames)
                       : mg_answer_constant(capture, callable, args, count, kwnames);
        case RULE_QUERY:
            capture->registry_read |= mg_registry_is_token(callable);
            return mg_answer_query(capture, callable, args, count, kwnames);
        case RULE_REVERSED:
            if (count == 1 && kwnames == NULL && mg_is_twin(args[0])) {
                return mg_record_call(capture, MG_NODE_METHOD, MG_STRING("__reversed__"), args, 1, NULL);
            }
            return call_class(capture, (PyTypeObject *)callable, args, count, kwnames);
        case RULE_SUM:
            return count > 0 && adds_up_numbers(capture, args[0])
                       ? call_native(capture, callable, args, count, kwnames)
                       : call_polyfill(capture, callable, args, count, kwnames);
        case RULE_DISPATCH:
            return mg_answer_dispatch(capture, callable, args, count, kwnames);
        case RULE_POLYFILL:
            return call_polyfill(capture, callable, args, count, kwnames);
        case RULE_STATE: {
            if (kwnames != NULL) {
                return unknown_call(capture, callable);
            }
            PyObject *result = mg_record_state(capture, callable, args, count);
            Py_CLEAR(capture->state);
            return result;
        }
        case RULE_SETTING: {
            PyObject *parts = PyDict_GetItemWithError(rules.setters, callable);
            return parts == NULL ? unknown_call(capture, callable)
                                 : mg_answer_set(capture, callable, parts, args, count, kwnames);
        }
        case RULE_ISINSTANCE:
        case RULE_ISSUBCLASS:
            return do_isinstance(capture, callable, args, count, kwnames, 0);
        case RULE_TYPE:
            if (count == 1 && kwnames == NULL) {
                return Py_NewRef(mg_classes_of(args[0]));
            }
            return unknown_call(capture, callable);
        case RULE_GETATTR:
        case RULE_HASATTR:
        case RULE_OBJECT_GETATTR:
            if (kwnames != NULL || count < 2 || count > (rule == RULE_GETATTR ? 3 : 2) || !PyUnicode_Check(args[1])) {
                return call_wrongly(capture, callable, args, count, kwnames);
            }
            return rule == RULE_GETATTR   ? do_getattr(capture, args, count)
                   : rule == RULE_HASATTR ? do_hasattr(capture, args)
                   : mg_is_twin(args[0])  ? mg_record_getattr(capture, args[0], args[1])
                                          : mg_world_generic_getattr(capture, args[0], args[1]);
        case RULE_SETATTR:
        case RULE_DELATTR:
        case RULE_OBJECT_SETATTR:
        case RULE_OBJECT_DELATTR: {
            int deleting = rule == RULE_DELATTR || rule == RULE_OBJECT_DELATTR;
            if (kwnames != NULL || count != (deleting ? 2 : 3) || !PyUnicode_Check(args[1])) {
                return call_wrongly(capture, callable, args, count, kwnames);
            }
            return do_setattr(capture, args, rule == RULE_OBJECT_SETATTR || rule == RULE_OBJECT_DELATTR, deleting);
        }
        case RULE_LEN: {
            if (count != 1 || kwnames != NULL) {
                return call_wrongly(capture, callable, args, count, kwnames);
            }
            if (mg_is_twin(args[0])) {
                return mg_record_len(capture, args[0]);
            }
            Py_ssize_t length = mg_world_length(capture, args[0]);
            return length < 0 ? NULL : PyLong_FromSsize_t(length);
        }
        case RULE_ITER:
            return count == 1 && kwnames == NULL ? mg_world_iter(capture, args[0])
                                                 : call_native(capture, callable, args, count, kwnames);
        case RULE_NEXT:
            return do_next(capture, callable, args, count, kwnames);
        case RULE_VARS: {
            if (count != 1 || kwnames != NULL) {
                return unknown_call(capture, callable);
            }
            return mg_world_getattr(capture, args[0], MG_STRING("__dict__"));
        }
        case RULE_CALLABLE:
            return count == 1 && kwnames == NULL ? do_callable(capture, args[0])
                                                 : call_wrongly(capture, callable, args, count, kwnames);
        case RULE_BOOL: {
            if (count == 0 && kwnames == NULL) {
                Py_RETURN_FALSE;
            }
            if (count != 1 || kwnames != NULL) {
                return call_wrongly(capture, callable, args, count, kwnames);
            }
            int truth = mg_rules_truth(capture, args[0]);
            return truth < 0 ? NULL : PyBool_FromLong(truth);
        }
        case RULE_SUPER:
            return count == 0 && kwnames == NULL ? do_super(capture, callable)
                                                 : PyObject_Vectorcall(callable, args, (size_t)count, kwnames);
        case RULE_INSTANCECHECK:
            return do_isinstance(capture, callable, args, count, kwnames, 1);
        case RULE_IS_COMPILING:
            return tell_compiling(capture);
        case RULE_OVERRIDES:
            return kwnames == NULL ? has_overrides(capture, callable, args, count) : unknown_call(capture, callable);
        case RULE_EXC_INFO: /* of an exception that captured code handles */
            return mg_capture_handles(capture) < 0 ? NULL : call_native(capture, callable, args, count, kwnames);
        case RULE_NOTHING:
            Py_RETURN_NONE;
        case RULE_ID:
            return count == 1 && kwnames == NULL ? do_id(capture, callable, args[0]) : unknown_call(capture, callable);
        case RULE_SUBCLASSES:
            return count == 1 && kwnames == NULL && PyType_Check(args[0])
                       ? mg_answer_subclasses(capture, callable, args[0])
                       : unknown_call(capture, callable);
        default:
            return unknown_call(capture, callable);
    }
}

/* Calls a function of constants, as it would be called without a capture; a break if they are none. */
static PyObject *
call_folded(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    for (Py_ssize_t i = 0; i < total; i++) {
        PyTypeObject *type = Py_TYPE(args[i]);
        if (type != &PyUnicode_Type && type != &PyBytes_Type && type != &PyLong_Type && type != &PyFloat_Type &&
            type != &PyBool_Type && args[i] != Py_None && !mg_rules_is_constant_type(type)) {
            return refuse_call(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
        }
    }
    capture->pure = 0;
    mg_aside_suspend(capture);
    PyObject *result = PyObject_Vectorcall(callable, args, (size_t)count, kwnames);
    mg_aside_resume(capture);
    return keep_constant(capture, result);
}

/* A class is called: its instance is made by CPython, and its __init__ is captured. */
static PyObject *
call_class(MgCapture *capture, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    capture->pure = 0;
    if (type == mg_torch.tensor) {
        return mg_record_call(capture, MG_NODE_FUNCTION, (PyObject *)type, args, count, kwnames);
    }
    if (PyType_IsSubtype(type, mg_torch.base)) {
        return unknown_call(capture, (PyObject *)type);
    }
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        if (mg_rules_is_harmless_type(type) || PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException)) {
            return call_native(capture, (PyObject *)type, args, count, kwnames);
        }
        return unknown_call(capture, (PyObject *)type);
    }
    /* a Python class: every C-level base must be one that keeps to itself */
    for (PyTypeObject *base = type->tp_base; base != NULL; base = base->tp_base) {
        if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) && base != &PyBaseObject_Type && base != &PyType_Type &&
            !mg_rules_is_harmless_type(base) && !PyType_IsSubtype(base, (PyTypeObject *)PyExc_BaseException)) {
            return unknown_call(capture, (PyObject *)type);
        }
    }
    if (mg_protocol_guard(capture, type) < 0 || mg_protocol_guard(capture, Py_TYPE(type)) < 0 ||
        mg_world_guard_lookup(capture, type, MG_STRING("__init__")) < 0) {
        return NULL; /* C code may meet the instance again, in a container */
    }
    PyObject *finalizer = _PyType_Lookup(type, MG_STRING("__del__"));
    int has_finalizer = finalizer != NULL;
    if (has_finalizer && !PyFunction_Check(finalizer)) { /* CPython calls it, and prints what it raises */
        return unknown_call(capture, (PyObject *)type);
    }
    capture->finalizers += has_finalizer;
    PyObject *result = NULL;
    if (type->tp_new == PyBaseObject_Type.tp_new) { /* arguments go to __init__, which is Python */
        result = mg_world_touch(capture, PyObject_Vectorcall((PyObject *)type, args, (size_t)count, kwnames));
    }
    else {
        result = call_native(capture, (PyObject *)type, args, count, kwnames);
    }
    if (result != NULL && has_finalizer && mg_world_record(capture, result) == NULL && /* __new__ may give an old one */
        mg_capture_add_mortal(capture, result) < 0) {
        Py_CLEAR(result);
    }
    return result;
}

/* The rule for a builtin function that no table names. */
static Rule
builtin_rule(PyObject *callable)
{
    PyObject *self = ((PyCFunctionObject *)callable)->m_self; /* also of a static method, as torch's functions are */
    PyObject *module = ((PyCFunctionObject *)callable)->m_module;
    if ((self != NULL && mg_kinds_has(MG_SET_OWNERS, self)) || in_set(rules.owner_names, module)) {
        return RULE_RECORD;
    }
    if (in_set(rules.native_modules, module)) {
        return RULE_NATIVE;
    }
    return RULE_NONE;
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
        return mg_is_twin(self) ? record_method(capture, callable, args, count, kwnames)
                                : unknown_call(capture, callable);
    }
    if (mg_rules_is_harmless_type(owner) || PyType_IsSubtype(owner, (PyTypeObject *)PyExc_BaseException)) {
        MgRecord *record = mg_world_record(capture, self);
        if (record != NULL && record->object == self && (Py_TYPE(self)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
            record->kind != MG_KIND_TUPLE && !mg_kinds_has(MG_SET_KEPT, Py_TYPE(self))) {
            mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(self)->tp_name);
            return NULL;
        }
        int bypasses = record != NULL && is_init(callable) ? 1 : bypasses_order(callable, owner, self);
        return bypasses < 0   ? NULL
               : bypasses > 0 ? unknown_call(capture, callable)
                              : call_native(capture, callable, args, count, kwnames);
    }
    return unknown_call(capture, callable);
}

static PyObject *
call_partial(MgCapture *capture, PyObject *partial, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *result = NULL, *all = NULL, *keywords = NULL;
    MgRecord *record = mg_world_record(capture, partial);
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
        if (mg_world_pin(capture, function) == NULL || mg_world_pin(capture, bound) == NULL ||
            mg_world_pin(capture, named) == NULL) {
            goto done;
        }
        mg_world_record(capture, bound)->kind = MG_KIND_TUPLE;
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
        if (!mg_rules_is_number(args[i])) {
            return unknown_call(capture, callable);
        }
    }
    PyObject *result = kwnames != NULL ? NULL : PyObject_Vectorcall(callable, args, (size_t)count, NULL);
    if (result != NULL && mg_rules_is_number(result)) {
        double value = PyFloat_AsDouble(result);
        if (!PyErr_Occurred() && value - value == 0) {
            return result;
        }
    }
    mg_error_clear();
    Py_XDECREF(result);
    return unknown_call(capture, callable);
}

/* An outside weak reference is called. It is guarded by what it refers to; if it has a callback, both by identity. */
static PyObject *
call_weakref(MgCapture *capture, PyObject *reference)
{
    PyObject *object = PyWeakref_GET_OBJECT(reference);
    MgRecord *record = mg_world_record(capture, object);
    if (mg_world_record(capture, reference) == NULL || record == NULL || record->object != object) {
        return unknown_call(capture, reference);
    }
    int lives = mg_answer_lives(capture, record);
    if (lives <= 0) {
        return lives < 0 ? NULL : unknown_call(capture, reference);
    }
    PyObject *view = mg_world_touch(capture, Py_NewRef(object));
    if (view != NULL && mg_weakref_is_plain(reference)) { /* neither of them need be kept, nor referred to */
        MgSource *source = mg_world_record(capture, reference)->source;
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
    Rule rule = rule_of(function);
    if (rule != RULE_NONE) {
        return rule == RULE_INLINE || rule == RULE_POLYFILL ? MG_MARK_NONE : MG_MARK_DISABLED;
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
    PyObject *view = mg_world_record(capture, method) != NULL ? mg_world_adopt(capture, self) : Py_NewRef(self);
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

/* A constant function is called: its result is what it gives now. */
static PyObject *
call_constant(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (any_twin(args, count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)))) {
        return refuse_call(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
    }
    PyObject *result = mg_answer_constant(capture, callable, args, count, kwnames);
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
            return refuse_call(capture, MG_REASON_DISABLED, callable, args, count);
        case MG_MARK_TRANSFORM:
            return refuse_call(capture, MG_REASON_TRANSFORM, callable, args, count);
        case MG_MARK_FORBIDDEN:
            mg_control_abort(capture, MG_REASON_FORBIDDEN, callable);
            return NULL;
        case MG_MARK_CONSTANT:
            return call_constant(capture, callable, args, count, kwnames);
        case MG_MARK_RECORDED:
            return call_special(capture, RULE_RECORD, callable, args, count, kwnames);
        case MG_MARK_SCRIPTED: {
            int fits = mg_script_fits(callable, args, count, kwnames);
            if (fits <= 0) {
                return fits < 0 ? NULL : refuse_call(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
            }
        }
            /* fall through */
        case MG_MARK_REPLACED: {
            MgRecord *record = mg_world_record(capture, callable);
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
    return mark < 0 ? NULL : refuse_call(capture, MG_REASON_SKIPPED_CALL, callable, args, count);
}

PyObject *
mg_rules_call(MgCapture *capture, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyTypeObject *type = Py_TYPE(callable);
    if (capture->symbols != NULL) {
        PyObject *result;
        if (mg_number_call(capture, callable, args, count, kwnames, &result)) {
            return result;
        }
    }
    if (count == 1 && kwnames == NULL && mg_is_twin(args[0]) && capture->allow_scalars &&
        (callable == (PyObject *)&PyLong_Type || callable == (PyObject *)&PyFloat_Type ||
         callable == (PyObject *)&PyBool_Type)) {
        return mg_record_item(capture, args[0], callable);
    }
    Rule rule = rule_of(callable);
    if (MG_UNLIKELY(mg_control_overriding) && rule != RULE_USER_BREAK) {
        PyObject *other;
        MgMark mark = mg_control_override(callable, &other);
        if (mark != MG_MARK_NONE) {
            return call_marked(capture, mark, other, callable, args, nargsf, kwnames);
        }
    }
    if (rule > RULE_INLINE) {
        PyObject *other;
        MgMark mark = type == &PyFunction_Type ? mg_control_said(callable, &other) : MG_MARK_NONE;
        return mark != MG_MARK_NONE ? call_marked(capture, mark, other, callable, args, nargsf, kwnames)
                                    : call_special(capture, rule, callable, args, count, kwnames);
    }
    if (type == &PyFunction_Type && rule == RULE_NONE) {
        rule = rule_of(PyFunction_GET_CODE(callable));
        if (rule > RULE_INLINE) {
            return call_special(capture, rule, callable, args, count, kwnames);
        }
    }
    if (rule == RULE_NONE) {
        PyObject *other;
        int mark = mg_control_mark(callable, &other);
        if (mark > MG_MARK_NONE && rule_of(callable) != RULE_NONE) { /* the judge has named the function itself */
            return mg_rules_call(capture, callable, args, nargsf, kwnames);
        }
        if (mark != MG_MARK_NONE) {
            return call_marked(capture, mark, other, callable, args, nargsf, kwnames);
        }
    }
    if (type == &PyFunction_Type) { /* inlined: its frame is captured */
        capture->direct_pending = capture->pure;
        capture->direct = 1;
        PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
        capture->direct = 0;
        return mg_world_touch(capture, result);
    }
    if (type == &PyMethod_Type) {
        PyObject *function = PyMethod_GET_FUNCTION(callable), *self = PyMethod_GET_SELF(callable);
        Py_INCREF(function);
        Py_INCREF(self);
        PyObject *result = call_with_self(capture, function, self, args, count, kwnames);
        Py_DECREF(function);
        Py_DECREF(self);
        return result;
    }
    if (PyCFunction_Check(callable)) {
        PyObject *self = PyCFunction_GET_SELF(callable);
        rule = builtin_rule(callable);
        if (rule != RULE_NONE) {
            return call_special(capture, rule, callable, args, count, kwnames);
        }
        PyObject *bound = bind_again(capture, callable, self);
        if (bound != callable) {
            PyObject *result = bound == NULL ? NULL : mg_rules_call(capture, bound, args, nargsf, kwnames);
            Py_XDECREF(bound);
            return result;
        }
        Py_DECREF(bound);
        PyObject *unbound = mg_table_get(&rules.methods, ((PyCFunctionObject *)callable)->m_ml, NULL);
        if (unbound != NULL && self != NULL) { /* a method that the tables name, bound to an object */
            return call_with_self(capture, unbound, self, args, count, kwnames);
        }
        if (self != NULL && !PyModule_Check(self) && !PyType_Check(self)) { /* list.append bound to a list */
            if (mg_is_twin(self)) {
                PyObject *method = mg_torch_method_of(callable);
                return method == NULL ? unknown_call(capture, callable)
                                      : call_with_self(capture, method, self, args, count, kwnames);
            }
            PyTypeObject *owner = Py_TYPE(self); /* the C type that the method is of */
            while (owner->tp_flags & Py_TPFLAGS_HEAPTYPE && owner->tp_base != NULL &&
                   !mg_kinds_has(MG_SET_KEPT, owner)) {
                owner = owner->tp_base;
            }
            return call_c_method(capture, callable, owner, self, args, count, kwnames);
        }
        if (self != NULL && PyType_Check(self) && mg_rules_is_harmless_type((PyTypeObject *)self)) {
            return call_native(capture, callable, args, count, kwnames); /* dict.fromkeys */
        }
        return unknown_call(capture, callable);
    }
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
        if (count == 0) {
            return PyObject_Vectorcall(callable, args, nargsf, kwnames); /* raises */
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
    if (type == &_PyMethodWrapper_Type) {                 /* object.__init__ bound to an instance, and the like */
        if (mg_world_record(capture, callable) != NULL) { /* what one from outside is bound to is not guarded */
            return unknown_call(capture, callable);
        }
        PyObject *self = mg_aside_getattr(callable, MG_STRING("__self__"));
        PyObject *name = self == NULL ? NULL : mg_aside_getattr(callable, MG_STRING("__name__"));
        PyObject *class = self == NULL ? NULL : mg_aside_getattr(callable, MG_STRING("__objclass__"));
        PyObject *descriptor = class == NULL || name == NULL ? NULL : PyObject_GetAttr(class, name);
        PyObject *result = descriptor == NULL ? NULL : call_with_self(capture, descriptor, self, args, count, kwnames);
        Py_XDECREF(self);
        Py_XDECREF(name);
        Py_XDECREF(class);
        Py_XDECREF(descriptor);
        return result;
    }
    if (type == &PyStaticMethod_Type) { /* the function that it wraps, which never changes */
        PyObject *function = type->tp_descr_get(callable, NULL, (PyObject *)type);
        PyObject *result = function == NULL ? NULL : mg_rules_call(capture, function, args, nargsf, kwnames);
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
        return call_class(capture, (PyTypeObject *)callable, args, count, kwnames);
    }
    if (mg_kinds_has(MG_SET_ARITHMETIC, type)) {
        return call_arithmetic(capture, callable, args, count, kwnames);
    }
    PyObject *gotten;
    if (kwnames == NULL && mg_route_getter(capture, callable, args, count, &gotten)) {
        return gotten;
    }
    if (type == mg_kinds.lru_cache) {
        return mg_answer_cached(capture, callable, args, count, kwnames);
    }
    if (type == mg_kinds.partial) {
        return call_partial(capture, callable, args, count, kwnames);
    }
    if (type == &MgCompiled_Type) { /* a compiled function inside another is just its function */
        PyObject *function = ((MgCompiled *)callable)->function;
        if (PyMethod_Check(function)) { /* the callable is guarded by identity, and holds its object for good */
            PyObject *object = PyMethod_GET_SELF(function);
            MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, object, 0);
            PyObject *view = source == NULL ? NULL : mg_world_reach(capture, object, source);
            if (view == NULL) {
                return NULL;
            }
            Py_DECREF(view);
            function = ((MgCompiled *)callable)->is_object ? object : function; /* by its class's __call__ */
        }
        return mg_rules_call(capture, function, args, nargsf, kwnames);
    }
    if (type == &MgModuleCall_Type) { /* a compiled module inside another is just its module */
        return mg_rules_call(capture, ((MgModuleCall *)callable)->inlined, args, nargsf, kwnames);
    }
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        PyObject *name = MG_STRING("__call__");
        PyObject *function = _PyType_Lookup(type, name);
        if (function != NULL) {
            if (mg_world_guard_lookup(capture, type, name) < 0) {
                return NULL;
            }
            if (Py_TYPE(function)->tp_descr_get == NULL || Py_IS_TYPE(function, &PyStaticMethod_Type)) {
                return mg_rules_call(capture, function, args, nargsf, kwnames);
            }
            return call_with_self(capture, function, callable, args, count, kwnames);
        }
    }
    return unknown_call(capture, callable);
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
