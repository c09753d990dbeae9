/* Loops whose operations are known, to test counters with. All have ten instructions an
 * iteration, one of them a branch. */
#ifndef TAUPY_KNOWN_WORK_H
#define TAUPY_KNOWN_WORK_H

#include <stdint.h>

enum KnownWork { WORK_NONE, WORK_SCALAR, WORK_FMA256, WORK_FMA512, WORK_LINES, WORK_PAGES };

int known_work_possible(enum KnownWork work);

/* Lines of 64 bytes from memory: written and put out of all caches before. */
void known_lines_prepare(char *memory, uint64_t count);

/* `memory`: for lines and pages. */
void known_work(enum KnownWork work, uint64_t count, volatile char *memory);

#endif
