/* The thread that looks at lines from within the program (`taupy run --lines=inside`), where the
 * watch may not read it, or there is none. It is a native one, unknown to Python, takes neither the
 * GIL nor signals, allocates nothing, and has a table of descriptors of its own. */
#ifndef TAUPY_LINE_THREAD_H
#define TAUPY_LINE_THREAD_H

#include "listeners.h"

extern int line_thread_wanted;
/* It ends before the part is closed; a forked child has none at first. */
extern Listener line_thread_listener;

/* Begin to look, if that is wanted and nobody does. */
void line_thread_begin(void);
/* Stop looking: the thread has ended when this returns, and the kernel no longer counts it. May be
 * called in a signal handler. */
void line_thread_end(void);

#endif
