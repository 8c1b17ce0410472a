/* How deep the core goes: into containers within containers, and into the C stack.
 *
 * Each frame that is executed by the interpreter takes some of the C stack, as it does in CPython as soon as there is a hook,
 * and so does each level of a structure that a walker follows. The recursion limit alone does not bound that: it may be set
 * to anything, and a thread's stack may be small. */
#include "cpython/depth.h"

#include <pthread.h>

__thread MgStack mg_stack __attribute__((tls_model("initial-exec")));

void
mg_stack_find(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    mg_stack.enough = 1;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
        size_t reserve = size / 8;
        reserve = reserve < 32 * 1024 ? 32 * 1024 : reserve > 512 * 1024 ? 512 * 1024 : reserve;
        mg_stack.low = (uintptr_t)low;
        mg_stack.enough = mg_stack.low + reserve;
    }
    pthread_attr_destroy(&attributes);
}
