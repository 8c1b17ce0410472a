/* Symbols: numbers whose value depends on data, and tensors whose sizes do. */
#ifndef MG_SYMBOL_H
#define MG_SYMBOL_H

#include "capture/capture.h"
#include "ir/outcome.h"
#include "record/arithmetic.h"

/* What captured code gets for x.item(), or for a size of x.nonzero(). */
typedef struct {
    PyObject_HEAD
    PyObject *value; /* strong: a torch.SymInt, SymFloat or SymBool of the capture's session; see number.h for others */
    int node;        /* index in the recording */
    uint64_t capture; /* the number of the capture it belongs to */
    MgDim dim;        /* of an int that varies from call to call, with an expression; value is NULL then */
    PyObject *parts; /* strong: a tuple of the numbers that a float was computed from; value is a float then. Or NULL */
    MgSource *source; /* of a float from outside, with no parts; borrowed. Or NULL */
    int is_finite;    /* of such a one: there is a guard on that */
} MgNumber;

typedef enum { MG_NUMBER_INT, MG_NUMBER_FLOAT, MG_NUMBER_BOOL, MG_NUMBER_KINDS } MgNumberKind;
/* Types of the same names as what they stand for: errors name them. */
extern PyTypeObject mg_number_types[MG_NUMBER_KINDS];

static inline int
mg_is_number(PyObject *object)
{
    return Py_TYPE(object) >= mg_number_types && Py_TYPE(object) < mg_number_types + MG_NUMBER_KINDS;
}

static inline MgNumberKind
mg_number_kind(PyObject *number)
{
    return (MgNumberKind)(Py_TYPE(number) - mg_number_types);
}

/* int, float or bool; borrowed. */
PyTypeObject *mg_number_class(PyObject *number);

/* A number for what an operation gave. New. */
PyObject *mg_number_new(MgCapture *capture, PyObject *value, int node);

int mg_symbol_check(PyObject *object); /* 1 for a torch.SymInt, SymFloat or SymBool */

/* The truth of a number: 1, 0, or -1 with the capture aborted if it is not known. */
int mg_number_truth(MgCapture *capture, PyObject *number);
PyObject *mg_number_getattr(MgCapture *capture, PyObject *number, PyObject *name);

/* A call that has a number, or a size that holds one, among its arguments: 1 if it was made here, with its result. */
int mg_number_call(MgCapture *capture, PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                   PyObject **result);

/* A torch.Size of these items (stolen: a tuple), which may be numbers. New. */
PyObject *mg_symbol_size(PyObject *items);

/* 1 if a number is in this tuple or list; or one that depends on data. */
int mg_symbol_inside(PyObject *object), mg_symbol_depends(PyObject *object);

/* An operator on a torch.Size that holds numbers: 1 if it was carried out here, with its result. */
int mg_symbol_size_item(PyObject *size, PyObject *key, PyObject **result);
int mg_symbol_size_binary(int operation, PyObject *left, PyObject *right, PyObject **result);

void mg_symbol_configure(PyObject *factory); /* what makes the session of a capture; see magneto/_symbols.py */
int mg_symbol_types_ready(void);

/* Runs an operation on FakeTensors and symbols. Its outcome, which is known, new; NULL with the capture aborted.
 * `twins` and `numbers` are lists of those among the arguments. */
MgOutcome *mg_symbol_run(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs,
                         PyObject *twins, PyObject *numbers, int varies);

/* The metadata of a tensor from outside that wraps others; new. NULL with the capture aborted if it can't be captured. */
MgMeta *mg_symbol_wrap(MgCapture *capture, PyObject *tensor);

/* The node of an item of that list: a number, or a pair of a node and its value. */
int mg_symbol_node(PyObject *item);

/* An operation that the session knows nothing of has written to twins: a tuple of their positions. */
int mg_symbol_written(MgCapture *capture, PyObject *twins, PyObject *positions);

#endif
