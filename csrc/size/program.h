/* Guards on sizes as a flat program: what is run at each call. */
#ifndef MG_SIZE_PROGRAM_H
#define MG_SIZE_PROGRAM_H

#include "size/facts.h"

typedef struct MgSizeProgram MgSizeProgram;

/* The program for the ranges and guards of a capture. NULL with an exception. */
MgSizeProgram *mg_size_program_new(const MgFacts *facts);
void mg_size_program_free(MgSizeProgram *program);

/* Whether values of the symbols fit: -1 if all ranges and guards hold; else the number of what does not hold: that of a symbol
 * whose range it is, or of a guard plus the number of symbols. A value that overflows does not fit. */
int mg_size_program_run(const MgSizeProgram *program, const int64_t *symbols);

/* How many steps it has, for tests. */
int mg_size_program_count(const MgSizeProgram *program);

#endif
