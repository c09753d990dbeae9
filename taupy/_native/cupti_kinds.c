#include "cupti_kinds.h"
#include "collector.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_records.h"
#include "cupti_states.h"
#include <errno.h>
#include <stdio.h>

static int unified_problem; /* CUPTI's result, atomic; 0: nothing to report */
static int lend_problem;    /* likewise */
static int is_lent;         /* torch.profiler receives CUPTI's records for now; atomic */
static uint64_t lent_launches, lent_moves; /* at the time of lending */

/* Kinds of records; only kernels and copies are indispensable. */
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

/* Enable these kinds again, except devices, which would be reported again each time. */
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

/* Transfers of managed memory. CUPTI accepts this only once the driver is ready, which it is not
 * yet while loading this library, and most programs use no managed memory: so enable it at the
 * first such allocation. If CUPTI refuses, the worker, which owns the part, notes that. */
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

/* Whether torch.profiler has taken the records since it began, and count their launches: it has if
 * no buffer was requested from us or handed to us in that time, nor when CUPTI is told to. */
static int were_taken(void)
{
    uint64_t now = launches(); /* fewer, if one begun earlier has since been refused */
    uint64_t since = now > lent_launches ? now - lent_launches : 0;
    if (since != 0 && buffers_moves() == lent_moves &&
        collector.cupti.version != CRASHES_IN_FLUSH)
        collector.cupti.flush_all(1);
    if (since == 0 || buffers_moves() != lent_moves)
        return 0;
    collector.sums.counters->lent += since;
    collector.sums.counters->lendings++;
    return 1;
}

/* Called on the program's thread when its torch.profiler begins and after it has ended.
 * torch.profiler registers its own buffer callbacks, if it can do so without a subscriber, and
 * disables the kinds at its end. We do not get the records that it took, but all later ones. Our
 * callbacks are registered again only if its have replaced them, since each registration may damage
 * a record (pytorch#192021). */
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
        result = were_taken() ? collector.cupti.register_callbacks(buffers_requested,
                                                                   buffers_completed)
                              : 0;
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
        were_taken();
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
