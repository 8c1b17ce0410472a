/* Whether captured code has written to what was there before.
 *
 * The function that an operator is given becomes a graph, which computes and does nothing else. Captured code writes to its own
 * objects for real, and to outside ones in what is held back; neither may happen in such a function, whether it runs once, twice
 * or never. So what the function can get at is looked at before and after: each object that it, its arguments, or writes held
 * back lead to, with what that object refers to, as the garbage collector sees it. Objects from outside that nobody has met don't
 * change in a capture, so nothing is lost but time if the walk goes through some. */
#include "capture/writes.h"

#include "capture/outside.h"
#include "ir/subgraph.h"

enum { MOST_OBJECTS = 1 << 16 };

/* A walk through objects. */
typedef struct {
    MgCapture *capture;
    PyObject *noted; /* list, borrowed: how many writes are held back; then an object and what it refers to, in turn */
    PyObject *stack; /* list, owned: what is to be looked at */
    MgTable seen;
} Walk;

static int
append_referent(PyObject *object, void *list)
{
    return PyList_Append(list, object) < 0 ? -1 : 0;
}

/* What an object refers to, as far as it may change. New list; a bytes for a bytearray; NULL with an exception. */
static PyObject *
content_of(PyObject *object)
{
    if (PyByteArray_Check(object)) {
        return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(object), PyByteArray_GET_SIZE(object));
    }
    PyObject *list = PyList_New(0);
    int status = list == NULL ? -1 : 0;
    if (status == 0 && PyFunction_Check(object)) { /* neither its globals nor its code */
        PyFunctionObject *function = (PyFunctionObject *)object;
        PyObject *parts[] = {function->func_closure, function->func_defaults, function->func_kwdefaults,
                             function->func_dict};
        for (size_t i = 0; status == 0 && i < Py_ARRAY_LENGTH(parts); i++) {
            status = PyList_Append(list, parts[i] == NULL ? Py_None : parts[i]);
        }
    }
    else if (status == 0 && PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse != NULL) {
        status = Py_TYPE(object)->tp_traverse(object, append_referent, list);
    }
    if (status != 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* 1 for what has no content that captured code could change unseen. */
static int
is_closed(MgCapture *capture, PyObject *object)
{
    return mg_is_plain_value(object) || mg_is_singleton(object) || PyType_Check(object) || PyModule_Check(object) ||
           PyCode_Check(object) || mg_torch_is_tensor(object) || mg_is_subgraph(object) || PyCFunction_Check(object) ||
           (!PyObject_IS_GC(object) && !PyByteArray_Check(object)) || mg_outside_of(capture, object) != NULL;
}

static int
push(Walk *walk, PyObject *object)
{
    if (mg_table_get(&walk->seen, object, NULL) != NULL) {
        return MG_OK;
    }
    return mg_table_set(&walk->seen, object, NULL, object) < 0 ? MG_ERR : PyList_Append(walk->stack, object);
}

/* Notes an object, and has what it refers to looked at. */
static int
note_object(Walk *walk, PyObject *object)
{
    if (Py_TYPE(object)->tp_iternext != NULL && Py_TYPE(object)->tp_iternext != &_PyObject_NextNotImplemented) {
        return mg_capture_abort(walk->capture, MG_REASON_SUBGRAPH, "an iterator that was made before: %s",
                                Py_TYPE(object)->tp_name);
    }
    if (PyList_GET_SIZE(walk->noted) > 2 * MOST_OBJECTS) {
        return mg_capture_abort(walk->capture, MG_REASON_SUBGRAPH, "too many objects that it can get at");
    }
    PyObject *content = content_of(object);
    int status =
        content == NULL || PyList_Append(walk->noted, object) < 0 ? MG_ERR : PyList_Append(walk->noted, content);
    for (Py_ssize_t i = 0; status == MG_OK && PyList_CheckExact(content) && i < PyList_GET_SIZE(content); i++) {
        PyObject *part = PyList_GET_ITEM(content, i);
        status = is_closed(walk->capture, part) ? MG_OK : push(walk, part);
    }
    Py_XDECREF(content);
    return status;
}

/* How many outside objects have writes that are held back. */
static long
count_held(const MgCapture *capture)
{
    long count = 0;
    for (int i = 0; i < capture->met.record_count; i++) {
        count += (capture->met.record_list[i]->held != NULL) + (capture->met.record_list[i]->slots != NULL);
    }
    return count;
}

/* Starts at the writes held back, and at the shadows. */
static int
push_outside(Walk *walk)
{
    int status = MG_OK;
    for (int i = 0; status == MG_OK && i < walk->capture->met.record_count; i++) {
        const MgOutside *record = walk->capture->met.record_list[i];
        int is_shadow = record->view != NULL && (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DICT ||
                                                 record->kind == MG_KIND_SET || record->kind == MG_KIND_DEQUE);
        status = is_shadow ? push(walk, record->view) : MG_OK;
        status = status < 0 || record->held == NULL ? status : push(walk, record->held);
        status = status < 0 || record->slots == NULL ? status : push(walk, record->slots);
    }
    return status;
}

PyObject *
mg_writes_note(MgCapture *capture, PyObject *roots)
{
    PyObject *count = PyLong_FromLong(count_held(capture));
    Walk walk = {.capture = capture, .noted = PyList_New(0), .stack = PyList_New(0)};
    int status = count == NULL || walk.noted == NULL || walk.stack == NULL ? MG_ERR : PyList_Append(walk.noted, count);
    status = status < 0 ? status : push_outside(&walk);
    for (Py_ssize_t i = 0; status == MG_OK && i < PyTuple_GET_SIZE(roots); i++) {
        PyObject *root = PyTuple_GET_ITEM(roots, i);
        status = is_closed(capture, root) ? MG_OK : push(&walk, root);
    }
    while (status == MG_OK && PyList_GET_SIZE(walk.stack) > 0) {
        Py_ssize_t last = PyList_GET_SIZE(walk.stack) - 1;
        PyObject *object = Py_NewRef(PyList_GET_ITEM(walk.stack, last));
        status = PyList_SetSlice(walk.stack, last, last + 1, NULL) < 0 ? MG_ERR : note_object(&walk, object);
        Py_DECREF(object);
    }
    Py_XDECREF(count);
    Py_XDECREF(walk.stack);
    mg_table_free(&walk.seen);
    if (status < 0) {
        Py_CLEAR(walk.noted);
    }
    return walk.noted;
}

int
mg_writes_add_shadow(MgCapture *capture, PyObject *shadow)
{
    for (MgSubgraph *at = capture->graph.subgraph; at != NULL; at = at->outer) {
        if (at->before == NULL) {
            continue;
        }
        PyObject *content = content_of(shadow);
        int status =
            content == NULL || PyList_Append(at->before, shadow) < 0 ? MG_ERR : PyList_Append(at->before, content);
        Py_XDECREF(content);
        if (status < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* 1 if an object refers to something else than it did. 0, or -1. */
static int
is_changed(PyObject *object, PyObject *before)
{
    PyObject *now = content_of(object);
    if (now == NULL) {
        return -1;
    }
    int changed = 0;
    if (PyBytes_Check(now)) {
        changed = PyBytes_GET_SIZE(now) != PyBytes_GET_SIZE(before) ||
                  memcmp(PyBytes_AS_STRING(now), PyBytes_AS_STRING(before), (size_t)PyBytes_GET_SIZE(now)) != 0;
    }
    else {
        changed = PyList_GET_SIZE(now) != PyList_GET_SIZE(before);
        for (Py_ssize_t i = 0; !changed && i < PyList_GET_SIZE(now); i++) {
            changed = PyList_GET_ITEM(now, i) != PyList_GET_ITEM(before, i);
        }
    }
    Py_DECREF(now);
    return changed;
}

int
mg_writes_changed(MgCapture *capture, PyObject *noted)
{
    int changed = count_held(capture) != PyLong_AsLong(PyList_GET_ITEM(noted, 0));
    for (Py_ssize_t i = 1; changed == 0 && i + 1 < PyList_GET_SIZE(noted); i += 2) {
        changed = is_changed(PyList_GET_ITEM(noted, i), PyList_GET_ITEM(noted, i + 1));
    }
    return changed;
}
