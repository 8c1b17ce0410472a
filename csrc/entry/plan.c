/* Plans: how the objects that outlive a captured part are built again on each call.
 *
 * One inside object is one node however often it was met (trace/planner.c), and one object each time the plan is carried out:
 * what was shared stays shared. Containers are made before their parts, so that cycles close. */
#include "entry/plan.h"

#include "cpython/aside.h"
#include "cpython/depth.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "cpython/watch.h"
#include "torch/torchabi.h"

#include <structmember.h>

/* ---- what a plan is made of ---- */

PyTypeObject *
mg_plan_c_base(PyTypeObject *type)
{
    while (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        type = type->tp_base;
    }
    return type;
}

/* 1 if an instance of a class over a builtin one is made empty, and given its content then. */
int
mg_plan_is_filled(PyTypeObject *base)
{
    return base == &PyBaseObject_Type ||
           (mg_shadow_base(base) != NULL && base != &PyTuple_Type && base != &PyFrozenSet_Type);
}

/* 1 for a builtin exception class whose instances hold no more than their arguments. */
int
mg_plan_is_plain_exception(PyTypeObject *base)
{
    return PyType_IsSubtype(base, (PyTypeObject *)PyExc_BaseException) &&
           base->tp_basicsize == (Py_ssize_t)sizeof(PyBaseExceptionObject);
}

/* What a function has of its own, besides its cells. */
void
mg_plan_function_parts(PyFunctionObject *function, PyObject **parts[MG_FUNCTION_PARTS])
{
    parts[0] = &function->func_defaults;
    parts[1] = &function->func_kwdefaults;
    parts[2] = &function->func_dict;
    parts[3] = &function->func_annotations;
    parts[4] = &function->func_name;
    parts[5] = &function->func_doc;
    parts[6] = &function->func_module;
}

/* dict[key] = value for the key in place `i` of a dict's node. MG_OK or MG_ERR. */
static int
set_item(const MgPlanNode *node, int i, PyObject *dict, PyObject *key, PyObject *value)
{
    Py_hash_t hash = node->places == NULL ? -1 : ((const Py_hash_t *)(void *)PyBytes_AS_STRING(node->places))[i];
    if (hash != -1 && PyDict_Check(dict)) {
        return mg_dict_set_known(dict, key, value, hash);
    }
    return PyDict_Check(dict) ? mg_shadow_set(dict, key, value) : PyObject_SetItem(dict, key, value);
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

/* ---- carrying it out ---- */

typedef struct {
    const MgPlan *plan;
    PyObject **registers;
    PyObject *const *outputs;
    PyObject **memo;
    MgOwnChanges own; /* of the dicts that are built */
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
        uint64_t tag = mg_watch_dict(dict);
        if (value == NULL || set_item(node, i / 2, dict, key, value) < 0) {
            return -1;
        }
        mg_watch_own_note(&context->own, dict, tag);
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
    PyTypeObject *base = mg_plan_c_base((PyTypeObject *)node->object);
    if (node->parts[1] >= 0 && PyDict_Check(instance)) {
        const MgPlanNode *items = &context->plan->nodes[node->parts[1]];
        for (int i = 0; i < items->part_count; i += 2) {
            PyObject *key = build(context, items->parts[i]);
            PyObject *value = key == NULL ? NULL : build(context, items->parts[i + 1]);
            uint64_t tag = mg_watch_dict(instance);
            if (value == NULL || set_item(items, i / 2, instance, key, value) < 0) {
                return -1;
            }
            mg_watch_own_note(&context->own, instance, tag);
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
    PyObject **slots[MG_FUNCTION_PARTS];
    mg_plan_function_parts(function, slots);
    for (int i = 0; i < MG_FUNCTION_PARTS; i++) {
        PyObject *part = node->parts[i] < 0 ? NULL : build(context, node->parts[i]);
        if (part == NULL && node->parts[i] >= 0) {
            return NULL;
        }
        Py_XSETREF(*slots[i], Py_XNewRef(part));
    }
    if (node->part_count > MG_FUNCTION_PARTS) {
        PyObject *closure = PyTuple_New(node->part_count - MG_FUNCTION_PARTS);
        for (int i = MG_FUNCTION_PARTS; closure != NULL && i < node->part_count; i++) {
            PyObject *cell = build(context, node->parts[i]);
            if (cell == NULL) {
                Py_CLEAR(closure);
                break;
            }
            PyTuple_SET_ITEM(closure, i - MG_FUNCTION_PARTS, Py_NewRef(cell));
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

/* What builds each kind of node into its slot. Some keep the object there before its parts are built: a part may lead back
 * to it. The object, borrowed from the slot; NULL with an exception. */
typedef PyObject *(*Builder)(Build *context, const MgPlanNode *node, PyObject **slot);

static PyObject *
build_const(Build *context, const MgPlanNode *node, PyObject **slot)
{
    (void)context;
    return *slot = Py_NewRef(node->object);
}

static PyObject *
build_source(Build *context, const MgPlanNode *node, PyObject **slot)
{
    return *slot = Py_XNewRef(context->registers[node->index]);
}

static PyObject *
build_output(Build *context, const MgPlanNode *node, PyObject **slot)
{
    return *slot = Py_NewRef(context->outputs[node->index]);
}

static PyObject *
build_number(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyObject *output = context->outputs[node->index];
    if (mg_torch_is_tensor(output)) {
        return *slot = PyObject_CallMethodNoArgs(output, MG_STRING("item"));
    }
    int truth = PyObject_IsTrue(output);
    return *slot = truth < 0 ? NULL : PyBool_FromLong(truth);
}

static PyObject *
build_sequence(Build *context, const MgPlanNode *node, PyObject **slot)
{
    return keep_made(slot, build_tuple(context, node));
}

static PyObject *
build_list(Build *context, const MgPlanNode *node, PyObject **slot)
{
    *slot = PyList_New(0);
    for (int i = 0; *slot != NULL && i < node->part_count; i++) {
        PyObject *item = build(context, node->parts[i]);
        if (item == NULL || PyList_Append(*slot, item) < 0) {
            return NULL;
        }
    }
    return *slot;
}

static PyObject *
build_set(Build *context, const MgPlanNode *node, PyObject **slot)
{
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

static PyObject *
build_dict(Build *context, const MgPlanNode *node, PyObject **slot)
{
    *slot = PyObject_CallNoArgs(node->object);
    if (*slot == NULL) {
        return NULL;
    }
    mg_watch_own_note(&context->own, *slot, 0);
    return fill_dict(context, node, *slot) < 0 ? NULL : *slot;
}

static PyObject *
build_slice(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyObject *start = build(context, node->parts[0]);
    PyObject *stop = start == NULL ? NULL : build(context, node->parts[1]);
    PyObject *step = stop == NULL ? NULL : build(context, node->parts[2]);
    return step == NULL ? NULL : keep_made(slot, PySlice_New(start, stop, step));
}

static PyObject *
build_bound(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyCFunctionObject *function = (PyCFunctionObject *)node->object;
    PyObject *self = build(context, node->parts[0]);
    return self == NULL ? NULL : keep_made(slot, PyCFunction_NewEx(function->m_ml, self, function->m_module));
}

static PyObject *
build_method(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyObject *function = build(context, node->parts[0]);
    PyObject *self = function == NULL ? NULL : build(context, node->parts[1]);
    return self == NULL ? NULL : keep_made(slot, PyMethod_New(function, self));
}

static PyObject *
build_closure(Build *context, const MgPlanNode *node, PyObject **slot)
{
    return build_function(context, node, (int)(slot - context->memo));
}

static PyObject *
build_cell(Build *context, const MgPlanNode *node, PyObject **slot)
{
    *slot = PyCell_New(NULL);
    if (*slot == NULL || node->parts[0] < 0) {
        return *slot;
    }
    PyObject *content = build(context, node->parts[0]);
    return content == NULL || PyCell_Set(*slot, content) < 0 ? NULL : *slot;
}

/* An instance of a class over an immutable type, which is made of its content. New. */
static PyObject *
make_of_content(Build *context, const MgPlanNode *node, PyTypeObject *type, PyTypeObject *base)
{
    PyObject *content = node->parts[1] < 0 ? NULL : build(context, node->parts[1]);
    if (content == NULL && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *arguments = content == NULL                    ? PyTuple_New(0)
                          : mg_plan_is_plain_exception(base) ? Py_NewRef(content)
                                                             : PyTuple_Pack(1, content);
    PyObject *made = arguments == NULL ? NULL : base->tp_new(type, arguments, NULL);
    Py_XDECREF(arguments);
    return made;
}

static PyObject *
build_instance(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyTypeObject *type = (PyTypeObject *)node->object, *base = mg_plan_c_base(type);
    if (base == &PyBaseObject_Type) {
        *slot = type->tp_alloc(type, 0);
    }
    else if (mg_plan_is_filled(base)) {
        *slot = mg_shadow_empty(type, base, node->index);
        if (*slot != NULL && PyDict_Check(*slot)) {
            mg_watch_own_note(&context->own, *slot, 0);
        }
    }
    else {
        PyObject *made = make_of_content(context, node, type, base);
        if (made == NULL || keep_made(slot, made) != made) {
            return made == NULL ? NULL : *slot;
        }
    }
    return *slot == NULL || fill_instance(context, node, *slot) < 0 ? NULL : *slot;
}

static PyObject *
build_call(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyObject *part = build(context, node->parts[0]);
    return part == NULL ? NULL : keep_made(slot, PyObject_CallOneArg(node->object, part));
}

static PyObject *
build_placed(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyObject *container = build(context, node->parts[0]);
    PyObject *view = container == NULL ? NULL : PyObject_CallOneArg(node->object, container);
    PyObject *made = view == NULL ? NULL : PyObject_GetIter(view);
    Py_XDECREF(view);
    return keep_made(slot, made);
}

static PyObject *
build_iterator(Build *context, const MgPlanNode *node, PyObject **slot)
{
    PyObject *args = build(context, node->parts[0]);
    PyObject *made = args == NULL ? NULL : PyObject_CallObject(node->object, args);
    if (keep_made(slot, made) != made || made == NULL || node->parts[1] < 0) {
        return made == NULL ? NULL : *slot;
    }
    PyObject *state = build(context, node->parts[1]);
    if (state != NULL && mg_list_iterator_place(*slot, state)) {
        return *slot;
    }
    PyObject *none = state == NULL ? NULL : PyObject_CallMethodOneArg(*slot, MG_STRING("__setstate__"), state);
    Py_XDECREF(none);
    return none == NULL ? NULL : *slot;
}

static PyObject *
build_partial(Build *context, const MgPlanNode *node, PyObject **slot)
{
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

static PyObject *
build_subclass(Build *context, const MgPlanNode *node, PyObject **slot)
{
    static PyObject *as_subclass; /* strong */
    if (as_subclass == NULL) {
        as_subclass = PyObject_GetAttrString((PyObject *)mg_torch.tensor, "as_subclass");
    }
    PyObject *tensor = as_subclass == NULL ? NULL : build(context, node->parts[0]);
    PyObject *const arguments[] = {tensor, node->object};
    PyObject *made = tensor == NULL ? NULL : mg_aside_call(as_subclass, arguments, 2);
    if (made == NULL || keep_made(slot, made) != made || node->parts[1] < 0) {
        return made == NULL ? NULL : *slot;
    }
    PyObject *dict = build(context, node->parts[1]), **place = dict == NULL ? NULL : _PyObject_GetDictPtr(made);
    if (place == NULL) {
        return NULL;
    }
    Py_XSETREF(*place, Py_NewRef(dict));
    return made;
}

static const Builder builders[] = {
    [MG_PLAN_CONST] = build_const,       [MG_PLAN_SOURCE] = build_source,     [MG_PLAN_OUTPUT] = build_output,
    [MG_PLAN_NUMBER] = build_number,     [MG_PLAN_TUPLE] = build_sequence,    [MG_PLAN_LIST] = build_list,
    [MG_PLAN_SET] = build_set,           [MG_PLAN_DICT] = build_dict,         [MG_PLAN_SLICE] = build_slice,
    [MG_PLAN_METHOD] = build_method,     [MG_PLAN_BOUND] = build_bound,       [MG_PLAN_FUNCTION] = build_closure,
    [MG_PLAN_CELL] = build_cell,         [MG_PLAN_INSTANCE] = build_instance, [MG_PLAN_CALL] = build_call,
    [MG_PLAN_PLACED] = build_placed,     [MG_PLAN_ITERATOR] = build_iterator, [MG_PLAN_PARTIAL] = build_partial,
    [MG_PLAN_SUBCLASS] = build_subclass,
};

/* Builds a node that is not there yet. Borrowed from the memo. */
static PyObject *
build_fresh(Build *context, int index)
{
    assert(index >= 0 && index < context->plan->count && context->memo[index] == NULL);
    const MgPlanNode *node = &context->plan->nodes[index];
    return builders[node->kind](context, node, &context->memo[index]);
}

static PyObject *
build(Build *context, int node)
{
    assert(node >= 0 && node < context->plan->count);
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
    Build context = {plan, registers, outputs, memo, mg_watch_own_start()};
    PyObject *result = build(&context, node);
    mg_watch_own_end(&context.own);
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
