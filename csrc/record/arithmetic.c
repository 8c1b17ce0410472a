/* Operators on tensors and on numbers that depend on data. */
#include "record/arithmetic.h"

#include "cpython/aside.h"
#include "record/number.h"
#include "record/record.h"

static PyObject *operators; /* strong: the module operator */

PyObject *
mg_arithmetic_function(const char *name)
{
    if (operators == NULL && (operators = mg_aside_import("operator")) == NULL) {
        return NULL;
    }
    PyObject *function = PyObject_GetAttrString(operators, name);
    Py_XDECREF(function); /* the module keeps it */
    return function;
}

PyObject *
mg_arithmetic_record(MgCapture *capture, const char *name, PyObject *const *args, Py_ssize_t count)
{
    PyObject *function = mg_arithmetic_function(name);
    return function == NULL ? NULL : mg_record_call(capture, MG_NODE_FUNCTION, function, args, count, NULL);
}

PyObject *
mg_arithmetic_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    static const char *const names[26] = {
        [NB_ADD] = "add",
        [NB_AND] = "and_",
        [NB_FLOOR_DIVIDE] = "floordiv",
        [NB_LSHIFT] = "lshift",
        [NB_MATRIX_MULTIPLY] = "matmul",
        [NB_MULTIPLY] = "mul",
        [NB_REMAINDER] = "mod",
        [NB_OR] = "or_",
        [NB_POWER] = "pow",
        [NB_RSHIFT] = "rshift",
        [NB_SUBTRACT] = "sub",
        [NB_TRUE_DIVIDE] = "truediv",
        [NB_XOR] = "xor",
        [NB_INPLACE_ADD] = "iadd",
        [NB_INPLACE_AND] = "iand",
        [NB_INPLACE_FLOOR_DIVIDE] = "ifloordiv",
        [NB_INPLACE_LSHIFT] = "ilshift",
        [NB_INPLACE_MATRIX_MULTIPLY] = "imatmul",
        [NB_INPLACE_MULTIPLY] = "imul",
        [NB_INPLACE_REMAINDER] = "imod",
        [NB_INPLACE_OR] = "ior",
        [NB_INPLACE_POWER] = "ipow",
        [NB_INPLACE_RSHIFT] = "irshift",
        [NB_INPLACE_SUBTRACT] = "isub",
        [NB_INPLACE_TRUE_DIVIDE] = "itruediv",
        [NB_INPLACE_XOR] = "ixor",
    };
    PyObject *args[2] = {left, right}, *result;
    if (mg_number_binary(capture, operation, left, right, &result)) {
        return result;
    }
    if (operation >= NB_INPLACE_ADD && !mg_is_twin(left)) { /* a number is not changed in place */
        operation -= NB_INPLACE_ADD;
    }
    return mg_arithmetic_record(capture, names[operation], args, 2);
}

PyObject *
mg_arithmetic_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    static const char *const names[6] = {"lt", "le", "eq", "ne", "gt", "ge"};
    static const int reflected[6] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
    PyObject *result;
    if (mg_number_compared(capture, operation, left, right, &result)) {
        return result;
    }
    if (!mg_is_twin(left) && mg_is_twin(right)) {
        /* a number does not know tensors: the tensor is asked, as TorchDynamo records it */
        PyObject *number = left;
        left = right;
        right = number;
        operation = reflected[operation];
    }
    PyObject *args[2] = {left, right};
    return mg_arithmetic_record(capture, names[operation], args, 2);
}

PyObject *
mg_arithmetic_unary(MgCapture *capture, MgUnary operator, PyObject *value)
{
    PyObject *result;
    if (mg_is_number(value) && mg_number_unary(capture, operator, value, &result)) {
        return result;
    }
    const char *name = operator == MG_NEGATIVE ? "neg" : operator == MG_POSITIVE ? "pos" : "invert";
    return mg_arithmetic_record(capture, name, &value, 1);
}

PyObject *
mg_arithmetic_absolute(MgCapture *capture, PyObject *value)
{
    PyObject *result;
    if (mg_is_number(value) && mg_number_absolute(capture, value, &result)) {
        return result;
    }
    return mg_arithmetic_record(capture, "abs", &value, 1);
}

PyObject *
mg_arithmetic_check(MgCapture *capture, PyObject *target, PyObject *condition, PyObject *message)
{
    int before = capture->graph.node_count;
    PyObject *result = mg_record_call(capture, MG_NODE_FUNCTION, target, &condition, 1, NULL);
    if (result != NULL && message != NULL && capture->graph.node_count > before) { /* called when the check fails */
        MgNode *node = &capture->graph.nodes[capture->graph.node_count - 1];
        Py_SETREF(node->args, Py_BuildValue("(OO)", PyTuple_GET_ITEM(node->args, 0), message));
        if (node->args == NULL) {
            Py_CLEAR(result);
        }
    }
    return result;
}
