/* A kernel that does not end while it is counted: told of at once, and out of the others' way.
 *
 * While one launch is counted, other threads' launches wait. One that waits for another GPU's kernel
 * would so wait for ever: after some time the others go on, uncounted, and the kernel is named. */
#ifndef TAUPY_COUNT_WATCH_H
#define TAUPY_COUNT_WATCH_H

#include <stdint.h>

/* `patience_ms`: how long one launch may take with all its passes. `tend`: what the thread that
 * watches does besides, when it is woken, with the right to launch. */
void count_watch_setup(uint32_t patience_ms, void (*tend)(void));
void count_watch_wake(void);

/* The right to launch, one thread at a time: not 0: it is the caller's until `count_give`. 0: a kernel
 * that is being counted does not end; nothing else is counted meanwhile. */
int count_take(void);
void count_give(void);

/* By the thread that has it: this kernel is counted from now on, and no more. The latter tells whether
 * it took too long. */
void count_watch_begins(const char *kernel);
int count_watch_ends(void);

/* Launches that went on uncounted because of it. */
uint64_t count_unwatched(void);

#endif
