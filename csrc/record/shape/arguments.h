/* What the files of the shape functions share: the arguments of a call and its results. See shape.c. */
#ifndef MG_SHAPE_ARGUMENTS_H
#define MG_SHAPE_ARGUMENTS_H

#include "ir/dimobject.h"
#include "record/shape/shape.h"
#include "record/shape/layout.h"
/* Leaves the function with whatever is not MG_OK. */
#define MG_TRY(call)             \
    do {                         \
        int mg_result_ = (call); \
        if (mg_result_ != MG_OK) \
            return mg_result_;   \
    } while (0)
/* Leaves the function unless this holds: the case is unusual, or an error for eager to raise. */
#define MG_NEED(condition)     \
    do {                       \
        if (!(condition))      \
            return MG_DECLINE; \
    } while (0)

enum { MG_SHAPE_ARGS = 20, MG_SHAPE_INPUTS = 64, MG_FAIL = MG_DECLINE + 1 };
typedef struct MgShapeRule MgShapeRule;

/* A call under way. */
typedef struct {
    const MgShapeRule *rule;         /* borrowed */
    int in_place;                    /* the form of it that writes to its first argument */
    PyObject *args[MG_SHAPE_ARGS];   /* borrowed: in the order of the rule's signature; NULL if not given, or None */
    PyObject *rest;                  /* strong: a tuple of the ints that were given one by one, or NULL */
    MgShape inputs[MG_SHAPE_INPUTS]; /* the tensors among the arguments */
    long nodes[MG_SHAPE_INPUTS];     /* what the references to them say */
    int input_count;
    int grad;                  /* grad mode is on */
    int needs_grad;            /* and one of the inputs requires grad */
    MgDtype standard;          /* torch's default dtype */
    PyObject *result;          /* strong: what the operation returns */
    PyObject *changes, *views; /* strong: lists of pairs, as in the outcome; or NULL */
    PyObject *written;         /* strong: a list of the inputs that were written to, or NULL */
    int several, detached;     /* it returns several views, or one that autograd does not know */
    int fresh;                 /* new tensors so far */
} MgShapeCall;

/* Operations with the same shape function. */
struct MgShapeRule {
    const char *names;     /* see add_word in shape.c */
    const char *signature; /* names of the arguments: see new_entry in shape.c */
    int (*function)(MgShapeCall *call);
    int data; /* for the function */
};
extern const MgShapeRule mg_shape_pointwise[], mg_shape_views[], mg_shape_makers[], mg_shape_reductions[],
    mg_shape_layers[], mg_shape_indexing[]; /* each ends with a rule without names */

/* Arguments, NULL for one that was not given. Most give MG_OK or MG_DECLINE. What is no size but an int, and differs from
 * call to call, is taken with its value for good. */
int mg_shape_tensor(MgShapeCall *call, PyObject *value, MgShape **tensor);
int mg_shape_is_int(PyObject *value); /* 1 or 0; not for a bool */
int mg_shape_int(PyObject *value, int64_t *number), mg_shape_ints(PyObject *value, int64_t *numbers, int *count);
int mg_shape_size(PyObject *value, MgDim *size); /* of a dimension, or a number that sizes are made of */
int mg_shape_bool(PyObject *value, int otherwise, int *flag);
int mg_shape_number(PyObject *value, MgScalar *number);
int mg_shape_sizes(PyObject *value, MgDim *sizes, int *count);
int mg_shape_dtype(PyObject *value, MgDtype otherwise, MgDtype *dtype);
int mg_shape_wrap(int64_t number, int dim, int *result), mg_shape_dim(PyObject *value, int dim, int *result);
const char *mg_shape_text(PyObject *value); /* of a str, or NULL */
PyObject *mg_shape_tuple(const MgDim *sizes, int count);
/* The result. mg_shape_meta returns the metadata of a new tensor that comes from all inputs, or if `base` is not NULL is a
 * view of that input; new, or NULL with an exception. The others set the result. */
PyObject *mg_shape_meta(MgShapeCall *call, MgShape *shape, const MgShape *base);
int mg_shape_give(MgShapeCall *call, MgShape *shape);
int mg_shape_give_view(MgShapeCall *call, MgShape *shape, const MgShape *base);
int mg_shape_give_input(MgShapeCall *call, const MgShape *input);
int mg_shape_give_object(MgShapeCall *call, PyObject *object);      /* steals it; NULL is an error */
int mg_shape_changed(MgShapeCall *call, const MgShape *input);      /* an operation in place has written to it */
int mg_shape_give_changed(MgShapeCall *call, const MgShape *input); /* that, and it is the result */
int mg_shape_give_written(MgShapeCall *call, MgShape *self);        /* that, or a contiguous copy */
int mg_shape_fail(MgShapeCall *call, const char *why); /* where eager raises, and FakeTensorMode does not: MG_FAIL */
int mg_shape_hold(MgShapeCall *call, MgDtype dtype, MgScalar number); /* the dtype has to hold the number */

#endif
