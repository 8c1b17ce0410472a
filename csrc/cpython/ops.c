/* The larger instructions of the interpreter: names, imports, unpacking, calls with star arguments, `with`, `async`.
 *
 * Each function does what the instruction of the same name does in CPython 3.11, down to the text of its errors. */
#include "cpython/ops.h"

#include "cpython/except.h"

static const char name_error[] = "name '%.200s' is not defined";

/* ---- names ---- */

/* namespace[name] as a new reference. 1 found, 0 missing, -1 with an exception. */
static int
lookup(PyObject *namespace, PyObject *name, PyObject **result)
{
    if (PyDict_CheckExact(namespace)) {
        *result = PyDict_GetItemWithError(namespace, name);
        if (*result != NULL) {
            Py_INCREF(*result);
            return 1;
        }
        return PyErr_Occurred() ? -1 : 0;
    }
    *result = PyObject_GetItem(namespace, name);
    if (*result != NULL) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_KeyError)) {
        return -1;
    }
    mg_error_clear();
    return 0;
}

PyObject *
mg_ops_load_global(PyObject *globals, PyObject *builtins, PyObject *name)
{
    PyObject *result;
    int found = lookup(globals, name, &result);
    if (found == 0) {
        found = lookup(builtins, name, &result);
    }
    if (found > 0) {
        return result;
    }
    if (found == 0) {
        mg_except_name(PyExc_NameError, name_error, name);
    }
    return NULL;
}

PyObject *
mg_ops_load_name(MgFrame *frame, PyObject *name)
{
    if (frame->f_locals == NULL) {
        PyErr_Format(PyExc_SystemError, "no locals when loading %R", name);
        return NULL;
    }
    PyObject *result;
    int found = lookup(frame->f_locals, name, &result);
    if (found > 0) {
        return result;
    }
    if (found < 0) {
        return NULL;
    }
    /* unlike LOAD_GLOBAL, this one never asks a dict subclass for its own __getitem__ */
    result = PyDict_GetItemWithError(frame->f_globals, name);
    if (result != NULL) {
        return Py_NewRef(result);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    found = lookup(frame->f_builtins, name, &result);
    if (found == 0) {
        mg_except_name(PyExc_NameError, name_error, name);
    }
    return found > 0 ? result : NULL;
}

PyObject *
mg_ops_load_classderef(MgFrame *frame, int slot)
{
    PyObject *name = PyTuple_GET_ITEM(frame->f_code->co_localsplusnames, slot);
    PyObject *result;
    int found = lookup(frame->f_locals, name, &result);
    if (found > 0) {
        return result;
    }
    if (found < 0) {
        return NULL;
    }
    result = PyCell_GET(frame->localsplus[slot]);
    if (result == NULL) {
        mg_except_unbound(frame->f_code, slot);
        return NULL;
    }
    return Py_NewRef(result);
}

PyObject *
mg_ops_load_build_class(MgFrame *frame)
{
    PyObject *result;
    int found = lookup(frame->f_builtins, MG_STRING("__build_class__"), &result);
    if (found > 0) {
        return result;
    }
    if (found == 0) {
        PyErr_SetString(PyExc_NameError, "__build_class__ not found");
    }
    return NULL;
}

static int
assign(PyObject *namespace, PyObject *name, PyObject *value)
{
    return PyDict_CheckExact(namespace) ? PyDict_SetItem(namespace, name, value)
                                        : PyObject_SetItem(namespace, name, value);
}

int
mg_ops_store_name(MgFrame *frame, PyObject *name, PyObject *value)
{
    if (frame->f_locals == NULL) {
        PyErr_Format(PyExc_SystemError, "no locals found when storing %R", name);
        return MG_ERR;
    }
    return assign(frame->f_locals, name, value);
}

int
mg_ops_delete_name(MgFrame *frame, PyObject *name)
{
    if (frame->f_locals == NULL) {
        PyErr_Format(PyExc_SystemError, "no locals when deleting %R", name);
        return MG_ERR;
    }
    if (PyObject_DelItem(frame->f_locals, name) != 0) {
        mg_except_name(PyExc_NameError, name_error, name);
        return MG_ERR;
    }
    return MG_OK;
}

int
mg_ops_delete_global(MgFrame *frame, PyObject *name)
{
    if (PyDict_DelItem(frame->f_globals, name) != 0) {
        if (PyErr_ExceptionMatches(PyExc_KeyError)) {
            mg_except_name(PyExc_NameError, name_error, name);
        }
        return MG_ERR;
    }
    return MG_OK;
}

int
mg_ops_setup_annotations(MgFrame *frame)
{
    PyObject *name = MG_STRING("__annotations__");
    if (frame->f_locals == NULL) {
        PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
        return MG_ERR;
    }
    PyObject *present;
    int found = lookup(frame->f_locals, name, &present);
    if (found != 0) {
        if (found > 0) {
            Py_DECREF(present);
        }
        return found > 0 ? MG_OK : MG_ERR;
    }
    PyObject *fresh = PyDict_New();
    if (fresh == NULL) {
        return MG_ERR;
    }
    int result = assign(frame->f_locals, name, fresh);
    Py_DECREF(fresh);
    return result;
}

/* ---- imports ---- */

PyObject *
mg_ops_import_name(PyThreadState *tstate, MgFrame *frame, PyObject *name, PyObject *fromlist, PyObject *level)
{
    PyObject *import_function = PyDict_GetItemWithError(frame->f_builtins, MG_STRING("__import__"));
    if (import_function == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ImportError, "__import__ not found");
        }
        return NULL;
    }
    PyObject *locals = frame->f_locals != NULL ? frame->f_locals : Py_None;
    if (import_function == tstate->interp->import_func) {
        int depth = _PyLong_AsInt(level);
        if (depth == -1 && PyErr_Occurred()) {
            return NULL;
        }
        return PyImport_ImportModuleLevelObject(name, frame->f_globals, locals, fromlist, depth);
    }
    Py_INCREF(import_function);
    PyObject *arguments[5] = {name, frame->f_globals, locals, fromlist, level};
    PyObject *result = PyObject_Vectorcall(import_function, arguments, 5, NULL);
    Py_DECREF(import_function);
    return result;
}

/* ImportError for a name that a module does not have. `module_name` may be NULL. */
static void
import_from_error(PyObject *module, PyObject *module_name, PyObject *name)
{
    PyObject *shown = module_name != NULL ? Py_NewRef(module_name) : PyUnicode_FromString("<unknown module name>");
    if (shown == NULL) {
        return;
    }
    PyObject *path = PyModule_GetFilenameObject(module);
    PyObject *message;
    if (path == NULL || !PyUnicode_Check(path)) {
        Py_CLEAR(path);
        mg_error_clear();
        message = PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown);
    }
    else {
        PyObject *spec = PyObject_GetAttr(module, MG_STRING("__spec__"));
        const char *format =
            _PyModuleSpec_IsInitializing(spec)
                ? "cannot import name %R from partially initialized module %R (most likely due to a circular import) "
                  "(%S)"
                : "cannot import name %R from %R (%S)";
        Py_XDECREF(spec);
        mg_error_clear();
        message = PyUnicode_FromFormat(format, name, shown, path);
    }
    if (message != NULL) {
        PyErr_SetImportError(message, module_name, path);
    }
    Py_XDECREF(message);
    Py_XDECREF(path);
    Py_DECREF(shown);
}

PyObject *
mg_ops_import_from(PyObject *module, PyObject *name)
{
    PyObject *result;
    if (_PyObject_LookupAttr(module, name, &result) != 0) {
        return result;
    }
    /* in a circular import the submodule may be in sys.modules and not yet an attribute */
    PyObject *module_name = PyObject_GetAttr(module, MG_STRING("__name__"));
    if (module_name == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return NULL;
        }
        mg_error_clear();
    }
    else if (PyUnicode_Check(module_name)) {
        PyObject *full_name = PyUnicode_FromFormat("%U.%U", module_name, name);
        if (full_name == NULL) {
            Py_DECREF(module_name);
            return NULL;
        }
        result = PyImport_GetModule(full_name);
        Py_DECREF(full_name);
        if (result != NULL || PyErr_Occurred()) {
            Py_DECREF(module_name);
            return result;
        }
    }
    else {
        Py_CLEAR(module_name);
    }
    import_from_error(module, module_name, name);
    Py_XDECREF(module_name);
    return NULL;
}

/* TypeError for a name in __all__ or __dict__ that is no string. */
static void
star_name_error(PyObject *module, PyObject *name, int from_dict)
{
    PyObject *module_name = PyObject_GetAttr(module, MG_STRING("__name__"));
    if (module_name == NULL) {
        return;
    }
    if (!PyUnicode_Check(module_name)) {
        PyErr_Format(PyExc_TypeError, "module __name__ must be a string, not %.100s", Py_TYPE(module_name)->tp_name);
    }
    else {
        PyErr_Format(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", from_dict ? "Key" : "Item", module_name,
                     from_dict ? "__dict__" : "__all__", Py_TYPE(name)->tp_name);
    }
    Py_DECREF(module_name);
}

/* Copies one name from the module. MG_OK or MG_ERR. */
static int
star_import_one(PyObject *module, PyObject *name, int from_dict, PyObject *locals)
{
    if (!PyUnicode_Check(name)) {
        star_name_error(module, name, from_dict);
        return MG_ERR;
    }
    if (from_dict) {
        if (PyUnicode_READY(name) < 0) {
            return MG_ERR;
        }
        if (PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_READ_CHAR(name, 0) == '_') {
            return MG_OK;
        }
    }
    PyObject *value = PyObject_GetAttr(module, name);
    if (value == NULL) {
        return MG_ERR;
    }
    int result = assign(locals, name, value);
    Py_DECREF(value);
    return result;
}

int
mg_ops_import_star(PyThreadState *tstate, MgFrame *frame, PyObject *module)
{
    PyObject *locals = mg_frame_locals_for_import(tstate, frame);
    if (locals == NULL) {
        return MG_ERR;
    }
    PyObject *names, *dict;
    int from_dict = 0;
    if (_PyObject_LookupAttr(module, MG_STRING("__all__"), &names) < 0) {
        return MG_ERR;
    }
    if (names == NULL) {
        if (_PyObject_LookupAttr(module, MG_STRING("__dict__"), &dict) < 0) {
            return MG_ERR;
        }
        if (dict == NULL) {
            PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
            return MG_ERR;
        }
        names = PyMapping_Keys(dict);
        Py_DECREF(dict);
        if (names == NULL) {
            return MG_ERR;
        }
        from_dict = 1;
    }
    int result = MG_OK;
    for (Py_ssize_t position = 0; result == MG_OK; position++) {
        PyObject *name = PySequence_GetItem(names, position);
        if (name == NULL) {
            if (PyErr_ExceptionMatches(PyExc_IndexError)) {
                mg_error_clear();
            }
            else {
                result = MG_ERR;
            }
            break;
        }
        result = star_import_one(module, name, from_dict, locals);
        Py_DECREF(name);
    }
    Py_DECREF(names);
    mg_frame_locals_written(tstate);
    return result;
}

/* ---- unpacking ---- */

static void
too_few(int before, int after, Py_ssize_t got)
{
    if (after < 0) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)", before, got);
    }
    else {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                     got);
    }
}

int
mg_ops_unpack(PyObject *iterable, int before, int after, PyObject **top)
{
    PyObject **bottom = top - (before + (after < 0 ? 0 : after + 1));
    PyObject **slot = top;
    PyObject *iterator = PyObject_GetIter(iterable);
    if (iterator == NULL) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == NULL &&
            !PySequence_Check(iterable)) {
            PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(iterable)->tp_name);
        }
        return MG_ERR;
    }
    for (int i = 0; i < before; i++) {
        PyObject *item = PyIter_Next(iterator);
        if (item == NULL) {
            if (!PyErr_Occurred()) {
                too_few(before, after, i);
            }
            goto error;
        }
        *--slot = item;
    }
    if (after < 0) {
        PyObject *extra = PyIter_Next(iterator);
        if (extra == NULL && !PyErr_Occurred()) {
            Py_DECREF(iterator);
            return MG_OK;
        }
        if (extra != NULL) {
            Py_DECREF(extra);
            PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
        }
        goto error;
    }
    PyObject *rest = PySequence_List(iterator);
    if (rest == NULL) {
        goto error;
    }
    *--slot = rest;
    Py_ssize_t count = PyList_GET_SIZE(rest);
    if (count < after) {
        too_few(before, after, before + count);
        goto error;
    }
    /* the last `after` items move from the list into their own slots */
    for (int i = 0; i < after; i++) {
        *--slot = PyList_GET_ITEM(rest, count - after + i);
    }
    Py_SET_SIZE(rest, count - after);
    Py_DECREF(iterator);
    assert(slot == bottom);
    (void)bottom;
    return MG_OK;
error:
    while (slot < top) {
        Py_DECREF(*slot);
        slot++;
    }
    Py_DECREF(iterator);
    return MG_ERR;
}

/* ---- star arguments ---- */

/* Makes the error of a failed `**mapping` speak of the call. */
static void
star_star_error(PyObject *callable, PyObject *mapping)
{
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        mg_error_clear();
        PyObject *shown = _PyObject_FunctionStr(callable);
        if (shown != NULL) {
            PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", shown,
                         Py_TYPE(mapping)->tp_name);
            Py_DECREF(shown);
        }
    }
    else if (PyErr_ExceptionMatches(PyExc_KeyError)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (value == NULL || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {
            PyErr_Restore(type, value, traceback);
            return;
        }
        mg_error_clear();
        PyObject *shown = _PyObject_FunctionStr(callable);
        if (shown != NULL) {
            PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", shown,
                         PyTuple_GET_ITEM(value, 0));
            Py_DECREF(shown);
        }
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
}

PyObject *
mg_ops_call_ex(PyObject *callable, PyObject *positional, PyObject *keywords)
{
    PyObject *result = NULL;
    PyObject *tuple = NULL, *dict = NULL;
    if (keywords != NULL) {
        if (PyDict_CheckExact(keywords)) {
            dict = Py_NewRef(keywords);
        }
        else {
            dict = PyDict_New();
            if (dict == NULL) {
                goto done;
            }
            if (_PyDict_MergeEx(dict, keywords, 2) < 0) {
                star_star_error(callable, keywords);
                goto done;
            }
        }
    }
    if (PyTuple_CheckExact(positional)) {
        tuple = Py_NewRef(positional);
    }
    else {
        if (Py_TYPE(positional)->tp_iter == NULL && !PySequence_Check(positional)) {
            mg_error_clear();
            PyObject *shown = _PyObject_FunctionStr(callable);
            if (shown != NULL) {
                PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", shown,
                             Py_TYPE(positional)->tp_name);
                Py_DECREF(shown);
            }
            goto done;
        }
        tuple = PySequence_Tuple(positional);
        if (tuple == NULL) {
            goto done;
        }
    }
    result = PyObject_Call(callable, tuple, dict);
done:
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

int
mg_ops_list_extend(PyObject *list, PyObject *iterable)
{
    PyObject *none = _PyList_Extend((PyListObject *)list, iterable);
    if (none != NULL) {
        Py_DECREF(none);
        return MG_OK;
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == NULL && !PySequence_Check(iterable)) {
        mg_error_clear();
        PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
    }
    return MG_ERR;
}

int
mg_ops_dict_update(PyObject *dict, PyObject *mapping)
{
    if (PyDict_Update(dict, mapping) == 0) {
        return MG_OK;
    }
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(mapping)->tp_name);
    }
    return MG_ERR;
}

int
mg_ops_dict_merge(PyObject *dict, PyObject *mapping, PyObject *callable)
{
    if (_PyDict_MergeEx(dict, mapping, 2) == 0) {
        return MG_OK;
    }
    star_star_error(callable, mapping);
    return MG_ERR;
}

/* ---- context managers ---- */

int
mg_ops_with_methods(PyObject *manager, int is_async, PyObject **enter, PyObject **leave)
{
    const char *type_name = Py_TYPE(manager)->tp_name;
    PyObject *enter_name = is_async ? MG_STRING("__aenter__") : MG_STRING("__enter__");
    PyObject *leave_name = is_async ? MG_STRING("__aexit__") : MG_STRING("__exit__");
    *enter = _PyObject_LookupSpecial(manager, enter_name);
    if (*enter == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError,
                         is_async ? "'%.200s' object does not support the asynchronous context manager protocol"
                                  : "'%.200s' object does not support the context manager protocol",
                         type_name);
        }
        return MG_ERR;
    }
    *leave = _PyObject_LookupSpecial(manager, leave_name);
    if (*leave == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError,
                         is_async ? "'%.200s' object does not support the asynchronous context manager protocol "
                                    "(missed __aexit__ method)"
                                  : "'%.200s' object does not support the context manager protocol "
                                    "(missed __exit__ method)",
                         type_name);
        }
        Py_CLEAR(*enter);
        return MG_ERR;
    }
    return MG_OK;
}

/* ---- async ---- */

PyObject *
mg_ops_get_awaitable(PyObject *object, int context)
{
    PyObject *iterator = mg_awaitable_iter(object);
    if (iterator == NULL) {
        PyTypeObject *type = Py_TYPE(object);
        if (context != 0 && (type->tp_as_async == NULL || type->tp_as_async->am_await == NULL)) {
            PyErr_Format(
                PyExc_TypeError,
                context == 1
                    ? "'async with' received an object from __aenter__ that does not implement __await__: %.100s"
                    : "'async with' received an object from __aexit__ that does not implement __await__: %.100s",
                type->tp_name);
        }
        return NULL;
    }
    if (PyCoro_CheckExact(iterator) && mg_coroutine_is_awaiting(iterator)) {
        Py_DECREF(iterator);
        PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
        return NULL;
    }
    return iterator;
}

PyObject *
mg_ops_get_aiter(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_as_async == NULL || type->tp_as_async->am_aiter == NULL) {
        PyErr_Format(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s",
                     type->tp_name);
        return NULL;
    }
    PyObject *iterator = type->tp_as_async->am_aiter(object);
    if (iterator == NULL) {
        return NULL;
    }
    if (Py_TYPE(iterator)->tp_as_async == NULL || Py_TYPE(iterator)->tp_as_async->am_anext == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                     Py_TYPE(iterator)->tp_name);
        Py_DECREF(iterator);
        return NULL;
    }
    return iterator;
}

PyObject *
mg_ops_get_anext(PyObject *iterator)
{
    PyTypeObject *type = Py_TYPE(iterator);
    if (type->tp_as_async == NULL || type->tp_as_async->am_anext == NULL) {
        PyErr_Format(PyExc_TypeError, "'async for' requires an iterator with __anext__ method, got %.100s",
                     type->tp_name);
        return NULL;
    }
    PyObject *next = type->tp_as_async->am_anext(iterator);
    if (next == NULL || PyAsyncGen_CheckExact(iterator)) {
        return next; /* what an async generator yields is awaitable as it is */
    }
    PyObject *awaitable = mg_awaitable_iter(next);
    if (awaitable == NULL) {
        _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s",
                               Py_TYPE(next)->tp_name);
    }
    Py_DECREF(next);
    return awaitable;
}

PyObject *
mg_ops_get_yield_from_iter(PyCodeObject *code, PyObject *iterable)
{
    if (PyCoro_CheckExact(iterable)) {
        if (!(code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE))) {
            PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
            return NULL;
        }
        return Py_NewRef(iterable);
    }
    return PyGen_CheckExact(iterable) ? Py_NewRef(iterable) : PyObject_GetIter(iterable);
}

/* ---- strings, printing, operators ---- */

PyObject *
mg_ops_format(PyObject *value, int conversion, PyObject *spec)
{
    PyObject *(*convert)(PyObject *) = NULL;
    switch (conversion) {
        case 1:
            convert = PyObject_Str;
            break;
        case 2:
            convert = PyObject_Repr;
            break;
        case 3:
            convert = PyObject_ASCII;
            break;
        default:
            break;
    }
    PyObject *converted = convert != NULL ? convert(value) : Py_NewRef(value);
    if (converted == NULL || (PyUnicode_CheckExact(converted) && spec == NULL)) {
        return converted;
    }
    PyObject *result = PyObject_Format(converted, spec);
    Py_DECREF(converted);
    return result;
}

int
mg_ops_print_expr(PyObject *value)
{
    PyObject *hook = PySys_GetObject("displayhook");
    if (hook == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
        return MG_ERR;
    }
    Py_INCREF(hook);
    PyObject *result = PyObject_CallOneArg(hook, value);
    Py_DECREF(hook);
    if (result == NULL) {
        return MG_ERR;
    }
    Py_DECREF(result);
    return MG_OK;
}

static PyObject *
power(PyObject *left, PyObject *right)
{
    return PyNumber_Power(left, right, Py_None);
}

static PyObject *
power_in_place(PyObject *left, PyObject *right)
{
    return PyNumber_InPlacePower(left, right, Py_None);
}

const MgBinary mg_ops_binary[26] = {
    [NB_ADD] = PyNumber_Add,
    [NB_AND] = PyNumber_And,
    [NB_FLOOR_DIVIDE] = PyNumber_FloorDivide,
    [NB_LSHIFT] = PyNumber_Lshift,
    [NB_MATRIX_MULTIPLY] = PyNumber_MatrixMultiply,
    [NB_MULTIPLY] = PyNumber_Multiply,
    [NB_REMAINDER] = PyNumber_Remainder,
    [NB_OR] = PyNumber_Or,
    [NB_POWER] = power,
    [NB_RSHIFT] = PyNumber_Rshift,
    [NB_SUBTRACT] = PyNumber_Subtract,
    [NB_TRUE_DIVIDE] = PyNumber_TrueDivide,
    [NB_XOR] = PyNumber_Xor,
    [NB_INPLACE_ADD] = PyNumber_InPlaceAdd,
    [NB_INPLACE_AND] = PyNumber_InPlaceAnd,
    [NB_INPLACE_FLOOR_DIVIDE] = PyNumber_InPlaceFloorDivide,
    [NB_INPLACE_LSHIFT] = PyNumber_InPlaceLshift,
    [NB_INPLACE_MATRIX_MULTIPLY] = PyNumber_InPlaceMatrixMultiply,
    [NB_INPLACE_MULTIPLY] = PyNumber_InPlaceMultiply,
    [NB_INPLACE_REMAINDER] = PyNumber_InPlaceRemainder,
    [NB_INPLACE_OR] = PyNumber_InPlaceOr,
    [NB_INPLACE_POWER] = power_in_place,
    [NB_INPLACE_RSHIFT] = PyNumber_InPlaceRshift,
    [NB_INPLACE_SUBTRACT] = PyNumber_InPlaceSubtract,
    [NB_INPLACE_TRUE_DIVIDE] = PyNumber_InPlaceTrueDivide,
    [NB_INPLACE_XOR] = PyNumber_InPlaceXor,
};

/* ---- calls ---- */

__thread MgMove mg_ops_move __attribute__((tls_model("initial-exec")));

PyObject *
mg_ops_call(PyObject *callable, PyObject **arguments, int count, size_t positional, PyObject *kwnames)
{
    if (Py_IS_TYPE(callable, &PyFunction_Type) &&
        ((PyFunctionObject *)callable)->vectorcall == _PyFunction_Vectorcall) {
        mg_ops_move = (MgMove){callable, arguments, count};
    }
    PyObject *result = PyObject_Vectorcall(callable, arguments, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    mg_ops_move.function = NULL; /* if no frame was started */
    return result;
}

void
mg_ops_take_arguments(void)
{
    MgMove move = mg_ops_move;
    mg_ops_move.function = NULL;
    for (int i = 0; i < move.count; i++) { /* CPython has taken references of its own for the frame */
        PyObject *argument = move.arguments[i];
        move.arguments[i] = NULL;
        Py_DECREF(argument);
    }
}

PyObject *
mg_ops_unbind(PyObject **arguments)
{
    PyObject *method = arguments[-1], *function = PyMethod_GET_FUNCTION(method);
    arguments[-2] = Py_NewRef(function);
    arguments[-1] = Py_NewRef(PyMethod_GET_SELF(method));
    Py_DECREF(method);
    return function;
}
