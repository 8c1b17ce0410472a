/* Writes nodes into a torch.fx.Graph, as Graph.create_node does, without its price.
 *
 * Nodes are made, given their arguments and put into the list of nodes by torch's own _NodeBase. Done here is what FX does in
 * Python around that: a name that is free in the graph's namespace, and the tables from nodes to names and from targets to
 * nodes. Names that are not plain ASCII identifiers are left to FX. The graph must be one that nobody else writes to
 * meanwhile; it is complete after close(). */
#include "fx/writer.h"

#include "fx/nodemeta.h"
#include "ir/node.h"
#include "ir/structure.h"
#include "ir/subgraph.h"

typedef struct {
    PyObject_HEAD
    PyObject *graph;     /* strong */
    PyObject *root;      /* strong: the node before the first and behind the last */
    PyObject *namespace; /* strong: graph._graph_namespace */
    PyObject *used;      /* strong: the names that it has given, a set */
    PyObject *counts;    /* strong: the last number that was put behind a name, a dict */
    PyObject *names;     /* strong: of each node, a dict */
    PyObject *table;     /* strong: the nodes by operation and target */
    PyObject *illegal;   /* strong: names that are not to be given, a dict */
    PyObject *stems;     /* strong: how the names of nodes with a target start, a dict */
    PyObject *update;    /* borrowed from the type of the root: the method that sets arguments */
    PyObject *prepend;   /* borrowed from it: the method that puts a node before another */
    PyObject *no_kwargs; /* strong: an immutable_dict */
    PyObject *check;     /* strong: torch._check */
    Py_ssize_t count;    /* nodes written */
} MgWriter;

/* ---- names ---- */

static int
is_letter(Py_UCS1 c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int
is_digit(Py_UCS1 c)
{
    return c >= '0' && c <= '9';
}

/* Where the number behind a name begins, with the underscore before it: its length if it has none, -1 if FX has to look at
 * the name. */
static Py_ssize_t
split_name(PyObject *name)
{
    if (!PyUnicode_CheckExact(name) || !PyUnicode_IS_COMPACT_ASCII(name)) {
        return -1;
    }
    const Py_UCS1 *chars = PyUnicode_1BYTE_DATA(name);
    Py_ssize_t length = PyUnicode_GET_LENGTH(name), digits = 0;
    if (length == 0 || !is_letter(chars[0])) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        if (!is_letter(chars[i]) && !is_digit(chars[i])) {
            return -1;
        }
    }
    while (is_digit(chars[length - 1 - digits])) { /* the first is none */
        digits++;
    }
    Py_ssize_t end = length - digits - 1;
    if (digits == 0 || end == 0 || chars[end] != '_') {
        return length;
    }
    return digits > 9 ? -1 : end;
}

/* The first name that is free from base_<number + 1> on. New. */
static PyObject *
number_name(MgWriter *self, PyObject *base, PyObject *name, long *number)
{
    int taken = name == NULL ? 1 : PySet_Contains(self->used, name);
    Py_XINCREF(name);
    while (taken > 0) {
        Py_XDECREF(name);
        name = PyUnicode_FromFormat("%U_%ld", base, ++*number);
        taken = name == NULL ? -1 : PySet_Contains(self->used, name);
    }
    if (taken < 0) {
        Py_CLEAR(name);
    }
    return name;
}

static PyObject *
create_name_by_fx(MgWriter *self, PyObject *wish)
{
    return PyObject_CallMethodObjArgs(self->namespace, MG_STRING("create_name"), wish, Py_None, NULL);
}

/* A free name that is, or starts with, a wish: as _Namespace.create_name. New. */
static PyObject *
create_name(MgWriter *self, PyObject *wish)
{
    Py_ssize_t end = split_name(wish);
    if (end < 0) {
        return create_name_by_fx(self, wish);
    }
    PyObject *base = end == PyUnicode_GET_LENGTH(wish) ? Py_NewRef(wish) : PyUnicode_Substring(wish, 0, end);
    PyObject *name = NULL, *count = NULL;
    int taken = base == NULL ? -1 : PySet_Contains(self->used, wish);
    if (taken < 0) {
        goto done;
    }
    long number = 0;
    PyObject *first = wish;
    if (taken || end == PyUnicode_GET_LENGTH(wish)) {
        PyObject *known = PyDict_GetItemWithError(self->counts, base);
        int is_large = 0;
        number = known == NULL ? 0 : PyLong_AsLongAndOverflow(known, &is_large);
        if (is_large) { /* somebody has called a variable x_99999999999999999999 */
            name = create_name_by_fx(self, wish);
            goto done;
        }
        PyObject *illegal = PyErr_Occurred() ? NULL : PyDict_GetItemWithError(self->illegal, wish);
        if (PyErr_Occurred()) {
            goto done;
        }
        first = illegal != NULL && illegal != Py_None ? NULL : wish;
    }
    else {
        number = strtol((const char *)PyUnicode_1BYTE_DATA(wish) + end + 1, NULL, 10);
    }
    name = number_name(self, base, first, &number);
    count = name == NULL ? NULL : PyLong_FromLong(number);
    if (count == NULL || PySet_Add(self->used, name) < 0 || PyDict_SetItem(self->counts, base, count) < 0) {
        Py_CLEAR(name);
    }
done:
    Py_XDECREF(base);
    Py_XDECREF(count);
    return name;
}

/* A text in lower case with an underscore where upper case begins, as FX's _snake_case. NULL without an exception if FX has
 * to do it. New. */
static PyObject *
snake_case(PyObject *text)
{
    char room[512];
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text) || PyUnicode_GET_LENGTH(text) > 250) {
        return NULL;
    }
    const Py_UCS1 *chars = PyUnicode_1BYTE_DATA(text);
    Py_ssize_t length = PyUnicode_GET_LENGTH(text), at = 0;
    if (length >= 2 && chars[0] == '_' && chars[1] == '_' && chars[length - 1] == '_') {
        return NULL; /* FX takes some of these apart */
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        int upper = chars[i] >= 'A' && chars[i] <= 'Z';
        if (upper && i > 0 && chars[i - 1] >= 'a' && chars[i - 1] <= 'z') {
            room[at++] = '_';
        }
        room[at++] = (char)(upper ? chars[i] - 'A' + 'a' : chars[i]);
    }
    return PyUnicode_FromStringAndSize(room, at);
}

/* How the name of a node with this target starts. New. */
static PyObject *
stem_of(MgWriter *self, PyObject *target)
{
    PyObject *stem = PyDict_GetItemWithError(self->stems, target);
    if (stem != NULL || PyErr_Occurred()) {
        return Py_XNewRef(stem);
    }
    if (PyCallable_Check(target)) {
        PyObject *name = PyObject_GetAttr(target, MG_STRING("__name__"));
        if (name == NULL) {
            return NULL;
        }
        stem = snake_case(name);
        Py_DECREF(name);
    }
    else {
        stem = snake_case(target);
    }
    if (stem == NULL && !PyErr_Occurred()) {
        stem = PyObject_CallMethodOneArg(self->graph, MG_STRING("_target_to_str"), target);
    }
    if (stem != NULL && PyDict_SetItem(self->stems, target, stem) < 0) {
        Py_CLEAR(stem);
    }
    return stem;
}

/* ---- nodes ---- */

/* Notes a node in the table by operation and target. MG_OK or MG_ERR. */
static int
note_target(MgWriter *self, PyObject *node, PyObject *op, PyObject *target)
{
    int is_function = PyUnicode_CompareWithASCIIString(op, "call_function") == 0;
    PyObject *key = PyTuple_Pack(2, op, is_function ? target : Py_None);
    PyObject *nodes = key == NULL ? NULL : PyObject_GetItem(self->table, key);
    int status = nodes == NULL ? MG_ERR : PyDict_SetItem(nodes, node, Py_None);
    Py_XDECREF(key);
    Py_XDECREF(nodes);
    return status;
}

/* A new node at the end of the graph. `args` and `kwargs` are not kept. New. */
static PyObject *
write_node(MgWriter *self, PyObject *op, PyObject *name, PyObject *target, PyObject *args, PyObject *kwargs,
           PyObject *type, PyObject *meta)
{
    PyTypeObject *class = Py_TYPE(self->root);
    PyObject *start = PyTuple_Pack(5, self->graph, name, op, target, type), *done = NULL;
    PyObject *node = start == NULL ? NULL : class->tp_new(class, start, NULL);
    if (node == NULL || class->tp_base->tp_init(node, start, NULL) < 0) {
        goto fail;
    }
    PyObject *given[] = {NULL, node, args, kwargs};
    done = PyObject_Vectorcall(self->update, given + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (done == NULL || (meta != NULL && PyObject_GenericSetAttr(node, MG_STRING("meta"), meta) < 0) ||
        PyDict_SetItem(self->names, node, name) < 0) {
        goto fail;
    }
    Py_DECREF(done);
    PyObject *order[] = {NULL, self->root, node};
    done = PyObject_Vectorcall(self->prepend, order + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (done == NULL || note_target(self, node, op, target) < 0) {
        goto fail;
    }
    self->count++;
    Py_DECREF(start);
    Py_DECREF(done);
    return node;
fail:
    Py_XDECREF(start);
    Py_XDECREF(done);
    Py_XDECREF(node);
    return NULL;
}

static PyObject *
writer_node(MgWriter *self, PyObject *args)
{
    PyObject *op, *target, *type, *meta;
    if (!PyArg_ParseTuple(args, "UOOO!", &op, &target, &type, &PyDict_Type, &meta)) {
        return NULL;
    }
    PyObject *stem = stem_of(self, target), *name = stem == NULL ? NULL : create_name(self, stem);
    PyObject *none = name == NULL ? NULL : PyTuple_New(0);
    PyObject *node = none == NULL ? NULL : write_node(self, op, name, target, none, self->no_kwargs, type, meta);
    Py_XDECREF(stem);
    Py_XDECREF(name);
    Py_XDECREF(none);
    return node;
}

static PyObject *
writer_output(MgWriter *self, PyObject *values)
{
    PyObject *name = create_name(self, MG_STRING("output")), *args = name == NULL ? NULL : PyTuple_Pack(1, values);
    PyObject *node = args == NULL ? NULL
                                  : write_node(self, MG_STRING("output"), name, MG_STRING("output"), args,
                                               self->no_kwargs, Py_None, NULL);
    Py_XDECREF(name);
    Py_XDECREF(args);
    return node;
}

/* ---- inputs ---- */

/* The template of an input's metadata, a dict; borrowed. NULL with an exception. */
static PyObject *
input_template(void)
{
    static PyObject *template; /* strong */
    if (template == NULL) {
        PyObject *dict = PyDict_New();
        if (dict == NULL || PyDict_SetItem(dict, MG_STRING("stack_trace"), &mg_unmade) < 0 ||
            PyDict_SetItem(dict, MG_STRING("example_value"), &mg_unmade) < 0 ||
            PyDict_SetItem(dict, MG_STRING("tensor_dict"), &mg_unmade) < 0 ||
            PyDict_SetItem(dict, MG_STRING("grapharg"), &mg_unmade) < 0) {
            Py_XDECREF(dict);
            return NULL;
        }
        template = dict;
    }
    return template;
}

static PyObject *
writer_input(MgWriter *self, PyObject *args)
{
    PyObject *target, *type, *source, *marks, *make;
    int position;
    if (!PyArg_ParseTuple(args, "UOOO!Oi", &target, &type, &source, &PyDict_Type, &marks, &make, &position)) {
        return NULL;
    }
    PyObject *template = input_template(), *node = NULL;
    PyObject *meta = template == NULL ? NULL : mg_node_meta(template, make, position);
    PyObject *stem =
        meta == NULL || PyDict_SetItem(meta, MG_STRING("tensor_dict"), marks) < 0 ? NULL : stem_of(self, target);
    PyObject *name = stem == NULL ? NULL : create_name(self, stem), *none = name == NULL ? NULL : PyTuple_New(0);
    if (none != NULL) {
        node = write_node(self, MG_STRING("placeholder"), name, target, none, self->no_kwargs, type, meta);
    }
    if (node != NULL && PyObject_GenericSetAttr(node, MG_STRING("_dynamo_source"), source) < 0) {
        Py_CLEAR(node);
    }
    Py_XDECREF(meta);
    Py_XDECREF(stem);
    Py_XDECREF(name);
    Py_XDECREF(none);
    return node;
}

/* ---- the operations of a recording ---- */

/* What is written of an operation, as MgEntry describes it: borrowed. */
typedef struct {
    int number;
    PyObject *op, *target, *args, *kwargs, *value, *stack, *hint, *bindings;
} Described;

static int
read_described(PyObject *item, Described *found)
{
    PyObject *unused;
    return PyArg_ParseTuple(item, "iOOOOOOOOOOO", &found->number, &found->op, &found->target, &found->args,
                            &found->kwargs, &found->value, &found->stack, &unused, &found->hint, &unused,
                            &found->bindings, &unused)
               ? MG_OK
               : MG_ERR;
}

/* An argument with nodes in place of references; `nodes` is a list. New. */
static PyObject *
put_nodes(void *nodes, PyObject *value)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        int index = ((MgRef *)value)->index;
        PyObject *node = index < PyList_GET_SIZE(nodes) ? PyList_GET_ITEM(nodes, index) : Py_None;
        if (node == Py_None) {
            PyErr_Format(PyExc_RuntimeError, "an operation uses node %d before it is there", index);
            return NULL;
        }
        return Py_NewRef(node);
    }
    return mg_structure_is(value) ? mg_structure_map(value, put_nodes, nodes) : Py_NewRef(value);
}

/* 1 if a frame of a stack is that of a module. */
static int
has_module(PyObject *stack)
{
    for (Py_ssize_t i = 0; PyTuple_Check(stack) && i < PyTuple_GET_SIZE(stack); i++) {
        if (PyTuple_GET_SIZE(PyTuple_GET_ITEM(stack, i)) > 2) {
            return 1;
        }
    }
    return 0;
}

/* The metadata of an operation, with nothing made yet. New. */
static PyObject *
meta_of(const Described *item, PyObject *make, int number)
{
    static PyObject *templates[4]; /* strong: by whether there are modules, and a value */
    int kind = has_module(item->stack) + 2 * (item->value != Py_None);
    if (templates[kind] == NULL) {
        PyObject *dict = PyDict_New();
        int status = dict == NULL ? -1 : 0;
        if (status == 0 && (kind & 1)) {
            status = PyDict_SetItem(dict, MG_STRING("nn_module_stack"), &mg_unmade);
        }
        if (status == 0) {
            status = PyDict_SetItem(dict, MG_STRING("source_fn_stack"), &mg_unmade);
        }
        if (status == 0) {
            status = PyDict_SetItem(dict, MG_STRING("stack_trace"), &mg_unmade);
        }
        if (status == 0 && (kind & 2)) {
            status = PyDict_SetItem(dict, MG_STRING("example_value"), &mg_unmade);
        }
        if (status < 0) {
            Py_XDECREF(dict);
            return NULL;
        }
        templates[kind] = dict;
    }
    PyObject *meta = mg_node_meta(templates[kind], make, number);
    if (meta != NULL && item->bindings != Py_None &&
        PyDict_SetItem(meta, MG_STRING("unbacked_bindings"), item->bindings) < 0) {
        Py_CLEAR(meta);
    }
    return meta;
}

/* 1 if there is a subgraph in a tuple, or in one of those in it. */
static int
has_subgraph(PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *arg = PyTuple_GET_ITEM(args, i);
        if (mg_is_subgraph(arg) || (PyTuple_CheckExact(arg) && has_subgraph(arg))) {
            return 1;
        }
    }
    return 0;
}

/* 1 if an argument of an operation must become a node first: a subgraph, or the function that makes a message. */
static int
needs_others(const MgWriter *self, const Described *item)
{
    Py_ssize_t count = PyTuple_Check(item->args) ? PyTuple_GET_SIZE(item->args) : 0;
    if (count > 0 && has_subgraph(item->args)) {
        return 1;
    }
    return item->target == self->check && count == 2 &&
           !Py_IS_TYPE(PyTuple_GET_ITEM(item->args, 1), Py_TYPE(self->root));
}

/* Writes one operation; its name before one was wished for goes to `names` at `position`. MG_OK or MG_ERR. */
static int
write_operation(MgWriter *self, const Described *item, int position, PyObject *nodes, PyObject *names, PyObject *make)
{
    PyObject *node = NULL, *name = NULL, *meta = NULL, *args = NULL, *kwargs = NULL;
    PyObject *stem = stem_of(self, item->target), *first = stem == NULL ? NULL : create_name(self, stem);
    if (first == NULL || PyList_SetItem(names, position, Py_NewRef(first)) < 0) {
        goto done;
    }
    int is_other = item->hint == Py_None ? 0 : PyObject_RichCompareBool(item->hint, first, Py_NE);
    name = is_other < 0 ? NULL : is_other ? create_name(self, item->hint) : Py_NewRef(first);
    meta = name == NULL ? NULL : meta_of(item, make, position);
    args = meta == NULL ? NULL : put_nodes(nodes, item->args);
    if (args != NULL) {
        int is_empty = item->kwargs == Py_None || PyDict_GET_SIZE(item->kwargs) == 0;
        kwargs = is_empty ? Py_NewRef(self->no_kwargs) : put_nodes(nodes, item->kwargs);
    }
    node = kwargs == NULL ? NULL : write_node(self, item->op, name, item->target, args, kwargs, Py_None, meta);
    if (node != NULL && PyList_SetItem(nodes, item->number, Py_NewRef(node)) < 0) {
        Py_CLEAR(node);
    }
done:
    Py_XDECREF(stem);
    Py_XDECREF(first);
    Py_XDECREF(name);
    Py_XDECREF(meta);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(node);
    return node == NULL ? MG_ERR : MG_OK;
}

static PyObject *
writer_operations(MgWriter *self, PyObject *args)
{
    PyObject *items, *nodes, *names, *make;
    int start, stop;
    if (!PyArg_ParseTuple(args, "O!iiO!O!O", &PyList_Type, &items, &start, &stop, &PyList_Type, &nodes, &PyList_Type,
                          &names, &make)) {
        return NULL;
    }
    for (; start < stop && start < PyList_GET_SIZE(items); start++) {
        Described item;
        if (read_described(PyList_GET_ITEM(items, start), &item) < 0) {
            return NULL;
        }
        if (needs_others(self, &item)) {
            break;
        }
        if (write_operation(self, &item, start, nodes, names, make) < 0) {
            return NULL;
        }
    }
    return PyLong_FromLong(start);
}

static PyObject *
writer_close(MgWriter *self, PyObject *unused)
{
    (void)unused;
    PyObject *before = PyObject_GetAttr(self->graph, MG_STRING("_len"));
    PyObject *more = before == NULL ? NULL : PyLong_FromSsize_t(self->count);
    PyObject *now = more == NULL ? NULL : PyNumber_Add(before, more);
    int status = now == NULL ? -1 : PyObject_SetAttr(self->graph, MG_STRING("_len"), now);
    Py_XDECREF(before);
    Py_XDECREF(more);
    Py_XDECREF(now);
    self->count = 0;
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

/* ---- the type ---- */

static int
writer_traverse(MgWriter *self, visitproc visit, void *arg)
{
    PyObject *const held[] = {self->graph, self->root,    self->namespace, self->used,      self->counts, self->names,
                              self->table, self->illegal, self->stems,     self->no_kwargs, self->check};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(held); i++) {
        Py_VISIT(held[i]);
    }
    return 0;
}

static int
writer_clear(MgWriter *self)
{
    PyObject **const held[] = {&self->graph,  &self->root,      &self->namespace, &self->used,
                               &self->counts, &self->names,     &self->table,     &self->illegal,
                               &self->stems,  &self->no_kwargs, &self->check};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(held); i++) {
        Py_CLEAR(*held[i]);
    }
    return 0;
}

static void
writer_dealloc(MgWriter *self)
{
    PyObject_GC_UnTrack(self);
    (void)writer_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int
writer_init(MgWriter *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"graph", "illegal", "no_kwargs", "check", NULL};
    PyObject *graph, *illegal, *no_kwargs, *check;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OO", keywords, &graph, &PyDict_Type, &illegal, &no_kwargs,
                                     &check)) {
        return -1;
    }
    (void)writer_clear(self);
    self->graph = Py_NewRef(graph);
    self->illegal = Py_NewRef(illegal);
    self->no_kwargs = Py_NewRef(no_kwargs);
    self->check = Py_NewRef(check);
    self->stems = PyDict_New();
    self->root = PyObject_GetAttrString(graph, "_root");
    self->namespace = PyObject_GetAttrString(graph, "_graph_namespace");
    PyObject *table = PyObject_GetAttrString(graph, "_find_nodes_lookup_table");
    self->table = table == NULL ? NULL : PyObject_GetAttrString(table, "table");
    Py_XDECREF(table);
    if (self->stems == NULL || self->root == NULL || self->namespace == NULL || self->table == NULL) {
        return -1;
    }
    self->used = PyObject_GetAttrString(self->namespace, "_used_names");
    self->counts = PyObject_GetAttrString(self->namespace, "_base_count");
    self->names = PyObject_GetAttrString(self->namespace, "_obj_to_name");
    if (self->used == NULL || self->counts == NULL || self->names == NULL) {
        return -1;
    }
    self->update = _PyType_Lookup(Py_TYPE(self->root), MG_STRING("_update_args_kwargs"));
    self->prepend = _PyType_Lookup(Py_TYPE(self->root), MG_STRING("_prepend"));
    if (self->update == NULL || self->prepend == NULL || Py_TYPE(self->root)->tp_base->tp_init == NULL ||
        !PySet_Check(self->used) || !PyDict_Check(self->counts) || !PyDict_Check(self->names)) {
        PyErr_SetString(PyExc_TypeError, "not a torch.fx.Graph of a known version");
        return -1;
    }
    return 0;
}

static PyMethodDef writer_methods[] = {
    {"node", (PyCFunction)writer_node, METH_VARARGS, "node(op, target, type, meta): a new node without arguments."},
    {"operations", (PyCFunction)writer_operations, METH_VARARGS,
     "operations(items, start, stop, nodes, names, make): write what Entry.describe() says of operations. Arguments "
     "are "
     "found in `nodes`, where the new ones go too; `names` gets the names that come of the targets. Return where it "
     "stopped: at `stop`, or at an operation with an argument that must become a node first."},
    {"input", (PyCFunction)writer_input, METH_VARARGS,
     "input(name, type, source, marks, make, number): the placeholder of a tensor."},
    {"output", (PyCFunction)writer_output, METH_O, "output(values): the last node."},
    {"close", (PyCFunction)writer_close, METH_NOARGS, "Tell the graph how many nodes it has."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject MgWriter_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.GraphWriter",
    .tp_doc = "Writes nodes into a torch.fx.Graph.",
    .tp_basicsize = sizeof(MgWriter),
    .tp_dealloc = (destructor)writer_dealloc,
    .tp_traverse = (traverseproc)writer_traverse,
    .tp_clear = (inquiry)writer_clear,
    .tp_methods = writer_methods,
    .tp_init = (initproc)writer_init,
    .tp_new = PyType_GenericNew,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
};

int
mg_writer_types_ready(void)
{
    return PyType_Ready(&MgWriter_Type) < 0 ? MG_ERR : MG_OK;
}

/* ---- whether a graph was edited ---- */

PyObject *
mg_writer_graph_state(PyObject *module, PyObject *graph)
{
    (void)module;
    PyObject *const names[] = {MG_STRING("op"), MG_STRING("target"), MG_STRING("_args"), MG_STRING("_kwargs")};
    PyObject *root = PyObject_GetAttrString(graph, "_root"), *list = PyList_New(0);
    PyObject *node = root == NULL || list == NULL ? NULL : PyObject_GetAttr(root, MG_STRING("_next"));
    int status = node == NULL ? -1 : 0;
    while (status == 0 && node != root) {
        status = PyList_Append(list, node);
        for (size_t i = 0; status == 0 && i < Py_ARRAY_LENGTH(names); i++) {
            PyObject *part = PyObject_GenericGetAttr(node, names[i]);
            status = part == NULL ? -1 : PyList_Append(list, part);
            Py_XDECREF(part);
        }
        PyObject *next = status < 0 ? NULL : PyObject_GenericGetAttr(node, MG_STRING("_next"));
        Py_SETREF(node, next);
        status = next == NULL ? -1 : 0;
    }
    PyObject *result = status < 0 ? NULL : PyList_AsTuple(list);
    Py_XDECREF(root);
    Py_XDECREF(list);
    Py_XDECREF(node);
    return result;
}

PyObject *
mg_writer_is_same_state(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *one, *other;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &one, &PyTuple_Type, &other)) {
        return NULL;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(one);
    int same = size == PyTuple_GET_SIZE(other);
    for (Py_ssize_t i = 0; same && i < size; i++) {
        same = PyTuple_GET_ITEM(one, i) == PyTuple_GET_ITEM(other, i);
    }
    return PyBool_FromLong(same);
}

/* ---- names of inputs ---- */

/* Where a step like ._modules['name'] ends that begins at `from`, and the name in it; 0 if there is none. */
static Py_ssize_t
read_step(const char *text, Py_ssize_t from, const char *attribute, const char **name, Py_ssize_t *length)
{
    size_t known = strlen(attribute);
    if (strncmp(text + from, attribute, known) != 0 || strncmp(text + from + known, "['", 2) != 0) {
        return 0;
    }
    *name = text + from + known + 2;
    const char *end = strchr(*name, '\'');
    if (end == NULL || end[1] != ']') {
        return 0;
    }
    *length = end - *name;
    return end + 2 - text;
}

/* The name in the state_dict of the parameter or buffer at a source: the names of modules on the way, and its own. New;
 * None if it is neither. */
static PyObject *
original_name(const char *text, Py_ssize_t size)
{
    char *room = PyMem_Malloc((size_t)size + 1);
    if (room == NULL) {
        return PyErr_NoMemory();
    }
    Py_ssize_t used = 0, length = 0, end;
    const char *name;
    PyObject *result = NULL;
    for (Py_ssize_t i = 0; i < size && strncmp(text, "L['", 3) == 0;) {
        if ((end = read_step(text, i, "._modules", &name, &length)) > 0) {
            memcpy(room + used, name, (size_t)length);
            room[used + length] = '.';
            used += length + 1;
            i = end;
            continue;
        }
        if (((end = read_step(text, i, "._parameters", &name, &length)) > 0 ||
             (end = read_step(text, i, "._buffers", &name, &length)) > 0) &&
            end == size) {
            memcpy(room + used, name, (size_t)length);
            result = PyUnicode_FromStringAndSize(room, used + length);
            PyMem_Free(room);
            return result;
        }
        i++;
    }
    PyMem_Free(room);
    return Py_NewRef(Py_None);
}

PyObject *
mg_writer_input_names(PyObject *module, PyObject *text)
{
    (void)module;
    Py_ssize_t size, used = 0;
    const char *chars = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    if (chars == NULL) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a source is a text");
    }
    char *room = PyMem_Malloc((size_t)size + 1);
    if (room == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        int good = is_digit((Py_UCS1)chars[i]) || (is_letter((Py_UCS1)chars[i]) && chars[i] != '_');
        if (good || used == 0 || room[used - 1] != '_') {
            room[used++] = (char)(good ? chars[i] : '_');
        }
    }
    PyObject *flat = PyUnicode_FromStringAndSize(room, used),
             *original = flat == NULL ? NULL : original_name(chars, size);
    PyMem_Free(room);
    PyObject *result = original == NULL ? NULL : PyTuple_Pack(2, flat, original);
    Py_XDECREF(flat);
    Py_XDECREF(original);
    return result;
}
