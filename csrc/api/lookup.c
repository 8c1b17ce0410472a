/* Looking up: finds the entry of a list that fits a call, and runs it. */
#include "api/parts.h"

#include "api/callable.h"
#include "cpython/aside.h"
#include "entry/adopt.h"
#include "entry/replay.h"
#include "torch/layout.h"
#include "torch/region.h"
#include "trace/deopt.h"

/* Whether torch's global state is that of the entry. Reading it may run code and let other threads run. */
static MgFound
check_state(MgCompiled *self, MgEntry *entry)
{
    uint64_t changes = self->changes;
    int good = mg_guard_same_state(&entry->guards);
    return good >= 0 && self->changes != changes ? MG_FOUND_CHANGED : (MgFound)good;
}

/* The backend's own guard, after which the registers are still good. */
static MgFound
run_check(MgCompiled *self, MgEntry *entry, PyObject *const *arguments, MgRegisters *registers)
{
    int apart = MG_LIKELY(entry->storages.count == 0) ? 1 : mg_entry_is_apart(entry, registers);
    if (MG_LIKELY(entry->check == NULL) || apart != 1) {
        return apart;
    }
    int failed;
    uint64_t changes = self->changes;
    int good = mg_entry_check(entry, registers); /* may run any code */
    if (good >= 0 && self->changes != changes) {
        return MG_FOUND_CHANGED;
    }
    good = good > 0 ? check_state(self, entry) : good;
    return good == 1 ? mg_guard_run(&entry->guards, arguments, registers, &failed) : good;
}

void
mg_ending_clear(MgEnding *ending)
{
    mg_replay_forget(&ending->failure);
    Py_CLEAR(ending->entry);
}

PyObject *
mg_compiled_saving_hooks(void)
{
    static PyObject *top; /* strong */
    if (top == NULL) {
        top = mg_aside_find("torch._C._autograd", "_top_saved_tensors_default_hooks");
    }
    PyObject *yes = Py_True;
    return top == NULL ? NULL : mg_aside_call(top, &yes, 1);
}

/* 1 if something gets the tensors that are saved for backward: it would get them twice. 0 or -1. */
static int
has_any_saving_hooks(void)
{
    PyObject *hooks = mg_compiled_saving_hooks();
    int found = hooks == NULL ? -1 : hooks != Py_None;
    Py_XDECREF(hooks);
    return found;
}

/* What a backend made of a graph has raised. Which operation of the program that was, only our own replay can tell: it runs
 * the graph once more, if that does nothing but return results. MG_FOUND_RAISED with ending->failure and the exception of
 * the operation; or MG_FOUND_ERROR with that of the backend. */
static MgFound
replay_compiled(MgEntry *entry, PyObject *const *arguments, MgEnding *ending)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    ending->failure = (MgFailure){0};
    int failed = -1, good = entry->symbols == NULL && PyErr_GivenExceptionMatches(type, PyExc_Exception) &&
                            mg_deopt_is_repeatable(entry, 0, entry->node_count - 1) && has_any_saving_hooks() == 0;
    MgRegisters registers = {.values = good ? mg_guard_take_room(&entry->guards) : NULL};
    if (registers.values != NULL && mg_guard_run(&entry->guards, arguments, &registers, &failed) == 1) {
        (void)mg_entry_replay(entry, &registers, &ending->failure);
    }
    if (registers.values != NULL) {
        mg_guard_give_room(&entry->guards, registers.values);
    }
    if (ending->failure.values == NULL || !PyErr_ExceptionMatches(PyExc_Exception)) {
        mg_replay_forget(&ending->failure);
        PyErr_Restore(type, value, traceback); /* clears any other */
        return MG_FOUND_ERROR;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    ending->entry = (MgEntry *)Py_NewRef((PyObject *)entry);
    return MG_FOUND_RAISED;
}

/* Runs an entry while a profiler is on, which sees the look-up end and the run as a region of its own. */
static PyObject *
run_in_region(MgCompiled *self, MgEntry *entry, const MgRegisters *registers, MgEnding *ending)
{
    mg_region_leave(ending->region);
    ending->region = NULL;
    PyObject *region = mg_region_enter("Torch-Compiled Region: ", entry->compile_id);
    PyObject *result = mg_entry_run(entry, registers, (PyObject *)self, &ending->exit, &ending->failure);
    mg_region_leave(region);
    return result;
}

/* Tries an entry of a list; *result and *ending are set if it fits. */
static MgFound
try_entry(MgCompiled *self, MgEntry **entries, int index, PyObject *const *arguments, PyObject **result,
          MgEnding *ending)
{
    int failed = -1;
    MgEntry *entry = (MgEntry *)Py_NewRef((PyObject *)entries[index]);
    MgRegisters registers = {.values = NULL};
    uint64_t changes = self->changes;
    entry->profile.is_on = self->profiling;
    uint64_t start = MG_UNLIKELY(self->profiling) ? mg_entry_clock() : 0;
    MgFound found = check_state(self, entry);
    if (found == MG_FOUND_ONE) {
        registers.values = mg_guard_take_room(&entry->guards);
        found =
            registers.values == NULL ? MG_FOUND_ERROR : mg_guard_run(&entry->guards, arguments, &registers, &failed);
    }
    if (found == MG_FOUND_ONE) {
        found = run_check(self, entry, arguments, &registers);
    }
    if (found == MG_FOUND_ONE && MG_UNLIKELY(entry->pending != NULL)) {
        int adopted = mg_entry_adopt(entry, &registers);
        found = adopted < 0 ? MG_FOUND_ERROR
                            : MG_FOUND_CHANGED; /* the registers are no longer good: it may have run any code */
        self->changes += adopted > 0;
    }
    if (MG_UNLIKELY(start != 0)) {
        entry->profile.guard += mg_entry_clock() - start;
        entry->profile.tries++;
    }
    if (found == MG_FOUND_ONE) {
        entry->last_run = ++self->runs;
        assert(registers.values != NULL && ending->exit == NULL && ending->entry == NULL);
        if (index > 0 && entries[index] == entry &&
            !entry->is_last) { /* most recent first; code that ran may have moved them already */
            memmove(entries + 1, entries, sizeof(MgEntry *) * (size_t)index);
            entries[0] = entry;
        }
        *result = MG_LIKELY(ending->region == NULL)
                      ? mg_entry_run(entry, &registers, (PyObject *)self, &ending->exit, &ending->failure)
                      : run_in_region(self, entry, &registers, ending);
        if (MG_UNLIKELY(ending->failure.values != NULL)) {
            ending->entry = (MgEntry *)Py_NewRef((PyObject *)entry);
            found = MG_FOUND_RAISED;
        }
        else if (MG_UNLIKELY(ending->failure.is_compiled)) {
            found = replay_compiled(entry, arguments, ending);
        }
        if (MG_UNLIKELY(start != 0)) {
            entry->profile.whole += mg_entry_clock() - start;
        }
    }
    if (registers.values != NULL) {
        mg_guard_give_room(&entry->guards, registers.values);
        found = found == MG_FOUND_NONE && self->changes != changes ? MG_FOUND_CHANGED : found;
    }
    if (found == MG_FOUND_NONE) {
        int renewed = mg_guard_renew(&entry->guards, arguments, failed);
        found = renewed < 0                               ? MG_FOUND_ERROR
                : renewed > 0 || self->changes != changes ? MG_FOUND_CHANGED
                                                          : MG_FOUND_NONE;
    }
    assert(found == MG_FOUND_ONE || *result == NULL);
    Py_DECREF(entry);
    return found;
}

/* With both ways of running guards: none but the candidates may fit. MG_OK or MG_ERR. */
static int
check_decision(MgEntry **entries, int entry_count, MgEntry **candidates, int count, PyObject *const *arguments)
{
    for (int i = 0; i < entry_count; i++) {
        int is_candidate = 0, failed;
        for (int k = 0; k < count; k++) {
            is_candidate = is_candidate || candidates[k] == entries[i];
        }
        PyObject **room = is_candidate ? NULL : mg_guard_take_room(&entries[i]->guards);
        int good = room == NULL ? 0 : mg_guard_run_all(&entries[i]->guards, arguments, room, &failed);
        if (room != NULL) {
            mg_guard_give_room(&entries[i]->guards, room);
        }
        if (good > 0) {
            PyErr_SetString(PyExc_SystemError, "magneto: an entry fits that was not thought to");
        }
        if (good != 0 || PyErr_Occurred()) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* The same without telling a profiler of it. */
static PyObject *
try_entries(MgCompiled *self, MgEntry **entries, int entry_count, MgDecision *decision, PyObject *const *arguments,
            MgFound *found, MgEnding *ending)
{
    PyObject *result = NULL;
    *found = MG_FOUND_NONE;
    if (entry_count >= MG_DISPATCH_FROM) {
        if (MG_UNLIKELY(decision->changes != self->changes + 1)) {
            mg_dispatch_free(decision->dispatch);
            decision->dispatch = mg_dispatch_new(entries, entry_count);
            decision->changes = self->changes + 1; /* 0 is none */
        }
        MgDispatch *dispatch = decision->dispatch;
        if (dispatch != NULL) {
            int count;
            MgEntry **candidates = mg_dispatch_find(dispatch, arguments, &count);
            if (MG_UNLIKELY(mg_guard_mode == MG_GUARDS_BOTH) &&
                check_decision(entries, entry_count, candidates, count, arguments) < 0) {
                *found = MG_FOUND_ERROR;
                return NULL;
            }
            for (int i = 0; i < count; i++) {
                int runs_code = candidates[i]->check != NULL || candidates[i]->guards.registered != NULL;
                *found = try_entry(self, candidates, i, arguments, &result, ending);
                if (*found != MG_FOUND_NONE) {
                    return result;
                }
                if (runs_code) { /* it may have run any code, and another thread may have asked meanwhile */
                    candidates = mg_dispatch_find(dispatch, arguments, &count);
                }
            }
            return NULL;
        }
    }
    for (int i = 0; i < entry_count; i++) {
        *found = try_entry(self, entries, i, arguments, &result, ending);
        if (*found != MG_FOUND_NONE) {
            return result;
        }
    }
    return NULL;
}

PyObject *
mg_compiled_try_entries(MgCompiled *self, MgEntry **entries, int entry_count, MgDecision *decision,
                        PyObject *const *arguments, MgFound *found, MgEnding *ending)
{
    assert(ending->region == NULL);
    if (MG_LIKELY(!mg_region_is_wanted())) {
        return try_entries(self, entries, entry_count, decision, arguments, found, ending);
    }
    ending->region = mg_region_enter("TorchDynamo Cache Lookup", NULL);
    PyObject *result = try_entries(self, entries, entry_count, decision, arguments, found, ending);
    mg_region_leave(ending->region); /* none has run */
    ending->region = NULL;
    return result;
}
