/* Expressions as Python values. */
#include "size/tree.h"

#include "size/terms.h"

enum { SUM = -1, DIFFERENCE = -2, PRODUCT = -3 };

static const struct {
    const char *text;
    int code; /* an MgAtomKind, or one of those above */
} operators[] = {
    {"+", SUM},         {"-", DIFFERENCE},    {"*", PRODUCT},       {"//", MG_ATOM_FLOORDIV},
    {"%", MG_ATOM_MOD}, {"min", MG_ATOM_MIN}, {"max", MG_ATOM_MAX}, {"**", MG_ATOM_POW},
    {"&", MG_ATOM_AND}, {"|", MG_ATOM_OR},    {"^", MG_ATOM_XOR},
};

static const char *const relations[] = {
    [MG_RELATION_EQ] = "==", [MG_RELATION_NE] = "!=", [MG_RELATION_LT] = "<", [MG_RELATION_LE] = "<="};

int
mg_relation_of(PyObject *name)
{
    for (int i = 0; PyUnicode_Check(name) && i < (int)Py_ARRAY_LENGTH(relations); i++) {
        if (PyUnicode_CompareWithASCIIString(name, relations[i]) == 0) {
            return i;
        }
    }
    return -1;
}

const char *
mg_relation_name(MgRelation relation)
{
    return relations[relation];
}

/* ---- expression to tree ---- */

/* An operator with its operands, which are stolen. New. */
static PyObject *
join(int code, PyObject *left, PyObject *right)
{
    const char *text = NULL;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(operators); i++) {
        text = operators[i].code == code ? operators[i].text : text;
    }
    PyObject *result = left == NULL || right == NULL ? NULL : Py_BuildValue("(sOO)", text, left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return result;
}

static PyObject *
tree_of_atom(const MgAtom *atom)
{
    return atom->kind == MG_ATOM_SYMBOL ? PyUnicode_FromFormat("s%lld", (long long)atom->symbol)
                                        : join((int)atom->kind, mg_tree_of(atom->left), mg_tree_of(atom->right));
}

/* The tree of a term without its coefficient; NULL without an exception for 1. New. */
static PyObject *
tree_of_product(const MgProduct *product)
{
    PyObject *tree = NULL;
    for (int i = 0; i < mg_product_count(product); i++) {
        for (int64_t power = 0; power < product->factors[i].power; power++) {
            PyObject *atom = tree_of_atom(product->factors[i].atom);
            tree = tree == NULL ? atom : join(PRODUCT, tree, atom);
            if (tree == NULL) {
                return NULL;
            }
        }
    }
    return tree;
}

PyObject *
mg_tree_of(const MgExpr *expr)
{
    PyObject *tree = NULL;
    for (int i = 0; i < mg_expr_count(expr); i++) {
        const MgTerm *term = &expr->terms[i];
        PyObject *part = tree_of_product(term->product);
        if (part == NULL && PyErr_Occurred()) {
            Py_XDECREF(tree);
            return NULL;
        }
        if (part == NULL || term->coefficient != 1) {
            PyObject *factor = PyLong_FromLongLong(term->coefficient);
            part = part == NULL ? factor : join(PRODUCT, factor, part);
        }
        tree = tree == NULL ? part : join(SUM, tree, part);
        if (tree == NULL) {
            return NULL;
        }
    }
    return tree == NULL ? PyLong_FromLong(0) : tree;
}

/* ---- tree to expression ---- */

/* The size that `code` makes of two others: 1, 0 if it is too hard, or MG_ERR. */
static int
operate(MgFacts *facts, int code, int decides, MgDim a, MgDim b, MgDim *result)
{
    if (code < 0) {
        return code == SUM          ? mg_dim_add(a, b, result)
               : code == DIFFERENCE ? mg_dim_sub(a, b, result)
                                    : mg_dim_mul(a, b, result);
    }
    if (decides && (code == MG_ATOM_FLOORDIV || code == MG_ATOM_MOD)) {
        int zero = mg_facts_decide(facts, MG_RELATION_EQ, b, mg_dim(0));
        if (zero != 0) {
            return zero < 0 ? MG_ERR : 0;
        }
    }
    if (decides && code == MG_ATOM_POW) {
        int negative = mg_facts_decide(facts, MG_RELATION_LT, b, mg_dim(0));
        if (negative != 0) {
            return negative < 0 ? MG_ERR : 0;
        }
    }
    return mg_dim_operate((MgAtomKind)code, a, b, result);
}

/* The size of a symbol's name: 1 or MG_ERR. */
static int
read_symbol(const MgFacts *facts, PyObject *name, MgDim *result)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) {
        return MG_ERR;
    }
    char *end = NULL;
    long symbol = text[0] == 's' && text[1] != '\0' ? strtol(text + 1, &end, 10) : -1;
    if (symbol < 0 || symbol >= facts->symbol_count || *end != '\0') {
        PyErr_Format(PyExc_ValueError, "no symbol: %U", name);
        return MG_ERR;
    }
    return mg_dim_symbol((int)symbol, facts->hints[symbol], result);
}

int
mg_tree_read(MgFacts *facts, PyObject *tree, int decides, MgDim *result)
{
    if (PyLong_Check(tree)) {
        int overflow = 0;
        *result = mg_dim(PyLong_AsLongLongAndOverflow(tree, &overflow));
        return !overflow;
    }
    if (PyUnicode_Check(tree)) {
        return read_symbol(facts, tree, result);
    }
    const char *text;
    PyObject *first, *second;
    MgDim a, b;
    if (!PyTuple_Check(tree) || !PyArg_ParseTuple(tree, "sOO", &text, &first, &second)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a size is an int, the name of a symbol, or a tuple");
        }
        return MG_ERR;
    }
    if (Py_EnterRecursiveCall(" in a size")) {
        return MG_ERR;
    }
    int status = mg_tree_read(facts, first, decides, &a);
    status = status == 1 ? mg_tree_read(facts, second, decides, &b) : status;
    Py_LeaveRecursiveCall();
    for (size_t i = 0; status == 1 && i < Py_ARRAY_LENGTH(operators); i++) {
        if (strcmp(operators[i].text, text) == 0) {
            return operate(facts, operators[i].code, decides, a, b, result);
        }
    }
    if (status == 1) {
        PyErr_Format(PyExc_ValueError, "no operator of sizes: %s", text);
    }
    return status == 1 ? MG_ERR : status;
}
