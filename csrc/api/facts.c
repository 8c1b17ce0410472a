/* What a capture or an entry knows of its symbols: what Python sees of it, and may decide. */
#include "api/facts.h"

#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "entry/entry.h"
#include "ir/dimobject.h"
#include "record/number.h"
#include "size/tree.h"

/* The facts of an entry, or of the capture that is under way on this thread for None. NULL with an exception. */
static MgFacts *
facts_of(PyObject *owner)
{
    if (Py_IS_TYPE(owner, &MgEntry_Type)) {
        PyObject *guards = mg_guard_sizes(&((MgEntry *)owner)->guards);
        if (guards != NULL) {
            return mg_size_guards_facts(guards);
        }
    }
    else if (mg_capture_current != NULL) {
        return &mg_capture_current->varying.facts;
    }
    PyErr_SetString(PyExc_ValueError, "there are no symbols");
    return NULL;
}

const char mg_api_size_symbol_doc[] = "size_symbol(owner, number, /)\n--\n\n"
                                      "Of a symbol of an entry, or with None of the capture that is under way: its "
                                      "value in the call that is captured, and "
                                      "the range that it has in any, with None for no bound.";

PyObject *
mg_api_size_symbol(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *owner;
    int number;
    if (!PyArg_ParseTuple(args, "Oi:size_symbol", &owner, &number)) {
        return NULL;
    }
    const MgFacts *facts = facts_of(owner);
    if (facts == NULL || number < 0 || number >= facts->symbol_count) {
        return facts == NULL ? NULL : PyErr_Format(PyExc_ValueError, "no symbol %d", number);
    }
    MgRange range = facts->symbols[number].given;
    PyObject *low = range.low == INT64_MIN ? Py_NewRef(Py_None) : PyLong_FromLongLong(range.low);
    PyObject *high = range.high == INT64_MAX ? Py_NewRef(Py_None) : PyLong_FromLongLong(range.high);
    PyObject *result =
        low == NULL || high == NULL ? NULL : Py_BuildValue("LOO", (long long)facts->hints[number], low, high);
    Py_XDECREF(low);
    Py_XDECREF(high);
    return result;
}

const char mg_api_size_of_doc[] = "size_of(owner, tree, /)\n--\n\n"
                                  "The size that a tree over the symbols of the owner says: an int, or a Dim; None if "
                                  "that is too hard.";

PyObject *
mg_api_size_of(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *owner, *tree;
    MgDim dim;
    if (!PyArg_ParseTuple(args, "OO:size_of", &owner, &tree)) {
        return NULL;
    }
    MgFacts *facts = facts_of(owner);
    int status = facts == NULL ? MG_ERR : mg_tree_read(facts, tree, 1, &dim);
    return status < 0    ? NULL
           : status == 0 ? Py_NewRef(Py_None)
                         : mg_dim_object(dim.e == NULL ? dim : mg_facts_simplify(facts, dim));
}

const char mg_api_decide_doc[] =
    "decide(owner, relation, left, right, /)\n--\n\n"
    "Whether a relation (\"==\", \"!=\", \"<\", \"<=\") between two trees over the symbols "
    "of the owner holds; if that does not follow from what is known, it becomes a guard. "
    "None if it is too hard.";

PyObject *
mg_api_decide(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *owner, *name, *left, *right;
    MgDim a, b;
    if (!PyArg_ParseTuple(args, "OUOO:decide", &owner, &name, &left, &right)) {
        return NULL;
    }
    MgFacts *facts = facts_of(owner);
    int relation = mg_relation_of(name);
    if (facts == NULL || relation < 0) {
        return facts == NULL ? NULL : PyErr_Format(PyExc_ValueError, "no relation: %U", name);
    }
    int status = mg_tree_read(facts, left, 1, &a);
    status = status == 1 ? mg_tree_read(facts, right, 1, &b) : status;
    int holds = status == 1 ? mg_facts_decide(facts, (MgRelation)relation, a, b) : status;
    return holds < 0 ? NULL : status == 0 ? Py_NewRef(Py_None) : PyBool_FromLong(holds);
}

const char mg_api_float_value_doc[] = "float_value(object, /)\n--\n\n"
                                      "The value in this call of a float that is another at other calls; None for any "
                                      "other object.";

PyObject *
mg_api_float_value(PyObject *module, PyObject *argument)
{
    (void)module;
    int is_float = Py_IS_TYPE(argument, &mg_number_types[MG_NUMBER_FLOAT]) && mg_number_is_backed(argument);
    return Py_NewRef(is_float ? ((MgNumber *)argument)->value : Py_None);
}
