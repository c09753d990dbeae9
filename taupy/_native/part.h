/* The part: everything one process has measured, in one file mapped into memory.
 *
 * What is counted is in the file at once, so it outlives a SIGKILL. The layout is plain:
 * a header, then blocks one after another, each with its kind and size; pointers are
 * addresses in the measured process, made relative by the header's `base`. The reader is
 * taupy/instrument/parts.py: change both together, and PART_VERSION with them.
 *
 * A part grows by chunks, each mapped wherever there is room, and nothing ever moves. No
 * addresses are reserved: a program may limit its own address space at any moment. Where
 * the file cannot grow (disk full, file size limit) chunks are anonymous memory, and are
 * written out, as far as possible, when the process ends. */
#ifndef TAUPY_PART_H
#define TAUPY_PART_H

#include <stddef.h>
#include <stdint.h>

#define PART_VERSION 1
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
};

/* What a thread's block says in its header. */
enum { BLOCK_THREAD_NATIVE = 0, BLOCK_THREAD_FAULTS = 1, BLOCK_THREAD_ERRNO = 2 };

typedef struct Block {
    uint32_t kind;
    uint32_t thread; /* of BLOCK_NODES and BLOCK_SAMPLES */
    uint64_t size;   /* bytes, this header included; a multiple of PART_ALIGN */
    uint64_t unused[6];
} Block;

typedef struct Chunk {
    uint64_t address, offset; /* in the process; in the file */
} Chunk;

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
    uint64_t unmapped_bytes;   /* bytes that no file stands behind */
    uint64_t helper;           /* a process of multiprocessing's own, not a node */
    uint64_t greenlets;        /* switches between greenlets */
    uint64_t last_ticks;       /* last moment noted: the best end of a killed process */
    uint64_t greenlets_untraced; /* the program traces them itself: call paths are mixed */
    uint64_t profile_taken;    /* the program took the profile function: C calls are missing */
    uint64_t metric_count;     /* further metrics a node has, beside it */
    Chunk chunks[CHUNKS_AT_MOST];
} PartHeader;

/* Open a part in the file `path` (made anew); with NULL, or if the file cannot be made,
 * in anonymous memory. NULL only if there is no memory at all. */
PartHeader *part_open(const char *path);

/* Room for a block with `payload` bytes, zeroed; NULL if there is no memory. */
Block *part_block(PartHeader *part, uint32_t kind, uint32_t thread, uint64_t payload);

/* Write what no file stands behind to the file. */
void part_write_rest(PartHeader *part);

/* Copy the part as it stands into a file of its own. 0 on success. */
int part_copy(PartHeader *part, const char *path, uint64_t state);

/* Forget a parent's part in a forked child, leaving its addresses taken. */
void part_forget(PartHeader *part);

#endif
