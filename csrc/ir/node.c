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

PyObject *
mg_node_describe(const MgNode *node, int index, PyObject *text, PyObject *root)
{
    static const char *const kinds[] = {"placeholder", "call_function", "call_method"};
    return Py_BuildValue("(isOOOOOOOOOi)", index, kinds[node->kind], node->target == NULL ? Py_None : node->target,
                         node->args == NULL ? Py_None : node->args, node->kwargs == NULL ? Py_None : node->kwargs,
                         node->value, node->stack == NULL ? Py_None : node->stack, text == NULL ? Py_None : text,
                         node->name == NULL ? Py_None : node->name, root == NULL ? Py_None : root,
                         node->bindings == NULL ? Py_None : node->bindings, node->in_module);
}

void
mg_node_forget_uses(PyObject *value, MgNode *nodes, int first, int end)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        int index = ((MgRef *)value)->index;
        nodes[index].users -= index >= first && index < end;
    }
    else if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
            PyObject *item = PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
            mg_node_forget_uses(item, nodes, first, end);
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        mg_node_forget_uses(slice->start, nodes, first, end);
        mg_node_forget_uses(slice->stop, nodes, first, end);
        mg_node_forget_uses(slice->step, nodes, first, end);
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (PyDict_Next(value, &position, &key, &item)) {
            mg_node_forget_uses(item, nodes, first, end);
        }
    }
}
