/* Items of containers, and the dicts behind instances and modules. */
#include "world/worldbase.h"

#include "capture/finalizer.h"
#include "capture/protocol.h"
#include "cpython/shadow.h"
#include "ir/alias.h"
#include "record/number.h"
#include "world/tensor.h"
#include "world/world.h"

#include <structmember.h>

/* 1 for a class that is equal to itself alone. */
static int
is_plain_class(PyObject *key)
{
    PyTypeObject *meta = Py_TYPE(key);
    return PyType_Check(key) && meta->tp_richcompare == PyType_Type.tp_richcompare &&
           meta->tp_hash == PyType_Type.tp_hash;
}

int
mg_world_find_item(MgCapture *capture, PyObject *dict, PyObject *key, PyObject **item)
{
    MgOutside *record = mg_outside_find(capture, dict);
    if (record == NULL || record->view != NULL || record->kind != MG_KIND_DICT || Py_TYPE(dict) != &PyDict_Type ||
        !(mg_is_plain_value(key) || mg_is_singleton(key) || is_plain_class(key))) {
        return MG_UNCLEAR;
    }
    return mg_world_dict_get(capture, record, key, item);
}

PyObject *
mg_world_getitem(MgCapture *capture, PyObject *container, PyObject *key)
{
    if (mg_is_twin(container)) {
        return mg_tensor_getitem(capture, container, key);
    }
    PyObject *part;
    if ((capture->symbols.session != NULL || mg_capture_varies(capture)) &&
        mg_symbol_size_item(container, key, &part)) {
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
    MgOutside *record = mg_outside_find(capture, container);
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
                MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ITEM, record->source, NULL, index);
                PyObject *item =
                    PyList_Check(container) ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
                return source == NULL ? NULL : mg_world_reach(capture, item, source);
            }
        }
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return NULL;
    }
    PyObject *exposed_key = mg_world_escape(capture, mg_twin_original(key));
    PyObject *result = exposed_key == NULL || mg_protocol_guard_calls(capture, exposed_key) < 0
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
        return mg_tensor_setitem(capture, container, key, value);
    }
    MgOutside *record = mg_outside_find(capture, container);
    if (record != NULL && record->view == NULL && record->kind == MG_KIND_DICT && Py_TYPE(container) == &PyDict_Type &&
        mg_is_plain_value(key) && value != NULL) {
        return mg_world_dict_set(capture, record, key, value);
    }
    PyObject *exposed = mg_world_expose(capture, container);
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return MG_ERR;
    }
    PyObject *exposed_key = mg_world_escape(capture, mg_twin_original(key));
    PyObject *exposed_value = value == NULL || exposed_key == NULL ? NULL : mg_world_escape(capture, value);
    int result = MG_ERR;
    if (exposed_key != NULL && (value == NULL || exposed_value != NULL) &&
        mg_protocol_guard_calls(capture, exposed_key) == MG_OK) {
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
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return -1;
    }
    int result = mg_is_number(key) ? mg_number_is_in(capture, key, exposed) : MG_UNCLEAR;
    if (result != MG_UNCLEAR) {
        Py_DECREF(exposed);
        return result;
    }
    PyObject *exposed_key = mg_world_escape(capture, mg_twin_original(key));
    result = exposed_key == NULL || mg_protocol_guard_calls(capture, exposed_key) < 0
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
        return mg_tensor_length(capture, object);
    }
    MgOutside *record = mg_outside_find(capture, object);
    if (record != NULL && record->view == NULL && record->held == NULL && !mg_is_heap_type(Py_TYPE(object)) &&
        (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT || record->kind == MG_KIND_SET ||
         record->kind == MG_KIND_DEQUE)) {
        Py_ssize_t size = PyObject_Size(object);
        return mg_capture_look(capture, object) < 0 || mg_capture_guard_length(capture, record->source, size) < 0
                   ? -1
                   : size;
    }
    PyObject *exposed = mg_world_expose(capture, object);
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
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
        return mg_tensor_iter(capture, iterable);
    }
    PyObject *exposed = mg_world_expose(capture, iterable);
    if (exposed == NULL || mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_XDECREF(exposed);
        return NULL;
    }
    PyObject *iterator = PyObject_GetIter(exposed);
    Py_DECREF(exposed);
    return iterator;
}

int
mg_world_dict_get(MgCapture *capture, MgOutside *record, PyObject *key, PyObject **result)
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
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_DICT_ITEM, record->source, key, 0);
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
replace(MgCapture *capture, MgOutside *record, PyObject *key)
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
mg_world_dict_set(MgCapture *capture, MgOutside *record, PyObject *key, PyObject *value)
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

/* 1 for the class of a module that is torch's own. */
static int
is_builtin(PyTypeObject *type)
{
    PyObject *module = PyDict_GetItemWithError(type->tp_dict, MG_STRING("__module__"));
    const char *name = module != NULL && PyUnicode_CheckExact(module) ? PyUnicode_AsUTF8(module) : "";
    return name != NULL && (strncmp(name, "torch.nn.", 9) == 0 || strncmp(name, "torch.ao.", 9) == 0);
}

MgOutside *
mg_world_dict_record(MgCapture *capture, MgOutside *owner)
{
    PyObject **slot = _PyObject_GetDictPtr(owner->object);
    if (slot == NULL) {
        return NULL;
    }
    if (*slot == NULL && (*slot = PyDict_New()) == NULL) {
        return NULL;
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_DICT, owner->source, NULL, 0);
    if (source == NULL) {
        return NULL;
    }
    MgOutside *record = mg_outside_find(capture, *slot);
    if (record != NULL && record->source == source) {
        return record;
    }
    if (PyObject_TypeCheck(owner->object, mg_torch.module)) { /* as for TorchDynamo */
        source->is_fixed = MG_FIXED_MODULE | (is_builtin(Py_TYPE(owner->object)) ? MG_FIXED_BUILTIN : 0);
    }
    if (record == NULL) {
        return mg_outside_new(capture, *slot, source, MG_KIND_DICT, 0);
    }
    if (mg_table_get(&capture->reads.guarded, source, MG_GUARDED(MG_GUARDED_DICT)) == NULL) {
        /* two objects with one dict */
        if (mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source) < 0 ||
            mg_table_set(&capture->reads.guarded, source, MG_GUARDED(MG_GUARDED_DICT), source) < 0) {
            return NULL;
        }
    }
    return record;
}
