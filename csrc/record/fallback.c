/* Operations on sizes that vary and have no shape function. */
#include "record/fallback.h"

#include "capture/recover.h"
#include "cpython/aside.h"

/* The session of a capture, made when it is needed first. Borrowed; NULL with an exception. */
static PyObject *
session_of(MgCapture *capture)
{
    static PyObject *factory; /* strong */
    if (capture->varying.session == NULL) {
        MgAside aside;
        mg_aside_begin(&aside);
        if (factory == NULL) {
            factory = mg_aside_find("magneto._sizes", "Session");
        }
        capture->varying.session = factory == NULL ? NULL : PyObject_CallNoArgs(factory);
        mg_aside_end(&aside);
        if (capture->varying.session == NULL) {
            mg_recover_interrupt(capture);
        }
    }
    return capture->varying.session;
}

MgOutcome *
mg_fallback_outcome(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs,
                    PyObject *inputs)
{
    PyObject *session = session_of(capture);
    if (session == NULL) {
        return NULL;
    }
    MgAside aside;
    mg_aside_begin_operation(&aside);
    PyObject *answer = PyObject_CallMethod(session, "run", "iOOOO", (int)kind, target, args,
                                           kwargs == NULL ? Py_None : kwargs, inputs);
    mg_aside_end(&aside);
    if (answer == Py_None) {
        Py_DECREF(answer);
        return NULL;
    }
    MgOutcome *outcome = mg_outcome_check(answer);
    if (outcome == NULL) {
        mg_recover_interrupt(capture);
    }
    return outcome;
}
