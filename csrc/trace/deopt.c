/* Deoptimisation: where an operation of a graph has raised, the program goes on in frames of its own.
 *
 * The operations before it have run, and may have done anything: written to tensors, changed their metadata and history,
 * drawn random numbers, called hooks. So nothing is undone and nothing is run twice. The call is captured once more, up
 * to the instruction that recorded the operation: Python has touched nothing outside yet, and of tensors the capture
 * sees the metadata from before the run (mg_deopt_metas), so it records the same nodes. What it returns is an entry that
 * stops at a break; its graph is not run, since the failed run has left the values. Its frames are built, its effects
 * applied, and the innermost frame raises the error where eager raises it: the program's own handlers get it.
 *
 * Where no frame can be made at that instruction (C code lies in between), the entry stops at an earlier one. If all
 * operations since then can be repeated, the instruction is executed once more; else it raises the error. */
#include "trace/deopt.h"

#include "entry/replay.h"
#include "record/record.h"

int
mg_deopt_metas(const MgEntry *entry, const MgFailure *failure, MgTable *metas)
{
    for (int i = 0; i < entry->input_count; i++) {
        int node = entry->input_nodes[i];
        if (failure->values[node] != NULL && Py_IS_TYPE(entry->nodes[node].value, &MgMeta_Type) &&
            mg_table_set(metas, failure->values[node], NULL, entry->nodes[node].value) < 0) {
            PyErr_NoMemory();
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_deopt_is_repeatable(const MgEntry *entry, int first, int last)
{
    assert(first >= 0 && last < entry->node_count);
    int good = 1;
    for (int i = first; good && i <= last; i++) {
        good = mg_record_is_repeatable(entry->nodes, i);
    }
    return good;
}

/* ---- entries that stop where an operation raised ---- */

/* How many nodes of an entry that stops were recorded before the break: the rest leave torch's context managers, or are
 * what only its plan needs: inputs, and numbers as tensors (mg_record_scalar), which no code has recorded. */
static int
count_recorded(const MgEntry *stop)
{
    int count = stop->node_count - stop->manager_count;
    while (count > 0 && stop->nodes[count - 1].stack == NULL) {
        count--;
    }
    return count;
}

/* 1 if the nodes of an entry that stops are the first ones of another, up to the one that raised. 0 or -1. */
static int
is_prefix(const MgEntry *entry, const MgEntry *stop, int node)
{
    int count = count_recorded(stop), same = count <= node;
    for (int i = 0; same > 0 && i < count; i++) {
        const MgNode *a = &entry->nodes[i], *b = &stop->nodes[i];
        same = a->kind == b->kind;
        if (same && a->target != NULL && a->target != b->target) {
            same = PyObject_RichCompareBool(a->target, b->target, Py_EQ);
        }
    }
    return same;
}

int
mg_deopt_keep(MgEntry *entry, int node, MgEntry *stop)
{
    int good = is_prefix(entry, stop, node);
    if (good <= 0) {
        return good;
    }
    mg_deopt_forget(entry, node); /* another thread may have made it too */
    MgEntry **stops = PyMem_Realloc(entry->stops.entries, sizeof(MgEntry *) * (size_t)(entry->stops.count + 1));
    entry->stops.entries = stops == NULL ? entry->stops.entries : stops;
    int *nodes = PyMem_Realloc(entry->stops.nodes, sizeof(int) * (size_t)(entry->stops.count + 1));
    entry->stops.nodes = nodes == NULL ? entry->stops.nodes : nodes;
    if (stops == NULL || nodes == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    mg_entry_forget_inputs(stop);
    assert(stop != entry && stop->frames != NULL && node < entry->node_count);
    entry->stops.nodes[entry->stops.count] = node;
    entry->stops.entries[entry->stops.count++] = (MgEntry *)Py_NewRef((PyObject *)stop);
    return 1;
}

MgEntry *
mg_deopt_find(const MgEntry *entry, int node)
{
    for (int i = 0; i < entry->stops.count; i++) {
        if (entry->stops.nodes[i] == node) {
            return entry->stops.entries[i];
        }
    }
    return NULL;
}

void
mg_deopt_forget(MgEntry *entry, int node)
{
    for (int i = 0; i < entry->stops.count; i++) {
        if (entry->stops.nodes[i] == node) {
            MgEntry *old = entry->stops.entries[i];
            entry->stops.entries[i] = entry->stops.entries[--entry->stops.count];
            entry->stops.nodes[i] = entry->stops.nodes[entry->stops.count];
            Py_DECREF(old);
            return;
        }
    }
}

/* ---- going on ---- */

/* Loads the registers of an entry. Its guards must hold, but for those on tensors, which the failed run may have changed.
 * 1, 0 or -1. */
static int
load(MgEntry *stop, PyObject *const *arguments, PyObject **registers)
{
    MgProgram *program = &stop->guards;
    for (int i = 0; i < program->step_count; i++) {
        const MgStep *step = &program->steps[i];
        PyObject *base = step->base < 0 ? NULL : registers[step->base];
        registers[i] = step->base >= 0 && base == NULL ? NULL : mg_source_load(&step->source, base, arguments);
        for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
            int good = program->checks[j].kind == MG_GUARD_TENSOR ? 1 : mg_guard_check(&program->checks[j], registers);
            if (good <= 0) {
                return good;
            }
        }
    }
    return 1;
}

/* A number of the failed run as a tensor. New; NULL if it is not there, perhaps with an exception. */
static PyObject *
make_scalar(const MgEntry *entry, const MgFailure *failure, const MgNode *scalar)
{
    PyObject *number = mg_replay_value(entry, failure, ((MgRef *)PyTuple_GET_ITEM(scalar->args, 0))->index);
    PyObject *args = number == NULL ? NULL : PyTuple_Pack(1, number);
    PyObject *result = args == NULL ? NULL : PyObject_Call(scalar->target, args, scalar->kwargs);
    Py_XDECREF(number);
    Py_XDECREF(args);
    return result;
}

/* The value of a node of `stop` that is an input, or is computed of inputs alone. New; NULL with an exception. */
static PyObject *
compute_number(const MgEntry *stop, PyObject *const *registers, int node)
{
    const MgNode *number = &stop->nodes[node];
    if (number->kind == MG_NODE_INPUT) {
        for (int j = 0; j < stop->input_count; j++) {
            if (stop->input_nodes[j] == node && registers[stop->inputs[j]] != NULL) {
                return Py_NewRef(registers[stop->inputs[j]]);
            }
        }
        PyErr_SetString(PyExc_SystemError, "magneto: a number is not there");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(number->args);
    PyObject *args = PyTuple_New(count);
    for (Py_ssize_t i = 0; args != NULL && i < count; i++) {
        PyObject *arg = PyTuple_GET_ITEM(number->args, i);
        arg = Py_IS_TYPE(arg, &MgRef_Type) ? compute_number(stop, registers, ((MgRef *)arg)->index) : Py_NewRef(arg);
        if (arg == NULL) {
            Py_CLEAR(args);
            break;
        }
        PyTuple_SET_ITEM(args, i, arg);
    }
    PyObject *result = args == NULL ? NULL : PyObject_CallObject(number->target, args);
    Py_XDECREF(args);
    return result;
}

/* Fills in the outputs of `stop` with what the failed run has left; inputs stay NULL. 1, 0 or -1. */
static int
take_outputs(const MgEntry *entry, const MgFailure *failure, const MgEntry *stop, PyObject **outputs)
{
    int count = count_recorded(stop);
    for (int i = 0; i < stop->output_count; i++) {
        int node = stop->outputs[i];
        if (stop->nodes[node].kind == MG_NODE_INPUT || stop->nodes[node].is_number) {
            continue;
        }
        outputs[i] = node < count                      ? mg_replay_value(entry, failure, node)
                     : stop->nodes[node].stack == NULL ? make_scalar(entry, failure, &stop->nodes[node])
                                                       : NULL;
        if (outputs[i] == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    return 1;
}

/* The same for outputs that are inputs, or numbers computed of them. MG_OK or MG_ERR. */
static int
take_inputs(const MgEntry *stop, PyObject *const *registers, PyObject **outputs)
{
    for (int i = 0; i < stop->output_count; i++) {
        if (stop->nodes[stop->outputs[i]].is_number &&
            (outputs[i] = compute_number(stop, registers, stop->outputs[i])) == NULL) {
            return MG_ERR;
        }
        for (int j = 0; outputs[i] == NULL && j < stop->input_count; j++) {
            if (stop->input_nodes[j] == stop->outputs[i]) {
                outputs[i] = Py_XNewRef(registers[stop->inputs[j]]);
            }
        }
    }
    return MG_OK;
}

int
mg_deopt_run(MgEntry *entry, const MgFailure *failure, MgEntry *stop, PyObject *const *arguments, PyObject *error,
             PyObject *owner, MgExit **exit)
{
    int room = stop->output_count + stop->plan.count, first = count_recorded(stop);
    PyObject **outputs = PyMem_Calloc((size_t)room + 1, sizeof(PyObject *));
    PyObject **registers = PyMem_Calloc((size_t)stop->guards.step_count + 1, sizeof(PyObject *));
    int good = -1;
    *exit = NULL;
    if (outputs == NULL || registers == NULL) {
        PyErr_NoMemory();
    }
    else {
        Py_INCREF(stop);
        int repeats = !stop->is_exact && mg_deopt_is_repeatable(entry, first, failure->node);
        good = take_outputs(entry, failure, stop, outputs);
        good = good > 0 ? load(stop, arguments, registers) : good;
        if (good > 0) {
            good = take_inputs(stop, registers, outputs) < 0 || mg_entry_stop(stop, registers, outputs, owner, exit) < 0
                       ? -1
                       : 1;
        }
        if (good > 0 && !repeats) {
            (*exit)->error = Py_NewRef(error);
        }
        Py_DECREF(stop);
    }
    for (int i = 0; outputs != NULL && i < room; i++) {
        Py_XDECREF(outputs[i]);
    }
    PyMem_Free(outputs);
    PyMem_Free(registers);
    return good;
}
