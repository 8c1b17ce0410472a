/* What an operation returns and does, worked out from metadata alone; or why that is not known.
 *
 * Every outcome is well formed, whoever made it: the constructors check the types of what Python passes, so that readers
 * use the fields as they are. */
#include "ir/outcome.h"

#include <structmember.h>

static void
outcome_dealloc(MgOutcome *self)
{
    Py_XDECREF(self->why);
    Py_XDECREF(self->result);
    Py_XDECREF(self->changes);
    Py_XDECREF(self->views);
    Py_XDECREF(self->written);
    Py_XDECREF(self->input_fakes);
    Py_XDECREF(self->result_fakes);
    Py_XDECREF(self->bindings);
    PyObject_Free(self);
}

static PyObject *
outcome_repr(MgOutcome *self)
{
    if (self->kind != MG_OUTCOME_KNOWN) {
        return PyUnicode_FromFormat("<refusal %d: %U>", (int)self->kind, self->why);
    }
    return PyUnicode_FromFormat("<outcome %R, changes %R, views %R, written %R>", self->result, self->changes,
                                self->views, self->written);
}

static PyMemberDef outcome_members[] = {
    {"kind", T_INT, offsetof(MgOutcome, kind), READONLY, NULL},
    {"why", T_OBJECT, offsetof(MgOutcome, why), READONLY, NULL},
    {"result", T_OBJECT, offsetof(MgOutcome, result), READONLY, NULL},
    {"changes", T_OBJECT, offsetof(MgOutcome, changes), READONLY, NULL},
    {"views", T_OBJECT, offsetof(MgOutcome, views), READONLY, NULL},
    {"written", T_OBJECT, offsetof(MgOutcome, written), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject MgOutcome_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "magneto._core.Outcome",
    .tp_basicsize = sizeof(MgOutcome),
    .tp_dealloc = (destructor)outcome_dealloc,
    .tp_repr = (reprfunc)outcome_repr,
    .tp_members = outcome_members,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* One whose fields are all NULL. New. */
static MgOutcome *
make(MgOutcomeKind kind)
{
    MgOutcome *outcome = PyObject_New(MgOutcome, &MgOutcome_Type);
    if (outcome != NULL) {
        outcome->kind = kind;
        outcome->why = outcome->result = outcome->changes = outcome->views = outcome->written = NULL;
        outcome->input_fakes = outcome->result_fakes = outcome->bindings = NULL;
    }
    return outcome;
}

MgOutcome *
mg_outcome_new(PyObject *result, PyObject *changes, PyObject *views, PyObject *written)
{
    assert(PyTuple_Check(changes) && PyTuple_Check(views) && PyTuple_Check(written));
    MgOutcome *outcome = make(MG_OUTCOME_KNOWN);
    if (outcome != NULL) {
        outcome->result = Py_NewRef(result);
        outcome->changes = Py_NewRef(changes);
        outcome->views = Py_NewRef(views);
        outcome->written = Py_NewRef(written);
    }
    return outcome;
}

MgOutcome *
mg_outcome_refuse(MgOutcomeKind kind, PyObject *why)
{
    assert(kind > MG_OUTCOME_KNOWN && kind < MG_OUTCOME_KINDS && PyUnicode_Check(why));
    MgOutcome *outcome = make(kind);
    if (outcome != NULL) {
        outcome->why = Py_NewRef(why);
    }
    return outcome;
}

MgOutcome *
mg_outcome_check(PyObject *object)
{
    if (object != NULL && !Py_IS_TYPE(object, &MgOutcome_Type)) {
        PyErr_Format(PyExc_TypeError, "an outcome is needed, not '%.100s'", Py_TYPE(object)->tp_name);
        Py_CLEAR(object);
    }
    return (MgOutcome *)object;
}

PyObject *
mg_outcome_make(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"", "changes", "views", "written", "input_fakes", "result_fakes", "bindings", NULL};
    PyObject *result, *changes = NULL, *views = NULL, *written = NULL, *input_fakes = NULL, *result_fakes = NULL;
    PyObject *bindings = Py_None, *none = PyTuple_New(0);
    MgOutcome *outcome = NULL;
    if (none != NULL &&
        PyArg_ParseTupleAndKeywords(args, kwargs, "O|O!O!O!$O!O!O:outcome", names, &result, &PyTuple_Type, &changes,
                                    &PyTuple_Type, &views, &PyTuple_Type, &written, &PyList_Type, &input_fakes,
                                    &PyList_Type, &result_fakes, &bindings)) {
        outcome = mg_outcome_new(result, changes == NULL ? none : changes, views == NULL ? none : views,
                                 written == NULL ? none : written);
    }
    if (outcome != NULL) {
        outcome->input_fakes = Py_XNewRef(input_fakes);
        outcome->result_fakes = Py_XNewRef(result_fakes);
        outcome->bindings = bindings == Py_None ? NULL : Py_NewRef(bindings);
    }
    Py_XDECREF(none);
    return (PyObject *)outcome;
}

PyObject *
mg_outcome_make_refusal(PyObject *module, PyObject *args)
{
    (void)module;
    int kind;
    PyObject *why;
    if (!PyArg_ParseTuple(args, "iU:refusal", &kind, &why)) {
        return NULL;
    }
    if (kind <= MG_OUTCOME_KNOWN || kind >= MG_OUTCOME_KINDS) {
        PyErr_SetString(PyExc_ValueError, "there is no such kind of refusal");
        return NULL;
    }
    return (PyObject *)mg_outcome_refuse((MgOutcomeKind)kind, why);
}

int
mg_outcome_types_ready(void)
{
    return PyType_Ready(&MgOutcome_Type) < 0 ? MG_ERR : MG_OK;
}
