/* Values that a program passes to its loggers are passed on to a function such as `step_value`.
 * Only numbers are accepted, also of tensors on the CPU, and none of the program's code runs. */
#ifndef TAUPY_LOGGED_H
#define TAUPY_LOGGED_H

#include "thread.h"

typedef void TakeValue(Thread *thread, const char *name, double value);

/* A value by its name; NULL: none. */
void logged_value(Thread *thread, TakeValue *take, PyObject *name, PyObject *value);
/* The same, but no tensor. */
void logged_plain(Thread *thread, TakeValue *take, PyObject *name, PyObject *value);
/* A mapping of values, in which mappings may be nested: `train.loss`; or a text like
 * `loss=0.5, accuracy=0.9`. `more` is a further mapping or NULL; after a text, its name, the values
 * are `text/name`. */
void logged_values(Thread *thread, TakeValue *take, PyObject *values, PyObject *more);

#endif
