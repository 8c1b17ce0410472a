/* Objects as texts, for reasons and messages. */
#ifndef MG_TEXT_H
#define MG_TEXT_H

#include "base/magneto.h"

/* An object as a text of bounded length that runs no code of the user's and holds no address: plain values as they are, of
 * others the name or the class. New. */
PyObject *mg_text_of(PyObject *object);

#endif
