/* The arguments of an operation: as the graph holds them, and as the key of what it returns. */
#include "record/arguments.h"

#include "capture/level.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "ir/alias.h"
#include "ir/structure.h"
#include "record/number.h"
#include "record/record.h"
#include "record/shape/shape.h"
#include "record/subgraph.h"
#include "record/symbol.h"
#include "torch/typekind.h"

enum { MOST_CONTAINERS = 1 << 20 };

static PyObject *map_argument(MgMapping *mapping, PyObject *value);

int
mg_record_key_add(MgMapping *mapping, PyObject *part)
{
    return PyList_Append(mapping->key, part);
}

/* Adds a value with its type: 1, 1.0 and True are equal, as are 0.0 and -0.0, which are told apart by their text. */
static int
key_add_value(MgMapping *mapping, PyObject *value)
{
    int is_zero = (PyFloat_CheckExact(value) || PyComplex_CheckExact(value)) && PyObject_Not(value);
    PyObject *part = is_zero ? PyObject_Repr(value) : Py_NewRef(value);
    int result = part == NULL || mg_record_key_add(mapping, (PyObject *)Py_TYPE(value)) < 0
                     ? MG_ERR
                     : mg_record_key_add(mapping, part);
    Py_XDECREF(part);
    return result;
}

static int
key_add_size(MgMapping *mapping, PyObject *type, Py_ssize_t size)
{
    PyObject *number = PyLong_FromSsize_t(size);
    int result = number == NULL || mg_record_key_add(mapping, type) < 0 ? MG_ERR : mg_record_key_add(mapping, number);
    Py_XDECREF(number);
    return result;
}

/* Shapes are worked out with references to tensors; the graph gets references to the aliases, see mg_record_use_aliases. */
static int
note_alias(MgMapping *mapping, PyObject *alias, PyObject *ref)
{
    if (mapping->aliases == NULL && (mapping->aliases = PyList_New(0)) == NULL) {
        return MG_ERR;
    }
    return PyList_Append(mapping->aliases, alias) < 0 ? MG_ERR : PyList_Append(mapping->aliases, ref);
}

void
mg_record_use_aliases(MgMapping *mapping)
{
    for (Py_ssize_t i = 0; mapping->aliases != NULL && i < PyList_GET_SIZE(mapping->aliases); i += 2) {
        int node = mg_twin_node(PyList_GET_ITEM(mapping->aliases, i));
        ((MgRef *)PyList_GET_ITEM(mapping->aliases, i + 1))->index = node;
        mapping->capture->graph.nodes[node].users++;
    }
}

static PyObject *
map_twin(MgMapping *mapping, PyObject *value)
{
    MgTwin *twin = mg_twin_of(value);
    if (twin == NULL || twin->capture != mapping->capture->number) {
        mg_capture_abort(mapping->capture, MG_REASON_LOST_TENSOR, "a tensor of another capture");
        return NULL;
    }
    if (mg_record_input(mapping->capture, value) < 0 ||
        mg_subgraph_meet(mapping->capture, mg_twin_node(value), value) < 0) {
        return NULL;
    }
    if (twin->meta->varies) {
        MgMeta *meta = mg_number_simplify(mapping->capture, twin->meta);
        if (meta == NULL) {
            return NULL;
        }
        Py_SETREF(twin->meta, meta);
        mapping->varies = mapping->varies || meta->varies;
    }
    mapping->symbolic = mapping->symbolic || mg_twin_fake(twin) != NULL;
    mapping->overridden = mapping->overridden || (twin->overrides && mg_capture_overrides(mapping->capture));
    PyObject *original = mg_twin_original(value), *ref = mg_record_new_ref(twin->node);
    if (ref == NULL || (original != value && note_alias(mapping, value, ref) < 0)) {
        Py_XDECREF(ref);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(mapping->twins); i++) {
        if (PyList_GET_ITEM(mapping->twins, i) == original) { /* the same tensor once more */
            PyObject *number = PyLong_FromSsize_t(i);
            if (number == NULL || mg_record_key_add(mapping, number) < 0) {
                Py_CLEAR(ref);
            }
            Py_XDECREF(number);
            return ref;
        }
    }
    if (mg_record_key_add(mapping, (PyObject *)twin->meta) < 0 || PyList_Append(mapping->twins, original) < 0) {
        Py_CLEAR(ref);
    }
    return ref;
}

/* A number whose value in this call is known: the key has its expression, or of a float its kind. */
static PyObject *
map_backed(MgMapping *mapping, PyObject *value)
{
    PyObject *argument =
        mapping->takes ? mg_number_take(mapping->capture, value) : mg_number_argument(mapping->capture, value);
    int is_plain = argument != NULL && (PyLong_CheckExact(argument) || PyFloat_CheckExact(argument));
    mapping->varies = mapping->varies || !is_plain;
    if (argument != NULL && mg_is_number(argument) &&
        mg_subgraph_meet(mapping->capture, ((MgNumber *)argument)->node, argument) < 0) {
        Py_CLEAR(argument);
    }
    PyObject *part = argument == NULL || !mg_is_number(argument) ? argument : ((MgNumber *)argument)->value;
    if (part == NULL || key_add_value(mapping, part) < 0) {
        Py_CLEAR(argument);
    }
    return argument;
}

static PyObject *
map_number(MgMapping *mapping, PyObject *value)
{
    MgNumber *number = (MgNumber *)value;
    if (number->capture != mapping->capture->number) {
        mg_capture_abort(mapping->capture, MG_REASON_LOST_TENSOR, "a number of another capture");
        return NULL;
    }
    if (mg_number_is_backed(value)) {
        return map_backed(mapping, value);
    }
    mapping->symbolic = 1;
    if (mg_subgraph_meet(mapping->capture, number->node, value) < 0 ||
        (mapping->numbers == NULL && (mapping->numbers = PyList_New(0)) == NULL)) {
        return NULL;
    }
    return PyList_Append(mapping->numbers, value) < 0 ? NULL : mg_record_new_ref(number->node);
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
        if (((MgNumber *)item)->node < 0) {
            return -1;
        }
        MgNode *part = &capture->graph.nodes[((MgNumber *)item)->node];
        PyObject *ref =
            part->args != NULL && PyTuple_GET_SIZE(part->args) == 2 ? PyTuple_GET_ITEM(part->args, 0) : NULL;
        if (ref == NULL || !Py_IS_TYPE(ref, &MgRef_Type) || !PyLong_CheckExact(PyTuple_GET_ITEM(part->args, 1)) ||
            PyLong_AsSsize_t(PyTuple_GET_ITEM(part->args, 1)) != i || (whole >= 0 && ((MgRef *)ref)->index != whole)) {
            return -1;
        }
        whole = ((MgRef *)ref)->index;
    }
    PyObject *value = whole < 0 ? NULL : capture->graph.nodes[whole].value;
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
map_size(MgMapping *mapping, PyObject *value)
{
    MgCapture *capture = mapping->capture;
    int node = node_of_size(capture, value);
    if (node < 0) {
        node = capture->graph.node_count;
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
    PyObject *pair = Py_BuildValue("(iO)", node, capture->graph.nodes[node].value);
    int status = pair == NULL ? -1 : PyList_Append(mapping->numbers, pair);
    Py_XDECREF(pair);
    return status < 0 ? NULL : mg_record_new_ref(node);
}

static PyObject *
map_part(void *mapping, PyObject *value)
{
    return map_argument(mapping, value);
}

/* A container with mapped parts; what it is, its size and its keys are in the propagation key before them. */
static PyObject *
map_structure(MgMapping *mapping, PyObject *value)
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
        if (mg_record_key_add(mapping, key) < 0) {
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

/* 1 if torch takes a scalar of numpy's for the number that it returns. A longdouble returns none of Python's; a bool and a complex
 * number that are not of Python's classes are read as floats, unlike Python's own. */
static int
is_like(MgMapping *mapping, PyObject *scalar, PyObject *number)
{
    return PyLong_CheckExact(number) || (PyFloat_CheckExact(number) && (!mapping->stores || PyFloat_Check(scalar))) ||
           (PyComplex_CheckExact(number) && PyComplex_Check(scalar));
}

/* MG_OK if torch takes an argument for what its builtin class says; a break if it has a torch function. */
static int
check_override(MgMapping *mapping, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    int found = type == &PyList_Type || type == &PyTuple_Type || type == mg_torch.size
                    ? 0
                    : mg_tracer.has_own(mapping->capture, value, MG_STRING("__torch_function__"));
    return found > 0   ? mg_capture_abort(mapping->capture, MG_REASON_ARGUMENT, "%s", type->tp_name)
           : found < 0 ? MG_ERR
                       : MG_OK;
}

/* One argument as the graph holds it, with its part of the propagation key. New. */
static PyObject *
map_argument(MgMapping *mapping, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == mg_twin_class) {
        return map_twin(mapping, value);
    }
    if (mg_is_number(value)) {
        return map_number(mapping, value);
    }
    if (type == mg_torch.size && mapping->capture->symbols.session != NULL && mg_symbol_depends(value)) {
        return map_size(mapping, value);
    }
    if (value == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
        type == &PyUnicode_Type || type == &PyComplex_Type || value == Py_Ellipsis || type == mg_torch.dtype ||
        type == mg_torch.device || type == mg_torch.layout || type == mg_torch.memory_format) {
        return key_add_value(mapping, value) < 0 ? NULL : Py_NewRef(value);
    }
    if (type == &PySlice_Type) {
        return map_structure(mapping, value);
    }
    if (type == &MgSubgraph_Type) {
        mapping->added = 1; /* each is another */
        return Py_NewRef(value);
    }
    int is_sequence = PyTuple_Check(value) || PyList_Check(value);
    if ((PyTuple_Check(value) && !mg_structure_is_plain_tuple(type)) ||
        (is_sequence && mg_structure_has_own_ways(type))) {
        mg_capture_abort(mapping->capture, MG_REASON_ARGUMENT, "%s", type->tp_name);
        return NULL;
    }
    if (is_sequence && check_override(mapping, value) < 0) {
        return NULL;
    }
    if (is_sequence || type == &PyDict_Type) {
        PyObject *exposed = mg_tracer.expose(mapping->capture, value);
        PyObject *result = exposed == NULL ? NULL : map_structure(mapping, exposed);
        Py_XDECREF(exposed);
        return result;
    }
    if (mg_torch_is_tensor(value)) { /* a raw tensor inside a container */
        PyObject *view = mg_tracer.touch(mapping->capture, Py_NewRef(value));
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
    if (mg_kind_is_number(value)) { /* of a class over int or float, or of numpy's: a graph has the number itself */
        PyObject *number = check_override(mapping, value) < 0 ? NULL : mg_kind_number(value);
        if (number != NULL && mg_kind_is_value(type) && (mapping->infers || !is_like(mapping, value, number))) {
            Py_DECREF(number);
            mg_capture_abort(mapping->capture, MG_REASON_ARGUMENT, "%s", type->tp_name);
            return NULL;
        }
        PyObject *result = number == NULL ? NULL : map_argument(mapping, number);
        Py_XDECREF(number);
        return result;
    }
    PyObject *other = mg_kind_stand_in(value);
    if (other != NULL) {
        return map_argument(mapping, other);
    }
    if (mg_kind_is_graph_constant(value) && _PyType_Lookup(type, MG_STRING("__torch_function__")) == NULL) {
        PyObject *view = mg_tracer.touch(mapping->capture, Py_NewRef(value)); /* one from outside is guarded now */
        if (view == NULL) {
            return NULL;
        }
        Py_DECREF(view);
        return key_add_value(mapping, value) < 0 ? NULL : Py_NewRef(value);
    }
    mg_capture_abort(mapping->capture, MG_REASON_ARGUMENT, "%s", type->tp_name);
    return NULL;
}

int
mg_record_map_arguments(MgMapping *mapping, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                        PyObject **mapped_args, PyObject **mapped_kwargs)
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
        PyObject *value = mg_record_key_add(mapping, name) < 0 ? NULL : map_argument(mapping, args[count + i]);
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

int
mg_record_infers_dtype(MgNodeKind kind, PyObject *target, PyObject *kwnames)
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
        if (mg_record_is_named(target, names[i])) {
            return 1;
        }
    }
    return 0;
}

PyObject *
mg_record_known_number(const MgCapture *capture, PyObject *object)
{
    MgTwin *twin = mg_is_twin(object) ? mg_twin_of(object) : NULL;
    if (twin == NULL || twin->capture != capture->number || twin->node < 0 || mg_twin_alias(object) != NULL) {
        return NULL;
    }
    const MgNode *node = &capture->graph.nodes[twin->node];
    if (node->kind != MG_NODE_FUNCTION || node->users > 0 || node->kwargs != NULL ||
        PyTuple_GET_SIZE(node->args) != 1 || twin->meta->dim != 0 || !mg_shape_is_cpu(twin->meta->device)) {
        return NULL; /* an operation that was given it may have written to it, or share its memory */
    }
    PyObject *value = PyTuple_GET_ITEM(node->args, 0);
    return (PyLong_CheckExact(value) || PyBool_Check(value)) && mg_record_infers_dtype(node->kind, node->target, NULL)
               ? value
               : NULL;
}

int
mg_record_is_named(PyObject *target, const char *name)
{
    return PyCFunction_Check(target) && strcmp(((PyCFunctionObject *)target)->m_ml->ml_name, name) == 0;
}

int
mg_record_specialize(MgMapping *mapping, PyObject *args, PyObject *kwargs)
{
    MgCapture *capture = mapping->capture;
    int status = mg_number_specialize(capture, args);
    status = status < 0 || kwargs == NULL ? status : mg_number_specialize(capture, kwargs);
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(mapping->twins); i++) {
        const MgMeta *meta = mg_twin_of(PyList_GET_ITEM(mapping->twins, i))->meta;
        if (meta->varies && (status = mg_number_specialize(capture, meta->sizes)) == MG_OK) {
            status = mg_number_specialize(capture, meta->strides);
        }
    }
    return status;
}
