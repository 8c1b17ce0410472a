/* What a graph is, in bytes: operations, constants, how they are connected, the metadata of its inputs, what was decided on
 * their sizes. A backend that is given two graphs with the same bytes may give back the same code.
 *
 * The bytes are a row of items, each with a tag first, so that no two graphs have the same ones. They are the same in each
 * process: nothing in them is an address. What can be told from others by its identity only, a function say, is a number in a list of
 * objects. Names of variables and lines of the program are not in them: no result depends on those.
 *
 * Which inputs share a storage is in them, and where these lie in it; of other inputs a backend does not look at the
 * storage. */
#include "entry/key.h"

#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "ir/dimobject.h"
#include "ir/structure.h"
#include "ir/subgraph.h"
#include "size/tree.h"

typedef struct {
    MgEntry *entry;
    char *bytes; /* owned */
    size_t count, room;
    PyObject *objects; /* strong: a list */
    MgTable known;     /* objects and metadata that were written -> their number + 1 */
    size_t meta_count;
    int *numbers; /* owned: of the nodes, in the order of the backend's graph */
    int *groups;  /* owned: for each input the first that has its storage; -1 if it is alone */
    int ignored;  /* flags of metadata that don't count; if there are any, all metadata is written in full */
    int refused;  /* something can't be told from others */
} Writer;

/* ---- plain items ---- */

static int
put(Writer *writer, const void *data, size_t size)
{
    if (writer->room - writer->count < size) {
        size_t room = 2 * writer->room + size + 512;
        char *bytes = PyMem_Realloc(writer->bytes, room);
        if (bytes == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        writer->bytes = bytes;
        writer->room = room;
    }
    memcpy(writer->bytes + writer->count, data, size);
    writer->count += size;
    return MG_OK;
}

static int
write_tag(Writer *writer, char tag)
{
    return put(writer, &tag, 1);
}

static int
write_number(Writer *writer, char tag, int64_t number)
{
    char item[9] = {tag};
    memcpy(item + 1, &number, sizeof(number));
    return put(writer, item, sizeof(item));
}

static int
write_text(Writer *writer, char tag, PyObject *text)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &size);
    if (bytes == NULL) { /* a lone surrogate */
        PyErr_Clear();
        writer->refused = 1;
        return MG_OK;
    }
    return write_number(writer, tag, size) < 0 ? MG_ERR : put(writer, bytes, (size_t)size);
}

/* What torch or Python says of a value that has no parts: a dtype, a device, a large int. */
static int
write_repr(Writer *writer, char tag, PyObject *value)
{
    PyObject *text = PyObject_Repr(value);
    int status = text == NULL ? MG_ERR : write_text(writer, tag, text);
    Py_XDECREF(text);
    return status;
}

/* An object by its number in the list. */
static int
write_object(Writer *writer, char tag, PyObject *object)
{
    uintptr_t number = (uintptr_t)mg_table_get(&writer->known, object, NULL);
    if (number == 0) {
        if (PyList_Append(writer->objects, object) < 0) {
            return MG_ERR;
        }
        number = (uintptr_t)PyList_GET_SIZE(writer->objects);
        if (mg_table_set(&writer->known, object, NULL, (void *)number) < 0) {
            return MG_ERR;
        }
    }
    return write_number(writer, tag, (int64_t)number - 1);
}

static int write_value(Writer *writer, PyObject *value);
static int write_result(Writer *writer, PyObject *value);

static int
write_items(Writer *writer, char tag, PyObject *value)
{
    int is_list = PyList_Check(value);
    if (write_number(writer, tag, Py_SIZE(value)) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
        if (write_value(writer, is_list ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i)) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
write_dict(Writer *writer, PyObject *value)
{
    Py_ssize_t position = 0;
    PyObject *key, *item;
    if (write_number(writer, '{', PyDict_GET_SIZE(value)) < 0) {
        return MG_ERR;
    }
    while (PyDict_Next(value, &position, &key, &item)) {
        if (write_value(writer, key) < 0 || write_value(writer, item) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
write_int(Writer *writer, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? write_repr(writer, 'L', value) : write_number(writer, 'i', number);
}

static int
write_floats(Writer *writer, char tag, double real, double imaginary)
{
    double parts[2] = {real, imaginary};
    return write_tag(writer, tag) < 0 ? MG_ERR : put(writer, parts, sizeof(parts));
}

static int
write_container(Writer *writer, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyTuple_Type || type == &PyList_Type) {
        return write_items(writer, type == &PyList_Type ? '[' : '(', value);
    }
    if (type == &PyDict_Type) {
        return write_dict(writer, value);
    }
    if (type == &PySlice_Type) {
        PySliceObject *slice = (PySliceObject *)value;
        return write_tag(writer, ':') < 0 || write_value(writer, slice->start) < 0 ||
                       write_value(writer, slice->stop) < 0
                   ? MG_ERR
                   : write_value(writer, slice->step);
    }
    if (type == mg_torch.size) {
        return write_items(writer, 'z', value);
    }
    if (PyTuple_Check(value) && mg_structure_is_plain_tuple(type)) { /* a named tuple */
        return write_object(writer, 'n', (PyObject *)type) < 0 ? MG_ERR : write_items(writer, '(', value);
    }
    writer->refused = 1;
    return MG_OK;
}

static int
write_tree(Writer *writer, const MgExpr *expr)
{
    PyObject *tree = expr == NULL ? PyErr_NoMemory() : mg_tree_of(expr);
    int status = tree == NULL || write_tag(writer, 'd') < 0 ? MG_ERR : write_value(writer, tree);
    Py_XDECREF(tree);
    return status;
}

/* A node of a subgraph, as mg_node_describe gives it. */
static int
write_described(Writer *writer, PyObject *item)
{
    PyObject *target = PyTuple_GET_ITEM(item, 2), *args = PyTuple_GET_ITEM(item, 3);
    writer->refused = writer->refused || PyTuple_GET_ITEM(item, 10) != Py_None; /* values that depend on data */
    int status = args == Py_None           ? write_tag(writer, 'P')
                 : PyUnicode_Check(target) ? write_text(writer, '.', target)
                                           : write_object(writer, '!', target);
    if (status < 0 || write_value(writer, args) < 0 || write_value(writer, PyTuple_GET_ITEM(item, 4)) < 0) {
        return MG_ERR;
    }
    return write_result(writer, PyTuple_GET_ITEM(item, 5));
}

/* A graph within the graph: its inputs and nodes have numbers of their own. */
static int
write_subgraph(Writer *writer, const MgSubgraph *subgraph)
{
    Py_ssize_t count = PyList_GET_SIZE(subgraph->inputs), own = PyList_GET_SIZE(subgraph->own);
    int *saved = PyMem_Calloc((size_t)count + 1, sizeof(int));
    if (saved == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long node = PyLong_AsLong(PyList_GET_ITEM(subgraph->inputs, i));
        saved[i] = writer->numbers[node];
        writer->numbers[node] = (int)i;
    }
    writer->refused = writer->refused || subgraph->notes != Py_None;
    int status = write_number(writer, 'S', count) < 0 ? MG_ERR : write_number(writer, 'i', own);
    int number = (int)count;
    for (Py_ssize_t i = 0; status == MG_OK && i < PyList_GET_SIZE(subgraph->nodes); i++) {
        PyObject *item = PyList_GET_ITEM(subgraph->nodes, i);
        if (PyTuple_GET_ITEM(item, 3) != Py_None) {
            writer->numbers[PyLong_AsLong(PyTuple_GET_ITEM(item, 0))] = number++;
        }
        status = write_described(writer, item);
    }
    status = status < 0 ? status : write_value(writer, subgraph->outputs);
    for (Py_ssize_t i = 0; i < count; i++) {
        writer->numbers[PyLong_AsLong(PyList_GET_ITEM(subgraph->inputs, i))] = saved[i];
    }
    PyMem_Free(saved);
    return status;
}

/* A constant, a reference or a container of such. */
static int
write_value(Writer *writer, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (writer->refused) {
        return MG_OK;
    }
    if (type == &MgRef_Type) {
        return write_number(writer, 'r', writer->numbers[((MgRef *)value)->index]);
    }
    if (value == Py_None || PyBool_Check(value) || value == Py_Ellipsis) {
        return write_tag(writer, value == Py_None ? 'N' : value == Py_True ? 'T' : value == Py_False ? 'F' : 'E');
    }
    if (type == &PyLong_Type) {
        return write_int(writer, value);
    }
    if (type == &PyFloat_Type) {
        return write_floats(writer, 'f', PyFloat_AS_DOUBLE(value), 0);
    }
    if (type == &PyComplex_Type) {
        return write_floats(writer, 'c', PyComplex_RealAsDouble(value), PyComplex_ImagAsDouble(value));
    }
    if (type == &PyUnicode_Type) {
        return write_text(writer, 's', value);
    }
    if (type == mg_torch.dtype || type == mg_torch.device || type == mg_torch.layout ||
        type == mg_torch.memory_format) {
        return write_repr(writer, 't', value);
    }
    if (mg_is_dim_object(value)) {
        return write_tree(writer, ((MgDimObject *)value)->dim.e);
    }
    if (mg_is_subgraph(value)) {
        return write_subgraph(writer, (MgSubgraph *)value);
    }
    return mg_structure_is(value) ? write_container(writer, value) : write_object(writer, 'o', value);
}

/* ---- metadata and inputs ---- */

static int
write_meta(Writer *writer, MgMeta *meta)
{
    int in_full = meta->varies || writer->ignored != 0;
    uintptr_t number = in_full ? 0 : (uintptr_t)mg_table_get(&writer->known, meta, writer);
    if (number != 0) { /* equal metadata is one object, unless it varies */
        return write_number(writer, 'm', (int64_t)number);
    }
    if (!in_full && mg_table_set(&writer->known, meta, writer, (void *)++writer->meta_count) < 0) {
        return MG_ERR;
    }
    if (meta->fake != NULL) {
        writer->refused = 1;
        return MG_OK;
    }
    return write_number(writer, 'M', meta->flags & ~writer->ignored) < 0 || write_repr(writer, 't', meta->dtype) < 0 ||
                   write_repr(writer, 't', meta->device) < 0 || write_items(writer, 'z', meta->sizes) < 0
               ? MG_ERR
               : write_items(writer, '(', meta->strides);
}

/* What an operation returns: metadata, or a container of it. */
static int
write_result(Writer *writer, PyObject *value)
{
    if (Py_IS_TYPE(value, &MgMeta_Type)) {
        return write_meta(writer, (MgMeta *)value);
    }
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        return write_tag(writer, 'v');
    }
    if (write_number(writer, '(', Py_SIZE(value)) < 0) {
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(value); i++) {
        if (write_result(writer, PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i)) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* What programs have noted on a tensor for backends. One whose address is guarded becomes part of the graph. */
static int
write_marks(Writer *writer, PyObject *tensor)
{
    PyObject **held = _PyObject_GetDictPtr(tensor);
    static const char *const names[] = {"_dynamo_static_input_type", "tag"};
    for (size_t i = 0; held != NULL && *held != NULL && i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *mark = PyDict_GetItemString(*held, names[i]);
        if (mark != NULL && i == 0 &&
            !(PyUnicode_Check(mark) && PyUnicode_CompareWithASCIIString(mark, "unguarded") == 0)) {
            writer->refused = 1;
        }
        if (mark != NULL && (write_number(writer, 'k', (int64_t)i) < 0 || write_value(writer, mark) < 0)) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Finds which inputs have a storage in common. */
static int
find_groups(Writer *writer)
{
    MgEntry *entry = writer->entry;
    MgTable storages = {0};
    int status = MG_OK;
    for (int i = 0; status == MG_OK && i < entry->input_count; i++) {
        const MgNode *node = &entry->nodes[entry->input_nodes[i]];
        uintptr_t storage = node->real == NULL ? 0 : mg_storage_of(node->real);
        uintptr_t first = storage == 0 ? 0 : (uintptr_t)mg_table_get(&storages, (void *)storage, NULL);
        writer->groups[i] = first == 0 ? -1 : (int)first - 1;
        if (first != 0) {
            writer->groups[first - 1] = (int)first - 1;
        }
        else if (storage != 0) {
            status = mg_table_set(&storages, (void *)storage, NULL, (void *)(uintptr_t)(i + 1));
        }
    }
    mg_table_free(&storages);
    return status;
}

/* Where an input lies in a storage that it has in common with another. */
static int
write_place(Writer *writer, int group, PyObject *tensor)
{
    PyObject *offset = PyObject_CallMethod(tensor, "storage_offset", NULL);
    PyObject *storage = offset == NULL ? NULL : PyObject_CallMethod(tensor, "untyped_storage", NULL);
    PyObject *size = storage == NULL ? NULL : PyObject_CallMethod(storage, "nbytes", NULL);
    int status = size == NULL || write_number(writer, 'g', group) < 0 || write_value(writer, offset) < 0
                     ? MG_ERR
                     : write_value(writer, size);
    Py_XDECREF(offset);
    Py_XDECREF(storage);
    Py_XDECREF(size);
    return status;
}

static int
write_input(Writer *writer, int index)
{
    const MgNode *node = &writer->entry->nodes[writer->entry->input_nodes[index]];
    if (!Py_IS_TYPE(node->value, &MgMeta_Type)) {
        return mg_is_dim_object(node->value) ? write_value(writer, node->value) : write_tag(writer, 'v'); /* a float */
    }
    PyTypeObject *type = node->real == NULL ? NULL : Py_TYPE(node->real);
    if (type != mg_torch.tensor && type != mg_torch.parameter) { /* it is gone, or of a class with ways of its own */
        writer->refused = 1;
        return MG_OK;
    }
    if (write_meta(writer, (MgMeta *)node->value) < 0 || write_number(writer, 'I', node->in_module) < 0 ||
        write_marks(writer, node->real) < 0) {
        return MG_ERR;
    }
    return writer->groups[index] < 0 ? MG_OK : write_place(writer, writer->groups[index], node->real);
}

/* ---- sizes that vary ---- */

/* The symbols with their ranges, and what was decided on them. */
static int
write_sizes(Writer *writer)
{
    PyObject *guards = mg_guard_sizes(&writer->entry->guards);
    const MgFacts *facts = guards == NULL ? NULL : mg_size_guards_facts(guards);
    if (facts == NULL) {
        return MG_OK;
    }
    PyObject *origins = mg_size_guards_origins(guards);
    int status = origins == NULL ? MG_ERR : MG_OK;
    for (int i = 0; status == MG_OK && i < facts->symbol_count; i++) {
        PyObject *origin = i < PyList_GET_SIZE(origins) ? PyList_GET_ITEM(origins, i) : Py_None;
        MgRange range = facts->symbols[i].given;
        status = write_value(writer, origin == Py_None ? origin : PyTuple_GET_ITEM(origin, 1)) < 0 ||
                         write_number(writer, 'i', range.low) < 0
                     ? MG_ERR
                     : write_number(writer, 'i', range.high);
    }
    Py_XDECREF(origins);
    for (int i = 0; status == MG_OK && i < facts->guard_count; i++) {
        const MgSizeGuard *guard = &facts->guards[i];
        status =
            write_number(writer, 'D', (int64_t)guard->relation) < 0 || write_tree(writer, mg_dim_expr(guard->left)) < 0
                ? MG_ERR
                : write_tree(writer, mg_dim_expr(guard->right));
    }
    return status;
}

/* ---- the graph ---- */

static int
write_operation(Writer *writer, const MgNode *node)
{
    if (node->bindings != NULL) { /* values that depend on data: they belong to their session */
        writer->refused = 1;
        return MG_OK;
    }
    int status =
        node->kind == MG_NODE_METHOD ? write_text(writer, '.', node->target) : write_object(writer, '!', node->target);
    if (status < 0 || write_value(writer, node->args) < 0) {
        return MG_ERR;
    }
    return node->kwargs == NULL || PyDict_GET_SIZE(node->kwargs) == 0 ? MG_OK : write_value(writer, node->kwargs);
}

static int
write_graph(Writer *writer)
{
    MgEntry *entry = writer->entry;
    if (find_groups(writer) < 0 || write_number(writer, '#', entry->input_count) < 0) {
        return MG_ERR;
    }
    for (int i = 0; i < entry->input_count && !writer->refused; i++) {
        writer->numbers[entry->input_nodes[i]] = i;
        if (write_input(writer, i) < 0) {
            return MG_ERR;
        }
    }
    if (write_sizes(writer) < 0) {
        return MG_ERR;
    }
    for (int i = 0, number = entry->input_count; i < entry->node_count && !writer->refused; i++) {
        const MgNode *node = &entry->nodes[i];
        if (node->kind == MG_NODE_INPUT || mg_entry_is_unused(node)) {
            continue;
        }
        writer->numbers[i] = number++;
        if (write_operation(writer, node) < 0) {
            return MG_ERR;
        }
    }
    for (int i = 0; i < entry->output_count && !writer->refused; i++) {
        if (write_number(writer, '=', writer->numbers[entry->outputs[i]]) < 0 ||
            write_result(writer, entry->nodes[entry->outputs[i]].value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

PyObject *
mg_entry_key(MgEntry *entry)
{
    PyObject *result = NULL, *bytes = NULL, *objects = NULL;
    if (entry->symbols != NULL || entry->guards.state == NULL) {
        return Py_NewRef(Py_None);
    }
    Writer writer = {.entry = entry, .objects = PyList_New(0)};
    writer.numbers = PyMem_Calloc((size_t)entry->node_count + 1, sizeof(int));
    writer.groups = PyMem_Calloc((size_t)entry->input_count + 1, sizeof(int));
    if (writer.numbers == NULL || writer.groups == NULL) {
        PyErr_NoMemory();
    }
    else if (writer.objects != NULL && write_graph(&writer) == MG_OK) {
        bytes = writer.refused ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(writer.bytes, (Py_ssize_t)writer.count);
        objects = bytes == NULL ? NULL : PyList_AsTuple(writer.objects);
        result = writer.refused    ? Py_NewRef(Py_None)
                 : objects == NULL ? NULL
                                   : PyTuple_Pack(3, bytes, objects, entry->guards.state);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(objects);
    Py_XDECREF(writer.objects);
    mg_table_free(&writer.known);
    PyMem_Free(writer.bytes);
    PyMem_Free(writer.numbers);
    PyMem_Free(writer.groups);
    return result;
}

/* A subgraph, with the metadata of what it is given. */
static int
write_region(Writer *writer, const MgSubgraph *subgraph)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subgraph->metas); i++) {
        PyObject *meta = PyList_GET_ITEM(subgraph->metas, i);
        int status = Py_IS_TYPE(meta, &MgMeta_Type) ? write_meta(writer, (MgMeta *)meta) : write_value(writer, meta);
        if (status < 0) {
            return MG_ERR;
        }
    }
    return write_subgraph(writer, subgraph);
}

PyObject *
mg_subgraph_key(const MgSubgraph *subgraph, int node_count)
{
    PyObject *result = NULL, *bytes = NULL, *objects = NULL;
    Writer writer = {.objects = PyList_New(0), .ignored = MG_META_NON_LEAF};
    writer.numbers = PyMem_Calloc((size_t)node_count + 1, sizeof(int));
    if (writer.numbers == NULL) {
        PyErr_NoMemory();
    }
    else if (writer.objects != NULL && write_region(&writer, subgraph) == MG_OK) {
        bytes = PyBytes_FromStringAndSize(writer.bytes, (Py_ssize_t)writer.count);
        objects = bytes == NULL ? NULL : PyList_AsTuple(writer.objects);
        result = objects == NULL ? NULL : writer.refused ? Py_NewRef(Py_None) : PyTuple_Pack(2, bytes, objects);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(objects);
    Py_XDECREF(writer.objects);
    mg_table_free(&writer.known);
    PyMem_Free(writer.bytes);
    PyMem_Free(writer.numbers);
    return result;
}
