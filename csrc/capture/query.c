/* Questions that are asked again on later calls: what a function returns for certain arguments. */
#include "capture/query.h"

#include "capture/callee.h"
#include "cpython/aside.h"
#include "torch/plain.h"

/* 1 if the guard program can compare such a value. */
int
mg_query_compares(PyObject *value, MgWalk *walk)
{
    if (PyTuple_CheckExact(value)) {
        int good = mg_walk_enter(walk);
        for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(value); i++) {
            good = mg_query_compares(PyTuple_GET_ITEM(value, i), walk);
        }
        mg_walk_leave(walk);
        return good;
    }
    return mg_is_plain_value(value) || mg_is_singleton(value) || Py_IS_TYPE(value, mg_torch.device);
}

PyObject *
mg_query_ask(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    PyObject *question = PyTuple_New(count + 1), *answer = NULL;
    if (question == NULL || (capture->reads.queries == NULL && (capture->reads.queries = PyDict_New()) == NULL)) {
        goto done;
    }
    PyTuple_SET_ITEM(question, 0, Py_NewRef(callable));
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(question, i + 1, Py_NewRef(args[i]));
    }
    answer = Py_XNewRef(PyDict_GetItemWithError(capture->reads.queries, question));
    if (answer != NULL || PyErr_Occurred()) {
        goto done;
    }
    answer = mg_aside_call(callable, args, count);
    if (answer != NULL && !mg_query_compares(answer, &MG_WALK)) {
        Py_CLEAR(answer);
        mg_callee_abort(capture, MG_REASON_UNKNOWN_CALL, callable);
    }
    MgSource *source =
        answer == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, question, 0);
    if (source == NULL || PyDict_SetItem(capture->reads.queries, question, answer) < 0 ||
        mg_capture_guard(capture, MG_GUARD_QUERY, source, answer) < 0) {
        Py_CLEAR(answer);
    }
done:
    Py_XDECREF(question);
    return answer;
}
