/* Which tensors share a storage: what a graph does to one of them is seen through the others.
 *
 * Our own replay executes the operations of the program on the program's tensors: data that is written through one is read
 * through the other, whichever they are. What captured code was told of a tensor without its data is another matter:
 *
 * - An operation that changes the metadata of a tensor (`x.t_()`) changes that of one object: it must be no other object
 *   that captured code has seen.
 * - An operation in place that has a tensor come to require grad (`x.mul_(weight)`) does so to all views of the same
 *   tensor. Tensors from outside that share its storage stop the capture; those that don't must not come to do so.
 *
 * A backend that makes a graph without writes, as AOTAutograd does, copies data into its inputs afterwards: whichever it
 * writes to must share its storage with no other input, unless it did when it was captured. See _backends.py.
 *
 * Graphs that change nothing, or data only and are replayed, have no such guards. */
#include "entry/storage.h"

#include "cpython/aside.h"
#include "ir/alias.h"
#include "torch/layout.h"

uintptr_t
mg_storage_of(PyObject *tensor)
{
    if (MG_LIKELY(mg_tensor_layout.known && mg_tensor_layout.storage != 0)) {
        return (uintptr_t)mg_word_at(mg_tensor_impl(tensor), mg_tensor_layout.storage);
    }
    mg_collections_hold(); /* guards ask */
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    PyObject *address = storage == NULL ? NULL : PyObject_GetAttrString(storage, "_cdata");
    uintptr_t result = address == NULL ? 0 : (uintptr_t)PyLong_AsVoidPtr(address);
    mg_error_clear();
    Py_XDECREF(address);
    Py_XDECREF(storage);
    mg_aside_end(&aside);
    mg_collections_release();
    return result;
}

/* ---- the inputs of a graph ---- */

int
mg_storages_make(MgStorages *storages, int count)
{
    if (storages->count == count) {
        return MG_OK;
    }
    mg_storages_free(storages);
    storages->written = PyMem_Calloc((size_t)count + 1, 1);
    storages->groups = PyMem_Malloc(sizeof(int) * ((size_t)count + 1));
    storages->inputs = PyMem_Malloc(sizeof(PyObject *) * ((size_t)count + 1));
    if (storages->written == NULL || storages->groups == NULL || storages->inputs == NULL) {
        mg_storages_free(storages);
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int i = 0; i < count; i++) {
        storages->groups[i] = -1;
    }
    storages->count = count;
    return MG_OK;
}

void
mg_storages_free(MgStorages *storages)
{
    PyMem_Free(storages->written);
    PyMem_Free(storages->groups);
    PyMem_Free(storages->inputs);
    *storages = (MgStorages){0};
}

/* The first input that was found with a storage. */
typedef struct {
    uintptr_t storage;
    int input;
    int written; /* one of those that were found is */
} Found;

int
mg_storages_hold(const MgStorages *storages, PyObject *const *inputs)
{
    enum { SMALL = 64 };
    Found small[SMALL];
    size_t room = SMALL;
    while (room < 2 * (size_t)storages->count) {
        room *= 2;
    }
    Found *table = room == SMALL ? small : PyMem_Malloc(sizeof(Found) * room);
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(table, 0, sizeof(Found) * room);
    int good = 1;
    for (int i = 0; good && i < storages->count; i++) {
        uintptr_t storage = mg_torch_is_tensor(inputs[i]) ? mg_storage_of(inputs[i]) : 0;
        size_t at = (storage >> 4 ^ storage >> 12) & (room - 1);
        while (storage != 0 && table[at].storage != 0 && table[at].storage != storage) {
            at = (at + 1) & (room - 1);
        }
        Found *found = &table[at];
        if (storage == 0) {
            continue;
        }
        if (found->storage == 0) {
            *found = (Found){storage, i, storages->written[i]};
            continue;
        }
        found->written |= storages->written[i];
        int group = storages->groups[i];
        good = !found->written || (group >= 0 && group == storages->groups[found->input]);
    }
    if (table != small) {
        PyMem_Free(table);
    }
    return good;
}

/* ---- what a capture notes ---- */

/* The twin of a tensor from outside that captured code has used; NULL if the record is of anything else. */
static MgTwin *
used_tensor(const MgOutside *record)
{
    if (record->kind != MG_KIND_TENSOR || record->provisional || record->view == NULL || !mg_is_twin(record->view)) {
        return NULL;
    }
    MgTwin *twin = mg_twin_of(record->view);
    return twin->node >= 0 && twin->real != NULL ? twin : NULL;
}

/* MG_ERR if captured code uses another tensor from outside that has the storage of one that came to require grad. */
static int
check_storage(MgCapture *capture, const MgTwin *changed, const MgTwin *other)
{
    if (changed == other || changed->real == other->real || !(changed->changes & MG_CHANGED_HISTORY) ||
        (other->changes & MG_CHANGED_HISTORY) || mg_storage_of(changed->real) == 0 ||
        mg_storage_of(changed->real) != mg_storage_of(other->real)) {
        return MG_OK;
    }
    return mg_capture_abort(capture, MG_REASON_BACKEND,
                            "a tensor whose memory another one shares comes to require grad");
}

int
mg_storage_note(MgCapture *capture, MgTwin *twin, int changes)
{
    MgTwin *member = twin;
    do {
        int seen = member == twin ? changes : changes & ~MG_CHANGED_OBJECT;
        member->changes |= seen;
        capture->graph.changes |= member->source == NULL ? 0 : seen;
        for (int i = 0; (seen & MG_CHANGED_HISTORY) && member->real != NULL && i < capture->met.record_count; i++) {
            const MgTwin *other = used_tensor(capture->met.record_list[i]);
            if (other != NULL && check_storage(capture, member, other) < 0) {
                return MG_ERR;
            }
        }
        member = member->next;
    } while (member != twin);
    return MG_OK;
}

int
mg_storage_meet(MgCapture *capture, const MgTwin *twin)
{
    for (int i = 0;
         (capture->graph.changes & MG_CHANGED_HISTORY) && twin->real != NULL && i < capture->met.record_count; i++) {
        const MgTwin *changed = used_tensor(capture->met.record_list[i]);
        if (changed != NULL && check_storage(capture, changed, twin) < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

int
mg_storage_guard(MgCapture *capture)
{
    if (!(capture->graph.changes & (MG_CHANGED_OBJECT | MG_CHANGED_HISTORY))) {
        return MG_OK;
    }
    MgSource **sources = PyMem_Calloc((size_t)capture->met.record_count + 1, sizeof(MgSource *));
    int total = 0, count = 0, result = MG_OK;
    if (sources == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    for (int changed = 1; changed >= 0; changed--) { /* those first */
        for (int i = 0; i < capture->met.record_count; i++) {
            const MgTwin *twin = used_tensor(capture->met.record_list[i]);
            if (twin == NULL || changed != ((twin->changes & (MG_CHANGED_OBJECT | MG_CHANGED_HISTORY)) != 0)) {
                continue;
            }
            sources[total++] = capture->met.record_list[i]->source;
            if ((capture->graph.changes & MG_CHANGED_HISTORY) && capture->graph.nodes[twin->node].users == 0) {
                capture->graph.nodes[twin->node].users++; /* it is looked at before each run */
            }
        }
        count = changed ? total : count;
    }
    if (count > 0 && total > 1) {
        result = mg_capture_guard_apart(capture, sources, count, total);
    }
    PyMem_Free(sources);
    return result;
}
