/* Sizes as Python objects, as metadata and recorded arguments hold them: an int, or one of these if it differs from call to
 * call. */
#ifndef MG_DIMOBJECT_H
#define MG_DIMOBJECT_H

#include "size/expr.h"

/* Equal if value and expression are. Captured code never sees one. */
typedef struct {
    PyObject_HEAD
    MgDim dim; /* with an expression */
} MgDimObject;

extern PyTypeObject MgDimObject_Type;

static inline int
mg_is_dim_object(PyObject *object)
{
    return Py_IS_TYPE(object, &MgDimObject_Type);
}

/* An int, or an MgDimObject. New. */
PyObject *mg_dim_object(MgDim dim);

/* What the object says: 1; 0 if it is neither of the two, or an int that is too large. */
int mg_dim_read(PyObject *object, MgDim *dim);

int mg_dim_object_types_ready(void); /* MG_OK or MG_ERR */

#endif
