/* Memory that is kept back for what can't be undone any more.
 *
 * When the graph of an entry has run, tensors from outside may have new values. What is left to do, building the result and
 * applying the effects, must then not stop half-way for want of memory: the outside would be neither as before the call nor
 * as after it. So some address space is kept from the start. If memory runs out there, it is given back to the system, and
 * the step that failed is made again. All under the GIL. */
#include "base/reserve.h"

#include <sys/mman.h>

enum { SIZE = 4 << 20 };

static void *kept; /* NULL while it is in use, or if there was none to be had */
static int users;

void
mg_reserve_fill(void)
{
    if (kept == NULL && users == 0) {
        void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        kept = memory == MAP_FAILED ? NULL : memory;
    }
}

int
mg_reserve_open(int *opened)
{
    if (*opened || !PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return 0;
    }
    PyErr_Clear();
    mg_reserve_use(opened);
    return 1;
}

void
mg_reserve_use(int *opened)
{
    if (*opened) {
        return;
    }
    *opened = 1;
    users++;
    if (kept != NULL) {
        munmap(kept, SIZE);
        kept = NULL;
    }
    MG_STARVE_PAUSE();
}

void
mg_reserve_close(int opened)
{
    if (opened) {
        MG_STARVE_RESUME();
        users--;
        mg_reserve_fill();
    }
}

void *
mg_reserve_malloc(size_t size)
{
    void *memory = PyMem_Malloc(size);
    if (MG_UNLIKELY(memory == NULL)) {
        int reserve = 0;
        mg_reserve_use(&reserve);
        memory = PyMem_Malloc(size);
        mg_reserve_close(reserve);
    }
    return memory != NULL ? memory : PyErr_NoMemory();
}
