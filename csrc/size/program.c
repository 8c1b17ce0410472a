/* Guards on sizes as a flat program.
 *
 * A step computes a register of registers before it, or checks two of them. The first registers are the symbols. What two
 * guards have in common is computed once. */
#include "size/program.h"

#include "base/table.h"
#include "base/vector.h"
#include "size/poly.h"

enum { MOST_DEPTH = 16, MOST_REGISTERS = 1024, CHECK = 64, ADD = 128, MULTIPLY, CONSTANT };

typedef struct {
    int16_t code;   /* an MgAtomKind, CHECK + an MgRelation, or one of the others */
    int16_t result; /* the register; for a check, the number of the guard */
    int16_t left, right;
    int64_t number; /* for CONSTANT */
} Step;

struct MgSizeProgram {
    MgRange *ranges; /* owned: of the symbols */
    Step *steps;     /* owned */
    int symbol_count, step_count, step_room, register_count;
};

typedef struct {
    MgSizeProgram *program;
    MgTable known; /* atoms, products and expressions -> their register plus 1 */
} Maker;

/* ---- making ---- */

/* Adds a step. Its register, or -1 with an exception. */
static int
add_step(Maker *maker, int code, int left, int right, int64_t number)
{
    MgSizeProgram *program = maker->program;
    if (program->register_count == MOST_REGISTERS) {
        PyErr_SetString(PyExc_OverflowError, "too many guards on sizes");
        return -1;
    }
    if (left < 0 || right < 0 || MG_VECTOR_RESERVE(program->steps, program->step_count, program->step_room, 16) < 0) {
        return -1;
    }
    program->steps[program->step_count++] = (Step){.code = (int16_t)code,
                                                   .result = (int16_t)program->register_count,
                                                   .left = (int16_t)left,
                                                   .right = (int16_t)right,
                                                   .number = number};
    return program->register_count++;
}

static int add_expr(Maker *maker, const MgExpr *expr, int depth);

/* The register of something that was computed before, or -1. */
static int
find(const Maker *maker, const void *object)
{
    return (int)(intptr_t)mg_table_get(&maker->known, object, NULL) - 1;
}

static int
keep(Maker *maker, const void *object, int at)
{
    return at < 0 || mg_table_set(&maker->known, object, NULL, (void *)(intptr_t)(at + 1)) < 0 ? -1 : at;
}

static int
add_atom(Maker *maker, const MgAtom *atom, int depth)
{
    if (atom->kind == MG_ATOM_SYMBOL) {
        assert(atom->symbol < maker->program->symbol_count);
        return (int)atom->symbol;
    }
    int at = find(maker, atom);
    if (at >= 0) {
        return at;
    }
    if (depth == MOST_DEPTH) {
        PyErr_SetString(PyExc_OverflowError, "a guard on sizes is too deep");
        return -1;
    }
    int left = add_expr(maker, atom->left, depth + 1);
    int right = left < 0 ? -1 : add_expr(maker, atom->right, depth + 1);
    return right < 0 ? -1 : keep(maker, atom, add_step(maker, (int)atom->kind, left, right, 0));
}

static int
add_product(Maker *maker, const MgProduct *product, int depth)
{
    int at = find(maker, product);
    if (at >= 0) {
        return at;
    }
    for (int i = 0; i < mg_product_count(product); i++) {
        int atom = add_atom(maker, product->factors[i].atom, depth);
        for (int64_t power = 0; atom >= 0 && power < product->factors[i].power; power++) {
            at = i == 0 && power == 0 ? atom : add_step(maker, MULTIPLY, at, atom, 0);
        }
        if (atom < 0 || at < 0) {
            return -1;
        }
    }
    return keep(maker, product, at);
}

static int
add_term(Maker *maker, const MgTerm *term, int depth)
{
    if (term->product == NULL) {
        return add_step(maker, CONSTANT, 0, 0, term->coefficient);
    }
    int product = add_product(maker, term->product, depth);
    if (product < 0 || term->coefficient == 1) {
        return product;
    }
    int coefficient = add_step(maker, CONSTANT, 0, 0, term->coefficient);
    return coefficient < 0 ? -1 : add_step(maker, MULTIPLY, product, coefficient, 0);
}

/* The register of an expression, or -1 with an exception. */
static int
add_expr(Maker *maker, const MgExpr *expr, int depth)
{
    int at = find(maker, expr);
    if (at >= 0) {
        return at;
    }
    if (mg_expr_count(expr) == 0) {
        return keep(maker, expr, add_step(maker, CONSTANT, 0, 0, 0));
    }
    for (int i = 0; i < mg_expr_count(expr); i++) {
        int term = add_term(maker, &expr->terms[i], depth);
        at = term < 0 ? -1 : i == 0 ? term : add_step(maker, ADD, at, term, 0);
        if (at < 0) {
            return -1;
        }
    }
    return keep(maker, expr, at);
}

static int
add_guard(Maker *maker, const MgSizeGuard *guard, int number)
{
    const MgExpr *a = mg_dim_expr(guard->left), *b = mg_dim_expr(guard->right);
    if (a == NULL || b == NULL) {
        PyErr_NoMemory();
        return MG_ERR;
    }
    int left = add_expr(maker, a, 0), right = left < 0 ? -1 : add_expr(maker, b, 0);
    if (right < 0 || add_step(maker, CHECK + (int)guard->relation, left, right, 0) < 0) {
        return MG_ERR;
    }
    maker->program->register_count--; /* it computes nothing */
    maker->program->steps[maker->program->step_count - 1].result = (int16_t)number;
    return MG_OK;
}

MgSizeProgram *
mg_size_program_new(const MgFacts *facts)
{
    Maker maker = {.program = PyMem_Calloc(1, sizeof(MgSizeProgram))};
    MgSizeProgram *program = maker.program;
    if (program == NULL || (program->ranges = PyMem_Calloc((size_t)facts->symbol_count + 1, sizeof(MgRange))) == NULL) {
        mg_size_program_free(program);
        PyErr_NoMemory();
        return NULL;
    }
    int status = facts->symbol_count < MOST_REGISTERS ? MG_OK : MG_ERR;
    if (status < 0) {
        PyErr_SetString(PyExc_OverflowError, "too many symbols");
    }
    program->symbol_count = program->register_count = facts->symbol_count;
    for (int i = 0; i < facts->symbol_count; i++) {
        program->ranges[i] = facts->symbols[i].given;
    }
    for (int i = 0; status == MG_OK && i < facts->guard_count; i++) {
        status = add_guard(&maker, &facts->guards[i], i);
    }
    mg_table_free(&maker.known);
    if (status < 0) {
        mg_size_program_free(program);
        return NULL;
    }
    return program;
}

void
mg_size_program_free(MgSizeProgram *program)
{
    if (program != NULL) {
        PyMem_Free(program->ranges);
        PyMem_Free(program->steps);
        PyMem_Free(program);
    }
}

int
mg_size_program_count(const MgSizeProgram *program)
{
    return program->step_count;
}

/* ---- running ---- */

int
mg_size_program_run(const MgSizeProgram *program, const int64_t *symbols)
{
    int64_t registers[MOST_REGISTERS];
    for (int i = 0; i < program->symbol_count; i++) {
        registers[i] = symbols[i];
        if (symbols[i] < program->ranges[i].low || symbols[i] > program->ranges[i].high) {
            return i;
        }
    }
    int failed = -1, guard = 0; /* the guard that the step is for */
    for (int i = 0; failed < 0 && i < program->step_count; i++) {
        const Step *step = &program->steps[i];
        int64_t left = registers[step->left], right = registers[step->right], *result = &registers[step->result];
        int good = 1;
        switch (step->code) {
            case CHECK + MG_RELATION_EQ:
                good = left == right;
                break;
            case CHECK + MG_RELATION_NE:
                good = left != right;
                break;
            case CHECK + MG_RELATION_LT:
                good = left < right;
                break;
            case CHECK + MG_RELATION_LE:
                good = left <= right;
                break;
            case ADD:
                good = !__builtin_add_overflow(left, right, result);
                break;
            case MULTIPLY:
                good = !__builtin_mul_overflow(left, right, result);
                break;
            case CONSTANT:
                *result = step->number;
                break;
            default:
                good = mg_int_operate((MgAtomKind)step->code, left, right, result);
        }
        failed = good ? -1 : program->symbol_count + guard;
        guard += step->code >= CHECK && step->code < ADD;
    }
    return failed;
}
