/* For tests: memory that runs out where the core asks for it, in builds with MG_CHECKS.
 *
 * CPython's allocators for objects and for memory get a hook in front of them. While a thread is armed, the hook looks at
 * the C stack of each request: it is the core's if there is nothing but CPython's C code between the request and a
 * function of the core. What torch asks for, and what Python code that CPython executes asks for, is left alone: how those
 * bear it is not ours to test. The requests of the core are counted, and some are refused.
 *
 * The place of a request is a hash of the addresses from which it came, up to a few functions of the core. Programs make
 * thousands of requests at much the same places; a run that refuses one at a new place each time sees all places soon. */
#include "base/magneto.h"

#if MG_CHECKS

#include <link.h>
#include <unwind.h>

enum {
    CORE_FRAMES = 5, /* functions of the core that tell one place from another */
    PLACE_ROOM = 24, /* addresses that are kept of a place */
    SEEN_BITS = 20,  /* of the table of places */
};

__thread int mg_starve_paused;

/* What this thread is to see. */
static __thread struct {
    int armed;
    long first, last;
    long made, failed;
    uintptr_t place[PLACE_ROOM];
    int place_count;
    int leaks; /* CPython itself leaks where one was refused */
} state;

/* Where code lies in memory. */
typedef struct {
    uintptr_t start, end, base;
} Text;

static Text core_text, python_text;
static uintptr_t vector_start; /* of CPython's function that starts and ends frames */
static uintptr_t extend_start; /* of CPython's function that extends lists, 0 if not known */

/* Hashes of places where a request was refused; 0 is free. Under the GIL. */
static uint64_t seen[1 << SEEN_BITS];
static int seen_count;

static PyMemAllocatorEx below[2]; /* the allocators that were there, by domain: memory, objects */

/* 1 if the place is new, which is noted. */
static int
is_new(uint64_t hash)
{
    size_t mask = ((size_t)1 << SEEN_BITS) - 1, index = hash & mask;
    if (seen_count > (1 << SEEN_BITS) / 2) {
        return 0;
    }
    for (; seen[index] != 0; index = (index + 1) & mask) {
        if (seen[index] == hash) {
            return 0;
        }
    }
    seen[index] = hash;
    seen_count++;
    return 1;
}

/* A walk up the C stack. */
typedef struct {
    int skipped;
    int core_frames;
    int more;  /* the request is for more memory, or for less, in place of what there is */
    int leaks; /* CPython itself leaks if it is refused */
    int count;
    uint64_t hash;
    uintptr_t addresses[PLACE_ROOM];
} Walk;

static int
lies_in(const Text *text, uintptr_t address)
{
    return address >= text->start && address < text->end;
}

/* 1 if a function of CPython's, so many calls away from its allocators, leaks if the request is refused, in eager too: what
 * extends lists keeps a reference to what the first items come from, as in `sorted(items)`; what resizes tuples forgets the
 * items, as in `tuple(generator)`. */
static int
leaks_at(uintptr_t start, int distance, int more)
{
    return more ? start == (uintptr_t)_PyTuple_Resize : distance < 2 && start == extend_start && extend_start != 0;
}

/* One C function of the walk. */
static _Unwind_Reason_Code
step(struct _Unwind_Context *context, void *argument)
{
    Walk *walk = argument;
    uintptr_t address = _Unwind_GetIP(context);
    int is_core = lies_in(&core_text, address);
    if (walk->skipped < 2) { /* is_refused() and what called it */
        walk->skipped++;
        return _URC_NO_REASON;
    }
    uintptr_t start = (uintptr_t)_Unwind_GetRegionStart(context);
    if (address == 0 || (!is_core && (!lies_in(&python_text, address) || start == (uintptr_t)_PyEval_EvalFrameDefault ||
                                      start == vector_start))) {
        return _URC_END_OF_STACK;
    }
    if (walk->count < 3) {
        walk->leaks |= leaks_at(start, walk->count, walk->more);
    }
    walk->hash = (walk->hash ^ address) * UINT64_C(0x9E3779B97F4A7C15);
    walk->hash ^= walk->hash >> 29;
    if (walk->count < PLACE_ROOM) {
        walk->addresses[walk->count] = is_core ? address - core_text.base : 0;
    }
    walk->count++;
    walk->core_frames += is_core;
    return walk->core_frames == CORE_FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* 1 if the request that the caller is about is to be refused; `more` if it is in place of memory that there is. */
static __attribute__((noinline)) int
is_refused(int more)
{
    if (MG_LIKELY(!state.armed) || mg_starve_paused > 0) {
        return 0;
    }
    Walk walk = {.more = more};
    _Unwind_Backtrace(step, &walk);
    if (walk.core_frames == 0) {
        return 0;
    }
    state.made++;
    int is_first = state.failed == 0;
    int refused =
        is_first && state.first < 0 ? is_new(walk.hash | 1) : state.made >= state.first && state.made <= state.last;
    state.leaks |= refused && walk.leaks;
    if (refused && is_first) {
        state.failed = state.made;
        state.place_count = walk.count < PLACE_ROOM ? walk.count : PLACE_ROOM;
        memcpy(state.place, walk.addresses, sizeof(walk.addresses));
        if (getenv("MAGNETO_STARVE_TELL") != NULL) { /* for who looks for the cause of a crash */
            fprintf(stderr, "refused:");
            for (int i = 0; i < state.place_count; i++) {
                fprintf(stderr, " %lx", (unsigned long)state.place[i]);
            }
            fprintf(stderr, "\n");
        }
    }
    return refused;
}

int
mg_starve_refuses(void)
{
    int refused = is_refused(0);
    if (refused) {
        PyErr_NoMemory();
    }
    return refused;
}

static void *
hook_malloc(void *context, size_t size)
{
    PyMemAllocatorEx *allocator = context;
    return is_refused(0) ? NULL : allocator->malloc(allocator->ctx, size);
}

static void *
hook_calloc(void *context, size_t count, size_t size)
{
    PyMemAllocatorEx *allocator = context;
    return is_refused(0) ? NULL : allocator->calloc(allocator->ctx, count, size);
}

static void *
hook_realloc(void *context, void *memory, size_t size)
{
    PyMemAllocatorEx *allocator = context;
    return is_refused(memory != NULL) ? NULL : allocator->realloc(allocator->ctx, memory, size);
}

static void
hook_free(void *context, void *memory)
{
    PyMemAllocatorEx *allocator = context;
    allocator->free(allocator->ctx, memory);
}

/* Looks for what called the frame that CPython executes. */
static _Unwind_Reason_Code
find_vector(struct _Unwind_Context *context, void *argument)
{
    uintptr_t *last = argument, start = (uintptr_t)_Unwind_GetRegionStart(context);
    if (*last == (uintptr_t)_PyEval_EvalFrameDefault) {
        vector_start = start;
        return _URC_END_OF_STACK;
    }
    *last = start;
    return _URC_NO_REASON;
}

static PyObject *
note_vector(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    uintptr_t last = 0;
    _Unwind_Backtrace(find_vector, &last);
    Py_RETURN_NONE;
}

/* Finds the function of CPython's that starts and ends frames. An exception that is set is lost there if there is no memory
 * for the frame object of a caller, in eager too. MG_OK or MG_ERR. */
static int
learn_vector(void)
{
    static PyMethodDef method = {"note_vector", note_vector, METH_NOARGS, NULL};
    PyObject *space = PyDict_New();
    PyObject *called = space == NULL ? NULL : PyCFunction_New(&method, NULL);
    PyObject *caller = called == NULL ? NULL : PyRun_String("lambda f: [f()]", Py_eval_input, space, space);
    PyObject *result = caller == NULL ? NULL : PyObject_CallOneArg(caller, called);
    Py_XDECREF(space);
    Py_XDECREF(called);
    Py_XDECREF(caller);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

/* Looks for what has asked for an iterator. */
static _Unwind_Reason_Code
find_extend(struct _Unwind_Context *context, void *argument)
{
    uintptr_t *last = argument, start = (uintptr_t)_Unwind_GetRegionStart(context);
    if (*last == (uintptr_t)PyObject_GetIter) {
        extend_start = start;
        return _URC_END_OF_STACK;
    }
    *last = start;
    return _URC_NO_REASON;
}

static PyObject *
note_extend(PyObject *self)
{
    (void)self;
    uintptr_t last = 0;
    _Unwind_Backtrace(find_extend, &last);
    PyObject *none = PyTuple_New(0), *iterator = none == NULL ? NULL : PyObject_GetIter(none);
    Py_XDECREF(none);
    return iterator;
}

/* Finds the function of CPython's that extends lists. MG_OK or MG_ERR. */
static int
learn_extend(void)
{
    PyType_Slot slots[] = {{Py_tp_iter, (void *)note_extend}, {0, NULL}};
    PyType_Spec spec = {.name = "magneto._core.Items", .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
    PyObject *type = PyType_FromSpec(&spec);
    PyObject *items = type == NULL ? NULL : PyObject_CallNoArgs(type);
    PyObject *list = items == NULL ? NULL : PySequence_List(items);
    Py_XDECREF(type);
    Py_XDECREF(items);
    Py_XDECREF(list);
    return list == NULL ? MG_ERR : MG_OK;
}

/* Notes where the code of one loaded file lies, if it is the core's or CPython's. */
static int
note_file(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) {
            continue;
        }
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        Text text = {start, start + header->p_memsz, info->dlpi_addr};
        if (lies_in(&text, (uintptr_t)mg_starve_begin)) {
            core_text = text;
        }
        if (lies_in(&text, (uintptr_t)_PyEval_EvalFrameDefault)) {
            python_text = text;
        }
    }
    return 0;
}

int
mg_starve_begin(long first, long last)
{
    if (core_text.end == 0) {
        if (learn_vector() < 0 || learn_extend() < 0) {
            return MG_ERR;
        }
        dl_iterate_phdr(note_file, NULL);
        PyMemAllocatorDomain domains[] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
        for (int i = 0; i < 2; i++) {
            PyMem_GetAllocator(domains[i], &below[i]);
            PyMem_SetAllocator(domains[i],
                               &(PyMemAllocatorEx){&below[i], hook_malloc, hook_calloc, hook_realloc, hook_free});
        }
    }
    memset(&state, 0, sizeof(state));
    state.first = first;
    state.last = last;
    state.armed = first != 0;
    return MG_OK;
}

void
mg_starve_figures(long *made, long *failed, int *leaks)
{
    *made = state.made;
    *failed = state.failed;
    *leaks = state.leaks;
}

PyObject *
mg_starve_place(void)
{
    PyObject *place = (PyTuple_New)(state.place_count);
    for (int i = 0; place != NULL && i < state.place_count; i++) {
        PyObject *address = PyLong_FromUnsignedLongLong(state.place[i]);
        if (address == NULL) {
            Py_CLEAR(place);
            break;
        }
        PyTuple_SET_ITEM(place, i, address);
    }
    return place;
}

#else

int
mg_starve_begin(long first, long last)
{
    (void)first;
    (void)last;
    PyErr_SetString(PyExc_RuntimeError, "this build of magneto has no checks");
    return MG_ERR;
}

void
mg_starve_figures(long *made, long *failed, int *leaks)
{
    *made = *failed = 0;
    *leaks = 0;
}

PyObject *
mg_starve_place(void)
{
    return PyTuple_New(0);
}

#endif
