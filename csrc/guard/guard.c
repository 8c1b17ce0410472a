/* The guard program: loads every source that an entry needs, once, and checks it.
 *
 * Steps are in the order in which the sources were made, so a base is loaded and checked before what is built on it. No
 * Python code runs in between, so borrowed references stay valid until the first call after the program. */
#include "guard/guard.h"

#include "capture/finalizer.h"
#include "capture/protocol.h"
#include "capture/registry.h"
#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "cpython/setlayout.h"
#include "cpython/shadow.h"
#include "cpython/watch.h"
#include "guard/fast.h"
#include "ir/dimobject.h"
#include "torch/state.h"
#include "torch/typekind.h"
#include "guard/weaken.h"
#include "ir/weakkey.h"

MgGuardMode mg_guard_mode = MG_CHECKS ? MG_GUARDS_BOTH : MG_GUARDS_FAST;

/* What is guarded of each source, by id. */
typedef struct {
    PyObject **types;   /* borrowed: the type that is expected, or NULL */
    PyObject **tensors; /* borrowed: the interned metadata that is expected, or NULL */
    MgTable pairs;      /* (source, other and kind) of guards on two sources */
    uint8_t *referents; /* plain weak references that are guarded by what they refer to */
} Known;

/* 1 for a guard that can't fail where the others hold: two objects of different types, two tensors of different
 * metadata are different objects. */
static int
is_needless(Known *known, const MgGuard *guard)
{
    if (guard->kind == MG_GUARD_ALIAS || guard->kind == MG_GUARD_DISTINCT) { /* the first of several is enough */
        void *key = (void *)((uintptr_t)guard->other << 1 | (guard->kind == MG_GUARD_ALIAS));
        const MgGuard *first = mg_table_get(&known->pairs, guard->source, key);
        if (first != NULL && first != guard) {
            return 1;
        }
        if (first == NULL && mg_table_set(&known->pairs, guard->source, key, (void *)guard) < 0) {
            mg_error_clear();
        }
    }
    if (guard->kind ==
        MG_GUARD_IDENTITY) { /* an object has one plain weak reference: it need not be kept to be known */
        return known->referents[guard->source->id] && PyWeakref_CheckRefExact(guard->expected);
    }
    if (guard->kind != MG_GUARD_DISTINCT) {
        return 0;
    }
    int a = guard->source->id, b = guard->other->id;
    return (known->types[a] != NULL && known->types[b] != NULL && known->types[a] != known->types[b]) ||
           (known->tensors[a] != NULL && known->tensors[b] != NULL && known->tensors[a] != known->tensors[b]);
}

/* What may be another in tensors of some metadata. */
static MgTensorVaries
what_varies(const MgMeta *meta)
{
    MgTensorVaries varies = {.any = meta->varies};
    MgDim sizes[MG_VARYING_DIMS], strides[MG_VARYING_DIMS], product;
    for (int i = 0; varies.any && i < meta->dim; i++) {
        (void)mg_dim_read(PyTuple_GET_ITEM(meta->sizes, i), &sizes[i]);
        (void)mg_dim_read(PyTuple_GET_ITEM(meta->strides, i), &strides[i]);
    }
    for (int i = 0; varies.any && i < meta->dim; i++) {
        varies.sizes |= (uint8_t)(sizes[i].e != NULL ? 1 << i : 0);
        varies.strides[i] = strides[i].e == NULL ? MG_STRIDE_FIXED : MG_STRIDE_ANY;
        for (int k = meta->dim - 1; strides[i].e != NULL && k >= 0; k--) {
            if (k != i && mg_dim_mul(sizes[k], strides[k], &product) && product.e == strides[i].e) {
                varies.strides[i] = (int8_t)k;
                break;
            }
        }
    }
    return varies;
}

/* The step at which a guard can be checked: the last that it needs. */
static int
last_source(const MgGuard *guard)
{
    return guard->other != NULL && guard->other->id > guard->source->id ? guard->other->id : guard->source->id;
}

int
mg_guard_compile(MgProgram *program, MgCapture *capture)
{
    MgSources *sources = &capture->reads.sources;
    const int source_count = sources->count, guard_count = capture->reads.guard_count; /* there can be no new ones */
    *program = (MgProgram){.no_active_exception = capture->around.no_active_exception};
    program->steps = PyMem_Calloc((size_t)source_count + 1, sizeof(MgStep));
    program->checks = PyMem_Calloc((size_t)guard_count + 1, sizeof(MgCheck));
    int *counts = PyMem_Calloc((size_t)source_count + 1, sizeof(int));
    Known known = {.types = PyMem_Calloc(2 * (size_t)source_count + 1, sizeof(PyObject *)),
                   .referents = PyMem_Calloc((size_t)source_count + 1, 1)};
    int result = MG_OK;
    if (program->steps == NULL || program->checks == NULL || counts == NULL || known.types == NULL ||
        known.referents == NULL) {
        PyErr_NoMemory();
        result = MG_ERR;
        goto done;
    }
    known.tensors = known.types + source_count;
    for (int i = 0; i < guard_count; i++) {
        const MgGuard *guard = &capture->reads.guards[i];
        known.referents[guard->source->id] |= guard->kind == MG_GUARD_REFERENT;
        if (guard->kind == MG_GUARD_TYPE || (guard->kind == MG_GUARD_TENSOR && !((MgMeta *)guard->expected)->varies)) {
            (guard->kind == MG_GUARD_TYPE ? known.types : known.tensors)[guard->source->id] = guard->expected;
        }
    }
    program->state = Py_NewRef(capture->torch.entry_state);
    program->registered = capture->reads.registry_read ? NULL : Py_XNewRef(capture->reads.registered);
    program->places = capture->reads.places; /* the capture has no more use for them */
    program->place_count = capture->reads.place_count;
    capture->reads.places = NULL;
    capture->reads.place_count = capture->reads.place_room = 0;
    capture->reads.place_step = 0;
    program->step_count = source_count;
    for (int i = 0; i < source_count; i++) {
        MgStep *step = &program->steps[i];
        step->source = *sources->items[i];
        step->source.view = NULL;
        Py_XINCREF(step->source.key);
        Py_XINCREF(step->source.note);
        step->base = sources->items[i]->base == NULL ? -1 : sources->items[i]->base->id;
        assert(sources->items[i]->id == i && step->base < i); /* so that the steps can be run from first to last */
    }
    /* each check goes with the last source that it needs */
    for (int i = 0; i < guard_count; i++) {
        MgGuard *guard = &capture->reads.guards[i];
        if (!is_needless(&known, guard)) {
            counts[last_source(guard)]++;
        }
    }
    int next = 0;
    for (int i = 0; i < source_count; i++) {
        program->steps[i].first_check = next;
        next += counts[i];
    }
    for (int i = 0; i < guard_count && result == MG_OK; i++) {
        MgGuard *guard = &capture->reads.guards[i];
        if (is_needless(&known, guard)) {
            continue;
        }
        MgStep *step = &program->steps[last_source(guard)];
        MgCheck *check = &program->checks[step->first_check + step->check_count++];
        check->kind = guard->kind;
        check->source = guard->source->id;
        check->other = guard->other == NULL ? -1 : guard->other->id;
        check->expected = Py_XNewRef(guard->expected);
        check->index = guard->index;
        check->place = guard->place;
        if (guard->kind == MG_GUARD_TENSOR) {
            MgTensorVaries varies = what_varies((const MgMeta *)guard->expected);
            check->tensor =
                mg_tensor_check_get(&program->tensors, guard->source->raw, capture->graph.asks_leaves, &varies);
            result = check->tensor == NULL ? MG_ERR : MG_OK;
        }
        program->check_count++;
    }
    result = result == MG_OK ? mg_guard_weaken(program, capture) : result;
done:
#if MG_CHECKS
    if (sources->count != source_count || capture->reads.guard_count != guard_count) {
        Py_FatalError("magneto: a capture went on while its guards were compiled");
    }
#endif
    PyMem_Free(counts);
    PyMem_Free(known.types);
    PyMem_Free(known.referents);
    mg_table_free(&known.pairs);
    return result;
}

/* ---- running ---- */

static int
have_same_bits(double a, double b)
{
    uint64_t bits[2];
    memcpy(&bits[0], &a, sizeof(double));
    memcpy(&bits[1], &b, sizeof(double));
    return bits[0] == bits[1];
}

int
mg_guard_same_value(PyObject *value, PyObject *expected)
{
    if (value == expected) {
        return 1;
    }
    PyTypeObject *type = Py_TYPE(expected);
    if (Py_TYPE(value) != type) {
        return 0;
    }
    if (type == &PyTuple_Type || type == &PyList_Type) {
        if (Py_SIZE(value) != Py_SIZE(expected)) {
            return 0;
        }
        for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
            int same = mg_guard_same_value(PySequence_Fast_ITEMS(value)[i], PySequence_Fast_ITEMS(expected)[i]);
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
        return have_same_bits(PyFloat_AS_DOUBLE(value), PyFloat_AS_DOUBLE(expected));
    }
    if (type == &PyComplex_Type) {
        Py_complex a = ((PyComplexObject *)value)->cval, b = ((PyComplexObject *)expected)->cval;
        return have_same_bits(a.real, b.real) && have_same_bits(a.imag, b.imag);
    }
    if (type == &PyRange_Type || type == &PySlice_Type) {
        PyObject *const names[] = {MG_STRING("start"), MG_STRING("stop"), MG_STRING("step")};
        int same = 1;
        for (size_t i = 0; same > 0 && i < Py_ARRAY_LENGTH(names); i++) {
            PyObject *a = PyObject_GetAttr(value, names[i]);
            PyObject *b = a == NULL ? NULL : PyObject_GetAttr(expected, names[i]);
            same = b == NULL ? -1 : mg_guard_same_value(a, b);
            Py_XDECREF(a);
            Py_XDECREF(b);
        }
        return same;
    }
    if (mg_kind_is_value(Py_TYPE(expected))) {
        PyObject *a = PyObject_CallMethodNoArgs(value, MG_STRING("tobytes"));
        PyObject *b = a == NULL ? NULL : PyObject_CallMethodNoArgs(expected, MG_STRING("tobytes"));
        int same = b == NULL ? -1 : mg_guard_same_value(a, b);
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
            same = mg_guard_same_value(key, PyTuple_GET_ITEM(keys, i++));
        }
        return same;
    }
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != size) {
        return 0;
    }
    MgDictWalk walk = {0};
    while (i < size && mg_dict_next(dict, &walk, &key, &value)) {
        PyObject *expected = mg_weak_key_get(PyTuple_GET_ITEM(keys, i++));
        int same = expected == NULL ? 0 : mg_guard_same_value(key, expected);
        if (same <= 0) {
            return same;
        }
    }
    return mg_dict_is_walked(dict, &walk, i);
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
        assert(registers[id[i]] != NULL);
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
    if (MG_LIKELY(mg_watch_type(type) != 0 && mg_watch_type(type) == (unsigned int)check->index)) {
        return 1;
    }
    if (!mg_protocol_same(type, check->expected)) {
        return 0;
    }
    check->index = (Py_ssize_t)mg_watch_type_start(type);
    return 1;
}

/* 1 if a C function that tells a setting returns the same answer again; it runs no Python code. */
static int
same_answer(PyObject *question, PyObject *expected)
{
    PyObject *const *items = ((PyTupleObject *)question)->ob_item;
    mg_collections_hold();
    PyObject *answer = PyObject_Vectorcall(items[0], items + 1, (size_t)PyTuple_GET_SIZE(question) - 1, NULL);
    int same = answer == NULL ? -1 : mg_guard_same_value(answer, expected);
    Py_XDECREF(answer);
    mg_collections_release();
    return same;
}

int
mg_guard_check(MgCheck *check, PyObject **registers)
{
    PyObject *value = registers[check->source];
    if (check->kind == MG_GUARD_ABSENT) {
        return value == NULL;
    }
    if (check->kind == MG_GUARD_QUIET) {
        return mg_finalizer_are_quiet(check->expected, check->index, registers);
    }
    if (check->kind == MG_GUARD_SIZES) {
        return mg_size_guards_hold(check->expected, registers);
    }
    if (value == NULL) {
        return 0;
    }
    switch (check->kind) {
        case MG_GUARD_TYPE:
            return (PyObject *)Py_TYPE(value) == check->expected;
        case MG_GUARD_IDENTITY:
            return value == check->expected;
        case MG_GUARD_LACKS:
            for (Py_ssize_t i = 0; i < PyList_GET_SIZE(check->expected); i++) {
                if (mg_instance_has(value, PyList_GET_ITEM(check->expected, i))) {
                    return 0;
                }
            }
            return 1;
        case MG_GUARD_WEAK:
            return value == PyWeakref_GET_OBJECT(check->expected) && value != Py_None; /* None if it has gone */
        case MG_GUARD_VALUE:
            return mg_guard_same_value(value, check->expected);
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
        case MG_GUARD_QUERY:
            return same_answer(value, check->expected);
        case MG_GUARD_METHODS:
            return PyType_Check(value) && same_methods((PyTypeObject *)value, check);
        case MG_GUARD_KEYS:
            return same_keys(value, check->expected);
        case MG_GUARD_TENSOR:
            return mg_torch_is_tensor(value) ? mg_tensor_check_holds(value, check->tensor) : 0;
        case MG_GUARD_PRESENT:
            return 1;
        case MG_GUARD_ANY_TENSOR:
            return mg_torch_is_tensor(value);
        case MG_GUARD_REFERENT:
            return mg_weakref_is_plain(value) && PyWeakref_GET_OBJECT(value) == registers[check->other];
        case MG_GUARD_ALIAS:
            return value == registers[check->other];
        case MG_GUARD_DISTINCT:
            return value != registers[check->other];
        default:
            return 0;
    }
}

int
mg_guard_same_state(MgProgram *program)
{
    MgState now;
    int words = mg_layout_read_state(&now);
    if (MG_LIKELY(words && program->words_known)) {
        if (now.flags != program->words.flags && !program->any_state) {
            return 0;
        }
        if (now.included == program->words.included && now.excluded == program->words.excluded && !program->any_state) {
            return mg_state_same_extra(program->state);
        }
    }
    int modes = mg_layout_has_modes(); /* under such a one nothing is captured, and no entry is used */
    if (modes != 0) {
        return modes < 0 ? -1 : 0;
    }
    if (program->any_state) {
        return 1;
    }
    PyObject *state = mg_state_read();
    if (state == NULL) {
        return -1;
    }
    int same = PyObject_RichCompareBool(state, program->state, Py_EQ);
    if (same > 0 && words && mg_state_is_plain(state)) {
        program->words = now;
        program->words_known = 1;
    }
    Py_DECREF(state);
    return same;
}

int
mg_guard_run_all(MgProgram *program, PyObject *const *arguments, PyObject **registers, int *failed)
{
    *failed = -1;
    for (int i = 0; i < program->step_count; i++) {
        const MgStep *step = &program->steps[i];
        PyObject *base = step->base < 0 ? NULL : registers[step->base];
        registers[i] = step->base >= 0 && base == NULL ? NULL : mg_source_load(&step->source, base, arguments);
        for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
            int good = mg_guard_check(&program->checks[j], registers);
            if (good <= 0) {
                *failed = j;
                return good;
            }
        }
    }
    return 1;
}

/* What the fast path gave must be what all steps give. MG_OK or MG_ERR. */
static int
compare_ways(MgProgram *program, PyObject *const *arguments, const MgRegisters *registers, int quick)
{
    int failed, result = MG_OK;
    PyObject **all = PyMem_Calloc((size_t)program->step_count + 1, sizeof(PyObject *));
    if (all == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    int good = mg_guard_run_all(program, arguments, all, &failed);
    if (good < 0) {
        result = MG_ERR;
    }
    else if (good != quick) {
        PyObject *text = failed < 0 ? NULL : mg_guard_text(program, failed);
        PyErr_Format(PyExc_SystemError, "magneto: guards hold by the fast path: %d, in full: %d (%V)", quick, good,
                     text, "torch's global state");
        Py_XDECREF(text);
        result = MG_ERR;
    }
    PyObject **inputs = PyMem_Calloc((size_t)program->input_count + 1, sizeof(PyObject *));
    if (good == 1 && result == MG_OK && inputs != NULL) {
        mg_guard_inputs(program, registers, inputs);
        for (int i = 0; i < program->input_count + program->kept_count; i++) {
            int is_input = i < program->input_count;
            int at = is_input ? program->inputs[i] : program->kept[i - program->input_count];
            if ((is_input ? inputs[i] : registers->values[at]) != all[at]) {
                PyErr_Format(PyExc_SystemError, "magneto: register %d is another one by the fast path", at);
                result = MG_ERR;
            }
        }
    }
    PyMem_Free(inputs);
    PyMem_Free(all);
    return result;
}

/* 1 if a check looks at more than one register. */
static int
compares_registers(const MgCheck *check)
{
    return check->kind == MG_GUARD_ALIAS || check->kind == MG_GUARD_DISTINCT || check->kind == MG_GUARD_APART ||
           check->kind == MG_GUARD_REFERENT || check->kind == MG_GUARD_QUIET || check->kind == MG_GUARD_SIZES;
}

/* Makes the check that failed last, and those on the way to what it looks at. 1 if they hold, or if it is a long way. */
static int
ask_suspect(MgProgram *program, PyObject *const *arguments, PyObject **registers, int *failed)
{
    enum { DEPTH = 32 };
    int way[DEPTH], depth = 0;
    const MgCheck *suspect = &program->checks[program->suspect - 1];
    for (int i = suspect->source; i >= 0; i = program->steps[i].base) {
        if (depth == DEPTH || compares_registers(suspect)) {
            return 1;
        }
        way[depth++] = i;
    }
    while (depth-- > 0) {
        const MgStep *step = &program->steps[way[depth]];
        PyObject *base = step->base < 0 ? NULL : registers[step->base];
        registers[way[depth]] = step->base >= 0 && base == NULL ? NULL : mg_source_load(&step->source, base, arguments);
        for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
            int good = compares_registers(&program->checks[j]) ? 1 : mg_guard_check(&program->checks[j], registers);
            if (good <= 0) {
                *failed = j;
                return good;
            }
        }
    }
    return 1;
}

/* Runs the guards, in the fast path if there is one. */
static int
run_guards(MgProgram *program, PyObject *const *arguments, MgRegisters *registers, int *failed)
{
    if (MG_LIKELY(program->fast != NULL && mg_guard_mode != MG_GUARDS_ALL)) {
        int good = mg_fast_run(program, arguments, registers, failed);
        if (MG_LIKELY(good != MG_FAST_UNKNOWN)) {
            return good;
        }
    }
    registers->fast = NULL;
    int good = mg_guard_run_all(program, arguments, registers->values, failed);
    assert(good != 0 || *failed < program->check_count);
    if (good > 0 && mg_guard_mode != MG_GUARDS_ALL) {
        mg_fast_arm(program, registers->values);
    }
    return good;
}

int
mg_guard_run(MgProgram *program, PyObject *const *arguments, MgRegisters *registers, int *failed)
{
    registers->fast = NULL;
    if (MG_UNLIKELY(program->no_active_exception)) {
        PyObject *handled = PyErr_GetHandledException();
        if (handled != NULL) {
            Py_DECREF(handled);
            *failed = -1;
            return 0;
        }
    }
    int good = 1;
    if (MG_UNLIKELY(program->suspect != 0) && mg_guard_mode != MG_GUARDS_ALL) {
        good = ask_suspect(program, arguments, registers->values, failed);
    }
    if (good == 1) {
        good = run_guards(program, arguments, registers, failed);
        if (good == 0 && *failed >= 0) {
            program->suspect = *failed + 1;
        }
    }
    if (MG_UNLIKELY(mg_guard_mode == MG_GUARDS_BOTH) && good >= 0 &&
        compare_ways(program, arguments, registers, good) < 0) {
        return -1;
    }
    return good;
}

PyObject **
mg_guard_take_room(MgProgram *program)
{
    PyObject **room = program->spare;
    program->spare = NULL;
    if (room == NULL) {
        room = PyMem_Malloc(sizeof(PyObject *) * ((size_t)program->step_count + 1));
        if (room == NULL) {
            PyErr_NoMemory();
        }
    }
    if (MG_CHECKS && room != NULL) { /* so that it is seen if a register is used that was not loaded */
        memset(room, 0xdb, sizeof(PyObject *) * (size_t)program->step_count);
    }
    return room;
}

void
mg_guard_give_room(MgProgram *program, PyObject **room)
{
    if (program->spare == NULL) {
        program->spare = room;
    }
    else {
        PyMem_Free(room);
    }
    if (MG_UNLIKELY(program->retired != NULL)) {
        MgFast *retired = program->retired;
        program->retired = NULL;
        mg_fast_free(retired);
    }
}

void
mg_guard_inputs(const MgProgram *program, const MgRegisters *registers, PyObject **inputs)
{
    if (registers->fast != NULL) {
        mg_fast_inputs(registers->fast, program, registers->values, inputs);
        return;
    }
    for (int i = 0; i < program->input_count; i++) {
        inputs[i] = registers->values[program->inputs[i]];
    }
}

/* 1 if all guards hold when one expects another value; 0 or -1. */
static int
holds_with(MgProgram *program, PyObject *const *arguments, MgCheck *check, PyObject *expected)
{
    int failed;
    PyObject **room = mg_guard_take_room(program), *before = check->expected;
    if (room == NULL) {
        return -1;
    }
    check->expected = expected;
    int good = mg_guard_run_all(program, arguments, room, &failed);
    check->expected = before;
    mg_guard_give_room(program, room);
    return good;
}

int
mg_guard_renew(MgProgram *program, PyObject *const *arguments, int failed)
{
    if (failed < 0 || program->registered == NULL || program->checks[failed].kind != MG_GUARD_QUERY) {
        return 0;
    }
    MgCheck *check = &program->checks[failed];
    PyObject *question = program->steps[check->source].source.key;
    if (PyTuple_GET_SIZE(question) != 1 || !mg_registry_is_token(PyTuple_GET_ITEM(question, 0))) {
        return 0;
    }
    PyObject *token = PyObject_CallNoArgs(PyTuple_GET_ITEM(question, 0)); /* as it is before they are asked */
    int good = token == NULL ? -1 : holds_with(program, arguments, check, token);
    if (good == 1) {
        good = mg_registry_is_same(program->registered);
    }
    if (good == 1) {
        Py_SETREF(check->expected, Py_NewRef(token));
    }
    Py_XDECREF(token);
    return good;
}

PyObject *
mg_guard_sizes(const MgProgram *program)
{
    for (int i = 0; i < program->check_count; i++) {
        if (program->checks[i].kind == MG_GUARD_SIZES) {
            return program->checks[i].expected;
        }
    }
    return NULL;
}

int
mg_guard_traverse(const MgProgram *program, visitproc visit, void *arg)
{
    for (int i = 0; i < program->step_count; i++) {
        Py_VISIT(program->steps[i].source.key);
    }
    for (int i = 0; i < program->check_count; i++) {
        Py_VISIT(program->checks[i].expected);
    }
    Py_VISIT(program->registered);
    int result = mg_fast_traverse(program->retired, visit, arg);
    return result != 0 ? result : mg_fast_traverse(program->fast, visit, arg);
}

static uint64_t
path_of(const MgProgram *program, int step, int level)
{
    const MgStep *at = &program->steps[step];
    int ends = at->base < 0 || level == MG_MOST_LEVELS;
    return mg_source_path(&at->source, ends ? 0 : path_of(program, at->base, level + 1));
}

uint64_t
mg_guard_path(const MgProgram *program, int step)
{
    return path_of(program, step, 0);
}

void
mg_guard_free(MgProgram *program)
{
    for (int i = 0; i < program->step_count; i++) {
        Py_XDECREF(program->steps[i].source.view);
        Py_XDECREF(program->steps[i].source.key);
        Py_XDECREF(program->steps[i].source.note);
    }
    for (int i = 0; i < program->check_count; i++) {
        Py_XDECREF(program->checks[i].expected);
    }
    mg_tensor_checks_free(&program->tensors);
    for (int i = 0; i < program->place_count; i++) {
        Py_DECREF(program->places[i].code);
    }
    PyMem_Free(program->places);
    PyMem_Free(program->spare);
    PyMem_Free(program->changes);
    mg_fast_free(program->fast);
    mg_fast_free(program->retired);
    PyMem_Free(program->steps);
    PyMem_Free(program->checks);
    Py_XDECREF(program->state);
    Py_XDECREF(program->registered);
    *program = (MgProgram){0};
}
