/* The world: reads from outside, guarded; writes to outside, held back.
 *
 * Outside is whatever existed before the capture began. Every object with an identity of its own that captured code
 * reads from there gets an MgRecord, keyed by its address, with the source by which a later call finds it again. Small
 * immutable values have none: they are guarded by value where they are read, and are inside from then on.
 *
 * Invariant: no outside object is changed while a capture is under way. A write goes to the record (`held`), or to the
 * shadow that stands for the object; reads look there first. */
#include "world.h"

#include "alias.h"
#include "control.h"
#include "depth.h"
#include "except.h"
#include "exit.h"
#include "finalizer.h"
#include "lazy.h"
#include "operator.h"
#include "protocol.h"
#include "record.h"
#include "route.h"
#include "rules.h"
#include "settable.h"
#include "shadow.h"
#include "symbol.h"
#include "trace.h"
#include "worldbase.h"

#include <structmember.h>

/* ---- kinds ---- */

/* 1 for an object of a Python class over a number or a string: it has a value too. */
static int
has_value(PyObject *object)
{
    return PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object) ||
           PyComplex_Check(object);
}

/* 1 for an object of a class over a C type of which only that type's own functions know what it holds. */
static int
has_hidden_state(PyObject *object)
{
    PyTypeObject *base = Py_TYPE(object);
    while (mg_is_heap_type(base) && base->tp_base != NULL) {
        base = base->tp_base;
    }
    return !mg_type_is_python(Py_TYPE(object)) ||
           (base != &PyBaseObject_Type && !has_value(object) && mg_shadow_base(base) == NULL);
}

/* ---- records ---- */

static MgRecord *
new_record(MgCapture *capture, PyObject *object, MgSource *source, MgKind kind, int provisional)
{
    MgRecord *record = PyMem_Calloc(1, sizeof(MgRecord));
    if (record == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (capture->record_count == capture->record_room) {
        int room = capture->record_room == 0 ? 128 : capture->record_room * 2;
        MgRecord **list = PyMem_Realloc(capture->record_list, sizeof(MgRecord *) * (size_t)room);
        if (list == NULL) {
            PyMem_Free(record);
            PyErr_NoMemory();
            return NULL;
        }
        capture->record_list = list;
        capture->record_room = room;
    }
    if (mg_table_set(&capture->records, object, NULL, record) < 0) {
        PyMem_Free(record);
        return NULL;
    }
    record->references = Py_REFCNT(object);
    for (int i = 0; capture->point && i < capture->argument_count;
         i++) { /* but for the frame's own, of which one is real */
        record->references -= capture->arguments[i] == object ? 2 : 0;
    }
    record->object = Py_NewRef(object);
    record->source = source;
    record->kind = kind;
    record->provisional = provisional;
    capture->record_list[capture->record_count++] = record;
    return record;
}

MgRecord *
mg_world_find(MgCapture *capture, PyObject *object)
{
    return mg_table_get(&capture->records, object, NULL);
}

MgRecord *
mg_world_record(MgCapture *capture, PyObject *object)
{
    object = mg_twin_original(object);
    MgRecord *record = mg_world_find(capture, object);
    return record != NULL ? record : mg_table_get(&capture->views, object, NULL);
}

PyObject *
mg_world_identity(MgCapture *capture, PyObject *object)
{
    object = mg_twin_original(object);
    PyObject *value = mg_lazy_value(capture, object);
    if (value != NULL) {
        return value;
    }
    MgRecord *record = mg_table_get(&capture->views, object, NULL);
    return record != NULL ? record->object : object;
}

MgRecord *
mg_world_owner(MgCapture *capture, PyObject *owner)
{
    MgRecord *record = mg_world_find(capture, owner);
    int has_dict = mg_is_heap_type(Py_TYPE(owner)) || PyODict_CheckExact(owner);
    return record == NULL && has_dict ? mg_table_get(&capture->views, owner, NULL) : record;
}

MgRecord *
mg_world_pin(MgCapture *capture, PyObject *object)
{
    MgRecord *record = mg_world_find(capture, object);
    if (record != NULL) {
        return record;
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, object, 0);
    if (source == NULL) {
        return NULL;
    }
    MgKind kind = PyDict_Check(object) ? MG_KIND_DICT : PyCell_Check(object) ? MG_KIND_CELL : MG_KIND_CONSTANT;
    return new_record(capture, object, source, kind, 0);
}

PyObject *
mg_world_adopt(MgCapture *capture, PyObject *object)
{
    if (mg_table_get(&capture->views, object, NULL) != NULL || mg_is_twin(object)) {
        return Py_NewRef(object);
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, object, 0);
    return source == NULL ? NULL : mg_world_reach(capture, object, source);
}

/* Makes `view` what captured code sees of the record's object. Steals `view`. */
static int
set_view(MgCapture *capture, MgRecord *record, PyObject *view)
{
    if (mg_table_set(&capture->views, view, NULL, record) < 0) {
        Py_DECREF(view);
        return MG_ERR;
    }
    Py_XSETREF(record->view, view);
    return MG_OK;
}

PyObject *
mg_world_view(MgRecord *record)
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

/* 1 for a function that may be another one at each call, with the same code: an argument, or one that another function has
 * made, and that an argument leads to. An entry would keep what its cells have. */
static int
is_made_anew(PyFunctionObject *function, const MgSource *source)
{
    if (source->kind == MG_SOURCE_LOCAL) {
        return 1;
    }
    while (source->base != NULL && source->kind != MG_SOURCE_LOOKUP) {
        source = source->base;
    }
    PyObject *name = function->func_qualname;
    return source->kind == MG_SOURCE_LOCAL && PyUnicode_CheckExact(name) &&
           PyUnicode_Find(name, MG_STRING("<locals>"), 0, PyUnicode_GET_LENGTH(name), 1) >= 0;
}

/* Which kind an object with identity is. */
static MgKind
kind_of(PyObject *object, MgSource *source)
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
    if (source != NULL && source->kind == MG_SOURCE_LOCAL && (mg_is_partial(object) || type == &PyBaseObject_Type)) {
        return MG_KIND_INSTANCE; /* it may be a new one at each call, too */
    }
    if (type == &PyBaseObject_Type || mg_rules_is_constant_type(type)) {
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
           (PyUnicode_CompareWithASCIIString(base->key, "_parameters") == 0 ||
            PyUnicode_CompareWithASCIIString(base->key, "_buffers") == 0);
}

/* A twin for an outside tensor. */
static int
reach_tensor(MgCapture *capture, MgRecord *record)
{
    PyObject *tensor = record->object;
    PyTypeObject *type = Py_TYPE(tensor);
    record->source->raw = tensor;
    if (type == mg_twin_class) {
        return mg_capture_abort(capture, MG_REASON_LOST_TENSOR, "a tensor of another capture");
    }
    if (type != mg_torch.tensor && type != mg_torch.parameter && !mg_rules_is_plain_tensor_type(type)) {
        int lazy = strncmp(type->tp_name, "Uninitialized", strlen("Uninitialized")) == 0;
        return mg_capture_abort(capture, lazy ? MG_REASON_UNINITIALIZED : MG_REASON_TENSOR_SUBCLASS, "%s",
                                type->tp_name);
    }
    PyObject *before = capture->metas == NULL ? NULL : mg_table_get(capture->metas, tensor, NULL);
    MgMeta *meta = before != NULL ? (MgMeta *)Py_NewRef(before) : mg_meta_of_tensor(tensor);
    if (meta == NULL) {
        return PyErr_Occurred() ? MG_ERR : mg_capture_abort(capture, MG_REASON_TENSOR_KIND, NULL);
    }
    capture->parameters |= type == mg_torch.parameter;
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
    if (set_view(capture, record, view) < 0) {
        return MG_ERR;
    }
    return capture->quiet == 0 && is_input_when_read(record->source) ? mg_record_input(capture, view) : MG_OK;
}

/* A bound method from outside, or a builtin that is bound to a tensor: an inside one over views of its parts. */
static int
reach_method(MgCapture *capture, MgRecord *record)
{
    PyObject *method = record->object;
    MgSource *source = record->source;
    MgSource *function_source = mg_source_get(&capture->sources, MG_SOURCE_METHOD, source, NULL, 0);
    MgSource *self_source = mg_source_get(&capture->sources, MG_SOURCE_METHOD, source, NULL, 1);
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
    return view == NULL ? MG_ERR : set_view(capture, record, view);
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
 * as generators do, it does then. */
static int
guard_identity(MgCapture *capture, MgSource *source, PyObject *object, MgKind kind)
{
    if (kind != MG_KIND_OPAQUE || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return mg_capture_guard(capture, MG_GUARD_IDENTITY, source, object);
    }
    PyObject *reference = PyWeakref_NewRef(object, NULL);
    int result = reference == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_WEAK, source, reference);
    Py_XDECREF(reference);
    return result;
}

int
mg_world_guard_object(MgCapture *capture, const MgRecord *record)
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

/* Guards a record that captured code really uses now. */
static int
activate(MgCapture *capture, MgRecord *record)
{
    PyObject *object = record->object;
    MgSource *source = record->source;
    PyObject *type = (PyObject *)Py_TYPE(object);
    if (is_fleeting(object, record->kind)) { /* never more than provisional */
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
    }
    if (MG_UNLIKELY(capture->touched != NULL) && mg_operator_look(capture, object) < 0) {
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
            MgSource *code = mg_source_get(&capture->sources, MG_SOURCE_FUNCTION, source, NULL, 0);
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

/* 1 for what captured code may have in its hands although nothing but its type is guarded: see enter_point. */
static int
is_in_slot(const MgRecord *record)
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
    PyObject *original = mg_lazy_value(capture, value);
    if (original != NULL) {
        return mg_capture_guard(capture, MG_GUARD_IDENTITY, mg_lazy_source(capture, value), original);
    }
    for (int i = 0; i < capture->sources.count; i++) {
        MgSource *source = capture->sources.items[i];
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
pass_on(MgCapture *capture, MgRecord *record, MgSource *source)
{
    PyObject *type = (PyObject *)Py_TYPE(record->object);
    int status = source->kind == MG_SOURCE_CONST ? activate(capture, record)
                 : record->source == source ? mg_capture_guard(capture, MG_GUARD_TYPE, source, type)
                                            : mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source);
    return status < 0 ? NULL : Py_NewRef(record->object);
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
    else if (mg_is_plain_value(object) || Py_TYPE(object) == mg_torch.device ||
             mg_rules_is_value_type(Py_TYPE(object))) {
        /* containers find a NaN by its identity */
        MgGuardKind kind = mg_is_nan(object) ? MG_GUARD_IDENTITY : MG_GUARD_VALUE;
        if (mg_capture_guard(capture, kind, source, object) < 0) {
            return NULL;
        }
        view = Py_NewRef(object);
    }
    else {
        MgRecord *record = mg_world_find(capture, object);
        if (record == NULL) {
            record = new_record(capture, object, source, kind_of(object, source), 1);
            if (record == NULL) {
                return NULL;
            }
        }
        if (is_fleeting(object, record->kind)) {
            return pass_on(capture, record, source);
        }
        if (record->provisional) {
            if (!is_in_slot(record)) {
                record->source = source;
            }
            if (activate(capture, record) < 0) {
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
    MgRecord *record = mg_world_find(capture, value);
    if (record == NULL) {
        if (mg_torch_is_tensor(value)) {
            mg_capture_abort(capture, MG_REASON_LOST_TENSOR, NULL);
            Py_DECREF(value);
            return NULL;
        }
        return value;
    }
    if (record->provisional && activate(capture, record) < 0) {
        Py_DECREF(value);
        return NULL;
    }
    PyObject *view = mg_world_view(record);
    Py_DECREF(value);
    return view;
}

/* ---- shadows ----
 *
 * C code may look into whatever it is given, and into what that holds: so a container is exposed with all that hangs on
 * it. Values are guarded, containers in it get shadows of their own, tensors become twins, objects are guarded by type.
 * Whatever captured code stores in an inside object is exposed first (mg_trace_expose): no container that C code can
 * reach is an unexposed one. */

static int expose_record(MgCapture *capture, MgRecord *record);

/* 1 if dicts and sets can find the key, which lies at a level of another one, without running Python code. */
static int
is_quiet_key(PyObject *key, int level)
{
    if (Py_IS_TYPE(key, &PyTuple_Type)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
            if (level == MG_MOST_LEVELS || !is_quiet_key(PyTuple_GET_ITEM(key, i), level + 1)) {
                return 0;
            }
        }
        return 1;
    }
    PyTypeObject *type = Py_TYPE(key);
    if (!mg_is_heap_type(type) || PyType_Check(key)) {
        return !PyFrozenSet_Check(key);
    }
    if (type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare) {
        return 1;
    }
    /* members of enums, also of those that are strings or numbers */
    return mg_rules_is_constant_type(type) && (type->tp_richcompare == PyBaseObject_Type.tp_richcompare ||
                                               type->tp_richcompare == PyUnicode_Type.tp_richcompare ||
                                               type->tp_richcompare == PyLong_Type.tp_richcompare);
}

/* What stands for an item of an exposed container, to which we have so many references ourselves. New. */
static PyObject *
expose_item(MgCapture *capture, PyObject *item, MgSource *source, int ours)
{
    if (source == NULL) {
        return NULL;
    }
    int known = mg_world_find(capture, item) != NULL;
    capture->quiet++;
    PyObject *view = mg_world_reach(capture, item, source);
    capture->quiet--;
    MgRecord *record = known ? NULL : mg_world_find(capture, item);
    if (record != NULL) {
        record->references -= ours;
    }
    if (view == NULL || mg_is_twin(view)) {
        return view;
    }
    PyObject *exposed = mg_world_escape(capture, view);
    Py_DECREF(view);
    if (exposed != NULL && mg_world_guard_protocols(capture, exposed) < 0) {
        Py_CLEAR(exposed);
    }
    return exposed;
}

static int
expose_sequence(MgCapture *capture, MgRecord *record, PyObject *shadow)
{
    PyObject *sequence = record->object;
    Py_ssize_t size = Py_SIZE(sequence);
    if (mg_capture_look(capture, sequence) < 0 || mg_capture_guard_length(capture, record->source, size) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ITEM, record->source, NULL, i);
        if (i >= Py_SIZE(sequence)) {
            return mg_capture_abort(capture, MG_REASON_OPAQUE, "a container that another thread changes");
        }
        PyObject *item = record->kind == MG_KIND_LIST ? PyList_GET_ITEM(sequence, i) : mg_deque_item(sequence, i);
        Py_INCREF(item);
        PyObject *view = expose_item(capture, item, source, 1);
        Py_DECREF(item);
        int status = view == NULL ? MG_ERR : mg_shadow_add(shadow, view);
        Py_XDECREF(view);
        if (status < 0) {
            return MG_ERR;
        }
    }
    return record->kind == MG_KIND_DEQUE ? mg_capture_guard_limit(capture, record->source, mg_deque_limit(sequence))
                                         : MG_OK;
}

/* Guards what a defaultdict makes its values with, and gives it to the shadow. */
static int
expose_factory(MgCapture *capture, MgRecord *record, PyObject *shadow)
{
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ATTR, record->source, mg_shadow_factory, 0);
    if (source == NULL) {
        return MG_ERR;
    }
    PyObject *factory = mg_source_load(source, record->object, NULL);
    if (factory == NULL) {
        return mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL);
    }
    PyObject *view = mg_world_reach(capture, factory, source);
    if (view != NULL && !mg_route_is_factory(capture, view)) { /* C code would call it behind the rules' back */
        Py_DECREF(view);
        return PyErr_Occurred() ? MG_ERR : mg_capture_abort(capture, MG_REASON_OPAQUE, "a defaultdict");
    }
    int status = view == NULL ? MG_ERR : Py_TYPE(mg_shadow_factory)->tp_descr_set(mg_shadow_factory, shadow, view);
    Py_XDECREF(view);
    return status;
}

/* A key of an outside dict, which is guarded to be this object: whatever else leads to it must lead there again, and
 * other objects are guarded to be none of the keys (guard_apart). */
static int
pin_key(MgCapture *capture, PyObject *key)
{
    if (mg_is_plain_value(key) || mg_is_singleton(key)) {
        return MG_OK;
    }
    if (mg_depth_enter(capture) < 0) {
        return MG_ERR;
    }
    int status = MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && PyTuple_CheckExact(key) && i < PyTuple_GET_SIZE(key); i++) {
        status = pin_key(capture, PyTuple_GET_ITEM(key, i));
    }
    if (status == MG_OK && PyMethod_Check(key)) {
        status = pin_key(capture, PyMethod_GET_FUNCTION(key));
        status = status < 0 ? status : pin_key(capture, PyMethod_GET_SELF(key));
    }
    mg_depth_leave(capture);
    if (status < 0) {
        return MG_ERR;
    }
    MgRecord *record = mg_world_find(capture, key);
    if (record == NULL) {
        record = mg_world_pin(capture, key);
        if (record != NULL) {
            record->references -= 2; /* the source's, and that of the tuple of all keys */
        }
    }
    else if (record->provisional && activate(capture, record) < 0) {
        return MG_ERR;
    }
    else if (record->kind != MG_KIND_TUPLE &&
             mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, record->object) < 0) {
        return MG_ERR;
    }
    if (record != NULL) {
        record->is_key = 1;
    }
    return record == NULL ? MG_ERR : MG_OK;
}

static int
expose_dict(MgCapture *capture, MgRecord *record, PyObject *shadow)
{
    PyObject *dict = record->object;
    PyObject *keys = PyTuple_New(PyDict_GET_SIZE(dict));
    MgDictWalk walk = {0};
    PyObject *key, *value;
    Py_ssize_t count = 0;
    for (; keys != NULL && count < PyTuple_GET_SIZE(keys) && mg_dict_next(dict, &walk, &key, &value); count++) {
        PyTuple_SET_ITEM(keys, count, Py_NewRef(key));
    }
    if (keys != NULL && !mg_dict_is_walked(dict, &walk, count)) {
        Py_DECREF(keys);
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "an OrderedDict whose items are not those of its order");
    }
    int status = keys == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_KEYS, record->source, keys);
    for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(keys); i++) { /* all, before any is looked up */
        key = PyTuple_GET_ITEM(keys, i);
        if (!is_quiet_key(key, 0)) {
            status = mg_capture_abort(capture, MG_REASON_OPAQUE, "a key of type %s", Py_TYPE(key)->tp_name);
        }
    }
    for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(keys); i++) {
        key = PyTuple_GET_ITEM(keys, i);
        if (pin_key(capture, key) < 0) {
            status = MG_ERR;
            break;
        }
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_DICT_ITEM, record->source, key, 0);
        value = Py_XNewRef(PyDict_GetItemWithError(dict, key));
        if (value == NULL) {
            status = PyErr_Occurred()
                         ? MG_ERR
                         : mg_capture_abort(capture, MG_REASON_OPAQUE, "a container that another thread changes");
            break;
        }
        PyObject *view = expose_item(capture, value, source, 1);
        Py_DECREF(value);
        status = view == NULL ? MG_ERR : mg_shadow_set(shadow, key, view);
        Py_XDECREF(view);
    }
    Py_XDECREF(keys);
    if (status == MG_OK && PyObject_TypeCheck(dict, mg_defaultdict_type)) {
        status = expose_factory(capture, record, shadow);
    }
    /* the writes that were held back so far */
    Py_ssize_t position = 0;
    while (status == MG_OK && record->held != NULL && PyDict_Next(record->held, &position, &key, &value)) {
        PyObject *view = value == mg_capture_deleted ? NULL : mg_world_escape(capture, value);
        if (value == mg_capture_deleted) {
            status = PyDict_Contains(shadow, key);
            status = status > 0 ? mg_shadow_set(shadow, key, NULL) : status;
        }
        else {
            status = view == NULL ? MG_ERR : mg_shadow_set(shadow, key, view);
        }
        Py_XDECREF(view);
    }
    return status;
}

/* A set keeps its items as they are: they can't be containers that change. */
static int
expose_set(MgCapture *capture, MgRecord *record, PyObject *shadow)
{
    PyObject *set = record->object;
    PyObject *keys = mg_set_items(shadow);
    if (keys == NULL) {
        return MG_ERR;
    }
    int plain = 1, status = MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(keys); i++) {
        PyObject *item = PyList_GET_ITEM(keys, i);
        plain = plain && (mg_is_plain_value(item) || mg_is_singleton(item));
        if (!is_quiet_key(item, 0)) {
            status = mg_capture_abort(capture, MG_REASON_OPAQUE, "a set of %s", Py_TYPE(item)->tp_name);
        }
    }
    if (status == MG_OK && plain) {
        PyObject *tuple = PyList_AsTuple(keys);
        status = tuple == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_KEYS, record->source, tuple);
        Py_XDECREF(tuple);
    }
    else if (status == MG_OK) {
        status = mg_capture_guard_length(capture, record->source, PySet_GET_SIZE(set));
        for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(keys); i++) {
            MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_SET_ITEM, record->source, NULL, i);
            PyObject *view = expose_item(capture, PyList_GET_ITEM(keys, i), source, 1 + (shadow != set));
            Py_XDECREF(view);
            status = view == NULL ? MG_ERR : MG_OK;
        }
    }
    Py_DECREF(keys);
    return status;
}

/* A tuple is itself, unless something in it has a shadow: then it is a tuple of what stands for its items. */
static int
expose_tuple(MgCapture *capture, MgRecord *record)
{
    PyObject *tuple = record->object;
    Py_ssize_t size = PyTuple_GET_SIZE(tuple);
    PyObject *views = PyTuple_New(size);
    int same = 1;
    for (Py_ssize_t i = 0; views != NULL && i < size; i++) {
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ITEM, record->source, NULL, i);
        PyObject *view = expose_item(capture, PyTuple_GET_ITEM(tuple, i), source, 0);
        if (view == NULL) {
            Py_DECREF(views);
            return MG_ERR;
        }
        PyTuple_SET_ITEM(views, i, view);
        same = same && view == PyTuple_GET_ITEM(tuple, i);
    }
    if (views == NULL || same) {
        Py_XDECREF(views);
        return views == NULL ? MG_ERR : MG_OK;
    }
    PyTypeObject *type = Py_TYPE(tuple);
    if (type != &PyTuple_Type) {
        Py_SETREF(views, mg_shadow_tuple(type, views));
        if (views == NULL) {
            return MG_ERR;
        }
    }
    return set_view(capture, record, views);
}

/* A mappingproxy: one over what captured code sees of its dict. */
static int
expose_proxy(MgCapture *capture, MgRecord *record)
{
    PyObject *mapping = mg_proxy_mapping(record->object);
    if (!PyDict_CheckExact(mapping)) {
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "a mappingproxy");
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_PROXY, record->source, NULL, 0);
    PyObject *view = expose_item(capture, mapping, source, 0);
    PyObject *proxy = view == NULL ? NULL : PyDictProxy_New(view);
    Py_XDECREF(view);
    return proxy == NULL ? MG_ERR : set_view(capture, record, proxy);
}

/* Gives a container its shadow, and everything in it. */
static int
expose_record(MgCapture *capture, MgRecord *record)
{
    PyObject *object = record->object;
    PyTypeObject *base = mg_shadow_base(Py_TYPE(object));
    record->exposed = 1;
    if (record->kind == MG_KIND_TUPLE) {
        return expose_tuple(capture, record);
    }
    if (record->kind == MG_KIND_PROXY) {
        return expose_proxy(capture, record);
    }
    if (Py_IS_TYPE(object, &PyFrozenSet_Type)) {
        return expose_set(capture, record, object);
    }
    PyObject *shadow = base == NULL ? NULL
                                    : mg_shadow_empty(Py_TYPE(object), base,
                                                      record->kind == MG_KIND_DEQUE ? mg_deque_limit(object) : -1);
    if (shadow == NULL) {
        return PyErr_Occurred() ? MG_ERR : mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
    }
    Py_INCREF(shadow);
    int status = set_view(capture, record, shadow); /* first, so that cycles end */
    if (status == MG_OK) {
        status = record->kind == MG_KIND_DICT ? expose_dict(capture, record, shadow)
                 : record->kind == MG_KIND_SET
                     ? (mg_set_copy_into(shadow, object) < 0 ? MG_ERR : expose_set(capture, record, shadow))
                     : expose_sequence(capture, record, shadow);
    }
    record->unfinished = status < 0;
    Py_DECREF(shadow);
    return status < 0 ? status : mg_finalizer_watch(capture, record);
}

PyObject *
mg_world_escape(MgCapture *capture, PyObject *object)
{
    MgRecord *record = mg_is_plain_value(object) ? NULL : mg_world_find(capture, object);
    if (PyMethod_Check(object)) { /* two are equal if they are bound to one object */
        MgRecord *self = mg_world_find(capture, PyMethod_GET_SELF(object));
        if (self != NULL && self->kind == MG_KIND_INSTANCE && !self->provisional) {
            self->exposed = 1;
        }
    }
    if (record == NULL) {
        return Py_NewRef(object);
    }
    if (record->provisional && activate(capture, record) < 0) {
        return NULL;
    }
    if (record->exposed) {
        return mg_world_view(record);
    }
    int status = MG_OK;
    switch (record->kind) {
        case MG_KIND_LIST:
        case MG_KIND_DICT:
        case MG_KIND_SET:
        case MG_KIND_DEQUE:
        case MG_KIND_TUPLE:
        case MG_KIND_PROXY:
            if (mg_depth_enter(capture) < 0) {
                return NULL;
            }
            status = expose_record(capture, record);
            mg_depth_leave(capture);
            break;
        default:
            record->exposed = 1;
            break;
    }
    return status < 0 ? NULL : mg_world_view(record);
}

PyObject *
mg_world_expose(MgCapture *capture, PyObject *object)
{
    MgRecord *record = mg_is_plain_value(object) ? NULL : mg_world_find(capture, object);
    if (record != NULL && record->kind == MG_KIND_INSTANCE && mg_is_partial(object)) { /* C code may call it */
        if ((record->provisional && activate(capture, record) < 0) ||
            mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, object) < 0) {
            return NULL;
        }
        record->kind = MG_KIND_CONSTANT;
    }
    if (record != NULL &&
        (record->kind == MG_KIND_OPAQUE || (record->kind == MG_KIND_INSTANCE && has_hidden_state(object)))) {
        mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return mg_world_escape(capture, object);
}

/* ---- dicts: globals, instance dicts, user's dicts ---- */

int
mg_world_dict_get(MgCapture *capture, MgRecord *record, PyObject *key, PyObject **result)
{
    *result = NULL;
    if (record->view != NULL) {
        PyObject *value = PyDict_GetItemWithError(record->view, key);
        if (value == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        *result = mg_world_touch(capture, Py_NewRef(value));
        return *result == NULL ? -1 : 1;
    }
    if (record->held != NULL) {
        PyObject *value = PyDict_GetItemWithError(record->held, key);
        if (value != NULL) {
            if (value == mg_capture_deleted) {
                return 0;
            }
            *result = mg_world_touch(capture, Py_NewRef(value));
            return *result == NULL ? -1 : 1;
        }
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_DICT_ITEM, record->source, key, 0);
    if (source == NULL) {
        return -1;
    }
    if (source->view != NULL) {
        *result = Py_NewRef(source->view);
        return 1;
    }
    if (mg_dict_find(record->object, key) == &mg_dict_unknown) {
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "a dict with a key whose __eq__ would have to run");
    }
    PyObject *value = PyDict_GetItemWithError(record->object, key);
    if (value == NULL) {
        if (PyErr_Occurred()) {
            return -1;
        }
        return mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0 ? -1 : 0;
    }
    *result = mg_world_reach(capture, value, source);
    return *result == NULL ? -1 : 1;
}

/* A dict or cell is about to let go of what it really holds, if captured code has not written there before. */
static int
replace(MgCapture *capture, MgRecord *record, PyObject *key)
{
    PyObject *held = record->held == NULL ? NULL : PyDict_GetItemWithError(record->held, key);
    if (held != NULL || PyErr_Occurred() || record->view != NULL) { /* shadows are watched */
        return PyErr_Occurred() ? MG_ERR : MG_OK;
    }
    PyObject *old = record->kind == MG_KIND_CELL                             ? PyCell_GET(record->object)
                    : PyDict_Check(record->object) && mg_is_plain_value(key) ? mg_dict_find(record->object, key)
                                                                             : NULL;
    return old == &mg_dict_unknown ? MG_OK : mg_finalizer_drop(capture, old);
}

int
mg_world_dict_set(MgCapture *capture, MgRecord *record, PyObject *key, PyObject *value)
{
    if (replace(capture, record, key) < 0 ||
        (record->view == NULL && record->held == NULL && (record->held = PyDict_New()) == NULL)) {
        return MG_ERR;
    }
    if (record->view == NULL && value != NULL && PyDict_GetItemWithError(record->held, key) == mg_capture_deleted &&
        record->kind == MG_KIND_DICT) { /* it comes last now: only the whole dict can tell */
        PyObject *exposed = mg_world_escape(capture, record->object);
        Py_XDECREF(exposed);
        if (exposed == NULL) {
            return MG_ERR;
        }
    }
    if (record->view != NULL) {
        PyObject *exposed = value == NULL ? NULL : mg_world_escape(capture, value);
        int status = value != NULL && exposed == NULL ? MG_ERR : mg_shadow_set(record->view, key, exposed);
        Py_XDECREF(exposed);
        return status;
    }
    return PyDict_SetItem(record->held, key, value != NULL ? value : mg_capture_deleted);
}

MgRecord *
mg_world_dict_record(MgCapture *capture, MgRecord *owner)
{
    PyObject **slot = _PyObject_GetDictPtr(owner->object);
    if (slot == NULL) {
        return NULL;
    }
    if (*slot == NULL && (*slot = PyDict_New()) == NULL) {
        return NULL;
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_DICT, owner->source, NULL, 0);
    if (source == NULL) {
        return NULL;
    }
    MgRecord *record = mg_world_find(capture, *slot);
    if (record == NULL) {
        return new_record(capture, *slot, source, MG_KIND_DICT, 0);
    }
    if (record->source != source && mg_table_get(&capture->guarded, source, (void *)(uintptr_t)98) == NULL) {
        /* two objects with one dict */
        if (mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source) < 0 ||
            mg_table_set(&capture->guarded, source, (void *)(uintptr_t)98, source) < 0) {
            return NULL;
        }
    }
    return record;
}

/* ---- frames and names ---- */

/* Guards what a call of an outside function reads from the function itself. */
static int
guard_function(MgCapture *capture, MgRecord *record, int is_root)
{
    PyFunctionObject *function = (PyFunctionObject *)record->object;
    PyObject *parts[3] = {function->func_code, function->func_defaults, function->func_kwdefaults};
    for (int i = 0; i < (is_root ? 1 : 3); i++) { /* the root's arguments are guarded themselves */
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_FUNCTION, record->source, NULL, i);
        if (source == NULL) {
            return MG_ERR;
        }
        if (parts[i] == NULL) {
            if (mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0) {
                return MG_ERR;
            }
            continue;
        }
        if (i == 0) {
            if (mg_capture_guard(capture, MG_GUARD_IDENTITY, source, parts[i]) < 0) {
                return MG_ERR;
            }
            continue;
        }
        int before = capture->record_count;
        PyObject *exposed = expose_item(capture, parts[i], source, 0);
        Py_XDECREF(exposed);
        if (exposed == NULL) {
            return MG_ERR;
        }
        for (; before < capture->record_count; before++) { /* the frame of the call may have them already */
            capture->record_list[before]->references -= capture->record_list[before]->object != parts[i];
        }
    }
    if (record->kind != MG_KIND_CONSTANT) { /* another function may have the same code */
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_FUNCTION, record->source, NULL, 4);
        if (source == NULL || mg_capture_guard(capture, MG_GUARD_IDENTITY, source, function->func_globals) < 0) {
            return MG_ERR;
        }
    }
    PyObject *closure = function->func_closure;
    for (Py_ssize_t i = 0; closure != NULL && i < PyTuple_GET_SIZE(closure); i++) {
        PyObject *cell = PyTuple_GET_ITEM(closure, i);
        MgRecord *known = mg_world_find(capture, cell);
        if (mg_table_get(&capture->inside, cell, NULL) != NULL || (known != NULL && record->kind == MG_KIND_CONSTANT)) {
            continue;
        }
        if (record->kind == MG_KIND_CONSTANT) {
            MgRecord *pinned = mg_world_pin(capture, cell);
            PyObject *owner = pinned == NULL || is_root ? NULL : mg_source_text(record->source);
            int status = owner == NULL
                             ? 0
                             : mg_source_note(pinned->source, PyUnicode_FromFormat("%U.__closure__[%zd]", owner, i));
            Py_XDECREF(owner);
            if (status < 0 || PyErr_Occurred()) {
                return MG_ERR;
            }
            continue;
        }
        MgSource *tuple = mg_source_get(&capture->sources, MG_SOURCE_FUNCTION, record->source, NULL, 3);
        MgSource *source = tuple == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_ITEM, tuple, NULL, i);
        if (source == NULL ||
            (known == NULL ? new_record(capture, cell, source, MG_KIND_CELL, 0) == NULL
                           : known->source != source &&
                                 mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, known->source) < 0)) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* What a call has put into *args and **kwargs can be seen by C code. Both are new. */
static int
expose_rest(MgCapture *capture, PyCodeObject *code, PyObject **slots)
{
    if (code->co_flags & CO_VARARGS) {
        PyObject *rest = *slots++;
        for (Py_ssize_t i = 0; rest != NULL && i < PyTuple_GET_SIZE(rest); i++) {
            PyObject *item = PyTuple_GET_ITEM(rest, i);
            PyObject *exposed = mg_world_escape(capture, item);
            if (exposed == NULL) {
                return MG_ERR;
            }
            PyTuple_SET_ITEM(rest, i, exposed);
            Py_DECREF(item);
        }
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (*slots != NULL && PyDict_Next(*slots, &position, &key, &value)) {
            PyObject *exposed = mg_world_escape(capture, value);
            int status = exposed == NULL ? MG_ERR
                         : exposed == value
                             ? MG_OK
                             : PyDict_SetItem(*slots, key, exposed); /* no new key: the walk stays valid */
            Py_XDECREF(exposed);
            if (status < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

/* The root is a frame in the middle: its live locals and its stack are the sources. */
static int
enter_point(MgCapture *capture, MgFrame *frame)
{
    PyCodeObject *code = frame->f_code;
    int locals = code->co_nlocalsplus, count = capture->point_count;
    int offset = mg_frame_lasti(frame) + 1;
    capture->root = frame;
    capture->arguments = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    if (capture->arguments == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->argument_count = count;
    for (int i = 0; i < count; i++) {
        capture->arguments[i] = Py_XNewRef(frame->localsplus[i]);
    }
    PyObject *function = (PyObject *)frame->f_func;
    if (mg_table_set(&capture->guarded, function, NULL, function) < 0) {
        return MG_ERR; /* only its code matters, which the point is kept under */
    }
    for (int i = 0; i < count; i++) {
        PyObject *value = capture->arguments[i];
        if ((i < locals && !mg_exit_is_live(code, offset, i)) || (value == NULL && i >= locals)) {
            continue; /* an empty slot of the stack is empty at this offset, whatever happens */
        }
        PyObject *name = i < locals ? Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, i))
                                    : PyUnicode_FromFormat("stack%d", i - locals);
        MgSource *source = name == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_LOCAL, NULL, name, i);
        Py_XDECREF(name);
        if (source == NULL) {
            return MG_ERR;
        }
        if (value == NULL) {
            if (mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0) {
                return MG_ERR;
            }
            continue;
        }
        if (!mg_is_plain_value(value) && !mg_is_singleton(value) && !Py_IS_TYPE(value, &PyMethod_Type) &&
            !Py_IS_TYPE(value, mg_torch.device) && !mg_rules_is_value_type(Py_TYPE(value)) &&
            mg_world_find(capture, value) == NULL &&
            (kind_of(value, source) == MG_KIND_OPAQUE || PyWeakref_CheckRefExact(value))) {
            /* an iterator or a weak reference, say: which one it is is not guarded before captured code looks at it, and
             * it is not kept alive */
            if (mg_capture_guard(capture, MG_GUARD_TYPE, source, (PyObject *)Py_TYPE(value)) < 0 ||
                new_record(capture, value, source, MG_KIND_OPAQUE, 1) == NULL) {
                return MG_ERR;
            }
            continue;
        }
        MgRecord *record = mg_world_find(capture, value);
        if (record != NULL && record->provisional && is_in_slot(record)) { /* the same one in another slot */
            if (mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source) < 0) {
                return MG_ERR;
            }
            continue;
        }
        PyObject *view =
            mg_lazy_fits(value) ? mg_lazy_new(capture, value, source) : mg_world_reach(capture, value, source);
        if (view == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(frame->localsplus[i], view);
    }
    return mg_finalizer_watch_frame(capture, code);
}

int
mg_world_enter_function(MgCapture *capture, PyObject *function)
{
    if (mg_table_get(&capture->inside, function, NULL) != NULL ||
        mg_table_get(&capture->guarded, function, NULL) != NULL) {
        return MG_OK;
    }
    MgRecord *record = mg_world_find(capture, function);
    if (record == NULL) { /* found by CPython itself, along a type that is guarded, or by C code */
        record = mg_world_pin(capture, function);
    }
    else if (record->provisional && activate(capture, record) < 0) {
        return MG_ERR;
    }
    if (record == NULL || guard_function(capture, record, 0) < 0) {
        return MG_ERR;
    }
    return mg_table_set(&capture->guarded, function, NULL, record);
}

int
mg_world_enter_frame(MgCapture *capture, MgFrame *frame)
{
    PyFunctionObject *function = frame->f_func;
    int direct = capture->direct;
    capture->direct = 0;
    if (MG_UNLIKELY(mg_control_is_disabled(function)) && mg_frame_lasti(frame) < 0) { /* called by C code */
        return mg_capture_abort(capture, MG_REASON_DISABLED, "%U", function->func_qualname);
    }
    if (mg_world_enter_function(capture, (PyObject *)function) < 0) {
        return MG_ERR;
    }
    if (mg_frame_lasti(frame) >= 0) { /* a generator goes on */
        return MG_OK;
    }
    PyCodeObject *code = frame->f_code;
    int count = code->co_argcount + code->co_kwonlyargcount;
    if (!direct || function->func_defaults != NULL || function->func_kwdefaults != NULL) {
        for (int i = 0; i < count; i++) { /* defaults are bound raw, and C code may pass what it got out of a shadow */
            PyObject *value = frame->localsplus[i];
            if (value != NULL) {
                value = mg_world_touch(capture, value);
                frame->localsplus[i] = value;
                if (value == NULL) {
                    return MG_ERR;
                }
            }
        }
    }
    return expose_rest(capture, code, frame->localsplus + count);
}

int
mg_world_enter_root(MgCapture *capture, MgFrame *frame)
{
    if (capture->point) {
        return enter_point(capture, frame);
    }
    PyCodeObject *code = frame->f_code;
    int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                ((code->co_flags & CO_VARKEYWORDS) != 0);
    capture->root = frame;
    capture->arguments = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    if (capture->arguments == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->argument_count = count;
    for (int i = 0; i < count; i++) {
        capture->arguments[i] = Py_XNewRef(frame->localsplus[i]);
    }
    PyObject *function = (PyObject *)frame->f_func;
    MgRecord *record = mg_world_pin(capture, function);
    capture->direct = 0;
    if (record == NULL || guard_function(capture, record, 1) < 0) {
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        PyObject *value = capture->arguments[i];
        MgSource *source =
            mg_source_get(&capture->sources, MG_SOURCE_LOCAL, NULL, PyTuple_GET_ITEM(code->co_localsplusnames, i), i);
        if (source == NULL) {
            return MG_ERR;
        }
        if (value == NULL) {
            continue;
        }
        PyObject *view =
            mg_lazy_fits(value) ? mg_lazy_new(capture, value, source) : mg_world_reach(capture, value, source);
        if (view == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(frame->localsplus[i], view);
    }
    return MG_OK;
}

/* The record of a frame's globals. In texts those of another module are what an import gives. */
static MgRecord *
globals_record(MgCapture *capture, MgFrame *frame)
{
    MgRecord *record = mg_world_pin(capture, frame->f_globals);
    if (record == NULL || record->source->note != NULL || record->source->kind != MG_SOURCE_CONST ||
        capture->root == NULL || frame->f_globals == capture->root->f_globals) {
        return record;
    }
    PyObject *name = PyDict_GetItemWithError(frame->f_globals, MG_STRING("__name__"));
    if (name == NULL || !PyUnicode_Check(name)) {
        return PyErr_Occurred() ? NULL : record;
    }
    PyObject *dot = PyUnicode_FromString("."), *replacement = PyUnicode_FromString("_dot_");
    PyObject *flat = dot == NULL || replacement == NULL ? NULL : PyUnicode_Replace(name, dot, replacement, -1);
    Py_XDECREF(dot);
    Py_XDECREF(replacement);
    PyObject *text = flat == NULL ? NULL : PyUnicode_FromFormat("G['__import_%U']", flat);
    Py_XDECREF(flat);
    return mg_source_note(record->source, text) < 0 ? NULL : record;
}

PyObject *
mg_world_load_global(MgCapture *capture, MgFrame *frame, PyObject *name)
{
    PyObject *result;
    MgRecord *globals = globals_record(capture, frame);
    int unknown = globals == NULL || mg_operator_look_name(capture, frame->f_globals, name) < 0;
    int found = unknown ? -1 : mg_world_dict_get(capture, globals, name, &result);
    if (found == 0) {
        MgRecord *builtins = mg_world_pin(capture, frame->f_builtins);
        found = builtins == NULL ? -1 : mg_world_dict_get(capture, builtins, name, &result);
    }
    if (found == 0) {
        mg_except_name(PyExc_NameError, "name '%.200s' is not defined", name);
    }
    return found > 0 ? result : NULL;
}

int
mg_world_store_global(MgCapture *capture, MgFrame *frame, PyObject *name, PyObject *value)
{
    MgRecord *globals = mg_world_pin(capture, frame->f_globals);
    return globals == NULL ? MG_ERR : mg_world_dict_set(capture, globals, name, value);
}

PyObject *
mg_world_load_cell(MgCapture *capture, PyObject *cell)
{
    MgRecord *record = mg_world_find(capture, cell);
    if (record == NULL) { /* made by captured code */
        return mg_world_touch(capture, Py_XNewRef(PyCell_GET(cell)));
    }
    if (record->held != NULL) {
        PyObject *value = PyDict_GetItemWithError(record->held, Py_None);
        return value == NULL || value == mg_capture_deleted ? NULL : mg_world_touch(capture, Py_NewRef(value));
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_CELL, record->source, NULL, 0);
    if (source == NULL) {
        return NULL;
    }
    PyObject *value = PyCell_GET(cell);
    if (value == NULL) {
        mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL);
        return NULL;
    }
    return mg_world_reach(capture, value, source);
}

int
mg_world_store_cell(MgCapture *capture, PyObject *cell, PyObject *value)
{
    MgRecord *record = mg_world_find(capture, cell);
    if (record == NULL) {
        PyObject *old = PyCell_GET(cell);
        PyCell_SET(cell, Py_XNewRef(value));
        Py_XDECREF(old);
        return MG_OK;
    }
    return mg_world_dict_set(capture, record, Py_None, value);
}

/* ---- items ---- */

int
mg_world_find_item(MgCapture *capture, PyObject *dict, PyObject *key, PyObject **item)
{
    MgRecord *record = mg_world_find(capture, dict);
    if (record == NULL || record->view != NULL || record->kind != MG_KIND_DICT || Py_TYPE(dict) != &PyDict_Type ||
        !(mg_is_plain_value(key) || mg_is_singleton(key))) {
        return MG_UNCLEAR;
    }
    return mg_world_dict_get(capture, record, key, item);
}

PyObject *
mg_world_getitem(MgCapture *capture, PyObject *container, PyObject *key)
{
    if (mg_is_twin(container)) {
        return mg_record_getitem(capture, container, key);
    }
    PyObject *part;
    if (capture->symbols != NULL && mg_symbol_size_item(container, key, &part)) {
        return part;
    }
    PyObject *value;
    int found = mg_world_find_item(capture, container, key, &value);
    if (found != MG_UNCLEAR) {
        if (found == 0) {
            _PyErr_SetKeyError(key);
        }
        return found > 0 ? value : NULL;
    }
    MgRecord *record = mg_world_find(capture, container);
    PyTypeObject *type = Py_TYPE(container);
    if (record != NULL && record->view == NULL && !mg_is_twin(key)) {
        int sequence = (record->kind == MG_KIND_LIST && type == &PyList_Type) || record->kind == MG_KIND_TUPLE;
        if (sequence && PyLong_CheckExact(key) && Py_TYPE(container)->tp_as_mapping->mp_subscript != NULL) {
            Py_ssize_t size = Py_SIZE(container), index = PyLong_AsSsize_t(key);
            sequence = type->tp_as_mapping->mp_subscript == PyList_Type.tp_as_mapping->mp_subscript ||
                       type->tp_as_mapping->mp_subscript == PyTuple_Type.tp_as_mapping->mp_subscript ||
                       !mg_is_heap_type(type); /* a Python class may have its own */
            if (index == -1 && PyErr_Occurred()) {
                mg_error_clear();
            }
            else if (sequence && index >= -size && index < size) {
                if (mg_capture_look(capture, container) < 0 ||
                    (index < 0 && mg_capture_guard_length(capture, record->source, size) < 0)) {
                    return NULL;
                }
                index += index < 0 ? size : 0;
                MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ITEM, record->source, NULL, index);
                PyObject *item =
                    PyList_Check(container) ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
                return source == NULL ? NULL : mg_world_reach(capture, item, source);
            }
        }
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return NULL;
    }
    PyObject *exposed_key = mg_world_escape(capture, key);
    PyObject *result = exposed_key == NULL || mg_world_guard_protocols(capture, exposed_key) < 0
                           ? NULL
                           : PyObject_GetItem(exposed, exposed_key);
    Py_XDECREF(exposed_key);
    Py_DECREF(exposed);
    return mg_world_touch(capture, result);
}

int
mg_world_setitem(MgCapture *capture, PyObject *container, PyObject *key, PyObject *value)
{
    if (mg_is_twin(container)) {
        return mg_record_setitem(capture, container, key, value);
    }
    MgRecord *record = mg_world_find(capture, container);
    if (record != NULL && record->view == NULL && record->kind == MG_KIND_DICT && Py_TYPE(container) == &PyDict_Type &&
        mg_is_plain_value(key) && value != NULL) {
        return mg_world_dict_set(capture, record, key, value);
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return MG_ERR;
    }
    PyObject *exposed_key = mg_world_escape(capture, key);
    PyObject *exposed_value = value == NULL || exposed_key == NULL ? NULL : mg_world_escape(capture, value);
    int result = MG_ERR;
    if (exposed_key != NULL && (value == NULL || exposed_value != NULL) &&
        mg_world_guard_protocols(capture, exposed_key) == MG_OK) {
        result = value != NULL ? PyObject_SetItem(exposed, exposed_key, exposed_value)
                               : PyObject_DelItem(exposed, exposed_key);
    }
    Py_XDECREF(exposed_key);
    Py_XDECREF(exposed_value);
    Py_DECREF(exposed);
    return result;
}

int
mg_world_contains(MgCapture *capture, PyObject *container, PyObject *key)
{
    PyObject *value = NULL;
    int found = mg_world_find_item(capture, container, key, &value);
    if (found != MG_UNCLEAR) {
        Py_XDECREF(value);
        return found;
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return -1;
    }
    PyObject *exposed_key = mg_world_escape(capture, key);
    int result = exposed_key == NULL || mg_world_guard_protocols(capture, exposed_key) < 0
                     ? -1
                     : PySequence_Contains(exposed, exposed_key);
    Py_XDECREF(exposed_key);
    Py_DECREF(exposed);
    return result;
}

Py_ssize_t
mg_world_length(MgCapture *capture, PyObject *object)
{
    if (mg_is_twin(object)) {
        return mg_record_length(capture, object);
    }
    MgRecord *record = mg_world_find(capture, object);
    if (record != NULL && record->view == NULL && record->held == NULL && !mg_is_heap_type(Py_TYPE(object)) &&
        (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT || record->kind == MG_KIND_SET ||
         record->kind == MG_KIND_DEQUE)) {
        Py_ssize_t size = PyObject_Size(object);
        return mg_capture_look(capture, object) < 0 || mg_capture_guard_length(capture, record->source, size) < 0
                   ? -1
                   : size;
    }
    PyObject *exposed = mg_world_expose(capture, object);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return -1;
    }
    Py_ssize_t result = PyObject_Size(exposed);
    Py_DECREF(exposed);
    return result;
}

PyObject *
mg_world_iter(MgCapture *capture, PyObject *iterable)
{
    if (mg_is_twin(iterable)) {
        return mg_record_iter(capture, iterable);
    }
    PyObject *exposed = mg_world_expose(capture, iterable);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return NULL;
    }
    PyObject *iterator = PyObject_GetIter(exposed);
    Py_DECREF(exposed);
    return iterator;
}
