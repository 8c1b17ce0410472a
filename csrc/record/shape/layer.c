/* Shape functions of the layers of networks: products of matrices, norms, attention, convolutions, pooling,
 * recurrent layers, losses. */
#include "record/shape/arguments.h"

#include "cpython/aside.h"

static int
is_float(const MgShape *shape)
{
    return mg_dtype_class(shape->dtype) == MG_CLASS_FLOAT;
}

/* An argument that is a tensor of a dtype, or missing: then *tensor is NULL. */
static int
optional_tensor(MgShapeCall *call, int at, MgDtype dtype, MgShape **tensor)
{
    *tensor = NULL;
    if (call->args[at] == NULL) {
        return MG_OK;
    }
    MG_TRY(mg_shape_tensor(call, call->args[at], tensor));
    return (*tensor)->dtype == dtype ? MG_OK : MG_DECLINE;
}

/* ---- products of matrices ---- */

/* linear(input, weight, bias) */
static int
linear(MgShapeCall *call)
{
    MgShape *self, *weight, *bias;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &weight));
    MG_TRY(optional_tensor(call, 2, self->dtype, &bias));
    MG_NEED(self->dtype == weight->dtype && self->dtype != MG_BOOL && self->dim > 0 && weight->dim == 2 &&
            mg_size_eq(self->size[self->dim - 1], weight->size[1]));
    MG_NEED(bias == NULL || (bias->dim == 1 && mg_size_eq(bias->size[0], weight->size[0])));
    MgShape out = *self;
    out.size[out.dim - 1] = weight->size[0];
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* matmul of tensors of any dimension */
static int
matmul(MgShapeCall *call)
{
    MgShape *left, *right, out = {.index = -1}, batches = {.index = -1};
    MG_TRY(mg_shape_tensor(call, call->args[0], &left));
    MG_TRY(mg_shape_tensor(call, call->args[1], &right));
    MG_NEED(left->dtype == right->dtype && left->dtype != MG_BOOL && left->dim > 0 && right->dim > 0);
    MG_NEED(mg_size_eq(left->size[left->dim - 1], right->size[right->dim == 1 ? 0 : right->dim - 2]));
    MgShape lead[2] = {*left, *right};
    MgShape *both[2] = {&lead[0], &lead[1]};
    lead[0].dim = left->dim > 2 ? left->dim - 2 : 0;
    lead[1].dim = right->dim > 2 ? right->dim - 2 : 0;
    MG_TRY(mg_shape_layout_broadcast(&batches, both, 2));
    if (right->dim > 2) { /* others are folded into fewer products, whose layout is another */
        MG_NEED(lead[0].dim == lead[1].dim && mg_shape_layout_sizes_equal(left->size, right->size, lead[0].dim));
    }
    out = batches;
    out.dtype = left->dtype;
    if (left->dim > 1) {
        out.size[out.dim++] = left->size[left->dim - 2];
    }
    if (right->dim > 1) {
        out.size[out.dim++] = right->size[right->dim - 1];
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* mm, bmm, mv, dot: the rule's data is ten times the dimensions of the first, and those of the second */
static int
product(MgShapeCall *call)
{
    MgShape *left, *right;
    MG_TRY(mg_shape_tensor(call, call->args[0], &left));
    MG_TRY(mg_shape_tensor(call, call->args[1], &right));
    MG_NEED(left->dim == call->rule->data / 10 && right->dim == call->rule->data % 10);
    MG_NEED(left->dim < 3 || mg_size_eq(left->size[0], right->size[0]));
    return matmul(call);
}

/* addmm(input, mat1, mat2), addmv, baddbmm: the data as above */
static int
add_product(MgShapeCall *call)
{
    MgShape *self, *left, *right, out = {.index = -1};
    MgScalar number;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &left));
    MG_TRY(mg_shape_tensor(call, call->args[2], &right));
    int dim = call->rule->data / 10;
    MG_NEED(left->dim == dim && right->dim == call->rule->data % 10 && is_float(self) && self->dtype == left->dtype &&
            self->dtype == right->dtype && mg_size_eq(left->size[dim - 1], right->size[right->dim == 1 ? 0 : dim - 2]));
    MG_NEED(dim < 3 || mg_size_eq(left->size[0], right->size[0]));
    for (int i = 3; i < 5; i++) {
        if (call->args[i] != NULL) {
            MG_TRY(mg_shape_number(call->args[i], &number));
            MG_NEED(number.kind == MG_I64 || number.kind == MG_F64);
        }
    }
    out.dtype = self->dtype;
    out.dim = right->dim == 1 ? 1 : dim;
    memcpy(out.size, left->size, sizeof(out.size));
    if (right->dim > 1) {
        out.size[dim - 1] = right->size[dim - 1];
    }
    MG_NEED(self->dim <= out.dim && mg_shape_layout_is_contiguous(self) && !mg_shape_layout_is_empty(&out));
    for (int i = 0; i < self->dim; i++) {
        MG_NEED(mg_shape_layout_expands(self->size[self->dim - 1 - i], out.size[out.dim - 1 - i]));
    }
    MG_NEED(!call->in_place || (self->dim == out.dim && mg_shape_layout_sizes_equal(self->size, out.size, self->dim)));
    mg_shape_layout_contiguous(&out);
    if (call->in_place) {
        return mg_shape_give_changed(call, self);
    }
    return mg_shape_give(call, &out);
}

/* _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight, ...): what it returns is like its input */
static int
encoder_layer(MgShapeCall *call)
{
    MgShape *self;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(self->dim == 3 && is_float(self) && mg_shape_layout_is_plain(self) && !call->needs_grad &&
            !mg_shape_layout_is_empty(self));
    for (int i = 0; i < call->input_count; i++) {
        MG_NEED(call->inputs[i].dtype == self->dtype);
    }
    MgShape out = *self;
    return mg_shape_give(call, &out);
}

/* outer(input, vec2) */
static int
outer(MgShapeCall *call)
{
    MgShape *left, *right;
    MG_TRY(mg_shape_tensor(call, call->args[0], &left));
    MG_TRY(mg_shape_tensor(call, call->args[1], &right));
    MG_NEED(left->dim == 1 && right->dim == 1 && left->dtype == right->dtype);
    MgShape out = {.index = -1, .dim = 2, .dtype = left->dtype, .size = {left->size[0], right->size[0]}};
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* The sizes of the labels of an equation of einsum, and where they stand in a part of it. */
enum { LABELS = 128 };

/* einsum(equation, *operands): two operands whose result keeps the order (batches, left, right), which is a product of
 * matrices that no permutation follows. */
static int
einsum(MgShapeCall *call)
{
    MgShape *tensors[2], out = {.index = -1};
    MgDim sizes[LABELS];
    int in_left[LABELS] = {0}, in_right[LABELS] = {0}, in_out[LABELS] = {0};
    const char *text = mg_shape_text(call->args[0]);
    MG_NEED(text != NULL);
    for (int k = 0; k < 2; k++) {
        MG_TRY(mg_shape_tensor(call, call->args[1 + k], &tensors[k]));
        int *seen = k == 0 ? in_left : in_right;
        for (int i = 0; i < tensors[k]->dim; i++, text++) {
            while (*text == ' ') {
                text++;
            }
            int label = (unsigned char)*text;
            MG_NEED(label > 0 && Py_ISALPHA(label) && !seen[label]);
            MG_NEED(k == 0 || !in_left[label] || mg_size_eq(sizes[label], tensors[k]->size[i]));
            sizes[label] = tensors[k]->size[i];
            MG_NEED(mg_size_above(sizes[label], 1));
            seen[label] = 1;
        }
        while (*text == ' ') {
            text++;
        }
        MG_NEED(k == 0 ? *text == ',' : text[0] == '-' && text[1] == '>');
        text += k == 0 ? 1 : 2;
        while (*text == ' ') {
            text++;
        }
    }
    int part = 0, summed = 0;
    for (; *text != '\0'; text++) {
        int label = (unsigned char)*text;
        if (label == ' ') {
            continue;
        }
        MG_NEED(label > 0 && label < LABELS && Py_ISALPHA(label) && (in_left[label] || in_right[label]) &&
                !in_out[label] && out.dim < MG_SHAPE_DIMS);
        int own = in_left[label] && in_right[label] ? 0 : in_left[label] ? 1 : 2;
        MG_NEED(own >= part);
        part = own;
        in_out[label] = 1;
        out.size[out.dim++] = sizes[label];
    }
    for (int label = 0; label < LABELS; label++) {
        if ((in_left[label] || in_right[label]) && !in_out[label]) {
            MG_NEED(in_left[label] && in_right[label]);
            summed++;
        }
    }
    MG_NEED(summed > 0 && tensors[0]->dtype == tensors[1]->dtype && is_float(tensors[0]));
    out.dtype = tensors[0]->dtype;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* ---- embeddings, norms, attention ---- */

/* embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse) */
static int
embedding(MgShapeCall *call)
{
    MgShape *self, *weight;
    MgDim padding;
    int flag;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &weight));
    MG_NEED((self->dtype == MG_I64 || self->dtype == MG_I32) && weight->dim == 2 && is_float(weight) &&
            call->args[3] == NULL && self->dim < MG_SHAPE_DIMS);
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_size(call->args[2], &padding));
        MG_NEED(mg_shape_layout_has_index(padding, weight->size[0]));
    }
    for (int i = 5; i < 7; i++) {
        MG_TRY(mg_shape_bool(call->args[i], 0, &flag));
        MG_NEED(!flag);
    }
    MgShape out = *self;
    out.dtype = weight->dtype;
    out.size[out.dim++] = weight->size[1];
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* layer_norm(input, normalized_shape, weight, bias, eps); rms_norm has no bias */
static int
layer_norm(MgShapeCall *call)
{
    MgShape *self, *parameter;
    MgScalar number;
    MgDim size[MG_SHAPE_DIMS];
    int count, flag;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_sizes(call->args[1], size, &count));
    MG_NEED(is_float(self) && count > 0 && count <= self->dim);
    MG_NEED(mg_shape_layout_is_plain(self) || (!mg_shape_layout_is_contiguous(self) && !call->rule->data));
    MG_NEED(mg_shape_layout_sizes_equal(size, self->size + self->dim - count, count));
    for (int k = 2; k < (call->rule->data ? 3 : 4); k++) {
        MG_TRY(optional_tensor(call, k, self->dtype, &parameter));
        MG_NEED(parameter == NULL ||
                (parameter->dim == count && mg_shape_layout_sizes_equal(parameter->size, size, count)));
    }
    if (call->args[4 - call->rule->data] != NULL) {
        MG_TRY(mg_shape_number(call->args[4 - call->rule->data], &number));
        MG_NEED(number.kind == MG_F64);
    }
    MG_TRY(mg_shape_bool(call->args[5], 0, &flag));
    MgShape out = *self;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* A parameter of a norm: one number for each channel. */
static int
check_channels(MgShapeCall *call, int at, MgDtype dtype, MgDim channels)
{
    MgShape *parameter;
    MG_TRY(optional_tensor(call, at, dtype, &parameter));
    return parameter == NULL || (parameter->dim == 1 && mg_size_eq(parameter->size[0], channels)) ? MG_OK : MG_DECLINE;
}

/* group_norm(input, num_groups, weight, bias, eps) */
static int
group_norm(MgShapeCall *call)
{
    MgShape *self;
    MgScalar number;
    int64_t groups;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_int(call->args[1], &groups));
    MG_NEED(is_float(self) && self->dim >= 2 && groups > 0 &&
            mg_size_is(mg_size_mod(self->size[1], mg_dim(groups)), 0) && !mg_shape_layout_is_empty(self));
    MG_NEED(mg_size_le(mg_dim(2 * groups), mg_shape_layout_elements(self))); /* else torch refuses */
    int channels_last = mg_shape_layout_is_channels_last(self) && !mg_shape_layout_is_contiguous(self);
    MG_NEED(mg_shape_layout_is_regular(self) && (channels_last || !mg_shape_layout_suggests_channels_last(self)));
    MG_TRY(check_channels(call, 2, self->dtype, self->size[1]));
    MG_TRY(check_channels(call, 3, self->dtype, self->size[1]));
    if (call->args[4] != NULL) {
        MG_TRY(mg_shape_number(call->args[4], &number));
        MG_NEED(number.kind == MG_I64 || number.kind == MG_F64);
    }
    MgShape out = *self;
    channels_last ? mg_shape_layout_channels_last(&out) : mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps) */
static int
batch_norm(MgShapeCall *call)
{
    MgShape *self;
    int training;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(is_float(self) && self->dim >= 2 && !mg_shape_layout_is_empty(self));
    MG_TRY(mg_shape_bool(call->args[5], 0, &training));
    MG_NEED(training ? (call->args[1] == NULL) == (call->args[2] == NULL)
                     : call->args[1] != NULL && call->args[2] != NULL);
    MgShape others = *self; /* than the channels: more than one element in each */
    others.size[1] = mg_dim(1);
    MG_NEED(!training || mg_size_above(mg_shape_layout_elements(&others), 1));
    for (int i = 6; i < 8; i++) { /* momentum and eps, which must not be zero */
        MgScalar number = {.kind = MG_F64, .now = 1};
        MG_TRY(call->args[i] == NULL ? MG_OK : mg_shape_number(call->args[i], &number));
        MG_NEED(number.kind == MG_F64 && (number.now > 0 || i == 6));
    }
    for (int i = 1; i < 5; i++) {
        MG_TRY(check_channels(call, i, self->dtype, self->size[1]));
    }
    for (int i = 1; i < 3; i++) {
        MgShape *running;
        MG_TRY(optional_tensor(call, i, self->dtype, &running));
        MG_NEED(running == NULL ||
                (!(running->flags & MG_META_REQUIRES_GRAD) && mg_shape_layout_is_contiguous(running)));
    }
    MgShape out = *self;
    if (mg_shape_layout_is_channels_last(self) && mg_shape_layout_is_regular(self) && !mg_shape_layout_is_plain(self)) {
        return mg_shape_give(call, &out);
    }
    MG_NEED(mg_shape_layout_is_plain(self)); /* it is several steps, each with its layout */
    return mg_shape_give(call, &out);
}

/* What decides which kernel scaled_dot_product_attention uses; strong, found on first use. */
static struct {
    PyObject *target, *flash, *math; /* torch._C._nn's function, torch._C._get_..._sdp_enabled */
} kernels;

static int
find_kernels(void)
{
    if (kernels.target != NULL) {
        return MG_OK;
    }
    PyObject *core = mg_aside_import("torch._C"), *layers = mg_aside_import("torch._C._nn");
    if (core != NULL && layers != NULL) {
        Py_XSETREF(kernels.flash, PyObject_GetAttrString(core, "_get_flash_sdp_enabled"));
        Py_XSETREF(kernels.math, PyObject_GetAttrString(core, "_get_math_sdp_enabled"));
    }
    if (kernels.flash != NULL && kernels.math != NULL) {
        kernels.target = PyObject_GetAttrString(layers, "scaled_dot_product_attention");
    }
    Py_XDECREF(core);
    Py_XDECREF(layers);
    return kernels.target == NULL ? MG_ERR : MG_OK;
}

int
mg_shape_add_settings(PyObject *target, PyObject *key)
{
    if (find_kernels() < 0) {
        return MG_ERR;
    }
    PyObject *const settings[2] = {kernels.flash, kernels.math};
    for (int i = 0; i < 2 && target == kernels.target; i++) {
        PyObject *enabled = PyObject_CallNoArgs(settings[i]);
        int result = enabled == NULL ? MG_ERR : PyList_Append(key, enabled);
        Py_XDECREF(enabled);
        if (result < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* 1 if scaled_dot_product_attention may use its fast kernel, or if not `flash` its plain one. */
static int
is_enabled(int flash)
{
    PyObject *enabled = find_kernels() < 0 ? NULL : PyObject_CallNoArgs(flash ? kernels.flash : kernels.math);
    if (enabled == NULL) {
        mg_error_clear();
    }
    Py_XDECREF(enabled); /* a bool */
    return enabled == Py_True;
}

/* The mask of attention: it broadcasts to (batch, heads, queries, keys). */
static int
check_mask(MgShapeCall *call, const MgShape *query, MgDim keys, MgShape **found)
{
    *found = NULL;
    if (call->args[3] == NULL) {
        return MG_OK;
    }
    MG_TRY(mg_shape_tensor(call, call->args[3], found));
    const MgShape *mask = *found;
    MG_NEED((mask->dtype == MG_BOOL || mask->dtype == query->dtype) && (mask->dim == 2 || mask->dim == 4) &&
            !(mask->flags & MG_META_REQUIRES_GRAD));
    MgDim expected[4] = {query->size[0], query->size[1], query->size[2], keys};
    for (int i = 0; i < mask->dim; i++) {
        MG_NEED(mg_shape_layout_expands(mask->size[i], expected[4 - mask->dim + i]));
    }
    return MG_OK;
}

/* The sizes of what attention is given: (batch, heads, length, width). */
static int
check_heads(const MgShape *query, const MgShape *key, const MgShape *value, int grouped)
{
    MG_NEED(mg_shape_layout_sizes_equal(key->size, value->size, 4) && mg_size_eq(query->size[0], key->size[0]) &&
            mg_size_eq(query->size[3], key->size[3]) && !mg_shape_layout_is_empty(query) &&
            !mg_shape_layout_is_empty(key));
    if (grouped && !mg_size_known_eq(query->size[1], key->size[1])) {
        MG_NEED(mg_size_is(mg_size_mod(query->size[1], key->size[1]), 0));
        return MG_OK;
    }
    return mg_size_eq(query->size[1], key->size[1]) ? MG_OK : MG_DECLINE;
}

/* scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) */
static int
attention(MgShapeCall *call)
{
    MgShape *query, *key, *value, *mask;
    MgScalar number = {.kind = MG_F64};
    int causal, grouped;
    MG_TRY(mg_shape_tensor(call, call->args[0], &query));
    MG_TRY(mg_shape_tensor(call, call->args[1], &key));
    MG_TRY(mg_shape_tensor(call, call->args[2], &value));
    MG_NEED(query->dim == 4 && key->dim == 4 && value->dim == 4 && is_float(query) && query->dtype == key->dtype &&
            query->dtype == value->dtype);
    MG_TRY(mg_shape_bool(call->args[5], 0, &causal));
    MG_TRY(mg_shape_bool(call->args[7], 0, &grouped));
    if (call->args[4] != NULL) {
        MG_TRY(mg_shape_number(call->args[4], &number));
    }
    double dropped = mg_scalar_value(number);
    MG_NEED(dropped >= 0 && dropped < 1 && number.kind != MG_C128);
    if (call->args[6] != NULL) {
        MG_TRY(mg_shape_number(call->args[6], &number));
        MG_NEED(number.kind == MG_F64);
    }
    MG_TRY(check_mask(call, query, key->size[2], &mask));
    MG_NEED(mask == NULL || !causal);
    MG_TRY(check_heads(query, key, value, grouped));
    MgShape out = *query;
    int contiguous = mg_shape_layout_is_contiguous(query), channels_last = mg_shape_layout_is_channels_last(query);
    mg_shape_layout_contiguous(&out);
    if (dropped > 0) { /* the fast kernel does not drop */
        MG_NEED(is_enabled(0));
    }
    else if (!contiguous || channels_last) { /* only the fast kernel keeps the layout */
        MG_NEED(mg_size_above(query->size[3], 1) && mg_size_is(query->stride[3], 1) && mg_size_is(key->stride[3], 1) &&
                mg_size_is(value->stride[3], 1) && (mask == NULL || mg_size_is(mask->stride[mask->dim - 1], 1)) &&
                is_enabled(1));
        !contiguous &&channels_last ? mg_shape_layout_channels_last(&out) : mg_shape_layout_sorted(&out, query);
    }
    return mg_shape_give(call, &out);
}

/* ---- convolutions and pooling ---- */

enum { TRANSPOSED = 16, SPATIAL = 3 };

/* Reads one size for each spatial dimension, or a single one for all: not as a sequence of one. */
static int
read_output_size(PyObject *value, int spatial, MgDim *size)
{
    MgDim read[MG_SHAPE_DIMS];
    int count;
    MG_TRY(mg_shape_sizes(value, read, &count));
    MG_NEED(count == spatial || mg_shape_is_int(value));
    for (int i = 0; i < spatial; i++) {
        size[i] = read[count == 1 ? 0 : i];
    }
    return MG_OK;
}

/* Reads one int for all spatial dimensions, or one for each. */
static int
read_spatial(PyObject *value, int64_t otherwise, int spatial, int64_t *numbers)
{
    int64_t read[MG_SHAPE_DIMS] = {otherwise};
    int count = 1;
    if (value != NULL) {
        MG_TRY(mg_shape_ints(value, read, &count));
        MG_NEED(count == 1 || count == spatial);
    }
    for (int i = 0; i < spatial; i++) {
        numbers[i] = read[count == 1 ? 0 : i];
    }
    return MG_OK;
}

/* The same for numbers that may vary. */
static int
read_varying(PyObject *value, int64_t otherwise, int spatial, MgDim *numbers)
{
    MgDim read[MG_SHAPE_DIMS] = {mg_dim(otherwise)};
    int count = 1;
    if (value != NULL) {
        MG_TRY(mg_shape_sizes(value, read, &count));
        MG_NEED(count == 1 || count == spatial);
    }
    for (int i = 0; i < spatial; i++) {
        numbers[i] = read[count == 1 ? 0 : i];
    }
    return MG_OK;
}

/* conv1d and its like: (input, weight, bias, stride, padding, dilation, groups); transposed: (input, weight, bias,
 * stride, padding, output_padding, groups, dilation) */
static int
convolve(MgShapeCall *call)
{
    MgShape *self, *weight, *bias;
    int spatial = call->rule->data & SPATIAL, transposed = call->rule->data & TRANSPOSED;
    MgDim stride[SPATIAL], padding[SPATIAL], dilation[SPATIAL];
    int64_t extra[SPATIAL], groups = 1;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &weight));
    MG_TRY(optional_tensor(call, 2, self->dtype, &bias));
    MG_TRY(read_varying(call->args[3], 1, spatial, stride));
    MG_TRY(read_varying(call->args[transposed ? 7 : 5], 1, spatial, dilation));
    MG_TRY(read_spatial(transposed ? call->args[5] : NULL, 0, spatial, extra));
    const char *text = mg_shape_text(call->args[4]);
    int same = text != NULL && strcmp(text, "same") == 0;
    MG_NEED(text == NULL || same || strcmp(text, "valid") == 0);
    MG_TRY(read_varying(text == NULL ? call->args[4] : NULL, 0, spatial, padding));
    if (call->args[6] != NULL) {
        MG_TRY(mg_shape_int(call->args[6], &groups));
    }
    int batched = self->dim == spatial + 2;
    MG_NEED((batched || self->dim == spatial + 1) && weight->dim == spatial + 2 && is_float(self) &&
            self->dtype == weight->dtype && groups > 0 && !mg_shape_layout_is_empty(self) &&
            !mg_shape_layout_is_empty(weight) && mg_shape_layout_is_plain(weight));
    int channels_last = spatial == 2 && batched && !transposed && mg_shape_layout_is_channels_last(self) &&
                        !mg_shape_layout_is_contiguous(self) && mg_shape_layout_suggests_channels_last(self);
    MG_NEED(channels_last || (mg_shape_layout_is_plain(self) && !mg_shape_layout_suggests_channels_last(self)));
    MG_NEED(!mg_shape_layout_suggests_channels_last(weight));
    MgDim grouped = mg_size_mul(weight->size[1], mg_dim(groups)), made = transposed ? grouped : weight->size[0];
    MG_NEED(mg_size_is(mg_size_mod(weight->size[0], mg_dim(groups)), 0) &&
            mg_size_eq(self->size[batched], transposed ? weight->size[0] : grouped));
    MG_NEED(bias == NULL || (bias->dim == 1 && mg_size_eq(bias->size[0], made)));
    MgShape out = *self;
    out.size[batched] = made;
    for (int i = 0; i < spatial; i++) {
        MgDim length = self->size[batched + 1 + i];
        MgDim reach = mg_size_mul(dilation[i], mg_size_sub(weight->size[2 + i], mg_dim(1)));
        MgDim both = mg_size_mul(padding[i], mg_dim(2));
        MG_NEED(mg_size_above(stride[i], 0) && mg_size_above(dilation[i], 0) && !mg_size_below(padding[i], 0) &&
                extra[i] >= 0 && (mg_size_above(stride[i], extra[i]) || mg_size_above(dilation[i], extra[i])));
        if (same) {
            MG_NEED(mg_size_is(stride[i], 1) && mg_size_is(mg_size_mod(reach, mg_dim(2)), 0));
        }
        else if (transposed) {
            MgDim last = mg_size_mul(mg_size_sub(length, mg_dim(1)), stride[i]);
            length = mg_size_sub(mg_size_add(mg_size_add(last, reach), mg_dim(extra[i] + 1)), both);
        }
        else {
            MgDim span = mg_size_sub(mg_size_add(length, mg_size_sub(both, mg_dim(1))), reach);
            MG_NEED(!mg_size_below(span, 0));
            length = mg_size_add(mg_size_floordiv(span, stride[i]), mg_dim(1));
        }
        MG_NEED(mg_size_above(length, 0));
        out.size[batched + 1 + i] = length;
    }
    channels_last ? mg_shape_layout_channels_last(&out) : mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* max_pool1d and its like: (input, kernel_size, stride, padding, dilation, ceil_mode, return_indices); average:
 * (input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
enum { AVERAGE = 32 };

static int
pool(MgShapeCall *call)
{
    MgShape *self;
    int spatial = call->rule->data & SPATIAL, average = call->rule->data & AVERAGE, ceil, flag;
    int64_t kernel[SPATIAL], stride[SPATIAL], padding[SPATIAL], dilation[SPATIAL];
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(call->args[1] != NULL);
    MG_TRY(read_spatial(call->args[1], 1, spatial, kernel));
    PyObject *step = call->args[2];
    if (step != NULL && !mg_shape_is_int(step) && Py_SIZE(step) == 0) {
        step = NULL;
    }
    MG_TRY(read_spatial(step, 1, spatial, stride));
    MG_TRY(read_spatial(call->args[3], 0, spatial, padding));
    MG_TRY(read_spatial(average ? NULL : call->args[4], 1, spatial, dilation));
    MG_TRY(mg_shape_bool(call->args[average ? 4 : 5], 0, &ceil));
    MG_TRY(mg_shape_bool(call->args[average ? 5 : 6], average ? 1 : 0, &flag)); /* count_include_pad, return_indices */
    MG_NEED((average || !flag) && (!average || call->args[6] == NULL));
    int first = self->dim - spatial;
    MG_NEED((first == 1 || first == 2) && is_float(self) && mg_shape_layout_is_plain(self) &&
            !mg_shape_layout_suggests_channels_last(self) && !mg_shape_layout_is_empty(self));
    MgShape out = *self;
    for (int i = 0; i < spatial; i++) {
        MgDim size = self->size[first + i];
        int64_t pace = step == NULL ? kernel[i] : stride[i];
        MG_NEED(kernel[i] > 0 && pace > 0 && dilation[i] > 0 && padding[i] >= 0 && padding[i] <= kernel[i] / 2);
        MgDim span = mg_size_add(size, mg_dim(2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1));
        MG_NEED(!mg_size_below(span, 0) &&
                (!average || spatial < 3 || !mg_size_below(size, kernel[i]))); /* else torch refuses */
        MgDim last = mg_size_floordiv(mg_size_add(span, mg_dim(ceil ? pace - 1 : 0)), mg_dim(pace));
        int beyond = ceil && mg_size_le(mg_size_add(size, mg_dim(padding[i])), mg_size_mul(last, mg_dim(pace)));
        out.size[first + i] = mg_size_add(last, mg_dim(beyond ? 0 : 1));
        MG_NEED(mg_size_above(out.size[first + i], 0));
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* adaptive_avg_pool1d and its like: (input, output_size) */
static int
adaptive_pool(MgShapeCall *call)
{
    MgShape *self;
    int spatial = call->rule->data & SPATIAL, flag;
    MgDim size[SPATIAL];
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_output_size(call->args[1], spatial, size));
    MG_TRY(mg_shape_bool(call->args[2], 0, &flag));
    int first = self->dim - spatial;
    MG_NEED((first == 1 || first == 2) && is_float(self) && mg_shape_layout_is_plain(self) && !flag &&
            !mg_shape_layout_suggests_channels_last(self) && !mg_shape_layout_is_empty(self));
    MgShape out = *self;
    for (int i = 0; i < spatial; i++) {
        MG_NEED(mg_size_above(size[i], 0));
        out.size[first + i] = size[i];
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* A size times a number, rounded down, as torch works it out: the product of doubles. That of a size that differs from call to
 * call is known for numbers that are quotients of small ones, for which the product is exact. */
static MgDim
scale(MgDim size, double factor)
{
    enum { MOST_DIVISOR = 1 << 10, MOST_FACTOR = 1 << 20 };
    for (int64_t divisor = 1; size.e != NULL && divisor <= MOST_DIVISOR; divisor *= 2) {
        double whole = factor * (double)divisor;
        if (whole <= MOST_FACTOR && whole == (double)(int64_t)whole) {
            return mg_size_floordiv(mg_size_mul(size, mg_dim((int64_t)whole)), mg_dim(divisor));
        }
    }
    return mg_dim((int64_t)((double)mg_size_value(size) * factor));
}

/* interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias) */
static int
interpolate(MgShapeCall *call)
{
    MgShape *self;
    MgDim size[SPATIAL];
    MgScalar number;
    int flag;
    const char *mode = call->args[3] == NULL ? "nearest" : mg_shape_text(call->args[3]);
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    int spatial = self->dim - 2;
    int channels_last = mg_shape_layout_is_channels_last(self) && !mg_shape_layout_is_contiguous(self) &&
                        mg_shape_layout_suggests_channels_last(self);
    MG_NEED(mode != NULL && spatial >= 1 && spatial <= 3 && is_float(self) && !mg_shape_layout_is_empty(self) &&
            (channels_last || (mg_shape_layout_is_plain(self) && !mg_shape_layout_suggests_channels_last(self))));
    MG_NEED(strcmp(mode, "nearest") == 0 || (strcmp(mode, "bilinear") == 0 && spatial == 2) ||
            (strcmp(mode, "bicubic") == 0 && spatial == 2) || (strcmp(mode, "linear") == 0 && spatial == 1));
    MG_TRY(mg_shape_bool(call->args[4], 0, &flag));
    MG_NEED(call->args[4] == NULL || strcmp(mode, "nearest") != 0);
    for (int i = 5; i < 7; i++) {
        MG_TRY(mg_shape_bool(call->args[i], 0, &flag));
        MG_NEED(!flag);
    }
    MG_NEED((call->args[1] == NULL) != (call->args[2] == NULL));
    MgShape out = *self;
    if (call->args[1] != NULL) {
        MG_TRY(read_output_size(call->args[1], spatial, size));
    }
    else {
        MG_TRY(mg_shape_number(call->args[2], &number));
        double factor = mg_scalar_value(number);
        MG_NEED((number.kind == MG_I64 || number.kind == MG_F64) && factor > 0 && factor < 1e6);
        for (int i = 0; i < spatial; i++) {
            size[i] = scale(self->size[2 + i], factor);
        }
    }
    for (int i = 0; i < spatial; i++) {
        MG_NEED(mg_size_above(size[i], 0));
        out.size[2 + i] = size[i];
    }
    channels_last ? mg_shape_layout_channels_last(&out) : mg_shape_layout_contiguous(&out);
    MG_NEED(!channels_last || !mg_shape_layout_is_contiguous(&out));
    return mg_shape_give(call, &out);
}

/* pixel_shuffle(input, factor) */
static int
pixel_shuffle(MgShapeCall *call)
{
    MgShape *self;
    int64_t factor;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_int(call->args[1], &factor));
    MG_NEED(self->dim >= 3 && factor > 1 && mg_shape_layout_is_contiguous(self) && !mg_shape_layout_is_empty(self));
    int last = self->dim - 1;
    MG_NEED(mg_size_is(mg_size_mod(self->size[last - 2], mg_dim(factor * factor)), 0));
    MgShape out = *self;
    out.size[last - 2] = mg_size_floordiv(out.size[last - 2], mg_dim(factor * factor));
    out.size[last - 1] = mg_size_mul(out.size[last - 1], mg_dim(factor));
    out.size[last] = mg_size_mul(out.size[last], mg_dim(factor));
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* ---- recurrent layers ---- */

/* The number of gates of a recurrent layer, or cell; an LSTM has a second state too. */
enum { RECURRENT = 1, GRU = 3, LSTM = 4 };

/* The tensors of a list or tuple of `count`, in order. */
static int
read_tensors(MgShapeCall *call, PyObject *value, int count, MgShape **tensors)
{
    MG_NEED(value != NULL && (PyTuple_CheckExact(value) || PyList_CheckExact(value)) && Py_SIZE(value) == count);
    for (int i = 0; i < count; i++) {
        PyObject *item = PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
        MG_TRY(mg_shape_tensor(call, item, &tensors[i]));
    }
    return MG_OK;
}

/* 1 if a tensor has a dtype, and these two sizes. */
static int
is_matrix(const MgShape *tensor, MgDtype dtype, MgDim rows, MgDim columns)
{
    return tensor->dtype == dtype && tensor->dim == 2 && mg_size_eq(tensor->size[0], rows) &&
           mg_size_eq(tensor->size[1], columns);
}

/* The states of a recurrent layer, or cell: one tensor, or for an LSTM a list of two, of the same sizes but for the last:
 * `states` are the hidden state, and that of the cells. */
static int
read_states(MgShapeCall *call, PyObject *value, const MgShape *self, int dim, MgShape **states)
{
    if (call->rule->data == LSTM) {
        MG_TRY(read_tensors(call, value, 2, states));
    }
    else {
        MG_TRY(mg_shape_tensor(call, value, &states[0]));
        states[1] = states[0];
    }
    for (int i = 0; i < 2; i++) {
        MG_NEED(states[i]->dim == dim && states[i]->dtype == self->dtype && !mg_shape_layout_is_empty(states[i]) &&
                mg_shape_layout_sizes_equal(states[i]->size, states[0]->size, dim - 1));
    }
    return is_float(self) && self->dim == dim && !mg_shape_layout_is_empty(self) ? MG_OK : MG_DECLINE;
}

/* Sets the result: a tensor for each of some shapes. */
static int
give_several(MgShapeCall *call, MgShape *shapes, int count)
{
    PyObject *result = PyTuple_New(count);
    for (int i = 0; result != NULL && i < count; i++) {
        PyObject *meta = mg_shape_meta(call, &shapes[i], NULL);
        if (meta == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, meta);
    }
    return mg_shape_give_object(call, result);
}

/* lstm, gru, rnn_tanh, rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first); what
 * they are given for packed sequences has a tensor for the params, and depends on data */
static int
recurrent(MgShapeCall *call)
{
    MgShape *self, *states[2], *weights[MG_SHAPE_INPUTS];
    MgScalar number;
    int flags[4]; /* has_biases, train, bidirectional, batch_first */
    static const int places[4] = {3, 6, 7, 8};
    int64_t layers;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_states(call, call->args[1], self, 3, states));
    MG_TRY(mg_shape_int(call->args[4], &layers));
    MG_TRY(mg_shape_number(call->args[5], &number));
    for (int i = 0; i < 4; i++) {
        MG_NEED(call->args[places[i]] != NULL);
        MG_TRY(mg_shape_bool(call->args[places[i]], 0, &flags[i]));
    }
    int biases = flags[0] ? 2 : 0, directions = flags[2] ? 2 : 1, batch_first = flags[3];
    double dropped = mg_scalar_value(number);
    MgDim hidden = states[1]->size[2], given = states[0]->size[2],
          gates = mg_size_mul(hidden, mg_dim(call->rule->data));
    MgDim both = mg_size_mul(given, mg_dim(directions));
    int projected = !mg_size_eq(given, hidden), each = 2 + biases + projected;
    MG_NEED((number.kind == MG_I64 || number.kind == MG_F64) && dropped >= 0 && dropped < 1 && layers > 0 &&
            layers * directions * each <= MG_SHAPE_INPUTS && mg_size_le(given, hidden) &&
            mg_size_is(states[0]->size[0], layers * directions) &&
            mg_size_eq(states[0]->size[1], self->size[batch_first ? 0 : 1]));
    MG_TRY(read_tensors(call, call->args[2], (int)layers * directions * each, weights));
    for (int i = 0; i < layers * directions; i++) {
        MgShape *const *of = &weights[i * each];
        MG_NEED(is_matrix(of[0], self->dtype, gates, i < directions ? self->size[2] : both) &&
                is_matrix(of[1], self->dtype, gates, given));
        for (int k = 2; k < 2 + biases; k++) {
            MG_NEED(of[k]->dtype == self->dtype && of[k]->dim == 1 && mg_size_eq(of[k]->size[0], gates));
        }
        MG_NEED(!projected || is_matrix(of[2 + biases], self->dtype, given, hidden));
    }
    /* the cells of a sequence of one do not come from the projection */
    MG_NEED(!projected || !call->needs_grad || (weights[0]->flags & MG_META_REQUIRES_GRAD));
    MgShape outs[3] = {*self, *states[0], *states[1]};
    outs[0].size[2] = both;
    for (int i = 0; i < 3; i++) {
        mg_shape_layout_contiguous(&outs[i]);
    }
    if (batch_first) { /* it is worked out with the time first */
        outs[0].stride[0] = outs[0].size[2];
        outs[0].stride[1] = mg_size_mul(outs[0].size[2], outs[0].size[0]);
    }
    return give_several(call, outs, call->rule->data == LSTM ? 3 : 2);
}

/* lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh) */
static int
recurrent_cell(MgShapeCall *call)
{
    MgShape *self, *states[2], *weight, *bias;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_states(call, call->args[1], self, 2, states));
    MgDim hidden = states[0]->size[1], gates = mg_size_mul(hidden, mg_dim(call->rule->data));
    MG_NEED(mg_size_eq(states[0]->size[0], self->size[0]) && mg_size_eq(states[1]->size[1], hidden) &&
            mg_shape_layout_is_plain(states[0]) && mg_shape_layout_is_plain(states[1]));
    for (int i = 0; i < 2; i++) {
        MG_TRY(mg_shape_tensor(call, call->args[2 + i], &weight));
        MG_NEED(is_matrix(weight, self->dtype, gates, i == 0 ? self->size[1] : hidden));
        MG_TRY(optional_tensor(call, 4 + i, self->dtype, &bias));
        MG_NEED(bias == NULL || (bias->dim == 1 && mg_size_eq(bias->size[0], gates)));
    }
    MgShape outs[2] = {*states[0], *states[1]};
    mg_shape_layout_contiguous(&outs[0]);
    mg_shape_layout_contiguous(&outs[1]);
    return call->rule->data == LSTM ? give_several(call, outs, 2) : mg_shape_give(call, &outs[0]);
}

/* ---- losses ---- */

/* The reduction of a loss: 1 for one number, 0 for none. */
static int
read_reduction(PyObject *value, int *reduced)
{
    const char *text = value == NULL ? "mean" : mg_shape_text(value);
    MG_NEED(text != NULL);
    *reduced = strcmp(text, "mean") == 0 || strcmp(text, "sum") == 0;
    return *reduced || strcmp(text, "none") == 0 ? MG_OK : MG_DECLINE;
}

/* cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing), nll_loss */
static int
cross_entropy(MgShapeCall *call)
{
    MgShape *self, *target;
    MgScalar number;
    MgDim ignored;
    int reduced;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &target));
    MG_TRY(read_reduction(call->args[6], &reduced));
    MG_NEED(is_float(self) && target->dtype == MG_I64 && call->args[3] == NULL && call->args[5] == NULL);
    MG_NEED((self->dim == 1 && target->dim == 0) || (self->dim >= 2 && target->dim == self->dim - 1));
    for (int i = 0; i < target->dim; i++) {
        MG_NEED(mg_size_eq(target->size[i], self->size[i == 0 ? 0 : i + 1]));
    }
    MG_TRY(check_channels(call, 2, self->dtype, self->size[self->dim > 1]));
    if (call->args[2] != NULL) {
        MgShape *weight;
        MG_TRY(mg_shape_tensor(call, call->args[2], &weight));
        MG_NEED(!(weight->flags & MG_META_REQUIRES_GRAD));
    }
    if (call->args[4] != NULL) {
        MG_TRY(mg_shape_size(call->args[4], &ignored));
    }
    if (call->args[7] != NULL) {
        MG_TRY(mg_shape_number(call->args[7], &number));
        MG_NEED(mg_scalar_is_zero(number) && number.kind != MG_C128);
    }
    MgShape out = {.index = -1, .dtype = self->dtype};
    MG_NEED(self->dim <= 2 || reduced); /* the layout of the others is that of their kernels */
    MG_NEED(!mg_shape_layout_is_empty(self));
    if (!reduced) {
        out.dim = target->dim;
        memcpy(out.size, target->size, sizeof(out.size));
        mg_shape_layout_contiguous(&out);
    }
    return mg_shape_give(call, &out);
}

/* mse_loss, l1_loss, binary_cross_entropy_with_logits: two tensors of the same sizes */
static int
pair_loss(MgShapeCall *call)
{
    MgShape *self, *target;
    MgScalar number;
    int reduced;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &target));
    MG_TRY(read_reduction(call->args[4], &reduced));
    MG_NEED(is_float(self) && self->dtype == target->dtype && self->dim == target->dim && call->args[2] == NULL &&
            call->args[3] == NULL && call->args[6] == NULL &&
            mg_shape_layout_sizes_equal(self->size, target->size, self->dim));
    if (call->args[5] != NULL) {
        MG_TRY(mg_shape_number(call->args[5], &number));
        MG_NEED(mg_scalar_value(number) > 0);
    }
    MgShape out = {.index = -1, .dtype = self->dtype};
    if (!reduced) {
        out = *self;
        MG_NEED(mg_shape_layout_is_contiguous(self) && mg_shape_layout_is_contiguous(target));
        mg_shape_layout_contiguous(&out);
    }
    return mg_shape_give(call, &out);
}

/* binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction, pos_weight) */
static int
logits_loss(MgShapeCall *call)
{
    MG_NEED(call->args[4] == NULL);
    call->args[4] = call->args[5];
    call->args[5] = NULL;
    return pair_loss(call);
}

#define CONVOLUTION "input weight bias? stride padding dilation groups"
#define TRANSPOSED_CONVOLUTION "input weight bias? stride padding output_padding groups dilation"
#define MAX_POOL "input kernel_size stride? padding dilation ceil_mode return_indices"
#define AVERAGE_POOL "input kernel_size stride? padding ceil_mode count_include_pad divisor_override?"
#define RECURRENT_LAYER "input hx params has_biases num_layers dropout train bidirectional batch_first"
#define RECURRENT_CELL "input hx w_ih w_hh b_ih? b_hh?"

const MgShapeRule mg_shape_layers[] = {
    {"n.linear", "input weight bias?", linear, 0},
    {"matmul o.matmul o.imatmul", "input other", matmul, 0},
    {"mm", "input mat2", product, 22},
    {"bmm", "input mat2", product, 33},
    {"mv", "input vec", product, 21},
    {"dot", "input tensor", product, 11},
    {"addmm+", "input mat1 mat2 * beta alpha", add_product, 22},
    {"baddbmm+", "input batch1 batch2 * beta alpha", add_product, 33},
    {"addmv+", "input mat vec * beta alpha", add_product, 21},
    {"t._transformer_encoder_layer_fwd", "src 1 2 3 4 5 6 7 8 9? 10 11 12 13 14 15 16 17 18? 19?", encoder_layer, 0},
    {"outer", "input vec2", outer, 0},
    {"f.einsum t.einsum", "equation 1 2", einsum, 0},
    {"F.embedding", "input weight padding_idx? max_norm? norm_type scale_grad_by_freq sparse", embedding, 0},
    {"F.layer_norm", "input normalized_shape weight? bias? eps", layer_norm, 0},
    {"t.layer_norm", "input normalized_shape weight? bias? eps cudnn_enable", layer_norm, 0},
    {"F.rms_norm t.rms_norm", "input normalized_shape weight? eps?", layer_norm, 1},
    {"F.group_norm", "input num_groups weight? bias? eps", group_norm, 0},
    {"F.batch_norm", "input running_mean? running_var? weight? bias? training momentum eps", batch_norm, 0},
    {"n.scaled_dot_product_attention", "query key value attn_mask? dropout_p is_causal * scale? enable_gqa", attention,
     0},
    {"t.conv1d", CONVOLUTION, convolve, 1},
    {"t.conv2d", CONVOLUTION, convolve, 2},
    {"t.conv3d", CONVOLUTION, convolve, 3},
    {"t.conv_transpose1d", TRANSPOSED_CONVOLUTION, convolve, 1 | TRANSPOSED},
    {"t.conv_transpose2d", TRANSPOSED_CONVOLUTION, convolve, 2 | TRANSPOSED},
    {"t.conv_transpose3d", TRANSPOSED_CONVOLUTION, convolve, 3 | TRANSPOSED},
    {"F.max_pool1d", MAX_POOL, pool, 1},
    {"F.max_pool2d", MAX_POOL, pool, 2},
    {"F.max_pool3d", MAX_POOL, pool, 3},
    {"t.avg_pool1d", AVERAGE_POOL, pool, 1 | AVERAGE},
    {"n.avg_pool2d", AVERAGE_POOL, pool, 2 | AVERAGE},
    {"n.avg_pool3d", AVERAGE_POOL, pool, 3 | AVERAGE},
    {"t.adaptive_avg_pool1d", "input output_size", adaptive_pool, 1},
    {"F.adaptive_avg_pool2d", "input output_size", adaptive_pool, 2},
    {"F.adaptive_avg_pool3d", "input output_size", adaptive_pool, 3},
    {"F.interpolate", "input size? scale_factor? mode align_corners? recompute_scale_factor? antialias", interpolate,
     0},
    {"t.pixel_shuffle", "input upscale_factor", pixel_shuffle, 0},
    {"t.lstm", RECURRENT_LAYER, recurrent, LSTM},
    {"t.gru", RECURRENT_LAYER, recurrent, GRU},
    {"t.rnn_tanh t.rnn_relu", RECURRENT_LAYER, recurrent, RECURRENT},
    {"t.lstm_cell", RECURRENT_CELL, recurrent_cell, LSTM},
    {"t.gru_cell", RECURRENT_CELL, recurrent_cell, GRU},
    {"t.rnn_tanh_cell t.rnn_relu_cell", RECURRENT_CELL, recurrent_cell, RECURRENT},
    {"F.cross_entropy", "input target weight? size_average? ignore_index reduce? reduction label_smoothing",
     cross_entropy, 0},
    {"F.nll_loss", "input target weight? size_average? ignore_index reduce? reduction", cross_entropy, 0},
    {"F.mse_loss F.l1_loss", "input target size_average? reduce? reduction weight?", pair_loss, 0},
    {"F.smooth_l1_loss", "input target size_average? reduce? reduction beta", pair_loss, 0},
    {"F.binary_cross_entropy_with_logits", "input target weight? size_average? reduce? reduction pos_weight?",
     logits_loss, 0},
    {NULL, NULL, NULL, 0},
};
