/* Answers that somebody outside keeps: torch's settings, and functions that remember their results.
 *
 * Both are asked for real while the capture is suspended, and guarded: a setting by asking again, a remembered result by
 * being the one that is remembered still. */
#include "answer.h"

#include "record.h"
#include "rules.h"
#include "world.h"
#include "worldbase.h"

static PyObject *
refuse(MgCapture *capture, PyObject *callable)
{
    mg_capture_abort(capture, MG_REASON_UNKNOWN_CALL, "%R", callable);
    return NULL;
}

/* ---- settings ---- */

/* 1 if the guard program can compare such a value. */
static int
is_comparable(PyObject *value)
{
    if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            if (!is_comparable(PyTuple_GET_ITEM(value, i))) {
                return 0;
            }
        }
        return 1;
    }
    return mg_is_plain_value(value) || mg_is_singleton(value) || Py_IS_TYPE(value, mg_torch.device);
}

/* 1 if an autocast manager that captured code has entered decides the answer, 0 if it comes from outside, or -1. */
static int
is_decided_inside(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t open = capture->managers == NULL ? 0 : PyList_GET_SIZE(capture->managers);
    const char *name = ((PyCFunctionObject *)callable)->m_ml->ml_name;
    if (open == 0 || strstr(name, "autocast") == NULL) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < open; i++) {
        PyObject *context = PyTuple_GET_ITEM(PyList_GET_ITEM(capture->managers, i), 1);
        PyObject *device = PyObject_GetAttrString(context, "device");
        if (device == NULL) { /* another kind of manager */
            PyErr_Clear();
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
mg_answer_query(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!is_comparable(args[i])) {
            return refuse(capture, callable);
        }
    }
    if (kwnames != NULL) {
        return refuse(capture, callable);
    }
    int inside = is_decided_inside(capture, callable, args, count);
    if (inside != 0) {
        return inside < 0 ? NULL : PyObject_Vectorcall(callable, args, (size_t)count, NULL);
    }
    PyObject *question = PyTuple_New(count + 1), *answer = NULL;
    if (question == NULL || (capture->queries == NULL && (capture->queries = PyDict_New()) == NULL)) {
        goto done;
    }
    PyTuple_SET_ITEM(question, 0, Py_NewRef(callable));
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(question, i + 1, Py_NewRef(args[i]));
    }
    answer = Py_XNewRef(PyDict_GetItemWithError(capture->queries, question));
    if (answer != NULL || PyErr_Occurred()) {
        goto done;
    }
    answer = PyObject_Vectorcall(callable, args, (size_t)count, NULL);
    if (answer != NULL && !is_comparable(answer)) {
        Py_CLEAR(answer);
        refuse(capture, callable);
    }
    MgSource *source = answer == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, question, 0);
    if (source == NULL || PyDict_SetItem(capture->queries, question, answer) < 0 ||
        mg_capture_guard(capture, MG_GUARD_ANSWER, source, answer) < 0) {
        Py_CLEAR(answer);
    }
done:
    Py_XDECREF(question);
    return answer;
}

/* The answers to the questions as they are now, from which later queries are served. */
static PyObject *
note_settings(MgCapture *capture, PyObject *questions)
{
    PyObject *answers = PyTuple_New(PyTuple_GET_SIZE(questions));
    for (Py_ssize_t i = 0; answers != NULL && i < PyTuple_GET_SIZE(questions); i++) {
        PyObject *answer = PyObject_CallNoArgs(PyTuple_GET_ITEM(questions, i));
        PyObject *question = answer == NULL ? NULL : PyTuple_Pack(1, PyTuple_GET_ITEM(questions, i));
        if (question == NULL || PyDict_SetItem(capture->queries, question, answer) < 0) {
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
mg_answer_set(MgCapture *capture, PyObject *function, PyObject *parts, PyObject *const *args, Py_ssize_t count,
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
        PyObject *answer = mg_answer_query(capture, PyTuple_GET_ITEM(questions, i), NULL, 0, NULL);
        if (answer == NULL) {
            goto done;
        }
        Py_DECREF(answer);
    }
    capture->suspended++;
    undo = capture->settings != NULL ? Py_NewRef(PyTuple_GET_ITEM(capture->settings, 1)) : PyObject_CallNoArgs(tell);
    names = undo == NULL ? NULL : PyObject_CallOneArg(show, exposed);
    result = names == NULL ? NULL : PyObject_CallFunctionObjArgs(function, exposed, Py_False, NULL);
    answers = result == NULL ? NULL : note_settings(capture, questions);
    capture->suspended--;
    if (answers != NULL) {
        Py_XSETREF(capture->settings, PyTuple_Pack(3, function, undo, answers));
    }
    if (answers == NULL || capture->settings == NULL || mg_record_setting(capture, function, maker, names) < 0) {
        Py_CLEAR(result);
    }
done:
    Py_XDECREF(undo);
    Py_XDECREF(names);
    Py_XDECREF(answers);
    Py_DECREF(exposed);
    return result;
}

int
mg_answer_undo(PyObject *settings)
{
    PyObject *result = settings == NULL
                           ? Py_NewRef(Py_None)
                           : PyObject_Call(PyTuple_GET_ITEM(settings, 0), PyTuple_GET_ITEM(settings, 1), NULL);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

PyObject *
mg_answer_subclasses(MgCapture *capture, PyObject *callable, PyObject *class)
{
    PyObject *answer = PyObject_CallOneArg(callable, class), *result = NULL;
    PyObject *expected = answer == NULL ? NULL : PySequence_List(answer); /* captured code may change the other one */
    PyObject *question = expected == NULL ? NULL : PyTuple_Pack(2, callable, class);
    MgSource *source = question == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, question, 0);
    if (source != NULL && mg_capture_guard(capture, MG_GUARD_ANSWER, source, expected) == MG_OK) {
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
    int seen; /* the function has been met */
} Parts;

static int
note_part(PyObject *object, void *argument)
{
    Parts *parts = argument;
    if (parts->seen == 1) {
        parts->mark = object;
        parts->seen = 2;
    }
    else if (object == parts->function && parts->seen == 0) {
        parts->cache = parts->last;
        parts->seen = 1;
    }
    parts->last = PyDict_CheckExact(object) ? object : NULL;
    return 0;
}

/* 1 if captured code has written to anything outside so far, as far as that shows: what runs for real won't see it. */
static int
has_written(MgCapture *capture)
{
    for (int i = 0; i < capture->record_count; i++) {
        MgRecord *record = capture->record_list[i];
        if (record->held != NULL || record->slots != NULL) {
            return 1;
        }
        if (record->view != NULL && (record->kind == MG_KIND_LIST || record->kind == MG_KIND_DEQUE) &&
            Py_SIZE(record->view) != Py_SIZE(record->object)) {
            return 1;
        }
        if (record->view != NULL && record->kind == MG_KIND_DICT &&
            PyDict_GET_SIZE(record->view) != PyDict_GET_SIZE(record->object)) {
            return 1;
        }
    }
    return 0;
}

/* 1 if a result may be remembered under such an argument: a value, or an object that is told by its identity. */
static int
is_key(MgCapture *capture, PyObject *value)
{
    if (mg_is_plain_value(value) || mg_is_singleton(value) || PyType_Check(value) || PyFunction_Check(value) ||
        PyModule_Check(value) || mg_rules_is_constant_type(Py_TYPE(value)) || Py_IS_TYPE(value, mg_torch.device)) {
        return 1;
    }
    if (PyTuple_CheckExact(value) || Py_IS_TYPE(value, mg_torch.size)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            if (!is_key(capture, PyTuple_GET_ITEM(value, i))) {
                return 0;
            }
        }
        return 1;
    }
    MgRecord *record = mg_world_find(capture, value);
    return record != NULL && record->kind == MG_KIND_INSTANCE && record->view == NULL &&
           Py_TYPE(value)->tp_hash == PyBaseObject_Type.tp_hash &&
           Py_TYPE(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
           mg_capture_guard(capture, MG_GUARD_IDENTITY, record->source, value) == MG_OK;
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

/* The parameter `typed` of a cached function: 1, 0 or -1. */
static int
is_typed(PyObject *callable)
{
    PyObject *tell = PyObject_GetAttrString(callable, "cache_parameters");
    if (tell == NULL) { /* made by the C class itself: only functools adds this */
        return -1;
    }
    PyObject *parameters = PyObject_CallNoArgs(tell);
    PyObject *typed = parameters == NULL ? NULL : PyDict_GetItemString(parameters, "typed");
    int result = typed == NULL ? -1 : PyObject_IsTrue(typed);
    Py_DECREF(tell);
    Py_XDECREF(parameters);
    return result;
}

/* 1 for functions whose results are values, so that it makes no difference whether they are remembered. */
static int
is_of_typing(PyObject *function)
{
    PyObject *module = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_module : NULL;
    return module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "typing") == 0;
}

PyObject *
mg_answer_cached(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    Py_ssize_t total = count + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    for (Py_ssize_t i = 0; i < total; i++) {
        if (!is_key(capture, args[i])) {
            return PyErr_Occurred() ? NULL : refuse(capture, callable);
        }
    }
    PyObject *result = NULL, *key = NULL, *view = NULL;
    Parts parts = {.function = PyObject_GetAttrString(callable, "__wrapped__")};
    if (parts.function == NULL) {
        return NULL;
    }
    Py_TYPE(callable)->tp_traverse(callable, note_part, &parts);
    capture->suspended++; /* hashing, comparing and the function itself: all for real */
    int typed = is_typed(callable);
    int apart = is_of_typing(parts.function);
    if (parts.cache == NULL || parts.mark == NULL || typed < 0) {
        goto done;
    }
    key = cache_key(&parts, args, count, kwnames, typed);
    int known = key == NULL ? -1 : PyDict_Contains(parts.cache, key);
    if (known < 0 || (known == 0 && !apart && has_written(capture))) {
        goto done;
    }
    result = PyObject_Vectorcall(callable, args, (size_t)count, kwnames);
    PyObject *value = result == NULL || apart ? NULL : PyDict_GetItemWithError(parts.cache, key);
    if (value != NULL) {
        MgSource *base = mg_source_get(&capture->sources, MG_SOURCE_CONST, NULL, parts.cache, 0);
        MgSource *source = base == NULL ? NULL : mg_source_get(&capture->sources, MG_SOURCE_DICT_ITEM, base, key, 0);
        if (source == NULL || mg_capture_guard(capture, MG_GUARD_IDENTITY, source, value) < 0) {
            goto done;
        }
    }
    else if (result != NULL && !apart) {
        goto done; /* it has no room for it */
    }
    if (result != NULL) {
        view = mg_world_adopt(capture, result); /* the cache keeps it */
    }
done:
    capture->suspended--;
    Py_DECREF(parts.function);
    Py_XDECREF(key);
    Py_XDECREF(result);
    return view != NULL || PyErr_Occurred() ? view : refuse(capture, callable);
}

/* ---- functools.singledispatch ---- */

PyObject *
mg_answer_dispatch(MgCapture *capture, PyObject *function, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
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
    capture->suspended++;
    PyObject *result = PyObject_Vectorcall(function, args, 1, NULL);
    if (result != NULL && token != NULL && token != Py_None) {
        PyObject *abc = PyImport_ImportModule("_abc");
        PyObject *tell = abc == NULL ? NULL : PyObject_GetAttrString(abc, "get_cache_token");
        PyObject *answer = tell == NULL ? NULL : mg_answer_query(capture, tell, NULL, 0, NULL);
        if (answer == NULL) {
            Py_CLEAR(result);
        }
        Py_XDECREF(abc);
        Py_XDECREF(tell);
        Py_XDECREF(answer);
    }
    capture->suspended--;
    PyObject *view = result == NULL ? NULL : mg_world_adopt(capture, result);
    Py_XDECREF(result);
    return view;
}
