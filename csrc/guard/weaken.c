/* What a guard program need not keep alive: keys of dicts that are instances of Python classes, modules, functions.
 *
 * While a program's dict has the key, it is alive, and found there. When it is gone, the dict has another key or none, and the entry
 * fits no call any more. Tensors are kept: programs look for weak references to them. So are keys of which attributes are
 * guarded, since the fast path would have to look at each of these on every call. */
#include "guard/weaken.h"

#include "capture/outside.h"
#include "ir/weakkey.h"
#include "torch/torchabi.h"
#include "torch/typekind.h"

static int
is_weak(MgCapture *capture, PyObject *key)
{
    PyTypeObject *type = Py_TYPE(key);
    if (!PyType_SUPPORTS_WEAKREFS(type) || PyType_Check(key) || (!mg_is_heap_type(type) && type != &PyFunction_Type) ||
        mg_torch_is_tensor(key) || mg_kind_is_constant(type)) {
        return 0;
    }
    MgOutside *record = mg_outside_find(capture, key);
    return record != NULL && record->is_key;
}

/* The same keys with those that are not kept alive referred to weakly. New. */
static PyObject *
weaken_keys(MgCapture *capture, PyObject *keys)
{
    PyObject *result = PyTuple_New(PyTuple_GET_SIZE(keys));
    for (Py_ssize_t i = 0; result != NULL && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i);
        PyObject *item = is_weak(capture, key) ? mg_weak_key_new(key) : Py_NewRef(key);
        if (item == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, i, item);
    }
    return result;
}

/* 1 if something is loaded from a step. */
static int
is_base(const MgProgram *program, int step)
{
    for (int i = step + 1; i < program->step_count; i++) {
        if (program->steps[i].base == step) {
            return 1;
        }
    }
    return 0;
}

int
mg_guard_weaken(MgProgram *program, MgCapture *capture)
{
    for (int i = 0; i < program->step_count; i++) {
        MgStep *step = &program->steps[i];
        int is_key = step->source.kind == MG_SOURCE_DICT_ITEM || step->source.kind == MG_SOURCE_CONST;
        if (!is_key || !is_weak(capture, step->source.key) ||
            (step->source.kind == MG_SOURCE_CONST && is_base(program, i))) {
            continue;
        }
        PyObject *key = mg_weak_key_new(step->source.key);
        if (key == NULL) {
            return MG_ERR;
        }
        Py_SETREF(step->source.key, key);
    }
    for (int i = 0; i < program->check_count; i++) {
        MgCheck *check = &program->checks[i];
        if (check->kind == MG_GUARD_KEYS) {
            PyObject *keys = weaken_keys(capture, check->expected);
            if (keys == NULL) {
                return MG_ERR;
            }
            Py_SETREF(check->expected, keys);
        }
    }
    return MG_OK;
}
