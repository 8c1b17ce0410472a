/* The guard program: loads every source that an entry needs, once, and checks it.
 *
 * Steps are in the order in which the sources were made, so a base is loaded and checked before what is built on it. No
 * Python code runs in between, so borrowed references stay valid until the first call after the program. */
#include "guard.h"

#include "rules.h"
#include "shadow.h"

/* 1 for a leaf, as parameters are; 2 for a view of one; 0 for others. */
static int
leafness(PyObject *tensor)
{
    if (Py_IS_TYPE(tensor, mg_torch.parameter)) {
        return 1;
    }
    PyObject *leaf = PyObject_GetAttr(tensor, MG_STRING("is_leaf"));
    if (leaf == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(leaf);
    return leaf == Py_True ? 1 : 2 * mg_torch_views_leaf(tensor);
}

static MgTensorCheck *
tensor_check(PyObject *tensor)
{
    MgTensor info;
    MgTensorCheck *check = PyMem_Calloc(1, sizeof(MgTensorCheck));
    if (check == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    int requires_grad = mg_torch_requires_grad(tensor);
    if (requires_grad < 0 || mg_torch_read(tensor, &info) < 0) {
        PyMem_Free(check);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "a tensor changed its kind during a capture");
        }
        return NULL;
    }
    check->dims = PyMem_Malloc(sizeof(int64_t) * 2 * (size_t)info.dim + 1);
    if (check->dims == NULL) {
        PyMem_Free(check);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(check->dims, info.sizes, sizeof(int64_t) * (size_t)info.dim);
    memcpy(check->dims + info.dim, info.strides, sizeof(int64_t) * (size_t)info.dim);
    check->dim = info.dim;
    check->dtype = info.dtype;
    check->device_type = info.device_type;
    check->device_index = info.device_index;
    check->requires_grad = requires_grad;
    check->leafness = requires_grad ? leafness(tensor) : 1;
    check->conjugate = mg_torch_is_conjugate(tensor);
    check->negative = mg_torch_is_negative(tensor);
    return check;
}

int
mg_guard_compile(MgProgram *program, MgCapture *capture)
{
    MgSources *sources = &capture->sources;
    *program = (MgProgram){0};
    program->steps = PyMem_Calloc((size_t)sources->count + 1, sizeof(MgStep));
    program->checks = PyMem_Calloc((size_t)capture->guard_count + 1, sizeof(MgCheck));
    int *counts = PyMem_Calloc((size_t)sources->count + 1, sizeof(int));
    if (program->steps == NULL || program->checks == NULL || counts == NULL) {
        PyMem_Free(counts);
        PyErr_NoMemory();
        return MG_ERR;
    }
    program->state = Py_NewRef(capture->entry_state);
    program->step_count = sources->count;
    for (int i = 0; i < sources->count; i++) {
        MgStep *step = &program->steps[i];
        step->source = *sources->items[i];
        step->source.view = NULL;
        Py_XINCREF(step->source.key);
        step->base = sources->items[i]->base == NULL ? -1 : sources->items[i]->base->id;
    }
    /* each check goes with the last source that it needs */
    for (int i = 0; i < capture->guard_count; i++) {
        MgGuard *guard = &capture->guards[i];
        int at = guard->source->id;
        if (guard->other != NULL && guard->other->id > at) {
            at = guard->other->id;
        }
        counts[at]++;
    }
    int next = 0;
    for (int i = 0; i < sources->count; i++) {
        program->steps[i].first_check = next;
        next += counts[i];
    }
    int result = MG_OK;
    for (int i = 0; i < capture->guard_count && result == MG_OK; i++) {
        MgGuard *guard = &capture->guards[i];
        int at = guard->source->id;
        if (guard->other != NULL && guard->other->id > at) {
            at = guard->other->id;
        }
        MgStep *step = &program->steps[at];
        MgCheck *check = &program->checks[step->first_check + step->check_count++];
        check->kind = guard->kind;
        check->source = guard->source->id;
        check->other = guard->other == NULL ? -1 : guard->other->id;
        check->expected = Py_XNewRef(guard->expected);
        check->index = guard->index;
        if (guard->kind == MG_GUARD_TENSOR) {
            check->tensor = tensor_check(guard->source->raw);
            result = check->tensor == NULL ? MG_ERR : MG_OK;
        }
        program->check_count++;
    }
    PyMem_Free(counts);
    return result;
}

/* ---- running ---- */

/* Equality of plain values of one type, with no Python code. */
static int
same_value(PyObject *value, PyObject *expected)
{
    if (value == expected) {
        return 1;
    }
    PyTypeObject *type = Py_TYPE(expected);
    if (Py_TYPE(value) != type) {
        return 0;
    }
    if (type == &PyTuple_Type) {
        if (PyTuple_GET_SIZE(value) != PyTuple_GET_SIZE(expected)) {
            return 0;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            int same = same_value(PyTuple_GET_ITEM(value, i), PyTuple_GET_ITEM(expected, i));
            if (same <= 0) {
                return same;
            }
        }
        return 1;
    }
    while (type->tp_flags & Py_TPFLAGS_HEAPTYPE && type->tp_base != NULL) {
        type = type->tp_base; /* a Python class over a number or a string: the value, with no code of the class */
    }
    if (type == &PyFloat_Type) { /* by bits: -0.0 is not 0.0, and nan is nan */
        double a = PyFloat_AS_DOUBLE(value), b = PyFloat_AS_DOUBLE(expected);
        return memcmp(&a, &b, sizeof(double)) == 0;
    }
    if (type == &PyComplex_Type) {
        return memcmp(&((PyComplexObject *)value)->cval, &((PyComplexObject *)expected)->cval, sizeof(Py_complex)) == 0;
    }
    if (mg_rules_is_value_type(Py_TYPE(expected))) {
        PyObject *a = PyObject_CallMethodNoArgs(value, MG_STRING("tobytes"));
        PyObject *b = a == NULL ? NULL : PyObject_CallMethodNoArgs(expected, MG_STRING("tobytes"));
        int same = b == NULL ? -1 : same_value(a, b);
        Py_XDECREF(a);
        Py_XDECREF(b);
        return same;
    }
    if (type != &PyLong_Type && type != &PyUnicode_Type && type != &PyBytes_Type && type != mg_torch.device) {
        return 0;
    }
    PyObject *result = type->tp_richcompare(value, expected, Py_EQ);
    Py_XDECREF(result);
    return result == NULL ? -1 : result == Py_True;
}

static int
same_keys(PyObject *dict, PyObject *keys)
{
    Py_ssize_t size = PyTuple_GET_SIZE(keys), i = 0;
    PyObject *key, *value;
    if (PyAnySet_Check(dict)) {
        Py_ssize_t position = 0;
        Py_hash_t hash;
        int same = PySet_GET_SIZE(dict) == size;
        while (same > 0 && i < size && _PySet_NextEntry(dict, &position, &key, &hash)) {
            same = same_value(key, PyTuple_GET_ITEM(keys, i++));
        }
        return same;
    }
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != size) {
        return 0;
    }
    MgDictWalk walk = {0};
    while (i < size && mg_dict_next(dict, &walk, &key, &value)) {
        PyObject *expected = PyTuple_GET_ITEM(keys, i++);
        if (key != expected &&
            !(PyUnicode_CheckExact(key) && PyUnicode_CheckExact(expected) ? PyUnicode_Compare(key, expected) == 0
                                                                          : same_value(key, expected) == 1)) {
            return 0;
        }
    }
    return i == size;
}

/* 1 if the first `count` of some registers hold distinct objects, and none of them one of the rest. */
static int
are_apart(PyObject *ids, Py_ssize_t count, PyObject **registers)
{
    const int *id = (const int *)(const void *)PyBytes_AS_STRING(ids);
    Py_ssize_t total = PyBytes_GET_SIZE(ids) / (Py_ssize_t)sizeof(int);
    if (count <= 8) {
        for (Py_ssize_t i = 0; i < count; i++) {
            for (Py_ssize_t j = i + 1; j < total; j++) {
                if (registers[id[i]] == registers[id[j]]) {
                    return 0;
                }
            }
        }
        return 1;
    }
    enum { SMALL = 256 };
    PyObject *small[SMALL];
    size_t room = SMALL;
    while (room < 2 * (size_t)count) {
        room *= 2;
    }
    PyObject **table = room == SMALL ? small : PyMem_Malloc(sizeof(PyObject *) * room);
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(table, 0, sizeof(PyObject *) * room);
    int apart = 1;
    for (Py_ssize_t i = 0; apart && i < total; i++) {
        PyObject *object = registers[id[i]];
        size_t at = ((uintptr_t)object >> 4) & (room - 1);
        while (table[at] != NULL && table[at] != object) {
            at = (at + 1) & (room - 1);
        }
        apart = table[at] != object;
        if (i < count) {
            table[at] = object;
        }
    }
    if (table != small) {
        PyMem_Free(table);
    }
    return apart;
}

/* 1 if a type's special methods are what they were. Remembers the version of the type for which that holds. */
static int
same_methods(PyTypeObject *type, MgCheck *check)
{
    if (MG_LIKELY(type->tp_version_tag != 0 && type->tp_version_tag == (unsigned int)check->index)) {
        return 1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(check->expected); i += 2) {
        PyObject *expected = PyTuple_GET_ITEM(check->expected, i + 1);
        PyObject *found = _PyType_Lookup(type, PyTuple_GET_ITEM(check->expected, i));
        if (found == NULL ? expected != Py_None : found != expected) {
            return 0;
        }
    }
    check->index = type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? (Py_ssize_t)type->tp_version_tag : 0;
    return 1;
}

static int
same_tensor(PyObject *tensor, const MgTensorCheck *check)
{
    MgTensor info;
    if (!mg_torch_is_tensor(tensor) || mg_torch_read(tensor, &info) < 0) {
        return 0;
    }
    if (info.dim != check->dim || info.dtype != check->dtype || info.device_type != check->device_type ||
        info.device_index != check->device_index ||
        memcmp(info.sizes, check->dims, sizeof(int64_t) * (size_t)info.dim) != 0 ||
        memcmp(info.strides, check->dims + info.dim, sizeof(int64_t) * (size_t)info.dim) != 0) {
        return 0;
    }
    int requires_grad = mg_torch_requires_grad(tensor);
    if (requires_grad < 0 || requires_grad != check->requires_grad) {
        return requires_grad < 0 ? -1 : 0;
    }
    return (!requires_grad || leafness(tensor) == check->leafness) && mg_torch_is_conjugate(tensor) == check->conjugate &&
           mg_torch_is_negative(tensor) == check->negative;
}

/* 1 if a C function that tells a setting gives the same answer again; it runs no Python code. */
static int
same_answer(PyObject *question, PyObject *expected)
{
    PyObject *const *items = ((PyTupleObject *)question)->ob_item;
    PyObject *answer = PyObject_Vectorcall(items[0], items + 1, (size_t)PyTuple_GET_SIZE(question) - 1, NULL);
    int same = answer == NULL ? -1 : same_value(answer, expected);
    Py_XDECREF(answer);
    return same;
}

/* One check: 1, 0 or -1. */
static int
run_check(MgCheck *check, PyObject **registers)
{
    PyObject *value = registers[check->source];
    if (check->kind == MG_GUARD_ABSENT) {
        return value == NULL;
    }
    if (value == NULL) {
        return 0;
    }
    switch (check->kind) {
        case MG_GUARD_TYPE:
            return (PyObject *)Py_TYPE(value) == check->expected;
        case MG_GUARD_IDENTITY:
            return value == check->expected;
        case MG_GUARD_VALUE:
            return same_value(value, check->expected);
        case MG_GUARD_LENGTH:
            if (PyTuple_Check(value) || PyList_Check(value)) {
                return Py_SIZE(value) == check->index;
            }
            return PyDict_Check(value)                        ? PyDict_GET_SIZE(value) == check->index
                   : PyAnySet_Check(value)                    ? PySet_GET_SIZE(value) == check->index
                   : PyObject_TypeCheck(value, mg_deque_type) ? Py_SIZE(value) == check->index
                                                              : 0;
        case MG_GUARD_LIMIT:
            return PyObject_TypeCheck(value, mg_deque_type) && mg_deque_limit(value) == check->index;
        case MG_GUARD_APART:
            return are_apart(check->expected, check->index, registers);
        case MG_GUARD_ANSWER:
            return same_answer(value, check->expected);
        case MG_GUARD_METHODS:
            return PyType_Check(value) && same_methods((PyTypeObject *)value, check);
        case MG_GUARD_KEYS:
            return same_keys(value, check->expected);
        case MG_GUARD_TENSOR:
            return same_tensor(value, check->tensor);
        case MG_GUARD_ALIAS:
            return value == registers[check->other];
        case MG_GUARD_DISTINCT:
            return value != registers[check->other];
        default:
            return 0;
    }
}

int
mg_guard_run(const MgProgram *program, PyObject *const *arguments, PyObject **registers, int *failed)
{
    *failed = -1;
    for (int i = 0; i < program->step_count; i++) {
        const MgStep *step = &program->steps[i];
        PyObject *base = step->base < 0 ? NULL : registers[step->base];
        registers[i] = step->base >= 0 && base == NULL ? NULL : mg_source_load(&step->source, base, arguments);
        for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
            int good = run_check(&program->checks[j], registers);
            if (good <= 0) {
                *failed = j;
                return good;
            }
        }
    }
    PyObject *state = mg_rules_read_state();
    if (state == NULL) {
        return -1;
    }
    int same = PyObject_RichCompareBool(state, program->state, Py_EQ);
    Py_DECREF(state);
    return same;
}

/* ---- text ---- */

/* The text of a source, rebuilt from the program's own copies. */
PyObject *
mg_guard_source_text(const MgProgram *program, int index)
{
    MgSource copies[64];
    int depth = 0;
    int ids[64];
    for (int i = index; i >= 0 && depth < 64; i = program->steps[i].base) {
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
    return PyUnicode_FromFormat("%U: tensor %S on %S, size %S, stride %S, requires_grad=%s", source, meta->dtype,
                                meta->device, meta->sizes, meta->strides,
                                meta->flags & MG_META_REQUIRES_GRAD ? "True" : "False");
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
        case MG_GUARD_VALUE:
            text = PyUnicode_FromFormat("%U == %R", source, check->expected);
            break;
        case MG_GUARD_ABSENT:
            text = PyUnicode_FromFormat("%U is missing", source);
            break;
        case MG_GUARD_LENGTH:
            text = PyUnicode_FromFormat("len(%U) == %zd", source, check->index);
            break;
        case MG_GUARD_KEYS:
            text = PyUnicode_FromFormat("tuple(%U) == %R", source, check->expected);
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
        case MG_GUARD_ANSWER: {
            PyObject *question = program->steps[check->source].source.key;
            PyObject *name = PyObject_GetAttrString(PyTuple_GET_ITEM(question, 0), "__name__");
            PyObject *arguments = PyTuple_GetSlice(question, 1, PyTuple_GET_SIZE(question));
            text = name == NULL || arguments == NULL
                       ? NULL
                       : PyUnicode_FromFormat("torch.%U%R == %R", name, arguments, check->expected);
            Py_XDECREF(name);
            Py_XDECREF(arguments);
            break;
        }
        case MG_GUARD_METHODS:
            text = PyUnicode_FromFormat("special methods of %U", source);
            break;
        case MG_GUARD_LIMIT:
            text = PyUnicode_FromFormat("%U.maxlen == %zd", source, check->index);
            break;
        case MG_GUARD_TENSOR:
            text = tensor_text(source, check);
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

void
mg_guard_free(MgProgram *program)
{
    for (int i = 0; i < program->step_count; i++) {
        Py_XDECREF(program->steps[i].source.key);
        PyMem_Free(program->steps[i].text);
    }
    for (int i = 0; i < program->check_count; i++) {
        Py_XDECREF(program->checks[i].expected);
        if (program->checks[i].tensor != NULL) {
            PyMem_Free(program->checks[i].tensor->dims);
            PyMem_Free(program->checks[i].tensor);
        }
    }
    PyMem_Free(program->steps);
    PyMem_Free(program->checks);
    Py_XDECREF(program->state);
    *program = (MgProgram){0};
}
