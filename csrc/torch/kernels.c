/* Kernels that Python code has registered with torch's dispatcher (torch.library).
 *
 * They change what torch's own operators do, and what is known of these no longer holds. torch.library keeps a set of what is
 * registered. Adding to a set uses up a place of its table that was free, and removing makes it no place that is free: so a
 * set whose table, filled places and length are the same has not been changed. */
#include "torch/kernels.h"

#include "cpython/aside.h"

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

/* ---- kernels for the CPU ---- */

enum { MOST = 64, LONGEST = 64 };

static struct {
    MgKernels known; /* the registrations that the names were taken from */
    int count;       /* how many there are, which may be more than fit */
    char names[MOST][LONGEST];
} replaced;

/* Notes the operator of a text "aten/<name>.<overload>/<key>" if the key is one of kernels for the CPU. */
static void
note(const char *text)
{
    static const char *const keys[] = {"CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "AutogradCPU",
                                       "Autograd"};
    const char *key = strrchr(text, '/'), *name = text + strlen("aten/");
    if (strncmp(text, "aten/", strlen("aten/")) != 0 || key == NULL || key <= name) {
        return;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(keys); i++) {
        if (strcmp(key + 1, keys[i]) == 0) {
            size_t size = strcspn(name, "./");
            if (replaced.count < MOST && size < LONGEST) {
                memcpy(replaced.names[replaced.count], name, size);
                replaced.names[replaced.count][size] = '\0';
            }
            replaced.count++;
            return;
        }
    }
}

int
mg_kernels_count(void)
{
    if (MG_UNLIKELY(mg_kernels_renew(&replaced.known))) {
        PyObject *key;
        Py_ssize_t position = 0;
        Py_hash_t hash;
        replaced.count = 0;
        while (_PySet_NextEntry((PyObject *)mg_kernels_registered, &position, &key, &hash)) {
            const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
            if (text == NULL) {
                PyErr_Clear();
                continue;
            }
            note(text);
        }
    }
    return replaced.count;
}

int
mg_kernels_replaces(const char *name)
{
    int count = mg_kernels_count();
    size_t size = strcspn(name, ".");
    for (int i = 0; i < count && i < MOST; i++) {
        if (strlen(replaced.names[i]) == size && strncmp(replaced.names[i], name, size) == 0) {
            return 1;
        }
    }
    return count > MOST; /* any may be among them */
}
