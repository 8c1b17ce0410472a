/* Guards on sizes that other guards imply. */
#ifndef MG_PRUNE_H
#define MG_PRUNE_H

#include "size/facts.h"

/* Leaves out guards on an expression that stronger ones on it imply: a loop that counts asks for one at each turn. MG_OK or
 * MG_ERR. */
int mg_facts_prune(MgFacts *facts);

#endif
