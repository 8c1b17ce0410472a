/* What is known of single instructions: opcodes.def. */
#ifndef MG_OPCODES_H
#define MG_OPCODES_H

#include "cpython/cpython311.h"

/* 1 if the interpreter knows a base opcode. */
int mg_opcode_is_known(int opcode);

/* How many values on the stack an instruction looks at; -1 if that is not known. */
int mg_opcode_looks_at(int opcode, int oparg);

/* How many values a call instruction takes off the stack; 0 for others. */
int mg_opcode_takes(int opcode, int oparg);

/* 1 if it may jump, and then by how many units, forward or back; and whether it may go on to the next instruction. */
int mg_opcode_jumps(int opcode, int oparg, int *distance);
int mg_opcode_goes_on(int opcode);

/* What it does to the local with the number `oparg`. */
typedef enum { MG_LOCAL_NONE, MG_LOCAL_READS, MG_LOCAL_WRITES } MgLocalUse;
MgLocalUse mg_opcode_local(int opcode);

/* 1 if it makes a cell of a local; and if it makes a tuple that the next instruction, the one behind `at`, returns. */
int mg_opcode_makes_cell(int opcode);
int mg_opcode_asks_identity(int opcode); /* 1 for `is` */
int mg_opcode_returns_tuple(int opcode, const MgUnit *at);

/* 1 if it begins or ends the handling of an exception; and if it stores a local. */
int mg_opcode_handles(int opcode);
int mg_opcode_stores_local(MgUnit unit);

/* How many units behind an instruction are its caches, by its handler. */
enum {
    MG_CACHES_load_global = INLINE_CACHE_ENTRIES_LOAD_GLOBAL,
    MG_CACHES_get_attribute = INLINE_CACHE_ENTRIES_LOAD_ATTR,
    MG_CACHES_set_attribute = INLINE_CACHE_ENTRIES_STORE_ATTR,
    MG_CACHES_load_method = INLINE_CACHE_ENTRIES_LOAD_METHOD,
    MG_CACHES_binary_operator = INLINE_CACHE_ENTRIES_BINARY_OP,
    MG_CACHES_compare = INLINE_CACHE_ENTRIES_COMPARE_OP,
    MG_CACHES_get_item = INLINE_CACHE_ENTRIES_BINARY_SUBSCR,
    MG_CACHES_set_item = INLINE_CACHE_ENTRIES_STORE_SUBSCR,
    MG_CACHES_unpack_sequence = INLINE_CACHE_ENTRIES_UNPACK_SEQUENCE,
    MG_CACHES_before_call = INLINE_CACHE_ENTRIES_PRECALL,
    MG_CACHES_call = INLINE_CACHE_ENTRIES_CALL,
};

#endif
