/* How deep a capture goes into containers within containers: the C stack is bounded, and so is what walkers follow. */
#include "capture/level.h"

int
mg_depth_enter(MgCapture *capture)
{
    if (capture->level >= MG_MOST_LEVELS || mg_stack_is_short()) {
        return mg_capture_abort(capture, MG_REASON_NESTED, NULL);
    }
    capture->level++;
    assert(capture->level > 0);
    return MG_OK;
}
