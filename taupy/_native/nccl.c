/* NCCL's profiler plug-in: records a process's collectives and when they ran.
 *
 * NCCL loads this library itself (NCCL_PROFILER_PLUGIN). It calls us on the program's threads,
 * where a collective is issued, and on its own threads, which see the GPU channels begin and end.
 * None of them holds the GIL, and nothing here waits for it: rows go into a memory-mapped file in
 * the run folder, which is read after the run. The call path comes from the engine (gpu_host.h).
 * Supports interfaces v5 to v7, using only the fields common to both. */
#define _GNU_SOURCE
#include "nccl.h"
#include "clock.h"
#include "engine_host.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { SUCCESS = 0 };
enum { COLLECTIVE = 1 << 1, CHANNEL = 1 << 6, BY_COPY_ENGINE = 1 << 12, CHANNEL_STOP = 22 };

/* Start of an event descriptor, identical in v5 to v7. */
typedef struct Description {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t number;
            const char *function;
            const void *from;
            void *to;
            size_t count;
            int root;
            const char *type;
        } collective;
        struct {
            uint8_t channel;
            uint64_t gpu_ns;
        } channel;
    };
} Description;

typedef struct State {
    uint64_t gpu_ns;
} State;

typedef struct Channel {
    NcclRow *row;
    uint64_t gpu_ns;
} Channel;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static NcclFile *file;
static GpuHost *host;
static int is_tried;

static int is_here(void) { return file != NULL && file->pid == (uint64_t)getpid(); }

static NcclFile *file_open(const char *folder)
{
    char path[4096];
    int64_t now = clock_ns(CLOCK_REALTIME);
    if (snprintf(path, sizeof path, "%s/%ld-%llx.nccl", folder, (long)getpid(),
                 (unsigned long long)now) >= (int)sizeof path)
        return NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *mapped = MAP_FAILED;
    /* Reserve the space now: a disk that fills up later must not kill the program with SIGBUS. */
    if (posix_fallocate(fd, 0, sizeof(NcclFile)) == 0)
        mapped = mmap(NULL, sizeof(NcclFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) {
        unlink(path);
        return NULL;
    }
    NcclFile *opened = mapped;
    memcpy(opened->magic, NCCL_MAGIC, sizeof opened->magic);
    opened->version = NCCL_FILE_VERSION;
    opened->pid = (uint64_t)getpid();
    return opened;
}

/* The communicator with this id, added if it is new; -1 if the table is full. */
static int communicator_of(uint64_t id, const char *name, int size, int rank)
{
    for (unsigned i = 0; i < file->communicator_count; i++)
        if (file->communicators[i].id == id)
            return (int)i;
    if (file->communicator_count == NCCL_COMMUNICATORS)
        return -1;
    NcclCommunicator *made = &file->communicators[file->communicator_count];
    made->id = id;
    made->size = (uint32_t)size;
    made->rank = (uint32_t)rank;
    snprintf(made->name, sizeof made->name, "%s", name != NULL ? name : "");
    return (int)file->communicator_count++;
}

static int plugin_init(void **context, uint64_t id, int *mask, const char *name, int nodes,
                       int size, int rank, void *log)
{
    (void)nodes, (void)log;
    int place = -1;
    pthread_mutex_lock(&lock);
    if (!is_tried) {
        is_tried = 1;
        host = engine_host();
        file = host != NULL && host->run_folder != NULL ? file_open(host->run_folder) : NULL;
        if (file != NULL)
            engine_host_stay();
    }
    if (is_here())
        place = communicator_of(id, name, size, rank);
    pthread_mutex_unlock(&lock);
    *context = place < 0 ? NULL : &file->communicators[place];
    *mask = place < 0 ? 0 : COLLECTIVE | CHANNEL | BY_COPY_ENGINE;
    return SUCCESS;
}

static uint64_t width_of(const char *type)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } widths[] = {{"ncclInt8", 1},    {"ncclUint8", 1},  {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
                  {"ncclFloat16", 2}, {"ncclBfloat16", 2}, {"ncclInt32", 4},    {"ncclUint32", 4},
                  {"ncclFloat32", 4}, {"ncclInt64", 8},  {"ncclUint64", 8},     {"ncclFloat64", 8}};
    for (unsigned i = 0; type != NULL && i < sizeof widths / sizeof *widths; i++)
        if (strcmp(type, widths[i].name) == 0)
            return widths[i].bytes;
    return 0;
}

static NcclRow *row_new(void)
{
    if (file->row_count >= NCCL_ROWS) {
        file->lost++;
        return NULL;
    }
    return &file->rows[file->row_count++];
}

static void *collective_begins(NcclCommunicator *communicator, const Description *event)
{
    uint64_t width = width_of(event->collective.type);
    uint64_t cause = host->place().launch;
    pthread_mutex_lock(&lock);
    NcclRow *row = row_new();
    if (row != NULL) {
        row->communicator = (uint32_t)(communicator - file->communicators);
        row->number = event->collective.number;
        row->bytes = width > 0 ? (int64_t)(event->collective.count * width) : -1;
        row->cause = cause;
        row->asked_ns = clock_ns(CLOCK_REALTIME);
        snprintf(row->operation, sizeof row->operation, "%s",
                 event->collective.function != NULL ? event->collective.function : "");
        __atomic_store_n(&row->is_used, 1, __ATOMIC_RELEASE); /* the row is complete */
    }
    pthread_mutex_unlock(&lock);
    return row;
}

static int is_row(const void *handle)
{
    return handle != NULL && (const char *)handle >= (const char *)file->rows &&
           (const char *)handle < (const char *)(file->rows + NCCL_ROWS);
}

static int plugin_start(void *context, void **handle, void *given)
{
    const Description *event = given;
    *handle = NULL;
    if (!is_here() || context == NULL)
        return SUCCESS;
    if (event->type == COLLECTIVE || event->type == BY_COPY_ENGINE) {
        *handle = collective_begins(context, event);
    } else if (event->type == CHANNEL && is_row(event->parent)) {
        Channel *channel = calloc(1, sizeof *channel);
        if (channel != NULL)
            *channel = (Channel){event->parent, event->channel.gpu_ns};
        *handle = channel;
    }
    return SUCCESS;
}

/* A channel has ended just now; its duration comes from the GPU's own clock. */
static void channel_ends(const Channel *channel, uint64_t gpu_ns)
{
    int64_t now = clock_ns(CLOCK_REALTIME);
    int64_t begun = gpu_ns > channel->gpu_ns ? now - (int64_t)(gpu_ns - channel->gpu_ns) : now;
    NcclRow *row = channel->row;
    pthread_mutex_lock(&lock);
    begun = begun < row->asked_ns ? row->asked_ns : begun;
    row->begun_ns = row->begun_ns == 0 || begun < row->begun_ns ? begun : row->begun_ns;
    row->ended_ns = now > row->ended_ns ? now : row->ended_ns;
    pthread_mutex_unlock(&lock);
}

static int plugin_state(void *handle, int state, void *given)
{
    if (state == CHANNEL_STOP && given != NULL && handle != NULL && is_here() && !is_row(handle))
        channel_ends(handle, ((const State *)given)->gpu_ns);
    return SUCCESS;
}

static int plugin_stop(void *handle)
{
    /* Rows are never freed: channels whose parent they are may end later. */
    if (handle != NULL && is_here() && !is_row(handle))
        free(handle);
    return SUCCESS;
}

static int plugin_finalize(void *context)
{
    (void)context;
    return SUCCESS;
}

typedef struct Plugin {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, int, void *);
    int (*finalize)(void *);
} Plugin;

#define PLUGIN \
    {"taupy", plugin_init, plugin_start, plugin_stop, plugin_state, plugin_finalize}

EXPORTED Plugin ncclProfiler_v5 = PLUGIN; /* NCCL 2.28 and earlier */
EXPORTED Plugin ncclProfiler_v6 = PLUGIN;
EXPORTED Plugin ncclProfiler_v7 = PLUGIN;
