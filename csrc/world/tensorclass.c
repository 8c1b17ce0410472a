/* torch.Tensor and nn.Parameter as classes: what programs add to them, replace in them, and give to single tensors.
 *
 * What captured code finds on the class is guarded by name, as it is for other classes. What a program has put there is
 * called by the rules, like its other code. Operators are recorded as such; where a program has replaced the special
 * method of one (`torch.Tensor.__add__`) or what all operations go by (`__torch_function__`), the capture stops before it. */
#include "world/tensorclass.h"

#include "capture/origin.h"
#include "capture/tracer.h"
#include "torch/typekind.h"
#include "world/override.h"
#include "world/world.h"
#include "world/worldbase.h"

static PyObject *operator_names; /* strong: function of the module operator -> names of special methods: left, right */

/* 1 if what the class of tensors has was put there by torch. */
static int
is_torchs_own(PyObject *found)
{
    PyTypeObject *type = Py_TYPE(found);
    if (PyFunction_Check(found)) {
        return mg_origin_of((PyCodeObject *)((PyFunctionObject *)found)->func_code) == MG_ORIGIN_TORCH ||
               mg_origin_of((PyCodeObject *)((PyFunctionObject *)found)->func_code) == MG_ORIGIN_MODULES;
    }
    if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
        type == &PyMemberDescr_Type || type == &PyClassMethodDescr_Type) {
        PyTypeObject *owner = PyDescr_TYPE(found);
        return owner == &PyBaseObject_Type || PyType_IsSubtype(mg_torch.parameter, owner);
    }
    if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type || type == &PyProperty_Type) {
        const char *name = type == &PyProperty_Type ? "fget" : "__func__";
        PyObject *inner = PyObject_GetAttrString(found, name);
        PyErr_Clear();
        int own = inner != NULL && (inner == Py_None || is_torchs_own(inner));
        Py_XDECREF(inner);
        return own;
    }
    return type == &PyCFunction_Type || found == Py_None || PyUnicode_Check(found) || PyLong_Check(found);
}

/* Guards that operations and look-ups of tensors of a class go the way that torch has made; once for a capture. */
static int
guard_hooks(MgCapture *capture, PyTypeObject *type)
{
    int mark = type == mg_torch.tensor ? 1 : type == mg_torch.parameter ? 2 : 0; /* others are few */
    if (capture->reads.tensor_classes & mark) {
        return MG_OK;
    }
    capture->reads.tensor_classes |= mark;
    PyObject *const names[] = {MG_STRING("__torch_function__"), MG_STRING("__getattribute__"),
                               MG_STRING("__getattr__")};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++) {
        PyObject *found = _PyType_Lookup(type, names[i]);
        if (i == 0 && (mg_kind_is_wrapper(type) || mg_override_is_class(type))) {
            continue; /* it has a part in what the node of an operation does, or is called */
        }
        if (found != NULL && !is_torchs_own(found)) {
            return mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "%s of %s was replaced", PyUnicode_AsUTF8(names[i]),
                                    type->tp_name);
        }
        if (mg_world_guard_lookup(capture, type, names[i]) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

PyObject *
mg_tensor_class_find(MgCapture *capture, const MgTwin *twin, PyObject *name, int *is_own)
{
    PyTypeObject *type = mg_tensor_class_of(twin);
    *is_own = -1;
    if (guard_hooks(capture, type) < 0 || mg_world_guard_lookup(capture, type, name) < 0) {
        return NULL;
    }
    PyObject *found = _PyType_Lookup(type, name);
    int is_inherited = twin->type == NULL || found == _PyType_Lookup(mg_torch.tensor, name) ||
                       found == _PyType_Lookup(mg_torch.parameter, name);
    *is_own = found != NULL && is_inherited && is_torchs_own(found);
    return found;
}

int
mg_tensor_own_attribute(MgCapture *capture, const MgTwin *twin, PyObject *name, PyObject **value)
{
    *value = NULL;
    if (twin->real == NULL) {
        *value = twin->dict == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(twin->dict, name));
        return *value != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
    }
    PyObject **slot = _PyObject_GetDictPtr(twin->real);
    MgOutside *dict = slot == NULL || *slot == NULL ? NULL : mg_outside_find(capture, *slot);
    if (dict != NULL && (dict->held != NULL || dict->view != NULL)) { /* captured code has written to it */
        return mg_world_dict_get(capture, dict, name, value);
    }
    if (mg_instance_has(twin->real, name)) {
        *value = mg_world_generic_getattr(capture, twin->real, name);
        return *value == NULL ? -1 : 1;
    }
    return mg_capture_guard_lacks(capture, twin->source, name);
}

PyObject *
mg_tensor_class_get(MgCapture *capture, PyObject *object, PyObject *name, PyObject *found)
{
    PyTypeObject *type = Py_TYPE(found);
    PyObject *class = (PyObject *)mg_tensor_class_of(mg_twin_of(object));
    if (PyFunction_Check(found)) {
        return PyMethod_New(found, object);
    }
    if (type == &PyProperty_Type) {
        PyObject *getter = PyObject_GetAttrString(found, "fget"), *result = NULL;
        if (getter != NULL && getter != Py_None) {
            result = mg_tracer.call(capture, getter, &object, 1, NULL);
        }
        else if (getter != NULL) {
            PyErr_Format(PyExc_AttributeError, "property '%U' of 'Tensor' object has no getter", name);
        }
        Py_XDECREF(getter);
        return result;
    }
    if (type->tp_descr_get == NULL || type == &PyStaticMethod_Type || type == &PyClassMethod_Type) {
        return mg_world_getattr(capture, class, name);
    }
    mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "%U, a descriptor of %s", name, type->tp_name);
    return NULL;
}

/* ---- operators ---- */

/* Adds "__<prefix><name>__" to a list. MG_OK or MG_ERR. */
static int
add_name(PyObject *list, const char *prefix, const char *name)
{
    char buffer[32];
    int size = (int)strlen(name);
    size -= size > 0 && name[size - 1] == '_'; /* and_, or_ */
    snprintf(buffer, sizeof(buffer), "__%s%.*s__", prefix, size, name);
    PyObject *text = PyUnicode_FromString(buffer);
    if (text != NULL) {
        PyUnicode_InternInPlace(&text);
    }
    int status = text == NULL ? MG_ERR : PyList_Append(list, text);
    Py_XDECREF(text);
    return status;
}

/* The special methods that a function of the module operator comes to: (left, right), lists of names. New. */
static PyObject *
names_of(const char *name)
{
    static const char *const binary[] = {"add",    "sub",  "mul", "truediv", "floordiv", "mod",   "pow",
                                         "matmul", "and_", "or_", "xor",     "lshift",   "rshift"};
    static const char *const comparisons[][2] = {{"lt", "gt"}, {"le", "ge"}, {"eq", "eq"},
                                                 {"ne", "ne"}, {"gt", "lt"}, {"ge", "le"}};
    PyObject *left = PyList_New(0), *right = PyList_New(0);
    int status =
        left == NULL || right == NULL ? MG_ERR : add_name(left, "", strcmp(name, "inv") == 0 ? "invert" : name);
    for (size_t i = 0; status == MG_OK && i < Py_ARRAY_LENGTH(binary); i++) {
        size_t size = strlen(binary[i]);
        size -= binary[i][size - 1] == '_';
        int in_place = name[0] == 'i' && strncmp(name + 1, binary[i], size) == 0 && name[size + 1] == '\0';
        if (in_place && add_name(left, "", binary[i]) < 0) {
            status = MG_ERR;
        }
        if (status == MG_OK && (in_place || strcmp(name, binary[i]) == 0)) {
            status = add_name(right, "r", binary[i]);
        }
    }
    for (size_t i = 0; status == MG_OK && i < Py_ARRAY_LENGTH(comparisons); i++) {
        if (strcmp(name, comparisons[i][0]) == 0) {
            status = add_name(right, "", comparisons[i][1]);
        }
    }
    PyObject *result = status < 0 ? NULL : PyTuple_Pack(2, left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return result;
}

int
mg_tensor_class_check_special(MgCapture *capture, PyObject *object, PyObject *name)
{
    int own;
    PyObject *found = mg_tensor_class_find(capture, mg_twin_of(object), name, &own);
    if (own < 0 || (found != NULL && !own)) {
        return own < 0 ? MG_ERR : mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "torch.Tensor.%U was replaced", name);
    }
    return MG_OK;
}

/* The same for a method, which a tensor may have of its own, too: torch's may have been called in another way. */
static int
check_method(MgCapture *capture, PyObject *object, PyObject *name)
{
    const MgTwin *twin = mg_twin_of(object);
    if (mg_tensor_class_check_special(capture, object, name) < 0) {
        return MG_ERR;
    }
    if (twin->real != NULL && mg_instance_has(twin->real, name)) {
        return mg_capture_abort(capture, MG_REASON_ATTRIBUTE, "a tensor has a %U of its own", name);
    }
    return twin->real == NULL ? MG_OK : mg_capture_guard_lacks(capture, twin->source, name);
}

int
mg_tensor_class_check(MgCapture *capture, PyObject *target, PyObject *const *args, Py_ssize_t count)
{
    if (guard_hooks(capture, mg_torch.tensor) < 0) {
        return MG_ERR;
    }
    if (PyUnicode_Check(target)) { /* a method: the replay looks for it by its name */
        return count > 0 && mg_is_twin(args[0]) ? check_method(capture, args[0], target) : MG_OK;
    }
    PyObject *module = PyCFunction_CheckExact(target) ? ((PyCFunctionObject *)target)->m_module : NULL;
    if (module == NULL || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "_operator") != 0) {
        return MG_OK;
    }
    if (operator_names == NULL && (operator_names = PyDict_New()) == NULL) {
        return MG_ERR;
    }
    PyObject *names = PyDict_GetItemWithError(operator_names, target);
    if (names == NULL) {
        names = PyErr_Occurred() ? NULL : names_of(((PyCFunctionObject *)target)->m_ml->ml_name);
        int status = names == NULL ? MG_ERR : PyDict_SetItem(operator_names, target, names);
        Py_XDECREF(names); /* the dict keeps it */
        if (status < 0) {
            return MG_ERR;
        }
    }
    for (Py_ssize_t i = 0; i < 2 && i < count; i++) {
        PyObject *list = PyTuple_GET_ITEM(names, i);
        for (Py_ssize_t k = 0; mg_is_twin(args[i]) && k < PyList_GET_SIZE(list); k++) {
            if (mg_tensor_class_check_special(capture, args[i], PyList_GET_ITEM(list, k)) < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}
