/* What C code gets to see: shadows of outside containers, made when they are first needed.
 *
 * C code may look into whatever it is given, and into what that holds: so a container is exposed with all that hangs on
 * it. Values are guarded, containers in it get shadows of their own, tensors become twins, objects are guarded by type.
 * Whatever captured code stores in an inside object is exposed first (mg_trace_expose): no container that C code can
 * reach is an unexposed one. */
#include "world/worldbase.h"

#include "capture/finalizer.h"
#include "capture/level.h"
#include "capture/protocol.h"
#include "capture/writes.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "ir/alias.h"
#include "record/symbol.h"
#include "torch/kinds.h"
#include "torch/typekind.h"
#include "world/classes.h"
#include "world/world.h"

#include <structmember.h>

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
    return mg_kind_is_constant(type) && (type->tp_richcompare == PyBaseObject_Type.tp_richcompare ||
                                         type->tp_richcompare == PyUnicode_Type.tp_richcompare ||
                                         type->tp_richcompare == PyLong_Type.tp_richcompare);
}

PyObject *
mg_world_expose_item(MgCapture *capture, PyObject *item, MgSource *source, int ours)
{
    if (source == NULL) {
        return NULL;
    }
    int known = mg_outside_find(capture, item) != NULL;
    capture->quiet++;
    PyObject *view = mg_world_reach(capture, item, source);
    capture->quiet--;
    MgOutside *record = known ? NULL : mg_outside_find(capture, item);
    if (record != NULL) {
        record->references -= ours;
    }
    if (view == NULL || mg_is_twin(view)) {
        return view;
    }
    PyObject *exposed = mg_world_escape(capture, view);
    Py_DECREF(view);
    if (exposed != NULL && mg_protocol_guard_calls(capture, exposed) < 0) {
        Py_CLEAR(exposed);
    }
    return exposed;
}

static int
expose_sequence(MgCapture *capture, MgOutside *record, PyObject *shadow)
{
    PyObject *sequence = record->object;
    Py_ssize_t size = Py_SIZE(sequence);
    if (mg_capture_look(capture, sequence) < 0 || mg_capture_guard_length(capture, record->source, size) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ITEM, record->source, NULL, i);
        if (i >= Py_SIZE(sequence)) {
            return mg_capture_abort(capture, MG_REASON_OPAQUE, "a container that another thread changes");
        }
        PyObject *item = record->kind == MG_KIND_LIST ? PyList_GET_ITEM(sequence, i) : mg_deque_item(sequence, i);
        Py_INCREF(item);
        PyObject *view = mg_world_expose_item(capture, item, source, 1);
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
expose_factory(MgCapture *capture, MgOutside *record, PyObject *shadow)
{
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ATTR, record->source, mg_shadow_factory, 0);
    if (source == NULL) {
        return MG_ERR;
    }
    PyObject *factory = mg_source_load(source, record->object, NULL);
    if (factory == NULL) {
        return mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL);
    }
    PyObject *view = mg_world_reach(capture, factory, source);
    if (view != NULL && !mg_classes_is_factory(capture, view)) { /* C code would call it behind the rules' back */
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
    MgOutside *record = mg_outside_find(capture, key);
    if (record == NULL) {
        record = mg_outside_pin(capture, key);
        if (record != NULL) {
            record->references -= 2; /* the source's, and that of the tuple of all keys */
        }
    }
    else if (record->provisional && mg_world_activate(capture, record) < 0) {
        return MG_ERR;
    }
    else if (record->kind != MG_KIND_TUPLE && mg_world_guard_object(capture, record) < 0) {
        return MG_ERR;
    }
    if (record != NULL) {
        record->is_key = 1;
    }
    return record == NULL ? MG_ERR : MG_OK;
}

/* 1 if the key is a tensor that its address is the hash of, in a dict that keeps no order of its own: what stands for
 * the tensor is the key of the shadow. */
static int
is_tensor_key(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    PyTypeObject *type = Py_TYPE(key);
    return (type == mg_torch.tensor || type == mg_torch.parameter) && hash == (Py_hash_t)key && !PyODict_Check(dict);
}

/* What stands for a tensor that is a key of an outside dict. New, or NULL. */
static PyObject *
expose_tensor_key(MgCapture *capture, PyObject *key)
{
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, key, 0);
    PyObject *view = source == NULL ? NULL : mg_world_expose_item(capture, key, source, 2);
    MgOutside *record = view == NULL ? NULL : mg_outside_find(capture, key);
    if (view != NULL && (record == NULL || !mg_is_twin(view))) {
        Py_CLEAR(view);
        mg_capture_abort(capture, MG_REASON_OPAQUE, "a key of type %s", Py_TYPE(key)->tp_name);
    }
    if (view != NULL) {
        record->is_key = 1;
    }
    return view;
}

/* Gives the shadow of a dict one of the dict's items. */
static int
expose_dict_item(MgCapture *capture, MgOutside *record, PyObject *shadow, PyObject *key, Py_hash_t hash)
{
    int is_tensor = is_tensor_key(record->object, key, hash);
    PyObject *key_view = is_tensor ? expose_tensor_key(capture, key) : NULL;
    if (is_tensor ? key_view == NULL : pin_key(capture, key) < 0) {
        return MG_ERR;
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_DICT_ITEM, record->source, key, 0);
    PyObject *value = Py_XNewRef(_PyDict_GetItem_KnownHash(record->object, key, hash));
    if (value == NULL) {
        Py_XDECREF(key_view);
        return PyErr_Occurred()
                   ? MG_ERR
                   : mg_capture_abort(capture, MG_REASON_OPAQUE, "a container that another thread changes");
    }
    PyObject *view = mg_world_expose_item(capture, value, source, 1);
    Py_DECREF(value);
    int status = view == NULL ? MG_ERR
                 : is_tensor  ? _PyDict_SetItem_KnownHash(shadow, key_view, view, hash)
                              : mg_shadow_set(shadow, key, view);
    Py_XDECREF(view);
    Py_XDECREF(key_view);
    return status;
}

static int
expose_dict(MgCapture *capture, MgOutside *record, PyObject *shadow)
{
    PyObject *dict = record->object;
    PyObject *keys = PyTuple_New(PyDict_GET_SIZE(dict));
    Py_hash_t *hashes = PyMem_Calloc((size_t)PyDict_GET_SIZE(dict) + 1, sizeof(Py_hash_t));
    MgDictWalk walk = {0};
    PyObject *key, *value;
    Py_ssize_t count = 0;
    int status = keys == NULL || hashes == NULL ? MG_ERR : MG_OK;
    if (hashes == NULL) {
        PyErr_NoMemory();
    }
    for (; status == MG_OK && count < PyTuple_GET_SIZE(keys) && mg_dict_next(dict, &walk, &key, &value); count++) {
        PyTuple_SET_ITEM(keys, count, Py_NewRef(key));
        hashes[count] = walk.hash;
    }
    if (status == MG_OK && !mg_dict_is_walked(dict, &walk, count)) {
        status = mg_capture_abort(capture, MG_REASON_OPAQUE, "an OrderedDict whose items are not those of its order");
    }
    status = status != MG_OK ? status : mg_capture_guard(capture, MG_GUARD_KEYS, record->source, keys);
    for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(keys); i++) { /* all, before any is looked up */
        key = PyTuple_GET_ITEM(keys, i);
        if (!is_quiet_key(key, 0) && !is_tensor_key(dict, key, hashes[i])) {
            status = mg_capture_abort(capture, MG_REASON_OPAQUE, "a key of type %s", Py_TYPE(key)->tp_name);
        }
    }
    for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(keys); i++) {
        status = expose_dict_item(capture, record, shadow, PyTuple_GET_ITEM(keys, i), hashes[i]);
    }
    Py_XDECREF(keys);
    PyMem_Free(hashes);
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
expose_set(MgCapture *capture, MgOutside *record, PyObject *shadow)
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
            MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_SET_ITEM, record->source, NULL, i);
            PyObject *view = mg_world_expose_item(capture, PyList_GET_ITEM(keys, i), source, 1 + (shadow != set));
            Py_XDECREF(view);
            status = view == NULL ? MG_ERR : MG_OK;
        }
    }
    Py_DECREF(keys);
    return status;
}

/* A tuple is itself, unless something in it has a shadow: then it is a tuple of what stands for its items. */
static int
expose_tuple(MgCapture *capture, MgOutside *record)
{
    PyObject *tuple = record->object;
    Py_ssize_t size = PyTuple_GET_SIZE(tuple);
    PyObject *views = PyTuple_New(size);
    int same = 1;
    for (Py_ssize_t i = 0; views != NULL && i < size; i++) {
        MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ITEM, record->source, NULL, i);
        PyObject *view = mg_world_expose_item(capture, PyTuple_GET_ITEM(tuple, i), source, 0);
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
        PyObject *items = views; /* torch.Size itself wants plain ints */
        views = type == mg_torch.size ? mg_symbol_size(Py_NewRef(items)) : mg_shadow_tuple(type, items);
        Py_DECREF(items);
        if (views == NULL) {
            return MG_ERR;
        }
    }
    return mg_world_set_view(capture, record, views);
}

/* A mappingproxy: one over what captured code sees of its dict. */
static int
expose_proxy(MgCapture *capture, MgOutside *record)
{
    PyObject *mapping = mg_proxy_mapping(record->object);
    if (!PyDict_CheckExact(mapping)) {
        return mg_capture_abort(capture, MG_REASON_OPAQUE, "a mappingproxy");
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_PROXY, record->source, NULL, 0);
    PyObject *view = mg_world_expose_item(capture, mapping, source, 0);
    PyObject *proxy = view == NULL ? NULL : PyDictProxy_New(view);
    Py_XDECREF(view);
    return proxy == NULL ? MG_ERR : mg_world_set_view(capture, record, proxy);
}

int
mg_world_expose_record(MgCapture *capture, MgOutside *record)
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
    int status = mg_world_set_view(capture, record, shadow); /* first, so that cycles end */
    if (status == MG_OK) {
        status = record->kind == MG_KIND_DICT ? expose_dict(capture, record, shadow)
                 : record->kind == MG_KIND_SET
                     ? (mg_set_copy_into(shadow, object) < 0 ? MG_ERR : expose_set(capture, record, shadow))
                     : expose_sequence(capture, record, shadow);
    }
    record->unfinished = status < 0;
    if (status == MG_OK && capture->graph.subgraph != NULL) {
        status = mg_writes_add_shadow(capture, shadow);
    }
    Py_DECREF(shadow);
    return status < 0 ? status : mg_finalizer_watch(capture, record);
}

PyObject *
mg_world_escape(MgCapture *capture, PyObject *object)
{
    MgOutside *record = mg_is_plain_value(object) ? NULL : mg_outside_find(capture, object);
    if (PyMethod_Check(object)) { /* two are equal if they are bound to one object */
        MgOutside *self = mg_outside_find(capture, PyMethod_GET_SELF(object));
        if (self != NULL && self->kind == MG_KIND_INSTANCE && !self->provisional) {
            self->exposed = 1;
        }
    }
    if (record == NULL) {
        return Py_NewRef(object);
    }
    if (record->provisional && mg_world_activate(capture, record) < 0) {
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
            status = mg_world_expose_record(capture, record);
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
    MgOutside *record = mg_is_plain_value(object) ? NULL : mg_outside_find(capture, object);
    if (record != NULL && record->kind == MG_KIND_INSTANCE && mg_is_partial(object)) { /* C code may call it */
        if ((record->provisional && mg_world_activate(capture, record) < 0) ||
            mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, object) < 0) {
            return NULL;
        }
        record->kind = MG_KIND_CONSTANT;
    }
    if (record != NULL &&
        (record->kind == MG_KIND_OPAQUE || (record->kind == MG_KIND_INSTANCE && mg_world_has_hidden_state(object)))) {
        mg_capture_abort(capture, MG_REASON_OPAQUE, "%s", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return mg_world_escape(capture, object);
}
