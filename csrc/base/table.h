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

/* The slot of the pair, or the free one where it would be. */
static inline MgSlot *
mg_table_slot(MgSlot *slots, size_t mask, uintptr_t first, uintptr_t second)
{
    uint64_t hash = ((uint64_t)first * 0x9E3779B97F4A7C15u) ^ ((uint64_t)second * 0xC2B2AE3D27D4EB4Fu);
    size_t i = (size_t)(hash ^ (hash >> 29)) & mask;
    while (slots[i].value != NULL && !(slots[i].first == first && slots[i].second == second)) {
        i = (i + 1) & mask;
    }
    return &slots[i];
}

/* The value for the pair, or NULL. */
static inline void *
mg_table_get(const MgTable *table, const void *first, const void *second)
{
    return table->slots == NULL ? NULL
                                : mg_table_slot(table->slots, table->mask, (uintptr_t)first, (uintptr_t)second)->value;
}

/* Sets the value (not NULL) for the pair. MG_ERR if memory is out. */
int mg_table_set(MgTable *table, const void *first, const void *second, void *value);

/* Frees the slots, not what they point to. */
void mg_table_free(MgTable *table);

#endif
