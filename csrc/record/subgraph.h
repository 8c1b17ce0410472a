/* Recordings within a recording: functions that an operator is given become graphs of their own. */
#ifndef MG_RECORD_SUBGRAPH_H
#define MG_RECORD_SUBGRAPH_H

#include "capture/capture.h"
#include "ir/outcome.h"
#include "ir/subgraph.h"
#include "record/arguments.h"

/* What magneto/_higher.py asks for by _core.subgraph(action, ...), see there. New. */
PyObject *mg_subgraph_act(MgCapture *capture, PyObject *const *args, Py_ssize_t count);

/* An operation is given what node `node` returns, which captured code has as `object`. MG_OK or MG_ERR. */
int mg_subgraph_meet(MgCapture *capture, int node, PyObject *object);

/* Before a node is made: MG_ERR if what it is given has gone into a subgraph that is closed. */
int mg_subgraph_check(MgCapture *capture, const MgMapping *mapping);

/* An operation writes to some of its twins, by position: MG_ERR if a subgraph may not. */
int mg_subgraph_write(MgCapture *capture, PyObject *twins, const MgOutcome *outcome);

/* 1 if a tensor's metadata tells whether it requires grad. Not so under a transform where it may only do so around it. */
int mg_subgraph_knows_grad(const MgCapture *capture, const MgTwin *twin);

#endif
