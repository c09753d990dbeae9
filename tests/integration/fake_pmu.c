/* A processor's counters, played: preloaded into a program (LD_PRELOAD) on a machine that
 * has none, or to make them misbehave.
 *
 * perf_event_open of hardware and raw events gives a descriptor of ours, whose page may be
 * mapped and says that rdpmc is allowed; the instruction, which faults without a PMU, is
 * carried out by a signal handler; read() answers in the kernel's layout. A counter counts
 * what fake_count(config, n) adds to it in the calling thread.
 *
 * FAKE_PMU is a list of: nordpmc (rdpmc is not allowed), multiplexed (counts half of the
 * time), jump (values jump by 2**47 now and then), noinherit (no counting over all threads),
 * errno=N (the kernel refuses). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define EVENTS 4096
#define OFFSET 1000 /* what the kernel has counted before the counter was last loaded */
#define WIDTH 48

typedef struct Event {
    int tid, leader; /* position of the group's leader */
    int inherit;     /* counts all threads */
    uint64_t config, value;
    dev_t device; /* an inode's number alone may be that of another file, too */
    ino_t inode;
    struct perf_event_mmap_page *page;
} Event;

static Event events[EVENTS];
static int event_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int asked(const char *what)
{
    const char *list = getenv("FAKE_PMU");
    return list != NULL && strstr(list, what) != NULL;
}

static int self(void)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return (int)real(SYS_gettid);
}

void fake_count(uint64_t config, uint64_t n)
{
    int tid = self();
    for (int i = 0; i < event_count; i++)
        if ((events[i].inherit || events[i].tid == tid) && events[i].config == config)
            __atomic_add_fetch(&events[i].value, n, __ATOMIC_RELAXED); /* threads without the GIL */
}

static uint64_t value_of(const Event *event)
{
    static int reads;
    return event->value + (asked("jump") && ++reads % 7 == 0 ? 1ull << 47 : 0);
}

static void carry_out(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;
    greg_t *registers = at->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    (void)info;
    if (code[0] != 0x0F || code[1] != 0x33) {
        signal(number, SIG_DFL);
        return;
    }
    /* The counter is smaller than 2**47 away from a wrap: its sign bit is at play. */
    int tid = self(), nth = (int)registers[REG_RCX];
    uint64_t value = 0;
    for (int i = 0, seen = 0; i < event_count; i++)
        if (events[i].tid == tid && !events[i].inherit && seen++ == nth)
            value = value_of(&events[i]) - OFFSET;
    value &= (1ull << WIDTH) - 1;
    registers[REG_RAX] = (greg_t)(value & 0xFFFFFFFF);
    registers[REG_RDX] = (greg_t)(value >> 32);
    registers[REG_RIP] += 2;
}

static int position(int descriptor)
{
    struct stat status;
    if (event_count == 0 || fstat(descriptor, &status) != 0)
        return -1;
    for (int i = 0; i < event_count; i++)
        if (events[i].inode == status.st_ino && events[i].device == status.st_dev)
            return i;
    return -1;
}

static int open_event(const struct perf_event_attr *wanted, int tid, int leader)
{
    struct stat status;
    const char *refused = getenv("FAKE_PMU") ? strstr(getenv("FAKE_PMU"), "errno=") : NULL;
    if (refused != NULL) {
        errno = atoi(refused + 6);
        return -1;
    }
    if (wanted->inherit && asked("noinherit")) {
        errno = EINVAL;
        return -1;
    }
    int descriptor = memfd_create("fake", MFD_CLOEXEC);
    if (descriptor < 0 || ftruncate(descriptor, 4096) != 0 || fstat(descriptor, &status) != 0)
        return -1;
    struct sigaction action = {.sa_sigaction = carry_out, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    pthread_mutex_lock(&lock);
    Event *event = &events[event_count % EVENTS];
    event->tid = tid ? tid : self();
    event->config = wanted->config;
    event->inherit = wanted->inherit;
    event->value = 0;
    event->device = status.st_dev;
    event->inode = status.st_ino;
    event->leader = leader < 0 ? event_count : position(leader);
    event->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    event->page->cap_user_rdpmc = !asked("nordpmc");
    event->page->pmc_width = WIDTH;
    event->page->offset = OFFSET;
    int nth = 0;
    for (int i = 0; i < event_count; i++)
        nth += events[i].tid == event->tid && !events[i].inherit;
    event->page->index = (uint32_t)nth + 1;
    event_count++;
    pthread_mutex_unlock(&lock);
    return descriptor;
}

/* A thread that never runs Python: does as it is told. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t config, n;
    int busy, started;
} worker = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void *work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&worker.lock);
    for (;;) {
        while (!worker.busy)
            pthread_cond_wait(&worker.changed, &worker.lock);
        if (worker.config != 0)
            fake_count(worker.config, worker.n);
        else { /* touch n new pages */
            char *memory = mmap(NULL, worker.n * 4096, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            madvise(memory, worker.n * 4096, MADV_NOHUGEPAGE);
            for (uint64_t i = 0; i < worker.n; i++)
                memory[i * 4096] = 1;
            munmap(memory, worker.n * 4096);
        }
        worker.busy = 0;
        pthread_cond_broadcast(&worker.changed);
    }
    return NULL;
}

void worker_do(uint64_t config, uint64_t n)
{
    pthread_t thread;
    if (!worker.started++)
        pthread_create(&thread, NULL, work, NULL);
    pthread_mutex_lock(&worker.lock);
    worker.config = config;
    worker.n = n;
    worker.busy = 1;
    pthread_cond_broadcast(&worker.changed);
    while (worker.busy)
        pthread_cond_wait(&worker.changed, &worker.lock);
    pthread_mutex_unlock(&worker.lock);
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (real == NULL)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_perf_event_open) {
        const struct perf_event_attr *wanted = (const void *)a[0];
        if (wanted->type == PERF_TYPE_RAW || wanted->type == PERF_TYPE_HARDWARE)
            return open_event(wanted, (int)a[1], (int)a[3]);
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t read(int descriptor, void *data, size_t size)
{
    static ssize_t (*real)(int, void *, size_t);
    if (real == NULL)
        real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    int leader = position(descriptor);
    if (leader < 0)
        return real(descriptor, data, size);
    uint64_t running = asked("multiplexed") ? 500 : 1000;
    if (events[leader].inherit) {
        uint64_t one[3] = {value_of(&events[leader]), 1000, running};
        memcpy(data, one, sizeof one < size ? sizeof one : size);
        return (ssize_t)sizeof one;
    }
    uint64_t answer[3 + 16] = {0, 1000, running};
    for (int i = 0; i < event_count; i++)
        if (events[i].leader == leader && answer[0] < 16)
            answer[3 + answer[0]++] = value_of(&events[i]);
    size_t filled = (3 + answer[0]) * sizeof *answer;
    memcpy(data, answer, filled < size ? filled : size);
    return (ssize_t)filled;
}
