#include "cupti_kinds.h"
#include "collector.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_records.h"
#include "cupti_states.h"
#include <errno.h>
#include <stdio.h>

static int unified_problem; /* what CUPTI answered, atomically; 0: nothing to say */
static int lend_problem;    /* the same */
static int is_lent;         /* torch.profiler may have CUPTI's records, atomically */
static uint64_t lent_launches, lent_moves; /* when it was lent */

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

int kinds_enable(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].trace && !collector.host->trace)
            continue;
        int result = collector.cupti.enable(kinds[i].kind);
        if (result != 0 && kinds[i].needed)
            return result;
        if (result != 0) {
            char what[32];
            snprintf(what, sizeof what, "kind %u", kinds[i].kind);
            collector_note("records.missing", what, result);
        }
    }
    return 0;
}

/* Those kinds once more, but for the devices, which are told of again each time. */
static int enable_again(void)
{
    int first = 0;
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].kind != RECORD_DEVICE && (collector.host->trace || !kinds[i].trace)) {
            int result = collector.cupti.enable(kinds[i].kind);
            if (kinds[i].needed && result != 0 && first == 0)
                first = result;
        }
    return first;
}

/* What unified memory moves. CUPTI must be asked when the driver is ready, which it is not yet
 * when it loads this library, and most programs have none: at the first allocation of such
 * memory. What CUPTI refuses is noted by the worker, which the part belongs to. */
void kinds_begin_unified_memory(void)
{
    static int once;
    UnifiedConfig wanted[4];
    if (collector.cupti.configure_unified_memory == NULL ||
        __atomic_exchange_n(&once, 1, __ATOMIC_ACQ_REL))
        return;
    for (uint32_t i = 0; i < 4; i++)
        wanted[i] = (UnifiedConfig){.scope = ALL_DEVICES, .counter = i + 1, .enable = 1};
    int result = collector.cupti.configure_unified_memory(wanted, 4);
    if (result == 0)
        result = collector.cupti.enable(RECORD_UNIFIED_MEMORY);
    __atomic_store_n(&unified_problem, result, __ATOMIC_RELEASE);
}

static uint64_t launches(void)
{
    return __atomic_load_n(&collector.sums.counters->launches, __ATOMIC_RELAXED);
}

/* Has torch.profiler taken the records of what was launched since it began? Then no buffer was
 * asked of us, or handed to us. */
static void count_lent(void)
{
    uint64_t now = launches(); /* fewer, where one that had begun before was refused since */
    uint64_t since = now > lent_launches ? now - lent_launches : 0;
    if (since != 0 && buffers_moves() == lent_moves) {
        collector.sums.counters->lent += since;
        collector.sums.counters->lendings++;
    }
}

/* Called by a thread of the program where its torch.profiler begins, and where it has ended. It
 * registers callbacks of its own for buffers, if it can without a subscriber, and at its end
 * disables the kinds: what it took is its, and what comes after is ours again. */
void kinds_lend(int begins)
{
    int saved = errno, result;
    if (collector.began != 1 || calls.closed || states_are_fatal())
        return;
    if (begins && !__atomic_load_n(&is_lent, __ATOMIC_ACQUIRE)) {
        if (collector.cupti.version != CRASHES_IN_FLUSH)
            collector.cupti.flush_all(0); /* what is complete is ours */
        lent_moves = buffers_moves();
        lent_launches = launches();
        __atomic_store_n(&is_lent, 1, __ATOMIC_RELEASE);
    } else if (!begins && __atomic_load_n(&is_lent, __ATOMIC_ACQUIRE)) {
        count_lent();
        result = collector.cupti.register_callbacks(buffers_requested, buffers_completed);
        if (result != 0 || (result = enable_again()) != 0)
            __atomic_store_n(&lend_problem, result, __ATOMIC_RELEASE);
        __atomic_store_n(&is_lent, 0, __ATOMIC_RELEASE);
    }
    errno = saved;
}

int kinds_are_lent(void) { return __atomic_load_n(&is_lent, __ATOMIC_ACQUIRE); }

void kinds_end(void)
{
    if (__atomic_exchange_n(&is_lent, 0, __ATOMIC_ACQ_REL))
        count_lent();
}

void kinds_note(void)
{
    int unified = __atomic_exchange_n(&unified_problem, 0, __ATOMIC_ACQ_REL);
    int after = __atomic_exchange_n(&lend_problem, 0, __ATOMIC_ACQ_REL);
    if (unified != 0)
        collector_note("records.missing", "unified memory", unified);
    if (after != 0)
        collector_note("records.missing", "all after torch.profiler", after);
}
