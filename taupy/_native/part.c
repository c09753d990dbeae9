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
#define LARGEST_CHUNK (32 * MIB)

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

static char *path_of_part; /* of the part now open: one a process */

/* File space [from, to) as memory. The space is allocated first: a write to a mapping on a
 * full disk would be a SIGBUS in the user's program. NULL if it cannot be had. */
static void *map_file(uint64_t from, uint64_t to)
{
    struct rlimit limit;
    if (path_of_part == NULL)
        return NULL;
    /* Growing past RLIMIT_FSIZE would raise SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < to)
        return NULL;
    int fd = open(path_of_part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (posix_fallocate(fd, (off_t)from, (off_t)(to - from)) == 0)
        memory = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One more chunk of `size` bytes; NULL if there is no memory. `in_file` tells what it is. */
static void *map_chunk(uint64_t from, uint64_t size, int try_file, int *in_file)
{
    void *memory = try_file ? map_file(from, from + size) : NULL;
    *in_file = memory != NULL;
    if (memory == NULL)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

PartHeader *part_open(const char *path)
{
    int saved = errno, in_file;
    free(path_of_part);
    path_of_part = NULL;
    if (path != NULL) {
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            close(fd);
            path_of_part = strdup(path);
        }
    }
    PartHeader *part = map_chunk(0, MIB, 1, &in_file);
    if (part != NULL) {
        memcpy(part->magic, "TAUPYPRT", 8);
        part->version = PART_VERSION;
        part->header_size = (sizeof(PartHeader) + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
        part->chunks[0] = (Chunk){(uint64_t)(uintptr_t)part, 0};
        part->chunk_count = 1;
        part->mapped = MIB;
        part->unmapped_bytes = in_file ? 0 : MIB;
        part->node = -1;
        part->used = part->header_size;
    }
    errno = saved;
    return part;
}

static Block *block_at(PartHeader *part, uint64_t offset)
{
    Chunk *last = &part->chunks[part->chunk_count - 1];
    return (Block *)(uintptr_t)(last->address + (offset - last->offset));
}

static int grow(PartHeader *part, uint64_t needed)
{
    int saved = errno, in_file;
    uint64_t size = part->mapped < LARGEST_CHUNK ? part->mapped : LARGEST_CHUNK;
    while (size < needed)
        size *= 2;
    if (part->chunk_count == CHUNKS_AT_MOST)
        return -1;
    /* Once a chunk is anonymous the file has a hole there; later ones need not be. */
    void *memory = map_chunk(part->mapped, size, 1, &in_file);
    errno = saved;
    if (memory == NULL)
        return -1;
    if (part->used < part->mapped) {
        Block *rest = block_at(part, part->used);
        rest->kind = BLOCK_REST;
        rest->size = part->mapped - part->used;
    }
    part->chunks[part->chunk_count] = (Chunk){(uint64_t)(uintptr_t)memory, part->mapped};
    part->chunk_count++;
    part->used = part->mapped;
    part->mapped += size;
    if (!in_file)
        part->unmapped_bytes += size;
    return 0;
}

Block *part_block(PartHeader *part, uint32_t kind, uint32_t thread, uint64_t payload)
{
    uint64_t size = (sizeof(Block) + payload + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    if (part->used + size > part->mapped && grow(part, size) != 0)
        return NULL;
    Block *block = block_at(part, part->used);
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

/* All chunks, up to what is used, in their order. */
static int write_chunks(PartHeader *part, int fd)
{
    for (uint64_t i = 0; i < part->chunk_count; i++) {
        Chunk *chunk = &part->chunks[i];
        uint64_t end = i + 1 < part->chunk_count ? part->chunks[i + 1].offset : part->used;
        if (end > chunk->offset && write_all(fd, (char *)(uintptr_t)chunk->address,
                                             end - chunk->offset, chunk->offset) != 0)
            return -1;
    }
    return 0;
}

/* The program may have used up its soft limits; they are ours to lift for a moment. */
static void lift_limits(struct rlimit *before, int lift)
{
    static const int limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE};
    for (int i = 0; i < 2; i++) {
        if (!lift)
            setrlimit(limits[i], &before[i]);
        else if (getrlimit(limits[i], &before[i]) == 0) {
            struct rlimit most = {before[i].rlim_max, before[i].rlim_max};
            setrlimit(limits[i], &most);
        }
    }
}

void part_write_rest(PartHeader *part)
{
    struct rlimit before[2], limit;
    if (part->unmapped_bytes == 0 || path_of_part == NULL)
        return;
    lift_limits(before, 1);
    int room = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
               limit.rlim_cur >= part->used;
    int fd = room ? open(path_of_part, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd >= 0) {
        if (write_chunks(part, fd) == 0) {
            part->unmapped_bytes = 0; /* and once more, to say so in the file as well */
            write_all(fd, (char *)part, sizeof *part, 0);
        }
        close(fd);
    }
    lift_limits(before, 0);
}

int part_copy(PartHeader *part, const char *path, uint64_t state)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    ClockPair now = clock_pair();
    int failed = write_chunks(part, fd);
    PartHeader *header = malloc(sizeof *header);
    if (header == NULL)
        failed = 1;
    else {
        *header = *part;
        header->state = state;
        header->end_ticks = now.ticks;
        header->end_ns = now.ns;
        header->unmapped_bytes = 0;
        failed |= write_all(fd, (char *)header, sizeof *header, 0);
        free(header);
    }
    close(fd);
    return failed;
}

void part_forget(PartHeader *part)
{
    /* The addresses stay taken: frames of the parent that return in the child still hold
     * pointers into them, and are told apart by comparing those. */
    Chunk chunks[CHUNKS_AT_MOST];
    uint64_t count = part->chunk_count, end = part->mapped;
    memcpy(chunks, part->chunks, count * sizeof *chunks);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t stop = i + 1 < count ? chunks[i + 1].offset : end;
        mmap((void *)(uintptr_t)chunks[i].address, stop - chunks[i].offset, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    free(path_of_part);
    path_of_part = NULL;
}
