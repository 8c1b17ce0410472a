/* Watches: whether a dict, a type, or any dict of the process has changed since it was looked at.
 *
 * A watch is a word: it has another value after each change, and no value twice. Here the words are CPython's own version
 * tags. Versions that have none move a word of ours from a watcher; who uses watches need not know. */
#ifndef MG_WATCH_H
#define MG_WATCH_H

#include "cpython/cpython311.h"

static inline uint64_t
mg_watch_dict(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_version_tag;
}

/* 0 if the type can't be watched, or not yet: see mg_watch_type_start. */
static inline unsigned int
mg_watch_type(const PyTypeObject *type)
{
    return type->tp_version_tag;
}

/* Where these lie, for whoever compares many of them without a call: eight bytes that start with the word. */
static inline const void *
mg_watch_dict_word(PyObject *dict)
{
    return &((PyDictObject *)dict)->ma_version_tag;
}

static inline const void *
mg_watch_type_word(const PyTypeObject *type)
{
    return &type->tp_version_tag;
}

/* Starts to watch a type. Its word, or 0 if it can't be watched. */
static inline unsigned int
mg_watch_type_start(PyTypeObject *type)
{
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) {
        (void)_PyType_Lookup(type, MG_STRING("__doc__")); /* a look-up gives a type its tag */
    }
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
}

#define MG_WATCH_UNKNOWN UINT64_MAX

/* How often dicts were made or changed in this process, but for those that are known to be of no account. Two equal numbers
 * say that no other dict was changed or made in between. MG_WATCH_UNKNOWN if it can't be told. */
uint64_t mg_watch_epoch(void);

/* Dicts that are made for a call: start, note each when it was made or changed, with the word that it had before (0 if it is
 * new), and end. */
typedef struct {
    uint64_t asked; /* how often the number had been asked for at the start */
    uint64_t count;
} MgOwnChanges;

MgOwnChanges mg_watch_own_start(void);
void mg_watch_own_end(const MgOwnChanges *own);

static inline void
mg_watch_own_note(MgOwnChanges *own, PyObject *dict, uint64_t before)
{
    own->count += mg_watch_dict(dict) != before;
}

#endif
