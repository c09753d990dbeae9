/* Calls by which the program gives up rights, noticed before they are made: those of posix
 * (os.chroot, os.setuid and others), and prctl and syscall, which install seccomp filters, in
 * whatever library calls them. */
#ifndef TAUPY_CONFINED_CALLS_H
#define TAUPY_CONFINED_CALLS_H

/* From now on. Needs the GIL. */
void calls_watch(void);

#endif
