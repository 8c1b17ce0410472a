/* Dtypes and layouts: the rules by which torch promotes dtypes, and lays out the result of an operation.
 *
 * The reference for all of it is what FakeTensorMode says, which for most operations are torch's own descriptions of
 * them in Python: they convert the tensors to the dtype of the computation, expand them, and order the dimensions of the
 * result by the strides of the tensors. */
#include "record/shape/layout.h"

#include <math.h>

/* ---- dtypes ---- */

MgDtypeClass
mg_dtype_class(MgDtype dtype)
{
    return dtype == MG_BOOL  ? MG_CLASS_BOOL
           : dtype <= MG_I64 ? MG_CLASS_INT
           : dtype <= MG_F64 ? MG_CLASS_FLOAT
                             : MG_CLASS_COMPLEX;
}

MgDtype
mg_dtype_to_real(MgDtype dtype)
{
    return dtype == MG_C64 ? MG_F32 : dtype == MG_C128 ? MG_F64 : dtype;
}

static MgDtype
to_complex(MgDtype dtype)
{
    return dtype == MG_F64 || dtype == MG_C128 ? MG_C128 : MG_C64;
}

MgDtype
mg_dtype_promote(MgDtype left, MgDtype right)
{
    if (left == MG_NO_DTYPE || right == MG_NO_DTYPE) {
        return left == MG_NO_DTYPE ? right : left;
    }
    MgDtype low = left < right ? left : right, high = left < right ? right : left;
    if (low == high) {
        return high;
    }
    if (high >= MG_C64) {
        return low == MG_F64 ? MG_C128 : high;
    }
    if (low == MG_F16 && high == MG_BF16) {
        return MG_F32;
    }
    if (low == MG_U8 && high == MG_I8) {
        return MG_I16;
    }
    return high;
}

/* The dtype of those among the tensors that are of a class; tensors with dimensions come first. */
static MgDtype
highest(MgShape *const *tensors, int count, MgDtypeClass class)
{
    MgDtype found[2] = {MG_NO_DTYPE, MG_NO_DTYPE};
    for (int i = 0; i < count; i++) {
        if (tensors[i] == NULL) {
            continue;
        }
        MgDtype dtype = tensors[i]->dtype;
        MgDtypeClass own = mg_dtype_class(dtype);
        if (class == MG_CLASS_COMPLEX && own == MG_CLASS_FLOAT) {
            dtype = to_complex(dtype);
            own = MG_CLASS_COMPLEX;
        }
        if (own == class) {
            MgDtype *slot = &found[tensors[i]->dim == 0];
            *slot = mg_dtype_promote(*slot, dtype);
        }
    }
    return found[0] != MG_NO_DTYPE ? found[0] : found[1];
}

MgDtype
mg_dtype_common(MgShape *const *tensors, int tensor_count, const MgScalar *numbers, int number_count,
                MgDtype default_dtype)
{
    MgDtypeClass class = MG_CLASS_BOOL;
    for (int i = 0; i < tensor_count; i++) {
        if (tensors[i] != NULL && mg_dtype_class(tensors[i]->dtype) > class) {
            class = mg_dtype_class(tensors[i]->dtype);
        }
    }
    for (int i = 0; i < number_count; i++) {
        if (mg_dtype_class(numbers[i].kind) > class) {
            class = mg_dtype_class(numbers[i].kind);
        }
    }
    for (int i = 0; i < tensor_count && class == MG_CLASS_COMPLEX; i++) {
        if (tensors[i] != NULL && tensors[i]->dtype == MG_F16) {
            return MG_NO_DTYPE; /* it may be complex32, which is not known here */
        }
    }
    MgDtype found = highest(tensors, tensor_count, class);
    if (found != MG_NO_DTYPE) {
        return found;
    }
    if (class == MG_CLASS_COMPLEX && default_dtype == MG_F16) {
        return MG_NO_DTYPE; /* complex32 */
    }
    return class == MG_CLASS_BOOL    ? MG_BOOL
           : class == MG_CLASS_INT   ? MG_I64
           : class == MG_CLASS_FLOAT ? default_dtype
                                     : to_complex(default_dtype);
}

int
mg_dtype_fits(MgDtype from, MgDtype to)
{
    return mg_dtype_class(from) <= mg_dtype_class(to);
}

/* ---- numbers ---- */

double
mg_scalar_value(MgScalar number)
{
    mg_sizes.asked |= number.is_real;
    return number.varies.e == NULL ? number.now : (double)mg_size_value(number.varies);
}

int
mg_scalar_is_zero(MgScalar number)
{
    mg_sizes.asked |= number.is_real;
    return number.varies.e == NULL ? number.now == 0 : mg_size_is(number.varies, 0);
}

int
mg_scalar_is_within(MgScalar number, double low, double high)
{
    if (number.varies.e == NULL) {
        return number.now >= low && number.now <= high;
    }
    return (low <= (double)INT64_MIN || mg_size_le(mg_dim((int64_t)ceil(low)), number.varies)) &&
           (high >= (double)INT64_MAX || mg_size_le(number.varies, mg_dim((int64_t)floor(high))));
}

/* ---- questions ---- */

MgDim
mg_shape_layout_elements(const MgShape *shape)
{
    MgDim count = mg_dim(1);
    for (int i = 0; i < shape->dim; i++) {
        count = mg_size_mul(count, shape->size[i]);
    }
    return count;
}

int
mg_shape_layout_is_empty(const MgShape *shape)
{
    for (int i = 0; i < shape->dim; i++) {
        if (mg_size_is(shape->size[i], 0)) {
            return 1;
        }
    }
    return 0;
}

int
mg_shape_layout_sizes_equal(const MgDim *left, const MgDim *right, int count)
{
    for (int i = 0; i < count; i++) {
        if (!mg_size_eq(left[i], right[i])) {
            return 0;
        }
    }
    return 1;
}

int
mg_shape_layout_has_index(MgDim index, MgDim size)
{
    return mg_size_lt(index, size) && mg_size_le(mg_size_sub(mg_dim(0), size), index);
}

int
mg_shape_layout_expands(MgDim size, MgDim wanted)
{
    return mg_size_known_eq(size, wanted) || mg_size_is(size, 1) || mg_size_eq(size, wanted);
}

/* What a dimension multiplies the strides of those before it by. */
static MgDim
extent(MgDim size)
{
    return mg_size_max(size, mg_dim(1));
}

/* 1 if a shape is known to be plain, without a guard: asked first, since most are. */
static int
is_surely_plain(const MgShape *shape)
{
    MgDim expected = mg_dim(1);
    for (int i = shape->dim - 1; i >= 0; i--) {
        if (!mg_size_known_eq(shape->stride[i], expected)) {
            return 0;
        }
        expected = mg_size_mul(expected, extent(shape->size[i]));
    }
    return 1;
}

/* 1 if a dimension lies next to what is inside of it, which takes *expected: that then is what both take. A dimension of one
 * element does so with any stride. */
static int
is_next(MgDim size, MgDim stride, MgDim *expected)
{
    if (!mg_size_known_eq(stride, *expected)) {
        if (mg_size_is(size, 1)) {
            return 1;
        }
        if (!mg_size_eq(stride, *expected)) {
            return 0;
        }
    }
    *expected = mg_size_mul(*expected, size);
    return 1;
}

int
mg_shape_layout_is_contiguous(const MgShape *shape)
{
    if (is_surely_plain(shape) || mg_shape_layout_is_empty(shape)) {
        return 1;
    }
    MgDim expected = mg_dim(1);
    for (int i = shape->dim - 1; i >= 0; i--) {
        if (!is_next(shape->size[i], shape->stride[i], &expected)) {
            return 0;
        }
    }
    return 1;
}

int
mg_shape_layout_is_plain(const MgShape *shape)
{
    MgDim expected = mg_dim(1);
    for (int i = shape->dim - 1; i >= 0; i--) {
        if (!mg_size_eq(shape->stride[i], expected)) {
            return 0;
        }
        expected = mg_size_mul(expected, extent(shape->size[i]));
    }
    return 1;
}

int
mg_shape_layout_is_regular(const MgShape *shape)
{
    if (is_surely_plain(shape)) {
        return 1;
    }
    for (int i = 0; i < shape->dim; i++) {
        if (mg_size_below(shape->size[i], 2)) {
            return mg_shape_layout_is_plain(shape);
        }
    }
    return 1;
}

int
mg_shape_layout_is_channels_last(const MgShape *shape)
{
    static const int order[4] = {1, 3, 2, 0};
    if (shape->dim != 4) {
        return 0;
    }
    MgDim expected = mg_dim(1);
    for (int i = 0; i < 4; i++) {
        if (!is_next(shape->size[order[i]], shape->stride[order[i]], &expected)) {
            return 0;
        }
    }
    return 1;
}

int
mg_shape_layout_suggests_channels_last(const MgShape *shape)
{
    if ((shape->dim != 4 && shape->dim != 5) || mg_size_is(shape->stride[1], 0)) {
        return 0;
    }
    MgDim least = mg_dim(0);
    for (int i = 0; i < shape->dim; i++) {
        int at = i == 0 ? 1 : i == shape->dim - 1 ? 0 : shape->dim - i;
        if (mg_size_lt(shape->stride[at], least) || mg_size_is(shape->size[at], 0) ||
            (at == 0 && mg_size_eq(least, shape->stride[1]))) {
            return 0;
        }
        least = mg_size_mul(shape->stride[at], shape->size[at]);
    }
    return 1;
}

int
mg_shape_layout_is_dense(const MgShape *shape)
{
    if (is_surely_plain(shape) || mg_shape_layout_is_empty(shape)) {
        return 1;
    }
    int order[MG_SHAPE_DIMS], count = 0;
    for (int i = 0; i < shape->dim; i++) { /* sorted by stride, dimensions of one element left out */
        if (mg_size_is(shape->size[i], 1)) {
            continue;
        }
        int at = count++;
        for (; at > 0 && mg_size_lt(shape->stride[i], shape->stride[order[at - 1]]); at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    MgDim expected = mg_dim(1);
    for (int i = 0; i < count; i++) {
        if (!mg_size_eq(shape->stride[order[i]], expected)) {
            return 0;
        }
        expected = mg_size_mul(expected, shape->size[order[i]]);
    }
    return 1;
}

/* ---- layouts ---- */

void
mg_shape_layout_contiguous(MgShape *shape)
{
    MgDim stride = mg_dim(1);
    for (int i = shape->dim - 1; i >= 0; i--) {
        shape->stride[i] = stride;
        stride = mg_size_mul(stride, extent(shape->size[i]));
    }
}

void
mg_shape_layout_channels_last(MgShape *shape)
{
    MgDim stride = mg_dim(1);
    for (int i = 0; i < shape->dim; i++) {
        int at = i == 0 ? 1 : i == shape->dim - 1 ? 0 : shape->dim - i;
        shape->stride[at] = stride;
        stride = mg_size_mul(stride, shape->size[at]);
    }
}

/* Sorts the dimensions of some tensors of the same sizes by their strides, the fastest first. Where the tensors don't
 * tell, dimensions stay in their order. With `all` a tensor that does not tell leaves it to the next. */
static void
sort_dimensions(int dim, const MgDim *size, const MgDim *const *strides, int count, int *order)
{
    for (int i = 0; i < dim; i++) {
        order[i] = dim - 1 - i;
    }
    for (int i = 1; i < dim; i++) {
        int here = i;
        for (int there = i - 1; there >= 0; there--) {
            int a = order[there], b = order[here], swap = 0;
            for (int k = 0; k < count && swap == 0; k++) {
                MgDim left = strides[k][a], right = strides[k][b];
                if (mg_size_is(left, 0) || mg_size_is(right, 0)) {
                    continue;
                }
                swap = mg_size_lt(left, right) ? -1 : mg_size_lt(right, left) ? 1 : mg_size_lt(size[b], size[a]);
            }
            if (swap > 0) {
                order[there] = b;
                order[here] = a;
                here = there;
            }
            else if (swap < 0) {
                break;
            }
        }
    }
}

/* Contiguous strides for dimensions in an order, the fastest first. */
static void
lay_out(MgShape *shape, const int *order)
{
    MgDim stride = mg_dim(1);
    for (int i = 0; i < shape->dim; i++) {
        shape->stride[order[i]] = stride;
        stride = mg_size_mul(stride, extent(shape->size[order[i]]));
    }
}

void
mg_shape_layout_sorted(MgShape *shape, const MgShape *like)
{
    const MgDim *strides[1] = {like->stride};
    int order[MG_SHAPE_DIMS];
    sort_dimensions(shape->dim, shape->size, strides, 1, order);
    lay_out(shape, order);
}

void
mg_shape_layout_like(MgShape *shape, const MgShape *like)
{
    if (mg_shape_layout_is_dense(like)) {
        memmove(shape->stride, like->stride, sizeof(shape->stride));
        return;
    }
    mg_shape_layout_sorted(shape, like);
}

int
mg_shape_layout_broadcast(MgShape *shape, MgShape *const *tensors, int count)
{
    shape->dim = 0;
    for (int k = 0; k < count; k++) {
        if (tensors[k] != NULL && tensors[k]->dim > shape->dim) {
            shape->dim = tensors[k]->dim;
        }
    }
    for (int i = 0; i < shape->dim; i++) {
        shape->size[i] = mg_dim(1);
    }
    for (int k = 0; k < count; k++) {
        for (int i = 0; tensors[k] != NULL && i < tensors[k]->dim; i++) {
            MgDim size = tensors[k]->size[i], *slot = &shape->size[shape->dim - tensors[k]->dim + i];
            if (mg_size_known_eq(*slot, size)) {
                continue;
            }
            if (mg_size_is(*slot, 1)) {
                *slot = size;
            }
            else if (!mg_size_is(size, 1) && !mg_size_eq(*slot, size)) {
                return MG_DECLINE;
            }
        }
    }
    return MG_OK;
}

/* The strides of a tensor as expanded to some sizes, which it fits. */
static void
expand_strides(MgShape *wide, const MgShape *tensor)
{
    int lead = wide->dim - tensor->dim;
    for (int i = wide->dim - 1; i >= 0; i--) {
        if (i >= lead) {
            int is_same = mg_size_known_eq(tensor->size[i - lead], wide->size[i]) ||
                          !mg_size_is(tensor->size[i - lead], 1) || mg_size_is(wide->size[i], 1);
            wide->stride[i] = is_same ? tensor->stride[i - lead] : mg_dim(0);
        }
        else {
            int is_new = tensor->dim == 0 || !mg_size_is(wide->size[i], 1);
            wide->stride[i] = is_new ? mg_dim(0) : mg_size_mul(wide->size[i + 1], wide->stride[i + 1]);
        }
    }
}

void
mg_shape_layout_pointwise(MgShape *shape, MgShape *const *tensors, int count, MgDtype dtype)
{
    enum { MOST = 4 };
    MgShape expanded[MOST];
    const MgDim *strides[MOST];
    int used = 0, contiguous = 1, channels_last = 1;
    for (int k = 0; k < count && used < MOST; k++) {
        if (tensors[k] == NULL) {
            continue;
        }
        MgShape own = *tensors[k];
        if (own.dtype != dtype && dtype != MG_NO_DTYPE) { /* it is converted first */
            mg_shape_layout_like(&own, tensors[k]);
        }
        MgShape *wide = &expanded[used];
        *wide = *shape;
        expand_strides(wide, &own);
        contiguous = contiguous && mg_shape_layout_is_contiguous(wide);
        channels_last = channels_last && mg_shape_layout_is_channels_last(wide);
        strides[used++] = wide->stride;
    }
    if (shape->dim < 2 || used == 0 || (contiguous && !channels_last)) {
        mg_shape_layout_contiguous(shape);
    }
    else if (channels_last && !contiguous) {
        mg_shape_layout_channels_last(shape);
    }
    else {
        int order[MG_SHAPE_DIMS];
        sort_dimensions(shape->dim, shape->size, strides, used, order);
        lay_out(shape, order);
    }
}

/* 1 if a dimension of a view is made of a chunk of which `made` elements are inside of it. */
static int
is_of_chunk(MgDim made, MgDim chunk, MgDim size)
{
    return mg_size_known_eq(mg_size_mul(made, size), chunk) || mg_size_lt(made, chunk) || mg_size_is(size, 1);
}

int
mg_shape_layout_view(const MgShape *from, MgShape *to)
{
    if (is_surely_plain(from) || mg_shape_layout_is_empty(from)) {
        mg_shape_layout_contiguous(to);
        return 1;
    }
    int at = to->dim - 1;
    MgDim base = from->stride[from->dim - 1], chunk = mg_dim(1), made = mg_dim(1);
    for (int i = from->dim - 1; i >= 0; i--) {
        chunk = mg_size_mul(chunk, from->size[i]);
        MgDim inside = mg_size_mul(chunk, base);
        if (i > 0 && is_next(from->size[i - 1], from->stride[i - 1], &inside)) {
            continue;
        }
        /* the end of dimensions that lie one in another */
        for (; at >= 0 && is_of_chunk(made, chunk, to->size[at]); at--) {
            to->stride[at] = mg_size_mul(made, base);
            made = mg_size_mul(made, to->size[at]);
        }
        if (!mg_size_eq(made, chunk)) {
            return 0;
        }
        if (i > 0) {
            base = from->stride[i - 1];
            chunk = made = mg_dim(1);
        }
    }
    return at == -1;
}
