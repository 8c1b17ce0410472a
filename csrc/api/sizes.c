/* The algebra of sizes, for tests. */
#include "api/sizes.h"

#include "ir/dimobject.h"
#include "size/program.h"
#include "size/prune.h"
#include "size/tree.h"

const char mg_sizes_doc[] =
    "sizes(symbols, questions, /)\n--\n\n"
    "Ask the algebra of sizes. Symbols are (value, low, high), with None for no bound; they "
    "are s0, s1, ... Questions are "
    "expressions: an int, \"s0\", or (operator, expression, expression); or relations between "
    "two: (\"==\", ...), \"!=\", "
    "\"<\", \"<=\". Return (answers, guards, ranges, fits): for an expression (value, text), or None "
    "if it is too hard; for a "
    "relation (result, whether it was known); the guards that the relations took, as texts; "
    "the ranges of the symbols; "
    "and for each list of values of the symbols whether they fit: None, or the number of the range or guard that "
    "fails.";

typedef struct {
    MgFacts facts;
    MgDim *symbols;  /* owned */
    PyObject *names; /* strong list */
} Session;

static void
session_free(Session *session)
{
    Py_XDECREF(session->names);
    PyMem_Free(session->symbols);
    mg_facts_free(&session->facts);
}

/* Symbols are s0, s1, ... New. */
static PyObject *
size_text(MgDim dim)
{
    const MgExpr *expr = mg_dim_expr(dim);
    return expr == NULL ? PyErr_NoMemory() : mg_expr_text(expr, NULL);
}

/* The answer to one question. New. */
static PyObject *
answer(Session *session, PyObject *question)
{
    MgDim a = mg_dim(0), b = a;
    int relation = PyTuple_Check(question) ? mg_relation_of(PyTuple_GetItem(question, 0)) : -1;
    int status = mg_tree_read(&session->facts, relation < 0 ? question : PyTuple_GetItem(question, 1), 0, &a);
    if (status == 1 && relation >= 0) {
        status = mg_tree_read(&session->facts, PyTuple_GetItem(question, 2), 0, &b);
    }
    if (status <= 0) {
        return status < 0 ? NULL : Py_NewRef(Py_None);
    }
    if (relation < 0) {
        PyObject *text = size_text(mg_facts_simplify(&session->facts, a));
        return text == NULL ? NULL : Py_BuildValue("LN", (long long)a.v, text);
    }
    int before = session->facts.guard_count, holds = mg_facts_decide(&session->facts, (MgRelation)relation, a, b);
    return holds < 0 ? NULL
                     : Py_BuildValue("OO", holds ? Py_True : Py_False,
                                     session->facts.guard_count == before ? Py_True : Py_False);
}

static int
read_symbols(Session *session, PyObject *symbols)
{
    Py_ssize_t count = PyList_Size(symbols);
    session->symbols = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof(MgDim));
    session->names = session->symbols == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; session->names != NULL && i < count; i++) {
        long long hint;
        PyObject *low, *high, *name = PyUnicode_FromFormat("s%zd", i);
        if (name == NULL || PyList_Append(session->names, name) < 0 ||
            !PyArg_ParseTuple(PyList_GET_ITEM(symbols, i), "LOO", &hint, &low, &high)) {
            Py_XDECREF(name);
            return MG_ERR;
        }
        Py_DECREF(name);
        MgRange range = {low == Py_None ? INT64_MIN : PyLong_AsLongLong(low),
                         high == Py_None ? INT64_MAX : PyLong_AsLongLong(high)};
        if (PyErr_Occurred() || hint < range.low || hint > range.high ||
            mg_facts_symbol(&session->facts, hint, range, &session->symbols[i]) <= 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "a value that is not in its range");
            }
            return MG_ERR;
        }
    }
    return session->names == NULL ? MG_ERR : MG_OK;
}

/* Whether lists of values fit the guards. New list. */
static PyObject *
try_values(const Session *session, PyObject *lists)
{
    PyObject *results = PyList_New(0);
    MgSizeProgram *program = results == NULL ? NULL : mg_size_program_new(&session->facts);
    int64_t *symbols = PyMem_Calloc((size_t)session->facts.symbol_count + 1, sizeof(int64_t));
    int good = program != NULL && symbols != NULL;
    for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(lists); i++) {
        for (int k = 0; k < session->facts.symbol_count; k++) {
            PyObject *value = PySequence_GetItem(PyList_GET_ITEM(lists, i), k);
            symbols[k] = value == NULL ? 0 : PyLong_AsLongLong(value);
            Py_XDECREF(value);
        }
        int failed = PyErr_Occurred() ? -2 : mg_size_program_run(program, symbols);
        PyObject *result = failed < -1 ? NULL : failed < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(failed);
        good = result != NULL && PyList_Append(results, result) == 0;
        Py_XDECREF(result);
    }
    PyMem_Free(symbols);
    mg_size_program_free(program);
    if (!good) {
        Py_CLEAR(results);
    }
    return results;
}

PyObject *
mg_sizes_guards(const MgFacts *facts)
{
    PyObject *guards = PyList_New(0);
    for (int i = 0; guards != NULL && i < facts->guard_count; i++) {
        const MgSizeGuard *guard = &facts->guards[i];
        PyObject *left = size_text(guard->left), *right = size_text(guard->right);
        PyObject *text = left == NULL || right == NULL
                             ? NULL
                             : PyUnicode_FromFormat("%U %s %U", left, mg_relation_name(guard->relation), right);
        if (text == NULL || PyList_Append(guards, text) < 0) {
            Py_CLEAR(guards);
        }
        Py_XDECREF(left);
        Py_XDECREF(right);
        Py_XDECREF(text);
    }
    return guards;
}

/* What the questions took. New. */
static PyObject *
tell(Session *session, PyObject *answers, PyObject *values)
{
    PyObject *guards = mg_sizes_guards(&session->facts), *ranges = PyList_New(0);
    int good = guards != NULL && ranges != NULL;
    for (int i = 0; good && i < session->facts.symbol_count; i++) {
        MgRange range = mg_facts_range(&session->facts, session->symbols[i]);
        PyObject *pair = Py_BuildValue("LL", (long long)range.low, (long long)range.high);
        good = pair != NULL && PyList_Append(ranges, pair) == 0;
        Py_XDECREF(pair);
    }
    good = good && mg_facts_prune(&session->facts) == MG_OK; /* as for an entry */
    PyObject *fits = good ? try_values(session, values) : NULL;
    PyObject *result = fits == NULL ? NULL : PyTuple_Pack(4, answers, guards, ranges, fits);
    Py_XDECREF(fits);
    Py_XDECREF(guards);
    Py_XDECREF(ranges);
    return result;
}

PyObject *
mg_sizes_ask(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *symbols, *questions, *values, *answers = NULL, *result = NULL;
    Session session = {.symbols = NULL};
    if (!PyArg_ParseTuple(args, "O!O!O!:sizes", &PyList_Type, &symbols, &PyList_Type, &questions, &PyList_Type,
                          &values)) {
        return NULL;
    }
    if (read_symbols(&session, symbols) == MG_OK && (answers = PyList_New(0)) != NULL) {
        int good = 1;
        for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(questions); i++) {
            PyObject *one = answer(&session, PyList_GET_ITEM(questions, i));
            good = one != NULL && PyList_Append(answers, one) == 0;
            Py_XDECREF(one);
        }
        result = good ? tell(&session, answers, values) : NULL;
    }
    Py_XDECREF(answers);
    session_free(&session);
    return result;
}

int
mg_sizes_read(PyObject *symbols, MgFacts *facts)
{
    Session session = {.symbols = NULL};
    int status = read_symbols(&session, symbols);
    *facts = session.facts;
    session.facts = (MgFacts){.symbols = NULL};
    session_free(&session);
    return status;
}

const char mg_sizes_make_doc[] =
    "size(symbols, expression, /)\n--\n\n"
    "A size as metadata and recorded arguments hold it; symbols and expressions are those of sizes().";

PyObject *
mg_sizes_make(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *symbols, *expression, *result = NULL;
    Session session = {.symbols = NULL};
    MgDim dim;
    if (!PyArg_ParseTuple(args, "O!O:size", &PyList_Type, &symbols, &expression)) {
        return NULL;
    }
    int status = read_symbols(&session, symbols) < 0 ? MG_ERR : mg_tree_read(&session.facts, expression, 0, &dim);
    if (status == 1) {
        result = mg_dim_object(dim);
    }
    else if (status == 0) {
        PyErr_SetString(PyExc_ValueError, "a size that is too hard");
    }
    session_free(&session);
    return result;
}
