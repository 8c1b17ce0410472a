/* Asides: the one way for the core to run Python that is no part of the captured program.
 *
 * While a capture is under way the core asks for an attribute of a tensor, imports a module, calls its own Python code. None
 * of that is the program's: it must give no guard, node or effect, and must not depend on what the program has done to its
 * builtins, to torch's modes, or on the exception that it handles. An aside puts all of these away and brings them back.
 * Asides nest; a capture that begins inside of one is an error of ours, which builds with checks find. */
#include "capture.h"

#include "aside.h"
#include "hook.h"
#include "torchabi.h"

__thread int mg_aside_depth __attribute__((tls_model("initial-exec")));

/* at::impl::PythonTorchFunctionTLS: 0 is enabled, 1 without `__torch_function__`, 2 without modes too. */
enum { ALL_DISABLED = 2 };
static int (*get_functions)(void);
static void (*set_functions)(int state);
static __thread int program_functions = -1; /* in an aside: what the program sees of that; else -1 */

int
mg_aside_init(void)
{
    const MgSymbol wanted[] = {
        {"_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv", (void **)&get_functions},
        {"_ZN2at4impl22PythonTorchFunctionTLS18set_disabled_stateENS0_26TorchFunctionDisabledStateE",
         (void **)&set_functions},
    };
    const char *missing = mg_torch_find(wanted, Py_ARRAY_LENGTH(wanted));
    if (missing != NULL) {
        PyErr_Format(PyExc_ImportError, "magneto does not know this libtorch: it has no %s", missing);
        return MG_ERR;
    }
    return MG_OK;
}

void
mg_aside_suspend(MgCapture *capture)
{
    if (capture != NULL) {
        capture->suspended++;
    }
}

void
mg_aside_resume(MgCapture *capture)
{
    if (capture != NULL) {
        capture->suspended--;
    }
}

void
mg_aside_begin_operation(MgAside *aside)
{
    PyThreadState *tstate = PyThreadState_Get();
    PyErr_Fetch(&aside->type, &aside->value, &aside->traceback);
    aside->capture = mg_capture_current;
    mg_aside_suspend(aside->capture);
    aside->owner = mg_hook_watch(NULL);
    aside->frame = mg_frames_hide(tstate);
    aside->none = (_PyErr_StackItem){0};
    aside->handled = tstate->exc_info;
    tstate->exc_info = &aside->none;
    aside->functions = -1;
    mg_aside_depth++;
}

void
mg_aside_begin(MgAside *aside)
{
    mg_aside_begin_operation(aside);
    if (set_functions != NULL) {
        aside->functions = get_functions();
        aside->outer = program_functions;
        program_functions = aside->outer < 0 ? aside->functions : aside->outer;
        set_functions(ALL_DISABLED);
    }
}

void
mg_aside_end(MgAside *aside)
{
    PyThreadState *tstate = PyThreadState_Get();
    mg_aside_depth--;
    if (aside->functions >= 0) {
        set_functions(aside->functions);
        program_functions = aside->outer;
    }
    tstate->exc_info = aside->handled;
    mg_frames_show(tstate, aside->frame);
    mg_hook_watch(aside->owner);
    mg_aside_resume(aside->capture);
    if (aside->type != NULL) {
        PyErr_Restore(aside->type, aside->value, aside->traceback);
    }
    Py_XDECREF(aside->none.exc_value);
}

int
mg_aside_overrides(void)
{
    return program_functions >= 0 ? program_functions : get_functions == NULL ? 0 : get_functions();
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

#if MG_CHECKS
void
mg_aside_check(const MgCapture *capture)
{
    if (mg_aside_depth > 0 || capture->suspended > 0) {
        Py_FatalError("magneto: a frame is captured that the core runs for its own ends");
    }
}
#endif
