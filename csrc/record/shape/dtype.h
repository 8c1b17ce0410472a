/* Dtypes as shape functions see them, and how they promote. */
#ifndef MG_SHAPE_DTYPE_H
#define MG_SHAPE_DTYPE_H

#include "base/magneto.h"

typedef enum {
    MG_NO_DTYPE = -1,
    MG_BOOL,
    MG_U8,
    MG_I8,
    MG_I16,
    MG_I32,
    MG_I64,
    MG_F16,
    MG_BF16,
    MG_F32,
    MG_F64,
    MG_C64,
    MG_C128,
    MG_DTYPE_COUNT,
} MgDtype;

typedef enum { MG_CLASS_BOOL, MG_CLASS_INT, MG_CLASS_FLOAT, MG_CLASS_COMPLEX } MgDtypeClass; /* ordered by promotion */
MgDtypeClass mg_dtype_class(MgDtype dtype);
MgDtype mg_dtype_promote(MgDtype left, MgDtype right);
MgDtype mg_dtype_to_real(MgDtype dtype);

/* 1 if an operation in place may store values of one dtype in a tensor of another. */
int mg_dtype_fits(MgDtype from, MgDtype to);

#endif
