/* The PEP 523 hook: who gets which frame.
 *
 * CPython has one hook for an interpreter. Ours is installed only while something needs it (`users` > 0), looks at the
 * state of its own thread, and passes every frame that is not for us to whoever was there before, or to CPython. The
 * state of a thread is plain data in thread-local storage: nothing is allocated, so thread exit has nothing to free,
 * and after the interpreter's end the hook can still be called safely.
 *
 * Others use the hook too (torch._dynamo does, and swaps it at will). So:
 *   - if somebody sits on top of us when we want to leave, we stay where we are, pass everything on, and leave with
 *     the first frame that reaches us when we are on top again;
 *   - if two hooks end up with each other as predecessor, a frame that comes back to us while we are passing it on goes
 *     to CPython: it has been looked at, and there is no endless loop. */
#include "trace/hook.h"

#include "capture/origin.h"
#include "capture/tracer.h"
#include "cpython/aside.h"
#include "cpython/ops.h"
#include "entry/exit.h"
#include "policy/control.h"
#include "policy/rules.h"

#include <pthread.h>

/* What the hook knows about a thread. */
typedef struct {
    int interpreting;    /* depth of mg_hook_interpret on this thread */
    int uses;            /* how many of the hook's users are on this thread */
    MgFrame *passing_on; /* the frame that is on its way to the hook below ours */
    PyObject *spared;    /* borrowed: the code whose next frame the watcher leaves alone, or NULL */
} ThreadState;

static __thread ThreadState thread __attribute__((tls_model("initial-exec")));

static struct {
    PyInterpreterState *interp; /* the one interpreter that is served */
    _PyFrameEvalFunction below; /* who was there before us; NULL is CPython */
    int users;                  /* guarded by the GIL, like all here */
    int all;                    /* mg_hook_interpret_all is on */
    uint64_t frames;
} hook;

/* Returns a frame to whoever was there before us. */
static PyObject *
pass_on(PyThreadState *tstate, MgFrame *frame, int throwflag, _PyFrameEvalFunction below)
{
    if (below == NULL) {
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    MgFrame *outer = thread.passing_on;
    thread.passing_on = frame;
    PyObject *result = below(tstate, frame, throwflag);
    thread.passing_on = outer;
    return result;
}

static PyObject *hook_eval(PyThreadState *tstate, MgFrame *frame, int throwflag);

int
mg_hook_installed(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(hook.interp) == hook_eval;
}

static void
install(void)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(hook.interp);
    if (current != hook_eval) {
        hook.below = current == _PyEval_EvalFrameDefault ? NULL : current;
        _PyInterpreterState_SetEvalFrameFunc(hook.interp, hook_eval);
    }
}

static void
uninstall(void)
{
    if (mg_hook_installed()) {
        _PyInterpreterState_SetEvalFrameFunc(hook.interp, hook.below != NULL ? hook.below : _PyEval_EvalFrameDefault);
        hook.below = NULL;
    }
}

/* 1 if a frame that starts in CPython may be captured on its own: a plain function's, of the user's code. */
static int
is_worth_watching(MgFrame *frame)
{
    PyCodeObject *code = mg_frame_code(frame);
    if (thread.spared == (PyObject *)code) {
        thread.spared = NULL;
        return 0;
    }
    if (frame->owner != FRAME_OWNED_BY_THREAD || (code->co_flags & CO_OPTIMIZED) == 0 ||
        (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0) {
        return 0;
    }
    MgOrigin place = mg_origin_of(code);
    return place == MG_ORIGIN_USER || place == MG_ORIGIN_MODULES;
}

/* 1 if a frame's code runs uncaptured in a capture. An exception that is thrown into the frame stays. */
static int
is_apart(MgFrame *frame)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int apart = mg_rules_is_apart((PyObject *)mg_frame_function(frame));
    PyErr_Restore(type, value, traceback);
    return apart;
}

/* 1 if TorchDynamo is there too, and the program has set it to work on this thread (`torch.compile`,
 * `torch._dynamo.export`): frames are for it, and what it leaves to CPython is. */
static int
is_for_dynamo(void)
{
    static PyObject *ask; /* strong, for good */
    if (hook.below == NULL && mg_hook_installed()) {
        return 0;
    }
    if (ask == NULL) {
        ask = mg_aside_find("torch._C._dynamo.eval_frame", "get_eval_frame_callback");
    }
    PyObject *callback = ask == NULL ? NULL : PyObject_CallNoArgs(ask);
    int active = callback != NULL && callback != Py_None && callback != Py_False;
    Py_XDECREF(callback);
    mg_error_clear();
    return active;
}

/* 1 if a frame is one of those that load modules. */
static int
is_import(MgFrame *frame)
{
    static const char prefix[] = "<frozen importlib._bootstrap"; /* and ..._external */
    PyObject *name = mg_frame_code(frame)->co_filename;
    return PyUnicode_IS_COMPACT_ASCII(name) && PyUnicode_GET_LENGTH(name) >= (Py_ssize_t)sizeof(prefix) - 1 &&
           memcmp(PyUnicode_1BYTE_DATA(name), prefix, sizeof(prefix) - 1) == 0;
}

/* A frame below code that a compiled callable has left to CPython. */
static PyObject *
eval_watched(PyThreadState *tstate, MgFrame *frame, int throwflag)
{
    PyObject *owner = mg_watcher, *spared = thread.spared;
    if (is_import(frame)) { /* modules run once, and big ones call thousands of functions meanwhile */
        mg_watcher = NULL;
        PyObject *result = pass_on(tstate, frame, throwflag, hook.below);
        mg_watcher = owner;
        return result;
    }
    PyObject *type, *value, *traceback; /* what is thrown into a generator */
    PyErr_Fetch(&type, &value, &traceback);
    mg_watcher = NULL; /* the judge's own frames are not watched */
    MgMark mark = mg_rules_watched((PyObject *)mg_frame_function(frame));
    mg_watcher = owner;
    PyObject *inner = mark == MG_MARK_DISABLED ? mg_control_spared(mg_frame_function(frame)) : NULL;
    PyErr_Restore(type, value, traceback);
    if (mark == MG_MARK_DISABLED) {
        mg_watcher = inner == NULL ? NULL : owner;
        thread.spared = inner; /* that of the wrapper's function is left alone too; what it calls is watched */
        PyObject *result = pass_on(tstate, frame, throwflag, hook.below);
        mg_watcher = owner;
        thread.spared = spared;
        return result;
    }
    if (throwflag || mark == MG_MARK_SKIPPED || mark == MG_MARK_TRANSFORM || !is_worth_watching(frame) ||
        is_for_dynamo()) {
        return pass_on(tstate, frame, throwflag, hook.below);
    }
    return mg_tracer.watch(tstate, frame, owner);
}

static PyObject *
hook_eval(PyThreadState *tstate, MgFrame *frame, int throwflag)
{
    if (MG_UNLIKELY(thread.passing_on == frame)) { /* it comes back */
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    int index;
    mg_ops_start(mg_frame_function(frame));
    MgExit *exit = mg_exit_pending(frame, &index);
    if (MG_UNLIKELY(exit != NULL)) {
        return mg_tracer.resume(tstate, frame, exit, index);
    }
    MgCapture *capture = mg_capture_active();
    if (capture != NULL && MG_UNLIKELY(is_apart(frame))) {
        mg_aside_suspend(capture);
        PyObject *result = pass_on(tstate, frame, throwflag, hook.below);
        mg_aside_resume(capture);
        return result;
    }
    if (hook.all || thread.interpreting || capture != NULL) {
        hook.frames++;
        return mg_tracer.eval(tstate, frame, throwflag);
    }
    if (mg_watcher != NULL && mg_capture_current == NULL) {
        return eval_watched(tstate, frame, throwflag);
    }
    _PyFrameEvalFunction below = hook.below;
    if (hook.users == 0) { /* somebody sat on top of us when we wanted to leave, or a fork took our users */
        uninstall();
    }
    return pass_on(tstate, frame, throwflag, below);
}

/* One user more, or one less. */
static void
use(int more)
{
    hook.users += more;
    if (more > 0) {
        install(); /* also if somebody took it from us meanwhile */
    }
    else if (hook.users == 0) {
        uninstall();
    }
}

void
mg_hook_acquire(void)
{
    thread.uses++;
    use(1);
}

void
mg_hook_release(void)
{
    assert(thread.uses > 0 && hook.users > 0);
    thread.uses--;
    use(-1);
}

/* After a fork only the forking thread is left, so only its use of the hook counts. */
static void
after_fork_in_child(void)
{
    hook.users = (hook.all != 0) + thread.uses;
    mg_collections_after_fork();
}

int
mg_hook_init(void)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    if (interp != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "magneto does not support subinterpreters");
        return MG_ERR;
    }
    if (hook.interp == NULL) {
        hook.interp = interp;
        if (pthread_atfork(NULL, NULL, after_fork_in_child) != 0) {
            PyErr_NoMemory();
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_hook_interpret_all(int enable)
{
    int before = hook.all;
    if (enable && !before) {
        hook.all = 1;
        use(1); /* not this thread's alone */
    }
    else if (!enable && before) {
        hook.all = 0;
        use(-1);
    }
    return before;
}

PyObject *
mg_hook_interpret(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    mg_hook_acquire();
    thread.interpreting++;
    PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    thread.interpreting--;
    mg_hook_release();
    return result;
}

PyObject *
mg_hook_uninterrupted(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (mg_signals_hold()) {
        PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
        mg_signals_release(PyThreadState_Get());
        return result;
    }
    mg_pending_hold(1);
    PyObject *result = mg_hook_interpret(callable, args, nargsf, kwnames);
    mg_pending_hold(-1);
    return result;
}

PyObject *
mg_hook_call_watched(PyObject *owner, PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *outer = mg_watch(owner), *spared = thread.spared;
    PyObject *function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
    if (owner != NULL) {
        thread.spared = PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_code : NULL;
        mg_hook_acquire();
    }
    PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    if (owner != NULL) {
        mg_hook_release();
    }
    mg_watcher = outer;
    thread.spared = spared;
    return result;
}

int
mg_hook_users(void)
{
    return hook.users;
}

uint64_t
mg_hook_frames(void)
{
    return hook.frames;
}
