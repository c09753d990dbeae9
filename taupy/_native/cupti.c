/* The GPU collector: CUPTI's callbacks and activity records, without Python.
 *
 * The CUDA driver loads this library itself when the program first calls cuInit
 * (CUDA_INJECTION64_PATH, set by the engine): a program that uses no GPU never pays. Buffers
 * are only queued where CUPTI hands them over; one thread of ours sums up what is in them.
 * Nothing is held that CUPTI could wait for, and no CUPTI function is called under a lock.
 *
 * A replay (no GPU, no driver) feeds saved buffers through the same path: see the functions
 * at the end. */
#define _GNU_SOURCE
#include "cupti_calls.h"
#include "cupti_library.h"
#include "cupti_sums.h"
#include "nvtx.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

#define BUFFER_BYTES (2u << 20)
#define BUFFERS_AT_MOST 256
#define BUFFERS_OF_OLD 4096 /* before CUDA 12.9 CUPTI may crash where a buffer is refused */
#define MAY_BE_REFUSED 27 /* as cuptiGetVersion tells */
#define WORK_AT_MOST (1u << 18)

enum BufferState { BUFFER_NONE, BUFFER_FREE, BUFFER_HELD, BUFFER_FULL };

typedef struct Buffer {
    uint8_t *memory;
    uint32_t state;
    int32_t next; /* in the queue */
    size_t valid;
} Buffer;

static Cupti cupti;
static Sums sums;
static PartHeader *part;
static const GpuHost *host;
static void *subscriber;
static Buffer buffers[BUFFERS_OF_OLD];
static int32_t queue_head = -1; /* newest first */
static sem_t wake, ended;
static int end_asked, end_last, worker_gone; /* atomically */
static int copy_asked; /* a CopyState, atomically */
static char copy_path[4096];
static int copy_failed;
static sem_t copied;
static pthread_mutex_t copy_lock = PTHREAD_MUTEX_INITIALIZER; /* of those who ask */
static pthread_t worker;
static int worker_problem; /* errno of its creation */
static int began;
static int unified_problem; /* what CUPTI answered, atomically; 0: nothing to say */
static uint64_t buffer_moves; /* buffers asked of us or handed to us, atomically */
static int is_lent; /* torch.profiler may have CUPTI's records, atomically */
static uint64_t lent_launches, lent_moves; /* when it was lent */
static int lend_problem; /* as unified_problem */

/* ---------------------------------------------------------------- buffers */

static void on_buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    __atomic_add_fetch(&buffer_moves, 1, __ATOMIC_RELAXED);
    *max_records = 0;
    *buffer = NULL;
    *size = 0;
    int most = cupti.version != 0 && cupti.version < MAY_BE_REFUSED ? BUFFERS_OF_OLD
                                                                    : BUFFERS_AT_MOST;
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
    if (sums.counters != NULL)
        __atomic_add_fetch(&sums.counters->refused, 1, __ATOMIC_RELAXED);
}

/* Which buffer it is; -1: none of ours, as where another client's callbacks stood before. */
static int buffer_number(const uint8_t *memory)
{
    for (int i = 0; i < BUFFERS_OF_OLD; i++) {
        const uint8_t *ours = __atomic_load_n(&buffers[i].memory, __ATOMIC_ACQUIRE);
        if (ours == memory)
            return __atomic_load_n(&buffers[i].state, __ATOMIC_RELAXED) == BUFFER_HELD ? i : -1;
    }
    return -1;
}

static void on_buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                size_t valid)
{
    (void)context, (void)stream, (void)size;
    if (buffer == NULL || began < 0) /* a fork's child, whose parent goes on with it */
        return;
    int32_t number = buffer_number(buffer);
    if (number < 0)
        return;
    __atomic_add_fetch(&buffer_moves, 1, __ATOMIC_RELAXED);
    Buffer *done = &buffers[number];
    done->valid = valid < BUFFER_BYTES ? valid : BUFFER_BYTES;
    __atomic_store_n(&sums.counters->told,
                     __atomic_load_n(&sums.counters->launches, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&done->state, BUFFER_FULL, __ATOMIC_RELEASE);
    done->next = __atomic_load_n(&queue_head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&queue_head, &done->next, number, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
        ;
    sem_post(&wake);
}

/* Buffers as they came, each after its size, and the names that their pointers mean. */
static int saved_buffers = -1, saved_names = -1; /* descriptors: a forked child flushes nothing */

static void save_open(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld.buffers", folder, (long)getpid());
    saved_buffers = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    snprintf(path, sizeof path, "%s/%ld.names", folder, (long)getpid());
    saved_names = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (saved_names >= 0)
        dprintf(saved_names, "version %u\n", cupti.version);
}

static void save(uint8_t *buffer, size_t valid)
{
    uint64_t size = valid;
    void *record = NULL;
    if (saved_names < 0 || write_whole(saved_buffers, &size, sizeof size) != 0 ||
        write_whole(saved_buffers, buffer, valid) != 0)
        return;
    while (cupti.next_record(buffer, valid, &record) == 0) {
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
    while ((result = cupti.next_record(buffer, valid, &record)) == 0)
        add_record(&sums, record, ring_get);
    sums.counters->walk_errors += result != CUPTI_MAX_LIMIT_REACHED;
    sums.counters->buffers++;
}

static void drain(void)
{
    int32_t head;
    while ((head = __atomic_exchange_n(&queue_head, -1, __ATOMIC_ACQUIRE)) >= 0) {
        int32_t first = -1;
        while (head >= 0) { /* in the order in which they came */
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

/* ---------------------------------------------------------------- what CUPTI tells of itself */

#define STATES_AT_MOST 8

static struct {
    uint32_t id;
    int result, is_whole; /* is_whole: atomically */
    char message[200];
} states[STATES_AT_MOST];
static int state_count; /* atomically */
static int states_noted;
static int cupti_gave_up; /* after a fatal error it has called cuptiFinalize */

/* Errors that no function returns, from whatever thread: the worker notes them in the part. */
static void on_state(uint32_t id, const StateData *state)
{
    int number = __atomic_fetch_add(&state_count, 1, __ATOMIC_RELAXED);
    if (id == STATE_FATAL)
        __atomic_store_n(&cupti_gave_up, 1, __ATOMIC_RELEASE);
    if (number >= STATES_AT_MOST)
        return;
    states[number].id = id;
    states[number].result = state->result;
    if (state->message != NULL)
        snprintf(states[number].message, sizeof states[number].message, "%s", state->message);
    __atomic_store_n(&states[number].is_whole, 1, __ATOMIC_RELEASE);
}

static void note_states(void)
{
    char text[256];
    for (; states_noted < STATES_AT_MOST &&
           __atomic_load_n(&states[states_noted].is_whole, __ATOMIC_ACQUIRE);
         states_noted++) {
        snprintf(text, sizeof text, "%s (%d: %s)", state_name(states[states_noted].id),
                 states[states_noted].result, states[states_noted].message);
        gpu_part_note(part, "states", text);
    }
}

/* Records that are complete are handed over. */
static void flush(uint32_t forced)
{
    if (!__atomic_load_n(&cupti_gave_up, __ATOMIC_ACQUIRE))
        cupti.flush_all(forced);
}

/* ---------------------------------------------------------------- the worker */

#define CRASHES_IN_FLUSH 130000 /* CUPTI of CUDA 13.0 before its update 1 */

static const char *result_text(int result)
{
    const char *text = NULL;
    if (cupti.result_string == NULL || cupti.result_string(result, &text) != 0 || text == NULL)
        text = "";
    return text;
}

static void note_result(const char *name, const char *what, int result)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %d %s", what, result, result_text(result));
    gpu_part_note(part, name, text);
}

static CallTable *table_new(uint64_t size)
{
    CallTable *table = calloc(1, sizeof *table);
    Block *block = part_block(part, GPU_CALLS, 0, size * sizeof(GpuCall));
    if (table == NULL || block == NULL) {
        free(table);
        return NULL;
    }
    table->mask = size - 1;
    table->calls = (GpuCall *)(block + 1);
    return table;
}

static void housekeeping(void)
{
    size_t dropped = 0;
    CallTable *table = calls.table;
    if (__atomic_load_n(&table->used, __ATOMIC_RELAXED) * 2 > table->mask) {
        /* Callers that still hold the old one finish there; the reader adds both up. */
        CallTable *larger = table_new((table->mask + 1) * 2);
        if (larger != NULL)
            __atomic_store_n(&calls.table, larger, __ATOMIC_RELEASE);
    }
    if (!__atomic_load_n(&cupti_gave_up, __ATOMIC_ACQUIRE) &&
        cupti.dropped_records(NULL, 0, &dropped) == 0)
        sums.counters->dropped += dropped;
    note_states();
    native_ranges_write(part);
    int unified = __atomic_exchange_n(&unified_problem, 0, __ATOMIC_ACQ_REL);
    if (unified != 0)
        note_result("records.missing", "unified memory", unified);
    int lent = __atomic_exchange_n(&lend_problem, 0, __ATOMIC_ACQ_REL);
    if (lent != 0)
        note_result("records.missing", "all after torch.profiler", lent);
    part->start_ticks = host->part_start();
    sums.counters->realtime_end = clock_ns(CLOCK_REALTIME);
    sums.counters->monotonic_end = clock_ns(CLOCK_MONOTONIC);
}

static void synchronize(void)
{
    if (cupti.context_push == NULL || cupti.context_pop == NULL || !cupti.context_synchronize)
        return;
    for (size_t i = 0; i < sizeof calls.contexts / sizeof *calls.contexts; i++) {
        void *context = __atomic_load_n(&calls.contexts[i], __ATOMIC_ACQUIRE), *popped;
        if (context != NULL && cupti.context_push(context) == 0) {
            cupti.context_synchronize();
            cupti.context_pop(&popped);
        }
    }
}

enum CopyState { COPY_NONE, COPY_ASKED, COPY_WRITTEN };

/* The part as it stands, for a snapshot: nobody else writes sums. */
static void copy(void)
{
    int state = COPY_ASKED;
    if (!__atomic_compare_exchange_n(&copy_asked, &state, COPY_WRITTEN, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    copy_failed = part_copy(part, copy_path, PART_SNAPSHOT);
    __atomic_store_n(&copy_asked, COPY_NONE, __ATOMIC_RELEASE);
    sem_post(&copied);
}

static void *work(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    open_call.ours = 1;
    prctl(PR_SET_NAME, "taupy-gpu");
    uint32_t pause_ms = host->flush_ms ? host->flush_ms : 1000;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += pause_ms / 1000;
        until.tv_nsec += pause_ms % 1000 * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        int woken = sem_timedwait(&wake, &until) == 0;
        drain();
        int asked = __atomic_load_n(&end_asked, __ATOMIC_ACQUIRE);
        if (asked) {
            synchronize();
            flush(0);
            drain();
            flush(1);
            drain();
        } else if (__atomic_load_n(&copy_asked, __ATOMIC_ACQUIRE) == COPY_ASKED) {
            flush(0); /* what is complete; what runs belongs to the next one */
            drain();
        } else if (!woken) {
            uint64_t launches = __atomic_load_n(&sums.counters->launches, __ATOMIC_RELAXED);
            if (launches != seen && cupti.version != CRASHES_IN_FLUSH &&
                !__atomic_load_n(&is_lent, __ATOMIC_ACQUIRE))
                flush(0); /* what is complete goes to the file: it outlives a kill */
            seen = launches;
            drain();
        }
        housekeeping();
        copy();
        if (!woken || asked)
            trace_flush_all(&sums);
        if (asked) {
            int last = __atomic_load_n(&end_last, __ATOMIC_RELAXED);
            __atomic_store_n(&end_asked, 0, __ATOMIC_RELAXED);
            if (last)
                __atomic_store_n(&worker_gone, 1, __ATOMIC_RELEASE);
            sem_post(&ended);
            if (last)
                return NULL;
        }
    }
}

static int wait_for(sem_t *semaphore, uint32_t milliseconds)
{
    struct timespec until;
    int result;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while ((result = sem_timedwait(semaphore, &until)) != 0 && errno == EINTR)
        ;
    return result;
}

/* Asked for by a thread of the program, which holds no GIL. */
static int snapshot(const char *path)
{
    int saved = errno, result = -1, state = COPY_ASKED;
    pthread_mutex_lock(&copy_lock);
    if (!__atomic_load_n(&worker_begun, __ATOMIC_ACQUIRE))
        result = 0; /* no context: nothing was launched */
    else if (worker_problem == 0 && !__atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE) &&
             strlen(path) < sizeof copy_path) {
        strcpy(copy_path, path);
        __atomic_store_n(&copy_asked, COPY_ASKED, __ATOMIC_RELEASE);
        sem_post(&wake);
        result = wait_for(&copied, host->end_ms);
        /* Nobody is to find a later moment's copy; one that is being written is waited for. */
        if (result != 0 &&
            !__atomic_compare_exchange_n(&copy_asked, &state, COPY_NONE, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            result = wait_for(&copied, host->end_ms);
        if (result == 0)
            result = copy_failed;
    }
    pthread_mutex_unlock(&copy_lock);
    errno = saved;
    return result;
}

static void problem(const char *what, int result, const char *text)
{
    char line[8192];
    snprintf(line, sizeof line, "%d", result);
    gpu_part_note(part, "error.step", what);
    gpu_part_note(part, "error.code", line);
    gpu_part_note(part, "error.text", text);
    sums.counters->state = GPU_FAILED;
}

/* With the first context, not before: a program that only asks whether there is a GPU, and
 * then forks, gets no thread from us. */
static void begin_worker(void)
{
    static int once;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (__atomic_exchange_n(&once, 1, __ATOMIC_ACQ_REL))
        return;
    int saved = errno;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* the program's signals are not for it */
    worker_problem = pthread_create(&worker, &attributes, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    __atomic_store_n(&worker_begun, 1, __ATOMIC_RELEASE);
    errno = saved;
}

/* ---------------------------------------------------------------- the end */

/* Has torch.profiler taken the records of what was launched since it began? Then no buffer was
 * asked of us, or handed to us. */
static void count_lent(void)
{
    uint64_t since = __atomic_load_n(&sums.counters->launches, __ATOMIC_RELAXED) - lent_launches;
    if (since != 0 && __atomic_load_n(&buffer_moves, __ATOMIC_RELAXED) == lent_moves) {
        sums.counters->lent += since;
        sums.counters->lendings++;
    }
}

static void end(int last)
{
    if (began != 1 || __atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE))
        return;
    int saved = errno, result = 0;
    int works = __atomic_load_n(&worker_begun, __ATOMIC_ACQUIRE) && worker_problem == 0;
    if (worker_problem != 0)
        problem("thread", worker_problem, strerror(worker_problem));
    __atomic_store_n(&end_last, last, __ATOMIC_RELAXED);
    __atomic_store_n(&end_asked, 1, __ATOMIC_RELEASE);
    if (works)
        sem_post(&wake);
    if (works)
        result = wait_for(&ended, host->end_ms);
    if (result != 0) {
        sums.counters->flush_timed_out = 1;
        __atomic_store_n(&worker_gone, 1, __ATOMIC_RELEASE); /* not again */
    }
    if (last || result != 0) {
        calls_closed = 1;
        if (__atomic_exchange_n(&is_lent, 0, __ATOMIC_ACQ_REL))
            count_lent();
        if (sums.counters->state == GPU_RUNNING)
            sums.counters->state = GPU_ENDED;
        if (!works)
            note_states();
        part->state = PART_ENDED;
        part_save(part);
    }
    errno = saved;
}

static void at_exit(void) { end(1); }

/* A fork's child cannot use its parent's CUDA. The buffers, the files and the locks are the
 * parent's: nothing here touches them again. One that uses CUDA first begins anew. */
static void forked(void)
{
    if (began == 0)
        return;
    calls_closed = 1;
    began = -1;
}

/* ---------------------------------------------------------------- the beginning */

static void facts(void)
{
    char text[64];
    gpu_part_note(part, "cupti.library", cupti.path);
    snprintf(text, sizeof text, "%u", cupti.version);
    gpu_part_note(part, "cupti.version", text);
    snprintf(text, sizeof text, "%d", cupti.driver);
    gpu_part_note(part, "driver.cuda", text);
}

/* The calls to hear of. One that CUPTI refuses is left out. */
static int choose_callbacks(void)
{
    int chosen = 0, refused = 0, noted = 0, result;
    for (int domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++) {
        int missing = 0;
        for (uint32_t id = 1; id < IDS_AT_MOST && missing < 64; id++) {
            const char *name = NULL;
            if (cupti.callback_name(domain, id, &name) != 0 || name == NULL) {
                missing++;
                continue;
            }
            missing = 0;
            int interest = interest_in(domain, name);
            calls.interest[domain][id] = (uint8_t)interest;
            if (!interest)
                continue;
            if ((result = cupti.enable_callback(1, subscriber, domain, id)) != 0) {
                calls.interest[domain][id] = 0;
                refused = refused ? refused : result;
                if (!noted++)
                    note_result("callbacks.missing", name, result);
                continue;
            }
            gpu_part_text(part, GPU_CALL_NAME, (uint64_t)domain << 12 | id, name);
            chosen++;
        }
    }
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_CREATED);
    cupti.enable_callback(1, subscriber, DOMAIN_RESOURCE, RESOURCE_CONTEXT_DESTROY);
    for (uint32_t id = STATE_FATAL; id <= STATE_WARNING; id++)
        cupti.enable_callback(1, subscriber, DOMAIN_STATE, id);
    return chosen ? 0 : refused ? refused : -1;
}

/* The kinds of records; only kernels and copies are indispensable. */
static const struct {
    uint32_t kind;
    int needed, trace;
} kinds[] = {
    {RECORD_DEVICE, 0, 0},        {RECORD_CONCURRENT_KERNEL, 1, 0},
    {RECORD_MEMCPY, 1, 0},        {RECORD_MEMSET, 1, 0},
    {RECORD_MEMCPY2, 0, 0},       {RECORD_MEMORY2, 0, 0},
    {RECORD_MEMORY_POOL, 0, 0},   {RECORD_RUNTIME, 0, 1},
    {RECORD_DRIVER, 0, 1},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static int choose_records(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].trace && !host->trace)
            continue;
        int result = cupti.enable(kinds[i].kind);
        if (result != 0 && kinds[i].needed)
            return result;
        if (result != 0) {
            char what[32];
            snprintf(what, sizeof what, "kind %u", kinds[i].kind);
            note_result("records.missing", what, result);
        }
    }
    return 0;
}

/* Those kinds once more, but for the devices, which are told of again each time. */
static int enable_records(void)
{
    int first = 0;
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].kind != RECORD_DEVICE && (host->trace || !kinds[i].trace)) {
            int result = cupti.enable(kinds[i].kind);
            if (kinds[i].needed && result != 0 && first == 0)
                first = result;
        }
    return first;
}

/* Called by a thread of the program where its torch.profiler begins, and where it has ended. It
 * registers callbacks of its own for buffers, if it can without a subscriber, and at its end
 * disables the kinds: what it took is its, and what comes after is ours again. */
static void lend(int begins)
{
    int saved = errno, result;
    if (began != 1 || calls_closed || __atomic_load_n(&cupti_gave_up, __ATOMIC_ACQUIRE))
        return;
    if (begins && !__atomic_load_n(&is_lent, __ATOMIC_ACQUIRE)) {
        if (cupti.version != CRASHES_IN_FLUSH)
            flush(0); /* what is complete is ours */
        lent_moves = __atomic_load_n(&buffer_moves, __ATOMIC_RELAXED);
        lent_launches = __atomic_load_n(&sums.counters->launches, __ATOMIC_RELAXED);
        __atomic_store_n(&is_lent, 1, __ATOMIC_RELEASE);
    } else if (!begins && __atomic_load_n(&is_lent, __ATOMIC_ACQUIRE)) {
        count_lent();
        if ((result = cupti.register_callbacks(on_buffer_requested, on_buffer_completed)) != 0 ||
            (result = enable_records()) != 0)
            __atomic_store_n(&lend_problem, result, __ATOMIC_RELEASE);
        __atomic_store_n(&is_lent, 0, __ATOMIC_RELEASE);
    }
    errno = saved;
}

/* What unified memory moves. CUPTI must be asked when the driver is ready, which it is not yet
 * when it loads this library, and most programs have none: at the first allocation of such
 * memory. What CUPTI refuses is noted by the worker, which the part belongs to. */
static void begin_unified_memory(void)
{
    static int once;
    struct {
        uint32_t scope, kind, device, enable;
    } wanted[4];
    if (cupti.configure_unified_memory == NULL || __atomic_exchange_n(&once, 1, __ATOMIC_ACQ_REL))
        return;
    for (uint32_t i = 0; i < 4; i++)
        wanted[i] = (typeof(wanted[0])){2, i + 1, 0, 1}; /* all devices of the process */
    int result = cupti.configure_unified_memory(wanted, 4);
    if (result == 0)
        result = cupti.enable(RECORD_UNIFIED_MEMORY);
    __atomic_store_n(&unified_problem, result, __ATOMIC_RELEASE);
}

/* CUPTI holds pointers into this library for the rest of the process. */
static void stay_loaded(void)
{
    Dl_info here;
    if (dladdr((void *)stay_loaded, &here) != 0 && here.dli_fname != NULL)
        dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* `trace`: the descriptor of the file of single activities, if they are to be kept. */
static PartHeader *open_part(const char *folder, int *trace)
{
    char path[4096], spill[4096];
    const char *prefix = host != NULL ? host->spill_prefix : NULL;
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
    if (opened != NULL && host != NULL && host->trace) {
        snprintf(strrchr(path, '.'), 16, ".gputrace");
        *trace = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
    }
    return opened;
}

static int begin_sums(const char *folder)
{
    clock_choose();
    int trace = -1;
    part = open_part(folder, &trace);
    if (part == NULL || sums_begin(&sums, part, WORK_AT_MOST) != 0)
        return -1;
    sums.trace = trace;
    memcpy(part->magic, GPU_PART_MAGIC, 8);
    part->version = GPU_PART_VERSION;
    sums.counters->realtime_start = clock_ns(CLOCK_REALTIME);
    sums.counters->monotonic_start = clock_ns(CLOCK_MONOTONIC);
    Block *block = part_block(part, GPU_THREADS, 0, GPU_THREADS_AT_MOST * sizeof(GpuThread));
    void *ring = mmap(NULL, 8ull << RING_BITS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == NULL || ring == MAP_FAILED)
        return -1;
    calls.threads = (GpuThread *)(block + 1);
    calls.ring = ring;
    calls.counters = sums.counters;
    calls.thread_count = 0;
    return (calls.table = table_new(FIRST_TABLE)) != NULL ? 0 : -1;
}

/* A state may be told of within a flush, by our own thread, too. */
static void on_any_callback(void *user, int domain, uint32_t id, const void *data)
{
    if (domain == DOMAIN_STATE)
        on_state(id, data);
    else
        on_callback(user, domain, id, data);
}

static void begin(GpuHost *asking)
{
    char text[8192];
    int expected = 0, result;
    if (asking == NULL || asking->version != GPU_HOST_VERSION || !asking->enabled ||
        !__atomic_compare_exchange_n(&began, &expected, 2, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    host = calls.host = asking;
    asking->tried = 1;
    stay_loaded();
    if (begin_sums(host->run_folder) != 0)
        return;
    part->start_ticks = host->part_start();
    if (cupti_open(&cupti, host->libraries, text, sizeof text) != 0) {
        problem("open", 0, text);
        facts();
        return;
    }
    facts();
    if ((result = cupti.subscribe(&subscriber, on_any_callback, NULL)) != 0) {
        problem("subscribe", result, result_text(result));
        return;
    }
    if ((result = choose_callbacks()) != 0) {
        problem("callbacks", result, result_text(result));
        cupti.unsubscribe(subscriber);
        return;
    }
    sem_init(&wake, 0, 0);
    sem_init(&ended, 0, 0);
    sem_init(&copied, 0, 0);
    if ((result = cupti.register_callbacks(on_buffer_requested, on_buffer_completed)) != 0 ||
        (result = choose_records()) != 0) {
        problem("records", result, result_text(result));
        cupti.unsubscribe(subscriber);
        return;
    }
    if (host->save_folder != NULL)
        save_open(host->save_folder);
    sums.counters->state = GPU_RUNNING;
    began = 1;
    asking->end = end;
    asking->forked = forked;
    asking->snapshot = snapshot;
    asking->lend = lend;
    calls_closed = 0;
    atexit(at_exit); /* where C code ends the process, not Python */
}

/* ---------------------------------------------------------------- who calls */

typedef struct Search {
    char folder[4096], path[4096];
} Search;

static int match_engine(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    Search *search = data;
    size_t length = strlen(search->folder);
    if (info->dlpi_name == NULL || strncmp(info->dlpi_name, search->folder, length) != 0 ||
        strncmp(info->dlpi_name + length, "engine.", 7) != 0 ||
        strlen(info->dlpi_name) >= sizeof search->path)
        return 0;
    strcpy(search->path, info->dlpi_name);
    return 1;
}

static GpuHost *find_host(void)
{
    Search search;
    Dl_info here;
    if (dladdr((void *)find_host, &here) == 0 || here.dli_fname == NULL ||
        strlen(here.dli_fname) >= sizeof search.folder)
        return NULL;
    strcpy(search.folder, here.dli_fname);
    char *slash = strrchr(search.folder, '/');
    if (slash == NULL)
        return NULL;
    slash[1] = 0;
    if (!dl_iterate_phdr(match_engine, &search))
        return NULL;
    void *engine = dlopen(search.path, RTLD_NOW | RTLD_NOLOAD);
    return engine != NULL ? dlsym(engine, GPU_HOST_SYMBOL) : NULL;
}

/* The driver calls this from the program's first cuInit. Whatever happens, the program goes
 * on: anything but 1 would make the driver complain. */
EXPORT int InitializeInjection(void)
{
    int saved = errno;
    begin(find_host());
    errno = saved;
    return 1;
}

/* NVTX calls this at the program's first range. 0: no injection, ranges do nothing. */
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    GpuHost *asking = find_host();
    const NvtxCallbacks *callbacks = export_table != NULL ? export_table(1) : NULL;
    if (asking == NULL || asking->version != GPU_HOST_VERSION || !asking->enabled ||
        callbacks == NULL || callbacks->size < sizeof *callbacks)
        return 0;
    nvtx_host = asking;
    stay_loaded();
    nvtx_take(callbacks);
    return 1;
}

/* The engine calls this where it sees a driver at work that has not called us. */
EXPORT void taupy_gpu_begin(GpuHost *asking)
{
    int saved = errno;
    begin(asking);
    errno = saved;
}

/* ---------------------------------------------------------------- replay, for tests */

static int replay_version;

static int own_next_record(uint8_t *buffer, size_t valid, void **record)
{
    uint8_t *at = *record == NULL ? buffer : *record;
    if (*record != NULL) {
        size_t size = record_size(*(uint32_t *)at, replay_version);
        if (size == 0)
            return 21; /* CUPTI_ERROR_INVALID_KIND */
        at += size;
    }
    if ((size_t)(at - buffer) + sizeof(uint32_t) > valid)
        return CUPTI_MAX_LIMIT_REACHED;
    size_t size = record_size(*(uint32_t *)at, replay_version);
    if (size == 0 || (size_t)(at - buffer) + size > valid)
        return size == 0 ? 21 : CUPTI_MAX_LIMIT_REACHED;
    *record = at;
    return 0;
}

static uint64_t no_part(void) { return part->start_ticks; }
static GpuPlace replay_place;
static GpuPlace place_of_replay(void) { return replay_place; }
static size_t nothing_dropped;
static int no_dropped(void *context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    *count = nothing_dropped;
    return 0;
}

/* Begin to sum up into a part in `folder`. `library`: a libcupti whose decoder reads the
 * records; NULL: our own one, for records of CUDA version `cuda` (1206 for 12.6). */
EXPORT int taupy_gpu_replay_begin(const char *folder, const char *library, int cuda, int trace)
{
    static GpuHost replayed;
    if (began != 0)
        return -1;
    began = 3;
    replayed = (GpuHost){.version = GPU_HOST_VERSION, .enabled = 1, .run_folder = folder,
                         .trace = (uint32_t)trace, .place = place_of_replay,
                         .part_start = no_part};
    host = calls.host = &replayed;
    cupti.next_record = own_next_record;
    cupti.dropped_records = no_dropped;
    replay_version = cuda;
    worker_begun = 1; /* records are summed up by the caller */
    if (library != NULL) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        *(void **)&cupti.next_record = handle ? dlsym(handle, "cuptiActivityGetNextRecord") : NULL;
        if (cupti.next_record == NULL)
            return -2;
    }
    if (begin_sums(folder) != 0)
        return -3;
    sums.counters->state = GPU_RUNNING;
    calls_closed = 0;
    return 0;
}

/* Calls of the API, each from beginning to end, at a place; correlation ids rise by one. */
EXPORT void taupy_gpu_replay_calls(int domain, uint32_t id, uint32_t correlation, uint32_t count,
                                   uint64_t at, uint64_t launch)
{
    CallbackData data = {0};
    replay_place = (GpuPlace){at, launch};
    calls.interest[domain][id] = CALL_OF_INTEREST | CALL_LAUNCHES;
    for (uint32_t i = 0; i < count; i++) {
        data.correlation = correlation + i;
        data.site = 0;
        on_callback(NULL, domain, id, &data);
        data.site = 1;
        on_callback(NULL, domain, id, &data);
    }
}

/* Records from memory, by way of a buffer as CUPTI's go; 0 if they are more than it holds. */
EXPORT size_t taupy_gpu_replay_records(const uint8_t *records, size_t size)
{
    uint8_t *buffer;
    size_t room, most;
    on_buffer_requested(&buffer, &room, &most);
    if (buffer == NULL || size > room)
        return 0;
    memcpy(buffer, records, size);
    on_buffer_completed(NULL, 0, buffer, room, size);
    drain();
    return size;
}

EXPORT void taupy_gpu_replay_end(void)
{
    housekeeping();
    trace_flush_all(&sums);
    calls_closed = 1;
    sums.counters->state = GPU_ENDED;
    part->state = PART_ENDED;
    part_save(part);
}
