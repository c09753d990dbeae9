/* Watchdog for a kernel that does not end while it is counted: report it immediately, and let the
 * others continue.
 *
 * While one launch is counted, other threads' launches wait. A kernel that itself waits for another
 * GPU's kernel would then wait forever: after a timeout the others continue, uncounted, and the
 * kernel is named. */
#ifndef TAUPY_COUNT_WATCH_H
#define TAUPY_COUNT_WATCH_H

#include <stdint.h>

/* `patience_ms`: longest time one launch may take, with all its passes. `tend`: what the watchdog
 * thread also does when woken, while holding the launch right. */
void count_watch_setup(uint32_t patience_ms, void (*tend)(void));
void count_watch_wake(void);

/* Take the launch right, held by one thread at a time. Nonzero: the caller has it until
 * `count_give`. 0: a kernel being counted does not end, and nothing else is counted meanwhile. */
int count_take(void);
void count_give(void);

/* Called by the thread holding the right: counting of this kernel begins, or ends. The latter
 * returns whether it took too long. */
void count_watch_begins(const char *kernel);
int count_watch_ends(void);

/* Launches that went ahead uncounted because of it. */
uint64_t count_unwatched(void);

#endif
