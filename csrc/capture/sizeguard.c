/* The guard of an entry on all its symbols: what was decided on sizes and numbers that vary, as a program over their values.
 *
 * The values are read from the registers of the guard program: sizes and strides of tensors, ints, and what formulas compute
 * from floats. */
#include "capture/sizeguard.h"

#include "capture/marks.h"
#include "capture/varying.h"
#include "size/program.h"
#include "size/prune.h"
#include "size/terms.h"

typedef struct {
    int source; /* the register */
    MgVaryingKind kind;
    int index;
    int place;          /* the line that read it, in MgProgram.places */
    MgFormula *formula; /* strong: what computes it; or NULL */
} Origin;

typedef struct {
    PyObject_HEAD
    MgSizeProgram *program; /* owned */
    MgFacts facts;          /* owned: for texts */
    Origin *origins;        /* owned, by symbol */
    int count;
} MgSizeGuards;

static void
guards_dealloc(MgSizeGuards *self)
{
    mg_size_program_free(self->program);
    mg_facts_free(&self->facts);
    for (int i = 0; self->origins != NULL && i < self->count; i++) {
        Py_XDECREF((PyObject *)self->origins[i].formula);
    }
    PyMem_Free(self->origins);
    PyObject_Free(self);
}

PyTypeObject MgSizeGuards_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.SizeGuards",
    .tp_basicsize = sizeof(MgSizeGuards),
    .tp_dealloc = (destructor)guards_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_size_guards_add(MgCapture *capture)
{
    MgVaryings *varying = &capture->varying;
    int count = varying->facts.symbol_count;
    if (count == 0 || (!mg_varying_ignore_marks && mg_marks_check(capture) < 0)) {
        return count == 0 ? MG_OK : MG_ERR;
    }
    MgSizeGuards *guards = PyObject_New(MgSizeGuards, &MgSizeGuards_Type);
    if (guards == NULL) {
        return MG_ERR;
    }
    guards->facts = (MgFacts){0};
    guards->program = NULL;
    guards->count = count;
    guards->origins = PyMem_Calloc((size_t)count, sizeof(Origin));
    if (guards->origins != NULL && mg_facts_prune(&varying->facts) == MG_OK) {
        guards->program = mg_size_program_new(&varying->facts);
    }
    if (guards->program == NULL && !PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    MgSource *last = varying->origins[0].source;
    for (int i = 0; guards->program != NULL && i < count; i++) {
        const MgVarying *origin = &varying->origins[i];
        guards->origins[i] = (Origin){origin->source->id, origin->kind, origin->index, origin->place, origin->formula};
        Py_XINCREF((PyObject *)origin->formula);
        last = origin->source->id > last->id ? origin->source : last;
    }
    int status = MG_ERR;
    if (guards->program != NULL) {
        status = mg_capture_guard(capture, MG_GUARD_SIZES, last, (PyObject *)guards);
        guards->facts = varying->facts; /* the capture has no more use for them */
        guards->facts.where = NULL;
        varying->facts = (MgFacts){0};
    }
    else if (PyErr_ExceptionMatches(PyExc_OverflowError)) { /* the caller captures once more, with constants */
        PyErr_Clear();
        varying->is_too_much = 1;
        status = mg_capture_abort(capture, MG_REASON_TOO_LONG, "too many guards on sizes");
    }
    Py_DECREF(guards);
    return status;
}

/* Reads the value of a symbol; `values` has those of the symbols before it. 1, or 0 if there is none. */
static int
read_origin(const Origin *origin, PyObject *const *registers, const int64_t *values, int64_t *value)
{
    if (origin->kind == MG_VARYING_FORMULA) {
        return mg_formula_run(origin->formula, registers, values, value);
    }
    PyObject *object = registers[origin->source];
    if (object == NULL) {
        return 0;
    }
    if (origin->kind == MG_VARYING_VALUE) {
        int overflow = 1;
        *value = PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
        return !overflow;
    }
    MgTensor info;
    if (!mg_torch_is_tensor(object) || mg_torch_read(object, &info) < 0 || info.dim <= origin->index) {
        return 0;
    }
    *value = origin->kind == MG_VARYING_SIZE ? info.sizes[origin->index] : info.strides[origin->index];
    return 1;
}

/* What fails: -1 if nothing does, -2 if a value can't be read. */
static int
find_failure(const MgSizeGuards *self, PyObject *const *registers, int64_t *values)
{
    for (int i = 0; i < self->count; i++) {
        if (!read_origin(&self->origins[i], registers, values, &values[i])) {
            return -2;
        }
    }
    return mg_size_program_run(self->program, values);
}

int
mg_size_guards_hold(PyObject *guards, PyObject *const *registers)
{
    int64_t values[MG_MOST_SYMBOLS];
    return find_failure((const MgSizeGuards *)guards, registers, values) == -1;
}

MgFacts *
mg_size_guards_facts(PyObject *guards)
{
    return &((MgSizeGuards *)guards)->facts;
}

int
mg_size_guards_renew(PyObject *guards)
{
    MgSizeGuards *self = (MgSizeGuards *)guards;
    MgSizeProgram *program = mg_facts_prune(&self->facts) < 0 ? NULL : mg_size_program_new(&self->facts);
    if (program == NULL) {
        return MG_ERR;
    }
    mg_size_program_free(self->program);
    self->program = program;
    return MG_OK;
}

int
mg_size_guards_count(PyObject *guards)
{
    const MgSizeGuards *self = (const MgSizeGuards *)guards;
    int count = self->count;
    for (int i = 0; i < self->count; i++) {
        count += self->origins[i].formula == NULL ? 0 : mg_formula_count(self->origins[i].formula);
    }
    return count;
}

int
mg_size_guards_register(PyObject *guards, int index)
{
    const MgSizeGuards *self = (const MgSizeGuards *)guards;
    if (index < self->count) {
        return self->origins[index].source;
    }
    index -= self->count;
    for (int i = 0; i < self->count; i++) {
        int count = self->origins[i].formula == NULL ? 0 : mg_formula_count(self->origins[i].formula);
        if (index < count) {
            return mg_formula_register(self->origins[i].formula, index);
        }
        index -= count;
    }
    return -1;
}

/* ---- texts ---- */

/* A list of the names of all symbols. New. */
static PyObject *
symbol_names(const MgSizeGuards *self, MgRegisterText text_of, const void *context)
{
    PyObject *names = PyList_New(0);
    for (int i = 0; names != NULL && i < self->count; i++) {
        const Origin *origin = &self->origins[i];
        PyObject *base = origin->formula != NULL ? mg_formula_text(origin->formula, text_of, context, names)
                                                 : text_of(context, origin->source);
        PyObject *name = base == NULL                      ? NULL
                         : origin->kind == MG_VARYING_SIZE ? PyUnicode_FromFormat("%U.size()[%d]", base, origin->index)
                         : origin->kind == MG_VARYING_STRIDE
                             ? PyUnicode_FromFormat("%U.stride()[%d]", base, origin->index)
                             : Py_NewRef(base);
        Py_XDECREF(base);
        if (name == NULL || PyList_Append(names, name) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

PyObject *
mg_size_guards_formula(PyObject *guards, int symbol, MgRegisterText text_of, const void *context)
{
    PyObject *names = symbol_names((const MgSizeGuards *)guards, text_of, context);
    PyObject *text = names == NULL ? NULL : Py_NewRef(PyList_GET_ITEM(names, symbol));
    Py_XDECREF(names);
    return text;
}

PyObject *
mg_size_guards_origins(PyObject *guards)
{
    const MgSizeGuards *self = (const MgSizeGuards *)guards;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < self->count; i++) {
        const Origin *origin = &self->origins[i];
        PyObject *item = Py_BuildValue("(iii)", origin->source, (int)origin->kind, origin->index);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

/* The range of a symbol, or a guard, as a text. New; None for a range that says nothing. */
static PyObject *
one_text(const MgSizeGuards *self, PyObject *names, int number)
{
    static const char *const relations[] = {
        [MG_RELATION_EQ] = "==", [MG_RELATION_NE] = "!=", [MG_RELATION_LT] = "<", [MG_RELATION_LE] = "<="};
    if (number < self->count) {
        MgRange range = self->facts.symbols[number].given;
        PyObject *name = PyList_GET_ITEM(names, number);
        return range.low != INT64_MIN && range.high != INT64_MAX
                   ? PyUnicode_FromFormat("%lld <= %U <= %lld", (long long)range.low, name, (long long)range.high)
               : range.low != INT64_MIN ? PyUnicode_FromFormat("%lld <= %U", (long long)range.low, name)
                                        : Py_NewRef(Py_None);
    }
    const MgSizeGuard *guard = &self->facts.guards[number - self->count];
    int answer = mg_facts_symbol_of(guard);
    if (answer >= 0 && self->origins[answer].formula != NULL && mg_formula_compares(self->origins[answer].formula)) {
        PyObject *name = PyList_GET_ITEM(names, answer);
        return self->facts.hints[answer] ? Py_NewRef(name) : PyUnicode_FromFormat("not (%U)", name);
    }
    const MgExpr *left = mg_dim_expr(guard->left), *right = mg_dim_expr(guard->right);
    PyObject *a = left == NULL ? NULL : mg_expr_text(left, names);
    PyObject *b = right == NULL ? NULL : mg_expr_text(right, names);
    PyObject *text = a == NULL || b == NULL ? NULL : PyUnicode_FromFormat("%U %s %U", a, relations[guard->relation], b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return text;
}

/* Notes the symbols in an expression: `seen` has a byte for each. */
static void
find_symbols(const MgExpr *expr, uint8_t *seen, int level)
{
    for (int i = 0; expr != NULL && level < MG_MOST_LEVELS && i < mg_expr_count(expr); i++) {
        const MgProduct *product = expr->terms[i].product;
        for (int k = 0; k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            if (atom->kind == MG_ATOM_SYMBOL) {
                seen[atom->symbol] = 1;
            }
            else {
                find_symbols(atom->left, seen, level + 1);
                find_symbols(atom->right, seen, level + 1);
            }
        }
    }
}

/* A text with the floats behind it that a formula looks at: "rate > 0.5, but rate is 0.25". `text` is stolen. New. */
static PyObject *
add_floats(PyObject *text, const MgFormula *formula, PyObject *const *registers, MgRegisterText text_of,
           const void *context)
{
    for (int i = 0; text != NULL && i < mg_formula_count(formula) && i < 4; i++) {
        int id = mg_formula_register(formula, i);
        PyObject *name = registers[id] == NULL ? NULL : text_of(context, id);
        Py_SETREF(text, name == NULL ? NULL
                                     : PyUnicode_FromFormat("%U%s%U is %R", text, i == 0 ? ", but " : " and ", name,
                                                            registers[id]));
        Py_XDECREF(name);
    }
    return text;
}

/* What fails, and which values it has: "x.size()[0] == 4, but it is 5". New. */
static PyObject *
failure_text(const MgSizeGuards *self, PyObject *names, int number, const int64_t *values)
{
    PyObject *text = one_text(self, names, number);
    uint8_t seen[MG_MOST_SYMBOLS] = {0};
    int count = 0, shown = 0;
    if (number < self->count) {
        seen[number] = 1;
    }
    else {
        const MgSizeGuard *guard = &self->facts.guards[number - self->count];
        find_symbols(guard->left.e, seen, 0);
        find_symbols(guard->right.e, seen, 0);
    }
    for (int i = 0; i < self->count; i++) {
        count += seen[i];
    }
    for (int i = 0; text != NULL && i < self->count && shown < 4; i++) {
        if (!seen[i]) {
            continue;
        }
        PyObject *name = PyList_GET_ITEM(names, i);
        int is_it = count == 1 && PyUnicode_Tailmatch(text, name, 0, PY_SSIZE_T_MAX, -1) == 1;
        Py_SETREF(text, number < self->count || is_it
                            ? PyUnicode_FromFormat("%U, but it is %lld", text, (long long)values[i])
                            : PyUnicode_FromFormat("%U%s%U is %lld", text, shown == 0 ? ", but " : " and ", name,
                                                   (long long)values[i]));
        shown++;
    }
    return text;
}

int
mg_size_guards_place(PyObject *guards, PyObject *const *registers)
{
    const MgSizeGuards *self = (const MgSizeGuards *)guards;
    int64_t values[MG_MOST_SYMBOLS];
    int failed = find_failure(self, registers, values);
    return failed < 0             ? -1
           : failed < self->count ? self->origins[failed].place
                                  : self->facts.guards[failed - self->count].place;
}

PyObject *
mg_size_guards_text(PyObject *guards, PyObject *const *registers, MgRegisterText text_of, const void *context)
{
    const MgSizeGuards *self = (const MgSizeGuards *)guards;
    int64_t values[MG_MOST_SYMBOLS];
    int failed = registers == NULL ? -1 : find_failure(self, registers, values);
    PyObject *names = symbol_names(self, text_of, context);
    if (names == NULL || failed >= 0) {
        int about =
            names == NULL || failed < self->count ? -1 : mg_facts_symbol_of(&self->facts.guards[failed - self->count]);
        const MgFormula *formula = about < 0 ? NULL : self->origins[about].formula;
        PyObject *text = names == NULL ? NULL
                         : formula != NULL
                             ? add_floats(one_text(self, names, failed), formula, registers, text_of, context)
                             : failure_text(self, names, failed, values);
        Py_XDECREF(names);
        return text;
    }
    PyObject *text = PyUnicode_FromString("");
    for (int i = 0; text != NULL && i < self->count + self->facts.guard_count; i++) {
        PyObject *one = one_text(self, names, i);
        if (one != Py_None) {
            const char *sign = PyUnicode_GET_LENGTH(text) == 0 ? "" : " and ";
            Py_SETREF(text, one == NULL ? NULL : PyUnicode_FromFormat("%U%s%U", text, sign, one));
        }
        Py_XDECREF(one);
    }
    if (text != NULL && PyUnicode_GET_LENGTH(text) == 0) { /* ints of any value */
        PyObject *comma = PyUnicode_FromString(", "), *all = comma == NULL ? NULL : PyUnicode_Join(comma, names);
        Py_SETREF(text, all == NULL ? NULL : PyUnicode_FromFormat("%U may vary", all));
        Py_XDECREF(comma);
        Py_XDECREF(all);
    }
    Py_DECREF(names);
    return text;
}
