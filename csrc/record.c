/* Recording: operations on twins become nodes of a graph.
 *
 * What an operation gives is asked of the propagation cache, whose key is the target, the metadata of the tensors and
 * the other arguments; on a miss, of the operation's shape function (shape.c), and if that declines of FakeTensorMode,
 * through a function in Python. A result with no tensor in it was a question about metadata: it is a plain value, and
 * there is no node. An operation that fails is not recorded at all: capture ends before it, and the program gets its
 * error from running it. */
#include "record.h"

#include "alias.h"
#include "depth.h"
#include "kinds.h"
#include "recover.h"
#include "rules.h"
#include "kernels.h"
#include "operator.h"
#include "structure.h"
#include "shape.h"
#include "storage.h"
#include "symbol.h"
#include "tensorclass.h"
#include "world.h"
#include "aside.h"

static PyObject *propagate;        /* strong: (kind, target, args, kwargs, inputs, expected) -> an outcome, or a text */
static PyObject *cache;            /* strong: key -> an outcome: (result, changes, views, written) */
static PyObject *operators;        /* strong: the module operator */
static PyObject *getattr_function; /* strong: builtins.getattr */
static PyObject *select_function;  /* strong: torch.select */
static PyObject *scalar_function;  /* strong: torch.scalar_tensor */
static PyObject *double_type;      /* strong: torch.float64 */
static PyObject *cpu_device;       /* strong: torch.device("cpu") */
static PyObject *get_data;         /* strong: torch._C._autograd._get_data_attr, which gives x.data */
static MgKernels kernels;          /* the registered kernels that the cache's outcomes rest on */
static int self_check;             /* compare every answer of the cache with FakeTensorMode's */

enum { LONGEST_KEY = 4096, MOST_KEYS = 1 << 17 };

int
mg_record_init(PyObject *function)
{
    Py_XSETREF(propagate, Py_NewRef(function));
    mg_twin_class->tp_iter = mg_record_iter_slot; /* in place of Tensor.__iter__, which makes one unbind() of it */
    if (cache == NULL) {
        cache = PyDict_New();
    }
    if (operators == NULL) {
        operators = mg_aside_import("operator");
    }
    if (getattr_function == NULL) {
        PyObject *builtins = mg_aside_import("builtins");
        getattr_function = builtins == NULL ? NULL : PyObject_GetAttrString(builtins, "getattr");
        Py_XDECREF(builtins);
    }
    if (get_data == NULL) {
        PyObject *autograd = mg_aside_import("torch._C._autograd");
        get_data = autograd == NULL ? NULL : PyObject_GetAttrString(autograd, "_get_data_attr");
        Py_XDECREF(autograd);
    }
    if (select_function == NULL) {
        PyObject *torch = mg_aside_import("torch");
        select_function = torch == NULL ? NULL : PyObject_GetAttrString(torch, "select");
        scalar_function = torch == NULL ? NULL : PyObject_GetAttrString(torch, "scalar_tensor");
        double_type = torch == NULL ? NULL : PyObject_GetAttrString(torch, "float64");
        cpu_device = torch == NULL ? NULL : PyObject_CallFunction((PyObject *)mg_torch.device, "s", "cpu");
        Py_XDECREF(torch);
    }
    self_check = getenv("MAGNETO_CHECK_PROPAGATION") != NULL;
    return mg_kernels_init() < 0 || cache == NULL || operators == NULL || getattr_function == NULL ||
                   get_data == NULL || select_function == NULL || scalar_function == NULL || double_type == NULL ||
                   cpu_device == NULL
               ? MG_ERR
               : MG_OK;
}

/* ---- nodes ---- */

/* A new node at the end of the recording, of which it takes the references, on an error too. Its index, or -1. */
static int
add_node(MgCapture *capture, MgNode node)
{
    if (node.stack == NULL && PyErr_Occurred()) { /* there was no memory for that */
        mg_node_clear(&node);
        return -1;
    }
    if (MG_UNLIKELY(capture->node_count + 1 == capture->stop_node)) {
        mg_node_clear(&node);
        capture->is_exact = 1;
        capture->stop_node = 0; /* what the entry itself needs may still be added */
        return mg_capture_abort(capture, capture->stop_reason, NULL);
    }
    if (capture->node_count == capture->node_room) {
        int room = capture->node_room == 0 ? 256 : capture->node_room * 2;
        MgNode *nodes = PyMem_Realloc(capture->nodes, sizeof(MgNode) * (size_t)room);
        if (nodes == NULL) {
            mg_node_clear(&node);
            PyErr_NoMemory();
            return -1;
        }
        capture->nodes = nodes;
        capture->node_room = room;
    }
    capture->nodes[capture->node_count] = node;
    return capture->node_count++;
}

static PyObject *
new_ref(int index)
{
    MgRef *ref = PyObject_New(MgRef, &MgRef_Type);
    if (ref != NULL) {
        ref->index = index;
    }
    return (PyObject *)ref;
}

int
mg_record_input(MgCapture *capture, PyObject *object)
{
    MgTwin *twin = mg_twin_of(object);
    if (twin->node >= 0) {
        return MG_OK;
    }
    if (mg_storage_meet(capture, twin) < 0) {
        return MG_ERR;
    }
    twin->node = add_node(capture, (MgNode){.kind = MG_NODE_INPUT,
                                            .value = Py_NewRef((PyObject *)twin->meta),
                                            .source = twin->source,
                                            .real = Py_XNewRef(twin->real)});
    return twin->node < 0 ? MG_ERR : MG_OK;
}

void
mg_record_name(MgCapture *capture, PyObject *value, PyObject *name)
{
    if (value != NULL && mg_is_twin(value)) {
        int node = mg_twin_node(value);
        if (node >= 0 && mg_twin_of(value)->capture == capture->number && capture->nodes[node].kind != MG_NODE_INPUT &&
            capture->nodes[node].name == NULL) {
            capture->nodes[node].name = Py_NewRef(name);
        }
    }
}

/* ---- arguments ---- */

/* What is collected while the arguments of an operation are mapped. */
typedef struct {
    MgCapture *capture;
    PyObject *key;     /* list: the propagation key */
    PyObject *twins;   /* list: the twins, in order of appearance; never an alias */
    PyObject *aliases; /* list or NULL: the aliases among the arguments, and the references to their tensors, in turn */
    PyObject *numbers; /* list: the numbers that depend on data; NULL if there are none */
    int symbolic;      /* there are symbols among the arguments */
    int infers;        /* the operation takes the dtype of its result from numpy's scalars among the arguments, */
    int stores;        /* or puts them into a tensor, which takes fewer of them */
    int containers;    /* how many there were so far */
    int added;         /* a program has added the operator: what it gives may be another thing each time */
} Mapping;

enum { MOST_CONTAINERS = 1 << 20 };

static PyObject *map_argument(Mapping *mapping, PyObject *value);

static int
key_add(Mapping *mapping, PyObject *part)
{
    return PyList_Append(mapping->key, part);
}

static int
key_add_size(Mapping *mapping, PyObject *type, Py_ssize_t size)
{
    PyObject *number = PyLong_FromSsize_t(size);
    int result = number == NULL || key_add(mapping, type) < 0 ? MG_ERR : key_add(mapping, number);
    Py_XDECREF(number);
    return result;
}

/* Shapes are worked out with references to tensors; the graph gets references to the aliases, see use_aliases. */
static int
note_alias(Mapping *mapping, PyObject *alias, PyObject *ref)
{
    if (mapping->aliases == NULL && (mapping->aliases = PyList_New(0)) == NULL) {
        return MG_ERR;
    }
    return PyList_Append(mapping->aliases, alias) < 0 ? MG_ERR : PyList_Append(mapping->aliases, ref);
}

static void
use_aliases(Mapping *mapping)
{
    for (Py_ssize_t i = 0; mapping->aliases != NULL && i < PyList_GET_SIZE(mapping->aliases); i += 2) {
        int node = mg_twin_node(PyList_GET_ITEM(mapping->aliases, i));
        ((MgRef *)PyList_GET_ITEM(mapping->aliases, i + 1))->index = node;
        mapping->capture->nodes[node].users++;
    }
}

static PyObject *
map_twin(Mapping *mapping, PyObject *value)
{
    MgTwin *twin = mg_twin_of(value);
    if (twin == NULL || twin->capture != mapping->capture->number) {
        mg_capture_abort(mapping->capture, MG_REASON_LOST_TENSOR, "a tensor of another capture");
        return NULL;
    }
    if (mg_record_input(mapping->capture, value) < 0) {
        return NULL;
    }
    mapping->symbolic = mapping->symbolic || mg_twin_fake(twin) != NULL;
    PyObject *original = mg_twin_original(value), *ref = new_ref(twin->node);
    if (ref == NULL || (original != value && note_alias(mapping, value, ref) < 0)) {
        Py_XDECREF(ref);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(mapping->twins); i++) {
        if (PyList_GET_ITEM(mapping->twins, i) == original) { /* the same tensor once more */
            PyObject *number = PyLong_FromSsize_t(i);
            if (number == NULL || key_add(mapping, number) < 0) {
                Py_CLEAR(ref);
            }
            Py_XDECREF(number);
            return ref;
        }
    }
    if (key_add(mapping, (PyObject *)twin->meta) < 0 || PyList_Append(mapping->twins, original) < 0) {
        Py_CLEAR(ref);
    }
    return ref;
}

static PyObject *
map_number(Mapping *mapping, PyObject *value)
{
    MgNumber *number = (MgNumber *)value;
    if (number->capture != mapping->capture->number) {
        mg_capture_abort(mapping->capture, MG_REASON_LOST_TENSOR, "a number of another capture");
        return NULL;
    }
    mapping->symbolic = 1;
    if (mapping->numbers == NULL && (mapping->numbers = PyList_New(0)) == NULL) {
        return NULL;
    }
    return PyList_Append(mapping->numbers, value) < 0 ? NULL : new_ref(number->node);
}

/* The node that gave a torch.Size with numbers in it, -1 if it was put together by hand. */
static int
node_of_size(MgCapture *capture, PyObject *size)
{
    int whole = -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size); i++) {
        PyObject *item = PyTuple_GET_ITEM(size, i);
        if (!mg_is_number(item)) {
            continue;
        }
        MgNode *part = &capture->nodes[((MgNumber *)item)->node];
        PyObject *ref =
            part->args != NULL && PyTuple_GET_SIZE(part->args) == 2 ? PyTuple_GET_ITEM(part->args, 0) : NULL;
        if (ref == NULL || !Py_IS_TYPE(ref, &MgRef_Type) || !PyLong_CheckExact(PyTuple_GET_ITEM(part->args, 1)) ||
            PyLong_AsSsize_t(PyTuple_GET_ITEM(part->args, 1)) != i || (whole >= 0 && ((MgRef *)ref)->index != whole)) {
            return -1;
        }
        whole = ((MgRef *)ref)->index;
    }
    PyObject *value = whole < 0 ? NULL : capture->nodes[whole].value;
    if (value == NULL || !Py_IS_TYPE(value, mg_torch.size) || PyTuple_GET_SIZE(value) != PyTuple_GET_SIZE(size)) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size); i++) {
        PyObject *a = PyTuple_GET_ITEM(size, i), *b = PyTuple_GET_ITEM(value, i);
        if (!mg_is_number(a) && a != b && (!PyLong_CheckExact(b) || PyLong_AsLong(a) != PyLong_AsLong(b))) {
            return -1;
        }
    }
    return whole;
}

/* A torch.Size with numbers in it: the node that gave it, or one that makes it. */
static PyObject *
map_size(Mapping *mapping, PyObject *value)
{
    MgCapture *capture = mapping->capture;
    int node = node_of_size(capture, value);
    if (node < 0) {
        node = capture->node_count;
        PyObject *items = PySequence_List(value);
        PyObject *made = items == NULL
                             ? NULL
                             : mg_record_call(capture, MG_NODE_FUNCTION, (PyObject *)mg_torch.size, &items, 1, NULL);
        Py_XDECREF(items);
        if (made == NULL) {
            return NULL;
        }
        Py_DECREF(made);
    }
    mapping->symbolic = 1;
    if (mapping->numbers == NULL && (mapping->numbers = PyList_New(0)) == NULL) {
        return NULL;
    }
    PyObject *pair = Py_BuildValue("(iO)", node, capture->nodes[node].value);
    int status = pair == NULL ? -1 : PyList_Append(mapping->numbers, pair);
    Py_XDECREF(pair);
    return status < 0 ? NULL : new_ref(node);
}

static PyObject *
map_part(void *mapping, PyObject *value)
{
    return map_argument(mapping, value);
}

/* A container with mapped parts; what it is, its size and its keys are in the propagation key before them. */
static PyObject *
map_structure(Mapping *mapping, PyObject *value)
{
    PyTypeObject *kind = PyList_Check(value)    ? &PyList_Type
                         : PyTuple_Check(value) ? &PyTuple_Type
                         : PyDict_Check(value)  ? &PyDict_Type
                                                : &PySlice_Type;
    Py_ssize_t size = kind == &PyDict_Type ? PyDict_GET_SIZE(value) : kind == &PySlice_Type ? 3 : Py_SIZE(value);
    if (key_add_size(mapping, (PyObject *)kind, size) < 0) {
        return NULL;
    }
    Py_ssize_t position = 0;
    PyObject *key, *item;
    while (kind == &PyDict_Type && PyDict_Next(value, &position, &key, &item)) {
        if (key_add(mapping, key) < 0) {
            return NULL;
        }
    }
    if (++mapping->containers > MOST_CONTAINERS) { /* one that lies in many places is written into the graph at each */
        mg_capture_abort(mapping->capture, MG_REASON_NESTED, NULL);
        return NULL;
    }
    if (mg_depth_enter(mapping->capture) < 0) {
        return NULL;
    }
    PyObject *mapped = mg_structure_map(value, map_part, mapping);
    mg_depth_leave(mapping->capture);
    return mapped;
}

/* 1 if torch takes a scalar of numpy's for the number that it gives. A longdouble gives none of Python's; a bool and a complex
 * number that are not of Python's classes are read as floats, unlike Python's own. */
static int
is_like(Mapping *mapping, PyObject *scalar, PyObject *number)
{
    return PyLong_CheckExact(number) || (PyFloat_CheckExact(number) && (!mapping->stores || PyFloat_Check(scalar))) ||
           (PyComplex_CheckExact(number) && PyComplex_Check(scalar));
}

/* One argument as the graph holds it, with its part of the propagation key. New. */
static PyObject *
map_argument(Mapping *mapping, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == mg_twin_class) {
        return map_twin(mapping, value);
    }
    if (mg_is_number(value)) {
        return map_number(mapping, value);
    }
    if (type == mg_torch.size && mapping->capture->symbols != NULL && mg_symbol_inside(value)) {
        return map_size(mapping, value);
    }
    if (value == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
        type == &PyUnicode_Type || type == &PyComplex_Type || value == Py_Ellipsis || type == mg_torch.dtype ||
        type == mg_torch.device || type == mg_torch.layout || type == mg_torch.memory_format) {
        return key_add(mapping, (PyObject *)type) < 0 || key_add(mapping, value) < 0 ? NULL : Py_NewRef(value);
    }
    if (type == &PySlice_Type) {
        return map_structure(mapping, value);
    }
    if (PyTuple_Check(value) || PyList_Check(value) || type == &PyDict_Type) {
        PyObject *exposed = mg_world_expose(mapping->capture, value);
        PyObject *result = exposed == NULL ? NULL : map_structure(mapping, exposed);
        Py_XDECREF(exposed);
        return result;
    }
    if (mg_torch_is_tensor(value)) { /* a raw tensor inside a container */
        PyObject *view = mg_world_touch(mapping->capture, Py_NewRef(value));
        PyObject *result = view == NULL ? NULL : map_twin(mapping, view);
        Py_XDECREF(view);
        return result;
    }
    if (type == &PyRange_Type) {
        PyObject *list = PySequence_List(value);
        PyObject *result = list == NULL ? NULL : map_structure(mapping, list);
        Py_XDECREF(list);
        return result;
    }
    if (mg_rules_is_number(value)) { /* of a class over int or float, or of numpy's: a graph has the number itself */
        PyObject *number = mg_rules_number(value);
        if (number != NULL && mg_rules_is_value_type(type) && (mapping->infers || !is_like(mapping, value, number))) {
            Py_DECREF(number);
            mg_capture_abort(mapping->capture, MG_REASON_ARGUMENT, "%s", type->tp_name);
            return NULL;
        }
        PyObject *result = number == NULL ? NULL : map_argument(mapping, number);
        Py_XDECREF(number);
        return result;
    }
    PyObject *other = mg_rules_stand_in(value);
    if (other != NULL) {
        return map_argument(mapping, other);
    }
    if (mg_rules_is_graph_constant(value)) {
        PyObject *view = mg_world_touch(mapping->capture, Py_NewRef(value)); /* one from outside is guarded now */
        if (view == NULL) {
            return NULL;
        }
        Py_DECREF(view);
        return key_add(mapping, (PyObject *)type) < 0 || key_add(mapping, value) < 0 ? NULL : Py_NewRef(value);
    }
    mg_capture_abort(mapping->capture, MG_REASON_ARGUMENT, "%s", type->tp_name);
    return NULL;
}

/* ---- results ---- */

/* The twins among the arguments as the propagation function gets them: a list of (node, Meta) pairs. New. */
static PyObject *
describe_twins(PyObject *twins)
{
    PyObject *list = PyList_New(PyList_GET_SIZE(twins));
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(twins); i++) {
        MgTwin *twin = mg_twin_of(PyList_GET_ITEM(twins, i));
        PyObject *pair = Py_BuildValue("(iO)", twin->node, twin->meta);
        if (pair == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, pair);
    }
    return list;
}

void
mg_record_refuse(MgCapture *capture, PyObject *text)
{
    const char *why = PyUnicode_AsUTF8(text);
    MgReason reason = why != NULL && why[0] == '!'   ? MG_REASON_DATA_DEPENDENT
                      : why != NULL && why[0] == '?' ? MG_REASON_RESULT
                                                     : MG_REASON_OPERATION_FAILED;
    mg_capture_abort(capture, reason, "%s", why == NULL ? "" : why + 1);
}

/* Asks the propagation function. `expected` is what the cache said, to be checked, or None. New; a text if the operation
 * can't be captured. */
static PyObject *
ask(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins, PyObject *expected)
{
    PyObject *inputs = describe_twins(twins);
    if (inputs == NULL) {
        return NULL;
    }
    MgAside aside;
    mg_aside_begin_operation(&aside);
    PyObject *fresh = PyObject_CallFunction(propagate, "iOOOOO", (int)kind, target, args,
                                            kwargs == NULL ? Py_None : kwargs, inputs, expected);
    mg_aside_end(&aside);
    Py_DECREF(inputs);
    if (fresh == NULL) { /* what the operation raises is a text */
        mg_recover_interrupt(mg_capture_current);
    }
    return fresh;
}

/* The outcome of an operation by its shape function, or if that does not know from Python. New. */
static PyObject *
fresh_outcome(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins, PyObject *key)
{
    PyObject *inputs = describe_twins(twins);
    if (inputs == NULL) {
        return NULL;
    }
    PyObject *outcome = mg_shape_outcome(kind, target, args, kwargs, inputs, PyTuple_GET_ITEM(key, 1));
    Py_DECREF(inputs);
    if (outcome == NULL) {
        return PyErr_Occurred() ? NULL : ask(kind, target, args, kwargs, twins, Py_None);
    }
    if (self_check && PyTuple_Check(outcome)) {
        Py_SETREF(outcome, ask(kind, target, args, kwargs, twins, outcome));
    }
    return outcome;
}

/* Whether an operation gives the same for the same metadata at any time. What somebody allowed in graphs may read
 * anything else, and must not be kept alive by the cache either. */
static int
is_torchs(PyObject *target)
{
    PyTypeObject *type = Py_TYPE(target);
    PyObject *module = PyFunction_Check(target) ? ((PyFunctionObject *)target)->func_module : NULL;
    if (module == NULL && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dict != NULL) {
        module = PyDict_GetItemWithError(type->tp_dict, MG_STRING("__module__"));
    }
    if (module == NULL || !PyUnicode_Check(module)) {
        return !PyFunction_Check(target);
    }
    const char *name = PyUnicode_AsUTF8(module);
    if (name == NULL) {
        mg_error_clear();
        return 0;
    }
    return strncmp(name, "torch", 5) == 0 && (name[5] == '\0' || name[5] == '.');
}

/* Adds the metadata of the nodes that an argument refers to. MG_OK; MG_BREAK if one has none; or MG_ERR. */
static int
add_metas(const MgNode *nodes, PyObject *value, PyObject *metas)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        PyObject *meta = nodes[((MgRef *)value)->index].value;
        PyObject *key = Py_IS_TYPE(meta, &MgMeta_Type) ? PyLong_FromLong(((MgRef *)value)->index) : NULL;
        int status = key != NULL ? PyDict_SetItem(metas, key, meta) : PyErr_Occurred() ? MG_ERR : MG_BREAK;
        Py_XDECREF(key);
        return status;
    }
    int status = MG_OK;
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; status == MG_OK && i < Py_SIZE(value); i++) {
            status =
                add_metas(nodes, PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i), metas);
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        PyObject *parts[] = {slice->start, slice->stop, slice->step};
        for (int i = 0; status == MG_OK && i < 3; i++) {
            status = add_metas(nodes, parts[i], metas);
        }
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (status == MG_OK && PyDict_Next(value, &position, &key, &item)) {
            status = add_metas(nodes, item, metas);
        }
    }
    return status;
}

/* Asks magneto/_effects.py about an operation. 1, 0 or -1. */
static int
ask_repeats(const MgNode *nodes, const MgNode *node)
{
    static PyObject *repeats; /* strong */
    if (repeats == NULL) {
        repeats = mg_aside_find("magneto._effects", "repeats");
    }
    PyObject *metas = PyDict_New(), *kwargs = node->kwargs != NULL ? Py_NewRef(node->kwargs) : PyDict_New();
    int status = repeats == NULL || metas == NULL || kwargs == NULL ? MG_ERR : add_metas(nodes, node->args, metas);
    status = status == MG_OK ? add_metas(nodes, kwargs, metas) : status;
    int good = status < 0 ? -1 : 0;
    if (status == MG_OK) {
        PyObject *args[] = {node->target, node->args, kwargs, metas};
        PyObject *answer = mg_aside_call(repeats, args, 4);
        good = answer == NULL ? -1 : answer == Py_True;
        Py_XDECREF(answer);
    }
    Py_XDECREF(metas);
    Py_XDECREF(kwargs);
    return good;
}

int
mg_record_is_repeatable(MgNode *nodes, int index)
{
    MgNode *node = &nodes[index];
    if (node->kind == MG_NODE_INPUT || node->is_part || node->is_state) {
        return 1;
    }
    if (node->repeats == MG_REPEATS_UNKNOWN) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        int good = node->writes ? 0 : ask_repeats(nodes, node);
        mg_error_clear();
        PyErr_Restore(type, value, traceback);
        node->repeats = good > 0 ? MG_REPEATS : MG_REPEATS_NOT;
    }
    return node->repeats == MG_REPEATS;
}

/* The outcome of an operation without symbols, from the cache or made anew. New; a text if it can't be captured. */
static PyObject *
outcome_of(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins, PyObject *key,
           int added)
{
    if (MG_UNLIKELY(added)) {
        return ask(kind, target, args, kwargs, twins, Py_None);
    }
    if (MG_UNLIKELY(mg_kernels_renew(&kernels))) {
        PyDict_Clear(cache);
    }
    PyObject *outcome = PyDict_GetItemWithError(cache, key);
    if (outcome != NULL) {
        return self_check ? ask(kind, target, args, kwargs, twins, outcome) : Py_NewRef(outcome);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyObject *fresh = fresh_outcome(kind, target, args, kwargs, twins, key);
    if (fresh != NULL && PyTuple_Check(fresh) && PyTuple_GET_SIZE(key) <= LONGEST_KEY && is_torchs(target)) {
        if (PyDict_GET_SIZE(cache) >= MOST_KEYS) {
            PyDict_Clear(cache);
        }
        if (PyDict_SetItem(cache, key, fresh) < 0) {
            Py_CLEAR(fresh);
        }
    }
    return fresh;
}

/* The outcome of an operation. New; NULL if it can't be captured. */
static PyObject *
find_outcome(Mapping *mapping, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs)
{
    MgCapture *capture = mapping->capture;
    PyObject *outcome = NULL;
    if (!mapping->symbolic) {
        PyObject *key = PyList_AsTuple(mapping->key);
        outcome = key == NULL ? NULL : outcome_of(kind, target, args, kwargs, mapping->twins, key, mapping->added);
        Py_XDECREF(key);
        if (outcome == NULL || PyTuple_Check(outcome)) {
            if (outcome != NULL && PyTuple_GET_SIZE(PyTuple_GET_ITEM(outcome, 3)) > 0 &&
                mg_symbol_written(capture, mapping->twins, PyTuple_GET_ITEM(outcome, 3)) < 0) {
                Py_CLEAR(outcome);
            }
            return outcome;
        }
        if (PyUnicode_READ_CHAR(outcome, 0) != '!' || (!capture->allow_scalars && !capture->allow_shapes)) {
            mg_record_refuse(capture, outcome);
            Py_DECREF(outcome);
            return NULL;
        }
        Py_DECREF(outcome); /* its result depends on data: a symbol */
    }
    PyObject *numbers = mapping->numbers == NULL ? PyList_New(0) : Py_NewRef(mapping->numbers);
    outcome = numbers == NULL ? NULL : mg_symbol_run(capture, kind, target, args, kwargs, mapping->twins, numbers);
    Py_XDECREF(numbers);
    return outcome;
}

/* 1 if there is a tensor in the outcome's result. */
static int
has_tensor(PyObject *result)
{
    if (Py_TYPE(result) == &MgMeta_Type || Py_TYPE(result) == &MgRef_Type) {
        return 1;
    }
    if (PyTuple_Check(result) || PyList_Check(result)) { /* of tensors and values: no structure of the user's */
        for (Py_ssize_t i = 0; i < Py_SIZE(result); i++) {
            if (has_tensor(PyList_Check(result) ? PyList_GET_ITEM(result, i) : PyTuple_GET_ITEM(result, i))) {
                return 1;
            }
        }
    }
    return 0;
}

/* 1 if there is a number that depends on data in the outcome's result. */
static int
has_symbol(PyObject *result)
{
    if (mg_symbol_check(result)) {
        return 1;
    }
    if (PyTuple_Check(result) || PyList_Check(result)) { /* of tensors and values: no structure of the user's */
        for (Py_ssize_t i = 0; i < Py_SIZE(result); i++) {
            if (has_symbol(PyList_Check(result) ? PyList_GET_ITEM(result, i) : PyTuple_GET_ITEM(result, i))) {
                return 1;
            }
        }
    }
    return 0;
}

/* What is needed to give captured code the result of an operation. */
typedef struct {
    MgCapture *capture;
    PyObject *twins;  /* list: the twins among the arguments */
    PyObject *views;  /* tuple of (number of a new tensor in the result, number of the twin that it is a view of) */
    PyObject *fakes;  /* list: the FakeTensors of new tensors that are to be kept, or None; NULL for none */
    Py_ssize_t fresh; /* new tensors so far */
} Wrapping;

static PyObject *wrap_result(Wrapping *wrapping, PyObject *result, int node);

/* 1 if the state has gradients on: see _READERS in rules.py. */
static int
has_grad_mode(PyObject *state)
{
    return PyTuple_GET_SIZE(state) == 0 || PyTuple_GET_ITEM(state, 0) != Py_False;
}

/* 1 if the next new tensor is a view of one that requires grad: where gradients are off it is a leaf that requires grad
 * too. */
static int
is_view_of_grad(const Wrapping *wrapping)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wrapping->views); i++) {
        PyObject *pair = PyTuple_GET_ITEM(wrapping->views, i);
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 1));
        if (position >= 0 && PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 0)) == wrapping->fresh &&
            (mg_twin_of(PyList_GET_ITEM(wrapping->twins, position))->meta->flags & MG_META_REQUIRES_GRAD)) {
            return 1;
        }
    }
    return 0;
}

/* MG_ERR if an operation would have gradients flow into a view that has none: a backend's would flow on. */
static int
check_gradless(MgCapture *capture, PyObject *twins)
{
    for (Py_ssize_t i = 0; capture->foreign && has_grad_mode(capture->state) && i < PyList_GET_SIZE(twins); i++) {
        if (mg_twin_of(mg_twin_original(PyList_GET_ITEM(twins, i)))->gradless) {
            return mg_capture_abort(capture, MG_REASON_BACKEND, "a view that was made where gradients were off");
        }
    }
    return MG_OK;
}

/* A twin for a new tensor in the result. */
static PyObject *
wrap_tensor(Wrapping *wrapping, PyObject *meta, int node)
{
    int flags = ((MgMeta *)meta)->flags;
    int leaf = wrapping->capture->foreign && (flags & MG_META_REQUIRES_GRAD) && !(flags & MG_META_NON_LEAF);
    if (leaf && !is_view_of_grad(wrapping)) {
        mg_capture_abort(wrapping->capture, MG_REASON_BACKEND, "a new leaf that requires grad");
        return NULL;
    }
    PyObject *object = mg_twin_new((MgMeta *)meta, wrapping->capture->number);
    if (object == NULL) {
        return NULL;
    }
    mg_twin_of(object)->node = node;
    mg_twin_of(object)->gradless = leaf && has_grad_mode(wrapping->capture->entry_state);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wrapping->views); i++) {
        PyObject *pair = PyTuple_GET_ITEM(wrapping->views, i);
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 0)) == wrapping->fresh) {
            Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 1));
            if (position < 0) {
                mg_twin_of(object)->shares = 1;
            }
            else {
                MgTwin *base = mg_twin_of(PyList_GET_ITEM(wrapping->twins, position));
                mg_twin_join(mg_twin_of(object), base);
                mg_twin_of(object)->row = flags & MG_META_REQUIRES_GRAD ? base->row : 0;
            }
        }
    }
    if (wrapping->fakes != NULL && PyList_GET_ITEM(wrapping->fakes, wrapping->fresh) != Py_None) {
        mg_twin_of(object)->fake = Py_NewRef(PyList_GET_ITEM(wrapping->fakes, wrapping->fresh));
    }
    wrapping->fresh++;
    return object;
}

/* The index-th part of a node's result: a getitem node of its own. */
static PyObject *
wrap_item(Wrapping *wrapping, PyObject *item, int node, Py_ssize_t index)
{
    MgCapture *capture = wrapping->capture;
    if (!has_tensor(item) && !has_symbol(item)) {
        return Py_NewRef(item);
    }
    PyObject *target = PyObject_GetAttrString(operators, "getitem");
    PyObject *ref = new_ref(node);
    PyObject *args = ref == NULL || target == NULL ? NULL : Py_BuildValue("(On)", ref, index);
    Py_XDECREF(ref);
    if (args == NULL) {
        Py_XDECREF(target);
        return NULL;
    }
    capture->nodes[node].users++;
    int part = add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                          .target = target,
                                          .args = args,
                                          .value = Py_NewRef(item),
                                          .is_part = 1,
                                          .stack = Py_XNewRef(capture->nodes[node].stack)});
    return part < 0 ? NULL : wrap_result(wrapping, item, part);
}

/* What captured code gets for a result: a twin for each tensor. */
static PyObject *
wrap_result(Wrapping *wrapping, PyObject *result, int node)
{
    if (Py_TYPE(result) == &MgMeta_Type) {
        return wrap_tensor(wrapping, result, node);
    }
    if (mg_symbol_check(result)) {
        return mg_number_new(wrapping->capture, result, node);
    }
    if (Py_TYPE(result) == &MgRef_Type) { /* the operation gives one of its arguments back */
        PyObject *same = PyList_GetItem(wrapping->twins, ((MgRef *)result)->index);
        if (same == NULL) {
            return NULL;
        }
        Py_SETREF(wrapping->capture->nodes[node].value, Py_NewRef((PyObject *)mg_twin_of(same)->meta));
        return mg_twin_new_alias(same, node);
    }
    if (!PyTuple_Check(result) && !PyList_Check(result)) {
        return Py_NewRef(result);
    }
    Py_ssize_t size = Py_SIZE(result);
    PyObject *items = PyList_Check(result) ? PyList_New(size) : PyTuple_New(size);
    for (Py_ssize_t i = 0; items != NULL && i < size; i++) {
        PyObject *item = PyList_Check(result) ? PyList_GET_ITEM(result, i) : PyTuple_GET_ITEM(result, i);
        PyObject *wrapped = wrap_item(wrapping, item, node, i);
        if (wrapped == NULL) {
            Py_CLEAR(items);
            break;
        }
        if (PyList_Check(items)) {
            PyList_SET_ITEM(items, i, wrapped);
        }
        else {
            PyTuple_SET_ITEM(items, i, wrapped);
        }
    }
    if (items != NULL && Py_TYPE(result) == mg_torch.size) {
        return mg_symbol_size(items);
    }
    if (items != NULL && PyTuple_Check(result) && Py_TYPE(result) != &PyTuple_Type) {  /* torch.return_types.max */
        PyObject *make = PyObject_GetAttrString((PyObject *)Py_TYPE(result), "_make"); /* of a named tuple */
        if (make == NULL) {
            mg_error_clear();
        }
        PyObject *made = PyObject_CallOneArg(make == NULL ? (PyObject *)Py_TYPE(result) : make, items);
        Py_XDECREF(make);
        Py_DECREF(items);
        items = made;
    }
    return items;
}

/* The FakeTensor of a twin that has come to require grad through another one. */
static int
update_fake(MgCapture *capture, MgTwin *twin)
{
    PyObject *fake = mg_twin_fake(twin);
    int good = fake == NULL ? 1 : mg_torch_requires_grad(fake); /* a real view of the other: it knows */
    if (good == 0 && twin->meta->fake == NULL) {
        Py_CLEAR(twin->fake); /* made anew when it is needed */
        return MG_OK;
    }
    return good > 0   ? MG_OK
           : good < 0 ? MG_ERR
                      : mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "a view that comes to require grad");
}

/* A tensor that shares its memory with others came to require grad: so do they, as views of one another. */
static int
spread_grad(MgCapture *capture, MgTwin *changed)
{
    for (MgTwin *twin = changed->next; twin != changed; twin = twin->next) {
        MgMeta *old = twin->meta;
        if (old->flags & MG_META_REQUIRES_GRAD) {
            continue;
        }
        MgMeta *meta = update_fake(capture, twin) < 0
                           ? NULL
                           : mg_meta_get(old->dtype, old->device, old->sizes, old->strides,
                                         old->flags | MG_META_REQUIRES_GRAD | MG_META_NON_LEAF, old->fake);
        if (meta == NULL) {
            return MG_ERR;
        }
        Py_SETREF(twin->meta, meta);
    }
    return MG_OK;
}

/* The number of elements, -1 if it depends on data. */
static Py_ssize_t
count_elements(const MgMeta *meta)
{
    Py_ssize_t count = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(meta->sizes); i++) {
        PyObject *size = PyTuple_GET_ITEM(meta->sizes, i);
        if (!PyLong_CheckExact(size)) {
            return -1;
        }
        count *= PyLong_AsSsize_t(size);
    }
    return count;
}

/* A backend such as AOTAutograd takes tensors as they are when the graph starts: in its hands they would neither become
 * leaves that require grad, nor larger. MG_ERR if an operation changed one so, and the graph is not run as it is. */
static int
check_change(MgCapture *capture, const MgMeta *before, const MgMeta *now)
{
    if (!capture->foreign) {
        return MG_OK;
    }
    int switched = (before->flags ^ now->flags) & MG_META_REQUIRES_GRAD;
    if (switched && !((before->flags | now->flags) & MG_META_NON_LEAF)) {
        return mg_capture_abort(capture, MG_REASON_BACKEND, "a leaf %s to require grad",
                                now->flags & MG_META_REQUIRES_GRAD ? "comes" : "ceases");
    }
    return count_elements(before) == count_elements(now)
               ? MG_OK
               : mg_capture_abort(capture, MG_REASON_BACKEND, "a tensor comes to have more elements, or fewer");
}

/* Metadata that an in-place operation changed: a sequence of (position, Meta). */
static int
apply_changes(MgCapture *capture, PyObject *changes, PyObject *twins)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(changes); i++) {
        PyObject *change = PyTuple_GET_ITEM(changes, i);
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(change, 0));
        PyObject *object = PyList_GetItem(twins, position);
        if (object == NULL) {
            return MG_ERR;
        }
        MgTwin *twin = mg_twin_of(object);
        int before = twin->meta->flags;
        if (check_change(capture, twin->meta, (const MgMeta *)PyTuple_GET_ITEM(change, 1)) < 0) {
            return MG_ERR;
        }
        int now = ((MgMeta *)PyTuple_GET_ITEM(change, 1))->flags;
        int history = (now & MG_META_REQUIRES_GRAD) && !(before & MG_META_REQUIRES_GRAD);
        if (history && !(now & MG_META_NON_LEAF) && twin->next != twin) {
            return mg_capture_abort(capture, MG_REASON_BACKEND, "a tensor that has views comes to require grad");
        }
        if (mg_storage_note(capture, twin, MG_CHANGED_OBJECT | (history ? MG_CHANGED_HISTORY : 0)) < 0) {
            return MG_ERR;
        }
        Py_SETREF(twin->meta, (MgMeta *)Py_NewRef(PyTuple_GET_ITEM(change, 1)));
        if (history && (now & MG_META_NON_LEAF) && spread_grad(capture, twin) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Maps positional and keyword arguments. MG_OK with *args (a tuple) and *kwargs (a dict or NULL) new. */
static int
map_arguments(Mapping *mapping, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **mapped_args,
              PyObject **mapped_kwargs)
{
    *mapped_kwargs = NULL;
    *mapped_args = PyTuple_New(count);
    if (*mapped_args == NULL) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = map_argument(mapping, args[i]);
        if (value == NULL) {
            goto error;
        }
        PyTuple_SET_ITEM(*mapped_args, i, value);
    }
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    if (names > 0) {
        *mapped_kwargs = PyDict_New();
        if (*mapped_kwargs == NULL) {
            goto error;
        }
    }
    for (Py_ssize_t i = 0; i < names; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        PyObject *value = key_add(mapping, name) < 0 ? NULL : map_argument(mapping, args[count + i]);
        int result = value == NULL ? MG_ERR : PyDict_SetItem(*mapped_kwargs, name, value);
        Py_XDECREF(value);
        if (result < 0) {
            goto error;
        }
    }
    return MG_OK;
error:
    Py_CLEAR(*mapped_args);
    Py_CLEAR(*mapped_kwargs);
    return MG_ERR;
}

/* Whether this is a class of tensors: torch.Tensor, torch.FloatTensor, ... */
static int
makes_tensors(PyObject *target)
{
    return PyType_Check(target) &&
           (PyType_IsSubtype((PyTypeObject *)target, mg_torch.base) || Py_IS_TYPE(target, mg_kinds.tensor_type));
}

/* Graphs hold a torch.Size as a tuple, and torch's oldest constructors take a tuple for data: `x.new(size)` is recorded
 * as `x.new_empty(size)`, as TorchDynamo does, and `torch.Tensor(size)` with the name of what is given. The arguments
 * stay where they are. New: the names of the last arguments, None if there is none; NULL with an exception. */
static PyObject *
name_size(MgNodeKind kind, PyObject **target, PyObject *const *args, Py_ssize_t *count, PyObject *kwnames)
{
    Py_ssize_t given = *count;
    if (given > 0 && Py_IS_TYPE(args[given - 1], mg_torch.size)) {
        if (kind == MG_NODE_METHOD && given == 2 && PyUnicode_CompareWithASCIIString(*target, "new") == 0) {
            *target = MG_STRING("new_empty");
        }
        else if (kind == MG_NODE_FUNCTION && given == 1 && makes_tensors(*target)) {
            PyObject *name = Py_BuildValue("(s)", "size");
            PyObject *names = name == NULL || kwnames == NULL ? Py_XNewRef(name) : PySequence_Concat(name, kwnames);
            Py_XDECREF(name);
            *count = 0;
            return names;
        }
    }
    return Py_NewRef(kwnames == NULL ? Py_None : kwnames);
}

/* Rows are recorded one by one, but eager makes them with one unbind(), whose outputs autograd lets nobody write to. So if an
 * operation fails that is given some, the capture is made again up to before they are made: the error may be another. */
static void
stop_before_rows(MgCapture *capture, PyObject *twins)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(twins); i++) {
        long row = mg_twin_of(PyList_GET_ITEM(twins, i))->row;
        if (row > 0 && (capture->dropped == 0 || row < capture->dropped)) {
            capture->dropped = row;
        }
    }
}

/* The same where a row is written to, of which only autograd knows that it fails. MG_OK or MG_ERR. */
static int
check_rows(MgCapture *capture, PyObject *written, PyObject *twins)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
        PyObject *twin = PyList_GET_ITEM(twins, PyLong_AsSsize_t(PyTuple_GET_ITEM(written, i)));
        if (mg_twin_of(twin)->row > 0 && has_grad_mode(capture->state)) {
            stop_before_rows(capture, twins);
            return mg_capture_abort(capture, MG_REASON_OPERATION_FAILED, "a row of a tensor is written to");
        }
    }
    return MG_OK;
}

/* What an operation gives that gives back the very list it was given, as torch._foreach_abs_ and its kin do; borrowed.
 * NULL for all others. */
static PyObject *
list_given_back(PyObject *target, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    const char *name = PyCFunction_Check(target) ? ((PyCFunctionObject *)target)->m_ml->ml_name : "";
    size_t length = strlen(name);
    if (strncmp(name, "_foreach_", strlen("_foreach_")) != 0 || name[length - 1] != '_') {
        return NULL;
    }
    for (Py_ssize_t i = 0; count == 0 && kwnames != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "self") == 0) {
            return args[i];
        }
    }
    return count > 0 ? args[0] : NULL;
}

static int
is_named(PyObject *target, const char *name)
{
    return PyCFunction_Check(target) && strcmp(((PyCFunctionObject *)target)->m_ml->ml_name, name) == 0;
}

/* 1 if the dtype of what an operation gives is that of numpy's scalars among its arguments, which to all others are numbers
 * like Python's. */
static int
infers_dtype(MgNodeKind kind, PyObject *target, PyObject *kwnames)
{
    static const char *const names[] = {"tensor", "as_tensor", "asarray"};
    for (Py_ssize_t i = 0; kwnames != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "dtype") == 0) {
            return 0;
        }
    }
    if (kind == MG_NODE_METHOD) {
        return PyUnicode_Check(target) && PyUnicode_CompareWithASCIIString(target, "new_tensor") == 0;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (is_named(target, names[i])) {
            return 1;
        }
    }
    return 0;
}

/* MG_ERR for an LSTM in training that is for a backend: on CPUs oneDNN computes it, which keeps for the gradients what
 * AOTAutograd can't save, and drops out otherwise than torch's decomposition. (TorchDynamo captures none.) */
static int
check_lstm(MgCapture *capture, PyObject *target, PyObject *value, PyObject *const *args, Py_ssize_t count)
{
    if (!capture->foreign || !is_named(target, "lstm") || (count > 1 && mg_is_twin(args[1])) || !PyTuple_Check(value) ||
        PyTuple_GET_SIZE(value) == 0 || !Py_IS_TYPE(PyTuple_GET_ITEM(value, 0), &MgMeta_Type)) {
        return MG_OK; /* with batch sizes, args[1], it is not for oneDNN */
    }
    const MgMeta *output = (const MgMeta *)PyTuple_GET_ITEM(value, 0);
    int drops = count > 6 && PyFloat_CheckExact(args[5]) && PyFloat_AS_DOUBLE(args[5]) != 0 && args[6] == Py_True;
    if (!mg_shape_is_cpu(output->device) || !((output->flags & MG_META_REQUIRES_GRAD) || drops)) {
        return MG_OK;
    }
    return mg_capture_abort(capture, MG_REASON_BACKEND, "an LSTM in training, on the CPU");
}

/* What a tensor has in common with those that share its memory: its storage if it is from outside, else the first one of
 * its ring. */
static const void *
memory_of(PyObject *tensor)
{
    MgTwin *twin = mg_twin_of(tensor), *first = twin;
    for (MgTwin *member = twin->next; member != twin; member = member->next) {
        first = member < first ? member : first;
    }
    MgTwin *member = twin;
    do {
        uintptr_t storage = member->real == NULL ? 0 : mg_storage_of(member->real);
        if (storage != 0) {
            return (const void *)storage;
        }
        member = member->next;
    } while (member != twin);
    return first;
}

/* 1 if two tensors of a list or tuple share memory. 0 or -1. */
static int
has_twice(PyObject *items)
{
    PyObject *seen = PyList_Check(items) || PyTuple_Check(items) ? PySet_New(NULL) : NULL;
    int found = PyErr_Occurred() ? -1 : 0;
    for (Py_ssize_t i = 0; found == 0 && seen != NULL && i < Py_SIZE(items); i++) {
        PyObject *item = PyList_Check(items) ? PyList_GET_ITEM(items, i) : PyTuple_GET_ITEM(items, i);
        PyObject *key = mg_is_twin(item) ? PyLong_FromVoidPtr((void *)memory_of(item)) : NULL;
        if (key == NULL) {
            found = PyErr_Occurred() ? -1 : 0;
            continue;
        }
        found = PySet_Contains(seen, key);
        if (found == 0 && PySet_Add(seen, key) < 0) {
            found = -1;
        }
        Py_DECREF(key);
    }
    Py_XDECREF(seen);
    return found;
}

/* 1 if the operator of this name makes its argument another view of its memory (`x.t_()`, `x.detach_()`). 0 or -1. */
static int
is_view_in_place(const char *name)
{
    static PyObject *ask; /* strong */
    if (ask == NULL) {
        ask = mg_aside_find("magneto._effects", "is_view_in_place");
    }
    PyObject *text = ask == NULL ? NULL : PyUnicode_FromString(name);
    PyObject *answer = text == NULL ? NULL : mg_aside_call(ask, &text, 1);
    int result = answer == NULL ? -1 : answer == Py_True;
    Py_XDECREF(text);
    Py_XDECREF(answer);
    return result;
}

/* MG_ERR if an operation in place is for a backend, and AOTAutograd would not do what eager does: it neither makes other
 * views of inputs, nor knows which of them are views (TorchDynamo captures no such operation either); and where foreach
 * functions write to a tensor several times, it keeps one of the writes. */
static int
check_in_place(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count)
{
    const char *name = PyUnicode_Check(target)     ? PyUnicode_AsUTF8(target)
                       : PyCFunction_Check(target) ? ((PyCFunctionObject *)target)->m_ml->ml_name
                                                   : NULL;
    size_t length = name == NULL ? 0 : strlen(name);
    if (!capture->foreign || length < 2 || name[length - 1] != '_' || name[length - 2] == '_' || count == 0) {
        return MG_OK;
    }
    int twice = has_twice(args[0]);
    if (twice != 0) {
        return twice < 0 ? MG_ERR
                         : mg_capture_abort(capture, MG_REASON_BACKEND, "memory is written to twice by one operation");
    }
    int view = mg_is_twin(args[0]) && mg_twin_of(args[0])->source != NULL ? is_view_in_place(name) : 0;
    return view <= 0 ? view
                     : mg_capture_abort(capture, MG_REASON_BACKEND, "a tensor becomes another view of its memory");
}

PyObject *
mg_record_call(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
               PyObject *kwnames)
{
    PyObject *result = NULL, *mapped_args = NULL, *mapped_kwargs = NULL;
    Mapping mapping = {.capture = capture, .key = PyList_New(0)};
    mapping.twins = mapping.key == NULL ? NULL : PyList_New(0);
    PyObject *state = mapping.twins == NULL ? NULL : mg_rules_state_key();
    PyObject *names = state == NULL ? NULL : name_size(kind, &target, args, &count, kwnames);
    kwnames = names == Py_None ? NULL : names;
    mapping.infers = infers_dtype(kind, target, kwnames);
    mapping.stores = kind == MG_NODE_FUNCTION && is_named(target, "setitem");
    mapping.added = names == NULL ? MG_ERR : mg_operator_check(capture, target);
    if (mapping.added < 0 || mg_tensor_class_check(capture, target, args, count) < 0 ||
        check_in_place(capture, target, args, count) < 0 || key_add(&mapping, target) < 0 ||
        key_add(&mapping, state) < 0 ||
        map_arguments(&mapping, args, count, kwnames, &mapped_args, &mapped_kwargs) < 0 ||
        check_gradless(capture, mapping.twins) < 0 || mg_shape_add_settings(target, mapping.key) < 0) {
        goto done;
    }
    PyObject *outcome = find_outcome(&mapping, kind, target, mapped_args, mapped_kwargs);
    if (outcome == NULL || PyTuple_GET_SIZE(PyTuple_GET_ITEM(outcome, 1)) > 0 ||
        PyTuple_GET_SIZE(PyTuple_GET_ITEM(outcome, 3)) > 0 || !mg_shape_ignores_leaves(kind, target, mapped_args)) {
        capture->asks_leaves = 1; /* what is no leaf, or a view of none, can be written to; a leaf has a gradient */
    }
    if (outcome == NULL) {
        if (capture->reason == MG_REASON_OPERATION_FAILED) {
            stop_before_rows(capture, mapping.twins);
        }
        goto done;
    }
    PyObject *value = PyTuple_GET_ITEM(outcome, 0), *changes = PyTuple_GET_ITEM(outcome, 1), *fakes = NULL;
    PyObject *bindings = NULL;
    int tensors = has_tensor(value);
    if (PyTuple_GET_SIZE(outcome) > 4) { /* from the session: see magneto/_symbols.py */
        fakes = PyTuple_GET_ITEM(outcome, 5);
        bindings = PyTuple_GET_ITEM(outcome, 6) == Py_None ? NULL : PyTuple_GET_ITEM(outcome, 6);
    }
    if (value != Py_None && !tensors && !has_symbol(value) && mapping.added) {
        mg_capture_abort(capture, MG_REASON_RESULT, "an operator that gives no tensor");
        Py_DECREF(outcome);
        goto done;
    }
    if (value != Py_None && !tensors && !has_symbol(value)) { /* a question about metadata */
        result = PyList_Check(value) ? PyList_GetSlice(value, 0, PyList_GET_SIZE(value)) : Py_NewRef(value);
        Py_DECREF(outcome); /* a list in the cache stays as it is */
        goto done;
    }
    PyObject *written = PyTuple_GET_ITEM(outcome, 3);
    if (mg_capture_operate(capture) < 0 || check_rows(capture, written, mapping.twins) < 0 ||
        check_lstm(capture, target, value, args, count) < 0) {
        Py_DECREF(outcome);
        goto done;
    }
    use_aliases(&mapping);
    int node = add_node(capture, (MgNode){.kind = kind,
                                          .target = Py_NewRef(target),
                                          .args = Py_NewRef(mapped_args),
                                          .kwargs = Py_XNewRef(mapped_kwargs),
                                          .value = Py_NewRef(value),
                                          .bindings = Py_XNewRef(bindings),
                                          .is_part = !tensors && value != Py_None, /* only a number: if it is used */
                                          .stack = mg_capture_stack(capture)});
    for (Py_ssize_t i = 0; node >= 0 && i < PyTuple_GET_SIZE(written); i++) {
        PyObject *twin = PyList_GET_ITEM(mapping.twins, PyLong_AsSsize_t(PyTuple_GET_ITEM(written, i)));
        capture->nodes[node].writes |= mg_twin_is_shared(mg_twin_of(twin));
        mg_storage_note(capture, mg_twin_of(twin), MG_CHANGED_DATA);
    }
    for (Py_ssize_t i = 0; node >= 0 && i < PyList_GET_SIZE(mapping.twins); i++) {
        capture->nodes[mg_twin_of(PyList_GET_ITEM(mapping.twins, i))->node].users++;
    }
    for (Py_ssize_t i = 0; node >= 0 && mapping.numbers != NULL && i < PyList_GET_SIZE(mapping.numbers); i++) {
        capture->nodes[mg_symbol_node(PyList_GET_ITEM(mapping.numbers, i))].users++;
    }
    if (node >= 0 && apply_changes(capture, changes, mapping.twins) == MG_OK) {
        Wrapping wrapping = {
            .capture = capture, .twins = mapping.twins, .views = PyTuple_GET_ITEM(outcome, 2), .fakes = fakes};
        PyObject *given = kind == MG_NODE_FUNCTION ? list_given_back(target, args, count, kwnames) : NULL;
        result = given != NULL ? Py_NewRef(given) : wrap_result(&wrapping, value, node);
    }
    Py_DECREF(outcome);
done:
    Py_XDECREF(names);
    Py_XDECREF(state);
    Py_XDECREF(mapping.key);
    Py_XDECREF(mapping.twins);
    Py_XDECREF(mapping.aliases);
    Py_XDECREF(mapping.numbers);
    Py_XDECREF(mapped_args);
    Py_XDECREF(mapped_kwargs);
    return result;
}

PyObject *
mg_record_state(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *before = mg_rules_read_state();
    Py_CLEAR(capture->state); /* it may be another from here on, whatever comes of the rest */
    PyObject *result = before == NULL ? NULL : PyObject_Vectorcall(target, args, (size_t)count, NULL);
    PyObject *after = result == NULL ? NULL : mg_rules_read_state();
    int same = after == NULL ? -1 : PyObject_RichCompareBool(before, after, Py_EQ);
    mg_aside_end(&aside);
    Py_XDECREF(before);
    Py_XDECREF(after);
    if (same != 0) { /* no change, no node */
        if (same < 0) {
            Py_CLEAR(result);
        }
        return result;
    }
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    }
    if (tuple == NULL || add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                                    .target = Py_NewRef(target),
                                                    .args = tuple,
                                                    .value = Py_NewRef(Py_None),
                                                    .stack = mg_capture_stack(capture),
                                                    .is_state = 1}) < 0) {
        Py_CLEAR(result);
    }
    return result;
}

int
mg_record_enter(MgCapture *capture, PyObject *target, PyObject *args)
{
    return add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                      .target = Py_NewRef(target),
                                      .args = args,
                                      .value = Py_NewRef(Py_None),
                                      .stack = mg_capture_stack(capture),
                                      .is_state = 1});
}

int
mg_record_exit(MgCapture *capture, PyObject *target, int node)
{
    PyObject *ref = new_ref(node);
    PyObject *args = ref == NULL ? NULL : Py_BuildValue("(N)", ref);
    if (args == NULL) {
        return MG_ERR;
    }
    capture->nodes[node].users++;
    int exit = mg_record_enter(capture, target, args);
    if (exit >= 0) {
        capture->nodes[exit].leaves = 1;
    }
    return exit < 0 ? MG_ERR : MG_OK;
}

int
mg_record_setting(MgCapture *capture, PyObject *target, PyObject *maker, PyObject *names)
{
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made != NULL && i < PyList_GET_SIZE(names); i++) {
        PyObject *args = PyTuple_Pack(1, PyList_GET_ITEM(names, i));
        int node = args == NULL ? -1 : mg_record_enter(capture, maker, args);
        PyObject *ref = node < 0 ? NULL : new_ref(node);
        if (ref == NULL || PyList_Append(made, ref) < 0) {
            Py_CLEAR(made);
        }
        else {
            capture->nodes[node].users++;
        }
        Py_XDECREF(ref);
    }
    PyObject *args = made == NULL ? NULL : PyTuple_Pack(2, made, Py_False);
    Py_XDECREF(made);
    return args == NULL || mg_record_enter(capture, target, args) < 0 ? MG_ERR : MG_OK;
}

PyObject *
mg_record_item(MgCapture *capture, PyObject *twin, PyObject *type)
{
    if (!capture->allow_scalars) {
        mg_capture_abort(capture, MG_REASON_TENSOR_VALUE, NULL);
        return NULL;
    }
    PyObject *number = mg_record_call(capture, MG_NODE_METHOD, MG_STRING("item"), &twin, 1, NULL);
    if (number == NULL || type == NULL) {
        return number;
    }
    PyObject *result = mg_rules_call(capture, type, &number, 1, NULL);
    Py_DECREF(number);
    return result;
}

PyObject *
mg_record_tolist(MgCapture *capture, PyObject *twin)
{
    MgMeta *meta = mg_twin_of(twin)->meta;
    if (!capture->allow_scalars) {
        mg_capture_abort(capture, MG_REASON_TENSOR_VALUE, NULL);
        return NULL;
    }
    if (meta->dim == 0) {
        return mg_record_item(capture, twin, NULL);
    }
    Py_ssize_t size = mg_record_length(capture, twin);
    PyObject *list = size < 0 ? NULL : PyList_New(size);
    for (Py_ssize_t i = 0; list != NULL && i < size; i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        PyObject *row = index == NULL ? NULL : mg_record_getitem(capture, twin, index);
        PyObject *item = row == NULL ? NULL : mg_record_tolist(capture, row);
        Py_XDECREF(index);
        Py_XDECREF(row);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

int
mg_record_scalar(MgCapture *capture, int node)
{
    for (int i = node + 1; i < capture->node_count; i++) { /* it may be there already */
        PyObject *args = capture->nodes[i].target == scalar_function ? capture->nodes[i].args : NULL;
        if (args != NULL && Py_IS_TYPE(PyTuple_GET_ITEM(args, 0), &MgRef_Type) &&
            ((MgRef *)PyTuple_GET_ITEM(args, 0))->index == node && capture->nodes[i].stack == NULL) {
            return i;
        }
    }
    PyObject *ref = new_ref(node), *args = ref == NULL ? NULL : Py_BuildValue("(N)", ref);
    PyObject *kwargs = args == NULL ? NULL : Py_BuildValue("{s:O}", "dtype", double_type);
    PyObject *meta = NULL, *empty = kwargs == NULL ? NULL : PyTuple_New(0);
    if (empty != NULL) {
        meta = (PyObject *)mg_meta_get(double_type, cpu_device, empty, empty, 0, NULL);
    }
    Py_XDECREF(empty);
    if (meta == NULL) {
        Py_XDECREF(args);
        Py_XDECREF(kwargs);
        return -1;
    }
    capture->nodes[node].users++;
    return add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                      .target = Py_NewRef(scalar_function),
                                      .args = args,
                                      .kwargs = kwargs,
                                      .value = meta});
}

/* ---- operators ---- */

/* operator.<name>, borrowed for good. */
static PyObject *
operator_function(const char *name)
{
    PyObject *function = PyObject_GetAttrString(operators, name);
    Py_XDECREF(function); /* the module keeps it */
    return function;
}

static PyObject *
record_operator(MgCapture *capture, const char *name, PyObject *const *args, Py_ssize_t count)
{
    PyObject *function = operator_function(name);
    return function == NULL ? NULL : mg_record_call(capture, MG_NODE_FUNCTION, function, args, count, NULL);
}

PyObject *
mg_record_binary(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    static const char *const names[26] = {
        [NB_ADD] = "add",
        [NB_AND] = "and_",
        [NB_FLOOR_DIVIDE] = "floordiv",
        [NB_LSHIFT] = "lshift",
        [NB_MATRIX_MULTIPLY] = "matmul",
        [NB_MULTIPLY] = "mul",
        [NB_REMAINDER] = "mod",
        [NB_OR] = "or_",
        [NB_POWER] = "pow",
        [NB_RSHIFT] = "rshift",
        [NB_SUBTRACT] = "sub",
        [NB_TRUE_DIVIDE] = "truediv",
        [NB_XOR] = "xor",
        [NB_INPLACE_ADD] = "iadd",
        [NB_INPLACE_AND] = "iand",
        [NB_INPLACE_FLOOR_DIVIDE] = "ifloordiv",
        [NB_INPLACE_LSHIFT] = "ilshift",
        [NB_INPLACE_MATRIX_MULTIPLY] = "imatmul",
        [NB_INPLACE_MULTIPLY] = "imul",
        [NB_INPLACE_REMAINDER] = "imod",
        [NB_INPLACE_OR] = "ior",
        [NB_INPLACE_POWER] = "ipow",
        [NB_INPLACE_RSHIFT] = "irshift",
        [NB_INPLACE_SUBTRACT] = "isub",
        [NB_INPLACE_TRUE_DIVIDE] = "itruediv",
        [NB_INPLACE_XOR] = "ixor",
    };
    PyObject *args[2] = {left, right};
    if (operation >= NB_INPLACE_ADD && !mg_is_twin(left)) { /* a number is not changed in place */
        operation -= NB_INPLACE_ADD;
    }
    return record_operator(capture, names[operation], args, 2);
}

PyObject *
mg_record_compare(MgCapture *capture, int operation, PyObject *left, PyObject *right)
{
    static const char *const names[6] = {"lt", "le", "eq", "ne", "gt", "ge"};
    static const int reflected[6] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
    if (!mg_is_twin(left) && mg_is_twin(right)) {
        /* a number does not know tensors: the tensor is asked, as TorchDynamo records it */
        PyObject *number = left;
        left = right;
        right = number;
        operation = reflected[operation];
    }
    PyObject *args[2] = {left, right};
    return record_operator(capture, names[operation], args, 2);
}

PyObject *
mg_record_unary(MgCapture *capture, int opcode, PyObject *value)
{
    const char *name = opcode == UNARY_NEGATIVE ? "neg" : opcode == UNARY_POSITIVE ? "pos" : "invert";
    return record_operator(capture, name, &value, 1);
}

PyObject *
mg_record_absolute(MgCapture *capture, PyObject *value)
{
    return record_operator(capture, "abs", &value, 1);
}

PyObject *
mg_record_check(MgCapture *capture, PyObject *target, PyObject *condition, PyObject *message)
{
    int before = capture->node_count;
    PyObject *result = mg_record_call(capture, MG_NODE_FUNCTION, target, &condition, 1, NULL);
    if (result != NULL && message != NULL && capture->node_count > before) { /* called when the check fails */
        MgNode *node = &capture->nodes[capture->node_count - 1];
        Py_SETREF(node->args, Py_BuildValue("(OO)", PyTuple_GET_ITEM(node->args, 0), message));
        if (node->args == NULL) {
            Py_CLEAR(result);
        }
    }
    return result;
}

/* 1 if metadata alone decides whether a tensor has an item: the key is made of numbers, slices, None and Ellipsis. */
static int
is_plain_key(PyObject *key)
{
    if (!PyTuple_CheckExact(key)) {
        return PyLong_CheckExact(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        if (PyTuple_CheckExact(PyTuple_GET_ITEM(key, i)) || !is_plain_key(PyTuple_GET_ITEM(key, i))) {
            return 0;
        }
    }
    return 1;
}

PyObject *
mg_record_getitem(MgCapture *capture, PyObject *twin, PyObject *key)
{
    PyObject *args[2] = {twin, key};
    int before = capture->node_count;
    if (mg_is_number(key) && mg_number_kind(key) == MG_NUMBER_INT) { /* as TorchDynamo records it */
        PyObject *zero = PyLong_FromLong(0);
        PyObject *arguments[3] = {twin, zero, key};
        PyObject *row =
            zero == NULL ? NULL : mg_record_call(capture, MG_NODE_FUNCTION, select_function, arguments, 3, NULL);
        Py_XDECREF(zero);
        return row;
    }
    PyObject *result = record_operator(capture, "getitem", args, 2);
    if (result != NULL && capture->node_count > before && is_plain_key(key)) {
        capture->nodes[capture->node_count - 1].is_part = 1; /* left out if nobody uses it */
    }
    return result;
}

int
mg_record_setitem(MgCapture *capture, PyObject *twin, PyObject *key, PyObject *value)
{
    if (value == NULL) {
        return mg_capture_abort(capture, MG_REASON_OPERATION_FAILED, "deleting an item of a tensor");
    }
    PyObject *args[3] = {twin, key, value};
    PyObject *result = record_operator(capture, "setitem", args, 3);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

Py_ssize_t
mg_record_length(MgCapture *capture, PyObject *object)
{
    MgTwin *twin = mg_twin_of(object);
    if (mg_record_input(capture, object) < 0 ||
        mg_tensor_class_check_special(capture, object, MG_STRING("__len__")) < 0) {
        return -1;
    }
    if (twin->meta->dim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    PyObject *size = PyTuple_GET_ITEM(twin->meta->sizes, 0);
    if (!PyLong_CheckExact(size)) {
        return mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "the length of a tensor");
    }
    return PyLong_AsSsize_t(size);
}

PyObject *
mg_record_len(MgCapture *capture, PyObject *object)
{
    MgMeta *meta = mg_twin_of(object)->meta;
    if (meta->dim > 0 && !PyLong_CheckExact(PyTuple_GET_ITEM(meta->sizes, 0))) {
        PyObject *zero = PyLong_FromLong(0), *args[2] = {object, zero};
        PyObject *result =
            zero == NULL ? NULL : mg_record_call(capture, MG_NODE_METHOD, MG_STRING("size"), args, 2, NULL);
        Py_XDECREF(zero);
        return result;
    }
    Py_ssize_t length = mg_record_length(capture, object);
    return length < 0 ? NULL : PyLong_FromSsize_t(length);
}

PyObject *
mg_record_iter(MgCapture *capture, PyObject *object)
{
    if (mg_tensor_class_check_special(capture, object, MG_STRING("__iter__")) < 0) {
        return NULL;
    }
    if (mg_twin_of(object)->meta->dim == 0) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
        return NULL;
    }
    /* one getitem for each row, as TorchDynamo records it */
    Py_ssize_t size = mg_record_length(capture, object);
    PyObject *rows = size < 0 ? NULL : PyTuple_New(size);
    for (Py_ssize_t i = 0; rows != NULL && i < size; i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        PyObject *row = index == NULL ? NULL : mg_record_getitem(capture, object, index);
        Py_XDECREF(index);
        if (row == NULL) {
            Py_CLEAR(rows);
            break;
        }
        if (mg_is_twin(row) && (mg_twin_of(row)->meta->flags & MG_META_REQUIRES_GRAD)) {
            mg_twin_of(row)->row = capture->steps;
        }
        PyTuple_SET_ITEM(rows, i, row);
    }
    PyObject *iterator = rows == NULL ? NULL : PyObject_GetIter(rows);
    Py_XDECREF(rows);
    return iterator;
}

PyObject *
mg_record_iter_slot(PyObject *twin)
{
    MgCapture *capture = mg_capture_current;
    if (capture == NULL || mg_twin_of(twin)->capture != capture->number) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor of a finished capture was used");
        return NULL;
    }
    return mg_record_iter(capture, twin);
}

/* ---- attributes ---- */

/* 1 if the class attribute is something to call, 0 if it is a value to get. */
static int
is_method(PyObject *found)
{
    return PyFunction_Check(found) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
           Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyStaticMethod_Type) ||
           Py_IS_TYPE(found, &PyClassMethod_Type);
}

/* A method of a tensor, as `x.add` gives it: of C code a builtin that is bound to it. New. */
static PyObject *
bind_method(MgCapture *capture, PyObject *object, PyObject *name, PyObject *found)
{
    if (Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type)) {
        return mg_world_getattr(capture, (PyObject *)mg_tensor_class_of(mg_twin_of(object)), name);
    }
    PyObject *tensor = mg_twin_original(object); /* two that are bound to one tensor are equal */
    return Py_TYPE(found)->tp_descr_get(found, tensor, (PyObject *)Py_TYPE(tensor));
}

/* The gradient of a leaf: another outside tensor, or None. */
static PyObject *
read_grad(MgCapture *capture, MgTwin *twin)
{
    capture->asks_leaves = 1;
    if (twin->meta->flags & MG_META_NON_LEAF) {
        mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "grad");
        return NULL;
    }
    if (twin->real == NULL) { /* made by captured code, which can't go backward */
        return Py_NewRef(Py_None);
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_GRAD, twin->source, NULL, 0);
    PyObject *grad = source == NULL ? NULL : mg_source_load(source, twin->real, NULL);
    return grad == NULL ? NULL : mg_world_reach(capture, grad, source);
}

PyObject *
mg_record_getattr(MgCapture *capture, PyObject *object, PyObject *name)
{
    MgTwin *twin = mg_twin_of(object);
    if (twin->capture != capture->number) {
        mg_capture_abort(capture, MG_REASON_LOST_TENSOR, "a tensor of another capture");
        return NULL;
    }
    if (mg_record_input(capture, object) < 0) {
        return NULL;
    }
    MgMeta *meta = twin->meta;
    int is_own;
    PyObject *value, *found = mg_tensor_class_find(capture, twin, name, &is_own);
    if (is_own < 0) {
        return NULL;
    }
    if (found == NULL || Py_TYPE(found)->tp_descr_set == NULL) { /* the tensor's own comes first */
        int has = mg_tensor_own_attribute(capture, twin, name, &value);
        if (has != 0) {
            return has < 0 ? NULL : value;
        }
    }
    if (found != NULL && !is_own) {
        return mg_tensor_class_get(capture, object, name, found);
    }
    if (PyUnicode_CompareWithASCIIString(name, "shape") == 0) {
        return meta->fake == NULL ? Py_NewRef(meta->sizes)
                                  : mg_record_call(capture, MG_NODE_METHOD, MG_STRING("size"), &object, 1, NULL);
    }
    if (PyUnicode_CompareWithASCIIString(name, "dtype") == 0) {
        return Py_NewRef(meta->dtype);
    }
    if (PyUnicode_CompareWithASCIIString(name, "device") == 0) {
        return Py_NewRef(meta->device);
    }
    if (PyUnicode_CompareWithASCIIString(name, "ndim") == 0) {
        return PyLong_FromLong(meta->dim);
    }
    if (PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0) {
        return PyBool_FromLong(meta->flags & MG_META_REQUIRES_GRAD);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
        return Py_NewRef((PyObject *)(meta->flags & MG_META_PARAMETER ? mg_torch.parameter : mg_torch.tensor));
    }
    if (PyUnicode_CompareWithASCIIString(name, "data") == 0) {
        return mg_record_call(capture, MG_NODE_FUNCTION, get_data, &object, 1, NULL);
    }
    if (PyUnicode_CompareWithASCIIString(name, "grad") == 0) {
        return read_grad(capture, twin);
    }
    if (found == NULL) {
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'",
                     meta->flags & MG_META_PARAMETER ? "Parameter" : "Tensor", name);
        return NULL;
    }
    if (is_method(found)) {
        return bind_method(capture, object, name, found);
    }
    if (Py_TYPE(found)->tp_descr_get == NULL) { /* a plain value on the class */
        return Py_NewRef(found);
    }
    if (!mg_rules_is_tensor_attribute(name)) { /* it depends on more than the metadata */
        mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "%U", name);
        return NULL;
    }
    PyObject *args[2] = {object, name};
    return mg_record_call(capture, MG_NODE_FUNCTION, getattr_function, args, 2, NULL);
}

int
mg_record_get_method(MgCapture *capture, PyObject *object, PyObject *name, PyObject **method)
{
    int is_own;
    PyObject *found = mg_tensor_class_find(capture, mg_twin_of(object), name, &is_own);
    *method = NULL;
    if (is_own < 0) {
        return 0;
    }
    if (found != NULL && is_method(found) && !Py_IS_TYPE(found, &PyStaticMethod_Type) &&
        !Py_IS_TYPE(found, &PyClassMethod_Type)) {
        int has = mg_tensor_own_attribute(capture, mg_twin_of(object), name, method);
        if (has != 0) {
            return 0;
        }
        *method = Py_NewRef(found);
        return 1;
    }
    *method = mg_record_getattr(capture, object, name);
    return 0;
}

int
mg_record_setattr(MgCapture *capture, PyObject *object, PyObject *name, PyObject *value)
{
    (void)object;
    (void)value;
    return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of a tensor", name);
}

/* ---- torch functions called from C ---- */

PyObject *
mg_record_torch_function(PyObject *const *args, Py_ssize_t count)
{
    MgCapture *capture = mg_capture_current;
    if (count < 3 || !PyTuple_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "__torch_function__ needs func, types, args and kwargs");
        return NULL;
    }
    if (capture == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor of a finished capture was used");
        return NULL;
    }
    PyObject *function = args[0], *kwargs = count > 3 && args[3] != Py_None ? args[3] : NULL;
    /* a getter or setter of an attribute: the bound __get__ or __set__ of its descriptor */
    PyObject *self = mg_aside_getattr(function, MG_STRING("__self__"));
    if (self == NULL) {
        mg_error_clear();
    }
    else if (Py_IS_TYPE(self, &PyGetSetDescr_Type) || Py_IS_TYPE(self, &PyProperty_Type)) {
        PyObject *result = NULL;
        PyObject *name = Py_IS_TYPE(self, &PyGetSetDescr_Type) ? Py_NewRef(PyDescr_NAME(self))
                                                               : mg_aside_getattr(self, MG_STRING("__name__"));
        PyObject *wrapper = mg_aside_getattr(function, MG_STRING("__name__"));
        Py_DECREF(self);
        if (name != NULL && wrapper != NULL && PyUnicode_CompareWithASCIIString(wrapper, "__get__") == 0) {
            result = mg_record_getattr(capture, PyTuple_GET_ITEM(args[2], 0), name);
        }
        else {
            mg_capture_abort(capture, MG_REASON_STORE, "an attribute of a tensor");
        }
        Py_XDECREF(name);
        Py_XDECREF(wrapper);
        return result;
    }
    else {
        Py_DECREF(self);
    }
    Py_ssize_t given = PyTuple_GET_SIZE(args[2]);
    if (Py_IS_TYPE(function, &PyMethodDescr_Type) && given == 2 && kwargs == NULL) { /* C code that adds, and so on */
        PyObject *operation = mg_rules_operator_of(PyDescr_NAME(function));
        if (operation != NULL || PyErr_Occurred()) {
            return operation == NULL ? NULL
                                     : mg_record_call(capture, MG_NODE_FUNCTION, operation,
                                                      ((PyTupleObject *)args[2])->ob_item, 2, NULL);
        }
    }
    Py_ssize_t names = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
    PyObject **stack = PyMem_Calloc((size_t)(given + names) + 1, sizeof(PyObject *));
    PyObject *kwnames = names == 0 ? NULL : PyTuple_New(names);
    PyObject *result = NULL;
    if (stack != NULL && (names == 0 || kwnames != NULL)) {
        for (Py_ssize_t i = 0; i < given; i++) {
            stack[i] = PyTuple_GET_ITEM(args[2], i);
        }
        Py_ssize_t position = 0, i = 0;
        PyObject *key, *value;
        while (names > 0 && PyDict_Next(kwargs, &position, &key, &value)) {
            PyTuple_SET_ITEM(kwnames, i, Py_NewRef(key));
            stack[given + i++] = value;
        }
        result = mg_rules_call(capture, function, stack, (size_t)given, kwnames);
    }
    PyMem_Free(stack);
    Py_XDECREF(kwnames);
    return result;
}
