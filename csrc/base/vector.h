/* Arrays that grow. */
#ifndef MG_VECTOR_H
#define MG_VECTOR_H

#include "base/magneto.h"

/* Makes `*items`, an array with room for `*room` items of `size` bytes, twice as long, or `first` items if it has none. MG_OK,
 * or MG_ERR with a MemoryError: then it is as it was. */
int mg_vector_grow(void *items, int *room, size_t size, int first);

/* The same, if the array is full. */
#define MG_VECTOR_RESERVE(items, count, room, first)                                                                    \
    ((count) < (room) ? MG_OK : mg_vector_grow(&(items), &(room), sizeof(*(items)), (first)))

#endif
