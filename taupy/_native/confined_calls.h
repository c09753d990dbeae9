/* Calls by which the program gives up rights, noticed before they are made: those of posix
 * (os.chroot, os.setuid and others), and prctl and syscall, which install seccomp filters, in
 * whatever library calls them. */
#ifndef TAUPY_CONFINED_CALLS_H
#define TAUPY_CONFINED_CALLS_H

#include <stdint.h>

/* From now on. Needs the GIL, as does `stop`, which ends the recording with the
 * part in this state, where no clock can be read any more. */
void calls_watch(int (*stop)(uint64_t state));

#endif
