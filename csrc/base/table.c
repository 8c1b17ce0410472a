/* A hash table from a pair of words to a pointer: open addressing, no removal. */
#include "base/table.h"

static int
grow(MgTable *table)
{
    size_t size = table->slots == NULL ? 16 : (table->mask + 1) * 2;
    MgSlot *slots = PyMem_Calloc(size, sizeof(MgSlot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (size_t i = 0; table->slots != NULL && i <= table->mask; i++) {
        if (table->slots[i].value != NULL) {
            *mg_table_slot(slots, size - 1, table->slots[i].first, table->slots[i].second) = table->slots[i];
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
    MgSlot *slot = mg_table_slot(table->slots, table->mask, (uintptr_t)first, (uintptr_t)second);
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
