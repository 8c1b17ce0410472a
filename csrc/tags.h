/* The version tags of dicts: whether any dict of the process has changed. */
#ifndef MG_TAGS_H
#define MG_TAGS_H

#include "cpython311.h"

static inline uint64_t
mg_dict_tag(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_version_tag;
}

#define MG_TAGS_UNKNOWN UINT64_MAX

/* How often dicts were made or changed in this process, but for those that are known to be of no account. Two equal numbers
 * say that no other dict was changed or made in between. MG_TAGS_UNKNOWN if it can't be told. */
uint64_t mg_tags_count(void);

/* Dicts that are made for a call: start, note each when it was made or changed, with the tag that it had before (0 if it is
 * new), and end. */
typedef struct {
    uint64_t asked; /* how often the number had been asked for at the start */
    uint64_t count;
} MgNewTags;

MgNewTags mg_tags_start(void);
void mg_tags_end(const MgNewTags *new);

static inline void
mg_tags_note(MgNewTags *new, PyObject *dict, uint64_t before)
{
    new->count += mg_dict_tag(dict) != before;
}

#endif
