/* The part: everything one process has measured, in a single memory-mapped file.
 *
 * Counts are in the file as soon as they are made, so they survive a SIGKILL. The layout is simple:
 * a header, then consecutive blocks, each with its kind and size. Pointers are addresses in the
 * measured process, which the table of chunks makes relative. The reader is
 * taupy/state/container.py: change both together, and PART_VERSION, also in state/limits.py.
 *
 * A part starts small and grows, up to 1 MiB in place, then in chunks, each mapped wherever there
 * is room; nothing ever moves. No address space is reserved in advance, because a program may limit
 * its own address space at any time. The first MiB needs neither a file descriptor nor, up to the
 * file's initial size, permission to grow: a program may exhaust or limit both. Where the file
 * cannot grow (disk full, file size limit), a chunk is anonymous memory and marked as such, so a
 * reader knows what is not in the file. At process exit such chunks are written to the file; if
 * there is still no room, the whole part goes elsewhere: to the spill file beside the database.
 *
 * The part of a child process that ends is folded into one file shared by all children of a run. */
#ifndef TAUPY_PART_H
#define TAUPY_PART_H

#include <stddef.h>
#include <stdint.h>

#define PART_VERSION 6
#define PART_ALIGN 64
#define CHUNKS_AT_MOST 512
#if defined(__x86_64__)
#define PART_OWNER_BYTES 4096
#else
#define PART_OWNER_BYTES 65536 /* the largest page of aarch64 */
#endif

enum PartState { PART_RUNNING = 0, PART_ENDED = 1, PART_EXEC = 2, PART_SNAPSHOT = 3 };

enum BlockKind {
    BLOCK_REST = 0,     /* unused: the rest of a chunk, or free again */
    BLOCK_NODES = 1,    /* Node[]: call paths of one thread */
    BLOCK_THREAD = 2,   /* Thread */
    BLOCK_ROUTINE = 3,  /* RoutineRecord and its strings */
    BLOCK_METADATA = 4, /* TextRecord: name, value */
    BLOCK_EVENT = 5,    /* EventRecord: name, unit */
    BLOCK_SAMPLES = 6,  /* SampleRecord: one user event on one call path */
    BLOCK_STEPS = 7,    /* StepRecord[]: iterations of one thread and kind */
    BLOCK_STEP_VALUE = 8, /* StepValueRecord: name of a value logged in steps */
    BLOCK_ALLOCATOR = 9, /* AllocatorRecord; the block's thread is a GPU's ordinal */
    BLOCK_COMMUNICATOR = 10,    /* CommunicatorRecord */
    BLOCK_OPERATIONS = 11,      /* OperationRecord[] */
    BLOCK_COLLECTIVES = 12,     /* CollectiveRecord[] */
    BLOCK_COLLECTIVE_SUMS = 13, /* CollectiveSum[] */
    BLOCK_LAYER = 14,           /* LayerRecord: what a layer consists of and computes */
    BLOCK_SPANS = 15,           /* SpanRecord[] of one thread */
    BLOCK_STRETCHES = 16,       /* StretchRecord[] */
    BLOCK_INTERPRETER = 17,     /* RemoteLayout: where its structures have their fields */
    BLOCK_LINES = 18,           /* LineSums: exact lines of one thread and routine */
    BLOCK_LINE_NODES = 19,      /* LineNode[] of one thread and routine */
    BLOCK_LINES_APART = 20,     /* LineApart[] of one thread */
    BLOCK_SUSPENSIONS = 21,     /* SuspensionRecord[] of one thread */
    BLOCK_THREAD_ROW = 22,      /* ThreadRow: of how many threads this one has the sums */
    BLOCK_GROWTH = 23,          /* GrowthRecord of one thread */
    BLOCK_PART = 32,    /* FoldedName and a part; only in the file of folded parts */
};

/* Values that a block carries in its header: a thread's, */
enum {
    BLOCK_THREAD_NATIVE = 0,
    BLOCK_THREAD_FAULTS = 1,
    BLOCK_THREAD_ERRNO = 2,
    BLOCK_THREAD_SPANS_TICKS = 3, /* when the process stopped keeping spans (set by one thread), */
    BLOCK_THREAD_SPANS_END = 4,   /* and why */
};
/* and the interpreter's: how many threads have begun. */
enum { BLOCK_INTERPRETER_THREADS = 0 };
enum SpansEnd { SPANS_GO_ON = 0, SPANS_LIMIT = 1, SPANS_NO_MEMORY = 2 };

typedef struct Block {
    uint32_t kind;
    uint32_t thread; /* of BLOCK_NODES and BLOCK_SAMPLES */
    uint64_t size;   /* bytes, including this header; a multiple of PART_ALIGN */
    uint64_t unused[6];
} Block;

typedef struct Chunk {
    uint64_t address, offset; /* in the process; in the file, with the CHUNK_IN_MEMORY bit */
} Chunk;
#define CHUNK_IN_MEMORY 1ull /* no file backs this chunk */

typedef struct PartHeader {
    char magic[8];
    uint32_t version, header_size;
    uint64_t chunk_count;
    uint64_t used;    /* bytes in use: every byte below belongs to some block */
    uint64_t mapped;  /* total bytes of all chunks */
    int64_t pid, parent_pid;
    uint64_t process_start; /* field 22 of /proc/PID/stat: detects a reused pid */
    uint64_t state;
    int64_t exit_status; /* as the shell reports it; valid if has_exit_status */
    uint64_t has_exit_status;
    uint64_t uses_tsc;
    uint64_t early_ticks, start_ticks, end_ticks;
    int64_t early_ns, start_ns, end_ns; /* CLOCK_MONOTONIC */
    int64_t start_epoch_ns;             /* CLOCK_REALTIME */
    int64_t cpu_user_ns, cpu_system_ns; /* getrusage, at the end */
    int64_t peak_resident_kib, minor_faults, major_faults;
    int64_t voluntary_switches, involuntary_switches;
    int64_t node; /* set by the program (set_node); otherwise -1 */
    uint64_t forked;           /* 1: forked from a measured process */
    uint64_t repairs;          /* frames closed only by a later return */
    uint64_t unmatched;        /* returns of frames whose start was not seen */
    uint64_t overlaps;         /* timers stopped out of order */
    uint64_t calls_over_limit; /* calls folded into their caller: too many call paths */
    uint64_t helper;           /* a helper process of multiprocessing, not a node */
    uint64_t greenlets;        /* switches between greenlets */
    uint64_t last_ticks;       /* latest time recorded: best estimate of a killed process's end */
    uint64_t greenlets_untraced; /* the program traces them itself: call paths are mixed up */
    uint64_t profile_taken;    /* the program took over the profile function: C calls are missing */
    uint64_t metric_count;     /* additional metrics per node */
    Chunk chunks[CHUNKS_AT_MOST];
} PartHeader;

#define FOLDED_MAGIC "TAUPYFLD"
#define FOLDED_FILE "folded" /* in the run folder; its header is a one-chunk PartHeader */

typedef struct FoldedName {
    char text[PART_ALIGN]; /* name of the part's file */
} FoldedName;

/* Whether this process made the part. In a fork, also one of which no hook tells (a system call of a
 * C library), the kernel empties this page (Linux 4.14): such a process never writes to the part. */
typedef struct PartOwner {
    uint64_t mask; /* all ones; of the times at which windows end, so that a call compares once */
    char rest[PART_OWNER_BYTES - sizeof(uint64_t)];
} PartOwner;
extern PartOwner part_owner __attribute__((visibility("hidden"))); /* no look-up of its address */

static inline int part_is_ours(void) { return part_owner.mask != 0; }

/* From now on, what is opened belongs to this process. */
void part_own(void);

/* Open a part in the file `path`, created anew; with NULL, or if the file cannot be created, in
 * anonymous memory. `spill`, if not NULL, is used if `path` has no room when the part is saved.
 * Returns NULL only if there is no memory at all. */
PartHeader *part_open(const char *path, const char *spill);

/* Make room for what is still to come, while the file can be opened. */
void part_prepare(PartHeader *part);

/* Allocate a zeroed block with `payload` bytes; NULL if memory runs out. */
Block *part_block(PartHeader *part, uint32_t kind, uint32_t thread, uint64_t payload);

/* The same for records of one size that come and go: one of the blocks that are free again, if there
 * is any (`*spare`: the first of them, or NULL). errno is kept. */
Block *block_take(PartHeader *part, Block **spare, uint32_t kind, uint32_t thread,
                  uint64_t payload);
/* The block is free again: readers pass over it. */
void block_free(Block **spare, Block *block);

/* Add a block with a name and a value of `value_size` bytes: both sizes, then both strings,
 * NUL-terminated. Returns 0, or -1 if memory runs out. */
int part_pair(PartHeader *part, uint32_t kind, const char *name, const char *value,
              uint64_t value_size);

/* Write to the file whatever is only in memory, or everything to the spill file. */
void part_save(PartHeader *part);

/* The process continues after all (a failed exec): mark in-memory chunks as missing from the file
 * again. */
void part_resume(PartHeader *part);

/* Append the saved part of an ending process to the run folder's file of folded parts, and remove
 * its own file. If that fails, everything stays as it is. */
void part_fold(PartHeader *part);

/* Copy the part in its current state to a separate file. Returns 0 on success. */
int part_copy(PartHeader *part, const char *path, uint64_t state);

/* In a forked child, forget the parent's part but keep its addresses reserved. */
void part_forget(PartHeader *part);

/* Whether the address is in the open part. */
int part_holds(const void *address);

/* Copies memory of the part, of which some can no longer be read. */
typedef void PartCopy(char *to, const char *from, uint64_t size);

/* The file no longer has all that is mapped from it: put copies in memory in the place of all
 * chunks, at the same addresses. Nothing is allocated, written or saved from then on. Called in a
 * signal handler; again, it does the same with chunks mapped meanwhile. Returns 0 on success. */
int part_detach(PartHeader *part, PartCopy *copy);
int part_is_detached(void);

#endif
