/* See confined.h. No Python here. */
#define _GNU_SOURCE
#include "confined.h"
#include <errno.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static Rights launched;
static int is_begun, filter_at_start, bound_at_start;
static atomic_uint filters; /* seen, installed or about to be */

void rights_read(Rights *rights)
{
    static const char *const namespaces[] = {"user", "mnt", "pid_for_children"};
    struct stat status;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    memset(rights, 0, sizeof *rights);
    if (stat("/", &status) == 0) {
        rights->root_device = status.st_dev;
        rights->root = status.st_ino;
    }
    for (int i = 0; i < 3; i++) {
        char path[40] = "/proc/self/ns/";
        strcat(path, namespaces[i]);
        if (stat(path, &status) == 0)
            rights->namespaces[i] = status.st_ino;
    }
    getresuid(&rights->users[0], &rights->users[1], &rights->users[2]);
    getresgid(&rights->own_groups[0], &rights->own_groups[1], &rights->own_groups[2]);
    rights->group_count = getgroups(GROUPS_COMPARED, rights->groups);
    if (rights->group_count < 0)
        rights->group_count = getgroups(0, NULL);
    if (syscall(SYS_capget, &head, caps) == 0) {
        rights->permitted[0] = caps[0].permitted;
        rights->permitted[1] = caps[1].permitted;
    }
    rights->filter = prctl(PR_GET_SECCOMP);
    rights->is_bound = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

void confinement_start(const Rights *at_launch)
{
    if (at_launch != NULL)
        launched = *at_launch;
    else
        rights_read(&launched);
    filter_at_start = prctl(PR_GET_SECCOMP);
    bound_at_start = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    is_begun = 1;
}

void filter_begin(void) { atomic_fetch_add(&filters, 1); }

void filter_fail(void) { atomic_fetch_sub(&filters, 1); }

/* A container has a filter from the start: there, that the program has given up new privileges is
 * the only sign of another one. */
int is_filtered(void)
{
    int saved = errno;
    if (is_begun && !atomic_load(&filters) &&
        (prctl(PR_GET_SECCOMP) != filter_at_start ||
         (filter_at_start != 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != bound_at_start)))
        filter_begin();
    errno = saved;
    return atomic_load(&filters) != 0;
}

const char *confinement(void)
{
    static const char filtered[] = 
        "it had confined itself (seccomp, Landlock, no new privileges)";
    Rights now;
    int saved = errno;
    if (!is_begun)
        return NULL;
    if (is_filtered())
        return filtered;
    rights_read(&now);
    errno = saved;
    if (now.filter != launched.filter || now.is_bound != launched.is_bound)
        return filtered;
    if (now.root != launched.root || now.root_device != launched.root_device)
        return "it had changed its root folder";
    if (memcmp(now.users, launched.users, sizeof now.users) != 0)
        return "it had changed its user";
    if (memcmp(now.own_groups, launched.own_groups, sizeof now.own_groups) != 0 ||
        now.group_count != launched.group_count ||
        memcmp(now.groups, launched.groups, sizeof now.groups) != 0)
        return "it had changed its groups";
    if (memcmp(now.namespaces, launched.namespaces, sizeof now.namespaces) != 0)
        return "it had changed its namespaces";
    if (memcmp(now.permitted, launched.permitted, sizeof now.permitted) != 0)
        return "it had changed its capabilities";
    return NULL;
}
