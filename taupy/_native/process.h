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
/* Close the part, whose state is `state` then. It may be closed again, with a status. */
void finish(int has_status, int64_t status, uint64_t state);

#endif
