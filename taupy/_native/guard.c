/* See guard.h. No Python here. */
#define _GNU_SOURCE
#include "guard.h"
#include "confined.h"
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Guarded {
    Thread *thread;
    Thread *next; /* in the list of threads */
    struct Guarded *before;
} Guarded;

static Guarded *guarded;
static Thread no_thread; /* whose root is the parent of all lost nodes */
static long page_size;
static pid_t detacher; /* the thread that detaches the part; 0: none */
static sigjmp_buf lost;

void guard_thread(Thread *thread)
{
    Guarded *entry = malloc(sizeof *entry);
    if (entry == NULL)
        return;
    *entry = (Guarded){thread, thread->next, guarded};
    __atomic_store_n(&guarded, entry, __ATOMIC_RELEASE);
}

static int is_lost(const void *address)
{
    const Node *line = (const Node *)((uintptr_t)address & ~(sizeof(Node) - 1));
    return line->parent == &no_thread.root;
}

/* Copy page by page; SIGBUS leads back here. */
static void copy_pages(char *to, const char *from, uint64_t size)
{
    for (volatile uint64_t at = 0; at < size; at += (uint64_t)page_size) {
        if (sigsetjmp(lost, 0) == 0)
            memcpy(to + at, from + at, (size_t)page_size);
        else
            for (Node *node = (Node *)(void *)(to + at), *end = node + (size_t)page_size / sizeof *node;
                 node < end; node++)
                *node = (Node){.parent = &no_thread.root, .last = &nowhere};
    }
}

/* Let the thread record nothing. */
static void thread_hide(const Guarded *entry)
{
    Thread *thread = entry->thread;
    if (is_lost(thread) || is_lost((char *)(thread + 1) - 1)) {
        memset(thread, 0, sizeof *thread);
        thread->root.last = thread->hidden.last = &nowhere;
        thread->stack_low = STACK_UNKNOWN;
        thread->next = entry->next;
        thread->ended_ticks = 1; /* its clock is unknown */
    }
    thread->due_ticks = UINT64_MAX;
    thread->hidden.parent = &thread->root;
    thread->cursor = &thread->hidden;
    thread->hide = UINT64_MAX / 2;
}

/* Whether the access can be repeated. */
static int is_mended(const void *address)
{
    static int has_failed;
    pid_t none = 0, self = (pid_t)syscall(SYS_gettid);
    if (part == NULL || !part_holds(address) || has_failed || is_filtered())
        return 0;
    if (__atomic_load_n(&detacher, __ATOMIC_ACQUIRE) == self)
        siglongjmp(lost, 1);
    while (!__atomic_compare_exchange_n(&detacher, &none, self, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
        none = 0;
        sched_yield();
    }
    int is_first = !part_is_detached();
    has_failed = has_failed || part_detach(part, copy_pages) != 0;
    Guarded *entry = __atomic_load_n(&guarded, __ATOMIC_ACQUIRE);
    for (; is_first && !has_failed && entry != NULL; entry = entry->before)
        if (part_holds(entry->thread))
            thread_hide(entry);
    int is_done = !has_failed;
    __atomic_store_n(&detacher, 0, __ATOMIC_RELEASE);
    return is_done;
}

static void bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    if (info->si_code != BUS_ADRERR || !is_mended(info->si_addr)) {
        if (signal(number, SIG_DFL) == SIG_ERR)
            __builtin_trap(); /* a filter forbids it: the instruction would be repeated for ever */
        if (info->si_code != BUS_ADRERR && info->si_code != BUS_ADRALN)
            raise(number); /* else the instruction is repeated */
    }
    errno = saved;
}

void guard_end(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction == bus_error)
        signal(SIGBUS, SIG_DFL);
}

int guard_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    int result = sigaction(number, action, before);
    if (result == 0 && number == SIGBUS && before != NULL && before->sa_sigaction == bus_error)
        memset(before, 0, sizeof *before); /* SIG_DFL */
    return result;
}

void guard_forked(void) { detacher = 0; }

void guard_start(void)
{
    struct sigaction before, action = {.sa_sigaction = bus_error,
                                       .sa_flags = SA_SIGINFO | SA_NODEFER};
    page_size = sysconf(_SC_PAGESIZE);
    no_thread.root.last = no_thread.hidden.last = &nowhere;
    no_thread.cursor = &no_thread.root;
    if (sigaction(SIGBUS, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGBUS, &action, NULL);
}
