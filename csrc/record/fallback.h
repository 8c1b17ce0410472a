/* Operations on sizes that vary and have no shape function. */
#ifndef MG_FALLBACK_H
#define MG_FALLBACK_H

#include "capture/capture.h"
#include "ir/outcome.h"

/* Has torch work out what an operation does, on symbols of its own: see magneto/_sizes.py. `inputs` is a list of (node, Meta)
 * for the tensors among the arguments. New: known, or a refusal; NULL without an exception if it is not known for sizes that
 * vary. */
MgOutcome *mg_fallback_outcome(MgCapture *capture, MgNodeKind kind, PyObject *target, PyObject *args, PyObject *kwargs,
                               PyObject *inputs);

#endif
