/* Dropping guards: what a filter of the user's sees of a guard program, and what is left of it.
 *
 * A filter may drop any guard, and with it what later ones rest on. That must never end in a crash: loads look at what they
 * are given, and what the entry itself needs is checked for, whatever was dropped. What nobody needs any more is not loaded:
 * its step becomes a constant. */
#include "guard/drop.h"
#include "ir/weakkey.h"

static const char *const kinds[MG_GUARD_COUNT] = {
    [MG_GUARD_TYPE] = "TYPE",         [MG_GUARD_IDENTITY] = "IDENTITY", [MG_GUARD_VALUE] = "VALUE",
    [MG_GUARD_ABSENT] = "ABSENT",     [MG_GUARD_LENGTH] = "LENGTH",     [MG_GUARD_KEYS] = "KEYS",
    [MG_GUARD_TENSOR] = "TENSOR",     [MG_GUARD_ALIAS] = "ALIAS",       [MG_GUARD_DISTINCT] = "DISTINCT",
    [MG_GUARD_APART] = "APART",       [MG_GUARD_METHODS] = "METHODS",   [MG_GUARD_QUERY] = "QUERY",
    [MG_GUARD_LIMIT] = "LIMIT",       [MG_GUARD_LACKS] = "LACKS",       [MG_GUARD_REFERENT] = "REFERENT",
    [MG_GUARD_WEAK] = "WEAK",         [MG_GUARD_QUIET] = "QUIET",       [MG_GUARD_PRESENT] = "PRESENT",
    [MG_GUARD_ANY_TENSOR] = "TENSOR", [MG_GUARD_SIZES] = "SIZES",
};

/* The objects through which a step is reached, itself first. New. */
static PyObject *
chain_of(const MgProgram *program, int step, PyObject *const *registers)
{
    PyObject *chain = PyList_New(0);
    for (int i = step; chain != NULL && i >= 0; i = program->steps[i].base) {
        if (registers[i] != NULL && PyList_Append(chain, registers[i]) < 0) {
            Py_CLEAR(chain);
        }
    }
    return chain;
}

PyObject *
mg_drop_describe(const MgProgram *program, PyObject *const *registers)
{
    PyObject *list = PyList_New(program->check_count);
    for (int i = 0; list != NULL && i < program->check_count; i++) {
        const MgCheck *check = &program->checks[i];
        PyObject *value = registers[check->source];
        PyObject *expected = check->expected == NULL        ? Py_NewRef(Py_None)
                             : check->kind == MG_GUARD_KEYS ? mg_weak_keys(check->expected)
                                                            : Py_NewRef(check->expected);
        PyObject *text = expected == NULL ? NULL : mg_guard_source_text(program, check->source);
        PyObject *chain = text == NULL ? NULL : chain_of(program, check->source, registers);
        PyObject *whole = chain == NULL ? NULL : mg_guard_text(program, i);
        PyObject *item = whole == NULL
                             ? NULL
                             : Py_BuildValue("(sOOOOOO)", kinds[check->kind], text, value ? Py_True : Py_False,
                                             value == NULL ? Py_None : value, chain, expected, whole);
        Py_XDECREF(expected);
        Py_XDECREF(text);
        Py_XDECREF(chain);
        Py_XDECREF(whole);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* 1 if the checks of a step that are kept see to what is needed there. */
static int
is_seen_to(const MgProgram *program, int step, const uint8_t *keep, MgNeed need)
{
    int seen = need == MG_NEED_NOTHING;
    for (int j = 0; !seen && j < program->check_count; j++) {
        const MgCheck *check = &program->checks[j];
        seen = keep[j] && check->source == step && check->kind == MG_GUARD_TENSOR;
    }
    return seen;
}

/* Marks the steps that something is loaded from or checked at: by what is needed, and by the checks that are kept. */
static void
mark_used(const MgProgram *program, const uint8_t *keep, const uint8_t *needs, uint8_t *used)
{
    for (int i = 0; i < program->step_count; i++) {
        used[i] = needs[i] != MG_NEED_NOTHING;
    }
    for (int j = 0; j < program->check_count; j++) {
        const MgCheck *check = &program->checks[j];
        if (!keep[j]) {
            continue;
        }
        used[check->source] = 1;
        if (check->other >= 0) {
            used[check->other] = 1;
        }
        if (check->kind == MG_GUARD_APART || check->kind == MG_GUARD_QUIET || check->kind == MG_GUARD_SIZES) {
            memset(used, 1, (size_t)program->step_count); /* they look at several */
        }
    }
    for (int i = program->step_count; i-- > 0;) { /* a base comes before what is built on it */
        if (used[i] && program->steps[i].base >= 0) {
            used[program->steps[i].base] = 1;
        }
    }
}

/* The texts of the steps that are not used, a list with None for the others. New. */
static PyObject *
texts_of_unused(const MgProgram *program, const uint8_t *used)
{
    PyObject *texts = PyList_New(program->step_count);
    for (int i = 0; texts != NULL && i < program->step_count; i++) {
        PyObject *text = used[i] ? Py_NewRef(Py_None) : mg_guard_source_text(program, i);
        if (text == NULL) {
            Py_CLEAR(texts);
            break;
        }
        PyList_SET_ITEM(texts, i, text);
    }
    return texts;
}

/* The checks that are left, step by step, with those for what is needed first. */
static void
take_checks(MgProgram *program, MgCheck *checks, const uint8_t *keep, const uint8_t *needs)
{
    int next = 0;
    for (int i = 0; i < program->step_count; i++) {
        MgStep *step = &program->steps[i];
        int first = next, end = step->first_check + step->check_count;
        if (!is_seen_to(program, i, keep, (MgNeed)needs[i])) {
            checks[next++] = (MgCheck){.kind = needs[i] == MG_NEED_TENSOR ? MG_GUARD_ANY_TENSOR : MG_GUARD_PRESENT,
                                       .source = i,
                                       .other = -1,
                                       .place = -1};
        }
        for (int j = step->first_check; j < end; j++) {
            if (keep[j]) {
                checks[next++] = program->checks[j];
            }
        }
        step->first_check = first;
        step->check_count = next - first;
    }
    program->check_count = next;
}

int
mg_drop_checks(MgProgram *program, const uint8_t *keep, const uint8_t *needs, int any_state)
{
    const int steps = program->step_count, count = program->check_count;
    MgCheck *before = program->checks;
    MgCheck *checks = PyMem_Calloc((size_t)(count + steps) + 1, sizeof(MgCheck));
    uint8_t *used = PyMem_Calloc((size_t)steps + 1, 1);
    if (checks == NULL || used == NULL) {
        PyMem_Free(checks);
        PyMem_Free(used);
        PyErr_NoMemory();
        return MG_ERR;
    }
    mark_used(program, keep, needs, used);
    PyObject *texts = PyErr_Occurred() ? NULL : texts_of_unused(program, used);
    if (texts == NULL) {
        PyMem_Free(checks);
        PyMem_Free(used);
        return MG_ERR;
    }
    take_checks(program, checks, keep, needs);
    program->checks = checks;
    program->is_loose = 1;
    program->any_state = any_state;
    program->suspect = 0;
    PyObject *gone = PyList_New(0); /* dropped last: that may run any code */
    for (int i = 0; i < steps; i++) {
        MgStep *step = &program->steps[i];
        if (!used[i] && step->source.kind != MG_SOURCE_CONST) {
            PyObject *key = step->source.key;
            Py_XSETREF(step->source.note, Py_NewRef(PyList_GET_ITEM(texts, i)));
            step->source.kind = MG_SOURCE_CONST;
            step->source.key = Py_NewRef(Py_None);
            step->base = -1;
            if (key != NULL && (gone == NULL || PyList_Append(gone, key) < 0)) {
                PyErr_Clear();
            }
            Py_XDECREF(key);
        }
    }
    Py_DECREF(texts);
    Py_XDECREF(gone);
    for (int j = 0; j < count; j++) {
        if (!keep[j]) {
            Py_XDECREF(before[j].expected);
        }
    }
    PyMem_Free(before);
    PyMem_Free(used);
    return MG_OK;
}
