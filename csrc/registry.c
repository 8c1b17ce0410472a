/* What is registered with abstract base classes.
 *
 * A guard says that the number which abc.get_cache_token() gives is the same: then nothing was registered with any ABC of
 * the process. That is quick, but importing a library may register something. So it is also noted what was asked: if the
 * number is another one, but all answers are the same, the guard takes the new number. */
#include "registry.h"

#include "answer.h"
#include "place.h"

/* An attribute of a module; borrowed, kept for good. NULL with an exception. */
static PyObject *
find(PyObject **slot, const char *module_name, const char *name)
{
    if (*slot == NULL) {
        PyObject *module = PyImport_ImportModule(module_name);
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
        PyErr_Clear();
    }
    return function == token;
}

/* Guards that nothing is registered. */
static int
guard_token(MgCapture *capture)
{
    PyObject *function = find_token();
    PyObject *token = function == NULL ? NULL : mg_answer_query(capture, function, NULL, 0, NULL);
    Py_XDECREF(token);
    return token == NULL ? MG_ERR : MG_OK;
}

int
mg_registry_guard_all(MgCapture *capture)
{
    capture->registry_read = 1;
    return guard_token(capture);
}

/* Notes whether a class is a subclass of an ABC. MG_OK or MG_ERR. */
static int
note(MgCapture *capture, PyObject *class, PyObject *abc)
{
    if (capture->registered == NULL && (capture->registered = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    PyObject *pair = PyTuple_Pack(2, class, abc);
    int result = pair == NULL ? -1 : PyDict_Contains(capture->registered, pair);
    if (result == 0) {
        capture->suspended++;
        int answer = PyObject_IsSubclass(class, abc);
        capture->suspended--;
        result = answer < 0 ? -1 : PyDict_SetItem(capture->registered, pair, answer ? Py_True : Py_False);
    }
    Py_XDECREF(pair);
    return result < 0 ? MG_ERR : MG_OK;
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
    PyObject *function = hook != NULL && Py_IS_TYPE(hook, &PyClassMethod_Type) ? PyObject_GetAttrString(hook, "__func__")
                                                                               : NULL;
    int is_known = function != NULL && PyFunction_Check(function) &&
                   mg_place_of((PyCodeObject *)PyFunction_GET_CODE(function)) != MG_PLACE_USER;
    Py_XDECREF(function);
    PyErr_Clear();
    return !is_known;
}

/* 1 if asking for an instance is asking whether the class is a subclass, and nobody notices that it is done once more. */
static int
is_plain(PyTypeObject *abc, PyTypeObject *class)
{
    PyTypeObject *meta = (PyTypeObject *)find_meta();
    if (meta == NULL) {
        PyErr_Clear();
        return 0;
    }
    return share(class, &PyBaseObject_Type, MG_STRING("__class__")) &&
           share(Py_TYPE(abc), meta, MG_STRING("__instancecheck__")) &&
           share(Py_TYPE(abc), meta, MG_STRING("__subclasscheck__")) && !has_hook(abc) &&
           Py_TYPE(abc)->tp_hash == PyType_Type.tp_hash && Py_TYPE(class)->tp_hash == PyType_Type.tp_hash;
}

int
mg_registry_guard(MgCapture *capture, PyObject *abc, PyObject *value, PyObject *class)
{
    int is_class = PyType_Check(value) && Py_TYPE(value)->tp_hash == PyType_Type.tp_hash;
    if (!is_plain((PyTypeObject *)abc, (PyTypeObject *)class) || is_class != (PyType_Check(value) != 0)) {
        return mg_registry_guard_all(capture);
    }
    return guard_token(capture) < 0 || (is_class && note(capture, value, abc) < 0) || note(capture, class, abc) < 0
               ? MG_ERR
               : MG_OK;
}

int
mg_registry_is_same(PyObject *registered)
{
    Py_ssize_t position = 0;
    PyObject *pair, *expected;
    while (PyDict_Next(registered, &position, &pair, &expected)) {
        int answer = PyObject_IsSubclass(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        if (answer < 0 || answer != (expected == Py_True)) {
            return answer < 0 ? -1 : 0;
        }
    }
    return 1;
}
