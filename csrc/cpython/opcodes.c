/* What is known of single instructions: opcodes.def. */
#include "cpython/opcodes.h"

enum { UNKNOWN = -1 };

typedef enum {
    NEXT,        /* on to the next instruction */
    FORWARD,     /* the same, or forward by oparg units */
    BACKWARD,    /* the same, or back */
    TO_FORWARD,  /* forward in any case */
    TO_BACKWARD, /* back in any case */
    ENDS,        /* it leaves the frame, or raises */
} Flow;

static const struct {
    uint8_t known, flow, local;
} facts[256] = {
#define MG_OPCODE(NAME, handler, looks, flow, local, takes) [NAME] = {1, flow, MG_LOCAL_##local},
#include "cpython/opcodes.def"
#undef MG_OPCODE
};

int
mg_opcode_is_known(int opcode)
{
    return opcode >= 0 && opcode < 256 && facts[opcode].known;
}

int
mg_opcode_looks_at(int opcode, int oparg)
{
    switch (opcode) {
#define MG_OPCODE(NAME, handler, looks, flow, local, takes) \
    case NAME: \
        return looks;
#include "cpython/opcodes.def"
#undef MG_OPCODE
        default:
            return UNKNOWN;
    }
}

int
mg_opcode_takes(int opcode, int oparg)
{
    switch (opcode) {
#define MG_OPCODE(NAME, handler, looks, flow, local, takes) \
    case NAME: \
        return takes;
#include "cpython/opcodes.def"
#undef MG_OPCODE
        default:
            return 0;
    }
}

int
mg_opcode_jumps(int opcode, int oparg, int *distance)
{
    int flow = facts[opcode].flow, back = flow == BACKWARD || flow == TO_BACKWARD;
    *distance = back ? -oparg : oparg;
    return flow != NEXT && flow != ENDS;
}

int
mg_opcode_goes_on(int opcode)
{
    int flow = facts[opcode].flow;
    return flow == NEXT || flow == FORWARD || flow == BACKWARD;
}

MgLocalUse
mg_opcode_local(int opcode)
{
    return facts[opcode].local;
}

int
mg_opcode_makes_cell(int opcode)
{
    return opcode == MAKE_CELL;
}

int
mg_opcode_asks_identity(int opcode)
{
    return opcode == IS_OP;
}

int
mg_opcode_returns_tuple(int opcode, const MgUnit *at)
{
    return opcode == BUILD_TUPLE && mg_opcode_base[_Py_OPCODE(at[1])] == RETURN_VALUE;
}

int
mg_opcode_handles(int opcode)
{
    return opcode == PUSH_EXC_INFO || opcode == RERAISE;
}

int
mg_opcode_stores_local(MgUnit unit)
{
    return mg_opcode_base[_Py_OPCODE(unit)] == STORE_FAST;
}
