/* Outside objects: whatever existed before the capture began, and captured code has met. */
#include "capture/outside.h"

#include "capture/deferred.h"
#include "ir/alias.h"
#include "base/vector.h"

MgOutside *
mg_outside_new(MgCapture *capture, PyObject *object, MgSource *source, MgKind kind, int provisional)
{
    assert(!mg_is_twin(object) &&
           mg_outside_find(capture, object) == NULL); /* one record an object, and none of ours */
    assert(source != NULL);
    MgOutside *record = PyMem_Calloc(1, sizeof(MgOutside));
    if (record == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (MG_VECTOR_RESERVE(capture->met.record_list, capture->met.record_count, capture->met.record_room, 128) < 0) {
        PyMem_Free(record);
        return NULL;
    }
    if (mg_table_set(&capture->met.records, object, NULL, record) < 0) {
        PyMem_Free(record);
        return NULL;
    }
    record->references = Py_REFCNT(object);
    for (int i = 0; capture->breaks.point && i < capture->argument_count;
         i++) { /* but for the frame's own, of which one is real */
        record->references -= capture->arguments[i] == object ? 2 : 0;
    }
    record->object = Py_NewRef(object);
    record->source = source;
    record->kind = kind;
    record->provisional = provisional;
    capture->met.record_list[capture->met.record_count++] = record;
    return record;
}

MgOutside *
mg_outside_find(MgCapture *capture, PyObject *object)
{
    return mg_table_get(&capture->met.records, object, NULL);
}

MgOutside *
mg_outside_of(MgCapture *capture, PyObject *object)
{
    object = mg_twin_original(object);
    MgOutside *record = mg_outside_find(capture, object);
    return record != NULL ? record : mg_table_get(&capture->met.views, object, NULL);
}

PyObject *
mg_outside_identity(MgCapture *capture, PyObject *object)
{
    object = mg_twin_original(object);
    PyObject *value = mg_deferred_value(capture, object);
    if (value != NULL) {
        return value;
    }
    MgOutside *record = mg_table_get(&capture->met.views, object, NULL);
    return record != NULL ? record->object : object;
}

MgOutside *
mg_outside_owner(MgCapture *capture, PyObject *owner)
{
    MgOutside *record = mg_outside_find(capture, owner);
    int has_dict = mg_is_heap_type(Py_TYPE(owner)) || PyODict_CheckExact(owner);
    return record == NULL && has_dict ? mg_table_get(&capture->met.views, owner, NULL) : record;
}

MgOutside *
mg_outside_pin(MgCapture *capture, PyObject *object)
{
    MgOutside *record = mg_outside_find(capture, object);
    if (record != NULL) {
        return record;
    }
    MgSource *source = mg_source_get(&capture->reads.sources, MG_SOURCE_CONST, NULL, object, 0);
    if (source == NULL) {
        return NULL;
    }
    MgKind kind = PyDict_Check(object) ? MG_KIND_DICT : PyCell_Check(object) ? MG_KIND_CELL : MG_KIND_CONSTANT;
    return mg_outside_new(capture, object, source, kind, 0);
}
