/* Collectives of PyTorch's process groups: all_reduce, broadcast and so on.
 *
 * A backend executes them on its own threads, which report when one begins and ends
 * (collectives_library.cpp). The issuing thread and the time are noted when a thread of the program
 * next passes through our hooks: at known routines, and between nodes of a backward pass,
 * where DistributedDataParallel issues collectives without any Python frame. The group counts the
 * operations issued, so none is missed; that count is the collective's sequence number, identical
 * on all ranks.
 *
 * Storage is bounded: sums by communicator, operation and call path, and individual collectives for
 * each communicator. Beyond COLLECTIVES_AT_MOST of the latter, only runs of COLLECTIVES_TOGETHER
 * are kept: the first of every two, four, eight ... by sequence number, so all ranks keep the same
 * ones. Backend threads never wait for the GIL and never allocate from the part: free records are
 * always kept ready for them. */
#ifndef TAUPY_COLLECTIVES_H
#define TAUPY_COLLECTIVES_H

#include "listeners.h"

#define COLLECTIVES_AT_MOST 16384 /* per communicator */
#define COLLECTIVES_A_STEP 120    /* per training step: 64 bytes each */
#define COLLECTIVES_TOGETHER 256
#define COMMUNICATORS 64
#define PAIRS 32 /* directions of point-to-point operations: peer, tag, and send or receive */
#define CALLED 64 /* groups whose collectives are calls */
#define OPERATIONS 32
#define COLLECTIVE_BYTES_UNKNOWN UINT64_MAX

/* A process group, as stored in the part. */
typedef struct CommunicatorRecord {
    uint64_t place;
    uint64_t size;   /* number of ranks; 0: unknown */
    uint64_t begun;  /* collectives so far, whether kept or not */
    uint64_t stride; /* one run in `stride` is kept */
    char name[64], ranks[160]; /* `0-3,8` */
} CommunicatorRecord;

typedef struct OperationRecord {
    char name[64]; /* gloo:all_reduce */
} OperationRecord;

typedef struct CollectiveRecord {
    uint32_t is_used, operation;
    uint64_t communicator, number; /* from 1 */
    uint64_t bytes; /* COLLECTIVE_BYTES_UNKNOWN: unknown */
    uint64_t asked, begun, ended;  /* ticks; `ended` is 0 while it runs */
    Node *cause;
} CollectiveRecord;

typedef struct CollectiveSum {
    uint32_t communicator, operation;
    uint64_t count, ended, ticks, longest, bytes, unsized; /* `unsized`: of unknown bytes */
    Node *cause; /* NULL: unknown */
} CollectiveSum;

/* A point-to-point operation that a thread is about to issue. */
typedef struct PairCall {
    const char *group; /* its name; NULL: unknown */
    long peer, tag;    /* the other rank's number in the job; -1: unknown */
    int sends, is_waited_for; /* the routine that issues it waits for its end */
} PairCall;

/* A group whose collectives are calls, as of MPI, which its library's module describes. */
typedef struct CalledGroup {
    uint64_t size, begun;
    char name[64], ranks[160]; /* as in CommunicatorRecord */
} CalledGroup;

extern char *collectives_library; /* path of the compiled collectives_library.cpp; NULL: none */
extern Listener collectives_listener;

/* A process group may have been created. Needs the GIL. */
void collectives_groups(void);
/* Note any collective the thread has issued since the last time. Needs the GIL. */
void collectives_look(Thread *thread);
/* The thread has entered a routine that issues collectives; attribute what follows to it. Needs the
 * GIL. */
void collectives_follow(Thread *thread);
/* The calling thread is about to issue a point-to-point operation. It is recorded like a collective of
 * a communicator of its own, `GROUP>PEER` if it sends or `GROUP<PEER`, and `:TAG` if that is not 0.
 * Needs the GIL. */
void collectives_pair(const PairCall *call);
/* The thread has left the routine that issues it. */
void collectives_pair_over(void);
/* A collective of the group is called on this thread, inside a timer of its own; and returns: give back
 * what the first one has returned, unless that is NULL. Needs the GIL. */
void *collectives_call_begins(Thread *thread, CalledGroup *group, const char *operation,
                              uint64_t bytes);
void collectives_call_ends(void *operation, int has_failed);
/* Which collectives of other ranks belong to those of the group, and of the groups with its name
 * and a number, has become unknown. `rank`: here, in the group. Needs the GIL. */
void collectives_calls_unsure(const char *name, long rank);
/* Write numbers as `0-3,8`. */
void collectives_list(const int *ranks, size_t count, char *text, size_t size);
/* PyTorch's default group: a new reference, or NULL. Needs the GIL. */
PyObject *collectives_default_group(void);
/* What a dictionary of PyTorch's distributed module has of a group: borrowed, or NULL. Needs the GIL. */
PyObject *collectives_group_fact(const char *table, PyObject *group);
/* A node of autograd's graph has ended, or another one begins; called without the GIL. */
void collectives_node_ended(Thread *thread, Node *node);
void collectives_node_begins(Thread *thread);

#endif
