/* What users say about the sizes of single tensors: mark_dynamic and its kin. */
#ifndef MG_MARKS_H
#define MG_MARKS_H

#include "capture/capture.h"

/* Marks of a tensor, by dimension; of those behind the first 8 none is known. */
typedef struct {
    uint8_t dynamic; /* bits: it varies, and must not become a constant */
    uint8_t weak;    /* it varies */
    uint8_t fixed;   /* it does not, whatever was seen */
    uint8_t ranged;  /* it varies within bounds, and no guard may narrow them */
    MgRange ranges[8];
} MgMarks;

/* The marks of a tensor: 1, 0 if it has none, or MG_ERR. */
int mg_marks_read(PyObject *tensor, MgMarks *marks);

/* Marked sizes that the capture has taken for constants, or has narrowed: MG_OK, or MG_ERR with the error that says so. */
int mg_marks_check(MgCapture *capture);

/* A size that is not in the bounds that it is marked with. MG_ERR. */
int mg_marks_outside(MgCapture *capture, int64_t value, MgRange range);

#endif
