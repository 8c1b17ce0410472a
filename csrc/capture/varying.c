/* Sizes and numbers that differ from call to call.
 *
 * An item of a lattice is the sizes and strides that a tensor had, or the value of an int, when it was met for the first time,
 * and which of them were others later: once one was, it varies for good. Items are found by the path of the source
 * (mg_source_path) and the number of dimensions, so that nothing has to be kept alive for it, and tensors of another rank are
 * other tensors.
 *
 * Sizes of 0 and 1 never become symbols: too much depends on them. All others are at least 2. */
#include "capture/varying.h"

#include "base/vector.h"
#include "capture/advice.h"
#include "capture/marks.h"
#include "capture/place.h"
#include "capture/sizeguard.h"
#include "ir/dimobject.h"
#include "size/terms.h"
#include "torch/kinds.h"

#include <math.h>

enum { RANKS = -3 }; /* in place of the number of dimensions: an item for what ranks were met */
enum { MOST_DIMS = 8, MOST_ITEMS = 4096 };

int mg_varying_no_ints, mg_varying_no_floats, mg_varying_ignore_marks, mg_varying_module_ints;
int mg_varying_fixed_tensors = MG_FIXED_BUILTIN | MG_FIXED_PARAMETER;

/* ---- the lattice ---- */

typedef struct {
    uint64_t path;                                /* 0: free */
    int dim;                                      /* -1 for an int, -2 for a float */
    unsigned varying_sizes, varying_strides;      /* bits; of an int the first of the former */
    unsigned dynamic, unbacked, fixed;            /* bits: what was said of it, see MgAdvice */
    int64_t sizes[MOST_DIMS], strides[MOST_DIMS]; /* an int is the first of the sizes, and so are the bits of a float */
} Item;

struct MgLattice {
    PyObject_HEAD
    MgDynamic dynamic;
    int frozen;  /* nothing more comes to vary */
    Item *items; /* owned: hashed by path */
    int count, room;
};

static void
lattice_dealloc(MgLattice *self)
{
    PyMem_Free(self->items);
    PyObject_Free(self);
}

PyTypeObject MgLattice_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Lattice",
    .tp_basicsize = sizeof(MgLattice),
    .tp_dealloc = (destructor)lattice_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

MgLattice *
mg_lattice_new(void)
{
    MgLattice *lattice = PyObject_New(MgLattice, &MgLattice_Type);
    if (lattice != NULL) {
        lattice->dynamic = MG_DYNAMIC_AUTOMATIC;
        lattice->frozen = 0;
        lattice->items = NULL;
        lattice->count = lattice->room = 0;
    }
    return lattice;
}

void
mg_lattice_set(MgLattice *lattice, MgDynamic dynamic)
{
    lattice->dynamic = dynamic;
}

MgLattice *
mg_lattice_freeze(const MgLattice *lattice)
{
    MgLattice *copy = mg_lattice_new();
    Item *items = copy == NULL ? NULL : PyMem_Malloc(sizeof(Item) * ((size_t)lattice->room + 1));
    if (items == NULL) {
        Py_XDECREF((PyObject *)copy);
        return copy == NULL ? NULL : (MgLattice *)PyErr_NoMemory();
    }
    if (lattice->room > 0) {
        memcpy(items, lattice->items, sizeof(Item) * (size_t)lattice->room);
    }
    copy->dynamic = lattice->dynamic;
    copy->items = items;
    copy->count = lattice->count;
    copy->room = lattice->room;
    copy->frozen = 1;
    return copy;
}

/* Where an item is, or could be. */
static Item *
find_item(Item *items, int room, uint64_t path)
{
    uint64_t at = path & (uint64_t)(room - 1);
    while (items[at].path != 0 && items[at].path != path) {
        at = (at + 1) & (uint64_t)(room - 1);
    }
    return &items[at];
}

/* Makes room for one more item. 1, 0 if there are too many, or MG_ERR. */
static int
reserve_item(MgLattice *lattice)
{
    if (2 * (lattice->count + 1) <= lattice->room || (lattice->frozen && lattice->room > 0)) {
        return 1;
    }
    if (lattice->count >= MOST_ITEMS) {
        return 0;
    }
    int room = lattice->room == 0 ? 16 : 2 * lattice->room;
    Item *items = PyMem_Calloc((size_t)room, sizeof(Item));
    if (items == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < lattice->room; i++) {
        if (lattice->items[i].path != 0) {
            *find_item(items, room, lattice->items[i].path) = lattice->items[i];
        }
    }
    PyMem_Free(lattice->items);
    lattice->items = items;
    lattice->room = room;
    return 1;
}

static uint64_t
path_of(const MgSource *source, int level)
{
    int ends = source->base == NULL || level == MG_MOST_LEVELS;
    return mg_source_path(source, ends ? 0 : path_of(source->base, level + 1));
}

/* What an item is found by. */
static uint64_t
item_path(uint64_t path, uint64_t salt, int dim)
{
    path = (path ^ salt) + (uint64_t)(dim + 3) * 0x9e3779b97f4a7c15u;
    return path + (path == 0);
}

/* The item for what lies at a source; made of `sizes` and `strides` if it is new. NULL without an exception if there are too
 * many. */
static Item *
item_of(const MgVaryings *varying, const MgSource *source, int dim, const int64_t *sizes, const int64_t *strides)
{
    MgLattice *lattice = varying->lattice;
    uint64_t path = item_path(path_of(source, 0), varying->salt, dim);
    if (reserve_item(lattice) <= 0) {
        return NULL;
    }
    Item *item = find_item(lattice->items, lattice->room, path);
    if (item->path == 0 && lattice->frozen) {
        return NULL;
    }
    if (item->path == 0) {
        *item = (Item){.path = path, .dim = dim};
        int count = dim < 0 ? 1 : dim;
        memcpy(item->sizes, sizes, sizeof(int64_t) * (size_t)count);
        if (strides != NULL) {
            memcpy(item->strides, strides, sizeof(int64_t) * (size_t)count);
        }
        lattice->count++;
    }
    return item;
}

/* The item that was made for something at a source, NULL if there is none. */
static const Item *
known_item(const MgVaryings *varying, const MgSource *source, int dim)
{
    const MgLattice *lattice = varying->lattice;
    const Item *item = find_item(lattice->items, lattice->room, item_path(path_of(source, 0), varying->salt, dim));
    return item->path == 0 ? NULL : item;
}

/* The item for a tensor. Where tensors of another rank, or numbers, were met before, all sizes of one of this rank vary, as for
 * TorchDynamo. NULL as in item_of. */
static Item *
tensor_item(const MgVaryings *varying, const MgSource *source, int dim, const int64_t *sizes, const int64_t *strides)
{
    int64_t rank = dim;
    Item *ranks = item_of(varying, source, RANKS, &rank, NULL);
    int is_other = ranks != NULL && (ranks->sizes[0] != rank || known_item(varying, source, -1) != NULL ||
                                     known_item(varying, source, -2) != NULL);
    int before = varying->lattice->count;
    Item *item = ranks == NULL ? NULL : item_of(varying, source, dim, sizes, strides);
    if (item != NULL && is_other && varying->lattice->count > before) { /* it is new */
        item->varying_sizes = (1u << dim) - 1;
    }
    return item;
}

void
mg_lattice_fix_float(MgLattice *lattice, uint64_t path, uint64_t salt)
{
    path = item_path(path, salt, -2);
    Item *item = lattice->room == 0 ? NULL : find_item(lattice->items, lattice->room, path);
    if (item != NULL && item->path == path) {
        item->fixed = 1;
    }
}

/* Notes what was said of an item, and if it is new, what was seen of it before. */
static void
take_advice(Item *item, const MgAdvice *advice, int is_new)
{
    if (is_new && advice->is_known) {
        memcpy(item->sizes, advice->sizes, sizeof(item->sizes));
        memcpy(item->strides, advice->strides, sizeof(item->strides));
        item->varying_sizes = advice->varying_sizes;
        item->varying_strides = advice->varying_strides;
    }
    item->dynamic = advice->dynamic;
    item->unbacked = advice->unbacked;
    item->fixed |= advice->fixed;
}

/* Tells those who ask for it what is known of an item now. MG_OK or MG_ERR. */
static int
tell_item(const MgSource *source, const Item *item)
{
    MgAdvice known = {.varying_sizes = item->varying_sizes, .varying_strides = item->varying_strides};
    if (mg_advice_told == NULL) {
        return MG_OK;
    }
    memcpy(known.sizes, item->sizes, sizeof(item->sizes));
    memcpy(known.strides, item->strides, sizeof(item->strides));
    return mg_advice_tell(source, item->dim, &known);
}

/* ---- symbols ---- */

/* MgFacts.where of a capture. */
static int
place_of_guard(void *capture)
{
    return mg_place_now(capture);
}

/* A new symbol for something that is found at a source. 1, 0 if there are too many, or MG_ERR. */
static int
new_symbol(MgCapture *capture, MgVarying origin, int64_t hint, MgRange range, MgDim *dim)
{
    MgVaryings *varying = &capture->varying;
    if (varying->facts.symbol_count >= MG_MOST_SYMBOLS) {
        return 0;
    }
    if (MG_VECTOR_RESERVE(varying->origins, varying->facts.symbol_count, varying->origin_room, 8) < 0) {
        return MG_ERR;
    }
    varying->is_used = 1;
    origin.place = mg_place_now(capture);
    varying->facts.where = place_of_guard;
    varying->facts.context = capture;
    varying->origins[varying->facts.symbol_count] = origin;
    return mg_facts_symbol(&varying->facts, hint, range, dim);
}

/* A symbol for a size; where it is one only because all sizes are, that of another such size of the same value, if there is one.
 * 1, 0 or MG_ERR. */
static int
size_symbol(MgCapture *capture, MgVarying origin, int64_t hint, MgRange range, MgDim *dim)
{
    MgFacts *facts = &capture->varying.facts;
    int before = facts->symbol_count;
    range.low = range.low < 2 ? 2 : range.low;
    if (hint < range.low || hint > range.high) {
        return mg_marks_outside(capture, hint, range);
    }
    int status = new_symbol(capture, origin, hint, range, dim);
    for (int i = 0; status == 1 && origin.is_guess && i < before; i++) {
        MgDim other;
        if (capture->varying.origins[i].is_guess && facts->hints[i] == hint && facts->symbols[i].same == NULL &&
            mg_dim_symbol(i, hint, &other)) {
            status = mg_facts_decide(facts, MG_RELATION_EQ, *dim, other) < 0 ? MG_ERR : 1;
            *dim = other;
            break;
        }
    }
    return status;
}

/* Sets the sizes: which are symbols. 1 or MG_ERR. */
static int
find_sizes(MgCapture *capture, MgSource *source, Item *item, const MgMarks *marks, const int64_t *values, int dim,
           MgDim *sizes)
{
    static const MgRange any = {2, INT64_MAX};
    const MgLattice *lattice = capture->varying.lattice;
    for (int i = 0; i < dim; i++) {
        int bit = 1 << i;
        item->varying_sizes |= item->sizes[i] != values[i] && !lattice->frozen ? (unsigned)bit : 0;
        int seen = lattice->dynamic == MG_DYNAMIC_ALL ||
                   (lattice->dynamic == MG_DYNAMIC_AUTOMATIC && (item->varying_sizes & (unsigned)bit));
        int is_marked = (marks->dynamic & bit) != 0, is_ranged = is_marked && (marks->ranged & bit);
        int is_fixed = (marks->fixed & bit) || (item->fixed & (unsigned)bit), is_told = (int)item->dynamic & bit;
        sizes[i] = mg_dim(values[i]);
        if (values[i] > 1 && (is_marked || (marks->weak & bit) || ((seen || is_told) && !is_fixed))) {
            int has_varied = (item->varying_sizes & (unsigned)bit) || is_marked || (marks->weak & bit) || is_told;
            MgVarying origin = {source, MG_VARYING_SIZE, i, 0, is_marked, is_ranged, !has_varied};
            if (size_symbol(capture, origin, values[i], is_ranged ? marks->ranges[i] : any, &sizes[i]) < 0) {
                return MG_ERR;
            }
        }
    }
    return 1;
}

/* A stride that is the product of the size and stride of another dimension is that product at all calls. The dimensions whose
 * strides are known are those in `done`, bits. 1 if there is one with a symbol in it. */
static int
explain_stride(const MgDim *sizes, const MgDim *strides, int dim, unsigned done, int64_t value, MgDim *result)
{
    MgDim product;
    for (int k = dim - 1; k >= 0; k--) {
        if ((done & 1u << k) && mg_dim_mul(sizes[k], strides[k], &product) && product.v == value && product.e != NULL) {
            *result = product;
            return 1;
        }
    }
    return 0;
}

/* Sets the strides, from the smallest on. 1 or MG_ERR. */
static int
find_strides(MgCapture *capture, MgSource *source, Item *item, const MgDim *sizes, const int64_t *values, int dim,
             MgDim *strides)
{
    static const MgRange any = {0, INT64_MAX};
    unsigned done = 0;
    for (int n = 0; n < dim; n++) {
        int at = -1;
        for (int i = dim - 1; i >= 0; i--) {
            at = !(done & 1u << i) && (at < 0 || values[i] < values[at]) ? i : at;
        }
        strides[at] = mg_dim(values[at]);
        if (!explain_stride(sizes, strides, dim, done, values[at], &strides[at])) {
            int is_other = item->strides[at] != values[at] && !capture->varying.lattice->frozen;
            item->varying_strides |= is_other ? 1u << at : 0;
            if ((item->varying_strides & 1u << at) && values[at] > 1 &&
                new_symbol(capture, (MgVarying){.source = source, .kind = MG_VARYING_STRIDE, .index = at}, values[at],
                           any, &strides[at]) < 0) {
                return MG_ERR;
            }
        }
        done |= 1u << at;
    }
    return 1;
}

/* A tuple of sizes. New. */
static PyObject *
tuple_of(const MgDim *dims, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; i++) {
        PyObject *item = mg_dim_object(dims[i]);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* Reads a tuple of ints. 1, or 0 if one is no int. */
static int
read_ints(PyObject *tuple, int64_t *values)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        MgDim dim;
        if (!mg_dim_read(PyTuple_GET_ITEM(tuple, i), &dim)) {
            return 0;
        }
        values[i] = dim.v;
    }
    return 1;
}

/* Metadata of a tensor whose sizes and strides are these; `meta` is stolen. New. */
static MgMeta *
meta_with(MgMeta *meta, const MgDim *sizes, const MgDim *strides)
{
    int varies = 0;
    for (int i = 0; i < meta->dim; i++) {
        varies = varies || sizes[i].e != NULL || strides[i].e != NULL;
    }
    if (!varies) {
        return meta;
    }
    PyObject *size = tuple_of(sizes, meta->dim), *stride = size == NULL ? NULL : tuple_of(strides, meta->dim);
    MgMeta *result = stride == NULL ? NULL : mg_meta_get(meta->dtype, meta->device, size, stride, meta->flags, NULL);
    Py_XDECREF(size);
    Py_XDECREF(stride);
    Py_DECREF(meta);
    return result;
}

MgMeta *
mg_varying_meta(MgCapture *capture, MgSource *source, PyObject *tensor, MgMeta *meta)
{
    MgLattice *lattice = capture->varying.lattice;
    int64_t values[2][MOST_DIMS] = {{0}};
    if (lattice == NULL || meta->dim == 0 || meta->dim > MOST_DIMS || meta->fake != NULL ||
        !read_ints(meta->sizes, values[0]) || !read_ints(meta->strides, values[1])) {
        return meta;
    }
    int is_static = (source->is_fixed & mg_varying_fixed_tensors) ||
                    ((meta->flags & MG_META_PARAMETER) && (mg_varying_fixed_tensors & MG_FIXED_PARAMETER));
    int asks = mg_advice_asked != NULL && !lattice->frozen;
    if (is_static && !asks && !lattice->frozen) {
        return meta;
    }
    MgAdvice advice = {0};
    MgMarks marks;
    int status = asks ? mg_advice_ask(capture, source, meta->dim, is_static, values[0], values[1], &advice) : 0;
    if (is_static && !lattice->frozen && status >= 0 && advice.dynamic == 0) {
        return meta;
    }
    status = status < 0 ? MG_ERR : mg_marks_read(tensor, &marks);
    int before = lattice->count; /* from here on no other code runs before the item was looked at */
    Item *item = status < 0 ? NULL : tensor_item(&capture->varying, source, meta->dim, values[0], values[1]);
    MgDim sizes[MOST_DIMS], strides[MOST_DIMS];
    if (item == NULL) {
        if (status >= 0 && !PyErr_Occurred()) {
            return meta;
        }
        Py_DECREF(meta);
        return NULL;
    }
    if (asks) {
        take_advice(item, &advice, lattice->count > before);
    }
    status = find_sizes(capture, source, item, &marks, values[0], meta->dim, sizes);
    if (status > 0) {
        status = find_strides(capture, source, item, sizes, values[1], meta->dim, strides);
    }
    if (status > 0 && asks && !is_static) {
        item->varying_sizes |= marks.dynamic;
        status = tell_item(source, item) < 0 ? MG_ERR : 1;
    }
    if (status < 0) {
        Py_DECREF(meta);
        return NULL;
    }
    return meta_with(meta, sizes, strides);
}

/* The value of a number of a kind, -1 for an int and -2 for a float, by what an item holds of it. */
static double
number_of(int dim, int64_t bits)
{
    double value = (double)bits;
    if (dim == -2) {
        memcpy(&value, &bits, sizeof(value));
    }
    return value;
}

/* 1 if a number of the other kind was met at a source, an int or a float, with another value, or a tensor: that varies too, as
 * for TorchDynamo. */
static int
has_changed_kind(const MgVaryings *varying, const MgSource *source, int dim, int64_t bits)
{
    int other = dim == -1 ? -2 : -1;
    const Item *item = known_item(varying, source, other);
    return (item != NULL && ((item->varying_sizes & 1) || number_of(other, item->sizes[0]) != number_of(dim, bits))) ||
           known_item(varying, source, RANKS) != NULL;
}

/* The item of a number, with what is said of it. 1, 0 if it is a constant in any case, or MG_ERR. `varies` is set: whether it is a
 * symbol. */
static int
number_item(MgCapture *capture, MgSource *source, int dim, int is_static, int64_t bits, int *varies)
{
    MgLattice *lattice = capture->varying.lattice;
    int asks = mg_advice_asked != NULL && !lattice->frozen;
    MgAdvice advice = {0};
    int status = asks ? mg_advice_ask(capture, source, dim, is_static, &bits, &bits, &advice) : 0;
    if (status < 0 || (is_static && !lattice->frozen && advice.dynamic == 0)) {
        return status < 0 ? MG_ERR : 0;
    }
    int before = lattice->count;
    Item *item = item_of(&capture->varying, source, dim, &bits, NULL);
    if (item == NULL) {
        return PyErr_Occurred() ? MG_ERR : 0;
    }
    if (asks) {
        take_advice(item, &advice, lattice->count > before);
    }
    item->varying_sizes |=
        !lattice->frozen && (item->sizes[0] != bits || has_changed_kind(&capture->varying, source, dim, bits));
    int seen =
        lattice->dynamic == MG_DYNAMIC_ALL || (lattice->dynamic == MG_DYNAMIC_AUTOMATIC && (item->varying_sizes & 1));
    *varies = (item->dynamic & 1) || (seen && !(item->fixed & 1) && !is_static);
    return asks && !is_static && tell_item(source, item) < 0 ? MG_ERR : 1;
}

int
mg_varying_int(MgCapture *capture, MgSource *source, int is_static, PyObject *value, MgDim *dim)
{
    static const MgRange any = {INT64_MIN, INT64_MAX};
    MgLattice *lattice = capture->varying.lattice;
    int overflow = 0, varies = 0;
    is_static = is_static || mg_varying_no_ints;
    if (lattice == NULL || (is_static && mg_advice_asked == NULL && !lattice->frozen) || !PyLong_CheckExact(value)) {
        return 0;
    }
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    int status = overflow != 0 ? 0 : number_item(capture, source, -1, is_static, number, &varies);
    if (status <= 0 || !varies) {
        return status < 0 ? MG_ERR : 0;
    }
    return new_symbol(capture, (MgVarying){.source = source, .kind = MG_VARYING_VALUE}, number, any, dim);
}

int
mg_varying_float(MgCapture *capture, MgSource *source, PyObject *value)
{
    MgLattice *lattice = capture->varying.lattice;
    if (lattice == NULL || mg_varying_no_floats || !PyFloat_CheckExact(value) || !isfinite(PyFloat_AS_DOUBLE(value))) {
        return 0;
    }
    int64_t bits;
    int varies = 0;
    memcpy(&bits, &PyFloat_AS_DOUBLE(value), sizeof(bits));
    int status = number_item(capture, source, -2, 0, bits, &varies);
    return status < 0 ? MG_ERR : varies;
}

int
mg_varying_formula(MgCapture *capture, MgFormula *formula, MgSource *source, PyObject *operand, PyObject *function,
                   int64_t value, MgDim *dim)
{
    static const MgRange any = {INT64_MIN, INT64_MAX};
    MgVaryings *varying = &capture->varying;
    for (int i = 0; i < varying->facts.symbol_count; i++) {
        const MgFormula *other = varying->origins[i].formula;
        if (other != NULL && mg_formula_same(other, formula)) {
            return mg_dim_symbol(i, value, dim);
        }
    }
    if (varying->formulas == NULL && (varying->formulas = PyList_New(0)) == NULL) {
        return MG_ERR;
    }
    if (PyList_Append(varying->formulas, (PyObject *)formula) < 0 ||
        (operand != NULL && PyList_Append(varying->formulas, operand) < 0) ||
        (function != NULL && PyList_Append(varying->formulas, function) < 0)) {
        return MG_ERR;
    }
    MgVarying origin = {
        .source = source, .kind = MG_VARYING_FORMULA, .formula = formula, .operand = operand, .function = function};
    return new_symbol(capture, origin, value, any, dim);
}

MgMeta *
mg_meta_fixed(MgMeta *meta)
{
    if (!meta->varies) {
        return (MgMeta *)Py_NewRef((PyObject *)meta);
    }
    PyObject *tuples[2] = {NULL, NULL};
    int good = 1;
    for (int k = 0; good && k < 2; k++) {
        MgDim dim;
        PyObject *from = k == 0 ? meta->sizes : meta->strides;
        tuples[k] = PyTuple_New(meta->dim);
        for (int i = 0; tuples[k] != NULL && i < meta->dim; i++) {
            (void)mg_dim_read(PyTuple_GET_ITEM(from, i), &dim);
            PyObject *number = PyLong_FromLongLong(dim.v);
            if (number == NULL) {
                Py_CLEAR(tuples[k]);
                break;
            }
            PyTuple_SET_ITEM(tuples[k], i, number);
        }
        good = tuples[k] != NULL;
    }
    MgMeta *fixed = good ? mg_meta_get(meta->dtype, meta->device, tuples[0], tuples[1], meta->flags, NULL) : NULL;
    Py_XDECREF(tuples[0]);
    Py_XDECREF(tuples[1]);
    return fixed;
}

void
mg_varyings_free(MgVaryings *varyings)
{
    mg_facts_free(&varyings->facts);
    PyMem_Free(varyings->origins);
    mg_table_free(&varyings->nodes);
    Py_XDECREF(varyings->outcomes);
    Py_XDECREF(varyings->session);
    Py_XDECREF(varyings->formulas);
    Py_XDECREF((PyObject *)varyings->lattice);
    *varyings = (MgVaryings){0};
}

int
mg_varying_types_ready(void)
{
    return PyType_Ready(&MgLattice_Type) < 0 || PyType_Ready(&MgSizeGuards_Type) < 0 ? MG_ERR
                                                                                     : mg_formula_types_ready();
}
