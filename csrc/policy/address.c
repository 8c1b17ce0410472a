/* Addresses of objects that texts, hashes and id() tell: they are others on each call. */
#include "policy/calls.h"

#include "capture/deferred.h"
#include "capture/level.h"
#include "capture/outside.h"
#include "cpython/aside.h"
#include "cpython/shadow.h"
#include "policy/rules.h"
#include "policy/ruletable.h"
#include "torch/kinds.h"
#include "torch/typekind.h"
#include "world/worldbase.h"

static int tells_inside(MgCapture *capture, PyObject *value, int hashed);

/* How a C function shows the address of an object that has no better way. */
typedef enum { SHOWS_NONE, SHOWS_TEXT, SHOWS_HASH } Shows;

/* 1 if this is the name of a C function that makes a text of its arguments' texts. */
static int
is_formatter(const char *name)
{
    return strcmp(name, "format") == 0 || strcmp(name, "format_map") == 0 || strcmp(name, "__format__") == 0;
}

static Shows
shows(PyObject *callable)
{
    if (callable == (PyObject *)&PyUnicode_Type) {
        return SHOWS_TEXT;
    }
    if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) { /* object.__hash__(a), a.__repr__() */
        const char *name = ((PyWrapperDescrObject *)callable)->d_base->name;
        return strcmp(name, "__hash__") == 0                                   ? SHOWS_HASH
               : strcmp(name, "__repr__") == 0 || strcmp(name, "__str__") == 0 ? SHOWS_TEXT
                                                                               : SHOWS_NONE;
    }
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) { /* str.format, and object.__format__ */
        return is_formatter(((PyMethodDescrObject *)callable)->d_method->ml_name) ? SHOWS_TEXT : SHOWS_NONE;
    }
    const char *name = PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name : "";
    return strcmp(name, "hash") == 0                                                       ? SHOWS_HASH
           : strcmp(name, "repr") == 0 || strcmp(name, "ascii") == 0 || is_formatter(name) ? SHOWS_TEXT
                                                                                           : SHOWS_NONE;
}

int
mg_call_shows_address(PyObject *callable)
{
    return shows(callable) != SHOWS_NONE;
}

/* The same at a level of a structure; what lies too deep may have one. */
static int
has_address(PyObject *value, MgWalk *walk)
{
    PyTypeObject *type = Py_TYPE(value);
    if (PyType_Check(value)) { /* guarded by identity */
        return type->tp_repr != PyType_Type.tp_repr;
    }
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || type == mg_torch.size) {
        PyObject **items = PySequence_Fast_ITEMS(value);
        int found = !mg_walk_enter(walk);
        for (Py_ssize_t i = 0; !found && i < Py_SIZE(value); i++) {
            found = items[i] == value || PyList_CheckExact(items[i]) || has_address(items[i], walk);
        }
        mg_walk_leave(walk);
        return found;
    }
    return type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type && type != &PyBool_Type &&
           type != &PyBytes_Type && value != Py_None && type != mg_torch.dtype && type != mg_torch.device &&
           !mg_kind_is_constant(type);
}

int
mg_rules_has_address(PyObject *value)
{
    MgWalk walk = MG_WALK;
    return has_address(value, &walk);
}

/* 1 if C code makes the text of an object of the texts of its parts, which tp_traverse leads to. */
static int
shows_parts(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (!(PyAnySet_Check(value) || PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) ||
          PySlice_Check(value) || PyObject_TypeCheck(value, mg_deque_type) || mg_is_partial(value) ||
          PyObject_TypeCheck(value, mg_namespace_type) || type == &PyDictProxy_Type || type == &PyDictKeys_Type ||
          type == &PyDictValues_Type || type == &PyDictItems_Type || PyExceptionInstance_Check(value))) {
        return 0;
    }
    PyObject *text = _PyType_Lookup(type, MG_STRING("__repr__"));
    return text != NULL && Py_IS_TYPE(text, &PyWrapperDescr_Type); /* else its frame is captured */
}

/* 1 for objects of which C code shows the address although their class has a text of its own. */
static int
shows_itself(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyGen_Type || type == &PyCoro_Type || type == &PyAsyncGen_Type || type == &PyCell_Type ||
           type == &_PyMethodWrapper_Type || PyWeakref_Check(value);
}

typedef struct {
    MgCapture *capture;
    int hashed, found;
} Parts;

static int
visit_part(PyObject *part, void *context)
{
    Parts *parts = context;
    parts->found = PyType_Check(part) ? 0 : tells_inside(parts->capture, part, parts->hashed);
    return parts->found;
}

/* tells_inside for what a container holds. */
static int
holds_inside(MgCapture *capture, PyObject *value, int hashed)
{
    if (mg_depth_enter(capture) < 0) {
        return MG_ERR;
    }
    int found = Py_ReprEnter(value); /* it may hold itself */
    if (found != 0) {
        mg_depth_leave(capture);
        return found < 0 ? MG_ERR : 0;
    }
    if (PyDict_CheckExact(value)) {
        Py_ssize_t position = 0;
        PyObject *key, *item;
        while (found == 0 && PyDict_Next(value, &position, &key, &item)) {
            found = tells_inside(capture, key, hashed);
            found = found != 0 ? found : tells_inside(capture, item, hashed);
        }
    }
    else if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
        for (Py_ssize_t i = 0; found == 0 && i < Py_SIZE(value); i++) {
            found = tells_inside(capture, PySequence_Fast_ITEMS(value)[i], hashed);
        }
    }
    else if (PyExceptionInstance_Check(value)) { /* its traceback would lead to all that there is */
        found = tells_inside(capture, ((PyBaseExceptionObject *)value)->args, hashed);
    }
    else if (Py_TYPE(value)->tp_traverse != NULL) {
        Parts parts = {capture, hashed, 0};
        Py_TYPE(value)->tp_traverse(value, visit_part, &parts);
        found = parts.found;
    }
    MG_STARVE_PAUSE(); /* CPython leaves the object on its list if there is no memory to make that shorter */
    Py_ReprLeave(value);
    MG_STARVE_RESUME();
    mg_depth_leave(capture);
    return found;
}

/* What a text or a hash (`hashed`) tells of the address of an object that captured code made: 1 if it does, and each call
 * makes its own. Outside objects are guarded: tensors here, others when the entry is made. Or MG_ERR. */
static int
tells_inside(MgCapture *capture, PyObject *value, int hashed)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyTuple_Type || (hashed ? PyFrozenSet_Check(value) : shows_parts(value))) {
        return holds_inside(capture, value, hashed);
    }
    if (!hashed && shows_itself(value)) {
        return mg_outside_of(capture, value) == NULL;
    }
    if (mg_is_bound_builtin(value)) { /* the address of what it is bound to */
        return mg_is_twin(PyCFunction_GET_SELF(value)) || mg_outside_of(capture, value) == NULL;
    }
    if (hashed && mg_is_nan(value)) { /* which has its address for a hash */
        MgSource *lazy = mg_deferred_source(capture, value);
        return lazy == NULL ? 0 : mg_capture_guard(capture, MG_GUARD_IDENTITY, lazy, value);
    }
    int tensor = mg_is_twin(value);
    if (tensor ? !hashed
               : !(hashed ? type->tp_hash == PyBaseObject_Type.tp_hash : type->tp_repr == PyBaseObject_Type.tp_repr) &&
                     type != &PyFunction_Type && type != &PyMethod_Type) {
        return 0;
    }
    MgOutside *record = mg_outside_of(capture, value);
    if (record == NULL) {
        return tensor || mg_table_get(&capture->inside, value, NULL) != NULL || type != &PyFunction_Type;
    }
    return tensor || record->kind == MG_KIND_FUNCTION
               ? mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, record->object)
               : 0;
}

/* The same for a method of object, which tells the address of any object, whatever its class has. */
static int
is_inside(MgCapture *capture, PyObject *value)
{
    MgOutside *record = mg_outside_of(capture, value);
    return record == NULL ? !mg_is_twin(value) : mg_world_guard_object(capture, record) < 0 ? MG_ERR : 0;
}

int
mg_call_note_address(MgCapture *capture, PyObject *callable, PyObject *value)
{
    int hashed = shows(callable) == SHOWS_HASH;
    int of_object = Py_IS_TYPE(callable, &PyWrapperDescr_Type) && PyDescr_TYPE(callable) == &PyBaseObject_Type &&
                    PyDescr_NAME(callable) != MG_STRING("__str__");
    int inside = of_object && !PyType_Check(value) && !mg_is_twin(value) ? is_inside(capture, value)
                                                                         : tells_inside(capture, value, hashed);
    if (inside > 0 && capture->breaks.can_break) {
        mg_call_unknown(capture, callable);
        return MG_ERR;
    }
    return inside > 0 && hashed ? 1 : inside < 0 ? MG_ERR : 0;
}

int
mg_rules_note_text(MgCapture *capture, PyObject *value)
{
    return mg_call_note_address(capture, (PyObject *)&PyUnicode_Type, value);
}

int
mg_call_note_id(MgCapture *capture, PyObject *id)
{
    return (capture->reads.ids == NULL && (capture->reads.ids = PySet_New(NULL)) == NULL) ||
                   PySet_Add(capture->reads.ids, id) < 0
               ? MG_ERR
               : MG_OK;
}
