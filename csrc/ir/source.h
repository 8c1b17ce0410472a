/* How an outside object is reached again on a later call. */
#ifndef MG_SOURCE_H
#define MG_SOURCE_H

#include "base/table.h"

typedef enum {
    MG_SOURCE_LOCAL,     /* argument `index` of the captured function; key is its name */
    MG_SOURCE_CONST,     /* the object `key` itself, kept alive: a guarded function, its globals, its cells */
    MG_SOURCE_DICT,      /* the instance dict of base */
    MG_SOURCE_DICT_ITEM, /* base[key] of a dict */
    MG_SOURCE_ITEM,      /* base[index] of a list, a tuple, a deque */
    MG_SOURCE_ATTR,      /* a slot or C-level attribute `key` of base */
    MG_SOURCE_CELL,      /* what the cell base holds */
    MG_SOURCE_TYPE,      /* the type of base */
    MG_SOURCE_LOOKUP,    /* `key` as found along the MRO of the type base */
    MG_SOURCE_FUNCTION,  /* part of a function: index is one of MG_PART_... */
    MG_SOURCE_METHOD,    /* part of a bound method: index 0 function, 1 self */
    MG_SOURCE_SET_ITEM,  /* the index-th item in a set's order */
    MG_SOURCE_PROXY,     /* the dict behind the mappingproxy base */
    MG_SOURCE_MRO,       /* the MRO of the type base */
    MG_SOURCE_GRAD,      /* the gradient of the tensor base, which is a leaf; None is one too */
    MG_SOURCE_SIZE,      /* size `index` of the tensor base, as an int */
    MG_SOURCE_STRIDE,    /* stride `index` of the tensor base, as an int */
    MG_SOURCE_NAME,      /* a name of a class or function: index 0 name, 1 qualname, 2 doc, 3 module (functions only) */
} MgSourceKind;
enum { MG_PART_CODE, MG_PART_DEFAULTS, MG_PART_KWDEFAULTS, MG_PART_CLOSURE, MG_PART_GLOBALS, MG_PART_ANNOTATIONS };

/* What a source leads through that makes sizes and numbers constants, as for TorchDynamo. */
typedef enum {
    MG_FIXED_MODULE = 1,    /* a module: ints */
    MG_FIXED_BUILTIN = 2,   /* the innermost module is of a class of torch's: tensors */
    MG_FIXED_PARAMETER = 4, /* the parameters or buffers of a module: tensors */
} MgFixed;

typedef struct MgSource MgSource;
struct MgSource {
    MgSourceKind kind;
    int id;         /* position in the order of creation; a base always comes before what is built on it */
    MgSource *base; /* borrowed from the pool, NULL for the first two kinds */
    PyObject *key;  /* strong, may be NULL */
    Py_ssize_t index;
    int is_fixed; /* bits of MgFixed */
    PyObject
        *view; /* strong: what captured code sees there, once it was reached; NULL before. Of a size in a guard program,
                     * the int that was loaded last */
    PyObject *raw;  /* borrowed: the object that was found there */
    PyObject *note; /* strong: the text of a constant that can be reached by another way as well, of a cell what it
                     * holds; or NULL */
};

/* All sources of a capture. */
typedef struct {
    MgSource **items; /* owned, in the order of creation */
    int count;
    int room;
    MgTable known; /* (base, key or index) -> source */
} MgSources;

/* The one source of this description; makes it if it is new. Borrowed; NULL if memory is out. */
MgSource *mg_source_get(MgSources *sources, MgSourceKind kind, MgSource *base, PyObject *key, Py_ssize_t index);

/* The object that a source stands for, given the arguments of the call. Borrowed; NULL without an exception if it can't
 * be reached. `base` is what the base source gave. Runs no Python code. */
PyObject *mg_source_load(const MgSource *source, PyObject *base, PyObject *const *arguments);

/* Where a class or function holds a name of it, as in MG_SOURCE_NAME; NULL if it holds none. */
PyObject **mg_source_name_slot(PyObject *base, Py_ssize_t index);

/* Says how a constant, or what a cell that is one holds, shows in texts, unless that has been said. `text` is stolen, and may be NULL with an exception. */
int mg_source_note(MgSource *source, PyObject *text);

/* The source as Python text, as in L['self'].layer.weight; of one that is deeper than this, the last part. New. */
enum { MG_SOURCE_LEVELS = 32 };
PyObject *mg_source_text(const MgSource *source);

void mg_sources_free(MgSources *sources);

#endif
