/* Tensors without data: interned metadata, and the twins that stand for tensors during a capture.
 *
 * A twin is an instance of a subclass of torch.Tensor, so that C code takes it for a tensor, and every torch function
 * that meets it comes to its __torch_function__. Its own storage is empty and shared by all twins: whatever asks for its
 * shape is answered from its metadata. */
#include "ir/twin.h"

#include "torch/typekind.h"
#include "cpython/aside.h"
#include "ir/alias.h"
#include "ir/dimobject.h"

#include <structmember.h>

PyTypeObject *mg_twin_class;
Py_ssize_t mg_twin_offset, mg_twin_alias_offset;

static PyObject *interned;         /* strong: (dtype, device, flags, sizes, strides) -> MgMeta */
static Py_ssize_t sweep_at = 4096; /* how many there may be until those that nobody uses go */

/* ---- metadata ---- */

static void
meta_dealloc(MgMeta *self)
{
    Py_XDECREF(self->dtype);
    Py_XDECREF(self->device);
    Py_XDECREF(self->sizes);
    Py_XDECREF(self->strides);
    Py_XDECREF(self->fake);
    PyObject_Free(self);
}

static PyObject *
meta_repr(MgMeta *self)
{
    PyObject *sizes = PySequence_List(self->sizes); /* the repr of torch.Size wants ints */
    if (sizes == NULL) {
        return NULL;
    }
    PyObject *text = PyUnicode_FromFormat(
        "meta(%S, %S, torch.Size(%S), strides=%S%s%s%s%s%s%s%s%s%s)", self->dtype, self->device, sizes, self->strides,
        self->flags & MG_META_REQUIRES_GRAD ? ", requires_grad" : "",
        self->flags & MG_META_NON_LEAF ? ", non-leaf" : "", self->flags & MG_META_PARAMETER ? ", parameter" : "",
        self->flags & MG_META_CONJUGATE ? ", conjugate" : "", self->flags & MG_META_NEGATIVE ? ", negative" : "",
        self->flags & MG_META_LEAF_VIEW ? ", view of a leaf" : "",
        self->flags & MG_META_MULTI_VIEW ? ", one of several views" : "", self->flags & MG_META_WRAPPER ? ", " : "",
        self->flags & MG_META_WRAPPER ? Py_TYPE(self->fake)->tp_name : "");
    Py_DECREF(sizes);
    return text;
}

static PyMemberDef meta_members[] = {
    {"dtype", T_OBJECT_EX, offsetof(MgMeta, dtype), READONLY, NULL},
    {"device", T_OBJECT_EX, offsetof(MgMeta, device), READONLY, NULL},
    {"sizes", T_OBJECT_EX, offsetof(MgMeta, sizes), READONLY, NULL},
    {"strides", T_OBJECT_EX, offsetof(MgMeta, strides), READONLY, NULL},
    {"flags", T_INT, offsetof(MgMeta, flags), READONLY, NULL},
    {"fake", T_OBJECT, offsetof(MgMeta, fake), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgMeta_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Meta",
    .tp_basicsize = sizeof(MgMeta),
    .tp_dealloc = (destructor)meta_dealloc,
    .tp_repr = (reprfunc)meta_repr,
    .tp_members = meta_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* Forgets the metadata that nobody else holds, so that a process that meets ever new shapes does not grow. MG_OK or
 * MG_ERR. */
int
mg_meta_sweep(void)
{
    PyObject *kept = PyDict_New(), *key, *meta;
    Py_ssize_t position = 0;
    while (kept != NULL && interned != NULL && PyDict_Next(interned, &position, &key, &meta)) {
        if (Py_REFCNT(meta) > 1 && PyDict_SetItem(kept, key, meta) < 0) {
            Py_CLEAR(kept);
        }
    }
    if (kept == NULL) {
        return MG_ERR;
    }
    sweep_at = PyDict_GET_SIZE(kept) < 2048 ? 4096 : 2 * PyDict_GET_SIZE(kept);
    Py_XSETREF(interned, kept);
    return MG_OK;
}

/* 1 if a tuple has a size in it that varies. */
static int
has_dim(PyObject *tuple)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (mg_is_dim_object(PyTuple_GET_ITEM(tuple, i))) {
            return 1;
        }
    }
    return 0;
}

/* A torch.Size, by tuple's own constructor: that of torch.Size wants ints. New. */
static PyObject *
new_size(PyObject *items)
{
    PyObject *arguments = PyTuple_Pack(1, items);
    PyObject *size = arguments == NULL ? NULL : PyTuple_Type.tp_new(mg_torch.size, arguments, NULL);
    Py_XDECREF(arguments);
    return size;
}

MgMeta *
mg_meta_get(PyObject *dtype, PyObject *device, PyObject *sizes, PyObject *strides, int flags, PyObject *fake)
{
    MgMeta *meta = NULL;
    PyObject *size_tuple = PySequence_Tuple(sizes);
    PyObject *stride_tuple = PySequence_Tuple(strides);
    PyObject *number = PyLong_FromLong(flags);
    PyObject *key = NULL;
    if (size_tuple == NULL || stride_tuple == NULL || number == NULL) {
        goto done;
    }
    if (fake == NULL) {
        key = PyTuple_Pack(5, dtype, device, number, size_tuple, stride_tuple);
        if (key == NULL || (interned == NULL && (interned = PyDict_New()) == NULL)) {
            goto done;
        }
        meta = (MgMeta *)PyDict_GetItemWithError(interned, key);
        if (meta != NULL || PyErr_Occurred()) {
            Py_XINCREF(meta);
            goto done;
        }
    }
    PyObject *size_object = new_size(size_tuple);
    if (size_object == NULL) {
        goto done;
    }
    meta = PyObject_New(MgMeta, &MgMeta_Type);
    if (meta == NULL) {
        Py_DECREF(size_object);
        goto done;
    }
    meta->dtype = Py_NewRef(dtype);
    meta->device = Py_NewRef(device);
    meta->flags = flags;
    meta->dim = (int)PyTuple_GET_SIZE(size_tuple);
    meta->varies = has_dim(size_tuple) || has_dim(stride_tuple);
    meta->sizes = size_object;
    meta->strides = Py_NewRef(stride_tuple);
    meta->fake = Py_XNewRef(fake);
    if (fake == NULL) {
        int status = PyDict_GET_SIZE(interned) >= sweep_at ? mg_meta_sweep() : MG_OK;
        PyObject *one = status < 0 ? NULL : PyDict_SetDefault(interned, key, (PyObject *)meta);
        Py_XINCREF(one); /* another, if code that ran meanwhile has made it */
        Py_SETREF(meta, (MgMeta *)one);
    }
done:
    Py_XDECREF(size_tuple);
    Py_XDECREF(stride_tuple);
    Py_XDECREF(number);
    Py_XDECREF(key);
    return meta;
}

static PyObject *
tuple_of_ints(const int64_t *values, int64_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int64_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, value);
    }
    return tuple;
}

MgMeta *
mg_meta_of_tensor(PyObject *tensor)
{
    MgTensor info;
    if (mg_torch_read(tensor, &info) < 0) {
        return NULL;
    }
    PyObject *dtype = mg_torch_dtype_object(tensor, info.dtype);
    PyObject *device = dtype == NULL ? NULL : mg_torch_device_object(tensor, info.device_type, info.device_index);
    if (device == NULL) {
        return NULL;
    }
    int requires_grad = mg_torch_requires_grad(tensor);
    int flags = requires_grad ? MG_META_REQUIRES_GRAD : 0;
    if (requires_grad) {
        PyObject *leaf = mg_aside_getattr(tensor, MG_STRING("is_leaf"));
        if (leaf == NULL) { /* a view made under no_grad whose base was written to: torch can't tell */
            mg_error_clear();
            return NULL;
        }
        flags |= leaf == Py_True ? 0 : MG_META_NON_LEAF | (mg_torch_views_leaf(tensor) ? MG_META_LEAF_VIEW : 0);
        Py_DECREF(leaf);
    }
    if (mg_kind_is_plain_parameter(Py_TYPE(tensor))) {
        flags |= MG_META_PARAMETER;
    }
    flags |= mg_torch_is_conjugate(tensor) ? MG_META_CONJUGATE : 0;
    flags |= mg_torch_is_negative(tensor) ? MG_META_NEGATIVE : 0;
    PyObject *sizes = tuple_of_ints(info.sizes, info.dim);
    PyObject *strides = tuple_of_ints(info.strides, info.dim);
    MgMeta *meta = sizes == NULL || strides == NULL ? NULL : mg_meta_get(dtype, device, sizes, strides, flags, NULL);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return meta;
}

/* ---- twins ---- */

void (*mg_twin_gone)(int node, uint64_t capture);

static void
twin_dealloc(MgTwin *self)
{
    assert(self->next->previous == self && self->previous->next == self); /* the ring is whole */
    mg_twin_gone(self->node, self->capture);
    self->next->previous = self->previous;
    self->previous->next = self->next;
    Py_XDECREF(self->meta);
    Py_XDECREF(self->real);
    Py_XDECREF(self->fake);
    Py_XDECREF(self->type);
    Py_XDECREF(self->dict);
    Py_XDECREF(self->base);
    PyObject_Free(self);
}

static PyMemberDef twin_members[] = {
    {"meta", T_OBJECT_EX, offsetof(MgTwin, meta), READONLY, NULL},
    {"node", T_INT, offsetof(MgTwin, node), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgTwin_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.TwinInfo",
    .tp_basicsize = sizeof(MgTwin),
    .tp_dealloc = (destructor)twin_dealloc,
    .tp_members = twin_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

PyObject *
mg_twin_new(MgMeta *meta, uint64_t capture)
{
    assert(meta != NULL && mg_twin_class != NULL);
    PyObject *arguments[3] = {(PyObject *)mg_twin_class, mg_torch.empty_meta, Py_False};
    PyObject *object = PyObject_Vectorcall(mg_torch.make_subclass, arguments, 3, NULL);
    if (object == NULL) {
        return NULL;
    }
    MgTwin *twin = PyObject_New(MgTwin, &MgTwin_Type);
    if (twin == NULL) {
        Py_DECREF(object);
        return NULL;
    }
    twin->meta = (MgMeta *)Py_NewRef((PyObject *)meta);
    twin->node = -1;
    twin->source = NULL;
    twin->real = NULL;
    twin->fake = NULL;
    twin->type = NULL;
    twin->base = twin->dict = NULL;
    twin->overrides = 0;
    twin->is_part = twin->shares = twin->gradless = twin->changes = 0;
    twin->row = 0;
    twin->capture = capture;
    twin->next = twin->previous = twin;
    *(MgTwin **)((char *)object + mg_twin_offset) = twin;
    return object;
}

PyObject *
mg_twin_fake(const MgTwin *twin)
{
    return twin->meta->fake != NULL ? twin->meta->fake : twin->fake;
}

static void
alias_dealloc(MgAlias *self)
{
    if (self->original != NULL) {
        mg_twin_gone(self->node, mg_twin_of(self->original)->capture);
    }
    Py_XDECREF(self->original);
    PyObject_Free(self);
}

static PyTypeObject MgAlias_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.AliasInfo",
    .tp_basicsize = sizeof(MgAlias),
    .tp_dealloc = (destructor)alias_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

PyObject *
mg_twin_new_alias(PyObject *twin, int node)
{
    PyObject *original = mg_twin_original(twin);
    PyObject *arguments[3] = {(PyObject *)mg_twin_class, mg_torch.empty_meta, Py_False};
    PyObject *object = PyObject_Vectorcall(mg_torch.make_subclass, arguments, 3, NULL);
    MgAlias *alias = object == NULL ? NULL : PyObject_New(MgAlias, &MgAlias_Type);
    if (alias == NULL) {
        Py_XDECREF(object);
        return NULL;
    }
    assert(mg_twin_original(original) == original); /* aliases are never of aliases */
    alias->original = Py_NewRef(original);
    alias->node = node;
    *(MgTwin **)((char *)object + mg_twin_offset) = (MgTwin *)Py_NewRef((PyObject *)mg_twin_of(original));
    *(MgAlias **)((char *)object + mg_twin_alias_offset) = alias;
    return object;
}

void
mg_twin_join(MgTwin *twin, MgTwin *other)
{
    assert(twin != other && twin->next == twin && twin->previous == twin); /* new: alone in its ring */
    twin->next = other->next;
    twin->previous = other;
    other->next->previous = twin;
    other->next = twin;
}

int
mg_twin_types_ready(void)
{
    return PyType_Ready(&MgMeta_Type) < 0 || PyType_Ready(&MgTwin_Type) < 0 || PyType_Ready(&MgAlias_Type) < 0 ? MG_ERR
                                                                                                               : MG_OK;
}

/* Where a slot of the class of twins is. -1 with an exception if it has none of this name. */
static Py_ssize_t
slot_offset(PyObject *twin_class, const char *name)
{
    PyObject *slot = PyType_Check(twin_class) ? PyObject_GetAttrString(twin_class, name) : NULL;
    Py_ssize_t offset =
        slot != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)slot)->d_member->offset : -1;
    Py_XDECREF(slot);
    if (offset < 0) {
        PyErr_Format(PyExc_TypeError, "the class of twins needs a slot %s", name);
    }
    return offset;
}

int
mg_twin_init(PyObject *twin_class)
{
    mg_twin_offset = slot_offset(twin_class, "_magneto");
    mg_twin_alias_offset = mg_twin_offset < 0 ? -1 : slot_offset(twin_class, "_alias");
    if (mg_twin_alias_offset < 0) {
        return MG_ERR;
    }
    mg_twin_class = (PyTypeObject *)Py_NewRef(twin_class);
    return MG_OK;
}
