/* The process that is measured, and its part from beginning to end. */
#ifndef TAUPY_PROCESS_H
#define TAUPY_PROCESS_H

#include "calltree.h"

extern int active;       /* started, and not stopped */
extern int helper;       /* this process serves multiprocessing; its forks do not */
extern int waiting;      /* recording begins with the program's first frame */
extern char *run_folder; /* NULL: no file, anonymous memory (calibration, tests) */
extern char *spill_prefix; /* of the path where a part goes when the run folder is full */
extern char *ancestors;  /* ids of the processes between this one and the root; NULL: none */
extern int forked;       /* this process began by a fork in a measured one */
extern int fork_is_pending; /* and has not recorded anything yet */
extern ClockPair fork_pair; /* when it began */
extern int64_t fork_epoch_ns;
extern ClockPair early;  /* a reading of the launcher's, to know a tick's length early */

/* Has Python begun, and is it not about to end? */
int python_is_there(void);
/* Open a part for this process. -1: there is no memory at all. */
int part_begin(void);
/* Something was seen to happen now; threads say so without the GIL, too. */
void part_moment(uint64_t now);
/* Facts of the process; later ones of a name replace earlier ones. -1: no memory. */
int metadata_write(const char *name, const char *value);
int metadata_write_bytes(const char *name, const char *value, uint64_t size);

#endif
