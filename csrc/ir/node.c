/* The operations of a recording. */
#include "ir/node.h"

#include <structmember.h>

static PyObject *
ref_repr(MgRef *self)
{
    return PyUnicode_FromFormat("%%%d", self->index);
}

static PyMemberDef ref_members[] = {
    {"index", T_INT, offsetof(MgRef, index), READONLY, "The number of the node."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgRef_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Ref",
    .tp_basicsize = sizeof(MgRef),
    .tp_dealloc = (destructor)PyObject_Free,
    .tp_repr = (reprfunc)ref_repr,
    .tp_members = ref_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_node_types_ready(void)
{
    return PyType_Ready(&MgRef_Type) < 0 ? MG_ERR : MG_OK;
}

void
mg_node_clear(MgNode *node)
{
    Py_CLEAR(node->target);
    Py_CLEAR(node->args);
    Py_CLEAR(node->kwargs);
    Py_CLEAR(node->value);
    Py_CLEAR(node->stack);
    Py_CLEAR(node->real);
    Py_CLEAR(node->name);
    Py_CLEAR(node->bindings);
}
