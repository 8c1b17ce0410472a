/* Shape functions of views, and of what only moves elements: reshape, transpose, split, cat, repeat, pad. */
#include "record/shape/arguments.h"

/* Reads sizes of which one may be -1, for a number of elements. */
static int
read_sizes(PyObject *value, MgDim elements, MgShape *out)
{
    MgDim known = mg_dim(1);
    int open = -1;
    MG_TRY(mg_shape_sizes(value, out->size, &out->dim));
    for (int i = 0; i < out->dim; i++) {
        if (mg_size_is(out->size[i], -1)) {
            MG_NEED(open < 0);
            open = i;
        }
        else {
            MG_NEED(!mg_size_below(out->size[i], 0));
            known = mg_size_mul(known, out->size[i]);
        }
    }
    if (open >= 0) {
        MG_NEED(mg_size_above(known, 0) && mg_size_is(mg_size_mod(elements, known), 0));
        out->size[open] = mg_size_floordiv(elements, known);
        return MG_OK;
    }
    return mg_size_eq(known, elements) ? MG_OK : MG_DECLINE;
}

/* The strides that FakeTensorMode says for a view, which are its own where dimensions of one element have strides without
 * a meaning: each size, from the left, is made of as many dimensions as it needs, and what is over is for the next one. 0 if
 * it knows none. */
static int
fake_view(const MgShape *from, MgShape *to)
{
    if (mg_shape_layout_is_contiguous(from) && (to->dim == 1 ? from->dim > 1 : to->dim == 2 && from->dim == 1)) {
        mg_shape_layout_contiguous(to);
        return 1;
    }
    int next = 0, is_over = 0;
    MgDim size = mg_dim(0), stride = mg_dim(0); /* of what is over, if something is */
    for (int i = 0; i < to->dim; i++) {
        MgDim wanted = to->size[i];
        if (!is_over && next == from->dim) {
            if (i == 0 || !mg_size_is(wanted, 1)) {
                return 0;
            }
            to->stride[i] = to->stride[i - 1];
            continue;
        }
        if (!is_over) {
            size = from->size[next];
            stride = from->stride[next++];
        }
        int bounded = !mg_size_is(size, 1); /* the least stride of more than one element is known */
        MgDim inner = size, inner_stride = stride, least = stride;
        while (!mg_size_is(mg_size_mod(size, wanted), 0)) {
            if (next == from->dim || (!mg_size_is(inner, 1) && !mg_size_is(from->size[next], 1) &&
                                      !mg_size_eq(inner_stride, mg_size_mul(from->size[next], from->stride[next])))) {
                return 0;
            }
            inner = from->size[next];
            inner_stride = from->stride[next++];
            size = mg_size_mul(size, inner);
            int is_least = !bounded || mg_size_le(inner_stride, least);
            stride = is_least ? inner_stride : least;
            if (is_least && !mg_size_is(inner, 1)) {
                least = inner_stride;
                bounded = 1;
            }
        }
        size = mg_size_floordiv(size, wanted);
        to->stride[i] = mg_size_mul(stride, size);
        is_over = !mg_size_is(size, 1);
    }
    while (next < from->dim && mg_size_is(from->size[next], 1)) {
        next++;
    }
    return !is_over && next == from->dim;
}

/* 1 if there is a stride that has no meaning: FakeTensorMode makes its own of it. */
static int
has_odd_stride(const MgShape *shape)
{
    for (int i = 0; i < shape->dim; i++) {
        int is_last = i == shape->dim - 1;
        MgDim natural = is_last ? mg_dim(1) : mg_size_mul(shape->size[i + 1], shape->stride[i + 1]);
        if (!mg_size_known_eq(shape->stride[i], natural) && mg_size_is(shape->size[i], 1) &&
            !mg_size_eq(shape->stride[i], natural)) {
            return 1;
        }
    }
    return 0;
}

static int
has_size_one(const MgShape *shape)
{
    for (int i = 0; i < shape->dim; i++) {
        if (mg_size_is(shape->size[i], 1)) {
            return 1;
        }
    }
    return 0;
}

/* A tensor with other sizes: a view, or if there is none and `copy` says so a copy. */
static int
give_reshaped(MgShapeCall *call, MgShape *self, MgShape *out, int copy)
{
    out->dtype = self->dtype;
    if (mg_shape_layout_view(self, out)) {
        MG_NEED(!has_odd_stride(self) || !has_size_one(out) || mg_shape_layout_is_empty(self) || fake_view(self, out));
        return mg_shape_give_view(call, out, self);
    }
    MG_NEED(copy);
    mg_shape_layout_contiguous(out);
    return mg_shape_give(call, out);
}

enum { VIEW = 0, RESHAPE = 1, SIZES_OF_OTHER = 2 };

static int
reshape(MgShapeCall *call)
{
    MgShape *self, *other, out = {.index = -1};
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->rule->data & SIZES_OF_OTHER) {
        MG_TRY(mg_shape_tensor(call, call->args[1], &other));
        out = *other;
        MG_NEED(mg_size_eq(mg_shape_layout_elements(self), mg_shape_layout_elements(other)));
        call->needs_grad = call->grad && (self->flags & MG_META_REQUIRES_GRAD);
    }
    else {
        MG_TRY(read_sizes(call->args[1], mg_shape_layout_elements(self), &out));
    }
    return give_reshaped(call, self, &out, call->rule->data & RESHAPE);
}

static int
flatten(MgShapeCall *call)
{
    MgShape *self, out = {.index = -1};
    int start = 0, end;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    end = self->dim == 0 ? 0 : self->dim - 1;
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_dim(call->args[1], self->dim, &start));
    }
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &end));
    }
    MG_NEED(start <= end);
    if (self->dim == 0) {
        out.dim = 1;
        out.size[0] = mg_dim(1);
        return give_reshaped(call, self, &out, 1);
    }
    if (start == end) {
        return mg_shape_give_input(call, self);
    }
    for (int i = 0; i < self->dim; i++) {
        if (i > start && i <= end) {
            out.size[out.dim - 1] = mg_size_mul(out.size[out.dim - 1], self->size[i]);
        }
        else {
            out.size[out.dim++] = self->size[i];
        }
    }
    return give_reshaped(call, self, &out, 1);
}

static int
ravel(MgShapeCall *call)
{
    MgShape *self;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MgShape out = {
        .index = -1, .dim = 1, .dtype = self->dtype, .size = {mg_shape_layout_elements(self)}, .stride = {mg_dim(1)}};
    if (mg_shape_layout_is_contiguous(self)) {
        return give_reshaped(call, self, &out, 0);
    }
    return mg_shape_give(call, &out);
}

static int
unflatten(MgShapeCall *call)
{
    MgShape *self, part = {.index = -1}, out = {.index = -1};
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_NEED(self->dim > 0);
    MG_TRY(read_sizes(call->args[2], self->size[dim], &part));
    MG_NEED(part.dim > 0 && self->dim - 1 + part.dim <= MG_SHAPE_DIMS);
    for (int i = 0; i < self->dim; i++) {
        for (int k = 0; k < (i == dim ? part.dim : 1); k++) {
            out.size[out.dim++] = i == dim ? part.size[k] : self->size[i];
        }
    }
    return give_reshaped(call, self, &out, 0);
}

static int
give_permuted(MgShapeCall *call, MgShape *self, const int *order)
{
    MgShape out = *self;
    for (int i = 0; i < self->dim; i++) {
        out.size[i] = self->size[order[i]];
        out.stride[i] = self->stride[order[i]];
    }
    return mg_shape_give_view(call, &out, self);
}

static int
transpose(MgShapeCall *call)
{
    MgShape *self;
    int first, second, order[MG_SHAPE_DIMS];
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &first));
    MG_TRY(mg_shape_dim(call->args[2], self->dim, &second));
    for (int i = 0; i < self->dim; i++) {
        order[i] = i == first ? second : i == second ? first : i;
    }
    return give_permuted(call, self, order);
}

/* t, T, mT */
static int
transpose_matrix(MgShapeCall *call)
{
    MgShape *self;
    int order[MG_SHAPE_DIMS];
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->rule->data) {
        MG_NEED(self->dim >= 2); /* mT */
    }
    else {
        MG_NEED(self->dim <= 2); /* torch warns of T for others */
    }
    for (int i = 0; i < self->dim; i++) {
        order[i] = self->dim < 2 || i < self->dim - 2 ? i : 2 * self->dim - 3 - i;
    }
    return give_permuted(call, self, order);
}

static int
permute(MgShapeCall *call)
{
    MgShape *self;
    int64_t dims[MG_SHAPE_DIMS];
    int count, order[MG_SHAPE_DIMS], seen = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_ints(call->args[1], dims, &count));
    MG_NEED(count == self->dim);
    for (int i = 0; i < count; i++) {
        MG_TRY(mg_shape_wrap(dims[i], self->dim, &order[i]));
        MG_NEED(!(seen & 1 << order[i]));
        seen |= 1 << order[i];
    }
    return give_permuted(call, self, order);
}

static int
move_dims(MgShapeCall *call)
{
    MgShape *self;
    int64_t from[MG_SHAPE_DIMS], to[MG_SHAPE_DIMS];
    int count, other_count, order[MG_SHAPE_DIMS], source, target, taken = 0, filled = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_ints(call->args[1], from, &count));
    MG_TRY(mg_shape_ints(call->args[2], to, &other_count));
    MG_NEED(count == other_count && self->dim > 0);
    for (int i = 0; i < count; i++) {
        MG_TRY(mg_shape_wrap(from[i], self->dim, &source));
        MG_TRY(mg_shape_wrap(to[i], self->dim, &target));
        MG_NEED(!(taken & 1 << source) && !(filled & 1 << target));
        taken |= 1 << source;
        filled |= 1 << target;
        order[target] = source;
    }
    for (int i = 0, next = 0; i < self->dim; i++) {
        if (!(filled & 1 << i)) {
            while (taken & 1 << next) {
                next++;
            }
            order[i] = next++;
        }
    }
    return give_permuted(call, self, order);
}

static int
give_expanded(MgShapeCall *call, MgShape *self, const MgDim *size, int dim)
{
    MgShape out = {.index = -1, .dim = dim, .dtype = self->dtype};
    int lead = dim - self->dim;
    MG_NEED(lead >= 0);
    if (self->dim == 0) {
        for (int i = 0; i < dim; i++) {
            MG_NEED(!mg_size_below(size[i], 0));
            out.size[i] = size[i];
        }
        return mg_shape_give_view(call, &out, self);
    }
    for (int i = dim - 1; i >= 0; i--) {
        MgDim own = i < lead ? mg_dim(1) : self->size[i - lead];
        int is_own = mg_size_known_eq(own, size[i]) || (i >= lead && mg_size_is(size[i], -1));
        out.size[i] = is_own ? own : size[i];
        if (!is_own && !mg_size_is(own, 1)) {
            MG_NEED(mg_size_eq(own, size[i]));
            is_own = 1;
        }
        is_own = is_own || mg_size_is(size[i], 1);
        MG_NEED(is_own || !mg_size_below(size[i], 0));
        if (i >= lead && is_own) {
            out.stride[i] = self->stride[i - lead];
        }
        else if (is_own) { /* as a view with a dimension more has it */
            out.stride[i] = i == dim - 1 ? mg_dim(1) : mg_size_mul(out.size[i + 1], out.stride[i + 1]);
        }
    }
    return mg_shape_give_view(call, &out, self);
}

static int
expand(MgShapeCall *call)
{
    MgShape *self, *other;
    MgDim size[MG_SHAPE_DIMS];
    int count;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->rule->data & SIZES_OF_OTHER) {
        MG_TRY(mg_shape_tensor(call, call->args[1], &other));
        return give_expanded(call, self, other->size, other->dim);
    }
    MG_TRY(mg_shape_sizes(call->args[1], size, &count));
    return give_expanded(call, self, size, count);
}

static int
unsqueeze(MgShapeCall *call)
{
    MgShape *self;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(self->dim < MG_SHAPE_DIMS);
    MG_TRY(mg_shape_dim(call->args[1], self->dim + 1, &dim));
    MgShape out = {.index = -1, .dtype = self->dtype, .dim = self->dim + 1};
    for (int i = 0; i < out.dim; i++) {
        int from = i - (i > dim);
        out.size[i] = i == dim ? mg_dim(1) : self->size[from];
        out.stride[i] = i != dim         ? self->stride[from]
                        : i == self->dim ? mg_dim(1)
                                         : mg_size_mul(self->size[i], self->stride[i]);
    }
    return mg_shape_give_view(call, &out, self);
}

static int
squeeze(MgShapeCall *call)
{
    MgShape *self;
    int64_t dims[MG_SHAPE_DIMS];
    int count = 0, dim, chosen = call->args[1] == NULL ? -1 : 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_ints(call->args[1], dims, &count));
    }
    for (int i = 0; i < count; i++) {
        MG_TRY(mg_shape_wrap(dims[i], self->dim, &dim));
        MG_NEED(!(chosen & 1 << dim));
        chosen |= 1 << dim;
    }
    MgShape out = {.index = -1, .dtype = self->dtype};
    for (int i = 0; i < self->dim; i++) {
        if (!(chosen & 1 << i) || !mg_size_is(self->size[i], 1)) {
            out.size[out.dim] = self->size[i];
            out.stride[out.dim++] = self->stride[i];
        }
    }
    return mg_shape_give_view(call, &out, self);
}

static int
narrow(MgShapeCall *call)
{
    MgShape *self;
    int dim;
    MgDim start, length;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_size(call->args[2], &start));
    MG_TRY(mg_shape_size(call->args[3], &length));
    MG_NEED(self->dim > 0 && !mg_size_below(length, 0));
    if (mg_size_below(start, 0)) {
        start = mg_size_add(start, self->size[dim]);
        MG_NEED(!mg_size_below(start, 0));
    }
    MG_NEED(mg_size_le(mg_size_add(start, length), self->size[dim]));
    MgShape out = *self;
    out.size[dim] = length;
    return mg_shape_give_view(call, &out, self);
}

static int
select_one(MgShapeCall *call)
{
    MgShape *self;
    int dim;
    MgDim index;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_size(call->args[2], &index));
    MG_NEED(self->dim > 0 && mg_shape_layout_has_index(index, self->size[dim]));
    MgShape out = *self;
    out.dim--;
    for (int i = dim; i < out.dim; i++) {
        out.size[i] = self->size[i + 1];
        out.stride[i] = self->stride[i + 1];
    }
    return mg_shape_give_view(call, &out, self);
}

/* ---- several views ---- */

/* A tuple of views that differ in the size of one dimension. */
static int
give_parts(MgShapeCall *call, MgShape *self, int dim, const MgDim *sizes, int64_t count)
{
    call->several = 1;
    PyObject *parts = PyTuple_New(count);
    for (int64_t i = 0; parts != NULL && i < count; i++) {
        MgShape out = *self;
        out.size[dim] = sizes[i];
        PyObject *meta = mg_shape_meta(call, &out, self);
        if (meta == NULL) {
            Py_CLEAR(parts);
            break;
        }
        PyTuple_SET_ITEM(parts, i, meta);
    }
    return mg_shape_give_object(call, parts);
}

enum { MOST_PARTS = 256 };

/* The parts have the sizes that a list says. */
static int
split_by_sizes(MgShapeCall *call, MgShape *self, int dim)
{
    PyObject *list = call->args[1];
    MgDim sizes[MOST_PARTS], total = mg_dim(0);
    MG_NEED((PyList_CheckExact(list) || PyTuple_Check(list)) && Py_SIZE(list) > 0 && Py_SIZE(list) <= MOST_PARTS);
    for (Py_ssize_t i = 0; i < Py_SIZE(list); i++) {
        MG_TRY(mg_shape_size(PyList_Check(list) ? PyList_GET_ITEM(list, i) : PyTuple_GET_ITEM(list, i), &sizes[i]));
        MG_NEED(!mg_size_below(sizes[i], 0));
        total = mg_size_add(total, sizes[i]);
    }
    MG_NEED(mg_size_eq(total, self->size[dim]));
    return give_parts(call, self, dim, sizes, Py_SIZE(list));
}

/* a / b, rounded up. */
static MgDim
divide_up(MgDim a, MgDim b)
{
    MgDim rest = mg_size_mod(a, b);
    if (rest.e != NULL || rest.v != 0) {
        a = mg_size_add(a, mg_size_sub(b, mg_dim(1)));
    }
    return mg_size_floordiv(a, b);
}

/* Parts of the same size but for the last. */
static int
give_steps(MgShapeCall *call, MgShape *self, int dim, MgDim step, int64_t count)
{
    MgDim sizes[MOST_PARTS], rest = self->size[dim];
    MG_NEED(count <= MOST_PARTS);
    for (int64_t i = 0; i < count; i++) {
        sizes[i] = i == count - 1 ? rest : step;
        rest = mg_size_sub(rest, step);
    }
    return give_parts(call, self, dim, sizes, count);
}

/* split(tensor, size or sizes, dim), chunk(input, chunks, dim) */
static int
split(MgShapeCall *call)
{
    MgShape *self;
    int dim = 0;
    MgDim step;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &dim));
    }
    MG_NEED(self->dim > 0 && call->args[1] != NULL);
    MgDim size = self->size[dim];
    if (!mg_shape_is_int(call->args[1])) {
        return call->rule->data ? MG_DECLINE : split_by_sizes(call, self, dim);
    }
    MG_TRY(mg_shape_size(call->args[1], &step));
    MG_NEED(mg_size_above(step, 0) && mg_size_above(size, 0));
    if (!call->rule->data) {
        return give_steps(call, self, dim, step, mg_size_value(divide_up(size, step)));
    }
    int64_t chunks = mg_size_value(step);
    step = divide_up(size, step);
    MgDim count = divide_up(size, step);
    if (count.e != NULL &&
        mg_size_above(size, (chunks - 1) * (chunks - 1))) { /* enough for all, however it is rounded */
        return give_steps(call, self, dim, step, chunks);
    }
    return give_steps(call, self, dim, step, mg_size_value(count));
}

static int
unbind(MgShapeCall *call)
{
    MgShape *self;
    int dim = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    }
    MG_NEED(self->dim > 0);
    int64_t count = mg_size_value(self->size[dim]);
    MG_NEED(count <= MOST_PARTS && count > 0);
    call->several = 1;
    PyObject *parts = PyTuple_New(count);
    for (int64_t i = 0; parts != NULL && i < count; i++) {
        MgShape out = *self;
        out.dim--;
        for (int k = dim; k < out.dim; k++) {
            out.size[k] = self->size[k + 1];
            out.stride[k] = self->stride[k + 1];
        }
        PyObject *meta = mg_shape_meta(call, &out, self);
        if (meta == NULL) {
            Py_CLEAR(parts);
            break;
        }
        PyTuple_SET_ITEM(parts, i, meta);
    }
    return mg_shape_give_object(call, parts);
}

static int
diagonal(MgShapeCall *call)
{
    MgShape *self;
    MgDim offset = mg_dim(0);
    int first = 0, second = 1;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(self->dim >= 2);
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_size(call->args[1], &offset));
    }
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &first));
    }
    if (call->args[3] != NULL) {
        MG_TRY(mg_shape_dim(call->args[3], self->dim, &second));
    }
    MG_NEED(first != second);
    MgDim rows = self->size[first], columns = self->size[second];
    if (mg_size_below(offset, 0)) {
        rows = mg_size_add(rows, offset);
    }
    else {
        columns = mg_size_sub(columns, offset);
    }
    MgShape out = {.index = -1, .dtype = self->dtype};
    for (int i = 0; i < self->dim; i++) {
        if (i != first && i != second) {
            out.size[out.dim] = self->size[i];
            out.stride[out.dim++] = self->stride[i];
        }
    }
    out.size[out.dim] = mg_size_max(mg_size_min(rows, columns), mg_dim(0));
    out.stride[out.dim++] = mg_size_add(self->stride[first], self->stride[second]);
    return mg_shape_give_view(call, &out, self);
}

static int
unfold(MgShapeCall *call)
{
    MgShape *self;
    int dim;
    MgDim size, step;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    MG_TRY(mg_shape_size(call->args[2], &size));
    MG_TRY(mg_shape_size(call->args[3], &step));
    MG_NEED(self->dim > 0 && self->dim < MG_SHAPE_DIMS && mg_size_above(size, 0) && mg_size_above(step, 0) &&
            mg_size_le(size, self->size[dim]));
    MgShape out = *self;
    out.size[dim] = mg_size_add(mg_size_floordiv(mg_size_sub(self->size[dim], size), step), mg_dim(1));
    out.stride[dim] = mg_size_mul(self->stride[dim], step);
    out.size[out.dim] = size;
    out.stride[out.dim++] = self->stride[dim];
    return mg_shape_give_view(call, &out, self);
}

/* ---- tensors put together ---- */

/* Reads a sequence of tensors. */
static int
read_tensors(MgShapeCall *call, PyObject *list, MgShape **tensors, int *count)
{
    MG_NEED(list != NULL && (PyList_CheckExact(list) || PyTuple_CheckExact(list)) && Py_SIZE(list) > 0 &&
            Py_SIZE(list) <= MG_SHAPE_INPUTS);
    *count = (int)Py_SIZE(list);
    for (int i = 0; i < *count; i++) {
        MG_TRY(mg_shape_tensor(call, PyList_Check(list) ? PyList_GET_ITEM(list, i) : PyTuple_GET_ITEM(list, i),
                               &tensors[i]));
    }
    return MG_OK;
}

/* 1 for a tensor of size (0,). */
static int
is_nothing(const MgShape *shape)
{
    return shape->dim == 1 && mg_size_is(shape->size[0], 0);
}

/* cat(tensors, dim); as torch always did, tensors of size (0,) go with any others */
static int
concatenate(MgShapeCall *call)
{
    MgShape *tensors[MG_SHAPE_INPUTS];
    int count, dim = 0, channels_last = 1, example = 0;
    MG_TRY(read_tensors(call, call->args[0], tensors, &count));
    while (example < count - 1 && is_nothing(tensors[example])) {
        example++;
    }
    MgShape out = *tensors[example];
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_dim(call->args[1], out.dim, &dim));
    }
    MG_NEED(out.dim > 0 && !is_nothing(&out));
    out.size[dim] = mg_dim(0);
    for (int i = 0; i < count; i++) {
        int empty = is_nothing(tensors[i]);
        MG_NEED(tensors[i]->dim == out.dim || empty);
        for (int k = 0; k < out.dim && !empty; k++) {
            MG_NEED(k == dim || mg_size_eq(tensors[i]->size[k], out.size[k]));
        }
        out.size[dim] = empty ? out.size[dim] : mg_size_add(out.size[dim], tensors[i]->size[dim]);
        channels_last = channels_last && mg_shape_layout_suggests_channels_last(tensors[i]);
    }
    out.dtype = mg_dtype_common(tensors, count, NULL, 0, call->standard);
    MG_NEED(out.dtype != MG_NO_DTYPE);
    channels_last ? mg_shape_layout_channels_last(&out) : mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

static int
stack(MgShapeCall *call)
{
    MgShape *tensors[MG_SHAPE_INPUTS];
    int count, dim = 0;
    MG_TRY(read_tensors(call, call->args[0], tensors, &count));
    MgShape out = {.index = -1, .dim = tensors[0]->dim + 1};
    MG_NEED(out.dim <= MG_SHAPE_DIMS);
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_dim(call->args[1], out.dim, &dim));
    }
    for (int i = 0; i < count; i++) {
        MG_NEED(tensors[i]->dim == tensors[0]->dim);
        MgShape longer = *tensors[i]; /* as it is put together with the others, if the new dimension is the last */
        longer.size[longer.dim] = longer.stride[longer.dim] = mg_dim(1);
        longer.dim++;
        MG_NEED(!mg_shape_layout_suggests_channels_last(tensors[i]) &&
                !mg_shape_layout_suggests_channels_last(&longer));
        MG_NEED(mg_shape_layout_sizes_equal(tensors[i]->size, tensors[0]->size, tensors[0]->dim));
    }
    for (int k = 0; k < out.dim; k++) {
        out.size[k] = k == dim ? mg_dim(count) : tensors[0]->size[k - (k > dim)];
    }
    out.dtype = mg_dtype_common(tensors, count, NULL, 0, call->standard);
    MG_NEED(out.dtype != MG_NO_DTYPE);
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

static int
repeat(MgShapeCall *call)
{
    MgShape *self, out = {.index = -1};
    MgDim times[MG_SHAPE_DIMS];
    int count;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_sizes(call->args[1], times, &count));
    if (call->rule->data && count < self->dim) { /* tile: ones in front */
        memmove(times + self->dim - count, times, sizeof(times[0]) * (size_t)count);
        for (int i = 0; i < self->dim - count; i++) {
            times[i] = mg_dim(1);
        }
        count = self->dim;
    }
    MG_NEED(count >= self->dim);
    out.dim = count;
    out.dtype = self->dtype;
    for (int i = 0; i < count; i++) {
        MG_NEED(!mg_size_below(times[i], 0));
        out.size[i] = i < count - self->dim ? times[i] : mg_size_mul(times[i], self->size[i - (count - self->dim)]);
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

static int
repeat_interleave(MgShapeCall *call)
{
    MgShape *self;
    MgDim times;
    int dim = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_size(call->args[1], &times));
    MG_NEED(!mg_size_below(times, 0) && self->dim > 0);
    MgShape out = *self;
    if (call->args[2] == NULL) {
        out.size[0] = mg_shape_layout_elements(self);
        out.dim = 1;
    }
    else {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &dim));
    }
    out.size[dim] = mg_size_mul(out.size[dim], times);
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* flip(input, dims) */
static int
flip(MgShapeCall *call)
{
    MgShape *self;
    int64_t dims[MG_SHAPE_DIMS];
    int count, dim, seen = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_ints(call->args[1], dims, &count));
    for (int i = 0; i < count; i++) {
        MG_TRY(mg_shape_wrap(dims[i], self->dim, &dim));
        MG_NEED(!(seen & 1 << dim));
        seen |= 1 << dim;
    }
    MG_NEED(mg_shape_layout_is_regular(self));
    MgShape out = *self;
    mg_shape_layout_is_contiguous(self) ? mg_shape_layout_contiguous(&out) : mg_shape_layout_like(&out, self);
    return mg_shape_give(call, &out);
}

/* tril(input, diagonal) */
static int
triangle(MgShapeCall *call)
{
    MgShape *self;
    MgDim diagonal;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(self->dim >= 2 && (call->in_place || mg_shape_layout_is_regular(self)));
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_size(call->args[1], &diagonal));
    }
    return mg_shape_give_written(call, self);
}

static int
roll(MgShapeCall *call)
{
    MgShape *self;
    MgDim shifts[MG_SHAPE_DIMS];
    int64_t dims[MG_SHAPE_DIMS];
    int count, dim_count, dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_sizes(call->args[1], shifts, &count));
    MG_TRY(mg_shape_ints(call->args[2], dims, &dim_count));
    MG_NEED(count == dim_count && count > 0 && self->dim > 0 && mg_shape_layout_is_plain(self));
    for (int i = 0; i < count; i++) {
        MG_TRY(mg_shape_wrap(dims[i], self->dim, &dim));
    }
    MgShape out = *self;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* pad(input, pad, mode, value) */
static int
pad(MgShapeCall *call)
{
    MgShape *self;
    MgDim amounts[MG_SHAPE_DIMS];
    MgScalar value;
    int count;
    const char *mode = call->args[2] == NULL ? "constant" : mg_shape_text(call->args[2]);
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(mg_shape_sizes(call->args[1], amounts, &count));
    MG_NEED(mode != NULL && count % 2 == 0 && count / 2 <= self->dim);
    if (call->args[3] != NULL) {
        MG_TRY(mg_shape_number(call->args[3], &value));
        MG_NEED(mg_dtype_class(value.kind) <= mg_dtype_class(self->dtype) && value.kind != MG_C128);
    }
    int constant = strcmp(mode, "constant") == 0, any = constant, grows = 0, shrinks = 0;
    if (!constant) {
        MG_NEED((strcmp(mode, "reflect") == 0 || strcmp(mode, "replicate") == 0) && call->args[3] == NULL &&
                mg_shape_layout_is_plain(self) && mg_dtype_class(self->dtype) == MG_CLASS_FLOAT &&
                !mg_shape_layout_is_empty(self) && count / 2 <= 3 &&
                (self->dim == count / 2 + 1 || self->dim == count / 2 + 2));
    }
    MgShape out = *self;
    for (int i = 0; i < count / 2; i++) {
        int dim = self->dim - 1 - i;
        MgDim size = self->size[dim], before = amounts[2 * i], after = amounts[2 * i + 1];
        int adds = !mg_size_below(before, 0) && !mg_size_below(after, 0);
        if (!constant) {
            MG_NEED(adds && (mode[2] == 'p' || (mg_size_lt(before, size) && mg_size_lt(after, size))));
        }
        any = any || !mg_size_is(before, 0) || !mg_size_is(after, 0);
        shrinks = shrinks || !adds;
        out.size[dim] = mg_size_add(size, mg_size_add(before, after));
        if (!adds) {
            MgDim least = mg_size_sub(mg_dim(0), size);
            MG_NEED(mg_size_above(out.size[dim], 0) || (mg_size_is(out.size[dim], 0) && mg_size_is(size, 0)));
            MG_NEED(mg_size_le(least, before) && mg_size_le(least, after));
        }
    }
    int plain = mg_shape_layout_is_plain(self), same = plain && !shrinks; /* a copy has the same layout */
    for (int i = 0; !same && i < count; i++) {
        grows = grows || mg_size_above(amounts[i], 0);
    }
    MG_NEED(any && (plain || !mg_shape_layout_suggests_channels_last(self)));
    if (call->args[3] != NULL && (same || grows)) {
        MG_TRY(mg_shape_hold(call, self->dtype, value));
    }
    if (same || grows) {
        mg_shape_layout_contiguous(&out);
    }
    else { /* a copy of a part */
        MgShape part = out;
        mg_shape_layout_like(&out, &part);
    }
    return mg_shape_give(call, &out);
}

/* diff(input, n, dim, prepend, append): the difference of two parts of the input, put together with the others */
static int
diff(MgShapeCall *call)
{
    MgShape *self, *more;
    int dim;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(call->args[1] == NULL && self->dim > 0 && self->dim < 4);
    dim = self->dim - 1;
    if (call->args[2] != NULL) {
        MG_TRY(mg_shape_dim(call->args[2], self->dim, &dim));
    }
    MgShape out = *self;
    for (int i = 3; i < 5; i++) {
        if (call->args[i] != NULL) {
            MG_TRY(mg_shape_tensor(call, call->args[i], &more));
            MG_NEED(more->dtype == self->dtype && more->dim == self->dim);
            for (int k = 0; k < self->dim; k++) {
                MG_NEED(k == dim || mg_size_eq(more->size[k], self->size[k]));
            }
            out.size[dim] = mg_size_add(out.size[dim], more->size[dim]);
        }
    }
    MG_NEED(call->args[3] != NULL || call->args[4] != NULL || mg_shape_layout_is_contiguous(self));
    out.size[dim] = mg_size_sub(out.size[dim], mg_dim(1));
    MG_NEED(mg_size_above(out.size[dim], 0) && self->dtype != MG_BOOL);
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

static int
view_same(MgShapeCall *call)
{
    MgShape *self;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MgShape out = *self;
    return mg_shape_give_view(call, &out, self);
}

const MgShapeRule mg_shape_views[] = {
    {".view", "input size...", reshape, VIEW},
    {"reshape", "input shape...", reshape, RESHAPE},
    {".view_as", "input other", reshape, VIEW | SIZES_OF_OTHER},
    {".reshape_as", "input other", reshape, RESHAPE | SIZES_OF_OTHER},
    {"flatten", "input start_dim end_dim", flatten, 0},
    {"ravel", "input", ravel, 0},
    {"unflatten", "input dim sizes", unflatten, 0},
    {"transpose", "input dim0 dim1", transpose, 0},
    {"swapaxes", "input axis0 axis1", transpose, 0},
    {"swapdims", "input dim0 dim1", transpose, 0},
    {"t g.T", "input", transpose_matrix, 0},
    {"g.mT", "input", transpose_matrix, 1},
    {"permute", "input dims...", permute, 0},
    {"movedim moveaxis", "input source destination", move_dims, 0},
    {".expand", "input size...", expand, 0},
    {"broadcast_to", "input size", expand, 0},
    {".expand_as", "input other", expand, SIZES_OF_OTHER},
    {"unsqueeze", "input dim", unsqueeze, 0},
    {"squeeze", "input dim", squeeze, 0},
    {"narrow", "input dim start length", narrow, 0},
    {"select", "input dim index", select_one, 0},
    {"f.split t.split", "tensor split_size_or_sections dim", split, 0},
    {".split", "input split_size dim", split, 0},
    {"chunk", "input chunks dim", split, 1},
    {"unbind", "input dim", unbind, 0},
    {"diagonal", "input offset dim1 dim2", diagonal, 0},
    {".unfold", "input dimension size step", unfold, 0},
    {"t.cat t.concat t.concatenate", "tensors dim", concatenate, 0},
    {"t.stack", "tensors dim", stack, 0},
    {".repeat", "input repeats...", repeat, 0},
    {"tile", "input dims...", repeat, 1},
    {"repeat_interleave", "input repeats dim?", repeat_interleave, 0},
    {"tril+ triu+", "input diagonal", triangle, 0},
    {"flip", "input dims...", flip, 0},
    {"roll", "input shifts dims", roll, 0},
    {"n.pad", "input pad mode value?", pad, 0},
    {"diff", "input n dim prepend? append?", diff, 0},
    {".alias", "input", view_same, 0},
    {NULL, NULL, NULL, 0},
};
