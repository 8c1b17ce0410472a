/* Guards as texts, and why one does not hold: what must be, what is found, and which line asked for it.
 *
 * Texts are bounded, the same in each run, and made without running code of the user's. */
#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "guard/guard.h"

#include "cpython/aside.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "ir/dimobject.h"
#include "ir/text.h"
#include "torch/state.h"
#include "torch/typekind.h"
#include "ir/weakkey.h"

/* The text of a source, rebuilt from the program's own copies. */
PyObject *
mg_guard_source_text(const MgProgram *program, int index)
{
    enum { MOST = 2 * MG_SOURCE_LEVELS + 4 }; /* a level of the text is at most two sources */
    MgSource copies[MOST];
    int depth = 0;
    int ids[MOST];
    for (int i = index; i >= 0 && depth < MOST; i = program->steps[i].base) {
        ids[depth++] = i;
    }
    for (int i = depth; i-- > 0;) {
        copies[i] = program->steps[ids[i]].source;
        copies[i].base = i + 1 < depth ? &copies[i + 1] : NULL;
    }
    return mg_source_text(&copies[0]);
}

static PyObject *
tensor_text(PyObject *source, const MgCheck *check)
{
    MgMeta *meta = (MgMeta *)check->expected;
    PyObject *sizes = meta->varies ? PySequence_Tuple(meta->sizes) : Py_NewRef(meta->sizes);
    PyObject *text = sizes == NULL ? NULL
                                   : PyUnicode_FromFormat("%U: tensor %S on %S, size %S, stride %S, requires_grad=%s",
                                                          source, meta->dtype, meta->device, sizes, meta->strides,
                                                          meta->flags & MG_META_REQUIRES_GRAD ? "True" : "False");
    Py_XDECREF(sizes);
    return text;
}

/* What a function that tells a setting must give. New. */
static PyObject *
query_text(const MgProgram *program, const MgCheck *check)
{
    PyObject *question = program->steps[check->source].source.key, *text = NULL;
    PyObject *name = PyObject_GetAttrString(PyTuple_GET_ITEM(question, 0), "__name__");
    PyObject *arguments = PyTuple_GetSlice(question, 1, PyTuple_GET_SIZE(question));
    PyObject *given = arguments == NULL ? NULL : mg_text_of(arguments);
    PyObject *expected = mg_text_of(check->expected);
    if (name != NULL && given != NULL && expected != NULL) {
        text = PyUnicode_FromFormat("torch.%S%U == %U", name, given, expected);
    }
    Py_XDECREF(name);
    Py_XDECREF(arguments);
    Py_XDECREF(given);
    Py_XDECREF(expected);
    return text;
}

/* mg_guard_source_text for texts of sizes. */
static PyObject *
register_text(const void *program, int step)
{
    return mg_guard_source_text(program, step);
}

PyObject *
mg_guard_text(const MgProgram *program, int index)
{
    const MgCheck *check = &program->checks[index];
    PyObject *source = mg_guard_source_text(program, check->source);
    if (source == NULL) {
        return NULL;
    }
    PyObject *text = NULL, *other = NULL;
    switch (check->kind) {
        case MG_GUARD_TYPE:
            text = PyUnicode_FromFormat("type(%U) is %s", source, ((PyTypeObject *)check->expected)->tp_name);
            break;
        case MG_GUARD_IDENTITY: {
            PyObject *type = (PyObject *)Py_TYPE(check->expected);
            text = check->expected == Py_None || PyBool_Check(check->expected)
                       ? PyUnicode_FromFormat("%U is %S", source, check->expected)
                       : PyUnicode_FromFormat("%U is the same %s", source, ((PyTypeObject *)type)->tp_name);
            break;
        }
        case MG_GUARD_LACKS:
            other = mg_text_of(check->expected);
            text = other == NULL ? NULL : PyUnicode_FromFormat("%U has none of the attributes %U", source, other);
            break;
        case MG_GUARD_WEAK: {
            PyObject *object = PyWeakref_GET_OBJECT(check->expected);
            text = PyUnicode_FromFormat("%U is the same %s", source,
                                        object == Py_None ? "object, which is gone" : Py_TYPE(object)->tp_name);
            break;
        }
        case MG_GUARD_VALUE:
            other = mg_text_of(check->expected);
            text = other == NULL ? NULL : PyUnicode_FromFormat("%U == %U", source, other);
            break;
        case MG_GUARD_ABSENT:
            text = PyUnicode_FromFormat("%U is missing", source);
            break;
        case MG_GUARD_LENGTH:
            text = PyUnicode_FromFormat("len(%U) == %zd", source, check->index);
            break;
        case MG_GUARD_KEYS:
            other = mg_weak_keys(check->expected);
            Py_XSETREF(other, other == NULL ? NULL : mg_text_of(other));
            text = other == NULL ? NULL : PyUnicode_FromFormat("tuple(%U) == %U", source, other);
            break;
        case MG_GUARD_APART: {
            const int *id = (const int *)(const void *)PyBytes_AS_STRING(check->expected);
            other = mg_guard_source_text(program, id[0]);
            text = other == NULL
                       ? NULL
                       : PyUnicode_FromFormat("%U and %zd others are distinct objects", other,
                                              PyBytes_GET_SIZE(check->expected) / (Py_ssize_t)sizeof(int) - 1);
            break;
        }
        case MG_GUARD_QUERY:
            text = query_text(program, check);
            break;
        case MG_GUARD_METHODS:
            text = PyUnicode_FromFormat("special methods of %U", source);
            break;
        case MG_GUARD_LIMIT:
            text = PyUnicode_FromFormat("%U.maxlen == %zd", source, check->index);
            break;
        case MG_GUARD_TENSOR:
            text = tensor_text(source, check);
            break;
        case MG_GUARD_REFERENT:
            other = mg_guard_source_text(program, check->other);
            text = other == NULL ? NULL : PyUnicode_FromFormat("%U is a weak reference to %U", source, other);
            break;
        case MG_GUARD_QUIET:
            text = PyUnicode_FromFormat("nothing with a finalizer is written over: %U and %zd others", source,
                                        check->index - 1);
            break;
        case MG_GUARD_SIZES:
            text = mg_size_guards_text(check->expected, NULL, register_text, program);
            break;
        case MG_GUARD_PRESENT:
        case MG_GUARD_ANY_TENSOR:
            text = PyUnicode_FromFormat("%U is %s", source, check->kind == MG_GUARD_PRESENT ? "there" : "a tensor");
            break;
        case MG_GUARD_COUNT:
            break;
        case MG_GUARD_ALIAS:
        case MG_GUARD_DISTINCT:
            other = mg_guard_source_text(program, check->other);
            text = other == NULL ? NULL
                                 : PyUnicode_FromFormat("%U %s %U", source,
                                                        check->kind == MG_GUARD_ALIAS ? "is" : "is not", other);
            break;
    }
    Py_DECREF(source);
    Py_XDECREF(other);
    return text;
}

/* ---- what is found ---- */

/* 1 if one of the items of a tuple has this value, by no code of the user's; 0 or -1. */
static int
has_item(PyObject *items, PyObject *value)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
        int same = mg_guard_same_value(PyTuple_GET_ITEM(items, i), value);
        if (same != 0) {
            return same;
        }
    }
    return 0;
}

/* The first item of one tuple that the other does not have. Borrowed; NULL, with or without an exception. */
static PyObject *
first_other(PyObject *items, PyObject *others)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
        int has = has_item(others, PyTuple_GET_ITEM(items, i));
        if (has <= 0) {
            return has < 0 ? NULL : PyTuple_GET_ITEM(items, i);
        }
    }
    return NULL;
}

/* The keys of a dict or set, and which of them is new or missing. New. */
static PyObject *
keys_text(PyObject *expected, PyObject *object)
{
    enum { MOST = 1000 }; /* keys are compared each with each */
    PyObject *keys = PyAnySet_Check(object) ? mg_set_items(object) : PyDict_Keys(object);
    Py_XSETREF(keys, keys == NULL ? NULL : PyList_AsTuple(keys));
    PyObject *text = keys == NULL ? NULL : mg_text_of(keys), *result = NULL;
    if (text != NULL && PyTuple_GET_SIZE(keys) <= MOST && PyTuple_GET_SIZE(expected) <= MOST) {
        PyObject *added = first_other(keys, expected);
        PyObject *key = added != NULL || PyErr_Occurred() ? added : first_other(expected, keys);
        PyObject *name = key == NULL ? NULL : mg_text_of(key);
        result = name != NULL
                     ? PyUnicode_FromFormat("it is %U: %U is %s", text, name, added != NULL ? "new" : "missing")
                 : PyErr_Occurred() ? NULL
                                    : PyUnicode_FromFormat("it is %U: the order is another one", text);
        Py_XDECREF(name);
    }
    else if (text != NULL) {
        result = PyUnicode_FromFormat("it is %U", text);
    }
    Py_XDECREF(keys);
    Py_XDECREF(text);
    return result;
}

/* The first of some names that an object has in its instance dict. New; NULL, with or without an exception. */
static PyObject *
name_text(PyObject *names, PyObject *object)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++) {
        if (mg_instance_has(object, PyList_GET_ITEM(names, i))) {
            return PyUnicode_FromFormat("it has %R", PyList_GET_ITEM(names, i));
        }
    }
    return NULL;
}

/* What a C function that tells a setting says now. New. */
static PyObject *
answer_text(PyObject *question)
{
    PyObject *const *items = ((PyTupleObject *)question)->ob_item;
    PyObject *answer = PyObject_Vectorcall(items[0], items + 1, (size_t)PyTuple_GET_SIZE(question) - 1, NULL);
    PyObject *text = answer == NULL ? NULL : mg_text_of(answer);
    PyObject *result = text == NULL ? NULL : PyUnicode_FromFormat("it is %U", text);
    Py_XDECREF(answer);
    Py_XDECREF(text);
    return result;
}

/* What is found, as text, in place of an object. New. */
static PyObject *
other_text(PyObject *expected, PyObject *found)
{
    if (expected == Py_None || PyBool_Check(expected)) {
        return PyUnicode_FromFormat("it is %U", found);
    }
    PyObject *text = mg_text_of(expected);
    PyObject *result = text == NULL ? NULL
                       : PyUnicode_Compare(text, found) == 0
                           ? PyUnicode_FromString("it is another one")
                           : PyUnicode_FromFormat("it is %U in place of %U", found, text);
    Py_XDECREF(text);
    return result;
}

/* What is found where a check fails, after "but ". New; NULL without an exception if there is nothing to add. */
static PyObject *
found_text(const MgCheck *check, PyObject *found)
{
    if (found == NULL) {
        return PyUnicode_FromString("there is none");
    }
    PyObject *text = NULL, *result = NULL;
    switch (check->kind) {
        case MG_GUARD_TYPE:
            return PyUnicode_FromFormat("it is %s", Py_TYPE(found)->tp_name);
        case MG_GUARD_ABSENT:
        case MG_GUARD_VALUE:
        case MG_GUARD_IDENTITY:
        case MG_GUARD_WEAK:
            text = mg_text_of(found);
            result = text == NULL                       ? NULL
                     : check->kind == MG_GUARD_IDENTITY ? other_text(check->expected, text)
                                                        : PyUnicode_FromFormat("it is %U", text);
            Py_XDECREF(text);
            return result;
        case MG_GUARD_LENGTH: {
            Py_ssize_t size = PyTuple_Check(found) || PyList_Check(found) ? Py_SIZE(found)
                              : PyDict_Check(found)                       ? PyDict_GET_SIZE(found)
                              : PyAnySet_Check(found)                     ? PySet_GET_SIZE(found)
                              : PyObject_TypeCheck(found, mg_deque_type)  ? Py_SIZE(found)
                                                                          : -1;
            return size < 0 ? NULL : PyUnicode_FromFormat("it is %zd", size);
        }
        case MG_GUARD_LIMIT:
            return PyObject_TypeCheck(found, mg_deque_type) ? PyUnicode_FromFormat("it is %zd", mg_deque_limit(found))
                                                            : NULL;
        case MG_GUARD_KEYS: {
            PyObject *keys = mg_weak_keys(check->expected), *shown = NULL;
            if (keys != NULL && (PyDict_CheckExact(found) || PyAnySet_CheckExact(found))) {
                shown = keys_text(keys, found);
            }
            Py_XDECREF(keys);
            return shown;
        }
        case MG_GUARD_LACKS:
            return name_text(check->expected, found);
        case MG_GUARD_QUERY:
            return answer_text(found);
        case MG_GUARD_METHODS:
            return PyUnicode_FromString("one of them is another one");
        case MG_GUARD_ALIAS:
        case MG_GUARD_REFERENT:
            return PyUnicode_FromString("it is another object");
        case MG_GUARD_DISTINCT:
            return PyUnicode_FromString("they are one object");
        case MG_GUARD_APART:
            return PyUnicode_FromString("some are one object");
        default:
            return NULL;
    }
}

/* ---- tensors ---- */

/* Of two tuples of one length, the index at which alone they differ; -1 if there is none or more than one, -2 on error. */
static Py_ssize_t
only_difference(PyObject *a, PyObject *b)
{
    Py_ssize_t found = -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
        int same = mg_is_dim_object(PyTuple_GET_ITEM(a, i)) /* it may be any */
                       ? 1
                       : PyObject_RichCompareBool(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), Py_EQ);
        if (same < 0) {
            return -2;
        }
        if (!same && found >= 0) {
            return -1;
        }
        found = same ? found : i;
    }
    return found;
}

/* "x.size(0) == 2, but it is 5", or if there are several, "x.size() == (2, 3), but it is (5, 4)". New. */
static PyObject *
numbers_text(PyObject *source, const char *method, PyObject *expected, PyObject *found)
{
    PyObject *a = PySequence_Tuple(expected), *b = a == NULL ? NULL : PySequence_Tuple(found), *text = NULL;
    Py_ssize_t at = b == NULL ? -2 : PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b) ? -1 : only_difference(a, b);
    if (at >= 0) {
        text = PyUnicode_FromFormat("%U.%s(%zd) == %S, but it is %S", source, method, at, PyTuple_GET_ITEM(a, at),
                                    PyTuple_GET_ITEM(b, at));
    }
    else if (at == -1) {
        text = PyUnicode_FromFormat("%U.%s() == %R, but it is %R", source, method, a, b);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    return text;
}

static PyObject *
flag_text(PyObject *source, const char *name, int expected)
{
    return PyUnicode_FromFormat("%U.%s == %s, but it is %s", source, name, expected ? "True" : "False",
                                expected ? "False" : "True");
}

/* 1 if two tuples of ints, of one length, differ in more than sizes that vary. */
static int
differ(PyObject *expected, PyObject *found)
{
    MgDim a, b;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); i++) {
        if (mg_dim_read(PyTuple_GET_ITEM(expected, i), &a) && mg_dim_read(PyTuple_GET_ITEM(found, i), &b) &&
            a.e == NULL && a.v != b.v) {
            return 1;
        }
    }
    return 0;
}

/* The first thing in which a tensor is another one. New; NULL without an exception if it is none of those that are told. */
static PyObject *
difference_text(PyObject *source, const MgCheck *check, PyObject *tensor)
{
    const MgMeta *meta = (const MgMeta *)check->expected;
    MgMeta *now = mg_torch_is_tensor(tensor) ? mg_meta_of_tensor(tensor) : NULL;
    if (now == NULL) {
        mg_error_clear();
        return NULL;
    }
    PyObject *text = NULL;
    int flags = meta->flags ^ now->flags;
    int sizes = meta->dim == now->dim && differ(meta->sizes, now->sizes);
    int strides = meta->dim == now->dim && differ(meta->strides, now->strides);
    if (meta->dtype != now->dtype) {
        text = PyUnicode_FromFormat("%U.dtype == %S, but it is %S", source, meta->dtype, now->dtype);
    }
    else if (PyObject_RichCompareBool(meta->device, now->device, Py_NE) > 0) {
        text = PyUnicode_FromFormat("%U.device == %S, but it is %S", source, meta->device, now->device);
    }
    else if (meta->dim != now->dim) {
        text = PyUnicode_FromFormat("%U.dim() == %d, but it is %d", source, meta->dim, now->dim);
    }
    else if (sizes > 0) {
        text = numbers_text(source, "size", meta->sizes, now->sizes);
    }
    else if (strides > 0) {
        text = numbers_text(source, "stride", meta->strides, now->strides);
    }
    else if (flags & MG_META_REQUIRES_GRAD) {
        text = flag_text(source, "requires_grad", meta->flags & MG_META_REQUIRES_GRAD);
    }
    else if (flags & MG_META_CONJUGATE) {
        text = flag_text(source, "is_conj()", meta->flags & MG_META_CONJUGATE);
    }
    else if (flags & MG_META_NEGATIVE) {
        text = flag_text(source, "is_neg()", meta->flags & MG_META_NEGATIVE);
    }
    else if (flags & MG_META_NON_LEAF) {
        text = flag_text(source, "is_leaf", !(meta->flags & MG_META_NON_LEAF));
    }
    Py_DECREF(now);
    return text;
}

/* Why a check does not hold, as in "L['n'] == 3, but it is 4". New. */
static PyObject *
reason_text(const MgProgram *program, int index, PyObject *const *registers)
{
    const MgCheck *check = &program->checks[index];
    PyObject *value = registers[check->source];
    if (check->kind == MG_GUARD_TENSOR && value != NULL) {
        PyObject *source = mg_guard_source_text(program, check->source);
        PyObject *text = source == NULL ? NULL : difference_text(source, check, value);
        Py_XDECREF(source);
        if (text != NULL || PyErr_Occurred()) {
            return text;
        }
    }
    if (check->kind == MG_GUARD_SIZES) {
        return mg_size_guards_text(check->expected, registers, register_text, program);
    }
    PyObject *text = mg_guard_text(program, index);
    PyObject *found = text == NULL ? NULL : found_text(check, value);
    if (found != NULL) {
        Py_SETREF(text, PyUnicode_FromFormat("%U, but %U", text, found));
        Py_DECREF(found);
    }
    else if (PyErr_Occurred()) {
        Py_CLEAR(text);
    }
    return text;
}

/* The first item in which a state is no longer as expected, as text. New. */
static PyObject *
state_text(PyObject *expected, PyObject *found)
{
    Py_ssize_t count = Py_MIN(PyTuple_GET_SIZE(expected), PyTuple_GET_SIZE(found));
    for (Py_ssize_t i = 0; i < count && mg_state_name(i) != NULL; i++) {
        int same = PyObject_RichCompareBool(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(found, i), Py_EQ);
        if (same < 0) {
            return NULL;
        }
        if (same == 0) {
            PyObject *a = mg_text_of(PyTuple_GET_ITEM(expected, i));
            PyObject *b = a == NULL ? NULL : mg_text_of(PyTuple_GET_ITEM(found, i));
            PyObject *text = b == NULL ? NULL : PyUnicode_FromFormat("%U == %U, but it is %U", mg_state_name(i), a, b);
            Py_XDECREF(a);
            Py_XDECREF(b);
            return text;
        }
    }
    return PyUnicode_FromString("torch's global state is another one");
}

/* The name of the argument that a source leads back to, or None. Borrowed. */
static PyObject *
argument_of(const MgProgram *program, int source)
{
    while (program->steps[source].base >= 0) {
        source = program->steps[source].base;
    }
    return program->steps[source].source.kind == MG_SOURCE_LOCAL ? program->steps[source].source.key : Py_None;
}

/* A text with the line that asked for a check. `text` is stolen, and may be NULL with an exception. New; may run any code. */
static PyObject *
with_place(const MgProgram *program, int check, PyObject *const *registers, PyObject *text)
{
    static PyObject *kind; /* strong: magneto._stack.FailedGuard */
    int place = text == NULL ? -1 : program->checks[check].place;
    if (place >= 0 && program->checks[check].kind == MG_GUARD_SIZES) {
        int own = mg_size_guards_place(program->checks[check].expected, registers);
        place = own >= 0 ? own : place;
    }
    if (kind == NULL && text != NULL) {
        kind = mg_aside_find("magneto._stack", "FailedGuard");
    }
    if (kind == NULL || place < 0) {
        mg_error_clear();
        return text;
    }
    PyObject *variable =
        program->places[place].is_start ? argument_of(program, program->checks[check].source) : Py_None;
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *result =
        PyObject_CallFunction(kind, "OOiO", text, program->places[place].code, program->places[place].offset, variable);
    mg_aside_end(&aside);
    Py_DECREF(text);
    return result;
}

PyObject *
mg_guard_explain(MgProgram *program, PyObject *const *arguments)
{
    PyObject **registers = PyMem_Malloc(sizeof(PyObject *) * ((size_t)program->step_count + 1)), *text = NULL;
    int failed = -1;
    int good = registers == NULL ? -1 : mg_guard_run_all(program, arguments, registers, &failed);
    if (good == 0) {
        text = with_place(program, failed, registers, reason_text(program, failed, registers));
    }
    else if (good == 1 && mg_guard_same_state(program) == 0) {
        PyObject *now = mg_state_read();
        text = now == NULL ? NULL : state_text(program->state, now);
        Py_XDECREF(now);
    }
    else if (good == 1 && program->no_active_exception) {
        PyObject *handled = PyErr_GetHandledException();
        text = handled == NULL ? NULL : PyUnicode_FromString("no exception is handled by the caller, but one is");
        Py_XDECREF(handled);
    }
    PyMem_Free(registers);
    return text;
}
