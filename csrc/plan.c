/* Plans: how the objects that outlive a captured part are built again on each call.
 *
 * One inside object becomes one node however often it is met, and one object each time the plan is carried out: what was
 * shared stays shared. Containers are made before their parts, so that cycles close. */
#include "plan.h"

#include "alias.h"
#include "depth.h"
#include "kinds.h"
#include "lazy.h"
#include "record.h"
#include "rules.h"
#include "settable.h"
#include "shadow.h"
#include "symbol.h"
#include "tags.h"
#include "world.h"
#include "worldbase.h"

#include <structmember.h>

static int
add_node(MgPlan *plan, MgPlanNode node)
{
    if (plan->count == plan->room) {
        int room = plan->room == 0 ? 16 : plan->room * 2;
        MgPlanNode *nodes = PyMem_Realloc(plan->nodes, sizeof(MgPlanNode) * (size_t)room);
        if (nodes == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        plan->nodes = nodes;
        plan->room = room;
    }
    Py_XINCREF(node.object);
    plan->nodes[plan->count] = node;
    return plan->count++;
}

/* The output of the graph that a recorded node gives. */
static int
output_index(MgPlanner *planner, int node)
{
    for (int i = 0; i < planner->output_count; i++) {
        if (planner->outputs[i] == node) {
            return i;
        }
    }
    if (planner->output_count == planner->output_room) {
        int room = planner->output_room == 0 ? 8 : planner->output_room * 2;
        int *outputs = PyMem_Realloc(planner->outputs, sizeof(int) * (size_t)room);
        if (outputs == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        planner->outputs = outputs;
        planner->output_room = room;
    }
    planner->outputs[planner->output_count] = node;
    planner->capture->nodes[node].users++;
    return planner->output_count++;
}

static int
refuse(MgPlanner *planner, PyObject *value)
{
    MgReason reason = PyGen_CheckExact(value) || PyCoro_CheckExact(value) ? MG_REASON_GENERATOR : MG_REASON_REBUILD;
    planner->capture->refused = 1;
    mg_capture_abort(planner->capture, reason, "%s", Py_TYPE(value)->tp_name);
    return -1;
}

/* A node with `count` parts; they are filled in by the caller after it is known, so that cycles end. */
static int
add_compound(MgPlanner *planner, PyObject *value, MgPlanKind kind, PyObject *object, int count)
{
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

static PyTypeObject *
c_base(PyTypeObject *type)
{
    while (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        type = type->tp_base;
    }
    return type;
}

/* 1 if an instance of a class over a builtin one is made empty, and given its content then. */
static int
is_filled(PyTypeObject *base)
{
    return base == &PyBaseObject_Type ||
           (mg_shadow_base(base) != NULL && base != &PyTuple_Type && base != &PyFrozenSet_Type);
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
            return part != 1 || is_filled(c_base((PyTypeObject *)node->object));
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
        planner->capture->refused = 1;
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
    HASH_OWN,  /* each call may have another, that of an address; made by C code, or for an object that is made anew */
    HASH_KEPT, /* the same in each call, made by C code */
    HASH_PYTHON, /* the same in each call, for what it was made of is guarded: no Python code need run to make it again */
} HashKind;

/* Of the hash of a key, whose node is `index`. */
static HashKind
hash_kind(const MgPlan *plan, int index, PyObject *key)
{
    const MgPlanNode *node = &plan->nodes[index];
    int outside = node->kind == MG_PLAN_CONST || node->kind == MG_PLAN_SOURCE;
    if (mg_is_plain_value(key)) {
        return HASH_KEPT;
    }
    if (!PyTuple_CheckExact(key) || (!outside && node->kind != MG_PLAN_TUPLE)) {
        return outside && mg_kinds_hashes_in_python(key) ? HASH_PYTHON : HASH_OWN;
    }
    HashKind most = HASH_KEPT;
    for (Py_ssize_t i = 0; most != HASH_OWN && i < PyTuple_GET_SIZE(key); i++) {
        int part = outside ? index : node->parts[i];
        HashKind kind = part < 0 || mg_stack_is_short() ? HASH_OWN : hash_kind(plan, part, PyTuple_GET_ITEM(key, i));
        most = kind == HASH_OWN || kind > most ? kind : most;
    }
    return most;
}

/* Notes the hash of the key in place `i` of a dict, if Python code made it. MG_OK or MG_ERR. */
static int
note_hash(const MgPlan *plan, MgPlanNode *node, int i, PyObject *key, Py_hash_t hash)
{
    if (hash_kind(plan, node->parts[2 * i], key) != HASH_PYTHON) {
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

/* dict[key] = value for the key in place `i` of a dict's node. MG_OK or MG_ERR. */
static int
set_item(const MgPlanNode *node, int i, PyObject *dict, PyObject *key, PyObject *value)
{
    Py_hash_t hash = node->places == NULL ? -1 : ((const Py_hash_t *)(void *)PyBytes_AS_STRING(node->places))[i];
    if (hash != -1 && PyDict_Check(dict) && !PyODict_Check(dict)) {
        return _PyDict_SetItem_KnownHash(dict, key, value, hash);
    }
    return PyDict_Check(dict) ? mg_shadow_set(dict, key, value) : PyObject_SetItem(dict, key, value);
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
note_places(const MgPlan *plan, MgPlanNode *node, PyObject *set)
{
    Py_ssize_t position = 0;
    PyObject *item;
    Py_hash_t hash;
    int python = 0;
    for (int i = 0; _PySet_NextEntry(set, &position, &item, &hash); i++) {
        HashKind kind = i < node->part_count ? hash_kind(plan, node->parts[i], item) : HASH_OWN;
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
        return note_places(planner->plan, &planner->plan->nodes[node], value) < 0 ? -1 : node;
    }
    return node;
}

/* A set of the items, in the places that it had when it was captured. New. */
static PyObject *
make_set(const MgPlanNode *node, PyObject *items)
{
    PyObject *made = node->places == NULL                            ? NULL
                     : node->object == (PyObject *)&PyFrozenSet_Type ? PyFrozenSet_New(NULL)
                                                                     : PySet_New(NULL);
    if (made == NULL && node->places != NULL) {
        return NULL;
    }
    int done = made == NULL ? 0 : mg_set_fill(made, &PyTuple_GET_ITEM(items, 0), node->places);
    if (done > 0) {
        return made;
    }
    Py_XDECREF(made);
    return done < 0 ? NULL : PyObject_CallOneArg(node->object, items);
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
        if (note_hash(planner->plan, &planner->plan->nodes[node], i / 2, key, walk.hash) < 0 ||
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

/* 1 for a builtin exception class whose instances hold no more than their arguments. */
static int
is_plain_exception(PyTypeObject *base)
{
    return PyType_IsSubtype(base, (PyTypeObject *)PyExc_BaseException) &&
           base->tp_basicsize == (Py_ssize_t)sizeof(PyBaseExceptionObject);
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
    if (is_plain_exception(base)) { /* one that was raised has a traceback, which can't be made again */
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
    PyTypeObject *type = Py_TYPE(value), *base = c_base(type);
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

/* What `callable` (borrowed, kept by the caller) gives for one part. */
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
    const MgSources *sources = &planner->capture->sources;
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

enum { FUNCTION_PARTS = 7 };

/* What a function has of its own, besides its cells. */
static void
function_parts(PyFunctionObject *function, PyObject **parts[FUNCTION_PARTS])
{
    parts[0] = &function->func_defaults;
    parts[1] = &function->func_kwdefaults;
    parts[2] = &function->func_dict;
    parts[3] = &function->func_annotations;
    parts[4] = &function->func_name;
    parts[5] = &function->func_doc;
    parts[6] = &function->func_module;
}

static int
add_function(MgPlanner *planner, PyObject *value)
{
    PyFunctionObject *function = (PyFunctionObject *)value;
    int cells = function->func_closure == NULL ? 0 : (int)PyTuple_GET_SIZE(function->func_closure);
    /* an entry has its code and its globals alone, not what its cells hold */
    PyObject *model = PyFunction_NewWithQualName(function->func_code, function->func_globals, function->func_qualname);
    int node = model == NULL ? -1 : add_compound(planner, value, MG_PLAN_FUNCTION, model, cells + FUNCTION_PARTS);
    Py_XDECREF(model);
    if (node < 0) {
        return -1;
    }
    PyObject **parts[FUNCTION_PARTS];
    function_parts(function, parts);
    for (int i = 0; i < FUNCTION_PARTS; i++) {
        planner->plan->nodes[node].parts[i] = -1;
        if (*parts[i] != NULL && set_part(planner, node, i, *parts[i]) < 0) {
            return -1;
        }
    }
    for (int i = 0; i < cells; i++) {
        if (set_part(planner, node, FUNCTION_PARTS + i, PyTuple_GET_ITEM(function->func_closure, i)) < 0) {
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

/* The method that gives what an iterator over a dict or a set goes over. Borrowed, or NULL. */
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

static int mg_is_getter(PyTypeObject *type);

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

/* 1 for the iterators of builtin types. */
static int
is_iterator(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyRangeIter_Type || type == &PyEnum_Type ||
           type == &PyZip_Type || type == &PyMap_Type || type == &PyFilter_Type || type == &PyReversed_Type ||
           type == &PyListRevIter_Type || type == &PyDictIterKey_Type || type == &PyDictIterValue_Type ||
           type == &PyDictIterItem_Type || type == &PySetIter_Type || type == &PyUnicodeIter_Type;
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
                mg_lazy_source(capture, PyTuple_GET_ITEM(value, i)) != NULL) {
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
           type == mg_torch.memory_format || PyCode_Check(value) || mg_rules_is_constant_type(type) ||
           mg_rules_is_value_type(type) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
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
    return PyLong_CheckExact(value) ? PySet_Contains(capture->ids, value) : 0;
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
    if (planner->capture->finalizers == 0) {
        return MG_OK;
    }
    planner->capture->refused = 1;
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
    MgRecord *record = mg_world_record(planner->capture, original);
    if (record == NULL || record->provisional || record->kind == MG_KIND_CONSTANT) {
        return -1;
    }
    return add_node(planner->plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = record->source->id});
}

int
mg_plan_add(MgPlanner *planner, PyObject *value)
{
    MgCapture *capture = planner->capture;
    MgPlan *plan = planner->plan;
    PyObject *original = mg_twin_original(value);
    uintptr_t known = (uintptr_t)mg_table_get(&plan->known, original, NULL);
    if (known != 0) {
        const MgPlanNode *node = &plan->nodes[(int)known - 1];
        /* one of its items leads back to a set: it would be hashed before all its attributes are there */
        int unfinished = node->kind == MG_PLAN_SET && !node->complete;
        return unfinished || is_knot(planner, (int)known - 1) ? refuse(planner, value) : (int)known - 1;
    }
    MgSource *lazy = mg_lazy_source(capture, value);
    if (lazy != NULL) {
        return add_node(plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = lazy->id});
    }
    PyTypeObject *type = Py_TYPE(value);
    MgRecord *record = mg_world_record(capture, value);
    if (record != NULL && record->kind != MG_KIND_CONSTANT) {
        if (record->provisional && record->kind != MG_KIND_OPAQUE) { /* that is passed on, whichever it is */
            PyObject *view = mg_world_touch(capture, Py_NewRef(value));
            if (view == NULL) {
                return -1;
            }
            Py_DECREF(view);
        }
        return add_node(plan, (MgPlanNode){.kind = MG_PLAN_SOURCE, .index = record->source->id});
    }
    if (type == mg_twin_class) {
        MgTwin *twin = mg_twin_of(value);
        if (twin->capture != capture->number) {
            return refuse(planner, value);
        }
        if (mg_twin_of(original)->gradless) {
            capture->refused = 1;
            return mg_capture_abort(capture, MG_REASON_BACKEND, "a view that was made where gradients were off");
        }
        int output = output_index(planner, mg_twin_node(value));
        int node = output < 0 ? -1 : add_node(plan, (MgPlanNode){.kind = MG_PLAN_OUTPUT, .index = output});
        if (node >= 0 && mg_table_set(&plan->known, original, NULL, (void *)(uintptr_t)(node + 1)) < 0) {
            return -1;
        }
        return node;
    }
    if (mg_is_number(value)) {
        return add_number(planner, value);
    }
    if (record == NULL && mg_rules_is_value_type(type)) {
        return add_scalar(planner, value);
    }
    if ((record != NULL && record->kind == MG_KIND_CONSTANT) || is_constant(capture, value)) {
        int found = capture->ids == NULL ? 0 : has_id(capture, value);
        if (found != 0) {
            return found < 0 ? -1 : refuse(planner, value);
        }
        return add_node(plan, (MgPlanNode){.kind = MG_PLAN_CONST, .object = value});
    }
    if (type == &PyList_Type || (PyTuple_Check(value) && (type->tp_dictoffset == 0 || type == &PyTuple_Type))) {
        return add_sequence(planner, value);
    }
    if (type == &PyDict_Type || type == &PyODict_Type) {
        PyObject **attributes = type == &PyDict_Type ? NULL : _PyObject_GetDictPtr(value);
        return attributes != NULL && *attributes != NULL && PyDict_GET_SIZE(*attributes) > 0
                   ? add_instance(planner, value)
                   : add_dict(planner, value, value, (PyObject *)type);
    }
    if (type == &PyDictProxy_Type) {
        return add_call(planner, value, (PyObject *)type, mg_proxy_mapping(value));
    }
    if (type == &PyByteArray_Type) {
        PyObject *bytes = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value));
        int node = bytes == NULL || PyList_Append(capture->keep, bytes) < 0
                       ? -1
                       : add_call(planner, value, (PyObject *)type, bytes);
        Py_XDECREF(bytes);
        return node;
    }
    if (type == &PyDictKeys_Type || type == &PyDictValues_Type || type == &PyDictItems_Type) {
        const char *name = type == &PyDictKeys_Type ? "keys" : type == &PyDictValues_Type ? "values" : "items";
        PyObject *dict = (PyObject *)((_PyDictViewObject *)value)->dv_dict;
        if (!Py_IS_TYPE(dict, &PyDict_Type)) {
            return refuse(planner, value);
        }
        PyObject *method = mg_dict_get(PyDict_Type.tp_dict, name);
        return method == NULL ? -1 : add_call(planner, value, method, dict);
    }
    if (type == &PySet_Type || type == &PyFrozenSet_Type) {
        return add_set(planner, value);
    }
    if (type == &PySlice_Type) {
        PySliceObject *slice = (PySliceObject *)value;
        int node = add_compound(planner, value, MG_PLAN_SLICE, NULL, 3);
        return node < 0 || set_part(planner, node, 0, slice->start) < 0 ||
                       set_part(planner, node, 1, slice->stop) < 0 || set_part(planner, node, 2, slice->step) < 0
                   ? -1
                   : node;
    }
    if (mg_is_bound_builtin(value)) {
        PyCFunctionObject *function = (PyCFunctionObject *)value;
        PyObject *unbound = PyCFunction_NewEx(function->m_ml, NULL, function->m_module);
        int node = unbound == NULL ? -1 : add_compound(planner, value, MG_PLAN_BOUND, unbound, 1);
        Py_XDECREF(unbound);
        return node < 0 || set_part(planner, node, 0, function->m_self) < 0 ? -1 : node;
    }
    if (type == &PyMethod_Type) {
        int node = add_compound(planner, value, MG_PLAN_METHOD, NULL, 2);
        return node < 0 || set_part(planner, node, 0, PyMethod_GET_FUNCTION(value)) < 0 ||
                       set_part(planner, node, 1, PyMethod_GET_SELF(value)) < 0
                   ? -1
                   : node;
    }
    if (type == &PyFunction_Type) {
        if (mg_table_get(&capture->inside, value, NULL) == NULL) { /* a class has it, found by CPython itself */
            return add_node(plan, (MgPlanNode){.kind = MG_PLAN_CONST, .object = value});
        }
        return add_function(planner, value);
    }
    if (type == &PyCell_Type) {
        int node = add_compound(planner, value, MG_PLAN_CELL, NULL, 1);
        if (node >= 0 && PyCell_GET(value) == NULL) {
            planner->plan->nodes[node].parts[0] = -1;
            return node;
        }
        return node < 0 || set_part(planner, node, 0, PyCell_GET(value)) < 0 ? -1 : node;
    }
    if (type == mg_kinds.partial) {
        return add_partial(planner, value);
    }
    if (is_iterator(value) || mg_is_getter(type)) {
        return add_iterator(planner, value);
    }
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE || type == mg_defaultdict_type || type == mg_deque_type ||
        type == mg_namespace_type || is_plain_exception(type)) {
        return add_instance(planner, value);
    }
    return refuse(planner, value);
}

/* ---- carrying it out ---- */

typedef struct {
    const MgPlan *plan;
    PyObject **registers;
    PyObject *const *outputs;
    PyObject **memo;
    MgNewTags tags; /* of the dicts that are built */
} Build;

static PyObject *build(Build *context, int node);

static PyObject *
build_tuple(Build *context, const MgPlanNode *node)
{
    PyObject *tuple = PyTuple_New(node->part_count);
    for (int i = 0; tuple != NULL && i < node->part_count; i++) {
        PyObject *item = build(context, node->parts[i]);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(item));
    }
    PyTypeObject *type = (PyTypeObject *)node->object;
    if (tuple == NULL || type == &PyTuple_Type) {
        return tuple;
    }
    PyObject *made = mg_shadow_tuple(type, tuple);
    Py_DECREF(tuple);
    return made;
}

static int
fill_dict(Build *context, const MgPlanNode *node, PyObject *dict)
{
    for (int i = 0; i < node->part_count; i += 2) {
        PyObject *key = build(context, node->parts[i]);
        PyObject *value = key == NULL ? NULL : build(context, node->parts[i + 1]);
        uint64_t tag = mg_dict_tag(dict);
        if (value == NULL || set_item(node, i / 2, dict, key, value) < 0) {
            return -1;
        }
        mg_tags_note(&context->tags, dict, tag);
    }
    return 0;
}

static int
fill_instance(Build *context, const MgPlanNode *node, PyObject *instance)
{
    if (node->parts[0] >= 0) {
        PyObject *dict = build(context, node->parts[0]);
        PyObject **slot = dict == NULL ? NULL : _PyObject_GetDictPtr(instance);
        if (slot == NULL) {
            return -1;
        }
        Py_XSETREF(*slot, Py_NewRef(dict));
    }
    PyTypeObject *base = c_base((PyTypeObject *)node->object);
    if (node->parts[1] >= 0 && PyDict_Check(instance)) {
        const MgPlanNode *items = &context->plan->nodes[node->parts[1]];
        for (int i = 0; i < items->part_count; i += 2) {
            PyObject *key = build(context, items->parts[i]);
            PyObject *value = key == NULL ? NULL : build(context, items->parts[i + 1]);
            uint64_t tag = mg_dict_tag(instance);
            if (value == NULL || set_item(items, i / 2, instance, key, value) < 0) {
                return -1;
            }
            mg_tags_note(&context->tags, instance, tag);
        }
    }
    else if (node->parts[1] >= 0 && (base == &PyList_Type || base == mg_deque_type || base == &PySet_Type)) {
        const MgPlanNode *items = &context->plan->nodes[node->parts[1]];
        for (int i = 0; i < items->part_count; i++) {
            PyObject *item = build(context, items->parts[i]);
            if (item == NULL || mg_shadow_add(instance, item) < 0) {
                return -1;
            }
        }
    }
    for (int i = 2; i < node->part_count; i += 2) {
        PyObject *descriptor = build(context, node->parts[i]);
        PyObject *value = descriptor == NULL ? NULL : build(context, node->parts[i + 1]);
        if (value == NULL) {
            return -1;
        }
        PyObject **slot = (PyObject **)((char *)instance + ((PyMemberDescrObject *)descriptor)->d_member->offset);
        Py_XSETREF(*slot, Py_NewRef(value));
    }
    return 0;
}

static PyObject *
build_function(Build *context, const MgPlanNode *node, int index)
{
    PyFunctionObject *model = (PyFunctionObject *)node->object;
    PyFunctionObject *function =
        (PyFunctionObject *)PyFunction_NewWithQualName(model->func_code, model->func_globals, model->func_qualname);
    if (function == NULL) {
        return NULL;
    }
    context->memo[index] = (PyObject *)function;
    PyObject **slots[FUNCTION_PARTS];
    function_parts(function, slots);
    for (int i = 0; i < FUNCTION_PARTS; i++) {
        PyObject *part = node->parts[i] < 0 ? NULL : build(context, node->parts[i]);
        if (part == NULL && node->parts[i] >= 0) {
            return NULL;
        }
        Py_XSETREF(*slots[i], Py_XNewRef(part));
    }
    if (node->part_count > FUNCTION_PARTS) {
        PyObject *closure = PyTuple_New(node->part_count - FUNCTION_PARTS);
        for (int i = FUNCTION_PARTS; closure != NULL && i < node->part_count; i++) {
            PyObject *cell = build(context, node->parts[i]);
            if (cell == NULL) {
                Py_CLEAR(closure);
                break;
            }
            PyTuple_SET_ITEM(closure, i - FUNCTION_PARTS, Py_NewRef(cell));
        }
        if (closure == NULL) {
            return NULL;
        }
        Py_XSETREF(function->func_closure, closure);
    }
    return (PyObject *)function;
}

/* What was made after its parts goes into the memo, unless one of the parts led back to it: then it is there already. */
static PyObject *
keep_made(PyObject **slot, PyObject *made)
{
    if (made != NULL && *slot != NULL) {
        Py_DECREF(made);
        return *slot;
    }
    return made == NULL ? NULL : (*slot = made);
}

/* Builds a node that is not there yet. Borrowed from the memo. */
static PyObject *
build_fresh(Build *context, int index)
{
    const MgPlanNode *node = &context->plan->nodes[index];
    PyObject **slot = &context->memo[index];
    switch (node->kind) {
        case MG_PLAN_CONST:
            return *slot = Py_NewRef(node->object);
        case MG_PLAN_SOURCE:
            return *slot = Py_XNewRef(context->registers[node->index]);
        case MG_PLAN_OUTPUT:
            return *slot = Py_NewRef(context->outputs[node->index]);
        case MG_PLAN_NUMBER: {
            PyObject *output = context->outputs[node->index];
            if (mg_torch_is_tensor(output)) {
                return *slot = PyObject_CallMethodNoArgs(output, MG_STRING("item"));
            }
            int truth = PyObject_IsTrue(output);
            return *slot = truth < 0 ? NULL : PyBool_FromLong(truth);
        }
        case MG_PLAN_TUPLE:
            return keep_made(slot, build_tuple(context, node));
        case MG_PLAN_LIST:
            *slot = PyList_New(0);
            for (int i = 0; *slot != NULL && i < node->part_count; i++) {
                PyObject *item = build(context, node->parts[i]);
                if (item == NULL || PyList_Append(*slot, item) < 0) {
                    return NULL;
                }
            }
            return *slot;
        case MG_PLAN_SET: {
            PyObject *items = PyTuple_New(node->part_count);
            for (int i = 0; items != NULL && i < node->part_count; i++) {
                PyObject *item = build(context, node->parts[i]);
                if (item == NULL) {
                    Py_CLEAR(items);
                    break;
                }
                PyTuple_SET_ITEM(items, i, Py_NewRef(item));
            }
            PyObject *made = items == NULL ? NULL : make_set(node, items);
            Py_XDECREF(items);
            return keep_made(slot, made);
        }
        case MG_PLAN_DICT:
            *slot = PyObject_CallNoArgs(node->object);
            if (*slot == NULL) {
                return NULL;
            }
            mg_tags_note(&context->tags, *slot, 0);
            return fill_dict(context, node, *slot) < 0 ? NULL : *slot;
        case MG_PLAN_SLICE: {
            PyObject *start = build(context, node->parts[0]);
            PyObject *stop = start == NULL ? NULL : build(context, node->parts[1]);
            PyObject *step = stop == NULL ? NULL : build(context, node->parts[2]);
            return step == NULL ? NULL : keep_made(slot, PySlice_New(start, stop, step));
        }
        case MG_PLAN_BOUND: {
            PyCFunctionObject *function = (PyCFunctionObject *)node->object;
            PyObject *self = build(context, node->parts[0]);
            return self == NULL ? NULL : keep_made(slot, PyCFunction_NewEx(function->m_ml, self, function->m_module));
        }
        case MG_PLAN_METHOD: {
            PyObject *function = build(context, node->parts[0]);
            PyObject *self = function == NULL ? NULL : build(context, node->parts[1]);
            return self == NULL ? NULL : keep_made(slot, PyMethod_New(function, self));
        }
        case MG_PLAN_FUNCTION:
            return build_function(context, node, index);
        case MG_PLAN_CELL: {
            *slot = PyCell_New(NULL);
            if (*slot == NULL || node->parts[0] < 0) {
                return *slot;
            }
            PyObject *content = build(context, node->parts[0]);
            return content == NULL || PyCell_Set(*slot, content) < 0 ? NULL : *slot;
        }
        case MG_PLAN_INSTANCE: {
            PyTypeObject *type = (PyTypeObject *)node->object, *base = c_base(type);
            if (base == &PyBaseObject_Type) {
                *slot = type->tp_alloc(type, 0);
            }
            else if (is_filled(base)) {
                *slot = mg_shadow_empty(type, base, node->index);
                if (*slot != NULL && PyDict_Check(*slot)) {
                    mg_tags_note(&context->tags, *slot, 0);
                }
            }
            else { /* immutable: made of its content */
                PyObject *content = node->parts[1] < 0 ? NULL : build(context, node->parts[1]);
                if (content == NULL && PyErr_Occurred()) {
                    return NULL;
                }
                PyObject *arguments = content == NULL            ? PyTuple_New(0)
                                      : is_plain_exception(base) ? Py_NewRef(content)
                                                                 : PyTuple_Pack(1, content);
                PyObject *made = arguments == NULL ? NULL : base->tp_new(type, arguments, NULL);
                Py_XDECREF(arguments);
                if (keep_made(slot, made) != made) {
                    return *slot;
                }
            }
            return *slot == NULL || fill_instance(context, node, *slot) < 0 ? NULL : *slot;
        }
        case MG_PLAN_CALL: {
            PyObject *part = build(context, node->parts[0]);
            return part == NULL ? NULL : keep_made(slot, PyObject_CallOneArg(node->object, part));
        }
        case MG_PLAN_PLACED: {
            PyObject *container = build(context, node->parts[0]);
            PyObject *view = container == NULL ? NULL : PyObject_CallOneArg(node->object, container);
            PyObject *made = view == NULL ? NULL : PyObject_GetIter(view);
            Py_XDECREF(view);
            return keep_made(slot, made);
        }
        case MG_PLAN_ITERATOR: {
            PyObject *args = build(context, node->parts[0]);
            PyObject *made = args == NULL ? NULL : PyObject_CallObject(node->object, args);
            if (keep_made(slot, made) != made || made == NULL || node->parts[1] < 0) {
                return made == NULL ? NULL : *slot;
            }
            PyObject *state = build(context, node->parts[1]);
            if (state != NULL && mg_list_iterator_place(*slot, state)) {
                return *slot;
            }
            PyObject *none = state == NULL ? NULL : PyObject_CallMethod(*slot, "__setstate__", "O", state);
            Py_XDECREF(none);
            return none == NULL ? NULL : *slot;
        }
        case MG_PLAN_PARTIAL: {
            PyObject *function = build(context, node->parts[0]);
            PyObject *args = function == NULL ? NULL : build(context, node->parts[1]);
            PyObject *keywords = args == NULL ? NULL : build(context, node->parts[2]);
            if (keywords == NULL) {
                return NULL;
            }
            PyObject *first = PyTuple_Pack(1, function);
            PyObject *all = first == NULL ? NULL : PySequence_Concat(first, args);
            PyObject *made = all == NULL ? NULL : PyObject_Call(node->object, all, keywords);
            Py_XDECREF(first);
            Py_XDECREF(all);
            return keep_made(slot, made);
        }
    }
    return NULL;
}

static PyObject *
build(Build *context, int node)
{
    if (context->memo[node] != NULL) {
        return context->memo[node];
    }
    if (mg_stack_is_short()) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: no room on the C stack");
        return NULL;
    }
    return build_fresh(context, node);
}

PyObject *
mg_plan_build(const MgPlan *plan, int node, PyObject **registers, PyObject *const *outputs, PyObject **memo)
{
    Build context = {plan, registers, outputs, memo, mg_tags_start()};
    PyObject *result = build(&context, node);
    mg_tags_end(&context.tags);
    if (result == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "a captured object could not be built again");
    }
    return result;
}

void
mg_plan_place(const MgPlan *plan, PyObject *const *memo)
{
    for (int i = 0; i < plan->count; i++) {
        const MgPlanNode *node = &plan->nodes[i];
        if (MG_UNLIKELY(node->kind == MG_PLAN_PLACED) && memo[i] != NULL) {
            mg_iterator_place(memo[i], (const MgIteratorState *)(void *)PyBytes_AS_STRING(node->places));
        }
    }
}

void
mg_plan_free(MgPlan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        Py_XDECREF(plan->nodes[i].object);
        Py_XDECREF(plan->nodes[i].places);
        PyMem_Free(plan->nodes[i].parts);
    }
    PyMem_Free(plan->nodes);
    mg_table_free(&plan->known);
    *plan = (MgPlan){0};
}
