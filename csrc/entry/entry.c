/* An entry: one captured and compiled version of a function, with all that is needed to run it again.
 *
 * Running it: the guards have left every object that is needed in a register. The graph gets its inputs from there and
 * returns its outputs; the plan builds the result and the values of the effects; the effects are applied; the result is
 * returned. Nothing outside changes before the graph has run to its end. */
#include "entry/entry.h"

#include "base/reserve.h"
#include "cpython/aside.h"
#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "entry/adopt.h"
#include "entry/key.h"
#include "entry/replay.h"
#include "guard/fast.h"
#include "size/tree.h"
#include "torch/state.h"

#include <structmember.h>
#include <time.h>

/* ---- effects ---- */

static int
replace_content(PyObject *target, PyObject *before, PyObject *content)
{
    if (PyAnySet_Check(target)) {
        return mg_set_become(target, content, before);
    }
    if (mg_shadow_clear(target) < 0) {
        return MG_ERR;
    }
    if (PyDict_Check(target)) {
        MgDictWalk walk = {0};
        PyObject *key, *value;
        while (mg_dict_next(content, &walk, &key, &value)) {
            if (mg_dict_set_known(target, key, value, walk.hash) < 0) {
                return MG_ERR;
            }
        }
        return MG_OK;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(content); i++) {
        if (mg_shadow_add(target, PyList_GET_ITEM(content, i)) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
apply_effect(const MgEffect *effect, PyObject *target, PyObject *key, PyObject *value)
{
    switch (effect->kind) {
        case MG_EFFECT_DICT_SET:
            if (effect->hash != -1) {
                int there = value != NULL ? 1 : _PyDict_Contains_KnownHash(target, key, effect->hash);
                return there <= 0 ? there : mg_dict_set_known(target, key, value, effect->hash);
            }
            if (value == NULL) { /* it may have been made and deleted by captured code */
                int present = PyDict_Contains(target, key);
                return present > 0 ? mg_shadow_set(target, key, NULL) : present;
            }
            return mg_shadow_set(target, key, value);
        case MG_EFFECT_SLOT_SET: {
            PyObject **slot = (PyObject **)((char *)target + ((PyMemberDescrObject *)key)->d_member->offset);
            Py_XSETREF(*slot, Py_XNewRef(value));
            return 0;
        }
        case MG_EFFECT_GRAD_SET:
            return Py_TYPE(key)->tp_descr_set(key, target, value == NULL ? Py_None : value);
        case MG_EFFECT_CELL_SET:
            return PyCell_Set(target, value);
        case MG_EFFECT_LIST_TAIL:
            return PyList_SetSlice(target, effect->index, PyList_GET_SIZE(target), value);
        case MG_EFFECT_LIST_EXTEND:
            return PyList_SetSlice(target, PyList_GET_SIZE(target), PyList_GET_SIZE(target), value);
        case MG_EFFECT_REPLACE:
            return replace_content(target, key, value);
    }
    return -1;
}

/* ---- making ---- */

static void
entry_dealloc(MgEntry *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    mg_guard_free(&self->guards);
    mg_plan_free(&self->plan);
    for (int i = 0; i < self->effect_count; i++) {
        Py_XDECREF(self->effects[i].key);
    }
    mg_replay_free(self);
    for (int i = 0; i < self->node_count; i++) {
        mg_node_clear(&self->nodes[i]);
    }
    for (int i = 0; i < self->frame_count; i++) {
        Py_XDECREF(self->frames[i].code);
        PyMem_Free(self->frames[i].slots);
    }
    PyMem_Free(self->frames);
    PyMem_Free(self->managers);
    Py_XDECREF(self->exit_state);
    Py_XDECREF(self->settings);
    Py_XDECREF(self->symbols);
    Py_XDECREF(self->lattice);
    Py_XDECREF(self->compile_id);
    Py_XDECREF(self->codes);
    PyMem_Free(self->effects);
    PyMem_Free(self->nodes);
    PyMem_Free(self->inputs);
    PyMem_Free(self->input_nodes);
    PyMem_Free(self->outputs);
    PyMem_Free(self->kept);
    PyMem_Free(self->spare_inputs);
    mg_storages_free(&self->storages);
    for (int i = 0; i < self->stops.count; i++) {
        Py_DECREF(self->stops.entries[i]);
    }
    PyMem_Free(self->stops.entries);
    PyMem_Free(self->stops.nodes);
    Py_XDECREF(self->compiled);
    Py_XDECREF(self->pending);
    Py_XDECREF(self->check);
    PyObject_GC_Del(self);
}

/* A cycle through an entry goes through its callable, which lets go of it: there is nothing to clear here. */
static int
entry_traverse(MgEntry *self, visitproc visit, void *arg)
{
    int visited = mg_guard_traverse(&self->guards, visit, arg);
    if (visited != 0) {
        return visited;
    }
    for (int i = 0; i < self->plan.count; i++) {
        Py_VISIT(self->plan.nodes[i].object);
    }
    for (int i = 0; i < self->effect_count; i++) {
        Py_VISIT(self->effects[i].key);
    }
    for (int i = 0; i < self->node_count; i++) {
        MgNode *node = &self->nodes[i];
        Py_VISIT(node->target);
        Py_VISIT(node->args);
        Py_VISIT(node->kwargs);
        Py_VISIT(node->stack);
        Py_VISIT(node->real);
    }
    for (int i = 0; i < self->stops.count; i++) {
        Py_VISIT(self->stops.entries[i]);
    }
    Py_VISIT(self->compiled);
    Py_VISIT(self->pending);
    Py_VISIT(self->check);
    Py_VISIT(self->symbols);
    Py_VISIT(self->compile_id);
    Py_VISIT(self->codes);
    return 0;
}

int
mg_entry_is_unused(const MgNode *node)
{
    if (node->users > 0) {
        return 0;
    }
    if (node->kind == MG_NODE_INPUT) {
        return 1;
    }
    return node->is_part;
}

/* Leaves the first managers, whose frame will not go on. The exception that is set stays. */
static void
leave_managers(MgEntry *entry, int count, PyObject **memo, int *reserve)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    mg_reserve_use(reserve);
    while (count-- > 0) {
        PyObject *left =
            PyObject_CallMethod(memo[entry->managers[count]], "__exit__", "OOO", Py_None, Py_None, Py_None);
        if (left == NULL) {
            PyErr_Clear();
        }
        Py_XDECREF(left);
    }
    PyErr_Restore(type, value, traceback);
}

/* A manager's method __enter__. New. */
static PyObject *
find_enter(MgEntry *entry, int index, PyObject **registers, PyObject **outputs, PyObject **memo)
{
    PyObject *manager = mg_plan_build(&entry->plan, entry->managers[index], registers, outputs, memo);
    return manager == NULL ? NULL : PyObject_GetAttrString(manager, "__enter__");
}

/* Enters the managers for real. MG_OK; or MG_ERR, and none is entered. */
static int
enter_managers(MgEntry *entry, PyObject **registers, PyObject **outputs, PyObject **memo, int *reserve)
{
    for (int i = 0; i < entry->manager_count; i++) {
        PyObject *enter = find_enter(entry, i, registers, outputs, memo);
        if (enter == NULL && mg_reserve_open(reserve)) {
            enter = find_enter(entry, i, registers, outputs, memo);
        }
        PyObject *entered = enter == NULL ? NULL : PyObject_CallNoArgs(enter);
        Py_XDECREF(enter);
        Py_XDECREF(entered);
        if (entered == NULL) {
            leave_managers(entry, i, memo, reserve);
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Keeps autocast's cache until release_casts(). */
static int
hold_casts(void)
{
    int reserve = 0, status = mg_state_hold_casts(1);
    if (status < 0 && mg_reserve_open(&reserve)) {
        status = mg_state_hold_casts(1);
    }
    mg_reserve_close(reserve);
    return status;
}

/* Lets autocast's cache go, whether an exception is set or not. */
static int
release_casts(int *reserve)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (mg_state_hold_casts(0) < 0 && (!mg_reserve_open(reserve) || mg_state_hold_casts(0) < 0)) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return MG_ERR;
    }
    PyErr_Restore(type, value, traceback);
    return MG_OK;
}

/* ---- the graph for others ---- */

/* What the source of a register starts from: borrowed, or NULL. */
static PyObject *
root_of(const MgEntry *entry, int step)
{
    while (entry->guards.steps[step].base >= 0) {
        step = entry->guards.steps[step].base;
    }
    return entry->guards.steps[step].source.key;
}

PyObject *
mg_entry_describe(MgEntry *entry)
{
    PyObject *nodes = PyList_New(0), *outputs = PyList_New(0), *inputs = PyList_New(0), *result = NULL;
    if (nodes == NULL || outputs == NULL || inputs == NULL) {
        goto done;
    }
    for (int k = 0; k < entry->input_count + entry->node_count; k++) { /* the inputs come first, in their order */
        int is_input = k < entry->input_count, i = is_input ? entry->input_nodes[k] : k - entry->input_count;
        MgNode *node = &entry->nodes[i];
        PyObject *text = NULL, *root = Py_None;
        if (!is_input && (node->kind == MG_NODE_INPUT || mg_entry_is_unused(node))) {
            continue;
        }
        if (is_input) {
            text = mg_guard_source_text(&entry->guards, entry->inputs[k]);
            root = root_of(entry, entry->inputs[k]);
            if (text == NULL || PyList_Append(inputs, node->real == NULL ? Py_None : node->real) < 0) {
                Py_XDECREF(text);
                goto done;
            }
        }
        PyObject *item = mg_node_describe(node, i, text, root);
        Py_XDECREF(text);
        int status = item == NULL ? -1 : PyList_Append(nodes, item);
        Py_XDECREF(item);
        if (status < 0) {
            goto done;
        }
    }
    for (int i = 0; i < entry->output_count; i++) {
        PyObject *index = PyLong_FromLong(entry->outputs[i]);
        int status = index == NULL ? -1 : PyList_Append(outputs, index);
        Py_XDECREF(index);
        if (status < 0) {
            goto done;
        }
    }
    result = PyTuple_Pack(3, nodes, outputs, inputs);
done:
    Py_XDECREF(nodes);
    Py_XDECREF(outputs);
    Py_XDECREF(inputs);
    return result;
}

void
mg_entry_forget_inputs(MgEntry *entry)
{
    for (int i = 0; i < entry->node_count; i++) {
        Py_CLEAR(entry->nodes[i].real);
    }
}

/* ---- running ---- */

/* The inputs of the graph, borrowed, in an array with one more place before it. NULL with an exception. */
static PyObject **
borrow_inputs(MgEntry *entry, const MgRegisters *registers)
{
    PyObject **room = entry->spare_inputs;
    entry->spare_inputs = NULL;
    if (room == NULL) {
        room = mg_reserve_malloc(sizeof(PyObject *) * (size_t)(entry->input_count + 1));
        if (room == NULL) {
            return NULL;
        }
    }
    mg_guard_inputs(&entry->guards, registers, room + 1);
    return room + 1;
}

/* The same, as new references. */
static PyObject **
take_inputs(MgEntry *entry, const MgRegisters *registers)
{
    PyObject **inputs = borrow_inputs(entry, registers);
    for (int i = 0; inputs != NULL && i < entry->input_count; i++) {
        Py_INCREF(inputs[i]);
    }
    return inputs;
}

/* 1 if a callable takes references to its arguments before it runs any code: Python's functions do. */
static int
takes_references(PyObject *callable)
{
    return callable != NULL && Py_IS_TYPE(callable, &PyFunction_Type) &&
           ((PyFunctionObject *)callable)->vectorcall == _PyFunction_Vectorcall;
}

/* Returns the array back, once its references are taken out or dropped. */
static void
give_inputs(MgEntry *entry, PyObject **inputs)
{
    if (entry->spare_inputs == NULL) {
        entry->spare_inputs = inputs - 1;
    }
    else {
        PyMem_Free(inputs - 1);
    }
}

/* The same, and drops its references. */
static void
drop_inputs(MgEntry *entry, PyObject **inputs)
{
    for (int i = 0; i < entry->input_count; i++) {
        Py_DECREF(inputs[i]);
    }
    give_inputs(entry, inputs);
}

/* The attribute by which AOTAutograd tells TorchDynamo which sizes of a tensor vary: programs would see it. */
#define MARK MG_STRING("_dynamo_propagated_dynamic_indices")

/* 1 if a tensor has the mark; those of other classes make their own. */
static int
is_marked(PyObject *object)
{
    PyObject **dict = Py_TYPE(object) == mg_torch.tensor || Py_TYPE(object) == mg_torch.parameter
                          ? _PyObject_GetDictPtr(object)
                          : NULL;
    return dict != NULL && *dict != NULL && PyDict_GetItemWithError(*dict, MARK) != NULL;
}

/* The inputs that have the mark before the graph runs. New list; NULL if there are none, or no memory. */
static PyObject *
marked_inputs(const MgEntry *entry, PyObject *const *inputs)
{
    PyObject *marked = NULL;
    for (int i = 0; i < entry->input_count; i++) {
        if (is_marked(inputs[i]) && (marked != NULL || (marked = PyList_New(0)) != NULL)) {
            (void)PyList_Append(marked, inputs[i]);
        }
    }
    PyErr_Clear();
    return marked;
}

/* Takes the mark off tensors, but for those that had it before. */
static void
remove_marks(PyObject *const *tensors, Py_ssize_t count, PyObject *marked)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        int had = 0;
        for (Py_ssize_t k = 0; marked != NULL && k < PyList_GET_SIZE(marked); k++) {
            had = had || PyList_GET_ITEM(marked, k) == tensors[i];
        }
        if (!had && is_marked(tensors[i])) {
            (void)PyDict_DelItem(*_PyObject_GetDictPtr(tensors[i]), MARK);
            PyErr_Clear();
        }
    }
}

/* Runs what the backend compiled. Takes the inputs, unless they are borrowed. */
static int
call_compiled(MgEntry *entry, PyObject *compiled, PyObject **inputs, int is_borrowed, PyObject **outputs)
{
    int varies = entry->lattice != NULL || entry->symbols != NULL;
    PyObject *marked = varies ? marked_inputs(entry, inputs) : NULL;
    PyObject *result =
        PyObject_Vectorcall(compiled, inputs, (size_t)entry->input_count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (varies && result != NULL) {
        remove_marks(inputs, entry->input_count, marked);
        if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
            remove_marks(PySequence_Fast_ITEMS(result), Py_SIZE(result), marked);
        }
    }
    Py_XDECREF(marked);
    (is_borrowed ? give_inputs : drop_inputs)(entry, inputs);
    PyObject *sequence = result == NULL ? NULL : PySequence_Fast(result, "a compiled graph must give a tuple or list");
    Py_XDECREF(result);
    if (sequence == NULL) {
        return MG_ERR;
    }
    int status = MG_OK;
    if (PySequence_Fast_GET_SIZE(sequence) < entry->output_count) {
        PyErr_Format(
            PyExc_RuntimeError,
            "what the backend returned gave %zd outputs, and the graph has %d: a backend returns a callable that "
            "takes the inputs of the graph and returns a tuple of its outputs",
            PySequence_Fast_GET_SIZE(sequence), entry->output_count);
        status = MG_ERR;
    }
    for (int i = 0; status == MG_OK && i < entry->output_count; i++) {
        outputs[i] = Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i));
    }
    Py_DECREF(sequence);
    return status;
}

int
mg_entry_is_apart(MgEntry *entry, const MgRegisters *registers)
{
    mg_guard_inputs(&entry->guards, registers, entry->storages.inputs);
    return mg_storages_hold(&entry->storages, entry->storages.inputs);
}

PyObject *
mg_entry_input_tuple(MgEntry *entry, const MgRegisters *registers)
{
    PyObject **items = take_inputs(entry, registers); /* first: making the tuple may start a collection */
    PyObject *inputs = items == NULL ? NULL : PyTuple_New(entry->input_count);
    for (int i = 0; inputs != NULL && i < entry->input_count; i++) {
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(items[i]));
    }
    if (items != NULL) {
        drop_inputs(entry, items);
    }
    return inputs;
}

int
mg_entry_check(MgEntry *entry, const MgRegisters *registers)
{
    if (MG_LIKELY(entry->check == NULL)) {
        return 1;
    }
    PyObject *inputs = mg_entry_input_tuple(entry, registers);
    PyObject *result = inputs == NULL ? NULL : PyObject_CallOneArg(entry->check, inputs);
    int good = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(inputs);
    Py_XDECREF(result);
    return good;
}

/* The frames of a break with their values, from the memo of the plan. */
static MgExit *
build_exit(MgEntry *entry, PyObject *owner, PyObject **registers, PyObject **outputs, PyObject **memo)
{
    MgExit *exit = mg_exit_new(owner, entry->frame_count);
    for (int i = 0; exit != NULL && i < entry->frame_count; i++) {
        MgExitFrame *from = &entry->frames[i];
        MgSnapshot *frame = &exit->frames[i];
        frame->code = (PyCodeObject *)Py_NewRef((PyObject *)from->code);
        frame->offset = from->offset;
        frame->awaiting = from->awaiting;
        size_t room = (size_t)from->code->co_nlocalsplus + (size_t)from->code->co_stacksize; /* see mg_exit_place */
        frame->slots = PyMem_Calloc(room + 1, sizeof(PyObject *));
        frame->count = frame->slots == NULL ? 0 : from->count;
        int good = frame->slots != NULL;
        if (from->function >= 0) {
            frame->function = Py_XNewRef(mg_plan_build(&entry->plan, from->function, registers, outputs, memo));
            good = good && frame->function != NULL;
        }
        for (int j = 0; good && j < from->count; j++) {
            if (from->slots[j] == MG_EXIT_OWN) {
                frame->slots[j] = Py_NewRef(&mg_exit_own);
            }
            else if (from->slots[j] >= 0) {
                frame->slots[j] = Py_XNewRef(mg_plan_build(&entry->plan, from->slots[j], registers, outputs, memo));
                good = frame->slots[j] != NULL;
            }
        }
        if (!good) {
            if (!PyErr_Occurred()) {
                PyErr_NoMemory();
            }
            mg_exit_release(exit);
            return NULL;
        }
    }
    return exit;
}

/* Builds all that outlives the run: the result, or the frames of a break, and then the values of the effects, since an
 * effect may change what a later value is read from. The result; None for frames, which are given in `exit`. New; on an
 * error nothing but the memo is left. */
static PyObject *
build_all(MgEntry *entry, PyObject *owner, PyObject **registers, PyObject **outputs, PyObject **memo, MgExit **exit)
{
    PyObject *result;
    if (entry->frames == NULL) {
        result = Py_XNewRef(mg_plan_build(&entry->plan, entry->result, registers, outputs, memo));
    }
    else {
        *exit = build_exit(entry, owner, registers, outputs, memo);
        result = *exit == NULL ? NULL : Py_NewRef(Py_None);
    }
    for (int i = 0; result != NULL && i < entry->effect_count; i++) {
        int nodes[2] = {entry->effects[i].value, entry->effects[i].own_key}; /* as they were planned */
        for (int j = 0; result != NULL && j < 2; j++) {
            if (nodes[j] >= 0 && mg_plan_build(&entry->plan, nodes[j], registers, outputs, memo) == NULL) {
                Py_CLEAR(result);
            }
        }
    }
    if (result == NULL && *exit != NULL) {
        mg_exit_release(*exit);
        *exit = NULL;
    }
    return result;
}

uint64_t
mg_entry_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* All that comes after the graph: the result or the frames of a break, and the effects. The result, new; or NULL and
 * *exit; or NULL with an exception. */
static PyObject *
finish_run(MgEntry *entry, PyObject **registers, PyObject **outputs, PyObject *owner, MgExit **exit)
{
    PyObject *result = NULL, **memo = outputs + entry->output_count;
    int reserve = 0;
    result = build_all(entry, owner, registers, outputs, memo, exit);
    if (result == NULL && mg_reserve_open(&reserve)) { /* the graph has run: there is no way back */
        for (int i = 0; i < entry->plan.count; i++) {
            Py_CLEAR(memo[i]);
        }
        result = build_all(entry, owner, registers, outputs, memo, exit);
    }
    for (int i = 0; result != NULL && i < entry->effect_count; i++) {
        const MgEffect *effect = &entry->effects[i];
        PyObject *key = effect->own_key < 0 ? effect->key : memo[effect->own_key];
        PyObject *value = effect->value < 0 ? NULL : memo[effect->value];
        PyObject *target = registers[effect->target];
        if (apply_effect(effect, target, key, value) < 0 &&
            (!mg_reserve_open(&reserve) || apply_effect(effect, target, key, value) < 0)) {
            Py_CLEAR(result);
        }
    }
    mg_plan_place(&entry->plan, memo);
    if (entry->frames != NULL) {
        if (result != NULL && enter_managers(entry, registers, outputs, memo, &reserve) < 0) {
            Py_CLEAR(result);
        }
        int entered = result != NULL ? entry->manager_count : 0;
        if (entry->manager_count > 0 && release_casts(&reserve) < 0) {
            Py_CLEAR(result);
        }
        if (result != NULL && entry->exit_state != NULL && mg_state_apply(entry->exit_state) < 0 &&
            (!mg_reserve_open(&reserve) || mg_state_apply(entry->exit_state) < 0)) {
            Py_CLEAR(result);
        }
        if (result == NULL && entered > 0) {
            leave_managers(entry, entered, memo, &reserve);
        }
        if (result == NULL && *exit != NULL) {
            mg_exit_release(*exit);
            *exit = NULL;
        }
        Py_CLEAR(result);
    }
    mg_reserve_close(reserve);
    return result;
}

/* Holds the registers that are needed after the graph has run, or lets go of them. */
static void
hold_kept(const MgEntry *entry, PyObject **registers, int is_held)
{
    for (int i = 0; i < entry->kept_count; i++) {
        PyObject *value = registers[entry->kept[i]];
        if (is_held) {
            Py_XINCREF(value);
        }
        else {
            Py_XDECREF(value);
        }
    }
}

/* Puts torch's global state and settings back where a graph stopped half-way, perhaps in a no_grad block. The exception
 * that is set stays. */
static void
restore_state(const MgEntry *entry)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int reserve = 0;
    mg_reserve_use(&reserve);
    if (mg_state_apply(entry->guards.state) < 0 || mg_state_undo(entry->settings) < 0) {
        PyErr_Clear();
    }
    mg_reserve_close(reserve);
    PyErr_Restore(type, value, traceback);
}

PyObject *
mg_entry_run(MgEntry *entry, const MgRegisters *found, PyObject *owner, MgExit **exit, MgFailure *failure)
{
    PyObject **registers = found->values;
    *exit = NULL;
    PyObject *result = NULL;
    enum { SMALL = 32 };
    PyObject *small[SMALL];
    int room = entry->output_count + entry->plan.count;
    PyObject **outputs = room <= SMALL ? small : mg_reserve_malloc(sizeof(PyObject *) * (size_t)room);
    if (outputs == NULL) {
        return NULL;
    }
    for (int i = 0; i < room; i++) {
        outputs[i] = NULL;
    }
    entry->hits++;
    Py_INCREF(entry);
    hold_kept(entry, registers, 1);
    uint64_t start = MG_UNLIKELY(entry->profile.is_on) ? mg_entry_clock() : 0;
    PyObject *compiled =
        entry->compiled; /* borrowed: once it is there it stays. Another thread may put it there meanwhile */
    int has_graph = compiled != NULL || entry->node_count > 0;
    int is_borrowed = entry->manager_count == 0 && takes_references(compiled);
    PyObject **inputs = !has_graph    ? NULL
                        : is_borrowed ? borrow_inputs(entry, found)
                                      : take_inputs(entry, found); /* the registers are borrowed up to here */
    int status = has_graph && inputs == NULL ? MG_ERR : entry->manager_count > 0 ? hold_casts() : MG_OK;
    if (status < 0) { /* the exception goes to the caller */
        if (inputs != NULL) {
            drop_inputs(entry, inputs);
        }
    }
    else if (has_graph) {
        int muted = entry->is_muted && mg_aside_mute();
        if (compiled != NULL) {
            status = call_compiled(entry, compiled, inputs, is_borrowed, outputs);
            failure->is_compiled = status < 0;
        }
        else {
            status = mg_replay_run(entry, inputs, outputs, failure);
            give_inputs(entry, inputs);
        }
        mg_aside_unmute(muted);
    }
    if (MG_UNLIKELY(start != 0)) {
        entry->profile.graph += mg_entry_clock() - start;
        entry->profile.runs++;
    }
    if (status == MG_OK) {
        result = finish_run(entry, registers, outputs, owner, exit);
    }
    else {
        restore_state(entry);
        if (entry->manager_count > 0) {
            int reserve = 0;
            (void)release_casts(&reserve); /* an exception is set in any case */
            mg_reserve_close(reserve);
        }
    }
    hold_kept(entry, registers, 0);
    for (int i = 0; i < room; i++) {
        Py_XDECREF(outputs[i]);
    }
    if (outputs != small) {
        PyMem_Free(outputs);
    }
    Py_DECREF(entry);
    return result;
}

int
mg_entry_replay(MgEntry *entry, const MgRegisters *registers, MgFailure *failure)
{
    if (entry->operations == NULL && mg_replay_prepare(entry) < 0) {
        mg_replay_free(entry);
        return MG_ERR;
    }
    PyObject **outputs = PyMem_Calloc((size_t)entry->output_count + 1, sizeof(PyObject *));
    PyObject **inputs = outputs == NULL ? NULL : take_inputs(entry, registers);
    if (inputs == NULL) {
        PyMem_Free(outputs);
        return PyErr_Occurred() ? MG_ERR : (PyErr_NoMemory(), MG_ERR);
    }
    int status = entry->manager_count > 0 ? hold_casts() : MG_OK;
    if (status == MG_OK) {
        int muted = entry->is_muted && mg_aside_mute();
        status = mg_replay_run(entry, inputs, outputs, failure);
        give_inputs(entry, inputs);
        mg_aside_unmute(muted);
    }
    else {
        drop_inputs(entry, inputs);
    }
    if (entry->manager_count > 0) {
        int reserve = 0;
        status = release_casts(&reserve) < 0 ? MG_ERR : status;
        mg_reserve_close(reserve);
    }
    restore_state(entry);
    for (int i = 0; i < entry->output_count; i++) {
        Py_XDECREF(outputs[i]);
    }
    PyMem_Free(outputs);
    return status;
}

int
mg_entry_stop(MgEntry *entry, PyObject **registers, PyObject **outputs, PyObject *owner, MgExit **exit)
{
    *exit = NULL;
    int status = entry->manager_count > 0 ? mg_state_hold_casts(1) : MG_OK;
    hold_kept(entry, registers, 1);
    PyObject *result = status < 0 ? NULL : finish_run(entry, registers, outputs, owner, exit);
    hold_kept(entry, registers, 0);
    for (int i = 0; i < entry->output_count + entry->plan.count; i++) {
        Py_CLEAR(outputs[i]);
    }
    Py_XDECREF(result);
    return *exit == NULL ? MG_ERR : MG_OK;
}

/* ---- the Python side ---- */

static PyObject *
entry_guards(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(self->guards.check_count);
    for (int i = 0; list != NULL && i < self->guards.check_count; i++) {
        PyObject *text = mg_guard_text(&self->guards, i);
        if (text == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, text);
    }
    return list;
}

static PyObject *
entry_describe(MgEntry *self, PyObject *unused)
{
    (void)unused;
    return mg_entry_describe(self);
}

static PyObject *
entry_source(MgEntry *self, PyObject *argument)
{
    long number = PyLong_AsLong(argument);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (number < 0 || number >= self->guards.step_count) {
        PyErr_SetString(PyExc_IndexError, "there is no source of this number");
        return NULL;
    }
    return mg_guard_source_text(&self->guards, (int)number);
}

/* The texts of the sources of modules that operations were called in, by the numbers that their stacks have. */
static PyObject *
entry_modules(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *texts = PyDict_New();
    for (int i = 0; texts != NULL && i < self->node_count; i++) {
        PyObject *stack = self->nodes[i].stack;
        for (Py_ssize_t j = 0; texts != NULL && stack != NULL && j < PyTuple_GET_SIZE(stack); j++) {
            PyObject *frame = PyTuple_GET_ITEM(stack, j);
            PyObject *number = PyTuple_GET_SIZE(frame) > 2 ? PyTuple_GET_ITEM(frame, 2) : NULL;
            int known = number == NULL ? 1 : PyDict_Contains(texts, number);
            PyObject *text = known != 0 ? NULL : entry_source(self, number);
            if (known < 0 || (known == 0 && (text == NULL || PyDict_SetItem(texts, number, text) < 0))) {
                Py_CLEAR(texts);
            }
            Py_XDECREF(text);
        }
    }
    return texts;
}

static PyObject *
entry_questions(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < self->guards.check_count; i++) {
        const MgCheck *check = &self->guards.checks[i];
        if (check->kind == MG_GUARD_QUERY && PyList_Append(list, self->guards.steps[check->source].source.key) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
entry_set_inputs(MgEntry *self, PyObject *nodes)
{
    Py_ssize_t count = PyList_Check(nodes) ? PyList_GET_SIZE(nodes) : -1;
    int *inputs = PyMem_Calloc((size_t)self->node_count + 1, sizeof(int));
    int *input_nodes = PyMem_Calloc((size_t)self->node_count + 1, sizeof(int));
    MgStorages storages = {0};
    int good = count >= 0 && count <= self->input_count && inputs != NULL && input_nodes != NULL &&
               (self->storages.count == 0 || mg_storages_make(&storages, (int)count) == MG_OK);
    for (Py_ssize_t i = 0; good && i < count; i++) {
        int at = 0;
        long node = PyLong_AsLong(PyList_GET_ITEM(nodes, i));
        while (at < self->input_count && self->input_nodes[at] != node) {
            at++;
        }
        good = at < self->input_count;
        inputs[i] = good ? self->inputs[at] : 0;
        input_nodes[i] = (int)node;
        if (good && storages.count > 0) {
            storages.written[i] = self->storages.written[at];
            storages.groups[i] = self->storages.groups[at];
        }
    }
    if (!good) {
        mg_storages_free(&storages);
        PyMem_Free(inputs);
        PyMem_Free(input_nodes);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "these are no inputs of the graph");
        }
        return NULL;
    }
    PyMem_Free(self->inputs);
    PyMem_Free(self->input_nodes);
    mg_storages_free(&self->storages);
    self->storages = storages;
    self->inputs = inputs;
    self->input_nodes = input_nodes;
    self->input_count = (int)count;
    self->guards.inputs = inputs;
    self->guards.input_count = (int)count;
    Py_RETURN_NONE;
}

static PyObject *
entry_input_nodes(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(self->input_count);
    for (int i = 0; list != NULL && i < self->input_count; i++) {
        PyObject *node = PyLong_FromLong(self->input_nodes[i]);
        if (node == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, node);
    }
    return list;
}

static PyObject *
entry_key(MgEntry *self, PyObject *unused)
{
    (void)unused;
    return mg_entry_key(self);
}

/* mg_guard_source_text for texts of formulas. */
static PyObject *
register_text(const void *program, int step)
{
    return mg_guard_source_text(program, step);
}

/* Where the symbols are found: (text, what the source starts from, kind, dimension). */
static PyObject *
entry_size_origins(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *guards = mg_guard_sizes(&self->guards),
             *list = guards == NULL ? PyList_New(0) : mg_size_guards_origins(guards);
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(list); i++) {
        int step, kind, dim;
        PyObject *item = NULL;
        if (PyArg_ParseTuple(PyList_GET_ITEM(list, i), "iii", &step, &kind, &dim)) {
            PyObject *text = kind == MG_VARYING_FORMULA
                                 ? mg_size_guards_formula(guards, (int)i, register_text, &self->guards)
                                 : mg_guard_source_text(&self->guards, step);
            PyObject *root = root_of(self, step);
            item = text == NULL ? NULL : Py_BuildValue("(NOii)", text, root == NULL ? Py_None : root, kind, dim);
        }
        if (item == NULL || PyList_SetItem(list, i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *
entry_size_guards(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *guards = mg_guard_sizes(&self->guards), *list = PyList_New(0);
    const MgFacts *facts = guards == NULL ? NULL : mg_size_guards_facts(guards);
    for (int i = 0; facts != NULL && list != NULL && i < facts->guard_count; i++) {
        const MgSizeGuard *guard = &facts->guards[i];
        const MgExpr *left = mg_dim_expr(guard->left), *right = mg_dim_expr(guard->right);
        PyObject *a = left == NULL ? PyErr_NoMemory() : mg_tree_of(left);
        PyObject *b = a == NULL ? NULL : right == NULL ? PyErr_NoMemory() : mg_tree_of(right);
        PyObject *item = b == NULL ? NULL : Py_BuildValue("(sOO)", mg_relation_name(guard->relation), a, b);
        Py_XDECREF(a);
        Py_XDECREF(b);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *
entry_size_places(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *guards = mg_guard_sizes(&self->guards), *list = PyList_New(0);
    const MgFacts *facts = guards == NULL ? NULL : mg_size_guards_facts(guards);
    for (int i = 0; facts != NULL && list != NULL && i < facts->guard_count; i++) {
        const MgPlace *place = facts->guards[i].place < 0 ? NULL : &self->guards.places[facts->guards[i].place];
        PyObject *item = place == NULL ? Py_NewRef(Py_None) : Py_BuildValue("(Oi)", place->code, place->offset);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *
entry_renew_sizes(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *guards = mg_guard_sizes(&self->guards);
    return guards != NULL && mg_size_guards_renew(guards) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
entry_keep_apart(MgEntry *self, PyObject *args)
{
    PyObject *written, *groups;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &written, &PyList_Type, &groups) ||
        mg_storages_make(&self->storages, self->input_count) < 0) {
        return NULL;
    }
    for (int i = 0; i < self->input_count && i < PyList_GET_SIZE(written) && i < PyList_GET_SIZE(groups); i++) {
        self->storages.written[i] |= PyList_GET_ITEM(written, i) == Py_True;
        self->storages.groups[i] = (int)PyLong_AsLong(PyList_GET_ITEM(groups, i));
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *
entry_guard_figures(MgEntry *self, PyObject *unused)
{
    (void)unused;
    const MgProgram *program = &self->guards;
    MgFastSize size = program->fast == NULL ? (MgFastSize){0} : mg_fast_size(program->fast);
    return Py_BuildValue("{s:i,s:i,s:I,s:I,s:I,s:i,s:i,s:i,s:i,s:i}", "steps", program->step_count, "checks",
                         program->check_count, "armed", program->armed, "fast_hits", program->fast_hits, "unchanged",
                         size.unchanged, "words", size.words, "live_steps", size.steps, "live_checks", size.checks,
                         "tensors", size.tensors, "suspect", program->suspect - 1);
}

static PyObject *
entry_live_guards(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < self->guards.check_count; i++) {
        if (self->guards.fast != NULL && !mg_fast_is_live(self->guards.fast, i)) {
            continue;
        }
        PyObject *text = mg_guard_text(&self->guards, i);
        if (text == NULL || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *
entry_profile(MgEntry *self, PyObject *unused)
{
    (void)unused;
    const MgProfile *profile = &self->profile;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K}", "tries", (unsigned long long)profile->tries, "runs",
                         (unsigned long long)profile->runs, "guard", (unsigned long long)profile->guard, "graph",
                         (unsigned long long)profile->graph, "whole", (unsigned long long)profile->whole);
}

static PyMethodDef entry_methods[] = {
    {"profile", (PyCFunction)entry_profile, METH_NOARGS,
     "Counts, and times in nanoseconds, from the calls while profiling was on."},
    {"live_guards", (PyCFunction)entry_live_guards, METH_NOARGS,
     "The guards that are checked on every call, as texts."},
    {"guard_figures", (PyCFunction)entry_guard_figures, METH_NOARGS,
     "What its guards consist of, and how they are run."},
    {"questions", (PyCFunction)entry_questions, METH_NOARGS,
     "The functions that tell settings which its guards ask for, each with its arguments."},
    {"keep_apart", (PyCFunction)entry_keep_apart, METH_VARARGS,
     "Have it used only if inputs that are written to share storages with those of their own group alone."},
    {"source", (PyCFunction)entry_source, METH_O, "A source as text, by its number."},
    {"modules", (PyCFunction)entry_modules, METH_NOARGS,
     "The sources of the modules that operations were called in, as texts by the numbers that their stacks have."},
    {"guards", (PyCFunction)entry_guards, METH_NOARGS, "The guards as a list of texts."},
    {"set_inputs", (PyCFunction)entry_set_inputs, METH_O,
     "Set which of the inputs that it describes the graph takes, and in which order: a list of their nodes."},
    {"size_origins", (PyCFunction)entry_size_origins, METH_NOARGS,
     "Where the values of the symbols are found at a call: (source, what it starts from, kind, dimension)."},
    {"size_guards", (PyCFunction)entry_size_guards, METH_NOARGS,
     "What was decided on the symbols: (relation, tree, tree)."},
    {"size_places", (PyCFunction)entry_size_places, METH_NOARGS,
     "The lines that asked for what was decided on the symbols: code and offset, or None."},
    {"renew_sizes", (PyCFunction)entry_renew_sizes, METH_NOARGS,
     "Have what was decided since it was captured checked too."},
    {"input_nodes", (PyCFunction)entry_input_nodes, METH_NOARGS,
     "The nodes that are the inputs of the graph, in their order: what set_inputs takes."},
    {"hold_inputs", (PyCFunction)mg_entry_hold_inputs, METH_O,
     "Hold the inputs of a call, a tuple, as when it was captured; None to hold none."},
    {"key", (PyCFunction)entry_key, METH_NOARGS,
     "The graph as (bytes, objects, state), equal for graphs that a backend can't tell apart; None if it can't be "
     "told."},
    {"describe", (PyCFunction)entry_describe, METH_NOARGS, "The graph as (nodes, outputs, inputs)."},
    {NULL, NULL, 0, NULL},
};

static PyObject *
entry_operations(MgEntry *self, void *unused)
{
    (void)unused;
    long count = 0, others = 0;
    for (int i = 0; i < self->node_count; i++) {
        int runs = self->nodes[i].kind != MG_NODE_INPUT && !mg_entry_is_unused(&self->nodes[i]);
        count += runs;
        others += runs && (self->nodes[i].is_number || self->nodes[i].is_state);
    }
    return PyLong_FromLong(count == others ? 0 : count);
}

static PyObject *
entry_needs_grad(MgEntry *self, void *unused)
{
    (void)unused;
    int needs = 0;
    for (int i = 0; !needs && i < self->input_count; i++) {
        PyObject *value = self->nodes[self->input_nodes[i]].value;
        needs = Py_IS_TYPE(value, &MgMeta_Type) && (((MgMeta *)value)->flags & MG_META_REQUIRES_GRAD);
    }
    return PyBool_FromLong(needs);
}

/* Whether sizes or numbers vary that the graph gets. */
static PyObject *
entry_has_symbols(MgEntry *self, void *unused)
{
    (void)unused;
    PyObject *guards = mg_guard_sizes(&self->guards), *origins = guards == NULL ? NULL : mg_size_guards_origins(guards);
    if (guards != NULL && origins == NULL) {
        return NULL;
    }
    int found = origins != NULL && PyList_GET_SIZE(origins) > 0;
    Py_XDECREF(origins);
    for (int i = 0; !found && i < self->input_count; i++) {
        PyObject *value = self->nodes[self->input_nodes[i]].value;
        found = value != NULL && PyFloat_CheckExact(value);
    }
    return PyBool_FromLong(found);
}

static PyGetSetDef entry_getset[] = {
    {"has_symbols", (getter)entry_has_symbols, NULL, "Whether sizes or numbers vary that the graph gets.", NULL},
    {"needs_grad", (getter)entry_needs_grad, NULL, "Whether an input of the graph requires grad.", NULL},
    {"operations", (getter)entry_operations, NULL,
     "How many operations the graph has; none if it computes only numbers, and changes only torch's state.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef entry_members[] = {
    {"hits", T_ULONGLONG, offsetof(MgEntry, hits), READONLY, "How often the entry was run."},
    {"symbols", T_OBJECT, offsetof(MgEntry, symbols), READONLY, "The session of its symbolic values, or None."},
    {"muted", T_INT, offsetof(MgEntry, is_muted), READONLY, "Whether it runs with `__torch_function__` switched off."},
    {"compiled", T_OBJECT, offsetof(MgEntry, compiled), READONLY, "What the backend gave, or None."},
    {"guard_count", T_INT, offsetof(MgEntry, guards.check_count), READONLY, "How many guards it has."},
    {"node_count", T_INT, offsetof(MgEntry, node_count), READONLY, "How many nodes its recording has."},
    {"input_count", T_INT, offsetof(MgEntry, input_count), READONLY, "How many inputs its graph has."},
    {"codes", T_OBJECT, offsetof(MgEntry, codes), READONLY, "The codes of the frames that were captured."},
    {"pending", T_OBJECT, offsetof(MgEntry, pending), 0,
     "Called at the next call, with the entry and its inputs: gives what was compiled in the background, or None."},
    {"compile_id", T_OBJECT, offsetof(MgEntry, compile_id), 0, "The number of its compilation, or None."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgEntry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Entry",
    .tp_basicsize = sizeof(MgEntry),
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_weaklistoffset = offsetof(MgEntry, weakrefs),
    .tp_methods = entry_methods,
    .tp_members = entry_members,
    .tp_getset = entry_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_entry_types_ready(void)
{
    return PyType_Ready(&MgEntry_Type);
}
