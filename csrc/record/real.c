/* Floats that vary: compared and rounded without taking their values.
 *
 * What decides is a formula (capture/formula.h) over the floats and ints that a float was computed from. What it gives is a
 * symbol: of a comparison its value is guarded, a rounded float is an int that varies. */
#include "record/real.h"

#include "capture/varying.h"
#include "cpython/aside.h"
#include "ir/dimobject.h"
#include "record/number.h"
#include "record/record.h"
#include "size/terms.h"

#include <math.h>

/* The later one of two sources. */
static MgSource *
later(MgSource *left, MgSource *right)
{
    return left == NULL || (right != NULL && right->id > left->id) ? right : left;
}

/* The last source that the symbols of an expression are found at. */
static MgSource *
last_source(const MgCapture *capture, const MgExpr *expr)
{
    MgSource *last = NULL;
    for (int i = 0; i < mg_expr_count(expr); i++) {
        const MgProduct *product = expr->terms[i].product;
        for (int k = 0; k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            last = atom->kind == MG_ATOM_SYMBOL
                       ? later(last, capture->varying.origins[atom->symbol].source)
                       : later(later(last, last_source(capture, atom->left)), last_source(capture, atom->right));
        }
    }
    return last;
}

/* Adds the steps that compute a number. 1, 0 if that is too hard, or MG_ERR. `last` becomes the last source that they look at. */
static int
add_number(MgCapture *capture, MgFormula *formula, PyObject *value, MgSource **last)
{
    if (!mg_is_number(value)) {
        return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value)
                   ? mg_formula_constant(formula, value)
                   : 0;
    }
    MgNumber *number = (MgNumber *)value;
    if (!mg_number_is_backed(value)) {
        return 0;
    }
    if (number->dim.e != NULL) {
        *last = later(*last, last_source(capture, number->dim.e));
        return mg_formula_int(formula, number->dim.e);
    }
    if (number->source != NULL) {
        *last = later(*last, number->source);
        return mg_formula_float(formula, number->source);
    }
    Py_ssize_t count = PyTuple_GET_SIZE(number->parts);
    PyObject *target = number->node < 0 ? NULL : capture->graph.nodes[number->node].target;
    int status = target != NULL && count > 0 && (PyCFunction_Check(target) || PyType_Check(target));
    for (Py_ssize_t i = 0; status == 1 && i < count; i++) {
        status = add_number(capture, formula, PyTuple_GET_ITEM(number->parts, i), last);
    }
    return status == 1 ? mg_formula_call(formula, target, count) : status;
}

/* 1 for a function that raises for no int above 0: a root, a logarithm, a moderate power. */
static int
is_safe(PyObject *parts, PyObject *target)
{
    static const char *const names[] = {"sqrt", "log", "log2", "log10", "sin", "cos", "tanh"};
    const char *name = PyCFunction_Check(target) ? ((PyCFunctionObject *)target)->m_ml->ml_name : "";
    if (PyTuple_GET_SIZE(parts) == 2) {
        PyObject *exponent = PyTuple_GET_ITEM(parts, 1);
        return strcmp(name, "pow") == 0 && PyFloat_CheckExact(exponent) && fabs(PyFloat_AS_DOUBLE(exponent)) <= 16;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

int
mg_real_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right, PyObject **result)
{
    MgFormula *formula = mg_formula_new();
    MgSource *last = NULL;
    MgDim answer;
    int64_t value;
    int status = formula == NULL ? MG_ERR : add_number(capture, formula, left, &last);
    status = status == 1 ? add_number(capture, formula, right, &last) : status;
    status = status == 1 ? mg_formula_compare(formula, operation) : status;
    if (status == 1) {
        status = last != NULL && mg_number_compute(operation, left, right, &value);
    }
    status = status == 1 ? mg_varying_formula(capture, formula, last, NULL, NULL, value, &answer) : status;
    if (status == 1) {
        *result = mg_facts_specialize(&capture->varying.facts, answer) < 0 ? NULL : PyBool_FromLong(value != 0);
    }
    Py_XDECREF((PyObject *)formula);
    *result = status < 0 ? NULL : *result;
    return status != 0;
}

int
mg_real_guard(MgCapture *capture, PyObject *number)
{
    static PyObject *is_finite; /* strong */
    if (is_finite == NULL && (is_finite = mg_aside_find("math", "isfinite")) == NULL) {
        return MG_ERR;
    }
    const MgFacts *facts = &capture->varying.facts;
    PyObject *parts = ((MgNumber *)number)->parts,
             *part = PyTuple_GET_SIZE(parts) > 0 ? PyTuple_GET_ITEM(parts, 0) : NULL;
    PyObject *target = capture->graph.nodes[((MgNumber *)number)->node].target;
    MgDim dim = part != NULL && mg_is_number(part) ? ((MgNumber *)part)->dim : mg_dim(0);
    if (dim.e != NULL && (target == (PyObject *)&PyFloat_Type || is_safe(parts, target)) &&
        mg_facts_know(facts, MG_RELATION_LE, mg_dim(1), dim) == 1) {
        return 1; /* a size: there is nothing to check */
    }
    MgFormula *formula = mg_formula_new();
    MgSource *last = NULL;
    MgDim answer;
    int status = formula == NULL ? MG_ERR : add_number(capture, formula, number, &last);
    status = status == 1 ? mg_formula_call(formula, is_finite, 1) : status;
    status = status == 1 && last != NULL ? mg_varying_formula(capture, formula, last, NULL, NULL, 1, &answer) : status;
    Py_XDECREF((PyObject *)formula);
    return status != 1 ? status : mg_facts_specialize(&capture->varying.facts, answer) < 0 ? MG_ERR : 1;
}

/* 1 for a function that makes an int of a float. */
static int
rounds(PyObject *callable)
{
    static PyObject *functions[4]; /* strong */
    if (functions[3] == NULL) {
        functions[0] = mg_aside_find("math", "floor");
        functions[1] = mg_aside_find("math", "ceil");
        functions[2] = mg_aside_find("math", "trunc");
        functions[3] = mg_aside_find("builtins", "round");
    }
    return callable == functions[0] || callable == functions[1] || callable == functions[2] ||
           callable == functions[3] || callable == (PyObject *)&PyLong_Type;
}

int
mg_real_called(MgCapture *capture, PyObject *callable, PyObject *object, PyObject **result)
{
    MgNumber *number = (MgNumber *)object;
    if (capture->graph.foreign || number->dim.e != NULL || number->parts == NULL || !rounds(callable)) {
        return 0; /* a ShapeEnv has no such symbols: backends get the value */
    }
    PyObject *rounded = PyObject_CallOneArg(callable, number->value);
    int overflow = 1;
    int64_t value = rounded == NULL ? 0 : PyLong_AsLongLongAndOverflow(rounded, &overflow);
    Py_XDECREF(rounded);
    if (rounded == NULL || overflow) {
        PyErr_Clear();
        return 0;
    }
    MgFormula *formula = mg_formula_new();
    MgSource *last = NULL;
    MgDim dim;
    int status = formula == NULL ? MG_ERR : add_number(capture, formula, object, &last);
    status = status == 1 ? mg_formula_call(formula, callable, 1) : status;
    status = status == 1 && last != NULL ? mg_varying_formula(capture, formula, last, object, callable, value, &dim)
                                         : status;
    Py_XDECREF((PyObject *)formula);
    *result = status == 1 ? mg_number_of(capture, dim) : NULL;
    return status != 0;
}
