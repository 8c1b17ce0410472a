/* Shape functions of what makes tensors, copies and converts them, or asks for their metadata. */
#include "record/shape/arguments.h"
#include "record/symbol.h"

/* ---- conversions ---- */

enum { AS_IT_IS, PRESERVE, CONTIGUOUS, CHANNELS_LAST };

/* Reads a memory format. */
static int
read_format(PyObject *value, int otherwise, int *format)
{
    *format = otherwise;
    if (value == NULL) {
        return MG_OK;
    }
    MG_NEED(Py_TYPE(value) == mg_torch.memory_format);
    PyObject *text = PyObject_Str(value); /* such as torch.preserve_format */
    if (text == NULL) {
        return MG_ERR;
    }
    *format = PyUnicode_CompareWithASCIIString(text, "torch.preserve_format") == 0     ? PRESERVE
              : PyUnicode_CompareWithASCIIString(text, "torch.contiguous_format") == 0 ? CONTIGUOUS
              : PyUnicode_CompareWithASCIIString(text, "torch.channels_last") == 0     ? CHANNELS_LAST
                                                                                       : AS_IT_IS;
    Py_DECREF(text);
    return *format == AS_IT_IS ? MG_DECLINE : MG_OK;
}

static int
lay_out(MgShape *out, const MgShape *like, int format)
{
    if (format == CHANNELS_LAST) {
        MG_NEED(out->dim == 4);
        mg_shape_layout_channels_last(out);
    }
    else if (format == CONTIGUOUS) {
        mg_shape_layout_contiguous(out);
    }
    else {
        mg_shape_layout_like(out, like);
    }
    return MG_OK;
}

/* The tensor in another dtype: itself if there is nothing to do. A `strict` format is that of contiguous(): to() takes
 * any tensor that is not channels last for a contiguous one. */
static int
give_converted(MgShapeCall *call, MgShape *self, MgDtype dtype, int copy, int format, int strict)
{
    if (dtype == self->dtype && !copy && format == PRESERVE) {
        return mg_shape_give_input(call, self);
    }
    if (dtype == self->dtype && !copy && format == CONTIGUOUS && !strict) {
        MG_NEED((self->dim != 4 && self->dim != 5) ||
                mg_shape_layout_is_plain(self)); /* else it may be channels last */
        return mg_shape_give_input(call, self);
    }
    if (dtype == self->dtype && !copy &&
        (format == CONTIGUOUS ? mg_shape_layout_is_contiguous(self)
         : strict             ? mg_shape_layout_is_channels_last(self)
                              : self->dim == 4 && mg_shape_layout_suggests_channels_last(self))) {
        return mg_shape_give_input(call, self);
    }
    MgShape out = *self;
    out.dtype = dtype;
    call->needs_grad = call->grad && (self->flags & MG_META_REQUIRES_GRAD);
    MG_TRY(lay_out(&out, self, format));
    return mg_shape_give(call, &out);
}

/* to(dtype), to(device), to(device, dtype), to(other), each with non_blocking and copy */
static int
convert(MgShapeCall *call)
{
    MgShape *self, *other;
    int copy, format, ignored, next = 1;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MgDtype dtype = self->dtype;
    PyObject *value = call->args[next];
    if (value != NULL && Py_TYPE(value) == &MgRef_Type) {
        MG_TRY(mg_shape_tensor(call, value, &other));
        dtype = other->dtype;
        next++;
    }
    else {
        if (value != NULL && (PyUnicode_Check(value) || Py_TYPE(value) == mg_torch.device)) {
            MG_NEED(mg_shape_is_cpu(value));
            value = call->args[++next];
        }
        if (value != NULL && Py_TYPE(value) == mg_torch.dtype) {
            MG_TRY(mg_shape_dtype(value, dtype, &dtype));
            next++;
        }
    }
    PyObject *flags[2] = {next < 5 ? call->args[next] : NULL, next < 4 ? call->args[next + 1] : NULL};
    MG_NEED(next + 2 > 4 || call->args[next + 2] == NULL);
    MG_TRY(mg_shape_bool(flags[0], 0, &ignored));
    MG_TRY(mg_shape_bool(flags[1], 0, &copy));
    /* by keyword: device dtype non_blocking copy memory_format */
    MG_NEED(mg_shape_is_cpu(call->args[5]));
    if (call->args[6] != NULL) {
        MG_TRY(mg_shape_dtype(call->args[6], dtype, &dtype));
    }
    MG_TRY(mg_shape_bool(call->args[7], 0, &ignored));
    MG_TRY(mg_shape_bool(call->args[8], copy, &copy));
    MG_TRY(read_format(call->args[9], PRESERVE, &format));
    MG_NEED(!copy || format == PRESERVE);
    return give_converted(call, self, dtype, copy, format, 0);
}

/* float(), half() and so on: the dtype is the rule's data; type(dtype), type_as(other) */
static int
convert_to(MgShapeCall *call)
{
    MgShape *self;
    int format;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_format(call->args[1], PRESERVE, &format));
    return give_converted(call, self, (MgDtype)call->rule->data, 0, format, 0);
}

static int
convert_type(MgShapeCall *call)
{
    MgShape *self, *other;
    MgDtype dtype;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_NEED(call->args[1] != NULL);
    if (Py_TYPE(call->args[1]) == &MgRef_Type) {
        MG_NEED(call->rule->data);
        MG_TRY(mg_shape_tensor(call, call->args[1], &other));
        dtype = other->dtype;
    }
    else {
        MG_NEED(!call->rule->data && Py_TYPE(call->args[1]) == mg_torch.dtype);
        MG_TRY(mg_shape_dtype(call->args[1], self->dtype, &dtype));
    }
    return give_converted(call, self, dtype, 0, PRESERVE, 0);
}

static int
contiguous(MgShapeCall *call)
{
    MgShape *self;
    int format;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_format(call->args[1], CONTIGUOUS, &format));
    MG_NEED(format == CONTIGUOUS || (format == CHANNELS_LAST && self->dim == 4));
    return give_converted(call, self, self->dtype, 0, format, 1);
}

static int
copy_of(MgShapeCall *call)
{
    MgShape *self;
    int format;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_format(call->args[1], PRESERVE, &format));
    return give_converted(call, self, self->dtype, 1, format, 1);
}

static int
detach(MgShapeCall *call)
{
    MgShape *self;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MgShape out = *self;
    call->needs_grad = 0;
    call->detached = 1;
    return mg_shape_give(call, &out);
}

/* ---- new tensors ---- */

/* The keywords that all factories have, from `first` on: dtype layout device pin_memory requires_grad. */
static int
read_options(MgShapeCall *call, int first, MgDtype otherwise, MgDtype *dtype)
{
    int flag;
    MG_TRY(mg_shape_dtype(call->args[first], otherwise, dtype));
    MG_NEED(call->args[first + 1] == NULL || call->args[first + 1] == mg_torch.strided);
    MG_NEED(mg_shape_is_cpu(call->args[first + 2]));
    for (int i = 3; i < 5; i++) {
        MG_TRY(mg_shape_bool(call->args[first + i], 0, &flag));
        MG_NEED(!flag);
    }
    call->needs_grad = 0;
    return *dtype == MG_NO_DTYPE ? MG_DECLINE : MG_OK;
}

static int
read_new_sizes(PyObject *value, MgShape *out)
{
    MG_TRY(mg_shape_sizes(value, out->size, &out->dim));
    for (int i = 0; i < out->dim; i++) {
        MG_NEED(!mg_size_below(out->size[i], 0));
    }
    mg_shape_layout_contiguous(out);
    return MG_OK;
}

/* The dtype of a tensor that is filled with a number. (FakeTensors say complex32 of torch.full where the default dtype is
 * float16, which is not so.) */
static MgDtype
dtype_of_number(MgShapeCall *call, MgScalar number)
{
    return number.kind == MG_F64    ? call->standard
           : number.kind == MG_C128 ? (call->standard == MG_F64 ? MG_C128 : MG_C64)
                                    : number.kind;
}

enum { INTEGERS = 1, FLOATS_ONLY = 2, FILLED = 4 };

/* zeros, ones, empty, rand, randn: (size, dtype, ...); full: (size, value, dtype, ...) */
static int
make_sizes(MgShapeCall *call)
{
    MgShape out = {.index = -1};
    MgDtype dtype = call->standard;
    int data = call->rule->data;
    MG_NEED(call->args[0] != NULL);
    MG_TRY(read_new_sizes(call->args[0], &out));
    if (data & FILLED) {
        MgScalar number;
        MG_TRY(mg_shape_number(call->args[1], &number));
        dtype = dtype_of_number(call, number);
        MG_NEED(number.kind != MG_C128 || call->args[2] == NULL);
        MG_TRY(read_options(call, 2, dtype, &out.dtype));
        MG_TRY(number.kind == MG_C128 ? MG_OK : mg_shape_hold(call, out.dtype, number));
        return mg_shape_give(call, &out);
    }
    MG_TRY(read_options(call, 1, dtype, &out.dtype));
    MG_NEED(!(data & FLOATS_ONLY) || mg_dtype_class(out.dtype) == MG_CLASS_FLOAT);
    return mg_shape_give(call, &out);
}

/* zeros_like and its like: (input, dtype, ..., memory_format); full_like has a value */
static int
make_like(MgShapeCall *call)
{
    MgShape *self;
    MgScalar number;
    int format, first = call->rule->data & FILLED ? 2 : 1;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    if (first == 2) {
        MG_TRY(mg_shape_number(call->args[1], &number));
        MG_NEED(number.kind != MG_C128);
    }
    MgShape out = *self;
    MG_TRY(read_options(call, first, self->dtype, &out.dtype));
    MG_TRY(first == 2 ? mg_shape_hold(call, out.dtype, number) : MG_OK);
    MG_TRY(read_format(call->args[first + 5], PRESERVE, &format));
    MG_NEED(!(call->rule->data & FLOATS_ONLY) || mg_dtype_class(out.dtype) == MG_CLASS_FLOAT);
    if (format == PRESERVE && mg_shape_layout_is_contiguous(self)) {
        format = CONTIGUOUS;
    }
    MG_NEED(first == 1 || format != PRESERVE || mg_shape_layout_is_regular(self));
    MG_TRY(lay_out(&out, self, format));
    return mg_shape_give(call, &out);
}

/* new_zeros and its like: (input, size, dtype, ...); new_full has a value */
static int
make_new(MgShapeCall *call)
{
    MgShape *self, out = {.index = -1};
    MgScalar number;
    int first = call->rule->data & FILLED ? 3 : 2;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    MG_TRY(read_new_sizes(call->args[1], &out));
    if (first == 3) {
        MG_TRY(mg_shape_number(call->args[2], &number));
        MG_NEED(number.kind != MG_C128);
    }
    MG_TRY(read_options(call, first, self->dtype, &out.dtype));
    MG_TRY(first == 3 ? mg_shape_hold(call, out.dtype, number) : MG_OK);
    return mg_shape_give(call, &out);
}

/* How many numbers an arange has of which some differ from call to call: those from `start` on, by steps, before `end`. */
static int
count_range(PyObject *const *values, MgDim *length)
{
    MgDim start = mg_dim(0), end = mg_dim(0), one = mg_dim(1);
    int64_t step = 1;
    MG_TRY(values[0] == NULL ? MG_OK : mg_shape_size(values[0], &start));
    MG_TRY(values[1] == NULL ? MG_OK : mg_shape_size(values[1], &end));
    MG_TRY(values[2] == NULL ? MG_OK : mg_shape_int(values[2], &step));
    MG_NEED(step != 0);
    MgDim span = step > 0 ? mg_size_sub(end, start) : mg_size_sub(start, end), pace = mg_dim(step > 0 ? step : -step);
    MG_NEED(!mg_size_below(span, 0));
    *length = mg_size_floordiv(mg_size_add(span, mg_size_sub(pace, one)), pace);
    return MG_OK;
}

/* The same where all are known. */
static int
count_numbers(const MgScalar *numbers, MgDim *length)
{
    double start = mg_scalar_value(numbers[0]), end = mg_scalar_value(numbers[1]), step = mg_scalar_value(numbers[2]);
    double steps = (end - start) / step;
    MG_NEED(step != 0 && isfinite(step) && steps >= 0 && steps < 1e9 && start > -1e15 && start < 1e15 && end > -1e15 &&
            end < 1e15);
    *length = mg_dim((int64_t)steps + (steps > (double)(int64_t)steps));
    return MG_OK;
}

/* arange(end), arange(start, end), arange(start, end, step), and the keywords */
static int
arange(MgShapeCall *call)
{
    MgScalar numbers[3] = {{.kind = MG_I64}, {.kind = MG_I64}, {.kind = MG_I64, .now = 1}}; /* start, end, step */
    PyObject *end_value = call->args[1] != NULL ? call->args[1] : call->args[3];
    PyObject *values[3] = {call->args[0], end_value, call->args[2]};
    MG_NEED(call->args[1] == NULL || call->args[3] == NULL);
    if (end_value == NULL) {
        MG_NEED(call->args[2] == NULL && call->args[0] != NULL);
        values[0] = NULL;
        values[1] = call->args[0];
    }
    int whole = 1, varies = 0;
    for (int i = 0; i < 3; i++) {
        if (values[i] != NULL) {
            MG_TRY(mg_shape_number(values[i], &numbers[i]));
        }
        MG_NEED(numbers[i].kind == MG_I64 || numbers[i].kind == MG_F64);
        whole = whole && numbers[i].kind == MG_I64;
        varies = varies || numbers[i].varies.e != NULL;
    }
    MgShape out = {.index = -1, .dim = 1, .stride = {mg_dim(1)}};
    MG_TRY(whole && varies ? count_range(values, &out.size[0]) : count_numbers(numbers, &out.size[0]));
    MG_TRY(read_options(call, 4, whole ? MG_I64 : call->standard, &out.dtype));
    MG_NEED(whole || mg_dtype_class(out.dtype) == MG_CLASS_FLOAT); /* else torch rounds the numbers first */
    MG_NEED(out.dtype != MG_BOOL);
    return mg_shape_give(call, &out);
}

/* eye(n, m), and the keywords */
static int
eye(MgShapeCall *call)
{
    MgShape out = {.index = -1, .dim = 2};
    MG_TRY(mg_shape_size(call->args[0], &out.size[0]));
    out.size[1] = out.size[0];
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_size(call->args[1], &out.size[1]));
    }
    MG_NEED(!mg_size_below(out.size[0], 0) && !mg_size_below(out.size[1], 0));
    mg_shape_layout_contiguous(&out);
    MG_TRY(read_options(call, 2, call->standard, &out.dtype));
    return mg_shape_give(call, &out);
}

static int
linspace(MgShapeCall *call)
{
    MgShape out = {.index = -1, .dim = 1, .stride = {mg_dim(1)}};
    MgScalar numbers[2];
    for (int i = 0; i < 2; i++) {
        MG_TRY(mg_shape_number(call->args[i], &numbers[i]));
        MG_NEED(numbers[i].kind == MG_I64 || numbers[i].kind == MG_F64);
    }
    MG_TRY(mg_shape_size(call->args[2], &out.size[0]));
    MG_NEED(!mg_size_below(out.size[0], 0));
    MG_TRY(read_options(call, 3, call->standard, &out.dtype));
    MG_NEED(mg_dtype_class(out.dtype) == MG_CLASS_FLOAT);
    for (int i = 0; i < 2 && mg_size_above(out.size[0], i); i++) {
        MG_TRY(mg_shape_hold(call, out.dtype, numbers[i]));
    }
    return mg_shape_give(call, &out);
}

/* The highest kind of number of a nested list, such as torch.tensor takes, and the range of its numbers. Those that differ from
 * call to call are in it if `all` says so: int64 holds any. */
static int
read_nested(PyObject *value, MgShape *out, int depth, int all, MgDtype *kind, double *range)
{
    MgScalar number;
    if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) {
        MG_NEED(depth == out->dim);
        MG_TRY(mg_shape_number(value, &number));
        *kind = *kind == MG_NO_DTYPE || number.kind > *kind ? number.kind : *kind;
        if (all || number.varies.e == NULL) {
            double known = mg_scalar_value(number);
            range[0] = known < range[0] ? known : range[0];
            range[1] = known > range[1] ? known : range[1];
        }
        return MG_OK;
    }
    MG_NEED(depth < out->dim && mg_size_is(out->size[depth], Py_SIZE(value)));
    for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
        PyObject *item = PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
        MG_TRY(read_nested(item, out, depth + 1, all, kind, range));
    }
    return MG_OK;
}

/* tensor(data, dtype, device, requires_grad, pin_memory) */
static int
make_tensor(MgShapeCall *call)
{
    MgShape out = {.index = -1};
    MgDtype kind = MG_NO_DTYPE, wanted;
    double range[2] = {0, 0};
    int flag;
    PyObject *value = call->args[0];
    MG_NEED(value != NULL);
    while ((PyList_CheckExact(value) || PyTuple_CheckExact(value)) && Py_SIZE(value) > 0) {
        MG_NEED(out.dim < MG_SHAPE_DIMS);
        out.size[out.dim++] = mg_dim(Py_SIZE(value));
        value = PyList_Check(value) ? PyList_GET_ITEM(value, 0) : PyTuple_GET_ITEM(value, 0);
    }
    if (PyList_CheckExact(call->args[0]) && PyList_GET_SIZE(call->args[0]) == 0) {
        kind = MG_F64;
        out.dim = 1;
    }
    else {
        MG_TRY(mg_shape_dtype(call->args[1], MG_I64, &wanted));
        MG_TRY(read_nested(call->args[0], &out, 0, mg_dtype_class(wanted) == MG_CLASS_INT && wanted != MG_I64, &kind,
                           range));
    }
    MG_NEED(kind != MG_C128 || call->args[1] != NULL || call->standard != MG_F16); /* complex32 */
    MG_TRY(mg_shape_dtype(call->args[1], dtype_of_number(call, (MgScalar){.kind = kind}), &out.dtype));
    MG_NEED(mg_shape_is_cpu(call->args[2]) && mg_dtype_class(kind) <= mg_dtype_class(out.dtype));
    for (int i = 3; i < 5; i++) {
        MG_TRY(mg_shape_bool(call->args[i], 0, &flag));
        MG_NEED(!flag);
    }
    for (int i = 0; i < 2 && mg_dtype_class(out.dtype) == MG_CLASS_INT; i++) {
        MG_TRY(mg_shape_hold(call, out.dtype, (MgScalar){.kind = kind, .now = range[i]}));
    }
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

/* ---- questions about metadata ---- */

enum {
    SIZE,
    DIM,
    ELEMENTS,
    STRIDE,
    IS_CONTIGUOUS,
    IS_FLOAT,
    IS_COMPLEX,
    ELEMENT_SIZE,
    BYTES,
    IS_LEAF,
    LAYOUT,
    YES,
    NO,
    IS_SIGNED,
    SAME_SIZE,
    DEVICE_NUMBER,
};

static int
element_size(MgDtype dtype)
{
    static const int sizes[MG_DTYPE_COUNT] = {
        [MG_BOOL] = 1, [MG_U8] = 1,   [MG_I8] = 1,  [MG_I16] = 2, [MG_I32] = 4, [MG_I64] = 8,
        [MG_F16] = 2,  [MG_BF16] = 2, [MG_F32] = 4, [MG_F64] = 8, [MG_C64] = 8, [MG_C128] = 16,
    };
    return sizes[dtype];
}

static int
give_sizes(MgShapeCall *call, MgShape *self, int sizes)
{
    int dim;
    if (call->args[1] != NULL) {
        MG_TRY(mg_shape_dim(call->args[1], self->dim, &dim));
        MG_NEED(self->dim > 0);
        return mg_shape_give_object(call, mg_dim_object(sizes ? self->size[dim] : self->stride[dim]));
    }
    PyObject *tuple = mg_shape_tuple(sizes ? self->size : self->stride, self->dim);
    return mg_shape_give_object(call, sizes ? mg_symbol_size(tuple) : tuple);
}

static int
question(MgShapeCall *call)
{
    MgShape *self, *other;
    int format, class;
    MG_TRY(mg_shape_tensor(call, call->args[0], &self));
    class = mg_dtype_class(self->dtype);
    switch (call->rule->data) {
        case SIZE:
        case STRIDE:
            return give_sizes(call, self, call->rule->data == SIZE);
        case DIM:
            return mg_shape_give_object(call, PyLong_FromLong(self->dim));
        case ELEMENTS:
            return mg_shape_give_object(call, mg_dim_object(mg_shape_layout_elements(self)));
        case IS_CONTIGUOUS:
            MG_TRY(read_format(call->args[1], CONTIGUOUS, &format));
            MG_NEED(format == CONTIGUOUS);
            return mg_shape_give_object(call, PyBool_FromLong(mg_shape_layout_is_contiguous(self)));
        case IS_FLOAT:
            return mg_shape_give_object(call, PyBool_FromLong(class == MG_CLASS_FLOAT));
        case IS_COMPLEX:
            return mg_shape_give_object(call, PyBool_FromLong(class == MG_CLASS_COMPLEX));
        case IS_SIGNED:
            return mg_shape_give_object(call, PyBool_FromLong(self->dtype != MG_BOOL && self->dtype != MG_U8));
        case ELEMENT_SIZE:
            return mg_shape_give_object(call, PyLong_FromLong(element_size(self->dtype)));
        case BYTES:
            return mg_shape_give_object(
                call, mg_dim_object(mg_size_mul(mg_dim(element_size(self->dtype)), mg_shape_layout_elements(self))));
        case IS_LEAF:
            return mg_shape_give_object(call, PyBool_FromLong(!(self->flags & MG_META_NON_LEAF)));
        case LAYOUT:
            return mg_shape_give_object(call, Py_NewRef(mg_torch.strided));
        case DEVICE_NUMBER:
            return mg_shape_give_object(call, PyLong_FromLong(-1));
        case SAME_SIZE:
            MG_TRY(mg_shape_tensor(call, call->args[1], &other));
            return mg_shape_give_object(
                call, PyBool_FromLong(self->dim == other->dim &&
                                      mg_shape_layout_sizes_equal(self->size, other->size, self->dim)));
        default:
            return mg_shape_give_object(call, PyBool_FromLong(call->rule->data == YES));
    }
}

static int
nothing(MgShapeCall *call)
{
    return mg_shape_give_object(call, Py_NewRef(Py_None));
}

#define OPTIONS "* dtype? layout? device? pin_memory? requires_grad"

const MgShapeRule mg_shape_makers[] = {
    {".to", "input 1? 2 3 4 * device? dtype? non_blocking copy memory_format?", convert, 0},
    {".float", "input * memory_format?", convert_to, MG_F32},
    {".double", "input * memory_format?", convert_to, MG_F64},
    {".half", "input * memory_format?", convert_to, MG_F16},
    {".bfloat16", "input * memory_format?", convert_to, MG_BF16},
    {".bool", "input * memory_format?", convert_to, MG_BOOL},
    {".int", "input * memory_format?", convert_to, MG_I32},
    {".long", "input * memory_format?", convert_to, MG_I64},
    {".short", "input * memory_format?", convert_to, MG_I16},
    {".char", "input * memory_format?", convert_to, MG_I8},
    {".byte", "input * memory_format?", convert_to, MG_U8},
    {".type", "input dtype", convert_type, 0},
    {".type_as", "input other", convert_type, 1},
    {".contiguous", "input * memory_format", contiguous, 0},
    {"clone", "input * memory_format?", copy_of, 0},
    {"detach a._get_data_attr", "input", detach, 0},
    {"t.zeros t.ones t.empty", "size... " OPTIONS, make_sizes, 0},
    {"t.rand t.randn", "size... " OPTIONS, make_sizes, FLOATS_ONLY},
    {"t.full", "size fill_value " OPTIONS, make_sizes, FILLED},
    {"t.zeros_like t.ones_like t.empty_like", "input " OPTIONS " memory_format?", make_like, 0},
    {"t.rand_like t.randn_like", "input " OPTIONS " memory_format?", make_like, FLOATS_ONLY},
    {"t.full_like", "input fill_value " OPTIONS " memory_format?", make_like, FILLED},
    {".new_zeros .new_ones .new_empty", "input size... " OPTIONS, make_new, 0},
    {".new_full", "input size fill_value " OPTIONS, make_new, FILLED},
    {"t.arange", "start 1 step end " OPTIONS, arange, 0},
    {"t.eye", "n m " OPTIONS, eye, 0},
    {"t.linspace", "start end steps " OPTIONS, linspace, 0},
    {"t.tensor", "data * dtype? device? requires_grad pin_memory", make_tensor, 0},
    {"c._log_api_usage_once", "event", nothing, 0},
    {".size", "input dim?", question, SIZE},
    {".dim .ndimension g.ndim", "input", question, DIM},
    {"numel .nelement", "input", question, ELEMENTS},
    {".stride", "input dim", question, STRIDE},
    {".is_contiguous", "input * memory_format", question, IS_CONTIGUOUS},
    {"is_floating_point", "input", question, IS_FLOAT},
    {"is_complex", "input", question, IS_COMPLEX},
    {"is_signed", "input", question, IS_SIGNED},
    {".is_same_size", "input other", question, SAME_SIZE},
    {".element_size g.itemsize", "input", question, ELEMENT_SIZE},
    {".get_device", "input", question, DEVICE_NUMBER},
    {"g.nbytes", "input", question, BYTES},
    {"g.is_leaf", "input", question, IS_LEAF},
    {"g.layout", "input", question, LAYOUT},
    {"g.is_cpu", "input", question, YES},
    {"g.is_cuda g.is_xpu g.is_mps g.is_meta g.is_sparse g.is_sparse_csr g.is_quantized g.is_mkldnn g.is_nested "
     "g.is_vulkan g.is_ipu g.is_xla g.is_maia g.is_mtia",
     "input", question, NO},
    {NULL, NULL, NULL, 0},
};
