/* Protocols: what C code looks up on the types of the objects that it is given.
 *
 * Nobody can tell from outside which special methods a C function asks for. So all of them are guarded, for each type that
 * captured code meets: one guard a type. It compares the version tag of the type; if that has changed, what the names are
 * found to be now. The names of types and functions, which are in no tag, are guarded where C code may have put them
 * into a text: where a text was made of an object, or where captured code has handled an exception. */
#include "capture/protocol.h"

#include "capture/outside.h"
#include "cpython/watch.h"
#include "torch/typekind.h"

/* Special methods that C code calls by itself: those of operators, and those that builtins look up. */
static const char *const called[] = {
    "__eq__",       "__ne__",       "__lt__",        "__le__",          "__gt__",       "__ge__",      "__hash__",
    "__bool__",     "__len__",      "__iter__",      "__next__",        "__contains__", "__getitem__", "__setitem__",
    "__delitem__",  "__missing__",  "__reversed__",  "__length_hint__", "__index__",    "__int__",     "__float__",
    "__complex__",  "__str__",      "__repr__",      "__format__",      "__bytes__",    "__fspath__",  "__neg__",
    "__pos__",      "__invert__",   "__abs__",       "__round__",       "__trunc__",    "__floor__",   "__ceil__",
    "__add__",      "__radd__",     "__iadd__",      "__sub__",         "__rsub__",     "__isub__",    "__mul__",
    "__rmul__",     "__imul__",     "__matmul__",    "__rmatmul__",     "__imatmul__",  "__truediv__", "__rtruediv__",
    "__itruediv__", "__floordiv__", "__rfloordiv__", "__ifloordiv__",   "__mod__",      "__rmod__",    "__imod__",
    "__pow__",      "__rpow__",     "__ipow__",      "__divmod__",      "__rdivmod__",  "__lshift__",  "__rlshift__",
    "__ilshift__",  "__rshift__",   "__rrshift__",   "__irshift__",     "__and__",      "__rand__",    "__iand__",
    "__or__",       "__ror__",      "__ior__",       "__xor__",         "__rxor__",     "__ixor__",
};

/* What C code only looks for, and what captured code finds and calls by itself, whatever it is. */
static const char *const found_only[] = {
    "__call__",
    "__enter__",
    "__exit__",
    "__aenter__",
    "__aexit__",
    "__await__",
    "__aiter__",
    "__anext__",
    "__getattribute__",
    "__getattr__",
    "__setattr__",
    "__delattr__",
    "__class__",
    "__dict__",
    "__dir__",
    "__sizeof__",
    "__get__",
    "__set__",
    "__delete__",
    "__set_name__",
    "__new__",
    "__init__",
    "__del__",
    "__instancecheck__",
    "__subclasscheck__",
    "__class_getitem__",
    "__mro_entries__",
    "__torch_function__",
    "__torch_dispatch__",
    "__array__",
    "__array_interface__",
    "__array_ufunc__",
    "__array_priority__",
    "__copy__",
    "__deepcopy__",
    "__reduce_ex__",
    "__reduce__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__module__",
    "__doc__",
    "__name__",
    "__qualname__",
    "__match_args__",
    "__abstractmethods__",
    "__isabstractmethod__",
    "__bases__",
    "__origin__",
    "__args__",
    "__parameters__",
    "__typing_subst__",
};

/* Plain names that C code looks for: of a mapping, a generator, a list. What is no method there is data of the user's. */
static const char *const plain_names[] = {"keys", "items", "get", "insert", "send", "throw", "close"};

enum {
    CALLED = Py_ARRAY_LENGTH(called),
    SPECIAL = CALLED + Py_ARRAY_LENGTH(found_only),
    ALL = SPECIAL + Py_ARRAY_LENGTH(plain_names),
};

static PyObject *interned[ALL]; /* strong: all the names */

static int
intern_names(void)
{
    for (int i = 0; i < ALL && interned[ALL - 1] == NULL; i++) {
        const char *name = i < CALLED ? called[i] : i < SPECIAL ? found_only[i - CALLED] : plain_names[i - SPECIAL];
        if (interned[i] == NULL && (interned[i] = PyUnicode_InternFromString(name)) == NULL) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* 1 if instances are made of nothing but attributes. C code that makes another object of the class of one it was given
 * (OrderedDict.copy, date.replace) is only for instances of builtin classes. */
static int
is_plain_object(PyTypeObject *type)
{
    while (type != NULL && (type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        type = type->tp_base;
    }
    return type == &PyBaseObject_Type;
}

/* What counts of what a type has under one of the names. Borrowed. */
static PyObject *
find(PyTypeObject *type, int i)
{
    if ((interned[i] == MG_STRING("__init__") || interned[i] == MG_STRING("__setstate__")) && is_plain_object(type)) {
        return Py_Ellipsis; /* where captured code calls the class, both are found and guarded; torch replaces nn.Module's */
    }
    PyObject *found = _PyType_Lookup(type, interned[i]);
    if (found == NULL) {
        return mg_capture_deleted;
    }
    int is_data = i >= SPECIAL && found != Py_None && Py_TYPE(found)->tp_descr_get == NULL && !PyCallable_Check(found);
    return is_data ? Py_Ellipsis : found;
}

/* What was found of some types, by the watches of these. Captures that follow each other meet the same types, and most of the
 * names are in none of the classes of an MRO. */
enum { KNOWN = 256 };
static struct {
    unsigned int version; /* of the type; 0 if nothing is known */
    PyObject *found[ALL]; /* borrowed: the type's, as long as it has this version */
} known[KNOWN];

/* What counts of what a type has under all the names: in `room`, or where it stays until another type is asked about. Runs no
 * Python code. */
static PyObject *const *
find_all(PyTypeObject *type, PyObject **room)
{
    unsigned int version = mg_watch_type_start(type);
    if (version != 0 && known[version % KNOWN].version == version) {
        return known[version % KNOWN].found;
    }
    for (int i = 0; i < ALL; i++) {
        room[i] = find(type, i);
    }
    if (version != 0 && mg_watch_type(type) == version) {
        known[version % KNOWN].version = version;
        memcpy(known[version % KNOWN].found, room, sizeof(known[0].found));
    }
    return room;
}

int
mg_protocol_same(PyTypeObject *type, PyObject *expected)
{
    PyObject *room[ALL];
    PyObject *const *found = find_all(type, room);
    for (int i = 0; i < ALL; i++) {
        if (found[i] != PyTuple_GET_ITEM(expected, i)) {
            return 0;
        }
    }
    return 1;
}

/* 1 if C code that calls a special method runs into nothing but frames, which are captured, and harmless C code. */
static int
is_plain_method(PyObject *method)
{
    PyTypeObject *kind = Py_TYPE(method);
    if (kind == &PyClassMethod_Type || kind == &PyStaticMethod_Type) {
        PyObject *inner = PyObject_GetAttrString(method, "__func__");
        int plain = inner != NULL && is_plain_method(inner);
        Py_XDECREF(inner);
        mg_error_clear();
        return plain;
    }
    if (kind == &PyInstanceMethod_Type) { /* what pybind11 makes of C functions */
        return PyCFunction_Check(PyInstanceMethod_GET_FUNCTION(method));
    }
    return method == Py_None || kind == &PyFunction_Type || kind == &PyWrapperDescr_Type ||
           kind == &PyMethodDescr_Type || kind == &PyGetSetDescr_Type || kind == &PyProperty_Type ||
           kind == &PyClassMethodDescr_Type;
}

/* Guards what the type has under all the names. 1 if C code may call the methods, 0 if one of them is none that it may
 * call, or MG_ERR. */
static int
guard_type(MgCapture *capture, PyTypeObject *type)
{
    static char odd; /* stands for a class with a special method that C code must not call */
    if (!mg_is_heap_type(type) || type == mg_twin_class) {
        return 1;
    }
    void *seen = mg_table_get(&capture->reads.guarded, type, MG_GUARDED(MG_GUARDED_PROTOCOL));
    if (seen != NULL) {
        return seen != &odd;
    }
    seen = type;
    PyObject *room[ALL];
    PyObject *expected = intern_names() < 0 ? NULL : PyTuple_New(ALL);
    PyObject *const *found = expected == NULL ? NULL : find_all(type, room);
    for (int i = 0; found != NULL && i < ALL; i++) {
        PyTuple_SET_ITEM(expected, i, Py_NewRef(found[i]));
    }
    for (int i = 0; expected != NULL && i < CALLED; i++) {
        PyObject *method = PyTuple_GET_ITEM(expected, i);
        if (method != mg_capture_deleted && !is_plain_method(method)) {
            seen = &odd;
        }
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, (PyObject *)type, 0);
    int result = expected == NULL || source == NULL || mg_outside_pin(capture, (PyObject *)type) == NULL
                     ? MG_ERR
                     : mg_capture_guard(capture, MG_GUARD_METHODS, source, expected);
    Py_XDECREF(expected);
    if (result < 0 || mg_table_set(&capture->reads.guarded, type, MG_GUARDED(MG_GUARDED_PROTOCOL), seen) < 0) {
        return MG_ERR;
    }
    return seen != &odd;
}

int
mg_protocol_guard(MgCapture *capture, PyTypeObject *type)
{
    return guard_type(capture, type) < 0 ? MG_ERR : MG_OK;
}

int
mg_protocol_guard_calls(MgCapture *capture, PyObject *object)
{
    int harmless = guard_type(capture, Py_TYPE(object));
    return harmless > 0 ? MG_OK
           : harmless < 0
               ? MG_ERR
               : mg_capture_abort(capture, MG_REASON_OPAQUE, "a special method of %s", Py_TYPE(object)->tp_name);
}

/* Guards the name or the qualified name of an outside type or function. One that may be another at each call is asked where
 * it was found: the entry would keep it. */
static int
guard_name(MgCapture *capture, MgOutside *record, int index)
{
    PyObject *object = record->object;
    MgSource *base = record->kind == MG_KIND_FUNCTION
                         ? record->source
                         : mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, object, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_NAME, base, NULL, index);
    PyObject *name = source == NULL ? NULL : mg_source_load(source, object, NULL);
    if (name == NULL) {
        return source == NULL ? MG_ERR : mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL);
    }
    return mg_capture_guard(capture, PyUnicode_CheckExact(name) ? MG_GUARD_VALUE : MG_GUARD_IDENTITY, source, name);
}

int
mg_protocol_guard_names(MgCapture *capture)
{
    for (int i = 0; capture->reads.named && i < capture->met.record_count; i++) {
        MgOutside *record = capture->met.record_list[i];
        PyObject *object = record->object;
        MgSource *source = record->source;
        int named = PyType_Check(object)       ? mg_is_heap_type((PyTypeObject *)object)
                    : PyFunction_Check(object) ? source != NULL && source->kind != MG_SOURCE_LOCAL &&
                                                     !(record->kind == MG_KIND_FUNCTION && record->provisional)
                                               : 0;
        if (named && (guard_name(capture, record, 0) < 0 || guard_name(capture, record, 1) < 0)) {
            return MG_ERR;
        }
        if (named && PyType_Check(object) && mg_protocol_guard(capture, (PyTypeObject *)object) < 0) { /* its module */
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_protocol_has_name(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (PyTuple_CheckExact(value) || type == mg_torch.size) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            if (mg_protocol_has_name(PyTuple_GET_ITEM(value, i))) {
                return 1;
            }
        }
        return 0;
    }
    return !mg_is_plain_value(value) && !mg_is_singleton(value) && type != mg_torch.device && !mg_kind_is_value(type) &&
           (PyType_Check(value) || !mg_kind_is_constant(type));
}
