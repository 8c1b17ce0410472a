/* What every file of the extension shares: result codes and small helpers. */
#ifndef MG_MAGNETO_H
#define MG_MAGNETO_H

#include <Python.h>

#ifndef MG_CHECKS
#define MG_CHECKS 0
#endif

#include "starve.h"

/* Results of functions that can fail. */
#define MG_OK 0
#define MG_ERR (-1) /* a Python exception is set */
#define MG_BREAK 1  /* capture can't go on; a reason is set, no exception */

#define MG_LIKELY(x) __builtin_expect(!!(x), 1)
#define MG_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* An interned string that lives as long as the process; `slot` is a static that starts as NULL. */
static inline PyObject *
mg_static_string(PyObject **slot, const char *text)
{
    if (MG_UNLIKELY(*slot == NULL)) {
        *slot = PyUnicode_InternFromString(text);
    }
    return *slot;
}

/* A borrowed interned string, made on first use. May be NULL with an exception set. */
#define MG_STRING(text)                           \
    (__extension__({                              \
        static PyObject *mg_slot_;                \
        mg_static_string(&mg_slot_, text);        \
    }))

/* 1 for the one weak reference of an object that has no callback and is of no class of the program's. */
static inline int
mg_weakref_is_plain(PyObject *object)
{
    return PyWeakref_CheckRefExact(object) && ((PyWeakReference *)object)->wr_callback == NULL;
}

/* A collection runs any code, such as finalizers of strangers. None runs between these two, which nest, in all threads. */
int mg_collections_init(void);
void mg_collections_hold(void);
void mg_collections_release(void);
void mg_collections_after_fork(void); /* in the child: what other threads held is free */

/* How many levels of a structure of the user's objects are followed. Walkers that recurse keep to this bound; what lies
 * deeper ends a capture, or is taken for what can't be told. */
enum { MG_MOST_LEVELS = 256 };

#endif
