/* How deep the core goes: into containers within containers, and into the C stack. */
#ifndef MG_DEPTH_H
#define MG_DEPTH_H

#include "base/magneto.h"

/* The bounds of this thread's stack: below `enough` it is short. */
typedef struct {
    uintptr_t low;
    uintptr_t enough; /* 0 until the bounds are known */
} MgStack;

extern __thread MgStack mg_stack __attribute__((tls_model("initial-exec")));

/* Finds the bounds of this thread's stack; where they can't be known it is never short. */
void mg_stack_find(void);

/* 1 if the C stack is all but used up. Somebody else's stack (of a coroutine library, say) is not judged. */
static inline int
mg_stack_is_short(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (MG_UNLIKELY(mg_stack.enough == 0)) {
        mg_stack_find();
    }
    return MG_UNLIKELY(here < mg_stack.enough && here >= mg_stack.low);
}

/* For walkers that change nothing: how deep they are, and how many containers they may still look into. What lies in many
 * places is seen in each of them, so that a few objects can be a very long way. */
typedef struct {
    int level;
    int room;
} MgWalk;

#define MG_WALK ((MgWalk){0, 1 << 16})

/* 1 if the walker may look into a container. In either case it calls mg_walk_leave when it is done with that. */
static inline int
mg_walk_enter(MgWalk *walk)
{
    return walk->level++ < MG_MOST_LEVELS && walk->room-- > 0;
}

static inline void
mg_walk_leave(MgWalk *walk)
{
    walk->level--;
}

#endif
