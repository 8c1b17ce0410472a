/* Which locals of a code object are live where: which an instruction may still read. */
#include "cpython/liveness.h"

#include "cpython/except.h"
#include "cpython/opcodes.h"

/* 1 if the code names one of these. */
static int
names_one(PyCodeObject *code, const char *const *names, size_t count)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
        for (size_t k = 0; k < count; k++) {
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i), names[k]) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

/* 1 if the code may ask how many references there are to an object, of which locals have some. */
int
mg_code_counts_references(PyCodeObject *code)
{
    static const char *const ways[] = {"getrefcount", "_use_count", "get_referrers"};
    return names_one(code, ways, Py_ARRAY_LENGTH(ways));
}

/* 1 if the code may look at its locals by other ways than its bytecode. */
static int
looks_at_locals(PyCodeObject *code)
{
    static const char *const ways[] = {"locals",    "vars",         "dir",   "eval",       "exec",
                                       "_getframe", "currentframe", "stack", "breakpoint", "set_trace"};
    return names_one(code, ways, Py_ARRAY_LENGTH(ways)) || mg_code_counts_references(code);
}

/* Live locals before each unit, as bits; codes with more locals than bits have all of them live. NULL without an exception
 * if there is no memory. */
static uint64_t *
find_live(PyCodeObject *code)
{
    int size = (int)Py_SIZE(code);
    MgUnit *units = _PyCode_CODE(code);
    uint64_t *live = PyMem_Calloc((size_t)size + 1, sizeof(uint64_t));
    uint64_t *handler_of = PyMem_Calloc((size_t)size + 1, sizeof(uint64_t)); /* target + 1 of the covering handler */
    if (live == NULL || handler_of == NULL) {
        PyMem_Free(live);
        PyMem_Free(handler_of);
        return NULL;
    }
    Py_ssize_t cursor = 0;
    int start, end;
    MgHandler handler;
    while (mg_except_next(code, &cursor, &start, &end, &handler)) {
        for (int i = start; i < end && i < size; i++) {
            handler_of[i] = (uint64_t)handler.target + 1;
        }
    }
    uint8_t *opcodes = PyMem_Calloc((size_t)size + 1, 1); /* 0 for a unit that is no instruction */
    int *opargs = PyMem_Calloc((size_t)size + 1, sizeof(int));
    for (int i = 0, prefix = 0; opcodes != NULL && opargs != NULL && i < size;) {
        int opcode = mg_opcode_base[_Py_OPCODE(units[i])];
        opcodes[i] = (uint8_t)opcode;
        opargs[i] = prefix << 8 | _Py_OPARG(units[i]);
        prefix = opcode == EXTENDED_ARG ? opargs[i] : 0;
        i += 1 + mg_opcode_caches[opcode];
    }
    int all = looks_at_locals(code), failed = opcodes == NULL || opargs == NULL;
    for (int changed = 1; changed && !all && !failed;) {
        changed = 0;
        for (int i = size; i-- > 0;) {
            int opcode = opcodes[i], oparg = opargs[i];
            if (opcode == 0) {
                continue;
            }
            int distance, behind = i + 1 + mg_opcode_caches[opcode];
            uint64_t now = mg_opcode_goes_on(opcode) && behind < size ? live[behind] : 0;
            if (mg_opcode_jumps(opcode, oparg, &distance)) {
                int target = i + 1 + distance;
                now |= target >= 0 && target < size ? live[target] : 0;
            }
            if (oparg < 64) {
                MgLocalUse use = mg_opcode_local(opcode);
                now &= use == MG_LOCAL_WRITES ? ~((uint64_t)1 << oparg) : ~(uint64_t)0;
                now |= use == MG_LOCAL_READS ? (uint64_t)1 << oparg : 0;
            }
            if (handler_of[i] != 0) {
                now |= live[handler_of[i] - 1];
            }
            if (now != live[i]) {
                live[i] = now;
                changed = 1;
            }
        }
    }
    if (all) {
        memset(live, 255, sizeof(uint64_t) * (size_t)size);
    }
    PyMem_Free(opcodes);
    PyMem_Free(opargs);
    PyMem_Free(handler_of);
    if (failed) {
        PyMem_Free(live);
        return NULL;
    }
    return live;
}

/* The same, found once and kept with the code object. NULL without an exception if there is no room for it. */
static const uint64_t *
known_live(PyCodeObject *code)
{
    static Py_ssize_t index = -1;
    void *live = NULL;
    if (index < 0) {
        index = _PyEval_RequestCodeExtraIndex(PyMem_Free);
    }
    if (index < 0 || (_PyCode_GetExtra((PyObject *)code, index, &live) == 0 && live != NULL)) {
        return live;
    }
    live = find_live(code);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (live != NULL && mg_code_set_extra(code, index, live) < 0) {
        PyMem_Free(live);
        live = NULL;
    }
    PyErr_Restore(type, value, traceback);
    return live;
}

int
mg_code_is_live(PyCodeObject *code, int offset, int slot)
{
    if (slot >= code->co_nlocals || slot >= 64 || code->co_nlocalsplus > 64) {
        return 1; /* cells, and what has no bit */
    }
    const uint64_t *live = known_live(code);
    if (live == NULL) {
        return 1;
    }
    if (PyBytes_AS_STRING(code->co_localspluskinds)[slot] & CO_FAST_CELL) {
        return 1;
    }
    if (slot == 0 && code->co_nfreevars > 0) { /* super() without arguments reads it behind the bytecode's back */
        return 1;
    }
    return (live[offset] >> slot & 1) != 0;
}
