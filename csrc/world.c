/* The world: reads from outside, guarded; writes to outside, held back.
 *
 * Outside is whatever existed before the capture began. Every object with an identity of its own that captured code
 * reads from there gets an MgRecord, keyed by its address, with the source by which a later call finds it again. Small
 * immutable values have none: they are guarded by value where they are read, and are inside from then on.
 *
 * Invariant: no outside object is changed while a capture is under way. A write goes to the record (`held`), or to the
 * shadow that stands for the object; reads look there first. */
#include "world.h"

#include "except.h"
#include "exit.h"
#include "record.h"
#include "rules.h"

#include <structmember.h>

/* ---- kinds ---- */

/* 1 for values that have no identity worth keeping: equal ones can stand for each other. */
static int
is_plain_value(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type ||
           type == &PyComplex_Type;
}

/* 1 for immutable singletons and objects of torch that are compared by identity. */
static int
is_singleton(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || type == &PyBool_Type ||
           type == mg_torch.dtype || type == mg_torch.layout || type == mg_torch.memory_format;
}

static int
is_heap_type(PyTypeObject *type)
{
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
}

/* 1 if the objects of a type are plain instances: a Python class over object, with or without a dict. */
static int
is_instance_type(PyTypeObject *type)
{
    return is_heap_type(type) && type->tp_getset != NULL ? 1 : is_heap_type(type);
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
    record->object = Py_NewRef(object);
    record->source = source;
    record->kind = kind;
    record->provisional = provisional;
    capture->record_list[capture->record_count++] = record;
    return record;
}

static MgRecord *
find_record(MgCapture *capture, PyObject *object)
{
    return mg_table_get(&capture->records, object, NULL);
}

MgRecord *
mg_world_record(MgCapture *capture, PyObject *object)
{
    MgRecord *record = find_record(capture, object);
    return record != NULL ? record : mg_table_get(&capture->views, object, NULL);
}

MgRecord *
mg_world_pin(MgCapture *capture, PyObject *object)
{
    MgRecord *record = find_record(capture, object);
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

/* What captured code sees, new. */
static PyObject *
view_of(MgRecord *record)
{
    return Py_NewRef(record->view != NULL ? record->view : record->object);
}

/* ---- reaching ---- */

/* Which kind an object with identity is. */
static MgKind
kind_of(PyObject *object, MgSource *source)
{
    PyTypeObject *type = Py_TYPE(object);
    if (mg_torch_is_tensor(object)) {
        return MG_KIND_TENSOR;
    }
    if (PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
        type == &PyWrapperDescr_Type || type == &PyProperty_Type || type == &PyStaticMethod_Type ||
        type == &PyClassMethod_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
        PyCode_Check(object)) {
        return MG_KIND_CONSTANT;
    }
    if (PyFunction_Check(object)) {
        /* an argument may be a new closure at each call, with the same code */
        return source != NULL && source->kind == MG_SOURCE_LOCAL ? MG_KIND_FUNCTION : MG_KIND_CONSTANT;
    }
    if (type == &PyTuple_Type || type == mg_torch.size || (PyTuple_Check(object) && is_heap_type(type))) {
        return MG_KIND_TUPLE;
    }
    if (type == &PyList_Type) {
        return MG_KIND_LIST;
    }
    if (type == &PyDict_Type) {
        return MG_KIND_DICT;
    }
    if (type == &PySet_Type || type == &PyFrozenSet_Type) {
        return MG_KIND_SET;
    }
    if (type == &PyCell_Type) {
        return MG_KIND_CELL;
    }
    if (mg_rules_is_constant_type(type)) {
        return MG_KIND_CONSTANT;
    }
    if (is_instance_type(type) && !PyList_Check(object) && !PyDict_Check(object) && !PyAnySet_Check(object)) {
        return MG_KIND_INSTANCE;
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
    return MG_KIND_OPAQUE;
}

/* 1 for an argument, or an item of a container that is one. */
static int
is_argument(const MgSource *source)
{
    while (source->kind == MG_SOURCE_ITEM || source->kind == MG_SOURCE_DICT_ITEM) {
        source = source->base;
    }
    return source->kind == MG_SOURCE_LOCAL;
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
        return mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "%s", type->tp_name);
    }
    MgMeta *meta = mg_meta_of_tensor(tensor);
    if (meta == NULL) {
        return PyErr_Occurred() ? MG_ERR : mg_capture_abort(capture, MG_REASON_TENSOR_KIND, NULL);
    }
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
    /* a tensor read from a module or container becomes an input now, an argument when it is first used */
    return is_argument(record->source) ? MG_OK : mg_record_input(capture, view);
}

/* A bound method from outside: an inside one over views of its parts. */
static PyObject *
reach_method(MgCapture *capture, PyObject *method, MgSource *source)
{
    MgSource *function_source = mg_source_get(&capture->sources, MG_SOURCE_METHOD, source, NULL, 0);
    MgSource *self_source = mg_source_get(&capture->sources, MG_SOURCE_METHOD, source, NULL, 1);
    if (function_source == NULL || self_source == NULL ||
        mg_capture_guard(capture, MG_GUARD_TYPE, source, (PyObject *)&PyMethod_Type) < 0) {
        return NULL;
    }
    PyObject *function = mg_world_reach(capture, PyMethod_GET_FUNCTION(method), function_source);
    PyObject *self = function == NULL ? NULL : mg_world_reach(capture, PyMethod_GET_SELF(method), self_source);
    PyObject *view = self == NULL ? NULL : PyMethod_New(function, self);
    Py_XDECREF(function);
    Py_XDECREF(self);
    return view;
}

/* Guards a record that captured code really uses now. */
static int
activate(MgCapture *capture, MgRecord *record)
{
    PyObject *object = record->object;
    MgSource *source = record->source;
    PyObject *type = (PyObject *)Py_TYPE(object);
    record->provisional = 0;
    switch (record->kind) {
        case MG_KIND_TENSOR:
            return reach_tensor(capture, record);
        case MG_KIND_CONSTANT:
        case MG_KIND_OPAQUE:
            return mg_capture_guard(capture, MG_GUARD_IDENTITY, source, object);
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
        default:
            return mg_capture_guard(capture, MG_GUARD_TYPE, source, type);
    }
}

PyObject *
mg_world_reach(MgCapture *capture, PyObject *object, MgSource *source)
{
    if (source->view != NULL) { /* read before, and outside objects do not change during a capture */
        return Py_NewRef(source->view);
    }
    PyObject *view = NULL;
    if (is_singleton(object)) {
        if (mg_capture_guard(capture, MG_GUARD_IDENTITY, source, object) < 0) {
            return NULL;
        }
        view = Py_NewRef(object);
    }
    else if (is_plain_value(object) || Py_TYPE(object) == mg_torch.device) {
        if (mg_capture_guard(capture, MG_GUARD_VALUE, source, object) < 0) {
            return NULL;
        }
        view = Py_NewRef(object);
    }
    else if (Py_IS_TYPE(object, &PyMethod_Type)) {
        view = reach_method(capture, object, source);
        if (view == NULL) {
            return NULL;
        }
    }
    else {
        MgRecord *record = find_record(capture, object);
        if (record == NULL) {
            record = new_record(capture, object, source, kind_of(object, source), 1);
            if (record == NULL) {
                return NULL;
            }
        }
        if (record->provisional) {
            record->source = source;
            if (activate(capture, record) < 0) {
                return NULL;
            }
        }
        else if (record->source != source) {
            int constant = record->kind == MG_KIND_CONSTANT || record->kind == MG_KIND_OPAQUE;
            if ((constant ? mg_capture_guard(capture, MG_GUARD_IDENTITY, source, object)
                          : mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source)) < 0) {
                return NULL;
            }
        }
        view = view_of(record);
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
    if (value == NULL || is_plain_value(value) || is_singleton(value) || mg_is_twin(value)) {
        return value;
    }
    MgRecord *record = find_record(capture, value);
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
    PyObject *view = view_of(record);
    Py_DECREF(value);
    return view;
}

/* An item of an exposed container: plain values are guarded now, the rest when it is used. */
static int
expose_item(MgCapture *capture, PyObject *item, MgSource *source)
{
    if (source == NULL) {
        return MG_ERR;
    }
    if (is_plain_value(item) || is_singleton(item) || Py_TYPE(item) == mg_torch.device) {
        PyObject *view = mg_world_reach(capture, item, source);
        Py_XDECREF(view);
        return view == NULL ? MG_ERR : MG_OK;
    }
    MgRecord *record = find_record(capture, item);
    if (record == NULL) {
        return new_record(capture, item, source, kind_of(item, source), 1) == NULL ? MG_ERR : MG_OK;
    }
    if (!record->provisional && record->source != source) {
        PyObject *view = mg_world_reach(capture, item, source);
        Py_XDECREF(view);
        return view == NULL ? MG_ERR : MG_OK;
    }
    return MG_OK;
}

/* ---- shadows ---- */

static int
expose_list(MgCapture *capture, MgRecord *record)
{
    PyObject *list = record->object;
    Py_ssize_t size = PyList_GET_SIZE(list);
    if (mg_capture_guard_length(capture, record->source, size) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ITEM, record->source, NULL, i);
        if (expose_item(capture, PyList_GET_ITEM(list, i), source) < 0) {
            return MG_ERR;
        }
    }
    PyObject *shadow = PyList_GetSlice(list, 0, size);
    return shadow == NULL ? MG_ERR : set_view(capture, record, shadow);
}

/* Applies the writes held back for a dict to its fresh shadow. */
static int
apply_held(PyObject *shadow, PyObject *held)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (held != NULL && PyDict_Next(held, &position, &key, &value)) {
        if (value == mg_capture_deleted) {
            if (PyDict_DelItem(shadow, key) < 0) {
                PyErr_Clear();
            }
        }
        else if (PyDict_SetItem(shadow, key, value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
expose_dict(MgCapture *capture, MgRecord *record)
{
    PyObject *dict = record->object;
    PyObject *keys = PySequence_Tuple(dict);
    if (keys == NULL || mg_capture_guard(capture, MG_GUARD_KEYS, record->source, keys) < 0) {
        Py_XDECREF(keys);
        return MG_ERR;
    }
    Py_DECREF(keys);
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (!is_plain_value(key) && !is_singleton(key) && find_record(capture, key) == NULL &&
            mg_world_pin(capture, key) == NULL) {
            return MG_ERR;
        }
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_DICT_ITEM, record->source, key, 0);
        if (expose_item(capture, value, source) < 0) {
            return MG_ERR;
        }
    }
    PyObject *shadow = PyDict_Copy(dict);
    if (shadow == NULL || apply_held(shadow, record->held) < 0) {
        Py_XDECREF(shadow);
        return MG_ERR;
    }
    return set_view(capture, record, shadow);
}

static int
expose_set(MgCapture *capture, MgRecord *record)
{
    PyObject *set = record->object;
    if (mg_capture_guard_length(capture, record->source, PySet_GET_SIZE(set)) < 0) {
        return MG_ERR;
    }
    Py_ssize_t position = 0, index = 0;
    PyObject *item;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &position, &item, &hash)) {
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_SET_ITEM, record->source, NULL, index++);
        if (expose_item(capture, item, source) < 0) {
            return MG_ERR;
        }
    }
    PyObject *shadow = Py_TYPE(set) == &PyFrozenSet_Type ? NULL : PySet_New(set);
    if (Py_TYPE(set) == &PyFrozenSet_Type) {
        return MG_OK;
    }
    return shadow == NULL ? MG_ERR : set_view(capture, record, shadow);
}

static int
expose_tuple(MgCapture *capture, MgRecord *record)
{
    PyObject *tuple = record->object;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ITEM, record->source, NULL, i);
        if (expose_item(capture, PyTuple_GET_ITEM(tuple, i), source) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

PyObject *
mg_world_expose(MgCapture *capture, PyObject *object)
{
    MgRecord *record = find_record(capture, object);
    if (record == NULL) {
        return Py_NewRef(object);
    }
    if (record->provisional && activate(capture, record) < 0) {
        return NULL;
    }
    if (record->view != NULL) {
        return Py_NewRef(record->view);
    }
    int result = MG_OK;
    int exact = !is_heap_type(Py_TYPE(object));
    switch (record->kind) {
        case MG_KIND_LIST:
            result = exact ? expose_list(capture, record)
                           : mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
            break;
        case MG_KIND_DICT:
            result = exact ? expose_dict(capture, record)
                           : mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
            break;
        case MG_KIND_SET:
            result = exact ? expose_set(capture, record)
                           : mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
            break;
        case MG_KIND_TUPLE:
            result = expose_tuple(capture, record);
            break;
        case MG_KIND_OPAQUE:
            result = mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
            break;
        default:
            break;
    }
    return result < 0 ? NULL : view_of(record);
}

/* ---- dicts: globals, instance dicts, user's dicts ---- */

/* The value of `key` in an outside dict as captured code sees it. 1 found, 0 missing, -1 error. */
static int
dict_get(MgCapture *capture, MgRecord *record, PyObject *key, PyObject **result)
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

/* Holds back dict[key] = value, or the deletion of key if value is NULL. */
static int
dict_set(MgRecord *record, PyObject *key, PyObject *value)
{
    if (record->view != NULL) {
        return value != NULL ? PyDict_SetItem(record->view, key, value) : PyDict_DelItem(record->view, key);
    }
    if (record->held == NULL && (record->held = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    return PyDict_SetItem(record->held, key, value != NULL ? value : mg_capture_deleted);
}

/* The record of an outside instance's dict; NULL without an exception if it has none. */
static MgRecord *
dict_record(MgCapture *capture, MgRecord *owner)
{
    PyObject **slot = _PyObject_GetDictPtr(owner->object);
    if (slot == NULL) {
        return NULL;
    }
    if (*slot == NULL && (*slot = PyDict_New()) == NULL) {
        return NULL;
    }
    MgRecord *record = find_record(capture, *slot);
    if (record != NULL && !record->provisional) {
        return record;
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_DICT, owner->source, NULL, 0);
    if (source == NULL) {
        return NULL;
    }
    if (record == NULL) {
        return new_record(capture, *slot, source, MG_KIND_DICT, 0);
    }
    record->provisional = 0;
    record->source = source;
    return record;
}

/* ---- frames and names ---- */

/* Guards what a call of an outside function reads from the function itself. */
static int
guard_function(MgCapture *capture, MgRecord *record)
{
    PyFunctionObject *function = (PyFunctionObject *)record->object;
    PyObject *parts[3] = {function->func_code, function->func_defaults, function->func_kwdefaults};
    for (int i = 0; i < 3; i++) {
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
        if (find_record(capture, parts[i]) != NULL) {
            continue;
        }
        PyObject *view = mg_world_reach(capture, parts[i], source);
        Py_XDECREF(view);
        if (view == NULL) {
            return MG_ERR;
        }
        MgRecord *part = find_record(capture, parts[i]);
        PyObject *exposed = part == NULL ? NULL : i == 1 ? mg_world_expose(capture, parts[i]) : Py_NewRef(parts[i]);
        if (i == 2 && part != NULL && expose_dict(capture, part) < 0) {
            Py_CLEAR(exposed);
        }
        Py_XDECREF(exposed);
        if (exposed == NULL) {
            return MG_ERR;
        }
    }
    PyObject *closure = function->func_closure;
    for (Py_ssize_t i = 0; closure != NULL && i < PyTuple_GET_SIZE(closure); i++) {
        PyObject *cell = PyTuple_GET_ITEM(closure, i);
        if (find_record(capture, cell) != NULL || mg_table_get(&capture->inside, cell, NULL) != NULL) {
            continue;
        }
        if (record->kind == MG_KIND_CONSTANT) {
            if (mg_world_pin(capture, cell) == NULL) {
                return MG_ERR;
            }
            continue;
        }
        MgSource *tuple = mg_source_get(&capture->sources, MG_SOURCE_FUNCTION, record->source, NULL, 3);
        MgSource *source = tuple == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_ITEM, tuple, NULL, i);
        if (source == NULL || new_record(capture, cell, source, MG_KIND_CELL, 0) == NULL) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_world_enter_frame(MgCapture *capture, MgFrame *frame)
{
    PyObject *function = (PyObject *)frame->f_func;
    if (mg_table_get(&capture->inside, function, NULL) != NULL ||
        mg_table_get(&capture->guarded, function, NULL) != NULL) {
        return MG_OK;
    }
    MgRecord *record = find_record(capture, function);
    if (record == NULL) { /* found by CPython itself, along a type that is guarded, or by C code */
        record = mg_world_pin(capture, function);
    }
    else if (record->provisional && activate(capture, record) < 0) {
        return MG_ERR;
    }
    if (record == NULL || guard_function(capture, record) < 0) {
        return MG_ERR;
    }
    if (mg_table_set(&capture->guarded, function, NULL, record) < 0) {
        return MG_ERR;
    }
    /* defaults were bound raw */
    PyCodeObject *code = frame->f_code;
    int count = code->co_argcount + code->co_kwonlyargcount;
    for (int i = 0; i < count; i++) {
        PyObject *value = frame->localsplus[i];
        if (value != NULL) {
            value = mg_world_touch(capture, value);
            frame->localsplus[i] = value;
            if (value == NULL) {
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
        if (value == NULL || (i < locals && !mg_exit_is_live(code, offset, i))) {
            continue;
        }
        PyObject *name = i < locals ? Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, i))
                                    : PyUnicode_FromFormat("stack%d", i - locals);
        MgSource *source = name == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_LOCAL, NULL, name, i);
        Py_XDECREF(name);
        if (source == NULL) {
            return MG_ERR;
        }
        if (!is_plain_value(value) && !is_singleton(value) && !Py_IS_TYPE(value, &PyMethod_Type) &&
            find_record(capture, value) == NULL && kind_of(value, source) == MG_KIND_OPAQUE) {
            if (new_record(capture, value, source, MG_KIND_OPAQUE, 1) == NULL) { /* an iterator, say: not guarded */
                return MG_ERR;
            }
            continue;
        }
        PyObject *view = mg_world_reach(capture, value, source);
        if (view == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(frame->localsplus[i], view);
    }
    return MG_OK;
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
    if (record == NULL || guard_function(capture, record) < 0 ||
        mg_table_set(&capture->guarded, function, NULL, record) < 0) {
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
        MgRecord *known = find_record(capture, value); /* a default value: its place in the defaults is provisional */
        if (known != NULL && known->provisional) {
            known->source = source;
        }
        PyObject *view = mg_world_reach(capture, value, source);
        if (view == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(frame->localsplus[i], view);
    }
    return MG_OK;
}

PyObject *
mg_world_load_global(MgCapture *capture, MgFrame *frame, PyObject *name)
{
    PyObject *result;
    MgRecord *globals = mg_world_pin(capture, frame->f_globals);
    int found = globals == NULL ? -1 : dict_get(capture, globals, name, &result);
    if (found == 0) {
        MgRecord *builtins = mg_world_pin(capture, frame->f_builtins);
        found = builtins == NULL ? -1 : dict_get(capture, builtins, name, &result);
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
    return globals == NULL ? MG_ERR : dict_set(globals, name, value);
}

PyObject *
mg_world_load_cell(MgCapture *capture, PyObject *cell)
{
    MgRecord *record = find_record(capture, cell);
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
    MgRecord *record = find_record(capture, cell);
    if (record == NULL) {
        PyObject *old = PyCell_GET(cell);
        PyCell_SET(cell, Py_XNewRef(value));
        Py_XDECREF(old);
        return MG_OK;
    }
    return dict_set(record, Py_None, value);
}

/* ---- attributes ---- */

int
mg_world_guard_lookup(MgCapture *capture, PyTypeObject *type, PyObject *name)
{
    if (!is_heap_type(type)) {
        return MG_OK;
    }
    MgRecord *record = mg_world_pin(capture, (PyObject *)type);
    if (record == NULL) {
        return MG_ERR;
    }
    MgSource *base = mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, (PyObject *)type, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_LOOKUP, base, name, 0);
    if (source == NULL) {
        return MG_ERR;
    }
    PyObject *found = _PyType_Lookup(type, name);
    return found == NULL ? mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL)
                         : mg_capture_guard(capture, MG_GUARD_IDENTITY, source, found);
}

int
mg_world_guard_protocols(MgCapture *capture, PyObject *object)
{
    static const char *const names[] = {"__eq__",       "__lt__",          "__le__",    "__gt__",     "__ge__",
                                        "__ne__",       "__hash__",        "__len__",   "__bool__",   "__iter__",
                                        "__next__",     "__contains__",    "__index__", "__int__",    "__float__",
                                        "__getitem__",  "__str__",         "__repr__",  "__format__", "__call__",
                                        "__reversed__", "__length_hint__", "__add__",   "__radd__"};
    PyTypeObject *type = Py_TYPE(object);
    if (!is_heap_type(type) || type == mg_twin_class ||
        mg_table_get(&capture->guarded, type, (void *)(uintptr_t)99) != NULL) {
        return MG_OK;
    }
    if (mg_table_set(&capture->guarded, type, (void *)(uintptr_t)99, type) < 0) {
        return MG_ERR;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]);
        int result = name == NULL ? MG_ERR : mg_world_guard_lookup(capture, type, name);
        Py_XDECREF(name);
        if (result < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* The value of a class attribute as captured code sees it: `found` is borrowed, found on `type` by `name`. */
static PyObject *
reach_lookup(MgCapture *capture, PyTypeObject *type, PyObject *name, PyObject *found)
{
    if (!is_heap_type(type)) {
        return Py_NewRef(found);
    }
    MgSource *base = mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, (PyObject *)type, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_LOOKUP, base, name, 0);
    return source == NULL ? NULL : mg_world_reach(capture, found, source);
}

/* A slot of an instance. NULL without an exception if it is empty. */
static PyObject *
load_slot(MgCapture *capture, PyObject *owner, PyObject *descriptor)
{
    MgRecord *record = find_record(capture, owner);
    PyObject *value = *(PyObject **)((char *)owner + ((PyMemberDescrObject *)descriptor)->d_member->offset);
    if (record == NULL) {
        return value == NULL ? NULL : mg_world_touch(capture, Py_NewRef(value));
    }
    if (record->held != NULL) {
        PyObject *held = PyDict_GetItemWithError(record->held, descriptor);
        if (held != NULL) {
            return held == mg_capture_deleted ? NULL : mg_world_touch(capture, Py_NewRef(held));
        }
    }
    MgSource *source = mg_source_get(&capture->sources, MG_SOURCE_ATTR, record->source, descriptor, 0);
    if (source == NULL) {
        return NULL;
    }
    if (value == NULL) {
        mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL);
        return NULL;
    }
    return mg_world_reach(capture, value, source);
}

static int
is_slot(PyObject *descriptor)
{
    return Py_IS_TYPE(descriptor, &PyMemberDescr_Type) &&
           ((PyMemberDescrObject *)descriptor)->d_member->type == T_OBJECT_EX;
}

static void
no_attribute(PyObject *owner, PyObject *name)
{
    PyErr_Format(PyExc_AttributeError, "'%.50s' object has no attribute '%U'", Py_TYPE(owner)->tp_name, name);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyAttributeErrorObject *error = (PyAttributeErrorObject *)value;
    if (value != NULL && Py_IS_TYPE(value, (PyTypeObject *)PyExc_AttributeError)) {
        Py_XSETREF(error->obj, Py_NewRef(owner));
        Py_XSETREF(error->name, Py_NewRef(name));
    }
    PyErr_Restore(type, value, traceback);
}

/* Binds what was found on the type to the owner. `found` is borrowed. */
static PyObject *
bind(MgCapture *capture, PyObject *owner, PyTypeObject *type, PyObject *name, PyObject *found)
{
    PyTypeObject *kind = Py_TYPE(found);
    if (kind == &PyFunction_Type) {
        PyObject *function = reach_lookup(capture, type, name, found);
        PyObject *method = function == NULL ? NULL : PyMethod_New(function, owner);
        Py_XDECREF(function);
        return method;
    }
    if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
        PyObject *result = kind->tp_descr_get(found, owner, (PyObject *)type);
        if (result == NULL) {
            return NULL;
        }
        PyObject *inner = PyMethod_Check(result) ? PyMethod_GET_FUNCTION(result) : result;
        if (!is_plain_value(inner) && !is_singleton(inner) && mg_world_pin(capture, inner) == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        return mg_world_touch(capture, result);
    }
    if (kind->tp_descr_get == NULL) {
        return reach_lookup(capture, type, name, found);
    }
    if (is_heap_type(kind)) { /* a descriptor written in Python */
        PyObject *view = reach_lookup(capture, type, name, found);
        if (view == NULL) {
            return NULL;
        }
        PyObject *get_name = MG_STRING("__get__");
        if (mg_world_guard_lookup(capture, kind, get_name) < 0) {
            Py_DECREF(view);
            return NULL;
        }
        PyObject *result = kind->tp_descr_get(view, owner, (PyObject *)type);
        Py_DECREF(view);
        return mg_world_touch(capture, result);
    }
    if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type) {
        return kind->tp_descr_get(found, owner, (PyObject *)type);
    }
    return mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name) < 0 ? NULL : NULL;
}

/* What a data descriptor gives. `found` is borrowed. */
static PyObject *
load_data_descriptor(MgCapture *capture, PyObject *owner, PyTypeObject *type, PyObject *name, PyObject *found)
{
    PyTypeObject *kind = Py_TYPE(found);
    if (kind == &PyProperty_Type) {
        PyObject *getter = PyObject_GetAttr(found, MG_STRING("fget"));
        if (getter == NULL) {
            return NULL;
        }
        if (getter == Py_None) {
            Py_DECREF(getter);
            return kind->tp_descr_get(found, owner, (PyObject *)type); /* raises */
        }
        PyObject *arguments[2] = {NULL, owner};
        PyObject *result =
            mg_world_pin(capture, getter) == NULL
                ? NULL
                : mg_rules_call(capture, getter, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(getter);
        return result;
    }
    if (is_slot(found)) {
        PyObject *value = load_slot(capture, owner, found);
        if (value == NULL && !PyErr_Occurred()) {
            no_attribute(owner, name);
        }
        return value;
    }
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0 && !is_heap_type(kind)) {
        return Py_NewRef((PyObject *)type);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 && !is_heap_type(kind)) {
        MgRecord *record = find_record(capture, owner);
        if (record == NULL) {
            return PyObject_GenericGetDict(owner, NULL);
        }
        MgRecord *dict = dict_record(capture, record);
        if (dict != NULL) {
            return view_of(dict);
        }
        return PyErr_Occurred() ? NULL : PyObject_GenericGetDict(owner, NULL);
    }
    if (is_heap_type(kind)) {
        return bind(capture, owner, type, name, found);
    }
    if (find_record(capture, owner) == NULL || !is_heap_type(type)) { /* C-level attributes of inside objects */
        return mg_world_touch(capture, kind->tp_descr_get(found, owner, (PyObject *)type));
    }
    mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
    return NULL;
}

/* An attribute by the rules of object.__getattribute__. NULL without an exception if there is none. */
static PyObject *
find_attribute(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *found = _PyType_Lookup(type, name);
    if (mg_world_guard_lookup(capture, type, name) < 0) {
        return NULL;
    }
    if (found != NULL && Py_TYPE(found)->tp_descr_set != NULL) {
        return load_data_descriptor(capture, owner, type, name, found);
    }
    MgRecord *record = find_record(capture, owner);
    if (record != NULL) {
        MgRecord *dict =
            PyModule_Check(owner) ? mg_world_pin(capture, PyModule_GetDict(owner)) : dict_record(capture, record);
        if (dict == NULL) {
            if (PyErr_Occurred()) {
                return NULL;
            }
        }
        else {
            PyObject *result;
            int status = dict_get(capture, dict, name, &result);
            if (status != 0) {
                return status > 0 ? result : NULL;
            }
        }
    }
    else {
        PyObject **slot = _PyObject_GetDictPtr(owner);
        PyObject *value = slot == NULL || *slot == NULL ? NULL : PyDict_GetItemWithError(*slot, name);
        if (value != NULL) {
            return mg_world_touch(capture, Py_NewRef(value));
        }
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    return found == NULL ? NULL : bind(capture, owner, type, name, found);
}

PyObject *
mg_world_generic_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyObject *result = find_attribute(capture, owner, name);
    if (result == NULL && !PyErr_Occurred()) {
        no_attribute(owner, name);
    }
    return result;
}

/* Calls a method that the type defines, by the rules of captured code. */
static PyObject *
call_type_method(MgCapture *capture, PyObject *owner, PyObject *function, PyObject *argument, PyObject *second)
{
    PyObject *arguments[4] = {NULL, owner, argument, second};
    size_t count = 1 + (argument != NULL) + (second != NULL);
    return mg_rules_call(capture, function, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* An attribute of an instance, a module or another object with CPython's generic lookup. */
static PyObject *
instance_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *hook = NULL;
    if (type->tp_getattro != PyObject_GenericGetAttr && is_heap_type(type)) {
        PyObject *getattribute = _PyType_Lookup(type, MG_STRING("__getattribute__"));
        if (getattribute != NULL && PyFunction_Check(getattribute)) {
            if (mg_world_guard_lookup(capture, type, MG_STRING("__getattribute__")) < 0 ||
                mg_world_guard_lookup(capture, type, MG_STRING("__getattr__")) < 0) {
                return NULL;
            }
            return mg_world_touch(capture, PyObject_GetAttr(owner, name)); /* its frames are captured */
        }
        hook = _PyType_Lookup(type, MG_STRING("__getattr__"));
        if (mg_world_guard_lookup(capture, type, MG_STRING("__getattribute__")) < 0) {
            return NULL;
        }
    }
    PyObject *result = find_attribute(capture, owner, name);
    if (result != NULL) {
        return result;
    }
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return NULL;
    }
    if (hook != NULL && PyFunction_Check(hook)) {
        PyErr_Clear();
        if (mg_world_guard_lookup(capture, type, MG_STRING("__getattr__")) < 0) {
            return NULL;
        }
        return call_type_method(capture, owner, hook, name, NULL);
    }
    if (PyModule_Check(owner) && !PyErr_Occurred()) {
        MgRecord *dict = mg_world_pin(capture, PyModule_GetDict(owner));
        PyObject *getter;
        int found = dict == NULL ? -1 : dict_get(capture, dict, MG_STRING("__getattr__"), &getter);
        if (found < 0) {
            return NULL;
        }
        if (found > 0) {
            PyObject *arguments[2] = {NULL, name};
            result = mg_rules_call(capture, getter, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
            Py_DECREF(getter);
            return result;
        }
        const char *module = PyModule_GetName(owner);
        PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute '%U'", module != NULL ? module : "?", name);
        return NULL;
    }
    if (!PyErr_Occurred()) {
        no_attribute(owner, name);
    }
    return NULL;
}

/* An attribute of a class. */
static PyObject *
class_getattr(MgCapture *capture, PyTypeObject *owner, PyObject *name)
{
    PyTypeObject *meta = Py_TYPE(owner);
    PyObject *on_meta = _PyType_Lookup(meta, name);
    if (mg_world_guard_lookup(capture, meta, name) < 0) {
        return NULL;
    }
    if (on_meta != NULL && Py_TYPE(on_meta)->tp_descr_set != NULL) {
        if (is_heap_type(meta) && is_heap_type(Py_TYPE(on_meta))) {
            return bind(capture, (PyObject *)owner, meta, name, on_meta);
        }
        static const char *const harmless[] = {"__name__",  "__qualname__", "__module__", "__doc__",
                                               "__bases__", "__mro__",      "__class__"};
        for (size_t i = 0; i < Py_ARRAY_LENGTH(harmless); i++) {
            if (PyUnicode_CompareWithASCIIString(name, harmless[i]) == 0) {
                return PyObject_GetAttr((PyObject *)owner, name);
            }
        }
        mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of class %s", name, owner->tp_name);
        return NULL;
    }
    PyObject *found = _PyType_Lookup(owner, name);
    if (mg_world_guard_lookup(capture, owner, name) < 0) {
        return NULL;
    }
    if (found != NULL) {
        PyTypeObject *kind = Py_TYPE(found);
        if (kind == &PyFunction_Type || kind->tp_descr_get == NULL || kind == &PyProperty_Type || is_slot(found)) {
            return reach_lookup(capture, owner, name, found);
        }
        if (is_heap_type(kind)) {
            PyObject *view = reach_lookup(capture, owner, name, found);
            if (view == NULL || mg_world_guard_lookup(capture, kind, MG_STRING("__get__")) < 0) {
                Py_XDECREF(view);
                return NULL;
            }
            PyObject *result = kind->tp_descr_get(view, NULL, (PyObject *)owner);
            Py_DECREF(view);
            return mg_world_touch(capture, result);
        }
        PyObject *result = kind->tp_descr_get(found, NULL, (PyObject *)owner);
        if (result == NULL) {
            return NULL;
        }
        PyObject *inner = PyMethod_Check(result) ? PyMethod_GET_FUNCTION(result) : result;
        if (PyFunction_Check(inner) && mg_world_pin(capture, inner) == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        return mg_world_touch(capture, result);
    }
    if (on_meta != NULL) {
        return bind(capture, (PyObject *)owner, meta, name, on_meta);
    }
    return mg_world_touch(capture,
                          PyObject_GetAttr((PyObject *)owner, name)); /* a metaclass's __getattr__, or the error */
}

PyObject *
mg_world_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    if (mg_is_twin(owner)) {
        return mg_record_getattr(capture, owner, name);
    }
    MgRecord *record = find_record(capture, owner);
    PyTypeObject *type = Py_TYPE(owner);
    if (PyType_Check(owner)) {
        return class_getattr(capture, (PyTypeObject *)owner, name);
    }
    if (PyModule_Check(owner)) {
        if (record == NULL && mg_world_pin(capture, owner) == NULL) {
            return NULL;
        }
        return instance_getattr(capture, owner, name);
    }
    if (record != NULL &&
        (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT || record->kind == MG_KIND_SET) &&
        !is_heap_type(type)) {
        PyObject *exposed = mg_world_expose(capture, owner); /* a method of it: about to be used as a whole */
        PyObject *result = exposed == NULL ? NULL : PyObject_GetAttr(exposed, name);
        Py_XDECREF(exposed);
        return result;
    }
    if (type == &PySuper_Type) {
        PyObject *self_class = PyObject_GetAttr(owner, MG_STRING("__self_class__"));
        if (self_class == NULL) {
            return NULL;
        }
        int status = PyType_Check(self_class) ? mg_world_guard_lookup(capture, (PyTypeObject *)self_class, name) : 0;
        Py_DECREF(self_class);
        if (status < 0) {
            return NULL;
        }
        PyObject *result = PyObject_GetAttr(owner, name);
        if (result != NULL) {
            PyObject *inner = PyMethod_Check(result) ? PyMethod_GET_FUNCTION(result) : result;
            if (PyFunction_Check(inner) && mg_table_get(&capture->inside, inner, NULL) == NULL &&
                mg_world_pin(capture, inner) == NULL) {
                Py_CLEAR(result);
            }
        }
        return result;
    }
    if (is_heap_type(type)) {
        return instance_getattr(capture, owner, name);
    }
    if (record == NULL || mg_rules_is_harmless_type(type) || record->kind == MG_KIND_TUPLE) {
        return mg_world_touch(capture, PyObject_GetAttr(owner, name));
    }
    if (record->kind == MG_KIND_CONSTANT || record->kind == MG_KIND_FUNCTION) { /* functions, builtins, descriptors */
        if (PyFunction_Check(owner)) {
            static const char *const harmless[] = {"__name__", "__qualname__", "__module__", "__doc__", "__code__"};
            for (size_t i = 0; i < Py_ARRAY_LENGTH(harmless); i++) {
                if (PyUnicode_CompareWithASCIIString(name, harmless[i]) == 0) {
                    return PyObject_GetAttr(owner, name);
                }
            }
            return instance_getattr(capture, owner, name);
        }
        return mg_world_touch(capture, PyObject_GetAttr(owner, name));
    }
    mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
    return NULL;
}

int
mg_world_get_method(MgCapture *capture, PyObject *owner, PyObject *name, PyObject **method)
{
    *method = NULL;
    PyTypeObject *type = Py_TYPE(owner);
    if (mg_is_twin(owner)) {
        return mg_record_get_method(capture, owner, name, method);
    }
    MgRecord *record = find_record(capture, owner);
    if (record == NULL && !is_heap_type(type) && !PyType_Check(owner) && !PyModule_Check(owner) &&
        type != &PySuper_Type) {
        int unbound = _PyObject_GetMethod(owner, name, method);
        return unbound;
    }
    *method = mg_world_getattr(capture, owner, name);
    if (*method != NULL && Py_IS_TYPE(*method, &PyMethod_Type) && PyMethod_GET_SELF(*method) == owner) {
        PyObject *function = Py_NewRef(PyMethod_GET_FUNCTION(*method));
        Py_SETREF(*method, function);
        return 1;
    }
    return 0;
}

int
mg_world_generic_setattr(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *found = _PyType_Lookup(type, name);
    if (mg_world_guard_lookup(capture, type, name) < 0) {
        return MG_ERR;
    }
    MgRecord *record = find_record(capture, owner);
    if (found != NULL && Py_TYPE(found)->tp_descr_set != NULL) {
        if (Py_IS_TYPE(found, &PyProperty_Type) || is_heap_type(Py_TYPE(found))) {
            return Py_TYPE(found)->tp_descr_set(found, owner, value); /* its frames are captured */
        }
        if (record == NULL) {
            return Py_TYPE(found)->tp_descr_set(found, owner, value);
        }
        if (is_slot(found)) {
            return dict_set(record, found, value);
        }
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
    }
    if (record == NULL) {
        return PyObject_GenericSetAttr(owner, name, value);
    }
    MgRecord *dict = record->kind == MG_KIND_INSTANCE ? dict_record(capture, record) : NULL;
    if (dict == NULL) {
        return PyErr_Occurred() ? MG_ERR
                                : mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
    }
    if (value == NULL) {
        PyObject *present;
        int status = dict_get(capture, dict, name, &present);
        if (status <= 0) {
            if (status == 0) {
                no_attribute(owner, name);
            }
            return MG_ERR;
        }
        Py_DECREF(present);
    }
    return dict_set(dict, name, value);
}

int
mg_world_setattr(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(owner);
    if (mg_is_twin(owner)) {
        return mg_record_setattr(capture, owner, name, value);
    }
    if (PyType_Check(owner) || PyModule_Check(owner)) {
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of a %s", name,
                                PyType_Check(owner) ? "class" : "module");
    }
    if (!is_heap_type(type)) {
        MgRecord *record = find_record(capture, owner);
        if (record != NULL) {
            return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
        }
        return PyObject_SetAttr(owner, name, value);
    }
    PyObject *method = value != NULL ? MG_STRING("__setattr__") : MG_STRING("__delattr__");
    PyObject *hook = _PyType_Lookup(type, method);
    if (mg_world_guard_lookup(capture, type, method) < 0) {
        return MG_ERR;
    }
    if (hook != NULL && PyFunction_Check(hook)) {
        PyObject *result = call_type_method(capture, owner, hook, name, value);
        Py_XDECREF(result);
        return result == NULL ? MG_ERR : MG_OK;
    }
    return mg_world_generic_setattr(capture, owner, name, value);
}

/* ---- items ---- */

PyObject *
mg_world_getitem(MgCapture *capture, PyObject *container, PyObject *key)
{
    if (mg_is_twin(container)) {
        return mg_record_getitem(capture, container, key);
    }
    MgRecord *record = find_record(capture, container);
    PyTypeObject *type = Py_TYPE(container);
    if (record != NULL && record->view == NULL && !mg_is_twin(key)) {
        if (record->kind == MG_KIND_DICT && type == &PyDict_Type && (is_plain_value(key) || is_singleton(key))) {
            PyObject *result;
            int found = dict_get(capture, record, key, &result);
            if (found == 0) {
                _PyErr_SetKeyError(key);
            }
            return found > 0 ? result : NULL;
        }
        int sequence = (record->kind == MG_KIND_LIST && type == &PyList_Type) || record->kind == MG_KIND_TUPLE;
        if (sequence && PyLong_CheckExact(key) && Py_TYPE(container)->tp_as_mapping->mp_subscript != NULL) {
            Py_ssize_t size = Py_SIZE(container), index = PyLong_AsSsize_t(key);
            if (index == -1 && PyErr_Occurred()) {
                PyErr_Clear();
            }
            else if (index >= -size && index < size) {
                if (index < 0 && mg_capture_guard_length(capture, record->source, size) < 0) {
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
    PyObject *result = PyObject_GetItem(exposed, key);
    Py_DECREF(exposed);
    return mg_world_touch(capture, result);
}

int
mg_world_setitem(MgCapture *capture, PyObject *container, PyObject *key, PyObject *value)
{
    if (mg_is_twin(container)) {
        return mg_record_setitem(capture, container, key, value);
    }
    MgRecord *record = find_record(capture, container);
    if (record != NULL && record->view == NULL && record->kind == MG_KIND_DICT && Py_TYPE(container) == &PyDict_Type &&
        is_plain_value(key) && value != NULL) {
        PyObject *present; /* whether the key is there decides the dict's order and length */
        int found = dict_get(capture, record, key, &present);
        if (found < 0) {
            return MG_ERR;
        }
        Py_XDECREF(present);
        return dict_set(record, key, value);
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return MG_ERR;
    }
    int result = value != NULL ? PyObject_SetItem(exposed, key, value) : PyObject_DelItem(exposed, key);
    Py_DECREF(exposed);
    return result;
}

int
mg_world_contains(MgCapture *capture, PyObject *container, PyObject *key)
{
    MgRecord *record = find_record(capture, container);
    if (record != NULL && record->view == NULL && record->kind == MG_KIND_DICT && Py_TYPE(container) == &PyDict_Type &&
        is_plain_value(key)) {
        PyObject *value;
        int found = dict_get(capture, record, key, &value);
        Py_XDECREF(value);
        return found;
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_world_guard_protocols(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return -1;
    }
    int result = PySequence_Contains(exposed, key);
    Py_DECREF(exposed);
    return result;
}

Py_ssize_t
mg_world_length(MgCapture *capture, PyObject *object)
{
    if (mg_is_twin(object)) {
        return mg_record_length(capture, object);
    }
    MgRecord *record = find_record(capture, object);
    if (record != NULL && record->view == NULL && record->held == NULL && !is_heap_type(Py_TYPE(object)) &&
        (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT || record->kind == MG_KIND_SET)) {
        Py_ssize_t size = PyObject_Size(object);
        return mg_capture_guard_length(capture, record->source, size) < 0 ? -1 : size;
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
