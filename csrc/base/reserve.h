/* Memory that is kept back for what can't be undone any more. */
#ifndef MG_RESERVE_H
#define MG_RESERVE_H

#include "base/magneto.h"

/* Keeps memory back, if none is. Called once at the start. */
void mg_reserve_fill(void);

/* 1 if a MemoryError is set where there is no way back: it is cleared, and what is kept back is free to be used until
 * mg_reserve_close. 0 for other exceptions, and if `opened`, which becomes 1, was 1 already. */
int mg_reserve_open(int *opened);

/* The same in any case, for what must be done whatever has happened. */
void mg_reserve_use(int *opened);
void mg_reserve_close(int opened);

/* As PyMem_Malloc, from what is kept back if there is nothing else. NULL with a MemoryError. */
void *mg_reserve_malloc(size_t size);

#endif
