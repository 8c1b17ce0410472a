/* What users say about the sizes of single tensors.
 *
 * torch's functions and ours note marks as attributes of the tensor (`_dynamo_dynamic_indices`, ...). They say which entry is
 * made, not whether one fits. */
#include "capture/marks.h"

#include "cpython/aside.h"

enum { MOST = 8 };

/* The dimensions in a set, as bits. */
static uint8_t
bits_of(PyObject *dict, const char *name)
{
    PyObject *set = mg_dict_get(dict, name), *item;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    uint8_t bits = 0;
    while (set != NULL && PyAnySet_Check(set) && _PySet_NextEntry(set, &position, &item, &hash)) {
        long index = PyLong_CheckExact(item) ? PyLong_AsLong(item) : -1;
        bits |= (uint8_t)(index >= 0 && index < MOST ? 1 << index : 0);
    }
    return bits;
}

/* An int attribute of an object, or `otherwise` if it is None or something else. */
static int64_t
int_of(PyObject *object, PyObject *name, int64_t otherwise)
{
    PyObject *value = mg_aside_getattr(object, name);
    int overflow = 1;
    int64_t number =
        value != NULL && PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : otherwise;
    mg_error_clear();
    Py_XDECREF(value);
    return overflow ? otherwise : number;
}

/* Reads the bounds in a set of objects with `dim`, `min` and `max`. */
static int
read_ranges(PyObject *set, MgMarks *marks)
{
    PyObject *list = PyAnySet_Check(set) ? PySequence_List(set) : PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        int64_t index = int_of(item, MG_STRING("dim"), -1);
        MgRange range = {int_of(item, MG_STRING("min"), INT64_MIN), int_of(item, MG_STRING("max"), INT64_MAX)};
        if (index >= 0 && index < MOST && (range.low != INT64_MIN || range.high != INT64_MAX)) {
            marks->ranged |= (uint8_t)(1 << index);
            marks->ranges[index] = range;
        }
    }
    Py_XDECREF(list);
    return list == NULL ? MG_ERR : 1;
}

int
mg_marks_read(PyObject *tensor, MgMarks *marks)
{
    PyObject **slot = _PyObject_GetDictPtr(tensor), *dict = slot == NULL ? NULL : *slot;
    *marks = (MgMarks){0};
    if (dict == NULL || PyDict_GetItemWithError(dict, MG_STRING("_has_dynamo_dim_marking")) == NULL) {
        return 0;
    }
    marks->dynamic = bits_of(dict, "_dynamo_dynamic_indices") | bits_of(dict, "_dynamo_strict_unbacked_indices");
    marks->weak = bits_of(dict, "_dynamo_weak_dynamic_indices") | bits_of(dict, "_dynamo_unbacked_indices");
    marks->fixed = bits_of(dict, "_dynamo_static_indices") & (uint8_t)~(marks->dynamic | marks->weak);
    PyObject *ranges = marks->dynamic != 0 ? mg_dict_get(dict, "_dynamo_dynamic_range") : NULL;
    return ranges == NULL ? 1 : read_ranges(ranges, marks);
}

/* Ends the capture with torch's error for marks that do not hold, which goes to the caller. `text` is stolen. MG_ERR. */
static int
raise_violation(MgCapture *capture, PyObject *text)
{
    PyObject *type =
        text == NULL ? NULL : mg_aside_find("torch.fx.experimental.symbolic_shapes", "ConstraintViolationError");
    PyObject *error = type == NULL ? NULL : PyObject_CallOneArg(type, text);
    Py_XDECREF(type);
    Py_XDECREF(text);
    if (error == NULL) {
        return MG_ERR;
    }
    Py_XSETREF(capture->interrupt, error);
    return mg_capture_abort(capture, MG_REASON_EXCEPTION, NULL);
}

int
mg_marks_outside(MgCapture *capture, int64_t value, MgRange range)
{
    PyObject *high =
        range.high == INT64_MAX ? PyUnicode_FromString("int_oo") : PyUnicode_FromFormat("%lld", (long long)range.high);
    PyObject *text = high == NULL ? NULL
                                  : PyUnicode_FromFormat("%lld not in range [%lld, %U]", (long long)value,
                                                         (long long)(range.low == INT64_MIN ? 0 : range.low), high);
    Py_XDECREF(high);
    return raise_violation(capture, text);
}

/* A guard on one size as a text, by the name of the size. New. */
static PyObject *
guard_text(const MgFacts *facts, const MgSizeGuard *guard, int symbol, PyObject *name)
{
    static const char *const relations[] = {
        [MG_RELATION_EQ] = "==", [MG_RELATION_NE] = "!=", [MG_RELATION_LT] = "<", [MG_RELATION_LE] = "<="};
    PyObject *names = PyList_New(facts->symbol_count);
    for (int i = 0; names != NULL && i < facts->symbol_count; i++) {
        PyList_SET_ITEM(names, i, Py_NewRef(i == symbol ? name : Py_None));
    }
    const MgExpr *left = mg_dim_expr(guard->left), *right = mg_dim_expr(guard->right);
    PyObject *a = names == NULL || left == NULL ? NULL : mg_expr_text(left, names);
    PyObject *b = a == NULL || right == NULL ? NULL : mg_expr_text(right, names);
    PyObject *text = b == NULL ? NULL : PyUnicode_FromFormat("%U %s %U.", a, relations[guard->relation], b);
    Py_XDECREF(names);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return text;
}

/* The guard that a marked size with bounds must not have, as a text: any that is about it alone. New; NULL without an exception
 * if there is none. */
static PyObject *
narrowing_text(const MgFacts *facts, int symbol, MgRange range, PyObject *name)
{
    MgRange given = facts->symbols[symbol].given;
    if (range.low > given.low || range.high < given.high) {
        return PyUnicode_FromFormat("%lld <= %U and %U <= %lld", (long long)range.low, name, name,
                                    (long long)range.high);
    }
    for (int i = 0; i < facts->guard_count; i++) {
        if (mg_facts_symbol_of(&facts->guards[i]) == symbol) {
            return guard_text(facts, &facts->guards[i], symbol, name);
        }
    }
    return NULL;
}

/* The line that took a marked size for a constant, as torch shows it; "" if it is not known. New. */
static PyObject *
stack_text(MgCapture *capture, int symbol)
{
    const MgFacts *facts = &capture->varying.facts;
    int place = -1;
    for (int i = 0; place < 0 && i < facts->guard_count; i++) {
        int is_it = facts->guards[i].relation == MG_RELATION_EQ && mg_facts_symbol_of(&facts->guards[i]) == symbol;
        place = is_it ? facts->guards[i].place : -1;
    }
    if (place < 0 || capture->reads.places[place].code == NULL) {
        return PyUnicode_FromString("");
    }
    PyObject *offset = PyLong_FromLong(capture->reads.places[place].offset);
    PyObject *format = offset == NULL ? NULL : mg_aside_find("magneto._stack", "user_stack");
    PyObject *args[] = {(PyObject *)capture->reads.places[place].code, offset};
    PyObject *text = format == NULL ? NULL : mg_aside_ask(format, args, 2);
    Py_XDECREF(offset);
    Py_XDECREF(format);
    return text;
}

/* What is wrong with a marked size, as a text; NULL without an exception if nothing is. */
static PyObject *
violation_text(MgCapture *capture, int symbol)
{
    const MgVarying *origin = &capture->varying.origins[symbol];
    const MgFacts *facts = &capture->varying.facts;
    MgDim dim;
    if (!origin->is_marked || !mg_dim_symbol(symbol, facts->hints[symbol], &dim)) {
        return NULL;
    }
    PyObject *base = mg_source_text(origin->source);
    PyObject *name = base == NULL ? NULL : PyUnicode_FromFormat("%U.size()[%d]", base, origin->index);
    Py_XDECREF(base);
    if (name == NULL) {
        return NULL;
    }
    MgRange range = mg_facts_range(facts, dim), given = facts->symbols[symbol].given;
    int is_constant = mg_facts_simplify(facts, dim).e == NULL || range.low == range.high;
    PyObject *guard = is_constant || !origin->is_ranged ? NULL : narrowing_text(facts, symbol, range, name);
    PyObject *bounds =
        guard == NULL   ? NULL
        : given.low > 2 ? PyUnicode_FromFormat("%lld <= %U <= %lld", (long long)given.low, name, (long long)given.high)
                        : PyUnicode_FromFormat("%U <= %lld", name, (long long)given.high);
    PyObject *stack = is_constant ? stack_text(capture, symbol) : NULL;
    PyObject *text =
        is_constant ? stack == NULL
                          ? NULL
                          : PyUnicode_FromFormat(
                                "Constraints violated (%U)! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
                                "  - You marked %U as dynamic but your code specialized it to be a constant (%lld). If "
                                "you're using "
                                "mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using "
                                "Dim.DYNAMIC, replace it "
                                "with either Dim.STATIC or Dim.AUTO.%U\n",
                                name, name, (long long)dim.v, stack)
        : bounds != NULL
            ? PyUnicode_FromFormat(
                  "Constraints violated (%U)! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
                  "  - Not all values of %U = %U in the specified range %U satisfy the generated guard %U\n",
                  name, name, name, bounds, guard)
            : NULL;
    Py_XDECREF(stack);
    Py_XDECREF(bounds);
    Py_XDECREF(guard);
    Py_DECREF(name);
    return text;
}

int
mg_marks_check(MgCapture *capture)
{
    for (int i = 0; i < capture->varying.facts.symbol_count; i++) {
        PyObject *text = violation_text(capture, i);
        if (text != NULL) {
            return raise_violation(capture, text);
        }
        if (PyErr_Occurred()) {
            return MG_ERR;
        }
    }
    return MG_OK;
}
