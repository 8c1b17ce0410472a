/* Our own replay of a graph: its operations, one after the other.
 *
 * Arguments are prepared once, and values are let go after their last use. What the operations check of their arguments
 * was checked without data while the graph was recorded; some of them check more when they run (a kernel may not know a
 * dtype). So until a graph has once run to its end, tensors from outside are copied before they are written to: if an
 * operation raises, they get their data back, and CPython does all of it, in the program's own order. */
#include "replay.h"

#include "direct.h"
#include "record.h"
#include "reserve.h"
#include "structure.h"

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
    if (Py_IS_TYPE(value, &MgRef_Type)) {
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

static void
set_argument(MgOperation *operation, int index, PyObject *value)
{
    operation->args[index] = value;
    operation->modes[index] = Py_IS_TYPE(value, &MgRef_Type) ? ARGUMENT_VALUE
                              : has_ref(value)               ? ARGUMENT_NESTED
                              : PyList_Check(value) || PyDict_Check(value)
                                  ? ARGUMENT_NESTED /* never share a mutable object */
                                  : ARGUMENT_CONST;
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
        set_argument(operation, i, PyTuple_GET_ITEM(node->args, i));
    }
    mg_direct_find(node, &operation->direct);
    if (named > 0) {
        operation->kwnames = PyTuple_New(named);
        if (operation->kwnames == NULL) {
            return MG_ERR;
        }
        Py_ssize_t position = 0;
        PyObject *key, *value;
        for (int i = 0; PyDict_Next(node->kwargs, &position, &key, &value); i++) {
            PyTuple_SET_ITEM(operation->kwnames, i, Py_NewRef(key));
            set_argument(operation, count + i, value);
        }
    }
    return MG_OK;
}

int
mg_replay_prepare(MgEntry *entry)
{
    int count = entry->node_count, result = MG_ERR;
    int *last = PyMem_Malloc(sizeof(int) * ((size_t)count + 1));
    entry->operations = PyMem_Calloc((size_t)count + 1, sizeof(MgOperation));
    if (last == NULL || entry->operations == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (int i = 0; i < count; i++) {
        last[i] = i;
    }
    for (int i = 0; i < count; i++) {
        MgNode *node = &entry->nodes[i];
        if (node->kind == MG_NODE_INPUT || mg_entry_is_unused(node)) {
            continue;
        }
        if (prepare_operation(&entry->operations[i], node) < 0) {
            goto done;
        }
        mark_uses(node->args, i, last);
        if (node->kwargs != NULL) {
            mark_uses(node->kwargs, i, last);
        }
    }
    for (int i = 0; i < entry->output_count; i++) {
        last[entry->outputs[i]] = count;
    }
    for (int i = 0; i < count; i++) {
        if (last[i] < count && !mg_entry_is_unused(&entry->nodes[i])) {
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
    return result;
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

/* ---- running ---- */

/* An argument with values in place of references. New. */
static PyObject *
resolve(void *values, PyObject *value)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        return Py_NewRef(((PyObject **)values)[((MgRef *)value)->index]);
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
        result = mg_direct_call(&operation->direct, args + 1);
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

/* ---- undoing ---- */

/* Tensors with copies of their data from before they were written to, in the order of the writes. */
typedef struct {
    PyObject *pairs;  /* strong: a list; NULL if writes can't be undone */
    Py_ssize_t bytes; /* that the copies take */
} Saved;

/* More than this is not copied. */
static const Py_ssize_t most_saved = (Py_ssize_t)256 << 20;

/* 1 if several elements of a tensor are one in memory: nothing can be written to it, nor has to be undone. */
static int
is_expanded(PyObject *tensor)
{
    MgTensor info;
    int found = 0;
    if (mg_torch_read(tensor, &info) == MG_OK) {
        for (int64_t i = 0; i < info.dim; i++) {
            found |= info.strides[i] == 0 && info.sizes[i] > 1;
        }
    }
    return found;
}

/* Saves the tensors in an argument of an operation that writes to one of them. 1, or 0 if that can't be done. */
static int
save(Saved *saved, PyObject *value)
{
    if (mg_torch_is_tensor(value) && is_expanded(value)) {
        return 1;
    }
    if (mg_torch_is_tensor(value)) {
        PyObject *size = PyObject_GetAttrString(value, "nbytes");
        Py_ssize_t bytes = size == NULL ? -1 : PyLong_AsSsize_t(size);
        Py_XDECREF(size);
        saved->bytes += bytes;
        if (bytes < 0 || saved->bytes > most_saved) {
            return 0;
        }
        PyObject *plain =
            PyObject_GetAttrString(value, "data"); /* the same memory; autograd won't know of the undoing */
        PyObject *copy = plain == NULL ? NULL : PyObject_CallMethod(plain, "clone", NULL);
        PyObject *pair = copy == NULL ? NULL : PyTuple_Pack(2, plain, copy);
        int good = pair != NULL && PyList_Append(saved->pairs, pair) == 0;
        Py_XDECREF(plain);
        Py_XDECREF(copy);
        Py_XDECREF(pair);
        return good;
    }
    int good = 1;
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; good && i < Py_SIZE(value); i++) {
            good = save(saved, PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i));
        }
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (good && PyDict_Next(value, &position, &key, &item)) {
            good = save(saved, item);
        }
    }
    return good;
}

/* Saves all tensors that an operation which writes gets. Where that fails, nothing is undone later. */
static void
save_arguments(Saved *saved, const MgNode *node, PyObject **values)
{
    PyObject *parts[] = {node->args, node->kwargs};
    for (int i = 0; i < 2 && saved->pairs != NULL; i++) {
        PyObject *arguments = parts[i] == NULL ? NULL : resolve(values, parts[i]);
        if (parts[i] != NULL && (arguments == NULL || !save(saved, arguments))) {
            PyErr_Clear();
            Py_CLEAR(saved->pairs);
        }
        Py_XDECREF(arguments);
    }
}

/* Gives the tensors their data back. 1, or 0 if that failed; an exception that is set stays. */
static int
undo_writes(const Saved *saved)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int good = 1;
    for (Py_ssize_t i = PyList_GET_SIZE(saved->pairs) - 1; good && i >= 0; i--) {
        PyObject *pair = PyList_GET_ITEM(saved->pairs, i);
        PyObject *result = PyObject_CallMethod(PyTuple_GET_ITEM(pair, 0), "copy_", "O", PyTuple_GET_ITEM(pair, 1));
        good = result != NULL;
        Py_XDECREF(result);
    }
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return good;
}

/* 1 if a node has raised, and nothing is left of the graph that CPython would not do in the same way once more: the error
 * is the program's own, and is raised again where the program can catch it, after all that comes before it. */
static int
is_without_trace(MgEntry *entry, int failed, const Saved *saved)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception) || (failed > entry->first_write && saved->pairs == NULL)) {
        return 0;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int good = 1;
    for (int i = 0; good && i <= failed; i++) {
        good = mg_record_is_repeatable(&entry->nodes[i], saved->pairs != NULL);
    }
    PyErr_Restore(type, value, traceback);
    return good && (saved->pairs == NULL || undo_writes(saved));
}

int
mg_replay_run(MgEntry *entry, PyObject **inputs, PyObject **outputs, int *without_trace)
{
    enum { SMALL = 32 };
    PyObject *small[SMALL];
    int is_small = entry->node_count <= SMALL;
    PyObject **values = is_small ? small : PyMem_Malloc(sizeof(PyObject *) * (size_t)entry->node_count);
    if (values == NULL) {
        for (int i = 0; i < entry->input_count; i++) {
            Py_DECREF(inputs[i]);
        }
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < entry->node_count; i++) {
        values[i] = NULL;
    }
    int result = MG_OK;
    Saved saved = {0};
    if (MG_UNLIKELY(!entry->is_proven) && entry->first_write < entry->node_count) {
        saved.pairs = PyList_New(0);
        PyErr_Clear();
    }
    for (int i = 0; i < entry->input_count; i++) {
        values[entry->input_nodes[i]] = inputs[i];
    }
    for (int i = 0; i < entry->node_count; i++) {
        MgOperation *operation = &entry->operations[i];
        if (operation->args == NULL) {
            continue;
        }
        if (MG_UNLIKELY(saved.pairs != NULL) && entry->nodes[i].writes) {
            save_arguments(&saved, &entry->nodes[i], values);
        }
        int begun, reserve = 0;
        values[i] = execute(&entry->nodes[i], operation, values, &begun);
        if (MG_UNLIKELY(values[i] == NULL) && !begun && i > entry->first_write && mg_reserve_open(&reserve)) {
            values[i] = execute(&entry->nodes[i], operation, values, &begun); /* others have written to the outside */
            mg_reserve_close(reserve);
        }
        if (values[i] == NULL) {
            *without_trace = is_without_trace(entry, i, &saved);
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
    Py_XDECREF(saved.pairs);
    entry->is_proven |= result == MG_OK;
    return result;
}
