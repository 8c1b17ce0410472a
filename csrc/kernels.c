/* Kernels that Python code has registered with torch's dispatcher (torch.library).
 *
 * They change what torch's own operators do, and what is known of these no longer holds. torch.library keeps a set of what is
 * registered. Adding to a set uses up a place of its table that was free, and removing makes it no place that is free: so a
 * set whose table, filled places and length are the same has not been changed. */
#include "kernels.h"

#include "aside.h"

PySetObject *mg_kernels_registered;

int
mg_kernels_init(void)
{
    if (mg_kernels_registered != NULL) {
        return MG_OK;
    }
    PyObject *library = mg_aside_import("torch.library");
    PyObject *set = library == NULL ? NULL : PyObject_GetAttrString(library, "_impls");
    Py_XDECREF(library);
    if (set != NULL && !PySet_CheckExact(set)) {
        PyErr_SetString(PyExc_RuntimeError, "torch.library._impls is no set");
        Py_CLEAR(set);
    }
    mg_kernels_registered = (PySetObject *)set;
    return set == NULL ? MG_ERR : MG_OK;
}

/* 1 if a text says "aten/<name>.<overload>/<key>", and the key is not that of tensors without data: torch itself registers
 * such kernels when it is first asked for one. */
static int
is_of(const char *text, const char *name)
{
    static const char space[] = "aten/";
    size_t length = strlen(name);
    const char *key = strrchr(text, '/');
    if (key == NULL || strcmp(key, "/Meta") == 0 || strncmp(text, space, sizeof(space) - 1) != 0 ||
        strncmp(text + sizeof(space) - 1, name, length) != 0) {
        return 0;
    }
    char end = text[sizeof(space) - 1 + length];
    return end == '.' || end == '/';
}

int
mg_kernels_has(const char *const *names, int count)
{
    PyObject *key;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    while (_PySet_NextEntry((PyObject *)mg_kernels_registered, &position, &key, &hash)) {
        const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
        if (text == NULL) {
            PyErr_Clear();
            continue;
        }
        for (int i = 0; i < count; i++) {
            if (is_of(text, names[i])) {
                return 1;
            }
        }
    }
    return 0;
}
