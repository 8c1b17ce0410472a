/* An entry: one captured and compiled version of a function, with all that is needed to run it again.
 *
 * Running it: the guards have left every object that is needed in a register. The graph gets its inputs from there and
 * gives its outputs; the plan builds the result and the values of the effects; the effects are applied; the result is
 * returned. Nothing outside changes before the graph has run to its end. */
#include "entry.h"

#include "aside.h"
#include "answer.h"
#include "alias.h"
#include "fast.h"
#include "finalizer.h"
#include "kinds.h"
#include "lazy.h"
#include "protocol.h"
#include "record.h"
#include "replay.h"
#include "reserve.h"
#include "rules.h"
#include "settable.h"
#include "shadow.h"
#include "structure.h"
#include "world.h"
#include "worldbase.h"

#include <structmember.h>
#include <time.h>

/* ---- effects ---- */

/* What is gathered while an entry is made. */
typedef struct {
    MgPlanner planner;
    MgEntry *entry;
    int effect_room;
    Py_hash_t hash; /* of the key of the next effect, -1 if it is not known */
} Maker;

static int
add_effect(Maker *maker, MgEffectKind kind, MgSource *target, PyObject *key, Py_ssize_t index, PyObject *value)
{
    MgEntry *entry = maker->entry;
    int node = -1, own_key = -1, outside = 0;
    if (value != NULL) {
        node = mg_plan_add(&maker->planner, value);
        if (node < 0) {
            return MG_ERR;
        }
    }
    if (kind == MG_EFFECT_DICT_SET && !PyUnicode_CheckExact(key)) {
        own_key = mg_plan_add(&maker->planner, key);
        if (own_key < 0) {
            return MG_ERR;
        }
        outside = entry->plan.nodes[own_key].kind == MG_PLAN_CONST || entry->plan.nodes[own_key].kind == MG_PLAN_SOURCE;
        if (entry->plan.nodes[own_key].kind == MG_PLAN_CONST) {
            own_key = -1;
        }
    }
    if (!outside || !mg_kinds_hashes_in_python(key)) {
        maker->hash = -1;
    }
    if (entry->effect_count == maker->effect_room) {
        int room = maker->effect_room == 0 ? 8 : maker->effect_room * 2;
        MgEffect *effects = PyMem_Realloc(entry->effects, sizeof(MgEffect) * (size_t)room);
        if (effects == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        entry->effects = effects;
        maker->effect_room = room;
    }
    if (mg_finalizer_guard(maker->planner.capture, kind, target, key, index) < 0) {
        return MG_ERR;
    }
    PyObject *fixed = own_key < 0 ? Py_XNewRef(key) : NULL;
    entry->effects[entry->effect_count++] = (MgEffect){kind, target->id, fixed, own_key, index, node, maker->hash};
    maker->hash = -1;
    return MG_OK;
}

/* 1 if what a shadow holds is what the original holds. */
static int
is_unchanged(MgCapture *capture, PyObject *now, PyObject *before)
{
    if (now == before) {
        return 1;
    }
    MgRecord *record = mg_world_record(capture, before);
    return record != NULL && record->object == before && record->view == mg_twin_original(now);
}

static int
list_effects(Maker *maker, MgRecord *record)
{
    PyObject *before = record->object, *now = record->view;
    Py_ssize_t same = 0;
    while (same < PyList_GET_SIZE(before) && same < PyList_GET_SIZE(now) &&
           is_unchanged(maker->planner.capture, PyList_GET_ITEM(now, same), PyList_GET_ITEM(before, same))) {
        same++;
    }
    if (same == PyList_GET_SIZE(before) && same == PyList_GET_SIZE(now)) {
        return MG_OK;
    }
    PyObject *tail = PyList_GetSlice(now, same, PyList_GET_SIZE(now));
    MgEffectKind kind = same == PyList_GET_SIZE(before) ? MG_EFFECT_LIST_EXTEND : MG_EFFECT_LIST_TAIL;
    int result = tail == NULL || PyList_Append(maker->planner.capture->keep, tail) < 0
                     ? MG_ERR
                     : add_effect(maker, kind, record->source, NULL, same, tail);
    Py_XDECREF(tail);
    return result;
}

/* The whole content of a container becomes that of `content`, which it steals; NULL if that could not be made. `before` says
 * where a set has its items, or is NULL. */
static int
replace_effect(Maker *maker, MgRecord *record, PyObject *before, PyObject *content)
{
    int result = content == NULL || PyList_Append(maker->planner.capture->keep, content) < 0
                     ? MG_ERR
                     : add_effect(maker, MG_EFFECT_REPLACE, record->source, before, 0, content);
    Py_XDECREF(content);
    return result;
}

/* How many of the first keys of a dict are keys of another in the same order. */
static Py_ssize_t
count_kept(PyObject *now, PyObject *before)
{
    MgDictWalk a = {0}, b = {0};
    PyObject *key, *value, *old_key, *old_value;
    Py_ssize_t count = 0;
    while (mg_dict_next(now, &b, &key, &value)) {
        int found = 0;
        while (!found && mg_dict_next(before, &a, &old_key, &old_value)) {
            found = key == old_key;
        }
        if (!found) {
            break;
        }
        count++;
    }
    return count;
}

/* Deletes the keys of the outside dict that are not among the first `kept` of its shadow. */
static int
delete_effects(Maker *maker, MgRecord *record, Py_ssize_t kept)
{
    MgDictWalk a = {0}, b = {0};
    PyObject *key = NULL, *value, *old_key, *old_value;
    int pending = kept > 0 && mg_dict_next(record->view, &b, &key, &value);
    while (mg_dict_next(record->object, &a, &old_key, &old_value)) {
        if (pending && key == old_key) {
            pending = --kept > 0 && mg_dict_next(record->view, &b, &key, &value);
        }
        else {
            maker->hash = a.hash;
            if (add_effect(maker, MG_EFFECT_DICT_SET, record->source, old_key, 0, NULL) < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

static int
dict_effects(Maker *maker, MgRecord *record)
{
    PyObject *before = record->object, *now = record->view;
    MgDictWalk walk = {0};
    PyObject *key, *value;
    Py_ssize_t kept = count_kept(now, before);
    if (kept == 0 && PyDict_GET_SIZE(before) > 0) {
        PyObject *copy = PyDict_New();
        while (copy != NULL && mg_dict_next(now, &walk, &key, &value)) {
            if (_PyDict_SetItem_KnownHash(copy, key, value, walk.hash) < 0) {
                Py_CLEAR(copy);
            }
        }
        return replace_effect(maker, record, NULL, copy);
    }
    if (delete_effects(maker, record, kept) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; mg_dict_next(now, &walk, &key, &value); i++) {
        PyObject *old = i < kept ? _PyDict_GetItem_KnownHash(before, key, walk.hash) : NULL;
        if (old != NULL && is_unchanged(maker->planner.capture, value, old)) {
            continue;
        }
        maker->hash = walk.hash;
        if (PyErr_Occurred() || add_effect(maker, MG_EFFECT_DICT_SET, record->source, key, 0, value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* 1 if two sets hold the same objects: equal ones (1 and True) can be told apart. Or MG_ERR. */
static int
same_items(PyObject *before, PyObject *now)
{
    if (PySet_GET_SIZE(before) != PySet_GET_SIZE(now)) {
        return 0;
    }
    MgTable items = {0};
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    int same = 1;
    while (same > 0 && _PySet_NextEntry(before, &position, &item, &hash)) {
        same = mg_table_set(&items, item, NULL, item) < 0 ? MG_ERR : 1;
    }
    position = 0;
    while (same > 0 && _PySet_NextEntry(now, &position, &item, &hash)) {
        same = mg_table_get(&items, item, NULL) != NULL;
    }
    mg_table_free(&items);
    return same;
}

/* 1 if the items of a set have the same hashes in each call. */
static int
has_fixed_hashes(PyObject *set)
{
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &position, &item, &hash)) {
        if (!mg_is_plain_value(item) && !mg_kinds_hashes_in_python(item)) {
            return 0;
        }
    }
    return 1;
}

static int
set_effects(Maker *maker, MgRecord *record)
{
    int same = same_items(record->object, record->view);
    if (same != 0) {
        return same < 0 ? MG_ERR : MG_OK;
    }
    PyObject *places = has_fixed_hashes(record->view) ? mg_set_places(record->object) : NULL;
    if (places == NULL && PyErr_Occurred()) {
        return MG_ERR;
    }
    int result = replace_effect(maker, record, places, mg_set_copy(&PySet_Type, record->view));
    Py_XDECREF(places);
    return result;
}

static int
deque_effects(Maker *maker, MgRecord *record)
{
    Py_ssize_t size = Py_SIZE(record->view);
    int same = size == Py_SIZE(record->object);
    for (Py_ssize_t i = 0; same && i < size; i++) {
        same = is_unchanged(maker->planner.capture, mg_deque_item(record->view, i), mg_deque_item(record->object, i));
    }
    return same ? MG_OK : replace_effect(maker, record, NULL, mg_deque_items(record->view));
}

static int
held_effects(Maker *maker, MgRecord *record)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    MgEffectKind kind = record->kind == MG_KIND_CELL ? MG_EFFECT_CELL_SET : MG_EFFECT_DICT_SET;
    while (PyDict_Next(record->held, &position, &key, &value)) {
        if (add_effect(maker, kind, record->source, key, 0, value == mg_capture_deleted ? NULL : value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
slot_effects(Maker *maker, MgRecord *record)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(record->slots, &position, &key, &value)) {
        if (add_effect(maker, MG_EFFECT_SLOT_SET, record->source, key, 0, value == mg_capture_deleted ? NULL : value) <
            0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
collect_effects(Maker *maker)
{
    MgCapture *capture = maker->planner.capture;
    for (int i = 0; i < capture->record_count; i++) { /* the list may grow while it is walked */
        MgRecord *record = capture->record_list[i];
        int result = MG_OK;
        if (record->slots != NULL && slot_effects(maker, record) < 0) {
            return MG_ERR;
        }
        if (record->view != NULL && record->kind != MG_KIND_TENSOR && !record->unfinished) {
            result = record->kind == MG_KIND_LIST    ? list_effects(maker, record)
                     : record->kind == MG_KIND_DICT  ? dict_effects(maker, record)
                     : record->kind == MG_KIND_SET   ? set_effects(maker, record)
                     : record->kind == MG_KIND_DEQUE ? deque_effects(maker, record)
                                                     : MG_OK;
        }
        else if (record->held != NULL) {
            result = held_effects(maker, record);
        }
        if (result < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

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
            if ((PyODict_Check(target) ? mg_shadow_set(target, key, value)
                                       : _PyDict_SetItem_KnownHash(target, key, value, walk.hash)) < 0) {
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
            if (effect->hash != -1 && !PyODict_Check(target)) {
                int there = value != NULL ? 1 : _PyDict_Contains_KnownHash(target, key, effect->hash);
                return there <= 0      ? there
                       : value != NULL ? _PyDict_SetItem_KnownHash(target, key, value, effect->hash)
                                       : _PyDict_DelItem_KnownHash(target, key, effect->hash);
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
    Py_VISIT(self->check);
    Py_VISIT(self->symbols);
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

/* Takes one user from each node that `value` refers to. */
static void
forget_uses(PyObject *value, MgNode *nodes)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        nodes[((MgRef *)value)->index].users--;
    }
    else if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
            forget_uses(PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i), nodes);
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        forget_uses(slice->start, nodes);
        forget_uses(slice->stop, nodes);
        forget_uses(slice->step, nodes);
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (PyDict_Next(value, &position, &key, &item)) {
            forget_uses(item, nodes);
        }
    }
}

/* Numbers that nobody uses don't keep others in use. */
static void
drop_unused_numbers(MgCapture *capture)
{
    for (int i = capture->node_count - 1; capture->symbols != NULL && i >= 0; i--) {
        MgNode *node = &capture->nodes[i];
        if (node->kind != MG_NODE_INPUT && mg_entry_is_unused(node)) {
            forget_uses(node->args, capture->nodes);
            if (node->kwargs != NULL) {
                forget_uses(node->kwargs, capture->nodes);
            }
        }
    }
}

/* Tensors whose values the capture relied on stay inputs of the graph: they are looked at before each run. */
static int
keep_guarded(MgCapture *capture)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *nodes = PyObject_CallMethod(capture->symbols, "guarded", NULL);
    mg_aside_end(&aside);
    for (Py_ssize_t i = 0; nodes != NULL && i < PyList_GET_SIZE(nodes); i++) {
        capture->nodes[PyLong_AsLong(PyList_GET_ITEM(nodes, i))].users++;
    }
    Py_XDECREF(nodes);
    return nodes == NULL ? MG_ERR : MG_OK;
}

static int
collect_inputs(MgEntry *entry)
{
    entry->inputs = PyMem_Calloc((size_t)entry->node_count + 1, sizeof(int));
    entry->input_nodes = PyMem_Calloc((size_t)entry->node_count + 1, sizeof(int));
    if (entry->inputs == NULL || entry->input_nodes == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < entry->node_count; i++) {
        if (entry->nodes[i].kind == MG_NODE_INPUT && entry->nodes[i].users > 0) {
            entry->inputs[entry->input_count] = entry->nodes[i].source->id;
            entry->input_nodes[entry->input_count++] = i;
        }
    }
    return MG_OK;
}

static int
collect_kept(MgEntry *entry)
{
    entry->kept = PyMem_Calloc((size_t)(entry->plan.count + entry->effect_count) + 1, sizeof(int));
    if (entry->kept == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < entry->plan.count; i++) {
        if (entry->plan.nodes[i].kind == MG_PLAN_SOURCE) {
            entry->kept[entry->kept_count++] = entry->plan.nodes[i].index;
        }
    }
    for (int i = 0; i < entry->effect_count; i++) {
        entry->kept[entry->kept_count++] = entry->effects[i].target;
    }
    return MG_OK;
}

/* Distinct tensor inputs must stay distinct: one could be written through the other. */
static int
guard_distinct(MgCapture *capture)
{
    for (int i = 0; i < capture->node_count; i++) {
        MgNode *a = &capture->nodes[i];
        if (a->kind != MG_NODE_INPUT || a->users == 0 || a->source->kind != MG_SOURCE_LOCAL) {
            continue; /* two arguments can easily be one tensor; parameters of a module are told apart by the backend */
        }
        for (int j = 0; j < capture->node_count; j++) {
            MgNode *b = &capture->nodes[j];
            if (i != j && b->kind == MG_NODE_INPUT && b->users > 0 && !(b->source->kind == MG_SOURCE_LOCAL && j < i) &&
                mg_capture_guard_pair(capture, MG_GUARD_DISTINCT, a->source, b->source) < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

/* Inputs that come to require grad must share their storages with no others. */
static int
keep_apart(MgCapture *capture, MgEntry *entry)
{
    if (mg_storages_make(&entry->storages, entry->input_count) < 0) {
        return MG_ERR;
    }
    for (int i = 0; i < capture->record_count; i++) {
        MgRecord *record = capture->record_list[i];
        MgTwin *twin = record->kind == MG_KIND_TENSOR && record->view != NULL ? mg_twin_of(record->view) : NULL;
        for (int j = 0; twin != NULL && twin->node >= 0 && j < entry->input_count; j++) {
            if (entry->input_nodes[j] == twin->node) {
                entry->storages.written[j] = (twin->changes & MG_CHANGED_HISTORY) != 0;
            }
        }
    }
    return MG_OK;
}

/* Torch's context managers that are open at a break: the graph leaves them, and they are entered anew after it. */
static int
collect_managers(Maker *maker)
{
    MgCapture *capture = maker->planner.capture;
    MgEntry *entry = maker->entry;
    int count = capture->managers == NULL ? 0 : (int)PyList_GET_SIZE(capture->managers);
    entry->managers = PyMem_Calloc((size_t)count + 1, sizeof(int));
    if (entry->managers == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    entry->manager_count = count;
    for (int i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(capture->managers, i);
        entry->managers[i] = mg_plan_add(&maker->planner, PyTuple_GET_ITEM(item, 0));
        if (entry->managers[i] < 0) {
            return MG_ERR;
        }
    }
    for (int i = count; i-- > 0;) {
        PyObject *item = PyList_GET_ITEM(capture->managers, i);
        if (mg_record_exit(capture, PyTuple_GET_ITEM(item, 3), (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 2))) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
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
    int reserve = 0, status = mg_rules_hold_casts(1);
    if (status < 0 && mg_reserve_open(&reserve)) {
        status = mg_rules_hold_casts(1);
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
    if (mg_rules_hold_casts(0) < 0 && (!mg_reserve_open(reserve) || mg_rules_hold_casts(0) < 0)) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return MG_ERR;
    }
    PyErr_Restore(type, value, traceback);
    return MG_OK;
}

/* Plans the frames of a break. */
static int
collect_frames(Maker *maker)
{
    MgCapture *capture = maker->planner.capture;
    MgEntry *entry = maker->entry;
    int count = capture->snapshot_count;
    entry->frames = PyMem_Calloc((size_t)count + 1, sizeof(MgExitFrame));
    if (entry->frames == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        MgSnapshot *from = &capture->snapshots[count - 1 - i];
        MgExitFrame *frame = &entry->frames[i];
        entry->frame_count = i + 1;
        frame->code = (PyCodeObject *)Py_NewRef((PyObject *)from->code);
        frame->offset = from->offset;
        frame->awaiting = from->awaiting;
        frame->count = from->count;
        frame->slots = PyMem_Calloc((size_t)from->count + 1, sizeof(int));
        if (frame->slots == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        frame->function = i == 0 && capture->point ? -1 : mg_plan_add(&maker->planner, from->function);
        if (frame->function < 0 && !(i == 0 && capture->point)) {
            return MG_ERR;
        }
        for (int j = 0; j < from->count; j++) {
            if (from->slots[j] == NULL || from->slots[j] == &mg_exit_own) {
                frame->slots[j] = from->slots[j] == NULL ? -1 : MG_EXIT_OWN;
                continue;
            }
            frame->slots[j] = from->dead[j] ? -1 : mg_plan_add(&maker->planner, from->slots[j]);
            if (frame->slots[j] < 0 && !from->dead[j]) {
                return MG_ERR;
            }
        }
    }
    if (collect_managers(maker) < 0) {
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        MgSnapshot *from = &capture->snapshots[count - 1 - i];
        for (int j = 0; j < from->count; j++) {
            if (from->dead[j]) {
                entry->frames[i].slots[j] = mg_plan_find(&maker->planner, from->slots[j]);
                if (entry->frames[i].slots[j] < 0 && PyErr_Occurred()) {
                    return MG_ERR;
                }
            }
        }
    }
    if (capture->state != capture->entry_state && capture->state != NULL) {
        entry->exit_state = Py_NewRef(capture->state);
    }
    else if (capture->state == NULL) { /* changed, and not read since */
        entry->exit_state = mg_rules_read_state();
        return entry->exit_state == NULL ? MG_ERR : MG_OK;
    }
    return MG_OK;
}

/* 1 if an effect changes the object of the record. */
static int
is_changed(const MgEntry *entry, const MgRecord *record)
{
    for (int i = 0; i < entry->effect_count; i++) {
        if (entry->effects[i].target == record->source->id) {
            return 1;
        }
    }
    return 0;
}

/* Where addresses of objects may have been seen, in a repr or a hash, they must stay the same objects. */
static int
guard_addresses(MgCapture *capture)
{
    for (int i = 0; capture->addresses && i < capture->record_count; i++) {
        MgRecord *record = capture->record_list[i];
        PyTypeObject *type = Py_TYPE(record->object);
        if (record->exposed && record->kind == MG_KIND_INSTANCE &&
            (type->tp_repr == PyBaseObject_Type.tp_repr || type->tp_hash == PyBaseObject_Type.tp_hash) &&
            mg_world_guard_object(capture, record) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* 1 for functions and instances of Python classes: constants that an object from elsewhere may turn out to be. */
static int
has_own_identity(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return PyFunction_Check(object) || type == &PyBaseObject_Type ||
           (mg_is_heap_type(type) && !PyType_Check(object) && !mg_rules_is_constant_type(type));
}

/* Objects that were changed must be no other objects of their type that were read; objects that C code may have compared
 * must stay different objects. */
static int
guard_apart(MgCapture *capture, const MgEntry *entry)
{
    int count = capture->record_count, result = MG_OK;
    MgSource **sources = PyMem_Calloc((size_t)count + 1, sizeof(MgSource *));
    uint8_t *marks = PyMem_Calloc((size_t)count + 1, 1); /* 1: compared, 2: changed, 4: done */
    if (sources == NULL || marks == NULL) {
        PyErr_NoMemory();
        result = MG_ERR;
    }
    for (int i = 0; result == MG_OK && i < count; i++) {
        MgRecord *record = capture->record_list[i];
        int constant = record->kind == MG_KIND_CONSTANT && has_own_identity(record->object);
        int seen = record->exposed || record->is_key;
        if ((record->kind == MG_KIND_CONSTANT && !(constant && seen)) || record->kind == MG_KIND_OPAQUE ||
            (record->kind == MG_KIND_TENSOR && !record->is_key) || record->kind == MG_KIND_TUPLE ||
            record->provisional) {
            marks[i] = 4;
            continue;
        }
        int compared = record->kind == MG_KIND_INSTANCE || record->kind == MG_KIND_FUNCTION ||
                       record->kind == MG_KIND_TENSOR || constant;
        marks[i] = (uint8_t)((seen && compared ? 1 : 0) | (is_changed(entry, record) ? 2 : 0));
    }
    for (int i = 0; result == MG_OK && i < count; i++) {
        if (marks[i] != 1 && marks[i] != 2 && marks[i] != 3) {
            continue;
        }
        PyTypeObject *type = Py_TYPE(capture->record_list[i]->object);
        int first = 0, total = 0, changed = 0, varies = 0;
        for (int j = i; j < count; j++) { /* those that are compared or changed */
            if ((marks[j] & 3) && !(marks[j] & 4) && Py_TYPE(capture->record_list[j]->object) == type) {
                sources[total++] = capture->record_list[j]->source;
                changed = changed || (marks[j] & 2);
                varies = varies || capture->record_list[j]->kind != MG_KIND_CONSTANT;
                marks[j] |= 4;
            }
        }
        first = total;
        for (int j = 0; changed && j < count; j++) { /* the rest of that type */
            if (marks[j] == 0 && Py_TYPE(capture->record_list[j]->object) == type) {
                sources[total++] = capture->record_list[j]->source;
            }
        }
        if (total > 1 && varies) {
            result = mg_capture_guard_apart(capture, sources, first, total);
        }
    }
    PyMem_Free(sources);
    PyMem_Free(marks);
    return result;
}

MgEntry *
mg_entry_new(MgCapture *capture, PyObject *result)
{
    MgEntry *entry = PyObject_GC_New(MgEntry, &MgEntry_Type);
    if (entry == NULL) {
        return NULL;
    }
    memset((char *)entry + sizeof(PyObject), 0, sizeof(MgEntry) - sizeof(PyObject));
    MgCapture *outer = mg_capture_current;
    mg_collections_hold();
    mg_capture_current = capture; /* planning may still reach outside objects */
    Maker maker = {.planner = {.capture = capture, .plan = &entry->plan}, .entry = entry, .hash = -1};
    MgReason reason = capture->reason;
    capture->reason = MG_REASON_NONE; /* of a break: from here on it means that the entry can't be made */
    int status = mg_plan_accept(&maker.planner);
    entry->result = status < 0 || result == NULL ? -1 : mg_plan_add(&maker.planner, result);
    if (status == MG_OK) {
        status = result == NULL ? collect_frames(&maker) : entry->result < 0 ? MG_ERR : MG_OK;
    }
    if (status == MG_OK) {
        status = collect_effects(&maker);
    }
    if (capture->reason == MG_REASON_NONE) {
        capture->reason = reason;
    }
    if (status == MG_OK && capture->symbols != NULL) {
        drop_unused_numbers(capture);
        entry->symbols = Py_NewRef(capture->symbols);
        status = keep_guarded(capture);
    }
    entry->outputs = maker.planner.outputs;
    entry->output_count = maker.planner.output_count;
    if (status == MG_OK) {
        status = mg_lazy_guard(capture, result == NULL ? capture->stopped : 0);
    }
    if (status == MG_OK) {
        status = guard_distinct(capture);
    }
    if (status == MG_OK) {
        status = mg_storage_guard(capture);
    }
    if (status == MG_OK) {
        status = guard_apart(capture, entry);
    }
    if (status == MG_OK) {
        status = guard_addresses(capture);
    }
    if (status == MG_OK) {
        status = mg_protocol_guard_names(capture);
    }
    if (status == MG_OK) {
        status = mg_finalizer_seal(capture);
    }
    if (status == MG_OK) {
        entry->settings = Py_XNewRef(capture->settings);
        entry->is_exact = capture->is_exact;
        status = mg_guard_compile(&entry->guards, capture);
    }
    if (status == MG_OK) {
        entry->nodes = capture->nodes;
        entry->node_count = capture->node_count;
        capture->nodes = NULL;
        capture->node_count = capture->node_room = 0;
        status = collect_inputs(entry) < 0 ? MG_ERR : collect_kept(entry);
        if (status == MG_OK && (capture->changes & MG_CHANGED_HISTORY)) {
            status = keep_apart(capture, entry);
        }
        entry->guards.inputs = entry->inputs;
        entry->guards.input_count = entry->input_count;
        entry->guards.kept = entry->kept;
        entry->guards.kept_count = entry->kept_count;
    }
    mg_table_free(&entry->plan.known);
    mg_capture_current = outer;
    mg_collections_release();
    if (status < 0) {
        Py_DECREF(entry);
        return NULL;
    }
    PyObject_GC_Track(entry);
    return entry;
}

/* ---- the graph for others ---- */

PyObject *
mg_entry_describe(MgEntry *entry)
{
    PyObject *nodes = PyList_New(0), *outputs = PyList_New(0), *inputs = PyList_New(0), *result = NULL;
    static const char *const kinds[] = {"placeholder", "call_function", "call_method"};
    if (nodes == NULL || outputs == NULL || inputs == NULL) {
        goto done;
    }
    for (int i = 0, input = 0; i < entry->node_count; i++) {
        MgNode *node = &entry->nodes[i];
        PyObject *text = NULL, *root = Py_None;
        if (mg_entry_is_unused(node)) {
            continue;
        }
        if (node->kind == MG_NODE_INPUT) {
            int step = entry->inputs[input++];
            text = mg_guard_source_text(&entry->guards, step);
            while (entry->guards.steps[step].base >= 0) {
                step = entry->guards.steps[step].base;
            }
            root = entry->guards.steps[step].source.key;
            if (text == NULL || PyList_Append(inputs, node->real == NULL ? Py_None : node->real) < 0) {
                Py_XDECREF(text);
                goto done;
            }
        }
        PyObject *item =
            Py_BuildValue("(isOOOOOOOOO)", i, kinds[node->kind], node->target == NULL ? Py_None : node->target,
                          node->args == NULL ? Py_None : node->args, node->kwargs == NULL ? Py_None : node->kwargs,
                          node->value, node->stack == NULL ? Py_None : node->stack, text == NULL ? Py_None : text,
                          node->name == NULL ? Py_None : node->name, root == NULL ? Py_None : root,
                          node->bindings == NULL ? Py_None : node->bindings);
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

/* Gives the array back, once its references are taken out or dropped. */
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

/* Runs what the backend compiled. Takes the inputs, unless they are borrowed. */
static int
call_compiled(MgEntry *entry, PyObject **inputs, int is_borrowed, PyObject **outputs)
{
    PyObject *result =
        PyObject_Vectorcall(entry->compiled, inputs, (size_t)entry->input_count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    (is_borrowed ? give_inputs : drop_inputs)(entry, inputs);
    PyObject *sequence = result == NULL ? NULL : PySequence_Fast(result, "a compiled graph must give a tuple or list");
    Py_XDECREF(result);
    if (sequence == NULL) {
        return MG_ERR;
    }
    int status = MG_OK;
    if (PySequence_Fast_GET_SIZE(sequence) < entry->output_count) {
        PyErr_Format(PyExc_RuntimeError, "a compiled graph gave %zd outputs, not %d",
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

int
mg_entry_check(MgEntry *entry, const MgRegisters *registers)
{
    if (MG_LIKELY(entry->check == NULL)) {
        return 1;
    }
    PyObject **items = take_inputs(entry, registers); /* first: making the tuple may start a collection */
    PyObject *inputs = items == NULL ? NULL : PyTuple_New(entry->input_count);
    for (int i = 0; inputs != NULL && i < entry->input_count; i++) {
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(items[i]));
    }
    if (items != NULL) {
        drop_inputs(entry, items);
    }
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
        size_t room = (size_t)(from->code->co_nlocalsplus + from->code->co_stacksize); /* see mg_exit_place */
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
        if (result != NULL && entry->exit_state != NULL && mg_rules_apply_state(entry->exit_state) < 0 &&
            (!mg_reserve_open(&reserve) || mg_rules_apply_state(entry->exit_state) < 0)) {
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
    if (mg_rules_apply_state(entry->guards.state) < 0 || mg_answer_undo(entry->settings) < 0) {
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
    int has_graph = entry->compiled != NULL || entry->node_count > 0;
    int is_borrowed = entry->manager_count == 0 && takes_references(entry->compiled);
    PyObject **inputs = !has_graph    ? NULL
                        : is_borrowed ? borrow_inputs(entry, found)
                                      : take_inputs(entry, found); /* the registers are borrowed up to here */
    int status = has_graph && inputs == NULL ? MG_ERR : entry->manager_count > 0 ? hold_casts() : MG_OK;
    if (status < 0) { /* the exception goes to the caller */
        if (inputs != NULL) {
            drop_inputs(entry, inputs);
        }
    }
    else if (entry->compiled != NULL) {
        status = call_compiled(entry, inputs, is_borrowed, outputs);
        failure->is_compiled = status < 0;
    }
    else if (has_graph) {
        status = mg_replay_run(entry, inputs, outputs, failure);
        give_inputs(entry, inputs);
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
        status = mg_replay_run(entry, inputs, outputs, failure);
        give_inputs(entry, inputs);
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
    int status = entry->manager_count > 0 ? mg_rules_hold_casts(1) : MG_OK;
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

static PyObject *
entry_questions(MgEntry *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < self->guards.check_count; i++) {
        const MgCheck *check = &self->guards.checks[i];
        if (check->kind == MG_GUARD_ANSWER && PyList_Append(list, self->guards.steps[check->source].source.key) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
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
                         program->check_count, "armed", program->armed, "quick", program->quick, "calm", size.calm,
                         "words", size.words, "live_steps", size.steps, "live_checks", size.checks, "tensors",
                         size.tensors, "suspect", program->suspect - 1);
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
    {"guards", (PyCFunction)entry_guards, METH_NOARGS, "The guards as a list of texts."},
    {"describe", (PyCFunction)entry_describe, METH_NOARGS, "The graph as (nodes, outputs, inputs)."},
    {NULL, NULL, 0, NULL},
};

static PyObject *
entry_operations(MgEntry *self, void *unused)
{
    (void)unused;
    long count = 0;
    for (int i = 0; i < self->node_count; i++) {
        count += self->nodes[i].kind != MG_NODE_INPUT && !mg_entry_is_unused(&self->nodes[i]);
    }
    return PyLong_FromLong(count);
}

static PyGetSetDef entry_getset[] = {
    {"operations", (getter)entry_operations, NULL, "How many operations the graph has.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef entry_members[] = {
    {"hits", T_ULONGLONG, offsetof(MgEntry, hits), READONLY, "How often the entry was run."},
    {"symbols", T_OBJECT, offsetof(MgEntry, symbols), READONLY, "The session of its symbolic values, or None."},
    {"compiled", T_OBJECT, offsetof(MgEntry, compiled), READONLY, "What the backend gave, or None."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgEntry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Entry",
    .tp_basicsize = sizeof(MgEntry),
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
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
