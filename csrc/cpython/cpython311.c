/* CPython 3.11's internals behind functions: what libpython does not export, and what only one place should know. */
#include "cpython/cpython311.h"

#include "cpython/aside.h"

#define NEED_OPCODE_TABLES
#define _PyOpcode_Deopt mg_opcode_base
#define _PyOpcode_Caches mg_opcode_caches
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#include "internal/pycore_dict.h"
#include "internal/pycore_opcode.h"
#pragma GCC diagnostic pop

/* ---- pending work ---- */

/* Clears the request for an asynchronous exception, leaving the other requests as they are. */
static void
async_exception_taken(PyInterpreterState *interp)
{
    struct _ceval_state *ceval = &interp->ceval;
    ceval->pending.async_exc = 0;
    /* The other flags may be on for another thread (signals, pending calls belong to the main one): leaving the
     * breaker set costs one more visit, clearing it could lose a request. */
    if (!_Py_atomic_load_relaxed(&ceval->gil_drop_request) && !_Py_atomic_load_relaxed(&ceval->pending.calls_to_do) &&
        !_Py_atomic_load_relaxed(&interp->runtime->ceval.signals_pending)) {
        _Py_atomic_store_relaxed(&ceval->eval_breaker, 0);
    }
}

static __thread int uninterrupted __attribute__((tls_model("initial-exec")));

void
mg_pending_hold(int more)
{
    uninterrupted += more;
    assert(uninterrupted >= 0);
}

int
mg_signals_hold(void)
{
    unsigned long thread = PyThread_get_thread_ident();
    if (_PyRuntime.main_thread != thread) {
        return 0;
    }
    _PyRuntime.main_thread = 0; /* signals are the main thread's to serve: now nobody takes itself for it */
    return 1;
}

void
mg_signals_release(PyThreadState *tstate)
{
    _PyRuntime.main_thread = PyThread_get_thread_ident();
    if (_Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending)) {
        _Py_atomic_store_relaxed(&tstate->interp->ceval.eval_breaker, 1);
    }
}

int
mg_pending_serve(PyThreadState *tstate)
{
    PyInterpreterState *interp = tstate->interp;
    if (!uninterrupted && Py_MakePendingCalls() != 0) { /* signals, then the queue; both on the main thread only */
        return MG_ERR;
    }
    if (_Py_atomic_load_relaxed(&interp->ceval.gil_drop_request)) {
        PyThreadState *saved = PyEval_SaveThread();
        PyEval_RestoreThread(saved);
    }
    if (!uninterrupted && tstate->async_exc != NULL) {
        PyObject *exc = tstate->async_exc;
        tstate->async_exc = NULL;
        async_exception_taken(interp);
        PyErr_SetNone(exc);
        Py_DECREF(exc);
        return MG_ERR;
    }
    return MG_OK;
}

/* ---- objects ---- */

PyObject *
mg_long_copy(PyObject *number)
{
    Py_ssize_t size = Py_ABS(Py_SIZE(number));
    PyLongObject *copy = _PyLong_New(size);
    if (copy != NULL) {
        memcpy(copy->ob_digit, ((PyLongObject *)number)->ob_digit, sizeof(digit) * (size_t)(size == 0 ? 1 : size));
        Py_SET_SIZE(copy, Py_SIZE(number));
    }
    return (PyObject *)copy;
}

PyObject *
mg_dict_get(PyObject *dict, const char *text)
{
    PyObject *key = PyUnicode_InternFromString(text);
    PyObject *value = key == NULL ? NULL : PyDict_GetItemWithError(dict, key);
    Py_XDECREF(key);
    return value;
}

PyObject *
mg_dict_take(PyObject *dict, const char *text)
{
    PyObject *value = mg_dict_get(dict, text);
    if (value != NULL) {
        assert(Py_REFCNT(value) > 1);
        PyDict_DelItemString(dict, text);
    }
    return value;
}

void
mg_object_set_finalized(PyObject *object)
{
    _PyGC_SET_FINALIZED(object);
}

/* ---- frames, tracebacks, trace functions ---- */

void
mg_traceback_here(PyThreadState *tstate, MgFrame *frame)
{
    if (_PyFrame_IsIncomplete(frame)) {
        return;
    }
    PyFrameObject *object = frame->frame_obj;
    if (object != NULL) {
        PyTraceBack_Here(object);
        return;
    }
    /* PyThreadState_GetFrame makes the object of the current frame; if it can't, it clears the exception. */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    object = PyThreadState_GetFrame(tstate);
    PyErr_Restore(type, value, traceback);
    if (object != NULL) {
        PyTraceBack_Here(object);
        Py_DECREF(object);
    }
}

/* Calls one trace function with tracing off, as CPython does; an exception of its own replaces the one in flight. */
static void
call_trace_function(PyThreadState *tstate, Py_tracefunc function, PyObject *self, int what, PyObject *argument)
{
    if (function == NULL || tstate->tracing) {
        return;
    }
    PyFrameObject *object = PyThreadState_GetFrame(tstate);
    if (object == NULL) {
        return;
    }
    int old_what = tstate->tracing_what;
    tstate->tracing_what = what;
    PyThreadState_EnterTracing(tstate);
    int result = function(self, object, what, argument);
    PyThreadState_LeaveTracing(tstate);
    tstate->tracing_what = old_what;
    (void)result;
    Py_DECREF(object);
}

void
mg_trace_exception(PyThreadState *tstate, MgFrame *frame)
{
    if (tstate->c_tracefunc == NULL || _PyFrame_IsIncomplete(frame)) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *argument = PyTuple_Pack(3, type, value ? value : Py_None, traceback ? traceback : Py_None);
    if (argument == NULL) {
        PyErr_Restore(type, value, traceback);
        return;
    }
    call_trace_function(tstate, tstate->c_tracefunc, tstate->c_traceobj, PyTrace_EXCEPTION, argument);
    Py_DECREF(argument);
    if (PyErr_Occurred()) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    else {
        PyErr_Restore(type, value, traceback);
    }
}

void
mg_trace_unwind(PyThreadState *tstate, MgFrame *frame)
{
    if (_PyFrame_IsIncomplete(frame)) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    call_trace_function(tstate, tstate->c_tracefunc, tstate->c_traceobj, PyTrace_RETURN, NULL);
    if (!PyErr_Occurred()) {
        call_trace_function(tstate, tstate->c_profilefunc, tstate->c_profileobj, PyTrace_RETURN, NULL);
    }
    if (PyErr_Occurred()) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    else {
        PyErr_Restore(type, value, traceback);
    }
}

PyObject *
mg_frame_locals_for_import(PyThreadState *tstate, MgFrame *frame)
{
    PyFrameObject *object = PyThreadState_GetFrame(tstate);
    if (object == NULL) {
        return NULL;
    }
    int result = PyFrame_FastToLocalsWithError(object);
    Py_DECREF(object);
    if (result < 0) {
        return NULL;
    }
    if (frame->f_locals == NULL) {
        PyErr_SetString(PyExc_SystemError, "no locals found during 'import *'");
    }
    return frame->f_locals;
}

void
mg_frame_locals_written(PyThreadState *tstate)
{
    PyFrameObject *object = PyThreadState_GetFrame(tstate);
    if (object != NULL) {
        PyFrame_LocalsToFast(object, 0);
        Py_DECREF(object);
    }
}

/* An iterator over a list, forwards or backwards. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject *list; /* strong; NULL once it has come to its end */
} ListIterator;

int
mg_list_iterator_place(PyObject *iterator, PyObject *index)
{
    if ((!Py_IS_TYPE(iterator, &PyListIter_Type) && !Py_IS_TYPE(iterator, &PyListRevIter_Type)) ||
        !PyLong_CheckExact(index)) {
        return 0;
    }
    ((ListIterator *)iterator)->index = PyLong_AsSsize_t(index);
    return 1;
}

/* As dictobject.c has it. */
typedef struct {
    PyObject_HEAD
    PyObject *dict; /* NULL when it is used up */
    Py_ssize_t used;
    Py_ssize_t position;
    PyObject *result;
    Py_ssize_t left;
} DictIterator;

/* As setobject.c has it. */
typedef struct {
    PyObject_HEAD
    PyObject *set; /* NULL when it is used up */
    Py_ssize_t used;
    Py_ssize_t position;
    Py_ssize_t left;
} SetIterator;

/* Steps from an item of a dict or a set to the next, as PyDict_Next does. */
static int
next_item(PyObject *container, Py_ssize_t *position)
{
    PyObject *key, *value;
    Py_hash_t hash;
    return PyAnySet_Check(container) ? _PySet_NextEntry(container, position, &key, &hash)
                                     : PyDict_Next(container, position, &key, &value);
}

/* How many items a dict or a set has. */
static Py_ssize_t
size_of(PyObject *container)
{
    return PyAnySet_Check(container) ? PySet_GET_SIZE(container) : PyDict_GET_SIZE(container);
}

PyObject *
mg_iterator_look(PyObject *iterator, MgIteratorState *state)
{
    SetIterator *self = (SetIterator *)iterator; /* the first members are the same */
    if (self->set == NULL) {
        return NULL;
    }
    *state = (MgIteratorState){.grown = size_of(self->set) - self->used, .failed = self->used == -1};
    state->left = Py_IS_TYPE(iterator, &PySetIter_Type) ? self->left : ((DictIterator *)iterator)->left;
    for (Py_ssize_t position = 0; next_item(self->set, &position) && position <= self->position;) {
        state->consumed++;
    }
    return self->set;
}

void
mg_iterator_place(PyObject *iterator, const MgIteratorState *state)
{
    SetIterator *self = (SetIterator *)iterator;
    self->position = 0;
    for (Py_ssize_t i = 0; i < state->consumed && next_item(self->set, &self->position); i++) {}
    self->used = state->failed ? -1 : size_of(self->set) - state->grown;
    if (Py_IS_TYPE(iterator, &PySetIter_Type)) {
        self->left = state->left;
    }
    else {
        ((DictIterator *)iterator)->left = state->left;
    }
}

int
mg_frame_super(MgFrame *frame, PyObject **self, int *in_cell, PyObject **class_cell)
{
    PyCodeObject *code = frame->f_code;
    *self = code->co_argcount == 0 ? NULL : frame->localsplus[0];
    if (*self == NULL) {
        return 0;
    }
    *in_cell = (PyBytes_AS_STRING(code->co_localspluskinds)[0] & CO_FAST_CELL) != 0;
    for (int i = code->co_nlocalsplus - code->co_nfreevars; i < code->co_nlocalsplus; i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, i), "__class__") == 0) {
            *class_cell = frame->localsplus[i];
            return *class_cell != NULL && PyCell_Check(*class_cell);
        }
    }
    return 0;
}

int
mg_code_prologue(PyCodeObject *code)
{
    int count = 0;
    for (Py_ssize_t i = 0; i < Py_SIZE(code);) {
        int opcode = mg_opcode_base[_Py_OPCODE(_PyCode_CODE(code)[i])];
        count += opcode != EXTENDED_ARG; /* a prefix is part of the instruction that follows */
        if (opcode == RESUME) {
            break;
        }
        i += 1 + mg_opcode_caches[opcode];
    }
    return count;
}

int
mg_code_set_extra(PyCodeObject *code, Py_ssize_t index, void *extra)
{
    /* CPython makes room for all indices that were ever asked for, and calls the free function of each index for which
     * there is room, set or not. Code that its user never saw would get there, the free function's own code too. */
    PyInterpreterState *interp = PyInterpreterState_Get();
    Py_ssize_t count = interp->co_extra_user_count;
    interp->co_extra_user_count = index + 1;
    int status = _PyCode_SetExtra((PyObject *)code, index, extra);
    interp->co_extra_user_count = count;
    return status;
}

/* ---- coroutines and async generators ---- */

/* 1 for a coroutine, or a generator that types.coroutine marked as one. */
static int
is_coroutine(PyObject *object)
{
    if (PyCoro_CheckExact(object)) {
        return 1;
    }
    return PyGen_CheckExact(object) && (((PyGenObject *)object)->gi_code->co_flags & CO_ITERABLE_COROUTINE) != 0;
}

PyObject *
mg_awaitable_iter(PyObject *object)
{
    if (is_coroutine(object)) {
        return Py_NewRef(object);
    }
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_as_async == NULL || type->tp_as_async->am_await == NULL) {
        PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", type->tp_name);
        return NULL;
    }
    PyObject *result = type->tp_as_async->am_await(object);
    if (result == NULL) {
        return NULL;
    }
    if (is_coroutine(result)) {
        PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
        Py_CLEAR(result);
    }
    else if (!PyIter_Check(result)) {
        PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    return result;
}

int
mg_coroutine_is_awaiting(PyObject *coroutine)
{
    PyGenObject *gen = (PyGenObject *)coroutine;
    if (gen->gi_frame_state == FRAME_CREATED || gen->gi_frame_state >= FRAME_CLEARED) {
        return 0;
    }
    MgUnit next = ((MgFrame *)gen->gi_iframe)->prev_instr[1];
    return mg_opcode_base[_Py_OPCODE(next)] == RESUME && _Py_OPARG(next) >= 2;
}

/* The layout of CPython's private wrapper for a value yielded by an async generator. */
typedef struct {
    PyObject_HEAD
    PyObject *value; /* strong */
} WrappedValue;

extern PyTypeObject _PyAsyncGenWrappedValue_Type;

PyObject *
mg_async_gen_wrap(PyObject *value)
{
    WrappedValue *wrapped = PyObject_GC_New(WrappedValue, &_PyAsyncGenWrappedValue_Type);
    if (wrapped == NULL) {
        Py_DECREF(value);
        return NULL;
    }
    wrapped->value = value;
    PyObject_GC_Track(wrapped);
    return (PyObject *)wrapped;
}

int
mg_type_is_python(PyTypeObject *type)
{
    static destructor python_dealloc;
    if (python_dealloc == NULL) {
        PyObject *sample = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Sample");
        if (sample == NULL) {
            PyErr_Clear();
            return 0;
        }
        python_dealloc = ((PyTypeObject *)sample)->tp_dealloc;
        Py_DECREF(sample);
    }
    for (; type->tp_flags & Py_TPFLAGS_HEAPTYPE; type = type->tp_base) {
        PyTypeObject *base = type->tp_base;
        PyObject *slots = ((PyHeapTypeObject *)type)->ht_slots;
        Py_ssize_t own = slots == NULL ? 0 : PyTuple_GET_SIZE(slots);
        own += type->tp_weaklistoffset != 0 && base->tp_weaklistoffset == 0;
        own += type->tp_dictoffset != 0 && (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0 && base->tp_dictoffset == 0;
        if (type->tp_dealloc != python_dealloc || type->tp_itemsize != base->tp_itemsize ||
            type->tp_basicsize - base->tp_basicsize != own * (Py_ssize_t)sizeof(PyObject *)) {
            return 0;
        }
    }
    return 1;
}

static int collection_holds, was_collecting; /* of all threads; the latter is what gc.enable() and gc.disable() want */
static __thread int own_holds;               /* of this one */

/* While collections are held back, gc.enable() and gc.disable() say what is to be afterwards, and gc.isenabled() tells that.
 * The functions of the module gc stay the same objects, wherever they were imported: what they call is replaced. */
static PyCFunction gc_enable, gc_disable, gc_is_enabled; /* CPython's own */

/* 1 if collections are held back in this interpreter: that is done in the main one alone. */
static int
are_collections_held(void)
{
    return collection_holds > 0 && PyInterpreterState_Get() == PyInterpreterState_Main();
}

static PyObject *
want_collections(PyObject *module, PyObject *unused)
{
    if (!are_collections_held()) {
        return gc_enable(module, unused);
    }
    was_collecting = 1;
    Py_RETURN_NONE;
}

static PyObject *
refuse_collections(PyObject *module, PyObject *unused)
{
    if (!are_collections_held()) {
        return gc_disable(module, unused);
    }
    was_collecting = 0;
    Py_RETURN_NONE;
}

static PyObject *
are_collections_wanted(PyObject *module, PyObject *unused)
{
    return are_collections_held() ? PyBool_FromLong(was_collecting) : gc_is_enabled(module, unused);
}

int
mg_collections_init(void)
{
    const struct {
        const char *name;
        PyCFunction *former, ours;
    } functions[] = {
        {"enable", &gc_enable, want_collections},
        {"disable", &gc_disable, refuse_collections},
        {"isenabled", &gc_is_enabled, are_collections_wanted},
    };
    PyObject *module = mg_aside_import("gc");
    PyModuleDef *definition = module == NULL || !PyModule_Check(module) ? NULL : PyModule_GetDef(module);
    PyMethodDef *methods = definition == NULL ? NULL : definition->m_methods;
    for (; methods != NULL && methods->ml_name != NULL; methods++) {
        for (size_t i = 0; i < Py_ARRAY_LENGTH(functions); i++) {
            if (strcmp(methods->ml_name, functions[i].name) == 0 && *functions[i].former == NULL) {
                *functions[i].former = methods->ml_meth;
                methods->ml_meth = functions[i].ours;
            }
        }
    }
    Py_XDECREF(module);
    return module == NULL ? MG_ERR : MG_OK;
}

void
mg_collections_hold(void)
{
    own_holds++;
    if (collection_holds++ == 0) {
        was_collecting = PyGC_Disable();
    }
}

void
mg_collections_release(void)
{
    own_holds--;
    if (--collection_holds == 0 && was_collecting) {
        PyGC_Enable();
    }
}

void
mg_collections_after_fork(void)
{
    if (collection_holds > 0 && own_holds == 0 && was_collecting) {
        PyInterpreterState_Main()->gc.enabled = 1; /* PyGC_Enable needs the GIL, which who forks may not have */
    }
    collection_holds = own_holds;
}

PyObject *
mg_instance_dict(PyObject *object)
{
    PyObject **slot;
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        slot = _PyObject_ManagedDictPointer(object);
    }
    else {
        slot = _PyObject_GetDictPtr(object);
        if (slot == NULL) {
            return NULL;
        }
    }
    if (MG_UNLIKELY(*slot == NULL)) { /* the values may lie in the object itself; a dict is made of them */
        mg_collections_hold();
        slot = _PyObject_GetDictPtr(object);
        if (slot != NULL && *slot == NULL) {
            *slot = PyDict_New();
        }
        mg_collections_release();
        if (slot == NULL || *slot == NULL) {
            PyErr_Clear();
            return NULL;
        }
    }
    return *slot;
}

int
mg_instance_has(PyObject *object, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *dict = NULL, *key, *value;
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        dict = *_PyObject_ManagedDictPointer(object);
        PyDictValues *values = *_PyObject_ValuesPointer(object);
        if (dict == NULL && values != NULL) { /* they lie in the object itself */
            PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
            for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
                if (values->values[i] != NULL && DK_UNICODE_ENTRIES(keys)[i].me_key == name) {
                    return 1;
                }
            }
        }
    }
    else {
        PyObject **slot = _PyObject_GetDictPtr(object);
        dict = slot == NULL ? NULL : *slot;
    }
    Py_ssize_t position = 0;
    while (dict != NULL && PyDict_Next(dict, &position, &key, &value)) {
        if (key == name || (PyUnicode_CheckExact(key) && PyUnicode_Compare(key, name) == 0)) {
            return 1;
        }
    }
    return 0;
}

PyTypeObject *mg_dict_plain_type;
PyObject mg_dict_unknown = {_PyObject_EXTRA_INIT 1, &PyBaseObject_Type};

/* 1 if a key, which lies at a level of another one, can be compared with one of a builtin type, and no Python code runs. */
static int
is_plain_key(PyObject *key, int level)
{
    if (level == MG_MOST_LEVELS) {
        return 0;
    }
    richcmpfunc compare = Py_TYPE(key)->tp_richcompare;
    if (compare == PyTuple_Type.tp_richcompare) { /* torch.Size and named tuples are compared like this too */
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
            if (!is_plain_key(PyTuple_GET_ITEM(key, i), level + 1)) {
                return 0;
            }
        }
        return 1;
    }
    if (PyFrozenSet_CheckExact(key)) {
        Py_ssize_t position = 0;
        PyObject *item;
        Py_hash_t hash;
        while (_PySet_NextEntry(key, &position, &item, &hash)) {
            if (!is_plain_key(item, level + 1)) {
                return 0;
            }
        }
        return 1;
    }
    return compare == PyUnicode_Type.tp_richcompare || compare == PyLong_Type.tp_richcompare ||
           compare == PyFloat_Type.tp_richcompare || compare == PyBytes_Type.tp_richcompare ||
           compare == PyComplex_Type.tp_richcompare || Py_TYPE(key) == mg_dict_plain_type ||
           compare == PyBaseObject_Type.tp_richcompare; /* the same object, or another one */
}

/* Looks for a key itself in a table of general keys: its entry, or NULL. *calls is 1 if a look-up by CPython may call the
 * __eq__ of another key on the way, which has the same hash. */
static const PyDictKeyEntry *
find_same(PyDictKeysObject *keys, PyObject *key, Py_hash_t hash, int *calls)
{
    size_t mask = ((size_t)1 << keys->dk_log2_size) - 1, perturb = (size_t)hash, at = (size_t)hash & mask;
    int width = 1 << (keys->dk_log2_index_bytes - keys->dk_log2_size);
    for (*calls = 0;;) {
        const char *place = keys->dk_indices + at * (size_t)width;
        Py_ssize_t index = width == 1   ? *(const int8_t *)place
                           : width == 2 ? *(const int16_t *)(const void *)place
                           : width == 4 ? *(const int32_t *)(const void *)place
                                        : *(const int64_t *)(const void *)place;
        if (index == DKIX_EMPTY) {
            return NULL;
        }
        if (index >= 0) {
            const PyDictKeyEntry *entry = &DK_ENTRIES(keys)[index];
            if (entry->me_key == key) {
                return entry;
            }
            *calls = *calls || (entry->me_hash == hash && !is_plain_key(entry->me_key, 0));
        }
        perturb >>= 5;
        at = (at * 5 + perturb + 1) & mask;
    }
}

PyObject *
mg_dict_find_same(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    if (keys->dk_kind != DICT_KEYS_GENERAL) {
        PyObject *value = PyUnicode_CheckExact(key) ? _PyDict_GetItem_KnownHash(dict, key, hash) : NULL;
        PyErr_Clear();
        return value;
    }
    int calls;
    const PyDictKeyEntry *entry = find_same(keys, key, hash, &calls);
    return entry == NULL ? NULL : entry->me_value;
}

PyObject *
mg_dict_find(PyObject *dict, PyObject *key)
{
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    if (MG_UNLIKELY(keys->dk_kind == DICT_KEYS_GENERAL)) {
        Py_hash_t hash = PyObject_Hash(key);
        int calls = 0;
        if (hash != -1) {
            find_same(keys, key, hash, &calls);
        }
        if (calls) {
            return &mg_dict_unknown;
        }
    }
    PyObject *value = PyDict_GetItemWithError(dict, key);
    if (value == NULL) {
        PyErr_Clear();
    }
    return value;
}
