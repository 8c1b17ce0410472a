/* Exceptions as the bytecode sees them: the handler table, raising, matching, and groups for `except*`.
 *
 * Invariant: a function that returns an error leaves exactly one exception set; one that succeeds leaves none set that
 * was not there before. */
#include "cpython/except.h"

/* ---- the handler table ----
 *
 * A byte string of entries (start, length, target, depth and flag), each a big-endian number of six-bit groups; bit 6
 * says that another group follows, bit 7 marks the first byte of an entry. */

static int
read_number(const unsigned char **cursor)
{
    const unsigned char *byte = *cursor;
    int value = *byte & 63;
    while (*byte & 64) {
        byte++;
        value = (value << 6) | (*byte & 63);
    }
    *cursor = byte + 1;
    return value;
}

static const unsigned char *
read_entry(const unsigned char *cursor, int *start, int *end, MgHandler *handler)
{
    *start = read_number(&cursor);
    *end = *start + read_number(&cursor);
    handler->target = read_number(&cursor);
    int packed = read_number(&cursor);
    handler->depth = packed >> 1;
    handler->push_lasti = packed & 1;
    return cursor;
}

int
mg_except_next(PyCodeObject *code, Py_ssize_t *position, int *start, int *end, MgHandler *handler)
{
    const unsigned char *table = (const unsigned char *)PyBytes_AS_STRING(code->co_exceptiontable);
    if (*position >= PyBytes_GET_SIZE(code->co_exceptiontable)) {
        return 0;
    }
    *position = read_entry(table + *position, start, end, handler) - table;
    return 1;
}

int
mg_except_find(PyCodeObject *code, int offset, MgHandler *handler)
{
    const unsigned char *cursor = (const unsigned char *)PyBytes_AS_STRING(code->co_exceptiontable);
    const unsigned char *stop = cursor + PyBytes_GET_SIZE(code->co_exceptiontable);
    while (cursor < stop) {
        int start, end;
        cursor = read_entry(cursor, &start, &end, handler);
        if (start > offset) {
            return 0; /* entries are sorted and do not overlap */
        }
        if (offset < end) {
            return 1;
        }
    }
    return 0;
}

/* ---- raising ---- */

void
mg_except_restore(PyObject *value)
{
    PyObject *type = Py_NewRef((PyObject *)Py_TYPE(value));
    PyErr_Restore(type, value, PyException_GetTraceback(value));
}

PyObject *
mg_except_take(PyThreadState *tstate)
{
    PyObject *type, *value, *traceback;
    _PyErr_Fetch(tstate, &type, &value, &traceback);
    _PyErr_NormalizeException(tstate, &type, &value, &traceback);
    PyException_SetTraceback(value, traceback != NULL ? traceback : Py_None);
    Py_XDECREF(traceback);
    Py_XDECREF(type);
    return value;
}

/* An exception instance from a class or an instance (stolen); NULL with an error that names what was wrong. */
static PyObject *
exception_instance(PyObject *given, const char *complaint)
{
    if (PyExceptionInstance_Check(given)) {
        return given;
    }
    if (!PyExceptionClass_Check(given)) {
        PyErr_SetString(PyExc_TypeError, complaint);
        Py_DECREF(given);
        return NULL;
    }
    PyObject *made = PyObject_CallNoArgs(given);
    if (made != NULL && !PyExceptionInstance_Check(made)) {
        PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", given,
                     Py_TYPE(made));
        Py_CLEAR(made);
    }
    Py_DECREF(given);
    return made;
}

int
mg_except_raise(PyThreadState *tstate, PyObject *exc, PyObject *cause)
{
    if (exc == NULL) {
        _PyErr_StackItem *item = _PyErr_GetTopmostException(tstate);
        PyObject *value = item->exc_value;
        if (value == NULL || value == Py_None) {
            PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
            return 0;
        }
        mg_except_restore(Py_NewRef(value));
        return 1;
    }
    PyObject *type = PyExceptionClass_Check(exc) ? Py_NewRef(exc) : NULL;
    PyObject *value = exception_instance(exc, "exceptions must derive from BaseException");
    if (value == NULL) {
        Py_XDECREF(cause);
        Py_XDECREF(type);
        return 0;
    }
    if (type == NULL) {
        type = Py_NewRef((PyObject *)Py_TYPE(value));
    }
    if (cause != NULL) {
        if (cause == Py_None) {
            Py_CLEAR(cause);
        }
        else {
            cause = exception_instance(cause, "exception causes must derive from BaseException");
            if (cause == NULL) {
                Py_DECREF(value);
                Py_DECREF(type);
                return 0;
            }
        }
        PyException_SetCause(value, cause); /* steals cause */
    }
    PyErr_SetObject(type, value);
    Py_DECREF(value);
    Py_DECREF(type);
    return 0;
}

void
mg_except_name(PyObject *type, const char *format, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) {
        return;
    }
    PyErr_Format(type, format, text);
    if (type != PyExc_NameError) {
        return;
    }
    PyObject *exc, *value, *traceback;
    PyErr_Fetch(&exc, &value, &traceback);
    PyErr_NormalizeException(&exc, &value, &traceback);
    if (PyErr_GivenExceptionMatches(value, PyExc_NameError)) {
        PyNameErrorObject *error = (PyNameErrorObject *)value;
        if (error->name == NULL) {
            error->name = Py_NewRef(name); /* lets the traceback suggest a similar name */
        }
    }
    PyErr_Restore(exc, value, traceback);
}

void
mg_except_unbound(PyCodeObject *code, int slot)
{
    if (PyErr_Occurred()) {
        return;
    }
    PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, slot);
    if (slot < code->co_nlocalsplus - code->co_nfreevars) {
        mg_except_name(PyExc_UnboundLocalError,
                       "cannot access local variable '%s' where it is not associated with a value", name);
    }
    else {
        mg_except_name(PyExc_NameError,
                       "cannot access free variable '%s' where it is not associated with a value in enclosing scope",
                       name);
    }
}

/* ---- matching ---- */

/* MG_OK if each of `types` (one or a tuple) satisfies `allowed`; else MG_ERR with `complaint`. */
static int
check_each_type(PyObject *types, int (*allowed)(PyObject *), const char *complaint)
{
    Py_ssize_t count = PyTuple_Check(types) ? PyTuple_GET_SIZE(types) : 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *type = PyTuple_Check(types) ? PyTuple_GET_ITEM(types, i) : types;
        int good = allowed(type);
        if (good <= 0) {
            if (good == 0) {
                PyErr_SetString(PyExc_TypeError, complaint);
            }
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
is_exception_class(PyObject *type)
{
    return PyExceptionClass_Check(type);
}

static int
is_not_group_class(PyObject *type)
{
    int group = PyObject_IsSubclass(type, PyExc_BaseExceptionGroup);
    return group < 0 ? -1 : !group;
}

int
mg_except_match(PyObject *value, PyObject *types)
{
    if (check_each_type(types, is_exception_class,
                        "catching classes that do not inherit from BaseException is not allowed") < 0) {
        return -1;
    }
    return PyErr_GivenExceptionMatches(value, types);
}

static int
is_group(PyObject *exc)
{
    return PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_BaseExceptionGroup);
}

int
mg_except_group_match(PyObject *value, PyObject *types, PyObject **match, PyObject **rest)
{
    if (check_each_type(types, is_exception_class,
                        "catching classes that do not inherit from BaseException is not allowed") < 0 ||
        check_each_type(types, is_not_group_class,
                        "catching ExceptionGroup with except* is not allowed. Use except instead.") < 0) {
        return MG_ERR;
    }
    if (value == Py_None) {
        *match = Py_NewRef(Py_None);
        *rest = Py_NewRef(Py_None);
        return MG_OK;
    }
    if (PyErr_GivenExceptionMatches(value, types)) {
        if (is_group(value)) {
            *match = Py_NewRef(value);
        }
        else { /* a lone exception is caught as a group of one */
            *match = PyObject_CallFunction(PyExc_BaseExceptionGroup, "s(O)", "", value);
            if (*match == NULL) {
                return MG_ERR;
            }
        }
        *rest = Py_NewRef(Py_None);
        return MG_OK;
    }
    if (!is_group(value)) {
        *match = Py_NewRef(Py_None);
        *rest = Py_NewRef(value);
        return MG_OK;
    }
    PyObject *pair = PyObject_CallMethod(value, "split", "(O)", types);
    if (pair == NULL) {
        return MG_ERR;
    }
    if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(value)->tp_name);
        Py_DECREF(pair);
        return MG_ERR;
    }
    *match = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
    *rest = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    return MG_OK;
}

/* ---- what is left after `except*` ---- */

/* 1 if both exceptions carry the same notes, traceback, cause and context: one was split off the other. */
static int
same_metadata(PyObject *left, PyObject *right)
{
    PyBaseExceptionObject *a = (PyBaseExceptionObject *)left;
    PyBaseExceptionObject *b = (PyBaseExceptionObject *)right;
    return a->notes == b->notes && a->traceback == b->traceback && a->cause == b->cause && a->context == b->context;
}

/* Adds the identities of all leaves of `exc` to the set. */
static int
collect_leaves(PyObject *exc, PyObject *leaves)
{
    if (exc == Py_None) {
        return MG_OK;
    }
    if (!is_group(exc)) {
        PyObject *identity = PyLong_FromVoidPtr(exc);
        if (identity == NULL) {
            return MG_ERR;
        }
        int result = PySet_Add(leaves, identity);
        Py_DECREF(identity);
        return result;
    }
    PyObject *members = ((PyBaseExceptionGroupObject *)exc)->excs;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) {
        if (Py_EnterRecursiveCall(" in collect_exception_group_leaves")) {
            return MG_ERR;
        }
        int result = collect_leaves(PyTuple_GET_ITEM(members, i), leaves);
        Py_LeaveRecursiveCall();
        if (result < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* A group like `group` with just `members` (a list), and the metadata of the original. New; None if it is empty. */
static PyObject *
group_derive(PyObject *group, PyObject *members)
{
    if (PyList_GET_SIZE(members) == 0) {
        Py_RETURN_NONE;
    }
    PyObject *derived = PyObject_CallMethod(group, "derive", "(O)", members);
    if (derived == NULL) {
        return NULL;
    }
    if (!is_group(derived)) {
        PyErr_SetString(PyExc_TypeError, "derive must return an instance of BaseExceptionGroup");
        Py_DECREF(derived);
        return NULL;
    }
    PyBaseExceptionObject *from = (PyBaseExceptionObject *)group;
    if (from->traceback != NULL && PyException_SetTraceback(derived, from->traceback) < 0) {
        Py_DECREF(derived);
        return NULL;
    }
    PyException_SetContext(derived, PyException_GetContext(group));
    PyException_SetCause(derived, PyException_GetCause(group));
    PyObject *notes = NULL;
    if (_PyObject_LookupAttr(group, MG_STRING("__notes__"), &notes) < 0) {
        Py_DECREF(derived);
        return NULL;
    }
    if (notes != NULL) {
        int result = 0;
        if (PySequence_Check(notes)) { /* a copy: the parts of a group may get notes of their own */
            PyObject *copy = PySequence_List(notes);
            result = copy == NULL ? -1 : PyObject_SetAttr(derived, MG_STRING("__notes__"), copy);
            Py_XDECREF(copy);
        }
        Py_DECREF(notes);
        if (result < 0) {
            Py_DECREF(derived);
            return NULL;
        }
    }
    return derived;
}

/* The part of `exc` whose leaves are in the set, with the shape of the original. New; None if there is none. */
static PyObject *
group_project(PyObject *exc, PyObject *leaves)
{
    if (!is_group(exc)) {
        PyObject *identity = PyLong_FromVoidPtr(exc);
        int found = identity == NULL ? -1 : PySet_Contains(leaves, identity);
        Py_XDECREF(identity);
        if (found < 0) {
            return NULL;
        }
        return Py_NewRef(found ? exc : Py_None);
    }
    PyObject *kept = PyList_New(0);
    if (kept == NULL) {
        return NULL;
    }
    PyObject *members = ((PyBaseExceptionGroupObject *)exc)->excs;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) {
        if (Py_EnterRecursiveCall(" in exceptiongroup_split_recursive")) {
            goto error;
        }
        PyObject *part = group_project(PyTuple_GET_ITEM(members, i), leaves);
        Py_LeaveRecursiveCall();
        if (part == NULL) {
            goto error;
        }
        int result = part == Py_None ? 0 : PyList_Append(kept, part);
        Py_DECREF(part);
        if (result < 0) {
            goto error;
        }
    }
    PyObject *projected = group_derive(exc, kept);
    Py_DECREF(kept);
    return projected;
error:
    Py_DECREF(kept);
    return NULL;
}

PyObject *
mg_except_group_reraise(PyObject *original, PyObject *raised)
{
    Py_ssize_t count = PyList_GET_SIZE(raised);
    if (count == 0) {
        Py_RETURN_NONE;
    }
    if (!is_group(original)) { /* a lone exception: only one clause can have run */
        return Py_NewRef(PyList_GET_ITEM(raised, 0));
    }
    PyObject *result = NULL;
    PyObject *fresh = PyList_New(0);    /* raised by the clauses themselves */
    PyObject *leaves = PySet_New(NULL); /* of the parts of the original that go on */
    if (fresh == NULL || leaves == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *exc = PyList_GET_ITEM(raised, i);
        if (exc == Py_None) {
            continue;
        }
        int status = same_metadata(exc, original) ? collect_leaves(exc, leaves) : PyList_Append(fresh, exc);
        if (status < 0) {
            goto done;
        }
    }
    PyObject *going_on = group_project(original, leaves);
    if (going_on == NULL) {
        goto done;
    }
    if (PyList_GET_SIZE(fresh) == 0) {
        result = going_on;
        goto done;
    }
    int status = going_on == Py_None ? 0 : PyList_Append(fresh, going_on);
    Py_DECREF(going_on);
    if (status < 0) {
        goto done;
    }
    if (PyList_GET_SIZE(fresh) > 1) {
        result = PyObject_CallFunction(PyExc_BaseExceptionGroup, "sO", "", fresh);
    }
    else {
        result = Py_NewRef(PyList_GET_ITEM(fresh, 0));
    }
done:
    Py_XDECREF(fresh);
    Py_XDECREF(leaves);
    return result;
}

/* Which name or variable an instruction stores to (1) or deletes (0): -1 if it does something else. */
static int
stored_by(MgUnit unit, int stores)
{
    static const uint8_t opcodes[][2] = {{DELETE_FAST, STORE_FAST},
                                         {DELETE_DEREF, STORE_DEREF},
                                         {DELETE_GLOBAL, STORE_GLOBAL},
                                         {DELETE_NAME, STORE_NAME}};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(opcodes); i++) {
        if (mg_opcode_base[_Py_OPCODE(unit)] == opcodes[i][stores]) {
            return (int)i << 8 | _Py_OPARG(unit);
        }
    }
    return -1;
}

int
mg_except_forgets(MgFrame *frame, MgUnit *next)
{
    int opcode = mg_opcode_base[_Py_OPCODE(*next)], at = -1;
    if (opcode == LOAD_CONST) {
        at = 1;
    }
    else if (stored_by(*next, 1) >= 0) {
        at = 0;
    }
    else if (stored_by(*next, 0) >= 0 && next > mg_frame_code_start(frame)) {
        return stored_by(next[-1], 1) == stored_by(*next, 0);
    }
    return at >= 0 && stored_by(next[at], 1) >= 0 && stored_by(next[at], 1) == stored_by(next[at + 1], 0);
}
