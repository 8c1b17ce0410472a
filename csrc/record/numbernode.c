/* Nodes of numbers that vary: made of an expression where an operation takes it, or where it outlives the capture.
 *
 * The symbols in it are inputs of the graph, or floats that are rounded. A node is made once for each expression, and once more
 * if it has gone into a subgraph. */
#include "cpython/aside.h"
#include "ir/dimobject.h"
#include "record/arguments.h"
#include "record/arithmetic.h"
#include "record/number.h"
#include "record/record.h"
#include "size/terms.h"

static int expression_node(MgCapture *capture, const MgExpr *expr);

/* A node that calls a function of the module operator on nodes and numbers, `left` and `right` (stolen). -1 on error. */
static int
operator_node(MgCapture *capture, const char *name, PyObject *left, PyObject *right, PyObject *value)
{
    PyObject *function = left == NULL || right == NULL ? NULL : mg_arithmetic_function(name);
    PyObject *args = function == NULL ? NULL : PyTuple_Pack(2, left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    int node = args == NULL ? -1 : mg_record_number(capture, function, args, value);
    Py_XDECREF(args);
    return node;
}

PyObject *
mg_number_ref(MgCapture *capture, const MgExpr *expr)
{
    int count = mg_expr_count(expr);
    if (count == 0 || (count == 1 && expr->terms[0].product == NULL)) {
        return PyLong_FromLongLong(count == 0 ? 0 : expr->terms[0].coefficient);
    }
    int node = expression_node(capture, expr);
    return node < 0 ? NULL : mg_record_new_ref(node);
}

/* The node of a float that is rounded. */
static int
rounded_node(MgCapture *capture, int symbol)
{
    const MgVarying *origin = &capture->varying.origins[symbol];
    MgDim dim;
    int node = origin->operand == NULL ? -1 : mg_number_node(capture, origin->operand);
    PyObject *ref = node < 0 ? NULL : mg_record_new_ref(node), *args = ref == NULL ? NULL : PyTuple_Pack(1, ref);
    PyObject *value =
        args == NULL || !mg_dim_symbol(symbol, capture->varying.facts.hints[symbol], &dim) ? NULL : mg_dim_object(dim);
    int rounded = value == NULL ? -1 : mg_record_number(capture, origin->function, args, value);
    Py_XDECREF(ref);
    Py_XDECREF(args);
    Py_XDECREF(value);
    if (rounded < 0 && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "a number without a node");
    }
    return rounded;
}

/* The node of a symbol: an input of the graph, or what rounds a float. */
static int
symbol_node(MgCapture *capture, int symbol)
{
    const MgVarying *origin = &capture->varying.origins[symbol];
    if (origin->kind == MG_VARYING_FORMULA) {
        return rounded_node(capture, symbol);
    }
    MgSourceKind kind = origin->kind == MG_VARYING_SIZE ? MG_SOURCE_SIZE : MG_SOURCE_STRIDE;
    MgSource *source = origin->kind == MG_VARYING_VALUE
                           ? origin->source
                           : mg_source_get(&capture->reads.sources, kind, origin->source, NULL, origin->index);
    MgDim dim;
    PyObject *value = source == NULL || !mg_dim_symbol(symbol, capture->varying.facts.hints[symbol], &dim)
                          ? NULL
                          : mg_dim_object(dim);
    int node = value == NULL ? -1 : mg_record_number_input(capture, source, value);
    Py_XDECREF(value);
    return node;
}

/* The node that computes an expression or atom already; -1 if there is none, or if it has gone into a subgraph. */
static int
known_node(const MgCapture *capture, const void *what)
{
    int node = (int)(uintptr_t)mg_table_get(&capture->varying.nodes, what, NULL) - 1;
    return node >= 0 && mg_node_is_gone(&capture->graph.nodes[node]) ? -1 : node;
}

/* A reference to the node of an atom. New. */
static PyObject *
atom_ref(MgCapture *capture, const MgAtom *atom, PyObject *value)
{
    static const char *const names[] = {[MG_ATOM_FLOORDIV] = "floordiv", [MG_ATOM_MOD] = "mod", [MG_ATOM_POW] = "pow",
                                        [MG_ATOM_AND] = "and_",          [MG_ATOM_OR] = "or_",  [MG_ATOM_XOR] = "xor"};
    int known = known_node(capture, atom);
    if (known >= 0) {
        return mg_record_new_ref(known);
    }
    int node = -1;
    if (atom->kind == MG_ATOM_SYMBOL) {
        node = symbol_node(capture, (int)atom->symbol);
    }
    else {
        PyObject *left = mg_number_ref(capture, atom->left);
        PyObject *right = left == NULL ? NULL : mg_number_ref(capture, atom->right);
        if (atom->kind != MG_ATOM_MIN && atom->kind != MG_ATOM_MAX) {
            node = operator_node(capture, names[atom->kind], left, right, value);
        }
        else {
            PyObject *function = mg_aside_find("torch", atom->kind == MG_ATOM_MIN ? "sym_min" : "sym_max");
            PyObject *args = function == NULL || right == NULL ? NULL : PyTuple_Pack(2, left, right);
            node = args == NULL ? -1 : mg_record_number(capture, function, args, value);
            Py_XDECREF(args);
            Py_XDECREF(function);
            Py_XDECREF(left);
            Py_XDECREF(right);
        }
    }
    if (node < 0 || mg_table_set(&capture->varying.nodes, atom, NULL, (void *)((uintptr_t)node + 1)) < 0) {
        return NULL;
    }
    return mg_record_new_ref(node);
}

/* The value of an expression in this call, as an object for a node. New. */
static PyObject *
expression_value(MgCapture *capture, const MgExpr *expr)
{
    MgDim dim = {0, expr};
    return mg_expr_eval(expr, capture->varying.facts.hints, &dim.v) ? mg_dim_object(dim) : NULL;
}

/* A reference to the node of a product, times a positive number. New. */
static PyObject *
term_ref(MgCapture *capture, const MgProduct *product, int64_t factor, PyObject *value)
{
    PyObject *result = product == NULL || factor != 1 ? PyLong_FromLongLong(factor) : NULL;
    int is_number = result != NULL;
    for (int i = 0; i < mg_product_count(product) && (result != NULL || !is_number); i++) {
        for (int64_t power = 0; power < product->factors[i].power; power++) {
            PyObject *atom = atom_ref(capture, product->factors[i].atom, value);
            if (result == NULL && !is_number) {
                result = atom;
                is_number = 1;
            }
            else {
                int node = operator_node(capture, "mul", result, atom, value);
                result = node < 0 ? NULL : mg_record_new_ref(node);
            }
            if (result == NULL) {
                return NULL;
            }
        }
    }
    return result;
}

static int
expression_node(MgCapture *capture, const MgExpr *expr)
{
    int known = known_node(capture, expr);
    if (known >= 0) {
        return known;
    }
    PyObject *value = expression_value(capture, expr), *sum = NULL;
    int count = mg_expr_count(expr), constant = count > 0 && expr->terms[0].product == NULL;
    for (int i = 0; value != NULL && i < count; i++) {
        const MgTerm *term = &expr->terms[(i + constant) % count];                    /* the constant comes last */
        int minus = i > 0 && term->coefficient < 0 && term->coefficient != INT64_MIN; /* which has no opposite */
        PyObject *part = term_ref(capture, term->product, minus ? -term->coefficient : term->coefficient, value);
        if (i == 0) {
            sum = part;
        }
        else {
            int node = operator_node(capture, minus ? "sub" : "add", sum, part, value);
            sum = node < 0 ? NULL : mg_record_new_ref(node);
        }
        if (sum == NULL) {
            break;
        }
    }
    Py_XDECREF(value);
    int node = sum != NULL && Py_IS_TYPE(sum, &MgRef_Type) ? ((MgRef *)sum)->index : -1;
    Py_XDECREF(sum);
    if (node < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_OverflowError, "a size that is too large");
        }
        return -1;
    }
    return mg_table_set(&capture->varying.nodes, expr, NULL, (void *)((uintptr_t)node + 1)) < 0 ? -1 : node;
}

/* Makes nodes for the symbols of an expression. Adds their numbers to a list; if it is NULL, says that they are used. MG_OK or
 * MG_ERR. */
static int
bind_symbols(MgCapture *capture, const MgExpr *expr, PyObject *list)
{
    int status = MG_OK;
    for (int i = 0; status == MG_OK && i < mg_expr_count(expr); i++) {
        const MgProduct *product = expr->terms[i].product;
        for (int k = 0; status == MG_OK && k < mg_product_count(product); k++) {
            const MgAtom *atom = product->factors[k].atom;
            if (atom->kind != MG_ATOM_SYMBOL) {
                status =
                    bind_symbols(capture, atom->left, list) < 0 ? MG_ERR : bind_symbols(capture, atom->right, list);
                continue;
            }
            PyObject *ref = atom_ref(capture, atom, NULL);
            status = ref == NULL ? MG_ERR : MG_OK;
            if (ref != NULL && list == NULL) {
                capture->graph.nodes[((MgRef *)ref)->index].users++;
            }
            else if (ref != NULL) {
                PyObject *number = PyLong_FromLong(((MgRef *)ref)->index);
                status = number == NULL ? MG_ERR : PyList_Append(list, number);
                Py_XDECREF(number);
            }
            Py_XDECREF(ref);
        }
    }
    return status;
}

int
mg_number_symbols(MgCapture *capture, const MgMeta *meta, PyObject *list)
{
    int status = MG_OK;
    for (int i = 0; status == MG_OK && i < 2 * meta->dim; i++) {
        PyObject *item = PyTuple_GET_ITEM(i < meta->dim ? meta->sizes : meta->strides, i % meta->dim);
        status = mg_is_dim_object(item) ? bind_symbols(capture, ((MgDimObject *)item)->dim.e, list) : MG_OK;
    }
    return status;
}

int
mg_number_bind(MgCapture *capture, const MgMeta *meta)
{
    return mg_number_symbols(capture, meta, NULL);
}

int
mg_number_node(MgCapture *capture, PyObject *object)
{
    MgNumber *number = (MgNumber *)object;
    return number->dim.e != NULL ? expression_node(capture, number->dim.e) : number->node;
}
