/* Recording: operations on twins become nodes of a graph.
 *
 * What an operation returns is asked of the propagation cache, whose key is the target, the metadata of the tensors and
 * the other arguments; on a miss, of the operation's shape function (shape.c), and if that declines of FakeTensorMode,
 * through a function in Python. A result with no tensor in it was a question about metadata: it is a plain value, and
 * there is no node. An operation that fails is not recorded at all: capture ends before it, and the program gets its
 * error from running it. */
#include "record/record.h"

#include "capture/recover.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "entry/storage.h"
#include "capture/varying.h"
#include "ir/dimobject.h"
#include "ir/alias.h"
#include "record/arguments.h"
#include "record/arithmetic.h"
#include "record/fallback.h"
#include "record/number.h"
#include "record/operator.h"
#include "record/overridden.h"
#include "record/parts.h"
#include "record/shape/shape.h"
#include "record/subgraph.h"
#include "record/symbol.h"
#include "torch/kernels.h"
#include "torch/kinds.h"
#include "torch/state.h"
#include "torch/typekind.h"
#include "base/vector.h"

static PyObject *propagate;       /* strong: (kind, target, args, kwargs, inputs, expected) -> an MgOutcome */
static PyObject *cache;           /* strong: key -> an MgOutcome that is known */
static PyObject *scalar_function; /* strong: torch.scalar_tensor */
static PyObject *double_type;     /* strong: torch.float64 */
static PyObject *cpu_device;      /* strong: torch.device("cpu") */
static MgKernels kernels;         /* the registered kernels that the cache's outcomes rest on */
static int self_check;            /* compare every answer of the cache with FakeTensorMode's */

enum { LONGEST_KEY = 4096, MOST_KEYS = 1 << 17 };

int
mg_record_init(PyObject *function)
{
    Py_XSETREF(propagate, Py_NewRef(function));
    if (cache == NULL) {
        cache = PyDict_New();
    }
    if (scalar_function == NULL) {
        PyObject *torch = mg_aside_import("torch");
        scalar_function = torch == NULL ? NULL : PyObject_GetAttrString(torch, "scalar_tensor");
        double_type = torch == NULL ? NULL : PyObject_GetAttrString(torch, "float64");
        cpu_device = torch == NULL ? NULL : PyObject_CallFunction((PyObject *)mg_torch.device, "s", "cpu");
        Py_XDECREF(torch);
    }
    self_check = getenv("MAGNETO_CHECK_PROPAGATION") != NULL;
    return mg_kernels_init() < 0 || cache == NULL || scalar_function == NULL || double_type == NULL ||
                   cpu_device == NULL
               ? MG_ERR
               : MG_OK;
}

int
mg_record_forget(void)
{
    if (cache != NULL) {
        PyDict_Clear(cache);
    }
    return mg_meta_sweep();
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
    if (MG_UNLIKELY(capture->graph.node_count + 1 == capture->breaks.stop_node)) {
        mg_node_clear(&node);
        capture->breaks.is_exact = 1;
        capture->breaks.stop_node = 0; /* what the entry itself needs may still be added */
        return mg_capture_abort(capture, capture->breaks.stop_reason, NULL);
    }
    if (MG_VECTOR_RESERVE(capture->graph.nodes, capture->graph.node_count, capture->graph.node_room, 256) < 0) {
        mg_node_clear(&node);
        return -1;
    }
    assert(node.kind == MG_NODE_INPUT ? node.args == NULL : node.args != NULL && node.target != NULL);
    capture->graph.nodes[capture->graph.node_count] = node;
    return capture->graph.node_count++;
}

PyObject *
mg_record_new_ref(int index)
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
    if (mg_storage_meet(capture, twin) < 0 || (twin->is_part && mg_parts_note(capture, MG_PARTS_GIVEN) < 0)) {
        return MG_ERR;
    }
    twin->node = add_node(capture, (MgNode){.kind = MG_NODE_INPUT,
                                            .value = Py_NewRef((PyObject *)twin->meta),
                                            .source = twin->source,
                                            .real = Py_XNewRef(twin->real)});
    return twin->node < 0 ? MG_ERR : MG_OK;
}

int
mg_record_placeholder(MgCapture *capture, PyObject *meta)
{
    return add_node(capture, (MgNode){.kind = MG_NODE_INPUT, .value = Py_NewRef(meta)});
}

int
mg_record_number_input(MgCapture *capture, MgSource *source, PyObject *value)
{
    return add_node(capture, (MgNode){.kind = MG_NODE_INPUT, .value = Py_NewRef(value), .source = source});
}

int
mg_record_number(MgCapture *capture, PyObject *target, PyObject *args, PyObject *value)
{
    int node = add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                          .target = Py_NewRef(target),
                                          .args = Py_NewRef(args),
                                          .value = Py_NewRef(value),
                                          .is_part = 1,
                                          .is_number = 1,
                                          .repeats = MG_REPEATS,
                                          .stack = mg_capture_stack(capture)});
    for (Py_ssize_t i = 0; node >= 0 && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *arg = PyTuple_GET_ITEM(args, i);
        if (Py_IS_TYPE(arg, &MgRef_Type)) {
            capture->graph.nodes[((MgRef *)arg)->index].users++;
        }
    }
    return node;
}

void
mg_record_name(MgCapture *capture, PyObject *value, PyObject *name)
{
    if (value != NULL && mg_is_twin(value)) {
        int node = mg_twin_node(value);
        if (node >= 0 && mg_twin_of(value)->capture == capture->number &&
            capture->graph.nodes[node].kind != MG_NODE_INPUT && capture->graph.nodes[node].name == NULL) {
            capture->graph.nodes[node].name = Py_NewRef(name);
        }
    }
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
mg_record_refuse(MgCapture *capture, const MgOutcome *outcome)
{
    static const MgReason reasons[MG_OUTCOME_KINDS] = {
        [MG_OUTCOME_DATA_DEPENDENT] = MG_REASON_DATA_DEPENDENT,
        [MG_OUTCOME_UNSUPPORTED] = MG_REASON_RESULT,
        [MG_OUTCOME_RAISES] = MG_REASON_OPERATION_FAILED,
    };
    assert(outcome->kind != MG_OUTCOME_KNOWN);
    mg_capture_abort(capture, reasons[outcome->kind], "%U", outcome->why);
}

/* Asks the propagation function. `expected` is what the cache said, to be checked, or NULL. New. */
static MgOutcome *
ask(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins, MgOutcome *expected)
{
    PyObject *inputs = describe_twins(twins);
    if (inputs == NULL) {
        return NULL;
    }
    MgAside aside;
    mg_aside_begin_operation(&aside);
    MgOutcome *fresh = mg_outcome_check(PyObject_CallFunction(propagate, "iOOOOO", (int)kind, target, args,
                                                              kwargs == NULL ? Py_None : kwargs, inputs,
                                                              expected == NULL ? Py_None : (PyObject *)expected));
    mg_aside_end(&aside);
    Py_DECREF(inputs);
    if (fresh == NULL) { /* what the operation raises is a refusal */
        mg_recover_interrupt(mg_capture_current);
    }
    return fresh;
}

/* The outcome of an operation by its shape function, or if that does not know from Python. New. */
static MgOutcome *
fresh_outcome(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins, PyObject *key)
{
    PyObject *inputs = describe_twins(twins);
    if (inputs == NULL) {
        return NULL;
    }
    MgOutcome *outcome = mg_shape_outcome(kind, target, args, kwargs, inputs, PyTuple_GET_ITEM(key, 1), NULL);
    Py_DECREF(inputs);
    if (outcome == NULL) {
        return PyErr_Occurred() ? NULL : ask(kind, target, args, kwargs, twins, NULL);
    }
    if (self_check && outcome->kind == MG_OUTCOME_KNOWN) {
        Py_SETREF(outcome, ask(kind, target, args, kwargs, twins, outcome));
    }
    return outcome;
}

/* Whether an operation returns the same for the same metadata at any time. What somebody allowed in graphs may read
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

/* The outcome of an operation without symbols, from the cache or made anew. New. */
static MgOutcome *
outcome_of(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *twins, PyObject *key,
           int added)
{
    if (MG_UNLIKELY(added)) {
        return ask(kind, target, args, kwargs, twins, NULL);
    }
    if (MG_UNLIKELY(mg_kernels_renew(&kernels))) {
        PyDict_Clear(cache);
    }
    MgOutcome *outcome = (MgOutcome *)PyDict_GetItemWithError(cache, key);
    if (outcome != NULL) {
        return self_check ? ask(kind, target, args, kwargs, twins, outcome) : (MgOutcome *)Py_NewRef(outcome);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    MgOutcome *fresh = fresh_outcome(kind, target, args, kwargs, twins, key);
    if (fresh != NULL && fresh->kind == MG_OUTCOME_KNOWN && PyTuple_GET_SIZE(key) <= LONGEST_KEY && is_torchs(target)) {
        if (PyDict_GET_SIZE(cache) >= MOST_KEYS) {
            PyDict_Clear(cache);
        }
        if (PyDict_SetItem(cache, key, (PyObject *)fresh) < 0) {
            Py_CLEAR(fresh);
        }
    }
    return fresh;
}

/* What an operation returns for sizes that vary: asked for once in a capture, since it rests on what is decided there. New; NULL
 * without an exception if neither a shape function nor torch knows. */
static MgOutcome *
varying_outcome(MgMapping *mapping, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *key)
{
    MgVaryings *varying = &mapping->capture->varying;
    if (varying->outcomes == NULL && (varying->outcomes = PyDict_New()) == NULL) {
        return NULL;
    }
    MgOutcome *outcome = (MgOutcome *)PyDict_GetItemWithError(varying->outcomes, key);
    if (outcome != NULL || PyErr_Occurred()) {
        return (MgOutcome *)Py_XNewRef((PyObject *)outcome);
    }
    PyObject *inputs = describe_twins(mapping->twins);
    outcome = inputs == NULL || mapping->added
                  ? NULL
                  : mg_shape_outcome(kind, target, args, kwargs, inputs, PyTuple_GET_ITEM(key, 1), &varying->facts);
    if (outcome == NULL && !PyErr_Occurred()) {
        outcome = mg_fallback_outcome(mapping->capture, kind, target, args, kwargs, inputs);
    }
    Py_XDECREF(inputs);
    if (outcome != NULL && outcome->kind == MG_OUTCOME_KNOWN && !mapping->added && is_torchs(target) &&
        PyDict_SetItem(varying->outcomes, key, (PyObject *)outcome) < 0) {
        Py_CLEAR(outcome);
    }
    return outcome;
}

/* The outcome of an operation with values that depend on data. New; NULL if it can't be captured, or, without an exception, if
 * sizes among its arguments must not vary. */
static MgOutcome *
run_session(MgMapping *mapping, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs)
{
    PyObject *numbers = mapping->numbers == NULL ? PyList_New(0) : Py_NewRef(mapping->numbers);
    MgOutcome *outcome = numbers == NULL ? NULL
                                         : mg_symbol_run(mapping->capture, kind, target, args, kwargs, mapping->twins,
                                                         numbers, mapping->varies);
    Py_XDECREF(numbers);
    return outcome;
}

/* The outcome of an operation, which is known. New; NULL if it can't be captured, or, if *again is set, if its arguments have to
 * be mapped again: sizes that vary have become numbers. `before` is what was known before that. */
static MgOutcome *
find_varying_outcome(MgMapping *mapping, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs,
                     MgFacts *before, int *again)
{
    MgCapture *capture = mapping->capture;
    MgOutcome *outcome = NULL;
    int depends = mapping->symbolic;
    if (!depends) {
        PyObject *key = PyList_AsTuple(mapping->key);
        outcome = key == NULL ? NULL : varying_outcome(mapping, kind, target, args, kwargs, key);
        Py_XDECREF(key);
        depends = outcome != NULL && outcome->kind == MG_OUTCOME_DATA_DEPENDENT &&
                  (capture->symbols.allow_scalars || capture->symbols.allow_shapes);
        if (outcome != NULL && outcome->kind != MG_OUTCOME_KNOWN) {
            if (!depends) {
                mg_record_refuse(capture, outcome);
            }
            Py_CLEAR(outcome);
        }
        if (outcome != NULL && PyTuple_GET_SIZE(outcome->written) > 0 &&
            mg_symbol_written(capture, mapping->twins, outcome->written) < 0) {
            Py_CLEAR(outcome);
        }
    }
    if (depends) { /* symbols of torch's, for the sizes that vary as well */
        outcome = run_session(mapping, kind, target, args, kwargs);
    }
    if (outcome == NULL && !PyErr_Occurred()) {
        *again = mg_facts_copy(&capture->varying.facts, before) == MG_OK &&
                 mg_record_specialize(mapping, args, kwargs) == MG_OK;
    }
    return outcome;
}

/* The outcome of an operation, which is known. New; NULL if it can't be captured. */
static MgOutcome *
find_outcome(MgMapping *mapping, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs)
{
    MgCapture *capture = mapping->capture;
    MgOutcome *outcome = NULL;
    if (!mapping->symbolic) {
        PyObject *key = PyList_AsTuple(mapping->key);
        outcome = key == NULL ? NULL : outcome_of(kind, target, args, kwargs, mapping->twins, key, mapping->added);
        Py_XDECREF(key);
        if (outcome == NULL || outcome->kind == MG_OUTCOME_KNOWN) {
            if (outcome != NULL && PyTuple_GET_SIZE(outcome->written) > 0 &&
                mg_symbol_written(capture, mapping->twins, outcome->written) < 0) {
                Py_CLEAR(outcome);
            }
            return outcome;
        }
        if (outcome->kind != MG_OUTCOME_DATA_DEPENDENT ||
            (!capture->symbols.allow_scalars && !capture->symbols.allow_shapes)) {
            mg_record_refuse(capture, outcome);
            Py_DECREF(outcome);
            return NULL;
        }
        Py_DECREF(outcome); /* its result depends on data: a symbol */
    }
    return run_session(mapping, kind, target, args, kwargs);
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

/* 1 if the state has gradients on: see _READERS in _rules.py. */
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
    for (Py_ssize_t i = 0; capture->graph.foreign && has_grad_mode(capture->torch.state) && i < PyList_GET_SIZE(twins);
         i++) {
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
    int leaf = wrapping->capture->graph.foreign && (flags & MG_META_REQUIRES_GRAD) && !(flags & MG_META_NON_LEAF);
    if (leaf && !is_view_of_grad(wrapping)) {
        mg_capture_abort(wrapping->capture, MG_REASON_BACKEND, "a new leaf that requires grad");
        return NULL;
    }
    PyObject *object = mg_twin_new((MgMeta *)meta, wrapping->capture->number);
    if (object == NULL) {
        return NULL;
    }
    mg_twin_of(object)->node = node;
    if (flags & MG_META_WRAPPER) {
        mg_twin_of(object)->type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(((MgMeta *)meta)->fake));
    }
    mg_twin_of(object)->gradless = leaf && has_grad_mode(wrapping->capture->torch.entry_state);
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
    PyObject *target = Py_XNewRef(mg_arithmetic_function("getitem"));
    PyObject *ref = mg_record_new_ref(node);
    PyObject *args = ref == NULL || target == NULL ? NULL : Py_BuildValue("(On)", ref, index);
    Py_XDECREF(ref);
    if (args == NULL) {
        Py_XDECREF(target);
        return NULL;
    }
    capture->graph.nodes[node].users++;
    int part = add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                          .target = target,
                                          .args = args,
                                          .value = Py_NewRef(item),
                                          .is_part = 1,
                                          .stack = Py_XNewRef(capture->graph.nodes[node].stack)});
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
    if (Py_TYPE(result) == &MgRef_Type) { /* the operation returns one of its arguments */
        PyObject *same = PyList_GetItem(wrapping->twins, ((MgRef *)result)->index);
        if (same == NULL) {
            return NULL;
        }
        Py_SETREF(wrapping->capture->graph.nodes[node].value, Py_NewRef((PyObject *)mg_twin_of(same)->meta));
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
    if (!capture->graph.foreign) {
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
        if (twin->source != NULL && twin->meta->varies && mg_number_specialize(capture, twin->meta->sizes) < 0) {
            return MG_ERR; /* what a failed run has left of it could not be told */
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

/* Whether this is a class of tensors: torch.Tensor, torch.FloatTensor, ... */
static int
makes_tensors(PyObject *target)
{
    return PyType_Check(target) &&
           (PyType_IsSubtype((PyTypeObject *)target, mg_torch.base) || Py_IS_TYPE(target, mg_kinds.tensor_type));
}

/* Graphs hold a torch.Size as a tuple, and torch's oldest constructors take a tuple for data: `x.new(size)` is recorded
 * as `x.new_empty(size)`, as TorchDynamo does, and `x.new(size, device=...)`, which checks the device, and
 * `torch.Tensor(size)` with the name of what is given. The arguments stay where they are. New: the names of the last
 * arguments, None if there is none; NULL with an exception. */
static PyObject *
name_size(MgNodeKind kind, PyObject **target, PyObject *const *args, Py_ssize_t *count, PyObject *kwnames)
{
    Py_ssize_t given = *count;
    if (given > 0 && Py_IS_TYPE(args[given - 1], mg_torch.size)) {
        int method = kind == MG_NODE_METHOD && given == 2 && PyUnicode_CompareWithASCIIString(*target, "new") == 0;
        if (method && kwnames == NULL) {
            *target = MG_STRING("new_empty");
        }
        else if (method || (kind == MG_NODE_FUNCTION && given == 1 && makes_tensors(*target))) {
            PyObject *name = Py_BuildValue("(s)", "size");
            PyObject *names = name == NULL || kwnames == NULL ? Py_XNewRef(name) : PySequence_Concat(name, kwnames);
            Py_XDECREF(name);
            *count = given - 1;
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
        if (row > 0 && (capture->finals.dropped == 0 || row < capture->finals.dropped)) {
            capture->finals.dropped = row;
        }
    }
}

/* The same where a row is written to, of which only autograd knows that it fails. MG_OK or MG_ERR. */
static int
check_rows(MgCapture *capture, PyObject *written, PyObject *twins)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
        PyObject *twin = PyList_GET_ITEM(twins, PyLong_AsSsize_t(PyTuple_GET_ITEM(written, i)));
        if (mg_twin_of(twin)->row > 0 && has_grad_mode(capture->torch.state)) {
            stop_before_rows(capture, twins);
            return mg_capture_abort(capture, MG_REASON_OPERATION_FAILED, "a row of a tensor is written to");
        }
    }
    return MG_OK;
}

/* What an operation returns that returns the very list it got, as torch._foreach_abs_ and its kin do; borrowed.
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

/* MG_ERR for a recurrent layer that AOTAutograd would do otherwise than eager (TorchDynamo captures none). In training, torch's
 * decompositions leave out the dropout between layers, and LSTMs are computed on CPUs by oneDNN, which keeps for the gradients
 * what can't be saved. */
static int
check_recurrent(MgCapture *capture, PyObject *target, PyObject *value, PyObject *const *args, Py_ssize_t count)
{
    int is_lstm = mg_record_is_named(target, "lstm");
    if (!capture->graph.foreign || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) == 0 ||
        !Py_IS_TYPE(PyTuple_GET_ITEM(value, 0), &MgMeta_Type) ||
        !(is_lstm || mg_record_is_named(target, "gru") || mg_record_is_named(target, "rnn_tanh") ||
          mg_record_is_named(target, "rnn_relu"))) {
        return MG_OK;
    }
    const MgMeta *output = (const MgMeta *)PyTuple_GET_ITEM(value, 0);
    int packed = is_lstm ? count > 1 && mg_is_twin(args[1]) : count > 2 && mg_is_twin(args[2]); /* with batch sizes */
    int at = packed ? 6 : 5;                                                                    /* dropout, training */
    int drops =
        count > at + 1 && PyFloat_CheckExact(args[at]) && PyFloat_AS_DOUBLE(args[at]) != 0 && args[at + 1] == Py_True;
    int saves = is_lstm && !packed && mg_shape_is_cpu(output->device) && (output->flags & MG_META_REQUIRES_GRAD);
    return drops || saves ? mg_capture_abort(capture, MG_REASON_BACKEND, "a recurrent layer in training") : MG_OK;
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
    if (!capture->graph.foreign || length < 2 || name[length - 1] != '_' || name[length - 2] == '_' || count == 0) {
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

/* The arguments of an operation as they are mapped, and what came of it. */
typedef struct {
    MgMapping mapping;
    PyObject *args, *kwargs; /* strong */
    MgOutcome *outcome;      /* strong: known */
    MgOutcome *given;        /* borrowed: the same, if it was known before; or NULL */
} Operation;

static void
clear_operation(Operation *operation)
{
    Py_CLEAR(operation->mapping.key);
    Py_CLEAR(operation->mapping.twins);
    Py_CLEAR(operation->mapping.aliases);
    Py_CLEAR(operation->mapping.numbers);
    Py_CLEAR(operation->args);
    Py_CLEAR(operation->kwargs);
    Py_CLEAR(operation->outcome);
}

/* Maps the arguments of an operation, and finds its outcome. MG_OK or MG_ERR. */
static int
work_out(Operation *operation, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
         PyObject *kwnames, PyObject *state)
{
    MgMapping *mapping = &operation->mapping;
    MgCapture *capture = mapping->capture;
    MgFacts before = {0};
    int again = 1;
    for (int tries = 0; again && tries < 2; tries++) {
        clear_operation(operation);
        mapping->varies = mapping->containers = again = 0;
        mapping->symbolic = PyType_Check(target) && mg_kind_is_wrapper((PyTypeObject *)target);
        mapping->key = PyList_New(0);
        mapping->twins = mapping->key == NULL ? NULL : PyList_New(0);
        if (mapping->twins == NULL || mg_record_key_add(mapping, target) < 0 || mg_record_key_add(mapping, state) < 0 ||
            mg_record_map_arguments(mapping, args, count, kwnames, &operation->args, &operation->kwargs) < 0 ||
            mapping->overridden || check_gradless(capture, mapping->twins) < 0 ||
            mg_shape_add_settings(target, mapping->key) < 0) {
            mg_facts_free(&before);
            return MG_ERR;
        }
        if (operation->given != NULL) {
            operation->outcome = (MgOutcome *)Py_NewRef((PyObject *)operation->given);
            continue;
        }
        operation->outcome = mapping->varies ? find_varying_outcome(mapping, kind, target, operation->args,
                                                                    operation->kwargs, &before, &again)
                                             : find_outcome(mapping, kind, target, operation->args, operation->kwargs);
    }
    if (before.symbol_count > 0 &&
        operation->outcome == NULL) { /* it is no part of the graph, and says nothing of sizes */
        mg_facts_free(&capture->varying.facts);
        capture->varying.facts = before;
    }
    else {
        mg_facts_free(&before);
    }
    return operation->outcome == NULL ? MG_ERR : MG_OK;
}

/* Adds the node of an operation that is known. Its index, or -1. */
static int
add_operation(MgCapture *capture, MgNodeKind kind, PyObject *target, Operation *operation, int has_tensors)
{
    MgMapping *mapping = &operation->mapping;
    MgOutcome *outcome = operation->outcome;
    mg_record_use_aliases(mapping);
    if (mapping->varies) { /* nodes for the sizes among the arguments */
        PyObject *args = mg_number_refer(capture, operation->args);
        PyObject *kwargs =
            args == NULL || operation->kwargs == NULL ? NULL : mg_number_refer(capture, operation->kwargs);
        if (args == NULL || (kwargs == NULL && operation->kwargs != NULL)) {
            Py_XDECREF(args);
            return -1;
        }
        Py_SETREF(operation->args, args);
        Py_XSETREF(operation->kwargs, kwargs);
    }
    assert(outcome->kind == MG_OUTCOME_KNOWN && capture->reason == MG_REASON_NONE);
    int node = add_node(capture, (MgNode){.kind = kind,
                                          .target = Py_NewRef(target),
                                          .args = Py_NewRef(operation->args),
                                          .kwargs = Py_XNewRef(operation->kwargs),
                                          .value = Py_NewRef(outcome->result),
                                          .bindings = Py_XNewRef(outcome->bindings),
                                          .is_part = !has_tensors && outcome->result != Py_None, /* only a number */
                                          .stack = mg_capture_stack(capture)});
    for (Py_ssize_t i = 0; node >= 0 && i < PyTuple_GET_SIZE(outcome->written); i++) {
        PyObject *twin = PyList_GET_ITEM(mapping->twins, PyLong_AsSsize_t(PyTuple_GET_ITEM(outcome->written, i)));
        assert(mg_twin_of(twin)->node >= 0 && mg_twin_of(twin)->node < node);
        capture->graph.nodes[node].writes |= mg_twin_is_shared(mg_twin_of(twin));
        mg_storage_note(capture, mg_twin_of(twin), MG_CHANGED_DATA);
    }
    for (Py_ssize_t i = 0; node >= 0 && i < PyList_GET_SIZE(mapping->twins); i++) {
        capture->graph.nodes[mg_twin_of(PyList_GET_ITEM(mapping->twins, i))->node].users++;
    }
    for (Py_ssize_t i = 0; node >= 0 && mapping->numbers != NULL && i < PyList_GET_SIZE(mapping->numbers); i++) {
        capture->graph.nodes[mg_symbol_node(PyList_GET_ITEM(mapping->numbers, i))].users++;
    }
    return node;
}

/* Records an operation, see mg_record_call and mg_record_known. New. */
static PyObject *
record(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
       PyObject *kwnames, MgOutcome *known)
{
    PyObject *result = NULL;
    Operation operation = {.mapping = {.capture = capture}, .given = known};
    MgMapping *mapping = &operation.mapping;
    PyObject *state = mg_capture_state_key(mg_capture_current);
    PyObject *names = state == NULL ? NULL : name_size(kind, &target, args, &count, kwnames);
    kwnames = names == Py_None ? NULL : names;
    mapping->infers = mg_record_infers_dtype(kind, target, kwnames);
    mapping->takes = capture->graph.foreign && kind == MG_NODE_METHOD && PyUnicode_Check(target) &&
                     PyUnicode_CompareWithASCIIString(target, "new_tensor") == 0; /* AOTAutograd cuts ints to 32 bits */
    mapping->stores = kind == MG_NODE_FUNCTION && mg_record_is_named(target, "setitem");
    mapping->added = names == NULL ? MG_ERR : mg_operator_check(capture, target);
    if (mapping->added < 0 || mg_tracer.check_operands(capture, target, args, count) < 0 ||
        check_in_place(capture, target, args, count) < 0) {
        goto done;
    }
    if (mg_overridden_is(capture, args, count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)))) {
        result = mg_overridden_call(capture, kind, target, args, count, kwnames);
        goto done;
    }
    int status = work_out(&operation, kind, target, args, count, kwnames, state);
    MgOutcome *outcome = operation.outcome;
    if (MG_UNLIKELY(mapping->overridden) && !PyErr_Occurred()) { /* a tensor in a container */
        result = mg_overridden_call(capture, kind, target, args, count, kwnames);
        goto done;
    }
    if (outcome == NULL || PyTuple_GET_SIZE(outcome->changes) > 0 || PyTuple_GET_SIZE(outcome->written) > 0 ||
        !mg_shape_ignores_leaves(kind, target, operation.args)) {
        capture->graph.asks_leaves =
            1; /* what is no leaf, or a view of none, can be written to; a leaf has a gradient */
    }
    if (status < 0) {
        if (capture->reason == MG_REASON_OPERATION_FAILED && mapping->twins != NULL) {
            stop_before_rows(capture, mapping->twins);
        }
        goto done;
    }
    PyObject *value = outcome->result;
    int tensors = has_tensor(value);
    if (value != Py_None && !tensors && !has_symbol(value) && mapping->added) {
        mg_capture_abort(capture, MG_REASON_RESULT, "an operator that returns no tensor");
        goto done;
    }
    if (value != Py_None && !tensors && !has_symbol(value)) { /* a question about metadata */
        result = PyList_Check(value)
                     ? PyList_GetSlice(value, 0, PyList_GET_SIZE(value)) /* the cache's stays as it is */
                 : mapping->varies ? mg_number_wrap(capture, value)
                                   : Py_NewRef(value);
        goto done;
    }
    if (mg_capture_operate(capture) < 0 || mg_overridden_check(capture, mapping->twins) < 0 ||
        check_rows(capture, outcome->written, mapping->twins) < 0 ||
        mg_parts_check(capture, outcome->written, mapping->twins) < 0 ||
        (capture->graph.closed > 0 && mg_subgraph_check(capture, mapping) < 0) ||
        mg_subgraph_write(capture, mapping->twins, outcome) < 0 ||
        check_recurrent(capture, target, value, args, count) < 0) {
        goto done;
    }
    int node = add_operation(capture, kind, target, &operation, tensors);
    if (node >= 0 && apply_changes(capture, outcome->changes, mapping->twins) == MG_OK) {
        Wrapping wrapping = {
            .capture = capture, .twins = mapping->twins, .views = outcome->views, .fakes = outcome->result_fakes};
        PyObject *given = kind == MG_NODE_FUNCTION ? list_given_back(target, args, count, kwnames) : NULL;
        result = given != NULL ? Py_NewRef(given) : wrap_result(&wrapping, value, node);
    }
done:
    Py_XDECREF(names);
    Py_XDECREF(state);
    clear_operation(&operation);
    return result;
}

PyObject *
mg_record_call(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *const *args, Py_ssize_t count,
               PyObject *kwnames)
{
    return record(capture, kind, target, args, count, kwnames, NULL);
}

PyObject *
mg_record_known(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                MgOutcome *outcome)
{
    return record(capture, MG_NODE_FUNCTION, target, args, count, kwnames, outcome);
}

PyObject *
mg_record_state(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *before = mg_state_read();
    Py_CLEAR(capture->torch.state); /* it may be another from here on, whatever comes of the rest */
    PyObject *result = before == NULL ? NULL : PyObject_Vectorcall(target, args, (size_t)count, NULL);
    PyObject *after = result == NULL ? NULL : mg_state_read();
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
    PyObject *ref = mg_record_new_ref(node);
    PyObject *args = ref == NULL ? NULL : Py_BuildValue("(N)", ref);
    if (args == NULL) {
        return MG_ERR;
    }
    capture->graph.nodes[node].users++;
    int exit = mg_record_enter(capture, target, args);
    if (exit >= 0) {
        capture->graph.nodes[exit].leaves = 1;
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
        PyObject *ref = node < 0 ? NULL : mg_record_new_ref(node);
        if (ref == NULL || PyList_Append(made, ref) < 0) {
            Py_CLEAR(made);
        }
        else {
            capture->graph.nodes[node].users++;
        }
        Py_XDECREF(ref);
    }
    PyObject *args = made == NULL ? NULL : PyTuple_Pack(2, made, Py_False);
    Py_XDECREF(made);
    return args == NULL || mg_record_enter(capture, target, args) < 0 ? MG_ERR : MG_OK;
}

int
mg_record_scalar(MgCapture *capture, int node)
{
    for (int i = node + 1; i < capture->graph.node_count; i++) { /* it may be there already */
        PyObject *args = capture->graph.nodes[i].target == scalar_function ? capture->graph.nodes[i].args : NULL;
        if (args != NULL && Py_IS_TYPE(PyTuple_GET_ITEM(args, 0), &MgRef_Type) &&
            ((MgRef *)PyTuple_GET_ITEM(args, 0))->index == node && capture->graph.nodes[i].stack == NULL) {
            return i;
        }
    }
    PyObject *ref = mg_record_new_ref(node), *args = ref == NULL ? NULL : Py_BuildValue("(N)", ref);
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
    capture->graph.nodes[node].users++;
    return add_node(capture, (MgNode){.kind = MG_NODE_FUNCTION,
                                      .target = Py_NewRef(scalar_function),
                                      .args = args,
                                      .kwargs = kwargs,
                                      .value = meta});
}
