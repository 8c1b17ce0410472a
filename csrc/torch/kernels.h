/* Kernels that Python code has registered with torch's dispatcher. */
#ifndef MG_KERNELS_H
#define MG_KERNELS_H

#include "cpython/cpython311.h"

/* What the set of registrations looked like; zeros at first. */
typedef struct {
    const void *table; /* borrowed from the set, and only compared */
    Py_ssize_t fill, used;
} MgKernels;

extern PySetObject *mg_kernels_registered; /* strong: torch.library's; NULL before mg_kernels_init */

int mg_kernels_init(void);

/* 1 if a kernel has been registered or removed since `known` was looked at, which is brought up to date. */
static inline int
mg_kernels_renew(MgKernels *known)
{
    PySetObject *set = mg_kernels_registered;
    if (MG_LIKELY(set->table == known->table && set->fill == known->fill && set->used == known->used)) {
        return 0;
    }
    *known = (MgKernels){.table = set->table, .fill = set->fill, .used = set->used};
    return 1;
}

/* 1 if there is a kernel for an overload of one of these operators of torch's own ("add"). */
int mg_kernels_has(const char *const *names, int count);

/* How many of torch's own operators have a kernel of the program's for tensors in the CPU's memory; whether this one does. */
int mg_kernels_count(void);
int mg_kernels_replaces(const char *name);

#endif
