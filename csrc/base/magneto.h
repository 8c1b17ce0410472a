/* What every file of the extension shares: result codes and small helpers. */
#ifndef MG_MAGNETO_H
#define MG_MAGNETO_H

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1 /* some declarations are others for CPython's own files: the same for all of ours */
#endif
#include <Python.h>

#include <assert.h>

#ifndef MG_CHECKS
#define MG_CHECKS 0
#endif

#include "base/starve.h"
#include "base/current.h"

/* Results of functions that can fail. */
#define MG_OK 0
#define MG_ERR (-1) /* a Python exception is set */
#define MG_BREAK 1  /* capture can't go on; a reason is set, no exception */

#define MG_LIKELY(x) __builtin_expect(!!(x), 1)
#define MG_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* An interned string that lives as long as the process: all of them lie in one section, and are made at the start. */
typedef struct {
    PyObject *object; /* strong */
    const char *text;
} MgString;

int mg_strings_ready(void); /* makes them; MG_OK or MG_ERR */

/* A borrowed interned string; never NULL. */
#define MG_STRING(chars)                                                                                \
    (__extension__({                                                                                    \
        static MgString mg_string_ __attribute__((section("mg_strings"), used)) = {NULL, chars};        \
        mg_string_.object;                                                                              \
    }))

/* 1 if a str has this text, which is an interned str of ours: two interned ones are the same object, or differ. */
static inline int
mg_is_text(PyObject *string, PyObject *text)
{
    return string == text || (!PyUnicode_CHECK_INTERNED(string) && PyUnicode_Compare(string, text) == 0);
}

/* 1 for the one weak reference of an object that has no callback and is of no class of the program's. */
static inline int
mg_weakref_is_plain(PyObject *object)
{
    return PyWeakref_CheckRefExact(object) && ((PyWeakReference *)object)->wr_callback == NULL;
}

/* What a dict has for a text. Borrowed; NULL without an exception if there is nothing. */
PyObject *mg_dict_get(PyObject *dict, const char *text);

/* The same, and the dict has it no more. Borrowed from whoever else holds it. */
PyObject *mg_dict_take(PyObject *dict, const char *text);

/* A collection runs any code, such as finalizers of strangers. None runs between these two, which nest, in all threads. */
int mg_collections_init(void);
void mg_collections_hold(void);
void mg_collections_release(void);
void mg_collections_after_fork(void); /* in the child: what other threads held is free */

/* How many levels of a structure of the user's objects are followed. Walkers that recurse keep to this bound; what lies
 * deeper ends a capture, or is taken for what can't be told. */
enum { MG_MOST_LEVELS = 256 };

#endif
