/* Which line of the user's program asked for a guard: noted as a code object and an offset when the guard is added.
 *
 * Guards are many, and most instructions that add one add several: the place is looked for once an instruction, the frame
 * of the user's once until another frame is entered, and whose code it is once a code object. */
#include "capture/place.h"

#include "base/vector.h"
#include "capture/origin.h"
#include "cpython/aside.h"

/* 1 if a code object is the user's. What was asked about is kept, so that another can't come to lie at its address. */
static int
is_users(MgCapture *capture, PyCodeObject *code)
{
    uintptr_t known = (uintptr_t)mg_table_get(&capture->reads.origins, code, NULL);
    if (known == 0) {
        known = (uintptr_t)mg_origin_of(code) + 1;
        if (mg_table_set(&capture->reads.origins, code, NULL, (void *)known) < 0) {
            mg_error_clear();
        }
        else {
            Py_INCREF(code);
        }
    }
    return known == MG_ORIGIN_USER + 1;
}

/* 1 if the frames of this thread are, down to the root, those of the capture: then nobody has to look for the root. */
static int
runs_root(MgCapture *capture)
{
    return capture->suspended == 0 && mg_aside_depth == 0 && capture->reason == MG_REASON_NONE;
}

/* The innermost frame of the user's, from the current one to the root; the current one if none is. NULL if the root is not
 * executed now. Borrowed. */
static MgFrame *
find_frame(MgCapture *capture)
{
    MgFrame *innermost = mg_frame_current(PyThreadState_Get()), *found = NULL;
    int is_sure = runs_root(capture);
    if (is_sure && innermost != NULL && innermost == capture->reads.innermost) {
        return capture->reads.users;
    }
    for (MgFrame *frame = innermost; frame != NULL; frame = mg_frame_caller(frame)) {
        if (found == NULL && is_users(capture, mg_frame_code(frame))) {
            found = frame;
        }
        if (frame == capture->root || (found != NULL && is_sure)) {
            found = found == NULL ? innermost : found;
            if (is_sure) {
                capture->reads.innermost = innermost;
                capture->reads.users = found;
            }
            return found;
        }
    }
    return NULL;
}

/* The place of an instruction. Borrows the code. */
static MgPlace
place_of(MgFrame *frame, int offset)
{
    return (MgPlace){.code = mg_frame_code(frame), .offset = offset * (int)sizeof(MgUnit)};
}

/* Adds a place: its number, or -1. */
static int
add_place(MgReads *reads, MgPlace place)
{
    if (MG_VECTOR_RESERVE(reads->places, reads->place_count, reads->place_room, 64) < 0) {
        mg_error_clear();
        return -1;
    }
    Py_INCREF(place.code);
    reads->places[reads->place_count] = place;
    return reads->place_count++;
}

int
mg_place_now(MgCapture *capture)
{
    MgReads *reads = &capture->reads;
    if (reads->place_step == capture->steps + 1) {
        return reads->place;
    }
    MgPlace place = capture->end;
    if (place.code == NULL) { /* once the root has returned, other frames may lie where it did */
        MgFrame *frame = capture->root == NULL ? NULL : find_frame(capture);
        if (frame == NULL) {
            return -1;
        }
        place = place_of(frame, mg_frame_lasti(frame));
        place.is_start = capture->steps == 0;
    }
    reads->place = add_place(reads, place);
    reads->place_step = capture->steps + 1;
    return reads->place;
}

int
mg_place_at(MgCapture *capture, MgFrame *frame, const MgUnit *next)
{
    return add_place(&capture->reads, place_of(frame, mg_frame_offset(frame, next)));
}

void
mg_place_end(MgCapture *capture)
{
    Py_XDECREF(capture->end.code);
    capture->end = place_of(capture->root, mg_frame_lasti(capture->root));
    Py_INCREF(capture->end.code);
}

void
mg_places_free(MgCapture *capture)
{
    MgReads *reads = &capture->reads;
    for (int i = 0; i < reads->place_count; i++) {
        Py_DECREF(reads->places[i].code);
    }
    PyMem_Free(reads->places);
    for (size_t i = 0; reads->origins.slots != NULL && i <= reads->origins.mask; i++) {
        if (reads->origins.slots[i].value != NULL) {
            Py_DECREF((PyObject *)reads->origins.slots[i].first);
        }
    }
    mg_table_free(&reads->origins);
    Py_CLEAR(capture->end.code);
}
