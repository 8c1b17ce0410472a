/* Arrays that grow. */
#include "base/vector.h"

int
mg_vector_grow(void *items, int *room, size_t size, int first)
{
    void *old;
    memcpy(&old, items, sizeof(old)); /* a pointer of any type */
    int more = *room == 0 ? first : *room * 2;
    void *new = PyMem_Realloc(old, size * (size_t)more);
    if (new == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    memcpy(items, &new, sizeof(new));
    *room = more;
    return MG_OK;
}
