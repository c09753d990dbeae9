/* Life cycle of a measured process's part. */
#define _GNU_SOURCE
#include "process.h"
#include "confined.h"
#include "counters.h"
#include "metrics.h"
#include <Python.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int active, helper, waiting, forked, fork_is_pending;
ClockPair fork_pair;
int64_t fork_epoch_ns;
char *run_folder, *spill_prefix, *ancestors, *rank_place;
ClockPair early;
uint64_t part_ticks;

void (*process_is_new)(const void *entered);

int process_made_part(void)
{
    static int64_t noted;
    int64_t pid = syscall(SYS_getpid); /* older C libraries remember it for getpid() */
    if (likely(pid == part->pid))
        return 1;
    if (pid != noted) {
        char text[160];
        noted = pid;
        snprintf(text, sizeof text,
                 "process %lld ran in the memory of process %lld (vfork, CLONE_VM): what it called "
                 "counts as that process's", (long long)pid, (long long)part->pid);
        metadata_write("taupy.health.shared_memory", text);
    }
    return 0;
}

int process_ends(void)
{
    return is_measured() && (part == NULL || is_filtered() || process_made_part());
}

static uint64_t process_start_time(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *field = strrchr(text, ')'); /* the name may contain spaces and parentheses */
    for (int i = 0; field != NULL && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field, NULL, 10) : 0;
}

int part_begin(void)
{
    char path[4096], spill[4096];
    ClockPair now = clock_pair();
    unsigned long long ticks = part_ticks = now.ticks;
    long pid = getpid();
    int has_path = run_folder != NULL && snprintf(path, sizeof path, "%s/%ld-%llx.part", run_folder,
                                                  pid, ticks) < (int)sizeof path;
    /* A helper outlives the run, after which spill files are no longer searched for. */
    int has_spill = spill_prefix != NULL && (!helper || forked) &&
                    snprintf(spill, sizeof spill, "%s%ld-%llx.part", spill_prefix, pid, ticks) <
                        (int)sizeof spill;
    part = part_open(has_path ? path : NULL, has_spill ? spill : NULL);
    if (part == NULL)
        return -1;
    part->pid = getpid();
    part->parent_pid = getppid();
    part->process_start = process_start_time();
    part->uses_tsc = (uint64_t)clock_uses_tsc;
    part->early_ticks = early.ticks;
    part->early_ns = early.ns;
    part->forked = (uint64_t)forked;
    part->helper = helper && !forked;
    part->start_ticks = forked ? fork_pair.ticks : now.ticks;
    part->start_ns = forked ? fork_pair.ns : now.ns;
    part->start_epoch_ns = forked ? fork_epoch_ns : clock_epoch(now.ns);
    part->last_ticks = now.ticks;
    part->metric_count = (uint64_t)metric_count;
    callpath_count = 0;
    if (ancestors != NULL && !forked)
        metadata_write("taupy.ancestors", ancestors);
    if (rank_place != NULL && !forked)
        metadata_write("taupy.rank", rank_place);
    if (source_count) {
        char text[256];
        metrics_describe(text, sizeof text);
        metadata_write("taupy.metrics", text);
    }
    if (counter_event_count)
        metadata_write("taupy.counters.at", call_metrics == metric_count ? "calls" : "regions");
    return 0;
}

void part_moment(uint64_t now)
{
    __atomic_store_n(&part->last_ticks, now, __ATOMIC_RELAXED);
}

int metadata_write_bytes(const char *name, const char *value, uint64_t size)
{
    return part_pair(part, BLOCK_METADATA, name, value, size);
}

int metadata_write(const char *name, const char *value)
{
    return metadata_write_bytes(name, value, strlen(value));
}

int python_is_there(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}
