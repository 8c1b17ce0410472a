/* Floats that are an int divided by a constant: what rounds them, or compares them, is computed and decided with ints.
 *
 * `n / 3` and `n * 0.75` are such ones. Their doubles are rounded, but with numerators of at most 2**52 and small divisors no
 * whole number, and no short fraction, lies between a quotient and its double. So floor(n / 3) is n // 3 at each call. */
#include "record/fraction.h"

#include "cpython/aside.h"
#include "record/arithmetic.h"
#include "record/number.h"

#include <math.h>

enum { MOST_BITS = 20 };
static const int64_t most = (int64_t)1 << 52;

/* A finite double as `*above / 2**bits`, both small. 1, or 0 if it is none. */
static int
read_dyadic(double value, int64_t *above, int64_t *below)
{
    *below = 1;
    for (int bits = 0; bits <= MOST_BITS; bits++, value *= 2, *below *= 2) {
        if (fabs(value) > (double)((int64_t)1 << 2 * MOST_BITS)) {
            return 0;
        }
        if (value == floor(value)) {
            *above = (int64_t)value;
            return 1;
        }
    }
    return 0;
}

/* An int that varies, or a plain one. */
static int
read_int(PyObject *value, MgDim *dim)
{
    int overflow = 1;
    *dim = mg_is_number(value) ? ((MgNumber *)value)->dim
                               : mg_dim(PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0);
    return mg_is_number(value) ? dim->e != NULL : !overflow;
}

int
mg_fraction_read(MgCapture *capture, PyObject *value, MgFraction *fraction)
{
    const MgNumber *number = (const MgNumber *)value;
    PyObject *parts = mg_is_number(value) && number->dim.e == NULL ? number->parts : NULL;
    if (parts == NULL || number->node < 0) {
        return 0;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(parts);
    PyObject *target = capture->graph.nodes[number->node].target;
    PyObject *left = count > 0 ? PyTuple_GET_ITEM(parts, 0) : NULL,
             *right = count > 1 ? PyTuple_GET_ITEM(parts, 1) : NULL;
    MgDim by;
    int64_t above;
    *fraction = (MgFraction){mg_dim(0), 0};
    if (count == 1 && target == (PyObject *)&PyFloat_Type && read_int(left, &fraction->above)) {
        fraction->below = 1;
    }
    else if (count == 2 && target == mg_arithmetic_function("truediv") && read_int(left, &fraction->above) &&
             read_int(right, &by) && by.e == NULL && by.v > 0 && by.v < (int64_t)1 << MOST_BITS) {
        fraction->below = by.v;
    }
    else if (count == 2 && target == mg_arithmetic_function("mul")) {
        PyObject *constant = PyFloat_CheckExact(left) ? left : right, *other = constant == left ? right : left;
        int64_t below;
        if (PyFloat_CheckExact(constant) && read_int(other, &by) &&
            read_dyadic(PyFloat_AS_DOUBLE(constant), &above, &below) && above != 0 &&
            mg_dim_mul(by, mg_dim(above), &fraction->above)) {
            fraction->below = below;
        }
    }
    if (PyErr_Occurred()) {
        return MG_ERR;
    }
    if (fraction->below == 0 || fraction->above.e == NULL || fraction->above.v > most || fraction->above.v < -most) {
        return 0;
    }
    int low = mg_facts_decide(&capture->varying.facts, MG_RELATION_LE, mg_dim(-most), fraction->above);
    int high = low <= 0 ? low : mg_facts_decide(&capture->varying.facts, MG_RELATION_LE, fraction->above, mg_dim(most));
    return high;
}

int
mg_fraction_compare(MgCapture *capture, PyObject *value, PyObject *other, MgDim *left, MgDim *right)
{
    MgFraction fraction;
    int64_t above = 0, below = 1;
    MgDim bound;
    int is_float = PyFloat_CheckExact(other) && isfinite(PyFloat_AS_DOUBLE(other)) &&
                   read_dyadic(PyFloat_AS_DOUBLE(other), &above, &below);
    if (!is_float && !read_int(other, &bound)) {
        return 0;
    }
    bound = is_float ? mg_dim(above) : bound;
    int found = mg_fraction_read(capture, value, &fraction);
    return found <= 0
               ? found
               : mg_dim_mul(fraction.above, mg_dim(below), left) && mg_dim_mul(bound, mg_dim(fraction.below), right);
}

/* floor, or ceil. 1, or 0 if that is too hard. */
static int
divide(MgFraction fraction, int is_ceil, MgDim *result)
{
    MgDim zero = mg_dim(0), below = mg_dim(fraction.below);
    return is_ceil ? mg_dim_sub(zero, fraction.above, result) &&
                         mg_dim_operate(MG_ATOM_FLOORDIV, *result, below, result) && mg_dim_sub(zero, *result, result)
                   : mg_dim_operate(MG_ATOM_FLOORDIV, fraction.above, below, result);
}

/* The nearest int; what lies between two is left to the value. 1, 0 or MG_ERR. */
static int
round_nearest(MgCapture *capture, MgFraction fraction, MgDim *result)
{
    MgDim twice, rest, below = mg_dim(2 * fraction.below);
    if (!mg_dim_mul(fraction.above, mg_dim(2), &twice) || !mg_dim_add(twice, mg_dim(fraction.below), &twice) ||
        !mg_dim_operate(MG_ATOM_MOD, twice, below, &rest)) {
        return 0;
    }
    int tie = mg_facts_decide(&capture->varying.facts, MG_RELATION_EQ, rest, mg_dim(0));
    return tie != 0 ? (tie < 0 ? MG_ERR : 0) : mg_dim_operate(MG_ATOM_FLOORDIV, twice, below, result);
}

int
mg_fraction_called(MgCapture *capture, PyObject *callable, PyObject *number, PyObject **result)
{
    static PyObject *lower, *upper, *cut, *nearest; /* strong */
    if (nearest == NULL) {
        lower = mg_aside_find("math", "floor");
        upper = mg_aside_find("math", "ceil");
        cut = mg_aside_find("math", "trunc");
        nearest = mg_aside_find("builtins", "round");
    }
    int is_cut = callable == cut || callable == (PyObject *)&PyLong_Type;
    if (callable != lower && callable != upper && callable != nearest && !is_cut) {
        return 0;
    }
    if (((MgNumber *)number)->dim.e != NULL) { /* an int is one already */
        *result = Py_NewRef(number);
        return 1;
    }
    MgFraction fraction;
    MgDim dim;
    int status = mg_fraction_read(capture, number, &fraction), is_ceil = callable == upper;
    if (status > 0 && is_cut) {
        is_ceil = mg_facts_decide(&capture->varying.facts, MG_RELATION_LT, fraction.above, mg_dim(0));
        status = is_ceil < 0 ? MG_ERR : 1;
    }
    if (status > 0) {
        status = callable == nearest ? round_nearest(capture, fraction, &dim) : divide(fraction, is_ceil, &dim);
    }
    *result = status > 0 ? mg_number_of(capture, dim) : NULL;
    return status != 0;
}
