#include "cupti_buffers.h"
#include "append.h"
#include "collector.h"
#include "cupti_calls.h"
#include "cupti_records.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_BYTES (2u << 20)
#define BUFFERS_AT_MOST 256
#define BUFFERS_OF_OLD 4096 /* before CUDA 12.9, refusing a buffer may crash CUPTI */
#define MAY_BE_REFUSED 27 /* from cuptiGetVersion */

enum BufferState { BUFFER_NONE, BUFFER_FREE, BUFFER_HELD, BUFFER_FULL };

typedef struct Buffer {
    uint8_t *memory;
    uint32_t state;
    int32_t next; /* in the queue */
    size_t valid;
} Buffer;

static Buffer buffers[BUFFERS_OF_OLD];
static int32_t queue_head = -1; /* newest first */
static uint64_t moves;          /* atomic */
static void (*on_handed_over)(void);

void buffers_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    __atomic_add_fetch(&moves, 1, __ATOMIC_RELAXED);
    *max_records = 0;
    *buffer = NULL;
    *size = 0;
    uint32_t version = collector.cupti.version;
    int most = version != 0 && version < MAY_BE_REFUSED ? BUFFERS_OF_OLD : BUFFERS_AT_MOST;
    for (int i = 0; i < most; i++) {
        uint32_t state = __atomic_load_n(&buffers[i].state, __ATOMIC_RELAXED);
        if ((state != BUFFER_FREE && state != BUFFER_NONE) ||
            !__atomic_compare_exchange_n(&buffers[i].state, &state, BUFFER_HELD, 0,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        if (buffers[i].memory == NULL) {
            int saved = errno;
            void *memory = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            errno = saved;
            if (memory == MAP_FAILED) {
                __atomic_store_n(&buffers[i].state, BUFFER_NONE, __ATOMIC_RELEASE);
                break;
            }
            __atomic_store_n(&buffers[i].memory, memory, __ATOMIC_RELEASE);
        }
        *buffer = buffers[i].memory;
        *size = BUFFER_BYTES;
        return;
    }
    if (collector.sums.counters != NULL)
        __atomic_add_fetch(&collector.sums.counters->refused, 1, __ATOMIC_RELAXED);
}

/* Index of the buffer; -1 if it is not ours, for instance because another client's callbacks were
 * registered before. */
static int buffer_number(const uint8_t *memory)
{
    for (int i = 0; i < BUFFERS_OF_OLD; i++) {
        const uint8_t *ours = __atomic_load_n(&buffers[i].memory, __ATOMIC_ACQUIRE);
        if (ours == memory)
            return __atomic_load_n(&buffers[i].state, __ATOMIC_RELAXED) == BUFFER_HELD ? i : -1;
    }
    return -1;
}

void buffers_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context, (void)stream, (void)size;
    if (buffer == NULL || collector.began < 0) /* forked child: the parent keeps using it */
        return;
    int32_t number = buffer_number(buffer);
    if (number < 0)
        return;
    __atomic_add_fetch(&moves, 1, __ATOMIC_RELAXED);
    Buffer *done = &buffers[number];
    done->valid = valid < BUFFER_BYTES ? valid : BUFFER_BYTES;
    GpuCounters *counters = collector.sums.counters;
    __atomic_store_n(&counters->told, __atomic_load_n(&counters->launches, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&done->state, BUFFER_FULL, __ATOMIC_RELEASE);
    done->next = __atomic_load_n(&queue_head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&queue_head, &done->next, number, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
    on_handed_over();
}

/* Saved buffers as they arrived, each preceded by its size, and the names their pointers refer
 * to. */
static int saved_buffers = -1, saved_names = -1; /* descriptors: no buffer to flush after a fork */

void buffers_save(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld.buffers", folder, (long)getpid());
    saved_buffers = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    snprintf(path, sizeof path, "%s/%ld.names", folder, (long)getpid());
    saved_names = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (saved_names >= 0)
        dprintf(saved_names, "version %u\n", collector.cupti.version);
}

static void save(uint8_t *buffer, size_t valid)
{
    uint64_t size = valid;
    void *record = NULL;
    if (saved_names < 0 ||
        append_whole(saved_buffers, &size, sizeof size, buffer, valid) != 0)
        return;
    while (collector.cupti.next_record(buffer, valid, &record) == 0) {
        const char *name = NULL;
        uint32_t kind = *(uint32_t *)record;
        if (kind == RECORD_KERNEL || kind == RECORD_CONCURRENT_KERNEL)
            name = ((KernelRecord *)record)->name;
        else if (kind == RECORD_DEVICE)
            name = ((DeviceRecord *)record)->name;
        if (name != NULL)
            dprintf(saved_names, "%llx %s\n", (unsigned long long)(uintptr_t)name, name);
    }
}

static void walk(uint8_t *buffer, size_t valid)
{
    void *record = NULL;
    int result;
    if (valid == 0)
        return;
    if (saved_buffers >= 0)
        save(buffer, valid);
    while ((result = collector.cupti.next_record(buffer, valid, &record)) == 0)
        sums_add(&collector.sums, record, calls_node);
    collector.sums.counters->walk_errors += result != CUPTI_MAX_LIMIT_REACHED;
    collector.sums.counters->buffers++;
}

void buffers_drain(void)
{
    int32_t head;
    while ((head = __atomic_exchange_n(&queue_head, -1, __ATOMIC_ACQUIRE)) >= 0) {
        int32_t first = -1;
        while (head >= 0) { /* in order of arrival */
            int32_t next = buffers[head].next;
            buffers[head].next = first;
            first = head;
            head = next;
        }
        while (first >= 0) {
            Buffer *buffer = &buffers[first];
            first = buffer->next;
            walk(buffer->memory, buffer->valid);
            __atomic_store_n(&buffer->state, BUFFER_FREE, __ATOMIC_RELEASE);
        }
    }
}

uint64_t buffers_moves(void) { return __atomic_load_n(&moves, __ATOMIC_RELAXED); }

void buffers_begin(void (*handed_over)(void)) { on_handed_over = handed_over; }
