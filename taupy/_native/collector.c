#define _GNU_SOURCE
#include "collector.h"
#include "clock.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORK_AT_MOST (1u << 18)

Collector collector;

const char *collector_result(int result)
{
    const char *text = NULL;
    if (collector.cupti.result_string == NULL ||
        collector.cupti.result_string(result, &text) != 0 || text == NULL)
        text = "";
    return text;
}

void collector_note(const char *name, const char *what, int result)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %d %s", what, result, collector_result(result));
    gpu_part_note(collector.part, name, text);
}

void collector_problem(const char *what, int result, const char *text)
{
    char line[8192];
    snprintf(line, sizeof line, "%d", result);
    gpu_part_note(collector.part, "error.step", what);
    gpu_part_note(collector.part, "error.code", line);
    gpu_part_note(collector.part, "error.text", text);
    collector.sums.counters->state = GPU_FAILED;
}

CallTable *collector_call_table(uint64_t size)
{
    CallTable *table = calloc(1, sizeof *table);
    Block *block = part_block(collector.part, GPU_CALLS, 0, size * sizeof(GpuCall));
    if (table == NULL || block == NULL) {
        free(table);
        return NULL;
    }
    table->mask = size - 1;
    table->calls = (GpuCall *)(block + 1);
    return table;
}

/* `trace`: set to the descriptor of the file of individual activities, if they are to be kept. */
static PartHeader *open_part(const char *folder, int *trace)
{
    char path[4096], spill[4096];
    const char *prefix = collector.host != NULL ? collector.host->spill_prefix : NULL;
    unsigned long long ticks = clock_pair().ticks;
    long pid = getpid();
    if (folder == NULL ||
        snprintf(path, sizeof path, "%s/%ld-%llx.gpu", folder, pid, ticks) >= (int)sizeof path)
        return part_open(NULL, NULL);
    int has_spill = prefix != NULL && snprintf(spill, sizeof spill, "%s%ld-%llx.gpu", prefix, pid,
                                               ticks) < (int)sizeof spill;
    PartHeader *opened = part_open(path, has_spill ? spill : NULL);
    if (opened != NULL) {
        memcpy(opened->magic, GPU_PART_MAGIC, 8);
        opened->version = GPU_PART_VERSION;
        opened->pid = getpid();
        opened->uses_tsc = (uint64_t)clock_uses_tsc;
    }
    if (opened != NULL && collector.host != NULL && collector.host->trace) {
        snprintf(strrchr(path, '.'), 16, ".gputrace");
        *trace = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
    }
    return opened;
}

int collector_begin_sums(const char *folder)
{
    clock_choose();
    int trace = -1;
    collector.part = open_part(folder, &trace);
    if (collector.part == NULL || sums_begin(&collector.sums, collector.part, WORK_AT_MOST) != 0)
        return -1;
    collector.sums.trace.file = trace;
    memcpy(collector.part->magic, GPU_PART_MAGIC, 8);
    collector.part->version = GPU_PART_VERSION;
    collector.sums.counters->realtime_start = clock_ns(CLOCK_REALTIME);
    collector.sums.counters->monotonic_start = clock_ns(CLOCK_MONOTONIC);
    Block *block =
        part_block(collector.part, GPU_THREADS, 0, GPU_THREADS_AT_MOST * sizeof(GpuThread));
    uint64_t *ring = calls_ring();
    if (block == NULL || ring == NULL)
        return -1;
    calls.threads = (GpuThread *)(block + 1);
    calls.ring = ring;
    calls.counters = collector.sums.counters;
    calls.thread_count = 0;
    return (calls.table = collector_call_table(FIRST_TABLE)) != NULL ? 0 : -1;
}
