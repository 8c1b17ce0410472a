/* Sources by numbers that are the same in each capture. */
#ifndef MG_PATH_H
#define MG_PATH_H

#include "ir/source.h"

/* Some sources, by numbers that are the same in each capture: what mg_source_path returns. */
typedef struct {
    uint64_t items[16];
    int count;
} MgPaths;

/* A number for a source that follows from its description alone, given that of its base. */
uint64_t mg_source_path(const MgSource *source, uint64_t base);

int mg_paths_have(const MgPaths *paths, uint64_t path);
void mg_paths_add(MgPaths *paths, uint64_t path); /* the oldest makes room */

#endif
