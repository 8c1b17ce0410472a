/* Libraries that AOTInductor has made of a graph, called from C. */
#ifndef MG_LIBRARY_H
#define MG_LIBRARY_H

#include "base/magneto.h"

/* A callable: Library(content, inputs, outputs, written). See library.c. */
extern PyTypeObject MgLibrary_Type;

int mg_library_types_ready(void); /* MG_OK or MG_ERR */

#endif
