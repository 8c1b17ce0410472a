/* Operations that are called in libtorch itself.
 *
 * An addition of two small tensors takes less time than parsing its arguments, giving up the lock of the interpreter and
 * finding the kernel through autograd's layer. Where none of these layers has anything to do (plain tensors in the CPU's
 * memory, no gradient wanted, no mode, cast, profiler or transform on), the kernel's own entry in the stable C ABI returns
 * the same tensor. All of this is looked at anew at each call; when in doubt, the operation goes the usual way. */
#include "entry/directcall.h"

#include "cpython/aside.h"
#include "cpython/watch.h"
#include "torch/kernels.h"
#include "torch/layout.h"

#include <dlfcn.h>

typedef void *Handle; /* a pointer to an at::Tensor, which is one word */

static struct {
    int state; /* 0 before it was looked for, 1 if all is there, -1 if not */
    int32_t (*add)(Handle, Handle, double, Handle *);
    int32_t (*mul)(Handle, Handle, Handle *);
    int32_t (*pow)(Handle, double, Handle *);
    int32_t (*get_dtype)(Handle, int32_t *);
    int32_t (*get_numel)(Handle, int64_t *);
    int32_t (*free_handle)(Handle);
    int32_t float32, float64, float16, bfloat16;
    _Bool (*is_watched)(void);                                /* at::hasCallbacks: somebody records operations */
    PyObject *(*wrap)(Handle);                                /* THPVariable_Wrap of a tensor that may be taken over */
    const Handle *(*tangent)(const char *, uint64_t, Handle); /* TensorImpl::_fw_grad */
    Handle no_tangent;                                        /* what it returns if there is none */
    uint64_t keys, inference_keys;          /* dispatch keys of a plain tensor, and of one made in inference mode */
    uint64_t included, excluded;            /* dispatch keys of a thread in inference mode */
    uint64_t calls;                         /* how many were made, for tests */
    MgKernels kernels;                      /* registered kernels, which were found to be of other operators */
    PyObject *functions[MG_DIRECT_POW + 1]; /* strong: torch.add, ... */
} torch;

static const char *const names[] = {NULL, "add", "sub", "mul", "pow"}; /* by their kinds */

/* Below this many elements a kernel is done sooner than others could make use of the interpreter's lock. */
enum { SMALL = 256 };

/* ---- looking for libtorch's functions ---- */

/* 1 if all of libtorch's functions are there. */
static int
find_symbols(void)
{
    int32_t (*dtypes[4])(void) = {NULL};
    const MgSymbol wanted[] = {
        {"aoti_torch_cpu_add_Tensor", (void **)&torch.add},
        {"aoti_torch_cpu_mul_Tensor", (void **)&torch.mul},
        {"aoti_torch_cpu_pow_Tensor_Scalar", (void **)&torch.pow},
        {"aoti_torch_get_dtype", (void **)&torch.get_dtype},
        {"aoti_torch_get_numel", (void **)&torch.get_numel},
        {"aoti_torch_delete_tensor_object", (void **)&torch.free_handle},
        {"aoti_torch_dtype_float32", (void **)&dtypes[0]},
        {"aoti_torch_dtype_float64", (void **)&dtypes[1]},
        {"aoti_torch_dtype_float16", (void **)&dtypes[2]},
        {"aoti_torch_dtype_bfloat16", (void **)&dtypes[3]},
        {"_ZN2at12hasCallbacksEv", (void **)&torch.is_watched},
        {"_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE", (void **)&torch.tangent},
    };
    if (mg_torch_find(wanted, Py_ARRAY_LENGTH(wanted)) != NULL) {
        return 0;
    }
    torch.float32 = dtypes[0]();
    torch.float64 = dtypes[1]();
    torch.float16 = dtypes[2]();
    torch.bfloat16 = dtypes[3]();
    PyObject *core = mg_aside_import("torch._C");
    PyObject *file = core == NULL ? NULL : PyObject_GetAttrString(core, "__file__");
    const char *path =
        file == NULL ? NULL : PyUnicode_AsUTF8(file); /* it needs libtorch_python, which has the symbol */
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    torch.wrap = library == NULL ? NULL : dlsym(library, "_Z16THPVariable_WrapON2at10TensorBaseE");
    Py_XDECREF(core);
    Py_XDECREF(file);
    return torch.wrap != NULL;
}

/* The handle of a tensor. */
static inline Handle
handle_of(PyObject *tensor)
{
    return (char *)tensor + mg_tensor_layout.impl;
}

static uint64_t
keys_of(PyObject *tensor)
{
    return mg_word_at(mg_tensor_impl(tensor), mg_tensor_layout.rest + 8);
}

/* Looks what plain tensors, and a thread in inference mode, look like. */
static int
find_states(PyObject *module)
{
    PyObject *plain = PyObject_CallMethod(module, "ones", "i", 1);
    PyObject *mode = plain == NULL ? NULL : PyObject_CallMethod(module, "inference_mode", NULL);
    PyObject *entered = mode == NULL ? NULL : PyObject_CallMethod(mode, "__enter__", NULL);
    MgState state = {0};
    int good = entered != NULL && mg_layout_read_state(&state);
    PyObject *other = good ? PyObject_CallMethod(module, "ones", "i", 1) : NULL;
    PyObject *left = entered == NULL ? NULL : PyObject_CallMethod(mode, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (other != NULL && left != NULL) {
        torch.keys = keys_of(plain);
        torch.inference_keys = keys_of(other);
        torch.included = state.included;
        torch.excluded = state.excluded;
        PyObject *same = PyObject_CallMethod(plain, "requires_grad_", NULL);
        good = same != NULL && mg_tensor_autograd(plain) != NULL;
        torch.no_tangent = good ? *torch.tangent(mg_tensor_impl(plain), 0, handle_of(plain)) : NULL;
        Py_XDECREF(same);
    }
    good = good && other != NULL && left != NULL;
    Py_XDECREF(plain);
    Py_XDECREF(mode);
    Py_XDECREF(entered);
    Py_XDECREF(other);
    Py_XDECREF(left);
    return good;
}

/* 1, or -1 if something is not there; 0 if torch is in a state in which that can't be told. */
static int
find_all(void)
{
    PyObject *module = mg_aside_import("torch");
    PyObject *mode = module == NULL ? NULL : PyObject_CallMethod(module, "inference_mode", "O", Py_False);
    PyObject *entered = mode == NULL ? NULL : PyObject_CallMethod(mode, "__enter__", NULL);
    MgState state;
    int is_there = entered != NULL && mg_tensor_layout.known && find_symbols();
    /* what torch holds is how these differ from its defaults */
    int is_plain = is_there && mg_layout_read_state(&state) && state.included == 0 && state.excluded == 0;
    int good = is_plain && find_states(module);
    PyObject *left = entered == NULL ? NULL : PyObject_CallMethod(mode, "__exit__", "OOO", Py_None, Py_None, Py_None);
    for (int i = MG_DIRECT_ADD; good && i <= MG_DIRECT_POW; i++) {
        Py_XSETREF(torch.functions[i], PyObject_GetAttrString(module, names[i]));
        good = torch.functions[i] != NULL;
    }
    Py_XDECREF(module);
    Py_XDECREF(mode);
    Py_XDECREF(entered);
    Py_XDECREF(left);
    return good ? 1 : is_there && !is_plain ? 0 : -1;
}

/* ---- which operations ---- */

/* What a callable, or the name of a method, stands for. */
static MgDirectKind
kind_of(const MgNode *node)
{
    PyObject *target = node->target;
    if (node->kind == MG_NODE_METHOD) {
        for (int i = MG_DIRECT_ADD; i <= MG_DIRECT_POW; i++) {
            if (PyUnicode_CompareWithASCIIString(target, names[i]) == 0) {
                return (MgDirectKind)i;
            }
        }
        return MG_DIRECT_NONE;
    }
    PyObject *module = PyCFunction_CheckExact(target) ? ((PyCFunctionObject *)target)->m_module : NULL;
    int is_operator =
        module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "_operator") == 0;
    for (int i = MG_DIRECT_ADD; i <= MG_DIRECT_POW; i++) {
        if (target == torch.functions[i] ||
            (is_operator && strcmp(((PyCFunctionObject *)target)->m_ml->ml_name, names[i]) == 0)) {
            return (MgDirectKind)i;
        }
    }
    return MG_DIRECT_NONE;
}

/* 1 and the value, if an argument is a number that is the same as a float of 32 bits would take it. */
static int
is_number(PyObject *argument, double *value)
{
    enum { EXACT = 1 << 24 };
    if (PyFloat_CheckExact(argument)) {
        *value = PyFloat_AS_DOUBLE(argument);
        return 1;
    }
    if (PyLong_CheckExact(argument)) {
        int overflow;
        long number = PyLong_AsLongAndOverflow(argument, &overflow);
        *value = (double)number;
        return overflow == 0 && number >= -EXACT && number <= EXACT;
    }
    return 0;
}

void
mg_direct_call_find(const MgNode *node, MgDirect *direct)
{
    direct->kind = MG_DIRECT_NONE;
    direct->number = -1;
    if (torch.state == 0) {
        int profiled = mg_aside_hide_operations();
        torch.state = find_all();
        mg_aside_show_operations(profiled);
        mg_error_clear();
    }
    if (torch.state <= 0 || PyTuple_GET_SIZE(node->args) != 2 ||
        (node->kwargs != NULL && PyDict_GET_SIZE(node->kwargs) > 0)) {
        return;
    }
    MgDirectKind kind = kind_of(node);
    for (int i = 0; i < 2 && kind != MG_DIRECT_NONE; i++) {
        PyObject *argument = PyTuple_GET_ITEM(node->args, i);
        if (Py_IS_TYPE(argument, &MgRef_Type)) {
            continue;
        }
        int may_be = i == 1 || (node->kind == MG_NODE_FUNCTION && (kind == MG_DIRECT_ADD || kind == MG_DIRECT_MUL));
        if (!may_be || direct->number >= 0 || !is_number(argument, &direct->value)) {
            return;
        }
        direct->number = i;
    }
    if (kind == MG_DIRECT_NONE || (kind == MG_DIRECT_POW && direct->number != 1)) {
        return;
    }
    if (kind == MG_DIRECT_POW && (direct->value == 0 || direct->value == 1)) {
        return; /* filled or copied by operations in place, which count as writes if no layer has them not counted */
    }
    PyTypeObject *classes[] = {mg_torch.tensor, mg_torch.parameter};
    for (int i = 0; i < 2; i++) {
        if ((direct->tags[i] = mg_watch_type_start(classes[i])) == 0) {
            return;
        }
    }
    direct->kind = kind;
}

/* ---- calling ---- */

/* 1 if somebody has given one of the operators another kernel. It then goes the usual way for good: a library that is
 * closed may leave another one's kernel behind, of which nothing tells. */
static int
is_overridden(void)
{
    if (MG_UNLIKELY(mg_kernels_renew(&torch.kernels)) && mg_kernels_has(names + 1, MG_DIRECT_POW)) {
        torch.state = -1;
    }
    return torch.state < 0;
}

/* 1 if a kernel for the CPU may be called with a tensor, and has to do nothing else. */
static inline int
fits(PyObject *tensor, int grad_mode, const unsigned int *tags)
{
    PyTypeObject *type = Py_TYPE(tensor);
    if (!(type == mg_torch.tensor && mg_watch_type(type) == tags[0]) &&
        !(type == mg_torch.parameter && mg_watch_type(type) == tags[1])) {
        return 0;
    }
    uint64_t keys = keys_of(tensor);
    if (keys != torch.keys && keys != torch.inference_keys) {
        return 0;
    }
    if (mg_tensor_autograd(tensor) == NULL) {
        return 1;
    }
    return !grad_mode && /* a view may require grad through its base */
           *torch.tangent(mg_tensor_impl(tensor), 0, handle_of(tensor)) == torch.no_tangent;
}

/* The number as a tensor of this dtype; borrowed. NULL without an exception if it can't be had. */
static PyObject *
constant_of(MgDirect *direct, PyObject *tensor, int32_t dtype)
{
    if (MG_UNLIKELY(direct->constant == NULL)) {
        PyObject *module = mg_aside_import("torch");
        PyObject *function = module == NULL ? NULL : PyObject_GetAttrString(module, "scalar_tensor");
        PyObject *keywords = function == NULL ? NULL : Py_BuildValue("(ss)", "dtype", "device");
        PyObject *value = keywords == NULL ? NULL : PyFloat_FromDouble(direct->value);
        PyObject *device = value == NULL ? NULL : PyUnicode_FromString("cpu");
        PyObject *made = NULL;
        if (device != NULL) {
            PyObject *args[] = {value, mg_torch_dtype_object(tensor, dtype), device};
            made = args[1] == NULL ? NULL : PyObject_Vectorcall(function, args, 1, keywords);
        }
        mg_error_clear();
        Py_XDECREF(module);
        Py_XDECREF(function);
        Py_XDECREF(keywords);
        Py_XDECREF(value);
        Py_XDECREF(device);
        if (direct->constant == NULL) { /* no other thread was faster */
            direct->constant = made;
            direct->dtype = dtype;
        }
        else {
            Py_XDECREF(made);
        }
    }
    return direct->dtype == dtype ? direct->constant : NULL;
}

PyObject *
mg_direct_call_call(MgDirect *direct, PyObject *const *args)
{
    MgState state;
    if (is_overridden() || !mg_layout_read_state(&state) || torch.is_watched() ||
        ((state.included | state.excluded) != 0 &&
         (state.included != torch.included || state.excluded != torch.excluded))) {
        return NULL;
    }
    PyObject *left = args[direct->number == 0], *right = direct->number >= 0 ? NULL : args[1];
    int grad_mode = (int)(state.flags & 1);
    int32_t dtype = -1, other = -1;
    if (!fits(left, grad_mode, direct->tags) || torch.get_dtype(handle_of(left), &dtype) != 0) {
        return NULL;
    }
    if (right != NULL) {
        if (!fits(right, grad_mode, direct->tags) || torch.get_dtype(handle_of(right), &other) != 0) {
            return NULL;
        }
    }
    else if (dtype != torch.float32 && dtype != torch.float64) { /* half floats are computed with the number as it is */
        return NULL;
    }
    else if (direct->kind != MG_DIRECT_POW) {
        right = constant_of(direct, left, dtype);
        if (right == NULL) {
            return NULL;
        }
        other = dtype;
    }
    if (direct->kind == MG_DIRECT_ADD || direct->kind == MG_DIRECT_SUB) { /* the factor is given as a float */
        for (int i = 0; i < 2; i++) {
            int32_t each = i == 0 ? dtype : other;
            if (each != torch.float32 && each != torch.float64 && each != torch.float16 && each != torch.bfloat16) {
                return NULL;
            }
        }
    }
    int64_t size = 0, size2 = 0;
    Handle result = NULL, first = handle_of(left), second = right == NULL ? NULL : handle_of(right);
    if (torch.get_numel(first, &size) != 0 || (second != NULL && torch.get_numel(second, &size2) != 0)) {
        return NULL;
    }
    PyThreadState *thread = size > SMALL || size2 > SMALL ? PyEval_SaveThread() : NULL;
    int32_t failed = direct->kind == MG_DIRECT_POW ? torch.pow(first, direct->value, &result)
                     : direct->kind == MG_DIRECT_MUL
                         ? torch.mul(first, second, &result)
                         : torch.add(first, second, direct->kind == MG_DIRECT_SUB ? -1.0 : 1.0, &result);
    if (thread != NULL) {
        PyEval_RestoreThread(thread);
    }
    if (failed != 0 || result == NULL) {
        return NULL;
    }
    PyObject *tensor = torch.wrap(result);
    torch.free_handle(result);
    if (tensor == NULL) {
        mg_error_clear();
    }
    else {
        torch.calls++;
    }
    return tensor;
}

uint64_t
mg_direct_call_count(void)
{
    return torch.calls;
}
