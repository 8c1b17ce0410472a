/* Going on after a break: the rest of a frame is a capture point, with entries of its own. */
#include "api/parts.h"

#include "api/callable.h"
#include "api/miss.h"
#include "api/session.h"
#include "cpython/liveness.h"
#include "policy/control.h"
#include "policy/stance.h"

#include <structmember.h>
#include <time.h>

enum { MANY_TEXTS = 6 }; /* a string is one of a few more often than a number is: entries for so many */
enum { MOST_POINTS = 1024, OLD = 8 * MOST_POINTS };

/* Which slots are empty: those of dead locals are not told apart. MG_ERR if the frame is too large. */
static int
find_empty(MgFrame *frame, int offset, int depth, uint8_t *empty)
{
    if (depth >= 8 * EMPTY_BYTES) {
        return MG_ERR;
    }
    memset(empty, 0, EMPTY_BYTES);
    for (int i = 0; i < depth; i++) {
        if (mg_frame_slots(frame)[i] == NULL &&
            (i >= mg_frame_code(frame)->co_nlocalsplus || mg_code_is_live(mg_frame_code(frame), offset, i))) {
            empty[i / 8] |= (uint8_t)(1 << i % 8);
        }
    }
    return MG_OK;
}

void
mg_compiled_free_points(MgResumePoint *points, int count)
{
    for (int i = 0; i < count; i++) {
        MgResumePoint *point = &points[i];
        for (int k = 0; k < point->entry_count; k++) {
            Py_DECREF(point->entries[k]);
        }
        PyMem_Free(point->entries);
        mg_dispatch_free(point->decision.dispatch);
        PyMem_Free(point->empty);
        Py_DECREF(point->code);
        Py_DECREF(point->globals);
    }
    PyMem_Free(points);
}

/* Makes room if there are too many points: code that is made anew for each call, by exec() say, has its own. Those that
 * have not been looked for for long go. 1 if there is room, 0 if not, -1 with an exception. */
static int
make_room(MgCompiled *self)
{
    if (self->point_count < MOST_POINTS) {
        return 1;
    }
    MgResumePoint *old = PyMem_Malloc(sizeof(MgResumePoint) * MOST_POINTS);
    if (old == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int kept = 0, gone = 0;
    for (int i = 0; i < self->point_count; i++) {
        if (self->looks - self->points[i].used > OLD) {
            old[gone++] = self->points[i];
        }
        else {
            self->points[kept++] = self->points[i];
        }
    }
    self->point_count = kept;
    self->changes++;
    mg_compiled_free_points(old, gone);
    return gone > 0;
}

/* The capture point for a place in a code object; made if it is new. NULL with an exception, or without one if there are
 * too many. */
static MgResumePoint *
find_point(MgCompiled *self, MgFrame *frame, int offset, int depth, const uint8_t *empty)
{
    self->looks++;
    for (int i = 0; i < self->point_count; i++) {
        MgResumePoint *point = &self->points[i];
        if (point->code == mg_frame_code(frame) && point->offset == offset && point->depth == depth &&
            memcmp(point->empty, empty, (size_t)depth / 8 + 1) == 0) {
            point->used = self->looks;
            return point;
        }
    }
    if (make_room(self) <= 0) {
        return NULL;
    }
    MgResumePoint *points = PyMem_Realloc(self->points, sizeof(MgResumePoint) * (size_t)(self->point_count + 1));
    uint8_t *copy = PyMem_Malloc(EMPTY_BYTES);
    if (points != NULL) {
        self->points = points;
    }
    if (points == NULL || copy == NULL) {
        PyMem_Free(copy);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(copy, empty, EMPTY_BYTES);
    self->points[self->point_count] =
        (MgResumePoint){.code = (PyCodeObject *)Py_NewRef((PyObject *)mg_frame_code(frame)),
                        .globals = Py_NewRef(mg_frame_globals(frame)),
                        .offset = offset,
                        .depth = depth,
                        .used = self->looks,
                        .empty = copy};
    return &self->points[self->point_count++];
}

/* None of these entries of a point fits: finds the plain values that two of them do not like. MG_OK or MG_ERR. */
static int
find_changes(PyObject *entries, MgFrame *frame, MgPaths *changes)
{
    MgPaths once = {.count = 0};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++) {
        MgProgram *guards = &((MgEntry *)PyTuple_GET_ITEM(entries, i))->guards;
        PyObject **registers = PyMem_Malloc(sizeof(PyObject *) * (size_t)(guards->step_count + 1));
        if (registers == NULL) {
            PyErr_NoMemory();
            return MG_ERR;
        }
        int failed = -1;
        int fits = mg_guard_run_all(guards, mg_frame_slots(frame), registers, &failed);
        PyMem_Free(registers);
        if (fits < 0) {
            return MG_ERR;
        }
        if (fits > 0 || failed < 0 || guards->checks[failed].kind != MG_GUARD_VALUE ||
            (PyUnicode_Check(guards->checks[failed].expected) && PyTuple_GET_SIZE(entries) < MANY_TEXTS)) {
            continue;
        }
        uint64_t path = mg_guard_path(guards, guards->checks[failed].source);
        if (mg_paths_have(&once, path)) {
            mg_paths_add(changes, path);
        }
        mg_paths_add(&once, path);
    }
    return MG_OK;
}

/* What changes from call to call at a point, as far as its entries tell; the point is found anew, since reading torch's
 * state may let others run. NULL with an exception. */
static MgResumePoint *
note_changes(MgCompiled *self, MgResumePoint *point, MgFrame *frame, int offset, int depth, const uint8_t *empty)
{
    if (point->entry_count < 2) {
        return point;
    }
    PyObject *entries = PyTuple_New(point->entry_count);
    for (int i = 0; entries != NULL && i < point->entry_count; i++) {
        PyTuple_SET_ITEM(entries, i, Py_NewRef((PyObject *)point->entries[i]));
    }
    MgPaths changes = {.count = 0};
    int status = entries == NULL ? MG_ERR : find_changes(entries, frame, &changes);
    Py_XDECREF(entries);
    point = status < 0 ? NULL : find_point(self, frame, offset, depth, empty);
    for (int i = 0; point != NULL && i < changes.count; i++) {
        mg_paths_add(&point->changing, changes.items[i]);
    }
    return point;
}

static int
point_add(MgCompiled *self, MgResumePoint *point, MgEntry *entry)
{
    MgEntry **entries = PyMem_Realloc(point->entries, sizeof(MgEntry *) * (size_t)(point->entry_count + 1));
    if (entries == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    mg_compiled_insert(entries, point->entry_count++, entry);
    point->entries = entries;
    self->changes++;
    return MG_OK;
}

/* 1 if an entry is worth keeping: one that does nothing but return is left to CPython. */
static int
does_something(MgEntry *entry)
{
    return entry->node_count > entry->input_count || entry->frames != NULL;
}

/* What comes of a frame for which no entry has run. Where memory ran out CPython goes on with it: the frame may be about
 * to leave a block, where no handler sees an error. */
static MgContinue
without_entry(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
    }
    return PyErr_Occurred() ? MG_CONTINUE_ERROR : MG_CONTINUE_PLAIN;
}

/* Where a frame is to go on. */
typedef struct {
    MgFrame *frame;
    MgUnit *next;
    PyObject **sp;
    int offset, depth;
    uint8_t empty[EMPTY_BYTES]; /* bits: which slots are */
} Place;

static MgResumePoint *
point_of(MgCompiled *self, const Place *place)
{
    return find_point(self, place->frame, place->offset, place->depth, place->empty);
}

/* A capture from this point has come to nothing. */
static MgContinue
note_failure(MgResumePoint *point)
{
    point->given_up = ++point->failures > 2;
    return MG_CONTINUE_PLAIN;
}

/* Tells why the entries of a point do not fit, if it has any, and captures the rest of the frame. A new entry, or NULL: with
 * an exception, or without one if nothing came of it. */
static MgEntry *
capture_again(MgCompiled *self, const Place *place, const MgSubject *subject)
{
    MgResumePoint *point = point_of(self, place);
    if (point == NULL || mg_miss_tell(self, point->entries, point->entry_count, mg_frame_slots(place->frame), 0) < 0) {
        return NULL;
    }
    return mg_compiled_capture_subject(self, subject);
}

/* No entry fits the rest of a frame: captures it. MG_CONTINUE_STEP if an entry was made and has run: *result, *found and
 * *ending are as mg_compiled_try_entries sets them. */
static MgContinue
capture_point(MgCompiled *self, const Place *place, PyObject **result, MgFound *found, MgEnding *ending)
{
    MgStance stance = mg_stance_get();
    MgResumePoint *point = point_of(self, place);
    if (point != NULL && mg_compiled_is_strict(stance) && point->entry_count == 0 && point->failures > 0) {
        return MG_CONTINUE_PLAIN;
    }
    MgStance meant = stance == MG_STANCE_EAGER_THEN_COMPILE ? MG_STANCE_DEFAULT : stance;
    int wanted = mg_compiled_may_capture(self, meant);
    if (wanted <= 0) {
        return without_entry();
    }
    int limit = mg_control_limit(self->limit, 0);
    if (limit < 0) {
        return without_entry();
    }
    point = point_of(self, place); /* the backend's guard may have run any code */
    if (point == NULL) {
        return without_entry();
    }
    if (wanted == MG_MAY_NOT) {
        mg_miss_refuse(self, point->entries, point->entry_count, mg_frame_slots(place->frame), stance,
                       mg_frame_code(place->frame));
        return without_entry();
    }
    if (point->entry_count >= limit) {
        return MG_CONTINUE_PLAIN;
    }
    point = note_changes(self, point, place->frame, place->offset, place->depth, place->empty);
    if (point == NULL) {
        return without_entry();
    }
    MgSubject subject = {.frame = place->frame, .next = place->next, .sp = place->sp, .changing = point->changing};
    int captures = (int)self->captures;
    if (mg_session_begin(self, mg_frame_code(place->frame), place->offset) < 0) {
        return without_entry();
    }
    MgEntry *entry = capture_again(self, place, &subject);
    mg_session_end(self, &entry);
    if (entry == NULL && PyErr_Occurred()) {
        return without_entry();
    }
    point = point_of(self, place); /* so may the backend: the table may be another */
    if (point == NULL) {
        Py_XDECREF(entry);
        return without_entry();
    }
    if (entry == NULL) {
        return (int)self->captures == captures ? MG_CONTINUE_PLAIN /* it does not count, see there */
                                               : note_failure(point);
    }
    if (!does_something(entry)) {
        Py_DECREF(entry);
        return note_failure(point);
    }
    int status = point_add(self, point, entry);
    Py_DECREF(entry);
    if (status < 0) {
        return without_entry();
    }
    *result = mg_compiled_try_entries(self, point->entries, point->entry_count, &point->decision,
                                      mg_frame_slots(place->frame), found, ending);
    if (*found == MG_FOUND_CHANGED) { /* others have run: the frame goes on as it is */
        return MG_CONTINUE_PLAIN;
    }
    if (*found == MG_FOUND_NONE) {
        point = point_of(self, place);
        if (point != NULL) {
            point->given_up = 1;
        }
        return without_entry();
    }
    return MG_CONTINUE_STEP;
}

static MgContinue
continue_frame(MgCompiled *self, MgFrame *frame, MgUnit *next, PyObject **sp, PyObject **result, MgEnding *ending)
{
    int offset = (int)(next - mg_frame_code_start(frame)), depth = (int)(sp - mg_frame_slots(frame));
    assert(offset >= 0 && depth >= mg_frame_code(frame)->co_nlocalsplus);
    Place place = {.frame = frame, .next = next, .sp = sp, .offset = offset, .depth = depth};
    if (find_empty(frame, offset, depth, place.empty) < 0) {
        return MG_CONTINUE_PLAIN;
    }
    MgResumePoint *point = point_of(self, &place);
    if (point == NULL) {
        return without_entry();
    }
    if (self->fullgraph || !self->breaks || point->given_up || point->globals != mg_frame_globals(frame) ||
        mg_capture_current != NULL) {
        return MG_CONTINUE_PLAIN;
    }
    MgFound found = MG_FOUND_CHANGED;
    for (int tries = 0; found == MG_FOUND_CHANGED && tries < 100; tries++) {
        point = point_of(self, &place); /* trying may have let others run */
        if (point == NULL) {
            return without_entry();
        }
        *result = mg_compiled_try_entries(self, point->entries, point->entry_count, &point->decision,
                                          mg_frame_slots(frame), &found, ending);
    }
    if (found == MG_FOUND_NONE || found == MG_FOUND_CHANGED) {
        MgContinue how = capture_point(self, &place, result, &found, ending);
        if (how != MG_CONTINUE_STEP) {
            return how;
        }
    }
    if (found == MG_FOUND_ERROR) {
        return without_entry();
    }
    MgSubject subject = {.frame = frame, .next = next, .sp = sp};
    if (found == MG_FOUND_RAISED && mg_compiled_deoptimise(self, &subject, mg_frame_slots(frame), ending) == 0) {
        return MG_CONTINUE_PLAIN;
    }
    assert((*result != NULL) + (ending->exit != NULL) + (PyErr_Occurred() != NULL) == 1);
    if (ending->exit != NULL) {
        return MG_CONTINUE_EXIT;
    }
    return *result != NULL ? MG_CONTINUE_RETURN : MG_CONTINUE_ERROR;
}

MgContinue
mg_callable_continue(PyObject *owner, MgFrame *frame, MgUnit *next, PyObject **sp, PyObject **result, MgExit **exit)
{
    PyObject *outer = mg_watch(NULL);
    MgEnding ending = {.exit = NULL};
    MgContinue how = continue_frame((MgCompiled *)owner, frame, next, sp, result, &ending);
    *exit = ending.exit;
    mg_watch(outer);
    return how;
}
