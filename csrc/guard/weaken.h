/* What a guard program need not keep alive. */
#ifndef MG_WEAKEN_H
#define MG_WEAKEN_H

#include "guard/guard.h"

/* Called when a program is compiled: refers weakly to keys of dicts. MG_OK or MG_ERR. */
int mg_guard_weaken(MgProgram *program, MgCapture *capture);

#endif
