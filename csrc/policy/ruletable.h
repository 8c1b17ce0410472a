/* What the files of the policy share: the tables of rules, and a call that one of them is asked about. */
#ifndef MG_RULETABLE_H
#define MG_RULETABLE_H

#include "base/table.h"
#include "capture/capture.h"

typedef enum {
#define MG_RULE(NAME, text, handler) MG_RULE_##NAME,
#include "policy/rules.def"
#undef MG_RULE
    MG_RULE_COUNT,
} MgRule;

/* Set by mg_rules_configure; see magneto/_rules.py. */
extern struct MgRules {
    MgTable calls;            /* callable -> Rule */
    MgTable methods;          /* PyMethodDef -> the descriptor among the callables */
    PyObject *kept;           /* strong: list of the callables above */
    PyObject *owner_names;    /* names of C modules whose functions are recorded */
    PyObject *native_modules; /* the same of those whose functions are harmless */
    PyObject *managers;       /* __enter__ -> (enter function, exit function, names of its arguments, what it notes) */
    PyObject *setters;        /* functions that change settings -> what they are asked for; see _rules.py */
    PyObject *operator_abs;   /* what abs() is on a tensor */
    PyObject *polyfills;      /* C functions -> Python functions that do the same, to be inlined in their place */
    PyObject *no_override;    /* a __torch_function__ that does not count */
    PyObject *prepared;  /* dict: codes of functions (*args, **kwargs), and what is called before they are captured */
    PyObject *call_code; /* the code of torch.nn.Module._call_impl */
} mg_rules;

/* A call in captured code. All borrowed. */
typedef struct {
    MgCapture *capture;
    MgRule rule;
    PyObject *callable;
    PyObject *const *args;
    Py_ssize_t count;
    PyObject *kwnames; /* or NULL */
} MgCall;

/* Calls by a rule. New; NULL with an exception, which may be that of an aborted capture. */
PyObject *mg_special_call(const MgCall *call);

#endif
