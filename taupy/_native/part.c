/* See part.h. No Python here. */
#define _GNU_SOURCE
#include "part.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define RANGE (64ull << 30)      /* addresses only: nothing is committed */
#define SMALL_RANGE (256 * MIB)  /* where the program's address space is limited */
#define FIRST_GROWTH (1 * MIB)
#define LARGEST_GROWTH (32 * MIB)

int clock_uses_tsc;

void clock_choose(void)
{
    clock_uses_tsc = 0;
#if defined(__x86_64__)
    char name[16] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, name, sizeof name - 1);
        close(fd);
        clock_uses_tsc = n >= 3 && strncmp(name, "tsc", 3) == 0;
    }
#endif
}

ClockPair clock_pair(void)
{
    ClockPair best = {0, 0};
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = clock_ticks();
        int64_t ns = clock_ns(CLOCK_MONOTONIC);
        uint64_t after = clock_ticks();
        if (after - before < best_width) {
            best_width = after - before;
            best = (ClockPair){before + (after - before) / 2, ns};
        }
    }
    return best;
}

/* The part now open: one a process. The path is kept to write the rest at the end. */
static char *path_of_part;
static uint64_t range_of_part;

static uint64_t range_size(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return limit.rlim_cur / 8 < SMALL_RANGE ? limit.rlim_cur / 8 & ~(MIB - 1) : SMALL_RANGE;
    return RANGE;
}

/* Put file space behind [from, to) of the range. The space is allocated first: a write to
 * a mapping on a full disk would be a SIGBUS in the user's program. */
static int map_file(char *base, uint64_t from, uint64_t to)
{
    struct rlimit limit;
    if (path_of_part == NULL)
        return -1;
    /* Growing past RLIMIT_FSIZE would raise SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < to)
        return -1;
    int fd = open(path_of_part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    int failed = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    if (!failed && mmap(base + from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        fd, (off_t)from) == MAP_FAILED)
        failed = 1;
    close(fd);
    return failed ? -1 : 0;
}

static int map_more(char *base, PartHeader *part, uint64_t from, uint64_t to)
{
    if (to > range_of_part)
        return -1;
    /* Once a stretch is anonymous the file has a hole; all later ones are, too. */
    int contiguous = part == NULL || part->unmapped_bytes == 0;
    if (contiguous && map_file(base, from, to) == 0)
        return 0;
    if (mmap(base + from, to - from, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return -1;
    if (part == NULL)
        ((PartHeader *)base)->unmapped_bytes = to - from;
    else
        part->unmapped_bytes += to - from;
    return 0;
}

PartHeader *part_open(const char *path)
{
    int saved = errno;
    PartHeader *part = NULL;
    free(path_of_part);
    path_of_part = NULL;
    range_of_part = range_size();
    char *base = mmap(NULL, range_of_part, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        range_of_part = SMALL_RANGE / 8;
        base = mmap(NULL, range_of_part, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
        if (base == MAP_FAILED)
            goto out;
    }
    if (path != NULL) {
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            close(fd);
            path_of_part = strdup(path);
        }
    }
    if (map_more(base, NULL, 0, FIRST_GROWTH) != 0) {
        munmap(base, range_of_part);
        goto out;
    }
    part = (PartHeader *)base;
    memcpy(part->magic, "TAUPYPRT", 8);
    part->version = PART_VERSION;
    part->header_size = (sizeof(PartHeader) + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    part->base = (uint64_t)(uintptr_t)base;
    part->mapped = FIRST_GROWTH;
    part->node = -1;
    part->used = part->header_size;
out:
    errno = saved;
    return part;
}

Block *part_block(PartHeader *part, uint32_t kind, uint32_t thread, uint64_t payload)
{
    uint64_t size = (sizeof(Block) + payload + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    while (part->used + size > part->mapped) {
        int saved = errno;
        uint64_t growth = part->mapped < LARGEST_GROWTH ? part->mapped : LARGEST_GROWTH;
        while (part->used + size > part->mapped + growth)
            growth *= 2;
        int failed = map_more((char *)part, part, part->mapped, part->mapped + growth);
        errno = saved;
        if (failed)
            return NULL;
        part->mapped += growth;
    }
    Block *block = (Block *)((char *)part + part->used);
    block->kind = kind;
    block->thread = thread;
    block->size = size;
    part->used += size; /* last: a reader never sees a block without its header */
    return block;
}

static int write_all(int fd, const char *data, uint64_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t n = pwrite(fd, data, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

void part_write_rest(PartHeader *part)
{
    if (part->unmapped_bytes == 0 || path_of_part == NULL)
        return;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < part->used)
        return;
    int fd = open(path_of_part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (write_all(fd, (char *)part, part->used, 0) == 0)
        part->unmapped_bytes = 0;
    close(fd);
}

int part_copy(PartHeader *part, const char *path, uint64_t state)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    PartHeader header = *part;
    ClockPair now = clock_pair();
    header.state = state;
    header.end_ticks = now.ticks;
    header.end_ns = now.ns;
    int failed = write_all(fd, (char *)part, part->used, 0) ||
                 write_all(fd, (char *)&header, sizeof header, 0);
    close(fd);
    return failed;
}

void part_forget(PartHeader *part)
{
    /* The addresses stay taken: frames of the parent that return in the child still hold
     * pointers into them, and are told apart by comparing those. */
    mmap(part, range_of_part, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    free(path_of_part);
    path_of_part = NULL;
}
