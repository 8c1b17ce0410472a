/* Tensor subclasses that override `__torch_function__`: what captured code sees of the protocol.
 *
 * The class is Python, and is captured as such: an operation on a tensor of it becomes a call of its `__torch_function__`, by
 * the rules; what that does in the end, with the protocol switched off, is recorded as for plain tensors. So a graph knows
 * nothing of the class. It is run with the protocol switched off, too, and results become tensors of the class when they are
 * built (MG_PLAN_SUBCLASS).
 *
 * Which function torch passes on (`torch.Tensor.add` for `x + 1`) is torch's own doing: operations on such twins are really
 * called, and come to mg_tensor_torch_function, since twins are of a class that overrides it. */
#include "world/override.h"

#include "capture/tracer.h"
#include "capture/varying.h"
#include "cpython/aside.h"
#include "ir/alias.h"
#include "record/arithmetic.h"
#include "record/overridden.h"
#include "record/record.h"
#include "torch/typekind.h"
#include "world/world.h"
#include "world/worldbase.h"

/* Found on first use; strong. */
static struct {
    PyObject *disabled;  /* a __torch_function__ that does not count */
    PyObject *is_traced; /* magneto._control.is_traced_class */
    PyObject *plain;     /* torch.overrides.get_default_nowrap_functions */
} known;

static int
find_known(void)
{
    if (known.plain != NULL) {
        return MG_OK;
    }
    known.disabled = mg_aside_find("torch._C", "_disabled_torch_function_impl");
    known.is_traced = mg_aside_find("magneto._control", "is_traced_class");
    known.plain = mg_aside_find("torch.overrides", "get_default_nowrap_functions");
    return known.disabled == NULL || known.plain == NULL || known.is_traced == NULL ? MG_ERR : MG_OK;
}

/* ---- classes ---- */

int
mg_override_is_class(PyTypeObject *type)
{
    PyObject *dispatch = MG_STRING("__torch_dispatch__");
    int is_plain = Py_TYPE(type) == Py_TYPE(mg_torch.tensor) || Py_TYPE(type) == Py_TYPE(mg_torch.parameter);
    return is_plain && PyType_IsSubtype(type, mg_torch.tensor) && mg_is_heap_type(type) &&
           strncmp(type->tp_name, "Uninitialized", strlen("Uninitialized")) != 0 &&
           _PyType_Lookup(type, dispatch) == _PyType_Lookup(mg_torch.tensor, dispatch) &&
           _PyType_Lookup(type, MG_STRING("__del__")) == NULL &&
           _PyType_Lookup(type, MG_STRING("__setattr__")) == _PyType_Lookup(mg_torch.tensor, MG_STRING("__setattr__"));
}

/* Notes the class of a twin. MG_OK or MG_ERR. */
static int
set_class(MgCapture *capture, MgTwin *twin, PyTypeObject *type)
{
    PyObject *name = MG_STRING("__torch_function__");
    if (find_known() < 0 || mg_world_guard_lookup(capture, type, name) < 0) {
        return MG_ERR;
    }
    twin->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    twin->overrides = _PyType_Lookup(type, name) != known.disabled;
    return MG_OK;
}

/* 1 if a tensor says that it is a parameter. */
static int
is_parameter(PyObject *tensor)
{
    PyObject **slot = _PyObject_GetDictPtr(tensor);
    return PyType_IsSubtype(Py_TYPE(tensor), mg_torch.parameter) ||
           (slot != NULL && *slot != NULL && PyDict_GetItemWithError(*slot, MG_STRING("_is_param")) == Py_True);
}

/* 0 if torch's settings name the class as one that is not to be captured; 1 or -1. */
static int
is_traced(PyTypeObject *type)
{
    PyObject *argument = (PyObject *)type, *answer = mg_aside_call(known.is_traced, &argument, 1);
    int result = answer == NULL ? -1 : answer == Py_True;
    Py_XDECREF(answer);
    return result;
}

int
mg_override_reach(MgCapture *capture, MgOutside *record)
{
    PyObject *tensor = record->object, *view = NULL;
    PyTypeObject *type = Py_TYPE(tensor);
    int traced = find_known() < 0 ? -1 : is_traced(type);
    if (traced < 0) {
        return MG_ERR;
    }
    if (!traced || (capture->graph.metas != NULL && mg_table_get(capture->graph.metas, tensor, NULL) != NULL)) {
        return mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "%s", type->tp_name); /* a failed run has used it */
    }
    MgMeta *meta = mg_meta_of_tensor(tensor);
    meta = meta == NULL ? NULL : mg_varying_meta(capture, record->source, tensor, meta);
    if (meta == NULL) {
        return PyErr_Occurred() ? MG_ERR : mg_capture_abort(capture, MG_REASON_TENSOR_KIND, NULL);
    }
    if (is_parameter(tensor)) {
        Py_SETREF(meta, mg_meta_get(meta->dtype, meta->device, meta->sizes, meta->strides,
                                    meta->flags | MG_META_PARAMETER, NULL));
    }
    if (meta != NULL && mg_capture_guard(capture, MG_GUARD_TYPE, record->source, (PyObject *)type) == MG_OK &&
        mg_capture_guard(capture, MG_GUARD_TENSOR, record->source, (PyObject *)meta) == MG_OK) {
        view = mg_twin_new(meta, capture->number);
    }
    Py_XDECREF(meta);
    if (view == NULL) {
        return MG_ERR;
    }
    mg_twin_of(view)->source = record->source;
    mg_twin_of(view)->real = Py_NewRef(tensor);
    if (set_class(capture, mg_twin_of(view), type) < 0) {
        Py_DECREF(view);
        return MG_ERR;
    }
    return mg_world_set_view(capture, record, view);
}

/* ---- calls ---- */

int
mg_override_has(const MgCapture *capture, PyObject *object)
{
    return mg_is_twin(object) && mg_twin_of(object)->overrides && mg_capture_overrides(capture);
}

/* The class whose `__torch_function__` torch would call for an argument, or NULL; borrowed. */
static PyTypeObject *
class_of(const MgCapture *capture, PyObject *argument, PyObject *others)
{
    if (mg_is_twin(argument)) {
        return mg_override_has(capture, argument) ? mg_twin_of(argument)->type : NULL;
    }
    for (Py_ssize_t i = 0; mg_overridden_is_other(argument) && i < PyTuple_GET_SIZE(others); i++) {
        if (PyTuple_GET_ITEM(others, i) == (PyObject *)Py_TYPE(argument)) {
            return Py_TYPE(argument);
        }
    }
    return NULL;
}

/* Adds an argument to the list, in front of those whose classes its class is a subclass of; one of each class. */
static int
add_class(const MgCapture *capture, PyObject *list, PyObject *argument, PyObject *others)
{
    PyTypeObject *type = class_of(capture, argument, others);
    Py_ssize_t at = PyList_GET_SIZE(list);
    for (Py_ssize_t i = PyList_GET_SIZE(list); type != NULL && i-- > 0;) {
        PyTypeObject *other = class_of(capture, PyList_GET_ITEM(list, i), others);
        if (other == type) {
            return MG_OK;
        }
        at = PyType_IsSubtype(type, other) ? i : at;
    }
    return type == NULL ? MG_OK : PyList_Insert(list, at, argument);
}

/* Adds the arguments that have one, and what lies in lists and tuples. MG_OK or MG_ERR. */
static int
add_classes(const MgCapture *capture, PyObject *list, PyObject *value, PyObject *others, int level)
{
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        return add_class(capture, list, value, others);
    }
    int status = MG_OK;
    for (Py_ssize_t i = 0; status == MG_OK && level < 2 && i < Py_SIZE(value); i++) {
        PyObject *item = PyTuple_Check(value) ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i);
        status = add_classes(capture, list, item, others, level + 1);
    }
    return status;
}

/* The `__torch_function__` of an argument, called. New. */
static PyObject *
call_class(MgCapture *capture, PyObject *argument, PyObject *const *args, Py_ssize_t count)
{
    PyObject *owner = mg_is_twin(argument) ? (PyObject *)mg_twin_of(argument)->type : argument;
    PyObject *method = mg_world_getattr(capture, owner, MG_STRING("__torch_function__"));
    PyObject *result = method == NULL ? NULL : mg_tracer.call(capture, method, args, (size_t)count, NULL);
    Py_XDECREF(method);
    return result;
}

PyObject *
mg_override_call(MgCapture *capture, PyObject *function, PyObject *others, PyObject *args, PyObject *kwargs)
{
    PyObject *list = PyList_New(0), *result = NULL;
    int status = list == NULL ? MG_ERR : add_classes(capture, list, args, others, 0);
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (status == MG_OK && kwargs != NULL && PyDict_Next(kwargs, &position, &key, &value)) {
        status = add_classes(capture, list, value, others, 1);
    }
    Py_ssize_t total = status < 0 ? 0 : PyList_GET_SIZE(list);
    PyObject *types = total == 0 ? NULL : PyTuple_New(total);
    if (types == NULL) {
        Py_XDECREF(list);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < total; i++) {
        PyTuple_SET_ITEM(types, i, Py_NewRef((PyObject *)class_of(capture, PyList_GET_ITEM(list, i), others)));
    }
    PyObject *const given[] = {function, types, args, kwargs};
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < total; i++) {
        Py_XSETREF(result, call_class(capture, PyList_GET_ITEM(list, i), given, kwargs == NULL ? 3 : 4));
        if (result != Py_NotImplemented) {
            break;
        }
    }
    Py_DECREF(types);
    Py_DECREF(list);
    if (result == Py_NotImplemented) { /* torch's error */
        Py_CLEAR(result);
        mg_capture_abort(capture, MG_REASON_OPERATION_FAILED, "no __torch_function__ implements it");
    }
    return result;
}

/* ---- what all inherit ---- */

/* A result with each tensor in it a tensor of the class. New. */
static PyObject *
convert(MgCapture *capture, PyObject *value, PyObject *type)
{
    if (mg_is_twin(value)) {
        PyTypeObject *own = mg_twin_of(value)->type;
        return own != NULL && PyType_IsSubtype(own, (PyTypeObject *)type)
                   ? Py_NewRef(value)
                   : mg_override_as_subclass(capture, value, type);
    }
    if (!PyTuple_Check(value) && !PyList_Check(value)) {
        return Py_NewRef(value);
    }
    int same = 1;
    PyObject *items = PyList_New(Py_SIZE(value));
    for (Py_ssize_t i = 0; items != NULL && i < Py_SIZE(value); i++) {
        PyObject *item = PyTuple_Check(value) ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i);
        PyObject *converted = convert(capture, item, type);
        if (converted == NULL) {
            Py_CLEAR(items);
            break;
        }
        same = same && converted == item;
        PyList_SET_ITEM(items, i, converted);
    }
    if (items == NULL || Py_IS_TYPE(value, &PyList_Type)) {
        return items;
    }
    PyObject *made = same && PyTuple_Check(value) ? Py_NewRef(value) /* nobody sees that it is not a copy */
                                                  : PyObject_CallOneArg((PyObject *)Py_TYPE(value), items);
    Py_DECREF(items);
    return made;
}

/* 1 if a function is one of those whose results stay plain. 0 or -1. */
static int
stays_plain(PyObject *function)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *set = PyObject_CallNoArgs(known.plain);
    int result = set == NULL ? -1 : PySet_Contains(set, function);
    if (result < 0 && PyErr_ExceptionMatches(PyExc_TypeError)) { /* it has no hash: it is none of them */
        PyErr_Clear();
        result = 0;
    }
    Py_XDECREF(set);
    mg_aside_end(&aside);
    return result;
}

/* function(*args, **kwargs) with the protocol switched off. New. */
static PyObject *
call_muted(MgCapture *capture, PyObject *function, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), names = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
    PyObject **all = PyMem_Calloc((size_t)(count + names) + 2, sizeof(PyObject *));
    PyObject *kwnames = names == 0 ? NULL : PyTuple_New(names), *result = NULL;
    if (all == NULL || (names > 0 && kwnames == NULL)) {
        PyErr_NoMemory();
    }
    else {
        Py_ssize_t position = 0, i = 0;
        PyObject *key, *value;
        for (Py_ssize_t k = 0; k < count; k++) {
            all[k + 1] = PyTuple_GET_ITEM(args, k);
        }
        while (names > 0 && PyDict_Next(kwargs, &position, &key, &value)) {
            PyTuple_SET_ITEM(kwnames, i, Py_NewRef(key));
            all[1 + count + i++] = value;
        }
        capture->torch.muted++;
        result = mg_tracer.call(capture, function, all + 1, (size_t)count | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
        capture->torch.muted--;
    }
    PyMem_Free(all);
    Py_XDECREF(kwnames);
    return result;
}

PyObject *
mg_override_default(MgCapture *capture, PyObject *const *args, Py_ssize_t count)
{
    PyObject *kwargs = count > 4 && args[4] != Py_None ? args[4] : NULL;
    if (count < 4 || !PyType_Check(args[0]) || !PyTuple_Check(args[2]) || (kwargs != NULL && !PyDict_Check(kwargs)) ||
        find_known() < 0) {
        mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "a call of torch.Tensor.__torch_function__");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[2]); i++) {
        PyObject *type = PyTuple_GET_ITEM(args[2], i);
        if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)args[0], (PyTypeObject *)type)) {
            return Py_NewRef(Py_NotImplemented);
        }
    }
    PyObject *given = mg_world_expose(capture, args[3]),
             *named = kwargs == NULL ? NULL : mg_world_expose(capture, kwargs);
    PyObject *tuple = given == NULL || (kwargs != NULL && named == NULL) ? NULL : PySequence_Tuple(given);
    PyObject *result = tuple == NULL ? NULL : call_muted(capture, args[1], tuple, named);
    Py_XDECREF(given);
    Py_XDECREF(named);
    Py_XDECREF(tuple);
    int plain = result == NULL ? -1 : args[0] == (PyObject *)mg_torch.tensor ? 1 : stays_plain(args[1]);
    if (plain == 0) {
        Py_SETREF(result, convert(capture, result, args[0]));
    }
    else if (plain < 0) {
        Py_CLEAR(result);
    }
    return result;
}

/* ---- tensors that captured code makes ---- */

PyObject *
mg_override_as_subclass(MgCapture *capture, PyObject *object, PyObject *type)
{
    if (type == (PyObject *)mg_torch.tensor) { /* x[...] is an alias */
        PyObject *args[] = {object, Py_Ellipsis};
        capture->torch.muted++;
        PyObject *plain = mg_arithmetic_record(capture, "getitem", args, 2);
        capture->torch.muted--;
        return plain;
    }
    if (!PyType_Check(type) || !mg_override_is_class((PyTypeObject *)type) || find_known() < 0 ||
        (mg_twin_of(object)->meta->flags & MG_META_WRAPPER)) {
        mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "a tensor becomes one");
        return NULL;
    }
    if (mg_record_input(capture, object) < 0) {
        return NULL;
    }
    /* where gradients flow, that it is a view matters */
    int flows = mg_twin_of(object)->meta->flags & MG_META_REQUIRES_GRAD;
    PyObject *base = flows ? mg_override_as_subclass(capture, object, (PyObject *)mg_torch.tensor) : Py_NewRef(object);
    MgMeta *meta = base == NULL ? NULL : mg_twin_of(base)->meta;
    meta = meta == NULL ? NULL
                        : mg_meta_get(meta->dtype, meta->device, meta->sizes, meta->strides,
                                      meta->flags & ~MG_META_PARAMETER, meta->fake);
    PyObject *made = meta == NULL ? NULL : mg_twin_new(meta, capture->number);
    Py_XDECREF(meta);
    if (made == NULL || set_class(capture, mg_twin_of(made), (PyTypeObject *)type) < 0) {
        Py_XDECREF(base);
        Py_XDECREF(made);
        return NULL;
    }
    MgTwin *twin = mg_twin_of(made), *other = mg_twin_of(base);
    twin->node = mg_twin_node(base);
    twin->row = other->row;
    twin->gradless = other->gradless;
    twin->fake = Py_XNewRef(other->fake);
    twin->base = base;
    mg_twin_join(twin, other);
    return made;
}

PyObject *
mg_override_make(MgCapture *capture, PyTypeObject *type, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *new = _PyType_Lookup(type, MG_STRING("__new__")), *init = _PyType_Lookup(type, MG_STRING("__init__"));
    PyObject *result = NULL;
    if (mg_world_guard_lookup(capture, type, MG_STRING("__new__")) < 0 ||
        mg_world_guard_lookup(capture, type, MG_STRING("__init__")) < 0) {
        return NULL;
    }
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject **all = PyMem_Calloc((size_t)total + 2, sizeof(PyObject *));
    if (all == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < total; i++) {
        all[i + 2] = args[i];
    }
    all[1] = (PyObject *)type;
    if (new != NULL && Py_IS_TYPE(new, &PyStaticMethod_Type)) {
        PyObject *function = Py_TYPE(new)->tp_descr_get(new, NULL, (PyObject *)type);
        result = function == NULL ? NULL
                                  : mg_tracer.call(capture, function, all + 1,
                                                   (size_t)(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
        Py_XDECREF(function);
    }
    else if (new == _PyType_Lookup(mg_torch.tensor, MG_STRING("__new__")) && count == 1 && kwnames == NULL &&
             mg_is_twin(args[0])) { /* an alias of it */
        result = mg_override_as_subclass(capture, args[0], (PyObject *)type);
    }
    else {
        mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "a %s is made", type->tp_name);
    }
    if (result != NULL && init != NULL && PyFunction_Check(init) && mg_is_twin(result) &&
        mg_twin_of(result)->type != NULL && PyType_IsSubtype(mg_twin_of(result)->type, type)) {
        all[1] = result;
        PyObject *none =
            mg_tracer.call(capture, init, all + 1, (size_t)(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
        Py_XDECREF(none);
        if (none != Py_None) {
            Py_CLEAR(result);
            if (none != NULL) {
                mg_capture_abort(capture, MG_REASON_TENSOR_SUBCLASS, "__init__ returns something");
            }
        }
    }
    PyMem_Free(all);
    return result;
}
