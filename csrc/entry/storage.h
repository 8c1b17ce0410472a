/* Which tensors share a storage: what a graph does to one of them is seen through the others. */
#ifndef MG_STORAGE_H
#define MG_STORAGE_H

#include "capture/capture.h"

/* What an operation may change: the object's own metadata; data; whether it and its views require grad. */
enum { MG_CHANGED_OBJECT = 1, MG_CHANGED_DATA = 2, MG_CHANGED_HISTORY = 4 };

/* What the inputs of a graph must have in common, and what not. */
typedef struct {
    int count;        /* of inputs; 0 if nothing is asked of them */
    uint8_t *written; /* owned: what the graph does to the input is seen through others with its storage */
    int *groups; /* owned: inputs of one group shared a storage when they were captured; -1 for those that did not */
    PyObject **inputs; /* owned: room for them */
} MgStorages;

/* The storage of a tensor as a number; 0 if it has none. */
uintptr_t mg_storage_of(PyObject *tensor);

/* Room for what is asked of so many inputs: nothing, as yet. MG_OK or MG_ERR. */
int mg_storages_make(MgStorages *storages, int count);
void mg_storages_free(MgStorages *storages);

/* 1 if no input that is written to shares its storage with another that is not of its group; 0 or -1. Runs no code. */
int mg_storages_hold(const MgStorages *storages, PyObject *const *inputs);

/* Notes what an operation did to a tensor: MG_CHANGED_.... MG_ERR if that shows in a tensor from outside, and
 * can't be followed. */
int mg_storage_note(MgCapture *capture, MgTwin *twin, int changes);

/* The same for a tensor from outside that captured code comes to use after such operations. */
int mg_storage_meet(MgCapture *capture, const MgTwin *twin);

/* Guards that tensors whose metadata the graph changes are no others, and keeps as inputs those whose storages matter. */
int mg_storage_guard(MgCapture *capture);

#endif
