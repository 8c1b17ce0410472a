/* The graph of a function that an operator is given. */
#include "ir/subgraph.h"

#include "cpython/aside.h"

#include <structmember.h>

static int
subgraph_traverse(MgSubgraph *self, visitproc visit, void *arg)
{
    Py_VISIT(self->outer);
    Py_VISIT(self->state);
    Py_VISIT(self->before);
    Py_VISIT(self->met);
    Py_VISIT(self->written);
    Py_VISIT(self->own);
    Py_VISIT(self->inputs);
    Py_VISIT(self->metas);
    Py_VISIT(self->forced);
    Py_VISIT(self->nodes);
    Py_VISIT(self->outputs);
    Py_VISIT(self->values);
    Py_VISIT(self->groups);
    Py_VISIT(self->name);
    Py_VISIT(self->module);
    Py_VISIT(self->notes);
    return 0;
}

static int
subgraph_clear(MgSubgraph *self)
{
    mg_subgraph_end(self);
    Py_CLEAR(self->written);
    Py_CLEAR(self->own);
    Py_CLEAR(self->inputs);
    Py_CLEAR(self->metas);
    Py_CLEAR(self->forced);
    Py_CLEAR(self->nodes);
    Py_CLEAR(self->outputs);
    Py_CLEAR(self->values);
    Py_CLEAR(self->groups);
    Py_CLEAR(self->name);
    Py_CLEAR(self->module);
    Py_CLEAR(self->notes);
    return 0;
}

static void
subgraph_dealloc(MgSubgraph *self)
{
    PyObject_GC_UnTrack(self);
    subgraph_clear(self);
    PyObject_GC_Del(self);
}

void
mg_subgraph_end(MgSubgraph *subgraph)
{
    subgraph->is_open = 0;
    Py_CLEAR(subgraph->outer);
    Py_CLEAR(subgraph->state);
    Py_CLEAR(subgraph->before);
    Py_CLEAR(subgraph->met);
}

MgSubgraph *
mg_subgraph_new(void)
{
    MgSubgraph *subgraph = PyObject_GC_New(MgSubgraph, &MgSubgraph_Type);
    if (subgraph == NULL) {
        return NULL;
    }
    memset((char *)subgraph + sizeof(PyObject), 0, sizeof(MgSubgraph) - sizeof(PyObject));
    subgraph->is_open = 1;
    subgraph->met = PyDict_New();
    subgraph->written = PySet_New(NULL);
    subgraph->own = PyList_New(0);
    subgraph->forced = PyList_New(0);
    subgraph->groups = Py_NewRef(Py_None);
    subgraph->name = Py_NewRef(Py_None);
    subgraph->notes = Py_NewRef(Py_None);
    if (subgraph->met == NULL || subgraph->written == NULL || subgraph->own == NULL || subgraph->forced == NULL) {
        Py_CLEAR(subgraph);
    }
    else {
        PyObject_GC_Track(subgraph);
    }
    return subgraph;
}

PyObject *
mg_subgraph_module(MgSubgraph *subgraph)
{
    static PyObject *make; /* strong */
    if (subgraph->module == NULL) {
        if (make == NULL && (make = mg_aside_find("magneto._subgraphs", "module_of")) == NULL) {
            return NULL;
        }
        PyObject *argument = (PyObject *)subgraph, *module = mg_aside_call(make, &argument, 1);
        Py_XSETREF(subgraph->module, module);
    }
    return subgraph->module;
}

static PyMemberDef subgraph_members[] = {
    {"inputs", T_OBJECT, offsetof(MgSubgraph, inputs), READONLY, NULL},
    {"own", T_OBJECT, offsetof(MgSubgraph, own), READONLY, NULL},
    {"metas", T_OBJECT, offsetof(MgSubgraph, metas), READONLY, NULL},
    {"nodes", T_OBJECT, offsetof(MgSubgraph, nodes), READONLY, NULL},
    {"outputs", T_OBJECT, offsetof(MgSubgraph, outputs), READONLY, NULL},
    {"values", T_OBJECT, offsetof(MgSubgraph, values), READONLY, NULL},
    {"groups", T_OBJECT, offsetof(MgSubgraph, groups), READONLY, NULL},
    {"name", T_OBJECT, offsetof(MgSubgraph, name), READONLY, NULL},
    {"notes", T_OBJECT, offsetof(MgSubgraph, notes), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(module_doc, "module()\n--\n\nThe GraphModule that runs it; its nodes have no metadata.");

static PyObject *
subgraph_module(MgSubgraph *self, PyObject *unused)
{
    (void)unused;
    return Py_XNewRef(mg_subgraph_module(self));
}

static PyMethodDef subgraph_methods[] = {
    {"module", (PyCFunction)subgraph_module, METH_NOARGS, module_doc},
    {NULL, NULL, 0, NULL},
};

static PyObject *
subgraph_repr(MgSubgraph *self)
{
    return PyUnicode_FromFormat("<subgraph %S>", self->name);
}

PyTypeObject MgSubgraph_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Subgraph",
    .tp_basicsize = sizeof(MgSubgraph),
    .tp_dealloc = (destructor)subgraph_dealloc,
    .tp_traverse = (traverseproc)subgraph_traverse,
    .tp_clear = (inquiry)subgraph_clear,
    .tp_repr = (reprfunc)subgraph_repr,
    .tp_members = subgraph_members,
    .tp_methods = subgraph_methods,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

int
mg_subgraph_types_ready(void)
{
    return PyType_Ready(&MgSubgraph_Type) < 0 ? MG_ERR : MG_OK;
}
