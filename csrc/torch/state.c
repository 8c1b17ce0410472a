/* Torch's global state: grad mode, autocast, default dtype and the like, as one object that can be compared and set again.
 *
 * What it is made of is said by tables of Python functions (magneto/_rules.py): one reads an item, one writes it. */
#include "torch/state.h"

#include "cpython/aside.h"

static struct {
    PyObject *readers; /* strong: list of callables without arguments */
    PyObject *words;   /* strong: list, one for each reader: None if it is to be asked, else a tuple; see _rules.py */
    PyObject *writers; /* strong: list of callables that set what the readers read, or None */
    PyObject *names;   /* strong: list of texts, one for each reader */
    PyObject *hold_casts; /* strong: callable: keeps autocast's cache, or lets it go */
} tables;

void
mg_state_configure(PyObject *given)
{
    const struct {
        const char *name;
        PyObject **slot;
    } wanted[] = {
        {"state_readers", &tables.readers}, {"state_words", &tables.words},     {"state_writers", &tables.writers},
        {"state_names", &tables.names},     {"hold_casts", &tables.hold_casts},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(wanted); i++) {
        PyObject *value = mg_dict_take(given, wanted[i].name);
        if (value != NULL) {
            Py_XSETREF(*wanted[i].slot, Py_NewRef(value));
        }
    }
}

PyObject *
mg_state_read(void)
{
    Py_ssize_t count = tables.readers == NULL ? 0 : PyList_GET_SIZE(tables.readers);
    PyObject *state = PyTuple_New(count);
    MgAside aside;
    mg_aside_begin(&aside);
    for (Py_ssize_t i = 0; state != NULL && i < count; i++) {
        PyObject *value = PyObject_CallNoArgs(PyList_GET_ITEM(tables.readers, i));
        if (value == NULL) {
            Py_CLEAR(state);
            break;
        }
        PyTuple_SET_ITEM(state, i, value);
    }
    mg_aside_end(&aside);
    return state;
}

PyObject *
mg_state_name(Py_ssize_t item)
{
    return tables.names == NULL || item >= PyList_GET_SIZE(tables.names) ? NULL : PyList_GET_ITEM(tables.names, item);
}

int
mg_state_same_extra(PyObject *state)
{
    Py_ssize_t count = tables.words == NULL ? 0 : PyList_GET_SIZE(tables.words);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (MG_LIKELY(PyList_GET_ITEM(tables.words, i) != Py_None)) {
            continue;
        }
        MgAside aside;
        mg_aside_begin(&aside);
        PyObject *value = PyObject_CallNoArgs(PyList_GET_ITEM(tables.readers, i));
        int same = value == NULL ? -1 : PyObject_RichCompareBool(value, PyTuple_GET_ITEM(state, i), Py_EQ);
        Py_XDECREF(value);
        mg_aside_end(&aside);
        if (same <= 0) {
            return same;
        }
    }
    return 1;
}

int
mg_state_is_plain(PyObject *state)
{
    Py_ssize_t count = tables.words == NULL ? 0 : PyList_GET_SIZE(tables.words);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *words = PyList_GET_ITEM(tables.words, i);
        if (words != Py_None && PyTuple_GET_SIZE(words) == 1) { /* only this value has a word */
            int same = PyObject_RichCompareBool(PyTuple_GET_ITEM(words, 0), PyTuple_GET_ITEM(state, i), Py_EQ);
            if (same <= 0) {
                mg_error_clear();
                return 0;
            }
        }
    }
    return count > 0 && count == PyTuple_GET_SIZE(state);
}

enum { TRIES = 4 };

/* Keeps the first of the exceptions that are raised one after the other. */
static void
keep_first(PyObject **type, PyObject **value, PyObject **traceback)
{
    if (*type == NULL) {
        PyErr_Fetch(type, value, traceback);
    }
    PyErr_Clear();
}

/* Sets one item. 1 if it has the value now, 0 if it has to be tried again, with or without an exception. */
static int
set_item(PyObject *reader, PyObject *writer, PyObject *value)
{
    PyObject *found = PyObject_CallNoArgs(reader);
    int same = found == NULL ? -1 : PyObject_RichCompareBool(found, value, Py_EQ);
    Py_XDECREF(found);
    if (same == 0) {
        Py_XDECREF(PyObject_CallOneArg(writer, value));
    }
    return same > 0;
}

/* Sets each item that has another value. All are set, whatever a signal handler raises meanwhile; MG_ERR with what was
 * raised first. */
static int
set_all(PyObject *state)
{
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(state); i++) {
        PyObject *reader = PyList_GET_ITEM(tables.readers, i), *writer = PyList_GET_ITEM(tables.writers, i);
        for (int k = 0; k < TRIES && writer != Py_None; k++) {
            int done = set_item(reader, writer, PyTuple_GET_ITEM(state, i));
            keep_first(&type, &value, &traceback);
            if (done) {
                break;
            }
        }
    }
    PyErr_Restore(type, value, traceback);
    return type == NULL ? MG_OK : MG_ERR;
}

int
mg_state_is_kept(void)
{
    return tables.writers != NULL;
}

int
mg_state_apply(PyObject *state)
{
    if (tables.writers == NULL) {
        return MG_OK;
    }
    MgAside aside;
    mg_aside_begin(&aside);
    int status = set_all(state);
    mg_aside_end(&aside);
    return status;
}

int
mg_state_hold_casts(int hold)
{
    PyObject *value = hold ? Py_True : Py_False;
    PyObject *result = tables.hold_casts == NULL ? Py_NewRef(Py_None) : mg_aside_call(tables.hold_casts, &value, 1);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}

int
mg_state_undo(PyObject *settings)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *result = settings == NULL
                           ? Py_NewRef(Py_None)
                           : PyObject_Call(PyTuple_GET_ITEM(settings, 0), PyTuple_GET_ITEM(settings, 1), NULL);
    mg_aside_end(&aside);
    Py_XDECREF(result);
    return result == NULL ? MG_ERR : MG_OK;
}
