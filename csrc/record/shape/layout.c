/* Dtypes and layouts: the rules by which torch promotes dtypes, and lays out the result of an operation.
 *
 * The reference for all of it is what FakeTensorMode says, which for most operations are torch's own descriptions of
 * them in Python: they convert the tensors to the dtype of the computation, expand them, and order the dimensions of the
 * result by the strides of the tensors. */
#include "record/shape/layout.h"

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

/* ---- questions ---- */

int64_t
mg_shape_layout_elements(const MgShape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->dim; i++) {
        count *= shape->size[i];
    }
    return count;
}

int
mg_shape_layout_is_contiguous(const MgShape *shape)
{
    if (mg_shape_layout_elements(shape) == 0) {
        return 1;
    }
    int64_t expected = 1;
    for (int i = shape->dim - 1; i >= 0; i--) {
        if (shape->size[i] != 1) {
            if (shape->stride[i] != expected) {
                return 0;
            }
            expected *= shape->size[i];
        }
    }
    return 1;
}

int
mg_shape_layout_is_plain(const MgShape *shape)
{
    int64_t expected = 1;
    for (int i = shape->dim - 1; i >= 0; i--) {
        if (shape->stride[i] != expected) {
            return 0;
        }
        expected *= shape->size[i] > 1 ? shape->size[i] : 1;
    }
    return 1;
}

int
mg_shape_layout_is_regular(const MgShape *shape)
{
    for (int i = 0; i < shape->dim; i++) {
        if (shape->size[i] < 2) {
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
    int64_t expected = 1;
    for (int i = 0; i < 4; i++) {
        if (shape->size[order[i]] != 1) {
            if (shape->stride[order[i]] != expected) {
                return 0;
            }
            expected *= shape->size[order[i]];
        }
    }
    return 1;
}

int
mg_shape_layout_suggests_channels_last(const MgShape *shape)
{
    if ((shape->dim != 4 && shape->dim != 5) || shape->stride[1] == 0) {
        return 0;
    }
    int64_t least = 0;
    for (int i = 0; i < shape->dim; i++) {
        int at = i == 0 ? 1 : i == shape->dim - 1 ? 0 : shape->dim - i;
        if (shape->size[at] == 0 || shape->stride[at] < least || (at == 0 && least == shape->stride[1])) {
            return 0;
        }
        least = shape->stride[at] * shape->size[at];
    }
    return 1;
}

int
mg_shape_layout_is_dense(const MgShape *shape)
{
    if (mg_shape_layout_elements(shape) < 2) {
        return 1;
    }
    int order[MG_SHAPE_DIMS], count = 0;
    for (int i = 0; i < shape->dim; i++) { /* sorted by stride, dimensions of one element left out */
        if (shape->size[i] == 1) {
            continue;
        }
        int at = count++;
        for (; at > 0 && shape->stride[order[at - 1]] > shape->stride[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    int64_t expected = 1;
    for (int i = 0; i < count; i++) {
        if (shape->stride[order[i]] != expected) {
            return 0;
        }
        expected *= shape->size[order[i]];
    }
    return 1;
}

/* ---- layouts ---- */

void
mg_shape_layout_contiguous(MgShape *shape)
{
    int64_t stride = 1;
    for (int i = shape->dim - 1; i >= 0; i--) {
        shape->stride[i] = stride;
        stride *= shape->size[i] > 1 ? shape->size[i] : 1;
    }
}

void
mg_shape_layout_channels_last(MgShape *shape)
{
    int64_t stride = 1;
    for (int i = 0; i < shape->dim; i++) {
        int at = i == 0 ? 1 : i == shape->dim - 1 ? 0 : shape->dim - i;
        shape->stride[at] = stride;
        stride *= shape->size[at];
    }
}

/* Sorts the dimensions of some tensors of the same sizes by their strides, the fastest first. Where the tensors don't
 * tell, dimensions stay in their order. With `all` a tensor that does not tell leaves it to the next. */
static void
sort_dimensions(int dim, const int64_t *size, const int64_t *const *strides, int count, int *order)
{
    for (int i = 0; i < dim; i++) {
        order[i] = dim - 1 - i;
    }
    for (int i = 1; i < dim; i++) {
        int here = i;
        for (int there = i - 1; there >= 0; there--) {
            int a = order[there], b = order[here], swap = 0;
            for (int k = 0; k < count && swap == 0; k++) {
                int64_t left = strides[k][a], right = strides[k][b];
                if (left == 0 || right == 0) {
                    continue;
                }
                swap = left < right ? -1 : left > right ? 1 : size[b] >= size[a] ? 0 : 1;
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
    int64_t stride = 1;
    for (int i = 0; i < shape->dim; i++) {
        shape->stride[order[i]] = stride;
        stride *= shape->size[order[i]] > 1 ? shape->size[order[i]] : 1;
    }
}

void
mg_shape_layout_sorted(MgShape *shape, const MgShape *like)
{
    const int64_t *strides[1] = {like->stride};
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
        shape->size[i] = 1;
    }
    for (int k = 0; k < count; k++) {
        for (int i = 0; tensors[k] != NULL && i < tensors[k]->dim; i++) {
            int64_t size = tensors[k]->size[i], *slot = &shape->size[shape->dim - tensors[k]->dim + i];
            if (*slot != size && *slot != 1 && size != 1) {
                return MG_DECLINE;
            }
            *slot = *slot == 1 ? size : *slot;
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
            wide->stride[i] = tensor->size[i - lead] == 1 && wide->size[i] != 1 ? 0 : tensor->stride[i - lead];
        }
        else {
            wide->stride[i] = wide->size[i] != 1 || tensor->dim == 0 ? 0 : wide->size[i + 1] * wide->stride[i + 1];
        }
    }
}

void
mg_shape_layout_pointwise(MgShape *shape, MgShape *const *tensors, int count, MgDtype dtype)
{
    enum { MOST = 4 };
    MgShape expanded[MOST];
    const int64_t *strides[MOST];
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

int
mg_shape_layout_view(const MgShape *from, MgShape *to)
{
    if (mg_shape_layout_elements(from) == 0) {
        mg_shape_layout_contiguous(to);
        return 1;
    }
    int at = to->dim - 1;
    int64_t base = from->dim == 0 ? 1 : from->stride[from->dim - 1], chunk = 1, made = 1;
    for (int i = from->dim - 1; i >= 0; i--) {
        chunk *= from->size[i];
        /* the end of dimensions that lie one in another */
        if (i == 0 || (from->size[i - 1] != 1 && from->stride[i - 1] != chunk * base)) {
            while (at >= 0 && (made < chunk || to->size[at] == 1)) {
                to->stride[at] = made * base;
                made *= to->size[at];
                at--;
            }
            if (made != chunk) {
                return 0;
            }
            if (i > 0) {
                base = from->stride[i - 1];
                chunk = made = 1;
            }
        }
    }
    while (from->dim == 0 && at >= 0) {
        to->stride[at--] = 1;
    }
    return at == -1;
}
