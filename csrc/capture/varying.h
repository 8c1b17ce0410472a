/* Sizes and numbers that differ from call to call: which ones do, and what a capture makes of them.
 *
 * What is captured has a lattice: for each tensor and int that captured code has met, by its source, the sizes that it had. One
 * that is another at the next capture varies from then on: it becomes a symbol (csrc/size). What is decided on symbols while
 * captured code runs becomes one guard, a program over their values. */
#ifndef MG_VARYING_H
#define MG_VARYING_H

#include "capture/capture.h"
#include "capture/formula.h"

extern PyTypeObject MgLattice_Type;

enum { MG_MOST_SYMBOLS = 512 }; /* of a capture */

/* Which sizes and numbers become symbols. */
typedef enum {
    MG_DYNAMIC_AUTOMATIC = -1, /* those that were seen to vary */
    MG_DYNAMIC_NONE,           /* none but those that are marked */
    MG_DYNAMIC_ALL,            /* all, also when they are met for the first time */
} MgDynamic;

/* What settings say: ints, and floats, are constants; sizes that are marked may become constants; ints of modules may vary; and
 * which tensors that modules lead to are static, bits of MgFixed. */
extern int mg_varying_no_ints, mg_varying_no_floats, mg_varying_ignore_marks, mg_varying_module_ints;
extern int mg_varying_fixed_tensors;

/* An empty lattice. New. And what becomes a symbol by it from now on. */
MgLattice *mg_lattice_new(void);
void mg_lattice_set(MgLattice *lattice, MgDynamic dynamic);

/* The float at this path (mg_source_path) is a constant from now on. `salt` is that of the captures that have met it. */
void mg_lattice_fix_float(MgLattice *lattice, uint64_t path, uint64_t salt);

/* A copy that stays as it is: what varies in it varies, and nothing else. New. */
MgLattice *mg_lattice_freeze(const MgLattice *lattice);

/* Metadata for a tensor from outside, with symbols for the sizes and strides that vary. `meta` is what it has now, and is
 * stolen. New; NULL with an exception. */
MgMeta *mg_varying_meta(MgCapture *capture, MgSource *source, PyObject *tensor, MgMeta *meta);

/* An int from outside: 1 with the symbol if it varies, 0 if not, or MG_ERR. One that is static varies only if that is said of it. */
int mg_varying_int(MgCapture *capture, MgSource *source, int is_static, PyObject *value, MgDim *dim);

/* A float from outside: 1 if it varies, 0 if not, or MG_ERR. There are no symbols for floats, but for what
 * formulas compute from them. */
int mg_varying_float(MgCapture *capture, MgSource *source, PyObject *value);

/* An int that a formula computes (formula.h), with its value in this call: 1 with its symbol, 0 if there are too many, or MG_ERR.
 * `source` is the last one that it looks at. Of a float that is rounded, `operand` and `function` are kept; else they are NULL. */
int mg_varying_formula(MgCapture *capture, MgFormula *formula, MgSource *source, PyObject *operand, PyObject *function,
                       int64_t value, MgDim *dim);

/* Metadata with the values of this call in place of sizes that vary. New; NULL with an exception. */
MgMeta *mg_meta_fixed(MgMeta *meta);

void mg_varyings_free(MgVaryings *varyings);
int mg_varying_types_ready(void); /* MG_OK or MG_ERR */

#endif
