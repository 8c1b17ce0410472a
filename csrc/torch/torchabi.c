/* All that knows libtorch.
 *
 * A tensor's metadata is read through libtorch's stable C ABI, whose functions are found with dlsym in the library that
 * is already loaded. An AtenTensorHandle is a pointer to an at::Tensor, which is one word: the TensorImpl pointer. A
 * Python tensor holds that word inside itself, at an offset that is found once by comparing with tensor._cdata. */
#include "cpython/cpython311.h"

#include "cpython/aside.h"
#include "torch/layout.h"
#include "torch/torchabi.h"

#include <dlfcn.h>

MgTorch mg_torch;

typedef void *Handle;

static struct {
    int32_t (*get_dim)(Handle, int64_t *);
    int32_t (*get_sizes)(Handle, int64_t **);
    int32_t (*get_strides)(Handle, int64_t **);
    int32_t (*get_dtype)(Handle, int32_t *);
    int32_t (*get_device_type)(Handle, int32_t *);
    int32_t (*get_device_index)(Handle, int32_t *);
    int32_t (*get_layout)(Handle, int32_t *);
    int32_t (*layout_strided)(void);
    _Bool (*is_conjugate)(Handle);        /* at::native::is_conj(const at::Tensor &) */
    _Bool (*is_negative)(Handle);         /* at::native::is_neg(const at::Tensor &) */
    _Bool (*requires_grad)(const char *); /* c10::TensorImpl::requires_grad() const */
    int32_t strided;
} abi;

static void *library; /* libtorch_cpu; never closed */

static uint64_t plain_keys; /* dispatch keys that plain tensors may have; 0 before that is known */

enum { DTYPES = 64, DEVICES = 32, DEVICE_INDICES = 18 };
static PyObject *dtype_objects[DTYPES];                   /* strong */
static PyObject *device_objects[DEVICES][DEVICE_INDICES]; /* strong; index -1 is first */

void *
mg_torch_symbol(const char *name)
{
    return library == NULL ? NULL : dlsym(library, name);
}

const char *
mg_torch_find(const MgSymbol *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *wanted[i].slot = mg_torch_symbol(wanted[i].name);
        if (*wanted[i].slot == NULL) {
            return wanted[i].name;
        }
    }
    return NULL;
}

static int
find_functions(PyObject *torch)
{
    PyObject *file = PyObject_GetAttrString(torch, "__file__");
    if (file == NULL) {
        return MG_ERR;
    }
    PyObject *directory = PyObject_CallMethod(file, "rpartition", "s", "/");
    Py_DECREF(file);
    if (directory == NULL) {
        return MG_ERR;
    }
    PyObject *path = PyUnicode_FromFormat("%U/lib/libtorch_cpu.so", PyTuple_GET_ITEM(directory, 0));
    Py_DECREF(directory);
    if (path == NULL) {
        return MG_ERR;
    }
    const char *text = PyUnicode_AsUTF8(path);
    library = text == NULL ? NULL : dlopen(text, RTLD_NOW | RTLD_NOLOAD);
    Py_DECREF(path);
    const MgSymbol wanted[] = {
        {"aoti_torch_get_dim", (void **)&abi.get_dim},
        {"aoti_torch_get_sizes", (void **)&abi.get_sizes},
        {"aoti_torch_get_strides", (void **)&abi.get_strides},
        {"aoti_torch_get_dtype", (void **)&abi.get_dtype},
        {"aoti_torch_get_device_type", (void **)&abi.get_device_type},
        {"aoti_torch_get_device_index", (void **)&abi.get_device_index},
        {"aoti_torch_get_layout", (void **)&abi.get_layout},
        {"aoti_torch_layout_strided", (void **)&abi.layout_strided},
        {"_ZN2at6native7is_conjERKNS_6TensorE", (void **)&abi.is_conjugate},
        {"_ZN2at6native6is_negERKNS_6TensorE", (void **)&abi.is_negative},
        {"_ZNK3c1010TensorImpl13requires_gradEv", (void **)&abi.requires_grad},
    };
    const char *missing = mg_torch_find(wanted, Py_ARRAY_LENGTH(wanted));
    if (missing != NULL) {
        PyErr_Format(PyExc_ImportError, "magneto needs %s of libtorch, which this torch does not have", missing);
        return MG_ERR;
    }
    abi.strided = abi.layout_strided();
    return MG_OK;
}

/* Finds where a Python tensor holds its TensorImpl pointer. */
static int
find_offset(PyObject *tensor)
{
    PyObject *address = PyObject_GetAttrString(tensor, "_cdata");
    if (address == NULL) {
        return MG_ERR;
    }
    void *pointer = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    for (size_t offset = sizeof(PyObject); offset + sizeof(void *) <= (size_t)Py_TYPE(tensor)->tp_basicsize;
         offset += sizeof(void *)) {
        if (*(void **)((char *)tensor + offset) == pointer) {
            mg_tensor_layout.impl = offset;
            return MG_OK;
        }
    }
    PyErr_SetString(PyExc_ImportError, "magneto can't find the data of a tensor in this torch");
    return MG_ERR;
}

static int
take_type(PyObject *module, const char *name, PyTypeObject **slot)
{
    PyObject *type = PyObject_GetAttrString(module, name);
    if (type == NULL) {
        return MG_ERR;
    }
    *slot = (PyTypeObject *)type;
    return MG_OK;
}

/* Finds how torch's function modes (at::impl::PythonTorchFunctionTLS) and profilers are switched off. MG_OK or MG_ERR. */
static int
find_controls(void)
{
    MgAsideControls controls;
    const MgSymbol wanted[] = {
        {"_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv", (void **)&controls.get_functions},
        {"_ZN2at4impl22PythonTorchFunctionTLS18set_disabled_stateENS0_26TorchFunctionDisabledStateE",
         (void **)&controls.set_functions},
        {"_ZN2at23isRecordFunctionEnabledEv", (void **)&controls.is_profiled},
        {"_ZN2at12hasCallbacksEv", (void **)&controls.has_observers},
        {"_ZN2at20enableRecordFunctionEb", (void **)&controls.set_profiled},
    };
    const char *missing = mg_torch_find(wanted, Py_ARRAY_LENGTH(wanted));
    if (missing != NULL) {
        PyErr_Format(PyExc_ImportError, "magneto does not know this libtorch: it has no %s", missing);
        return MG_ERR;
    }
    mg_aside_configure(&controls);
    return MG_OK;
}

int
mg_torch_init(void)
{
    if (mg_torch.empty_meta != NULL) {
        return MG_OK;
    }
    int result = MG_ERR;
    PyObject *torch = mg_aside_import("torch");
    PyObject *nn = mg_aside_import("torch.nn");
    PyObject *core = mg_aside_import("torch._C");
    if (torch == NULL || nn == NULL || core == NULL || take_type(torch, "Tensor", &mg_torch.tensor) < 0 ||
        take_type(core, "TensorBase", &mg_torch.base) < 0 || take_type(nn, "Parameter", &mg_torch.parameter) < 0 ||
        take_type(nn, "Module", &mg_torch.module) < 0 || take_type(torch, "Size", &mg_torch.size) < 0 ||
        take_type(torch, "dtype", &mg_torch.dtype) < 0 || take_type(torch, "device", &mg_torch.device) < 0 ||
        take_type(torch, "layout", &mg_torch.layout) < 0 ||
        take_type(torch, "memory_format", &mg_torch.memory_format) < 0 || find_functions(torch) < 0) {
        goto done;
    }
    mg_dict_plain_type = mg_torch.device;
    mg_torch.make_subclass = PyObject_GetAttrString((PyObject *)mg_torch.tensor, "_make_subclass");
    mg_torch.strided = PyObject_GetAttrString(torch, "strided");
    PyObject *empty = PyObject_GetAttrString(torch, "empty");
    PyObject *arguments = Py_BuildValue("(i)", 0);
    PyObject *keywords = Py_BuildValue("{s:s}", "device", "meta");
    if (empty != NULL && arguments != NULL && keywords != NULL && mg_torch.make_subclass != NULL) {
        PyObject *tensor = PyObject_Call(empty, arguments, keywords);
        if (tensor != NULL) {
            if (find_offset(tensor) == MG_OK && find_controls() == MG_OK) {
                mg_layout_find();
                mg_torch.empty_meta = Py_NewRef(tensor);
                result = MG_OK;
            }
            Py_DECREF(tensor);
        }
    }
    Py_XDECREF(empty);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
done:
    Py_XDECREF(torch);
    Py_XDECREF(nn);
    Py_XDECREF(core);
    return result;
}

/* 1 if a tensor has a dispatch key that plain ones don't have. */
static int
has_other_keys(PyObject *tensor)
{
    if (plain_keys == 0) {
        return 0;
    }
    uint64_t keys =
        mg_tensor_layout.known ? mg_word_at(mg_tensor_impl(tensor), mg_tensor_layout.rest + 8) : mg_layout_keys(tensor);
    return (keys & ~plain_keys) != 0;
}

int
mg_torch_configure(PyObject *tables)
{
    PyObject *keys = mg_dict_take(tables, "plain_keys");
    if (keys != NULL) {
        plain_keys = PyLong_AsUnsignedLongLong(keys);
    }
    return keys != NULL && PyErr_Occurred() ? MG_ERR : MG_OK;
}

int
mg_torch_read(PyObject *tensor, MgTensor *info)
{
    if (has_other_keys(tensor)) {
        return MG_ERR;
    }
    Handle handle = (char *)tensor + mg_tensor_layout.impl;
    int64_t *sizes, *strides;
    if (abi.get_layout(handle, &info->layout) != 0 || info->layout != abi.strided ||
        abi.get_dim(handle, &info->dim) != 0 || abi.get_sizes(handle, &sizes) != 0 ||
        abi.get_strides(handle, &strides) != 0 || abi.get_dtype(handle, &info->dtype) != 0 ||
        abi.get_device_type(handle, &info->device_type) != 0 ||
        abi.get_device_index(handle, &info->device_index) != 0) {
        return MG_ERR;
    }
    info->sizes = sizes;
    info->strides = strides;
    return MG_OK;
}

int
mg_torch_is_leaf(PyObject *tensor)
{
    if (MG_LIKELY(mg_tensor_layout.known)) {
        return mg_tensor_is_leaf(tensor);
    }
    PyObject *leaf = mg_aside_getattr(tensor, MG_STRING("is_leaf"));
    if (leaf == NULL) {
        mg_error_clear();
    }
    Py_XDECREF(leaf);
    return leaf == Py_True;
}

int
mg_torch_requires_grad(PyObject *tensor)
{
    int needs = mg_tensor_layout.known ? mg_tensor_needs_grad(tensor) : MG_MEMORY_UNSURE;
    return needs == MG_MEMORY_UNSURE ? abi.requires_grad(mg_tensor_impl(tensor)) : needs;
}

int
mg_torch_views_leaf(PyObject *tensor)
{
    mg_collections_hold(); /* guards ask */
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *base = PyObject_GetAttr(tensor, MG_STRING("_base"));
    PyObject *leaf = base == NULL || base == Py_None ? NULL : PyObject_GetAttr(base, MG_STRING("is_leaf"));
    Py_XDECREF(base);
    Py_XDECREF(leaf);
    mg_error_clear();
    mg_aside_end(&aside);
    mg_collections_release();
    return leaf == Py_True;
}

PyObject *
mg_torch_grad(PyObject *tensor)
{
    mg_collections_hold();
    PyObject *grad = mg_torch_is_tensor(tensor) ? mg_aside_getattr(tensor, MG_STRING("grad")) : NULL;
    if (grad == NULL) {
        mg_error_clear();
    }
    Py_XDECREF(grad);
    mg_collections_release();
    return grad;
}

int
mg_torch_is_conjugate(PyObject *tensor)
{
    return abi.is_conjugate((char *)tensor + mg_tensor_layout.impl);
}

int
mg_torch_is_negative(PyObject *tensor)
{
    return abi.is_negative((char *)tensor + mg_tensor_layout.impl);
}

PyObject *
mg_torch_method_of(PyObject *bound)
{
    if (!PyCFunction_Check(bound) || PyCFunction_GET_SELF(bound) == NULL ||
        !mg_torch_is_tensor(PyCFunction_GET_SELF(bound))) {
        return NULL;
    }
    PyMethodDef *definition = ((PyCFunctionObject *)bound)->m_ml;
    PyObject *method = PyDict_GetItemString(mg_torch.base->tp_dict, definition->ml_name);
    return method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type) &&
                   ((PyMethodDescrObject *)method)->d_method == definition
               ? method
               : NULL;
}

PyObject *
mg_torch_dtype_object(PyObject *tensor, int32_t dtype)
{
    if (dtype < 0 || dtype >= DTYPES) {
        PyErr_SetString(PyExc_RuntimeError, "magneto does not know this dtype");
        return NULL;
    }
    if (dtype_objects[dtype] == NULL) {
        dtype_objects[dtype] = mg_aside_getattr(tensor, MG_STRING("dtype"));
    }
    return dtype_objects[dtype];
}

PyObject *
mg_torch_device_object(PyObject *tensor, int32_t type, int32_t index)
{
    if (type < 0 || type >= DEVICES || index < -1 || index + 1 >= DEVICE_INDICES) {
        PyErr_SetString(PyExc_RuntimeError, "magneto does not know this device");
        return NULL;
    }
    PyObject **slot = &device_objects[type][index + 1];
    if (*slot == NULL) {
        *slot = mg_aside_getattr(tensor, MG_STRING("device"));
    }
    return *slot;
}
