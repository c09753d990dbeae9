/* Who wants to hear what. A module that wants to know of forks, ends and the like registers a
 * Listener when the engine starts; who has something to tell knows none of them. */
#ifndef TAUPY_LISTENERS_H
#define TAUPY_LISTENERS_H

#include "routine.h"

typedef struct Listener {
    void (*on_thread)(Thread *thread); /* it begins: in itself, before anything is recorded */
    void (*on_thread_begun)(Thread *thread); /* its clock runs */
    void (*on_thread_end)(Thread *thread); /* in itself, without the GIL, under ended_lock */
    void (*on_lookup)(Thread *thread);     /* a child that has no node is entered; under the GIL */
    /* A call path is new; node NULL: there was no room for it. */
    void (*on_path)(Thread *thread, Routine *routine, Node *node);
    void (*on_region)(void);    /* a region is about to begin or to end */
    /* Calls between `inner` and `outer`, which has returned, were left open, and have been closed. */
    void (*on_repaired)(Thread *thread, Node *inner, Node *outer, uint64_t now);
    void (*on_closed)(const Thread *thread); /* with all that was open on it */
    void (*on_long_call)(void); /* a call took so long that much may have happened */
    void (*on_finish)(int ends); /* the part is about to be closed; or copied: ends is 0 */
    void (*on_fork)(const Thread *thread); /* in the child; the thread that has forked, or NULL */
    struct Listener *next;
} Listener;

extern Listener *listeners; /* in the order of registration */

/* Does nothing if it is registered already. */
void listener_add(Listener *listener);

#define TELL(event, ...)                                                                           \
    for (const Listener *listener = listeners; listener != NULL; listener = listener->next)        \
        if (listener->event != NULL)                                                               \
    listener->event(__VA_ARGS__)

#endif
