/* Functions that torch.jit.script has compiled. */
#ifndef MG_SCRIPT_H
#define MG_SCRIPT_H

#include "capture/capture.h"

/* Takes "is_as_written" from the tables: (script, classes of arguments, names of the last ones) -> bool. */
int mg_script_configure(PyObject *tables);

/* 1 if the arguments are such that the function which a script was made of can be called in its place. -1 with an exception. */
int mg_script_fits(PyObject *script, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);

/* Calls it, as a whole: a break inside belongs to whoever called the script. New. */
PyObject *mg_script_call(MgCapture *capture, PyObject *function, PyObject *const *args, size_t nargsf,
                         PyObject *kwnames);

#endif
