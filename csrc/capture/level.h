/* How deep a capture goes into containers within containers. */
#ifndef MG_LEVEL_H
#define MG_LEVEL_H

#include "capture/capture.h"
#include "cpython/depth.h"

/* A walker of the capture goes one level down. MG_ERR, and the capture is aborted, if that is too deep; if not, the caller
 * calls mg_depth_leave when it is up again. */
int mg_depth_enter(MgCapture *capture);

static inline void
mg_depth_leave(MgCapture *capture)
{
    capture->level--;
}

#endif
