/* What is registered with abstract base classes.
 *
 * A guard says that the number which abc.get_cache_token() returns is the same: then nothing was registered with any ABC of
 * the process. That is quick, but importing a library may register something. So it is also noted what was asked: if the
 * number is another one, but all answers are the same, the guard takes the new number. */
#include "capture/registry.h"

#include "capture/origin.h"
#include "capture/query.h"
#include "cpython/aside.h"

/* An attribute of a module; borrowed, kept for good. NULL with an exception. */
static PyObject *
find(PyObject **slot, const char *module_name, const char *name)
{
    if (*slot == NULL) {
        PyObject *module = mg_aside_import(module_name);
        *slot = module == NULL ? NULL : PyObject_GetAttrString(module, name);
        Py_XDECREF(module);
    }
    return *slot;
}

static PyObject *
find_token(void)
{
    static PyObject *token;
    return find(&token, "_abc", "get_cache_token");
}

static PyObject *
find_meta(void)
{
    static PyObject *meta;
    return find(&meta, "abc", "ABCMeta");
}

int
mg_registry_is_token(PyObject *function)
{
    PyObject *token = find_token();
    if (token == NULL) {
        mg_error_clear();
    }
    return function == token;
}

int
mg_registry_guard(MgCapture *capture)
{
    if (capture->reads.registered == NULL && (capture->reads.registered = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    PyObject *function = find_token();
    PyObject *token = function == NULL ? NULL : mg_query_ask(capture, function, NULL, 0);
    Py_XDECREF(token);
    return token == NULL ? MG_ERR : MG_OK;
}

int
mg_registry_guard_match(MgCapture *capture, PyTypeObject *class)
{
    if (class->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
        return MG_OK;
    }
    capture->reads.registry_read = 1;
    return mg_registry_guard(capture);
}

/* Notes whether a class is a subclass of an ABC, which the program has just asked, so that the answer is known: 1, 0 or -1. */
static int
note(MgCapture *capture, PyObject *class, PyObject *abc)
{
    PyObject *pair = PyTuple_Pack(2, class, abc);
    PyObject *known = pair == NULL ? NULL : PyDict_GetItemWithError(capture->reads.registered, pair);
    int answer = known == NULL ? -1 : known == Py_True;
    if (known == NULL && !PyErr_Occurred()) {
        MgAside aside;
        mg_aside_begin(&aside);
        answer = PyObject_IsSubclass(class, abc);
        mg_aside_end(&aside);
        if (answer >= 0 && PyDict_SetItem(capture->reads.registered, pair, answer ? Py_True : Py_False) < 0) {
            answer = -1;
        }
    }
    Py_XDECREF(pair);
    return answer;
}

/* 1 if two classes have the same attribute of this name. */
static int
share(PyTypeObject *class, PyTypeObject *other, PyObject *name)
{
    return _PyType_Lookup(class, name) == _PyType_Lookup(other, name);
}

/* 1 if an ABC has a __subclasshook__ of the user's, which is not to be asked more often than the program does. */
static int
has_hook(PyTypeObject *abc)
{
    PyObject *hook = _PyType_Lookup(abc, MG_STRING("__subclasshook__"));
    if (share(abc, &PyBaseObject_Type, MG_STRING("__subclasshook__"))) {
        return 0;
    }
    PyObject *function =
        hook != NULL && Py_IS_TYPE(hook, &PyClassMethod_Type) ? mg_aside_getattr(hook, MG_STRING("__func__")) : NULL;
    int is_known = function != NULL && PyFunction_Check(function) &&
                   mg_origin_of((PyCodeObject *)PyFunction_GET_CODE(function)) != MG_ORIGIN_USER;
    Py_XDECREF(function);
    mg_error_clear();
    return !is_known;
}

/* 1 if an object's class is what type() says. */
static int
tells_its_class(PyTypeObject *class)
{
    PyObject *get = _PyType_Lookup(class, MG_STRING("__getattribute__"));
    void *wrapped =
        get != NULL && Py_IS_TYPE(get, &PyWrapperDescr_Type) ? ((PyWrapperDescrObject *)get)->d_wrapped : NULL;
    return share(class, &PyBaseObject_Type, MG_STRING("__class__")) &&
           (wrapped == (void *)PyObject_GenericGetAttr || wrapped == (void *)PyType_Type.tp_getattro);
}

/* 1 if a class answers as classes do whose metaclass is `meta`. */
static int
answers_like(PyTypeObject *class, PyTypeObject *meta)
{
    return share(Py_TYPE(class), meta, MG_STRING("__instancecheck__")) &&
           share(Py_TYPE(class), meta, MG_STRING("__subclasscheck__"));
}

/* 1 if a class can be noted: no code of the user's is asked once more, or by a dict. */
static int
is_plain(PyTypeObject *class)
{
    return Py_TYPE(class)->tp_hash == PyType_Type.tp_hash;
}

/* What was asked. */
typedef struct {
    MgCapture *capture;
    PyObject *value, *class;
    int is_subclass;
} Asked;

/* What one class, or each of a tuple or a union of them, has answered: 1 if the answer was yes, so that none behind it was
 * asked, 0, or -1; 1 as well, with registry_read set, if that is not known. */
static int
note_each(const Asked *asked, PyObject *classes)
{
    if (PyTuple_Check(classes)) {
        int answer = 0;
        for (Py_ssize_t i = 0; answer == 0 && i < PyTuple_GET_SIZE(classes); i++) {
            answer = note_each(asked, PyTuple_GET_ITEM(classes, i));
        }
        return answer;
    }
    PyTypeObject *abc = (PyTypeObject *)classes, *meta = (PyTypeObject *)find_meta();
    if (meta == NULL) {
        return -1;
    }
    if (!PyType_Check(classes)) { /* a union, say */
        PyObject *parts = mg_aside_getattr(classes, MG_STRING("__args__"));
        mg_error_clear();
        int answer = parts != NULL && PyTuple_Check(parts) ? note_each(asked, parts) : -1;
        Py_XDECREF(parts);
        asked->capture->reads.registry_read |= answer < 0 && !PyErr_Occurred();
        return answer < 0 && !PyErr_Occurred() ? 1 : answer;
    }
    PyObject *subject = asked->is_subclass ? asked->value : asked->class;
    if (!asked->is_subclass && asked->class == classes) { /* CPython asks no further */
        return 1;
    }
    int can_tell = asked->capture->reads.registered != NULL && PyType_Check(subject) &&
                   (asked->is_subclass || tells_its_class((PyTypeObject *)asked->class));
    if (can_tell && answers_like(abc, &PyType_Type)) {
        return PyType_IsSubtype((PyTypeObject *)subject, abc);
    }
    if (can_tell && answers_like(abc, meta) && is_plain(abc) && is_plain((PyTypeObject *)subject) && !has_hook(abc)) {
        return note(asked->capture, subject, classes);
    }
    asked->capture->reads.registry_read = 1;
    return 1;
}

/* 1 if there is an ABC among some classes. */
static int
has_abc(PyObject *classes)
{
    if (PyTuple_Check(classes)) {
        int found = 0;
        for (Py_ssize_t i = 0; !found && i < PyTuple_GET_SIZE(classes); i++) {
            found = has_abc(PyTuple_GET_ITEM(classes, i));
        }
        return found;
    }
    return !PyType_Check(classes) || _PyType_Lookup((PyTypeObject *)classes, MG_STRING("_abc_impl")) != NULL;
}

int
mg_registry_note(MgCapture *capture, PyObject *classes, PyObject *value, PyObject *class, int is_subclass)
{
    if (!has_abc(classes)) {
        return MG_OK;
    }
    Asked asked = {capture, value, class, is_subclass};
    return note_each(&asked, classes) < 0 ? MG_ERR : MG_OK;
}

int
mg_registry_is_same(PyObject *registered)
{
    Py_ssize_t position = 0;
    PyObject *pair, *expected;
    int same = 1;
    MgAside aside;
    mg_aside_begin(&aside);
    while (same && PyDict_Next(registered, &position, &pair, &expected)) {
        int answer = PyObject_IsSubclass(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        if (answer < 0) { /* it is for the program to raise that, if it asks */
            mg_error_clear();
        }
        same = answer == (expected == Py_True);
    }
    mg_aside_end(&aside);
    return same;
}
