/* The extension module magneto._core: what Python sees of the C side. */
#include "callable.h"
#include "check.h"
#include "direct.h"
#include "hook.h"
#include "interp.h"
#include "record.h"
#include "recover.h"
#include "reserve.h"
#include "route.h"
#include "rules.h"
#include "shadow.h"
#include "shape.h"
#include "stance.h"
#include "symbol.h"
#include "trace.h"
#include "wrapper.h"
#include "aside.h"
#include "world.h"

PyDoc_STRVAR(interpret_doc, "interpret(func, /, *args, **kwargs)\n--\n\n"
                            "Call func with every Python frame below it, on this thread, executed by magneto.");

static PyObject *
core_interpret(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "interpret() needs a callable");
        return NULL;
    }
    return mg_hook_interpret(args[0], args + 1, (size_t)nargs - 1, kwnames);
}

PyDoc_STRVAR(interpret_all_doc, "interpret_all(enable, /)\n--\n\n"
                                "Switch the execution of all Python frames, on all threads, by magneto. "
                                "Return what it was before.");

static PyObject *
core_interpret_all(PyObject *module, PyObject *argument)
{
    (void)module;
    int enable = PyObject_IsTrue(argument);
    return enable < 0 ? NULL : PyBool_FromLong(mg_hook_interpret_all(enable));
}

PyDoc_STRVAR(count_opcodes_doc, "count_opcodes(enable, /)\n--\n\n"
                                "Switch the counting of executed instructions, for frames that start afterwards. "
                                "Return what it was before.");

static PyObject *
core_count_opcodes(PyObject *module, PyObject *argument)
{
    (void)module;
    int enable = PyObject_IsTrue(argument);
    if (enable < 0) {
        return NULL;
    }
    int before = mg_interp_counting;
    mg_interp_counting = enable;
    return PyBool_FromLong(before);
}

PyDoc_STRVAR(opcode_counts_doc, "opcode_counts()\n--\n\n"
                                "How often each base opcode was executed while counting was on: a list of 256.");

static PyObject *
core_opcode_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(256);
    for (int i = 0; list != NULL && i < 256; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(mg_interp_counts[i]);
        if (count == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, count);
    }
    return list;
}

PyDoc_STRVAR(handled_opcodes_doc, "handled_opcodes()\n--\n\nThe base opcodes that the interpreter has a handler for.");

static PyObject *
core_handled_opcodes(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *set = PyFrozenSet_New(NULL);
    for (int i = 0; set != NULL && i < 256; i++) {
        if (!mg_interp_handles(i)) {
            continue;
        }
        PyObject *opcode = PyLong_FromLong(i);
        if (opcode == NULL || PySet_Add(set, opcode) < 0) {
            Py_CLEAR(set);
        }
        Py_XDECREF(opcode);
    }
    return set;
}

PyDoc_STRVAR(hook_state_doc,
             "hook_state()\n--\n\n"
             "Whether the frame hook is installed, how many users it has, and how many frames it executed.");

static PyObject *
core_hook_state(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("{s:i,s:i,s:K}", "installed", mg_hook_installed(), "users", mg_hook_users(), "frames",
                         (unsigned long long)mg_hook_frames());
}

PyDoc_STRVAR(stack_depths_doc, "stack_depths(code, /)\n--\n\n"
                               "The stack depth before each unit of a code object, -1 where no path leads.");

static PyObject *
core_stack_depths(PyObject *module, PyObject *argument)
{
    (void)module;
    if (!PyCode_Check(argument)) {
        PyErr_SetString(PyExc_TypeError, "stack_depths() needs a code object");
        return NULL;
    }
    return mg_check_depths((PyCodeObject *)argument);
}

PyDoc_STRVAR(configure_doc, "configure(tables, twin_class, propagate, /)\n--\n\n"
                            "Give the core its tables, the class of twins, and the propagation function.");

static PyObject *
core_configure(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *tables, *twin_class, *propagate;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &tables, &twin_class, &propagate)) {
        return NULL;
    }
    if (mg_shadow_init() < 0 || mg_torch_init() < 0 || mg_aside_init() < 0 || mg_twin_init(twin_class) < 0 ||
        mg_record_init(propagate) < 0 || mg_rules_configure(tables) < 0 || mg_shape_init() < 0) {
        return NULL;
    }
    mg_reserve_fill();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(torch_function_doc, "torch_function(func, types, args=(), kwargs=None, /)\n--\n\n"
                                 "Record a torch function that C code calls on twins.");

static PyObject *
core_torch_function(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    return mg_record_torch_function(args, nargs);
}

PyDoc_STRVAR(meta_doc, "meta(dtype, device, sizes, strides, flags, fake=None, /)\n--\n\n"
                       "The metadata of a tensor, interned unless it has symbols: then `fake` has them too.");

static PyObject *
core_meta(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dtype, *device, *sizes, *strides, *fake = Py_None;
    int flags;
    if (!PyArg_ParseTuple(args, "OOOOi|O", &dtype, &device, &sizes, &strides, &flags, &fake)) {
        return NULL;
    }
    return (PyObject *)mg_meta_get(dtype, device, sizes, strides, flags, fake == Py_None ? NULL : fake);
}

PyDoc_STRVAR(ref_doc, "ref(index, /)\n--\n\nA reference to an argument, for the result of a propagation.");

static PyObject *
core_ref(PyObject *module, PyObject *argument)
{
    (void)module;
    long index = PyLong_AsLong(argument);
    if (index == -1 && PyErr_Occurred()) {
        return NULL;
    }
    MgRef *ref = PyObject_New(MgRef, &MgRef_Type);
    if (ref != NULL) {
        ref->index = (int)index;
    }
    return (PyObject *)ref;
}

PyDoc_STRVAR(shape_outcome_doc, "shape_outcome(kind, target, args, kwargs, inputs, state, /)\n--\n\n"
                                "What an operation gives, by its shape function; None if it has none for this.");

static PyObject *
core_shape_outcome(PyObject *module, PyObject *args)
{
    (void)module;
    int kind;
    PyObject *target, *arguments, *kwargs, *inputs, *state;
    if (!PyArg_ParseTuple(args, "iOO!OO!O!", &kind, &target, &PyTuple_Type, &arguments, &kwargs, &PyList_Type, &inputs,
                          &PyTuple_Type, &state)) {
        return NULL;
    }
    PyObject *outcome = mg_shape_outcome((MgNodeKind)kind, target, arguments, kwargs, inputs, state);
    return outcome == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : outcome;
}

PyDoc_STRVAR(direct_calls_doc, "direct_calls()\n--\n\n"
                               "For tests: how many operations of graphs were called in libtorch itself.");

static PyObject *
core_direct_calls(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(mg_direct_count());
}

PyDoc_STRVAR(has_changed_doc, "has_changed(module, /)\n--\n\n"
                              "Whether the code that this thread captures has changed an attribute of a module.");

static PyObject *
core_has_changed(PyObject *module, PyObject *argument)
{
    (void)module;
    MgCapture *capture = mg_capture_current;
    PyObject *dict = PyModule_Check(argument) ? PyModule_GetDict(argument) : NULL;
    MgRecord *record = capture == NULL || dict == NULL ? NULL : mg_world_record(capture, dict);
    return PyBool_FromLong(record != NULL && (record->held != NULL || record->view != NULL));
}

PyDoc_STRVAR(inject_fault_doc, "inject_fault(step, /)\n--\n\n"
                               "For tests: let captures stop before their n-th instruction; 0 for never. "
                               "Return what it was before.");

static PyObject *
core_inject_fault(PyObject *module, PyObject *argument)
{
    (void)module;
    long step = PyLong_AsLong(argument);
    if (step == -1 && PyErr_Occurred()) {
        return NULL;
    }
    long before = mg_trace_fault;
    mg_trace_fault = step;
    return PyLong_FromLong(before);
}

PyDoc_STRVAR(starve_doc,
             "starve(first=0, last=0, /)\n--\n\n"
             "For tests, in builds with checks: let these allocations of the core on this thread fail, "
             "counted from 1; with -1 the first at a place where none has failed. Return how many were made "
             "since the last call, which was the first to fail, and where.");

static PyObject *
core_starve(PyObject *module, PyObject *args)
{
    (void)module;
    long first = 0, last = 0, made, failed;
    if (!PyArg_ParseTuple(args, "|ll", &first, &last)) {
        return NULL;
    }
    MG_STARVE_PAUSE();
    mg_starve_figures(&made, &failed);
    PyObject *figures = Py_BuildValue("(llN)", made, failed, mg_starve_place());
    MG_STARVE_RESUME();
    if (figures != NULL && mg_starve_begin(first, last == 0 ? first : last) < 0) {
        Py_CLEAR(figures);
    }
    return figures;
}

PyDoc_STRVAR(overrides_doc,
             "overrides()\n--\n\n"
             "What the program has made of `__torch_function__`: 0 if it is on, 1 if only function modes "
             "are, 2 if neither is.");

static PyObject *
core_overrides(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(mg_aside_overrides());
}

PyDoc_STRVAR(capturing_doc, "capturing()\n--\n\nWhether a capture is under way on this thread.");

static PyObject *
core_capturing(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(mg_capture_current != NULL);
}

PyDoc_STRVAR(recompile_limit_doc, "recompile_limit(limit, /)\n--\n\n"
                                  "Set how many entries a callable may have. Return what it was before.");

static PyObject *
core_recompile_limit(PyObject *module, PyObject *argument)
{
    (void)module;
    long limit = PyLong_AsLong(argument);
    if (limit == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int before = mg_callable_limit;
    mg_callable_limit = limit < 0 ? 0 : limit > 1 << 30 ? 1 << 30 : (int)limit;
    return PyLong_FromLong(before);
}

PyDoc_STRVAR(stance_doc, "stance(stance=-1, /)\n--\n\n"
                         "Set magneto's own stance, by its number in csrc/stance.h. Return the one that is in force.");

static PyObject *
core_stance(PyObject *module, PyObject *args)
{
    (void)module;
    int stance = -1;
    if (!PyArg_ParseTuple(args, "|i", &stance)) {
        return NULL;
    }
    if (stance >= MG_STANCE_INVALID) {
        PyErr_SetString(PyExc_ValueError, "there is no such stance");
        return NULL;
    }
    if (stance >= 0) {
        mg_stance_set((MgStance)stance);
    }
    return PyLong_FromLong(mg_stance_get());
}

PyDoc_STRVAR(guard_mode_doc, "guard_mode(mode, /)\n--\n\n"
                             "Set how guards are run: 0 all of them, 1 the quick way, 2 both, and a difference is an "
                             "error. Return what it was before.");

static PyObject *
core_guard_mode(PyObject *module, PyObject *argument)
{
    (void)module;
    long mode = PyLong_AsLong(argument);
    if (mode == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (mode < 0 || mode > 2) {
        PyErr_SetString(PyExc_ValueError, "a guard mode is 0, 1 or 2");
        return NULL;
    }
    int before = mg_guard_mode;
    mg_guard_mode = (int)mode;
    return PyLong_FromLong(before);
}

PyDoc_STRVAR(layout_known_doc, "layout_known()\n--\n\n"
                               "Whether tensors' metadata and torch's global state are read from memory: two bools.");

static PyObject *
core_layout_known(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("(OO)", mg_tensor_layout.known ? Py_True : Py_False,
                         mg_layout_knows_state() ? Py_True : Py_False);
}

PyDoc_STRVAR(allow_symbols_doc, "allow_symbols(scalars, shapes, /)\n--\n\n"
                                "Have numbers, and sizes, that depend on data become symbols also in captures that are "
                                "not fullgraph. Return what it was before.");

static PyObject *
core_allow_symbols(PyObject *module, PyObject *args)
{
    (void)module;
    int scalars, shapes;
    if (!PyArg_ParseTuple(args, "pp", &scalars, &shapes)) {
        return NULL;
    }
    PyObject *before = Py_BuildValue("(NN)", PyBool_FromLong(mg_callable_scalars), PyBool_FromLong(mg_callable_shapes));
    mg_callable_scalars = scalars;
    mg_callable_shapes = shapes;
    return before;
}

PyDoc_STRVAR(reasons_doc, "reasons()\n--\n\nEvery reason for which capture stops: name -> (text, hint).");

static PyObject *
core_reasons(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *dict = PyDict_New();
    for (int i = 1; dict != NULL && i < MG_REASON_COUNT; i++) {
        PyObject *pair = Py_BuildValue("(ss)", mg_reason_text(i), mg_reason_hint(i));
        if (pair == NULL || PyDict_SetItemString(dict, mg_reason_name(i), pair) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(pair);
    }
    return dict;
}

/* The linker knows where a section lies. */
extern MgString __start_mg_strings[] __attribute__((visibility("hidden")));
extern MgString __stop_mg_strings[] __attribute__((visibility("hidden")));

int
mg_strings_ready(void)
{
    for (MgString *string = __start_mg_strings; string < __stop_mg_strings; string++) {
        string->object = PyUnicode_InternFromString(string->text);
        if (string->object == NULL) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

PyObject *
mg_dict_get(PyObject *dict, const char *text)
{
    PyObject *key = PyUnicode_InternFromString(text);
    PyObject *value = key == NULL ? NULL : PyDict_GetItemWithError(dict, key);
    Py_XDECREF(key);
    return value;
}
PyDoc_STRVAR(clear_frames_doc, "clear_frames(error, /)\n--\n\n"
                               "Empty the frames of torch's and magneto's code in the traceback of an exception.");

PyDoc_STRVAR(keep_at_fork_doc,
             "keep_at_fork(lock, /)\n--\n\n"
             "Have a thread that forks wait, for ten seconds at most, until it gets this RLock, and let go of "
             "it afterwards; if it does not get it, it is free in the child.");

static PyMethodDef core_methods[] = {
    {"configure", core_configure, METH_VARARGS, configure_doc},
    {"torch_function", _PyCFunction_CAST(core_torch_function), METH_FASTCALL, torch_function_doc},
    {"meta", core_meta, METH_VARARGS, meta_doc},
    {"ref", core_ref, METH_O, ref_doc},
    {"shape_outcome", core_shape_outcome, METH_VARARGS, shape_outcome_doc},
    {"direct_calls", core_direct_calls, METH_NOARGS, direct_calls_doc},
    {"has_changed", core_has_changed, METH_O, has_changed_doc},
    {"inject_fault", core_inject_fault, METH_O, inject_fault_doc},
    {"starve", core_starve, METH_VARARGS, starve_doc},
    {"capturing", core_capturing, METH_NOARGS, capturing_doc},
    {"overrides", core_overrides, METH_NOARGS, overrides_doc},
    {"guard_mode", core_guard_mode, METH_O, guard_mode_doc},
    {"layout_known", core_layout_known, METH_NOARGS, layout_known_doc},
    {"recompile_limit", core_recompile_limit, METH_O, recompile_limit_doc},
    {"stance", core_stance, METH_VARARGS, stance_doc},
    {"allow_symbols", core_allow_symbols, METH_VARARGS, allow_symbols_doc},
    {"reasons", core_reasons, METH_NOARGS, reasons_doc},
    {"clear_frames", mg_recover_clear_frames, METH_O, clear_frames_doc},
    {"keep_at_fork", mg_recover_keep_at_fork, METH_O, keep_at_fork_doc},
    {"interpret", _PyCFunction_CAST(core_interpret), METH_FASTCALL | METH_KEYWORDS, interpret_doc},
    {"interpret_all", core_interpret_all, METH_O, interpret_all_doc},
    {"count_opcodes", core_count_opcodes, METH_O, count_opcodes_doc},
    {"opcode_counts", core_opcode_counts, METH_NOARGS, opcode_counts_doc},
    {"handled_opcodes", core_handled_opcodes, METH_NOARGS, handled_opcodes_doc},
    {"hook_state", core_hook_state, METH_NOARGS, hook_state_doc},
    {"stack_depths", core_stack_depths, METH_O, stack_depths_doc},
    {NULL, NULL, 0, NULL},
};

static int
core_exec(PyObject *module)
{
    if (Py_Version >> 16 != PY_VERSION_HEX >> 16) {
        PyErr_Format(PyExc_ImportError, "magneto was built for Python %d.%d", PY_MAJOR_VERSION, PY_MINOR_VERSION);
        return MG_ERR;
    }
    if (mg_strings_ready() < 0 || mg_hook_init() < 0 || mg_collections_init() < 0) {
        return MG_ERR;
    }
    if (mg_twin_types_ready() < 0 || mg_capture_types_ready() < 0 || mg_entry_types_ready() < 0 ||
        mg_callable_types_ready() < 0 || mg_symbol_types_ready() < 0 || mg_route_types_ready() < 0 ||
        mg_wrapper_types_ready() < 0) {
        return MG_ERR;
    }
    const struct {
        const char *name;
        PyObject *object;
    } items[] = {
        {"checks", MG_CHECKS ? Py_True : Py_False}, {"Compiled", (PyObject *)&MgCompiled_Type},
        {"Entry", (PyObject *)&MgEntry_Type},       {"Meta", (PyObject *)&MgMeta_Type},
        {"Ref", (PyObject *)&MgRef_Type},           {"ModuleCall", (PyObject *)&MgModuleCall_Type},
        {"Caller", (PyObject *)&MgCaller_Type},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(items); i++) {
        if (PyModule_AddObjectRef(module, items[i].name, items[i].object) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* Executed anew in each interpreter that imports the module, so that all but the main one can be refused. */
static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
    {0, NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT, .m_name = "magneto._core", .m_doc = "The C side of magneto.",
    .m_size = 0,           .m_methods = core_methods, .m_slots = core_slots,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}
