/* Regions: what torch's profilers are told of looking for an entry, and of running one.
 *
 * Whether a profiler is on is asked on every call. Torch's own functions that tell (at::hasCallbacks) take a lock, and more
 * time than many guards; but each profiler that Python starts sets a global of torch.autograd.profiler, and a dict's version
 * is one word. Whether the thread of the call is one that is recorded, torch decides when a region starts. */
#include "torch/region.h"

#include "cpython/aside.h"
#include "cpython/watch.h"

static const uint64_t unknown; /* stands for the version before torch is known */
MgProfilers mg_profilers = {.version = &unknown};

static PyObject *globals; /* strong: those of torch.autograd.profiler, or NULL */
static PyObject *maker;   /* strong: torch._C._profiler._RecordFunctionFast, or NULL */

int
mg_region_find(void)
{
    if (globals != NULL) {
        return MG_OK;
    }
    PyObject *dict = mg_aside_find("torch.autograd.profiler", "__dict__");
    maker = dict == NULL ? NULL : mg_aside_find("torch._C._profiler", "_RecordFunctionFast");
    if (maker == NULL) {
        Py_XDECREF(dict);
        return MG_ERR;
    }
    globals = dict;
    mg_profilers.version = mg_watch_dict_word(dict);
    return MG_OK;
}

int
mg_region_look(void)
{
    uint64_t version = *mg_profilers.version;
    if (PyDict_GetItem(globals, MG_STRING("_is_profiler_enabled")) == Py_True) {
        return 1;
    }
    mg_profilers.silent = version;
    return 0;
}

PyObject *
mg_region_enter(const char *name, PyObject *number)
{
    PyObject *text = number == NULL ? PyUnicode_FromString(name) : PyUnicode_FromFormat("%s%U", name, number);
    PyObject *region = text == NULL ? NULL : PyObject_CallOneArg(maker, text);
    PyObject *entered = region == NULL ? NULL : PyObject_CallMethodNoArgs(region, MG_STRING("__enter__"));
    if (entered == NULL) {
        mg_error_clear();
        Py_CLEAR(region);
    }
    Py_XDECREF(entered);
    Py_XDECREF(text);
    return region;
}

void
mg_region_leave(PyObject *region)
{
    if (region == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *left = PyObject_CallMethod(region, "__exit__", "OOO", Py_None, Py_None, Py_None);
    mg_error_clear();
    Py_XDECREF(left);
    Py_DECREF(region);
    PyErr_Restore(type, value, traceback);
}
