/* Loosening: an entry whose guards a filter of the user's has dropped in part.
 *
 * The filter has its way with the results, not with memory: what the graph is given stays a tensor, what is written to stays
 * of the type that it was, and the functions of frames that are made at a break stay the same. */
#include "entry/loosen.h"

#include "cpython/aside.h"
#include "guard/drop.h"

/* Marks what an entry needs at each step. */
static void
find_needs(const MgEntry *entry, uint8_t *needs)
{
    for (int i = 0; i < entry->kept_count; i++) {
        needs[entry->kept[i]] = MG_NEED_PRESENT;
    }
    for (int i = 0; i < entry->input_count; i++) {
        int is_number = !Py_IS_TYPE(entry->nodes[entry->input_nodes[i]].value, &MgMeta_Type);
        needs[entry->inputs[i]] = is_number ? MG_NEED_PRESENT : MG_NEED_TENSOR;
    }
}

/* 1 for an object that a frame is made of. */
static int
is_of_frames(PyObject *value)
{
    return value != NULL && (PyFunction_Check(value) || PyCode_Check(value) || PyCell_Check(value) ||
                             PyMethod_Check(value) || PyTuple_Check(value));
}

/* Marks the checks that no filter can drop. `written` are the steps that effects write to, `with_grad` those of which the
 * gradient is read. */
static void
keep_firm(const MgEntry *entry, PyObject *const *registers, const uint8_t *written, const uint8_t *with_grad,
          uint8_t *keep)
{
    const MgProgram *program = &entry->guards;
    for (int i = 0; i < program->check_count; i++) {
        const MgCheck *check = &program->checks[i];
        int is_shape = check->kind == MG_GUARD_TYPE || check->kind == MG_GUARD_LENGTH || check->kind == MG_GUARD_KEYS ||
                       check->kind == MG_GUARD_LIMIT;
        int is_frame = entry->frames != NULL && is_of_frames(registers[check->source]);
        if (check->kind == MG_GUARD_QUIET || check->kind == MG_GUARD_SIZES || (is_shape && written[check->source]) ||
            is_frame || (check->kind == MG_GUARD_TENSOR && with_grad[check->source])) {
            keep[i] = 1;
        }
    }
}

/* Adds what the filter says, by check; *any_state if it does not care for torch's state. MG_OK or MG_ERR. */
static int
ask(PyObject *filter, PyObject *described, uint8_t *keep, int *any_state)
{
    Py_ssize_t count = PyList_GET_SIZE(described);
    PyObject *answer = PyObject_CallOneArg(filter, described);
    if (answer == NULL) {
        return MG_ERR;
    }
    if (!PyList_Check(answer) || PyList_GET_SIZE(answer) != count + 1) {
        Py_DECREF(answer);
        PyErr_SetString(PyExc_TypeError, "a filter of guards returns a list with a bool for each");
        return MG_ERR;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        keep[i] = keep[i] || PyList_GET_ITEM(answer, i) == Py_True;
    }
    *any_state = PyList_GET_ITEM(answer, count) != Py_True;
    Py_DECREF(answer);
    return MG_OK;
}

int
mg_entry_loosen(MgEntry *entry, PyObject *filter, PyObject *const *arguments)
{
    MgProgram *program = &entry->guards;
    const int steps = program->step_count;
    int failed, any_state = 0, status = MG_ERR;
    PyObject **registers = PyMem_Calloc((size_t)steps + 1, sizeof(PyObject *));
    uint8_t *marks = PyMem_Calloc(3 * (size_t)steps + (size_t)program->check_count + 1, 1);
    if (registers == NULL || marks == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    uint8_t *needs = marks, *written = needs + steps, *with_grad = written + steps, *keep = with_grad + steps;
    mg_collections_hold(); /* no code runs before all of the registers has been looked at */
    int good = mg_guard_run_all(program, arguments, registers, &failed);
    if (good <= 0) { /* it will not be used: its guards do not hold for the very call it is from */
        mg_collections_release();
        status = good < 0 ? MG_ERR : MG_OK;
        goto done;
    }
    PyObject *described = mg_drop_describe(program, registers);
    find_needs(entry, needs);
    for (int i = 0; i < entry->effect_count; i++) {
        written[entry->effects[i].target] = 1;
    }
    for (int i = 0; i < steps; i++) {
        if (program->steps[i].source.kind == MG_SOURCE_GRAD) {
            with_grad[program->steps[i].base] = 1;
        }
    }
    keep_firm(entry, registers, written, with_grad, keep);
    mg_collections_release();
    if (described != NULL && ask(filter, described, keep, &any_state) == MG_OK) {
        status = mg_drop_checks(program, keep, needs, any_state);
    }
    Py_XDECREF(described);
done:
    PyMem_Free(registers);
    PyMem_Free(marks);
    return status;
}
