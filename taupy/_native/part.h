/* The part: everything one process has measured, in one file mapped into memory.
 *
 * What is counted is in the file at once, so it outlives a SIGKILL. The layout is plain:
 * a header, then blocks one after another, each with its kind and size; pointers are
 * addresses in the measured process, made relative by the table of chunks. The reader is
 * taupy/state/container.py: change both together, and PART_VERSION with them.
 *
 * A part begins small and grows, up to 1 MiB in place, then by chunks, each mapped wherever there
 * is room, and nothing ever moves. No more addresses are reserved: a program may limit its own
 * address space at any moment. The first MiB needs neither a descriptor nor, below the size that
 * the file has from the start, leave to grow: a program may use up or limit both. Where the file cannot grow (disk full, file size limit) a chunk is anonymous memory
 * and marked so: a reader knows what is not in the file. When the process ends, such chunks are
 * written to the file; if it still has no room, the whole part goes to another place, the
 * spill file beside the database. The part of a child that ends is folded into one file
 * that all children of a run share. */
#ifndef TAUPY_PART_H
#define TAUPY_PART_H

#include <stddef.h>
#include <stdint.h>

#define PART_VERSION 2
#define PART_ALIGN 64
#define CHUNKS_AT_MOST 512

enum PartState { PART_RUNNING = 0, PART_ENDED = 1, PART_EXEC = 2, PART_SNAPSHOT = 3 };

enum BlockKind {
    BLOCK_REST = 0,     /* what a chunk has left over */
    BLOCK_NODES = 1,    /* Node[]: call paths of one thread */
    BLOCK_THREAD = 2,   /* Thread */
    BLOCK_ROUTINE = 3,  /* RoutineRecord and its texts */
    BLOCK_METADATA = 4, /* TextRecord: name, value */
    BLOCK_EVENT = 5,    /* EventRecord: name, unit */
    BLOCK_SAMPLES = 6,  /* SampleRecord: one user event at one place */
    BLOCK_STEPS = 7,    /* StepRecord[]: iterations of one thread and kind */
    BLOCK_STEP_VALUE = 8, /* StepValueRecord: the name of a value of steps */
    BLOCK_ALLOCATOR = 9, /* AllocatorRecord; its thread is a GPU's ordinal */
    BLOCK_COMMUNICATOR = 10,    /* CommunicatorRecord */
    BLOCK_OPERATIONS = 11,      /* OperationRecord[] */
    BLOCK_COLLECTIVES = 12,     /* CollectiveRecord[] */
    BLOCK_COLLECTIVE_SUMS = 13, /* CollectiveSum[] */
    BLOCK_LAYER = 14,           /* LayerRecord: what a layer is made of and computes */
    BLOCK_SPANS = 15,           /* SpanRecord[]: of one thread */
    BLOCK_STRETCHES = 16,       /* StretchRecord[] */
    BLOCK_PART = 32,    /* FoldedName and a part: in the file of folded parts only */
};

/* What a thread's block says in its header. */
enum {
    BLOCK_THREAD_NATIVE = 0,
    BLOCK_THREAD_FAULTS = 1,
    BLOCK_THREAD_ERRNO = 2,
    BLOCK_THREAD_SPANS_TICKS = 3, /* when spans of the process ended, noted by one thread, */
    BLOCK_THREAD_SPANS_END = 4,   /* and why */
};
enum SpansEnd { SPANS_GO_ON = 0, SPANS_LIMIT = 1, SPANS_NO_MEMORY = 2 };

typedef struct Block {
    uint32_t kind;
    uint32_t thread; /* of BLOCK_NODES and BLOCK_SAMPLES */
    uint64_t size;   /* bytes, this header included; a multiple of PART_ALIGN */
    uint64_t unused[6];
} Block;

typedef struct Chunk {
    uint64_t address, offset; /* in the process; in the file, with CHUNK_IN_MEMORY in it */
} Chunk;
#define CHUNK_IN_MEMORY 1ull /* no file stands behind this chunk */

typedef struct PartHeader {
    char magic[8];
    uint32_t version, header_size;
    uint64_t chunk_count;
    uint64_t used;    /* bytes in use: every byte below belongs to a block */
    uint64_t mapped;  /* bytes of all chunks */
    int64_t pid, parent_pid;
    uint64_t process_start; /* field 22 of /proc/PID/stat: tells a reused pid */
    uint64_t state;
    int64_t exit_status; /* wait status as the shell sees it; valid if has_exit_status */
    uint64_t has_exit_status;
    uint64_t uses_tsc;
    uint64_t early_ticks, start_ticks, end_ticks;
    int64_t early_ns, start_ns, end_ns; /* CLOCK_MONOTONIC */
    int64_t start_epoch_ns;             /* CLOCK_REALTIME */
    int64_t cpu_user_ns, cpu_system_ns; /* getrusage, at the end */
    int64_t peak_resident_kib, minor_faults, major_faults;
    int64_t voluntary_switches, involuntary_switches;
    int64_t node; /* set by the program (set_node), else -1 */
    uint64_t forked;           /* 1: began by fork in a measured process */
    uint64_t repairs;          /* frames closed by a later return */
    uint64_t unmatched;        /* returns of frames that were never seen to start */
    uint64_t overlaps;         /* timers stopped out of order */
    uint64_t calls_over_limit; /* calls folded into their caller: too many call paths */
    uint64_t helper;           /* a process of multiprocessing's own, not a node */
    uint64_t greenlets;        /* switches between greenlets */
    uint64_t last_ticks;       /* last moment noted: the best end of a killed process */
    uint64_t greenlets_untraced; /* the program traces them itself: call paths are mixed */
    uint64_t profile_taken;    /* the program took the profile function: C calls are missing */
    uint64_t metric_count;     /* further metrics a node has, beside it */
    Chunk chunks[CHUNKS_AT_MOST];
} PartHeader;

#define FOLDED_MAGIC "TAUPYFLD"
#define FOLDED_FILE "folded" /* in the run folder; its header is a PartHeader of one chunk */

typedef struct FoldedName {
    char text[PART_ALIGN]; /* of the part's file */
} FoldedName;

/* Open a part in the file `path` (made anew); with NULL, or if the file cannot be made,
 * in anonymous memory. `spill`, if not NULL, is where it goes if `path` has no room when it is
 * saved. NULL only if there is no memory at all. */
PartHeader *part_open(const char *path, const char *spill);

/* Room for a block with `payload` bytes, zeroed; NULL if there is no memory. */
Block *part_block(PartHeader *part, uint32_t kind, uint32_t thread, uint64_t payload);

/* A block with a name and its value, `value_size` bytes: two sizes, then both with a zero each.
 * 0 on success, -1 if there is no memory. */
int part_pair(PartHeader *part, uint32_t kind, const char *name, const char *value,
              uint64_t value_size);

/* Write what is in memory only to the file, or all of it to the spill file. */
void part_save(PartHeader *part);

/* The process goes on after all (a failed exec): what is in memory is not in the file again. */
void part_resume(PartHeader *part);

/* Append a saved part of a process that ends to the run folder's file of folded parts, and
 * remove its own file. If that cannot be, all stays as it is. */
void part_fold(PartHeader *part);

/* Copy the part as it stands into a file of its own. 0 on success. */
int part_copy(PartHeader *part, const char *path, uint64_t state);

/* Forget a parent's part in a forked child, leaving its addresses taken. */
void part_forget(PartHeader *part);

#endif
