/* A call's life: bind, look up, run, exit; where no entry fits, capture, or leave it to CPython.
 *
 * After an aborted capture the call is simply made, since nothing outside was touched. A callable that keeps failing is tried
 * less and less often. */
#include "api/callable.h"

#include "api/bind.h"
#include "api/miss.h"
#include "api/parts.h"
#include "api/session.h"
#include "base/vector.h"
#include "cpython/aside.h"
#include "policy/control.h"
#include "policy/stance.h"
#include "torch/layout.h"
#include "trace/hook.h"

/* The call as it is, in CPython; what it calls may be captured on its own. */
static PyObject *
call_plainly(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *owner = self->breaks && !self->fullgraph ? (PyObject *)self : NULL;
    return mg_hook_call_watched(owner, self->function, args, nargsf, kwnames);
}

/* ---- stances ---- */

int
mg_compiled_is_strict(MgStance stance)
{
    return stance == MG_STANCE_FAIL_ON_RECOMPILE || stance == MG_STANCE_SKIP_GUARDS;
}

/* 1 if hooks of the program's get the tensors that are saved for backward: code may look at what they do, operation by
 * operation. Those that torch itself sets, for checkpoints say, tell the program nothing. 0 or -1. */
static int
has_saving_hooks(void)
{
    PyObject *hooks = mg_compiled_saving_hooks();
    PyObject *pack = hooks != NULL && PyTuple_Check(hooks) ? PyTuple_GET_ITEM(hooks, 0) : NULL;
    PyObject *module = pack != NULL && PyFunction_Check(pack) ? ((PyFunctionObject *)pack)->func_module : NULL;
    const char *name = module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    int found = hooks == NULL ? -1 : pack != NULL && (name == NULL || strncmp(name, "torch.", strlen("torch.")) != 0);
    if (found > 0) {
        PyErr_Clear();
    }
    Py_XDECREF(hooks);
    return found;
}

int
mg_compiled_may_capture(MgCompiled *self, MgStance stance)
{
    int modes = mg_layout_has_modes();
    modes = modes == 0 ? has_saving_hooks() : modes;
    if (modes != 0) {
        return modes < 0 ? -1 : 0;
    }
    switch (stance) {
        case MG_STANCE_EAGER_ON_RECOMPILE:
            return 0;
        case MG_STANCE_FAIL_ON_RECOMPILE:
        case MG_STANCE_SKIP_GUARDS:
            return MG_MAY_NOT;
        case MG_STANCE_EAGER_THEN_COMPILE:
            self->warm++;
            return self->warm > 1;
        default:
            return 1;
    }
}

/* A call under a stance that does not use the entries of this callable. New. */
static PyObject *
call_elsewhere(MgCompiled *self, MgStance stance, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (stance == MG_STANCE_INVALID) {
        PyErr_SetString(PyExc_RuntimeError, "torch.compiler.set_stance was given a stance that there is not");
        return NULL;
    }
    PyObject *outer = mg_watch(NULL); /* nor is anything below to be captured */
    PyObject *target =
        stance == MG_STANCE_FORCE_BACKEND ? mg_stance_forced((PyObject *)self) : Py_NewRef(self->function);
    PyObject *result = target == NULL ? NULL : PyObject_Vectorcall(target, args, nargsf, kwnames);
    Py_XDECREF(target);
    mg_watch(outer);
    return result;
}

/* ---- entries ---- */

void
mg_compiled_insert(MgEntry **entries, int count, MgEntry *entry)
{
    int at = entry->is_last ? count : 0;
    memmove(entries + at + 1, entries + at, sizeof(MgEntry *) * (size_t)(count - at));
    entries[at] = (MgEntry *)Py_NewRef((PyObject *)entry);
}

static int
add_entry(MgCompiled *self, MgEntry *entry)
{
    if (MG_VECTOR_RESERVE(self->entries, self->entry_count, self->entry_room, 4) < 0) {
        return MG_ERR;
    }
    assert(self->entry_count < self->entry_room);
    mg_compiled_insert(self->entries, self->entry_count++, entry);
    self->changes++;
    return MG_OK;
}

/* The same for the callable's own entries, if they are still those of the code that the arguments were bound for. */
static PyObject *
try_own(MgCompiled *self, PyObject *code, PyObject *const *arguments, MgFound *found, MgEnding *ending)
{
    PyObject *result = NULL;
    int tries = 0;
    *found = MG_FOUND_NONE;
    do {
        if (MG_UNLIKELY(self->code != code)) {
            return NULL;
        }
        result =
            mg_compiled_try_entries(self, self->entries, self->entry_count, &self->decision, arguments, found, ending);
    } while (MG_UNLIKELY(*found == MG_FOUND_CHANGED) && ++tries < 100);
    *found = *found == MG_FOUND_CHANGED ? MG_FOUND_NONE : *found;
    return result;
}

/* Entries are made for a code, whose arguments they look at: with another one they go. */
static void
take_code(MgCompiled *self, PyObject *code)
{
    PyObject *before = self->code;
    MgEntry **entries = self->entries;
    int count = self->entry_count;
    mg_dispatch_free(self->decision.dispatch);
    self->decision = (MgDecision){0};
    self->code = Py_NewRef(code);
    self->entries = NULL;
    self->entry_count = self->entry_room = 0;
    self->changes++;
    self->failures = self->skip = self->told = self->warm = 0;
    Py_CLEAR(self->lattice);          /* runs no code */
    for (int i = 0; i < count; i++) { /* from here on, any code can run */
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
    Py_XDECREF(before);
}

/* The class of the object that is compiled may have got another __call__: its method takes the place of the old one. 1, 0
 * if it has none that can be captured, or MG_ERR. */
static int
take_method(MgCompiled *self, PyObject *object)
{
    PyObject *found = _PyType_Lookup(Py_TYPE(object), MG_STRING("__call__"));
    if (MG_LIKELY(found == PyMethod_GET_FUNCTION(self->function))) {
        return 1;
    }
    if (found == NULL || !PyFunction_Check(found)) {
        return 0;
    }
    PyObject *method = PyMethod_New(found, object);
    if (method == NULL || (self->former == NULL && (self->former = PyList_New(0)) == NULL) ||
        PyList_Append(self->former, self->function) < 0) {
        Py_XDECREF(method);
        return MG_ERR;
    }
    Py_SETREF(self->function, method); /* the old one lives on */
    take_code(self, PyFunction_GET_CODE(found));
    return 1;
}

/* A call that no entry fits: captures it, or has CPython make it. `bound` is NULL if the arguments do not fit the function.
 * The result, or NULL with an exception, or as mg_compiled_try_entries returns it. */
static PyObject *
call_without_entry(MgCompiled *self, PyObject *code, MgStance stance, const MgBound *bound, const MgSubject *subject,
                   MgFound *found, MgEnding *ending)
{
    if (mg_compiled_is_strict(stance) && self->entry_count == 0 && (self->plain || self->failures > 0)) {
        return call_plainly(self, subject->args, subject->nargsf, subject->kwnames);
    }
    int limit = bound == NULL ? 0 : mg_control_limit(self->limit, 1);
    int wanted = limit < 0 ? limit + 1 : bound == NULL ? 1 : mg_compiled_may_capture(self, stance);
    if (wanted <= 0) {
        return wanted < 0 ? NULL
                          : PyObject_Vectorcall(self->function, subject->args, subject->nargsf, subject->kwnames);
    }
    if (wanted == MG_MAY_NOT) {
        mg_miss_refuse(self, self->entries, self->entry_count, bound->values, stance, (PyCodeObject *)code);
        return NULL;
    }
    if (bound != NULL && self->entry_count >= limit && self->told != limit + 1) {
        int enough = mg_miss_tell(self, self->entries, self->entry_count, bound->values, limit);
        if (enough < 0) {
            return NULL;
        }
        self->told = enough ? limit + 1 : 0;
    }
    if (bound != NULL && self->entry_count >= limit) { /* in eager, all of it: what it calls would recompile as well */
        return PyObject_Vectorcall(self->function, subject->args, subject->nargsf, subject->kwnames);
    }
    if (bound == NULL || self->code != code || self->plain || self->skip > 0) {
        self->skip -= self->skip > 0;
        return call_plainly(self, subject->args, subject->nargsf, subject->kwnames);
    }
    uint64_t changes = self->changes;
    if (mg_session_begin(self, (PyCodeObject *)code, -1) < 0) {
        return NULL;
    }
    int told = mg_miss_tell(self, self->entries, self->entry_count, bound->values, 0);
    MgEntry *entry = told < 0 ? NULL : mg_compiled_capture_subject(self, subject);
    mg_session_end(self, &entry);
    PyObject *owed = self->owed; /* of this capture: where another attempt has succeeded, it is not raised later */
    self->owed = NULL;
    if (entry == NULL && PyErr_Occurred()) {
        Py_XDECREF(owed);
        return NULL;
    }
    if (entry == NULL || self->code != code) {
        PyObject *result = call_plainly(self, subject->args, subject->nargsf, subject->kwnames);
        if (result != NULL && entry == NULL && owed != NULL) { /* an operation that raises in the capture only */
            Py_CLEAR(result);
            PyErr_SetObject((PyObject *)Py_TYPE(owed), owed);
        }
        Py_XDECREF(entry);
        Py_XDECREF(owed);
        return result;
    }
    Py_XDECREF(owed);
    if (self->changes != changes) { /* another thread may have captured the same meanwhile */
        PyObject *result = try_own(self, code, bound->values, found, ending);
        if (*found != MG_FOUND_NONE) {
            Py_DECREF(entry);
            return result;
        }
    }
    int status = add_entry(self, entry);
    Py_DECREF(entry);
    PyObject *result = status < 0 ? NULL : try_own(self, code, bound->values, found, ending); /* as on any later call */
    if (status == MG_OK && *found == MG_FOUND_NONE &&
        !PyErr_Occurred()) { /* its guards do not hold for the very call it is from */
        result = call_plainly(self, subject->args, subject->nargsf, subject->kwnames);
    }
    return result;
}

PyObject *
mg_compiled_call(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *function = self->function, *object = NULL;
    if (PyMethod_Check(function)) {
        object = PyMethod_GET_SELF(function);
        if (self->is_object) {
            int taken = take_method(self, object);
            if (taken <= 0) {
                return taken < 0 ? NULL : PyObject_Vectorcall(object, args, nargsf, kwnames);
            }
        }
        function = PyMethod_GET_FUNCTION(self->function);
    }
    if (!PyFunction_Check(function) || mg_capture_current != NULL || mg_aside_depth > 0 ||
        mg_frame_is_traced(PyThreadState_Get())) {
        return PyObject_Vectorcall(self->function, args, nargsf, kwnames);
    }
    MgStance stance = mg_stance_get();
    if (MG_UNLIKELY(stance != MG_STANCE_DEFAULT) && (stance == MG_STANCE_FORCE_EAGER || stance == MG_STANCE_INVALID ||
                                                     (stance == MG_STANCE_FORCE_BACKEND && !self->forced))) {
        return call_elsewhere(self, stance, args, nargsf, kwnames);
    }
    if (MG_UNLIKELY(PyFunction_GET_CODE(function) != self->code)) {
        take_code(self, PyFunction_GET_CODE(function));
    }
    PyObject *code = PyFunction_GET_CODE(function); /* kept alive as long as it is that of the callable */
    MgBound bound;
    int fits = mg_bind((PyFunctionObject *)function, object, args, PyVectorcall_NARGS(nargsf), kwnames, &bound);
    PyObject *result = NULL;
    MgEnding ending = {.exit = NULL};
    MgSubject subject = {.args = args, .nargsf = nargsf, .kwnames = kwnames};
    MgFound found = MG_FOUND_NONE;
    PyObject *outer = mg_watch(NULL); /* neither graphs nor backends are to be captured */
    if (fits < 0) {
        goto done;
    }
    if (fits > 0) {
        subject.bound = bound.values;
        result = try_own(self, code, bound.values, &found, &ending);
        if (found != MG_FOUND_NONE) {
            goto done;
        }
    }
    result = call_without_entry(self, code, stance, fits > 0 ? &bound : NULL, &subject, &found, &ending);
done:
    if (MG_UNLIKELY(found == MG_FOUND_RAISED) && mg_compiled_deoptimise(self, &subject, bound.values, &ending) == 0) {
        result = PyObject_Vectorcall(self->function, args, nargsf, kwnames);
    }
    mg_bound_clear(&bound);
    if (ending.exit != NULL) { /* it stops at a break: the frames are made, and go on */
        mg_hook_acquire();
        mg_watch((PyObject *)self);
        result = mg_exit_enter(ending.exit, 0);
        mg_hook_release();
        mg_exit_release(ending.exit);
    }
    mg_watch(outer);
    return result;
}

PyObject *
mg_compiled_call_strictly(MgCompiled *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (mg_capture_current != NULL) {
        return mg_compiled_call(self, args, nargsf, kwnames);
    }
    PyObject *before = mg_control_set_error_on_break(self->strict ? Py_True : Py_False);
    PyObject *result = mg_compiled_call(self, args, nargsf, kwnames);
    if (before != NULL) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        Py_XDECREF(mg_control_set_error_on_break(before));
        PyErr_Restore(type, error, traceback);
        Py_DECREF(before);
    }
    return result;
}
