/* See part.h. No Python here. */
#define _GNU_SOURCE
#include "part.h"
#include "append.h"
#include "clock.h"
#include "confined.h"
#include "pages.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PART_MAGIC "TAUPYPRT"
#define FIRST_CHUNK (16ull << 10)
#define LARGEST_CHUNK (32ull << 20)
#define FILE_BYTES (1ull << 20) /* mapped at the start, mostly a hole */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif
#define PREPARED (16ull << 20) /* some 100,000 call paths */
#define FOLD_WAIT_MS 2000 /* longest wait for other processes that are folding */

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

int64_t clock_true_ns(clockid_t id)
{
    static int (*read_clock)(clockid_t, struct timespec *);
    struct timespec now = {0};
    if (read_clock == NULL) {
        void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
        void *found = library != NULL ? dlsym(library, "clock_gettime") : NULL;
        read_clock = found != NULL ? (int (*)(clockid_t, struct timespec *))found : clock_gettime;
    }
    read_clock(id, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

ClockPair clock_pair(void)
{
    ClockPair best = {0, 0};
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = clock_ticks();
        int64_t ns = clock_true_ns(CLOCK_MONOTONIC);
        uint64_t after = clock_ticks();
        if (after - before < best_width) {
            best_width = after - before;
            best = (ClockPair){before + (after - before) / 2, ns};
        }
    }
    return best;
}

int64_t clock_epoch(int64_t monotonic_ns)
{
    int64_t best = INT64_MAX, ahead = 0;
    for (int i = 0; i < 8; i++) {
        int64_t before = clock_true_ns(CLOCK_MONOTONIC), now = clock_ns(CLOCK_REALTIME);
        int64_t took = clock_true_ns(CLOCK_MONOTONIC) - before;
        if (took < best) {
            best = took;
            ahead = now - before - took / 2;
        }
    }
    return monotonic_ns + ahead;
}

PartOwner part_owner __attribute__((aligned(PART_OWNER_BYTES)));

void part_own(void)
{
    static int is_watched;
    int saved = errno;
    if (!is_watched)
        madvise(&part_owner, sizeof part_owner, MADV_WIPEONFORK);
    is_watched = 1;
    part_owner.mask = UINT64_MAX;
    errno = saved;
}

/* Of the open part, one per process. NULL: no such file wanted. */
static char *path_of_part, *spill_of_part;
static int has_file; /* the file was created, which fails without free descriptors or disk space */

/* Chunks that are not mapped from the file, even if the header marks them as saved to it. */
static uint8_t in_memory[CHUNKS_AT_MOST];
static uint64_t first_end; /* how far the first chunk is mapped, allocated or not */

/* Where the chunks are. Unlike the header's, this cannot be lost with the file. */
static struct {
    char *begin;
    uint64_t size;
} maps[CHUNKS_AT_MOST];
static unsigned map_count, detached_count;
static int is_detached;

static struct { /* the run folder: once the program has changed its root, the path leads elsewhere */
    char *path;
    dev_t device;
    ino_t inode;
} first_folder;

static uint64_t chunk_offset(const Chunk *chunk) { return chunk->offset & ~CHUNK_IN_MEMORY; }

static uint64_t chunk_end(const PartHeader *part, uint64_t i)
{
    return i + 1 < part->chunk_count ? chunk_offset(&part->chunks[i + 1]) : part->used;
}

/* Whether it is the folder that was at this path at first. */
static int folder_is_same(const char *path, const struct stat *status)
{
    if (first_folder.path == NULL || strcmp(first_folder.path, path) != 0) {
        free(first_folder.path);
        first_folder.path = strdup(path);
        first_folder.device = status->st_dev;
        first_folder.inode = status->st_ino;
    }
    return status->st_dev == first_folder.device && status->st_ino == first_folder.inode;
}

/* A descriptor of a path's folder, if it belongs to this user and no other user can write to it;
 * else -1. `name` is set to the remaining file name. If another user replaces a folder further up,
 * either nothing is found or none of that user's files is used. */
static int open_folder(const char *path, const char **name)
{
    char folder[4096];
    struct stat status;
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || (size_t)(slash - path) >= sizeof folder)
        return -1;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    *name = slash + 1;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &status) != 0 || status.st_uid != geteuid() ||
                    (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
                    !folder_is_same(folder, &status))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Open a regular file that belongs to this user, has no other link, and is in such a folder; else
 * -1. */
static int open_own(const char *path, int flags)
{
    const char *name;
    struct stat status;
    int folder = open_folder(path, &name);
    if (folder < 0)
        return -1;
    int fd = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    close(folder);
    if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
                    status.st_uid != geteuid() || status.st_nlink > 1)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The part's file, created now if that failed before. Returns -1 if it cannot be opened. */
static int open_part(void)
{
    if (path_of_part == NULL || is_filtered())
        return -1;
    int fd = open_own(path_of_part, has_file ? O_RDWR : O_RDWR | O_CREAT | O_EXCL);
    has_file |= fd >= 0;
    return fd;
}

/* Allocate [from, to) of a file. Below the file's size RLIMIT_FSIZE does not apply, except where
 * posix_fallocate has to write. */
static int allocate(int fd, uint64_t from, uint64_t to)
{
    struct stat status;
    if (file_may_have(to))
        return posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    if (fstat(fd, &status) != 0 || (uint64_t)status.st_size < to)
        return -1;
    return fallocate(fd, 0, (off_t)from, (off_t)(to - from));
}

/* Map file space [from, to) as memory, with addresses for up to `*end` of the file if it can be
 * extended that far by a hole. The space is allocated first: writing to a mapping on a full disk
 * would raise SIGBUS in the user's program. Returns NULL on failure. */
static void *map_file(uint64_t from, uint64_t to, uint64_t *end)
{
    void *memory = MAP_FAILED;
    int fd = open_part();
    if (fd < 0)
        return NULL;
    if (allocate(fd, from, to) == 0) {
        if (*end > to && !(file_may_have(*end) && ftruncate(fd, (off_t)*end) == 0))
            *end = to;
        memory = mmap(NULL, *end - from, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
        if (memory != MAP_FAILED && from == 0) {
            flock(fd, LOCK_SH | LOCK_NB); /* until this process ends: the mapping keeps it */
            madvise(memory, *end, MADV_RANDOM); /* no readahead, which would fill the hole */
        }
    }
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A chunk of `size` bytes at `from` in the file, mapped up to `*end`; its address is 0 if memory
 * runs out. */
static Chunk map_chunk(uint64_t from, uint64_t size, uint64_t *end)
{
    void *memory = map_file(from, from + size, end);
    uint64_t mark = memory == NULL ? CHUNK_IN_MEMORY : 0;
    if (memory == NULL && confinement() != NULL)
        return (Chunk){0, from}; /* what lies in memory cannot be saved at the end */
    if (memory == NULL) {
        *end = from + size;
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (memory == MAP_FAILED)
        return (Chunk){0, from | mark};
    pages_large(memory, *end - from);
    maps[map_count].begin = memory;
    maps[map_count].size = *end - from;
    __atomic_store_n(&map_count, map_count + 1, __ATOMIC_RELEASE);
    return (Chunk){(uint64_t)(uintptr_t)memory, from | mark};
}

/* Allocate more of the first chunk, whose file is mapped up to `first_end`: once the program has
 * used up all descriptors or limited file sizes, this is all that can grow. */
static int extend_first(PartHeader *part, uint64_t size)
{
    uint64_t from = part->mapped, to = from + size;
    if (to > first_end || is_filtered())
        return -1;
    int fd = open_part();
    int failed = fd >= 0 ? allocate(fd, from, to)
                         : madvise((char *)part + from, size, MADV_POPULATE_WRITE);
    if (fd >= 0)
        close(fd);
    if (!failed)
        part->mapped = to;
    return failed;
}

PartHeader *part_open(const char *path, const char *spill)
{
    int saved = errno;
    long page = sysconf(_SC_PAGESIZE);
    uint64_t size = page > (long)FIRST_CHUNK ? (uint64_t)page : FIRST_CHUNK;
    free(path_of_part);
    free(spill_of_part);
    path_of_part = path != NULL ? strdup(path) : NULL;
    spill_of_part = spill != NULL ? strdup(spill) : NULL;
    has_file = is_detached = 0;
    map_count = detached_count = 0;
    part_own();
    memset(in_memory, 0, sizeof in_memory);
    first_end = FILE_BYTES;
    Chunk first = map_chunk(0, size, &first_end);
    PartHeader *part = (PartHeader *)(uintptr_t)first.address;
    if (part != NULL) {
        memcpy(part->magic, PART_MAGIC, 8);
        part->version = PART_VERSION;
        part->header_size = (sizeof(PartHeader) + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
        part->chunks[0] = first;
        in_memory[0] = (first.offset & CHUNK_IN_MEMORY) != 0;
        part->chunk_count = 1;
        part->mapped = size;
        part->node = -1;
        part->used = part->header_size;
    }
    errno = saved;
    return part;
}

static int grow(PartHeader *part, uint64_t needed);

void part_prepare(PartHeader *part)
{
    if (!is_detached && part->mapped - part->used < PREPARED)
        grow(part, PREPARED);
}

static Block *block_at(PartHeader *part, uint64_t offset)
{
    Chunk *last = &part->chunks[part->chunk_count - 1];
    return (Block *)(uintptr_t)(last->address + (offset - chunk_offset(last)));
}

static int grow(PartHeader *part, uint64_t needed)
{
    int saved = errno;
    uint64_t size = part->mapped < LARGEST_CHUNK ? part->mapped : LARGEST_CHUNK;
    if (size == 0)
        return -1; /* the header is lost */
    while (size < needed) /* double the whole part, so that it ends at powers of two */
        size += part->mapped < LARGEST_CHUNK ? part->mapped + size : LARGEST_CHUNK;
    if (part->chunk_count == 1 && extend_first(part, size) == 0) {
        errno = saved;
        return 0;
    }
    if (part->chunk_count == CHUNKS_AT_MOST || is_filtered())
        return -1;
    /* A chunk that is in memory leaves a hole in the file; later chunks need not be in memory. */
    uint64_t end = part->mapped + size;
    Chunk chunk = map_chunk(part->mapped, size, &end);
    errno = saved;
    if (chunk.address == 0)
        return -1;
    if (part->used < part->mapped) {
        Block *rest = block_at(part, part->used);
        rest->kind = BLOCK_REST;
        rest->size = part->mapped - part->used;
    }
    part->chunks[part->chunk_count] = chunk;
    in_memory[part->chunk_count] = (chunk.offset & CHUNK_IN_MEMORY) != 0;
    part->chunk_count++;
    part->used = part->mapped;
    part->mapped += size;
    return 0;
}

Block *part_block(PartHeader *part, uint32_t kind, uint32_t thread, uint64_t payload)
{
    uint64_t size = (sizeof(Block) + payload + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    /* The header is read first: this may be the access that finds it lost. */
    uint64_t used = __atomic_load_n(&part->used, __ATOMIC_ACQUIRE);
    if (part_is_detached() || (used + size > part->mapped && grow(part, size) != 0))
        return NULL;
    Block *block = block_at(part, part->used);
    block->kind = kind;
    block->thread = thread;
    block->size = size;
    part->used += size; /* updated last: a reader never sees a block without its header */
    return block;
}

Block *block_take(PartHeader *part, Block **spare, uint32_t kind, uint32_t thread,
                  uint64_t payload)
{
    Block *block = *spare;
    if (block == NULL) {
        int saved = errno;
        block = part_block(part, kind, thread, payload);
        errno = saved;
        return block;
    }
    *spare = (Block *)(uintptr_t)block->unused[0];
    block->unused[0] = 0;
    block->thread = thread;
    memset(block + 1, 0, payload);
    __atomic_store_n(&block->kind, kind, __ATOMIC_RELEASE);
    return block;
}

void block_free(Block **spare, Block *block)
{
    __atomic_store_n(&block->kind, BLOCK_REST, __ATOMIC_RELEASE);
    block->unused[0] = (uint64_t)(uintptr_t)*spare;
    *spare = block;
}

int part_pair(PartHeader *part, uint32_t kind, const char *name, const char *value,
              uint64_t value_size)
{
    uint64_t n = strlen(name);
    Block *block = part_block(part, kind, 0, 2 * sizeof(uint64_t) + n + value_size + 2);
    if (block == NULL)
        return -1;
    uint64_t *sizes = (uint64_t *)(block + 1);
    memcpy((char *)(sizes + 2), name, n);
    memcpy((char *)(sizes + 2) + n + 1, value, value_size);
    sizes[1] = value_size;
    sizes[0] = n; /* written last: a killed process leaves no name without its text */
    return 0;
}

/* ---------------------------------------------------------------- writing */

static int write_all(int fd, const void *data, uint64_t size, uint64_t offset)
{
    const char *from = data;
    while (size > 0) {
        ssize_t n = pwrite(fd, from, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        from += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* A copy of the header in which all chunks are in the file; the caller frees it. */
static PartHeader *header_of_file(const PartHeader *part)
{
    PartHeader *header = malloc(sizeof *header);
    if (header == NULL)
        return NULL;
    *header = *part;
    for (uint64_t i = 0; i < header->chunk_count; i++)
        header->chunks[i].offset &= ~CHUNK_IN_MEMORY;
    return header;
}

/* Write the part from `begin` up to what is used, displaced by `shift` bytes in the file. */
static int write_chunks(const PartHeader *part, int fd, uint64_t begin, int64_t shift)
{
    for (uint64_t i = 0; i < part->chunk_count; i++) {
        const Chunk *chunk = &part->chunks[i];
        uint64_t from = chunk_offset(chunk), end = chunk_end(part, i);
        uint64_t skip = from < begin ? begin - from : 0;
        if (end > from + skip &&
            write_all(fd, (char *)(uintptr_t)chunk->address + skip, end - from - skip,
                      (uint64_t)((int64_t)(from + skip) + shift)) != 0)
            return -1;
    }
    return 0;
}

/* Write the whole part to an empty file. The header comes last: without it there is no part. */
static int write_whole(const PartHeader *part, const PartHeader *header, int fd)
{
    return write_chunks(part, fd, sizeof *header, 0) == 0
               ? write_all(fd, header, sizeof *header, 0)
               : -1;
}

/* Raise the soft limits, which the program may have exhausted, for a moment; or restore them. */
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

/* Whether any bytes of the part are in no file. */
static int is_missing(const PartHeader *part)
{
    for (uint64_t i = 0; i < part->chunk_count; i++)
        if (part->chunks[i].offset & CHUNK_IN_MEMORY)
            return 1;
    return 0;
}

/* Write in-memory chunks to their places in the file, the first chunk last because it holds the
 * header. */
static int write_missing(PartHeader *part)
{
    int fd = file_may_have(part->used) ? open_part() : -1, failed = fd < 0;
    for (uint64_t i = part->chunk_count; !failed && i-- > 0;) {
        Chunk *chunk = &part->chunks[i];
        uint64_t offset = chunk_offset(chunk), size = chunk_end(part, i) - offset;
        if (!in_memory[i])
            continue;
        /* Allocate the space first: a reader cannot tell that a chunk is only partly in the
         * file. */
        failed = (size > 0 && posix_fallocate(fd, (off_t)offset, (off_t)size) != 0) ||
                 write_all(fd, (char *)(uintptr_t)chunk->address, size, offset) != 0;
        if (!failed)
            chunk->offset = offset;
    }
    if (!failed && in_memory[0]) /* record in the file, too, that it is complete */
        failed = write_all(fd, part, sizeof *part, 0) != 0;
    if (fd >= 0)
        close(fd);
    return failed;
}

/* Write the whole part to the spill file, atomically. It may be in a folder shared by many
 * users. */
static void write_spill(const PartHeader *part)
{
    char new[4096];
    PartHeader *header = file_may_have(part->used) ? header_of_file(part) : NULL;
    if (header == NULL ||
        snprintf(new, sizeof new, "%s.new", spill_of_part) >= (int)sizeof new) {
        free(header);
        return;
    }
    unlink(new); /* ours, left by an earlier attempt */
    int fd = open(new, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        int failed = write_whole(part, header, fd);
        close(fd);
        if (failed || rename(new, spill_of_part) != 0)
            unlink(new);
    }
    free(header);
}

void part_save(PartHeader *part)
{
    struct rlimit before[2];
    if (is_detached || memchr(in_memory, 1, part->chunk_count) == NULL || confinement() != NULL ||
        (path_of_part == NULL && spill_of_part == NULL))
        return;
    lift_limits(before, 1);
    int failed = path_of_part == NULL || write_missing(part) != 0;
    if (spill_of_part != NULL && failed)
        write_spill(part);
    else if (spill_of_part != NULL)
        unlink(spill_of_part); /* left by an earlier attempt; the part's own file is better */
    lift_limits(before, 0);
}

void part_resume(PartHeader *part)
{
    for (uint64_t i = 0; !is_detached && i < part->chunk_count; i++)
        if (in_memory[i])
            part->chunks[i].offset |= CHUNK_IN_MEMORY;
    if (spill_of_part != NULL && memchr(in_memory, 1, map_count) != NULL)
        unlink(spill_of_part);
    part->state = PART_RUNNING;
}

int part_copy(PartHeader *part, const char *path, uint64_t state)
{
    int fd = is_detached ? -1 : open_own(path, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return -1;
    ClockPair now = clock_pair();
    PartHeader *header = file_may_have(part->used) ? header_of_file(part) : NULL;
    int failed = header == NULL;
    if (!failed) {
        header->state = state;
        header->end_ticks = now.ticks;
        header->end_ns = now.ns;
        failed = write_whole(part, header, fd) != 0;
    }
    free(header);
    close(fd);
    if (failed)
        unlink(path);
    return failed;
}

/* ---------------------------------------------------------------- folding */

/* Open and lock the file of folded parts; its descriptor, or -1. The storer renames it under the
 * same lock, so check again once the lock is ours. */
static int open_folded(int folder)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct timespec pause = {0, 1000000};
    for (int waited = 0; waited < FOLD_WAIT_MS;) {
        struct stat opened, named;
        int fd = openat(folder, FOLDED_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                        0600);
        if (fd < 0)
            return -1;
        if (fstat(fd, &opened) != 0 || !S_ISREG(opened.st_mode) || opened.st_uid != geteuid() ||
            opened.st_nlink > 1) {
            close(fd);
            return -1;
        }
        while (fcntl(fd, F_SETLK, &lock) != 0 && waited++ < FOLD_WAIT_MS)
            nanosleep(&pause, NULL);
        if (waited < FOLD_WAIT_MS && fstatat(folder, FOLDED_FILE, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
            return fd;
        close(fd);
        waited++;
    }
    return -1;
}

/* Append the part as one block: a header with its chunks, then everything else, moved up. Bytes
 * beyond `used` in the file are from a process that was killed here. */
static int append(const PartHeader *part, int fd, const char *name)
{
    PartHeader folded;
    const uint64_t least = (offsetof(PartHeader, chunks) + sizeof(Chunk) + PART_ALIGN - 1) /
                           PART_ALIGN * PART_ALIGN;
    memset(&folded, 0, sizeof folded);
    ssize_t n = pread(fd, &folded, least, 0);
    if (n < 0 || (n > 0 && (memcmp(folded.magic, FOLDED_MAGIC, 8) != 0 ||
                            folded.version != PART_VERSION)))
        return -1;
    if (n < (ssize_t)least) {
        memset(&folded, 0, sizeof folded);
        memcpy(folded.magic, FOLDED_MAGIC, 8);
        folded.version = PART_VERSION;
        folded.header_size = (uint32_t)least;
        folded.chunk_count = 1;
        folded.used = least;
        if (write_all(fd, &folded, least, 0) != 0)
            return -1;
    }
    if (folded.used < least || folded.used % PART_ALIGN != 0)
        return -1;
    PartHeader *header = header_of_file(part);
    if (header == NULL)
        return -1;
    uint64_t size = (offsetof(PartHeader, chunks) + header->chunk_count * sizeof(Chunk) +
                     PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    uint64_t saved = header->header_size - size;
    header->header_size = (uint32_t)size;
    header->used -= saved;
    header->mapped -= saved;
    header->chunks[0].address += saved;
    for (uint64_t i = 1; i < header->chunk_count; i++)
        header->chunks[i].offset -= saved;
    struct { Block block; FoldedName name; } head = {
        .block = {.kind = BLOCK_PART, .size = sizeof head + header->used}};
    uint64_t at = folded.used, begin = at;
    int failed = strlen(name) >= sizeof head.name.text || !file_may_have(at + head.block.size);
    if (!failed) {
        strcpy(head.name.text, name);
        failed = write_all(fd, &head, sizeof head, at) != 0 ||
                 write_all(fd, header, size, at + sizeof head) != 0 ||
                 write_chunks(part, fd, part->header_size,
                              (int64_t)(at + sizeof head) - (int64_t)saved) != 0;
        at += head.block.size;
    }
    if (!failed)
        failed = write_all(fd, &at, sizeof at, offsetof(PartHeader, used)) != 0;
    if (failed && ftruncate(fd, (off_t)begin) != 0)
        failed = -1; /* will be overwritten by others */
    free(header);
    return failed;
}

void part_fold(PartHeader *part)
{
    const char *name;
    struct rlimit before[2];
    if (path_of_part == NULL || is_detached || is_missing(part))
        return;
    lift_limits(before, 1);
    int folder = open_folder(path_of_part, &name);
    int fd = folder >= 0 ? open_folded(folder) : -1;
    if (fd >= 0 && append(part, fd, name) == 0 && unlinkat(folder, name, 0) == 0) {
        free(path_of_part);
        path_of_part = NULL; /* later counts are lost */
    }
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    lift_limits(before, 0);
}

void part_forget(PartHeader *part)
{
    (void)part;
    /* Keep the addresses reserved: frames of the parent that return in the child still hold
     * pointers into them, and are recognised by comparing those pointers. */
    for (unsigned i = 0; i < map_count; i++)
        mmap(maps[i].begin, maps[i].size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    map_count = detached_count = 0;
    free(path_of_part);
    free(spill_of_part);
    path_of_part = spill_of_part = NULL;
}

/* ---------------------------------------------------------------- a lost file */

int part_holds(const void *address)
{
    unsigned count = __atomic_load_n(&map_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++)
        if ((const char *)address >= maps[i].begin &&
            (const char *)address < maps[i].begin + maps[i].size)
            return 1;
    return 0;
}

int part_is_detached(void) { return __atomic_load_n(&is_detached, __ATOMIC_ACQUIRE); }

int part_detach(PartHeader *part, PartCopy *copy)
{
    __atomic_store_n(&is_detached, 1, __ATOMIC_RELEASE);
    for (; detached_count < __atomic_load_n(&map_count, __ATOMIC_ACQUIRE); detached_count++) {
        unsigned i = detached_count;
        uint64_t size = maps[i].size;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return -1;
        copy(memory, maps[i].begin, size);
        if (i == 0 && memcmp(((PartHeader *)(void *)memory)->magic, PART_MAGIC, 8) != 0) {
            memset(memory, 0, sizeof *part);
            memcpy(((PartHeader *)(void *)memory)->magic, PART_MAGIC, 8);
            ((PartHeader *)(void *)memory)->pid = getpid();
        }
        if (mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, maps[i].begin) == MAP_FAILED)
            return -1;
    }
    return 0;
}
