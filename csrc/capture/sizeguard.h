/* The guard of an entry on all its symbols: what was decided on sizes and numbers that vary, as a program over their values. */
#ifndef MG_SIZEGUARD_H
#define MG_SIZEGUARD_H

#include "capture/capture.h"
#include "capture/formula.h"

/* Adds the guard for all that a capture has decided. MG_OK or MG_ERR. */
int mg_size_guards_add(MgCapture *capture);

/* The guard of an entry on all its symbols: what its check holds. See MG_GUARD_SIZES. */
extern PyTypeObject MgSizeGuards_Type;

/* Whether the objects in the registers fit: 1 or 0. */
int mg_size_guards_hold(PyObject *guards, PyObject *const *registers);

/* The registers that it looks at: how many, and one of them. */
int mg_size_guards_count(PyObject *guards);
int mg_size_guards_register(PyObject *guards, int index);

/* Where the values of its symbols are found: a list of (register, MgVaryingKind, dimension). New. */
PyObject *mg_size_guards_origins(PyObject *guards);

/* What is known of its symbols; borrowed. Guards that are decided on them are checked after mg_size_guards_renew. */
MgFacts *mg_size_guards_facts(PyObject *guards);
int mg_size_guards_renew(PyObject *guards); /* MG_OK or MG_ERR */

/* What computes a symbol that a formula gives, as a text. New. */
PyObject *mg_size_guards_formula(PyObject *guards, int symbol, MgRegisterText text_of, const void *context);

/* The number of the place in the program that asked for what fails; -1 if it is not known. */
int mg_size_guards_place(PyObject *guards, PyObject *const *registers);

/* What fails, as a text, or all of it if the registers are NULL. `text_of` returns the text of a register's source. New. */
PyObject *mg_size_guards_text(PyObject *guards, PyObject *const *registers, MgRegisterText text_of,
                              const void *context);

#endif
