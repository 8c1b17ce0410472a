/* Shape functions: what an operation returns, worked out in C from metadata alone.
 *
 * Each operation of the tables mg_shape_... has a function that gets the bound arguments of a call and sets its outcome,
 * which must be the one that FakeTensorMode would give: tests/record/shape compares them. Whatever it does not
 * know, and whatever is an error, it declines, and FakeTensorMode is asked. Nothing is decided here that depends on more
 * than the arguments' metadata, the constants, and torch's state. */
#include "record/shape/arguments.h"

#include "record/symbol.h"

#include "cpython/aside.h"

#include <float.h>
#include <math.h>

/* What the table of targets holds. */
typedef struct {
    const MgShapeRule *rule;
    int in_place;
    int count, rest;                /* arguments, and which of them takes ints one by one, or -1 */
    int positional;                 /* how many of them need no keyword */
    int optional;                   /* bits: None may be given */
    PyObject *names[MG_SHAPE_ARGS]; /* strong, interned */
} Entry;

static struct {
    MgTable functions;                /* callable -> Entry */
    PyObject *methods;                /* strong: name -> address of the Entry */
    PyObject *attributes;             /* strong: the same for attributes */
    PyObject *kept;                   /* strong: a list of the callables */
    PyObject *getattr;                /* strong: builtins.getattr */
    PyObject *cpu;                    /* strong: torch.device("cpu") */
    PyObject *dtypes[MG_DTYPE_COUNT]; /* strong */
    int ready;
} shapes;

/* ---- tables ---- */

/* Where a prefix of a name in a rule looks. */
static const struct {
    const char *prefix;
    const char *module;
} modules[] = {
    {"o.", "operator"}, {"F.", "torch.nn.functional"}, {"n.", "torch._C._nn"}, {"s.", "torch.special"},
    {"t.", "torch"},    {"f.", "torch.functional"},    {"v.", "torch._VF"},    {"a.", "torch._C._autograd"},
    {"c.", "torch._C"},
};

/* Reads a signature. "..." ends an argument that takes ints given one by one too, "?" one that may be None; those behind
 * "*" are given by keyword. */
static Entry *
new_entry(const MgShapeRule *rule, int in_place)
{
    Entry *entry = PyMem_Calloc(1, sizeof(Entry)); /* for good */
    if (entry == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    entry->rule = rule;
    entry->in_place = in_place;
    entry->rest = -1;
    for (const char *word = rule->signature; *word != '\0';) {
        size_t length = strcspn(word, " ");
        if (*word == '*') {
            entry->positional = entry->count;
            word += 2;
            continue;
        }
        size_t plain = strcspn(word, " .?");
        if (word[plain] == '.') {
            entry->rest = entry->count;
        }
        else if (word[plain] == '?') {
            entry->optional |= 1 << entry->count;
        }
        PyObject *name = PyUnicode_FromStringAndSize(word, (Py_ssize_t)plain);
        if (name == NULL) {
            return NULL;
        }
        PyUnicode_InternInPlace(&name);
        entry->names[entry->count++] = name;
        word += length + (word[length] == ' ');
    }
    entry->positional = entry->positional == 0 ? entry->count : entry->positional;
    return entry;
}

static int
add_named(PyObject *dict, const char *name, Entry *entry)
{
    PyObject *address = PyLong_FromVoidPtr(entry);
    int result = address == NULL ? MG_ERR : PyDict_SetItemString(dict, name, address);
    Py_XDECREF(address);
    return result;
}

/* Adds the callable of that name in a module, if there is one. */
static int
add_function(const char *module_name, const char *name, Entry *entry)
{
    PyObject *module = mg_aside_import(module_name);
    if (module == NULL) {
        return MG_ERR;
    }
    PyObject *found = PyObject_GetAttrString(module, name);
    Py_DECREF(module);
    if (found == NULL) {
        mg_error_clear();
        return MG_OK;
    }
    int result = MG_OK;
    if (mg_table_get(&shapes.functions, found, NULL) == NULL) {
        result = PyList_Append(shapes.kept, found) < 0 ? MG_ERR : mg_table_set(&shapes.functions, found, NULL, entry);
    }
    Py_DECREF(found);
    return result;
}

/* Adds what one word of a rule's names stands for: "add" is torch.add and the method add, "add+" these and add_ too; a
 * prefix is a module of the table above, "." a method only, "g." an attribute; "o+iadd" is an operator in place. */
static int
add_word(const MgShapeRule *rule, const char *word, size_t length, Entry *plain, Entry **in_place)
{
    char name[64];
    if (length >= sizeof(name) - 1) {
        PyErr_SetString(PyExc_ValueError, "a name of a shape function is too long");
        return MG_ERR;
    }
    int both = word[length - 1] == '+';
    memcpy(name, word, length - (size_t)both);
    name[length - (size_t)both] = '\0';
    if ((both || memcmp(name, "o+", 2) == 0) && *in_place == NULL && (*in_place = new_entry(rule, 1)) == NULL) {
        return MG_ERR;
    }
    if (memcmp(name, "o+", 2) == 0) {
        return add_function("operator", name + 2, *in_place);
    }
    if (memcmp(name, "g.", 2) == 0) {
        return add_named(shapes.attributes, name + 2, plain);
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(modules); i++) {
        if (memcmp(name, modules[i].prefix, 2) == 0) {
            return add_function(modules[i].module, name + 2, plain);
        }
    }
    int only_method = name[0] == '.';
    if (add_named(shapes.methods, name + only_method, plain) < 0 ||
        (!only_method && add_function("torch", name, plain) < 0)) {
        return MG_ERR;
    }
    if (both) {
        size_t end = strlen(name);
        name[end] = '_';
        name[end + 1] = '\0';
        return add_named(shapes.methods, name + only_method, *in_place) < 0 ||
                       (!only_method && add_function("torch", name, *in_place) < 0)
                   ? MG_ERR
                   : MG_OK;
    }
    return MG_OK;
}

static int
add_rules(const MgShapeRule *rules)
{
    for (const MgShapeRule *rule = rules; rule->names != NULL; rule++) {
        Entry *plain = new_entry(rule, 0), *in_place = NULL;
        if (plain == NULL) {
            return MG_ERR;
        }
        for (const char *word = rule->names; *word != '\0';) {
            size_t length = strcspn(word, " ");
            if (add_word(rule, word, length, plain, &in_place) < 0) {
                return MG_ERR;
            }
            word += length + (word[length] == ' ');
        }
    }
    return MG_OK;
}

/* dtypes, the device cpu, getattr */
static int
find_objects(void)
{
    static const char *const names[MG_DTYPE_COUNT] = {
        [MG_BOOL] = "bool",   [MG_U8] = "uint8",    [MG_I8] = "int8",       [MG_I16] = "int16",
        [MG_I32] = "int32",   [MG_I64] = "int64",   [MG_F16] = "float16",   [MG_BF16] = "bfloat16",
        [MG_F32] = "float32", [MG_F64] = "float64", [MG_C64] = "complex64", [MG_C128] = "complex128",
    };
    PyObject *torch = mg_aside_import("torch");
    PyObject *builtins = mg_aside_import("builtins");
    if (torch == NULL || builtins == NULL) {
        return MG_ERR;
    }
    for (int i = 0; i < MG_DTYPE_COUNT; i++) {
        shapes.dtypes[i] = PyObject_GetAttrString(torch, names[i]);
        if (shapes.dtypes[i] == NULL) {
            return MG_ERR;
        }
    }
    shapes.cpu = PyObject_CallFunction((PyObject *)mg_torch.device, "s", "cpu");
    shapes.getattr = PyObject_GetAttrString(builtins, "getattr");
    Py_DECREF(torch);
    Py_DECREF(builtins);
    return shapes.cpu == NULL || shapes.getattr == NULL ? MG_ERR : MG_OK;
}

int
mg_shape_init(void)
{
    const MgShapeRule *const tables[] = {mg_shape_pointwise,  mg_shape_views,  mg_shape_makers,
                                         mg_shape_reductions, mg_shape_layers, mg_shape_indexing};
    if (shapes.ready) {
        return MG_OK;
    }
    shapes.methods = PyDict_New();
    shapes.attributes = PyDict_New();
    shapes.kept = PyList_New(0);
    if (shapes.methods == NULL || shapes.attributes == NULL || shapes.kept == NULL || find_objects() < 0) {
        return MG_ERR;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tables); i++) {
        if (add_rules(tables[i]) < 0) {
            return MG_ERR;
        }
    }
    shapes.ready = 1;
    return MG_OK;
}

/* ---- arguments ---- */

static MgDtype
dtype_of(PyObject *object)
{
    for (int i = 0; i < MG_DTYPE_COUNT; i++) {
        if (shapes.dtypes[i] == object) {
            return (MgDtype)i;
        }
    }
    return MG_NO_DTYPE;
}

int
mg_shape_tensor(MgShapeCall *call, PyObject *value, MgShape **tensor)
{
    MG_NEED(value != NULL && Py_TYPE(value) == &MgRef_Type);
    for (int i = 0; i < call->input_count; i++) {
        if (call->nodes[i] == ((MgRef *)value)->index) {
            *tensor = &call->inputs[i];
            return MG_OK;
        }
    }
    return MG_DECLINE;
}

int
mg_shape_is_int(PyObject *value)
{
    return value != NULL && (PyLong_CheckExact(value) || mg_is_dim_object(value));
}

int
mg_shape_size(PyObject *value, MgDim *size)
{
    MG_NEED(mg_shape_is_int(value) && mg_dim_read(value, size) && (size->e == NULL || mg_sizes.facts != NULL));
    return size->v > INT32_MAX || size->v < INT32_MIN ? MG_DECLINE : MG_OK; /* products must not overflow */
}

int
mg_shape_int(PyObject *value, int64_t *number)
{
    MgDim size;
    MG_TRY(mg_shape_size(value, &size));
    *number = mg_size_value(size);
    return MG_OK;
}

int
mg_shape_bool(PyObject *value, int otherwise, int *flag)
{
    *flag = value == NULL ? otherwise : value == Py_True;
    return value == NULL || PyBool_Check(value) ? MG_OK : MG_DECLINE;
}

int
mg_shape_number(PyObject *value, MgScalar *number)
{
    MG_NEED(value != NULL);
    PyTypeObject *type = Py_TYPE(value);
    *number = (MgScalar){.now = 0};
    if (type == &PyBool_Type) {
        *number = (MgScalar){.kind = MG_BOOL, .now = value == Py_True};
    }
    else if (type == &PyLong_Type) {
        int overflow;
        *number = (MgScalar){.kind = MG_I64, .now = (double)PyLong_AsLongLongAndOverflow(value, &overflow)};
        MG_NEED(!overflow);
    }
    else if (type == &MgDimObject_Type) {
        MG_NEED(mg_sizes.facts != NULL);
        MgDim dim = ((MgDimObject *)value)->dim;
        *number = (MgScalar){.kind = MG_I64, .now = (double)dim.v, .varies = dim};
    }
    else if (type == &PyFloat_Type) {
        *number = (MgScalar){.kind = MG_F64, .now = PyFloat_AS_DOUBLE(value)};
    }
    else if (type == &mg_number_types[MG_NUMBER_FLOAT]) { /* kernels check what becomes of other values */
        *number = (MgScalar){.kind = MG_F64, .now = PyFloat_AS_DOUBLE(((MgNumber *)value)->value), .is_real = 1};
    }
    else {
        MG_NEED(type == &PyComplex_Type);
        number->kind = MG_C128;
    }
    return MG_OK;
}

int
mg_shape_sizes(PyObject *value, MgDim *sizes, int *count)
{
    MG_NEED(value != NULL);
    if (mg_shape_is_int(value)) {
        *count = 1;
        return mg_shape_size(value, sizes);
    }
    MG_NEED((PyTuple_Check(value) || PyList_CheckExact(value)) && Py_SIZE(value) <= MG_SHAPE_DIMS);
    *count = (int)Py_SIZE(value);
    for (int i = 0; i < *count; i++) {
        MG_TRY(mg_shape_size(PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i), &sizes[i]));
    }
    return MG_OK;
}

int
mg_shape_ints(PyObject *value, int64_t *numbers, int *count)
{
    MgDim sizes[MG_SHAPE_DIMS];
    MG_TRY(mg_shape_sizes(value, sizes, count));
    for (int i = 0; i < *count; i++) {
        numbers[i] = mg_size_value(sizes[i]);
    }
    return MG_OK;
}

int
mg_shape_dtype(PyObject *value, MgDtype otherwise, MgDtype *dtype)
{
    *dtype = value == NULL ? otherwise : dtype_of(value);
    return *dtype == MG_NO_DTYPE && value != NULL ? MG_DECLINE : MG_OK;
}

int
mg_shape_is_cpu(PyObject *device)
{
    if (device == NULL || device == shapes.cpu) {
        return 1;
    }
    if (PyUnicode_Check(device)) {
        return PyUnicode_CompareWithASCIIString(device, "cpu") == 0;
    }
    return Py_TYPE(device) == mg_torch.device && PyObject_RichCompareBool(device, shapes.cpu, Py_EQ) == 1;
}

int
mg_shape_wrap(int64_t number, int dim, int *result)
{
    int64_t most = dim == 0 ? 1 : dim;
    MG_NEED(number >= -most && number < most);
    *result = (int)(number < 0 ? number + most : number);
    return MG_OK;
}

int
mg_shape_dim(PyObject *value, int dim, int *result)
{
    int64_t number;
    MG_TRY(mg_shape_int(value, &number));
    return mg_shape_wrap(number, dim, result);
}

const char *
mg_shape_text(PyObject *value)
{
    const char *text = value != NULL && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    if (text == NULL) {
        mg_error_clear();
    }
    return text;
}

/* ---- results ---- */

PyObject *
mg_shape_tuple(const MgDim *sizes, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; i++) {
        PyObject *number = mg_dim_object(sizes[i]);
        if (number == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, number);
    }
    return tuple;
}

/* Appends (first, second) to a list that is made on first use; `second` is stolen. */
static int
add_pair(PyObject **list, int first, PyObject *second)
{
    PyObject *pair = second == NULL ? NULL : Py_BuildValue("(iN)", first, second);
    if (pair != NULL && *list == NULL) {
        *list = PyList_New(0);
    }
    int result = pair == NULL || *list == NULL ? MG_ERR : PyList_Append(*list, pair);
    Py_XDECREF(pair);
    return result;
}

static PyObject *
meta_with(const MgShape *shape, int flags)
{
    PyObject *sizes = mg_shape_tuple(shape->size, shape->dim);
    PyObject *strides = sizes == NULL ? NULL : mg_shape_tuple(shape->stride, shape->dim);
    PyObject *meta =
        strides == NULL ? NULL
                        : (PyObject *)mg_meta_get(shapes.dtypes[shape->dtype], shapes.cpu, sizes, strides, flags, NULL);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return meta;
}

PyObject *
mg_shape_meta(MgShapeCall *call, MgShape *shape, const MgShape *base)
{
    int grad = base != NULL ? base->flags & MG_META_REQUIRES_GRAD : call->needs_grad, flags = 0;
    if (grad && mg_dtype_class(shape->dtype) >= MG_CLASS_FLOAT) {
        flags = call->grad ? MG_META_REQUIRES_GRAD | MG_META_NON_LEAF : MG_META_REQUIRES_GRAD;
    }
    if (flags != 0 && base != NULL && call->grad) {
        flags |= base->flags & (MG_META_LEAF_VIEW | MG_META_MULTI_VIEW);
        flags |= (base->flags & MG_META_NON_LEAF ? 0 : MG_META_LEAF_VIEW) | (call->several ? MG_META_MULTI_VIEW : 0);
    }
    PyObject *meta = meta_with(shape, flags);
    int shared = base != NULL ? base->index : -1; /* of x.detach() it is not said whose memory it shares */
    if (meta != NULL && (base != NULL || call->detached) &&
        add_pair(&call->views, call->fresh, PyLong_FromLong(shared)) < 0) {
        Py_CLEAR(meta);
    }
    call->fresh++;
    return meta;
}

int
mg_shape_give_object(MgShapeCall *call, PyObject *object)
{
    Py_XSETREF(call->result, object);
    return object == NULL ? MG_ERR : MG_OK;
}

int
mg_shape_fail(MgShapeCall *call, const char *why)
{
    MG_TRY(mg_shape_give_object(call, PyUnicode_FromString(why)));
    return MG_FAIL;
}

int
mg_shape_hold(MgShapeCall *call, MgDtype dtype, MgScalar number)
{
    static const double most[MG_DTYPE_COUNT] = {
        [MG_BOOL] = HUGE_VAL, [MG_U8] = 255,       [MG_I8] = INT8_MAX, [MG_I16] = INT16_MAX,
        [MG_I32] = INT32_MAX, [MG_I64] = 9.2e18,   [MG_F16] = 65504,   [MG_BF16] = 0x1.fep127,
        [MG_F32] = FLT_MAX,   [MG_F64] = HUGE_VAL, [MG_C64] = FLT_MAX, [MG_C128] = HUGE_VAL,
    };
    double least = -most[dtype] - (dtype > MG_U8 && mg_dtype_class(dtype) == MG_CLASS_INT);
    least = dtype == MG_U8 && number.kind == MG_F64 ? 0 : least; /* a negative int is taken, and wraps */
    if (number.kind == MG_C128 || (number.kind == MG_I64 && dtype == MG_I64) ||
        (mg_dtype_class(dtype) != MG_CLASS_INT && !isfinite(number.now)) ||
        mg_scalar_is_within(number, least, most[dtype])) {
        return MG_OK;
    }
    return mg_shape_fail(call, "a number that may be out of the range of its dtype");
}

int
mg_shape_give(MgShapeCall *call, MgShape *shape)
{
    return mg_shape_give_object(call, mg_shape_meta(call, shape, NULL));
}

int
mg_shape_give_view(MgShapeCall *call, MgShape *shape, const MgShape *base)
{
    return mg_shape_give_object(call, mg_shape_meta(call, shape, base));
}

int
mg_shape_give_input(MgShapeCall *call, const MgShape *input)
{
    MgRef *ref = PyObject_New(MgRef, &MgRef_Type);
    if (ref != NULL) {
        ref->index = input->index;
    }
    return mg_shape_give_object(call, (PyObject *)ref);
}

/* Notes that an operation has written to an input. */
static int
add_written(MgShapeCall *call, const MgShape *input)
{
    PyObject *number = PyLong_FromLong(input->index);
    if (number != NULL && call->written == NULL) {
        call->written = PyList_New(0);
    }
    int result = number == NULL || call->written == NULL ? MG_ERR : PyList_Append(call->written, number);
    Py_XDECREF(number);
    return result;
}

int
mg_shape_give_changed(MgShapeCall *call, const MgShape *input)
{
    MG_TRY(mg_shape_changed(call, input));
    return mg_shape_give_input(call, input);
}

int
mg_shape_give_written(MgShapeCall *call, MgShape *self)
{
    if (call->in_place) {
        return mg_shape_give_changed(call, self);
    }
    MgShape out = *self;
    mg_shape_layout_contiguous(&out);
    return mg_shape_give(call, &out);
}

int
mg_shape_changed(MgShapeCall *call, const MgShape *input)
{
    MG_NEED(mg_shape_layout_is_dense(input)); /* no two elements in one place */
    for (int i = 0; i < input->dim; i++) {
        MG_NEED(!mg_size_is(input->stride[i], 0) || mg_size_below(input->size[i], 2));
    }
    if (add_written(call, input) < 0) {
        return MG_ERR;
    }
    MG_NEED(!(input->flags & (MG_META_LEAF_VIEW | MG_META_MULTI_VIEW)));
    if (!call->needs_grad) {
        return MG_OK;
    }
    MG_NEED(mg_dtype_class(input->dtype) >= MG_CLASS_FLOAT);
    if (input->flags & MG_META_REQUIRES_GRAD) {
        MG_NEED(input->flags & MG_META_NON_LEAF); /* eager raises for a leaf */
        return MG_OK;
    }
    MG_NEED(!(input->flags & MG_META_PARAMETER));
    int flags = input->flags | MG_META_REQUIRES_GRAD | MG_META_NON_LEAF;
    return add_pair(&call->changes, input->index, meta_with(input, flags));
}

/* ---- calls ---- */

/* Reads sizes or strides. MG_DECLINE if they are not all ints. */
static int
read_tuple(PyObject *tuple, MgDim *sizes)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        MG_TRY(mg_shape_size(PyTuple_GET_ITEM(tuple, i), &sizes[i]));
    }
    return MG_OK;
}

static int
read_input(MgShapeCall *call, PyObject *pair)
{
    MG_NEED(call->input_count < MG_SHAPE_INPUTS && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2);
    PyObject *object = PyTuple_GET_ITEM(pair, 1);
    MG_NEED(Py_TYPE(object) == &MgMeta_Type);
    MgMeta *meta = (MgMeta *)object;
    MgShape *shape = &call->inputs[call->input_count];
    MG_NEED(meta->fake == NULL && meta->dim <= MG_SHAPE_DIMS &&
            !(meta->flags & (MG_META_CONJUGATE | MG_META_NEGATIVE)) &&
            (meta->flags & ~(MG_META_REQUIRES_GRAD | MG_META_NON_LEAF | MG_META_PARAMETER | MG_META_LEAF_VIEW |
                             MG_META_MULTI_VIEW)) == 0);
    shape->dim = meta->dim;
    shape->dtype = dtype_of(meta->dtype);
    shape->flags = meta->flags;
    shape->index = call->input_count;
    MG_NEED(shape->dtype != MG_NO_DTYPE && mg_shape_is_cpu(meta->device));
    MG_TRY(read_tuple(meta->sizes, shape->size));
    MG_TRY(read_tuple(meta->strides, shape->stride));
    call->nodes[call->input_count++] = PyLong_AsLong(PyTuple_GET_ITEM(pair, 0));
    call->needs_grad = call->needs_grad || (call->grad && (meta->flags & MG_META_REQUIRES_GRAD));
    return MG_OK;
}

/* Only torch's usual state is known: see _READERS in _rules.py. */
static int
read_state(MgShapeCall *call, PyObject *state)
{
    MG_NEED(PyTuple_Check(state) && PyTuple_GET_SIZE(state) >= 7);
    PyObject *modes = PyTuple_GET_ITEM(state, 5), *stack = PyTuple_GET_ITEM(state, 6);
    MG_NEED(PyTuple_GET_ITEM(state, 1) == Py_False && PyTuple_GET_ITEM(state, 3) == Py_None &&
            PyTuple_GET_ITEM(state, 4) == Py_False && PyTuple_Check(modes) && PyTuple_GET_SIZE(modes) == 0 &&
            PyLong_CheckExact(stack) && Py_SIZE(stack) == 0);
    call->grad = PyTuple_GET_ITEM(state, 0) == Py_True;
    call->standard = dtype_of(PyTuple_GET_ITEM(state, 2));
    return call->standard == MG_NO_DTYPE ? MG_DECLINE : MG_OK;
}

/* Sets one argument; `given` are the bits of those that are set. None is declined where torch does not take it. */
static int
set_argument(MgShapeCall *call, const Entry *entry, int at, PyObject *value, int *given)
{
    MG_NEED(!(*given & 1 << at) && (value != Py_None || entry->optional & 1 << at));
    *given |= 1 << at;
    assert(at >= 0 && at < entry->count && at < MG_SHAPE_ARGS);
    call->args[at] = value == Py_None ? NULL : value;
    return MG_OK;
}

static int
bind(MgShapeCall *call, const Entry *entry, PyObject *const *args, Py_ssize_t count, PyObject *kwargs)
{
    int given = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        MG_NEED(i < entry->positional);
        if (i == entry->rest && !PyTuple_Check(args[i]) && !PyList_Check(args[i])) { /* ints, one by one */
            call->rest = PyTuple_New(count - i);
            if (call->rest == NULL) {
                return MG_ERR;
            }
            for (Py_ssize_t k = i; k < count; k++) {
                PyTuple_SET_ITEM(call->rest, k - i, Py_NewRef(args[k]));
            }
            call->args[i] = call->rest;
            given |= 1 << i;
            break;
        }
        MG_TRY(set_argument(call, entry, (int)i, args[i], &given));
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (kwargs != NULL && kwargs != Py_None && PyDict_Next(kwargs, &position, &key, &value)) {
        int at = 0;
        while (at < entry->count && entry->names[at] != key) {
            at++;
        }
        for (int k = 0; at == entry->count && k < entry->count; k++) { /* a name that is not interned */
            at = PyUnicode_Compare(entry->names[k], key) == 0 ? k : at;
        }
        MG_NEED(at < entry->count);
        MG_TRY(set_argument(call, entry, at, value, &given));
    }
    return MG_OK;
}

static Entry *
find_entry(MgNodeKind kind, PyObject *target, PyObject *args)
{
    PyObject *table = NULL, *name = target;
    if (kind == MG_NODE_METHOD) {
        table = shapes.methods;
    }
    else if (target == shapes.getattr) {
        table = shapes.attributes;
        name = PyTuple_GET_SIZE(args) == 2 ? PyTuple_GET_ITEM(args, 1) : NULL;
    }
    if (table == NULL) {
        return mg_table_get(&shapes.functions, target, NULL);
    }
    PyObject *address = name == NULL || !PyUnicode_Check(name) ? NULL : PyDict_GetItemWithError(table, name);
    return address == NULL ? NULL : PyLong_AsVoidPtr(address);
}

int
mg_shape_ignores_leaves(MgNodeKind kind, PyObject *target, PyObject *args)
{
    const Entry *entry = find_entry(kind, target, args);
    return entry != NULL && !entry->in_place &&
           !(target == shapes.getattr && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(args, 1), "is_leaf") == 0);
}

static int
run(MgShapeCall *call, const Entry *entry, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *inputs,
    PyObject *state)
{
    MG_TRY(read_state(call, state));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); i++) {
        MG_TRY(read_input(call, PyList_GET_ITEM(inputs, i)));
    }
    Py_ssize_t count = target == shapes.getattr ? 1 : PyTuple_GET_SIZE(args); /* without the name of the attribute */
    MG_TRY(bind(call, entry, ((PyTupleObject *)args)->ob_item, count, kwargs));
    return entry->rule->function(call);
}

/* A tuple of what is in a list, or an empty one. New. */
static PyObject *
tuple_from(PyObject *list)
{
    return list == NULL ? PyTuple_New(0) : PyList_AsTuple(list);
}

MgOutcome *
mg_shape_outcome(MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *inputs, PyObject *state,
                 MgFacts *facts)
{
    Entry *entry = find_entry(kind, target, args);
    MgShapeCall *call = entry == NULL ? NULL : PyMem_Malloc(sizeof(MgShapeCall));
    if (call == NULL) {
        if (entry != NULL) {
            PyErr_NoMemory();
        }
        return NULL;
    }
    memset(call, 0, offsetof(MgShapeCall, inputs));
    memset((char *)call + offsetof(MgShapeCall, input_count), 0,
           sizeof(MgShapeCall) - offsetof(MgShapeCall, input_count));
    assert(PyTuple_Check(args) && PyList_Check(inputs));
    call->rule = entry->rule;
    call->in_place = entry->in_place;
    MgOutcome *outcome = NULL;
    mg_sizes = (MgSizes){.facts = facts};
    int result = run(call, entry, target, args, kwargs, inputs, state);
    result = mg_sizes.failed ? MG_ERR : mg_sizes.asked ? MG_DECLINE : result;
    mg_sizes = (MgSizes){.facts = NULL};
    if (result == MG_FAIL) {
        outcome = mg_outcome_refuse(MG_OUTCOME_RAISES, call->result);
    }
    else if (result == MG_OK && call->result != NULL) {
        PyObject *changes = tuple_from(call->changes), *views = tuple_from(call->views);
        PyObject *written = tuple_from(call->written);
        outcome = changes == NULL || views == NULL || written == NULL
                      ? NULL
                      : mg_outcome_new(call->result, changes, views, written);
        Py_XDECREF(changes);
        Py_XDECREF(views);
        Py_XDECREF(written);
    }
    Py_XDECREF(call->result);
    Py_XDECREF(call->changes);
    Py_XDECREF(call->views);
    Py_XDECREF(call->written);
    Py_XDECREF(call->rest);
    PyMem_Free(call);
    return outcome;
}
