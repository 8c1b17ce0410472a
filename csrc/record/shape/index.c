/* Shape functions of indexing: subscripts, gather, scatter and their like. */
#include "record/shape/arguments.h"

/* A subscript taken apart: the view that its ints, slices, None and Ellipsis give, and the tensors that index it. */
typedef struct {
    MgShape view;
    MgShape *tensors[MG_SHAPE_DIMS]; /* by dimension of the view; NULL where there is none */
    int tensor_count;
} Subscript;

/* The end of a slice, which may be any int. */
static int
read_bound(PyObject *value, MgDim size, MgDim otherwise, MgDim *bound)
{
    if (value == Py_None) {
        *bound = otherwise;
        return MG_OK;
    }
    if (mg_shape_size(value, bound) != MG_OK) {
        MG_NEED(PyLong_CheckExact(value));
        if (!mg_dim_read(value, bound) || bound->v == INT64_MAX) { /* beyond all sizes */
            *bound = Py_SIZE(value) < 0 ? mg_dim(0) : size;
            return MG_OK;
        }
    }
    if (mg_size_below(*bound, 0)) {
        *bound = mg_size_add(*bound, size);
        *bound = mg_size_below(*bound, 0) ? mg_dim(0) : *bound;
    }
    else if (mg_size_lt(size, *bound)) {
        *bound = size;
    }
    return MG_OK;
}

static int
apply_slice(MgShape *view, int dim, PySliceObject *slice)
{
    MgDim start, stop, step = mg_dim(1);
    MG_TRY(read_bound(slice->start, view->size[dim], mg_dim(0), &start));
    MG_TRY(read_bound(slice->stop, view->size[dim], view->size[dim], &stop));
    MgDim length = mg_size_lt(stop, start) ? mg_dim(0) : mg_size_sub(stop, start);
    if (slice->step != Py_None) {
        MG_TRY(mg_shape_size(slice->step, &step));
        MG_NEED(mg_size_above(step, 0));
        length = mg_size_floordiv(mg_size_add(length, mg_size_sub(step, mg_dim(1))), step);
    }
    view->size[dim] = length;
    view->stride[dim] = mg_size_mul(view->stride[dim], step);
    return MG_OK;
}

static int
apply_int(MgShape *view, int dim, PyObject *value)
{
    MgDim index;
    MG_TRY(mg_shape_size(value, &index));
    MG_NEED(mg_shape_layout_has_index(index, view->size[dim]));
    view->dim--;
    for (int i = dim; i < view->dim; i++) {
        view->size[i] = view->size[i + 1];
        view->stride[i] = view->stride[i + 1];
    }
    return MG_OK;
}

static int
apply_none(MgShape *view, int dim)
{
    MG_NEED(view->dim < MG_SHAPE_DIMS);
    MgDim stride = dim == view->dim ? mg_dim(1) : mg_size_mul(view->size[dim], view->stride[dim]);
    for (int i = view->dim; i > dim; i--) {
        view->size[i] = view->size[i - 1];
        view->stride[i] = view->stride[i - 1];
    }
    view->dim++;
    view->size[dim] = mg_dim(1);
    view->stride[dim] = stride;
    return MG_OK;
}

/* How many dimensions a part of a subscript takes, or -1. */
static int
dimensions_of(MgShapeCall *call, PyObject *item, int masks)
{
    MgShape *tensor;
    if (item == Py_None || item == Py_Ellipsis) {
        return 0;
    }
    if (mg_shape_is_int(item) || PySlice_Check(item)) {
        return 1;
    }
    if (mg_shape_tensor(call, item, &tensor) != MG_OK) {
        return -1;
    }
    if (tensor->dtype == MG_BOOL) {
        return masks && tensor->dim > 0 ? tensor->dim : -1;
    }
    return tensor->dim > 0 && (tensor->dtype == MG_I64 || tensor->dtype == MG_I32) ? 1
                                                                                   : -1; /* without: its value counts */
}

/* Takes a subscript apart; masks are known if `masks` says so. */
static int
read_subscript(MgShapeCall *call, MgShape *self, PyObject *key, int masks, Subscript *out)
{
    PyObject *one[1] = {key == NULL ? Py_None : key}, **items = one;
    Py_ssize_t count = 1, taken = 0, ellipses = 0;
    if (key != NULL && PyTuple_CheckExact(key)) {
        items = ((PyTupleObject *)key)->ob_item;
        count = PyTuple_GET_SIZE(key);
    }
    out->view = *self;
    out->tensor_count = 0;
    memset(out->tensors, 0, sizeof(out->tensors));
    for (Py_ssize_t i = 0; i < count; i++) {
        int dims = dimensions_of(call, items[i], masks);
        MG_NEED(dims >= 0);
        taken += dims;
        ellipses += items[i] == Py_Ellipsis;
    }
    MG_NEED(taken <= self->dim && ellipses <= 1);
    int dim = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        MgShape *tensor;
        if (items[i] == Py_Ellipsis) {
            dim += self->dim - (int)taken;
        }
        else if (items[i] == Py_None) {
            MG_TRY(apply_none(&out->view, dim++));
        }
        else if (PySlice_Check(items[i])) {
            MG_TRY(apply_slice(&out->view, dim++, (PySliceObject *)items[i]));
        }
        else if (mg_shape_is_int(items[i])) {
            MG_TRY(apply_int(&out->view, dim, items[i]));
        }
        else {
            MG_TRY(mg_shape_tensor(call, items[i], &tensor));
            if (tensor->dtype == MG_BOOL) {
                MG_NEED(mg_shape_layout_sizes_equal(tensor->size, out->view.size + dim, tensor->dim));
                dim += tensor->dim - 1;
            }
            out->tensors[dim++] = tensor;
            out->tensor_count++;
        }
    }
    return MG_OK;
}

/* What tensors in a subscript pick out of the view. */
static int
pick(const Subscript *subscript, MgShape *out)
{
    const MgShape *view = &subscript->view;
    MgShape index = {.index = -1};
    int first = -1, last = -1, order[MG_SHAPE_DIMS] = {0}, at = 0;
    MG_TRY(mg_shape_layout_broadcast(&index, (MgShape *const *)subscript->tensors, view->dim));
    for (int i = 0; i < view->dim; i++) {
        if (subscript->tensors[i] != NULL) {
            first = first < 0 ? i : first;
            last = i;
        }
    }
    int together = last - first + 1 == subscript->tensor_count, lead = together ? first : 0;
    MG_NEED(view->dim - subscript->tensor_count + index.dim <= MG_SHAPE_DIMS);
    for (int i = 0; i < view->dim; i++) { /* the dimensions that stay, in order */
        if (subscript->tensors[i] == NULL) {
            order[at++] = i;
        }
    }
    MgShape source = {.index = -1, .dtype = view->dtype, .dim = at + index.dim};
    for (int i = 0; i < source.dim; i++) {
        int is_index = i >= lead && i < lead + index.dim;
        int from = is_index ? 0 : order[i < lead ? i : i - index.dim];
        source.size[i] = is_index ? index.size[i - lead] : view->size[from];
        source.stride[i] = is_index ? mg_dim(0) : view->stride[from];
    }
    *out = source;
    if (mg_shape_layout_is_empty(view)) {
        mg_shape_layout_contiguous(out);
        return MG_OK;
    }
    MgShape *tensors[1] = {&source};
    MG_NEED(source.dim < 2 || !mg_shape_layout_is_empty(&source));
    mg_shape_layout_pointwise(out, tensors, 1, view->dtype);
    return MG_OK;
}

static int
get_item(MgShapeCall *call)
{
    MgShape *self;
    Subscript subscript;
    MgShape out;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_subscript(call, self, call->args[1], 0, &subscript));
    if (subscript.tensor_count == 0) {
        return mg_shape_give_view(call, &subscript.view, self);
    }
    MG_TRY(pick(&subscript, &out));
    return mg_shape_give(call, &out);
}

static int
set_item(MgShapeCall *call)
{
    MgShape *self, *value;
    Subscript subscript;
    MgScalar number;
    MgShape target;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(call->args[2] != NULL);
    int is_tensor = Py_TYPE(call->args[2]) == &MgRef_Type;
    MG_TRY(read_subscript(call, self, call->args[1], 1, &subscript));
    int masks = 0;
    for (int i = 0; i < subscript.view.dim; i++) {
        masks = masks || (subscript.tensors[i] != NULL && subscript.tensors[i]->dtype == MG_BOOL);
    }
    if (is_tensor) {
        MG_TRY(mg_shape_tensor(call, call->args[2], &value));
        MG_NEED(subscript.tensor_count == 0 ? mg_dtype_fits(value->dtype, self->dtype) : value->dtype == self->dtype);
        MG_NEED(!masks || value->dim == 0);
        target = subscript.view;
        if (subscript.tensor_count > 0 && !masks) {
            MG_TRY(pick(&subscript, &target));
        }
        int lead = 0; /* ones in front are left out */
        while (value->dim - lead > target.dim && mg_size_is(value->size[lead], 1)) {
            lead++;
        }
        MG_NEED(value->dim - lead <= target.dim);
        for (int i = lead; i < value->dim; i++) {
            MG_NEED(mg_shape_layout_expands(value->size[i], target.size[target.dim - value->dim + i]));
        }
        MG_NEED(value != self);
    }
    else {
        MG_TRY(mg_shape_number(call->args[2], &number));
        MG_NEED(mg_dtype_class(number.kind) <= mg_dtype_class(self->dtype));
        if (self->dtype != MG_F16 && self->dtype != MG_BF16) { /* these become infinite */
            MG_TRY(mg_shape_hold(call, self->dtype, number));
        }
    }
    MG_TRY(mg_shape_changed(call, self));
    return mg_shape_give_object(call, Py_NewRef(Py_None));
}

static int
is_index(const MgShape *tensor)
{
    return tensor->dtype == MG_I64 || tensor->dtype == MG_I32;
}

/* index_select(input, dim, index) */
static int
index_select(MgShapeCall *call)
{
    MgShape *self, *index;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_tensor(call, call->args[2], &index));
    MG_NEED(is_index(index) && index->dim <= 1 && self->dim > 0);
    if (mg_size_is(self->size[dim], 0) && !mg_shape_layout_is_empty(index)) {
        return mg_shape_fail(call, "an index into no elements");
    }
    MgShape out = *self;
    out.size[dim] = mg_shape_layout_elements(index);
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* An index into a tensor along a dimension: it may be smaller in the others. */
static int
check_index(const MgShape *self, int dim, const MgShape *index, int any)
{
    MG_NEED(index->dtype == MG_I64 && index->dim == self->dim && self->dim > 0);
    for (int i = 0; i < self->dim; i++) {
        MG_NEED((any && i == dim) || mg_size_le(index->size[i], self->size[i]));
    }
    return MG_OK;
}

/* gather(input, dim, index) */
static int
gather(MgShapeCall *call)
{
    MgShape *self, *index;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_tensor(call, call->args[2], &index));
    MG_TRY(check_index(self, dim, index, 1));
    MgShape out = *index;
    out.dtype = self->dtype;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* scatter(input, dim, index, src or value), scatter_add */
static int
scatter(MgShapeCall *call)
{
    MgShape *self, *index, *source;
    MgScalar number;
    int dim;
    PyObject *value = call->args[3] != NULL ? call->args[3] : call->args[4];
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_tensor(call, call->args[2], &index));
    MG_NEED(value != NULL && (call->args[3] == NULL || call->args[4] == NULL));
    MG_TRY(check_index(self, dim, index, 1));
    if (Py_TYPE(value) == &MgRef_Type) {
        MG_TRY(mg_shape_tensor(call, value, &source));
        MG_NEED(source->dtype == self->dtype);
        MG_TRY(check_index(source, -1, index, 0));
    }
    else {
        MG_NEED(!call->rule->data);
        MG_TRY(mg_shape_number(value, &number));
        MG_NEED(mg_dtype_class(number.kind) <= mg_dtype_class(self->dtype));
        MG_TRY(mg_shape_hold(call, self->dtype, number));
    }
    return mg_shape_give_written(call, self);
}

/* index_add(input, dim, index, source), index_copy; index_fill has a number */
static int
index_write(MgShapeCall *call)
{
    MgShape *self, *index, *source;
    MgScalar number;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_tensor(call, call->args[2], &index));
    MG_NEED(index->dtype == MG_I64 && index->dim == 1 && self->dim > 0 && mg_shape_layout_is_plain(self) &&
            (call->args[4] == NULL || mg_shape_number(call->args[4], &number) == MG_OK));
    if (call->args[4] != NULL) {
        MG_NEED(mg_dtype_class(number.kind) <= mg_dtype_class(self->dtype));
        MG_TRY(mg_shape_layout_is_empty(index) || mg_shape_layout_is_empty(self)
                   ? MG_OK
                   : mg_shape_hold(call, self->dtype, number));
    }
    if (call->rule->data) {
        MG_TRY(mg_shape_number(call->args[3], &number));
        MG_NEED(mg_dtype_class(number.kind) <= mg_dtype_class(self->dtype));
        MG_TRY(mg_shape_hold(call, self->dtype, number));
    }
    else {
        MG_TRY(mg_shape_tensor(call, call->args[3], &source));
        MG_NEED(source->dtype == self->dtype && source->dim == self->dim);
        for (int i = 0; i < self->dim; i++) {
            MG_NEED(mg_size_eq(source->size[i], i == dim ? index->size[0] : self->size[i]));
        }
    }
    return mg_shape_give_written(call, self);
}

/* take_along_dim(input, indices, dim) */
static int
take_along(MgShapeCall *call)
{
    MgShape *self, *index;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_tensor(call, call->args[1], &index));
    MG_TRY(mg_shape_dim(call->args[2], self->dim, &dim));
    MG_NEED(index->dtype == MG_I64 && index->dim == self->dim && self->dim > 0);
    MgShape out = *index;
    for (int i = 0; i < self->dim; i++) {
        if (i == dim || mg_size_known_eq(index->size[i], self->size[i])) {
            continue;
        }
        if (mg_size_is(index->size[i], 1)) {
            out.size[i] = self->size[i];
        }
        else {
            MG_NEED(mg_shape_layout_expands(self->size[i], index->size[i]));
        }
    }
    out.dtype = self->dtype;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* masked_scatter(input, mask, source) */
static int
masked_scatter(MgShapeCall *call)
{
    MgShape *tensors[2], *source;
    MG_TRY(mg_shape_tensor(call, call->args[0], &tensors[0]));
    MG_TRY(mg_shape_tensor(call, call->args[1], &tensors[1]));
    MG_TRY(mg_shape_tensor(call, call->args[2], &source));
    MG_NEED(tensors[1]->dtype == MG_BOOL && source->dtype == tensors[0]->dtype &&
            mg_shape_layout_is_contiguous(tensors[0]));
    MgShape out = *tensors[0];
    MG_TRY(mg_shape_layout_broadcast(&out, tensors, 2));
    MG_NEED(out.dim == tensors[0]->dim && mg_shape_layout_sizes_equal(out.size, tensors[0]->size, out.dim));
    if (call->in_place) {
        return mg_shape_give_changed(call, tensors[0]);
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

const MgShapeRule mg_shape_indexing[] = {
    {"o.getitem .__getitem__", "input key?", get_item, 0},
    {"o.setitem .__setitem__", "input key? value", set_item, 0},
    {"index_select", "input dim index", index_select, 0},
    {"gather", "input dim index", gather, 0},
    {"scatter+", "input dim index src value", scatter, 0},
    {"scatter_add+", "input dim index src", scatter, 1},
    {"index_add+", "input dim index source * alpha", index_write, 0},
    {"index_copy+", "input dim index source", index_write, 0},
    {"index_fill+", "input dim index value", index_write, 1},
    {"take_along_dim", "input indices dim?", take_along, 0},
    {"masked_scatter+", "input mask source", masked_scatter, 0},
    {NULL, NULL, NULL, 0},
};
