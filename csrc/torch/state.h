/* Torch's global state: grad mode, autocast, default dtype and the like. */
#ifndef MG_STATE_H
#define MG_STATE_H

#include "base/magneto.h"

/* Takes the tables that it knows. */
void mg_state_configure(PyObject *tables);

/* The state as one hashable object. New. */
PyObject *mg_state_read(void);

/* What an item of the state is called, as in "torch.is_grad_enabled()". Borrowed; NULL without an exception if it has no name. */
PyObject *mg_state_name(Py_ssize_t item);

/* With all that has a plain word equal: 1 if the rest of the state is that of `state`, 0 or -1. */
int mg_state_same_extra(PyObject *state);

/* 1 if a state is told in full by words and by what mg_state_same_extra looks at. */
int mg_state_is_plain(PyObject *state);

/* 1 if the tables say how it is set. */
int mg_state_is_kept(void);

/* Makes the state this one. MG_OK, or MG_ERR with what was raised first: all that can be set is set. */
int mg_state_apply(PyObject *state);

/* Keeps what autocast has cast (1) while a graph leaves it and it is entered anew; lets it go (0). */
int mg_state_hold_casts(int hold);

/* Puts settings back: (function, arguments, ...), or NULL. MG_OK or MG_ERR. */
int mg_state_undo(PyObject *settings);

#endif
