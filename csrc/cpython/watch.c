/* Watches of all dicts at once.
 *
 * CPython numbers all changes of all dicts, with one counter. If it stands still, no dict was changed. It moves with each
 * call for which we make a dict, though, for **kwargs or for a result: these tags are *claimed*, and are not counted. A tag
 * is claimed only if it is sure to be of a dict that no guard has looked at. The dict that CPython makes for f(**kwargs)
 * is not claimed: nothing that C code can see tells for sure that it is the one that has changed last. */
#include "cpython/watch.h"

static uint64_t asked;   /* how often mg_watch_epoch was called, which changes a dict itself */
static uint64_t claimed; /* how many tags are of no account */

uint64_t
mg_watch_epoch(void)
{
    static PyObject *probe;
    if (probe == NULL && (probe = PyDict_New()) == NULL) {
        mg_error_clear();
        return MG_WATCH_UNKNOWN;
    }
    if (PyDict_SetItem(probe, MG_STRING("asked"), asked & 1 ? Py_True : Py_False) < 0) { /* another one each time */
        mg_error_clear();
        return MG_WATCH_UNKNOWN;
    }
    return mg_watch_dict(probe) - ++asked - claimed;
}

MgOwnChanges
mg_watch_own_start(void)
{
    return (MgOwnChanges){.asked = asked};
}

void
mg_watch_own_end(const MgOwnChanges *own)
{
    claimed += own->asked == asked ? own->count : 0; /* else a guard may have seen one of the dicts */
}
