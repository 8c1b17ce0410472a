/* Effects: the writes to outside that an entry makes when its graph has run. */
#ifndef MG_EFFECT_H
#define MG_EFFECT_H

#include "base/magneto.h"

typedef enum {
    MG_EFFECT_DICT_SET, /* target[key] = value, or the deletion of key if value is -1 */
    MG_EFFECT_SLOT_SET, /* the slot `key` of target */
    MG_EFFECT_GRAD_SET, /* the gradient of the tensor target, by the descriptor `key`; None if value is -1 */
    MG_EFFECT_CELL_SET,
    MG_EFFECT_LIST_TAIL,   /* target[index:] = value */
    MG_EFFECT_LIST_EXTEND, /* value comes behind what is there: other threads may have added to it meanwhile */
    MG_EFFECT_REPLACE,     /* the whole content of a dict or set becomes that of value */
} MgEffectKind;

/* A write to outside that captured code made. */
typedef struct {
    MgEffectKind kind;
    int target;    /* register */
    PyObject *key; /* strong; NULL if there is none, or if each call has its own: a tensor, a new object */
    int own_key;   /* then, a node of the plan, or -1 */
    Py_ssize_t index;
    int value;      /* node of the plan, or -1 */
    Py_hash_t hash; /* of the key, if Python code made it and it is the same in each call; else -1 */
} MgEffect;

#endif
