/* The pinned tensors of a fast path.
 *
 * A large model has thousands, and looking at them is most of what a call costs. A model has few kinds of them, and those of
 * one kind share one guard: they lie side by side here, so that what they must be like is in registers while they are gone
 * through, and no branch depends on their number of dimensions. */
#include "guard/pinned.h"

struct MgPinned {
    PyObject *tensor;     /* borrowed */
    PyTypeObject *type;   /* not owned, only compared */
    const char *impl;     /* its TensorImpl and AutogradMeta: to be read only if they are still there */
    const char *autograd; /* or NULL */
    MgTensorCheck *guard; /* borrowed */
    size_t function;      /* in the AutogradMeta: what else will be read of it */
    int number;           /* of the guard on this tensor, among all */
    int alike;            /* how many from this one on have the same guard */
};

enum { NEXT = 8 }; /* how far they are read ahead */

/* ---- making it ---- */

/* 1 if the quick check of a tensor looks whether it has a grad_fn. */
static int
reads_function(const MgTensorCheck *guard)
{
    return !guard->requires_grad || guard->leafness != MG_LEAF_ANY;
}

static MgPinned
pin(PyObject *tensor, MgTensorCheck *guard, int number)
{
    int known = mg_tensor_layout.known;
    return (MgPinned){.tensor = tensor,
                      .type = Py_TYPE(tensor),
                      .impl = known ? mg_tensor_impl(tensor) : NULL,
                      .autograd = known ? mg_tensor_autograd(tensor) : NULL,
                      .guard = guard,
                      .function = reads_function(guard) ? mg_tensor_layout.function : mg_tensor_layout.flag,
                      .number = number};
}

int
mg_pinned_make(MgPinnedTensors *tensors, int count, PyObject *const *objects, MgTensorCheck *const *guards,
               const int *numbers)
{
    int kinds = 0;
    for (int i = 0; i < count; i++) {
        kinds = guards[i]->index >= kinds ? guards[i]->index + 1 : kinds;
    }
    *tensors = (MgPinnedTensors){.items = PyMem_Calloc((size_t)(count + NEXT), sizeof(MgPinned)), .count = count};
    int *places = PyMem_Calloc((size_t)kinds + 1, sizeof(int)); /* where the next of a kind goes */
    if (tensors->items == NULL || places == NULL) {
        PyMem_Free(places);
        mg_pinned_free(tensors);
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        places[guards[i]->index + 1]++;
    }
    for (int i = 0; i < kinds; i++) {
        places[i + 1] += places[i];
    }
    for (int i = 0; i < count; i++) {
        tensors->items[places[guards[i]->index]++] = pin(objects[i], guards[i], numbers[i]);
    }
    for (int i = count; i-- > 0;) {
        int follows = i + 1 < count && tensors->items[i + 1].guard == tensors->items[i].guard;
        tensors->items[i].alike = follows ? tensors->items[i + 1].alike + 1 : 1;
    }
    PyMem_Free(places);
    return MG_OK;
}

void
mg_pinned_free(MgPinnedTensors *tensors)
{
    PyMem_Free(tensors->items);
    *tensors = (MgPinnedTensors){0};
}

/* ---- running it ---- */

/* Has memory read ahead; the address need not be a good one. */
static inline void
fetch(const void *start, size_t offset)
{
    __builtin_prefetch((const void *)((uintptr_t)start + offset));
}

static inline void
fetch_next(const MgPinned *item, MgTensorLayout at)
{
    const MgPinned *next = item + NEXT; /* there is room behind the last */
    fetch(next->tensor, 0);
    fetch(next->impl, at.autograd);
    fetch(next->impl, at.sizes);
    fetch(next->impl, at.strides);
    fetch(next->impl, at.rest);
    fetch(next->autograd, next->function);
    fetch(next->autograd, at.flag);
}

/* 1 if an AutogradMeta, which may be NULL, is as a guard wants it. */
static inline int
is_autograd_same(const char *meta, const MgTensorCheck *guard, MgTensorLayout at)
{
    if (guard->requires_grad) { /* what is no leaf can be given the flag, too */
        return meta != NULL && meta[at.flag] != 0 &&
               (guard->leafness == MG_LEAF_ANY || (guard->leafness == MG_LEAF && mg_word_at(meta, at.function) == 0));
    }
    return meta == NULL || (meta[at.flag] == 0 && meta[at.view] == 0 && mg_word_at(meta, at.function) == 0);
}

/* The first of a row of tensors with one guard that is not as it must be where its TensorImpl and AutogradMeta are those of
 * last time, or the end: what that one is like is to be found out in the long way. `dim` is that of the guard. */
static inline __attribute__((always_inline)) const MgPinned *
skip_same(const MgPinned *item, const MgPinned *end, MgTensorLayout at, int64_t dim)
{
    const MgTensorCheck *guard = item->guard;
    for (; item < end; item++) {
        fetch_next(item, at);
        const char *impl = item->impl, *meta = item->autograd;
        if (Py_TYPE(item->tensor) != item->type || *(const char **)((char *)item->tensor + at.impl) != impl ||
            *(const char *const *)(const void *)(impl + at.autograd) != meta) {
            break;
        }
        const int64_t *sizes = (const int64_t *)(const void *)(impl + at.sizes), *strides = sizes + MG_INLINE_DIMS;
        int64_t other = sizes[-1] ^ dim;
        for (int64_t i = 0; i < dim; i++) {
            other |= (sizes[i] ^ guard->sizes[i]) | (strides[i] ^ guard->strides[i]);
        }
        if ((uint64_t)other | ((mg_word_at(impl, at.rest) ^ guard->rest) & guard->mask) |
            (mg_word_at(impl, at.rest + 8) ^ guard->keys)) {
            break;
        }
        if (!is_autograd_same(meta, guard, at)) {
            break;
        }
    }
    return item;
}

/* The same, whatever the number of dimensions. */
static const MgPinned *
skip(const MgPinned *item, const MgPinned *end, MgTensorLayout at)
{
    switch (item->guard->dim) { /* the compiler makes a loop of its own for each */
        case 1:
            return skip_same(item, end, at, 1);
        case 2:
            return skip_same(item, end, at, 2);
        default:
            return skip_same(item, end, at, item->guard->dim);
    }
}

int
mg_pinned_run(const MgPinnedTensors *tensors, int *failed)
{
    const MgPinned *item = tensors->items, *end = item + tensors->count;
    while (item < end) {
        const MgPinned *last = item + item->alike;
        while (item < last) {
            if (MG_LIKELY(item->guard->quick) && (item = skip(item, last, mg_tensor_layout)) == last) {
                break;
            }
            if (Py_TYPE(item->tensor) != item->type) {
                return MG_PINNED_UNKNOWN;
            }
            int good = mg_tensor_check_holds(item->tensor, item->guard);
            if (MG_UNLIKELY(good <= 0)) {
                *failed = item->number;
                return good;
            }
            item++;
        }
    }
    return 1;
}
