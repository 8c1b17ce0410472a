/* Numbers that vary from call to call: what captured code does with sizes and ints that have become symbols.
 *
 * An int is an expression, and nothing is recorded for its operators: nodes are made of an expression where an operation takes
 * it, or where it outlives the capture. A float that was computed from one has a node of its own, and knows the numbers that it
 * was computed from. A comparison is decided at once. */
#include "record/number.h"

#include "capture/varying.h"
#include "cpython/aside.h"
#include "ir/dimobject.h"
#include "ir/structure.h"
#include "record/arithmetic.h"
#include "record/arguments.h"
#include "record/fraction.h"
#include "record/real.h"
#include "record/record.h"
#include "size/terms.h"

#include <math.h>
#include <stdlib.h>

enum { UNCLEAR = 2 };

/* ---- making them ---- */

static MgNumber *
new_number(MgCapture *capture, MgNumberKind kind)
{
    MgNumber *number = PyObject_New(MgNumber, &mg_number_types[kind]);
    if (number != NULL) {
        number->value = number->parts = NULL;
        number->source = NULL;
        number->is_finite = 0;
        number->node = -1;
        number->dim = mg_dim(0);
        number->capture = capture->number;
    }
    return number;
}

PyObject *
mg_number_of(MgCapture *capture, MgDim dim)
{
    MgFacts *facts = &capture->varying.facts;
    int64_t value = dim.v;
    dim = dim.e == NULL ? dim : mg_facts_simplify(facts, dim);
    if (dim.e != NULL && !mg_expr_eval(dim.e, facts->hints, &value)) { /* -n - 1 overflows on the way, ~n does not */
        if (mg_facts_specialize_symbols(facts, dim.e) < 0) {
            return NULL;
        }
        dim.e = NULL;
    }
    if (dim.e == NULL) {
        return PyLong_FromLongLong(dim.v);
    }
    MgNumber *number = new_number(capture, MG_NUMBER_INT);
    if (number != NULL) {
        number->dim = dim;
    }
    return (PyObject *)number;
}

PyObject *
mg_number_of_float(MgCapture *capture, PyObject *value, MgSource *source)
{
    MgNumber *number = new_number(capture, MG_NUMBER_FLOAT);
    if (number == NULL) {
        return NULL;
    }
    capture->varying.is_used = 1;
    number->value = Py_NewRef(value);
    number->source = source;
    number->parts = PyTuple_New(0);
    number->node = number->parts == NULL ? -1 : mg_record_number_input(capture, source, value);
    if (number->node < 0) {
        Py_CLEAR(number);
    }
    return (PyObject *)number;
}

PyObject *
mg_number_wrap(MgCapture *capture, PyObject *value)
{
    if (mg_is_dim_object(value)) {
        return mg_number_of(capture, ((MgDimObject *)value)->dim);
    }
    if (!PyTuple_Check(value)) {
        return Py_NewRef(value);
    }
    int any = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
        any = any || mg_is_dim_object(PyTuple_GET_ITEM(value, i));
    }
    PyObject *items = any ? PyTuple_New(PyTuple_GET_SIZE(value)) : Py_NewRef(value);
    for (Py_ssize_t i = 0; any && items != NULL && i < PyTuple_GET_SIZE(value); i++) {
        PyObject *item = mg_number_wrap(capture, PyTuple_GET_ITEM(value, i));
        if (item == NULL) {
            Py_CLEAR(items);
            break;
        }
        PyTuple_SET_ITEM(items, i, item);
    }
    return any && Py_IS_TYPE(value, mg_torch.size) ? mg_symbol_size(items) : items;
}

/* ---- taking values ---- */

/* Takes the value of a size for good. MG_OK or MG_ERR. */
static int
take_dim(MgCapture *capture, MgDim dim)
{
    return dim.e == NULL ? MG_OK : mg_facts_specialize(&capture->varying.facts, dim);
}

PyObject *
mg_number_take(MgCapture *capture, PyObject *object)
{
    MgNumber *number = (MgNumber *)object;
    if (capture == NULL || number->capture != capture->number) {
        PyErr_SetString(PyExc_RuntimeError, "a number of a finished capture was used");
        return NULL;
    }
    if (mg_capture_check(capture) < 0) {
        return NULL;
    }
    if (number->parts == NULL) {
        return take_dim(capture, number->dim) < 0 ? NULL : PyLong_FromLongLong(number->dim.v);
    }
    if (number->source != NULL && mg_capture_guard(capture, MG_GUARD_VALUE, number->source, number->value) < 0) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(number->parts); i++) {
        PyObject *part = PyTuple_GET_ITEM(number->parts, i);
        PyObject *value = mg_is_number(part) ? mg_number_take(capture, part) : Py_NewRef(part);
        Py_XDECREF(value);
        if (value == NULL) {
            return NULL;
        }
    }
    return Py_NewRef(number->value);
}

typedef struct {
    MgCapture *capture;
    int failed;
} Walk;

static PyObject *
specialize_part(void *context, PyObject *value)
{
    Walk *walk = context;
    if (mg_is_dim_object(value)) {
        walk->failed = walk->failed || take_dim(walk->capture, ((MgDimObject *)value)->dim) < 0;
    }
    else if (mg_is_number(value)) {
        PyObject *number = mg_number_take(walk->capture, value);
        walk->failed = walk->failed || number == NULL;
        Py_XDECREF(number);
    }
    else if (mg_structure_is(value)) {
        return mg_structure_map(value, specialize_part, context);
    }
    return Py_NewRef(value);
}

int
mg_number_specialize(MgCapture *capture, PyObject *argument)
{
    Walk walk = {capture, 0};
    PyObject *same = specialize_part(&walk, argument);
    Py_XDECREF(same);
    return same == NULL || walk.failed ? MG_ERR : MG_OK;
}

/* A tuple of sizes by what is known now. New. */
static PyObject *
simplify_tuple(MgCapture *capture, PyObject *tuple)
{
    PyObject *result = PyTuple_New(PyTuple_GET_SIZE(tuple));
    for (Py_ssize_t i = 0; result != NULL && i < PyTuple_GET_SIZE(tuple); i++) {
        MgDim dim;
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        item = mg_is_dim_object(item) && mg_dim_read(item, &dim)
                   ? mg_dim_object(mg_facts_simplify(&capture->varying.facts, dim))
                   : Py_NewRef(item);
        if (item == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, item);
    }
    return result;
}

MgMeta *
mg_number_simplify(MgCapture *capture, MgMeta *meta)
{
    PyObject *sizes = simplify_tuple(capture, meta->sizes);
    PyObject *strides = sizes == NULL ? NULL : simplify_tuple(capture, meta->strides);
    MgMeta *result = strides == NULL ? NULL : mg_meta_get(meta->dtype, meta->device, sizes, strides, meta->flags, NULL);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return result;
}

/* ---- as arguments ---- */

/* 1 if the value of a number follows from what is guarded by now. */
static int
is_settled(MgCapture *capture, MgNumber *number)
{
    if (number->parts == NULL) {
        return mg_facts_simplify(&capture->varying.facts, number->dim).e == NULL;
    }
    if (number->source != NULL && !mg_capture_is_guarded(capture, MG_GUARD_VALUE, number->source)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(number->parts); i++) {
        PyObject *part = PyTuple_GET_ITEM(number->parts, i);
        if (mg_is_number(part) && !is_settled(capture, (MgNumber *)part)) {
            return 0;
        }
    }
    return 1;
}

MgSource *
mg_number_source(MgCapture *capture, PyObject *object)
{
    if (((MgNumber *)object)->source != NULL) {
        return ((MgNumber *)object)->source;
    }
    const MgExpr *expr = ((MgNumber *)object)->dim.e;
    if (expr == NULL || mg_expr_count(expr) != 1 || expr->terms[0].coefficient != 1 ||
        mg_product_count(expr->terms[0].product) != 1) {
        return NULL;
    }
    const struct MgFactor *factor = &expr->terms[0].product->factors[0];
    if (factor->power != 1 || factor->atom->kind != MG_ATOM_SYMBOL) {
        return NULL;
    }
    const MgVarying *origin = &capture->varying.origins[factor->atom->symbol];
    return origin->kind == MG_VARYING_VALUE ? origin->source : NULL;
}

int
mg_number_is_from(MgCapture *capture, PyObject *value, PyObject *object)
{
    MgSource *source = mg_is_number(value) ? mg_number_source(capture, value) : NULL;
    return source != NULL && source->view == value && source->raw == object;
}

PyObject *
mg_number_argument(MgCapture *capture, PyObject *object)
{
    MgNumber *number = (MgNumber *)object;
    if (number->parts != NULL) {
        return Py_NewRef(is_settled(capture, number) ? number->value : object);
    }
    return mg_dim_object(mg_facts_simplify(&capture->varying.facts, number->dim));
}

static PyObject *
refer_part(void *context, PyObject *value)
{
    MgCapture *capture = context;
    if (mg_is_dim_object(value) || mg_is_number(value)) {
        PyObject *ref = mg_is_number(value) ? mg_record_new_ref(((MgNumber *)value)->node)
                                            : mg_number_ref(capture, ((MgDimObject *)value)->dim.e);
        if (ref != NULL && Py_IS_TYPE(ref, &MgRef_Type)) {
            capture->graph.nodes[((MgRef *)ref)->index].users++;
        }
        return ref;
    }
    return mg_structure_is(value) ? mg_structure_map(value, refer_part, context) : Py_NewRef(value);
}

PyObject *
mg_number_refer(MgCapture *capture, PyObject *argument)
{
    return refer_part(capture, argument);
}

/* ---- operators ---- */

/* 1 for a value of a class of C code with operators of its own: it would take a number for any object. */
static int
is_foreign(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) || mg_is_number(value) ||
        mg_is_twin(value) || type->tp_as_number == NULL) {
        return 0;
    }
    if (PyLong_Check(value) || PyFloat_Check(value)) {
        return 1;
    }
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyUnicode_Check(value) && !PyBytes_Check(value) &&
           !PyAnySet_Check(value) && !PyDict_Check(value) && value != Py_None && !mg_torch_is_tensor(value);
}

PyObject *
mg_number_beside(MgCapture *capture, PyObject *value, PyObject *other)
{
    int takes = mg_is_number(value) && mg_number_is_backed(value) && is_foreign(other);
    return takes ? mg_number_take(capture, value) : Py_NewRef(value);
}

/* A backed number, or an int that an expression can hold. */
static int
read_operand(PyObject *value, MgDim *dim)
{
    if (mg_is_number(value)) {
        *dim = ((MgNumber *)value)->dim;
        return dim->e != NULL;
    }
    if (PyBool_Check(value)) {
        *dim = mg_dim(value == Py_True);
        return 1;
    }
    int overflow = 1;
    *dim = mg_dim(PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0);
    return !overflow;
}

/* 1 if one of two operands is a backed number, and the other one too, or a plain number. */
static int
has_backed(PyObject *left, PyObject *right)
{
    int found = 0;
    PyObject *const both[] = {left, right};
    for (int i = 0; i < 2; i++) {
        if (mg_is_number(both[i])) {
            if (!mg_number_is_backed(both[i])) { /* the result depends on data: it is recorded */
                return 0;
            }
            found = 1;
        }
        else if (!PyLong_CheckExact(both[i]) && !PyBool_Check(both[i]) && !PyFloat_CheckExact(both[i])) {
            return 0;
        }
    }
    return found;
}

/* The plain value of an operand: of a backed number that of this call, without a guard. New; NULL for one that depends on data. */
static PyObject *
peek(PyObject *operand)
{
    if (!mg_is_number(operand)) {
        return Py_NewRef(operand);
    }
    MgNumber *number = (MgNumber *)operand;
    return number->dim.e != NULL   ? PyLong_FromLongLong(number->dim.v)
           : number->parts != NULL ? Py_NewRef(number->value)
                                   : NULL;
}

/* Has both operands take their values, and tries again with those. */
static PyObject *
with_values(MgCapture *capture, PyObject *left, PyObject *right, PyObject *(*function)(PyObject *, PyObject *))
{
    PyObject *operands[] = {left, right}, *values[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        values[i] = mg_is_number(operands[i]) && mg_number_is_backed(operands[i]) ? mg_number_take(capture, operands[i])
                                                                                  : Py_NewRef(operands[i]);
        if (values[i] == NULL) {
            Py_XDECREF(values[0]);
            return NULL;
        }
    }
    PyObject *result = function(values[0], values[1]);
    Py_DECREF(values[0]);
    Py_DECREF(values[1]);
    return result;
}

static PyObject *
power_of(PyObject *left, PyObject *right)
{
    return PyNumber_Power(left, right, Py_None);
}

static const struct {
    const char *name;
    PyObject *(*function)(PyObject *, PyObject *);
} operations[] = {
    [NB_ADD] = {"add", PyNumber_Add},
    [NB_AND] = {"and_", PyNumber_And},
    [NB_FLOOR_DIVIDE] = {"floordiv", PyNumber_FloorDivide},
    [NB_LSHIFT] = {"lshift", PyNumber_Lshift},
    [NB_MATRIX_MULTIPLY] = {NULL, NULL},
    [NB_MULTIPLY] = {"mul", PyNumber_Multiply},
    [NB_REMAINDER] = {"mod", PyNumber_Remainder},
    [NB_OR] = {"or_", PyNumber_Or},
    [NB_POWER] = {"pow", power_of},
    [NB_RSHIFT] = {"rshift", PyNumber_Rshift},
    [NB_SUBTRACT] = {"sub", PyNumber_Subtract},
    [NB_TRUE_DIVIDE] = {"truediv", PyNumber_TrueDivide},
    [NB_XOR] = {"xor", PyNumber_Xor},
};

/* An operator on ints as an expression: 1, 0 if it has none, or MG_ERR. */
static int
operate(MgCapture *capture, int operation, MgDim a, MgDim b, MgDim *result)
{
    static const MgAtomKind kinds[] = {[NB_FLOOR_DIVIDE] = MG_ATOM_FLOORDIV,
                                       [NB_REMAINDER] = MG_ATOM_MOD,
                                       [NB_POWER] = MG_ATOM_POW,
                                       [NB_AND] = MG_ATOM_AND,
                                       [NB_OR] = MG_ATOM_OR,
                                       [NB_XOR] = MG_ATOM_XOR};
    MgFacts *facts = &capture->varying.facts;
    int known;
    a = mg_facts_simplify(facts, a);
    b = mg_facts_simplify(facts, b);
    switch (operation) {
        case NB_ADD:
            return mg_dim_add(a, b, result);
        case NB_SUBTRACT:
            return mg_dim_sub(a, b, result);
        case NB_MULTIPLY:
            return mg_dim_mul(a, b, result);
        case NB_LSHIFT:
        case NB_RSHIFT:
            known = b.v < 0 || b.v >= 62 ? 1 : mg_facts_decide(facts, MG_RELATION_LT, b, mg_dim(0));
            if (known != 0 || !mg_dim_operate(MG_ATOM_POW, mg_dim(2), b, &b)) {
                return known < 0 ? MG_ERR : 0;
            }
            return operation == NB_LSHIFT ? mg_dim_mul(a, b, result) : mg_dim_operate(MG_ATOM_FLOORDIV, a, b, result);
        case NB_FLOOR_DIVIDE:
        case NB_REMAINDER:
            known = mg_facts_decide(facts, MG_RELATION_EQ, b, mg_dim(0));
            return known != 0 ? (known < 0 ? MG_ERR : 0) : mg_dim_operate(kinds[operation], a, b, result);
        case NB_POWER:
            if (capture->graph.foreign && a.e == NULL && a.v < 0 && b.e != NULL) { /* torch writes it as -(2 ** n) */
                return 0;
            }
            known = mg_facts_decide(facts, MG_RELATION_LT, b, mg_dim(0));
            return known != 0 ? (known < 0 ? MG_ERR : 0) : mg_dim_operate(kinds[operation], a, b, result);
        case NB_AND:
        case NB_OR:
        case NB_XOR:
            return mg_dim_operate(kinds[operation], a, b, result);
        default:
            return 0;
    }
}

/* A float that is computed from numbers: a node, with its value in this call (stolen). New. */
static PyObject *
new_float(MgCapture *capture, PyObject *target, PyObject *const *operands, int count, PyObject *value)
{
    PyObject *parts = value == NULL ? NULL : PyTuple_New(count), *args = parts == NULL ? NULL : PyTuple_New(count);
    for (int i = 0; args != NULL && i < count; i++) {
        int node = mg_is_number(operands[i]) ? mg_number_node(capture, operands[i]) : 0;
        PyObject *arg = node < 0 ? NULL : mg_is_number(operands[i]) ? mg_record_new_ref(node) : Py_NewRef(operands[i]);
        if (arg == NULL) {
            Py_CLEAR(args);
            break;
        }
        PyTuple_SET_ITEM(args, i, arg);
        PyTuple_SET_ITEM(parts, i, Py_NewRef(operands[i]));
    }
    int node = args == NULL ? -1 : mg_record_number(capture, target, args, value);
    MgNumber *number = node < 0 ? NULL : new_number(capture, MG_NUMBER_FLOAT);
    if (number != NULL) {
        number->node = node;
        number->value = Py_NewRef(value);
        number->parts = Py_NewRef(parts);
    }
    Py_XDECREF(args);
    Py_XDECREF(parts);
    Py_XDECREF(value);
    return (PyObject *)number;
}

/* A guard that something raises as little as it does in this call: backends compute with tensors, which never raise. 1, 0 if
 * there is no such guard, or MG_ERR. */
static int
guard_finite(MgCapture *capture, PyObject *number)
{
    return !capture->graph.foreign || number == NULL ? 1 : mg_real_guard(capture, number);
}

/* A guard that a divisor is not 0, as it is not in this call. MG_OK or MG_ERR. */
static int
guard_divisor(MgCapture *capture, PyObject *divisor)
{
    PyObject *zero = PyLong_FromLong(0), *answer = NULL;
    if (zero != NULL && mg_is_number(divisor) && !mg_number_compared(capture, Py_NE, divisor, zero, &answer)) {
        answer = Py_NewRef(Py_None);
    }
    int failed = zero == NULL || (mg_is_number(divisor) && answer == NULL);
    Py_XDECREF(zero);
    Py_XDECREF(answer);
    return failed ? MG_ERR : MG_OK;
}

/* 1 if a power is a float at each call, and not complex: the base is not negative, or the exponent is an int. 0 or MG_ERR. */
static int
is_real_power(MgCapture *capture, PyObject *base, PyObject *exponent)
{
    MgDim dim;
    if (read_operand(exponent, &dim) ||
        (PyFloat_CheckExact(exponent) && PyFloat_AS_DOUBLE(exponent) == floor(PyFloat_AS_DOUBLE(exponent)))) {
        return 1;
    }
    if (read_operand(base, &dim)) {
        return mg_facts_decide(&capture->varying.facts, MG_RELATION_LE, mg_dim(0), dim);
    }
    PyObject *zero = mg_is_number(base) ? PyFloat_FromDouble(0) : NULL, *answer = NULL;
    if (zero != NULL && !mg_number_compared(capture, Py_GE, base, zero, &answer)) {
        answer = Py_NewRef(Py_False);
    }
    Py_XDECREF(zero);
    Py_XDECREF(answer); /* True and False live on */
    return mg_is_number(base) ? answer == NULL ? MG_ERR : answer == Py_True
                              : PyFloat_CheckExact(base) && PyFloat_AS_DOUBLE(base) >= 0;
}

/* 1 for a constant that is 0. */
static int
is_zero(PyObject *value)
{
    return PyFloat_CheckExact(value)  ? PyFloat_AS_DOUBLE(value) == 0
           : PyLong_CheckExact(value) ? Py_SIZE(value) == 0
                                      : 0;
}

/* 1 if a backend computes what Python does; 0 if it does not, or MG_ERR. Symbols of torch's are real numbers: x % 1 is 0 there, and
 * so is x * 0, whatever the sign of x; and x - x, which is no number for one that is not finite. */
static int
computes_alike(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    if (operation == NB_REMAINDER || operation == NB_FLOOR_DIVIDE ||
        (operation == NB_MULTIPLY && (is_zero(left) || is_zero(right)))) {
        return 0;
    }
    PyObject *const operands[] = {left, right};
    for (int i = 0; i < 2; i++) {
        MgNumber *number = mg_is_number(operands[i]) ? (MgNumber *)operands[i] : NULL;
        if (number == NULL || number->source == NULL || number->is_finite) {
            continue;
        }
        int guarded = guard_finite(capture, operands[i]);
        if (guarded <= 0) {
            return guarded;
        }
        number->is_finite = 1;
    }
    return 1;
}

/* An operator whose result is a float in this call: 1 with the result, 0 if it is no float. */
static int
operate_floats(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result)
{
    int real = operation == NB_POWER ? is_real_power(capture, left, right) : 1;
    if (real > 0 && capture->graph.foreign) {
        real = computes_alike(capture, operation, left, right);
    }
    if (real <= 0) {
        *result = NULL;
        return real < 0;
    }
    PyObject *a = peek(left), *b = a == NULL ? NULL : peek(right);
    PyObject *value = b == NULL ? NULL : operations[operation].function(a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    if (value == NULL || !PyFloat_CheckExact(value) || !isfinite(PyFloat_AS_DOUBLE(value))) {
        PyErr_Clear(); /* it is raised by the values themselves, if it is */
        Py_XDECREF(value);
        return 0;
    }
    PyObject *const operands[] = {left, right};
    PyObject *function = mg_arithmetic_function(operations[operation].name);
    int divides = operation == NB_TRUE_DIVIDE || operation == NB_FLOOR_DIVIDE || operation == NB_REMAINDER;
    if (function == NULL || (divides && capture->graph.foreign && guard_divisor(capture, right) < 0)) {
        Py_DECREF(value);
        return 1;
    }
    *result = new_float(capture, function, operands, 2, value);
    if (operation == NB_POWER && *result != NULL) {
        int guarded = guard_finite(capture, *result);
        if (guarded <= 0) {
            Py_CLEAR(*result);
            return guarded < 0;
        }
    }
    return 1;
}

int
mg_number_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result)
{
    operation = operation >= NB_INPLACE_ADD ? operation - NB_INPLACE_ADD : operation;
    if (!has_backed(left, right)) {
        return 0;
    }
    *result = NULL;
    MgDim a, b, c;
    int ints = read_operand(left, &a) && read_operand(right, &b);
    int status = ints ? operate(capture, operation, a, b, &c) : 0;
    if (status != 0) {
        *result = status < 0 ? NULL : mg_number_of(capture, c);
        return 1;
    }
    int is_float = !ints || operation == NB_TRUE_DIVIDE || (operation == NB_POWER && b.v < 0);
    if (is_float && operate_floats(capture, operation, left, right, result)) {
        return 1;
    }
    *result = operations[operation].function == NULL
                  ? NULL
                  : with_values(capture, left, right, operations[operation].function);
    return *result != NULL || PyErr_Occurred() != NULL;
}

#define COMPARISON(name, operation)                     \
    static PyObject *name(PyObject *left, PyObject *right) \
    {                                                   \
        return PyObject_RichCompare(left, right, operation); \
    }
COMPARISON(is_less, Py_LT)
COMPARISON(is_less_equal, Py_LE)
COMPARISON(is_equal, Py_EQ)
COMPARISON(is_other, Py_NE)
COMPARISON(is_greater, Py_GT)
COMPARISON(is_greater_equal, Py_GE)

/* Compares an int with a float: the float becomes the bound that it is for ints. 1, or 0 if it is none. */
static int
bound_of(double value, int *operation, MgDim *bound)
{
    if (!isfinite(value) || fabs(value) > 1e15) {
        return 0;
    }
    double whole = floor(value);
    *bound = mg_dim((int64_t)whole);
    if (whole == value) {
        return 1;
    }
    switch (*operation) { /* n < 2.5 is n <= 2 */
        case Py_LT:
        case Py_LE:
            *operation = Py_LE;
            return 1;
        case Py_GT:
        case Py_GE:
            *operation = Py_GT;
            return 1;
        default:
            return 0;
    }
}

int
mg_number_compute(int operation, PyObject *left, PyObject *right, int64_t *answer)
{
    PyObject *a = peek(left), *b = a == NULL ? NULL : peek(right);
    PyObject *result = b == NULL ? NULL : PyObject_RichCompare(a, b, operation);
    int good = result != NULL && PyBool_Check(result);
    *answer = result == Py_True;
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(result);
    PyErr_Clear();
    return good;
}

int
mg_number_compared(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result)
{
    static const int reflected[6] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
    static PyObject *(*const comparisons[])(PyObject *, PyObject *) = {is_less,  is_less_equal, is_equal,
                                                                       is_other, is_greater,    is_greater_equal};
    MgDim a, b;
    if (!has_backed(left, right)) {
        return 0;
    }
    *result = NULL;
    int has_a = read_operand(left, &a), has_b = read_operand(right, &b);
    if (has_b && !has_a && PyFloat_CheckExact(left)) {
        PyObject *other = left;
        left = right;
        right = other;
        a = b;
        has_a = 1;
        has_b = 0;
        operation = reflected[operation];
    }
    if (has_a && !has_b && PyFloat_CheckExact(right)) {
        has_b = bound_of(PyFloat_AS_DOUBLE(right), &operation, &b);
    }
    if (!has_a && mg_is_number(left)) {
        has_a = has_b = mg_fraction_compare(capture, left, right, &a, &b);
    }
    else if (!has_b && mg_is_number(right)) {
        has_a = has_b = mg_fraction_compare(capture, right, left, &b, &a);
    }
    if (has_a < 0) {
        return 1;
    }
    if (has_a && has_b) {
        MgRelation relation = operation == Py_EQ                         ? MG_RELATION_EQ
                              : operation == Py_NE                       ? MG_RELATION_NE
                              : operation == Py_LT || operation == Py_GT ? MG_RELATION_LT
                                                                         : MG_RELATION_LE;
        int turns = operation == Py_GT || operation == Py_GE;
        int holds = mg_facts_decide(&capture->varying.facts, relation, turns ? b : a, turns ? a : b);
        *result = holds < 0 ? NULL : PyBool_FromLong(holds);
        return 1;
    }
    if (mg_real_compare(capture, operation, left, right, result)) {
        return 1;
    }
    *result = with_values(capture, left, right, comparisons[operation]);
    return 1;
}

/* The ints of a container that compares in no way of its own: how many; -1 if they are too many, or there is something else. */
static int
read_ints(PyObject *container, MgDim *ints, int most)
{
    if (!PyTuple_CheckExact(container) && !PyAnySet_CheckExact(container) && !PyDict_CheckExact(container)) {
        return -1;
    }
    PyObject *items = PyObject_Size(container) > most ? NULL : PySequence_Tuple(container);
    int count = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; count >= 0 && i < PyTuple_GET_SIZE(items); i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (PyLong_CheckExact(item) && read_operand(item, &ints[count])) {
            count++;
        }
        else if (!PyUnicode_CheckExact(item) && item != Py_None) {
            count = -1;
        }
    }
    Py_XDECREF(items);
    PyErr_Clear();
    return count;
}

/* Has the facts decide that a number is one of some ints, which it is: a product is 0. MG_OK; UNCLEAR if that is too hard. */
static int
decide_among(MgFacts *facts, MgDim number, const MgDim *ints, int count)
{
    MgDim product = mg_dim(1), difference;
    for (int i = 0; i < count; i++) {
        if (llabs(ints[i].v) > 64 || !mg_dim_sub(number, ints[i], &difference) ||
            !mg_dim_mul(product, difference, &product)) {
            return UNCLEAR;
        }
    }
    return mg_facts_decide(facts, MG_RELATION_EQ, product, mg_dim(0)) < 0 ? MG_ERR : MG_OK;
}

int
mg_number_is_in(MgCapture *capture, PyObject *number, PyObject *container)
{
    enum { MOST = 8 };
    MgFacts *facts = &capture->varying.facts;
    MgDim dim = ((MgNumber *)number)->dim, ints[MOST];
    int count = dim.e == NULL ? -1 : read_ints(container, ints, MOST), found = 0;
    if (count < 0) {
        return UNCLEAR;
    }
    for (int i = 0; i < count; i++) {
        if (mg_facts_know(facts, MG_RELATION_EQ, dim, ints[i]) == 1) {
            return 1;
        }
        found = found || ints[i].v == dim.v;
    }
    if (found) {
        int status = count == 1 ? mg_facts_specialize(facts, dim) : decide_among(facts, dim, ints, count);
        return status == MG_OK ? 1 : status;
    }
    for (int i = 0; i < count; i++) {
        if (mg_facts_decide(facts, MG_RELATION_EQ, dim, ints[i]) < 0) {
            return MG_ERR;
        }
    }
    return 0;
}

int
mg_number_unary(MgCapture *capture, MgUnary operator, PyObject *object, PyObject **result)
{
    MgNumber *number = (MgNumber *)object;
    if (!mg_number_is_backed(object)) {
        return 0;
    }
    if (operator == MG_POSITIVE) {
        *result = Py_NewRef(object);
        return 1;
    }
    if (number->dim.e != NULL) {
        MgDim negative;
        if (mg_dim_sub(mg_dim(operator == MG_INVERT ? -1 : 0), number->dim, &negative)) {
            *result = mg_number_of(capture, negative);
            return 1;
        }
    }
    else if (operator == MG_NEGATIVE) {
        PyObject *function = mg_arithmetic_function("neg");
        *result = function == NULL ? NULL : new_float(capture, function, &object, 1, PyNumber_Negative(number->value));
        return 1;
    }
    PyObject *value = mg_number_take(capture, object);
    *result = value == NULL ? NULL : operator == MG_NEGATIVE ? PyNumber_Negative(value) : PyNumber_Invert(value);
    Py_XDECREF(value);
    return 1;
}

/* min(a, b) or max(a, b) of ints. 1 with the result, 0 if it is too hard. */
static int
choose(MgCapture *capture, int is_max, PyObject *left, PyObject *right, PyObject **result)
{
    MgDim a, b, c;
    if (!read_operand(left, &a) || !read_operand(right, &b)) {
        return 0;
    }
    int known = mg_facts_know(&capture->varying.facts, MG_RELATION_LE, a, b);
    if (known <= 1) {
        *result = Py_NewRef((known == 1) == !is_max ? left : right);
        return 1;
    }
    if (!mg_dim_operate(is_max ? MG_ATOM_MAX : MG_ATOM_MIN, a, b, &c)) {
        return 0;
    }
    *result = mg_number_of(capture, c);
    return 1;
}

int
mg_number_absolute(MgCapture *capture, PyObject *object, PyObject **result)
{
    MgNumber *number = (MgNumber *)object;
    if (!mg_number_is_backed(object)) {
        return 0;
    }
    PyObject *negative;
    if (number->dim.e != NULL && mg_number_unary(capture, MG_NEGATIVE, object, &negative)) {
        int chosen = negative == NULL ? MG_ERR : choose(capture, 1, object, negative, result);
        Py_XDECREF(negative);
        if (chosen != 0) {
            *result = chosen < 0 ? NULL : *result;
            return 1;
        }
    }
    PyObject *value = mg_number_take(capture, object);
    *result = value == NULL ? NULL : PyNumber_Absolute(value);
    Py_XDECREF(value);
    return 1;
}

/* ---- calls ---- */

/* min() or max() of several ints. 1 with the result, 0 if it is too hard. */
static int
choose_among(MgCapture *capture, int is_max, PyObject *const *items, Py_ssize_t count, PyObject **result)
{
    MgDim dim;
    int varies = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!read_operand(items[i], &dim) || PyBool_Check(items[i])) {
            return 0;
        }
        varies = varies || dim.e != NULL;
    }
    PyObject *best = varies ? Py_NewRef(items[0]) : NULL;
    for (Py_ssize_t i = 1; best != NULL && i < count; i++) {
        PyObject *next = NULL;
        int chosen = choose(capture, is_max, best, items[i], &next);
        Py_DECREF(best);
        if (chosen == 0) {
            return 0;
        }
        best = next;
    }
    *result = best;
    return varies;
}

/* min() or max() of numbers, floats among them: comparisons choose, as in Python. 1 with the result, 0 if there is something
 * else. */
static int
compare_among(MgCapture *capture, int is_max, PyObject *const *items, Py_ssize_t count, PyObject **result)
{
    int any = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        int is_backed = mg_is_number(items[i]) && mg_number_is_backed(items[i]);
        if (!is_backed && !PyLong_CheckExact(items[i]) && !PyFloat_CheckExact(items[i])) {
            return 0;
        }
        any = any || is_backed;
    }
    PyObject *best = items[0];
    for (Py_ssize_t i = 1; any && best != NULL && i < count; i++) {
        PyObject *answer = NULL;
        if (!mg_number_compared(capture, is_max ? Py_GT : Py_LT, items[i], best, &answer)) {
            answer = PyObject_RichCompare(items[i], best, is_max ? Py_GT : Py_LT);
        }
        best = answer == NULL ? NULL : answer == Py_True ? items[i] : best;
        Py_XDECREF(answer);
    }
    *result = Py_XNewRef(best);
    return any;
}

/* min() or max() of two floats, or round() of one to a number of digits: a float. 1 with the result, 0 if it is none. */
static int
call_two(MgCapture *capture, PyObject *callable, int chooses, PyObject *const *args, PyObject **result)
{
    static PyObject *nearest; /* strong */
    if (nearest == NULL) {
        nearest = mg_aside_find("builtins", "round");
    }
    PyObject *a = peek(args[0]), *b = a == NULL ? NULL : peek(args[1]), *value = NULL;
    int fits = b != NULL && PyFloat_CheckExact(a) &&
               (chooses ? PyFloat_CheckExact(b) : callable == nearest && args[1] == b && PyLong_CheckExact(b));
    if (fits && !capture->graph.foreign) { /* for others torch has functions that choose in another way */
        value = PyObject_CallFunctionObjArgs(callable, a, b, NULL);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    if (value == NULL || !PyFloat_CheckExact(value) || !isfinite(PyFloat_AS_DOUBLE(value))) {
        PyErr_Clear();
        Py_XDECREF(value);
        return 0;
    }
    *result = new_float(capture, callable, args, 2, value);
    return 1;
}

/* Functions of one number that return a float: recorded as they are. */
static int
is_float_function(PyObject *callable)
{
    static const char *const names[] = {"sqrt", "log", "log2", "log10", "exp", "sin", "cos", "tanh"};
    if (!PyCFunction_Check(callable) || ((PyCFunctionObject *)callable)->m_module == NULL) {
        return 0;
    }
    PyObject *module = ((PyCFunctionObject *)callable)->m_module;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (strcmp(((PyCFunctionObject *)callable)->m_ml->ml_name, names[i]) == 0) {
            return PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "math") == 0;
        }
    }
    return 0;
}

/* A function of one number whose result is a float in this call. 1 with the result, 0 if it is none. */
static int
call_float(MgCapture *capture, PyObject *callable, PyObject *number, PyObject **result)
{
    PyObject *value = peek(number);
    Py_XSETREF(value, value == NULL ? NULL : PyObject_CallOneArg(callable, value));
    if (value == NULL || !PyFloat_CheckExact(value) || !isfinite(PyFloat_AS_DOUBLE(value))) {
        PyErr_Clear();
        Py_XDECREF(value);
        return 0;
    }
    *result = new_float(capture, callable, &number, 1, value);
    int guarded = guard_finite(capture, *result);
    if (guarded <= 0) {
        Py_CLEAR(*result);
    }
    return guarded != 0;
}

int
mg_number_called(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                 PyObject **result)
{
    static PyObject *max, *min, *absolute; /* strong */
    int first = count > 0 && mg_is_number(args[0]) && mg_number_is_backed(args[0]), any = first;
    for (Py_ssize_t i = 1; i < count; i++) {
        any = any || (mg_is_number(args[i]) && mg_number_is_backed(args[i]));
    }
    int is_list =
        count == 1 && (PyTuple_CheckExact(args[0]) || PyList_CheckExact(args[0]) || Py_IS_TYPE(args[0], mg_torch.size));
    if (kwnames != NULL || (!any && !is_list)) {
        return 0;
    }
    if (max == NULL || min == NULL || absolute == NULL) {
        absolute = mg_aside_find("builtins", "abs");
        max = mg_aside_find("builtins", "max");
        min = mg_aside_find("builtins", "min");
    }
    if (is_list) {
        Py_ssize_t size = Py_SIZE(args[0]);
        PyObject *const *items =
            PyList_Check(args[0]) ? ((PyListObject *)args[0])->ob_item : ((PyTupleObject *)args[0])->ob_item;
        return size >= 2 && (callable == max || callable == min) &&
               (choose_among(capture, callable == max, items, size, result) ||
                compare_among(capture, callable == max, items, size, result));
    }
    if (count == 1 && callable == absolute) {
        return mg_number_absolute(capture, args[0], result);
    }
    int chooses = callable == max || callable == min;
    if (count >= 2 && chooses && choose_among(capture, callable == max, args, count, result)) {
        return 1;
    }
    if (count == 2 && call_two(capture, callable, chooses, args, result)) {
        return 1;
    }
    if (count >= 2 && chooses) {
        return compare_among(capture, callable == max, args, count, result);
    }
    if (!first || count != 1) {
        return 0;
    }
    MgNumber *number = (MgNumber *)args[0];
    if (mg_fraction_called(capture, callable, args[0], result) || mg_real_called(capture, callable, args[0], result)) {
        return 1;
    }
    if (callable == (PyObject *)&PyFloat_Type && number->dim.e == NULL) {
        *result = Py_NewRef(args[0]);
        return 1;
    }
    if (callable == (PyObject *)&PyBool_Type) {
        int truth = mg_number_truth(capture, args[0]);
        *result = truth < 0 ? NULL : PyBool_FromLong(truth);
        return 1;
    }
    if (callable == (PyObject *)&PyFloat_Type || is_float_function(callable)) {
        return call_float(capture, callable, args[0], result);
    }
    return 0;
}
