/* What a tensor must be like, and whether one is. */
#include "torch/tensorcheck.h"

static int
leafness(PyObject *tensor)
{
    return mg_torch_is_leaf(tensor) ? MG_LEAF : mg_torch_views_leaf(tensor) ? MG_LEAF_VIEW : MG_LEAF_NO;
}

/* Fills in what a tensor must be like. MG_OK or MG_ERR; dims are borrowed from the tensor. */
static int
read_tensor(PyObject *tensor, int asks_leaves, MgTensorCheck *check, MgTensor *info)
{
    int requires_grad = mg_torch_requires_grad(tensor);
    if (mg_torch_read(tensor, info) < 0) {
        PyErr_SetString(PyExc_RuntimeError, "a tensor changed its kind during a capture");
        return MG_ERR;
    }
    *check = (MgTensorCheck){.dim = info->dim,
                             .dtype = info->dtype,
                             .device_type = info->device_type,
                             .device_index = info->device_index,
                             .requires_grad = requires_grad,
                             .leafness = requires_grad && asks_leaves ? leafness(tensor) : MG_LEAF_ANY,
                             .conjugate = mg_torch_is_conjugate(tensor),
                             .negative = mg_torch_is_negative(tensor)};
    if (mg_tensor_layout.known) {
        const char *impl = mg_tensor_impl(tensor);
        check->quick = info->dim <= MG_INLINE_DIMS;
        check->rest = mg_word_at(impl, mg_tensor_layout.rest);
        check->mask = UINT64_MAX;
        check->keys = mg_word_at(impl, mg_tensor_layout.rest + 8);
    }
    return MG_OK;
}

int
mg_tensor_check_varies(const int64_t *sizes, const int64_t *strides, const MgTensorCheck *check)
{
    assert(check->dim <= MG_VARYING_DIMS);
    for (int64_t i = 0; i < check->dim; i++) {
        const int8_t k = check->varies.strides[i];
        if ((sizes[i] != check->dims[i] && !(check->varies.sizes & 1 << i)) ||
            (k == MG_STRIDE_FIXED ? strides[i] != check->dims[check->dim + i]
                                  : k != MG_STRIDE_ANY && strides[i] != sizes[k] * strides[k])) {
            return 0;
        }
    }
    return 1;
}

static int
same_varies(const MgTensorVaries *a, const MgTensorVaries *b)
{
    return a->any == b->any &&
           (!a->any || (a->sizes == b->sizes && memcmp(a->strides, b->strides, sizeof(a->strides)) == 0));
}

MgTensorCheck *
mg_tensor_check_get(MgTensorChecks *checks, PyObject *tensor, int asks_leaves, const MgTensorVaries *varies)
{
    MgTensor info;
    MgTensorCheck found;
    if (read_tensor(tensor, asks_leaves, &found, &info) < 0) {
        return NULL;
    }
    size_t width = sizeof(int64_t) * (size_t)info.dim;
    for (int i = checks->count; i-- > 0;) {
        MgTensorCheck *known = checks->items[i];
        if (known->dim == found.dim && known->dtype == found.dtype && known->device_type == found.device_type &&
            known->device_index == found.device_index && known->requires_grad == found.requires_grad &&
            known->leafness == found.leafness && known->conjugate == found.conjugate &&
            known->negative == found.negative && known->keys == found.keys && same_varies(&known->varies, varies) &&
            memcmp(known->dims, info.sizes, width) == 0 && memcmp(known->dims + info.dim, info.strides, width) == 0) {
            return known;
        }
    }
    MgTensorCheck **tensors = PyMem_Realloc(checks->items, sizeof(MgTensorCheck *) * (size_t)(checks->count + 1));
    if (tensors != NULL) {
        checks->items = tensors;
    }
    MgTensorCheck *check = tensors == NULL ? NULL : PyMem_Malloc(sizeof(MgTensorCheck));
    int64_t *dims = check == NULL ? NULL : PyMem_Malloc(2 * width + 1);
    if (dims == NULL) {
        PyMem_Free(check);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(dims, info.sizes, width);
    memcpy(dims + info.dim, info.strides, width);
    *check = found;
    check->varies = *varies;
    check->dims = dims;
    check->index = checks->count;
    if (info.dim <= MG_INLINE_DIMS) {
        memcpy(check->sizes, info.sizes, width);
        memcpy(check->strides, info.strides, width);
    }
    checks->items[checks->count++] = check;
    return check;
}

int
mg_tensor_check_ask(PyObject *tensor, MgTensorCheck *check)
{
    MgTensor info;
    if (mg_torch_read(tensor, &info) < 0) {
        return 0;
    }
    if (info.dim != check->dim || info.dtype != check->dtype || info.device_type != check->device_type ||
        info.device_index != check->device_index) {
        return 0;
    }
    int same = memcmp(info.sizes, check->dims, sizeof(int64_t) * (size_t)info.dim) == 0 &&
               memcmp(info.strides, check->dims + info.dim, sizeof(int64_t) * (size_t)info.dim) == 0;
    if (!same && (!check->varies.any || !mg_tensor_check_varies(info.sizes, info.strides, check))) {
        return 0;
    }
    if (mg_torch_requires_grad(tensor) != check->requires_grad ||
        (check->leafness != MG_LEAF_ANY && leafness(tensor) != check->leafness) ||
        mg_torch_is_conjugate(tensor) != check->conjugate || mg_torch_is_negative(tensor) != check->negative) {
        return 0;
    }
    if (mg_tensor_layout.known) {
        const char *impl = mg_tensor_impl(tensor);
        if (mg_word_at(impl, mg_tensor_layout.rest + 8) != check->keys) {
            return 0;
        }
        /* bits in which tensors of one dtype and device differ say nothing of these: flags that nobody guards, padding */
        check->mask &= ~(mg_word_at(impl, mg_tensor_layout.rest) ^ check->rest);
    }
    return 1;
}

void
mg_tensor_checks_free(MgTensorChecks *checks)
{
    for (int i = 0; i < checks->count; i++) {
        PyMem_Free(checks->items[i]->dims);
        PyMem_Free(checks->items[i]);
    }
    PyMem_Free(checks->items);
    *checks = (MgTensorChecks){0};
}
