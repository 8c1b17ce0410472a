/* Attributes of outside objects: CPython's lookup, step by step, with a guard for each step that could go another way.
 *
 * Type, data descriptor, instance dict, other class attributes, __getattr__: what was found, and what was not found where
 * it was looked for first. Writes are held back in the record of the object or of its dict. */
#include "torch/kinds.h"

#include "capture/callee.h"
#include "capture/finalizer.h"
#include "capture/protocol.h"
#include "capture/tracer.h"
#include "cpython/shadow.h"
#include "record/record.h"
#include "record/symbol.h"
#include "torch/typekind.h"
#include "world/classes.h"
#include "world/tensor.h"
#include "world/world.h"
#include "world/worldbase.h"

#include <structmember.h>

int
mg_world_guard_lookup(MgCapture *capture, PyTypeObject *type, PyObject *name)
{
    if (!mg_is_heap_type(type)) {
        return MG_OK;
    }
    MgOutside *record = mg_outside_pin(capture, (PyObject *)type);
    if (record == NULL) {
        return MG_ERR;
    }
    MgSource *base = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, (PyObject *)type, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_LOOKUP, base, name, 0);
    if (source == NULL) {
        return MG_ERR;
    }
    PyObject *found = _PyType_Lookup(type, name);
    return found == NULL ? mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL)
                         : mg_capture_guard(capture, MG_GUARD_IDENTITY, source, found);
}

int
mg_world_guard_mro(MgCapture *capture, PyTypeObject *type)
{
    if (!mg_is_heap_type(type)) {
        return MG_OK;
    }
    MgSource *base = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, (PyObject *)type, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_MRO, base, NULL, 0);
    return source == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_IDENTITY, source, type->tp_mro);
}

/* The value of a class attribute as captured code sees it: `found` is borrowed, found on `type` by `name`. */
static PyObject *
reach_lookup(MgCapture *capture, PyTypeObject *type, PyObject *name, PyObject *found)
{
    if (!mg_is_heap_type(type)) {
        return Py_NewRef(found);
    }
    MgSource *base = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, (PyObject *)type, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_LOOKUP, base, name, 0);
    return source == NULL ? NULL : mg_world_reach(capture, found, source);
}

/* A slot of an instance. NULL without an exception if it is empty. */
static PyObject *
load_slot(MgCapture *capture, PyObject *owner, PyObject *descriptor)
{
    MgOutside *record = mg_outside_owner(capture, owner);
    if (record != NULL) {
        owner = record->object;
    }
    PyObject *value = *(PyObject **)((char *)owner + ((PyMemberDescrObject *)descriptor)->d_member->offset);
    if (record == NULL) {
        return value == NULL ? NULL : mg_world_touch(capture, Py_NewRef(value));
    }
    if (record->slots != NULL) {
        PyObject *held = PyDict_GetItemWithError(record->slots, descriptor);
        if (held != NULL) {
            return held == mg_capture_deleted ? NULL : mg_world_touch(capture, Py_NewRef(held));
        }
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ATTR, record->source, descriptor, 0);
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

/* 1 for a part of a partial that is known by its parts. */
static int
is_part(MgCapture *capture, PyObject *owner, PyObject *descriptor)
{
    MgOutside *record = mg_is_partial(owner) ? mg_outside_of(capture, owner) : NULL;
    return record != NULL && record->kind == MG_KIND_INSTANCE && Py_IS_TYPE(descriptor, &PyMemberDescr_Type) &&
           ((PyMemberDescrObject *)descriptor)->d_member->type == T_OBJECT;
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
    PyObject *unused;
    if (kind == &PyFunction_Type ||
        mg_tracer.unwrap(found, &unused) != NULL) { /* a compiled function binds as others do */
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
        if (!mg_is_plain_value(inner) && !mg_is_singleton(inner) && mg_outside_pin(capture, inner) == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        return mg_world_touch(capture, result);
    }
    if (kind->tp_descr_get == NULL) {
        return reach_lookup(capture, type, name, found);
    }
    if (mg_is_heap_type(kind)) { /* a descriptor written in Python */
        PyObject *view = reach_lookup(capture, type, name, found);
        if (view == NULL) {
            return NULL;
        }
        if (owner != NULL && (kind) == mg_kinds.cached_property) { /* without the lock around it */
            PyObject *function = mg_world_getattr(capture, view, MG_STRING("func"));
            PyObject *stored = function == NULL ? NULL : mg_world_getattr(capture, view, MG_STRING("attrname"));
            Py_DECREF(view);
            if (stored != NULL && (!PyUnicode_Check(stored) || PyUnicode_Compare(stored, name) != 0)) {
                mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
                Py_CLEAR(stored);
            }
            if (stored == NULL) {
                Py_CLEAR(function);
            }
            Py_XDECREF(stored);
            PyObject *arguments[2] = {NULL, owner};
            PyObject *value = function == NULL ? NULL
                                               : mg_tracer.call(capture, function, arguments + 1,
                                                                1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
            Py_XDECREF(function);
            if (value != NULL && mg_world_generic_setattr(capture, owner, name, value) < 0) {
                Py_CLEAR(value);
            }
            return value;
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
        PyObject *exposed = mg_world_escape(capture, owner); /* about to be used as a whole */
        PyObject *result = exposed == NULL ? NULL : kind->tp_descr_get(found, exposed, (PyObject *)type);
        Py_XDECREF(exposed);
        return result;
    }
    mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
    return NULL;
}

/* Which item of the tuple a field's descriptor returns, -1 if it returns none. */
static Py_ssize_t
tuple_field(PyObject *descriptor)
{
    if (Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        Py_ssize_t offset = member->offset - (Py_ssize_t)offsetof(PyTupleObject, ob_item);
        return member->type == T_OBJECT && offset >= 0 ? offset / (Py_ssize_t)sizeof(PyObject *) : -1;
    }
    if (!Py_IS_TYPE(descriptor, mg_kinds.tuple_getter)) {
        return -1;
    }
    return ((struct {
               PyObject_HEAD
               Py_ssize_t index;
           } *)descriptor)
        ->index;
}

/* Item `index` of a tuple as captured code sees it. */
static PyObject *
tuple_item(MgCapture *capture, PyObject *tuple, Py_ssize_t index)
{
    MgOutside *record = mg_outside_find(capture, tuple);
    PyObject *item = PyTuple_GET_ITEM(tuple, index);
    if (record == NULL) {
        return mg_world_touch(capture, Py_NewRef(item));
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_ITEM, record->source, NULL, index);
    return source == NULL ? NULL : mg_world_reach(capture, item, source);
}

/* An attribute (stolen) that C code has read from an inside object. New. */
static PyObject *
inside_value(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value)
{
    if (value != NULL && PyExceptionInstance_Check(owner) &&
        PyUnicode_CompareWithASCIIString(name, "__context__") == 0) {
        if (value == Py_None) { /* with a caller that handles one there would be that */
            capture->around.no_active_exception = 1;
        }
        else if (value == capture->around.handled) {
            Py_DECREF(value);
            mg_capture_abort(capture, MG_REASON_OPAQUE, "the exception that the caller handles");
            return NULL;
        }
    }
    return mg_world_touch(capture, value);
}

/* What a data descriptor returns. `found` is borrowed. */
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
            mg_outside_pin(capture, getter) == NULL
                ? NULL
                : mg_tracer.call(capture, getter, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(getter);
        return result;
    }
    if (is_slot(found) || is_part(capture, owner, found)) {
        PyObject *value = load_slot(capture, owner, found);
        if (value == NULL && !PyErr_Occurred()) {
            no_attribute(owner, name);
        }
        return value;
    }
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0 && !mg_is_heap_type(kind)) {
        return Py_NewRef((PyObject *)type);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 && !mg_is_heap_type(kind)) {
        MgOutside *record = mg_outside_owner(capture, owner);
        if (record == NULL) {
            return PyObject_GenericGetDict(owner, NULL);
        }
        MgOutside *dict = mg_world_dict_record(capture, record);
        if (dict != NULL) {
            return mg_world_view(dict);
        }
        return PyErr_Occurred() ? NULL : PyObject_GenericGetDict(owner, NULL);
    }
    if (mg_is_heap_type(kind)) {
        return bind(capture, owner, type, name, found);
    }
    if (PyTuple_Check(owner)) { /* a field of a namedtuple or of a structseq */
        Py_ssize_t index = tuple_field(found);
        if (index >= 0 && index < PyTuple_GET_SIZE(owner)) {
            return tuple_item(capture, owner, index);
        }
    }
    if (mg_outside_owner(capture, owner) == NULL || !mg_is_heap_type(type)) { /* C-level attributes of inside objects */
        return inside_value(capture, owner, name, kind->tp_descr_get(found, owner, (PyObject *)type));
    }
    mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
    return NULL;
}

/* The record of a module's dict. It is known by identity alone; texts show the way by which the module was reached. */
static MgOutside *
module_dict(MgCapture *capture, PyObject *module, MgOutside *record)
{
    PyObject *dict = PyModule_GetDict(module);
    MgOutside *result = mg_outside_pin(capture, dict);
    if (result != NULL && result->source->kind == MG_SOURCE_CONST && result->source->note == NULL &&
        capture->root != NULL && dict != mg_frame_globals(capture->root) &&
        mg_source_note(result->source, mg_source_text(record->source)) < 0) {
        return NULL;
    }
    return result;
}

/* Guards whether an object that was found on a class is a descriptor: its own class can become one. */
static int
guard_descriptor(MgCapture *capture, PyObject *found)
{
    return mg_protocol_guard(capture, Py_TYPE(found));
}

/* 1 if what was found on a class comes before what the instance has: not if it only has a __set__. */
static int
is_data_descriptor(PyObject *found)
{
    return Py_TYPE(found)->tp_descr_get != NULL && Py_TYPE(found)->tp_descr_set != NULL;
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
    if (found != NULL && guard_descriptor(capture, found) < 0) {
        return NULL;
    }
    if (found != NULL && is_data_descriptor(found)) {
        return load_data_descriptor(capture, owner, type, name, found);
    }
    MgOutside *record = mg_outside_owner(capture, owner);
    if (record != NULL) {
        MgOutside *dict =
            PyModule_Check(owner) ? module_dict(capture, owner, record) : mg_world_dict_record(capture, record);
        if (dict == NULL) {
            if (PyErr_Occurred()) {
                return NULL;
            }
        }
        else {
            PyObject *result;
            int status = mg_world_dict_get(capture, dict, name, &result);
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
    return mg_tracer.call(capture, function, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* What torch.nn.Module.__getattr__ returns: what one of three dicts has. Most attributes of modules are read by it, so there
 * is no frame. NULL without an exception if they don't have it, or its code must tell. */
static PyObject *
module_attribute(MgCapture *capture, PyObject *owner, PyObject *hook, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(owner);
    MgOutside *record = mg_kind_is_module_getattr(hook) ? mg_outside_owner(capture, owner) : NULL;
    PyObject *descriptor = record == NULL ? NULL : _PyType_Lookup(type, MG_STRING("__dict__"));
    if (descriptor == NULL || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) ||
        mg_callee_is_disabled((PyFunctionObject *)hook)) {
        return NULL;
    }
    if (mg_world_guard_lookup(capture, type, MG_STRING("__dict__")) < 0 || mg_world_enter_function(capture, hook) < 0) {
        return NULL;
    }
    PyObject *const names[] = {MG_STRING("_parameters"), MG_STRING("_buffers"), MG_STRING("_modules")};
    MgOutside *dict = mg_world_dict_record(capture, record);
    for (size_t i = 0; dict != NULL && i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *inner, *result;
        int found = mg_world_dict_get(capture, dict, names[i], &inner);
        if (found <= 0) {
            if (found < 0) {
                return NULL;
            }
            continue;
        }
        MgOutside *members = mg_outside_find(capture, inner);
        int is_plain = members != NULL && members->kind == MG_KIND_DICT && PyDict_CheckExact(members->object);
        Py_DECREF(inner);
        if (!is_plain) {
            return NULL;
        }
        found = mg_world_dict_get(capture, members, name, &result);
        if (found != 0) {
            return found > 0 ? result : NULL;
        }
    }
    return NULL;
}

/* An attribute of an instance, a module or another object with CPython's generic lookup. */
static PyObject *
instance_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *hook = NULL;
    if (mg_protocol_guard(capture, type) < 0) {
        return NULL;
    }
    if (type->tp_getattro != PyObject_GenericGetAttr && mg_is_heap_type(type)) {
        PyObject *getattribute = _PyType_Lookup(type, MG_STRING("__getattribute__"));
        if (getattribute != NULL && PyFunction_Check(getattribute)) {
            return mg_world_touch(capture, PyObject_GetAttr(owner, name)); /* its frames are captured */
        }
        hook = _PyType_Lookup(type, MG_STRING("__getattr__"));
        void *wrapped = getattribute != NULL && Py_IS_TYPE(getattribute, &PyWrapperDescr_Type)
                            ? ((PyWrapperDescrObject *)getattribute)->d_wrapped
                            : NULL;
        if (wrapped != (void *)PyObject_GenericGetAttr && wrapped != (void *)PyModule_Type.tp_getattro) {
            mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
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
    if (hook != NULL) {
        mg_error_clear();
        if (PyFunction_Check(hook)) {
            result = module_attribute(capture, owner, hook, name);
            return result != NULL || PyErr_Occurred() ? result : call_type_method(capture, owner, hook, name, NULL);
        }
        PyObject *bound = bind(capture, owner, type, MG_STRING("__getattr__"), hook);
        PyObject *arguments[2] = {NULL, name};
        result = bound == NULL
                     ? NULL
                     : mg_tracer.call(capture, bound, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_XDECREF(bound);
        return result;
    }
    if (PyModule_Check(owner) && !PyErr_Occurred()) {
        MgOutside *dict = mg_outside_pin(capture, PyModule_GetDict(owner));
        PyObject *getter;
        int found = dict == NULL ? -1 : mg_world_dict_get(capture, dict, MG_STRING("__getattr__"), &getter);
        if (found < 0) {
            return NULL;
        }
        if (found > 0) {
            PyObject *arguments[2] = {NULL, name};
            result = mg_tracer.call(capture, getter, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
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

/* The name of an outside class or function, and the like; see MG_SOURCE_NAME. */
static PyObject *
reach_name(MgCapture *capture, PyObject *owner, int index)
{
    MgOutside *record = mg_outside_find(capture, owner);
    if (record == NULL) { /* made by captured code, or found along a guarded type */
        record = mg_table_get(&capture->inside, owner, NULL) != NULL ? NULL : mg_outside_pin(capture, owner);
        if (record == NULL) {
            static const char *const names[] = {"__name__", "__qualname__", "__doc__", "__module__"};
            return PyErr_Occurred() ? NULL : PyObject_GetAttrString(owner, names[index]);
        }
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_NAME, record->source, NULL, index);
    PyObject *value = source == NULL ? NULL : mg_source_load(source, owner, NULL);
    if (value == NULL) {
        return source == NULL || mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0 ? NULL
                                                                                              : Py_NewRef(Py_None);
    }
    return mg_world_reach(capture, value, source);
}

/* Guards what super() finds: `name` on each class after `start` in the MRO of `type`. */
static int
guard_super(MgCapture *capture, PyTypeObject *type, PyTypeObject *start, PyObject *name)
{
    if (mg_world_guard_mro(capture, type) < 0) {
        return MG_ERR;
    }
    PyObject *mro = type->tp_mro;
    int after = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *class = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (after && mg_world_guard_lookup(capture, class, name) < 0) {
            return MG_ERR;
        }
        PyObject *found = after ? PyDict_GetItemWithError(class->tp_dict, name) : NULL;
        if (found != NULL) {
            return guard_descriptor(capture, found);
        }
        after = after || class == start;
    }
    return PyErr_Occurred() ? MG_ERR : MG_OK;
}

/* __dict__ or __annotations__ of a class: read from its own dict, which stays the same object. */
static PyObject *
class_dict(MgCapture *capture, PyTypeObject *owner, PyObject *name)
{
    MgOutside *dict = mg_outside_pin(capture, owner->tp_dict);
    if (dict == NULL) {
        return NULL;
    }
    if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) {
        PyObject *view = mg_world_escape(capture, owner->tp_dict);
        PyObject *proxy = view == NULL ? NULL : PyDictProxy_New(view);
        Py_XDECREF(view);
        return proxy;
    }
    PyObject *result;
    int found = mg_world_dict_get(capture, dict, name, &result);
    if (found == 0) { /* an empty one would have to be made */
        mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of class %s", name, owner->tp_name);
    }
    return found > 0 ? result : NULL;
}

/* An attribute of a class. */
static PyObject *
class_getattr(MgCapture *capture, PyTypeObject *owner, PyObject *name)
{
    PyTypeObject *meta = Py_TYPE(owner);
    PyObject *on_meta = _PyType_Lookup(meta, name);
    if (mg_protocol_guard_calls(capture, (PyObject *)owner) < 0 || mg_world_guard_lookup(capture, meta, name) < 0 ||
        (on_meta != NULL && guard_descriptor(capture, on_meta) < 0)) {
        return NULL;
    }
    if (mg_is_heap_type(meta)) {
        PyObject *getattribute = _PyType_Lookup(meta, MG_STRING("__getattribute__"));
        if (getattribute != NULL && PyFunction_Check(getattribute)) {
            return mg_world_touch(capture, PyObject_GetAttr((PyObject *)owner, name)); /* its frames are captured */
        }
        if (getattribute == NULL || !Py_IS_TYPE(getattribute, &PyWrapperDescr_Type)) { /* None, or any callable */
            mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of class %s", name, owner->tp_name);
            return NULL;
        }
    }
    if (on_meta != NULL && is_data_descriptor(on_meta)) {
        if (mg_is_heap_type(meta) && mg_is_heap_type(Py_TYPE(on_meta))) {
            return bind(capture, (PyObject *)owner, meta, name, on_meta);
        }
        if (mg_is_heap_type(meta) && Py_IS_TYPE(on_meta, &PyProperty_Type)) {
            return load_data_descriptor(capture, (PyObject *)owner, meta, name, on_meta);
        }
        if (mg_is_heap_type(owner) && (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 ||
                                       PyUnicode_CompareWithASCIIString(name, "__annotations__") == 0)) {
            return class_dict(capture, owner, name);
        }
        static const char *const harmless[] = {"__name__",  "__qualname__", "__module__", "__doc__",
                                               "__bases__", "__mro__",      "__class__"};
        for (size_t i = 0; i < Py_ARRAY_LENGTH(harmless); i++) {
            if (PyUnicode_CompareWithASCIIString(name, harmless[i]) != 0) {
                continue;
            }
            if (i < 2 && mg_is_heap_type(owner)) {
                return reach_name(capture, (PyObject *)owner, (int)i);
            }
            if ((i < 4 ? mg_world_guard_lookup(capture, owner, name) : mg_world_guard_mro(capture, owner)) < 0) {
                return NULL;
            }
            return PyObject_GetAttr((PyObject *)owner, name);
        }
        mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of class %s", name, owner->tp_name);
        return NULL;
    }
    PyObject *found = _PyType_Lookup(owner, name);
    if (mg_world_guard_lookup(capture, owner, name) < 0) {
        return NULL;
    }
    if (found != NULL && guard_descriptor(capture, found) < 0) {
        return NULL;
    }
    if (found != NULL) {
        PyTypeObject *kind = Py_TYPE(found);
        if (kind == &PyFunction_Type || kind->tp_descr_get == NULL || kind == &PyProperty_Type || is_slot(found)) {
            return reach_lookup(capture, owner, name, found);
        }
        if (mg_is_heap_type(kind)) {
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
        if (PyFunction_Check(inner) && mg_outside_pin(capture, inner) == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        return mg_world_touch(capture, result);
    }
    if (on_meta != NULL) {
        return bind(capture, (PyObject *)owner, meta, name, on_meta);
    }
    PyObject *hook = _PyType_Lookup(meta, MG_STRING("__getattr__"));
    if (mg_world_guard_lookup(capture, meta, MG_STRING("__getattr__")) < 0) {
        return NULL;
    }
    if (hook != NULL && !PyFunction_Check(hook)) {
        mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of class %s", name, owner->tp_name);
        return NULL;
    }
    return mg_world_touch(capture, PyObject_GetAttr((PyObject *)owner, name)); /* calls that, or raises the error */
}

/* An attribute of a constant of a C type: whatever it holds for good is outside as well. */
static PyObject *
constant_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyObject *result = PyObject_GetAttr(owner, name);
    if (result == NULL || mg_is_plain_value(result) || mg_is_singleton(result) || Py_REFCNT(result) == 1 ||
        Py_IS_TYPE(result, &PyMethod_Type)) {
        return mg_world_touch(capture, result);
    }
    PyObject *view = mg_world_adopt(capture, result);
    Py_DECREF(result);
    return view;
}

/* Which part of a function an attribute is, MG_PART_...; -1 if it is none that can be assigned to. */
static int
function_part(PyObject *name)
{
    static const struct {
        const char *name;
        int part;
    } parts[] = {
        {"__code__", MG_PART_CODE},       {"__defaults__", MG_PART_DEFAULTS}, {"__kwdefaults__", MG_PART_KWDEFAULTS},
        {"__closure__", MG_PART_CLOSURE}, {"__globals__", MG_PART_GLOBALS},   {"__annotations__", MG_PART_ANNOTATIONS}};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(parts); i++) {
        if (PyUnicode_CompareWithASCIIString(name, parts[i].name) == 0) {
            return parts[i].part;
        }
    }
    return -1;
}

/* A part of an outside function, guarded. New. */
static PyObject *
reach_part(MgCapture *capture, PyObject *function, MgSource *base, PyObject *name, int part)
{
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_FUNCTION, base, NULL, part);
    PyObject *value =
        source == NULL ? NULL : PyObject_GetAttr(function, name); /* annotations are made when asked for */
    if (value == NULL) {
        return NULL;
    }
    if (value == Py_None) { /* the function has none */
        return mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0 ? NULL : value;
    }
    PyObject *seen = mg_world_reach(capture, value, source);
    Py_DECREF(value);
    return seen;
}

/* An attribute of what C code may see of an outside container: a method, about to use it as a whole. */
static PyObject *
exposed_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyObject *exposed = mg_world_expose(capture, owner);
    PyObject *result = exposed == NULL ? NULL : PyObject_GetAttr(exposed, name);
    Py_XDECREF(exposed);
    return result;
}

/* super().name: CPython finds it, once what it looks at is guarded. */
static PyObject *
super_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyObject *self_class = PyObject_GetAttr(owner, MG_STRING("__self_class__"));
    PyObject *start = self_class == NULL ? NULL : PyObject_GetAttr(owner, MG_STRING("__thisclass__"));
    int status = start == NULL ? MG_ERR
                 : PyType_Check(self_class) && PyType_Check(start)
                     ? guard_super(capture, (PyTypeObject *)self_class, (PyTypeObject *)start, name)
                     : MG_OK;
    Py_XDECREF(self_class);
    Py_XDECREF(start);
    PyObject *result = status < 0 ? NULL : PyObject_GetAttr(owner, name);
    PyObject *inner = result != NULL && PyMethod_Check(result) ? PyMethod_GET_FUNCTION(result) : result;
    if (inner != NULL && PyFunction_Check(inner) && mg_table_get(&capture->inside, inner, NULL) == NULL &&
        mg_outside_pin(capture, inner) == NULL) {
        Py_CLEAR(result);
    }
    return result;
}

static PyObject *
function_getattr(MgCapture *capture, PyObject *owner, MgOutside *record, PyObject *name)
{
    static const char *const names[] = {"__name__", "__qualname__", "__doc__", "__module__"};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            return reach_name(capture, owner, (int)i);
        }
    }
    int part = function_part(name);
    return part >= 0 ? reach_part(capture, owner, record->source, name, part) : instance_getattr(capture, owner, name);
}

int
mg_world_is_compiled(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *self,
        *found = mg_tracer.unwrap(object, &self) == NULL ? NULL : _PyType_Lookup(type, MG_STRING("__class__"));
    return found != NULL && Py_IS_TYPE(found, &PyGetSetDescr_Type) && PyDescr_TYPE(found) == type;
}

/* An attribute of a compiled function. Its parts are those of the function that was compiled. */
static PyObject *
compiled_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    PyObject *found = _PyType_Lookup(Py_TYPE(owner), name);
    if (found != NULL && is_data_descriptor(found)) {
        if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
            return Py_NewRef((PyObject *)&PyFunction_Type);
        }
        PyObject *self, *inner = mg_tracer.unwrap(owner, &self);
        inner = PyMethod_Check(inner) ? PyMethod_GET_FUNCTION(inner) : inner;
        if (function_part(name) >= 0 && PyFunction_Check(inner)) {
            return mg_outside_pin(capture, inner) == NULL ? NULL : mg_world_getattr(capture, inner, name);
        }
        if (PyUnicode_CompareWithASCIIString(name, "__dict__") != 0) {
            mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, Py_TYPE(owner)->tp_name);
            return NULL;
        }
    }
    return mg_world_generic_getattr(capture, owner, name);
}

/* 1 for a container whose methods C code looks up, and which has no attributes of its own. */
static int
is_builtin_container(const MgOutside *record)
{
    return (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT || record->kind == MG_KIND_SET ||
            record->kind == MG_KIND_DEQUE || record->kind == MG_KIND_PROXY) &&
           !mg_is_heap_type(Py_TYPE(record->object));
}

PyObject *
mg_world_getattr(MgCapture *capture, PyObject *owner, PyObject *name)
{
    if (mg_is_twin(owner)) {
        return mg_tensor_getattr(capture, owner, name);
    }
    if (mg_is_number(owner)) {
        return mg_number_getattr(capture, owner, name);
    }
    MgOutside *record = mg_outside_find(capture, owner);
    PyTypeObject *type = Py_TYPE(owner);
    if (PyType_Check(owner)) {
        return class_getattr(capture, (PyTypeObject *)owner, name);
    }
    if (PyModule_Check(owner)) {
        return record == NULL && mg_outside_pin(capture, owner) == NULL ? NULL : instance_getattr(capture, owner, name);
    }
    if (type == &PyODict_Type &&
        (_PyType_Lookup(type, name) == NULL || PyUnicode_CompareWithASCIIString(name, "__dict__") == 0)) {
        /* attributes of its own, which its shadow does not have */
        MgOutside *outside = mg_outside_of(capture, owner);
        if (outside != NULL) {
            return instance_getattr(capture, outside->object, name);
        }
    }
    if (record != NULL && is_builtin_container(record)) {
        return exposed_getattr(capture, owner, name);
    }
    if (mg_is_bound_builtin(owner) && mg_is_twin(PyCFunction_GET_SELF(owner)) &&
        PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0) { /* has the name of the tensor's class in it */
        mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "%U", name);
        return NULL;
    }
    if (type == &PySuper_Type && record != NULL) { /* what it is bound to can't be reached from it */
        mg_capture_abort(capture, MG_REASON_OPAQUE, "a super object");
        return NULL;
    }
    if (type == &PySuper_Type) {
        return super_getattr(capture, owner, name);
    }
    if (record != NULL && record->kind == MG_KIND_CONSTANT && mg_is_partial(owner) &&
        _PyType_Lookup(type, name) != NULL) { /* else it lies in its dict */
        return constant_getattr(capture, owner, name);
    }
    if (mg_is_heap_type(type) || type == mg_namespace_type) {
        return instance_getattr(capture, owner, name);
    }
    if (record != NULL && record->kind == MG_KIND_TUPLE) {
        return mg_world_touch(capture, exposed_getattr(capture, owner, name));
    }
    if (record == NULL || (mg_kind_is_harmless(type) && record->kind != MG_KIND_OPAQUE)) {
        return inside_value(capture, owner, name, PyObject_GetAttr(owner, name));
    }
    if (mg_world_is_compiled(owner)) {
        return compiled_getattr(capture, owner, name);
    }
    if (record->kind == MG_KIND_CONSTANT || record->kind == MG_KIND_FUNCTION) { /* functions, builtins, descriptors */
        return PyFunction_Check(owner) ? function_getattr(capture, owner, record, name)
                                       : constant_getattr(capture, owner, name);
    }
    mg_capture_abort(capture, MG_REASON_OPAQUE, "attribute %U of %s", name, type->tp_name);
    return NULL;
}

int
mg_world_has_own(MgCapture *capture, PyObject *object, PyObject *name)
{
    if (Py_TYPE(object)->tp_dictoffset == 0) {
        return 0;
    }
    MgOutside *record = mg_outside_of(capture, object);
    PyObject *found = mg_world_getattr(capture, record == NULL ? object : record->object, name);
    if (found == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    Py_XDECREF(found);
    return found != NULL;
}

int
mg_world_get_method(MgCapture *capture, PyObject *owner, PyObject *name, PyObject **method)
{
    *method = NULL;
    PyTypeObject *type = Py_TYPE(owner);
    if (mg_is_twin(owner)) {
        return mg_tensor_get_method(capture, owner, name, method);
    }
    MgOutside *record = mg_outside_find(capture, owner);
    if (record == NULL && !mg_is_heap_type(type) && !PyType_Check(owner) && !PyModule_Check(owner) &&
        type != &PySuper_Type) {
        int unbound = _PyObject_GetMethod(owner, name, method);
        return unbound;
    }
    if (record != NULL && !mg_is_heap_type(type) &&
        (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT || record->kind == MG_KIND_SET)) {
        PyObject *found = _PyType_Lookup(type, name);
        if (found != NULL &&
            Py_IS_TYPE(found, &PyMethodDescr_Type)) { /* its shadow takes the owner's place in the call */
            *method = Py_NewRef(found);
            return 1;
        }
    }
    *method = mg_world_getattr(capture, owner, name);
    if (*method != NULL && Py_IS_TYPE(*method, &PyMethod_Type) && PyMethod_GET_SELF(*method) == owner) {
        PyObject *function = Py_NewRef(PyMethod_GET_FUNCTION(*method));
        Py_SETREF(*method, function);
        return 1;
    }
    return 0;
}

/* Holds back the store to a slot, or its deletion if value is NULL. */
static int
store_slot(MgCapture *capture, MgOutside *record, PyObject *name, PyObject *descriptor, PyObject *value)
{
    if (value == NULL) {
        PyObject *present = load_slot(capture, record->object, descriptor);
        if (present == NULL) {
            if (!PyErr_Occurred()) {
                PyErr_SetObject(PyExc_AttributeError, name);
            }
            return MG_ERR;
        }
        Py_DECREF(present);
    }
    if (record->slots == NULL && (record->slots = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    if (PyDict_GetItemWithError(record->slots, descriptor) == NULL) { /* the first write lets go of the real value */
        PyObject *old = PyErr_Occurred() ? NULL : Py_TYPE(descriptor)->tp_descr_get(descriptor, record->object, NULL);
        if (old == NULL && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return MG_ERR;
        }
        PyErr_Clear();   /* it was empty */
        Py_XDECREF(old); /* the slot has it */
        if (mg_finalizer_drop(capture, old) < 0) {
            return MG_ERR;
        }
    }
    return PyDict_SetItem(record->slots, descriptor, value != NULL ? value : mg_capture_deleted);
}

/* Sets an attribute, or deletes it if value is NULL, by a data descriptor that runs Python code: its frames are captured. */
static int
set_through(MgCapture *capture, PyObject *owner, PyTypeObject *type, PyObject *name, PyObject *found, PyObject *value)
{
    PyTypeObject *kind = Py_TYPE(found);
    PyObject *function;
    if (kind == &PyProperty_Type) {
        function = PyObject_GetAttr(found, value != NULL ? MG_STRING("fset") : MG_STRING("fdel"));
    }
    else {
        PyObject *method = value != NULL ? MG_STRING("__set__") : MG_STRING("__delete__");
        function = Py_XNewRef(_PyType_Lookup(kind, method));
        if (mg_world_guard_lookup(capture, kind, method) < 0) {
            Py_XDECREF(function);
            return MG_ERR;
        }
    }
    int known = function == NULL || function == Py_None || PyFunction_Check(function);
    Py_XDECREF(function);
    if (!known) { /* C code would call it behind the rules' back */
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
    }
    PyObject *view = PyErr_Occurred() ? NULL : reach_lookup(capture, type, name, found);
    int status = view == NULL ? MG_ERR : kind->tp_descr_set(view, owner, value);
    Py_XDECREF(view);
    return status;
}

int
mg_world_generic_setattr(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *found = _PyType_Lookup(type, name);
    if (mg_world_guard_lookup(capture, type, name) < 0 || (found != NULL && guard_descriptor(capture, found) < 0)) {
        return MG_ERR;
    }
    MgOutside *record = mg_outside_owner(capture, owner);
    if (found != NULL && Py_TYPE(found)->tp_descr_set != NULL) {
        if (Py_IS_TYPE(found, &PyProperty_Type) || mg_is_heap_type(Py_TYPE(found))) {
            return set_through(capture, owner, type, name, found, value);
        }
        if (value != NULL && found == mg_shadow_factory && !mg_classes_is_factory(capture, value)) {
            return PyErr_Occurred() ? MG_ERR : mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, value);
        }
        if (record == NULL) {
            return Py_TYPE(found)->tp_descr_set(found, owner, value);
        }
        if (is_slot(found)) {
            return store_slot(capture, record, name, found, value);
        }
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
    }
    if (record == NULL) {
        PyObject *exposed = value == NULL ? NULL : mg_world_escape(capture, value);
        int status = value != NULL && exposed == NULL ? MG_ERR : PyObject_GenericSetAttr(owner, name, exposed);
        Py_XDECREF(exposed);
        return status;
    }
    MgOutside *dict = mg_is_heap_type(type) || type == mg_namespace_type || PyFunction_Check(owner)
                          ? mg_world_dict_record(capture, record)
                          : NULL;
    if (dict == NULL) {
        return PyErr_Occurred() ? MG_ERR
                                : mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
    }
    if (value == NULL) {
        PyObject *present;
        int status = mg_world_dict_get(capture, dict, name, &present);
        if (status <= 0) {
            if (status == 0) {
                no_attribute(owner, name);
            }
            return MG_ERR;
        }
        Py_DECREF(present);
    }
    return mg_world_dict_set(capture, dict, name, value);
}

int
mg_world_setattr(MgCapture *capture, PyObject *owner, PyObject *name, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(owner);
    if (value != NULL && mg_is_twin(value) && mg_record_input(capture, value) < 0) {
        return MG_ERR;
    }
    if (mg_is_twin(owner)) {
        return mg_tensor_setattr(capture, owner, name, value);
    }
    if (PyType_Check(owner) || PyModule_Check(owner)) {
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of a %s", name,
                                PyType_Check(owner) ? "class" : "module");
    }
    if (!mg_is_heap_type(type) && type != mg_namespace_type) {
        MgOutside *record = mg_outside_of(capture, owner); /* also of a shadow: what is set there is no effect */
        if (record != NULL && PyFunction_Check(owner) && _PyType_Lookup(type, name) == NULL) {
            return mg_world_generic_setattr(capture, owner, name, value);
        }
        if (record != NULL) {
            return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
        }
        return PyObject_SetAttr(owner, name, value);
    }
    PyObject *method = value != NULL ? MG_STRING("__setattr__") : MG_STRING("__delattr__");
    PyObject *hook = _PyType_Lookup(type, method);
    if (mg_protocol_guard(capture, type) < 0) {
        return MG_ERR;
    }
    if (hook != NULL && PyFunction_Check(hook)) {
        PyObject *result = call_type_method(capture, owner, hook, name, value);
        Py_XDECREF(result);
        return result == NULL ? MG_ERR : MG_OK;
    }
    if (hook == NULL || !Py_IS_TYPE(hook, &PyWrapperDescr_Type) ||
        ((PyWrapperDescrObject *)hook)->d_wrapped != (void *)PyObject_GenericSetAttr) {
        return mg_capture_abort(capture, MG_REASON_STORE, "attribute %U of %s", name, type->tp_name);
    }
    return mg_world_generic_setattr(capture, owner, name, value);
}
