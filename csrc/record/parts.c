/* Tensors that others wrap: what may be done with both in one graph. */
#include "record/parts.h"

int
mg_parts_note(MgCapture *capture, int parts)
{
    capture->graph.parts |= parts;
    return capture->graph.foreign && capture->graph.parts == (MG_PARTS_GIVEN | MG_PARTS_WRITTEN)
               ? mg_capture_abort(capture, MG_REASON_BACKEND, "a write to a tensor that another one wraps")
               : MG_OK;
}

int
mg_parts_check(MgCapture *capture, PyObject *written, PyObject *twins)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
        MgTwin *twin = mg_twin_of(PyList_GET_ITEM(twins, PyLong_AsSsize_t(PyTuple_GET_ITEM(written, i)))), *one = twin;
        do {
            int is_wrapper = (one->meta->flags & MG_META_WRAPPER) && one->source != NULL;
            if ((one->is_part || is_wrapper) && mg_parts_note(capture, MG_PARTS_WRITTEN) < 0) {
                return MG_ERR;
            }
            one = one->next;
        } while (one != twin);
    }
    return MG_OK;
}
