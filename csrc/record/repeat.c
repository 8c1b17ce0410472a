/* Which operations of a recording can be run once more: those that write nothing and draw no random numbers. */
#include "capture/varying.h"
#include "cpython/aside.h"
#include "ir/dimobject.h"
#include "ir/node.h"
#include "record/record.h"

/* What a node returns, with the sizes and numbers of this call: metadata, an int or a float. New; NULL for anything else,
 * perhaps with an exception. */
static PyObject *
plain_value(PyObject *value)
{
    if (Py_IS_TYPE(value, &MgMeta_Type)) {
        return ((MgMeta *)value)->flags & MG_META_WRAPPER ? NULL : (PyObject *)mg_meta_fixed((MgMeta *)value);
    }
    if (mg_is_dim_object(value)) {
        return PyLong_FromLongLong(((MgDimObject *)value)->dim.v);
    }
    return PyFloat_CheckExact(value) ? Py_NewRef(value) : NULL;
}

/* Adds the metadata of the nodes that an argument refers to, or their numbers. MG_OK; MG_BREAK if one has none; or MG_ERR. */
static int
add_metas(const MgNode *nodes, PyObject *value, PyObject *metas)
{
    if (Py_IS_TYPE(value, &MgRef_Type)) {
        assert(((MgRef *)value)->index >= 0);
        const MgNode *node = &nodes[((MgRef *)value)->index];
        PyObject *meta = plain_value(node->value);
        PyObject *key = meta != NULL ? PyLong_FromLong(((MgRef *)value)->index) : NULL;
        int status = key != NULL ? PyDict_SetItem(metas, key, meta) : PyErr_Occurred() ? MG_ERR : MG_BREAK;
        Py_XDECREF(key);
        Py_XDECREF(meta);
        return status;
    }
    int status = MG_OK;
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; status == MG_OK && i < Py_SIZE(value); i++) {
            status =
                add_metas(nodes, PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i), metas);
        }
    }
    else if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        PyObject *parts[] = {slice->start, slice->stop, slice->step};
        for (int i = 0; status == MG_OK && i < 3; i++) {
            status = add_metas(nodes, parts[i], metas);
        }
    }
    else if (PyDict_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (status == MG_OK && PyDict_Next(value, &position, &key, &item)) {
            status = add_metas(nodes, item, metas);
        }
    }
    return status;
}

/* Asks magneto/_effects.py about an operation. 1, 0 or -1. */
static int
ask_repeats(const MgNode *nodes, const MgNode *node)
{
    static PyObject *repeats; /* strong */
    if (repeats == NULL) {
        repeats = mg_aside_find("magneto._effects", "repeats");
    }
    PyObject *metas = PyDict_New(), *kwargs = node->kwargs != NULL ? Py_NewRef(node->kwargs) : PyDict_New();
    int status = repeats == NULL || metas == NULL || kwargs == NULL ? MG_ERR : add_metas(nodes, node->args, metas);
    status = status == MG_OK ? add_metas(nodes, kwargs, metas) : status;
    int good = status < 0 ? -1 : 0;
    if (status == MG_OK) {
        PyObject *args[] = {node->target, node->args, kwargs, metas};
        PyObject *answer = mg_aside_call(repeats, args, 4);
        good = answer == NULL ? -1 : answer == Py_True;
        Py_XDECREF(answer);
    }
    Py_XDECREF(metas);
    Py_XDECREF(kwargs);
    return good;
}

int
mg_record_is_repeatable(MgNode *nodes, int index)
{
    MgNode *node = &nodes[index];
    if (node->kind == MG_NODE_INPUT || node->is_part || node->is_state) {
        return 1;
    }
    if (node->repeats == MG_REPEATS_UNKNOWN) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        int good = node->writes ? 0 : ask_repeats(nodes, node);
        mg_error_clear();
        PyErr_Restore(type, value, traceback);
        node->repeats = good > 0 ? MG_REPEATS : MG_REPEATS_NOT;
    }
    return node->repeats == MG_REPEATS;
}
