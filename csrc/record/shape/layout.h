/* Tensors as shape functions see them: layouts, and which one an operation returns. */
#ifndef MG_SHAPE_LAYOUT_H
#define MG_SHAPE_LAYOUT_H

#include "record/shape/dtype.h"
#include "size/decide.h"

#define MG_DECLINE 2 /* a shape function does not know these arguments; no exception is set */

enum { MG_SHAPE_DIMS = 12 };

typedef struct {
    int dim;
    MgDim size[MG_SHAPE_DIMS];
    MgDim stride[MG_SHAPE_DIMS];
    MgDtype dtype;
    int flags; /* MG_META_... */
    int index; /* among the inputs; -1 for a new one */
} MgShape;

/* A Python number among the arguments. */
typedef struct {
    MgDtype kind; /* MG_BOOL, MG_I64, MG_F64 or MG_C128 */
    double now;   /* of a real one: its value in the call that is captured. See mg_scalar_value */
    MgDim varies; /* an int that differs from call to call; without an expression for all others */
    int is_real;  /* a float that differs from call to call */
} MgScalar;

/* The value, for good. */
double mg_scalar_value(MgScalar number);

int mg_scalar_is_zero(MgScalar number);

/* 1 if it is one of the numbers from `low` to `high`. */
int mg_scalar_is_within(MgScalar number, double low, double high);

/* The dtype that an operation on these tensors and numbers works in, MG_NO_DTYPE if it may be one that is not known here.
 * Tensors may be NULL. */
MgDtype mg_dtype_common(MgShape *const *tensors, int tensor_count, const MgScalar *numbers, int number_count,
                        MgDtype default_dtype);

/* Questions are decided by mg_sizes: see size/decide.h. */
MgDim mg_shape_layout_elements(const MgShape *shape);
int mg_shape_layout_is_empty(const MgShape *shape); /* it has no elements */
int mg_shape_layout_sizes_equal(const MgDim *left, const MgDim *right, int count);
int mg_shape_layout_has_index(MgDim index, MgDim size); /* into a dimension of that size, perhaps from its end */
int mg_shape_layout_expands(MgDim size, MgDim wanted);  /* it is that, or 1 */
int mg_shape_layout_is_contiguous(const MgShape *shape);
int mg_shape_layout_is_plain(const MgShape *shape);               /* contiguous, also by strides that have no meaning */
int mg_shape_layout_is_regular(const MgShape *shape);             /* that, or all strides have a meaning */
int mg_shape_layout_is_channels_last(const MgShape *shape);       /* of four dimensions */
int mg_shape_layout_suggests_channels_last(const MgShape *shape); /* of four or five, also with gaps */
int mg_shape_layout_is_dense(const MgShape *shape); /* each element has its own place, and there are no gaps */

/* Set the strides of a shape whose sizes are set. */
void mg_shape_layout_contiguous(MgShape *shape);
void mg_shape_layout_channels_last(MgShape *shape); /* of four or five dimensions */
void mg_shape_layout_like(MgShape *shape, const MgShape *like);
void mg_shape_layout_sorted(MgShape *shape, const MgShape *like); /* without gaps, dimensions in the same order */

/* The broadcast sizes of some tensors, of which some may be NULL. MG_DECLINE if they don't fit. */
int mg_shape_layout_broadcast(MgShape *shape, MgShape *const *tensors, int count);

/* The strides of the result of a pointwise operation that works in a dtype, for broadcast sizes. */
void mg_shape_layout_pointwise(MgShape *shape, MgShape *const *tensors, int count, MgDtype dtype);

/* The strides of a view with other sizes, of as many elements. 1 if there is such a view. */
int mg_shape_layout_view(const MgShape *from, MgShape *to);

#endif
