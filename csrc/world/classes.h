/* Classes: what isinstance and issubclass say of what captured code sees. */
#ifndef MG_CLASSES_H
#define MG_CLASSES_H

#include "capture/capture.h"

void mg_classes_configure(PyObject *tables);

/* The class that a value claims: for a twin or a number that of what it stands for. Borrowed. */
PyObject *mg_classes_of(PyObject *value);

/* isinstance(value, classes) where value is a twin or a number: 1, 0 or -1. `asks` is 0 where a metaclass has been asked
 * already. */
int mg_classes_check(PyObject *value, PyObject *classes, int asks);

/* The class or tuple of classes that isinstance is asked about as C code may use it, with guards. New. */
PyObject *mg_classes_expose(MgCapture *capture, PyObject *classes);

int mg_classes_is_factory(MgCapture *capture, PyObject *factory);

#endif
