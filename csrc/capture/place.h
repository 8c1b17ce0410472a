/* Which line of the user's program asked for a guard. */
#ifndef MG_PLACE_H
#define MG_PLACE_H

#include "capture/capture.h"

/* The number, in MgReads.places, of the place where captured code stands: the innermost frame that is the user's, or the
 * innermost one if none is. -1 if no captured frame is executed, or memory is out: nothing depends on it but texts. */
int mg_place_now(MgCapture *capture);

/* The same for an instruction of a frame that is about to be executed. */
int mg_place_at(MgCapture *capture, MgFrame *frame, const MgUnit *next);

/* The root is about to return: what stops the capture after that is told of this place. */
void mg_place_end(MgCapture *capture);

void mg_places_free(MgCapture *capture);

#endif
