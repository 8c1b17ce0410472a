/* Sizes as Python objects. */
#include "ir/dimobject.h"

#include "size/tree.h"

static Py_hash_t
dim_hash(MgDimObject *self)
{
    return _Py_HashPointer(self->dim.e) ^ (Py_hash_t)self->dim.v;
}

static PyObject *
dim_compare(PyObject *left, PyObject *right, int operation)
{
    if (!mg_is_dim_object(left) || !mg_is_dim_object(right) || (operation != Py_EQ && operation != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    MgDim a = ((MgDimObject *)left)->dim, b = ((MgDimObject *)right)->dim;
    return PyBool_FromLong((a.e == b.e && a.v == b.v) == (operation == Py_EQ));
}

static PyObject *
dim_repr(MgDimObject *self)
{
    return mg_expr_text(self->dim.e, NULL);
}

static void
dim_dealloc(MgDimObject *self)
{
    PyObject_Free(self);
}

static PyObject *
dim_value(MgDimObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->dim.v);
}

static PyObject *
dim_tree(MgDimObject *self, void *unused)
{
    (void)unused;
    return mg_tree_of(self->dim.e);
}

static PyGetSetDef dim_getset[] = {
    {"value", (getter)dim_value, NULL, "What it is in the call that is captured.", NULL},
    {"tree", (getter)dim_tree, NULL, "The expression: an int, the name of a symbol, or (operator, tree, tree).", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject MgDimObject_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Dim",
    .tp_basicsize = sizeof(MgDimObject),
    .tp_dealloc = (destructor)dim_dealloc,
    .tp_repr = (reprfunc)dim_repr,
    .tp_hash = (hashfunc)dim_hash,
    .tp_richcompare = dim_compare,
    .tp_getset = dim_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_dim_object_types_ready(void)
{
    return PyType_Ready(&MgDimObject_Type);
}

PyObject *
mg_dim_object(MgDim dim)
{
    if (dim.e == NULL) {
        return PyLong_FromLongLong(dim.v);
    }
    MgDimObject *object = PyObject_New(MgDimObject, &MgDimObject_Type);
    if (object != NULL) {
        object->dim = dim;
    }
    return (PyObject *)object;
}

int
mg_dim_read(PyObject *object, MgDim *dim)
{
    if (mg_is_dim_object(object)) {
        *dim = ((MgDimObject *)object)->dim;
        return 1;
    }
    int overflow = 1;
    *dim = mg_dim(PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0);
    return !overflow;
}
