/* The metadata of a node of a torch.fx.Graph: a dict whose values are made when they are first read.
 *
 * Everybody takes it for a dict, and nobody may see mg_unmade in it. Keys, their order and their number are those of the
 * finished dict from the start, so whatever looks at them alone is left to dict. What returns one value makes that one;
 * what returns all makes all. C code that copies or merges a dict (`dict(meta)`, `{**meta}`, `f(**meta)`, `d.update(meta)`,
 * `meta | d`, PyDict_Copy, PyDict_Update) takes the short way only for types that have dict's own iterator: this one has
 * another, so that it is asked for its keys, and for the value of each. PyDict_GetItem and PyDict_Next, and methods of
 * dict itself that are called with it (`dict.get(meta, key)`), see what is there: nobody in torch or FX does that.
 *
 * Copies share `make`, which returns the same object for the same number and key: so a copy has the values of the original,
 * whichever of the two is read first. */
#include "fx/nodemeta.h"

static PyObject *
unmade_repr(PyObject *self)
{
    (void)self;
    return PyUnicode_FromString("<not made yet>");
}

static PyTypeObject unmade_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Unmade",
    .tp_basicsize = sizeof(PyObject),
    .tp_repr = unmade_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

PyObject mg_unmade = {.ob_refcnt = 1, .ob_type = &unmade_type};

/* Makes the value at a key that is there. MG_OK or MG_ERR. */
static int
make_one(MgNodeMeta *self, PyObject *key)
{
    if (self->make == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the metadata of this node can't be made any more");
        return MG_ERR;
    }
    PyObject *make = Py_NewRef(self->make), *number = PyLong_FromLong(self->number);
    PyObject *value = number == NULL ? NULL : PyObject_CallFunctionObjArgs(make, number, key, NULL);
    Py_DECREF(make);
    Py_XDECREF(number);
    if (value == NULL) {
        return MG_ERR;
    }
    /* making it ran code, which may have changed the dict */
    PyObject *now = PyDict_GetItemWithError((PyObject *)self, key);
    int status = now == &mg_unmade                 ? PyDict_SetItem((PyObject *)self, key, value)
                 : now == NULL && PyErr_Occurred() ? MG_ERR
                                                   : MG_OK;
    Py_DECREF(value);
    return status;
}

/* Makes the value at a key, if there is one that was not made. MG_OK or MG_ERR. */
static int
make_at(PyObject *self, PyObject *key)
{
    PyObject *value = PyDict_GetItemWithError(self, key);
    if (value != &mg_unmade) {
        return value == NULL && PyErr_Occurred() ? MG_ERR : MG_OK;
    }
    Py_INCREF(key);
    int status = make_one((MgNodeMeta *)self, key);
    Py_DECREF(key);
    return status;
}

/* Makes all values. MG_OK or MG_ERR. */
static int
make_all(PyObject *self)
{
    if (((MgNodeMeta *)self)->make == NULL) {
        return MG_OK;
    }
    PyObject *keys = PyDict_Keys(self);
    int status = keys == NULL ? MG_ERR : MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(keys); i++) {
        status = make_at(self, PyList_GET_ITEM(keys, i));
    }
    Py_XDECREF(keys);
    if (status == MG_OK) {
        Py_CLEAR(((MgNodeMeta *)self)->make);
    }
    return status;
}

/* The method of dict of this name, called with self and the arguments. New. */
static PyObject *
call_dict(PyObject *name, PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *method = _PyType_Lookup(&PyDict_Type, name); /* borrowed */
    PyObject *all[4] = {NULL, self};
    assert(method != NULL && count <= 2);
    for (Py_ssize_t i = 0; i < count; i++) {
        all[2 + i] = args[i];
    }
    return PyObject_Vectorcall(method, all + 1, (size_t)(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

/* ---- one value ---- */

static PyObject *
meta_subscript(PyObject *self, PyObject *key)
{
    return make_at(self, key) < 0 ? NULL : PyDict_Type.tp_as_mapping->mp_subscript(self, key);
}

static PyObject *
meta_getitem(PyObject *self, PyObject *key)
{
    return meta_subscript(self, key);
}

/* One of dict's methods that take a key and perhaps a default. */
static PyObject *
call_with_key(PyObject *name, PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || count > 2) {
        PyErr_Format(PyExc_TypeError, "%U expected 1 or 2 arguments, got %zd", name, count);
        return NULL;
    }
    return make_at(self, args[0]) < 0 ? NULL : call_dict(name, self, args, count);
}

static PyObject *
meta_get(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return call_with_key(MG_STRING("get"), self, args, count);
}

static PyObject *
meta_pop(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return call_with_key(MG_STRING("pop"), self, args, count);
}

static PyObject *
meta_setdefault(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return call_with_key(MG_STRING("setdefault"), self, args, count);
}

/* ---- all values ---- */

static PyObject *
meta_items(PyObject *self, PyObject *unused)
{
    (void)unused;
    return make_all(self) < 0 ? NULL : call_dict(MG_STRING("items"), self, NULL, 0);
}

static PyObject *
meta_values(PyObject *self, PyObject *unused)
{
    (void)unused;
    return make_all(self) < 0 ? NULL : call_dict(MG_STRING("values"), self, NULL, 0);
}

static PyObject *
meta_popitem(PyObject *self, PyObject *unused)
{
    (void)unused;
    return make_all(self) < 0 ? NULL : call_dict(MG_STRING("popitem"), self, NULL, 0);
}

static PyObject *
meta_repr(PyObject *self)
{
    return make_all(self) < 0 ? NULL : PyDict_Type.tp_repr(self);
}

static PyObject *
meta_compare(PyObject *self, PyObject *other, int operation)
{
    if (make_all(self) < 0 || (PyObject_TypeCheck(other, &MgNodeMeta_Type) && make_all(other) < 0)) {
        return NULL;
    }
    return PyDict_Type.tp_richcompare(self, other, operation);
}

/* The keys; not dict's own function, see above. */
static PyObject *
meta_iter(PyObject *self)
{
    return PyDict_Type.tp_iter(self);
}

/* ---- copies ---- */

/* A copy whose values are not made before they are read. */
static PyObject *
meta_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    MgNodeMeta *from = (MgNodeMeta *)self;
    MgNodeMeta *copy = (MgNodeMeta *)PyDict_Type.tp_new(&MgNodeMeta_Type, NULL, NULL);
    Py_ssize_t position = 0;
    PyObject *key, *value;
    if (copy == NULL) {
        return NULL;
    }
    copy->make = Py_XNewRef(from->make);
    copy->number = from->number;
    while (PyDict_Next(self, &position, &key, &value)) {
        if (PyDict_SetItem((PyObject *)copy, key, value) < 0) {
            Py_DECREF(copy);
            return NULL;
        }
    }
    return (PyObject *)copy;
}

/* All of it as a plain dict. New. */
static PyObject *
plain(PyObject *self)
{
    return make_all(self) < 0 ? NULL : PyDict_Copy(self);
}

static PyObject *
meta_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *dict = plain(self);
    return dict == NULL ? NULL : Py_BuildValue("(O(N))", &PyDict_Type, dict);
}

/* ---- the type ---- */

static int
meta_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((MgNodeMeta *)self)->make);
    return PyDict_Type.tp_traverse(self, visit, arg);
}

static int
meta_clear(PyObject *self)
{
    Py_CLEAR(((MgNodeMeta *)self)->make);
    return PyDict_Type.tp_clear(self);
}

static void
meta_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((MgNodeMeta *)self)->make);
    PyDict_Type.tp_dealloc(self);
}

PyObject *
mg_node_meta_made(PyObject *module, PyObject *meta)
{
    (void)module;
    PyObject *dict = PyDict_New();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (dict != NULL && PyDict_Check(meta) && PyDict_Next(meta, &position, &key, &value)) {
        if (value != &mg_unmade && PyDict_SetItem(dict, key, value) < 0) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

PyObject *
mg_node_meta(PyObject *items, PyObject *make, int number)
{
    MgNodeMeta *meta = (MgNodeMeta *)PyDict_Type.tp_new(&MgNodeMeta_Type, NULL, NULL);
    if (meta == NULL) {
        return NULL;
    }
    meta->make = Py_NewRef(make);
    meta->number = number;
    if (PyDict_Update((PyObject *)meta, items) < 0) {
        Py_CLEAR(meta);
    }
    return (PyObject *)meta;
}

static PyMethodDef meta_methods[] = {
    {"__getitem__", meta_getitem, METH_O | METH_COEXIST, "The value at a key."},
    {"get", _PyCFunction_CAST(meta_get), METH_FASTCALL, "The value at a key, or a default."},
    {"pop", _PyCFunction_CAST(meta_pop), METH_FASTCALL, "Remove a key and return its value, or a default."},
    {"setdefault", _PyCFunction_CAST(meta_setdefault), METH_FASTCALL,
     "The value at a key, which is set if there is none."},
    {"items", meta_items, METH_NOARGS, "A view of all items."},
    {"values", meta_values, METH_NOARGS, "A view of all values."},
    {"popitem", meta_popitem, METH_NOARGS, "Remove the last item and return it."},
    {"copy", meta_copy, METH_NOARGS, "A shallow copy."},
    {"__copy__", meta_copy, METH_NOARGS, "A shallow copy."},
    {"__reduce__", meta_reduce, METH_NOARGS, "It is pickled, and copied deeply, as a plain dict."},
    {"__reduce_ex__", meta_reduce, METH_O, "It is pickled, and copied deeply, as a plain dict."},
    {NULL, NULL, 0, NULL},
};

static PyMappingMethods meta_mapping = {.mp_subscript = meta_subscript};

PyTypeObject MgNodeMeta_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.NodeMeta",
    .tp_doc = "The metadata of a node: a dict whose values are made when they are first read.",
    .tp_basicsize = sizeof(MgNodeMeta),
    .tp_dealloc = meta_dealloc,
    .tp_repr = meta_repr,
    .tp_as_mapping = &meta_mapping,
    .tp_traverse = meta_traverse,
    .tp_clear = meta_clear,
    .tp_richcompare = meta_compare,
    .tp_hash = PyObject_HashNotImplemented,
    .tp_iter = meta_iter,
    .tp_methods = meta_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DICT_SUBCLASS,
    .tp_base = &PyDict_Type,
};

int
mg_node_meta_types_ready(void)
{
    return PyType_Ready(&unmade_type) < 0 || PyType_Ready(&MgNodeMeta_Type) < 0 ? MG_ERR : MG_OK;
}
