/* Loops with a known number of operations, for testing counters. Each has ten instructions per
 * iteration, one of them a branch. */
#ifndef TAUPY_KNOWN_WORK_H
#define TAUPY_KNOWN_WORK_H

#include <stdint.h>

enum KnownWork { WORK_NONE, WORK_SCALAR, WORK_FMA256, WORK_FMA512, WORK_LINES, WORK_PAGES };

int known_work_possible(enum KnownWork work);

/* 64-byte lines from memory: written, then flushed from all caches. */
void known_lines_prepare(char *memory, uint64_t count);

/* `memory`: used for lines and pages. */
void known_work(enum KnownWork work, uint64_t count, volatile char *memory);

#endif
