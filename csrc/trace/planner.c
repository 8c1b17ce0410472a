/* Makes plans: what has to be built again on each call, and of what.
 *
 * One inside object becomes one node however often it is met. What can't be built again ends the capture. */
#include "trace/planner.h"

#include "capture/deferred.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "ir/alias.h"
#include "record/record.h"
#include "record/number.h"
#include "torch/kinds.h"
#include "torch/typekind.h"
#include "world/world.h"
#include "base/vector.h"

#include <structmember.h>

static int
add_node(MgPlan *plan, MgPlanNode node)
{
    if (MG_VECTOR_RESERVE(plan->nodes, plan->count, plan->room, 16) < 0) {
        return -1;
    }
    assert(node.kind != MG_PLAN_SOURCE || node.index >= 0);
    assert(node.kind != MG_PLAN_CONST || (node.object != NULL && !mg_is_twin(node.object)));
    Py_XINCREF(node.object);
    plan->nodes[plan->count] = node;
    return plan->count++;
}

/* The output of the graph that a recorded node returns. */
static int
output_index(MgPlanner *planner, int node)
{
    assert(node >= 0 && node < planner->capture->graph.node_count);
    for (int i = 0; i < planner->output_count; i++) {
        if (planner->outputs[i] == node) {
            return i;
        }
    }
    if (MG_VECTOR_RESERVE(planner->outputs, planner->output_count, planner->output_room, 8) < 0) {
        return -1;
    }
    planner->outputs[planner->output_count] = node;
    planner->capture->graph.nodes[node].users++;
    return planner->output_count++;
}

static int
refuse(MgPlanner *planner, PyObject *value)
{
    MgReason reason = PyGen_CheckExact(value) || PyCoro_CheckExact(value) ? MG_REASON_GENERATOR : MG_REASON_REBUILD;
    planner->capture->breaks.refused = 1;
    mg_capture_abort(planner->capture, reason, "%s", Py_TYPE(value)->tp_name);
    return -1;
}

/* A node with `count` parts; they are filled in by the caller after it is known, so that cycles end. */
static int
add_compound(MgPlanner *planner, PyObject *value, MgPlanKind kind, PyObject *object, int count)
{
    assert(count >= 0 && mg_table_get(&planner->plan->known, value, NULL) == NULL); /* one object, one node */
    int *parts = PyMem_Malloc(((size_t)count + 1) * sizeof(int));
    if (parts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < count; i++) {
        parts[i] = -1;
    }
    int index =
        add_node(planner->plan, (MgPlanNode){.kind = kind, .object = object, .parts = parts, .part_count = count});
    if (index < 0) {
        PyMem_Free(parts);
        return -1;
    }
    if (mg_table_set(&planner->plan->known, value, NULL, (void *)(uintptr_t)(index + 1)) < 0) {
        return -1;
    }
    return index;
}

/* 1 if a node is made before its part is, so that the part may lead back to it. */
static int
is_made_first(const MgPlanNode *node, int part)
{
    switch (node->kind) {
        case MG_PLAN_LIST:
        case MG_PLAN_DICT:
        case MG_PLAN_FUNCTION:
        case MG_PLAN_CELL:
            return 1;
        case MG_PLAN_INSTANCE:
            return part != 1 || mg_plan_is_filled(mg_plan_c_base((PyTypeObject *)node->object));
        default:
            return 0;
    }
}

/* 1 if the way that led back to a node has nothing on it that could be made first: an exception among its own arguments. */
static int
is_knot(const MgPlanner *planner, int node)
{
    for (int i = planner->path_count - 1; i >= 0; i--) {
        const MgPlanStep *step = &planner->path[i];
        if (is_made_first(&planner->plan->nodes[step->node], step->part)) {
            return 0;
        }
        if (step->node == node) {
            return 1;
        }
    }
    return 0;
}

/* Adds a value as a part of a node: one level deeper. */
static int
set_part(MgPlanner *planner, int node, int part, PyObject *value)
{
    if (mg_depth_enter(planner->capture) < 0) {
        planner->capture->breaks.refused = 1;
        return -1;
    }
    planner->path[planner->path_count++] = (MgPlanStep){node, part};
    int index = mg_plan_add(planner, value);
    planner->path_count--;
    mg_depth_leave(planner->capture);
    if (index < 0) {
        return -1;
    }
    planner->plan->nodes[node].parts[part] = index;
    return 0;
}

static int
add_sequence(MgPlanner *planner, PyObject *value)
{
    int is_list = PyList_Check(value);
    int count = (int)Py_SIZE(value);
    int node = add_compound(planner, value, is_list ? MG_PLAN_LIST : MG_PLAN_TUPLE, (PyObject *)Py_TYPE(value), count);
    for (int i = 0; node >= 0 && i < count; i++) {
        if (i >= Py_SIZE(value)) { /* another thread has it too */
            return refuse(planner, value);
        }
        if (set_part(planner, node, i, is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i)) < 0) {
            return -1;
        }
    }
    return node;
}

/* 1 if a key is, or has in it, an object whose own hash would be asked for before all its attributes are there. */
static int
is_half_made(const MgPlan *plan, int index)
{
    const MgPlanNode *node = &plan->nodes[index];
    for (int i = 0; node->kind == MG_PLAN_TUPLE && i < node->part_count; i++) {
        if (node->parts[i] < 0 || is_half_made(plan, node->parts[i])) {
            return 1;
        }
    }
    return node->kind == MG_PLAN_INSTANCE && !node->complete &&
           ((PyTypeObject *)node->object)->tp_hash != PyBaseObject_Type.tp_hash;
}

typedef enum {
    HASH_OWN, /* each call may have another, that of an address; made by C code, or of what captured code has read of one */
    HASH_KEPT,   /* the same in each call, made by C code */
    HASH_PYTHON, /* the same in each call, for what it was made of is guarded: no Python code need run to make it again */
} HashKind;

/* Of the hash of a key, whose node is `index`. */
static HashKind
hash_kind(const MgPlanner *planner, int index, PyObject *key)
{
    const MgPlanNode *node = &planner->plan->nodes[index];
    const MgCapture *capture = planner->capture;
    int outside = node->kind == MG_PLAN_CONST || node->kind == MG_PLAN_SOURCE;
    if (mg_is_plain_value(key)) {
        return HASH_KEPT;
    }
    if (!PyTuple_CheckExact(key) || (!outside && node->kind != MG_PLAN_TUPLE)) {
        int is_fixed = outside || (!capture->reads.addresses && capture->reads.ids == NULL);
        return is_fixed && mg_kinds_hashes_in_python(key) ? HASH_PYTHON : HASH_OWN;
    }
    HashKind most = HASH_KEPT;
    for (Py_ssize_t i = 0; most != HASH_OWN && i < PyTuple_GET_SIZE(key); i++) {
        int part = outside ? index : node->parts[i];
        HashKind kind = part < 0 || mg_stack_is_short() ? HASH_OWN : hash_kind(planner, part, PyTuple_GET_ITEM(key, i));
        most = kind == HASH_OWN || kind > most ? kind : most;
    }
    return most;
}

int
mg_plan_hash_is_python(const MgPlanner *planner, int index, PyObject *key)
{
    return hash_kind(planner, index, key) == HASH_PYTHON;
}

/* Notes the hash of the key in place `i` of a dict, if Python code made it. MG_OK or MG_ERR. */
static int
note_hash(const MgPlanner *planner, MgPlanNode *node, int i, PyObject *key, Py_hash_t hash)
{
    if (hash_kind(planner, node->parts[2 * i], key) != HASH_PYTHON) {
        return MG_OK;
    }
    if (node->places == NULL) {
        Py_ssize_t size = node->part_count / 2 * (Py_ssize_t)sizeof(Py_hash_t);
        node->places = PyBytes_FromStringAndSize(NULL, size);
        if (node->places == NULL) {
            return MG_ERR;
        }
        memset(PyBytes_AS_STRING(node->places), 0xff, (size_t)size); /* -1 is no hash */
    }
    ((Py_hash_t *)(void *)PyBytes_AS_STRING(node->places))[i] = hash;
    return MG_OK;
}

enum { PLAIN_LEVELS = 4 };

/* 1 if an item has the same hash in each call: a plain value, or a tuple of such. */
static int
has_plain_hash(PyObject *item, int levels)
{
    if (!PyTuple_CheckExact(item) || levels == 0) {
        return mg_is_plain_value(item);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item); i++) {
        if (!has_plain_hash(PyTuple_GET_ITEM(item, i), levels - 1)) {
            return 0;
        }
    }
    return 1;
}

/* Notes where a set has its items, if a set that is made of them has them elsewhere, or would run Python code. MG_OK or
 * MG_ERR. */
static int
note_places(const MgPlanner *planner, MgPlanNode *node, PyObject *set)
{
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    int python = 0;
    for (int i = 0; _PySet_NextEntry(set, &position, &item, &hash); i++) {
        HashKind kind = i < node->part_count ? hash_kind(planner, node->parts[i], item) : HASH_OWN;
        if (kind != HASH_PYTHON && !has_plain_hash(item, PLAIN_LEVELS)) { /* its hash may be another one next time */
            return MG_OK;
        }
        python |= kind == HASH_PYTHON;
    }
    if (python) {
        node->places = mg_set_places(set);
        return node->places == NULL ? MG_ERR : MG_OK;
    }
    PyObject *places = mg_set_places(set);
    PyObject *items = places == NULL ? NULL : PySequence_Tuple(set);
    PyObject *other = items == NULL ? NULL : PySet_New(items);
    if (places != NULL && other != NULL && !mg_set_has_places(other, places)) {
        node->places = Py_NewRef(places);
    }
    int status = places == NULL || other == NULL ? MG_ERR : MG_OK;
    Py_XDECREF(places);
    Py_XDECREF(items);
    Py_XDECREF(other);
    return status;
}

static int
add_set(MgPlanner *planner, PyObject *value)
{
    int count = (int)PySet_GET_SIZE(value);
    int node = add_compound(planner, value, MG_PLAN_SET, (PyObject *)Py_TYPE(value), count);
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    for (int i = 0; node >= 0 && _PySet_NextEntry(value, &position, &item, &hash); i++) {
        if (set_part(planner, node, i, item) < 0) {
            return -1;
        }
        if (is_half_made(planner->plan, planner->plan->nodes[node].parts[i])) {
            return refuse(planner, value);
        }
    }
    if (node >= 0) {
        planner->plan->nodes[node].complete = 1;
        return note_places(planner, &planner->plan->nodes[node], value) < 0 ? -1 : node;
    }
    return node;
}

/* The items of a dict, as a node whose type is `type`. `value` identifies the node. */
static int
add_dict(MgPlanner *planner, PyObject *value, PyObject *dict, PyObject *type)
{
    int node = add_compound(planner, value, MG_PLAN_DICT, type, 2 * (int)PyDict_GET_SIZE(dict));
    MgDictWalk walk = {0};
    PyObject *key, *item;
    int i = 0;
    for (; node >= 0 && i < 2 * PyDict_GET_SIZE(dict) && mg_dict_next(dict, &walk, &key, &item); i += 2) {
        if (set_part(planner, node, i, key) < 0) {
            return -1;
        }
        if (is_half_made(planner->plan, planner->plan->nodes[node].parts[i])) {
            return refuse(planner, value);
        }
        if (note_hash(planner, &planner->plan->nodes[node], i / 2, key, walk.hash) < 0 ||
            set_part(planner, node, i + 1, item) < 0) {
            return -1;
        }
    }
    return node >= 0 && !mg_dict_is_walked(dict, &walk, i / 2) ? refuse(planner, value) : node;
}

/* The slots that the classes of an instance define: (descriptor, value) pairs that are set. New list. */
static PyObject *
slots_of(PyObject *value)
{
    PyObject *pairs = PyList_New(0);
    for (PyTypeObject *type = Py_TYPE(value); pairs != NULL && type != NULL; type = type->tp_base) {
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
            break;
        }
        Py_ssize_t position = 0;
        PyObject *name, *found;
        while (pairs != NULL && PyDict_Next(type->tp_dict, &position, &name, &found)) {
            if (!Py_IS_TYPE(found, &PyMemberDescr_Type) ||
                ((PyMemberDescrObject *)found)->d_member->type != T_OBJECT_EX) {
                continue;
            }
            PyObject *content = *(PyObject **)((char *)value + ((PyMemberDescrObject *)found)->d_member->offset);
            if (content != NULL && (PyList_Append(pairs, found) < 0 || PyList_Append(pairs, content) < 0)) {
                Py_CLEAR(pairs);
            }
        }
    }
    if (pairs != NULL && PyObject_TypeCheck(value, mg_defaultdict_type)) {
        PyObject *factory = Py_TYPE(mg_shadow_factory)->tp_descr_get(mg_shadow_factory, value, NULL);
        if (factory == NULL || PyList_Append(pairs, mg_shadow_factory) < 0 || PyList_Append(pairs, factory) < 0) {
            Py_CLEAR(pairs);
        }
        Py_XDECREF(factory);
    }
    return pairs;
}

/* What a value holds besides attributes: a container or plain value of a builtin type, new; None if there is nothing;
 * NULL without an exception if it can't be told. */
static PyObject *
content_of(PyObject *value, PyTypeObject *base)
{
    PyObject *content = NULL;
    if (base == &PyBaseObject_Type || base == mg_namespace_type) {
        return Py_NewRef(Py_None);
    }
    if (mg_plan_is_plain_exception(base)) { /* one that was raised has a traceback, which can't be made again */
        PyBaseExceptionObject *exc = (PyBaseExceptionObject *)value;
        int fresh = exc->traceback == NULL && exc->context == NULL && exc->cause == NULL && exc->notes == NULL &&
                    !exc->suppress_context;
        return fresh ? Py_XNewRef(exc->args) : NULL;
    }
    if (base == &PyLong_Type) {
        return _PyLong_Copy((PyLongObject *)value);
    }
    if (base == &PyFloat_Type) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
    }
    if (base == &PyUnicode_Type) {
        return PyUnicode_FromObject(value);
    }
    if (base == &PyList_Type) {
        return PyList_GetSlice(value, 0, PyList_GET_SIZE(value));
    }
    if (base == &PyTuple_Type) {
        Py_ssize_t size = PyTuple_GET_SIZE(value);
        content = PyTuple_New(size);
        for (Py_ssize_t i = 0; content != NULL && i < size; i++) {
            PyTuple_SET_ITEM(content, i, Py_NewRef(PyTuple_GET_ITEM(value, i)));
        }
        return content;
    }
    if (base == mg_deque_type) {
        return mg_deque_items(value);
    }
    if (PyDict_Check(value)) {
        return PyList_New(0); /* only stands for them: a copy would compare keys, which may run code */
    }
    return PyAnySet_Check(value) ? mg_set_copy(&PySet_Type, value) : NULL;
}

/* An instance of a Python class, or of a builtin one that keeps more than its items. */
static int
add_instance(MgPlanner *planner, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value), *base = mg_plan_c_base(type);
    if (!mg_type_is_python(type)) {
        return refuse(planner, value);
    }
    if (type->tp_del != NULL || (type->tp_finalize != NULL && _PyType_Lookup(type, MG_STRING("__del__")) != NULL)) {
        return refuse(planner, value);
    }
    PyObject *content = content_of(value, base);
    if (content == NULL) {
        return PyErr_Occurred() ? -1 : refuse(planner, value);
    }
    PyObject *slots = PyList_Append(planner->capture->keep, content) < 0 ? NULL : slots_of(value);
    Py_DECREF(content);
    if (slots == NULL) {
        return -1;
    }
    PyObject **dict = _PyObject_GetDictPtr(value);
    int fixed = 2;
    int node = add_compound(planner, value, MG_PLAN_INSTANCE, (PyObject *)type, fixed + (int)PyList_GET_SIZE(slots));
    if (node < 0) {
        Py_DECREF(slots);
        return -1;
    }
    planner->plan->nodes[node].index = base == mg_deque_type ? (int)mg_deque_limit(value) : -1;
    planner->plan->nodes[node].parts[0] = planner->plan->nodes[node].parts[1] = -1;
    int status = 0;
    if (dict != NULL && *dict != NULL) {
        int part = add_dict(planner, *dict, *dict, (PyObject *)&PyDict_Type);
        planner->plan->nodes[node].parts[0] = part;
        status = part < 0 ? -1 : 0;
    }
    if (status == 0 && content != Py_None) {
        if (PyDict_Check(value)) {
            int part = add_dict(planner, content, value, (PyObject *)&PyDict_Type);
            planner->plan->nodes[node].parts[1] = part;
            status = part < 0 ? -1 : 0;
        }
        else {
            status = set_part(planner, node, 1, content);
        }
    }
    for (int i = 0; status == 0 && i < (int)PyList_GET_SIZE(slots); i++) {
        PyObject *item = PyList_GET_ITEM(slots, i);
        if (i % 2 == 0) {
            int part = add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_CONST, .object = item});
            planner->plan->nodes[node].parts[fixed + i] = part;
            status = part < 0 ? -1 : 0;
        }
        else {
            status = set_part(planner, node, fixed + i, item);
        }
    }
    Py_DECREF(slots);
    planner->plan->nodes[node].complete = 1;
    return status < 0 ? -1 : node;
}

/* What `callable` (borrowed, kept by the caller) returns for one part. */
static int
add_call(MgPlanner *planner, PyObject *value, PyObject *callable, PyObject *part)
{
    int node = add_compound(planner, value, MG_PLAN_CALL, callable, 1);
    return node < 0 || set_part(planner, node, 0, part) < 0 ? -1 : node;
}

/* A scalar of numpy's: one from outside is passed on, and what captured code computes is another object at each call. */
static int
add_scalar(MgPlanner *planner, PyObject *value)
{
    const MgSources *sources = &planner->capture->reads.sources;
    for (int i = 0; i < sources->count; i++) {
        if (sources->items[i]->view == value) {
            return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = sources->items[i]->id});
        }
    }
    int node = add_compound(planner, value, MG_PLAN_CALL, (PyObject *)Py_TYPE(value), 1);
    int part = node < 0 ? -1 : add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_CONST, .object = value});
    if (part >= 0) {
        planner->plan->nodes[node].parts[0] = part;
    }
    return part < 0 ? -1 : node;
}

static int
add_function(MgPlanner *planner, PyObject *value)
{
    PyFunctionObject *function = (PyFunctionObject *)value;
    int cells = function->func_closure == NULL ? 0 : (int)PyTuple_GET_SIZE(function->func_closure);
    /* an entry has its code and its globals alone, not what its cells hold */
    PyObject *model = PyFunction_NewWithQualName(function->func_code, function->func_globals, function->func_qualname);
    int node = model == NULL ? -1 : add_compound(planner, value, MG_PLAN_FUNCTION, model, cells + MG_FUNCTION_PARTS);
    Py_XDECREF(model);
    if (node < 0) {
        return -1;
    }
    PyObject **parts[MG_FUNCTION_PARTS];
    mg_plan_function_parts(function, parts);
    for (int i = 0; i < MG_FUNCTION_PARTS; i++) {
        planner->plan->nodes[node].parts[i] = -1;
        if (*parts[i] != NULL && set_part(planner, node, i, *parts[i]) < 0) {
            return -1;
        }
    }
    for (int i = 0; i < cells; i++) {
        if (set_part(planner, node, MG_FUNCTION_PARTS + i, PyTuple_GET_ITEM(function->func_closure, i)) < 0) {
            return -1;
        }
    }
    return node;
}

static int
add_partial(MgPlanner *planner, PyObject *value)
{
    static const char *const names[] = {"func", "args", "keywords"};
    int node = add_compound(planner, value, MG_PLAN_PARTIAL, (PyObject *)Py_TYPE(value), 3);
    for (int i = 0; node >= 0 && i < 3; i++) {
        PyObject *part = PyObject_GetAttrString(value, names[i]);
        int status = part == NULL ? -1 : set_part(planner, node, i, part);
        if (part != NULL && PyList_Append(planner->capture->keep, part) < 0) {
            status = -1;
        }
        Py_XDECREF(part);
        if (status < 0) {
            return -1;
        }
    }
    return node;
}

/* The method that returns what an iterator over a dict or a set goes over. Borrowed, or NULL. */
static PyObject *
method_of(PyTypeObject *type, PyObject *container)
{
    if (type == &PySetIter_Type) {
        return mg_dict_get((PyFrozenSet_Check(container) ? &PyFrozenSet_Type : &PySet_Type)->tp_dict, "__iter__");
    }
    return mg_dict_get(PyDict_Type.tp_dict, type == &PyDictIterKey_Type     ? "keys"
                                            : type == &PyDictIterValue_Type ? "values"
                                                                            : "items");
}

/* 1 if a set that is made of the same items has them in the same order in each call. */
static int
has_plain_items(PyObject *set)
{
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &position, &item, &hash)) {
        if (!mg_is_plain_value(item)) {
            return 0;
        }
    }
    return 1;
}

/* An iterator over a dict or a set: its __reduce__ would make a list of what is left, which does not see later changes. */
static int
add_placed(MgPlanner *planner, PyObject *value)
{
    MgIteratorState state = {0};
    PyObject *container = Py_XNewRef(mg_iterator_look(value, &state));
    if (container == NULL) { /* it is at its end, and stays there: as one over what nobody has */
        container = Py_IS_TYPE(value, &PySetIter_Type) ? PySet_New(NULL) : PyDict_New();
        if (container == NULL || PyList_Append(planner->capture->keep, container) < 0) {
            Py_XDECREF(container);
            return -1;
        }
    }
    if (PyAnySet_Check(container) && !has_plain_items(container)) {
        Py_DECREF(container);
        return refuse(planner, value);
    }
    PyObject *method = method_of(Py_TYPE(value), container);
    PyObject *place = PyBytes_FromStringAndSize((const char *)&state, sizeof(state));
    int node = method == NULL || place == NULL ? -1 : add_compound(planner, value, MG_PLAN_PLACED, method, 1);
    if (node >= 0) {
        planner->plan->nodes[node].places = Py_NewRef(place);
    }
    int status = node < 0 ? MG_ERR : set_part(planner, node, 0, container);
    Py_XDECREF(place);
    Py_DECREF(container);
    return status < 0 ? -1 : node;
}

/* A builtin iterator in the middle: what its __reduce__ says. */
static int
add_iterator(MgPlanner *planner, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyDictIterKey_Type || type == &PyDictIterValue_Type || type == &PyDictIterItem_Type ||
        type == &PySetIter_Type) {
        return add_placed(planner, value);
    }
    PyObject *reduced = PyObject_CallMethod(value, "__reduce__", NULL);
    if (reduced == NULL) {
        return -1;
    }
    int node = -1;
    if (mg_is_getter(type) && PyTuple_GET_ITEM(reduced, 0) != (PyObject *)type) { /* a methodcaller with keywords */
        Py_DECREF(reduced);
        return refuse(planner, value);
    }
    if (PyTuple_Check(reduced) && PyTuple_GET_SIZE(reduced) >= 2 &&
        PyList_Append(planner->capture->keep, reduced) == 0) {
        node = add_compound(planner, value, MG_PLAN_ITERATOR, PyTuple_GET_ITEM(reduced, 0), 2);
        if (node >= 0 && set_part(planner, node, 0, PyTuple_GET_ITEM(reduced, 1)) < 0) {
            node = -1;
        }
        if (node >= 0) {
            planner->plan->nodes[node].parts[1] = -1;
        }
        if (node >= 0 && PyTuple_GET_SIZE(reduced) > 2 && PyTuple_GET_ITEM(reduced, 2) != Py_None &&
            set_part(planner, node, 1, PyTuple_GET_ITEM(reduced, 2)) < 0) {
            node = -1;
        }
    }
    Py_DECREF(reduced);
    return node;
}

/* 1 for the iterators of builtin types, and for those of itertools that can be told. */
static int
is_iterator(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyRangeIter_Type || type == &PyEnum_Type ||
           type == &PyZip_Type || type == &PyMap_Type || type == &PyFilter_Type || type == &PyReversed_Type ||
           type == &PyListRevIter_Type || type == &PyDictIterKey_Type || type == &PyDictIterValue_Type ||
           type == &PyDictIterItem_Type || type == &PySetIter_Type || type == &PyUnicodeIter_Type ||
           mg_kinds_has(MG_SET_ITERATORS, type);
}

static int
is_constant(const MgCapture *capture, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyTuple_Type) { /* shared, as constants of the code are */
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            PyTypeObject *item = Py_TYPE(PyTuple_GET_ITEM(value, i));
            if ((item != &PyLong_Type && item != &PyUnicode_Type && item != &PyFloat_Type && item != &PyBool_Type &&
                 item != Py_TYPE(Py_None)) ||
                mg_deferred_source(capture, PyTuple_GET_ITEM(value, i)) != NULL) {
                return 0;
            }
        }
        return 1;
    }
    if (PyCFunction_Check(value)) {
        return !mg_is_bound_builtin(value);
    }
    if (type == &PySlice_Type || type == &PyDictProxy_Type || type == &PyProperty_Type || type == mg_kinds.partial ||
        mg_is_getter(type)) {
        return 0; /* they hold other objects */
    }
    return value == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
           type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type || value == Py_Ellipsis ||
           value == Py_NotImplemented || type == &PyRange_Type || PyType_Check(value) || PyModule_Check(value) ||
           type == mg_torch.dtype || type == mg_torch.device || type == mg_torch.layout ||
           type == mg_torch.memory_format || PyCode_Check(value) || mg_kind_is_constant(type) ||
           mg_kind_is_value(type) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
           (PyCFunction_Check(value) &&
            (PyCFunction_GET_SELF(value) == NULL || PyModule_Check(PyCFunction_GET_SELF(value)) ||
             PyType_Check(PyCFunction_GET_SELF(value))));
}

/* 1 if a constant is, or has in it, what id() gave for an object that is built anew on each call; or -1. */
static int
has_id(MgCapture *capture, PyObject *value)
{
    if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            int found = has_id(capture, PyTuple_GET_ITEM(value, i));
            if (found != 0) {
                return found;
            }
        }
    }
    return PyLong_CheckExact(value) ? PySet_Contains(capture->reads.ids, value) : 0;
}

/* A number that depends on data: an output of the graph. A float goes through a tensor, as backends want it. */
static int
add_number(MgPlanner *planner, PyObject *value)
{
    MgCapture *capture = planner->capture;
    MgNumber *number = (MgNumber *)value;
    if (number->capture != capture->number) {
        return refuse(planner, value);
    }
    if (mg_number_is_backed(value)) {
        MgSource *source = mg_number_source(capture, value);
        if (source != NULL) {
            return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = source->id});
        }
        int backed = mg_number_node(capture, value);
        int is_tensor =
            capture->graph.foreign && mg_number_kind(value) == MG_NUMBER_FLOAT; /* backends return no floats */
        backed = backed >= 0 && is_tensor ? mg_record_scalar(capture, backed) : backed;
        int result = backed < 0 ? -1 : output_index(planner, backed);
        MgPlanKind how = is_tensor ? MG_PLAN_NUMBER : MG_PLAN_OUTPUT;
        return result < 0 ? -1 : add_node(planner->plan, (MgPlanNode){.kind = how, .index = result});
    }
    int node = mg_number_kind(value) == MG_NUMBER_FLOAT ? mg_record_scalar(capture, number->node) : number->node;
    int output = node < 0 ? -1 : output_index(planner, node);
    if (output < 0) {
        return -1;
    }
    MgPlanKind kind = mg_number_kind(value) == MG_NUMBER_INT ? MG_PLAN_OUTPUT : MG_PLAN_NUMBER;
    return add_node(planner->plan, (MgPlanNode){.kind = kind, .index = output});
}

int
mg_plan_accept(MgPlanner *planner)
{
    if (planner->capture->finals.finalizers == 0) {
        return MG_OK;
    }
    planner->capture->breaks.refused = 1;
    return mg_capture_abort(planner->capture, MG_REASON_REBUILD, "an object with a finalizer");
}

int
mg_plan_find(MgPlanner *planner, PyObject *value)
{
    PyObject *original = mg_twin_original(value);
    uintptr_t known = (uintptr_t)mg_table_get(&planner->plan->known, original, NULL);
    if (known != 0) {
        return (int)known - 1;
    }
    MgOutside *record = mg_outside_of(planner->capture, original);
    if (record == NULL || record->provisional || record->kind == MG_KIND_CONSTANT) {
        return -1;
    }
    return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = record->source->id});
}

/* A tensor that captured code has made one of a class: the graph knows nothing of that. */
static int
add_subclass(MgPlanner *planner, PyObject *value)
{
    MgTwin *twin = mg_twin_of(value);
    int node = add_compound(planner, value, MG_PLAN_SUBCLASS, (PyObject *)twin->type, 2);
    if (node < 0 || set_part(planner, node, 0, twin->base) < 0) {
        return -1;
    }
    planner->plan->nodes[node].parts[1] = -1;
    if (twin->dict != NULL && PyDict_GET_SIZE(twin->dict) > 0) {
        int part = add_dict(planner, twin->dict, twin->dict, (PyObject *)&PyDict_Type);
        planner->plan->nodes[node].parts[1] = part;
        return part < 0 ? -1 : node;
    }
    return node;
}

/* A twin: an output of the graph. */
static int
add_tensor(MgPlanner *planner, PyObject *value)
{
    MgCapture *capture = planner->capture;
    PyObject *original = mg_twin_original(value);
    if (mg_twin_of(value)->capture != capture->number) {
        return refuse(planner, value);
    }
    if (mg_twin_node(value) >= 0 && mg_node_is_gone(&capture->graph.nodes[mg_twin_node(value)])) {
        return refuse(planner, value); /* it was of a subgraph, and lives on in what nobody has looked at */
    }
    if (mg_twin_of(original)->gradless) {
        capture->breaks.refused = 1;
        return mg_capture_abort(capture, MG_REASON_BACKEND, "a view that was made where gradients were off");
    }
    if (mg_twin_of(original)->base != NULL) {
        return add_subclass(planner, original);
    }
    int output = output_index(planner, mg_twin_node(value));
    int node = output < 0 ? -1 : add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_OUTPUT, .index = output});
    if (node >= 0 && mg_table_set(&planner->plan->known, original, NULL, (void *)(uintptr_t)(node + 1)) < 0) {
        return -1;
    }
    return node;
}

/* An outside object: whatever lies at its source on a later call. */
static int
add_outside(MgPlanner *planner, MgOutside *record, PyObject *value)
{
    if (record->provisional && record->kind != MG_KIND_OPAQUE) { /* that is passed on, whichever it is */
        PyObject *view = mg_world_touch(planner->capture, Py_NewRef(value));
        if (view == NULL) {
            return -1;
        }
        Py_DECREF(view);
    }
    return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = record->source->id});
}

/* An object that is the same on each call. */
static int
add_constant(MgPlanner *planner, PyObject *value)
{
    int found = planner->capture->reads.ids == NULL ? 0 : has_id(planner->capture, value);
    if (found != 0) {
        return found < 0 ? -1 : refuse(planner, value);
    }
    return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_CONST, .object = value});
}

static int
add_mapping(MgPlanner *planner, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    PyObject **attributes = type == &PyDict_Type ? NULL : _PyObject_GetDictPtr(value);
    return attributes != NULL && *attributes != NULL && PyDict_GET_SIZE(*attributes) > 0
               ? add_instance(planner, value)
               : add_dict(planner, value, value, (PyObject *)type);
}

static int
add_proxy(MgPlanner *planner, PyObject *value)
{
    return add_call(planner, value, (PyObject *)Py_TYPE(value), mg_proxy_mapping(value));
}

static int
add_bytearray(MgPlanner *planner, PyObject *value)
{
    PyObject *bytes = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value));
    int node = bytes == NULL || PyList_Append(planner->capture->keep, bytes) < 0
                   ? -1
                   : add_call(planner, value, (PyObject *)Py_TYPE(value), bytes);
    Py_XDECREF(bytes);
    return node;
}

/* dict.keys() and its kin. */
static int
add_dict_view(MgPlanner *planner, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    const char *name = type == &PyDictKeys_Type ? "keys" : type == &PyDictValues_Type ? "values" : "items";
    PyObject *dict = (PyObject *)((_PyDictViewObject *)value)->dv_dict;
    if (!Py_IS_TYPE(dict, &PyDict_Type)) {
        return refuse(planner, value);
    }
    PyObject *method = mg_dict_get(PyDict_Type.tp_dict, name);
    return method == NULL ? -1 : add_call(planner, value, method, dict);
}

static int
add_slice(MgPlanner *planner, PyObject *value)
{
    PySliceObject *slice = (PySliceObject *)value;
    int node = add_compound(planner, value, MG_PLAN_SLICE, NULL, 3);
    return node < 0 || set_part(planner, node, 0, slice->start) < 0 || set_part(planner, node, 1, slice->stop) < 0 ||
                   set_part(planner, node, 2, slice->step) < 0
               ? -1
               : node;
}

/* A builtin function that is bound to an object. */
static int
add_bound_builtin(MgPlanner *planner, PyObject *value)
{
    PyCFunctionObject *function = (PyCFunctionObject *)value;
    PyObject *unbound = PyCFunction_NewEx(function->m_ml, NULL, function->m_module);
    int node = unbound == NULL ? -1 : add_compound(planner, value, MG_PLAN_BOUND, unbound, 1);
    Py_XDECREF(unbound);
    return node < 0 || set_part(planner, node, 0, function->m_self) < 0 ? -1 : node;
}

static int
add_method(MgPlanner *planner, PyObject *value)
{
    int node = add_compound(planner, value, MG_PLAN_METHOD, NULL, 2);
    return node < 0 || set_part(planner, node, 0, PyMethod_GET_FUNCTION(value)) < 0 ||
                   set_part(planner, node, 1, PyMethod_GET_SELF(value)) < 0
               ? -1
               : node;
}

static int
add_any_function(MgPlanner *planner, PyObject *value)
{
    if (mg_table_get(&planner->capture->inside, value, NULL) == NULL) { /* a class has it, found by CPython itself */
        return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_CONST, .object = value});
    }
    return add_function(planner, value);
}

static int
add_cell(MgPlanner *planner, PyObject *value)
{
    int node = add_compound(planner, value, MG_PLAN_CELL, NULL, 1);
    if (node >= 0 && PyCell_GET(value) == NULL) {
        planner->plan->nodes[node].parts[0] = -1;
        return node;
    }
    return node < 0 || set_part(planner, node, 0, PyCell_GET(value)) < 0 ? -1 : node;
}

/* What adds an object of a builtin type, but of no subclass. */
static const struct {
    PyTypeObject *type;
    int (*add)(MgPlanner *planner, PyObject *value);
} adders[] = {
    {&PyList_Type, add_sequence},       {&PyTuple_Type, add_sequence},
    {&PyDict_Type, add_mapping},        {&PyODict_Type, add_mapping},
    {&PyDictProxy_Type, add_proxy},     {&PyByteArray_Type, add_bytearray},
    {&PyDictKeys_Type, add_dict_view},  {&PyDictValues_Type, add_dict_view},
    {&PyDictItems_Type, add_dict_view}, {&PySet_Type, add_set},
    {&PyFrozenSet_Type, add_set},       {&PySlice_Type, add_slice},
    {&PyMethod_Type, add_method},       {&PyFunction_Type, add_any_function},
    {&PyCell_Type, add_cell},
};

/* An object that captured code has made. */
static int
add_inside(MgPlanner *planner, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(adders); i++) {
        if (adders[i].type == type) {
            return adders[i].add(planner, value);
        }
    }
    if (PyTuple_Check(value) && type->tp_dictoffset == 0) {
        return add_sequence(planner, value);
    }
    if (mg_is_bound_builtin(value)) {
        return add_bound_builtin(planner, value);
    }
    if (type == mg_kinds.partial) {
        return add_partial(planner, value);
    }
    if (is_iterator(value) || mg_is_getter(type)) {
        return add_iterator(planner, value);
    }
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE || type == mg_defaultdict_type || type == mg_deque_type ||
        type == mg_namespace_type || mg_plan_is_plain_exception(type)) {
        return add_instance(planner, value);
    }
    return refuse(planner, value);
}

int
mg_plan_add(MgPlanner *planner, PyObject *value)
{
    MgCapture *capture = planner->capture;
    MgPlan *plan = planner->plan;
    uintptr_t known = (uintptr_t)mg_table_get(&plan->known, mg_twin_original(value), NULL);
    if (known != 0) {
        const MgPlanNode *node = &plan->nodes[(int)known - 1];
        /* one of its items leads back to a set: it would be hashed before all its attributes are there */
        int unfinished = node->kind == MG_PLAN_SET && !node->complete;
        return unfinished || is_knot(planner, (int)known - 1) ? refuse(planner, value) : (int)known - 1;
    }
    MgSource *lazy = mg_deferred_source(capture, value);
    if (lazy != NULL) {
        return add_node(plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = lazy->id});
    }
    MgOutside *record = mg_outside_of(capture, value);
    if (record != NULL && record->kind != MG_KIND_CONSTANT) {
        return add_outside(planner, record, value);
    }
    if (mg_is_twin(value)) {
        return add_tensor(planner, value);
    }
    if (mg_is_number(value)) {
        return add_number(planner, value);
    }
    if (record == NULL && mg_kind_is_value(Py_TYPE(value))) {
        return add_scalar(planner, value);
    }
    return record != NULL || is_constant(capture, value) ? add_constant(planner, value) : add_inside(planner, value);
}
