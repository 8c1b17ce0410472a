/* Our own replay of a graph: its operations, one after the other.
 *
 * Arguments are prepared once, and values are let go after their last use. What the operations check of their arguments
 * was checked without data while the graph was recorded; some of them check more when they run (an index, or whether
 * there is a kernel for a dtype). Nothing is undone then: the values so far are handed out, and the program goes on
 * with them where the operation was recorded (deopt.c). So a value that captured code could still reach, though the
 * graph has no use for it any more, is kept up to the last operation that may raise: never for longer than in eager. */
#include "entry/replay.h"

#include "base/reserve.h"
#include "entry/directcall.h"
#include "ir/structure.h"
#include "ir/subgraph.h"

enum { ARGUMENT_CONST, ARGUMENT_VALUE, ARGUMENT_NESTED };

/* One operation of the graph, ready to be executed. */
struct MgOperation {
    PyObject **args;   /* owned, borrowed from the node's args: constants, references, containers */
    uint8_t *modes;    /* owned: how each argument is got */
    int count;         /* positional arguments */
    binaryfunc binary; /* what an operator of two arguments comes to, or NULL */
    PyObject *kwnames; /* strong, or NULL */
    int *dead;         /* owned: nodes whose values are not needed after this one */
    int dead_count;
    MgDirect direct; /* how it is called in libtorch itself, if it can be */
};

/* ---- getting ready ---- */

static int
has_ref(PyObject *value)
{
    if (Py_IS_TYPE(value, &MgRef_Type) || mg_is_subgraph(value)) {
        return 1;
    }
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
            if (has_ref(PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i))) {
                return 1;
            }
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        return has_ref(slice->start) || has_ref(slice->stop) || has_ref(slice->step);
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (PyDict_Next(value, &position, &key, &item)) {
            if (has_ref(item)) {
                return 1;
            }
        }
    }
    return 0;
}

/* Notes the last use of each node that `value` refers to. */
static void
mark_uses(PyObject *value, int node, int *last)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        last[((MgRef *)value)->index] = node;
    }
    else if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
            mark_uses(PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i), node, last);
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        mark_uses(slice->start, node, last);
        mark_uses(slice->stop, node, last);
        mark_uses(slice->step, node, last);
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (PyDict_Next(value, &position, &key, &item)) {
            mark_uses(item, node, last);
        }
    }
}

static int
set_argument(MgOperation *operation, int index, PyObject *value)
{
    if (mg_is_subgraph(value)) { /* an operator calls it: its module, which it holds */
        value = mg_subgraph_module((MgSubgraph *)value);
        if (value == NULL) {
            return MG_ERR;
        }
    }
    operation->args[index] = value;
    operation->modes[index] = Py_IS_TYPE(value, &MgRef_Type) ? ARGUMENT_VALUE
                              : has_ref(value)               ? ARGUMENT_NESTED
                              : PyList_Check(value) || PyDict_Check(value)
                                  ? ARGUMENT_NESTED /* never share a mutable object */
                                  : ARGUMENT_CONST;
    return MG_OK;
}

/* What a function of the module operator comes to, if it takes two arguments; else NULL. */
static binaryfunc
find_binary(PyObject *target)
{
    static const struct {
        const char *name;
        binaryfunc function;
    } known[] = {
        {"add", PyNumber_Add},
        {"sub", PyNumber_Subtract},
        {"mul", PyNumber_Multiply},
        {"truediv", PyNumber_TrueDivide},
        {"floordiv", PyNumber_FloorDivide},
        {"mod", PyNumber_Remainder},
        {"matmul", PyNumber_MatrixMultiply},
        {"and_", PyNumber_And},
        {"or_", PyNumber_Or},
        {"xor", PyNumber_Xor},
        {"iadd", PyNumber_InPlaceAdd},
        {"isub", PyNumber_InPlaceSubtract},
        {"imul", PyNumber_InPlaceMultiply},
        {"itruediv", PyNumber_InPlaceTrueDivide},
        {"getitem", PyObject_GetItem},
    };
    PyObject *module = PyCFunction_CheckExact(target) ? ((PyCFunctionObject *)target)->m_module : NULL;
    if (module == NULL || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "_operator") != 0) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(known); i++) {
        if (strcmp(((PyCFunctionObject *)target)->m_ml->ml_name, known[i].name) == 0) {
            return known[i].function;
        }
    }
    return NULL;
}

static int
prepare_operation(MgOperation *operation, MgNode *node)
{
    assert(node->kind != MG_NODE_INPUT && node->target != NULL);
    int count = (int)PyTuple_GET_SIZE(node->args);
    int named = node->kwargs == NULL ? 0 : (int)PyDict_GET_SIZE(node->kwargs);
    operation->count = count;
    operation->binary = node->kind == MG_NODE_FUNCTION && count == 2 && named == 0 ? find_binary(node->target) : NULL;
    operation->args = PyMem_Calloc((size_t)(count + named) + 1, sizeof(PyObject *));
    operation->modes = PyMem_Calloc((size_t)(count + named) + 1, 1);
    if (operation->args == NULL || operation->modes == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        if (set_argument(operation, i, PyTuple_GET_ITEM(node->args, i)) < 0) {
            return MG_ERR;
        }
    }
    mg_direct_call_find(node, &operation->direct);
    if (named > 0) {
        operation->kwnames = PyTuple_New(named);
        if (operation->kwnames == NULL) {
            return MG_ERR;
        }
        Py_ssize_t position = 0;
        PyObject *key, *value;
        for (int i = 0; PyDict_Next(node->kwargs, &position, &key, &value); i++) {
            PyTuple_SET_ITEM(operation->kwnames, i, Py_NewRef(key));
            if (set_argument(operation, count + i, value) < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

/* How long each value is needed: `last` gets the node after which it can go, the number of nodes if it can't; executed[i]
 * is the last operation before node i, or -1. Each may raise, for want of memory if for nothing else, and captured code
 * go on with what it can reach then. */
static void
find_lives(MgEntry *entry, const int *executed, int *last)
{
    int count = entry->node_count;
    for (int i = 0; i < count; i++) {
        last[i] = entry->nodes[i].kind == MG_NODE_INPUT ? count : i; /* the caller has the inputs anyway */
    }
    for (int i = 0; i < count; i++) {
        MgNode *node = &entry->nodes[i];
        if (entry->operations[i].args != NULL) {
            mark_uses(node->args, i, last);
            if (node->kwargs != NULL) {
                mark_uses(node->kwargs, i, last);
            }
        }
    }
    for (int i = count;
         i-- > 0;) { /* a part that nobody uses is made if it must be, from the whole: that comes before it */
        MgNode *node = &entry->nodes[i];
        int needed = executed[node->alive == 0 || node->alive > count ? count : node->alive];
        if (node->kind == MG_NODE_INPUT || needed <= i) {
            continue;
        }
        last[i] = needed > last[i] ? needed : last[i];
        PyObject *whole = node->is_part && !node->is_number && PyTuple_GET_SIZE(node->args) > 0
                              ? PyTuple_GET_ITEM(node->args, 0)
                              : NULL;
        if (entry->operations[i].args == NULL && whole != NULL && Py_IS_TYPE(whole, &MgRef_Type) &&
            entry->nodes[((MgRef *)whole)->index].kind != MG_NODE_INPUT) {
            MgNode *owner = &entry->nodes[((MgRef *)whole)->index];
            owner->alive =
                owner->alive == 0 || (node->alive != 0 && owner->alive >= node->alive) ? owner->alive : node->alive;
        }
    }
    for (int i = 0; i < entry->output_count; i++) {
        assert(entry->outputs[i] >= 0 && entry->outputs[i] < count);
        last[entry->outputs[i]] = count;
    }
}

/* Notes at each operation which values can go after it. MG_OK or MG_ERR. */
static int
plan_deaths(MgEntry *entry)
{
    int count = entry->node_count, result = MG_ERR;
    int *last = PyMem_Malloc(sizeof(int) * ((size_t)count + 1));
    int *executed = PyMem_Malloc(sizeof(int) * ((size_t)count + 1));
    if (last == NULL || executed == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    executed[0] = -1;
    for (int i = 0; i < count; i++) {
        executed[i + 1] = entry->operations[i].args != NULL ? i : executed[i];
    }
    find_lives(entry, executed, last);
    for (int i = 0; i < count; i++) {
        if (last[i] < count && entry->operations[i].args != NULL) {
            assert(last[i] >= i && entry->operations[last[i]].args != NULL); /* it goes after what really runs */
            MgOperation *operation = &entry->operations[last[i]];
            int *dead = PyMem_Realloc(operation->dead, sizeof(int) * (size_t)(operation->dead_count + 1));
            if (dead == NULL) {
                PyErr_NoMemory();
                goto done;
            }
            operation->dead = dead;
            operation->dead[operation->dead_count++] = i;
        }
    }
    result = MG_OK;
done:
    PyMem_Free(last);
    PyMem_Free(executed);
    return result;
}

int
mg_replay_prepare(MgEntry *entry)
{
    assert(entry->operations == NULL);
    entry->operations = PyMem_Calloc((size_t)entry->node_count + 1, sizeof(MgOperation));
    if (entry->operations == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < entry->node_count; i++) {
        MgNode *node = &entry->nodes[i];
        if (node->kind != MG_NODE_INPUT && !mg_entry_is_unused(node) &&
            prepare_operation(&entry->operations[i], node) < 0) {
            return MG_ERR;
        }
    }
    return plan_deaths(entry);
}

void
mg_replay_free(MgEntry *entry)
{
    for (int i = 0; entry->operations != NULL && i < entry->node_count; i++) {
        MgOperation *operation = &entry->operations[i];
        PyMem_Free(operation->args);
        PyMem_Free(operation->modes);
        PyMem_Free(operation->dead);
        Py_XDECREF(operation->kwnames);
        Py_XDECREF(operation->direct.constant);
    }
    PyMem_Free(entry->operations);
    entry->operations = NULL;
}

/* ---- one operation ---- */

/* An argument with values in place of references. New. */
static PyObject *
resolve(void *values, PyObject *value)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        return Py_NewRef(((PyObject **)values)[((MgRef *)value)->index]);
    }
    if (mg_is_subgraph(value)) { /* made when the entry was: see set_argument */
        return Py_XNewRef(mg_subgraph_module((MgSubgraph *)value));
    }
    return mg_structure_is(value) ? mg_structure_map(value, resolve, values) : Py_NewRef(value);
}

/* Executes one operation. New; `begun` says whether it was called at all. */
static PyObject *
execute(const MgNode *node, MgOperation *operation, PyObject **values, int *begun)
{
    int total = operation->count + (operation->kwnames == NULL ? 0 : (int)PyTuple_GET_SIZE(operation->kwnames));
    PyObject *small[17];
    PyObject **args = total < 16 ? small : PyMem_Malloc(sizeof(PyObject *) * (size_t)(total + 1));
    *begun = 0;
    if (args == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = NULL;
    int ready = 0, made = 0;
    for (; ready < total; ready++) { /* borrowed from the graph and from `values`, but for those that are made */
        PyObject *value = operation->args[ready];
        switch (operation->modes[ready]) {
            case ARGUMENT_CONST:
                break;
            case ARGUMENT_VALUE:
                value = values[((MgRef *)value)->index];
                break;
            default:
                value = resolve(values, value);
                made++;
                break;
        }
        args[ready + 1] = value;
        if (value == NULL) {
            break;
        }
    }
    *begun = ready == total;
    if (ready == total && operation->direct.kind != MG_DIRECT_NONE) {
        result = mg_direct_call_call(&operation->direct, args + 1);
    }
    if (ready == total && result == NULL) {
        size_t nargsf = (size_t)operation->count | PY_VECTORCALL_ARGUMENTS_OFFSET;
        result = operation->binary != NULL ? operation->binary(args[1], args[2]) /* NOLINT: it has two */
                 : node->kind == MG_NODE_METHOD
                     ? PyObject_VectorcallMethod(node->target, args + 1, nargsf, operation->kwnames)
                     : PyObject_Vectorcall(node->target, args + 1, nargsf, operation->kwnames);
    }
    for (int i = 0; made > 0 && i < ready; i++) {
        if (operation->modes[i] == ARGUMENT_NESTED) {
            Py_DECREF(args[i + 1]);
        }
    }
    if (args != small) {
        PyMem_Free(args);
    }
    return result;
}

/* ---- failures ---- */

PyObject *
mg_replay_value(const MgEntry *entry, const MgFailure *failure, int node)
{
    if (failure->values[node] != NULL || node >= failure->node) {
        return Py_XNewRef(failure->values[node]);
    }
    const MgNode *part = &entry->nodes[node];
    PyObject *ref =
        part->is_part && !part->is_number && PyTuple_GET_SIZE(part->args) == 2 ? PyTuple_GET_ITEM(part->args, 0) : NULL;
    if (ref == NULL || !Py_IS_TYPE(ref, &MgRef_Type)) {
        return NULL;
    }
    PyObject *whole = mg_replay_value(entry, failure, ((MgRef *)ref)->index);
    PyObject *key = whole == NULL ? NULL : resolve(failure->values, PyTuple_GET_ITEM(part->args, 1));
    PyObject *value = key == NULL ? NULL : PyObject_GetItem(whole, key);
    Py_XDECREF(whole);
    Py_XDECREF(key);
    return value;
}

void
mg_replay_forget(MgFailure *failure)
{
    for (int i = 0; failure->values != NULL && i < failure->count; i++) {
        Py_XDECREF(failure->values[i]);
    }
    PyMem_Free(failure->values);
    *failure = (MgFailure){0};
}

/* Leaves torch's context managers that the graph has entered by operation `node`. The exception that is set stays. */
static void
leave_managers(MgEntry *entry, int node, PyObject **values)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (int i = node + 1; i < entry->node_count; i++) {
        PyObject *ref = entry->nodes[i].leaves ? PyTuple_GET_ITEM(entry->nodes[i].args, 0) : NULL;
        if (ref != NULL && ((MgRef *)ref)->index < node && values[((MgRef *)ref)->index] != NULL) {
            int begun;
            PyObject *left = execute(&entry->nodes[i], &entry->operations[i], values, &begun);
            Py_XDECREF(left);
            mg_error_clear();
        }
    }
    PyErr_Restore(type, value, traceback);
}

/* Hands the values so far out. Takes the references in `values`; the exception that is set stays. */
static void
keep_failure(MgEntry *entry, int node, PyObject **values, MgFailure *failure)
{
    failure->values = PyMem_Malloc(sizeof(PyObject *) * ((size_t)entry->node_count + 1));
    failure->node = node;
    failure->count = entry->node_count;
    for (int i = 0; i < entry->node_count; i++) {
        if (failure->values != NULL) {
            failure->values[i] = values[i];
        }
        else {
            Py_XDECREF(values[i]);
        }
        values[i] = NULL;
    }
}

/* ---- running ---- */

int
mg_replay_run(MgEntry *entry, PyObject **inputs, PyObject **outputs, MgFailure *failure)
{
    enum { SMALL = 32 };
    PyObject *small[SMALL];
    int is_small = entry->node_count <= SMALL;
    PyObject **values = is_small ? small : mg_reserve_malloc(sizeof(PyObject *) * (size_t)entry->node_count);
    if (values == NULL) {
        for (int i = 0; i < entry->input_count; i++) {
            Py_DECREF(inputs[i]);
        }
        return MG_ERR;
    }
    for (int i = 0; i < entry->node_count; i++) {
        values[i] = NULL;
    }
    int result = MG_OK;
    for (int i = 0; i < entry->input_count; i++) {
        values[entry->input_nodes[i]] = inputs[i];
    }
    for (int i = 0; i < entry->node_count; i++) {
        MgOperation *operation = &entry->operations[i];
        if (operation->args == NULL) {
            continue;
        }
        int begun, reserve = 0;
        values[i] = execute(&entry->nodes[i], operation, values, &begun);
        if (MG_UNLIKELY(values[i] == NULL) && !begun && mg_reserve_open(&reserve)) {
            values[i] =
                execute(&entry->nodes[i], operation, values, &begun); /* others may have written to the outside */
            mg_reserve_close(reserve);
        }
        if (MG_UNLIKELY(values[i] == NULL)) {
            leave_managers(entry, i, values);
            keep_failure(entry, i, values, failure);
            result = MG_ERR;
            break;
        }
        for (int j = 0; j < operation->dead_count; j++) {
            Py_CLEAR(values[operation->dead[j]]);
        }
    }
    for (int i = 0; result == MG_OK && i < entry->output_count; i++) {
        outputs[i] = Py_NewRef(values[entry->outputs[i]]);
    }
    for (int i = 0; i < entry->node_count; i++) {
        Py_XDECREF(values[i]);
    }
    if (!is_small) {
        PyMem_Free(values);
    }
    return result;
}
