/* Where tensors hold their metadata in memory, and torch's global state in words.
 *
 * Guards read these far too often for a call each. So the places are found at start-up, by changing tensors and looking
 * what changes, and are checked on tensors of all kinds; if anything is not as expected, `known` stays 0, and all is
 * asked of libtorch. Nothing here is written to. */
#include "torch/layout.h"

#include "cpython/aside.h"
#include "torch/kinds.h"

#include <malloc.h>

MgTensorLayout mg_tensor_layout;

/* Functions of libtorch's C++ side that take and give plain words; NULL where this torch has none of that name. */
static struct {
    int8_t (*grad_mode)(void);
    int8_t (*inference_mode)(void);
    int8_t (*default_dtype)(void);
    void *(*context)(void);
    int8_t (*deterministic)(const void *);
    int64_t (*function_modes)(void);
    int64_t (*dispatch_modes)(void);
    int known; /* all of them are there, and agree with torch's Python functions */
} cxx;

/* The dispatch keys of this thread: included, excluded. */
static __thread const uint64_t *local_keys __attribute__((tls_model("initial-exec")));
static const char *const local_keys_name = "_ZN3c104impl26raw_local_dispatch_key_setE";
/* ---- probing a TensorImpl ---- */

/* torch.<name>(...) with a format as in Py_BuildValue for the keywords, or NULL. New. */
static PyObject *
make_tensor(const char *name, PyObject *sizes, const char *keyword, PyObject *value)
{
    PyObject *torch = mg_aside_import("torch");
    PyObject *function = torch == NULL ? NULL : PyObject_GetAttrString(torch, name);
    PyObject *arguments = PyTuple_Pack(1, sizes);
    PyObject *keywords = PyDict_New();
    PyObject *tensor = NULL;
    if (function != NULL && arguments != NULL && keywords != NULL &&
        (keyword == NULL || PyDict_SetItemString(keywords, keyword, value) == 0)) {
        tensor = PyObject_Call(function, arguments, keywords);
    }
    Py_XDECREF(torch);
    Py_XDECREF(function);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return tensor;
}

uint64_t
mg_layout_keys(PyObject *tensor)
{
    uint64_t keys = 0;
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *core = mg_aside_import("torch._C");
    PyObject *set = core == NULL ? NULL : PyObject_CallMethod(core, "_dispatch_keys", "O", tensor);
    PyObject *number = set == NULL ? NULL : PyObject_CallMethod(set, "raw_repr", NULL);
    if (number != NULL) {
        keys = PyLong_AsUnsignedLongLongMask(number);
    }
    mg_error_clear();
    Py_XDECREF(core);
    Py_XDECREF(set);
    Py_XDECREF(number);
    mg_aside_end(&aside);
    return keys;
}

/* 1 if sizes, strides, number of dimensions and dispatch keys of a tensor are where they are thought to be. */
static int
agrees(PyObject *tensor)
{
    const MgTensorLayout *at = &mg_tensor_layout;
    const char *impl = mg_tensor_impl(tensor);
    MgTensor info;
    return mg_torch_read(tensor, &info) == MG_OK && (const char *)info.sizes == impl + at->sizes &&
           (const char *)info.strides == impl + at->strides && mg_word_at(impl, at->dim) == (uint64_t)info.dim &&
           mg_word_at(impl, at->rest + 8) == mg_layout_keys(tensor);
}

/* Finds sizes, strides and keys, by a tensor of odd sizes. */
static int
find_sizes(void)
{
    MgTensorLayout *at = &mg_tensor_layout;
    PyObject *sizes = Py_BuildValue("(iiiii)", 3, 1, 5, 2, 7);
    PyObject *tensor = sizes == NULL ? NULL : make_tensor("empty", sizes, NULL, NULL);
    MgTensor info;
    int found = 0;
    if (tensor != NULL && mg_torch_read(tensor, &info) == MG_OK) {
        const char *impl = mg_tensor_impl(tensor);
        ptrdiff_t first = (const char *)info.sizes - impl, second = (const char *)info.strides - impl;
        uint64_t keys = mg_layout_keys(tensor);
        enum { LARGEST = 192, WIDTH = MG_INLINE_DIMS * 8 };
        if (first >= 16 && first <= LARGEST && second == first + WIDTH && keys != 0) {
            at->sizes = (size_t)first;
            at->strides = (size_t)second;
            at->dim = (size_t)first - 8;
            for (size_t offset = at->strides + WIDTH + 8; offset <= at->strides + WIDTH + 32 && !found; offset += 8) {
                if (mg_word_at(impl, offset) == keys) { /* dtype, device and flags lie right before */
                    at->rest = offset - 8;
                    found = agrees(tensor);
                }
            }
        }
    }
    mg_error_clear();
    Py_XDECREF(sizes);
    Py_XDECREF(tensor);
    return found;
}

/* 1 if tensors that differ in dtype, device or dispatch keys differ in the words at `rest`, and those of few dimensions
 * are laid out alike. */
static int
check_rest(void)
{
    static const char *const dtypes[] = {"float32", "float64", "float16", "bfloat16", "int8",     "int16",
                                         "int32",   "int64",   "uint8",   "bool",     "complex64"};
    enum { COUNT = 2 * Py_ARRAY_LENGTH(dtypes) };
    uint64_t seen[COUNT][2];
    PyObject *torch = mg_aside_import("torch");
    int good = torch != NULL, count = 0;
    for (size_t i = 0; good && i < COUNT; i++) {
        PyObject *sizes = PyTuple_New((Py_ssize_t)(i % (MG_INLINE_DIMS + 1)));
        for (Py_ssize_t k = 0; sizes != NULL && k < PyTuple_GET_SIZE(sizes); k++) {
            PyTuple_SET_ITEM(sizes, k, PyLong_FromLong((long)k + 1));
        }
        PyObject *dtype = PyObject_GetAttrString(torch, dtypes[i / 2]);
        PyObject *plain = sizes == NULL || dtype == NULL ? NULL : make_tensor("empty", sizes, "dtype", dtype);
        PyObject *tensor = plain == NULL ? NULL
                           : i % 2       ? PyObject_CallMethod(plain, "to", "s", "meta")
                                         : Py_NewRef(plain);
        good = tensor != NULL && agrees(tensor);
        if (good) {
            const char *impl = mg_tensor_impl(tensor);
            seen[count][0] = mg_word_at(impl, mg_tensor_layout.rest);
            seen[count++][1] = mg_word_at(impl, mg_tensor_layout.rest + 8);
        }
        Py_XDECREF(sizes);
        Py_XDECREF(dtype);
        Py_XDECREF(plain);
        Py_XDECREF(tensor);
    }
    for (int i = 0; good && i < count; i++) {
        for (int k = 0; good && k < i; k++) {
            good = seen[i][0] != seen[k][0] || seen[i][1] != seen[k][1];
        }
    }
    mg_error_clear();
    Py_XDECREF(torch);
    return good;
}

/* Calls a method with one bool and drops the result. 1 or 0. */
static int
call_with(PyObject *tensor, const char *name, PyObject *value)
{
    PyObject *result = PyObject_CallMethod(tensor, name, value == NULL ? NULL : "O", value);
    Py_XDECREF(result);
    return result != NULL;
}

/* Finds the AutogradMeta of a tensor, and in it what says that a gradient is required. The tensor is a leaf that requires
 * none and has no AutogradMeta. */
static int
find_autograd(PyObject *tensor)
{
    enum { WORDS = 64, BYTES = 512 };
    MgTensorLayout *at = &mg_tensor_layout;
    const char *impl = mg_tensor_impl(tensor);
    uint64_t before[WORDS];
    size_t words = at->rest / 8 < WORDS ? at->rest / 8 : WORDS;
    memcpy(before, impl, words * 8);
    if (!call_with(tensor, "requires_grad_", Py_True)) {
        return 0;
    }
    int found = 0;
    for (size_t i = 1; i < words; i++) {
        uint64_t now = mg_word_at(impl, i * 8);
        if (before[i] == 0 && now != 0) {
            at->autograd = i * 8;
            found++;
        }
    }
    const char *meta = found == 1 ? mg_tensor_autograd(tensor) : NULL;
    size_t size = meta == NULL ? 0 : malloc_usable_size((void *)meta);
    char copy[BYTES];
    if (size < 64) {
        return 0;
    }
    size = size < BYTES ? size : BYTES;
    memcpy(copy, meta, size);
    if (!call_with(tensor, "requires_grad_", Py_False) || mg_tensor_autograd(tensor) != meta) {
        return 0;
    }
    found = 0;
    for (size_t i = 0; i < size; i++) {
        if (copy[i] == 1 && meta[i] == 0) {
            at->flag = i;
            found++;
        }
        else if (copy[i] != meta[i]) {
            return 0;
        }
    }
    if (found != 1 || !call_with(tensor, "requires_grad_", Py_True) || memcmp(copy, meta, size) != 0) {
        return 0;
    }
    PyObject *result = PyObject_CallMethod(tensor, "mul", "i", 2); /* has a grad_fn */
    meta = result == NULL ? NULL : mg_tensor_autograd(result);
    found = 0;
    if (meta != NULL && malloc_usable_size((void *)meta) >= size) {
        memcpy(copy, meta, size);
        if (call_with(result, "detach_", NULL) && mg_tensor_autograd(result) == meta) { /* and now it has none */
            for (size_t i = 8; i + 8 <= size && !found; i += 8) {
                if (mg_word_at(copy, i) != 0 && mg_word_at(meta, i) == 0) {
                    at->function = i; /* the first word of a shared pointer */
                    found = 1;
                }
            }
        }
    }
    Py_XDECREF(result);
    return found;
}

/* Finds what says that an AutogradMeta is that of a view, next to what says that a gradient is required. */
static int
find_view(PyObject *sizes)
{
    enum { SAMPLES = 4, BYTES = 8 };
    const size_t flag = mg_tensor_layout.flag;
    unsigned candidates = (1u << BYTES) - 2;
    for (int sample = 0; sample < SAMPLES; sample++) {
        PyObject *plain = make_tensor("ones", sizes, NULL, NULL);
        if (plain != NULL &&
            (!call_with(plain, "requires_grad_", Py_True) || !call_with(plain, "requires_grad_", Py_False))) {
            Py_CLEAR(plain);
        }
        PyObject *view = plain == NULL ? NULL : PyObject_CallMethod(plain, "view", "i", -1);
        const char *metas[] = {plain == NULL ? NULL : mg_tensor_autograd(plain),
                               view == NULL ? NULL : mg_tensor_autograd(view)};
        for (size_t i = 1; i < BYTES; i++) {
            for (int is_view = 0; is_view < 2; is_view++) {
                const char *meta = metas[is_view];
                if (meta == NULL || malloc_usable_size((void *)meta) < flag + BYTES || meta[flag + i] != is_view) {
                    candidates &= ~(1u << i);
                }
            }
        }
        Py_XDECREF(view);
        Py_XDECREF(plain);
    }
    mg_tensor_layout.view = candidates == 0 ? 0 : flag + (size_t)__builtin_ctz(candidates);
    return candidates != 0;
}

/* 1 if requires_grad and is_leaf of a tensor are what the layout says. */
static int
autograd_agrees(PyObject *tensor)
{
    PyObject *required = PyObject_GetAttrString(tensor, "requires_grad");
    PyObject *leaf = PyObject_GetAttrString(tensor, "is_leaf");
    int good = required != NULL && leaf != NULL && mg_torch_requires_grad(tensor) == (required == Py_True) &&
               mg_torch_is_leaf(tensor) == (leaf == Py_True);
    Py_XDECREF(required);
    Py_XDECREF(leaf);
    return good;
}

static int
check_autograd(PyObject *leaf)
{
    PyObject *tensors[] = {Py_NewRef(leaf),
                           PyObject_CallMethod(leaf, "detach", NULL),
                           PyObject_CallMethod(leaf, "mul", "i", 2),
                           PyObject_CallMethod(leaf, "view", "i", -1),
                           PyObject_CallMethod(leaf, "clone", NULL),
                           NULL,
                           NULL};
    tensors[5] = tensors[3] == NULL ? NULL : PyObject_CallMethod(tensors[3], "detach", NULL);
    tensors[6] = tensors[1] == NULL ? NULL : PyObject_CallMethod(tensors[1], "view", "i", -1);
    int good = 1;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tensors); i++) {
        good = good && tensors[i] != NULL && autograd_agrees(tensors[i]);
        Py_XDECREF(tensors[i]);
    }
    return good;
}

/* Finds the pointer to the storage, by what Python knows as its address. */
static void
find_storage(PyObject *sizes)
{
    MgTensorLayout *at = &mg_tensor_layout;
    enum { SAMPLES = 4, WORDS = 64 };
    size_t words = at->rest / 8 < WORDS ? at->rest / 8 : WORDS;
    uint64_t candidates = ~UINT64_C(1);
    for (int sample = 0; sample < SAMPLES; sample++) {
        PyObject *plain = make_tensor("ones", sizes, NULL, NULL);
        PyObject *tensor = plain == NULL ? NULL : PyObject_CallMethod(plain, sample % 2 ? "t" : "clone", NULL);
        PyObject *storage = tensor == NULL ? NULL : PyObject_CallMethod(tensor, "untyped_storage", NULL);
        PyObject *address = storage == NULL ? NULL : PyObject_GetAttrString(storage, "_cdata");
        uint64_t expected = address == NULL ? 0 : PyLong_AsUnsignedLongLongMask(address);
        for (size_t i = 0; i < WORDS; i++) {
            if (i >= words || expected == 0 || mg_word_at(mg_tensor_impl(tensor), i * 8) != expected) {
                candidates &= ~(UINT64_C(1) << i);
            }
        }
        Py_XDECREF(plain);
        Py_XDECREF(tensor);
        Py_XDECREF(storage);
        Py_XDECREF(address);
    }
    at->storage = candidates == 0 ? 0 : 8 * (size_t)__builtin_ctzll(candidates);
}

/* Finds how metadata lies in memory. Where this torch is not as expected, guards ask libtorch for each part. */
static void
find_places(void)
{
    PyObject *sizes = Py_BuildValue("(ii)", 3, 5);
    if (sizes != NULL && find_sizes() && check_rest()) {
        PyObject *tensor = make_tensor("ones", sizes, NULL, NULL);
        if (tensor != NULL && find_autograd(tensor) && find_view(sizes)) {
            mg_tensor_layout.known = 1;
            mg_tensor_layout.known = check_autograd(tensor);
            find_storage(sizes);
        }
        Py_XDECREF(tensor);
    }
    mg_error_clear();
    Py_XDECREF(sizes);
}

/* ---- torch's global state ---- */

/* The dispatch keys of this thread: two words, included and excluded. NULL if they can't be found. */
static const uint64_t *
find_local_keys(void)
{
    if (MG_UNLIKELY(local_keys == NULL)) {
        local_keys = mg_torch_symbol(local_keys_name);
    }
    return local_keys;
}

int
mg_layout_knows_state(void)
{
    return cxx.known;
}

void
mg_layout_set_keys(const MgState *state)
{
    uint64_t *keys = (uint64_t *)find_local_keys();
    keys[0] = state->included;
    keys[1] = state->excluded;
}

int
mg_layout_has_modes(void)
{
    if (MG_LIKELY(cxx.known) && cxx.function_modes() == 0 && cxx.dispatch_modes() == 0) {
        const uint64_t *keys = find_local_keys();
        if (keys != NULL && keys[0] == 0) { /* a tracer would have a key among the included ones */
            return 0;
        }
    }
    PyObject *core = mg_aside_import("torch._C");
    PyObject *number = core == NULL ? NULL : PyObject_CallMethod(core, "_len_torch_dispatch_stack", NULL);
    int found = number == NULL ? -1 : PyObject_IsTrue(number);
    if (found == 0) {
        Py_SETREF(number, PyObject_CallMethod(core, "_len_torch_function_stack", NULL));
        Py_ssize_t count = number == NULL ? -1 : PyLong_AsSsize_t(number);
        found = count < 0 ? -1 : 0;
        for (Py_ssize_t i = 0; found == 0 && i < count; i++) {
            PyObject *mode = PyObject_CallMethod(core, "_get_function_stack_at", "n", i);
            found = mode == NULL ? -1 : !Py_IS_TYPE(mode, mg_kinds.device_context);
            Py_XDECREF(mode);
        }
    }
    if (found == 0) { /* torch.jit.trace */
        Py_SETREF(number, PyObject_CallMethod(core, "_get_tracing_state", NULL));
        found = number == NULL ? -1 : number != Py_None;
    }
    Py_XDECREF(number);
    Py_XDECREF(core);
    return found;
}

int
mg_layout_read_state(MgState *state)
{
    if (MG_UNLIKELY(!cxx.known) || cxx.function_modes() != 0 || cxx.dispatch_modes() != 0) {
        return 0;
    }
    const uint64_t *keys = find_local_keys();
    if (keys == NULL) {
        return 0;
    }
    state->flags = (uint64_t)cxx.grad_mode() | (uint64_t)cxx.inference_mode() << 1 |
                   (uint64_t)cxx.deterministic(cxx.context()) << 2 | (uint64_t)mg_aside_overrides() << 3 |
                   (uint64_t)(uint8_t)cxx.default_dtype() << 8;
    state->included = keys[0];
    state->excluded = keys[1];
    return 1;
}

/* What a function of torch or of torch._C without arguments returns: 1, 0, or -1. */
static int
ask(PyObject *module, const char *name)
{
    PyObject *value = PyObject_CallMethod(module, name, NULL);
    int result = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return result;
}

/* Finds the functions above and sees that they agree with torch's own, with grad mode and autocast on and off. */
static void
find_state(PyObject *torch, PyObject *core)
{
    const MgSymbol wanted[] = {
        {"_ZN3c108GradMode10is_enabledEv", (void **)&cxx.grad_mode},
        {"_ZN3c1013InferenceMode10is_enabledEv", (void **)&cxx.inference_mode},
        {"_ZN3c1031get_default_dtype_as_scalartypeEv", (void **)&cxx.default_dtype},
        {"_ZN2at13globalContextEv", (void **)&cxx.context},
        {"_ZNK2at7Context23deterministicAlgorithmsEv", (void **)&cxx.deterministic},
        {"_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", (void **)&cxx.function_modes},
        {"_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", (void **)&cxx.dispatch_modes},
    };
    if (mg_torch_find(wanted, Py_ARRAY_LENGTH(wanted)) != NULL) {
        return;
    }
    const uint64_t *keys = find_local_keys();
    int good = keys != NULL && cxx.grad_mode() == ask(torch, "is_grad_enabled") &&
               cxx.inference_mode() == ask(torch, "is_inference_mode_enabled") &&
               cxx.deterministic(cxx.context()) == ask(core, "_get_deterministic_algorithms") &&
               (cxx.function_modes() != 0) == ask(core, "_len_torch_function_stack") &&
               (cxx.dispatch_modes() != 0) == ask(core, "_len_torch_dispatch_stack");
    int on = good ? ask(core, "_is_any_autocast_enabled") : -1;
    if (on == 0) { /* autocast must show in the keys */
        uint64_t included = keys[0], excluded = keys[1];
        PyObject *result = PyObject_CallMethod(torch, "set_autocast_enabled", "sO", "cpu", Py_True);
        good = result != NULL && (included != keys[0] || excluded != keys[1]);
        Py_XDECREF(result);
        result = PyObject_CallMethod(torch, "set_autocast_enabled", "sO", "cpu", Py_False);
        good = good && result != NULL && included == keys[0] && excluded == keys[1];
        Py_XDECREF(result);
        cxx.known = good;
    }
    mg_error_clear();
}

/* Enters a context manager torch.<name>(value). New, or NULL. */
static PyObject *
enter(PyObject *torch, const char *name, PyObject *value)
{
    PyObject *mode = PyObject_CallMethod(torch, name, value == NULL ? NULL : "O", value);
    PyObject *result = mode == NULL ? NULL : PyObject_CallMethod(mode, "__enter__", NULL);
    if (result == NULL) {
        Py_CLEAR(mode);
    }
    Py_XDECREF(result);
    return mode;
}

static void
leave(PyObject *mode)
{
    PyObject *result = PyObject_CallMethod(mode, "__exit__", "OOO", Py_None, Py_None, Py_None);
    mg_error_clear();
    Py_XDECREF(result);
    Py_DECREF(mode);
}

void
mg_layout_find(void)
{
    PyObject *torch = mg_aside_import("torch"), *core = mg_aside_import("torch._C");
    if (torch != NULL && core != NULL) {
        find_state(torch, core);
        PyObject *outer = enter(torch, "inference_mode", Py_False);
        PyObject *inner = outer == NULL ? NULL : enter(torch, "enable_grad", NULL);
        if (inner != NULL) {
            find_places();
            leave(inner);
        }
        if (outer != NULL) {
            leave(outer);
        }
    }
    mg_error_clear();
    Py_XDECREF(torch);
    Py_XDECREF(core);
}
