/* Asides: the one way for the core to run Python that is no part of the captured program.
 *
 * While a capture is under way the core asks for an attribute of a tensor, imports a module, calls its own Python code. None
 * of that is the program's: it must give no guard, node or effect, and must not depend on what the program has done to its
 * builtins, to torch's modes, or on the exception that it handles. An aside puts all of these away and brings them back.
 * Asides nest; a capture that begins inside of one is an error of ours, which builds with checks find. */
#include "cpython/cpython311.h"

#include "cpython/aside.h"

__thread int mg_aside_depth __attribute__((tls_model("initial-exec")));

enum { ALL_DISABLED = 2 };
static MgAsideControls torch;
static __thread int program_functions = -1; /* in an aside: what the program sees of that; else -1 */

void
mg_aside_configure(const MgAsideControls *controls)
{
    torch = *controls;
}

int
mg_aside_hide_operations(void)
{
    int profiled = torch.set_profiled != NULL && torch.is_profiled() && torch.has_observers();
    if (profiled) {
        torch.set_profiled(false);
    }
    return profiled;
}

void
mg_aside_show_operations(int profiled)
{
    if (profiled) {
        torch.set_profiled(true);
    }
}

void
mg_aside_suspend(struct MgCapture *capture)
{
    MgCaptureHead *head = (MgCaptureHead *)capture;
    if (head != NULL && head->suspended++ == 0) {
        mg_aside_show_operations(head->profiled);
    }
}

void
mg_aside_resume(struct MgCapture *capture)
{
    MgCaptureHead *head = (MgCaptureHead *)capture;
    if (head != NULL && --head->suspended == 0 && head->profiled) {
        torch.set_profiled(false);
    }
}

void
mg_aside_begin_operation(MgAside *aside)
{
    PyThreadState *tstate = PyThreadState_Get();
    PyErr_Fetch(&aside->type, &aside->value, &aside->traceback);
    aside->capture = (struct MgCapture *)mg_current;
    aside->owner = mg_watch(NULL);
    aside->frame = mg_frames_hide(tstate);
    aside->none = (_PyErr_StackItem){0};
    aside->handled = tstate->exc_info;
    tstate->exc_info = &aside->none;
    aside->functions = -1;
    int hidden = mg_current != NULL && mg_current->suspended++ == 0 && mg_current->profiled; /* by the capture */
    aside->profiled = (char)(hidden ? 0 : mg_aside_hide_operations());
    mg_aside_depth++;
}

void
mg_aside_begin(MgAside *aside)
{
    mg_aside_begin_operation(aside);
    if (torch.set_functions != NULL) {
        aside->functions = torch.get_functions();
        aside->outer = program_functions;
        program_functions = aside->outer < 0 ? aside->functions : aside->outer;
        torch.set_functions(ALL_DISABLED);
    }
}

void
mg_aside_end(MgAside *aside)
{
    PyThreadState *tstate = PyThreadState_Get();
    assert(mg_aside_depth > 0 && aside->capture == (struct MgCapture *)mg_current); /* they nest */
    mg_aside_depth--;
    mg_aside_show_operations(aside->profiled);
    if (aside->functions >= 0) {
        torch.set_functions(aside->functions);
        program_functions = aside->outer;
    }
    tstate->exc_info = aside->handled;
    mg_frames_show(tstate, aside->frame);
    mg_watch(aside->owner);
    if (mg_current != NULL) {
        mg_current->suspended--;
    }
    if (aside->type != NULL) {
        PyErr_Restore(aside->type, aside->value, aside->traceback);
    }
    Py_XDECREF(aside->none.exc_value);
}

MgOverrides
mg_aside_overrides(void)
{
    int state = program_functions >= 0 ? program_functions : torch.get_functions == NULL ? 0 : torch.get_functions();
    assert(state >= MG_OVERRIDES_ON && state <= MG_OVERRIDES_OFF);
    return (MgOverrides)state;
}

int
mg_aside_mute(void)
{
    int on = torch.set_functions != NULL && torch.get_functions() == MG_OVERRIDES_ON;
    if (on) {
        torch.set_functions(MG_OVERRIDES_MODES_ONLY);
    }
    return on;
}

void
mg_aside_unmute(int muted)
{
    if (muted) {
        torch.set_functions(MG_OVERRIDES_ON);
    }
}

PyObject *
mg_aside_import(const char *module)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *result = PyImport_ImportModule(module);
    mg_aside_end(&aside);
    return result;
}

PyObject *
mg_aside_find(const char *module, const char *name)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *owner = PyImport_ImportModule(module);
    PyObject *result = owner == NULL ? NULL : PyObject_GetAttrString(owner, name);
    Py_XDECREF(owner);
    mg_aside_end(&aside);
    return result;
}

PyObject *
mg_aside_getattr(PyObject *object, PyObject *name)
{
    if (name == NULL) {
        return NULL;
    }
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *result = PyObject_GetAttr(object, name);
    mg_aside_end(&aside);
    return result;
}

PyObject *
mg_aside_call(PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *result = PyObject_Vectorcall(callable, args, (size_t)count, NULL);
    mg_aside_end(&aside);
    return result;
}

PyObject *
mg_aside_ask(PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    int held = mg_signals_hold();
    PyObject *result = mg_aside_call(callable, args, count);
    if (held) {
        mg_signals_release(PyThreadState_Get());
    }
    return result;
}

#if MG_CHECKS
void
mg_aside_check(const struct MgCapture *capture)
{
    if (mg_aside_depth > 0 || ((const MgCaptureHead *)capture)->suspended > 0) {
        Py_FatalError("magneto: a frame is captured that the core runs for its own ends");
    }
}
#endif
