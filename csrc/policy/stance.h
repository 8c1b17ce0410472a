/* Stances: what is done about captures at all, as magneto.set_stance and torch.compiler.set_stance say. */
#ifndef MG_STANCE_H
#define MG_STANCE_H

#include "base/magneto.h"
#include "cpython/watch.h"

typedef enum {
    MG_STANCE_DEFAULT,
    MG_STANCE_FORCE_EAGER,        /* nothing is compiled, and nothing that was compiled is used */
    MG_STANCE_EAGER_ON_RECOMPILE, /* what was compiled is used, and nothing is added */
    MG_STANCE_FAIL_ON_RECOMPILE,  /* the same, with an error where something would be added */
    MG_STANCE_EAGER_THEN_COMPILE, /* the first call runs in CPython */
    MG_STANCE_AOT_THEN_COMPILE,   /* the first call is compiled by aot_eager */
    MG_STANCE_FORCE_BACKEND,      /* another backend for all */
    MG_STANCE_SKIP_GUARDS,        /* as by default, with an error where something would be added */
    MG_STANCE_INVALID,            /* torch was given a name that it does not know */
} MgStance;

/* The stance, and the dict whose change may have changed it; use mg_stance_get. */
extern MgStance mg_stance_current;
extern PyDictObject *mg_stance_watched;
extern uint64_t mg_stance_version;
void mg_stance_refresh(void);

static inline MgStance
mg_stance_get(void)
{
    if (MG_UNLIKELY(mg_stance_watched == NULL || mg_watch_dict((PyObject *)mg_stance_watched) != mg_stance_version)) {
        mg_stance_refresh();
    }
    return mg_stance_current;
}

/* The callable to use in place of a compiled one under MG_STANCE_FORCE_BACKEND. New. */
PyObject *mg_stance_forced(PyObject *compiled);

/* Sets magneto's own stance, which goes before that of torch. */
void mg_stance_set(MgStance stance);

/* Takes what magneto/_control.py passes: "forced". */
void mg_stance_configure(PyObject *tables);

#endif
