/* The world: reads from outside, guarded; writes to outside, held back.
 *
 * Outside is whatever existed before the capture began. Every object with an identity of its own that captured code
 * reads from there gets an MgOutside, keyed by its address, with the source by which a later call finds it again. Small
 * immutable values have none: they are guarded by value where they are read, and are inside from then on.
 *
 * Invariant: no outside object is changed while a capture is under way. A write goes to the record (`held`), or to the
 * shadow that stands for the object; reads look there first. */
#include "world/world.h"

#include "capture/deferred.h"
#include "capture/level.h"
#include "capture/protocol.h"
#include "capture/varying.h"
#include "cpython/shadow.h"
#include "ir/alias.h"
#include "record/number.h"
#include "record/operator.h"
#include "record/record.h"
#include "torch/kinds.h"
#include "torch/typekind.h"
#include "world/worldbase.h"
#include "world/override.h"
#include "world/subclass.h"

#include <structmember.h>

/* ---- kinds ---- */

/* 1 for an object of a Python class over a number or a string: it has a value too. */
static int
has_value(PyObject *object)
{
    return PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object) ||
           PyComplex_Check(object);
}

int
mg_world_has_hidden_state(PyObject *object)
{
    PyTypeObject *base = Py_TYPE(object);
    while (mg_is_heap_type(base) && base->tp_base != NULL) {
        base = base->tp_base;
    }
    return !mg_type_is_python(Py_TYPE(object)) ||
           (base != &PyBaseObject_Type && !has_value(object) && mg_shadow_base(base) == NULL);
}

/* ---- records ---- */

PyObject *
mg_world_adopt(MgCapture *capture, PyObject *object)
{
    if (mg_table_get(&capture->met.views, object, NULL) != NULL || mg_is_twin(object)) {
        return Py_NewRef(object);
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, object, 0);
    return source == NULL ? NULL : mg_world_reach(capture, object, source);
}

int
mg_world_set_view(MgCapture *capture, MgOutside *record, PyObject *view)
{
    if (mg_table_set(&capture->met.views, view, NULL, record) < 0) {
        Py_DECREF(view);
        return MG_ERR;
    }
    Py_XSETREF(record->view, view);
    return MG_OK;
}

PyObject *
mg_world_view(MgOutside *record)
{
    return Py_NewRef(record->view != NULL ? record->view : record->object);
}

/* ---- reaching ---- */

/* 1 for a range, and for a slice of numbers: nothing in it can change. */
static int
is_value(PyObject *object)
{
    if (!PySlice_Check(object)) {
        return Py_IS_TYPE(object, &PyRange_Type);
    }
    PySliceObject *slice = (PySliceObject *)object;
    PyObject *const parts[] = {slice->start, slice->stop, slice->step};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(parts); i++) {
        if (parts[i] != Py_None && !PyLong_CheckExact(parts[i])) {
            return 0;
        }
    }
    return 1;
}

/* 1 if an argument, or a local of a frame in the middle, leads to what the source stands for, and not by way of a class. */
static int
is_from_local(const MgSource *source)
{
    while (source->base != NULL && source->kind != MG_SOURCE_LOOKUP) {
        source = source->base;
    }
    return source->kind == MG_SOURCE_LOCAL;
}

/* 1 for a function that may be another one at each call, with the same code: an argument, or one that another function has
 * made, and that an argument leads to. An entry would keep what its cells have. */
static int
is_made_anew(PyFunctionObject *function, const MgSource *source)
{
    if (source->kind == MG_SOURCE_LOCAL) {
        return 1;
    }
    PyObject *name = function->func_qualname;
    return is_from_local(source) && PyUnicode_CheckExact(name) &&
           PyUnicode_Find(name, MG_STRING("<locals>"), 0, PyUnicode_GET_LENGTH(name), 1) >= 0;
}

MgKind
mg_world_kind_of(PyObject *object, MgSource *source)
{
    PyTypeObject *type = Py_TYPE(object);
    if (mg_torch_is_tensor(object)) {
        return MG_KIND_TENSOR;
    }
    if (mg_torch_method_of(object) != NULL) {
        return MG_KIND_METHOD;
    }
    if (PyCFunction_Check(object) && PyCFunction_GET_SELF(object) != NULL &&
        mg_shadow_base(Py_TYPE(PyCFunction_GET_SELF(object))) != NULL) {
        return MG_KIND_OPAQUE; /* what it is bound to may be seen as another object */
    }
    if (PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
        type == &PyWrapperDescr_Type || type == &PyProperty_Type || type == &PyStaticMethod_Type ||
        type == &PyClassMethod_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
        PyCode_Check(object)) {
        return MG_KIND_CONSTANT;
    }
    if (mg_world_is_compiled(object)) {
        return MG_KIND_CONSTANT;
    }
    if (PyFunction_Check(object)) {
        return source != NULL && is_made_anew((PyFunctionObject *)object, source) ? MG_KIND_FUNCTION : MG_KIND_CONSTANT;
    }
    if (type == &PyTuple_Type || type == mg_torch.size || (PyTuple_Check(object) && mg_is_heap_type(type))) {
        return MG_KIND_TUPLE;
    }
    if (type == &PyList_Type) {
        return MG_KIND_LIST;
    }
    if (type == &PyDict_Type) {
        return MG_KIND_DICT;
    }
    if (type == &PyCell_Type) {
        return MG_KIND_CELL;
    }
    if (type == &PyDictProxy_Type) {
        return MG_KIND_PROXY;
    }
    if (type == &PyMethod_Type) {
        return MG_KIND_METHOD;
    }
    if (type == mg_namespace_type) {
        return MG_KIND_INSTANCE;
    }
    if (is_value(object)) {
        return MG_KIND_VALUE;
    }
    if (source != NULL && ((type == &PyBaseObject_Type && source->kind == MG_SOURCE_LOCAL) ||
                           (mg_is_partial(object) && is_from_local(source)))) {
        return MG_KIND_INSTANCE; /* it may be a new one at each call, too; an entry would keep what a partial binds */
    }
    if (type == &PyBaseObject_Type || mg_kind_is_constant(type)) {
        return MG_KIND_CONSTANT;
    }
    if (PyList_Check(object)) {
        return MG_KIND_LIST;
    }
    if (PyDict_Check(object)) {
        return MG_KIND_DICT;
    }
    if (PyAnySet_Check(object)) {
        return MG_KIND_SET;
    }
    if (PyObject_TypeCheck(object, mg_deque_type)) {
        return MG_KIND_DEQUE;
    }
    return mg_is_heap_type(type) ? MG_KIND_INSTANCE : MG_KIND_OPAQUE;
}

/* 1 for a parameter or buffer of a module: TorchDynamo makes it an input where it is read, all other tensors where they
 * are first used. */
static int
is_input_when_read(const MgSource *source)
{
    const MgSource *base = source->base;
    return source->kind == MG_SOURCE_DICT_ITEM && base->kind == MG_SOURCE_DICT_ITEM &&
           base->base->kind == MG_SOURCE_DICT && PyUnicode_Check(base->key) &&
           (mg_is_text(base->key, MG_STRING("_parameters")) || mg_is_text(base->key, MG_STRING("_buffers")));
}

/* The metadata of an outside tensor; where a graph has run that failed, as it was before. New. */
static MgMeta *
read_meta(MgCapture *capture, PyObject *tensor)
{
    MgMeta *before = capture->graph.metas == NULL ? NULL : mg_table_get(capture->graph.metas, tensor, NULL);
    if (before != NULL && !before->varies) {
        return (MgMeta *)Py_NewRef((PyObject *)before);
    }
    MgMeta *now = mg_meta_of_tensor(tensor);
    if (now != NULL && before != NULL) { /* no graph changes sizes that vary: see mg_record_call */
        Py_SETREF(now, mg_meta_get(now->dtype, now->device, now->sizes, now->strides, before->flags, NULL));
    }
    return now;
}

/* A twin for an outside tensor. */
static int
reach_tensor(MgCapture *capture, MgOutside *record)
{
    PyObject *tensor = record->object;
    PyTypeObject *type = Py_TYPE(tensor);
    record->source->raw = tensor;
    if (type == mg_twin_class) {
        return mg_capture_abort(capture, MG_REASON_LOST_TENSOR, "a tensor of another capture");
    }
    int is_parameter = mg_kind_is_plain_parameter(type);
    if (type != mg_torch.tensor && !is_parameter && !mg_kind_is_plain_tensor(type)) {
        if (mg_kind_is_wrapper(type)) {
            int status = mg_subclass_reach(capture, record);
            return status < 0 || capture->quiet > 0 || !is_input_when_read(record->source)
                       ? status
                       : mg_record_input(capture, record->view);
        }
        if (mg_override_is_class(type)) {
            int status = mg_override_reach(capture, record);
            return status < 0 || capture->quiet > 0 || !is_input_when_read(record->source)
                       ? status
                       : mg_record_input(capture, record->view);
        }
        int lazy = strncmp(type->tp_name, "Uninitialized", strlen("Uninitialized")) == 0;
        return mg_capture_abort(capture, lazy ? MG_REASON_UNINITIALIZED : MG_REASON_TENSOR_SUBCLASS, "%s",
                                type->tp_name);
    }
    MgMeta *meta = read_meta(capture, tensor);
    meta = meta == NULL ? NULL : mg_varying_meta(capture, record->source, tensor, meta);
    if (meta == NULL) {
        return PyErr_Occurred() ? MG_ERR : mg_capture_abort(capture, MG_REASON_TENSOR_KIND, NULL);
    }
    capture->graph.parameters |= is_parameter;
    PyObject *view = NULL;
    if (mg_capture_guard(capture, MG_GUARD_TYPE, record->source, (PyObject *)type) == MG_OK &&
        mg_capture_guard(capture, MG_GUARD_TENSOR, record->source, (PyObject *)meta) == MG_OK) {
        view = mg_twin_new(meta, capture->number);
    }
    Py_DECREF(meta);
    if (view == NULL) {
        return MG_ERR;
    }
    MgTwin *twin = mg_twin_of(view);
    twin->source = record->source;
    twin->real = Py_NewRef(tensor);
    if (mg_world_set_view(capture, record, view) < 0) {
        return MG_ERR;
    }
    return capture->quiet == 0 && is_input_when_read(record->source) ? mg_record_input(capture, view) : MG_OK;
}

/* A bound method from outside, or a builtin that is bound to a tensor: an inside one over views of its parts. */
static int
reach_method(MgCapture *capture, MgOutside *record)
{
    PyObject *method = record->object;
    MgSource *source = record->source;
    MgSource *function_source = mg_source_get(&capture->reads.sources, MG_SOURCE_METHOD, source, NULL, 0);
    MgSource *self_source = mg_source_get(&capture->reads.sources, MG_SOURCE_METHOD, source, NULL, 1);
    if (function_source == NULL || self_source == NULL ||
        mg_capture_guard(capture, MG_GUARD_TYPE, source, (PyObject *)Py_TYPE(method)) < 0 ||
        mg_depth_enter(capture) < 0) {
        return MG_ERR;
    }
    PyObject *builtin = mg_torch_method_of(method);
    PyObject *function =
        mg_world_reach(capture, builtin != NULL ? builtin : PyMethod_GET_FUNCTION(method), function_source);
    PyObject *bound = builtin != NULL ? PyCFunction_GET_SELF(method) : PyMethod_GET_SELF(method);
    PyObject *self = function == NULL ? NULL : mg_world_reach(capture, bound, self_source);
    PyObject *view = NULL;
    if (self != NULL && builtin == NULL) {
        view = PyMethod_New(function, self);
    }
    else if (self != NULL) {
        view = PyMethodDescr_Type.tp_descr_get(function, self, (PyObject *)Py_TYPE(self));
    }
    Py_XDECREF(function);
    Py_XDECREF(self);
    mg_depth_leave(capture);
    return view == NULL ? MG_ERR : mg_world_set_view(capture, record, view);
}

/* 1 for objects that programs make anew all the time, and that can't be referred to weakly: nodes of autograd's graphs, and
 * iterators. An entry would keep them, and what hangs on them: so captured code may pass them on, but not look which they are. */
static int
is_fleeting(PyObject *object, MgKind kind)
{
    PyTypeObject *type = Py_TYPE(object);
    return kind == MG_KIND_OPAQUE && !PyType_SUPPORTS_WEAKREFS(type) &&
           (type->tp_iternext != NULL || mg_is_autograd_node(object));
}

/* Guards which object lies at a source. If nothing is known of it but that, it is not kept alive: what it does when it goes,
 * as generators do, it does then. Nor is a compiled function, which has entries of its own. */
static int
guard_identity(MgCapture *capture, MgSource *source, PyObject *object, MgKind kind)
{
    if ((kind != MG_KIND_OPAQUE && !mg_world_is_compiled(object)) || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return mg_capture_guard(capture, MG_GUARD_IDENTITY, source, object);
    }
    PyObject *reference = PyWeakref_NewRef(object, NULL);
    int result = reference == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_WEAK, source, reference);
    Py_XDECREF(reference);
    return result;
}

int
mg_world_guard_object(MgCapture *capture, const MgOutside *record)
{
    PyObject *object = record->object;
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) || mg_torch_is_tensor(object) || PyType_Check(object)) {
        return mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, object);
    }
    PyObject *weak = PyWeakref_NewRef(object, NULL);
    int result = weak == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_WEAK, record->source, weak);
    Py_XDECREF(weak);
    return result;
}

int
mg_world_activate(MgCapture *capture, MgOutside *record)
{
    PyObject *object = record->object;
    MgSource *source = record->source;
    PyObject *type = (PyObject *)Py_TYPE(object);
    if (is_fleeting(object, record->kind)) { /* never more than provisional */
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
    }
    if (MG_UNLIKELY(capture->graph.touched != NULL) && mg_operator_look(capture, object) < 0) {
        return MG_ERR;
    }
    record->provisional = 0;
    if (record->kind != MG_KIND_TENSOR && mg_protocol_guard(capture, Py_TYPE(object)) < 0) {
        return MG_ERR;
    }
    switch (record->kind) {
        case MG_KIND_TENSOR:
            return reach_tensor(capture, record);
        case MG_KIND_METHOD:
            return reach_method(capture, record);
        case MG_KIND_CONSTANT:
        case MG_KIND_OPAQUE:
            return guard_identity(capture, source, object, record->kind);
        case MG_KIND_FUNCTION: {
            MgSource *code = mg_source_get(&capture->reads.sources, MG_SOURCE_FUNCTION, source, NULL, MG_PART_CODE);
            if (code == NULL || mg_capture_guard(capture, MG_GUARD_TYPE, source, type) < 0) {
                return MG_ERR;
            }
            return mg_capture_guard(capture, MG_GUARD_IDENTITY, code, PyFunction_GET_CODE(object));
        }
        case MG_KIND_TUPLE:
            if (mg_capture_guard(capture, MG_GUARD_TYPE, source, type) < 0) {
                return MG_ERR;
            }
            return mg_capture_guard_length(capture, source, PyTuple_GET_SIZE(object));
        case MG_KIND_VALUE:
            return mg_capture_guard(capture, MG_GUARD_VALUE, source, object);
        case MG_KIND_INSTANCE:
            if (mg_capture_guard(capture, MG_GUARD_TYPE, source, type) < 0) {
                return MG_ERR;
            }
            return has_value(object) ? mg_capture_guard(capture, MG_GUARD_VALUE, source, object) : MG_OK;
        default:
            return mg_capture_guard(capture, MG_GUARD_TYPE, source, type);
    }
}

int
mg_world_is_in_slot(const MgOutside *record)
{
    return record->kind == MG_KIND_OPAQUE && record->source != NULL && record->source->kind == MG_SOURCE_LOCAL;
}

/* Guards the identity of a plain value, wherever it was found. */
static int
guard_value(MgCapture *capture, PyObject *value)
{
    if (PyLong_CheckExact(value) && Py_ABS(Py_SIZE(value)) <= 1 && PyLong_AsLong(value) >= -5 &&
        PyLong_AsLong(value) <= 256) {
        return MG_OK; /* these are shared */
    }
    PyObject *original = mg_deferred_value(capture, value);
    if (original != NULL) {
        return mg_capture_guard(capture, MG_GUARD_IDENTITY, mg_deferred_source(capture, value), original);
    }
    for (int i = 0; i < capture->reads.sources.count; i++) {
        MgSource *source = capture->reads.sources.items[i];
        if (source->view == value && mg_capture_guard(capture, MG_GUARD_IDENTITY, source, value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_world_guard_values(MgCapture *capture, PyObject *left, PyObject *right)
{
    if (!mg_is_plain_value(left) || Py_TYPE(left) != Py_TYPE(right)) {
        return MG_OK;
    }
    int equal = PyObject_RichCompareBool(left, right, Py_EQ); /* if not, they are guarded to be two */
    if (equal <= 0) {
        return equal < 0 ? MG_ERR : MG_OK;
    }
    return guard_value(capture, left) < 0 || guard_value(capture, right) < 0 ? MG_ERR : MG_OK;
}

/* A fleeting object that was found at a source: itself, whichever it is. */
static PyObject *
pass_on(MgCapture *capture, MgOutside *record, MgSource *source)
{
    PyObject *type = (PyObject *)Py_TYPE(record->object);
    int status = source->kind == MG_SOURCE_CONST ? mg_world_activate(capture, record)
                 : record->source == source ? mg_capture_guard(capture, MG_GUARD_TYPE, source, type)
                                            : mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source);
    return status < 0 ? NULL : Py_NewRef(record->object);
}

/* 1 if a source is a cell of the function that is captured. */
static int
is_own_cell(const MgCapture *capture, const MgSource *source)
{
    PyObject *function = capture->root == NULL ? NULL : (PyObject *)mg_frame_function(capture->root);
    PyObject *closure = function != NULL && PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : NULL;
    for (Py_ssize_t i = 0; closure != NULL && source->kind == MG_SOURCE_CONST && i < PyTuple_GET_SIZE(closure); i++) {
        if (PyTuple_GET_ITEM(closure, i) == source->key) {
            return 1;
        }
    }
    return 0;
}

/* 1 for a part of an object that differs from one object to the next: what it holds, and no class or code. */
static int
leads_on(const MgSource *source)
{
    switch (source->kind) {
        case MG_SOURCE_CELL:
        case MG_SOURCE_ITEM:
        case MG_SOURCE_DICT_ITEM:
        case MG_SOURCE_DICT:
        case MG_SOURCE_ATTR:
        case MG_SOURCE_METHOD:
            return 1;
        case MG_SOURCE_FUNCTION:
            return source->index == MG_PART_CLOSURE; /* frames hold defaults as they are */
        default:
            return 0;
    }
}

/* 1 for a number that is not taken for a constant, if it was seen to vary: an argument, a variable of the function's closure, or
 * what one leads to; of floats also what globals lead to. */
static int
may_vary(const MgCapture *capture, const MgSource *source, int is_float)
{
    if (source->is_fixed && !is_float && !mg_varying_module_ints) {
        return 0;
    }
    while (source->base != NULL) {
        if (source->kind == MG_SOURCE_CELL && is_own_cell(capture, source->base)) {
            return 1;
        }
        if (!leads_on(source)) {
            return 0;
        }
        source = source->base;
    }
    return source->kind == MG_SOURCE_LOCAL || (is_float && source->kind == MG_SOURCE_CONST);
}

/* An int or float that varies from call to call, as a number. New; NULL without an exception if it does not. */
static PyObject *
reach_number(MgCapture *capture, PyObject *object, MgSource *source)
{
    MgDim dim;
    int is_float = PyFloat_CheckExact(object), is_static = !may_vary(capture, source, is_float);
    int varies = !is_float    ? mg_varying_int(capture, source, is_static, object, &dim)
                 : !is_static ? mg_varying_float(capture, source, object)
                              : 0;
    if (varies <= 0 || mg_capture_guard(capture, MG_GUARD_TYPE, source, (PyObject *)Py_TYPE(object)) < 0) {
        return NULL;
    }
    source->raw = object;
    return is_float ? mg_number_of_float(capture, object, source) : mg_number_of(capture, dim);
}

PyObject *
mg_world_reach(MgCapture *capture, PyObject *object, MgSource *source)
{
    if (source->view != NULL) { /* read before, and outside objects do not change during a capture */
        return Py_NewRef(source->view);
    }
    PyObject *view = NULL;
    if (mg_is_singleton(object)) {
        if (mg_capture_guard(capture, MG_GUARD_IDENTITY, source, object) < 0) {
            return NULL;
        }
        view = Py_NewRef(object);
    }
    else if ((PyLong_CheckExact(object) || PyFloat_CheckExact(object)) && capture->varying.lattice != NULL &&
             (view = reach_number(capture, object, source)) != NULL) {
    }
    else if (PyErr_Occurred()) {
        return NULL;
    }
    else if (mg_is_plain_value(object) || Py_TYPE(object) == mg_torch.device || mg_kind_is_value(Py_TYPE(object))) {
        /* containers find a NaN by its identity */
        MgGuardKind kind = mg_is_nan(object) ? MG_GUARD_IDENTITY : MG_GUARD_VALUE;
        if (mg_capture_guard(capture, kind, source, object) < 0) {
            return NULL;
        }
        view = Py_NewRef(object);
    }
    else {
        MgOutside *record = mg_outside_find(capture, object);
        if (record == NULL) {
            record = mg_outside_new(capture, object, source, mg_world_kind_of(object, source), 1);
            if (record == NULL) {
                return NULL;
            }
        }
        if (is_fleeting(object, record->kind)) {
            return pass_on(capture, record, source);
        }
        if (record->provisional) {
            if (!mg_world_is_in_slot(record)) {
                record->source = source;
            }
            if (mg_world_activate(capture, record) < 0) {
                return NULL;
            }
        }
        if (record->source != source) {
            int constant = record->kind == MG_KIND_CONSTANT || record->kind == MG_KIND_OPAQUE;
            if ((constant ? guard_identity(capture, source, object, record->kind)
                          : mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source)) < 0) {
                return NULL;
            }
        }
        view = mg_world_view(record);
        /* a container's view may still change from itself to a shadow: ask the record each time */
        if (record->kind != MG_KIND_TENSOR && record->kind != MG_KIND_CONSTANT) {
            return view;
        }
    }
    source->view = Py_NewRef(view);
    return view;
}

PyObject *
mg_world_touch(MgCapture *capture, PyObject *value)
{
    if (value == NULL || mg_is_plain_value(value) || mg_is_singleton(value)) {
        return value;
    }
    if (mg_is_twin(value)) { /* one that came out of a container becomes an input now */
        MgTwin *twin = mg_twin_of(value);
        if (twin->source != NULL && twin->node < 0 && twin->capture == capture->number &&
            is_input_when_read(twin->source) && mg_record_input(capture, value) < 0) {
            Py_CLEAR(value);
        }
        return value;
    }
    MgOutside *record = mg_outside_find(capture, value);
    if (record == NULL) {
        if (mg_torch_is_tensor(value)) {
            mg_capture_abort(capture, MG_REASON_LOST_TENSOR, NULL);
            Py_DECREF(value);
            return NULL;
        }
        return value;
    }
    if (record->provisional && mg_world_activate(capture, record) < 0) {
        Py_DECREF(value);
        return NULL;
    }
    PyObject *view = mg_world_view(record);
    Py_DECREF(value);
    return view;
}
