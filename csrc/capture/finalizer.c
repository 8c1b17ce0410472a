/* Finalizers: what the program notices when an outside object goes, and where it would go.
 *
 * While a capture is under way outside objects stay: writes are held back. So an object whose last reference captured code
 * lets go of would be finalized when the effects are applied, late, and code between the two would not see what its
 * finalizer does. Therefore a capture stops before the instruction that lets go of a reference from outside, if nothing
 * else outside refers to the object, and its finalizer, or that of something that goes with it, would run.
 *
 * How many references there are outside is known when a record is made: captured code has none of its own yet. Each that
 * captured code lets go of is counted (`capture->finals.drops`), by a write (mg_finalizer_drop), from a slot of the root frame
 * (mg_finalizer_let_go), or from a shadow, whose methods run as they are (mg_finalizer_check). References that captured code
 * has itself do not count: they may go at any instruction.
 *
 * What is written over on later calls is another object: guards say that it has no finalizer (MG_GUARD_QUIET). */
#include "capture/finalizer.h"

#include "capture/outside.h"
#include "cpython/aside.h"
#include "cpython/except.h"
#include "cpython/shadow.h"
#include "cpython/watch.h"
#include "ir/effect.h"

enum { LOOKED_AT = 256, MOST_OBJECTS = 1 << 16 };

int
mg_finalizer_has(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyGen_Type || type == &PyCoro_Type) {
        return ((PyGenObject *)object)->gi_frame_state < FRAME_COMPLETED;
    }
    if (PyType_SUPPORTS_WEAKREFS(type)) {
        PyObject **list = PyObject_GET_WEAKREFS_LISTPTR(object);
        PyWeakReference *reference = list == NULL ? NULL : (PyWeakReference *)*list;
        for (; reference != NULL; reference = reference->wr_next) {
            if (reference->wr_callback != NULL) {
                return 1;
            }
        }
    }
    return type->tp_finalize != NULL || type->tp_del != NULL;
}

static int
within(MgCapture *capture, PyObject *object, int *room)
{
    PyObject *item;
    if (capture != NULL && mg_outside_of(capture, object) != NULL) {
        capture = NULL; /* what an outside object has is outside */
    }
    if (PyList_CheckExact(object) || PyTuple_Check(object)) {
        for (Py_ssize_t i = 0; i < Py_SIZE(object) && --*room > 0; i++) {
            item = PyList_Check(object) ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i);
            if (within(capture, item, room)) {
                return 1;
            }
        }
    }
    else if (PyDict_CheckExact(object)) {
        Py_ssize_t position = 0;
        while (--*room > 0 && PyDict_Next(object, &position, NULL, &item)) {
            if (within(capture, item, room)) {
                return 1;
            }
        }
    }
    if (capture == NULL && PyWeakref_Check(object)) { /* without it nobody is called when what it refers to goes */
        return ((PyWeakReference *)object)->wr_callback != NULL;
    }
    return capture == NULL && mg_finalizer_has(object);
}

int
mg_finalizer_within(MgCapture *capture, PyObject *object)
{
    int room = LOOKED_AT;
    return within(capture, object, &room);
}

/* ---- what goes with a reference ---- */

/* 1 if code may run when this object goes. Of a generator that is only so where it stands in a block with a handler, or
 * waits for something else; what its locals are is looked at by itself. */
static int
acts(PyObject *object)
{
    if (!Py_IS_TYPE(object, &PyGen_Type)) {
        return mg_finalizer_has(object);
    }
    PyGenObject *generator = (PyGenObject *)object;
    if (generator->gi_frame_state == FRAME_CREATED || generator->gi_frame_state >= FRAME_COMPLETED) {
        return 0;
    }
    MgHandler handler;
    MgFrame *frame = mg_generator_frame(generator);
    if (generator->gi_frame_state != FRAME_SUSPENDED ||
        mg_except_find(mg_frame_code(frame), mg_frame_lasti(frame), &handler)) {
        return 1;
    }
    PyObject *awaited = mg_coroutine_is_awaiting(object) ? mg_frame_slots(frame)[mg_frame_depth(frame) - 1] : NULL;
    return awaited != NULL && !Py_IS_TYPE(awaited, &PyGen_Type) &&   /* which loses a reference itself */
           PyType_HasFeature(Py_TYPE(awaited), Py_TPFLAGS_HEAPTYPE); /* it may have a method close() */
}

/* A look at all that goes with an object. */
typedef struct {
    MgCapture *capture;  /* NULL on a later call */
    MgTable *drops;      /* object -> how many references to it have been dropped */
    const MgTable *base; /* the same, of what was dropped before, and not by this look; or NULL */
    int forced;          /* the first object goes, whoever refers to it */
    int room, level;
    int found;
    int failed; /* no memory */
} Fall;

/* A visitor of what has lost one reference: if it was the last one outside, it goes, and what it refers to loses one. */
static int
fall_to(PyObject *object, void *argument)
{
    Fall *fall = argument;
    PyTypeObject *type = Py_TYPE(object);
    int forced = fall->forced;
    fall->forced = 0;
    if (mg_is_plain_value(object) || mg_is_singleton(object) || PyModule_Check(object) || type == &PyCode_Type ||
        (PyType_Check(object) && !(((PyTypeObject *)object)->tp_flags & Py_TPFLAGS_HEAPTYPE))) {
        return 0; /* goes unnoticed, or never */
    }
    MgOutside *record = fall->capture == NULL ? NULL : mg_outside_find(fall->capture, object);
    Py_ssize_t all = record != NULL ? record->references : Py_REFCNT(object);
    Py_ssize_t gone = 1 + (Py_ssize_t)(intptr_t)mg_table_get(fall->drops, object, NULL);
    if (Py_REFCNT(object) > 1 && mg_table_set(fall->drops, object, NULL, (void *)(intptr_t)gone) < 0) {
        fall->failed = 1;
        return 1;
    }
    gone += fall->base == NULL ? 0 : (Py_ssize_t)(intptr_t)mg_table_get(fall->base, object, NULL);
    if (!forced && (gone < all || (gone > 1 && gone > all))) {
        return 0; /* it is still there, or was gone before */
    }
    if (acts(object) || (fall->capture != NULL && mg_table_get(&fall->capture->finals.storied, object, NULL) != NULL) ||
        --fall->room <= 0 || fall->level >= MG_MOST_LEVELS) {
        fall->found = 1;
        return 1;
    }
    traverseproc traverse = PyObject_IS_GC(object) ? type->tp_traverse : NULL;
    fall->level++;
    int stop = traverse == NULL ? 0 : traverse(object, fall_to, fall);
    fall->level--;
    return stop;
}

/* 1 if an object from outside, or something that goes with it, has a finalizer. 0, or -1 with an exception. */
static int
would_fall(MgCapture *capture, PyObject *object)
{
    MgTable drops = {0};
    Fall fall = {
        .capture = capture, .drops = &drops, .base = &capture->finals.drops, .forced = 1, .room = MOST_OBJECTS};
    fall_to(object, &fall);
    mg_table_free(&drops);
    return fall.failed ? -1 : fall.found;
}

static int
stop(MgCapture *capture)
{
    return mg_capture_abort(capture, MG_REASON_REBUILD, "an object with a finalizer");
}

/* Takes note that a reference is dropped. 1 if a finalizer would run, 0 or -1. */
static int
drop(MgCapture *capture, PyObject *object)
{
    Fall fall = {.capture = capture, .drops = &capture->finals.drops, .room = MOST_OBJECTS};
    fall_to(object, &fall);
    return fall.failed ? -1 : fall.found;
}

int
mg_finalizer_drop(MgCapture *capture, PyObject *old)
{
    if (old == NULL || mg_is_plain_value(old) || mg_is_singleton(old)) {
        return MG_OK;
    }
    int found = drop(capture, old);
    return found <= 0 ? found : stop(capture);
}

/* On later calls what lies at a source must have no finalizer; see MgQuiet. */
static int
add_quiet(MgCapture *capture, MgSource *source, Py_ssize_t index)
{
    void *tag = MG_GUARDED(index < 0 ? MG_GUARDED_QUIET : MG_GUARDED_QUIET_ITEMS);
    if (mg_table_get(&capture->reads.guarded, source, tag) != NULL) {
        return MG_OK;
    }
    MgQuiet *quiets =
        PyMem_Realloc(capture->finals.quiets, sizeof(MgQuiet) * (size_t)(capture->finals.quiet_count + 1));
    if (quiets == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->finals.quiets = quiets;
    quiets[capture->finals.quiet_count++] = (MgQuiet){source, index};
    return mg_table_set(&capture->reads.guarded, source, tag, source);
}

/* Guards that what lies in a slot of the root has no finalizer. */
static int
guard_slot(MgCapture *capture, PyCodeObject *code, int slot)
{
    PyObject *name = slot < code->co_nlocalsplus ? Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, slot))
                                                 : PyUnicode_FromFormat("stack%d", slot - code->co_nlocalsplus);
    MgSource *source = name == NULL ? NULL : mg_source_get(&capture->reads.sources, MG_SOURCE_LOCAL, NULL, name, slot);
    Py_XDECREF(name);
    return source == NULL ? MG_ERR : add_quiet(capture, source, -1);
}

int
mg_finalizer_let_go(MgCapture *capture, MgFrame *frame, int slot)
{
    if (MG_LIKELY(!capture->breaks.point || frame != capture->root || slot >= capture->argument_count)) {
        return MG_OK;
    }
    PyObject *value = mg_frame_slots(frame)[slot], *had = capture->arguments[slot];
    if (value == NULL || had == NULL || mg_is_plain_value(had) || mg_is_singleton(had) ||
        mg_outside_identity(capture, value) != had) {
        return MG_OK;
    }
    return guard_slot(capture, mg_frame_code(frame), slot);
}

/* ---- what is watched ---- */

/* Watches an object, which a shadow, or the frame if `record` is NULL, has so many times. */
static int
add_watch(MgCapture *capture, MgOutside *record, PyObject *item, Py_ssize_t count)
{
    for (int i = 0; i < capture->finals.watch_count; i++) {
        if (capture->finals.watches[i].record == record && capture->finals.watches[i].item == item) {
            capture->finals.watches[i].count = count;
            return MG_OK;
        }
    }
    MgWatch *watches =
        PyMem_Realloc(capture->finals.watches, sizeof(MgWatch) * (size_t)(capture->finals.watch_count + 1));
    if (watches == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    capture->finals.watches = watches;
    watches[capture->finals.watch_count++] = (MgWatch){record, Py_NewRef(item), count, 0};
    return MG_OK;
}

/* How often an outside object lies in some slots, or in tuples and dicts there that captured code has made, such as *args. */
static Py_ssize_t
count_slots(MgCapture *capture, PyObject **slots, Py_ssize_t count, PyObject *item, int level)
{
    Py_ssize_t found = 0, position = 0;
    PyObject *value;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (slots[i] == NULL) {
            continue;
        }
        if (slots[i] == item || mg_outside_identity(capture, slots[i]) == item) {
            found++;
        }
        else if (level > 0 || mg_outside_of(capture, slots[i]) != NULL) {
            continue;
        }
        else if (PyTuple_CheckExact(slots[i])) {
            PyObject **items = ((PyTupleObject *)slots[i])->ob_item;
            found += count_slots(capture, items, PyTuple_GET_SIZE(slots[i]), item, 1);
        }
        else if (PyDict_CheckExact(slots[i])) {
            for (position = 0; PyDict_Next(slots[i], &position, NULL, &value);) {
                found += count_slots(capture, &value, 1, item, 1);
            }
        }
    }
    return found;
}

/* Notes a tensor whose storage has a Python object with a finalizer, or that refers to one: nothing leads from one to the
 * other that can be visited. MG_OK or MG_ERR. */
static int
note_storage(MgCapture *capture, PyObject *tensor)
{
    MgAside aside;
    mg_aside_begin(&aside);
    PyObject *storage = PyObject_CallMethodNoArgs(tensor, MG_STRING("untyped_storage"));
    if (storage == NULL) {
        mg_error_clear(); /* it has none */
    }
    mg_aside_end(&aside);
    int falls = storage == NULL ? 0 : would_fall(capture, storage);
    Py_XDECREF(storage);
    return falls <= 0 ? falls : mg_table_set(&capture->finals.storied, tensor, NULL, tensor);
}

int
mg_finalizer_watch_frame(MgCapture *capture, PyCodeObject *code)
{
    for (int i = 0; i < capture->argument_count; i++) {
        PyObject *value = capture->arguments[i];
        if (value == NULL || mg_is_plain_value(value) || mg_is_singleton(value)) {
            continue;
        }
        int falls = mg_torch_is_tensor(value) && note_storage(capture, value) < 0 ? -1 : would_fall(capture, value);
        int status = falls < 0 ? MG_ERR
                     : falls   ? add_watch(capture, NULL, value,
                                           count_slots(capture, capture->arguments, capture->argument_count, value, 1))
                     : i >= code->co_nlocalsplus ? guard_slot(capture, code, i) /* any instruction may pop it */
                                                 : MG_OK;
        if (status < 0) {
            return MG_ERR;
        }
    }
    return MG_OK;
}

/* How often the captured frames have an object. The arguments of a call are the callee's alone. */
static Py_ssize_t
count_frames(MgCapture *capture, MgFrame *frame, PyObject **sp, PyObject *item)
{
    MgFrame *root = capture->root;
    Py_ssize_t count = count_slots(capture, mg_frame_slots(root), capture->finals.root_depth, item, 0);
    if (frame != root) {
        count += count_slots(capture, mg_frame_slots(frame), sp - mg_frame_slots(frame), item, 0);
        for (frame = mg_frame_caller(frame); frame != NULL && frame != root; frame = mg_frame_caller(frame)) {
            count += count_slots(capture, mg_frame_slots(frame), mg_frame_code(frame)->co_nlocalsplus, item, 0);
        }
    }
    return count;
}

/* How often a container has an item, or a key. */
static Py_ssize_t
occurrences(PyObject *container, PyObject *item)
{
    Py_ssize_t count = 0;
    PyObject *key, *value;
    if (PyList_Check(container)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); i++) {
            count += PyList_GET_ITEM(container, i) == item;
        }
    }
    else if (PyDict_Check(container)) {
        Py_ssize_t position = 0;
        while (PyDict_Next(container, &position, &key, &value)) {
            count += (key == item) + (value == item);
        }
    }
    else if (PyAnySet_Check(container)) {
        Py_ssize_t position = 0;
        Py_hash_t hash;
        while (_PySet_NextEntry(container, &position, &key, &hash)) {
            count += key == item;
        }
    }
    else {
        for (Py_ssize_t i = 0; i < Py_SIZE(container); i++) {
            count += mg_deque_item(container, i) == item;
        }
    }
    return count;
}

/* What a shadow has in place of an item of its original. Borrowed. */
static PyObject *
in_shadow(MgCapture *capture, PyObject *item)
{
    MgOutside *record = mg_outside_find(capture, item);
    return record == NULL || record->view == NULL ? item : record->view;
}

/* Watches one item of a container, if it has a finalizer. */
static int
watch_item(MgCapture *capture, MgOutside *record, PyObject *item)
{
    if (mg_is_plain_value(item) || mg_is_singleton(item)) {
        return MG_OK;
    }
    int falls = would_fall(capture, item);
    if (falls <= 0) {
        return falls;
    }
    return add_watch(capture, record, item, occurrences(record->view, in_shadow(capture, item)));
}

int
mg_finalizer_watch(MgCapture *capture, MgOutside *record)
{
    PyObject *object = record->object;
    int status = MG_OK;
    if (PyDict_Check(object)) {
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (status == MG_OK && PyDict_Next(object, &position, &key, &value)) {
            status = watch_item(capture, record, key) < 0 ? MG_ERR : watch_item(capture, record, value);
        }
        return status;
    }
    if (PyAnySet_Check(object)) {
        Py_ssize_t position = 0;
        PyObject *key;
        Py_hash_t hash;
        while (status == MG_OK && _PySet_NextEntry(object, &position, &key, &hash)) {
            status = watch_item(capture, record, key);
        }
        return status;
    }
    for (Py_ssize_t i = 0; status == MG_OK && i < Py_SIZE(object); i++) {
        status =
            watch_item(capture, record, PyList_Check(object) ? PyList_GET_ITEM(object, i) : mg_deque_item(object, i));
    }
    return status;
}

int
mg_finalizer_check(MgCapture *capture, MgFrame *frame, PyObject **sp, int arguments, long step)
{
    int is_inner = frame != capture->root;
    if (!is_inner) {
        capture->finals.root_depth = sp - mg_frame_slots(frame);
    }
    for (int i = 0; i < capture->finals.watch_count; i++) {
        MgWatch *watch = &capture->finals.watches[i];
        PyObject *shadow = watch->record == NULL ? NULL : watch->record->view;
        if (shadow != NULL && PyDict_Check(shadow)) {
            uint64_t tag = mg_watch_dict(shadow);
            if (tag == watch->tag) {
                continue;
            }
            watch->tag = tag;
        }
        assert((shadow == NULL) == (watch->record == NULL));
        Py_ssize_t count = shadow == NULL ? count_frames(capture, frame, sp, watch->item)
                                          : occurrences(shadow, in_shadow(capture, watch->item));
        for (; watch->count > count; watch->count--) {
            int found = drop(capture, watch->item);
            if (found != 0) {
                if (found > 0 && step > 1 && (capture->finals.dropped == 0 || step - 1 < capture->finals.dropped)) {
                    capture->finals.dropped = step - 1;
                }
                return found < 0 ? MG_ERR : stop(capture);
            }
        }
    }
    capture->finals.root_depth -= is_inner ? 0 : arguments;
    return MG_OK;
}

/* ---- later calls ---- */

int
mg_finalizer_guard(MgCapture *capture, int kind, MgSource *target, PyObject *key, Py_ssize_t index)
{
    MgSource *source = target;
    switch (kind) {
        case MG_EFFECT_LIST_EXTEND:
            return MG_OK;
        case MG_EFFECT_DICT_SET: /* a look-up by another key could run Python code */
            source = mg_is_plain_value(key)
                         ? mg_source_get(&capture->reads.sources, MG_SOURCE_DICT_ITEM, target, key, 0)
                         : target;
            index = 0;
            break;
        case MG_EFFECT_SLOT_SET:
            source = mg_source_get(&capture->reads.sources, MG_SOURCE_ATTR, target, key, 0);
            break;
        case MG_EFFECT_GRAD_SET:
            source = mg_source_get(&capture->reads.sources, MG_SOURCE_GRAD, target, NULL, 0);
            break;
        case MG_EFFECT_CELL_SET:
            source = mg_source_get(&capture->reads.sources, MG_SOURCE_CELL, target, NULL, 0);
            break;
        case MG_EFFECT_LIST_TAIL:
            break;
        default:
            index = 0;
            break;
    }
    if (source == NULL) {
        return MG_ERR;
    }
    if (source != target && source->view != NULL &&
        (mg_is_plain_value(source->view) || mg_is_singleton(source->view))) {
        return MG_OK; /* it is guarded to be that */
    }
    return add_quiet(capture, source, source == target ? index : -1);
}

/* What the items of a container, from `index` on, take with them. */
static void
fall_items(PyObject *container, Py_ssize_t index, Fall *fall)
{
    PyObject *key, *value;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    if (PyDict_Check(container)) {
        while (!fall->found && !fall->failed && PyDict_Next(container, &position, &key, &value)) {
            if (fall_to(key, fall) == 0) {
                fall_to(value, fall);
            }
        }
    }
    else if (PyAnySet_Check(container)) {
        while (!fall->found && !fall->failed && _PySet_NextEntry(container, &position, &key, &hash)) {
            fall_to(key, fall);
        }
    }
    else if (PyList_Check(container) || PyObject_TypeCheck(container, mg_deque_type)) {
        for (Py_ssize_t i = index; !fall->found && !fall->failed && i < Py_SIZE(container); i++) {
            fall_to(PyList_Check(container) ? PyList_GET_ITEM(container, i) : mg_deque_item(container, i), fall);
        }
    }
}

int
mg_finalizer_seal(MgCapture *capture)
{
    int count = capture->finals.quiet_count;
    PyObject *bytes = count == 0 ? NULL : PyBytes_FromStringAndSize(NULL, 2 * (Py_ssize_t)sizeof(int) * count);
    if (bytes == NULL) {
        return count == 0 ? MG_OK : MG_ERR;
    }
    int *numbers = (int *)(void *)PyBytes_AS_STRING(bytes);
    MgSource *last = capture->finals.quiets[0].source;
    for (int i = 0; i < count; i++) {
        MgSource *source = capture->finals.quiets[i].source;
        numbers[i] = source->id;
        numbers[count + i] = (int)Py_MIN(capture->finals.quiets[i].index, INT_MAX);
        last = source->id > last->id ? source : last;
    }
    int result = mg_capture_guard_many(capture, MG_GUARD_QUIET, last, bytes, count);
    Py_DECREF(bytes);
    return result;
}

int
mg_finalizer_are_quiet(PyObject *numbers, Py_ssize_t count, PyObject **registers)
{
    const int *ids = (const int *)(const void *)PyBytes_AS_STRING(numbers), *indexes = ids + count;
    MgTable table = {0};
    Fall fall = {.drops = &table, .room = MOST_OBJECTS};
    for (Py_ssize_t i = 0; i < count && !fall.found && !fall.failed; i++) {
        PyObject *object = registers[ids[i]];
        if (object == NULL) {
            continue; /* nothing is there */
        }
        if (indexes[i] < 0) {
            fall_to(object, &fall);
        }
        else {
            fall_items(object, indexes[i], &fall);
        }
    }
    mg_table_free(&table);
    return fall.failed ? -1 : !fall.found;
}
