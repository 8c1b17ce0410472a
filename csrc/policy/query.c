/* Answers that somebody outside gives: torch's settings, functions that remember their results, facts about classes.
 *
 * They are asked for real while the capture is suspended, with arguments that are guarded as a whole, and are guarded
 * themselves: a setting, or what subclasses a class has, by asking again; a remembered result by being the one that is
 * remembered still; what singledispatch finds by what it looks at. A result that is not remembered yet is computed only if
 * captured code has done nothing that would make a difference, and a trial shows that the function does nothing to what
 * captured code has seen. */
#include "policy/query.h"

#include "capture/callee.h"
#include "capture/level.h"
#include "capture/query.h"
#include "capture/recover.h"
#include "capture/registry.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "cpython/shadow.h"
#include "policy/rules.h"
#include "record/record.h"
#include "record/number.h"
#include "torch/kinds.h"
#include "torch/typekind.h"
#include "world/world.h"

#include <structmember.h>

/* Ends the capture at a call. NULL. */
static PyObject *
refuse(MgCapture *capture, PyObject *callable)
{
    mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    return NULL;
}

/* ---- settings ---- */

/* 1 if an autocast manager that captured code has entered decides the answer, 0 if it comes from outside, or -1. */
static int
is_decided_inside(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t open = capture->torch.managers == NULL ? 0 : PyList_GET_SIZE(capture->torch.managers);
    const char *name = ((PyCFunctionObject *)callable)->m_ml->ml_name;
    if (open == 0 || strstr(name, "autocast") == NULL) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < open; i++) {
        PyObject *context = PyTuple_GET_ITEM(PyList_GET_ITEM(capture->torch.managers, i), 1);
        PyObject *device = mg_aside_getattr(context, MG_STRING("device"));
        if (device == NULL) { /* another kind of manager */
            mg_error_clear();
            continue;
        }
        const char *text = PyUnicode_Check(device) ? PyUnicode_AsUTF8(device) : NULL;
        const char *asked = count > 0 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0])
                            : strstr(name, "cache") != NULL       ? NULL /* it is one for all devices */
                            : strstr(name, "cpu") != NULL         ? "cpu"
                                                                  : "cuda";
        int same = text == NULL || asked == NULL || strcmp(text, asked) == 0;
        Py_DECREF(device);
        if (PyErr_Occurred()) {
            return -1;
        }
        if (same) {
            return 1;
        }
    }
    return 0;
}

PyObject *
mg_query_setting(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!mg_query_compares(args[i], &MG_WALK)) {
            return refuse(capture, callable);
        }
        PyObject *exposed = mg_world_expose(capture, args[i]); /* all in it is guarded */
        Py_XDECREF(exposed);
        if (exposed == NULL) {
            return NULL;
        }
    }
    if (kwnames != NULL) {
        return refuse(capture, callable);
    }
    int inside = is_decided_inside(capture, callable, args, count);
    if (inside != 0) {
        return inside < 0 ? NULL : mg_aside_call(callable, args, count);
    }
    return mg_query_ask(capture, callable, args, count);
}

/* The answers to the questions as they are now, from which later queries are served. */
static PyObject *
note_settings(MgCapture *capture, PyObject *questions)
{
    PyObject *answers = PyTuple_New(PyTuple_GET_SIZE(questions));
    for (Py_ssize_t i = 0; answers != NULL && i < PyTuple_GET_SIZE(questions); i++) {
        PyObject *answer = PyObject_CallNoArgs(PyTuple_GET_ITEM(questions, i));
        PyObject *question = answer == NULL ? NULL : PyTuple_Pack(1, PyTuple_GET_ITEM(questions, i));
        if (question == NULL || PyDict_SetItem(capture->reads.queries, question, answer) < 0) {
            Py_CLEAR(answers);
            Py_XDECREF(answer);
        }
        else {
            PyTuple_SET_ITEM(answers, i, answer);
        }
        Py_XDECREF(question);
    }
    return answers;
}

PyObject *
mg_query_change(MgCapture *capture, PyObject *function, PyObject *parts, PyObject *const *args, Py_ssize_t count,
                PyObject *kwnames)
{
    PyObject *questions = PyTuple_GET_ITEM(parts, 0), *tell = PyTuple_GET_ITEM(parts, 1);
    PyObject *maker = PyTuple_GET_ITEM(parts, 2), *show = PyTuple_GET_ITEM(parts, 3);
    PyObject *undo = NULL, *names = NULL, *result = NULL, *answers = NULL, *exposed = NULL;
    if (kwnames != NULL || count < 1 || (count == 2 && args[1] != Py_False) || count > 2 ||
        (exposed = mg_world_expose(capture, args[0])) == NULL) {
        return PyErr_Occurred() ? NULL : refuse(capture, function);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(questions); i++) { /* what they were is guarded */
        PyObject *answer = mg_query_setting(capture, PyTuple_GET_ITEM(questions, i), NULL, 0, NULL);
        if (answer == NULL) {
            goto done;
        }
        Py_DECREF(answer);
    }
    MgAside aside;
    mg_aside_begin(&aside);
    undo = capture->torch.settings != NULL ? Py_NewRef(PyTuple_GET_ITEM(capture->torch.settings, 1))
                                           : PyObject_CallNoArgs(tell);
    names = undo == NULL ? NULL : PyObject_CallOneArg(show, exposed);
    if (names != NULL &&
        capture->torch.settings == NULL) { /* first: it is needed to undo the change, should the rest fail */
        capture->torch.settings = PyTuple_Pack(3, function, undo, Py_None);
    }
    result = names == NULL || capture->torch.settings == NULL
                 ? NULL
                 : PyObject_CallFunctionObjArgs(function, exposed, Py_False, NULL);
    answers = result == NULL ? NULL : note_settings(capture, questions);
    mg_aside_end(&aside);
    PyObject *settings = answers == NULL ? NULL : PyTuple_Pack(3, function, undo, answers);
    if (settings != NULL) {
        Py_SETREF(capture->torch.settings, settings);
    }
    if (settings == NULL || mg_record_setting(capture, function, maker, names) < 0) {
        Py_CLEAR(result);
    }
done:
    Py_XDECREF(undo);
    Py_XDECREF(names);
    Py_XDECREF(answers);
    Py_DECREF(exposed);
    return result;
}

PyObject *
mg_query_subclasses(MgCapture *capture, PyObject *callable, PyObject *class)
{
    PyObject *answer = PyObject_CallOneArg(callable, class), *result = NULL;
    PyObject *expected = answer == NULL ? NULL : PySequence_List(answer); /* captured code may change the other one */
    PyObject *question = expected == NULL ? NULL : PyTuple_Pack(2, callable, class);
    MgSource *source =
        question == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, question, 0);
    if (source != NULL && mg_capture_guard(capture, MG_GUARD_QUERY, source, expected) == MG_OK) {
        result = Py_NewRef(answer);
        for (Py_ssize_t i = 0; result != NULL && i < PyList_GET_SIZE(answer); i++) {
            PyObject *view = mg_world_adopt(capture, PyList_GET_ITEM(answer, i));
            if (view == NULL) {
                Py_CLEAR(result);
            }
            Py_XDECREF(view);
        }
    }
    Py_XDECREF(answer);
    Py_XDECREF(expected);
    Py_XDECREF(question);
    return result;
}

/* ---- functools.lru_cache ---- */

/* What a cached function consists of, all borrowed; found in the order in which it shows them to the collector: the dict
 * with its results, the function, and the object that separates positional from keyword arguments in a key. */
typedef struct {
    PyObject *function, *last, *cache, *mark;
    enum { BEFORE_FUNCTION, AT_MARK, BEHIND_MARK } next; /* what comes next */
} Parts;

static int
note_part(PyObject *object, void *argument)
{
    Parts *parts = argument;
    if (parts->next == AT_MARK) {
        parts->mark = object;
        parts->next = BEHIND_MARK;
    }
    else if (object == parts->function && parts->next == BEFORE_FUNCTION) {
        parts->cache = parts->last;
        parts->next = AT_MARK;
    }
    parts->last = PyDict_CheckExact(object) ? object : NULL;
    return 0;
}

/* 1 if what captured code sees in a container is what lies there. */
static int
is_same(MgCapture *capture, PyObject *seen, PyObject *object)
{
    return mg_outside_identity(capture, seen) == object || mg_number_is_from(capture, seen, object);
}

/* 1 if captured code has written to an outside object: to its attributes, or to the shadow that stands for a container.
 * -1 with an exception. */
static int
is_changed(MgCapture *capture, const MgOutside *record)
{
    PyObject *view = record->view, *object = record->object;
    if (record->held != NULL || record->slots != NULL) {
        return 1;
    }
    if (view == NULL) {
        return 0;
    }
    if (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DEQUE) {
        int list = record->kind == MG_KIND_LIST;
        for (Py_ssize_t i = 0; Py_SIZE(view) == Py_SIZE(object) && i < Py_SIZE(view); i++) {
            PyObject *item = list ? PyList_GET_ITEM(view, i) : mg_deque_item(view, i);
            if (!is_same(capture, item, list ? PyList_GET_ITEM(object, i) : mg_deque_item(object, i))) {
                return 1;
            }
        }
        return Py_SIZE(view) != Py_SIZE(object);
    }
    if (record->kind == MG_KIND_DICT) {
        MgDictWalk walk = {0}, other = {0};
        PyObject *key, *value, *old_key, *old;
        while (PyDict_GET_SIZE(view) == PyDict_GET_SIZE(object) && mg_dict_next(view, &walk, &key, &value)) {
            if (!mg_dict_next(object, &other, &old_key, &old) || key != old_key || !is_same(capture, value, old)) {
                return 1;
            }
        }
        return PyDict_GET_SIZE(view) != PyDict_GET_SIZE(object) || PyObject_TypeCheck(object, mg_defaultdict_type);
    }
    if (record->kind == MG_KIND_SET && view != object) {
        Py_ssize_t position = 0;
        PyObject *item;
        Py_hash_t hash;
        while (PySet_GET_SIZE(view) == PySet_GET_SIZE(object) && _PySet_NextEntry(object, &position, &item, &hash)) {
            int found = PySet_Contains(view, item);
            if (found <= 0) {
                return found < 0 ? -1 : 1;
            }
        }
        return PySet_GET_SIZE(view) != PySet_GET_SIZE(object);
    }
    return 0;
}

/* 1 if captured code may have put something else where a source leads from `owner`. -1 with an exception. */
static int
is_turned(MgCapture *capture, const MgOutside *owner, const MgSource *source)
{
    if (owner->kind == MG_KIND_DICT && owner->view == NULL && source->kind == MG_SOURCE_DICT_ITEM) {
        return owner->held == NULL ? 0 : PyDict_Contains(owner->held, source->key); /* other keys don't matter */
    }
    return is_changed(capture, owner);
}

/* The outside object that a source leads to. Borrowed; NULL if there is none, or the way is too long. */
static PyObject *
follow(const MgCapture *capture, const MgSource *source, int level)
{
    if (level == MG_MOST_LEVELS) {
        return NULL;
    }
    PyObject *base = source->base == NULL ? NULL : follow(capture, source->base, level + 1);
    return source->base != NULL && base == NULL ? NULL : mg_source_load(source, base, capture->arguments);
}

int
mg_query_lives(MgCapture *capture, const MgOutside *record)
{
    const MgSource *source = record->source;
    for (; source->base != NULL; source = source->base) {
        PyObject *object = follow(capture, source->base, 0);
        const MgOutside *owner = object == NULL ? NULL : mg_outside_of(capture, object);
        int turned = object == NULL ? 1 : owner == NULL ? 0 : is_turned(capture, owner, source);
        if (turned != 0) {
            return turned < 0 ? -1 : 0;
        }
    }
    if (source->kind != MG_SOURCE_LOCAL) {
        return 1;
    }
    PyObject *held = mg_frame_slots(capture->root)[source->index];
    return held != NULL && mg_outside_identity(capture, held) == follow(capture, source, 0);
}

/* 1 if captured code has written to a tensor from outside so far, or drawn random numbers. */
static int
has_used_tensors(const MgCapture *capture)
{
    for (int i = 0; i < capture->graph.node_count; i++) {
        if (!mg_record_is_repeatable(capture->graph.nodes, i)) {
            return 1;
        }
    }
    return capture->graph.wrote;
}

/* 1 if captured code has done anything so far that a function which runs for real would have to see: a write to outside,
 * or random numbers drawn. -1 with an exception. */
static int
has_acted(MgCapture *capture)
{
    for (int i = 0; i < capture->met.record_count; i++) {
        int changed = is_changed(capture, capture->met.record_list[i]);
        if (changed != 0) {
            return changed;
        }
    }
    return has_used_tensors(capture);
}

/* 1 if what a trial has looked at is not as captured code has left it, and a real call would find it otherwise: the writes
 * of the captures that it is a trial for are held back. -1 with an exception. */
static int
has_missed(MgCapture *trial)
{
    int tensors = trial->graph.node_count > 0;
    for (int i = 0; i < trial->met.record_count; i++) {
        tensors |= trial->met.record_list[i]->kind == MG_KIND_TENSOR;
    }
    for (MgCapture *capture = trial->outer; capture != NULL; capture = capture->outer) {
        for (int i = 0; i < capture->met.record_count; i++) {
            MgOutside *record = capture->met.record_list[i];
            int changed = is_changed(capture, record);
            /* what is on a class or a function is found by ways that leave no record of it */
            int plain = record->kind != MG_KIND_CONSTANT && record->kind != MG_KIND_FUNCTION;
            if (changed < 0 || (changed > 0 && (!plain || mg_outside_find(trial, record->object) != NULL))) {
                return changed;
            }
        }
        if (tensors && has_used_tensors(capture)) {
            return 1;
        }
    }
    return 0;
}

/* 1 if a result may be remembered under such an argument, which C code may use: a value, or an object that is told by its
 * identity, which is guarded. 0 or -1. */
static int
is_key(MgCapture *capture, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (mg_is_plain_value(value) || mg_is_singleton(value) || type == mg_torch.device || PyType_Check(value) ||
        PyModule_Check(value)) {
        return 1;
    }
    if (PyTuple_Check(value) || PyFrozenSet_CheckExact(value)) {
        if (mg_depth_enter(capture) < 0) {
            return -1;
        }
        int good = PyFrozenSet_CheckExact(value) || type == mg_torch.size ||
                   (type->tp_hash == PyTuple_Type.tp_hash && type->tp_richcompare == PyTuple_Type.tp_richcompare);
        for (Py_ssize_t i = 0; good > 0 && PyTuple_Check(value) && i < PyTuple_GET_SIZE(value); i++) {
            good = is_key(capture, PyTuple_GET_ITEM(value, i));
        }
        Py_ssize_t position = 0;
        PyObject *item;
        Py_hash_t hash;
        while (good > 0 && PyFrozenSet_CheckExact(value) && _PySet_NextEntry(value, &position, &item, &hash)) {
            good = is_key(capture, item);
        }
        mg_depth_leave(capture);
        return good;
    }
    MgOutside *record = mg_outside_find(capture, value);
    int by_identity =
        type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
    if (mg_kind_is_constant(type) && (record != NULL || !by_identity)) { /* guarded already, or a value */
        return 1;
    }
    if (record == NULL || record->view != NULL ||
        !(PyFunction_Check(value) || (record->kind == MG_KIND_INSTANCE && by_identity))) {
        return 0;
    }
    return mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, value) < 0 ? -1 : 1;
}

/* Guards all that is in a value (borrowed), which C code may use, so that it will be the same again: functions and objects
 * by identity. `seen` has what was settled before. 1, 0 if something depends on a tensor, -1 with an exception. */
static int
settle(MgCapture *capture, MgTable *seen, PyObject *value)
{
    if (mg_is_plain_value(value) || mg_is_singleton(value)) {
        return 1;
    }
    if (mg_is_twin(value) || mg_is_number(value)) {
        return 0;
    }
    int good = 1;
    if (mg_table_get(seen, value, NULL) != NULL) {
        return 1;
    }
    if (mg_table_set(seen, value, NULL, value) < 0 || mg_depth_enter(capture) < 0) {
        return -1;
    }
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; good > 0 && i < Py_SIZE(value); i++) {
            good = settle(capture, seen, PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i));
        }
    }
    else if (PyDict_Check(value)) {
        MgDictWalk walk = {0};
        PyObject *key, *item;
        while (good > 0 && mg_dict_next(value, &walk, &key, &item)) {
            good = settle(capture, seen, key);
            good = good > 0 ? settle(capture, seen, item) : good;
        }
    }
    else if (PyAnySet_Check(value)) {
        Py_ssize_t position = 0;
        PyObject *item;
        Py_hash_t hash;
        while (good > 0 && _PySet_NextEntry(value, &position, &item, &hash)) {
            good = settle(capture, seen, item);
        }
    }
    else if (Py_IS_TYPE(value, &PyMethod_Type)) {
        good = settle(capture, seen, PyMethod_GET_FUNCTION(value));
        good = good > 0 ? settle(capture, seen, PyMethod_GET_SELF(value)) : good;
    }
    else {
        MgOutside *record = mg_outside_find(capture, value);
        if (record != NULL && mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, value) < 0) {
            good = -1;
        }
    }
    mg_depth_leave(capture);
    return good;
}

PyObject *
mg_query_constant(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)), ready = 0;
    PyObject **exposed = PyMem_Calloc((size_t)total + 1, sizeof(PyObject *));
    if (exposed == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = NULL;
    MgTable seen = {0};
    int good = 1;
    for (; good > 0 && ready < total; ready++) {
        exposed[ready] = mg_world_escape(capture, args[ready]);
        good = exposed[ready] == NULL ? -1 : settle(capture, &seen, exposed[ready]);
    }
    mg_table_free(&seen);
    if (good == 0) {
        refuse(capture, callable);
    }
    else if (good > 0) {
        mg_aside_suspend(capture);
        result = PyObject_Vectorcall(callable, exposed, (size_t)count, kwnames);
        mg_aside_resume(capture);
    }
    for (Py_ssize_t i = 0; i < ready; i++) {
        Py_XDECREF(exposed[i]);
    }
    PyMem_Free(exposed);
    return result;
}

/* The key under which the cache has the result of a call. New. */
static PyObject *
cache_key(const Parts *parts, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, int typed)
{
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    if (names == 0 && !typed && count == 1 && (PyLong_CheckExact(args[0]) || PyUnicode_CheckExact(args[0]))) {
        return Py_NewRef(args[0]);
    }
    PyObject *key = PyTuple_New(count + (names == 0 ? 0 : 1 + 2 * names) + (typed ? count + names : 0));
    if (key == NULL) {
        return NULL;
    }
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(key, next++, Py_NewRef(args[i]));
    }
    if (names > 0) {
        PyTuple_SET_ITEM(key, next++, Py_NewRef(parts->mark));
    }
    for (Py_ssize_t i = 0; i < names; i++) {
        PyTuple_SET_ITEM(key, next++, Py_NewRef(PyTuple_GET_ITEM(kwnames, i)));
        PyTuple_SET_ITEM(key, next++, Py_NewRef(args[count + i]));
    }
    for (Py_ssize_t i = 0; typed && i < count + names; i++) {
        PyTuple_SET_ITEM(key, next++, Py_NewRef((PyObject *)Py_TYPE(args[i])));
    }
    return key;
}

/* The parameters of a cached function: 0, or -1 without an exception if they can't be told. *room is -1 for no limit. */
static int
read_parameters(PyObject *callable, int *typed, Py_ssize_t *room)
{
    PyObject *parameters = PyObject_CallMethod(callable, "cache_parameters", NULL); /* functools adds it */
    int known = parameters != NULL && PyDict_Check(parameters);
    PyObject *is_typed = known ? PyDict_GetItemWithError(parameters, MG_STRING("typed")) : NULL;
    PyObject *size = known ? PyDict_GetItemWithError(parameters, MG_STRING("maxsize")) : NULL;
    *typed = is_typed == NULL ? -1 : PyObject_IsTrue(is_typed);
    *room = size == NULL ? 0 : size == Py_None ? -1 : PyLong_CheckExact(size) ? PyLong_AsSsize_t(size) : 0;
    known = *typed >= 0 && size != NULL && !PyErr_Occurred();
    mg_error_clear();
    Py_XDECREF(parameters);
    return known ? 0 : -1;
}

/* 1 for functions whose results are values, so that it makes no difference whether they are remembered. */
static int
is_of_typing(PyObject *function)
{
    PyObject *module = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_module : NULL;
    return module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "typing") == 0;
}

/* What a cache with a limit keeps for a key, as _functoolsmodule.c has it; guard_result checks it. */
typedef struct {
    PyObject_HEAD
    void *before, *after;
    Py_hash_t hash;
    PyObject *key, *result;
} Link;

/* The key that a dict itself has where it has `value` under an equal one. New; NULL, with an exception or without. */
static PyObject *
own_key(PyObject *dict, PyObject *key, PyObject *value)
{
    Py_hash_t hash = PyObject_Hash(key), other_hash;
    Py_ssize_t position = 0;
    PyObject *other, *found;
    while (hash != -1 && _PyDict_Next(dict, &position, &other, &found, &other_hash)) {
        if (found == value && other_hash == hash) {
            Py_INCREF(other);
            int same = PyObject_RichCompareBool(other, key, Py_EQ);
            if (same > 0) {
                return other;
            }
            Py_DECREF(other);
            if (same < 0) {
                return NULL;
            }
        }
    }
    return NULL;
}

/* Guards that the cache still has `result` under `key`. MG_OK, MG_ERR, or MG_BREAK if it has another already. */
static int
guard_result(MgCapture *capture, PyObject *cache, PyObject *key, int limited, PyObject *result)
{
    static PyMemberDef member = {"result", T_OBJECT_EX, offsetof(Link, result), READONLY, NULL};
    static PyObject *descriptor; /* strong: of the field of a link */
    PyObject *value = PyDict_GetItemWithError(cache, key);
    if (value == NULL) {
        return PyErr_Occurred() ? MG_ERR : MG_BREAK;
    }
    /* guards find any key by its identity, but they don't call an __eq__ */
    key = own_key(cache, key, value);
    int found = key != NULL && mg_dict_find(cache, key) == value && PyList_Append(capture->keep, key) == 0;
    Py_XDECREF(key);
    if (!found) {
        return PyErr_Occurred() ? MG_ERR : MG_BREAK;
    }
    MgSource *base = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, cache, 0);
    MgSource *source = base == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_DICT_ITEM, base, key, 0);
    if (limited) { /* a link is used again for another key when the cache is full */
        if (!Py_IS_TYPE(value, mg_kinds.lru_link) || Py_TYPE(value)->tp_basicsize != sizeof(Link)) {
            return MG_BREAK;
        }
        if (descriptor == NULL && (descriptor = PyDescr_NewMember(Py_TYPE(value), &member)) == NULL) {
            return MG_ERR;
        }
        value = ((Link *)value)->result;
        source = source == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_ATTR, source, descriptor, 0);
    }
    if (source == NULL) {
        return MG_ERR;
    }
    return value != result ? MG_BREAK : mg_capture_guard(capture, MG_GUARD_IDENTITY, source, result);
}

/* 1 if a trial has written to what the capture, or one that it is a trial for, has looked at. -1 with an exception. */
static int
has_interfered(MgCapture *trial)
{
    for (int i = 0; i < trial->met.record_count; i++) {
        MgOutside *record = trial->met.record_list[i];
        int changed = is_changed(trial, record);
        for (MgCapture *capture = trial->outer; changed > 0 && capture != NULL; capture = capture->outer) {
            if (mg_outside_find(capture, record->object) != NULL) {
                return 1;
            }
        }
        if (changed < 0) {
            return -1;
        }
    }
    return trial->graph.wrote;
}

/* 1 if a function can be called for real in the middle of the capture: it does not raise, leaves alone what captured code
 * has seen, and looks at nothing that captured code has changed. It is captured on trial to find out, and nothing comes of
 * that. 0 if not, -1 with an exception. */
static int
is_harmless(MgCapture *capture, PyObject *function, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    MgCapture *trial = mg_capture_new();
    if (trial == NULL) {
        return -1;
    }
    trial->outer = capture;
    PyObject *result = mg_tracer.run(trial, function, args, (size_t)count, kwnames);
    int harmless = 0;
    if (result != NULL) {
        int harm = has_interfered(trial);
        harm = harm == 0 ? has_missed(trial) : harm;
        harmless = harm < 0 ? -1 : !harm;
    }
    if (trial->reason != MG_REASON_NONE) {
        mg_error_clear();
    }
    if (trial->reason == MG_REASON_MEMORY) {
        PyErr_NoMemory();
    }
    if (mg_rules_restore_state(trial) < 0) {
        harmless = -1;
    }
    if (trial->interrupt != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(trial->interrupt), trial->interrupt);
        harmless = mg_recover_interrupt(capture);
    }
    mg_capture_free(trial);
    return PyErr_Occurred() ? -1 : harmless;
}

/* The same with arguments that C code may use. */
static PyObject *
call_cached(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *result = NULL, *key = NULL, *view = NULL;
    int typed;
    Py_ssize_t room;
    Parts parts = {.function = PyObject_GetAttrString(callable, "__wrapped__")};
    if (parts.function == NULL || read_parameters(callable, &typed, &room) < 0 || room == 0) {
        mg_error_clear(); /* made by the C class itself, or nothing is remembered */
        Py_XDECREF(parts.function);
        return refuse(capture, callable);
    }
    Py_TYPE(callable)->tp_traverse(callable, note_part, &parts);
    int apart = is_of_typing(parts.function);
    key = parts.cache == NULL || parts.mark == NULL ? NULL : cache_key(&parts, args, count, kwnames, typed);
    int known = key == NULL ? -1 : PyDict_Contains(parts.cache, key);
    int free_to_run = known == 0 && !apart ? is_harmless(capture, parts.function, args, count, kwnames) : 1;
    if (known < 0 || free_to_run <= 0) {
        goto done;
    }
    result = PyObject_Vectorcall(callable, args, (size_t)count, kwnames);
    if (result == NULL) {                                /* it has changed its mind; or it can't be hashed */
        if (PyErr_ExceptionMatches(PyExc_MemoryError)) { /* perhaps only to remember it: the function may have run */
            mg_recover_interrupt(capture);
        }
        else if (PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
        }
        goto done;
    }
    int status = apart ? MG_OK : guard_result(capture, parts.cache, key, room > 0, result);
    if (status == MG_OK) {
        int profiled = mg_aside_hide_operations();
        view = mg_world_adopt(capture, result); /* the cache keeps it */
        mg_aside_show_operations(profiled);
    }
done:
    Py_DECREF(parts.function);
    Py_XDECREF(key);
    Py_XDECREF(result);
    return view != NULL || PyErr_Occurred() ? view : refuse(capture, callable);
}

PyObject *
mg_query_cached(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    MgOutside *record = mg_outside_find(capture, callable);
    if (record == NULL) { /* made by captured code: anew in each call */
        return refuse(capture, callable);
    }
    if (mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, callable) < 0) {
        return NULL;
    }
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)), ready = 0;
    PyObject **exposed = PyMem_Calloc((size_t)total + 1, sizeof(PyObject *));
    if (exposed == NULL) {
        return PyErr_NoMemory();
    }
    int good = 1;
    for (; good > 0 && ready < total; ready++) {
        exposed[ready] = mg_world_escape(capture, args[ready]);
        good = exposed[ready] == NULL ? -1 : is_key(capture, exposed[ready]);
    }
    PyObject *result = NULL;
    if (good == 0) {
        refuse(capture, callable);
    }
    else if (good > 0) {
        mg_aside_suspend(capture); /* hashing, comparing and the function itself: all for real */
        result = call_cached(capture, callable, exposed, count, kwnames);
        mg_aside_resume(capture);
    }
    for (Py_ssize_t i = 0; i < ready; i++) {
        Py_XDECREF(exposed[i]);
    }
    PyMem_Free(exposed);
    return result;
}

/* ---- functools.singledispatch ---- */

PyObject *
mg_query_dispatch(MgCapture *capture, PyObject *function, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    if (count != 1 || kwnames != NULL || !PyType_Check(args[0]) || closure == NULL) {
        return refuse(capture, function);
    }
    /* which function it is follows from the registry, the MRO of the class, and what is registered with ABCs */
    PyObject *token = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); i++) {
        PyObject *held = PyCell_GET(PyTuple_GET_ITEM(closure, i));
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, code->co_nlocalsplus - code->co_nfreevars + i);
        if (held != NULL && PyUnicode_CompareWithASCIIString(name, "registry") == 0) {
            PyObject *view = mg_world_adopt(capture, held);
            PyObject *exposed = view == NULL ? NULL : mg_world_expose(capture, view);
            Py_XDECREF(view);
            Py_XDECREF(exposed);
            if (exposed == NULL) {
                return NULL;
            }
        }
        if (held != NULL && PyUnicode_CompareWithASCIIString(name, "cache_token") == 0) {
            token = held;
        }
    }
    if (mg_world_guard_mro(capture, (PyTypeObject *)args[0]) < 0) {
        return NULL;
    }
    int acted = has_acted(capture);
    if (acted != 0) {
        return acted < 0 ? NULL : refuse(capture, function);
    }
    mg_aside_suspend(capture);
    PyObject *result = PyObject_Vectorcall(function, args, 1, NULL);
    if (result != NULL && token != NULL && token != Py_None) {
        capture->reads.registry_read = 1;
        if (mg_registry_guard(capture) < 0) {
            Py_CLEAR(result);
        }
    }
    mg_aside_resume(capture);
    PyObject *view = result == NULL ? NULL : mg_world_adopt(capture, result);
    Py_XDECREF(result);
    return view;
}
