/* Formulas: ints and answers that are computed from floats, evaluated anew by the guards of each call.
 *
 * Python's own functions compute them, on exact ints and floats: what they give, and where they raise, is what captured code
 * would have seen. */
#include "capture/formula.h"

enum { MOST_STEPS = 64 };

typedef enum { STEP_CONSTANT, STEP_FLOAT, STEP_INT, STEP_CALL, STEP_COMPARE } StepKind;

typedef struct {
    StepKind kind;
    int number;         /* the register, how many arguments, or which comparison */
    PyObject *object;   /* strong: a constant, or a function; or NULL */
    const MgExpr *expr; /* of an int */
} Step;

struct MgFormula {
    PyObject_HEAD
    int count, depth; /* how many steps, and what they leave on the stack */
    Step steps[MOST_STEPS];
};

static void
formula_dealloc(MgFormula *self)
{
    for (int i = 0; i < self->count; i++) {
        Py_XDECREF(self->steps[i].object);
    }
    PyObject_Free(self);
}

PyTypeObject MgFormula_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Formula",
    .tp_basicsize = sizeof(MgFormula),
    .tp_dealloc = (destructor)formula_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_formula_types_ready(void)
{
    return PyType_Ready(&MgFormula_Type) < 0 ? MG_ERR : MG_OK;
}

MgFormula *
mg_formula_new(void)
{
    MgFormula *formula = PyObject_New(MgFormula, &MgFormula_Type);
    if (formula != NULL) {
        formula->count = formula->depth = 0;
    }
    return formula;
}

/* Adds a step that takes some results off the stack and leaves one. 1, or 0 if there are too many. */
static int
add_step(MgFormula *formula, Step step, int takes)
{
    if (formula->count >= MOST_STEPS) {
        return 0;
    }
    assert(takes <= formula->depth);
    Py_XINCREF(step.object);
    formula->steps[formula->count++] = step;
    formula->depth += 1 - takes;
    return 1;
}

int
mg_formula_constant(MgFormula *formula, PyObject *number)
{
    return add_step(formula, (Step){.kind = STEP_CONSTANT, .object = number}, 0);
}

int
mg_formula_float(MgFormula *formula, MgSource *source)
{
    return add_step(formula, (Step){.kind = STEP_FLOAT, .number = source->id}, 0);
}

int
mg_formula_int(MgFormula *formula, const MgExpr *expr)
{
    return add_step(formula, (Step){.kind = STEP_INT, .expr = expr}, 0);
}

int
mg_formula_call(MgFormula *formula, PyObject *function, Py_ssize_t count)
{
    return add_step(formula, (Step){.kind = STEP_CALL, .number = (int)count, .object = function}, (int)count);
}

int
mg_formula_compare(MgFormula *formula, int operation)
{
    return add_step(formula, (Step){.kind = STEP_COMPARE, .number = operation}, 2);
}

int
mg_formula_count(const MgFormula *formula)
{
    int count = 0;
    for (int i = 0; i < formula->count; i++) {
        count += formula->steps[i].kind == STEP_FLOAT;
    }
    return count;
}

int
mg_formula_register(const MgFormula *formula, int index)
{
    for (int i = 0; i < formula->count; i++) {
        if (formula->steps[i].kind == STEP_FLOAT && index-- == 0) {
            return formula->steps[i].number;
        }
    }
    return -1;
}

/* 1 for the same number of the same type. */
static int
is_same_constant(PyObject *left, PyObject *right)
{
    if (left == right || Py_TYPE(left) != Py_TYPE(right)) {
        return left == right;
    }
    if (PyFloat_CheckExact(left)) {
        return memcmp(&PyFloat_AS_DOUBLE(left), &PyFloat_AS_DOUBLE(right), sizeof(double)) == 0;
    }
    return PyLong_CheckExact(left) && PyObject_RichCompareBool(left, right, Py_EQ) == 1;
}

int
mg_formula_same(const MgFormula *left, const MgFormula *right)
{
    int same = left->count == right->count;
    for (int i = 0; same && i < left->count; i++) {
        const Step *a = &left->steps[i], *b = &right->steps[i];
        same = a->kind == b->kind && a->number == b->number && a->expr == b->expr &&
               (a->kind == STEP_CONSTANT ? is_same_constant(a->object, b->object) : a->object == b->object);
    }
    return same;
}

int
mg_formula_compares(const MgFormula *formula)
{
    return formula->count > 0 && formula->steps[formula->count - 1].kind == STEP_COMPARE;
}

/* ---- at a call ---- */

/* What a step gives, with its arguments at the end of the stack. New; NULL with or without an exception. */
static PyObject *
run_step(const Step *step, PyObject *const *top, PyObject *const *registers, const int64_t *values)
{
    int64_t number;
    PyObject *found;
    switch (step->kind) {
        case STEP_CONSTANT:
            return Py_NewRef(step->object);
        case STEP_FLOAT:
            found = registers[step->number];
            return found != NULL && PyFloat_CheckExact(found) ? Py_NewRef(found) : NULL;
        case STEP_INT:
            return mg_expr_eval(step->expr, values, &number) ? PyLong_FromLongLong(number) : NULL;
        case STEP_CALL:
            return PyObject_Vectorcall(step->object, top - step->number, (size_t)step->number, NULL);
        default:
            return PyObject_RichCompare(top[-2], top[-1], step->number);
    }
}

int
mg_formula_run(const MgFormula *formula, PyObject *const *registers, const int64_t *values, int64_t *result)
{
    PyObject *stack[MOST_STEPS], **top = stack;
    int good = 1;
    for (int i = 0; good && i < formula->count; i++) {
        const Step *step = &formula->steps[i];
        PyObject *value = run_step(step, top, registers, values);
        int takes = step->kind == STEP_CALL ? step->number : step->kind == STEP_COMPARE ? 2 : 0;
        for (; takes > 0; takes--) {
            Py_DECREF(*--top);
        }
        good = value != NULL;
        if (good) {
            *top++ = value;
        }
    }
    int overflow = 1;
    if (good && PyLong_Check(top[-1])) {
        *result = PyLong_AsLongLongAndOverflow(top[-1], &overflow);
    }
    while (top > stack) {
        Py_DECREF(*--top);
    }
    if (!good) {
        PyErr_Clear(); /* what raises does not fit: it is captured anew, and raises there */
    }
    return !overflow;
}

/* ---- texts ---- */

/* A function of the module operator as the sign that it stands for, or NULL. */
static const char *
sign_of(PyObject *function)
{
    static const struct {
        const char *name, *sign;
    } signs[] = {{"add", "+"}, {"sub", "-"},       {"mul", "*"}, {"truediv", "/"},
                 {"mod", "%"}, {"floordiv", "//"}, {"pow", "**"}};
    const char *name = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml->ml_name : "";
    for (size_t i = 0; i < Py_ARRAY_LENGTH(signs); i++) {
        if (strcmp(name, signs[i].name) == 0) {
            return signs[i].sign;
        }
    }
    return NULL;
}

/* A call as text, given those of its arguments. New. */
static PyObject *
call_text(const Step *step, PyObject *const *args)
{
    const char *sign = step->number == 2 ? sign_of(step->object) : NULL;
    if (sign != NULL) {
        return PyUnicode_FromFormat("(%U %s %U)", args[0], sign, args[1]);
    }
    const char *name = PyType_Check(step->object)        ? ((PyTypeObject *)step->object)->tp_name
                       : PyCFunction_Check(step->object) ? ((PyCFunctionObject *)step->object)->m_ml->ml_name
                                                         : "f";
    return step->number == 2 ? PyUnicode_FromFormat("%s(%U, %U)", name, args[0], args[1])
                             : PyUnicode_FromFormat("%s(%U)", name, args[0]);
}

PyObject *
mg_formula_text(const MgFormula *formula, MgRegisterText text_of, const void *context, PyObject *names)
{
    static const char *const relations[] = {"<", "<=", "==", "!=", ">", ">="};
    PyObject *stack[MOST_STEPS], **top = stack, *text = NULL;
    for (int i = 0; i < formula->count; i++) {
        const Step *step = &formula->steps[i];
        int takes = step->kind == STEP_CALL ? step->number : step->kind == STEP_COMPARE ? 2 : 0;
        text = step->kind == STEP_CONSTANT ? PyObject_Repr(step->object)
               : step->kind == STEP_FLOAT  ? text_of(context, step->number)
               : step->kind == STEP_INT    ? mg_expr_text(step->expr, names)
               : step->kind == STEP_CALL ? call_text(step, top - takes)
                                         : PyUnicode_FromFormat("%U %s %U", top[-2], relations[step->number], top[-1]);
        for (; takes > 0; takes--) {
            Py_DECREF(*--top);
        }
        if (text == NULL) {
            break;
        }
        *top++ = text;
    }
    text = text == NULL ? NULL : Py_NewRef(text);
    while (top > stack) {
        Py_DECREF(*--top);
    }
    return text;
}
