/* Collectives of PyTorch's process groups: all_reduce, broadcast and so on.
 *
 * A backend works at them on threads of its own, which tell us when one begins and ends
 * (collectives_library.cpp). Who has asked for it, and when, is noted where a thread of the
 * program comes by: at routines that are known, and between nodes of a backward pass, where
 * DistributedDataParallel asks without a frame of Python's. The group counts what it was asked
 * for, so none is missed; the count is the collective's number, the same on all ranks.
 *
 * What is written down has a fixed size: sums by communicator, operation and call path, and of
 * each communicator the single collectives. Beyond COLLECTIVES_AT_MOST of these only stretches of
 * COLLECTIVES_TOGETHER are kept, of each two, four, eight ... the first, by their number: the
 * same ones on all ranks. Backends' threads never wait for the GIL, and allocate nothing in the
 * part: there is always some room ready. */
#ifndef TAUPY_COLLECTIVES_H
#define TAUPY_COLLECTIVES_H

#include "listeners.h"

#define COLLECTIVES_AT_MOST 16384 /* of a communicator */
#define COLLECTIVES_A_STEP 120    /* of a training: 64 bytes each */
#define COLLECTIVES_TOGETHER 256
#define COMMUNICATORS 64
#define OPERATIONS 32

/* In the part: a group of processes. */
typedef struct CommunicatorRecord {
    uint64_t place;
    uint64_t size;   /* ranks in it; 0: not known */
    uint64_t begun;  /* collectives, kept or not */
    uint64_t stride; /* of so many stretches one is kept */
    char name[64], ranks[160]; /* `0-3,8` */
} CommunicatorRecord;

typedef struct OperationRecord {
    char name[64]; /* gloo:all_reduce */
} OperationRecord;

typedef struct CollectiveRecord {
    uint32_t is_used, operation;
    uint64_t communicator, number; /* from 1 */
    uint64_t bytes;
    uint64_t asked, begun, ended;  /* ticks; `ended` is 0 until then */
    Node *cause;
} CollectiveRecord;

typedef struct CollectiveSum {
    uint32_t communicator, operation;
    uint64_t count, ended, ticks, longest, bytes, unused;
    Node *cause; /* NULL: not known */
} CollectiveSum;

extern char *collectives_library; /* of collectives_library.cpp; NULL: there is none */
extern Listener collectives_listener;

/* A group of processes may have been made. Under the GIL. */
void collectives_groups(void);
/* The thread comes by: has it asked for a collective? Under the GIL. */
void collectives_look(Thread *thread);
/* It is in a routine that asks for one: what follows is asked for there. Under the GIL. */
void collectives_follow(Thread *thread);
/* A node of autograd's graph has ended, or another one begins; without the GIL. */
void collectives_node_ended(Thread *thread, Node *node);
void collectives_node_begins(Thread *thread);

#endif
