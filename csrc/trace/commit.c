/* Commit: makes an entry of a capture that has come to its end, or to a break.
 *
 * What captured code has made and what outlives it is planned, what it wrote to outside becomes effects, what it read is
 * guarded, and the guards become a program. After that the capture can be dropped. */
#include "trace/commit.h"

#include "capture/finalizer.h"
#include "capture/deferred.h"
#include "capture/protocol.h"
#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "cpython/aside.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "entry/exit.h"
#include "ir/alias.h"
#include "record/number.h"
#include "record/record.h"
#include "torch/kinds.h"
#include "torch/state.h"
#include "torch/typekind.h"
#include "trace/planner.h"
#include "world/worldbase.h"
#include "base/vector.h"

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
    int node = -1, own_key = -1, python = 0;
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
        python = mg_plan_hash_is_python(&maker->planner, own_key, key);
        if (entry->plan.nodes[own_key].kind == MG_PLAN_CONST) {
            own_key = -1;
        }
    }
    if (!python) {
        maker->hash = -1;
    }
    if (MG_VECTOR_RESERVE(entry->effects, entry->effect_count, maker->effect_room, 8) < 0) {
        return MG_ERR;
    }
    if (mg_finalizer_guard(maker->planner.capture, kind, target, key, index) < 0) {
        return MG_ERR;
    }
    PyObject *fixed = own_key < 0 ? Py_XNewRef(key) : NULL;
    entry->effects[entry->effect_count++] = (MgEffect){kind, target->id, fixed, own_key, index, node, maker->hash};
    maker->hash = -1;
    return MG_OK;
}

/* The number that captured code has seen at an item of a container; NULL if it has seen a constant there. Borrowed. */
static PyObject *
number_at(MgCapture *capture, MgOutside *record, MgSourceKind kind, PyObject *key, Py_ssize_t index)
{
    MgSource *source =
        mg_capture_varies(capture) ? mg_source_get(&capture->reads.sources, kind, record->source, key, index) : NULL;
    return source != NULL && source->view != NULL && mg_is_number(source->view) ? source->view : NULL;
}

/* 1 if what a shadow holds is what the original holds; `number` is what captured code has seen of an item that varies: the value
 * that the original has now says nothing of later calls. */
static int
is_unchanged(MgCapture *capture, PyObject *now, PyObject *before, PyObject *number)
{
    if (number != NULL) {
        return now == number;
    }
    if (now == before || mg_number_is_from(capture, now, before)) {
        return 1;
    }
    MgOutside *record = mg_outside_of(capture, before);
    return record != NULL && record->object == before && record->view == mg_twin_original(now);
}

static int
list_effects(Maker *maker, MgOutside *record)
{
    PyObject *before = record->object, *now = record->view;
    Py_ssize_t same = 0;
    while (same < PyList_GET_SIZE(before) && same < PyList_GET_SIZE(now) &&
           is_unchanged(maker->planner.capture, PyList_GET_ITEM(now, same), PyList_GET_ITEM(before, same),
                        number_at(maker->planner.capture, record, MG_SOURCE_ITEM, NULL, same))) {
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
replace_effect(Maker *maker, MgOutside *record, PyObject *before, PyObject *content)
{
    int result = content == NULL || PyList_Append(maker->planner.capture->keep, content) < 0
                     ? MG_ERR
                     : add_effect(maker, MG_EFFECT_REPLACE, record->source, before, 0, content);
    Py_XDECREF(content);
    return result;
}

/* How many of the first keys of a dict are keys of another in the same order. */
static Py_ssize_t
count_kept(MgCapture *capture, PyObject *now, PyObject *before)
{
    MgDictWalk a = {0}, b = {0};
    PyObject *key, *value, *old_key, *old_value;
    Py_ssize_t count = 0;
    while (mg_dict_next(now, &b, &key, &value)) {
        int found = 0;
        while (!found && mg_dict_next(before, &a, &old_key, &old_value)) {
            found = is_unchanged(capture, key, old_key, NULL);
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
delete_effects(Maker *maker, MgOutside *record, Py_ssize_t kept)
{
    MgDictWalk a = {0}, b = {0};
    PyObject *key = NULL, *value, *old_key, *old_value;
    int pending = kept > 0 && mg_dict_next(record->view, &b, &key, &value);
    while (mg_dict_next(record->object, &a, &old_key, &old_value)) {
        if (pending && is_unchanged(maker->planner.capture, key, old_key, NULL)) {
            pending = --kept > 0 && mg_dict_next(record->view, &b, &key, &value);
        }
        else {
            MgOutside *known = mg_outside_find(maker->planner.capture, old_key);
            int is_tensor = known != NULL && known->kind == MG_KIND_TENSOR && known->view != NULL;
            maker->hash = a.hash;
            if (add_effect(maker, MG_EFFECT_DICT_SET, record->source, is_tensor ? known->view : old_key, 0, NULL) < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

static int
dict_effects(Maker *maker, MgOutside *record)
{
    PyObject *before = record->object, *now = record->view;
    MgDictWalk walk = {0};
    PyObject *key, *value;
    Py_ssize_t kept = count_kept(maker->planner.capture, now, before);
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
        PyObject *old_key = mg_is_twin(key) ? mg_outside_identity(maker->planner.capture, key) : key;
        PyObject *old = i < kept ? _PyDict_GetItem_KnownHash(before, old_key, walk.hash) : NULL;
        if (old != NULL && is_unchanged(maker->planner.capture, value, old,
                                        number_at(maker->planner.capture, record, MG_SOURCE_DICT_ITEM, old_key, 0))) {
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
set_effects(Maker *maker, MgOutside *record)
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
deque_effects(Maker *maker, MgOutside *record)
{
    Py_ssize_t size = Py_SIZE(record->view);
    int same = size == Py_SIZE(record->object);
    for (Py_ssize_t i = 0; same && i < size; i++) {
        same = is_unchanged(maker->planner.capture, mg_deque_item(record->view, i), mg_deque_item(record->object, i),
                            number_at(maker->planner.capture, record, MG_SOURCE_ITEM, NULL, i));
    }
    return same ? MG_OK : replace_effect(maker, record, NULL, mg_deque_items(record->view));
}

static int
held_effects(Maker *maker, MgOutside *record)
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
slot_effects(Maker *maker, MgOutside *record)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(record->slots, &position, &key, &value)) {
        MgEffectKind kind = Py_IS_TYPE(key, &PyGetSetDescr_Type) ? MG_EFFECT_GRAD_SET : MG_EFFECT_SLOT_SET;
        if (add_effect(maker, kind, record->source, key, 0, value == mg_capture_deleted ? NULL : value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
collect_effects(Maker *maker)
{
    MgCapture *capture = maker->planner.capture;
    for (int i = 0; i < capture->met.record_count; i++) { /* the list may grow while it is walked */
        MgOutside *record = capture->met.record_list[i];
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

/* Numbers that nobody uses don't keep others in use. */
static void
drop_unused_numbers(MgCapture *capture)
{
    int any = capture->symbols.session != NULL || mg_capture_varies(capture);
    for (int i = capture->graph.node_count - 1; any && i >= 0; i--) {
        MgNode *node = &capture->graph.nodes[i];
        if (node->kind != MG_NODE_INPUT && mg_entry_is_unused(node)) {
            mg_node_forget_uses(node->args, capture->graph.nodes, 0, i);
            if (node->kwargs != NULL) {
                mg_node_forget_uses(node->kwargs, capture->graph.nodes, 0, i);
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
    PyObject *nodes = PyObject_CallMethod(capture->symbols.session, "guarded", NULL);
    mg_aside_end(&aside);
    for (Py_ssize_t i = 0; nodes != NULL && i < PyList_GET_SIZE(nodes); i++) {
        capture->graph.nodes[PyLong_AsLong(PyList_GET_ITEM(nodes, i))].users++;
    }
    Py_XDECREF(nodes);
    return nodes == NULL ? MG_ERR : MG_OK;
}

/* 1 if the source starts at, or leads through, one of those in the table. */
static int
leads_through(const MgTable *modules, const MgSource *source)
{
    while (source != NULL && mg_table_get(modules, source, NULL) == NULL) {
        source = source->base;
    }
    return source != NULL;
}

/* Marks the inputs that modules lead to, whichever way they were met first: a backend is told of them. */
static int
mark_module_inputs(MgCapture *capture)
{
    MgTable modules = {0};
    int status = MG_OK;
    for (int i = 0; status == MG_OK && i < capture->met.record_count; i++) {
        MgOutside *record = capture->met.record_list[i];
        if (record->kind == MG_KIND_INSTANCE && record->source != NULL && mg_kind_is_module(Py_TYPE(record->object))) {
            status = mg_table_set(&modules, record->source, NULL, record->source);
        }
    }
    for (int i = 0; status == MG_OK && modules.used > 0 && i < capture->graph.node_count; i++) {
        MgNode *node = &capture->graph.nodes[i];
        node->in_module = node->kind == MG_NODE_INPUT && leads_through(&modules, node->source);
    }
    for (int i = 0; status == MG_OK && modules.used > 0 && i < capture->reads.guard_count; i++) {
        const MgGuard *guard = &capture->reads.guards[i];
        MgTwin *twin = guard->kind == MG_GUARD_ALIAS && guard->source->view != NULL && mg_is_twin(guard->source->view)
                           ? mg_twin_of(guard->source->view)
                           : NULL;
        if (twin != NULL && twin->node >= 0 && leads_through(&modules, guard->source)) {
            capture->graph.nodes[twin->node].in_module = 1;
        }
    }
    mg_table_free(&modules);
    return status;
}

/* Has the graph for a backend take the symbols in the sizes and strides of its inputs. MG_OK or MG_ERR. */
static int
bind_symbols(MgCapture *capture)
{
    for (int i = 0, count = capture->graph.node_count; i < count; i++) {
        const MgNode *node = &capture->graph.nodes[i];
        if (node->kind == MG_NODE_INPUT && node->users > 0 && Py_IS_TYPE(node->value, &MgMeta_Type) &&
            ((MgMeta *)node->value)->varies && mg_number_bind(capture, (MgMeta *)node->value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
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
    for (int i = 0; i < capture->graph.node_count; i++) {
        MgNode *a = &capture->graph.nodes[i];
        if (a->kind != MG_NODE_INPUT || a->users == 0 || a->source->kind != MG_SOURCE_LOCAL || a->real == NULL) {
            continue; /* two arguments can easily be one tensor; parameters of a module are told apart by the backend */
        }
        for (int j = 0; j < capture->graph.node_count; j++) {
            MgNode *b = &capture->graph.nodes[j];
            if (i != j && b->kind == MG_NODE_INPUT && b->users > 0 && b->real != NULL &&
                !(b->source->kind == MG_SOURCE_LOCAL && j < i) &&
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
    for (int i = 0; i < capture->met.record_count; i++) {
        MgOutside *record = capture->met.record_list[i];
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
    int count = capture->torch.managers == NULL ? 0 : (int)PyList_GET_SIZE(capture->torch.managers);
    entry->managers = PyMem_Calloc((size_t)count + 1, sizeof(int));
    if (entry->managers == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    entry->manager_count = count;
    for (int i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(capture->torch.managers, i);
        entry->managers[i] = mg_plan_add(&maker->planner, PyTuple_GET_ITEM(item, 0));
        if (entry->managers[i] < 0) {
            return MG_ERR;
        }
    }
    for (int i = count; i-- > 0;) {
        PyObject *item = PyList_GET_ITEM(capture->torch.managers, i);
        if (mg_record_exit(capture, PyTuple_GET_ITEM(item, 3), (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 2))) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Plans the frames of a break. */
static int
collect_frames(Maker *maker)
{
    MgCapture *capture = maker->planner.capture;
    MgEntry *entry = maker->entry;
    int count = capture->breaks.snapshot_count;
    entry->frames = PyMem_Calloc((size_t)count + 1, sizeof(MgExitFrame));
    if (entry->frames == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        MgSnapshot *from = &capture->breaks.snapshots[count - 1 - i];
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
        frame->function = i == 0 && capture->breaks.point ? -1 : mg_plan_add(&maker->planner, from->function);
        if (frame->function < 0 && !(i == 0 && capture->breaks.point)) {
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
        MgSnapshot *from = &capture->breaks.snapshots[count - 1 - i];
        for (int j = 0; j < from->count; j++) {
            if (from->dead[j]) {
                entry->frames[i].slots[j] = mg_plan_find(&maker->planner, from->slots[j]);
                if (entry->frames[i].slots[j] < 0 && PyErr_Occurred()) {
                    return MG_ERR;
                }
            }
        }
    }
    if (capture->torch.state != capture->torch.entry_state && capture->torch.state != NULL) {
        entry->exit_state = Py_NewRef(capture->torch.state);
    }
    else if (capture->torch.state == NULL) { /* changed, and not read since */
        entry->exit_state = mg_state_read();
        return entry->exit_state == NULL ? MG_ERR : MG_OK;
    }
    return MG_OK;
}

/* 1 if an effect changes the object of the record. */
static int
is_changed(const MgEntry *entry, const MgOutside *record)
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
    for (int i = 0; capture->reads.addresses && i < capture->met.record_count; i++) {
        MgOutside *record = capture->met.record_list[i];
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
           (mg_is_heap_type(type) && !PyType_Check(object) && !mg_kind_is_constant(type));
}

/* Objects that were changed must be no other objects of their type that were read; objects that C code may have compared
 * must stay different objects. */
static int
guard_apart(MgCapture *capture, const MgEntry *entry)
{
    int count = capture->met.record_count, result = MG_OK;
    MgSource **sources = PyMem_Calloc((size_t)count + 1, sizeof(MgSource *));
    enum { COMPARED = 1, CHANGED = 2, DONE = 4 };
    uint8_t *marks = PyMem_Calloc((size_t)count + 1, 1);
    if (sources == NULL || marks == NULL) {
        PyErr_NoMemory();
        result = MG_ERR;
    }
    for (int i = 0; result == MG_OK && i < count; i++) {
        MgOutside *record = capture->met.record_list[i];
        int constant = record->kind == MG_KIND_CONSTANT && has_own_identity(record->object);
        int seen = record->exposed || record->is_key;
        if ((record->kind == MG_KIND_CONSTANT && !(constant && seen)) || record->kind == MG_KIND_OPAQUE ||
            (record->kind == MG_KIND_TENSOR && !record->is_key) || record->kind == MG_KIND_TUPLE ||
            record->provisional) {
            marks[i] = DONE;
            continue;
        }
        int compared = record->kind == MG_KIND_INSTANCE || record->kind == MG_KIND_FUNCTION ||
                       record->kind == MG_KIND_TENSOR || constant;
        marks[i] = (uint8_t)((seen && compared ? COMPARED : 0) | (is_changed(entry, record) ? CHANGED : 0));
    }
    for (int i = 0; result == MG_OK && i < count; i++) {
        if (marks[i] == 0 || (marks[i] & DONE)) {
            continue;
        }
        PyTypeObject *type = Py_TYPE(capture->met.record_list[i]->object);
        int first = 0, total = 0, changed = 0, varies = 0;
        for (int j = i; j < count; j++) { /* those that are compared or changed */
            if (marks[j] != 0 && !(marks[j] & DONE) && Py_TYPE(capture->met.record_list[j]->object) == type) {
                sources[total++] = capture->met.record_list[j]->source;
                changed = changed || (marks[j] & CHANGED);
                varies = varies || capture->met.record_list[j]->kind != MG_KIND_CONSTANT;
                marks[j] |= DONE;
            }
        }
        first = total;
        for (int j = 0; changed && j < count; j++) { /* the rest of that type */
            if (marks[j] == 0 && Py_TYPE(capture->met.record_list[j]->object) == type) {
                sources[total++] = capture->met.record_list[j]->source;
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
mg_commit(MgCapture *capture, PyObject *result)
{
    assert(result != NULL || capture->breaks.snapshot_count > 0);
    MgEntry *entry = PyObject_GC_New(MgEntry, &MgEntry_Type);
    if (entry == NULL) {
        return NULL;
    }
    memset((char *)entry + sizeof(PyObject), 0, sizeof(MgEntry) - sizeof(PyObject));
    MgCapture *outer = mg_capture_current;
    mg_collections_hold();
    mg_capture_enter(capture); /* planning may still reach outside objects */
    Maker maker = {.planner = {.capture = capture, .plan = &entry->plan}, .entry = entry, .hash = -1};
    MgReason reason = capture->reason;
    capture->reason = MG_REASON_NONE; /* of a break: from here on it means that the entry can't be made */
    int status = capture->graph.subgraph != NULL
                     ? mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it was left before its end")
                     : mg_plan_accept(&maker.planner);
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
    entry->codes = Py_XNewRef(capture->around.codes);
    entry->is_muted = capture->graph.muted;
    if (status == MG_OK) {
        drop_unused_numbers(capture);
    }
    if (status == MG_OK && capture->symbols.session != NULL) {
        entry->symbols = Py_NewRef(capture->symbols.session);
        status = keep_guarded(capture);
    }
    entry->outputs = maker.planner.outputs;
    entry->output_count = maker.planner.output_count;
    if (status == MG_OK) {
        status = mg_deferred_guard(capture, result == NULL ? capture->breaks.stopped : 0);
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
    if (status == MG_OK && mg_capture_varies(capture) && capture->graph.foreign) {
        status = bind_symbols(capture);
    }
    if (status == MG_OK && mg_capture_varies(capture)) {
        entry->lattice = (PyObject *)mg_lattice_freeze(capture->varying.lattice);
        status = entry->lattice == NULL ? MG_ERR : mg_size_guards_add(capture);
    }
    if (status == MG_OK) {
        entry->settings = Py_XNewRef(capture->torch.settings);
        entry->is_exact = capture->breaks.is_exact;
        status = mg_guard_compile(&entry->guards, capture);
    }
    if (status == MG_OK && capture->graph.foreign) {
        status = mark_module_inputs(capture);
    }
    if (status == MG_OK) {
        entry->nodes = capture->graph.nodes;
        entry->node_count = capture->graph.node_count;
        capture->graph.nodes = NULL;
        capture->graph.node_count = capture->graph.node_room = 0;
        status = collect_inputs(entry) < 0 ? MG_ERR : collect_kept(entry);
        if (status == MG_OK && (capture->graph.changes & MG_CHANGED_HISTORY)) {
            status = keep_apart(capture, entry);
        }
        entry->guards.inputs = entry->inputs;
        entry->guards.input_count = entry->input_count;
        entry->guards.kept = entry->kept;
        entry->guards.kept_count = entry->kept_count;
    }
    mg_table_free(&entry->plan.known);
    mg_capture_enter(outer);
    mg_collections_release();
    if (status < 0) {
        Py_DECREF(entry);
        return NULL;
    }
    PyObject_GC_Track(entry);
    return entry;
}
