/* All that knows libtorch: the stable C ABI, found with dlsym, and torch's Python objects that the core needs. */
#ifndef MG_TORCHABI_H
#define MG_TORCHABI_H

#include "base/magneto.h"

/* A tensor's metadata, straight from libtorch. The arrays belong to the tensor. */
typedef struct {
    int64_t dim;
    const int64_t *sizes;
    const int64_t *strides;
    int32_t dtype;
    int32_t device_type;
    int32_t device_index;
    int32_t layout;
} MgTensor;

/* Objects of torch that the core compares with or calls; strong, set once. */
typedef struct {
    PyTypeObject *tensor;    /* torch.Tensor */
    PyTypeObject *base;      /* torch._C.TensorBase */
    PyTypeObject *parameter; /* torch.nn.Parameter */
    PyTypeObject *module;    /* torch.nn.Module */
    PyTypeObject *size;      /* torch.Size */
    PyTypeObject *dtype, *device, *layout, *memory_format;
    PyObject *make_subclass; /* torch.Tensor._make_subclass */
    PyObject *empty_meta;    /* a meta tensor that all twins share */
    PyObject *strided;       /* torch.strided */
} MgTorch;

extern MgTorch mg_torch;

/* Finds all of the above. MG_ERR with a clear exception if this torch is not the one that magneto knows. */
int mg_torch_init(void);

/* 1 if the object is a tensor of any class. */
static inline int
mg_torch_is_tensor(PyObject *object)
{
    return PyObject_TypeCheck(object, mg_torch.base);
}

/* Sets which dispatch keys plain tensors may have; until then all are taken. */
int mg_torch_configure(PyObject *tables);

/* Reads the metadata of a tensor. MG_OK, or MG_ERR without an exception if it has no plain strides, or other keys. */
int mg_torch_read(PyObject *tensor, MgTensor *info);

/* 1 or 0, as requires_grad and is_leaf. */
int mg_torch_requires_grad(PyObject *tensor);
int mg_torch_is_leaf(PyObject *tensor);

/* 1 if a tensor that requires grad and is no leaf is a view of one. Anything that fails counts as 0. */
int mg_torch_views_leaf(PyObject *tensor);

/* The gradient of a leaf, or None. Borrowed: a tensor's Python object lives as long as the tensor. NULL without an
 * exception if it can't be had. */
PyObject *mg_torch_grad(PyObject *tensor);

/* 1 or 0: the values are the conjugates, or the negatives, of what the memory holds. */
int mg_torch_is_conjugate(PyObject *tensor), mg_torch_is_negative(PyObject *tensor);

/* The method of torch._C.TensorBase that a builtin (`x.add`) binds; borrowed. NULL without an exception if it binds none. */
PyObject *mg_torch_method_of(PyObject *bound);

/* A function or variable of libtorch by its symbol, or NULL. */
void *mg_torch_symbol(const char *name);
typedef struct {
    const char *name;
    void **slot;
} MgSymbol;

/* Finds several. NULL, or the name of the first that is missing. */
const char *mg_torch_find(const MgSymbol *wanted, size_t count);

/* The torch.dtype or torch.device for what mg_torch_read gave; borrowed, kept for good. `tensor` is an example. */
PyObject *mg_torch_dtype_object(PyObject *tensor, int32_t dtype);
PyObject *mg_torch_device_object(PyObject *tensor, int32_t type, int32_t index);

#endif
