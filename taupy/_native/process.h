/* The measured process and its part, from start to end. */
#ifndef TAUPY_PROCESS_H
#define TAUPY_PROCESS_H

#include "calltree.h"

extern int active;       /* started and not stopped */
extern int helper;       /* a helper process of multiprocessing; its forks are not helpers */
extern int waiting;      /* recording starts with the program's first frame */
extern char *run_folder; /* NULL: no file, anonymous memory (calibration, tests) */
extern char *spill_prefix; /* path prefix for the part when the run folder is full */
extern char *ancestors;  /* pids between this process and the root; NULL: none */
extern char *rank_place; /* which rank of a job it is; NULL: none */
extern uint64_t part_ticks; /* in the name of the part's file */
extern int forked;       /* this process was forked from a measured one */
extern int fork_is_pending; /* and has not recorded anything yet */
extern ClockPair fork_pair; /* time of the fork */
extern int64_t fork_epoch_ns;
extern ClockPair early;  /* the launcher's reading, for an early estimate of the tick length */

/* This process is a fork of which no hook told: what it inherited is its parent's. `entered`: the
 * routine that it is about to enter, or NULL. */
extern void (*process_is_new)(const void *entered);
/* Whether this process is measured. */
static inline int is_measured(void)
{
    if (active && unlikely(!part_is_ours()))
        process_is_new(NULL);
    return active;
}
/* Whether this process made the part. One that only shares the memory of that process (vfork,
 * CLONE_VM) did not, and nothing in memory tells: the kernel is asked. The part then notes it. */
int process_made_part(void);
/* Whether what is measured ends with this process. */
int process_ends(void);
/* Whether Python is initialised and not about to be finalised. */
int python_is_there(void);
/* Open a part for this process. Returns -1 if there is no memory at all. */
int part_begin(void);
/* Note the time of some activity; threads call this without the GIL, too. */
void part_moment(uint64_t now);
/* Facts about the process; a later value replaces an earlier one of the same name. Returns -1 if
 * memory runs out. */
int metadata_write(const char *name, const char *value);
int metadata_write_bytes(const char *name, const char *value, uint64_t size);

#endif
