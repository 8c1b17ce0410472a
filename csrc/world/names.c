/* Frames, functions, globals and cells: where captured code finds names. */
#include "world/worldbase.h"

#include "capture/callee.h"
#include "capture/finalizer.h"
#include "capture/deferred.h"
#include "cpython/except.h"
#include "cpython/liveness.h"
#include "record/operator.h"
#include "torch/typekind.h"
#include "world/world.h"

#include <structmember.h>

/* Says how what a cell holds shows in texts: as a variable of the root's, or as reached from a function. MG_OK or MG_ERR. */
static int
note_cell(MgSource *cell, const MgSource *owner, PyFunctionObject *function, Py_ssize_t index)
{
    if (cell->note != NULL) {
        return MG_OK;
    }
    if (owner == NULL) {
        assert(function != NULL);
        const PyCodeObject *code = (const PyCodeObject *)function->func_code;
        Py_ssize_t first = PyTuple_GET_SIZE(code->co_localsplusnames) - code->co_nfreevars;
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, first + index);
        return mg_source_note(cell, PyUnicode_FromFormat("L[%R]", name));
    }
    PyObject *text = mg_source_text(owner);
    PyObject *note = text == NULL ? NULL : PyUnicode_FromFormat("%U.__closure__[%zd].cell_contents", text, index);
    Py_XDECREF(text);
    return mg_source_note(cell, note);
}

/* Guards what a call of an outside function reads from the function itself. */
static int
guard_function(MgCapture *capture, MgOutside *record, int is_root)
{
    PyFunctionObject *function = (PyFunctionObject *)record->object;
    PyObject *parts[] = {
        [MG_PART_CODE] = function->func_code,
        [MG_PART_DEFAULTS] = function->func_defaults,
        [MG_PART_KWDEFAULTS] = function->func_kwdefaults,
    };
    for (int i = 0; i < (is_root ? 1 : (int)Py_ARRAY_LENGTH(parts));
         i++) { /* the root's arguments are guarded themselves */
        MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_FUNCTION, record->source, NULL, i);
        if (source == NULL) {
            return MG_ERR;
        }
        if (parts[i] == NULL) {
            if (mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0) {
                return MG_ERR;
            }
            continue;
        }
        if (i == MG_PART_CODE) {
            if (mg_capture_guard(capture, MG_GUARD_IDENTITY, source, parts[i]) < 0) {
                return MG_ERR;
            }
            continue;
        }
        int before = capture->met.record_count;
        PyObject *exposed = mg_world_expose_item(capture, parts[i], source, 0);
        Py_XDECREF(exposed);
        if (exposed == NULL) {
            return MG_ERR;
        }
        for (; before < capture->met.record_count; before++) { /* the frame of the call may have them already */
            capture->met.record_list[before]->references -= capture->met.record_list[before]->object != parts[i];
        }
    }
    if (record->kind != MG_KIND_CONSTANT) { /* another function may have the same code */
        MgSource *source =
            mg_source_get(&capture->reads.sources, MG_SOURCE_FUNCTION, record->source, NULL, MG_PART_GLOBALS);
        if (source == NULL || mg_capture_guard(capture, MG_GUARD_IDENTITY, source, function->func_globals) < 0) {
            return MG_ERR;
        }
    }
    PyObject *closure = function->func_closure;
    for (Py_ssize_t i = 0; closure != NULL && i < PyTuple_GET_SIZE(closure); i++) {
        PyObject *cell = PyTuple_GET_ITEM(closure, i);
        MgOutside *known = mg_outside_find(capture, cell);
        if (mg_table_get(&capture->inside, cell, NULL) != NULL || (known != NULL && record->kind == MG_KIND_CONSTANT)) {
            continue;
        }
        if (record->kind == MG_KIND_CONSTANT) {
            MgOutside *pinned = mg_outside_pin(capture, cell);
            if (pinned == NULL || note_cell(pinned->source, is_root ? NULL : record->source, function, i) < 0) {
                return MG_ERR;
            }
            continue;
        }
        MgSource *tuple =
            mg_source_get(&capture->reads.sources, MG_SOURCE_FUNCTION, record->source, NULL, MG_PART_CLOSURE);
        MgSource *source =
            tuple == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_ITEM, tuple, NULL, i);
        if (source == NULL ||
            (known == NULL ? mg_outside_new(capture, cell, source, MG_KIND_CELL, 0) == NULL
                           : known->source != source &&
                                 mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, known->source) < 0)) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* What a call has put into *args and **kwargs can be seen by C code. Both are new. */
static int
expose_rest(MgCapture *capture, PyCodeObject *code, PyObject **slots)
{
    if (code->co_flags & CO_VARARGS) {
        PyObject *rest = *slots++;
        for (Py_ssize_t i = 0; rest != NULL && i < PyTuple_GET_SIZE(rest); i++) {
            PyObject *item = PyTuple_GET_ITEM(rest, i);
            PyObject *exposed = mg_world_escape(capture, item);
            if (exposed == NULL) {
                return MG_ERR;
            }
            PyTuple_SET_ITEM(rest, i, exposed);
            Py_DECREF(item);
        }
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (*slots != NULL && PyDict_Next(*slots, &position, &key, &value)) {
            PyObject *exposed = mg_world_escape(capture, value);
            int status = exposed == NULL ? MG_ERR
                         : exposed == value
                             ? MG_OK
                             : PyDict_SetItem(*slots, key, exposed); /* no new key: the walk stays valid */
            Py_XDECREF(exposed);
            if (status < 0) {
                return MG_ERR;
            }
        }
    }
    return MG_OK;
}

/* The root is a frame in the middle: its live locals and its stack are the sources. */
static int
enter_point(MgCapture *capture, MgFrame *frame)
{
    PyCodeObject *code = mg_frame_code(frame);
    int locals = code->co_nlocalsplus, count = capture->breaks.point_count;
    int offset = mg_frame_lasti(frame) + 1;
    capture->root = frame;
    capture->arguments = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    if (capture->arguments == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->argument_count = count;
    for (int i = 0; i < count; i++) {
        capture->arguments[i] = Py_XNewRef(mg_frame_slots(frame)[i]);
    }
    PyObject *function = (PyObject *)mg_frame_function(frame);
    if (mg_table_set(&capture->reads.guarded, function, NULL, function) < 0) {
        return MG_ERR; /* only its code matters, which the point is kept under */
    }
    for (int i = 0; i < count; i++) {
        PyObject *value = capture->arguments[i];
        if ((i < locals && !mg_code_is_live(code, offset, i)) || (value == NULL && i >= locals)) {
            continue; /* an empty slot of the stack is empty at this offset, whatever happens */
        }
        PyObject *name = i < locals ? Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, i))
                                    : PyUnicode_FromFormat("stack%d", i - locals);
        MgSource *source = name == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_LOCAL, NULL, name, i);
        Py_XDECREF(name);
        if (source == NULL) {
            return MG_ERR;
        }
        if (value == NULL) {
            if (mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL) < 0) {
                return MG_ERR;
            }
            continue;
        }
        if (!mg_is_plain_value(value) && !mg_is_singleton(value) && !Py_IS_TYPE(value, &PyMethod_Type) &&
            !Py_IS_TYPE(value, mg_torch.device) && !mg_kind_is_value(Py_TYPE(value)) &&
            mg_outside_find(capture, value) == NULL &&
            (mg_world_kind_of(value, source) == MG_KIND_OPAQUE || PyWeakref_CheckRefExact(value))) {
            /* an iterator or a weak reference, say: which one it is is not guarded before captured code looks at it, and
             * it is not kept alive */
            if (mg_capture_guard(capture, MG_GUARD_TYPE, source, (PyObject *)Py_TYPE(value)) < 0 ||
                mg_outside_new(capture, value, source, MG_KIND_OPAQUE, 1) == NULL) {
                return MG_ERR;
            }
            continue;
        }
        MgOutside *record = mg_outside_find(capture, value);
        if (record != NULL && record->provisional && mg_world_is_in_slot(record)) { /* the same one in another slot */
            if (mg_capture_guard_pair(capture, MG_GUARD_ALIAS, source, record->source) < 0) {
                return MG_ERR;
            }
            continue;
        }
        PyObject *view =
            mg_deferred_fits(value) ? mg_deferred_new(capture, value, source) : mg_world_reach(capture, value, source);
        if (view == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(mg_frame_slots(frame)[i], view);
    }
    return mg_finalizer_watch_frame(capture, code);
}

int
mg_world_enter_function(MgCapture *capture, PyObject *function)
{
    if (mg_table_get(&capture->inside, function, NULL) != NULL ||
        mg_table_get(&capture->reads.guarded, function, NULL) != NULL) {
        return MG_OK;
    }
    MgOutside *record = mg_outside_find(capture, function);
    if (record == NULL) { /* found by CPython itself, along a type that is guarded, or by C code */
        record = mg_outside_pin(capture, function);
    }
    else if (record->provisional && mg_world_activate(capture, record) < 0) {
        return MG_ERR;
    }
    if (record == NULL || guard_function(capture, record, 0) < 0) {
        return MG_ERR;
    }
    return mg_table_set(&capture->reads.guarded, function, NULL, record);
}

int
mg_world_enter_frame(MgCapture *capture, MgFrame *frame)
{
    PyFunctionObject *function = mg_frame_function(frame);
    int direct = capture->call.direct;
    capture->call.direct = 0;
    if (MG_UNLIKELY(mg_callee_is_disabled(function)) && mg_frame_lasti(frame) < 0) { /* called by C code */
        return mg_capture_abort(capture, MG_REASON_DISABLED, "%U", function->func_qualname);
    }
    if (mg_world_enter_function(capture, (PyObject *)function) < 0) {
        return MG_ERR;
    }
    if (mg_frame_lasti(frame) >= 0) { /* a generator goes on */
        return MG_OK;
    }
    PyCodeObject *code = mg_frame_code(frame);
    int count = code->co_argcount + code->co_kwonlyargcount;
    if (!direct || function->func_defaults != NULL || function->func_kwdefaults != NULL) {
        for (int i = 0; i < count; i++) { /* defaults are bound raw, and C code may pass what it got out of a shadow */
            PyObject *value = mg_frame_slots(frame)[i];
            if (value != NULL) {
                value = mg_world_touch(capture, value);
                mg_frame_slots(frame)[i] = value;
                if (value == NULL) {
                    return MG_ERR;
                }
            }
        }
    }
    return expose_rest(capture, code, mg_frame_slots(frame) + count);
}

int
mg_world_enter_root(MgCapture *capture, MgFrame *frame)
{
    if (capture->breaks.point) {
        return enter_point(capture, frame);
    }
    PyCodeObject *code = mg_frame_code(frame);
    int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                ((code->co_flags & CO_VARKEYWORDS) != 0);
    capture->root = frame;
    capture->arguments = PyMem_Calloc((size_t)count + 1, sizeof(PyObject *));
    if (capture->arguments == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->argument_count = count;
    for (int i = 0; i < count; i++) {
        capture->arguments[i] = Py_XNewRef(mg_frame_slots(frame)[i]);
    }
    PyObject *function = (PyObject *)mg_frame_function(frame);
    MgOutside *record = mg_outside_pin(capture, function);
    capture->call.direct = 0;
    if (record == NULL || guard_function(capture, record, 1) < 0) {
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        PyObject *value = capture->arguments[i];
        MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_LOCAL, NULL,
                                         PyTuple_GET_ITEM(code->co_localsplusnames, i), i);
        if (source == NULL) {
            return MG_ERR;
        }
        if (value == NULL) {
            continue;
        }
        PyObject *view =
            mg_deferred_fits(value) ? mg_deferred_new(capture, value, source) : mg_world_reach(capture, value, source);
        if (view == NULL) {
            return MG_ERR;
        }
        Py_XSETREF(mg_frame_slots(frame)[i], view);
    }
    return MG_OK;
}

/* The record of a frame's globals. In texts those of another module are what an import returns. */
static MgOutside *
globals_record(MgCapture *capture, MgFrame *frame)
{
    MgOutside *record = mg_outside_pin(capture, mg_frame_globals(frame));
    if (record == NULL || record->source->note != NULL || record->source->kind != MG_SOURCE_CONST ||
        capture->root == NULL || mg_frame_globals(frame) == mg_frame_globals(capture->root)) {
        return record;
    }
    PyObject *name = PyDict_GetItemWithError(mg_frame_globals(frame), MG_STRING("__name__"));
    if (name == NULL || !PyUnicode_Check(name)) {
        return PyErr_Occurred() ? NULL : record;
    }
    PyObject *dot = PyUnicode_FromString("."), *replacement = PyUnicode_FromString("_dot_");
    PyObject *flat = dot == NULL || replacement == NULL ? NULL : PyUnicode_Replace(name, dot, replacement, -1);
    Py_XDECREF(dot);
    Py_XDECREF(replacement);
    PyObject *text = flat == NULL ? NULL : PyUnicode_FromFormat("G['__import_%U']", flat);
    Py_XDECREF(flat);
    return mg_source_note(record->source, text) < 0 ? NULL : record;
}

PyObject *
mg_world_load_global(MgCapture *capture, MgFrame *frame, PyObject *name)
{
    PyObject *result;
    MgOutside *globals = globals_record(capture, frame);
    int unknown = globals == NULL || mg_operator_look_name(capture, mg_frame_globals(frame), name) < 0;
    int found = unknown ? -1 : mg_world_dict_get(capture, globals, name, &result);
    if (found == 0) {
        MgOutside *builtins = mg_outside_pin(capture, mg_frame_builtins(frame));
        found = builtins == NULL ? -1 : mg_world_dict_get(capture, builtins, name, &result);
    }
    if (found == 0) {
        mg_except_name(PyExc_NameError, "name '%.200s' is not defined", name);
    }
    return found > 0 ? result : NULL;
}

int
mg_world_store_global(MgCapture *capture, MgFrame *frame, PyObject *name, PyObject *value)
{
    MgOutside *globals = mg_outside_pin(capture, mg_frame_globals(frame));
    return globals == NULL ? MG_ERR : mg_world_dict_set(capture, globals, name, value);
}

PyObject *
mg_world_load_cell(MgCapture *capture, PyObject *cell)
{
    MgOutside *record = mg_outside_find(capture, cell);
    if (record == NULL) { /* made by captured code */
        return mg_world_touch(capture, Py_XNewRef(PyCell_GET(cell)));
    }
    if (record->held != NULL) {
        PyObject *value = PyDict_GetItemWithError(record->held, Py_None);
        return value == NULL || value == mg_capture_deleted ? NULL : mg_world_touch(capture, Py_NewRef(value));
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_CELL, record->source, NULL, 0);
    if (source == NULL) {
        return NULL;
    }
    PyObject *value = PyCell_GET(cell);
    if (value == NULL) {
        mg_capture_guard(capture, MG_GUARD_ABSENT, source, NULL);
        return NULL;
    }
    return mg_world_reach(capture, value, source);
}

int
mg_world_store_cell(MgCapture *capture, PyObject *cell, PyObject *value)
{
    MgOutside *record = mg_outside_find(capture, cell);
    if (record == NULL) {
        PyObject *old = PyCell_GET(cell);
        PyCell_SET(cell, Py_XNewRef(value));
        Py_XDECREF(old);
        return MG_OK;
    }
    return mg_world_dict_set(capture, record, Py_None, value);
}
