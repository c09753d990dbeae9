/* Event registration. A module interested in forks, ends and so on registers a Listener when the
 * engine starts; code that raises an event does not know its listeners. */
#ifndef TAUPY_LISTENERS_H
#define TAUPY_LISTENERS_H

#include "routine.h"

typedef struct Listener {
    void (*on_thread)(Thread *thread); /* on the new thread, before anything is recorded */
    void (*on_thread_begun)(Thread *thread); /* its clock is running */
    void (*on_thread_end)(Thread *thread); /* on that thread, without the GIL, under ended_lock */
    void (*on_lookup)(Thread *thread);     /* entering a child with no node yet; under the GIL */
    /* A new call path; node is NULL if there was no room for it. */
    void (*on_path)(Thread *thread, Routine *routine, Node *node);
    void (*on_import)(void);    /* an import has ended */
    void (*on_region)(void);    /* a region is about to begin or end */
    /* Calls between `inner` and `outer`, which has returned, were left open and are now closed. */
    void (*on_repaired)(Thread *thread, Node *inner, Node *outer, uint64_t now);
    void (*on_closed)(const Thread *thread); /* together with everything open on it */
    void (*on_long_call)(void); /* a call took so long that much may have changed */
    void (*on_finish)(int ends); /* the part is about to be closed, or copied (ends is 0) */
    void (*on_fork)(const Thread *thread); /* in the child; the forking thread, or NULL */
    struct Listener *next;
} Listener;

extern Listener *listeners; /* in order of registration */

/* Idempotent. */
void listener_add(Listener *listener);

#define TELL(event, ...)                                                                           \
    for (const Listener *listener = listeners; listener != NULL; listener = listener->next)        \
        if (listener->event != NULL)                                                               \
    listener->event(__VA_ARGS__)

#endif
