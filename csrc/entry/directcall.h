/* Operations of the graph that are called in libtorch itself, past their Python bindings and the dispatcher. */
#ifndef MG_DIRECTCALL_H
#define MG_DIRECTCALL_H

#include "capture/capture.h"

typedef enum { MG_DIRECT_NONE, MG_DIRECT_ADD, MG_DIRECT_SUB, MG_DIRECT_MUL, MG_DIRECT_POW } MgDirectKind;

/* How one operation is called. */
typedef struct {
    MgDirectKind kind;
    int number;           /* which of the two arguments is a number; -1 for none */
    double value;         /* that number */
    PyObject *constant;   /* strong: the number as a tensor, once there was need of it; or NULL */
    int32_t dtype;        /* of the constant */
    unsigned int tags[2]; /* the versions of torch.Tensor and Parameter: their methods are those that were recorded */
} MgDirect;

/* Whether and how an operation can be called so: sets the kind. */
void mg_direct_call_find(const MgNode *node, MgDirect *direct);

/* Calls it. New; or NULL without an exception, if these tensors, or torch's state, want the usual way. */
PyObject *mg_direct_call_call(MgDirect *direct, PyObject *const *args);

/* How many operations were called so. */
uint64_t mg_direct_call_count(void);

#endif
