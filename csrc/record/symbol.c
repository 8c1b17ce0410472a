/* Symbols: numbers whose value depends on data, and tensors whose sizes do.
 *
 * A capture that meets the first of them gets a session (magneto/_symbols.py): torch's ShapeEnv, and a FakeTensorMode that
 * uses it. Operations with symbols run there, and not by way of the propagation cache. Captured code sees such a number as
 * an object of a type of our own, with the name of the type that it stands for: its operators are recorded, whoever calls
 * them; what asks for its value is answered if the ShapeEnv knows it, and ends the capture if not. So C code that takes
 * it for a number can't get a wrong one. */
#include "record/symbol.h"

#include "capture/recover.h"
#include "cpython/aside.h"
#include "cpython/depth.h"
#include "ir/alias.h"
#include "record/arithmetic.h"
#include "record/number.h"
#include "record/record.h"

static PyObject *session_factory; /* strong: (scalars, shapes) -> a session */

/* Functions that mean something else, or something at all, for a number; strong, found on first use. */
static struct {
    PyTypeObject *symbols[MG_NUMBER_KINDS];                  /* torch.SymInt, SymFloat, SymBool */
    PyObject *sym_int, *sym_float, *sym_max, *sym_min, *sum; /* torch.sym_... */
    PyObject *max, *min, *builtin_sum, *round;               /* builtins */
    PyObject *tensor, *refs_tensor;                          /* torch.tensor, and what stands for it */
    PyObject *check;                                         /* torch._check */
    PyObject *recorded;                                      /* a set: recorded as they are */
    PyObject *replaced;                                      /* a dict: recorded as another function */
} known;

void
mg_symbol_configure(PyObject *factory)
{
    Py_XSETREF(session_factory, Py_NewRef(factory));
}

static PyObject *
find(const char *module, const char *name)
{
    return mg_aside_find(module, name);
}

/* Functions of the module math, and what they are for a number. */
static int
find_replaced(void)
{
    static const char *const names[] = {"sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan"};
    known.replaced = PyDict_New();
    for (size_t i = 0; known.replaced != NULL && i < Py_ARRAY_LENGTH(names); i++) {
        char name[24];
        PyOS_snprintf(name, sizeof(name), "_sym_%s", names[i]);
        PyObject *function = find("math", names[i]), *other = function == NULL ? NULL : find("torch", name);
        int status = other == NULL ? -1 : PyDict_SetItem(known.replaced, function, other);
        Py_XDECREF(function);
        Py_XDECREF(other);
        if (status < 0) {
            return MG_ERR;
        }
    }
    return known.replaced == NULL ? MG_ERR : MG_OK;
}

static int
find_known(void)
{
    static const char *const recorded[][2] = {
        {"math", "floor"},           {"math", "ceil"},
        {"math", "trunc"},           {"torch", "sym_int"},
        {"torch", "sym_float"},      {"torch", "sym_max"},
        {"torch", "sym_min"},        {"torch", "sym_not"},
        {"torch", "sym_ite"},        {"torch", "sym_sum"},
        {"torch", "sym_sqrt"},       {"torch", "_sym_sqrt"},
        {"torch", "sym_fresh_size"}, {"torch", "_check_is_size"},
    };
    if (known.recorded != NULL) {
        return MG_OK;
    }
    const struct {
        const char *module, *name;
        PyObject **slot;
    } wanted[] = {
        {"torch", "SymInt", (PyObject **)&known.symbols[MG_NUMBER_INT]},
        {"torch", "SymFloat", (PyObject **)&known.symbols[MG_NUMBER_FLOAT]},
        {"torch", "SymBool", (PyObject **)&known.symbols[MG_NUMBER_BOOL]},
        {"torch", "sym_int", &known.sym_int},
        {"torch", "sym_float", &known.sym_float},
        {"torch", "sym_max", &known.sym_max},
        {"torch", "sym_min", &known.sym_min},
        {"torch", "sym_sum", &known.sum},
        {"builtins", "max", &known.max},
        {"builtins", "min", &known.min},
        {"builtins", "sum", &known.builtin_sum},
        {"builtins", "round", &known.round},
        {"torch", "tensor", &known.tensor},
        {"torch._refs", "tensor", &known.refs_tensor},
        {"torch", "_check", &known.check},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        if (*wanted[i].slot == NULL && (*wanted[i].slot = find(wanted[i].module, wanted[i].name)) == NULL) {
            return MG_ERR;
        }
    }
    PyObject *set = find_replaced() < 0 ? NULL : PySet_New(NULL);
    for (size_t i = 0; set != NULL && i < Py_ARRAY_LENGTH(recorded); i++) {
        PyObject *function = find(recorded[i][0], recorded[i][1]);
        if (function == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            mg_error_clear();
            continue;
        }
        if (function == NULL || PySet_Add(set, function) < 0) {
            Py_CLEAR(set);
        }
        Py_XDECREF(function);
    }
    known.recorded = set;
    return set == NULL ? MG_ERR : MG_OK;
}

int
mg_symbol_check(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return known.recorded != NULL && (type == known.symbols[MG_NUMBER_INT] || type == known.symbols[MG_NUMBER_FLOAT] ||
                                      type == known.symbols[MG_NUMBER_BOOL]);
}

/* ---- the session ---- */

/* The session of a capture, made on first use. Borrowed. */
static PyObject *
session_of(MgCapture *capture)
{
    if (capture->symbols.session == NULL) {
        MgAside aside;
        mg_aside_begin(&aside);
        if (find_known() == MG_OK) {
            capture->symbols.session = PyObject_CallFunction(session_factory, "ii", capture->symbols.allow_scalars != 0,
                                                             capture->symbols.allow_shapes != 0);
        }
        mg_aside_end(&aside);
        if (capture->symbols.session == NULL) {
            mg_recover_interrupt(capture);
        }
    }
    return capture->symbols.session;
}

/* The twins as the session gets them: (node, Meta, FakeTensor or None, shared, the tensor itself if its data is still what
 * it was at the start). New. */
static PyObject *
describe_twins(MgCapture *capture, PyObject *twins)
{
    PyObject *list = PyList_New(PyList_GET_SIZE(twins));
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(twins); i++) {
        MgTwin *twin = mg_twin_of(PyList_GET_ITEM(twins, i));
        PyObject *fake = mg_twin_fake(twin);
        PyObject *item =
            Py_BuildValue("(iOOiO)", twin->node, twin->meta, fake == NULL ? Py_None : fake, mg_twin_is_shared(twin),
                          twin->real == NULL || twin->source == NULL || capture->graph.wrote ? Py_None : twin->real);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *
describe_numbers(PyObject *numbers)
{
    PyObject *list = PyList_New(PyList_GET_SIZE(numbers));
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(numbers); i++) {
        PyObject *number = PyList_GET_ITEM(numbers, i);
        PyObject *item = PyTuple_Check(number)
                             ? Py_NewRef(number)
                             : Py_BuildValue("(iO)", ((MgNumber *)number)->node, ((MgNumber *)number)->value);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* 1 if memory was written to that tensors may share which the session does not know of. */
static int
note_written(MgCapture *capture, PyObject *twins, PyObject *positions)
{
    int shared = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positions); i++) {
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(positions, i));
        if (position < 0 || position >= PyList_GET_SIZE(twins)) {
            PyErr_SetString(PyExc_SystemError, "an operation wrote to a tensor that it did not get");
            return MG_ERR;
        }
        shared = shared || mg_twin_is_shared(mg_twin_of(PyList_GET_ITEM(twins, position)));
    }
    if (shared && !capture->graph.wrote) {
        capture->graph.wrote = 1;
        capture->graph.first_write = capture->graph.node_count;
    }
    return shared;
}

int
mg_symbol_node(PyObject *item)
{
    return PyTuple_Check(item) ? (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 0)) : ((MgNumber *)item)->node;
}

MgOutcome *
mg_symbol_run(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins,
              PyObject *numbers, int varies)
{
    PyObject *session = session_of(capture);
    PyObject *inputs = session == NULL ? NULL : describe_twins(capture, twins);
    PyObject *values = inputs == NULL ? NULL : describe_numbers(numbers);
    MgOutcome *outcome = NULL;
    if (values != NULL) {
        MgAside aside;
        mg_aside_begin_operation(&aside);
        PyObject *answer =
            PyObject_CallMethod(session, "run", "iOOOOOO", (int)kind, target, args, kwargs == NULL ? Py_None : kwargs,
                                inputs, values, varies ? Py_True : Py_False);
        mg_aside_end(&aside);
        if (answer == Py_None) {
            Py_DECREF(answer);
            Py_DECREF(inputs);
            Py_DECREF(values);
            return NULL;
        }
        outcome = mg_outcome_check(answer);
        if (outcome == NULL) {
            mg_recover_interrupt(capture);
        }
    }
    Py_XDECREF(inputs);
    Py_XDECREF(values);
    if (outcome != NULL && outcome->kind != MG_OUTCOME_KNOWN) {
        mg_record_refuse(capture, outcome);
        Py_CLEAR(outcome);
    }
    if (outcome == NULL) {
        return NULL;
    }
    if (note_written(capture, twins, outcome->written) < 0) {
        Py_DECREF(outcome);
        return NULL;
    }
    assert(outcome->input_fakes != NULL && PyList_GET_SIZE(outcome->input_fakes) == PyList_GET_SIZE(twins));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(twins); i++) { /* each stays with its twin */
        MgTwin *twin = mg_twin_of(PyList_GET_ITEM(twins, i));
        Py_XSETREF(twin->fake, Py_NewRef(PyList_GET_ITEM(outcome->input_fakes, i)));
    }
    return outcome;
}

MgMeta *
mg_symbol_wrap(MgCapture *capture, PyObject *tensor)
{
    PyObject *session = session_of(capture);
    if (session == NULL) {
        return NULL;
    }
    MgAside aside;
    mg_aside_begin(&aside);
    MgOutcome *outcome = mg_outcome_check(PyObject_CallMethod(session, "wrap", "O", tensor));
    mg_aside_end(&aside);
    MgMeta *meta = NULL;
    if (outcome == NULL) {
        mg_recover_interrupt(capture);
    }
    else if (outcome->kind != MG_OUTCOME_KNOWN) {
        mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "%U", outcome->why);
    }
    else {
        assert(Py_IS_TYPE(outcome->result, &MgMeta_Type));
        meta = (MgMeta *)Py_NewRef(outcome->result);
    }
    Py_XDECREF(outcome);
    return meta;
}

int
mg_symbol_written(MgCapture *capture, PyObject *twins, PyObject *positions)
{
    int shared = note_written(capture, twins, positions);
    if (shared <= 0 ||
        capture->symbols.session == NULL) { /* memory of its own, and no FakeTensor: its data was never asked for */
        return shared < 0 ? MG_ERR : MG_OK;
    }
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *result = PyObject_CallMethod(capture->symbols.session, "forget", "()O", Py_True);
    mg_aside_end(&aside);
    Py_XDECREF(result);
    return result == NULL ? mg_recover_interrupt(capture) : MG_OK;
}

/* ---- the value of a number ---- */

/* The value, new, if it is known without data. NULL with the capture aborted if it is not. */
static PyObject *
evaluate(MgCapture *capture, PyObject *object)
{
    MgNumber *number = (MgNumber *)object;
    if (capture == NULL || capture->number != number->capture) {
        PyErr_SetString(PyExc_RuntimeError, "a number of a finished capture was used");
        return NULL;
    }
    if (mg_capture_check(capture) < 0) {
        return NULL;
    }
    if (mg_number_is_backed(object)) {
        return mg_number_take(capture, object);
    }
    MgAside aside;
    mg_aside_begin(&aside);
    MgOutcome *found = mg_outcome_check(PyObject_CallMethod(capture->symbols.session, "evaluate", "O", number->value));
    mg_aside_end(&aside);
    if (found != NULL && found->kind == MG_OUTCOME_KNOWN) {
        PyObject *value = Py_NewRef(found->result);
        Py_DECREF(found);
        return value;
    }
    if (found != NULL) {
        mg_record_refuse(capture, found);
        Py_DECREF(found);
    }
    else if (!PyErr_ExceptionMatches(PyExc_Exception)) { /* a division by zero is the program's */
        mg_recover_interrupt(capture);
    }
    return NULL;
}

int
mg_number_truth(MgCapture *capture, PyObject *number)
{
    PyObject *value = NULL;
    if (mg_number_kind(number) == MG_NUMBER_BOOL) {
        value = evaluate(capture, number);
    }
    else {
        PyObject *zero = PyLong_FromLong(0);
        PyObject *differs = zero == NULL ? NULL : mg_arithmetic_compare(capture, Py_NE, number, zero);
        Py_XDECREF(zero);
        value = differs == NULL ? NULL : mg_is_number(differs) ? evaluate(capture, differs) : Py_NewRef(differs);
        Py_XDECREF(differs);
    }
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

PyTypeObject *
mg_number_class(PyObject *number)
{
    MgNumberKind kind = mg_number_kind(number);
    return kind == MG_NUMBER_INT ? &PyLong_Type : kind == MG_NUMBER_FLOAT ? &PyFloat_Type : &PyBool_Type;
}

PyObject *
mg_number_getattr(MgCapture *capture, PyObject *number, PyObject *name)
{
    PyTypeObject *type = mg_number_class(number);
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
        return Py_NewRef((PyObject *)type);
    }
    if (mg_number_is_backed(number)) {
        PyObject *value = mg_number_take(capture, number);
        PyObject *result = value == NULL ? NULL : PyObject_GetAttr(value, name);
        Py_XDECREF(value);
        return result;
    }
    if (_PyType_Lookup(type, name) != NULL) {
        mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "the attribute %U of a number that depends on data", name);
        return NULL;
    }
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", type->tp_name, name);
    return NULL;
}

/* ---- operators ---- */

/* 1 if a number and this value can meet in an operator, 0 if an int could not, -1 if it is not known. */
static int
is_operand(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (mg_is_number(value) || mg_is_twin(value) || type == &PyLong_Type || type == &PyFloat_Type ||
        type == &PyBool_Type) {
        return 1;
    }
    if (PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value) || mg_torch_is_tensor(value)) {
        return -1;
    }
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE || type == &PyUnicode_Type || type == &PyBytes_Type || value == Py_None ||
        PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value) || PyAnySet_Check(value) ||
        value == Py_Ellipsis || value == Py_NotImplemented || PyType_Check(value) || PyFunction_Check(value) ||
        PyCFunction_Check(value) || PyMethod_Check(value) || PySlice_Check(value) || type == &PyRange_Type ||
        type == mg_torch.dtype || type == mg_torch.device) {
        return 0; /* int's own operators don't know it either */
    }
    return -1;
}

/* What a slot starts with: 1 to go on, 0 with *result for NotImplemented, or NULL if the capture ends. */
static int
may_operate(PyObject *left, PyObject *right, PyObject **result)
{
    int first = is_operand(left), second = is_operand(right);
    *result = NULL;
    MgCapture *capture = mg_capture_current;
    if (capture == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a number of a finished capture was used");
        return 0;
    }
    if (mg_capture_check(capture) < 0) {
        return 0;
    }
    if (first < 0 || second < 0) {
        mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "a number that depends on data meets %s",
                         Py_TYPE(first < 0 ? left : right)->tp_name);
        return 0;
    }
    if (first == 0 || second == 0) {
        *result = Py_NewRef(Py_NotImplemented);
        return 0;
    }
    return 1;
}

#define BINARY(name, operation) \
    static PyObject *name(PyObject *left, PyObject *right) \
    { \
        PyObject *result; \
        return may_operate(left, right, &result) ? mg_arithmetic_binary(mg_capture_current, operation, left, right) \
                                                 : result; \
    }

BINARY(number_add, NB_ADD)
BINARY(number_subtract, NB_SUBTRACT)
BINARY(number_multiply, NB_MULTIPLY)
BINARY(number_remainder, NB_REMAINDER)
BINARY(number_lshift, NB_LSHIFT)
BINARY(number_rshift, NB_RSHIFT)
BINARY(number_and, NB_AND)
BINARY(number_xor, NB_XOR)
BINARY(number_or, NB_OR)
BINARY(number_floor_divide, NB_FLOOR_DIVIDE)
BINARY(number_true_divide, NB_TRUE_DIVIDE)

static PyObject *
number_power(PyObject *left, PyObject *right, PyObject *modulus)
{
    PyObject *result;
    if (modulus != Py_None) {
        mg_capture_abort(mg_capture_current, MG_REASON_DATA_DEPENDENT, "pow() with a modulus");
        return NULL;
    }
    return may_operate(left, right, &result) ? mg_arithmetic_binary(mg_capture_current, NB_POWER, left, right) : result;
}

static PyObject *
number_divmod(PyObject *left, PyObject *right)
{
    PyObject *quotient = number_floor_divide(left, right);
    if (quotient == NULL || quotient == Py_NotImplemented) {
        return quotient;
    }
    PyObject *rest = number_remainder(left, right);
    return rest == NULL ? (Py_DECREF(quotient), NULL) : Py_BuildValue("(NN)", quotient, rest);
}

static PyObject *
number_compare(PyObject *left, PyObject *right, int operation)
{
    PyObject *result;
    return may_operate(left, right, &result) ? mg_arithmetic_compare(mg_capture_current, operation, left, right)
                                             : result;
}

static PyObject *
number_negative(PyObject *number)
{
    PyObject *result;
    return may_operate(number, number, &result) ? mg_arithmetic_unary(mg_capture_current, MG_NEGATIVE, number) : result;
}

static PyObject *
number_positive(PyObject *number)
{
    PyObject *result;
    return may_operate(number, number, &result) ? mg_arithmetic_unary(mg_capture_current, MG_POSITIVE, number) : result;
}

static PyObject *
number_invert(PyObject *number)
{
    PyObject *result;
    if (mg_number_kind(number) != MG_NUMBER_INT) {
        PyObject *value = evaluate(mg_capture_current, number);
        result = value == NULL ? NULL : PyNumber_Invert(value);
        Py_XDECREF(value);
        return result;
    }
    if (mg_capture_current != NULL && mg_number_unary(mg_capture_current, MG_INVERT, number, &result)) {
        return result;
    }
    PyObject *negative = number_negative(number), *one = PyLong_FromLong(1); /* symbols have no ~ */
    result = negative == NULL || one == NULL ? NULL : PyNumber_Subtract(negative, one);
    Py_XDECREF(negative);
    Py_XDECREF(one);
    return result;
}

static PyObject *
number_absolute(PyObject *number)
{
    PyObject *result;
    return may_operate(number, number, &result) ? mg_arithmetic_absolute(mg_capture_current, number) : result;
}

static int
number_bool(PyObject *number)
{
    PyObject *result;
    return may_operate(number, number, &result) ? mg_number_truth(mg_capture_current, number) : -1;
}

static PyObject *
number_value(PyObject *number)
{
    return evaluate(mg_capture_current, number);
}

static PyObject *
number_index(PyObject *number)
{
    if (mg_number_kind(number) == MG_NUMBER_FLOAT) {
        PyErr_SetString(PyExc_TypeError, "'float' object cannot be interpreted as an integer");
        return NULL;
    }
    return number_value(number);
}

static PyObject *
number_int(PyObject *number)
{
    PyObject *value = number_value(number);
    PyObject *result = value == NULL ? NULL : PyNumber_Long(value);
    Py_XDECREF(value);
    return result;
}

static PyObject *
number_float(PyObject *number)
{
    PyObject *value = number_value(number);
    PyObject *result = value == NULL ? NULL : PyNumber_Float(value);
    Py_XDECREF(value);
    return result;
}

static Py_hash_t
number_hash(PyObject *number)
{
    PyObject *value = number_value(number);
    Py_hash_t hash = value == NULL ? -1 : PyObject_Hash(value);
    Py_XDECREF(value);
    return hash;
}

static PyObject *
number_repr(PyObject *number)
{
    if (mg_capture_current == NULL || mg_capture_current->suspended > 0) { /* for whoever debugs a capture */
        PyObject *value = ((MgNumber *)number)->value;
        return value == NULL ? mg_expr_text(((MgNumber *)number)->dim.e, NULL)
                             : PyUnicode_FromFormat("<a number: %R>", value);
    }
    PyObject *value = number_value(number);
    PyObject *text = value == NULL ? NULL : PyObject_Repr(value);
    Py_XDECREF(value);
    return text;
}

static PyObject *
number_getattro(PyObject *number, PyObject *name)
{
    MgCapture *capture = mg_capture_current;
    return capture == NULL || capture->suspended > 0 ? PyObject_GenericGetAttr(number, name)
                                                     : mg_number_getattr(capture, number, name);
}

/* format(n, spec), and what round(), math.floor() and the like ask for: only of a number whose value is known. */
static PyObject *
call_on_value(PyObject *number, PyObject *name, PyObject *args)
{
    PyObject *value = number_value(number);
    PyObject *method = value == NULL ? NULL : PyObject_GetAttr(value, name);
    PyObject *result = method == NULL ? NULL : PyObject_Call(method, args, NULL);
    Py_XDECREF(value);
    Py_XDECREF(method);
    return result;
}

#define ON_VALUE(function, name) \
    static PyObject *function(PyObject *number, PyObject *args) \
    { \
        return call_on_value(number, MG_STRING(name), args); \
    }

ON_VALUE(number_format, "__format__")
ON_VALUE(number_round, "__round__")
ON_VALUE(number_floor, "__floor__")
ON_VALUE(number_ceil, "__ceil__")
ON_VALUE(number_trunc, "__trunc__")
ON_VALUE(number_complex, "__complex__")
ON_VALUE(number_reduce, "__reduce_ex__")

static PyMethodDef number_methods[] = {
    {"__format__", number_format, METH_VARARGS, NULL},    {"__round__", number_round, METH_VARARGS, NULL},
    {"__floor__", number_floor, METH_VARARGS, NULL},      {"__ceil__", number_ceil, METH_VARARGS, NULL},
    {"__trunc__", number_trunc, METH_VARARGS, NULL},      {"__complex__", number_complex, METH_VARARGS, NULL},
    {"__reduce_ex__", number_reduce, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static PyNumberMethods number_slots = {
    .nb_add = number_add,
    .nb_subtract = number_subtract,
    .nb_multiply = number_multiply,
    .nb_remainder = number_remainder,
    .nb_divmod = number_divmod,
    .nb_power = number_power,
    .nb_negative = number_negative,
    .nb_positive = number_positive,
    .nb_absolute = number_absolute,
    .nb_bool = number_bool,
    .nb_invert = number_invert,
    .nb_lshift = number_lshift,
    .nb_rshift = number_rshift,
    .nb_and = number_and,
    .nb_xor = number_xor,
    .nb_or = number_or,
    .nb_int = number_int,
    .nb_float = number_float,
    .nb_floor_divide = number_floor_divide,
    .nb_true_divide = number_true_divide,
    .nb_index = number_index,
};

static void
number_dealloc(MgNumber *self)
{
    Py_XDECREF(self->value);
    Py_XDECREF(self->parts);
    PyObject_Free(self);
}

#define NUMBER_TYPE(name) \
    { \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = name, .tp_basicsize = sizeof(MgNumber), \
        .tp_dealloc = (destructor)number_dealloc, .tp_repr = number_repr, .tp_str = number_repr, \
        .tp_as_number = &number_slots, .tp_hash = number_hash, .tp_richcompare = number_compare, \
        .tp_getattro = number_getattro, .tp_methods = number_methods, \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, \
    }

PyTypeObject mg_number_types[MG_NUMBER_KINDS] = {
    [MG_NUMBER_INT] = NUMBER_TYPE("int"),
    [MG_NUMBER_FLOAT] = NUMBER_TYPE("float"),
    [MG_NUMBER_BOOL] = NUMBER_TYPE("bool"),
};

int
mg_symbol_types_ready(void)
{
    for (int i = 0; i < MG_NUMBER_KINDS; i++) {
        if (PyType_Ready(&mg_number_types[i]) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

PyObject *
mg_number_new(MgCapture *capture, PyObject *value, int node)
{
    int kind = 0;
    while (kind < MG_NUMBER_KINDS && Py_TYPE(value) != known.symbols[kind]) {
        kind++;
    }
    if (kind == MG_NUMBER_KINDS) {
        PyErr_BadInternalCall();
        return NULL;
    }
    MgNumber *number = PyObject_New(MgNumber, &mg_number_types[kind]);
    if (number != NULL) {
        number->value = Py_NewRef(value);
        number->parts = NULL;
        number->source = NULL;
        number->dim = mg_dim(0);
        number->node = node;
        number->capture = capture->number;
    }
    return (PyObject *)number;
}

/* ---- sizes that hold numbers ---- */

PyObject *
mg_symbol_size(PyObject *items)
{
    if (items == NULL) {
        return NULL;
    }
    /* by tuple's own constructor: that of torch.Size wants ints */
    PyObject *arguments = PyTuple_Pack(1, items);
    PyObject *size = arguments == NULL ? NULL : PyTuple_Type.tp_new(mg_torch.size, arguments, NULL);
    Py_XDECREF(arguments);
    Py_DECREF(items);
    return size;
}

/* 1 if there is a number in a structure; with `depends`, one that depends on data. What lies too deep can be no argument of an
 * operation. */
static int
has_number(PyObject *object, int depends, MgWalk *walk)
{
    int is_list = PyList_Check(object), found = 0;
    if (!is_list && !PyTuple_Check(object)) {
        return 0;
    }
    int enters = mg_walk_enter(walk);
    for (Py_ssize_t i = 0; enters && !found && i < Py_SIZE(object); i++) {
        PyObject *item = is_list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i);
        found = mg_is_number(item) ? !depends || !mg_number_is_backed(item) : has_number(item, depends, walk);
    }
    mg_walk_leave(walk);
    return found;
}

int
mg_symbol_inside(PyObject *object)
{
    MgWalk walk = MG_WALK;
    return has_number(object, 0, &walk);
}

int
mg_symbol_depends(PyObject *object)
{
    MgWalk walk = MG_WALK;
    return has_number(object, 1, &walk);
}

/* The same items as a plain tuple. New. */
static PyObject *
plain_tuple(PyObject *size)
{
    Py_ssize_t count = PyTuple_GET_SIZE(size);
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(PyTuple_GET_ITEM(size, i)));
    }
    return tuple;
}

int
mg_symbol_size_item(PyObject *size, PyObject *key, PyObject **result)
{
    if (!Py_IS_TYPE(size, mg_torch.size) || !PySlice_Check(key) || !mg_symbol_inside(size)) {
        return 0;
    }
    PyObject *tuple = plain_tuple(size);
    *result = tuple == NULL ? NULL : mg_symbol_size(PyObject_GetItem(tuple, key));
    Py_XDECREF(tuple);
    return 1;
}

int
mg_symbol_size_binary(int operation, PyObject *left, PyObject *right, PyObject **result)
{
    int size = Py_IS_TYPE(left, mg_torch.size) || Py_IS_TYPE(right, mg_torch.size);
    if (!size || (operation != NB_ADD && operation != NB_MULTIPLY) ||
        (!mg_symbol_inside(left) && !mg_symbol_inside(right)) ||
        (operation == NB_ADD ? !PyTuple_Check(left) || !PyTuple_Check(right)
                             : !PyLong_CheckExact(left) && !PyLong_CheckExact(right))) {
        return 0;
    }
    PyObject *a = PyTuple_Check(left) ? plain_tuple(left) : Py_NewRef(left);
    PyObject *b = PyTuple_Check(right) ? plain_tuple(right) : Py_NewRef(right);
    PyObject *tuple = a == NULL || b == NULL ? NULL
                      : operation == NB_ADD  ? PySequence_Concat(a, b)
                      : PyTuple_Check(left)  ? PyNumber_Multiply(a, b)
                                             : PyNumber_Multiply(b, a);
    Py_XDECREF(a);
    Py_XDECREF(b);
    *result = mg_symbol_size(tuple);
    return 1;
}

/* ---- calls ---- */

/* The kind that a value has as a number: exact ints and floats, and numbers; -1 for others. */
static int
kind_of(PyObject *value)
{
    return mg_is_number(value)                ? (int)mg_number_kind(value)
           : Py_IS_TYPE(value, &PyLong_Type)  ? MG_NUMBER_INT
           : Py_IS_TYPE(value, &PyFloat_Type) ? MG_NUMBER_FLOAT
                                              : -1;
}

/* int(n), float(n), bool(n) */
static PyObject *
convert(MgCapture *capture, PyObject *callable, PyObject *number)
{
    if (callable == (PyObject *)mg_number_class(number)) {
        return Py_NewRef(number);
    }
    if (callable == (PyObject *)&PyBool_Type) {
        PyObject *zero = PyLong_FromLong(0);
        PyObject *result = zero == NULL ? NULL : mg_arithmetic_compare(capture, Py_NE, number, zero);
        Py_XDECREF(zero);
        return result;
    }
    PyObject *function = callable == (PyObject *)&PyLong_Type ? known.sym_int : known.sym_float;
    return mg_record_call(capture, MG_NODE_FUNCTION, function, &number, 1, NULL);
}

/* sum() of ints; 0 if it is not that. */
static int
call_sum(MgCapture *capture, PyObject *items, PyObject **result)
{
    int is_list = PyList_CheckExact(items);
    if (!is_list && !PyTuple_CheckExact(items) && !Py_IS_TYPE(items, mg_torch.size)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(items); i++) {
        if (kind_of(is_list ? PyList_GET_ITEM(items, i) : PyTuple_GET_ITEM(items, i)) != MG_NUMBER_INT) {
            return 0;
        }
    }
    PyObject *tuple = is_list ? PyList_AsTuple(items) : plain_tuple(items);
    *result = tuple == NULL ? NULL : mg_record_call(capture, MG_NODE_FUNCTION, known.sum, &tuple, 1, NULL);
    Py_XDECREF(tuple);
    return 1;
}

/* size.numel() */
static PyObject *
multiply_all(PyObject *size)
{
    PyObject *product = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; product != NULL && i < PyTuple_GET_SIZE(size); i++) {
        PyObject *item = PyTuple_GET_ITEM(size, i);
        int is_one = PyLong_CheckExact(product) && PyLong_AsLong(product) == 1;
        Py_SETREF(product, is_one ? Py_NewRef(item) : PyNumber_Multiply(product, item));
    }
    return product;
}

/* torch._check(condition, message): the message is a function that looks at nothing but globals, or there is none. */
static PyObject *
call_check(MgCapture *capture, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *message = count == 2 ? args[1] : NULL;
    if (kwnames != NULL || count > 2 ||
        (message != NULL && message != Py_None &&
         (!PyFunction_Check(message) || ((PyFunctionObject *)message)->func_closure != NULL ||
          ((PyFunctionObject *)message)->func_defaults != NULL))) {
        mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "torch._check with a message that depends on data");
        return NULL;
    }
    return mg_arithmetic_check(capture, known.check, args[0], message == Py_None ? NULL : message);
}

/* Calls on sizes that hold numbers, which torch.Size does not do itself. As mg_number_call. */
static int
call_on_sizes(PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **result)
{
    if (kwnames != NULL || count != 1 || !mg_symbol_inside(args[0])) {
        return 0;
    }
    if (callable == (PyObject *)mg_torch.size) {
        *result = mg_symbol_size(PySequence_Tuple(args[0]));
        return 1;
    }
    if (Py_IS_TYPE(args[0], mg_torch.size) && Py_IS_TYPE(callable, &PyMethodDescr_Type) &&
        PyUnicode_CompareWithASCIIString(PyDescr_NAME(callable), "numel") == 0) {
        *result = multiply_all(args[0]);
        return 1;
    }
    return 0;
}

int
mg_number_call(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
               PyObject **result)
{
    int first = count > 0 && mg_is_number(args[0]), any = first || (count > 1 && mg_is_number(args[1]));
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    *result = NULL;
    if (count > 0 && mg_number_called(capture, callable, args, count, kwnames, result)) {
        return 1;
    }
    if (known.recorded == NULL) {
        if (!any && (total == 0 || !mg_symbol_inside(args[0]))) {
            return 0;
        }
        if (find_known() < 0) {
            mg_recover_interrupt(capture);
            return 1;
        }
    }
    if (callable == known.tensor) {
        if (total == 0 || (!first && !mg_symbol_inside(args[0]))) {
            return 0;
        }
        *result = mg_record_call(capture, MG_NODE_FUNCTION, known.refs_tensor, args, count, kwnames);
        return 1;
    }
    if (callable == known.check && first) {
        *result = call_check(capture, args, count, kwnames);
        return 1;
    }
    if (kwnames != NULL) {
        return 0;
    }
    if (first && count == 1 &&
        (callable == (PyObject *)&PyLong_Type || callable == (PyObject *)&PyFloat_Type ||
         callable == (PyObject *)&PyBool_Type)) {
        *result = convert(capture, callable, args[0]);
        return 1;
    }
    if (count == 2 && any && (callable == known.max || callable == known.min) && kind_of(args[0]) >= 0 &&
        kind_of(args[0]) == kind_of(args[1]) && kind_of(args[0]) != MG_NUMBER_BOOL) {
        PyObject *function = callable == known.max ? known.sym_max : known.sym_min;
        *result = mg_record_call(capture, MG_NODE_FUNCTION, function, args, count, NULL);
        return 1;
    }
    if (count == 1 && callable == known.builtin_sum && mg_symbol_inside(args[0])) {
        return call_sum(capture, args[0], result);
    }
    if (first && callable == known.round && mg_number_kind(args[0]) == MG_NUMBER_FLOAT) {
        *result = mg_record_call(capture, MG_NODE_METHOD, MG_STRING("__round__"), args, count, NULL);
        return 1;
    }
    if (call_on_sizes(callable, args, count, kwnames, result)) {
        return 1;
    }
    if (!any && !(count > 0 && mg_symbol_inside(args[0]))) {
        return 0;
    }
    PyObject *other = PyCFunction_Check(callable) ? PyDict_GetItemWithError(known.replaced, callable) : NULL;
    if (other == NULL && PyErr_Occurred()) {
        return 1;
    }
    int recorded =
        PyCFunction_Check(callable) || PyFunction_Check(callable) ? PySet_Contains(known.recorded, callable) : 0;
    if (other != NULL || recorded != 0) {
        *result = recorded < 0
                      ? NULL
                      : mg_record_call(capture, MG_NODE_FUNCTION, other != NULL ? other : callable, args, count, NULL);
        return 1;
    }
    return 0;
}
