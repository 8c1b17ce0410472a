/* The extension module magneto._core: what Python sees of the C side. */
#include "api/callable.h"

#include "api/facts.h"
#include "api/sizes.h"
#include "api/wrapper.h"
#include "base/reserve.h"
#include "capture/advice.h"
#include "capture/recover.h"
#include "capture/tracer.h"
#include "capture/varying.h"
#include "cpython/aside.h"
#include "cpython/check.h"
#include "cpython/opcodes.h"
#include "cpython/shadow.h"
#include "entry/directcall.h"
#include "fx/nodemeta.h"
#include "fx/writer.h"
#include "interp/interp.h"
#include "ir/dimobject.h"
#include "ir/subgraph.h"
#include "policy/callback.h"
#include "policy/rules.h"
#include "policy/stance.h"
#include "record/number.h"
#include "record/record.h"
#include "record/shape/shape.h"
#include "record/symbol.h"
#include "torch/library.h"
#include "torch/region.h"
#include "trace/hook.h"
#include "trace/trace.h"
#include "world/tensor.h"
#include "world/tensorclass.h"
#include "world/world.h"

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

PyDoc_STRVAR(uninterrupted_doc,
             "uninterrupted(func, /, *args, **kwargs)\n--\n\n"
             "Call func; signal handlers and exceptions set by other threads wait until it is over.");

static PyObject *
core_uninterrupted(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "uninterrupted() needs a callable");
        return NULL;
    }
    return mg_hook_uninterrupted(args[0], args + 1, (size_t)nargs - 1, kwnames);
}

PyDoc_STRVAR(without_collections_doc, "without_collections(func, /, *args, **kwargs)\n--\n\n"
                                      "Call func; garbage is collected again when it is over.");

static PyObject *
core_without_collections(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "without_collections() needs a callable");
        return NULL;
    }
    mg_collections_hold();
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)nargs - 1, kwnames);
    mg_collections_release();
    return result;
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
        if (!mg_opcode_is_known(i)) {
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
    if (mg_shadow_init() < 0 || mg_torch_init() < 0 || mg_region_find() < 0 || mg_twin_init(twin_class) < 0 ||
        mg_record_init(propagate) < 0 || mg_tensor_init() < 0 || mg_rules_configure(tables) < 0 ||
        mg_shape_init() < 0) {
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
    return mg_tensor_torch_function(args, nargs);
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

PyDoc_STRVAR(
    shape_outcome_doc,
    "shape_outcome(kind, target, args, kwargs, inputs, state, symbols=None, /)\n--\n\n"
    "What an operation returns, by its shape function; None if it has none for this. With symbols, which are those "
    "of size(), a pair of that and the guards that it took, as texts.");

static PyObject *
core_shape_outcome(PyObject *module, PyObject *args)
{
    (void)module;
    int kind;
    PyObject *target, *arguments, *kwargs, *inputs, *state, *symbols = NULL, *guards = NULL;
    MgFacts facts = {.symbols = NULL};
    if (!PyArg_ParseTuple(args, "iOO!OO!O!|O!", &kind, &target, &PyTuple_Type, &arguments, &kwargs, &PyList_Type,
                          &inputs, &PyTuple_Type, &state, &PyList_Type, &symbols)) {
        return NULL;
    }
    PyObject *outcome = NULL;
    if (symbols == NULL || mg_sizes_read(symbols, &facts) == MG_OK) {
        outcome = (PyObject *)mg_shape_outcome((MgNodeKind)kind, target, arguments, kwargs, inputs, state,
                                               symbols == NULL ? NULL : &facts);
        outcome = outcome == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : outcome;
    }
    if (symbols != NULL && outcome != NULL) {
        guards = mg_sizes_guards(&facts);
        Py_SETREF(outcome, guards == NULL ? NULL : PyTuple_Pack(2, outcome, guards));
        Py_XDECREF(guards);
    }
    mg_facts_free(&facts);
    return outcome;
}

PyDoc_STRVAR(direct_calls_doc, "direct_calls()\n--\n\n"
                               "For tests: how many operations of graphs were called in libtorch itself.");

static PyObject *
core_direct_calls(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(mg_direct_call_count());
}

PyDoc_STRVAR(has_changed_doc, "has_changed(module, /)\n--\n\n"
                              "Whether the code that this thread captures has changed an attribute of a module.");

static PyObject *
core_has_changed(PyObject *module, PyObject *argument)
{
    (void)module;
    MgCapture *capture = mg_capture_current;
    PyObject *dict = PyModule_Check(argument) ? PyModule_GetDict(argument) : NULL;
    MgOutside *record = capture == NULL || dict == NULL ? NULL : mg_outside_of(capture, dict);
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
             "since the last call, which was the first to fail, where, and whether CPython itself leaks there.");

static PyObject *
core_starve(PyObject *module, PyObject *args)
{
    (void)module;
    long first = 0, last = 0, made, failed;
    int leaks;
    if (!PyArg_ParseTuple(args, "|ll", &first, &last)) {
        return NULL;
    }
    MG_STARVE_PAUSE();
    mg_starve_figures(&made, &failed, &leaks);
    PyObject *figures = Py_BuildValue("(llNO)", made, failed, mg_starve_place(), leaks ? Py_True : Py_False);
    MG_STARVE_RESUME();
    if (figures != NULL && mg_starve_begin(first, last == 0 ? first : last) < 0) {
        Py_CLEAR(figures);
    }
    return figures;
}

PyDoc_STRVAR(overrides_doc,
             "overrides()\n--\n\n"
             "Return what the program has made of `__torch_function__`: OVERRIDES_ON, OVERRIDES_MODES_ONLY or "
             "OVERRIDES_OFF.");

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

PyDoc_STRVAR(stance_doc,
             "stance(stance=-1, /)\n--\n\n"
             "Set magneto's own stance, by its number in csrc/policy/stance.h. Return the one that is in force.");

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
                             "Set how guards are run: GUARDS_ALL, GUARDS_FAST, or GUARDS_BOTH, where a difference is "
                             "an error. Return what it was before.");

static PyObject *
core_guard_mode(PyObject *module, PyObject *argument)
{
    (void)module;
    long mode = PyLong_AsLong(argument);
    if (mode == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (mode < MG_GUARDS_ALL || mode > MG_GUARDS_BOTH) {
        PyErr_SetString(PyExc_ValueError, "a guard mode is GUARDS_ALL, GUARDS_FAST or GUARDS_BOTH");
        return NULL;
    }
    MgGuardMode before = mg_guard_mode;
    mg_guard_mode = (MgGuardMode)mode;
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

PyDoc_STRVAR(set_dynamic_doc,
             "set_dynamic(static, automatic, ints, floats, strict, parameters, properties, module_ints, /)\n--\n\n"
             "Say which sizes become symbols: whether they are static when they are met for the first "
             "time, whether those that vary become symbols, and ints and floats too, and whether it is an error if "
             "a size that is marked becomes a constant; whether parameters and buffers, and tensors of torch's own "
             "modules, are static; whether ints of modules may vary.");

static PyObject *
core_set_dynamic(PyObject *module, PyObject *args)
{
    (void)module;
    int is_static, automatic, ints, floats, strict, parameters, properties, module_ints;
    if (!PyArg_ParseTuple(args, "pppppppp", &is_static, &automatic, &ints, &floats, &strict, &parameters, &properties,
                          &module_ints)) {
        return NULL;
    }
    mg_varying_fixed_tensors = (parameters ? MG_FIXED_PARAMETER : 0) | (properties ? MG_FIXED_BUILTIN : 0);
    mg_varying_module_ints = module_ints;
    mg_callable_static = is_static;
    mg_callable_automatic = automatic;
    mg_varying_no_ints = !ints;
    mg_varying_no_floats = !floats;
    mg_varying_ignore_marks = !strict;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_adviser_doc,
             "set_adviser(ask, tell, /)\n--\n\n"
             "Have captures ask about the sizes and numbers that they meet, and tell what varies; None for nobody.");

static PyObject *
core_set_adviser(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *asked, *told;
    if (!PyArg_ParseTuple(args, "OO", &asked, &told)) {
        return NULL;
    }
    Py_XSETREF(mg_advice_asked, asked == Py_None ? NULL : Py_NewRef(asked));
    Py_XSETREF(mg_advice_told, told == Py_None ? NULL : Py_NewRef(told));
    Py_RETURN_NONE;
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

PyDoc_STRVAR(clear_frames_doc, "clear_frames(error, /)\n--\n\n"
                               "Empty the frames of torch's and magneto's code in the traceback of an exception.");

PyDoc_STRVAR(forget_outcomes_doc,
             "forget_outcomes()\n--\n\nEmpty the cache of what operations give for certain metadata.");

static PyObject *
core_forget_outcomes(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return mg_record_forget() < 0 ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(keep_at_fork_doc,
             "keep_at_fork(lock, /)\n--\n\n"
             "Have a thread that forks wait, for ten seconds at most, until it gets this RLock, and let go of "
             "it afterwards; if it does not get it, it is free in the child.");

PyDoc_STRVAR(outcome_doc,
             "outcome(result, changes=(), views=(), written=(), *, input_fakes, result_fakes, bindings=None)\n"
             "--\n\nReturn what an operation returns and does; see csrc/ir/outcome.h.");

PyDoc_STRVAR(refusal_doc, "refusal(kind, why, /)\n--\n\n"
                          "Return an outcome that says why it is not known. `kind` is an OUTCOME_... constant.");

PyDoc_STRVAR(subgraph_doc,
             "subgraph(action, /, *args)\n--\n\n"
             "Record a function that an operator is given as a graph of its own; for captured code alone.");

static PyObject *
core_subgraph(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    (void)args;
    (void)count;
    PyErr_SetString(PyExc_RuntimeError, "subgraph() is for captured code");
    return NULL;
}

PyDoc_STRVAR(node_meta_doc, "node_meta(items, make, number, /)\n--\n\n"
                            "Metadata of a node with these items; for those that are UNMADE, `make(number, key)` is "
                            "called when they are first read.");

static PyObject *
core_node_meta(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *items, *make;
    int number;
    if (!PyArg_ParseTuple(args, "O!Oi", &PyDict_Type, &items, &make, &number)) {
        return NULL;
    }
    return mg_node_meta(items, make, number);
}

PyDoc_STRVAR(made_doc,
             "made(meta, /)\n--\n\nThe items of a node's metadata whose values were made already, as a dict.");

PyDoc_STRVAR(input_names_doc, "input_names(source, /)\n--\n\n"
                              "The name of an input by its source, and its name in the state_dict, or None.");

PyDoc_STRVAR(graph_state_doc, "graph_state(graph, /)\n--\n\n"
                              "What decides what a torch.fx.Graph computes; see is_same_state.");

PyDoc_STRVAR(is_same_state_doc, "is_same_state(one, other, /)\n--\n\n"
                                "Whether a graph was left alone between two calls of graph_state.");

static PyMethodDef core_methods[] = {
    {"node_meta", core_node_meta, METH_VARARGS, node_meta_doc},
    {"made", mg_node_meta_made, METH_O, made_doc},
    {"input_names", mg_writer_input_names, METH_O, input_names_doc},
    {"graph_state", mg_writer_graph_state, METH_O, graph_state_doc},
    {"is_same_state", mg_writer_is_same_state, METH_VARARGS, is_same_state_doc},
    {"outcome", _PyCFunction_CAST(mg_outcome_make), METH_VARARGS | METH_KEYWORDS, outcome_doc},
    {"refusal", mg_outcome_make_refusal, METH_VARARGS, refusal_doc},
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
    {"stance", core_stance, METH_VARARGS, stance_doc},
    {"set_dynamic", core_set_dynamic, METH_VARARGS, set_dynamic_doc},
    {"set_adviser", core_set_adviser, METH_VARARGS, set_adviser_doc},
    {"allow_symbols", core_allow_symbols, METH_VARARGS, allow_symbols_doc},
    {"reasons", core_reasons, METH_NOARGS, reasons_doc},
    {"clear_frames", mg_recover_clear_frames, METH_O, clear_frames_doc},
    {"forget_outcomes", core_forget_outcomes, METH_NOARGS, forget_outcomes_doc},
    {"keep_at_fork", mg_recover_keep_at_fork, METH_O, keep_at_fork_doc},
    {"interpret", _PyCFunction_CAST(core_interpret), METH_FASTCALL | METH_KEYWORDS, interpret_doc},
    {"subgraph", _PyCFunction_CAST(core_subgraph), METH_FASTCALL, subgraph_doc},
    {"sizes", mg_sizes_ask, METH_VARARGS, mg_sizes_doc},
    {"size", mg_sizes_make, METH_VARARGS, mg_sizes_make_doc},
    {"size_symbol", mg_api_size_symbol, METH_VARARGS, mg_api_size_symbol_doc},
    {"size_of", mg_api_size_of, METH_VARARGS, mg_api_size_of_doc},
    {"decide", mg_api_decide, METH_VARARGS, mg_api_decide_doc},
    {"float_value", mg_api_float_value, METH_O, mg_api_float_value_doc},
    {"uninterrupted", _PyCFunction_CAST(core_uninterrupted), METH_FASTCALL | METH_KEYWORDS, uninterrupted_doc},
    {"without_collections", _PyCFunction_CAST(core_without_collections), METH_FASTCALL | METH_KEYWORDS,
     without_collections_doc},
    {"interpret_all", core_interpret_all, METH_O, interpret_all_doc},
    {"count_opcodes", core_count_opcodes, METH_O, count_opcodes_doc},
    {"opcode_counts", core_opcode_counts, METH_NOARGS, opcode_counts_doc},
    {"handled_opcodes", core_handled_opcodes, METH_NOARGS, handled_opcodes_doc},
    {"hook_state", core_hook_state, METH_NOARGS, hook_state_doc},
    {"stack_depths", core_stack_depths, METH_O, stack_depths_doc},
    {NULL, NULL, 0, NULL},
};

/* What a compiled callable has compiled; see MgTracer. */
static PyObject *
unwrap(PyObject *callable, PyObject **object)
{
    *object = NULL;
    if (Py_IS_TYPE(callable, &MgModuleCall_Type)) {
        return ((MgModuleCall *)callable)->inlined;
    }
    if (!Py_IS_TYPE(callable, &MgCompiled_Type)) {
        return NULL;
    }
    const MgCompiled *compiled = (MgCompiled *)callable;
    *object = PyMethod_Check(compiled->function) ? PyMethod_GET_SELF(compiled->function) : NULL;
    return *object != NULL && compiled->is_object ? *object : compiled->function; /* by its class's __call__ */
}

static void
hold_hook(int more)
{
    if (more > 0) {
        mg_hook_acquire();
    }
    else {
        mg_hook_release();
    }
}

/* Numbers that Python and C exchange, by name. */
static int
add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"NODE_INPUT", MG_NODE_INPUT},
        {"NODE_FUNCTION", MG_NODE_FUNCTION},
        {"NODE_METHOD", MG_NODE_METHOD},
        {"OUTCOME_KNOWN", MG_OUTCOME_KNOWN},
        {"OUTCOME_DATA_DEPENDENT", MG_OUTCOME_DATA_DEPENDENT},
        {"OUTCOME_UNSUPPORTED", MG_OUTCOME_UNSUPPORTED},
        {"OUTCOME_RAISES", MG_OUTCOME_RAISES},
        {"GUARDS_ALL", MG_GUARDS_ALL},
        {"GUARDS_FAST", MG_GUARDS_FAST},
        {"GUARDS_BOTH", MG_GUARDS_BOTH},
        {"OVERRIDES_ON", MG_OVERRIDES_ON},
        {"OVERRIDES_MODES_ONLY", MG_OVERRIDES_MODES_ONLY},
        {"OVERRIDES_OFF", MG_OVERRIDES_OFF},
        {"META_REQUIRES_GRAD", MG_META_REQUIRES_GRAD},
        {"META_NON_LEAF", MG_META_NON_LEAF},
        {"META_PARAMETER", MG_META_PARAMETER},
        {"META_CONJUGATE", MG_META_CONJUGATE},
        {"META_NEGATIVE", MG_META_NEGATIVE},
        {"META_LEAF_VIEW", MG_META_LEAF_VIEW},
        {"META_MULTI_VIEW", MG_META_MULTI_VIEW},
        {"META_WRAPPER", MG_META_WRAPPER},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(constants); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

static int
core_exec(PyObject *module)
{
    if (Py_Version >> 16 != PY_VERSION_HEX >> 16) {
        PyErr_Format(PyExc_ImportError, "magneto was built for Python %d.%d", PY_MAJOR_VERSION, PY_MINOR_VERSION);
        return MG_ERR;
    }
    mg_tracer = (MgTracer){
        .call = mg_rules_call,
        .expose = mg_world_expose,
        .touch = mg_world_touch,
        .has_own = mg_world_has_own,
        .number = mg_number_of,
        .real = mg_number_of_float,
        .check_operands = mg_tensor_class_check,
        .hold_hook = hold_hook,
        .run = mg_trace_run,
        .unwrap = unwrap,
        .eval = mg_interp_eval,
        .resume = mg_interp_resume,
        .watch = mg_interp_watch,
        .proceed = mg_callable_continue,
    };
    mg_interp_init();
    if (mg_strings_ready() < 0 || mg_hook_init() < 0 || mg_collections_init() < 0) {
        return MG_ERR;
    }
    if (mg_twin_types_ready() < 0 || mg_dim_object_types_ready() < 0 || mg_varying_types_ready() < 0 ||
        mg_node_types_ready() < 0 || mg_subgraph_types_ready() < 0 || mg_outcome_types_ready() < 0 ||
        mg_capture_types_ready() < 0 || mg_entry_types_ready() < 0 || mg_callable_types_ready() < 0 ||
        mg_symbol_types_ready() < 0 || mg_callback_types_ready() < 0 || mg_wrapper_types_ready() < 0 ||
        mg_node_meta_types_ready() < 0 || mg_writer_types_ready() < 0 || mg_library_types_ready() < 0) {
        return MG_ERR;
    }
    const struct {
        const char *name;
        PyObject *object;
    } items[] = {
        {"checks", MG_CHECKS ? Py_True : Py_False},     {"Compiled", (PyObject *)&MgCompiled_Type},
        {"Entry", (PyObject *)&MgEntry_Type},           {"Meta", (PyObject *)&MgMeta_Type},
        {"Dim", (PyObject *)&MgDimObject_Type},         {"Ref", (PyObject *)&MgRef_Type},
        {"ModuleCall", (PyObject *)&MgModuleCall_Type}, {"Caller", (PyObject *)&MgCaller_Type},
        {"Outcome", (PyObject *)&MgOutcome_Type},       {"Subgraph", (PyObject *)&MgSubgraph_Type},
        {"NodeMeta", (PyObject *)&MgNodeMeta_Type},     {"UNMADE", &mg_unmade},
        {"GraphWriter", (PyObject *)&MgWriter_Type},    {"Library", (PyObject *)&MgLibrary_Type},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(items); i++) {
        if (PyModule_AddObjectRef(module, items[i].name, items[i].object) < 0) {
            return MG_ERR;
        }
    }
    return add_constants(module);
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
