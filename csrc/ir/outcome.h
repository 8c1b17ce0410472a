/* What an operation returns and does, worked out from metadata alone; or why that is not known. */
#ifndef MG_OUTCOME_H
#define MG_OUTCOME_H

#include "base/magneto.h"

typedef enum {
    MG_OUTCOME_KNOWN,          /* the fields other than `why` are set */
    MG_OUTCOME_DATA_DEPENDENT, /* refused: it depends on the tensors' data */
    MG_OUTCOME_UNSUPPORTED,    /* refused: a graph can't hold the result */
    MG_OUTCOME_RAISES,         /* refused: the operation raises */
    MG_OUTCOME_KINDS,
} MgOutcomeKind;

/* Immutable. Made by shape functions, magneto/_propagate.py and magneto/_symbols.py. A position is that of a tensor among
 * the operation's inputs. */
typedef struct {
    PyObject_HEAD
    MgOutcomeKind kind;
    PyObject *why;         /* strong: text; NULL if known */
    PyObject *result;      /* strong: metadata in place of new tensors, MgRef (a position) in place of inputs */
    PyObject *changes;     /* strong: a tuple of (position, metadata that the input has now) */
    PyObject *views;       /* strong: a tuple of (number of a new tensor, position; -1: shares memory in another way) */
    PyObject *written;     /* strong: a tuple of the positions that were written to */
    PyObject *input_fakes; /* strong: a list of the inputs' FakeTensors; NULL without symbols */
    PyObject *result_fakes; /* strong: a list of those of the new tensors, or None for one; NULL without symbols */
    PyObject *bindings;     /* strong: where new symbols are in the result, for a backend; NULL if there are none */
} MgOutcome;

extern PyTypeObject MgOutcome_Type;

/* What is known. New; the arguments are borrowed, the last three tuples. */
MgOutcome *mg_outcome_new(PyObject *result, PyObject *changes, PyObject *views, PyObject *written);

/* A refusal: any kind but MG_OUTCOME_KNOWN. New. */
MgOutcome *mg_outcome_refuse(MgOutcomeKind kind, PyObject *why);

/* The object as an outcome, stolen; NULL with an exception if it is none, or is NULL. */
MgOutcome *mg_outcome_check(PyObject *object);

/* outcome() and refusal() of the extension module. */
PyObject *mg_outcome_make(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *mg_outcome_make_refusal(PyObject *module, PyObject *args);

int mg_outcome_types_ready(void); /* MG_OK or MG_ERR */

#endif
