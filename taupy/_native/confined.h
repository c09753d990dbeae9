/* What the program has given up since it was launched, so that nothing may be started or opened
 * from here: its root, user, groups, capabilities or namespaces; or, by a seccomp filter, system
 * calls.
 *
 * A filter may end the process at any call that Python itself does not make, even at the question
 * whether there is one. Its installation is therefore noticed when it happens (confined_calls.c).
 * From then on the engine makes no system call, and counts in memory that was mapped before. */
#ifndef TAUPY_CONFINED_H
#define TAUPY_CONFINED_H

#include <stdint.h>
#include <sys/types.h>

#define GROUPS_COMPARED 64 /* of more groups, only the number */

typedef struct Rights {
    dev_t root_device;
    ino_t root, namespaces[3];
    uid_t users[3];
    gid_t own_groups[3], groups[GROUPS_COMPARED];
    int32_t group_count, filter, is_bound;
    uint32_t permitted[2];
} Rights;

/* All bytes are set, so that two can be compared as a whole. */
void rights_read(Rights *rights);
/* Compare with these rights from now on, those of the launcher; NULL: with the present ones. */
void confinement_start(const Rights *at_launch);
/* What has changed, for the trial; NULL: nothing. */
const char *confinement(void);
/* Whether a filter may be in place that was not there when this process began to record. */
int is_filtered(void);
/* A filter is about to be installed, by this thread. Others may be installing theirs, so this one's
 * failure takes back no more than what it said itself. */
void filter_begin(void);
void filter_fail(void);

#endif
