/* A hash table from a pair of words to a pointer: identity maps, interning, overlays. */
#ifndef MG_TABLE_H
#define MG_TABLE_H

#include "base/magneto.h"

typedef struct {
    uintptr_t first;
    uintptr_t second;
    void *value; /* NULL: the slot is free */
} MgSlot;

typedef struct {
    MgSlot *slots; /* owned; a power of two of them, or NULL */
    size_t mask;
    size_t used;
} MgTable;

/* The value for the pair, or NULL. */
void *mg_table_get(const MgTable *table, const void *first, const void *second);

/* Sets the value (not NULL) for the pair. MG_ERR if memory is out. */
int mg_table_set(MgTable *table, const void *first, const void *second, void *value);

/* Frees the slots, not what they point to. */
void mg_table_free(MgTable *table);

#endif
