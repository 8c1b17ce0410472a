/* For tests: memory that runs out where the core asks for it. In builds with MG_CHECKS. */
#ifndef MG_STARVE_H
#define MG_STARVE_H

#include <Python.h>

/* From now on, on this thread: let the allocations `first` to `last` of those that the core makes fail (counted from 1),
 * or with `first` -1 the first one at a place where none has failed before. 0 and 0 for none. MG_OK, or MG_ERR in a build
 * without checks. */
int mg_starve_begin(long first, long last);

/* How many allocations the core has made since then, the number of the first that failed, 0 if none did, and 1 if one failed
 * where CPython itself leaks then. */
void mg_starve_figures(long *made, long *failed, int *leaks);

/* Where the first one failed: a tuple of addresses, innermost first, relative to the core's file; 0 for other files. New. */
PyObject *mg_starve_place(void);

#if MG_CHECKS

/* Between these two none fails: for what is no part of the program, such as checks. */
extern __thread int mg_starve_paused;
#define MG_STARVE_PAUSE() (mg_starve_paused++)
#define MG_STARVE_RESUME() (mg_starve_paused--)

/* 1 if an allocation is to fail here; with an exception set. */
int mg_starve_refuses(void);

/* CPython keeps freed objects of some types for reuse, without asking its allocators: these are counted by themselves. */
#define MG_STARVE(call) (mg_starve_refuses() ? NULL : (call))
#define PyTuple_New(size) MG_STARVE(PyTuple_New(size))
#define PyTuple_Pack(...) MG_STARVE(PyTuple_Pack(__VA_ARGS__))
#define PyTuple_GetSlice(tuple, low, high) MG_STARVE(PyTuple_GetSlice(tuple, low, high))
#define PyList_New(size) MG_STARVE(PyList_New(size))
#define PyList_AsTuple(list) MG_STARVE(PyList_AsTuple(list))
#define PySequence_List(items) MG_STARVE(PySequence_List(items))
#define PySequence_Tuple(items) MG_STARVE(PySequence_Tuple(items))
#define PyDict_New() MG_STARVE(PyDict_New())
#define PyDict_Copy(dict) MG_STARVE(PyDict_Copy(dict))
#define PyFloat_FromDouble(value) MG_STARVE(PyFloat_FromDouble(value))
#define PySlice_New(start, stop, step) MG_STARVE(PySlice_New(start, stop, step))
#define Py_BuildValue(...) MG_STARVE(Py_BuildValue(__VA_ARGS__))

#else
#define MG_STARVE_PAUSE() ((void)0)
#define MG_STARVE_RESUME() ((void)0)
#endif

#endif
