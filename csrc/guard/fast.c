/* The fast path through a guard program.
 *
 * When all guards have held, most of what they looked at is *pinned*: it stays the same object as long as some words in
 * memory stay the same. A dict is unchanged while its watch is (its word has no value twice in a process, so an equal one
 * means the same dict with the same content); a type and all it inherits, while its version tag is; a tuple always; parts
 * of a function, and what a cell or a slot holds, while the pointer there is, if the object can be kept alive for the
 * comparison. So for the pinned part of a program there is a list of words: an address, and what was there. One loop over
 * it stands for thousands of loads and checks. The rest is *live*, and is loaded and checked each time: arguments, items
 * of lists, other cells and slots, and the metadata of tensors.
 *
 * The words are in the order of the steps, and a word is only read if those before it are as they were: they say that the
 * object in which it lies is still there. References to pinned objects are borrowed.
 *
 * If the tag of a dict or type has changed, its *group*, the steps that rest on that tag, is loaded and checked again; if
 * nothing that matters has changed, the new tag is taken, and the run goes on. If another object is found where one was
 * pinned, or a word changes that is no tag, all steps are run, and the fast path is made anew. A step at which that
 * happens again and again is live from then on.
 *
 * The tags of dicts are numbers from one counter. If it has not moved since the words held, no dict of the process has
 * been changed or made, and only the *firm* words, which are no tags of dicts, are read. So it is between the calls of a
 * tight loop; see watch.c. */
#include "guard/fast.h"

#include "capture/sizeguard.h"
#include "capture/varying.h"
#include "cpython/cpython311.h"
#include "cpython/depth.h"
#include "cpython/watch.h"
#include "base/vector.h"
#include "guard/pinned.h"
#include "ir/weakkey.h"

#include <structmember.h>

/* A word in memory, and what it must be. */
typedef struct {
    const uint64_t *address; /* borrowed: lies in a pinned object */
    uint64_t expected;
} Word;

typedef struct {
    Word *items; /* owned, with room to read ahead */
    int *owners; /* owned: the group whose tag it is, or -1 - step */
    int count;
} Words;

/* The steps that rest on one tag. */
typedef struct {
    int head;    /* step: the dict or type */
    int word;    /* index of the tag's word; -1 if the head is live */
    int firm;    /* and among the firm words, if it is a type's */
    int is_type; /* else a dict */
    uint64_t tag;
    int first, count; /* in `members` */
} Group;

typedef enum {
    OP_WORDS,  /* compare `count` words, or `firm_count` firm ones */
    OP_STEP,   /* load step `at`, and make its checks in `live` */
    OP_CHECKS, /* make the checks in `live` of the pinned step `at` */
    OP_GROUP,  /* compare the tag of group `at`, whose head is live, or the instance dict of something live */
} OpKind;

typedef struct {
    OpKind kind;
    int at;
    int first, count; /* of words, or in `live` */
    int firm, firm_count;
} Op;

/* A guard that objects are distinct, some of which are live: the addresses of the pinned ones are known. */
typedef struct {
    int check;
    int *live;        /* owned: steps, those that must be distinct from all first */
    int first, count; /* how many of the live ones must be distinct from all, and how many there are */
    uintptr_t *table; /* owned: pinned addresses, hashed; the lowest bit is set if they must be distinct from all */
    size_t mask;
} Apart;

struct MgFast {
    int busy;          /* it is being run: it must not be freed */
    MgFast *next;      /* among those that are no longer used, owned; or NULL */
    PyObject **values; /* borrowed, by step: what pinned steps gave */
    uint8_t *pinned;   /* by step */
    Words words, firm;
    uint64_t watch_epoch; /* mg_watch_epoch when all words held; MG_WATCH_UNKNOWN if they did not yet */
    unsigned unchanged_runs;
    Group *groups;
    int group_count;
    int *members; /* steps, by group */
    int *live;    /* checks, by op */
    Op *ops;
    int op_count;
    MgPinnedTensors tensors;
    int *late; /* checks that compare registers, made last */
    int late_count;
    Apart *aparts;
    int apart_count;
    int *fill; /* pinned steps whose registers are needed */
    int fill_count;
    PyObject **inputs; /* borrowed: pinned inputs of the graph, NULL for live ones */
    int *live_inputs;  /* which those are */
    int live_input_count;
    PyObject **kept; /* strong: objects that would else not be sure to stay what they are */
    int kept_count;
};

enum {
    MANY_CHANGES = 3,
    MANY_TAGS = MG_CHECKS ? 1 : 64, /* that it pays to ask the counter for */
    AHEAD = 32,                     /* how far words are read ahead */
};

/* ---- making it ---- */

/* What is known of a step while the fast path is made. */
typedef struct {
    uint8_t pinned;
    uint8_t watch_type; /* its type can be changed, and matters */
    uint8_t has_type;   /* a guard on its type is among its checks */
    int group;          /* that it rests on; -1 for none */
    int headed;         /* the group that rests on it; -1 for none */
} StepPlan;

typedef struct {
    const MgProgram *program;
    PyObject *const *registers;
    MgFast *fast;
    StepPlan *plans;
    int group_room;
} Maker;

/* 1 if an object's type may be assigned to. */
static int
has_mutable_type(PyObject *object)
{
    return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || PyModule_Check(object);
}

/* The group of which the dict or type at a step is the head. -1 if it can't be one. */
static int
head_group(Maker *maker, int step)
{
    StepPlan *plan = &maker->plans[step];
    PyObject *object = maker->registers[step];
    if (plan->headed >= 0) {
        return plan->headed;
    }
    int is_type = object != NULL && PyType_Check(object);
    if (object == NULL || (!is_type && !PyDict_Check(object)) || (is_type && !plan->pinned)) {
        return -1;
    }
    if (is_type && mg_watch_type_start((PyTypeObject *)object) == 0) {
        return -1;
    }
    MgFast *fast = maker->fast;
    if (MG_VECTOR_RESERVE(fast->groups, fast->group_count, maker->group_room, 64) < 0) {
        PyErr_Clear(); /* then there is none */
        return -1;
    }
    fast->groups[fast->group_count] =
        (Group){.head = step,
                .word = -1,
                .is_type = is_type,
                .tag = is_type ? mg_watch_type((PyTypeObject *)object) : mg_watch_dict(object)};
    return plan->headed = fast->group_count++;
}

/* 1 if nothing in a value can be changed, not even a type. */
static int
is_frozen_within(PyObject *value, MgWalk *walk)
{
    if (Py_IS_TYPE(value, &PyTuple_Type)) {
        int frozen = mg_walk_enter(walk);
        for (Py_ssize_t i = 0; frozen && i < PyTuple_GET_SIZE(value); i++) {
            frozen = is_frozen_within(PyTuple_GET_ITEM(value, i), walk);
        }
        mg_walk_leave(walk);
        return frozen;
    }
    return !has_mutable_type(value) &&
           (PyLong_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value) ||
            PyComplex_Check(value) || Py_IS_TYPE(value, mg_torch.device));
}

static int
is_frozen(PyObject *value)
{
    MgWalk walk = MG_WALK;
    return is_frozen_within(value, &walk);
}

/* Where the object at `base` holds what a step returns, if it does so for good; else NULL. */
static PyObject **
slot_of(const MgStep *step, PyObject *base)
{
    if (step->source.kind == MG_SOURCE_CELL) {
        return PyCell_Check(base) ? &((PyCellObject *)base)->ob_ref : NULL;
    }
    if (step->source.kind == MG_SOURCE_ATTR && Py_IS_TYPE(step->source.key, &PyMemberDescr_Type)) {
        PyMemberDescrObject *member = (PyMemberDescrObject *)step->source.key;
        return (PyObject **)((char *)base + member->d_member->offset);
    }
    return NULL;
}

/* 1 if an object can be kept alive by a guard: it is immutable and small, or guarded by identity and so kept anyway. */
static int
may_keep(const MgProgram *program, const MgStep *step, PyObject *value)
{
    if (value == NULL || value == Py_None || PyBool_Check(value) || is_frozen(value)) {
        return 1;
    }
    for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
        if (program->checks[j].kind == MG_GUARD_IDENTITY && program->checks[j].expected == value) {
            return 1;
        }
    }
    return 0;
}

/* The same for a part of a function: an entry must not keep cells, or defaults, of one that it does not keep. */
static int
may_keep_part(const MgProgram *program, const MgStep *step, PyObject *function, PyObject *part)
{
    const MgStep *base = &program->steps[step->base];
    int is_plain = step->source.index == 0 || step->source.index == 4; /* code, and globals */
    return is_plain || base->source.kind == MG_SOURCE_CONST || may_keep(program, base, function) ||
           may_keep(program, step, part);
}

/* Decides whether a step is pinned, and by what. */
static void
plan_step(Maker *maker, int i)
{
    const MgStep *step = &maker->program->steps[i];
    StepPlan *plan = &maker->plans[i], *base = step->base < 0 ? NULL : &maker->plans[step->base];
    PyObject *value = maker->registers[i], *owner = step->base < 0 ? NULL : maker->registers[step->base];
    plan->group = plan->headed = -1;
    if (step->source.kind == MG_SOURCE_CONST) {
        plan->pinned = !mg_weak_key_is(step->source.key);
        return;
    }
    if (base == NULL || owner == NULL || maker->program->changes[i] >= MANY_CHANGES) {
        return;
    }
    switch (step->source.kind) {
        case MG_SOURCE_DICT:
            if (value != NULL && PyDict_Check(value)) { /* the tag says that it is this dict, whoever has it */
                plan->pinned = 1;
                plan->pinned = head_group(maker, i) >= 0;
                base->watch_type |= base->pinned && maker->program->steps[step->base].source.kind != MG_SOURCE_CONST;
            }
            break;
        case MG_SOURCE_DICT_ITEM:
            plan->group = PyDict_Check(owner) ? head_group(maker, step->base) : -1;
            plan->pinned = plan->group >= 0;
            break;
        case MG_SOURCE_LOOKUP:
        case MG_SOURCE_MRO:
            plan->group = base->pinned && PyType_Check(owner) ? head_group(maker, step->base) : -1;
            plan->pinned = plan->group >= 0;
            break;
        case MG_SOURCE_TYPE:
            if (base->pinned) {
                base->watch_type |= (uint8_t)has_mutable_type(owner);
                plan->pinned = 1;
                plan->group = base->group;
            }
            else {
                plan->pinned = base->has_type;
            }
            break;
        case MG_SOURCE_FUNCTION:
            plan->pinned = base->pinned && PyFunction_Check(owner) && may_keep_part(maker->program, step, owner, value);
            break;
        case MG_SOURCE_NAME:
            plan->pinned = base->pinned && mg_source_name_slot(owner, step->source.index) != NULL;
            break;
        case MG_SOURCE_ITEM:
            plan->pinned = base->pinned && PyTuple_Check(owner);
            plan->group = base->group;
            break;
        case MG_SOURCE_METHOD:
            plan->pinned = base->pinned && (PyMethod_Check(owner) || PyCFunction_Check(owner));
            plan->group = base->group;
            break;
        case MG_SOURCE_SET_ITEM:
            plan->pinned = base->pinned && PyFrozenSet_Check(owner);
            plan->group = base->group;
            break;
        case MG_SOURCE_PROXY:
            plan->pinned = base->pinned && Py_IS_TYPE(owner, &PyDictProxy_Type);
            plan->group = base->group;
            break;
        case MG_SOURCE_CELL:
        case MG_SOURCE_ATTR: {
            PyObject **slot = base->pinned ? slot_of(step, owner) : NULL;
            if (slot != NULL && *slot == value && may_keep(maker->program, step, value)) {
                plan->pinned = 1;
                base->watch_type |= has_mutable_type(owner);
            }
            break;
        }
        default: /* items of what can be changed */
            break;
    }
}

/* What becomes of a check. */
typedef enum { FATE_NONE, FATE_LIVE, FATE_TENSOR, FATE_LATE } Fate;

/* For a check that compares registers: nothing to do if all of them are pinned. */
static Fate
fate_of_many(const Maker *maker, const MgCheck *check)
{
    if (check->kind != MG_GUARD_APART) {
        return maker->plans[check->source].pinned && maker->plans[check->other].pinned ? FATE_NONE : FATE_LATE;
    }
    const int *ids = (const int *)(const void *)PyBytes_AS_STRING(check->expected);
    Py_ssize_t count = PyBytes_GET_SIZE(check->expected) / (Py_ssize_t)sizeof(int);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!maker->plans[ids[i]].pinned) {
            return FATE_LATE;
        }
    }
    return FATE_NONE;
}

static Fate
fate_of(Maker *maker, const MgCheck *check)
{
    StepPlan *plan = &maker->plans[check->source];
    PyObject *value = maker->registers[check->source];
    if (check->kind == MG_GUARD_QUIET || check->kind == MG_GUARD_SIZES) {
        return FATE_LATE;
    }
    if (check->kind == MG_GUARD_ALIAS || check->kind == MG_GUARD_DISTINCT || check->kind == MG_GUARD_APART ||
        check->kind == MG_GUARD_REFERENT) {
        return fate_of_many(maker, check);
    }
    int is_dict = value != NULL && PyDict_Check(value);
    int by_tag = (check->kind == MG_GUARD_LENGTH && is_dict) ||
                 /* the order of an OrderedDict can change with no change of the dict that it is */
                 (check->kind == MG_GUARD_KEYS && is_dict && (!PyODict_Check(value) || PyDict_GET_SIZE(value) == 0));
    if (by_tag) { /* a change of the dict has its group checked again, and this with it */
        return head_group(maker, check->source) >= 0 ? FATE_NONE : FATE_LIVE;
    }
    if (!plan->pinned) {
        return FATE_LIVE;
    }
    if (value == NULL) {
        return check->kind == MG_GUARD_ABSENT ? FATE_NONE : FATE_LIVE;
    }
    switch (check->kind) {
        case MG_GUARD_TYPE:
            if (has_mutable_type(value) && !mg_torch_is_tensor(value)) { /* of tensors it is checked with the rest */
                plan->watch_type = 1;
            }
            return FATE_NONE;
        case MG_GUARD_IDENTITY:
        case MG_GUARD_WEAK:
        case MG_GUARD_ABSENT:
        case MG_GUARD_PRESENT:
        case MG_GUARD_ANY_TENSOR: /* no class of tensors has a layout that others have */
            return FATE_NONE;
        case MG_GUARD_VALUE:
            return is_frozen(value) ? FATE_NONE : FATE_LIVE;
        case MG_GUARD_LENGTH:
            return PyTuple_Check(value) ? FATE_NONE : FATE_LIVE;
        case MG_GUARD_METHODS:
            return PyType_Check(value) && head_group(maker, check->source) >= 0 ? FATE_NONE : FATE_LIVE;
        case MG_GUARD_TENSOR:
            return FATE_TENSOR;
        default:
            return FATE_LIVE;
    }
}

static void
add_to(Words *words, const void *address, uint64_t expected, int owner)
{
    words->items[words->count] = (Word){address, expected};
    words->owners[words->count++] = owner;
}

static void
add_word(MgFast *fast, const void *address, uint64_t expected, int owner, int is_firm)
{
    Op *op = fast->op_count == 0 ? NULL : &fast->ops[fast->op_count - 1];
    if (op == NULL || op->kind != OP_WORDS) {
        op = &fast->ops[fast->op_count++];
        *op = (Op){.kind = OP_WORDS, .first = fast->words.count, .firm = fast->firm.count}; /* NOLINT: there is room */
    }
    op->count++;
    add_to(&fast->words, address, expected, owner);
    if (is_firm) {
        op->firm_count++;
        add_to(&fast->firm, address, expected, owner);
    }
}

/* Keeps an object alive as long as the fast path is. */
static PyObject *
keep(MgFast *fast, PyObject *object)
{
    fast->kept[fast->kept_count++] = Py_XNewRef(object);
    return object;
}

/* Where a function holds one of its parts. */
static PyObject **
function_slot(PyObject *function, Py_ssize_t part)
{
    PyFunctionObject *self = (PyFunctionObject *)function;
    return part == MG_PART_CODE         ? &self->func_code
           : part == MG_PART_DEFAULTS   ? &self->func_defaults
           : part == MG_PART_KWDEFAULTS ? &self->func_kwdefaults
           : part == MG_PART_CLOSURE    ? &self->func_closure
           : part == MG_PART_GLOBALS    ? &self->func_globals
                                        : &self->func_annotations;
}

/* The words for a pinned step. */
static void
emit_words(Maker *maker, int i)
{
    const MgStep *step = &maker->program->steps[i];
    const StepPlan *plan = &maker->plans[i];
    MgFast *fast = maker->fast;
    PyObject *value = maker->registers[i];
    Group *group = plan->headed < 0 ? NULL : &fast->groups[plan->headed];
    if (step->source.kind == MG_SOURCE_FUNCTION) {
        PyObject **slot = function_slot(maker->registers[step->base], step->source.index);
        add_word(fast, slot, (uint64_t)(uintptr_t)keep(fast, *slot), -1 - i, 1);
    }
    if (step->source.kind == MG_SOURCE_NAME) {
        PyObject **slot = mg_source_name_slot(maker->registers[step->base], step->source.index);
        add_word(fast, slot, (uint64_t)(uintptr_t)keep(fast, *slot), -1 - i, 1);
    }
    if (step->source.kind == MG_SOURCE_CELL || step->source.kind == MG_SOURCE_ATTR) {
        PyObject **slot = slot_of(step, maker->registers[step->base]);
        add_word(fast, slot, (uint64_t)(uintptr_t)keep(fast, *slot), -1 - i, 1);
    }
    if (step->source.kind == MG_SOURCE_DICT) {
        if (!maker->plans[step->base].pinned) {
            fast->ops[fast->op_count++] = (Op){.kind = OP_GROUP, .at = plan->headed};
            return;
        }
        add_word(fast, _PyObject_GetDictPtr(maker->registers[step->base]), (uint64_t)(uintptr_t)value, -1 - i, 1);
    }
    if (plan->watch_type) {
        add_word(fast, &value->ob_type, (uint64_t)(uintptr_t)Py_TYPE(value), -1 - i, 1);
    }
    if (group != NULL) {
        group->word = fast->words.count;
        group->firm = fast->firm.count;
        const void *address = group->is_type ? mg_watch_type_word((PyTypeObject *)value) : mg_watch_dict_word(value);
        add_word(fast, address, *(const uint64_t *)address, plan->headed, group->is_type);
    }
}

/* The ops of a step: words if it is pinned, then what has to be loaded and checked each time. */
static void
emit_step(Maker *maker, int i, const uint8_t *fates, int *live_count)
{
    const MgStep *step = &maker->program->steps[i];
    const StepPlan *plan = &maker->plans[i];
    MgFast *fast = maker->fast;
    if (plan->pinned) {
        emit_words(maker, i);
    }
    Op op = {.kind = plan->pinned ? OP_CHECKS : OP_STEP, .at = i, .first = *live_count};
    for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
        if (fates[j] == FATE_LIVE) {
            fast->live[(*live_count)++] = j;
            op.count++;
        }
    }
    if (!plan->pinned || op.count > 0) {
        fast->ops[fast->op_count++] = op;
    }
    if (!plan->pinned && plan->headed >= 0) {
        fast->ops[fast->op_count++] = (Op){.kind = OP_GROUP, .at = plan->headed};
    }
}

/* 1 if a step is an argument, or loaded from one, with nothing pinned on the way. */
static int
is_early(const Maker *maker, int i)
{
    for (; i >= 0; i = maker->program->steps[i].base) {
        if (maker->plans[i].pinned) {
            return 0;
        }
        if (maker->program->steps[i].base < 0) {
            return maker->program->steps[i].source.kind == MG_SOURCE_LOCAL;
        }
    }
    return 0;
}

/* Sorts the steps by the groups that they rest on. */
static void
collect_members(Maker *maker)
{
    MgFast *fast = maker->fast;
    int count = maker->program->step_count, next = 0;
    for (int i = 0; i < count; i++) {
        if (maker->plans[i].pinned && maker->plans[i].group >= 0) {
            fast->groups[maker->plans[i].group].count++;
        }
    }
    for (int i = 0; i < fast->group_count; i++) {
        fast->groups[i].first = next;
        next += fast->groups[i].count;
        fast->groups[i].count = 0;
    }
    for (int i = 0; i < count; i++) {
        if (maker->plans[i].pinned && maker->plans[i].group >= 0) {
            Group *group = &fast->groups[maker->plans[i].group];
            fast->members[group->first + group->count++] = i;
        }
    }
}

/* Where an address is in the table, or could be. */
static size_t
apart_find(const Apart *apart, uintptr_t address)
{
    size_t at = (size_t)((address >> 4) * 0x9E3779B97F4A7C15u >> 20) & apart->mask;
    while (apart->table[at] != 0 && (apart->table[at] & ~(uintptr_t)1) != address) {
        at = (at + 1) & apart->mask;
    }
    return at;
}

/* Prepares a guard that many objects are distinct. 1, or 0 if it is to be made as it is. */
static int
add_apart(Maker *maker, int index)
{
    const MgCheck *check = &maker->program->checks[index];
    if (check->kind != MG_GUARD_APART) {
        return 0;
    }
    const int *ids = (const int *)(const void *)PyBytes_AS_STRING(check->expected);
    Py_ssize_t count = PyBytes_GET_SIZE(check->expected) / (Py_ssize_t)sizeof(int);
    Apart apart = {.check = index, .mask = 15};
    while (apart.mask < 2 * (size_t)count) {
        apart.mask = apart.mask * 2 + 1;
    }
    MgFast *fast = maker->fast;
    Apart *aparts = PyMem_Realloc(fast->aparts, sizeof(Apart) * (size_t)(fast->apart_count + 1));
    if (aparts == NULL) {
        return 0;
    }
    fast->aparts = aparts;
    apart.live = PyMem_Malloc(sizeof(int) * (size_t)(count + 1));
    apart.table = PyMem_Calloc(apart.mask + 1, sizeof(uintptr_t));
    if (apart.live == NULL || apart.table == NULL) {
        PyMem_Free(apart.live);
        PyMem_Free(apart.table);
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        uintptr_t is_first = i < check->index;
        if (!maker->plans[ids[i]].pinned) {
            apart.live[apart.count++] = ids[i];
            apart.first += (int)is_first;
        }
        else {
            uintptr_t address = (uintptr_t)maker->registers[ids[i]];
            apart.table[apart_find(&apart, address)] |= address | is_first;
        }
    }
    fast->aparts[fast->apart_count++] = apart;
    return 1;
}

/* Notes that the register of a pinned step is needed. */
static void
fill(Maker *maker, uint8_t *filled, int step)
{
    if (maker->plans[step].pinned && !filled[step]) {
        filled[step] = 1;
        maker->fast->fill[maker->fast->fill_count++] = step;
    }
}

static void
collect_fill(Maker *maker, uint8_t *filled)
{
    const MgProgram *program = maker->program;
    MgFast *fast = maker->fast;
    for (int i = 0; i < program->kept_count; i++) {
        fill(maker, filled, program->kept[i]);
    }
    for (int i = 0; i < fast->late_count; i++) {
        const MgCheck *check = &program->checks[fast->late[i]];
        fill(maker, filled, check->source);
        for (int k = 0; check->kind == MG_GUARD_SIZES && k < mg_size_guards_count(check->expected); k++) {
            fill(maker, filled, mg_size_guards_register(check->expected, k));
        }
        if (check->kind == MG_GUARD_APART || check->kind == MG_GUARD_QUIET) {
            const int *ids = (const int *)(const void *)PyBytes_AS_STRING(check->expected);
            Py_ssize_t count = check->kind == MG_GUARD_QUIET
                                   ? check->index
                                   : PyBytes_GET_SIZE(check->expected) / (Py_ssize_t)sizeof(int);
            for (Py_ssize_t k = 0; k < count; k++) {
                fill(maker, filled, ids[k]);
            }
        }
        else if (check->kind != MG_GUARD_SIZES) {
            fill(maker, filled, check->other);
        }
    }
    for (int i = 0; i < program->input_count; i++) {
        int step = program->inputs[i];
        fast->inputs[i] = maker->plans[step].pinned ? maker->registers[step] : NULL;
        if (fast->inputs[i] == NULL) {
            fast->live_inputs[fast->live_input_count++] = i;
        }
    }
}

/* The guards on the metadata of pinned tensors. MG_OK, or MG_ERR if there is no memory. */
static int
collect_tensors(Maker *maker, const uint8_t *fates)
{
    const MgProgram *program = maker->program;
    size_t room = (size_t)program->check_count + 1;
    PyObject **objects = PyMem_Malloc(sizeof(PyObject *) * room);
    MgTensorCheck **guards = PyMem_Malloc(sizeof(MgTensorCheck *) * room);
    int *numbers = PyMem_Malloc(sizeof(int) * room), count = 0, status = MG_ERR;
    if (objects != NULL && guards != NULL && numbers != NULL) {
        for (int i = 0; i < program->check_count; i++) {
            if (fates[i] == FATE_TENSOR) {
                objects[count] = maker->registers[program->checks[i].source];
                guards[count] = program->checks[i].tensor;
                numbers[count++] = i;
            }
        }
        status = mg_pinned_make(&maker->fast->tensors, count, objects, guards, numbers);
    }
    PyMem_Free(objects);
    PyMem_Free(guards);
    PyMem_Free(numbers);
    return status;
}

/* The whole of it. `fates` has room for a byte for each check, `filled` for each step. MG_OK, or MG_ERR if there is no memory. */
static int
make(Maker *maker, uint8_t *fates, uint8_t *filled)
{
    const MgProgram *program = maker->program;
    MgFast *fast = maker->fast;
    for (int i = 0; i < program->check_count; i++) {
        if (program->checks[i].kind == MG_GUARD_TYPE) {
            maker->plans[program->checks[i].source].has_type = 1;
        }
    }
    for (int i = 0; i < program->step_count; i++) {
        plan_step(maker, i);
        fast->pinned[i] = maker->plans[i].pinned;
    }
    for (int i = 0; i < program->check_count; i++) {
        fates[i] = (uint8_t)fate_of(maker, &program->checks[i]);
    }
    collect_members(maker);
    memcpy(fast->values, maker->registers, sizeof(PyObject *) * (size_t)program->step_count);
    int live_count = 0;
    for (int i = 0; i < program->step_count; i++) { /* arguments first: they differ most often */
        if (is_early(maker, i)) {
            const MgStep *step = &program->steps[i];
            Op op = {.kind = OP_STEP, .at = i, .first = live_count};
            for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
                if (fates[j] == FATE_LIVE) {
                    fast->live[live_count++] = j;
                    op.count++;
                }
            }
            fast->ops[fast->op_count++] = op;
        }
    }
    for (int i = 0; i < program->step_count; i++) {
        if (!is_early(maker, i)) {
            emit_step(maker, i, fates, &live_count);
        }
        else if (maker->plans[i].headed >= 0) {
            fast->ops[fast->op_count++] = (Op){.kind = OP_GROUP, .at = maker->plans[i].headed};
        }
    }
    for (int i = 0; i < program->check_count; i++) {
        if (fates[i] == FATE_LATE && !add_apart(maker, i)) {
            fast->late[fast->late_count++] = i;
        }
    }
    collect_fill(maker, filled);
    return collect_tensors(maker, fates);
}

/* Room for so many words. 1 if there is memory for it. */
static int
make_words(Words *words, size_t count)
{
    words->items = PyMem_Calloc(count + AHEAD, sizeof(Word));
    words->owners = PyMem_Malloc(sizeof(int) * count);
    return words->items != NULL && words->owners != NULL;
}

static void
free_words(Words *words)
{
    PyMem_Free(words->items);
    PyMem_Free(words->owners);
}

void
mg_fast_arm(MgProgram *program, PyObject *const *registers)
{
    int steps = program->step_count;
    size_t size = (size_t)steps + 1, checks = (size_t)program->check_count + 1;
    MgFast *old = program->fast;
    if ((old != NULL && old->busy) || (program->armed > 64 && program->armed > program->fast_hits)) {
        return; /* it does not pay */
    }
    if (program->changes == NULL && (program->changes = PyMem_Calloc(size, 1)) == NULL) {
        return;
    }
    for (int i = 0; old != NULL && i < steps; i++) {
        if (old->values[i] != registers[i] && program->changes[i] < MANY_CHANGES) {
            program->changes[i]++;
        }
    }
    if (old != NULL) { /* what it kept may run code when it goes, and the registers are borrowed */
        old->next = program->retired;
        program->retired = old;
        program->fast = NULL;
    }
    MgFast *fast = PyMem_Calloc(1, sizeof(MgFast));
    StepPlan *plans = PyMem_Calloc(size, sizeof(StepPlan));
    uint8_t *marks = PyMem_Calloc(size + checks, 1);
    if (fast == NULL || plans == NULL || marks == NULL) {
        goto done;
    }
    fast->values = PyMem_Malloc(sizeof(PyObject *) * size);
    fast->pinned = PyMem_Calloc(size, 1);
    fast->watch_epoch = MG_WATCH_UNKNOWN;
    int has_words = make_words(&fast->words, size * 3) && make_words(&fast->firm, size * 3);
    fast->members = PyMem_Malloc(sizeof(int) * size);
    fast->live = PyMem_Malloc(sizeof(int) * checks);
    fast->ops = PyMem_Malloc(sizeof(Op) * size * 4);
    fast->late = PyMem_Malloc(sizeof(int) * checks);
    fast->fill = PyMem_Malloc(sizeof(int) * size);
    fast->inputs = PyMem_Malloc(sizeof(PyObject *) * (size_t)(program->input_count + 1));
    fast->live_inputs = PyMem_Malloc(sizeof(int) * (size_t)(program->input_count + 1));
    fast->kept = PyMem_Malloc(sizeof(PyObject *) * size);
    if (fast->values != NULL && fast->pinned != NULL && has_words && fast->members != NULL && fast->live != NULL &&
        fast->ops != NULL && fast->late != NULL && fast->fill != NULL && fast->inputs != NULL &&
        fast->live_inputs != NULL && fast->kept != NULL) {
        Maker maker = {.program = program, .registers = registers, .fast = fast, .plans = plans};
        if (make(&maker, marks, marks + checks) == MG_OK) {
            program->fast = fast;
            program->armed++;
            fast = NULL;
        }
    }
done:
    mg_fast_free(fast);
    PyMem_Free(plans);
    PyMem_Free(marks);
}

/* ---- running it ---- */

/* The tag of a group has changed: loads and checks what rests on it. 1 if nothing that matters has changed. */
static int
mend(MgProgram *program, Group *group, int *failed)
{
    MgFast *fast = program->fast;
    PyObject *head = fast->values[group->head];
    const MgStep *step = &program->steps[group->head];
    for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
        MgCheck *check = &program->checks[j];
        if (check->source == group->head &&
            (check->kind == MG_GUARD_KEYS || check->kind == MG_GUARD_LENGTH || check->kind == MG_GUARD_METHODS)) {
            int good = mg_guard_check(check, fast->values);
            if (good <= 0) {
                *failed = j;
                return good;
            }
        }
    }
    for (int k = group->first; k < group->first + group->count; k++) {
        int i = fast->members[k];
        step = &program->steps[i];
        PyObject *base = fast->values[step->base];
        PyObject *value = base == NULL ? NULL : mg_source_load(&step->source, base, NULL);
        if (value != fast->values[i]) {
            return MG_FAST_UNKNOWN;
        }
        for (int j = step->first_check; j < step->first_check + step->check_count; j++) {
            MgCheck *check = &program->checks[j];
            if (check->source != i || check->kind == MG_GUARD_TENSOR || check->kind == MG_GUARD_ALIAS ||
                check->kind == MG_GUARD_DISTINCT || check->kind == MG_GUARD_APART || check->kind == MG_GUARD_REFERENT ||
                check->kind == MG_GUARD_QUIET || check->kind == MG_GUARD_SIZES) {
                continue; /* made later, or the same objects as before */
            }
            int good = mg_guard_check(check, fast->values);
            if (good <= 0) {
                *failed = j;
                return good;
            }
        }
    }
    group->tag = group->is_type ? mg_watch_type_start((PyTypeObject *)head) : mg_watch_dict(head);
    if (group->tag == 0) {
        return 1; /* it can't be watched any more: it is checked each time */
    }
    if (group->word >= 0) {
        Word *word = &fast->words.items[group->word];
        word->expected = *word->address;
        if (group->is_type) {
            fast->firm.items[group->firm].expected = word->expected;
        }
    }
    return 1;
}

/* A group whose dict is live, or is the instance dict of something live. */
static int
run_group(MgProgram *program, Group *group, PyObject **values, int *failed)
{
    MgFast *fast = program->fast;
    const MgStep *step = &program->steps[group->head];
    PyObject *dict = values[group->head];
    if (step->source.kind == MG_SOURCE_DICT) {
        PyObject *owner = fast->pinned[step->base] ? fast->values[step->base] : values[step->base];
        dict = owner == NULL ? NULL : mg_instance_dict(owner);
        values[group->head] = dict;
        if (dict == NULL) {
            return MG_FAST_UNKNOWN;
        }
        if (MG_LIKELY(mg_watch_dict(dict) == group->tag)) {
            return 1;
        }
        if (dict != fast->values[group->head]) {
            return MG_FAST_UNKNOWN;
        }
    }
    else {
        if (dict == NULL || !PyDict_Check(dict)) {
            return MG_FAST_UNKNOWN;
        }
        if (MG_LIKELY(mg_watch_dict(dict) == group->tag)) {
            return 1;
        }
        fast->values[group->head] = dict;
    }
    return mend(program, group, failed);
}

/* 1 for guards that hold at a glance: most are on types, and most values are the very objects of the capture. */
static inline int
holds_clearly(const MgCheck *check, PyObject *const *values)
{
    PyObject *value = values[check->source];
    if (value == NULL) {
        return 0;
    }
    return check->kind == MG_GUARD_TYPE
               ? (PyObject *)Py_TYPE(value) == check->expected
               : value == check->expected && (check->kind == MG_GUARD_VALUE || check->kind == MG_GUARD_IDENTITY);
}

/* Makes the checks of an op. */
static inline int
run_checks(MgProgram *program, const Op *op, PyObject **values, int *failed)
{
    const int *live = program->fast->live;
    for (int k = op->first; k < op->first + op->count; k++) {
        if (MG_LIKELY(holds_clearly(&program->checks[live[k]], values))) {
            continue;
        }
        int good = mg_guard_check(&program->checks[live[k]], values);
        if (MG_UNLIKELY(good <= 0)) {
            *failed = live[k];
            return good;
        }
    }
    return 1;
}

static inline int
run_words(MgProgram *program, const Words *words, int first, int count, int *failed)
{
    const Word *word = words->items + first, *end = word + count;
    for (; word < end; word++) {
        __builtin_prefetch(word[AHEAD].address); /* there is room behind the last */
        if (MG_UNLIKELY(*word->address != word->expected)) {
            int owner = words->owners[word - words->items];
            if (owner < 0) {
                return MG_FAST_UNKNOWN;
            }
            int good = mend(program, &program->fast->groups[owner], failed);
            if (good != 1) {
                return good;
            }
        }
    }
    return 1;
}

/* 1 if the live objects of a guard are as distinct as they must be. */
static int
run_apart(const Apart *apart, PyObject **values)
{
    for (int i = 0; i < apart->count; i++) {
        uintptr_t address = (uintptr_t)values[apart->live[i]];
        uintptr_t found = apart->table[apart_find(apart, address)];
        if (found != 0 && (i < apart->first || (found & 1))) {
            return 0;
        }
        for (int k = i + 1; i < apart->first && k < apart->count; k++) {
            if (values[apart->live[k]] == values[apart->live[i]]) {
                return 0;
            }
        }
    }
    return 1;
}

static int
run_ops(MgProgram *program, PyObject *const *arguments, PyObject **values, int *failed)
{
    MgFast *fast = program->fast;
    uint64_t changes = fast->words.count - fast->firm.count < MANY_TAGS ? MG_WATCH_UNKNOWN : mg_watch_epoch();
    int good = 1, unchanged = changes != MG_WATCH_UNKNOWN && changes == fast->watch_epoch;
    for (const Op *op = fast->ops, *end = op + fast->op_count; op < end; op++) {
        switch (op->kind) {
            case OP_WORDS:
                good = unchanged ? run_words(program, &fast->firm, op->firm, op->firm_count, failed)
                                 : run_words(program, &fast->words, op->first, op->count, failed);
                break;
            case OP_STEP: {
                const MgStep *step = &program->steps[op->at];
                PyObject *base = step->base < 0             ? NULL
                                 : fast->pinned[step->base] ? fast->values[step->base]
                                                            : values[step->base];
                values[op->at] =
                    step->base >= 0 && base == NULL ? NULL : mg_source_load(&step->source, base, arguments);
                good = run_checks(program, op, values, failed);
                break;
            }
            case OP_CHECKS:
                values[op->at] = fast->values[op->at];
                good = run_checks(program, op, values, failed);
                break;
            case OP_GROUP:
                good = run_group(program, &fast->groups[op->at], values, failed);
                break;
        }
        if (MG_UNLIKELY(good != 1)) {
            return good;
        }
    }
    fast->watch_epoch = changes;
    fast->unchanged_runs += (unsigned)unchanged;
    good = mg_pinned_run(&fast->tensors, failed);
    if (good != 1) {
        return good == MG_PINNED_UNKNOWN ? MG_FAST_UNKNOWN : good;
    }
    for (int i = 0; i < fast->fill_count; i++) {
        values[fast->fill[i]] = fast->values[fast->fill[i]];
    }
    for (int i = 0; i < fast->apart_count; i++) {
        if (!run_apart(&fast->aparts[i], values)) {
            *failed = fast->aparts[i].check;
            return 0;
        }
    }
    for (int i = 0; i < fast->late_count; i++) {
        good = mg_guard_check(&program->checks[fast->late[i]], values);
        if (good <= 0) {
            *failed = fast->late[i];
            return good;
        }
    }
    return 1;
}

int
mg_fast_run(MgProgram *program, PyObject *const *arguments, MgRegisters *registers, int *failed)
{
    MgFast *fast = program->fast;
    *failed = -1;
    if (MG_UNLIKELY(fast->busy)) {
        return MG_FAST_UNKNOWN;
    }
    fast->busy = 1;
    int good = run_ops(program, arguments, registers->values, failed);
    fast->busy = 0;
    if (MG_LIKELY(good == 1)) {
        registers->fast = fast;
        program->fast_hits++;
    }
    return good;
}

void
mg_fast_inputs(const MgFast *fast, const MgProgram *program, PyObject *const *values, PyObject **inputs)
{
    memcpy(inputs, fast->inputs, sizeof(PyObject *) * (size_t)program->input_count);
    for (int k = 0; k < fast->live_input_count; k++) {
        int i = fast->live_inputs[k];
        inputs[i] = values[program->inputs[i]];
    }
}

MgFastSize
mg_fast_size(const MgFast *fast)
{
    MgFastSize size = {.words = fast->words.count,
                       .checks = fast->late_count + fast->apart_count,
                       .tensors = fast->tensors.count,
                       .unchanged = fast->unchanged_runs};
    for (int i = 0; i < fast->op_count; i++) {
        size.steps += fast->ops[i].kind != OP_WORDS;
        size.checks += fast->ops[i].kind == OP_WORDS ? 0 : fast->ops[i].count;
    }
    return size;
}

int
mg_fast_is_live(const MgFast *fast, int check)
{
    for (int i = 0; i < fast->op_count; i++) {
        for (int k = 0; fast->ops[i].kind != OP_WORDS && k < fast->ops[i].count; k++) {
            if (fast->live[fast->ops[i].first + k] == check) {
                return 1;
            }
        }
    }
    for (int i = 0; i < fast->apart_count; i++) {
        if (fast->aparts[i].check == check) {
            return 1;
        }
    }
    for (int i = 0; i < fast->late_count; i++) {
        if (fast->late[i] == check) {
            return 1;
        }
    }
    return 0;
}

int
mg_fast_traverse(const MgFast *fast, visitproc visit, void *arg)
{
    for (; fast != NULL; fast = fast->next) {
        for (int i = 0; i < fast->kept_count; i++) {
            Py_VISIT(fast->kept[i]);
        }
    }
    return 0;
}

static void
free_one(MgFast *fast)
{
    PyMem_Free(fast->values);
    PyMem_Free(fast->pinned);
    free_words(&fast->words);
    free_words(&fast->firm);
    PyMem_Free(fast->groups);
    PyMem_Free(fast->members);
    PyMem_Free(fast->live);
    PyMem_Free(fast->ops);
    mg_pinned_free(&fast->tensors);
    PyMem_Free(fast->late);
    for (int i = 0; i < fast->apart_count; i++) {
        PyMem_Free(fast->aparts[i].live);
        PyMem_Free(fast->aparts[i].table);
    }
    PyMem_Free(fast->aparts);
    PyMem_Free(fast->fill);
    PyMem_Free(fast->inputs);
    PyMem_Free(fast->live_inputs);
    for (int i = 0; i < fast->kept_count; i++) {
        Py_XDECREF(fast->kept[i]);
    }
    PyMem_Free(fast->kept);
    PyMem_Free(fast);
}

void
mg_fast_free(MgFast *fast)
{
    while (fast != NULL) {
        MgFast *next = fast->next;
        free_one(fast);
        fast = next;
    }
}
