/* Which of many entries can fit a call, from the guards in which they differ.
 *
 * Entries of one function mostly differ in few guards, on arguments or on what is loaded from them: a shape, a dtype, a
 * constant, a type. Such a guard is a *question*: how to load an object, and which kind of guard is on it. Each entry
 * expects an answer; a hash of what it expects, for all questions, is its key. For a call the questions are asked once,
 * and the key of the answers says which entries can fit: an entry with another key has a guard that fails. Entries that
 * have no such guard on one of the sources can fit any call. All guards of a candidate are run as ever. */
#include "entry/dispatch.h"

enum { QUESTIONS = 3, DEPTH = 6, TRIED = 64 };

typedef struct {
    MgGuardKind kind;
    int depth;
    const MgSource *path[DEPTH]; /* borrowed from an entry; the argument first */
} Question;

/* The entries of one key. */
typedef struct {
    uint64_t key;
    int first, count; /* in `entries`; nothing is here if count is 0 */
} Bucket;

struct MgDispatch {
    Question questions[QUESTIONS];
    int question_count;
    Bucket *buckets; /* owned: a hash table */
    size_t mask;
    MgEntry **entries; /* owned array, borrowed items: each bucket's, followed by those that can fit any call */
    int wild_first, wild_count;
    MgEntry **found; /* owned: room for the candidates of a call */
};

static uint64_t
mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

/* A hash of a plain value, equal for values that a guard takes for equal. Runs no Python code. */
static uint64_t
hash_value(PyObject *value)
{
    uint64_t hash = (uint64_t)(uintptr_t)Py_TYPE(value);
    if (PyFloat_CheckExact(value)) { /* by bits, as the guard compares them */
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof(bits));
        return mix(hash, bits);
    }
    if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) {
        return mix(hash, (uint64_t)PyObject_Hash(value));
    }
    return hash;
}

/* A hash of a tensor's metadata: what is in it must be guarded by MG_GUARD_TENSOR. */
static uint64_t
hash_metadata(int64_t dim, const int64_t *sizes, int32_t dtype, int32_t device, int requires_grad)
{
    uint64_t hash =
        mix((uint64_t)dim << 32 | (uint64_t)(uint32_t)dtype, (uint64_t)device << 1 | (uint64_t)requires_grad);
    for (int64_t i = 0; i < dim; i++) {
        hash = mix(hash, (uint64_t)sizes[i]);
    }
    return hash;
}

static uint64_t
hash_tensor(PyObject *tensor)
{
    MgTensor info;
    if (!mg_torch_is_tensor(tensor) || mg_torch_read(tensor, &info) < 0) {
        return 0;
    }
    return hash_metadata(info.dim, info.sizes, info.dtype, info.device_type, mg_torch_requires_grad(tensor));
}

/* What a check expects, as a hash. */
static uint64_t
expected_answer(const MgCheck *check)
{
    switch (check->kind) {
        case MG_GUARD_VALUE:
            return hash_value(check->expected);
        case MG_GUARD_TENSOR: {
            const MgTensorCheck *tensor = check->tensor;
            return hash_metadata(tensor->dim, tensor->dims, tensor->dtype, tensor->device_type, tensor->requires_grad);
        }
        default:
            return (uint64_t)(uintptr_t)check->expected;
    }
}

/* What an object returns, as a hash: equal to what is expected if the guard holds. */
static uint64_t
real_answer(MgGuardKind kind, PyObject *object)
{
    if (object == NULL) {
        return 0;
    }
    switch (kind) {
        case MG_GUARD_VALUE:
            return hash_value(object);
        case MG_GUARD_TENSOR:
            return hash_tensor(object);
        case MG_GUARD_TYPE:
            return (uint64_t)(uintptr_t)Py_TYPE(object);
        default:
            return (uint64_t)(uintptr_t)object;
    }
}

/* 1 if a source can be loaded from whatever object. */
static int
is_safe(const MgSource *source)
{
    switch (source->kind) {
        case MG_SOURCE_LOCAL:
        case MG_SOURCE_DICT:
        case MG_SOURCE_DICT_ITEM:
        case MG_SOURCE_ITEM:
        case MG_SOURCE_ATTR:
        case MG_SOURCE_TYPE:
            return 1;
        default:
            return 0;
    }
}

/* The question behind a check. 1, or 0 if it makes none. */
static int
make_question(const MgProgram *program, const MgCheck *check, Question *question)
{
    if (check->kind != MG_GUARD_VALUE && check->kind != MG_GUARD_TENSOR && check->kind != MG_GUARD_TYPE &&
        check->kind != MG_GUARD_IDENTITY) {
        return 0;
    }
    if (check->kind == MG_GUARD_TENSOR && check->tensor->varies.any) { /* it fits tensors of other sizes, too */
        return 0;
    }
    int ids[DEPTH], depth = 0;
    for (int i = check->source; i >= 0; i = program->steps[i].base) {
        if (depth == DEPTH || !is_safe(&program->steps[i].source)) {
            return 0;
        }
        ids[depth++] = i;
    }
    if (depth == 0 || program->steps[ids[depth - 1]].source.kind != MG_SOURCE_LOCAL) {
        return 0;
    }
    question->kind = check->kind;
    question->depth = depth;
    for (int i = 0; i < depth; i++) {
        question->path[i] = &program->steps[ids[depth - 1 - i]].source;
    }
    return 1;
}

static int
same_source(const MgSource *a, const MgSource *b)
{
    if (a->kind != b->kind || a->index != b->index) {
        return 0;
    }
    return a->kind == MG_SOURCE_LOCAL || a->key == b->key ||
           (a->key != NULL && b->key != NULL && PyUnicode_CheckExact(a->key) && PyUnicode_CheckExact(b->key) &&
            PyUnicode_Compare(a->key, b->key) == 0);
}

static int
same_question(const Question *a, const Question *b)
{
    if (a->kind != b->kind || a->depth != b->depth) {
        return 0;
    }
    for (int i = a->depth; i-- > 0;) {
        if (!same_source(a->path[i], b->path[i])) {
            return 0;
        }
    }
    return 1;
}

/* What an entry expects as the answer: 1 with *answer, or 0 if it has no such guard. */
static int
find_answer(const MgProgram *program, const Question *question, uint64_t *answer)
{
    for (int i = 0, tried = 0; i < program->check_count && tried < TRIED; i++) {
        Question own;
        if (program->checks[i].kind != question->kind || !make_question(program, &program->checks[i], &own)) {
            continue;
        }
        tried++;
        if (same_question(question, &own)) {
            *answer = expected_answer(&program->checks[i]);
            return 1;
        }
    }
    return 0;
}

/* How many different keys there are. */
static int
count_distinct(const uint64_t *keys, const uint8_t *wild, int count)
{
    int distinct = 0;
    for (int i = 0; i < count; i++) {
        int seen = wild[i];
        for (int k = 0; !seen && k < i; k++) {
            seen = !wild[k] && keys[k] == keys[i];
        }
        distinct += !seen;
    }
    return distinct;
}

/* Adds to the keys what the entries expect as the answer to a question. */
static void
apply_question(MgEntry *const *entries, int count, const Question *question, const uint64_t *keys, const uint8_t *wild,
               uint64_t *new_keys, uint8_t *new_wild)
{
    for (int i = 0; i < count; i++) {
        uint64_t answer = 0;
        new_wild[i] = wild[i] || !find_answer(&entries[i]->guards, question, &answer);
        new_keys[i] = mix(keys[i], answer);
    }
}

/* How well keys tell entries apart: those that fit anything are as bad as those that are not told apart. */
static int
score(const uint64_t *keys, const uint8_t *wild, int count)
{
    int wilds = 0;
    for (int i = 0; i < count; i++) {
        wilds += wild[i];
    }
    return count_distinct(keys, wild, count) - wilds;
}

/* Chooses the questions, one after the other, each that which tells most entries apart. */
static void
choose_questions(MgDispatch *dispatch, MgEntry *const *entries, int count, uint64_t *keys, uint8_t *wild)
{
    uint64_t *new_keys = PyMem_Malloc(sizeof(uint64_t) * (size_t)count);
    uint8_t *new_wild = PyMem_Malloc((size_t)count);
    const MgProgram *program = &entries[0]->guards;
    int best_score = 1;
    while (new_keys != NULL && new_wild != NULL && dispatch->question_count < QUESTIONS && best_score < count) {
        Question best = {.depth = 0};
        for (int i = 0, tried = 0; i < program->check_count && tried < TRIED; i++) {
            Question question;
            if (!make_question(program, &program->checks[i], &question)) {
                continue;
            }
            tried++;
            apply_question(entries, count, &question, keys, wild, new_keys, new_wild);
            int found = score(new_keys, new_wild, count);
            if (found > best_score) {
                best_score = found;
                best = question;
            }
        }
        if (best.depth == 0) {
            break;
        }
        apply_question(entries, count, &best, keys, wild, new_keys, new_wild);
        memcpy(keys, new_keys, sizeof(uint64_t) * (size_t)count);
        memcpy(wild, new_wild, (size_t)count);
        dispatch->questions[dispatch->question_count++] = best;
    }
    PyMem_Free(new_keys);
    PyMem_Free(new_wild);
}

/* The bucket of a key, or the free one where it would be. */
static Bucket *
find_bucket(const MgDispatch *dispatch, uint64_t key)
{
    size_t at = (size_t)(key >> 7) & dispatch->mask;
    while (dispatch->buckets[at].count != 0 && dispatch->buckets[at].key != key) {
        at = (at + 1) & dispatch->mask;
    }
    return &dispatch->buckets[at];
}

/* Sorts the entries into buckets. */
static void
fill_buckets(MgDispatch *dispatch, MgEntry *const *entries, int count, const uint64_t *keys, const uint8_t *wild)
{
    int next = 0;
    for (int i = 0; i < count; i++) {
        if (wild[i] || find_bucket(dispatch, keys[i])->count != 0) {
            continue;
        }
        Bucket *bucket = find_bucket(dispatch, keys[i]);
        *bucket = (Bucket){.key = keys[i], .first = next};
        for (int k = i; k < count; k++) {
            if (!wild[k] && keys[k] == keys[i]) {
                dispatch->entries[next++] = entries[k];
                bucket->count++;
            }
        }
    }
    dispatch->wild_first = next;
    for (int i = 0; i < count; i++) {
        if (wild[i]) {
            dispatch->entries[next++] = entries[i];
        }
    }
    dispatch->wild_count = next - dispatch->wild_first;
}

MgDispatch *
mg_dispatch_new(MgEntry *const *entries, int count)
{
    MgDispatch *dispatch = PyMem_Calloc(1, sizeof(MgDispatch));
    uint64_t *keys = PyMem_Calloc((size_t)count, sizeof(uint64_t));
    uint8_t *wild = PyMem_Calloc((size_t)count, 1);
    int good = dispatch != NULL && keys != NULL && wild != NULL;
    if (good) {
        choose_questions(dispatch, entries, count, keys, wild);
        dispatch->mask = 15;
        while (dispatch->mask < 2 * (size_t)count) {
            dispatch->mask = dispatch->mask * 2 + 1;
        }
        dispatch->buckets = PyMem_Calloc(dispatch->mask + 1, sizeof(Bucket));
        dispatch->entries = PyMem_Calloc((size_t)count, sizeof(MgEntry *));
        dispatch->found = PyMem_Calloc((size_t)count, sizeof(MgEntry *));
        good = dispatch->question_count > 0 && dispatch->buckets != NULL && dispatch->entries != NULL &&
               dispatch->found != NULL;
    }
    if (good) {
        fill_buckets(dispatch, entries, count, keys, wild);
    }
    else {
        mg_dispatch_free(dispatch);
        dispatch = NULL;
    }
    PyMem_Free(keys);
    PyMem_Free(wild);
    return dispatch;
}

MgEntry **
mg_dispatch_find(MgDispatch *dispatch, PyObject *const *arguments, int *count)
{
    uint64_t key = 0;
    for (int i = 0; i < dispatch->question_count; i++) {
        const Question *question = &dispatch->questions[i];
        PyObject *object = NULL;
        for (int k = 0; k < question->depth && (k == 0 || object != NULL); k++) {
            object = mg_source_load(question->path[k], object, arguments);
        }
        key = mix(key, real_answer(question->kind, object));
    }
    const Bucket *bucket = find_bucket(dispatch, key);
    if (dispatch->wild_count == 0) {
        *count = bucket->count;
        return dispatch->entries + bucket->first;
    }
    memcpy(dispatch->found, dispatch->entries + bucket->first, sizeof(MgEntry *) * (size_t)bucket->count);
    memcpy(dispatch->found + bucket->count, dispatch->entries + dispatch->wild_first,
           sizeof(MgEntry *) * (size_t)dispatch->wild_count);
    *count = bucket->count + dispatch->wild_count;
    return dispatch->found;
}

void
mg_dispatch_free(MgDispatch *dispatch)
{
    if (dispatch == NULL) {
        return;
    }
    PyMem_Free(dispatch->buckets);
    PyMem_Free(dispatch->entries);
    PyMem_Free(dispatch->found);
    PyMem_Free(dispatch);
}
