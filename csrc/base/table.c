/* A hash table from a pair of words to a pointer: open addressing, no removal. */
#include "base/table.h"

static size_t
hash_pair(uintptr_t first, uintptr_t second)
{
    uint64_t hash = (uint64_t)first * 0x9E3779B97F4A7C15u;
    hash ^= (uint64_t)second * 0xC2B2AE3D27D4EB4Fu;
    return (size_t)(hash ^ (hash >> 29));
}

static MgSlot *
find(MgSlot *slots, size_t mask, uintptr_t first, uintptr_t second)
{
    size_t i = hash_pair(first, second) & mask;
    while (slots[i].value != NULL && !(slots[i].first == first && slots[i].second == second)) {
        i = (i + 1) & mask;
    }
    return &slots[i];
}

void *
mg_table_get(const MgTable *table, const void *first, const void *second)
{
    return table->slots == NULL ? NULL : find(table->slots, table->mask, (uintptr_t)first, (uintptr_t)second)->value;
}

static int
grow(MgTable *table)
{
    size_t size = table->slots == NULL ? 64 : (table->mask + 1) * 2;
    MgSlot *slots = PyMem_Calloc(size, sizeof(MgSlot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (size_t i = 0; table->slots != NULL && i <= table->mask; i++) {
        if (table->slots[i].value != NULL) {
            *find(slots, size - 1, table->slots[i].first, table->slots[i].second) = table->slots[i];
        }
    }
    PyMem_Free(table->slots);
    table->slots = slots;
    table->mask = size - 1;
    assert((table->mask & size) == 0 && table->used < table->mask); /* there is always a free slot: searches end */
    return MG_OK;
}

int
mg_table_set(MgTable *table, const void *first, const void *second, void *value)
{
    assert(value != NULL); /* that marks a free slot */
    if (table->slots == NULL || table->used * 2 > table->mask) {
        if (grow(table) < 0) {
            return MG_ERR;
        }
    }
    MgSlot *slot = find(table->slots, table->mask, (uintptr_t)first, (uintptr_t)second);
    if (slot->value == NULL) {
        slot->first = (uintptr_t)first;
        slot->second = (uintptr_t)second;
        table->used++;
    }
    slot->value = value;
    return MG_OK;
}

void
mg_table_free(MgTable *table)
{
    PyMem_Free(table->slots);
    *table = (MgTable){0};
}
