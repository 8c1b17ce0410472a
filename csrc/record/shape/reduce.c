/* Shape functions of reductions, scans and sorts. */
#include "record/shape/arguments.h"

#include "cpython/aside.h"

/* The rule's data. */
enum {
    SAME = 0,
    TO_LONG = 1, /* bool and integers become int64 */
    TO_BOOL = 2, /* uint8 stays */
    INDEX = 3,   /* int64 */
    DTYPE = 7,
    FLOATS = 8, /* for floats only */
    REALS = 16, /* not for complex */
    NO_GRAD = 32,
    SOME = 64,  /* an error for no elements */
    PAIR = 128, /* values and indices */
    WITH_DTYPE = 256,
    EMPTY_IS_NONE = 512, /* an empty list of dimensions is none, not all */
};

/* Which dimensions are reduced, as bits. */
static int
read_dims(PyObject *value, int dim, int *chosen)
{
    int64_t dims[MG_SHAPE_DIMS];
    int count = 0, one;
    *chosen = 0;
    if (value != NULL) {
        MG_TRY(mg_shape_ints(value, dims, &count));
    }
    for (int i = 0; i < count; i++) {
        MG_TRY(mg_shape_wrap(dims[i], dim, &one));
        MG_NEED(!(*chosen & 1 << one));
        *chosen |= 1 << one;
    }
    if (count == 0) {
        *chosen = (1 << dim) - 1;
    }
    return MG_OK;
}

/* Sizes without the chosen dimensions, or with ones there, but not for what is empty then: its strides vary. */
static int
reduce_sizes(MgShape *out, const MgShape *self, int chosen, int keep)
{
    out->dim = 0;
    for (int i = 0; i < self->dim; i++) {
        if (!(chosen & 1 << i)) {
            out->size[out->dim++] = self->size[i];
        }
        else if (keep) {
            out->size[out->dim++] = mg_dim(1);
        }
    }
    mg_shape_layout_contiguous(out);
    return keep && mg_shape_layout_is_empty(out) ? MG_DECLINE : MG_OK;
}

static int
check_input(const MgShapeCall *call, const MgShape *self, int chosen)
{
    int class = mg_dtype_class(self->dtype), data = call->rule->data;
    MG_NEED(!(data & FLOATS) || class == MG_CLASS_FLOAT);
    MG_NEED(!(data & REALS) || class < MG_CLASS_COMPLEX);
    for (int i = 0; i < self->dim && (data & SOME); i++) {
        MG_NEED(!(chosen & 1 << i) || mg_size_above(self->size[i], 0));
    }
    return MG_OK;
}

static MgDtype
reduced_dtype(int data, MgDtype dtype)
{
    int class = mg_dtype_class(dtype);
    switch (data & DTYPE) {
        case TO_LONG:
            return class < MG_CLASS_FLOAT ? MG_I64 : dtype;
        case TO_BOOL:
            return dtype == MG_U8 ? MG_U8 : MG_BOOL;
        case INDEX:
            return MG_I64;
        default:
            return dtype;
    }
}

/* sum(input, dim, keepdim, dtype) and its like */
static int
reduce(MgShapeCall *call)
{
    MgShape *self, out = {.index = -1};
    int chosen, keep, data = call->rule->data;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL && Py_TYPE(call->args[1]) == mg_torch.dtype) {
        return MG_DECLINE;
    }
    MG_TRY(read_dims(call->args[1], self->dim, &chosen));
    MG_TRY(mg_shape_bool(call->args[2], 0, &keep));
    MgDtype dtype = self->dtype;
    if (call->args[3] != NULL) {
        MG_NEED(data & WITH_DTYPE);
        MG_TRY(mg_shape_dtype(call->args[3], dtype, &dtype));
        MG_NEED(dtype != MG_BOOL && mg_dtype_class(dtype) >= mg_dtype_class(self->dtype));
        out.dtype = dtype;
    }
    else {
        MG_TRY(check_input(call, self, chosen));
        out.dtype = reduced_dtype(data, dtype);
    }
    MG_NEED(call->args[1] == NULL || mg_shape_is_int(call->args[1]) || Py_SIZE(call->args[1]) > 0);
    MG_NEED(call->args[1] != NULL || !keep);
    MG_NEED(!(data & FLOATS) || mg_dtype_class(out.dtype) >= MG_CLASS_FLOAT);
    if (data & NO_GRAD) {
        call->needs_grad = 0;
    }
    MG_TRY(reduce_sizes(&out, self, chosen, keep));
    return mg_shape_give(call, &out);
}

/* argmax(input, dim, keepdim): one dimension at most */
static int
reduce_one(MgShapeCall *call)
{
    int64_t ignored;
    MgShape *self;
    MG_NEED(call->args[1] == NULL || mg_shape_int(call->args[1], &ignored) == MG_OK);
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if ((call->rule->data & DTYPE) == INDEX && self->dtype == MG_BOOL) {
        return mg_shape_fail(call, "the position of the extremum of bools");
    }
    return reduce(call);
}

/* logsumexp(input, dim, keepdim): the dimensions are not optional */
static int
log_sum(MgShapeCall *call)
{
    MG_NEED(call->args[1] != NULL);
    return reduce(call);
}

/* A named tuple of torch.return_types, of two new tensors. */
static int
give_pair(MgShapeCall *call, const char *name, MgShape *values, MgShape *indices)
{
    PyObject *types = mg_aside_import("torch.return_types");
    PyObject *type = types == NULL ? NULL : PyObject_GetAttrString(types, name);
    Py_XDECREF(types);
    PyObject *first = type == NULL ? NULL : mg_shape_meta(call, values, NULL);
    PyObject *second = first == NULL ? NULL : mg_shape_meta(call, indices, NULL);
    PyObject *pair = second == NULL ? NULL : PyTuple_Pack(2, first, second);
    PyObject *result = pair == NULL ? NULL : PyObject_CallOneArg(type, pair);
    Py_XDECREF(type);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(pair);
    return mg_shape_give_object(call, result);
}

/* max and min: of all, along a dimension, or of two tensors */
static int
extremum(MgShapeCall *call)
{
    MgShape *self, *other, out = {.index = -1};
    int dim, keep;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(mg_dtype_class(self->dtype) < MG_CLASS_COMPLEX);
    out.dtype = self->dtype;
    if (call->args[1] == NULL) {
        MG_NEED(call->args[2] == NULL);
        if (mg_shape_layout_is_empty(self)) {
            return mg_shape_fail(call, "the extremum of no elements");
        }
        return mg_shape_give(call, &out);
    }
    if (Py_TYPE(call->args[1]) == &MgRef_Type) {
        MG_TRY(mg_shape_tensor(call, call->args[1], &other));
        MgShape *tensors[2] = {self, other};
        MG_NEED(call->args[2] == NULL && mg_dtype_class(other->dtype) < MG_CLASS_COMPLEX);
        out.dtype = mg_dtype_common(tensors, 2, NULL, 0, call->standard);
        MG_TRY(mg_shape_layout_broadcast(&out, tensors, 2));
        mg_shape_layout_pointwise(&out, tensors, 2, out.dtype == MG_F16 || out.dtype == MG_BF16 ? MG_F32 : out.dtype);
        return mg_shape_give(call, &out);
    }
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_bool(call->args[2], 0, &keep));
    MG_NEED(self->dim == 0 || mg_size_above(self->size[dim], 0));
    MG_TRY(reduce_sizes(&out, self, 1 << dim, keep));
    MgShape indices = out;
    indices.dtype = MG_I64;
    return give_pair(call, call->rule->data ? "min" : "max", &out, &indices);
}

/* var and std: (input, dim, unbiased or correction, keepdim, correction) */
static int
spread(MgShapeCall *call)
{
    MgShape *self, out = {.index = -1};
    MgScalar number;
    int chosen, keep;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(mg_dtype_class(self->dtype) == MG_CLASS_FLOAT);
    PyObject *dims = call->args[1], *unbiased = call->args[2], *kept = call->args[3];
    MG_NEED(dims == NULL || !PyBool_Check(dims)); /* var(input, unbiased), or an error */
    MG_NEED(unbiased == NULL || PyBool_Check(unbiased));
    MG_NEED(dims == NULL || mg_shape_is_int(dims) || Py_SIZE(dims) > 0);
    MG_TRY(read_dims(dims, self->dim, &chosen));
    MG_TRY(mg_shape_bool(kept, 0, &keep));
    MG_NEED(dims != NULL || !keep);
    if (call->args[4] != NULL) {
        MG_TRY(mg_shape_number(call->args[4], &number));
        MG_NEED(number.kind == MG_I64 || number.kind == MG_F64);
    }
    out.dtype = self->dtype;
    MG_TRY(reduce_sizes(&out, self, chosen, keep));
    if (!call->rule->data) {
        return mg_shape_give(call, &out);
    }
    PyObject *first = mg_shape_meta(call, &out, NULL);
    PyObject *second = first == NULL ? NULL : mg_shape_meta(call, &out, NULL);
    PyObject *pair = second == NULL ? NULL : PyTuple_Pack(2, first, second);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return mg_shape_give_object(call, pair);
}

enum { FUNCTIONAL = 1, LOGARITHM = 2 };

/* softmax and log_softmax: (input, dim, dtype), in torch.nn.functional (input, dim, stacklevel, dtype) */
static int
softmax(MgShapeCall *call)
{
    MgShape *self;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MgShape out = *self;
    MG_TRY(mg_shape_dtype(call->args[call->rule->data & FUNCTIONAL ? 3 : 2], self->dtype, &out.dtype));
    MG_NEED(mg_dtype_class(out.dtype) == MG_CLASS_FLOAT && mg_dtype_class(self->dtype) < MG_CLASS_COMPLEX);
    if (call->rule->data & LOGARITHM) { /* several steps, before which other layouts are made contiguous */
        MgShape first = *self;
        if (out.dtype != self->dtype) {
            mg_shape_layout_like(&first, self);
        }
        MG_NEED(!mg_shape_layout_is_contiguous(&first) || mg_shape_layout_is_plain(&first));
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* cumsum and cumprod: (input, dim, dtype) */
static int
scan(MgShapeCall *call)
{
    MgShape *self;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MgShape out = *self;
    MG_TRY(mg_shape_dtype(call->args[2], reduced_dtype(TO_LONG, self->dtype), &out.dtype));
    MG_NEED(out.dtype != MG_BOOL && mg_shape_layout_is_contiguous(self) &&
            mg_dtype_class(self->dtype) < MG_CLASS_COMPLEX &&
            (!call->needs_grad || mg_dtype_class(out.dtype) == MG_CLASS_FLOAT));
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* sort(input, dim, descending, stable), argsort with one result */
static int
sort(MgShapeCall *call)
{
    MgShape *self;
    int dim, flag;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    }
    MG_TRY(mg_shape_bool(call->args[2], 0, &flag));
    MG_TRY(mg_shape_bool(call->args[3], 0, &flag));
    MG_NEED(mg_dtype_class(self->dtype) < MG_CLASS_COMPLEX && mg_shape_layout_is_regular(self));
    MgShape values = *self, indices = *self;
    mg_shape_layout_is_contiguous(self) ? mg_shape_layout_contiguous(&values) : mg_shape_layout_like(&values, self);
    memcpy(indices.stride, values.stride, sizeof(indices.stride));
    indices.dtype = MG_I64;
    if (call->rule->data) {
        call->needs_grad = 0;
        return mg_shape_give(call, &indices);
    }
    return give_pair(call, "sort", &values, &indices);
}

static int
topk(MgShapeCall *call)
{
    MgShape *self;
    MgDim count;
    int dim, flag;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_size(call->args[1], &count));
    dim = self->dim - 1;
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &dim));
    }
    MG_TRY(mg_shape_bool(call->args[3], 1, &flag));
    MG_TRY(mg_shape_bool(call->args[4], 1, &flag));
    MG_NEED(self->dim > 0 && mg_dtype_class(self->dtype) < MG_CLASS_COMPLEX && !mg_size_below(count, 0) &&
            mg_size_le(count, self->size[dim]));
    MgShape values = *self;
    values.size[dim] = count;
    mg_shape_layout_contiguous(&values);
    MgShape indices = values;
    indices.dtype = MG_I64;
    return give_pair(call, "topk", &values, &indices);
}

/* norm(input, p, dim, keepdim, dtype) */
static int
norm(MgShapeCall *call)
{
    MgShape *self, out = {.index = -1};
    MgScalar order = {.kind = MG_I64, .now = 2};
    int chosen, keep;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    const char *text = mg_shape_text(call->args[1]);
    if (text != NULL) {
        MG_NEED(call->rule->data && strcmp(text, "fro") == 0 && call->args[2] == NULL);
    }
    else if (call->args[1] != NULL) {
        MG_TRY(mg_shape_number(call->args[1], &order));
        MG_NEED(order.kind == MG_I64 || order.kind == MG_F64);
    }
    MG_TRY(read_dims(call->args[2], self->dim, &chosen));
    MG_NEED(call->args[2] == NULL || mg_shape_is_int(call->args[2]) || Py_SIZE(call->args[2]) > 0);
    MG_TRY(mg_shape_bool(call->args[3], 0, &keep));
    MG_NEED(mg_dtype_class(self->dtype) == MG_CLASS_FLOAT && call->args[4] == NULL && mg_scalar_value(order) > 0 &&
            !mg_shape_layout_is_empty(self));
    MG_NEED(call->args[2] != NULL || !keep);
    out.dtype = self->dtype;
    MG_TRY(reduce_sizes(&out, self, chosen, keep));
    return mg_shape_give(call, &out);
}

/* normalize(input, p, dim, eps) of torch.nn.functional: a quotient of the input and its expanded norm */
static int
normalize(MgShapeCall *call)
{
    MgShape *self;
    MgScalar number;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_number(call->args[1], &number));
        MG_NEED(number.kind == MG_I64 || number.kind == MG_F64);
    }
    MG_NEED(self->dim > 1 || call->args[2] != NULL);
    dim = 1;
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &dim));
    }
    MG_NEED(mg_dtype_class(self->dtype) == MG_CLASS_FLOAT && mg_shape_layout_is_plain(self) &&
            !mg_shape_layout_is_empty(self));
    MgShape out = *self;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

const MgShapeRule mg_shape_reductions[] = {
    {"sum", "input dim? keepdim * dtype?", reduce, TO_LONG | WITH_DTYPE},
    {"nansum", "input dim? keepdim * dtype?", reduce, TO_LONG | WITH_DTYPE | REALS},
    {"mean nanmean", "input dim? keepdim * dtype?", reduce, SAME | FLOATS | WITH_DTYPE},
    {"prod", "input dim keepdim * dtype?", reduce_one, TO_LONG | WITH_DTYPE},
    {"amax amin", "input dim keepdim", reduce, SAME | REALS | SOME},
    {"argmax argmin", "input dim? keepdim", reduce_one, INDEX | REALS | SOME | NO_GRAD},
    {"any all", "input dim keepdim", reduce, TO_BOOL | NO_GRAD},
    {"logsumexp", "input dim keepdim", log_sum, SAME | FLOATS},
    {"count_nonzero", "input dim?", reduce, INDEX | NO_GRAD},
    {"max", "input dim keepdim", extremum, 0},
    {"min", "input dim keepdim", extremum, 1},
    {"var std", "input dim? unbiased keepdim * correction?", spread, 0},
    {"t.var_mean t.std_mean", "input dim? unbiased keepdim * correction?", spread, 1},
    {"softmax", "input dim dtype?", softmax, 0},
    {"log_softmax", "input dim dtype?", softmax, LOGARITHM},
    {"F.softmax", "input dim? _stacklevel dtype?", softmax, FUNCTIONAL},
    {"F.log_softmax", "input dim? _stacklevel dtype?", softmax, FUNCTIONAL | LOGARITHM},
    {"cumsum cumprod", "input dim * dtype?", scan, 0},
    {"sort", "input dim descending * stable?", sort, 0},
    {"argsort", "input dim descending * stable", sort, 1},
    {"topk", "input k dim largest sorted", topk, 0},
    {"f.norm t.norm .norm", "input p? dim? keepdim dtype?", norm, 1},
    {"F.normalize", "input p dim eps", normalize, 0},
    {NULL, NULL, NULL, 0},
};
