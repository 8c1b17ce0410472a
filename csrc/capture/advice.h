/* What Python is asked about sizes and numbers before a capture decides which of them vary: what earlier processes have seen, and
 * what settings say about single sources. Nobody is asked unless something of the kind is set. */
#ifndef MG_ADVICE_H
#define MG_ADVICE_H

#include "capture/capture.h"

enum { MG_ADVICE_DIMS = 8 };

/* What is said of a tensor, an int (-1 dimensions) or a float (-2; a value is its bits). Of numbers the first bit counts. */
typedef struct {
    unsigned dynamic;  /* bits: it varies, whatever was seen */
    unsigned unbacked; /* of these: nothing may be decided by its value */
    unsigned fixed;    /* it does not vary, whatever was seen */
    int is_known;      /* it was met before: what follows counts */
    unsigned varying_sizes, varying_strides;
    int64_t sizes[MG_ADVICE_DIMS], strides[MG_ADVICE_DIMS];
} MgAdvice;

/* What was given to _core.set_adviser, or NULL. Strong. */
extern PyObject *mg_advice_asked, *mg_advice_told;

/* Asks about what lies at a source, which has these sizes and strides now. `is_static` says that it is a constant unless the
 * answer says that it is dynamic. 1 with the answer, 0 if there is none, or MG_ERR, perhaps with the capture ended. */
int mg_advice_ask(MgCapture *capture, const MgSource *source, int dim, int is_static, const int64_t *sizes,
                  const int64_t *strides, MgAdvice *advice);

/* Tells which sizes and strides were found to vary: those whose bits are set in `advice`. MG_OK or MG_ERR. */
int mg_advice_tell(const MgSource *source, int dim, const MgAdvice *advice);

#endif
