/* Shape functions of pointwise operations: broadcasting, type promotion, and the layout that follows from both. */
#include "record/shape/arguments.h"

#include <math.h>

/* How the dtype of the result follows from the common dtype of the arguments; the rule's data, with the rest below. */
enum {
    SAME = 0,     /* it is that */
    TO_FLOAT = 1, /* integers become the default dtype */
    TO_BOOL = 2,
    TO_REAL = 3, /* complex becomes float */
    FIRST = 4,   /* the first argument's */
    TO_LONG = 5, /* bool becomes int64 */
    RULE = 15,
    /* the common dtypes that the operation is known for; others are errors, or left to FakeTensorMode */
    BOOLS = 16,
    INTS = 32,
    FLOATS = 64,
    COMPLEX = 128,
    REALS = INTS | FLOATS,
    NUMBERS = INTS | FLOATS | COMPLEX,
    ANY = BOOLS | NUMBERS,
    /* what it is besides */
    NO_GRAD = 256,        /* the result never requires grad */
    EXACT = 512,          /* it computes in the common dtype itself */
    TENSORS_ONLY = 1024,  /* no numbers */
    NUMBER_SECOND = 2048, /* the second argument is a number that has no say in the dtype */
    FLAG_SECOND = 4096,   /* the second argument is a bool: in place */
    PLAIN = 8192,         /* its layout is known for plain tensors only */
    REVERSED = 16384,     /* the second argument's layout comes first */
    NO_BOOLS = 32768,     /* eager raises for them */
    TENSOR_FIRST = 65536, /* the first argument is no number */
    OTHER_BOOLS = 131072, /* not known for them, though the common dtype may be another */
    REGULAR = 262144,     /* its layout is known for regular tensors only */
    NO_ZERO = 524288,     /* eager raises for integers and the number 0 */
};

static int
is_known(int data, MgDtype dtype)
{
    return (data & (BOOLS << mg_dtype_class(dtype))) != 0;
}

static int
is_half(MgDtype dtype)
{
    return dtype == MG_F16 || dtype == MG_BF16;
}

/* The dtype in which torch's own descriptions compute. */
static MgDtype
computation(int data, MgDtype dtype)
{
    return is_half(dtype) && !(data & EXACT) ? MG_F32 : dtype;
}

/* The result for arguments that are tensors or numbers. `tensors` may hold NULL; the first ones promote. */
static int
give_pointwise(MgShapeCall *call, MgShape **tensors, int count, MgDtype common)
{
    int data = call->rule->data;
    MgShape out = {.index = -1};
    MG_NEED(common != MG_NO_DTYPE && is_known(data, common));
    MG_TRY(mg_shape_layout_broadcast(&out, tensors, count));
    MgDtype inner = common;
    out.dtype = common;
    switch (data & RULE) {
        case TO_FLOAT:
            out.dtype = inner = mg_dtype_class(common) < MG_CLASS_FLOAT ? call->standard : common;
            break;
        case TO_BOOL:
            out.dtype = MG_BOOL;
            break;
        case TO_REAL:
            out.dtype = mg_dtype_to_real(common);
            MG_NEED(!call->in_place || out.dtype == common);
            break;
        case FIRST:
            out.dtype = tensors[0]->dtype;
            break;
        case TO_LONG:
            out.dtype = inner = common == MG_BOOL ? MG_I64 : common;
            break;
        default:
            break;
    }
    if (data & NO_GRAD) {
        MG_NEED(!call->in_place || !call->needs_grad);
        call->needs_grad = 0;
    }
    if (call->in_place) {
        MgShape *self = tensors[0];
        MG_NEED(self != NULL && out.dim == self->dim && mg_dtype_fits(out.dtype, self->dtype) &&
                mg_shape_layout_sizes_equal(out.size, self->size, out.dim));
        return mg_shape_give_changed(call, self);
    }
    for (int i = 0; i < count; i++) {
        MG_NEED(!(data & PLAIN) || tensors[i] == NULL || mg_shape_layout_is_plain(tensors[i]));
        MG_NEED(!(data & REGULAR) || tensors[i] == NULL || mg_shape_layout_is_regular(tensors[i]));
    }
    if ((data & REVERSED) && count > 1) {
        MgShape *first = tensors[0];
        tensors[0] = tensors[1];
        tensors[1] = first;
    }
    mg_shape_layout_pointwise(&out, tensors, count, computation(data, inner));
    return mg_shape_give(call, &out);
}

/* The numbers that eager converts to the dtype of the computation have to fit. */
static int
hold_numbers(MgShapeCall *call, MgDtype dtype, const MgScalar *numbers, int count)
{
    for (int i = 0; i < count && dtype != MG_NO_DTYPE; i++) {
        MG_TRY(mg_shape_hold(call, dtype, numbers[i]));
    }
    return MG_OK;
}

/* Integers that are divided by the number 0: eager raises. */
static int
check_divisor(MgShapeCall *call, MgShape *const *tensors, const MgScalar *numbers, MgDtype common)
{
    if (tensors[1] == NULL && numbers[0].kind != MG_C128 && common != MG_NO_DTYPE &&
        mg_dtype_class(common) < MG_CLASS_FLOAT && mg_scalar_is_zero(numbers[0]) &&
        !mg_shape_layout_is_empty(tensors[0])) {
        return mg_shape_fail(call, "integers divided by zero");
    }
    return MG_OK;
}

/* Reads arguments that are tensors or numbers. */
static int
read_operands(MgShapeCall *call, int first, int count, MgShape **tensors, MgScalar *numbers, int *number_count)
{
    int found = 0, bools = 0;
    *number_count = 0;
    for (int i = 0; i < count; i++) {
        PyObject *value = call->args[first + i];
        MG_NEED(value != NULL);
        tensors[i] = NULL;
        if (Py_TYPE(value) == &MgRef_Type) {
            MG_TRY(mg_shape_tensor(call, value, &tensors[i]));
            bools = bools || tensors[i]->dtype == MG_BOOL;
            found++;
        }
        else {
            MG_NEED(!(call->rule->data & TENSORS_ONLY) && numbers != NULL);
            MG_NEED(!(call->rule->data & TENSOR_FIRST) || i > 0);
            bools = bools || PyBool_Check(value);
            MG_TRY(mg_shape_number(value, &numbers[(*number_count)++]));
        }
    }
    MG_NEED(!bools || !(call->rule->data & OTHER_BOOLS));
    if (bools && (call->rule->data & NO_BOOLS)) {
        return mg_shape_fail(call, "subtraction of bools");
    }
    return found > 0 ? MG_OK : MG_DECLINE;
}

static int
unary(MgShapeCall *call)
{
    MgShape *tensors[1];
    MG_TRY(mg_shape_tensor(call, call->args[0], &tensors[0]));
    if (call->rule->data & FLAG_SECOND) { /* F.relu(x, inplace=True) and its like; other arguments are numbers */
        MgScalar numbers[MG_SHAPE_ARGS] = {0};
        const char *end = strchr(call->rule->signature, ' ');
        for (int i = 1; end != NULL; i++, end = strchr(end + 1, ' ')) {
            int flag;
            if (strcmp(end, " inplace") == 0) {
                MG_TRY(mg_shape_bool(call->args[i], 0, &flag)); /* anything that is true would do */
                call->in_place = call->in_place || flag;
            }
            else if (call->args[i] != NULL) {
                MG_TRY(mg_shape_number(call->args[i], &numbers[i]));
                MG_NEED(numbers[i].kind == MG_I64 || numbers[i].kind == MG_F64);
                MG_NEED(strncmp(end, " alpha", 6) != 0 || !mg_scalar_is_zero(numbers[i]));
            }
            if (strncmp(end, " max_val", 8) == 0) { /* hardtanh: from -1 to 1 */
                MgScalar limits[2] = {call->args[1] == NULL ? (MgScalar){.kind = MG_F64, .now = -1} : numbers[1],
                                      call->args[2] == NULL ? (MgScalar){.kind = MG_F64, .now = 1} : numbers[2]};
                MG_NEED(mg_scalar_value(limits[0]) <= mg_scalar_value(limits[1]));
                MG_TRY(hold_numbers(call, tensors[0]->dtype, limits, 2));
            }
        }
    }
    return give_pointwise(call, tensors, 1, tensors[0]->dtype);
}

static int
gelu(MgShapeCall *call)
{
    const char *text = mg_shape_text(call->args[1]);
    MG_NEED(call->args[1] == NULL || (text != NULL && (strcmp(text, "none") == 0 || strcmp(text, "tanh") == 0)));
    return unary(call);
}

static int
binary(MgShapeCall *call)
{
    MgShape *tensors[2];
    MgScalar numbers[2] = {0}, alpha;
    int count;
    MG_TRY(read_operands(call, 0, 2, tensors, numbers, &count));
    MgDtype common = mg_dtype_common(tensors, 2, numbers, count, call->standard);
    if (call->args[2] != NULL) { /* alpha */
        MG_TRY(mg_shape_number(call->args[2], &alpha));
        MG_NEED(mg_dtype_class(alpha.kind) <= mg_dtype_class(common) && alpha.kind != MG_BOOL);
        MG_TRY(hold_numbers(call, common, &alpha, 1));
        for (int i = 0; i < 2; i++) { /* a product comes first, with its own layout */
            MG_NEED(tensors[i] == NULL ||
                    (mg_shape_layout_is_dense(tensors[i]) && mg_shape_layout_is_regular(tensors[i])));
        }
    }
    MG_NEED(tensors[0] != NULL || !call->in_place);
    MG_TRY(call->rule->data & NO_ZERO ? check_divisor(call, tensors, numbers, common) : MG_OK);
    return give_pointwise(call, tensors, 2, common);
}

/* div: its rounding mode decides whether integers stay integers */
static int
divide(MgShapeCall *call)
{
    MgShape *tensors[2];
    MgScalar numbers[2] = {0};
    int count;
    MG_TRY(read_operands(call, 0, 2, tensors, numbers, &count));
    MG_NEED(tensors[0] != NULL || !call->in_place);
    MgDtype common = mg_dtype_common(tensors, 2, numbers, count, call->standard);
    if (call->args[2] != NULL) {
        static const MgShapeRule rounding = {NULL, NULL, NULL, SAME | REALS | PLAIN};
        const char *mode = mg_shape_text(call->args[2]);
        MG_NEED(mode != NULL && (strcmp(mode, "floor") == 0 || strcmp(mode, "trunc") == 0));
        call->rule = &rounding;
        MG_TRY(check_divisor(call, tensors, numbers, common));
    }
    return give_pointwise(call, tensors, 2, common);
}

static int
power(MgShapeCall *call)
{
    MgShape *tensors[2];
    MgScalar numbers[2] = {0};
    int count;
    MG_TRY(read_operands(call, 0, 2, tensors, numbers, &count));
    MG_NEED(tensors[0] != NULL || !call->in_place);
    MgDtype common = mg_dtype_common(tensors, 2, numbers, count, call->standard);
    if (common != MG_NO_DTYPE && mg_dtype_class(common) == MG_CLASS_INT && tensors[1] == NULL &&
        !mg_scalar_is_within(numbers[0], 0, HUGE_VAL)) {
        return mg_shape_fail(call, "integers to a negative power");
    }
    if (tensors[1] == NULL && (mg_dtype_class(common) == MG_CLASS_INT || is_half(common))) {
        MG_TRY(hold_numbers(call, common, numbers, 1));
    }
    return give_pointwise(call, tensors, 2, common);
}

/* clamp(input, min, max), clip */
static int
clamp(MgShapeCall *call)
{
    MgShape *tensors[3] = {NULL, NULL, NULL};
    MgScalar numbers[2] = {0};
    int count = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &tensors[0]));
    MG_NEED(call->args[1] != NULL || call->args[2] != NULL);
    for (int i = 1; i < 3; i++) {
        if (call->args[i] != NULL && Py_TYPE(call->args[i]) == &MgRef_Type) {
            MG_TRY(mg_shape_tensor(call, call->args[i], &tensors[i]));
        }
        else if (call->args[i] != NULL) {
            MG_TRY(mg_shape_number(call->args[i], &numbers[count++]));
        }
    }
    MG_NEED(count == 0 || (tensors[1] == NULL && tensors[2] == NULL));
    MG_NEED(mg_shape_layout_is_dense(tensors[0]) &&
            mg_shape_layout_is_regular(tensors[0])); /* it is several steps, each with its layout */
    for (int i = 0; i < 3 && (tensors[1] != NULL || tensors[2] != NULL); i++) {
        MG_NEED(tensors[i] == NULL || mg_shape_layout_is_plain(tensors[i]));
    }
    MgDtype common = mg_dtype_common(tensors, 3, numbers, count, call->standard);
    MG_TRY(hold_numbers(call, common, numbers, count));
    return give_pointwise(call, tensors, 3, common);
}

/* where(condition, input, other), as a function; as a method its first two arguments change places */
static int
choose(MgShapeCall *call)
{
    MgShape *tensors[3];
    MgScalar numbers[2] = {0};
    int count;
    MG_TRY(read_operands(call, 1, 2, tensors + 1, numbers, &count));
    MG_TRY(mg_shape_tensor(call, call->args[0], &tensors[0]));
    MG_NEED(tensors[0]->dtype == MG_BOOL);
    MgDtype common = mg_dtype_common(tensors + 1, 2, numbers, count, call->standard);
    if (!is_half(common)) { /* these become infinite */
        MG_TRY(hold_numbers(call, common, numbers, count));
    }
    MgShape condition = *tensors[0], scalar = {.index = -1, .dtype = common};
    condition.dtype = common; /* it is not converted */
    tensors[0] = &condition;
    for (int i = 1; i < 3; i++) { /* numbers become tensors */
        tensors[i] = tensors[i] == NULL ? &scalar : tensors[i];
    }
    return give_pointwise(call, tensors, 3, common);
}

static int
choose_method(MgShapeCall *call)
{
    PyObject *first = call->args[0];
    call->args[0] = call->args[1];
    call->args[1] = first;
    return choose(call);
}

/* masked_fill(input, mask, value) */
static int
masked_fill(MgShapeCall *call)
{
    MgShape *tensors[2], *filler;
    MgScalar number;
    MG_TRY(mg_shape_tensor(call, call->args[0], &tensors[0]));
    MG_TRY(mg_shape_tensor(call, call->args[1], &tensors[1]));
    MG_NEED(tensors[1]->dtype == MG_BOOL && call->args[2] != NULL && tensors[0]->dim > 0);
    if (Py_TYPE(call->args[2]) == &MgRef_Type) {
        MG_TRY(mg_shape_tensor(call, call->args[2], &filler));
        MG_NEED(filler->dim == 0);
        number.kind = filler->dtype;
    }
    else {
        MG_TRY(mg_shape_number(call->args[2], &number));
        MG_TRY(mg_shape_hold(call, tensors[0]->dtype, number));
    }
    MG_NEED(mg_dtype_class(number.kind) <= mg_dtype_class(tensors[0]->dtype));
    MgShape out = {.index = -1, .dtype = tensors[0]->dtype};
    MG_TRY(mg_shape_layout_broadcast(&out, tensors, 2));
    if (call->in_place) {
        MG_NEED(out.dim == tensors[0]->dim && mg_shape_layout_sizes_equal(out.size, tensors[0]->size, out.dim));
        return mg_shape_give_changed(call, tensors[0]);
    }
    MgShape value = {.index = -1};
    MgShape *choices[3] = {tensors[1], &value, tensors[0]};
    mg_shape_layout_pointwise(&out, choices, 3,
                              MG_NO_DTYPE); /* where(mask, value, input), which is then made contiguous */
    if (!mg_shape_layout_is_contiguous(&out)) {
        mg_shape_layout_contiguous(&out);
    }
    return mg_shape_give(call, &out);
}

/* addcmul, addcdiv, lerp: three tensors of one dtype, and perhaps a number */
static int
ternary(MgShapeCall *call)
{
    MgShape *tensors[3];
    MgScalar number;
    int count;
    if (call->args[2] != NULL && Py_TYPE(call->args[2]) != &MgRef_Type) { /* lerp with a number */
        MG_NEED(call->rule->data & NUMBER_SECOND);
        MG_TRY(mg_shape_number(call->args[2], &number));
        MG_NEED(mg_dtype_class(number.kind) <= MG_CLASS_FLOAT);
        MG_TRY(read_operands(call, 0, 2, tensors, NULL, &count));
        tensors[2] = NULL;
    }
    else {
        MG_TRY(read_operands(call, 0, 3, tensors, NULL, &count));
    }
    if (call->args[3] != NULL) {
        MG_TRY(mg_shape_number(call->args[3], &number));
        MG_NEED(number.kind != MG_BOOL && mg_dtype_class(number.kind) <= mg_dtype_class(tensors[0]->dtype));
        MG_TRY(hold_numbers(call, computation(SAME, tensors[0]->dtype), &number, 1));
    }
    for (int i = 1; i < 3; i++) {
        MG_NEED(tensors[i] == NULL || tensors[i]->dtype == tensors[0]->dtype);
    }
    return give_pointwise(call, tensors, 3, tensors[0]->dtype);
}

/* fill_(value), zero_(), copy_(source): what is there does not matter */
static int
overwrite(MgShapeCall *call)
{
    MgShape *self, *source;
    MgScalar number;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL && Py_TYPE(call->args[1]) == &MgRef_Type) {
        MG_TRY(mg_shape_tensor(call, call->args[1], &source));
        MgShape *tensors[2] = {self, source};
        MgShape out;
        MG_NEED(call->rule->data || source->dim == 0);
        MG_NEED(mg_dtype_fits(source->dtype, self->dtype));
        MG_TRY(mg_shape_layout_broadcast(&out, tensors, 2));
        MG_NEED(out.dim == self->dim && mg_shape_layout_sizes_equal(out.size, self->size, out.dim));
    }
    else if (call->args[1] != NULL) {
        MG_NEED(!call->rule->data);
        MG_TRY(mg_shape_number(call->args[1], &number));
        MG_NEED(mg_dtype_class(number.kind) <= mg_dtype_class(self->dtype));
        MG_TRY(mg_shape_hold(call, self->dtype, number));
    }
    return mg_shape_give_changed(call, self);
}

/* dropout(input, p, training): the input itself if nothing is dropped */
static int
dropout(MgShapeCall *call)
{
    MgShape *self;
    MgScalar number = {.kind = MG_F64, .now = 0.5};
    int training, in_place;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_number(call->args[1], &number));
    }
    double share = mg_scalar_value(number);
    MG_TRY(mg_shape_bool(call->args[2], 1, &training));
    MG_TRY(mg_shape_bool(call->args[3], 0, &in_place));
    MG_NEED(number.kind != MG_C128 && share >= 0 && share <= 1 && !in_place &&
            (call->rule->data || call->args[2] != NULL));
    if (!training || share == 0 || mg_shape_layout_is_empty(self)) {
        return mg_shape_give_input(call, self);
    }
    MG_NEED(mg_dtype_class(self->dtype) == MG_CLASS_FLOAT && share < 1 && mg_shape_layout_is_dense(self));
    MgShape out = *self;
    MgShape *tensors[2] = {self, self};
    mg_shape_layout_pointwise(&out, tensors, 2, self->dtype);
    return mg_shape_give(call, &out);
}

/* glu: half of a dimension */
static int
gated(MgShapeCall *call)
{
    MgShape *self;
    int dim = 0;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(self->dim > 0 && mg_dtype_class(self->dtype) == MG_CLASS_FLOAT);
    if (call->args[1] == NULL) {
        dim = self->dim - 1;
    }
    else {
        MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
    }
    MG_NEED(mg_size_is(mg_size_mod(self->size[dim], mg_dim(2)), 0) && !mg_shape_layout_is_empty(self));
    MgDtype inner = computation(SAME, self->dtype);
    MgShape out = *self, half = *self, gate;
    if (inner != self->dtype) {
        mg_shape_layout_like(&half, self);
    }
    out.index = -1;
    out.size[dim] = half.size[dim] = mg_size_floordiv(self->size[dim], mg_dim(2));
    half.dtype = inner;
    gate = half;
    MgShape *tensors[2] = {&half, &gate};
    mg_shape_layout_pointwise(&gate, tensors, 1, inner); /* the sigmoid of one half, then its product with the other */
    mg_shape_layout_pointwise(&out, tensors, 2, inner);
    return mg_shape_give(call, &out);
}

#define UNARY_FLOAT                                                                                                  \
    "exp+ exp2+ expm1+ log+ log2+ log10+ log1p+ sin+ cos+ tan+ asin+ acos+ atan+ sinh+ cosh+ tanh+ asinh+ acosh+ "    \
    "atanh+ sqrt+ rsqrt+ erf+ erfc+ erfinv+ lgamma+ digamma+ reciprocal+ F.tanh s.expm1 "  \
    "s.log1p s.erf s.erfc s.exp2"

const MgShapeRule mg_shape_pointwise[] = {
    {UNARY_FLOAT, "input", unary, TO_FLOAT | BOOLS | INTS | FLOATS},
    {"sigmoid+ F.sigmoid s.expit", "input", unary, TO_FLOAT | BOOLS | INTS | FLOATS | REGULAR},
    {"neg+ negative+ o.neg square+ sgn+", "input", unary, SAME | NUMBERS},
    {"abs+ absolute+ o.abs", "input", unary, TO_REAL | NUMBERS},
    {"sign+ floor+ ceil+ trunc+ fix+", "input", unary, SAME | REALS},
    {"frac+", "input", unary, SAME | FLOATS},
    {"round+", "input", unary, SAME | REALS},
    {"relu+", "input", unary, SAME | REALS | REGULAR},
    {"bitwise_not+ o.invert o.inv .__invert__", "input", unary, SAME | BOOLS | INTS},
    {"logical_not+", "input", unary, TO_BOOL | ANY | NO_GRAD},
    {"isnan isinf isneginf isposinf signbit", "input", unary, TO_BOOL | BOOLS | REALS | NO_GRAD},
    {"isfinite", "input", unary, TO_BOOL | BOOLS | REALS | NO_GRAD | REGULAR},
    {"nan_to_num+", "input nan? posinf? neginf?", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"n.gelu", "input approximate", gelu, SAME | FLOATS | REGULAR},
    {"F.silu F.mish F.hardswish F.hardsigmoid", "input inplace", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"F.relu F.relu6", "input inplace", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"F.selu", "input inplace", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"F.leaky_relu", "input negative_slope inplace", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"F.elu F.celu", "input alpha inplace", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"n.softplus F.softplus", "input beta threshold", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"F.hardtanh", "input min_val max_val inplace", unary, SAME | FLOATS | FLAG_SECOND | REGULAR},
    {"n.logsigmoid F.logsigmoid", "input", unary, SAME | FLOATS | PLAIN},
    {"add+", "input other * alpha", binary, SAME | ANY},
    {"o.add o+iadd .__add__ .__radd__", "input other", binary, SAME | ANY},
    {"sub+ subtract+", "input other * alpha", binary, SAME | NUMBERS | NO_BOOLS},
    {"o.sub o+isub", "input other", binary, SAME | NUMBERS | NO_BOOLS},
    {"rsub", "input other * alpha", binary, SAME | NUMBERS | REVERSED | NO_BOOLS | TENSOR_FIRST},
    {"mul+ multiply+ o.mul o+imul", "input other", binary, SAME | ANY},
    {"div+ divide+", "input other * rounding_mode?", divide, TO_FLOAT | ANY},
    {"true_divide+ o.truediv o+itruediv", "input other", divide, TO_FLOAT | ANY},
    {"floor_divide+ o.floordiv o+ifloordiv", "input other", binary, SAME | REALS | PLAIN | NO_ZERO},
    {"remainder+ o.mod o+imod", "input other", binary, SAME | REALS | NO_ZERO},
    {"fmod+", "input other", binary, SAME | REALS | TENSOR_FIRST | NO_ZERO},
    {"pow+ o.pow o+ipow", "input exponent", power, SAME | NUMBERS | REGULAR},
    {"maximum minimum fmax fmin", "input other", binary, SAME | BOOLS | REALS | TENSORS_ONLY},
    {"atan2+ arctan2+", "input other", binary, TO_FLOAT | BOOLS | REALS | TENSORS_ONLY},
    {"hypot+ logaddexp logaddexp2", "input other", binary, SAME | FLOATS | TENSORS_ONLY | PLAIN},
    {"xlogy+", "input other", binary, TO_FLOAT | BOOLS | REALS | PLAIN},
    {"copysign+", "input other", binary, TO_FLOAT | BOOLS | REALS | PLAIN | TENSOR_FIRST},
    {"bitwise_and+ bitwise_or+ bitwise_xor+ o.and_ o.or_ o.xor o+iand o+ior o+ixor", "input other", binary,
     SAME | BOOLS | INTS},
    {"bitwise_left_shift+ bitwise_right_shift+", "input other", binary, SAME | INTS},
    {"o.lshift o.rshift o+ilshift o+irshift", "input other", binary, SAME | INTS | OTHER_BOOLS},
    {"logical_and+ logical_or+ logical_xor+", "input other", binary, TO_BOOL | ANY | NO_GRAD | TENSORS_ONLY | PLAIN},
    {"eq+ ne+ not_equal+", "input other", binary, TO_BOOL | ANY | NO_GRAD | TENSOR_FIRST},
    {"o.eq o.ne", "input other", binary, TO_BOOL | ANY | NO_GRAD},
    {"lt+ le+ gt+ ge+ less+ less_equal+ greater+ greater_equal+", "input other", binary,
     TO_BOOL | BOOLS | REALS | NO_GRAD | TENSOR_FIRST},
    {"o.lt o.le o.gt o.ge", "input other", binary, TO_BOOL | BOOLS | REALS | NO_GRAD},
    {"clamp+ clip+", "input min? max?", clamp, SAME | REALS},
    {"clamp_min+", "input min", clamp, SAME | REALS},
    {"clamp_max+", "input max", clamp, SAME | REALS},
    {"t.where", "condition input other", choose, SAME | ANY | EXACT},
    {".where", "input condition other", choose_method, SAME | ANY | EXACT},
    {"masked_fill+", "input mask value", masked_fill, 0},
    {"addcmul+", "input tensor1 tensor2 * value", ternary, SAME | NUMBERS | EXACT},
    {"addcdiv+", "input tensor1 tensor2 * value", ternary, SAME | FLOATS | COMPLEX | EXACT},
    {"lerp+", "input end weight", ternary, SAME | FLOATS | NUMBER_SECOND | EXACT},
    {"t.fill_ .fill_", "input value", overwrite, 0},
    {"t.zero_ .zero_", "input", overwrite, 0},
    {".copy_", "input src", overwrite, 1},
    {"F.dropout", "input p training inplace", dropout, 1},
    {"t.dropout", "input p train", dropout, 0},
    {"F.glu n.glu", "input dim", gated, 0},
    {NULL, NULL, NULL, 0},
};
