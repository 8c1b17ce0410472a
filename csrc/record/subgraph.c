/* Recordings within a recording: functions that an operator is given become graphs of their own.
 *
 * All nodes of a capture are in one list, and have one numbering. While a subgraph is open, what is recorded is its own, but for
 * inputs that come from outside the capture: those belong to the root. References to nodes of outer recordings are left as they
 * are; when the subgraph is closed, they become its inputs, by first use, and the operator gets them as operands, which makes
 * them inputs of the next outer subgraph in turn. The nodes are moved out of the list then. What is left of each is its place, so
 * that no number changes; whoever still holds a twin of such a node can't use it.
 *
 * A subgraph is a transaction within the transaction: if it has written to anything that was there before, the capture stops, and
 * the operator is called at a break. The functions of magneto/_higher.py, which open and close subgraphs, are our own, and no break
 * falls into them: so a capture that stops within a subgraph is made again up to the call of the operator. */
#include "record/subgraph.h"

#include "capture/outside.h"
#include "capture/writes.h"
#include "entry/key.h"
#include "ir/alias.h"
#include "ir/dimobject.h"
#include "record/arguments.h"
#include "record/arithmetic.h"
#include "record/number.h"
#include "record/record.h"
#include "torch/kinds.h"

/* 1 if a node is recorded within an open subgraph, or one that is open within it. */
static int
is_within(const MgCapture *capture, const MgSubgraph *subgraph, int node)
{
    const MgNode *one = &capture->graph.nodes[node];
    return node >= subgraph->start && !(one->kind == MG_NODE_INPUT && one->source != NULL);
}

int
mg_subgraph_meet(MgCapture *capture, int node, PyObject *object)
{
    MgSubgraph *subgraph = capture->graph.subgraph;
    if (subgraph == NULL || node < 0 || is_within(capture, subgraph, node)) {
        return MG_OK;
    }
    PyObject *key = PyLong_FromLong(node);
    int status = key == NULL ? MG_ERR : PyDict_SetItem(subgraph->met, key, object);
    Py_XDECREF(key);
    return status;
}

/* MG_ERR if a node has gone into a subgraph that is closed. */
static int
check_there(MgCapture *capture, int node)
{
    return node >= 0 && mg_node_is_gone(&capture->graph.nodes[node])
               ? mg_capture_abort(capture, MG_REASON_SUBGRAPH, "a tensor of its own is used after it")
               : MG_OK;
}

int
mg_subgraph_check(MgCapture *capture, const MgMapping *mapping)
{
    int status = MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(mapping->twins); i++) {
        status = check_there(capture, mg_twin_of(PyList_GET_ITEM(mapping->twins, i))->node);
    }
    for (Py_ssize_t i = 0; status == MG_OK && mapping->aliases != NULL && i < PyList_GET_SIZE(mapping->aliases);
         i += 2) {
        status = check_there(capture, mg_twin_node(PyList_GET_ITEM(mapping->aliases, i)));
    }
    for (Py_ssize_t i = 0; status == MG_OK && mapping->numbers != NULL && i < PyList_GET_SIZE(mapping->numbers); i++) {
        status = check_there(capture, mg_symbol_node(PyList_GET_ITEM(mapping->numbers, i)));
    }
    return status;
}

/* 1 if one of the tensors from around a subgraph that it has used requires grad. */
static int
has_met_grad(const MgSubgraph *subgraph)
{
    Py_ssize_t position = 0;
    PyObject *node, *value;
    while (PyDict_Next(subgraph->met, &position, &node, &value)) {
        if (mg_is_twin(value) && mg_twin_of(value)->meta->flags & MG_META_REQUIRES_GRAD) {
            return 1;
        }
    }
    return 0;
}

int
mg_subgraph_knows_grad(const MgCapture *capture, const MgTwin *twin)
{
    for (const MgSubgraph *at = capture->graph.subgraph; at != NULL; at = at->outer) {
        int is_own = twin->node >= 0 && is_within(capture, at, twin->node);
        if (at->is_level && is_own && (twin->meta->flags & MG_META_REQUIRES_GRAD) && has_met_grad(at)) {
            return 0;
        }
    }
    return 1;
}

/* ---- writes to tensors ---- */

/* 1 if a tensor was there before the subgraph, shares memory with one that was, or is an input. */
static int
is_given(const MgCapture *capture, const MgSubgraph *subgraph, const MgTwin *twin)
{
    const MgTwin *member = twin;
    do {
        if (member->node < 0 || !is_within(capture, subgraph, member->node) || member->shares ||
            capture->graph.nodes[member->node].kind == MG_NODE_INPUT) {
            return 1;
        }
        member = member->next;
    } while (member != twin);
    return 0;
}

/* Notes that a subgraph, and those around it, write to what they are given. MG_OK or MG_ERR. */
static int
note_write(MgCapture *capture, const MgTwin *twin)
{
    for (MgSubgraph *at = capture->graph.subgraph; at != NULL && is_given(capture, at, twin); at = at->outer) {
        if (!at->may_write) {
            return mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it writes to a tensor that it is given");
        }
        const MgTwin *member = twin;
        do {
            PyObject *key = PyLong_FromLong(member->node);
            int status = key == NULL ? MG_ERR : PySet_Add(at->written, key);
            Py_XDECREF(key);
            if (status < 0) {
                return MG_ERR;
            }
            member = member->next;
        } while (member != twin);
    }
    return MG_OK;
}

int
mg_subgraph_write(MgCapture *capture, PyObject *twins, const MgOutcome *outcome)
{
    MgSubgraph *subgraph = capture->graph.subgraph;
    for (Py_ssize_t i = 0; subgraph != NULL && i < PyTuple_GET_SIZE(outcome->written); i++) {
        PyObject *twin = PyList_GET_ITEM(twins, PyLong_AsSsize_t(PyTuple_GET_ITEM(outcome->written, i)));
        if (note_write(capture, mg_twin_of(twin)) < 0) {
            return MG_ERR;
        }
    }
    for (Py_ssize_t i = 0; subgraph != NULL && i < PyTuple_GET_SIZE(outcome->changes); i++) {
        PyObject *position = PyTuple_GET_ITEM(PyTuple_GET_ITEM(outcome->changes, i), 0);
        if (is_given(capture, subgraph, mg_twin_of(PyList_GET_ITEM(twins, PyLong_AsSsize_t(position))))) {
            return mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it changes a tensor that it is given");
        }
    }
    return MG_OK;
}

/* ---- opening ---- */

/* open(roots, may_write): from here on, what is recorded is a subgraph's. `roots` is a tuple of what the function can get at.
 * once(): the same for a function that runs once, wherever its operator runs: it may write to all that it can get at, and `roots`
 * is NULL. */
static PyObject *
open_subgraph(MgCapture *capture, PyObject *roots, int may_write)
{
    MgSubgraph *subgraph = mg_subgraph_new();
    if (subgraph == NULL) {
        return NULL;
    }
    subgraph->may_write = may_write;
    subgraph->start = capture->graph.node_count;
    subgraph->manager_count = capture->torch.managers == NULL ? 0 : (int)PyList_GET_SIZE(capture->torch.managers);
    subgraph->state = mg_capture_state_key(capture);
    subgraph->before = subgraph->state == NULL || roots == NULL ? NULL : mg_writes_note(capture, roots);
    if (subgraph->state == NULL || (subgraph->before == NULL && roots != NULL)) {
        Py_DECREF(subgraph);
        return NULL;
    }
    subgraph->outer = capture->graph.subgraph;
    capture->graph.subgraph = (MgSubgraph *)Py_NewRef((PyObject *)subgraph);
    return (PyObject *)subgraph;
}

/* 1 if a tensor can be an input of a subgraph: a plain one. 0 with the reason. */
static int
can_be_input(MgCapture *capture, PyObject *value)
{
    PyTypeObject *type = !mg_is_twin(value) ? Py_TYPE(value) : mg_twin_of(value)->type;
    if (type != NULL) { /* no tensor; or what its class does is not known inside */
        mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it is given a %s", type->tp_name);
    }
    return type == NULL;
}

/* A new input of the open subgraph with this metadata. New twin. */
static PyObject *
new_input(MgCapture *capture, MgSubgraph *subgraph, MgMeta *meta)
{
    PyObject *twin = mg_twin_new(meta, capture->number);
    int node = twin == NULL ? -1 : mg_record_placeholder(capture, (PyObject *)meta);
    PyObject *index = node < 0 ? NULL : PyLong_FromLong(node);
    if (index == NULL || PyList_Append(subgraph->own, index) < 0) {
        Py_CLEAR(twin);
    }
    else {
        mg_twin_of(twin)->node = node;
    }
    Py_XDECREF(index);
    return twin;
}

/* input(subgraph, value): a new input of the open subgraph, with the metadata of a tensor. */
static PyObject *
add_input(MgCapture *capture, MgSubgraph *subgraph, PyObject *value)
{
    return can_be_input(capture, value) ? new_input(capture, subgraph, mg_twin_of(value)->meta) : NULL;
}

/* level(subgraph, value, wanted): the same as a function under a transform sees it: without history, and requiring grad if a
 * gradient of it is wanted. */
static PyObject *
add_level_input(MgCapture *capture, MgSubgraph *subgraph, PyObject *value, int wanted)
{
    if (!can_be_input(capture, value)) {
        return NULL;
    }
    MgMeta *meta = mg_twin_of(value)->meta;
    if (meta->fake != NULL) {
        mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it is given a tensor whose sizes depend on data");
        return NULL;
    }
    subgraph->is_level = 1;
    int flags = meta->flags & (MG_META_CONJUGATE | MG_META_NEGATIVE);
    meta = mg_meta_get(meta->dtype, meta->device, meta->sizes, meta->strides,
                       flags | (wanted ? MG_META_REQUIRES_GRAD : 0), NULL);
    PyObject *twin = meta == NULL ? NULL : new_input(capture, subgraph, meta);
    Py_XDECREF(meta);
    return twin;
}

/* ---- closing ---- */

/* One output as the graph has it: *value is its metadata, or the constant; both new. MG_OK or MG_ERR. */
static int
map_output(MgCapture *capture, PyObject *output, PyObject **mapped, PyObject **value)
{
    *mapped = *value = NULL;
    if (mg_is_twin(output) && mg_twin_of(output)->type != NULL) {
        return mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it returns a %s", mg_twin_of(output)->type->tp_name);
    }
    if (mg_is_twin(output)) {
        if (mg_twin_of(output)->capture != capture->number || mg_record_input(capture, output) < 0 ||
            check_there(capture, mg_twin_node(output)) < 0 ||
            mg_subgraph_meet(capture, mg_twin_node(output), output) < 0) {
            return MG_ERR;
        }
        *mapped = mg_record_new_ref(mg_twin_node(output));
        *value = Py_NewRef((PyObject *)mg_twin_of(output)->meta);
    }
    else if (mg_is_number(output) && mg_number_is_backed(output)) {
        *value = mg_number_argument(capture, output);
        *mapped = *value == NULL ? NULL : mg_number_refer(capture, *value);
        if (*mapped != NULL && Py_IS_TYPE(*mapped, &MgRef_Type)) {
            capture->graph.nodes[((MgRef *)*mapped)->index].users--; /* counted with the other outputs */
        }
    }
    else if (output == Py_None || PyLong_CheckExact(output) || PyBool_Check(output)) {
        *mapped = Py_NewRef(output);
        *value = Py_NewRef(output);
    }
    else {
        return mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it returns a %s", Py_TYPE(output)->tp_name);
    }
    return *mapped == NULL || *value == NULL ? MG_ERR : MG_OK;
}

static int
map_outputs(MgCapture *capture, MgSubgraph *subgraph, PyObject *outputs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(outputs);
    subgraph->outputs = PyTuple_New(count);
    subgraph->values = subgraph->outputs == NULL ? NULL : PyTuple_New(count);
    if (subgraph->values == NULL) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *mapped, *value;
        int status = map_output(capture, PyTuple_GET_ITEM(outputs, i), &mapped, &value);
        PyTuple_SET_ITEM(subgraph->outputs, i, mapped == NULL ? Py_NewRef(Py_None) : mapped);
        PyTuple_SET_ITEM(subgraph->values, i, value == NULL ? Py_NewRef(Py_None) : value);
        if (status < 0) {
            return MG_ERR;
        }
        if (Py_IS_TYPE(mapped, &MgRef_Type)) {
            capture->graph.nodes[((MgRef *)mapped)->index].users++;
        }
    }
    return MG_OK;
}

/* MG_ERR if an output is, or shares memory with, what the function was given, or another output. */
static int
check_aliases(MgCapture *capture, MgSubgraph *subgraph, PyObject *outputs)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); i++) {
        PyObject *output = PyTuple_GET_ITEM(outputs, i);
        if (!mg_is_twin(output)) {
            continue;
        }
        const MgTwin *twin = mg_twin_of(output), *member = twin;
        if (is_given(capture, subgraph, twin)) {
            return mg_capture_abort(capture, MG_REASON_SUBGRAPH,
                                    "it returns a tensor that it is given, or a view of one");
        }
        do {
            for (Py_ssize_t k = 0; k < i; k++) {
                PyObject *other = PyTuple_GET_ITEM(outputs, k);
                if (mg_is_twin(other) && mg_twin_of(other) == member) {
                    return mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it returns two tensors that share memory");
                }
            }
            member = member->next;
        } while (member != twin);
    }
    return MG_OK;
}

/* MG_ERR if something was written to that was there before the subgraph. */
static int
check_writes(MgCapture *capture, const MgSubgraph *subgraph)
{
    int changed = subgraph->before == NULL ? 0 : mg_writes_changed(capture, subgraph->before);
    if (changed != 0) {
        return changed < 0 ? MG_ERR
                           : mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it writes to what was there before");
    }
    PyObject *state = mg_capture_state_key(capture);
    int same = state == NULL ? -1 : PyObject_RichCompareBool(state, subgraph->state, Py_EQ);
    Py_XDECREF(state);
    int managers = capture->torch.managers == NULL ? 0 : (int)PyList_GET_SIZE(capture->torch.managers);
    if (same < 0) {
        return MG_ERR;
    }
    return same && managers == subgraph->manager_count
               ? MG_OK
               : mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it leaves torch's state changed");
}

/* Where inputs are collected. */
typedef struct {
    MgCapture *capture;
    MgSubgraph *subgraph;
    PyObject *inputs; /* list: their nodes */
    PyObject *known;  /* set: the same */
} Lifting;

static int
lift_node(Lifting *lifting, int node)
{
    MgCapture *capture = lifting->capture;
    PyObject *key = PyLong_FromLong(node), *symbols = NULL;
    int known = key == NULL ? -1 : PySet_Contains(lifting->known, key), status = known < 0 ? MG_ERR : MG_OK;
    PyObject *value = capture->graph.nodes[node].value;
    if (known == 0 && capture->graph.foreign && value != NULL && Py_IS_TYPE(value, &MgMeta_Type) &&
        ((MgMeta *)value)->varies) { /* symbols come before the tensor that has them */
        MgMeta *meta = mg_number_simplify(capture, (MgMeta *)value);
        symbols = meta == NULL ? NULL : PyList_New(0);
        status = symbols == NULL ? MG_ERR : mg_number_symbols(capture, meta, symbols);
        Py_XDECREF(meta);
        for (Py_ssize_t i = 0; status == MG_OK && symbols != NULL && i < PyList_GET_SIZE(symbols); i++) {
            status = lift_node(lifting, (int)PyLong_AsLong(PyList_GET_ITEM(symbols, i)));
        }
    }
    if (known == 0 && status == MG_OK && !is_within(capture, lifting->subgraph, node)) {
        status = PySet_Add(lifting->known, key) < 0 ? MG_ERR : PyList_Append(lifting->inputs, key);
    }
    Py_XDECREF(key);
    Py_XDECREF(symbols);
    return status;
}

/* Has the nodes of outer recordings that `value` refers to become inputs. */
static int
lift(Lifting *lifting, PyObject *value)
{
    int status = MG_OK;
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        int node = ((MgRef *)value)->index;
        return is_within(lifting->capture, lifting->subgraph, node) ? MG_OK : lift_node(lifting, node);
    }
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; status == MG_OK && i < Py_SIZE(value); i++) {
            status = lift(lifting, PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i));
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        PyObject *const parts[] = {slice->start, slice->stop, slice->step};
        for (int i = 0; status == MG_OK && i < 3; i++) {
            status = lift(lifting, parts[i]);
        }
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (status == MG_OK && PyDict_Next(value, &position, &key, &item)) {
            status = lift(lifting, item);
        }
    }
    return status;
}

/* Takes one user from each node that `value` refers to: from that of a tensor once, whose nodes are in `seen` then, from that of
 * a number each time. MG_OK or MG_ERR. */
static int
forget_value(MgCapture *capture, PyObject *value, MgTable *seen)
{
    int status = MG_OK;
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        MgNode *node = &capture->graph.nodes[((MgRef *)value)->index];
        int is_tensor = node->value != NULL && Py_IS_TYPE(node->value, &MgMeta_Type);
        if (is_tensor && mg_table_get(seen, node, NULL) != NULL) {
            return MG_OK;
        }
        node->users--;
        return is_tensor ? mg_table_set(seen, node, NULL, node) : MG_OK;
    }
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; status == MG_OK && i < Py_SIZE(value); i++) {
            PyObject *item = PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
            status = forget_value(capture, item, seen);
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        PyObject *const parts[] = {slice->start, slice->stop, slice->step};
        for (int i = 0; status == MG_OK && i < 3; i++) {
            status = forget_value(capture, parts[i], seen);
        }
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (status == MG_OK && PyDict_Next(value, &position, &key, &item)) {
            status = forget_value(capture, item, seen);
        }
    }
    return status;
}

/* Takes the users that a node's arguments are away: what they use is used no more. MG_OK or MG_ERR. */
static int
forget_uses(MgCapture *capture, const MgNode *node)
{
    MgTable seen = {0};
    int status = node->args == NULL ? MG_OK : forget_value(capture, node->args, &seen);
    status = status < 0 || node->kwargs == NULL ? status : forget_value(capture, node->kwargs, &seen);
    mg_table_free(&seen);
    return status;
}

/* Describes the nodes, and collects the inputs. */
static int
collect_nodes(Lifting *lifting)
{
    MgCapture *capture = lifting->capture;
    MgSubgraph *subgraph = lifting->subgraph;
    int status = MG_OK;
    for (int i = capture->graph.node_count - 1; i >= subgraph->start; i--) { /* what nobody uses keeps nothing in use */
        MgNode *node = &capture->graph.nodes[i];
        if (is_within(capture, subgraph, i) && node->kind != MG_NODE_INPUT && node->users == 0 && node->is_part) {
            if (forget_uses(capture, node) < 0) {
                return MG_ERR;
            }
            Py_SETREF(node->args, PyTuple_New(0));
            Py_CLEAR(node->kwargs);
            if (node->args == NULL) {
                return MG_ERR;
            }
        }
    }
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(subgraph->own); i++) {
        int node = (int)PyLong_AsLong(PyList_GET_ITEM(subgraph->own, i));
        status = lift_node(lifting, node); /* the symbols of its sizes only: it is no input from elsewhere */
    }
    for (int i = subgraph->start; status == MG_OK && i < capture->graph.node_count; i++) {
        MgNode *node = &capture->graph.nodes[i];
        int is_used = node->users > 0 || !node->is_part;
        if (!is_within(capture, subgraph, i) || mg_node_is_gone(node) || node->kind == MG_NODE_INPUT || !is_used) {
            continue;
        }
        status = lift(lifting, node->args);
        status = status < 0 || node->kwargs == NULL ? status : lift(lifting, node->kwargs);
        node = &capture->graph.nodes[i]; /* symbols may have been added */
        PyObject *item = status < 0 ? NULL : mg_node_describe(node, i, NULL, NULL);
        status = item == NULL ? MG_ERR : PyList_Append(subgraph->nodes, item);
        Py_XDECREF(item);
    }
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(subgraph->own); i++) { /* and its own placeholders */
        int index = (int)PyLong_AsLong(PyList_GET_ITEM(subgraph->own, i));
        PyObject *item = mg_node_describe(&capture->graph.nodes[index], index, NULL, NULL);
        status = item == NULL ? MG_ERR : PyList_Append(subgraph->nodes, item);
        Py_XDECREF(item);
    }
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(subgraph->forced); i++) {
        status = lift_node(lifting, (int)PyLong_AsLong(PyList_GET_ITEM(subgraph->forced, i)));
    }
    return status < 0 ? status : lift(lifting, subgraph->outputs);
}

/* The metadata of nodes. New list. */
static PyObject *
metas_of(const MgCapture *capture, PyObject *nodes)
{
    PyObject *metas = PyList_New(PyList_GET_SIZE(nodes));
    for (Py_ssize_t i = 0; metas != NULL && i < PyList_GET_SIZE(nodes); i++) {
        PyObject *value = capture->graph.nodes[PyLong_AsLong(PyList_GET_ITEM(nodes, i))].value;
        PyList_SET_ITEM(metas, i, Py_NewRef(value == NULL ? Py_None : value));
    }
    return metas;
}

/* Leaves nothing of the nodes but their places. MG_OK or MG_ERR. */
static int
remove_nodes(MgCapture *capture, const MgSubgraph *subgraph)
{
    for (int i = capture->graph.node_count - 1; i >= subgraph->start; i--) {
        MgNode *node = &capture->graph.nodes[i];
        if (!is_within(capture, subgraph, i) || mg_node_is_gone(node)) {
            continue;
        }
        PyObject *none = forget_uses(capture, node) < 0 ? NULL : PyTuple_New(0);
        if (none == NULL) {
            return MG_ERR;
        }
        mg_node_clear(node);
        *node = (MgNode){.kind = MG_NODE_FUNCTION,
                         .target = Py_NewRef(Py_None),
                         .args = none,
                         .value = Py_NewRef(Py_None),
                         .is_part = 1,
                         .repeats = MG_REPEATS,
                         .alive = capture->graph.node_count};
    }
    capture->graph.closed++;
    return MG_OK;
}

/* Goes back to the recording around it. */
static void
leave(MgCapture *capture, MgSubgraph *subgraph)
{
    MgSubgraph *outer = (MgSubgraph *)Py_XNewRef((PyObject *)subgraph->outer);
    Py_XSETREF(capture->graph.subgraph, outer);
    mg_subgraph_end(subgraph);
}

/* What captured code has for the nodes that have become inputs. New tuple. */
static PyObject *
lifted_values(MgCapture *capture, MgSubgraph *subgraph, PyObject *inputs)
{
    Py_ssize_t count = PyList_GET_SIZE(inputs);
    PyObject *values = PyTuple_New(count);
    for (Py_ssize_t i = 0; values != NULL && i < count; i++) {
        PyObject *key = PyList_GET_ITEM(inputs, i), *value = Py_XNewRef(PyDict_GetItemWithError(subgraph->met, key));
        if (value == NULL && !PyErr_Occurred()) {
            PyObject *held = capture->graph.nodes[PyLong_AsLong(key)].value;
            if (held != NULL && mg_is_dim_object(held)) {
                value = mg_number_wrap(capture, held);
            }
            else {
                mg_capture_abort(capture, MG_REASON_SUBGRAPH, "a number that it is given");
            }
        }
        if (value == NULL) {
            Py_CLEAR(values);
            break;
        }
        PyTuple_SET_ITEM(values, i, value);
    }
    return values;
}

/* MG_ERR unless it is the one that is recorded now. */
static int
check_open(MgCapture *capture, const MgSubgraph *subgraph)
{
    return capture->graph.subgraph == subgraph ? MG_OK : mg_capture_abort(capture, MG_REASON_SUBGRAPH, "it was left");
}

/* close(subgraph, outputs, may_alias): what its operator has to be given, as a tuple, for the inputs from outer recordings. */
static PyObject *
close_subgraph(MgCapture *capture, MgSubgraph *subgraph, PyObject *outputs, int may_alias)
{
    if (check_open(capture, subgraph) < 0 || check_writes(capture, subgraph) < 0 ||
        map_outputs(capture, subgraph, outputs) < 0 || (!may_alias && check_aliases(capture, subgraph, outputs) < 0)) {
        return NULL;
    }
    Lifting lifting = {capture, subgraph, PyList_New(0), PySet_New(NULL)};
    PyObject *values = NULL;
    subgraph->nodes = PyList_New(0);
    if (lifting.inputs != NULL && lifting.known != NULL && subgraph->nodes != NULL &&
        collect_nodes(&lifting) == MG_OK) {
        values = lifted_values(capture, subgraph, lifting.inputs);
        mg_node_forget_uses(subgraph->outputs, capture->graph.nodes, 0, capture->graph.node_count);
        subgraph->inputs = values == NULL ? NULL : PySequence_Concat(subgraph->own, lifting.inputs);
        subgraph->metas = subgraph->inputs == NULL ? NULL : metas_of(capture, lifting.inputs);
        if (subgraph->metas == NULL || remove_nodes(capture, subgraph) < 0) {
            Py_CLEAR(values);
        }
        else {
            leave(capture, subgraph);
        }
    }
    Py_XDECREF(lifting.inputs);
    Py_XDECREF(lifting.known);
    return values;
}

/* discard(subgraph): as if nothing had been recorded. */
static PyObject *
discard_subgraph(MgCapture *capture, MgSubgraph *subgraph)
{
    if (check_open(capture, subgraph) < 0 || check_writes(capture, subgraph) < 0 ||
        remove_nodes(capture, subgraph) < 0) {
        return NULL;
    }
    leave(capture, subgraph);
    Py_RETURN_NONE;
}

/* ---- operators ---- */

/* Appends to the inputs, and to the values for them, those of `from` that `other` uses as well, or does not. How many; or -1. */
static Py_ssize_t
append_inputs(PyObject *inputs, PyObject *values, const MgSubgraph *from, PyObject *given, PyObject *other, int shared)
{
    Py_ssize_t own = PyList_GET_SIZE(from->own), count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) {
        PyObject *node = PyList_GET_ITEM(from->inputs, own + i);
        int has = PySequence_Contains(other, node);
        if (has < 0 || (has == shared &&
                        (PyList_Append(inputs, node) < 0 || PyList_Append(values, PyTuple_GET_ITEM(given, i)) < 0))) {
            return -1;
        }
        count += has == shared;
    }
    return count;
}

/* Gives a subgraph the inputs of two. */
static int
set_inputs(MgSubgraph *subgraph, PyObject *inputs, PyObject *groups)
{
    PyObject *all = PySequence_Concat(subgraph->own, inputs);
    if (all == NULL) {
        return MG_ERR;
    }
    Py_XSETREF(subgraph->inputs, all);
    Py_XSETREF(subgraph->groups, Py_NewRef(groups));
    return MG_OK;
}

/* merge(first, second, given first, given second): two subgraphs come to have the same inputs from outer recordings: those of both,
 * of the first, of the second. What their operator has to be given for them, as a tuple. */
static PyObject *
merge_subgraphs(MgSubgraph *first, MgSubgraph *second, PyObject *given, PyObject *given_second)
{
    PyObject *inputs = PyList_New(0), *values = PyList_New(0), *groups = NULL, *result = NULL;
    PyObject *a = PyList_GetSlice(first->inputs, PyList_GET_SIZE(first->own), PyList_GET_SIZE(first->inputs));
    PyObject *b = PyList_GetSlice(second->inputs, PyList_GET_SIZE(second->own), PyList_GET_SIZE(second->inputs));
    if (inputs != NULL && values != NULL && a != NULL && b != NULL) {
        Py_ssize_t both = append_inputs(inputs, values, first, given, b, 1);
        Py_ssize_t left = both < 0 ? -1 : append_inputs(inputs, values, first, given, b, 0);
        Py_ssize_t right = left < 0 ? -1 : append_inputs(inputs, values, second, given_second, a, 0);
        groups = right < 0 ? NULL : Py_BuildValue("(nnn)", both, left, right);
        if (groups != NULL && set_inputs(first, inputs, groups) == MG_OK &&
            set_inputs(second, inputs, groups) == MG_OK) {
            result = PyList_AsTuple(values);
        }
    }
    Py_XDECREF(inputs);
    Py_XDECREF(values);
    Py_XDECREF(groups);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result;
}

/* owns(subgraph, tensor): whether the open subgraph has made a tensor. */
static PyObject *
owns_tensor(MgCapture *capture, const MgSubgraph *subgraph, PyObject *value)
{
    int node = mg_is_twin(value) ? mg_twin_node(value) : -1;
    return PyBool_FromLong(node >= 0 && is_within(capture, subgraph, node) &&
                           capture->graph.nodes[node].kind != MG_NODE_INPUT);
}

/* lift(subgraph, tensor): it is an input of the open subgraph, whether it is used or not. */
static PyObject *
lift_tensor(MgCapture *capture, MgSubgraph *subgraph, PyObject *value)
{
    if (!mg_is_twin(value) || mg_record_input(capture, value) < 0 ||
        mg_subgraph_meet(capture, mg_twin_node(value), value) < 0) {
        return NULL;
    }
    PyObject *node = PyLong_FromLong(mg_twin_node(value));
    int status = node == NULL ? MG_ERR : PyList_Append(subgraph->forced, node);
    Py_XDECREF(node);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

/* check(subgraph, outputs): stops the capture unless the tensors are new ones. */
static PyObject *
check_new(MgCapture *capture, MgSubgraph *subgraph, PyObject *outputs)
{
    return check_aliases(capture, subgraph, outputs) < 0 ? NULL : Py_NewRef(Py_None);
}

/* split(subgraph, count): it returns a tuple of the first outputs, and one of the others. */
static PyObject *
split_outputs(MgSubgraph *subgraph, PyObject *count)
{
    Py_ssize_t first = PyLong_AsSsize_t(count), all = PyTuple_GET_SIZE(subgraph->outputs);
    PyObject *left = PyErr_Occurred() ? NULL : PyTuple_GetSlice(subgraph->outputs, 0, first);
    PyObject *right = left == NULL ? NULL : PyTuple_GetSlice(subgraph->outputs, first, all);
    PyObject *both = right == NULL ? NULL : PyTuple_Pack(2, left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    if (both == NULL) {
        return NULL;
    }
    Py_SETREF(subgraph->outputs, both);
    Py_RETURN_NONE;
}

/* select(subgraph, places): it returns those of its outputs, None for -1. */
static PyObject *
select_outputs(MgSubgraph *subgraph, PyObject *places)
{
    PyObject *outputs = PyTuple_New(PyTuple_GET_SIZE(places));
    for (Py_ssize_t i = 0; outputs != NULL && i < PyTuple_GET_SIZE(places); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
        int is_one = place >= 0 && place < PyTuple_GET_SIZE(subgraph->outputs);
        PyTuple_SET_ITEM(outputs, i, Py_NewRef(is_one ? PyTuple_GET_ITEM(subgraph->outputs, place) : Py_None));
    }
    if (outputs == NULL || PyErr_Occurred()) {
        Py_XDECREF(outputs);
        return NULL;
    }
    Py_SETREF(subgraph->outputs, outputs);
    Py_RETURN_NONE;
}

/* note(subgraph, notes): what its GraphModule has in `meta`. The functions in there are the very ones, if they come from outside. */
static PyObject *
note_subgraph(MgCapture *capture, MgSubgraph *subgraph, PyObject *notes)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(notes, &position, &key, &value)) {
        MgOutside *record = mg_outside_of(capture, value);
        if (record == NULL || record->object != value) {
            mg_capture_abort(capture, MG_REASON_SUBGRAPH, "a function for its operator that captured code has made");
            return NULL;
        }
        if (mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, value) < 0) {
            return NULL;
        }
    }
    PyObject *copy = PyDict_Copy(notes);
    if (copy == NULL) {
        return NULL;
    }
    Py_SETREF(subgraph->notes, copy);
    Py_RETURN_NONE;
}

/* unwrap(subgraph): it returns its only output as it is, and not in a tuple. */
static PyObject *
unwrap_output(MgSubgraph *subgraph)
{
    if (!PyTuple_Check(subgraph->outputs) || PyTuple_GET_SIZE(subgraph->outputs) != 1) {
        PyErr_SetString(PyExc_ValueError, "not one output");
        return NULL;
    }
    Py_SETREF(subgraph->outputs, Py_NewRef(PyTuple_GET_ITEM(subgraph->outputs, 0)));
    Py_RETURN_NONE;
}

/* list(subgraph): it returns a list. */
static PyObject *
list_outputs(MgSubgraph *subgraph)
{
    PyObject *list = PySequence_List(subgraph->outputs);
    if (list == NULL) {
        return NULL;
    }
    Py_SETREF(subgraph->outputs, list);
    Py_RETURN_NONE;
}

/* name(subgraph, prefix): its name in the graph. */
static PyObject *
name_subgraph(MgCapture *capture, MgSubgraph *subgraph, PyObject *prefix)
{
    if (capture->graph.names == NULL && (capture->graph.names = PyDict_New()) == NULL) {
        return NULL;
    }
    PyObject *known = PyDict_GetItemWithError(capture->graph.names, prefix);
    long count = known == NULL ? 0 : PyLong_AsLong(known);
    PyObject *name = PyErr_Occurred() ? NULL : PyUnicode_FromFormat("%U_%ld", prefix, count);
    PyObject *next = name == NULL ? NULL : PyLong_FromLong(count + 1);
    int status = next == NULL ? MG_ERR : PyDict_SetItem(capture->graph.names, prefix, next);
    Py_XDECREF(next);
    if (status < 0) {
        Py_XDECREF(name);
        return NULL;
    }
    Py_XSETREF(subgraph->name, name);
    Py_RETURN_NONE;
}

/* What an operator returns that runs a subgraph once, and returns what it returns. New. */
static MgOutcome *
outcome_of(const MgSubgraph *subgraph, PyObject *given)
{
    PyObject *none = PyTuple_New(0), *written = PyList_New(0), *tuple = NULL;
    Py_ssize_t own = PyList_GET_SIZE(subgraph->own), tensors = 0;
    int status = none == NULL || written == NULL ? MG_ERR : MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(given); i++) {
        if (!mg_is_twin(PyTuple_GET_ITEM(given, i))) {
            continue;
        }
        int has = PySet_Contains(subgraph->written, PyList_GET_ITEM(subgraph->inputs, own + i));
        PyObject *position = has > 0 ? PyLong_FromSsize_t(tensors) : NULL;
        status = has < 0 || (has > 0 && (position == NULL || PyList_Append(written, position) < 0)) ? MG_ERR : MG_OK;
        Py_XDECREF(position);
        tensors++;
    }
    tuple = status < 0 ? NULL : PyList_AsTuple(written);
    MgOutcome *outcome = tuple == NULL ? NULL : mg_outcome_new(subgraph->values, none, none, tuple);
    Py_XDECREF(none);
    Py_XDECREF(written);
    Py_XDECREF(tuple);
    return outcome;
}

/* call(target, args, kwargs): one node, target(*args, **kwargs), subgraphs among the arguments. */
static PyObject *
call_operator(MgCapture *capture, PyObject *target, PyObject *args, PyObject *kwargs, MgOutcome *outcome)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), names = PyDict_GET_SIZE(kwargs), position = 0, i = 0;
    PyObject *all = PySequence_List(args), *kwnames = all == NULL ? NULL : PyTuple_New(names);
    PyObject *key, *value, *result = NULL;
    while (kwnames != NULL && PyDict_Next(kwargs, &position, &key, &value)) {
        PyTuple_SET_ITEM(kwnames, i++, Py_NewRef(key));
        if (PyList_Append(all, value) < 0) {
            Py_CLEAR(kwnames);
        }
    }
    if (kwnames != NULL) {
        result = mg_record_known(capture, target, ((PyListObject *)all)->ob_item, count, names == 0 ? NULL : kwnames,
                                 outcome);
    }
    Py_XDECREF(all);
    Py_XDECREF(kwnames);
    return result;
}

/* 1 if there is an operator within a subgraph that runs a function several times, or not at all. */
static int
has_control_flow(const MgSubgraph *subgraph)
{
    static const char *const plain[] = {"wrap_body", "fwd_body", "bwd_body", "score_mod", "mask_fn"};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subgraph->nodes); i++) {
        PyObject *args = PyTuple_GET_ITEM(PyList_GET_ITEM(subgraph->nodes, i), 3);
        for (Py_ssize_t k = 0; PyTuple_Check(args) && k < PyTuple_GET_SIZE(args); k++) {
            PyObject *arg = PyTuple_GET_ITEM(args, k);
            const char *name = mg_is_subgraph(arg) ? PyUnicode_AsUTF8(((MgSubgraph *)arg)->name) : NULL;
            int is_plain = name == NULL;
            for (size_t p = 0; !is_plain && p < Py_ARRAY_LENGTH(plain); p++) {
                is_plain = strncmp(name, plain[p], strlen(plain[p])) == 0;
            }
            if (!is_plain || (name != NULL && has_control_flow((MgSubgraph *)arg))) {
                return 1;
            }
        }
    }
    return 0;
}

/* wrap(target, subgraph, given, kwargs): one node, target(subgraph, *given, **kwargs), which returns what the subgraph returns. */
static PyObject *
wrap_subgraph(MgCapture *capture, PyObject *target, MgSubgraph *subgraph, PyObject *given, PyObject *kwargs)
{
    if (capture->graph.foreign && has_control_flow(subgraph)) { /* AOTAutograd has no rule for it */
        mg_capture_abort(capture, MG_REASON_SUBGRAPH, "torch.cond or its kin in a checkpoint");
        return NULL;
    }
    MgOutcome *outcome = outcome_of(subgraph, given);
    PyObject *first = outcome == NULL ? NULL : PyTuple_Pack(1, subgraph);
    PyObject *args = first == NULL ? NULL : PySequence_Concat(first, given);
    PyObject *result = args == NULL ? NULL : call_operator(capture, target, args, kwargs, outcome);
    Py_XDECREF(outcome);
    Py_XDECREF(first);
    Py_XDECREF(args);
    return result;
}

/* invoke(target, subgraph, given): one node, target(subgraph, its name, *given), which returns what the subgraph returns. */
static PyObject *
invoke_subgraph(MgCapture *capture, PyObject *target, MgSubgraph *subgraph, PyObject *given)
{
    MgOutcome *outcome = outcome_of(subgraph, given);
    PyObject *first = outcome == NULL ? NULL : PyTuple_Pack(2, subgraph, subgraph->name);
    PyObject *args = first == NULL ? NULL : PySequence_Concat(first, given), *none = args == NULL ? NULL : PyDict_New();
    PyObject *result = none == NULL ? NULL : call_operator(capture, target, args, none, outcome);
    Py_XDECREF(outcome);
    Py_XDECREF(first);
    Py_XDECREF(args);
    Py_XDECREF(none);
    return result;
}

/* 1 if two keys of subgraphs are the same. */
static int
is_same_key(PyObject *one, PyObject *other)
{
    if (one == Py_None || other == Py_None) {
        return 0;
    }
    PyObject *a = PyTuple_GET_ITEM(one, 1), *b = PyTuple_GET_ITEM(other, 1);
    int same = PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(a); i++) {
        same = PyTuple_GET_ITEM(a, i) == PyTuple_GET_ITEM(b, i);
    }
    return same ? PyObject_RichCompareBool(PyTuple_GET_ITEM(one, 0), PyTuple_GET_ITEM(other, 0), Py_EQ) : 0;
}

/* same(subgraph): an equal one that was recorded before for the same operator, or itself, which writes to nothing it is given. New. */
static PyObject *
find_same(MgCapture *capture, MgSubgraph *subgraph)
{
    if (capture->graph.regions == NULL && (capture->graph.regions = PyList_New(0)) == NULL) {
        return NULL;
    }
    if (PySet_GET_SIZE(subgraph->written) > 0) {
        return Py_NewRef(subgraph);
    }
    PyObject *regions = capture->graph.regions, *key = mg_subgraph_key(subgraph, capture->graph.node_count);
    for (Py_ssize_t i = 0; key != NULL && i < PyList_GET_SIZE(regions); i++) {
        PyObject *item = PyList_GET_ITEM(regions, i);
        int same = is_same_key(key, PyTuple_GET_ITEM(item, 0));
        if (same != 0) {
            Py_DECREF(key);
            return same < 0 ? NULL : Py_NewRef(PyTuple_GET_ITEM(item, 1));
        }
    }
    PyObject *item = key == NULL ? NULL : PyTuple_Pack(2, key, subgraph);
    int status = item == NULL ? MG_ERR : PyList_Append(regions, item);
    Py_XDECREF(key);
    Py_XDECREF(item);
    return status < 0 ? NULL : Py_NewRef(subgraph);
}

/* indexing(how): from here on, captured code indexes tensors with another function, see MgIndexing. What it was before. */
static PyObject *
set_indexing(MgCapture *capture, PyObject *how)
{
    if (capture->breaks.whole == 0 && capture->graph.subgraph == NULL) { /* a break could follow */
        mg_capture_abort(capture, MG_REASON_SUBGRAPH, "a mode of indexing");
        return NULL;
    }
    long before = (long)capture->torch.indexing;
    capture->torch.indexing = (MgIndexing)PyLong_AsLong(how);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(before);
}

/* item(tensor, key, like): tensor[key], which returns a new tensor that is like the last one. */
static PyObject *
record_item(MgCapture *capture, PyObject *tensor, PyObject *key, PyObject *like)
{
    PyObject *args[2] = {tensor, key}, *target = mg_arithmetic_function("getitem");
    PyObject *none = target == NULL || !mg_is_twin(like) ? NULL : PyTuple_New(0);
    MgOutcome *outcome = none == NULL ? NULL : mg_outcome_new((PyObject *)mg_twin_of(like)->meta, none, none, none);
    PyObject *result = outcome == NULL ? NULL : mg_record_known(capture, target, args, 2, NULL, outcome);
    Py_XDECREF(none);
    Py_XDECREF(outcome);
    return result;
}

/* The actions, and what their arguments are: s a subgraph, t a tuple, d a dict, u a text, o anything. */
static const struct {
    const char *name, *kinds;
} actions[] = {
    {"open", "to"},  {"input", "so"},   {"close", "sto"}, {"discard", "s"}, {"name", "su"},   {"merge", "sstt"},
    {"call", "otd"}, {"wrap", "ostd"},  {"unwrap", "s"},  {"list", "s"},    {"owns", "so"},   {"note", "sd"},
    {"foreign", ""}, {"lift", "so"},    {"check", "st"},  {"split", "so"},  {"select", "st"}, {"level", "soo"},
    {"once", ""},    {"indexing", "o"}, {"item", "ooo"},  {"unfit", ""},    {"same", "s"},    {"invoke", "ost"},
};

/* The number of an action, whose arguments are of the right types; -1 with an exception. */
static int
find_action(PyObject *const *args, Py_ssize_t count)
{
    const char *name = count > 0 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0]) : "";
    for (int i = 0; name != NULL && i < (int)Py_ARRAY_LENGTH(actions); i++) {
        if (strcmp(actions[i].name, name) != 0 || (Py_ssize_t)strlen(actions[i].kinds) != count - 1) {
            continue;
        }
        int fits = 1;
        for (Py_ssize_t k = 1; fits && k < count; k++) {
            char kind = actions[i].kinds[k - 1];
            fits = kind == 's'   ? mg_is_subgraph(args[k])
                   : kind == 't' ? PyTuple_CheckExact(args[k])
                   : kind == 'd' ? PyDict_CheckExact(args[k])
                   : kind == 'u' ? PyUnicode_CheckExact(args[k])
                                 : 1;
        }
        if (fits) {
            return i;
        }
    }
    PyErr_SetString(PyExc_TypeError, "subgraph() got wrong arguments");
    return -1;
}

PyObject *
mg_subgraph_act(MgCapture *capture, PyObject *const *args, Py_ssize_t count)
{
    switch (find_action(args, count)) {
        case 0:
            return open_subgraph(capture, args[1], args[2] == Py_True);
        case 1:
            return check_open(capture, (MgSubgraph *)args[1]) < 0 ? NULL
                                                                  : add_input(capture, (MgSubgraph *)args[1], args[2]);
        case 2:
            return close_subgraph(capture, (MgSubgraph *)args[1], args[2], args[3] == Py_True);
        case 3:
            return discard_subgraph(capture, (MgSubgraph *)args[1]);
        case 4:
            return name_subgraph(capture, (MgSubgraph *)args[1], args[2]);
        case 5:
            return merge_subgraphs((MgSubgraph *)args[1], (MgSubgraph *)args[2], args[3], args[4]);
        case 6:
            return call_operator(capture, args[1], args[2], args[3], NULL);
        case 7:
            return wrap_subgraph(capture, args[1], (MgSubgraph *)args[2], args[3], args[4]);
        case 8:
            return unwrap_output((MgSubgraph *)args[1]);
        case 9:
            return list_outputs((MgSubgraph *)args[1]);
        case 10:
            return owns_tensor(capture, (MgSubgraph *)args[1], args[2]);
        case 11:
            return note_subgraph(capture, (MgSubgraph *)args[1], args[2]);
        case 12:
            return PyBool_FromLong(capture->graph.foreign);
        case 13:
            return lift_tensor(capture, (MgSubgraph *)args[1], args[2]);
        case 14:
            return check_new(capture, (MgSubgraph *)args[1], args[2]);
        case 15:
            return split_outputs((MgSubgraph *)args[1], args[2]);
        case 16:
            return select_outputs((MgSubgraph *)args[1], args[2]);
        case 17:
            return check_open(capture, (MgSubgraph *)args[1]) < 0
                       ? NULL
                       : add_level_input(capture, (MgSubgraph *)args[1], args[2], args[3] == Py_True);
        case 18:
            return open_subgraph(capture, NULL, 1);
        case 19:
            return set_indexing(capture, args[1]);
        case 20:
            return record_item(capture, args[1], args[2], args[3]);
        case 21:
            capture->varying.is_unfit = 1;
            mg_capture_abort(capture, MG_REASON_SUBGRAPH, "a float that varies");
            return NULL;
        case 22:
            return find_same(capture, (MgSubgraph *)args[1]);
        case 23:
            return invoke_subgraph(capture, args[1], (MgSubgraph *)args[2], args[3]);
        default:
            return NULL;
    }
}
