/* Tensors that others wrap: what may be done with both in one graph. */
#ifndef MG_PARTS_H
#define MG_PARTS_H

#include "capture/capture.h"

/* AOTAutograd does not know that what a wrapper holds is an input of its own, too. MG_ERR if one of the two is written to.
 * `parts` are MG_PARTS_... */
int mg_parts_note(MgCapture *capture, int parts);

/* Notes the wrappers, and what they hold, among the tensors that are written to: positions of twins. MG_OK or MG_ERR. */
int mg_parts_check(MgCapture *capture, PyObject *written, PyObject *twins);

#endif
