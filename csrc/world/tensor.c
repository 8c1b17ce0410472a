/* Tensors as captured code sees them: operators, items, attributes and methods of twins. */
#include "world/tensor.h"

#include "capture/finalizer.h"
#include "capture/outside.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "ir/alias.h"
#include "ir/dimobject.h"
#include "record/arithmetic.h"
#include "record/number.h"
#include "record/record.h"
#include "record/subgraph.h"
#include "record/symbol.h"
#include "torch/typekind.h"
#include "world/tensorclass.h"
#include "world/world.h"
#include "world/override.h"
#include "world/subclass.h"

static PyObject *getattr_function; /* strong: builtins.getattr */
static PyObject *select_function;  /* strong: torch.select */
static PyObject *get_data;         /* strong: torch._C._autograd._get_data_attr, which returns x.data */

int
mg_tensor_init(void)
{
    mg_twin_class->tp_iter = mg_tensor_iter_slot; /* in place of Tensor.__iter__, which makes one unbind() of it */
    if (getattr_function == NULL) {
        getattr_function = mg_aside_find("builtins", "getattr");
    }
    if (get_data == NULL) {
        get_data = mg_aside_find("torch._C._autograd", "_get_data_attr");
    }
    if (select_function == NULL) {
        select_function = mg_aside_find("torch", "select");
    }
    return getattr_function == NULL || get_data == NULL || select_function == NULL ? MG_ERR : MG_OK;
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

/* 1 if a key has tensors, and besides those only ints. */
static int
is_place(PyObject *key)
{
    if (!PyTuple_CheckExact(key)) {
        return mg_is_twin(key);
    }
    int tensors = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        PyObject *item = PyTuple_GET_ITEM(key, i);
        tensors += mg_is_twin(item);
        if (!mg_is_twin(item) && !PyLong_CheckExact(item) && !mg_is_number(item)) {
            return 0;
        }
    }
    return tensors > 0;
}

PyObject *
mg_tensor_getitem(MgCapture *capture, PyObject *twin, PyObject *key)
{
    PyObject *args[2] = {twin, key};
    if (capture->torch.indexing != MG_INDEXING_PLAIN && is_place(key)) {
        const char *name = capture->torch.indexing == MG_INDEXING_INDEX ? "index" : "item";
        PyObject *function = mg_aside_find("magneto._higher", name);
        PyObject *value = function == NULL ? NULL : PyObject_Vectorcall(function, args, 2, NULL);
        Py_XDECREF(function);
        return mg_world_touch(capture, value);
    }
    int before = capture->graph.node_count;
    if (mg_is_number(key) && mg_number_kind(key) == MG_NUMBER_INT) { /* as TorchDynamo records it */
        PyObject *zero = PyLong_FromLong(0);
        PyObject *arguments[3] = {twin, zero, key};
        PyObject *row =
            zero == NULL ? NULL : mg_record_call(capture, MG_NODE_FUNCTION, select_function, arguments, 3, NULL);
        Py_XDECREF(zero);
        return row;
    }
    PyObject *result = mg_arithmetic_record(capture, "getitem", args, 2);
    if (result != NULL && capture->graph.node_count > before && is_plain_key(key)) {
        capture->graph.nodes[capture->graph.node_count - 1].is_part = 1; /* left out if nobody uses it */
    }
    return result;
}

int
mg_tensor_setitem(MgCapture *capture, PyObject *twin, PyObject *key, PyObject *value)
{
    if (value == NULL) {
        return mg_capture_abort(capture, MG_REASON_OPERATION_FAILED, "deleting an item of a tensor");
    }
    PyObject *args[3] = {twin, key, value};
    PyObject *result = mg_arithmetic_record(capture, "setitem", args, 3);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

Py_ssize_t
mg_tensor_length(MgCapture *capture, PyObject *object)
{
    MgTwin *twin = mg_twin_of(object);
    if (mg_override_has(capture, object)) {
        return mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "%s", twin->type->tp_name);
    }
    if (mg_record_input(capture, object) < 0 ||
        mg_tensor_class_check_special(capture, object, MG_STRING("__len__")) < 0) {
        return -1;
    }
    if (twin->meta->dim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    PyObject *size = PyTuple_GET_ITEM(twin->meta->sizes, 0);
    if (mg_is_dim_object(size)) {
        return mg_number_specialize(capture, size) < 0 ? -1 : (Py_ssize_t)((MgDimObject *)size)->dim.v;
    }
    if (!PyLong_CheckExact(size)) {
        return mg_capture_abort(capture, MG_REASON_DATA_DEPENDENT, "the length of a tensor");
    }
    return PyLong_AsSsize_t(size);
}

PyObject *
mg_tensor_len(MgCapture *capture, PyObject *object)
{
    if (mg_override_has(capture, object)) {
        return mg_record_call(capture, MG_NODE_METHOD, MG_STRING("__len__"), &object, 1, NULL);
    }
    MgMeta *meta = mg_twin_of(object)->meta;
    if (meta->varies && meta->dim > 0) {
        if (mg_record_input(capture, object) < 0 ||
            mg_tensor_class_check_special(capture, object, MG_STRING("__len__")) < 0) {
            return NULL;
        }
        return mg_number_wrap(capture, PyTuple_GET_ITEM(meta->sizes, 0));
    }
    if (meta->dim > 0 && !PyLong_CheckExact(PyTuple_GET_ITEM(meta->sizes, 0))) {
        PyObject *zero = PyLong_FromLong(0), *args[2] = {object, zero};
        PyObject *result =
            zero == NULL ? NULL : mg_record_call(capture, MG_NODE_METHOD, MG_STRING("size"), args, 2, NULL);
        Py_XDECREF(zero);
        return result;
    }
    Py_ssize_t length = mg_tensor_length(capture, object);
    return length < 0 ? NULL : PyLong_FromSsize_t(length);
}

PyObject *
mg_tensor_iter(MgCapture *capture, PyObject *object)
{
    if (mg_tensor_class_check_special(capture, object, MG_STRING("__iter__")) < 0) {
        return NULL;
    }
    if (mg_override_has(capture, object)) {
        return mg_record_call(capture, MG_NODE_METHOD, MG_STRING("__iter__"), &object, 1, NULL);
    }
    if (mg_twin_of(object)->meta->dim == 0) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
        return NULL;
    }
    /* one getitem for each row, as TorchDynamo records it */
    Py_ssize_t size = mg_tensor_length(capture, object);
    PyObject *rows = size < 0 ? NULL : PyTuple_New(size);
    for (Py_ssize_t i = 0; rows != NULL && i < size; i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        PyObject *row = index == NULL ? NULL : mg_tensor_getitem(capture, object, index);
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
mg_tensor_iter_slot(PyObject *twin)
{
    MgCapture *capture = mg_capture_current;
    if (capture == NULL || mg_twin_of(twin)->capture != capture->number) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor of a finished capture was used");
        return NULL;
    }
    return mg_tensor_iter(capture, twin);
}

/* 1 if the class attribute is something to call, 0 if it is a value to get. */
static int
is_method(PyObject *found)
{
    return PyFunction_Check(found) || Py_IS_TYPE(found, &PyMethodDescr_Type) ||
           Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyStaticMethod_Type) ||
           Py_IS_TYPE(found, &PyClassMethod_Type);
}

/* A method of a tensor, as `x.add` returns it: of C code a builtin that is bound to it. New. */
static PyObject *
bind_method(MgCapture *capture, PyObject *object, PyObject *name, PyObject *found)
{
    if (Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type)) {
        return mg_world_getattr(capture, (PyObject *)mg_tensor_class_of(mg_twin_of(object)), name);
    }
    PyObject *tensor = mg_twin_original(object); /* two that are bound to one tensor are equal */
    return Py_TYPE(found)->tp_descr_get(found, tensor, (PyObject *)Py_TYPE(tensor));
}

/* The gradient that captured code has given to a tensor from outside, by the descriptor. NULL if it has not. Borrowed. */
static PyObject *
held_grad(MgCapture *capture, const MgTwin *twin, PyObject *descriptor)
{
    MgOutside *record = twin->real == NULL ? NULL : mg_outside_owner(capture, twin->real);
    return record == NULL || record->slots == NULL ? NULL : PyDict_GetItemWithError(record->slots, descriptor);
}

/* The gradient of a leaf: another outside tensor, or None. */
static PyObject *
read_grad(MgCapture *capture, MgTwin *twin, PyObject *descriptor)
{
    PyObject *held = held_grad(capture, twin, descriptor);
    if (held != NULL || PyErr_Occurred()) {
        return Py_XNewRef(held);
    }
    capture->graph.asks_leaves = 1;
    if (twin->meta->flags & MG_META_NON_LEAF) {
        mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "grad");
        return NULL;
    }
    if (twin->real == NULL) { /* made by captured code, which can't go backward */
        return Py_NewRef(Py_None);
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_GRAD, twin->source, NULL, 0);
    PyObject *grad = source == NULL ? NULL : mg_source_load(source, twin->real, NULL);
    return grad == NULL ? NULL : mg_world_reach(capture, grad, source);
}

/* 1 if a twin may be a view that was made under no_grad, of what requires grad: torch raises where it is asked whether such a
 * view is a leaf, if its memory was written to since. */
static int
has_no_history(const MgTwin *twin)
{
    int flags = twin->meta->flags & (MG_META_REQUIRES_GRAD | MG_META_NON_LEAF);
    return twin->real == NULL && twin->next != twin && flags == MG_META_REQUIRES_GRAD;
}

/* What the __torch_function__ of a class returns for an attribute that all tensors have. */
static PyObject *
get_overridden(MgCapture *capture, PyObject *object, PyObject *descriptor)
{
    PyObject *getter = mg_aside_getattr(descriptor, MG_STRING("__get__"));
    PyObject *args = getter == NULL ? NULL : PyTuple_Pack(1, object);
    PyObject *result = args == NULL ? NULL : mg_override_call(capture, getter, args, args, NULL);
    Py_XDECREF(getter);
    Py_XDECREF(args);
    return result;
}

PyObject *
mg_tensor_getattr(MgCapture *capture, PyObject *object, PyObject *name)
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
        if (twin->real == NULL && (meta->flags & MG_META_WRAPPER) &&
            ((value = mg_subclass_getattr(capture, object, name, getattr_function)) != NULL || PyErr_Occurred())) {
            return value;
        }
    }
    if (found != NULL && !is_own) {
        return mg_tensor_class_get(capture, object, name, found);
    }
    if (found != NULL && Py_TYPE(found)->tp_descr_set != NULL && mg_override_has(capture, object) &&
        PyUnicode_CompareWithASCIIString(name, "__class__") != 0 &&
        PyUnicode_CompareWithASCIIString(name, "__dict__") != 0) {
        return get_overridden(capture, object, found);
    }
    if (PyUnicode_CompareWithASCIIString(name, "shape") == 0) {
        return meta->varies         ? mg_number_wrap(capture, meta->sizes)
               : meta->fake == NULL ? Py_NewRef(meta->sizes)
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
        if (!mg_subgraph_knows_grad(capture, twin)) {
            mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "requires_grad, under a transform");
            return NULL;
        }
        return PyBool_FromLong(meta->flags & MG_META_REQUIRES_GRAD);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
        return Py_NewRef((PyObject *)mg_tensor_class_of(twin));
    }
    if (PyUnicode_CompareWithASCIIString(name, "data") == 0) {
        return mg_record_call(capture, MG_NODE_FUNCTION, get_data, &object, 1, NULL);
    }
    if (PyUnicode_CompareWithASCIIString(name, "grad") == 0) {
        return read_grad(capture, twin, found);
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
    if (!mg_kind_is_tensor_attribute(name) || /* it depends on more than the metadata */
        (PyUnicode_CompareWithASCIIString(name, "is_leaf") == 0 &&
         (has_no_history(twin) || !mg_subgraph_knows_grad(capture, twin)))) {
        mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "%U", name);
        return NULL;
    }
    PyObject *args[2] = {object, name};
    return mg_record_call(capture, MG_NODE_FUNCTION, getattr_function, args, 2, NULL);
}

int
mg_tensor_get_method(MgCapture *capture, PyObject *object, PyObject *name, PyObject **method)
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
    *method = mg_tensor_getattr(capture, object, name);
    return 0;
}

/* Gives an attribute to a tensor that captured code has made, or takes it from it. MG_OK or MG_ERR. */
static int
set_own(MgCapture *capture, MgTwin *twin, PyObject *name, PyObject *value)
{
    if (twin->dict == NULL && (twin->dict = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    if (value == NULL) {
        return PyDict_GetItemWithError(twin->dict, name) == NULL
                   ? mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of a tensor", name)
                   : PyDict_DelItem(twin->dict, name);
    }
    PyObject *kept = mg_world_escape(capture, value);
    int status = kept == NULL ? MG_ERR : PyDict_SetItem(twin->dict, name, kept);
    Py_XDECREF(kept);
    return status;
}

/* 1 if torch takes `value` for the gradient of a tensor, with no need to look at more than metadata. */
static int
is_grad_of(const MgTwin *twin, PyObject *value)
{
    if (value == Py_None) {
        return 1;
    }
    if (!mg_is_twin(value) || mg_twin_of(value)->capture != twin->capture) {
        return 0;
    }
    const MgTwin *grad = mg_twin_of(value);
    const MgMeta *one = twin->meta, *other = grad->meta;
    if (grad->type != NULL || grad->real == twin->real || one->fake != NULL || other->fake != NULL ||
        ((one->flags | other->flags) & MG_META_WRAPPER) || one->dtype != other->dtype || one->dim != other->dim) {
        return 0;
    }
    int same = one->device == other->device ? 1 : PyObject_RichCompareBool(one->device, other->device, Py_EQ);
    for (int i = 0; same > 0 && i < one->dim; i++) {
        PyObject *left = PyTuple_GET_ITEM(one->sizes, i), *right = PyTuple_GET_ITEM(other->sizes, i);
        same = left == right || (PyLong_CheckExact(left) && PyLong_CheckExact(right) &&
                                 PyLong_AsSsize_t(left) == PyLong_AsSsize_t(right));
    }
    return same;
}

/* Holds back `tensor.grad = value` of a leaf from outside; `del tensor.grad` if value is NULL. MG_OK or MG_ERR. */
static int
store_grad(MgCapture *capture, MgTwin *twin, PyObject *descriptor, PyObject *value)
{
    MgOutside *record = mg_outside_owner(capture, twin->real);
    value = value == NULL ? Py_None : value;
    PyObject *dtype = mg_aside_getattr(twin->real, MG_STRING("grad_dtype"));
    Py_XDECREF(dtype); /* dtypes live for good */
    if (dtype == NULL) {
        return MG_ERR;
    }
    int is_plain =
        record != NULL && !(twin->meta->flags & MG_META_NON_LEAF) && twin->type == NULL && dtype == twin->meta->dtype;
    int fits = is_plain ? is_grad_of(twin, value) : 0;
    if (fits <= 0) { /* torch may raise */
        return fits < 0 ? MG_ERR : mg_capture_abort(capture, MG_REASON_STORE, "attribute grad of a tensor");
    }
    capture->graph.asks_leaves = 1;
    if (record->slots == NULL && (record->slots = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    if (held_grad(capture, twin, descriptor) == NULL) { /* the first write lets go of the real gradient */
        PyObject *old = PyErr_Occurred() ? NULL : mg_torch_grad(twin->real);
        if (PyErr_Occurred() || mg_finalizer_drop(capture, old) < 0) {
            return MG_ERR;
        }
    }
    return PyDict_SetItem(record->slots, descriptor, value);
}

int
mg_tensor_setattr(MgCapture *capture, PyObject *object, PyObject *name, PyObject *value)
{
    MgTwin *twin = mg_twin_of(object);
    if (twin->capture != capture->number) {
        return mg_capture_abort(capture, MG_REASON_LOST_TENSOR, "a tensor of another capture");
    }
    int is_own, is_plain;
    PyObject *found = mg_tensor_class_find(capture, twin, name, &is_own);
    PyObject *hook =
        is_own < 0 ? NULL
                   : mg_tensor_class_find(
                         capture, twin, value != NULL ? MG_STRING("__setattr__") : MG_STRING("__delattr__"), &is_plain);
    if (is_own < 0 || is_plain < 0) {
        return MG_ERR;
    }
    int is_data = found != NULL && Py_TYPE(found)->tp_descr_set != NULL;
    if (twin->base != NULL && hook != NULL && is_plain && !is_data && PyUnicode_CheckExact(name)) {
        return set_own(capture, twin, name, value);
    }
    if (is_data && is_own && twin->real != NULL && twin->source != NULL && hook != NULL && is_plain &&
        Py_IS_TYPE(found, &PyGetSetDescr_Type) && PyUnicode_CompareWithASCIIString(name, "grad") == 0) {
        return store_grad(capture, twin, found, value);
    }
    if (twin->real == NULL || twin->source == NULL || hook == NULL || !is_plain ||
        (twin->meta->flags & MG_META_WRAPPER) || (found != NULL && Py_TYPE(found)->tp_descr_set != NULL)) {
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of a tensor", name);
    }
    return mg_world_generic_setattr(capture, twin->real, name, value);
}

PyObject *
mg_tensor_torch_function(PyObject *const *args, Py_ssize_t count)
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
    if (PyTuple_Check(args[1]) && mg_capture_overrides(capture)) {
        PyObject *overridden = mg_override_call(capture, function, args[1], args[2], kwargs);
        if (overridden != NULL || PyErr_Occurred()) {
            return overridden;
        }
    }
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
            result = mg_tensor_getattr(capture, PyTuple_GET_ITEM(args[2], 0), name);
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
        PyObject *operation = mg_kind_operator_of(PyDescr_NAME(function));
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
        result = mg_tracer.call(capture, function, stack, (size_t)given, kwnames);
    }
    PyMem_Free(stack);
    Py_XDECREF(kwnames);
    return result;
}

PyObject *
mg_tensor_item(MgCapture *capture, PyObject *twin, PyObject *type)
{
    PyObject *known = mg_record_known_number(capture, twin);
    if (known == NULL && !capture->symbols.allow_scalars) {
        mg_capture_abort(capture, MG_REASON_TENSOR_VALUE, NULL);
        return NULL;
    }
    PyObject *number =
        known != NULL ? Py_NewRef(known) : mg_record_call(capture, MG_NODE_METHOD, MG_STRING("item"), &twin, 1, NULL);
    if (number == NULL || type == NULL) {
        return number;
    }
    PyObject *result = mg_tracer.call(capture, type, &number, 1, NULL);
    Py_DECREF(number);
    return result;
}

PyObject *
mg_tensor_tolist(MgCapture *capture, PyObject *twin)
{
    MgMeta *meta = mg_twin_of(twin)->meta;
    if (!capture->symbols.allow_scalars) {
        mg_capture_abort(capture, MG_REASON_TENSOR_VALUE, NULL);
        return NULL;
    }
    if (meta->dim == 0) {
        return mg_tensor_item(capture, twin, NULL);
    }
    Py_ssize_t size = mg_tensor_length(capture, twin);
    PyObject *list = size < 0 ? NULL : PyList_New(size);
    for (Py_ssize_t i = 0; list != NULL && i < size; i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        PyObject *row = index == NULL ? NULL : mg_tensor_getitem(capture, twin, index);
        PyObject *item = row == NULL ? NULL : mg_tensor_tolist(capture, row);
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
