/* Wrappers: tensors of classes that wrap other tensors (`__torch_dispatch__`, `__tensor_flatten__`).
 *
 * Such a tensor is one input of the graph, and operations on it are nodes, as for TorchDynamo: what its class makes of them
 * is found out on an instance that wraps FakeTensors (magneto/_subclasses.py), and done when the graph runs. So all that it
 * holds is guarded: the tensors that it wraps by their metadata, everything else in its dict by value. What can't be guarded
 * in this way ends the capture before it. */
#include "world/subclass.h"

#include "capture/level.h"
#include "capture/outside.h"
#include "record/number.h"
#include "record/record.h"
#include "torch/typekind.h"
#include "world/world.h"
#include "world/worldbase.h"

static int settle(MgCapture *capture, PyObject *view);

/* Guards the items of a container that captured code sees as `exposed`. */
static int
settle_items(MgCapture *capture, PyObject *exposed)
{
    int status = MG_OK;
    if (PyDict_Check(exposed)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (status == MG_OK && PyDict_Next(exposed, &position, &key, &item)) {
            status = settle(capture, item);
        }
        return status;
    }
    for (Py_ssize_t i = 0; status == MG_OK && !PyAnySet_Check(exposed) && i < Py_SIZE(exposed); i++) {
        status = settle(capture, PyList_Check(exposed) ? PyList_GET_ITEM(exposed, i) : PyTuple_GET_ITEM(exposed, i));
    }
    return status;
}

/* Guards what an object has in its dict. `is_wrapper` if it is a tensor, whose tensors are marked as parts of it. */
static int
settle_attributes(MgCapture *capture, PyObject *object, int is_wrapper)
{
    PyObject *dict = mg_instance_dict(object);
    PyObject *names = dict == NULL ? NULL : PyDict_Keys(dict);
    int status = names == NULL && PyErr_Occurred() ? MG_ERR : MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && names != NULL && i < PyList_GET_SIZE(names); i++) {
        PyObject *name = PyList_GET_ITEM(names, i);
        PyObject *found = PyUnicode_CheckExact(name) ? _PyType_Lookup(Py_TYPE(object), name) : NULL;
        if (!PyUnicode_CheckExact(name) || (found != NULL && Py_TYPE(found)->tp_descr_set != NULL)) {
            continue; /* code finds the descriptor */
        }
        PyObject *view = mg_world_generic_getattr(capture, object, name);
        status = view == NULL ? MG_ERR : settle(capture, view);
        if (status == MG_OK && is_wrapper && mg_is_twin(view)) {
            mg_twin_of(view)->is_part = 1;
        }
        Py_XDECREF(view);
    }
    Py_XDECREF(names);
    return status;
}

/* Guards all that can be reached from a value, as far as code that compares may look. MG_OK or MG_ERR. */
static int
settle(MgCapture *capture, PyObject *view)
{
    if (mg_is_twin(view) || mg_is_plain_value(view) || mg_is_singleton(view)) {
        return MG_OK;
    }
    if (mg_is_number(view)) {
        PyObject *value = mg_number_take(capture, view);
        Py_XDECREF(value);
        return value == NULL ? MG_ERR : MG_OK;
    }
    if (mg_depth_enter(capture) < 0) {
        return MG_ERR;
    }
    int status;
    MgOutside *record = mg_outside_of(capture, view);
    if (PyList_Check(view) || PyTuple_Check(view) || PyDict_Check(view) || PyAnySet_Check(view)) {
        PyObject *exposed = mg_world_expose(capture, view);
        status = exposed == NULL ? MG_ERR : settle_items(capture, exposed);
        Py_XDECREF(exposed);
    }
    else if (record == NULL || record->kind == MG_KIND_CONSTANT || record->kind == MG_KIND_VALUE) {
        status = MG_OK; /* guarded by identity, or by value */
    }
    else if (record->kind == MG_KIND_INSTANCE && !mg_world_has_hidden_state(view)) {
        status = settle_attributes(capture, record->object, 0);
    }
    else {
        status = mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "one that holds a %s", Py_TYPE(view)->tp_name);
    }
    mg_depth_leave(capture);
    return status;
}

/* Guards what the class of a wrapper does. */
static int
guard_class(MgCapture *capture, PyTypeObject *type)
{
    PyObject *const names[] = {MG_STRING("__torch_dispatch__"), MG_STRING("__torch_function__"),
                               MG_STRING("__tensor_flatten__"), MG_STRING("__tensor_unflatten__")};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        if (mg_world_guard_lookup(capture, type, names[i]) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_subclass_reach(MgCapture *capture, MgOutside *record)
{
    PyObject *tensor = record->object;
    PyTypeObject *type = Py_TYPE(tensor);
    if (capture->graph.metas != NULL && mg_table_get(capture->graph.metas, tensor, NULL) != NULL) {
        return mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "%s", type->tp_name); /* a failed run has used it */
    }
    MgMeta *meta = guard_class(capture, type) < 0 ? NULL : mg_symbol_wrap(capture, tensor);
    PyObject *view = NULL;
    if (meta != NULL && mg_capture_guard(capture, MG_GUARD_TYPE, record->source, (PyObject *)type) == MG_OK &&
        mg_capture_guard(capture, MG_GUARD_TENSOR, record->source, (PyObject *)meta) == MG_OK) {
        view = mg_twin_new(meta, capture->number);
    }
    Py_XDECREF(meta);
    if (view == NULL) {
        return MG_ERR;
    }
    MgTwin *twin = mg_twin_of(view);
    twin->source = record->source;
    twin->real = Py_NewRef(tensor);
    twin->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    if (mg_world_set_view(capture, record, view) < 0) {
        return MG_ERR;
    }
    capture->quiet++; /* what it wraps is no input before somebody asks for it */
    int status = settle_attributes(capture, tensor, 1);
    capture->quiet--;
    return status;
}

/* ---- attributes of those that operations made ---- */

PyObject *
mg_subclass_getattr(MgCapture *capture, PyObject *object, PyObject *name, PyObject *getattr)
{
    PyObject *fake = mg_twin_of(object)->meta->fake, **slot = _PyObject_GetDictPtr(fake);
    PyObject *value = slot == NULL || *slot == NULL ? NULL : PyDict_GetItemWithError(*slot, name);
    if (value == NULL) {
        return NULL;
    }
    if (mg_is_singleton(value) || mg_is_plain_value(value) || Py_IS_TYPE(value, mg_torch.device)) {
        return Py_NewRef(value);
    }
    if (!mg_torch_is_tensor(value)) {
        mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "%U, a %s", name, Py_TYPE(value)->tp_name);
        return NULL;
    }
    PyObject *args[2] = {object, name};
    return mg_record_call(capture, MG_NODE_FUNCTION, getattr, args, 2, NULL);
}
