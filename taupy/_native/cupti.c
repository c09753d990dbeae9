/* The GPU collector: CUPTI's callbacks and activity records, without Python.
 *
 * The CUDA driver loads this library itself when the program first calls cuInit
 * (CUDA_INJECTION64_PATH, set by the engine): a program that uses no GPU never pays. Buffers are
 * only queued when CUPTI hands them over; a single thread of ours sums them up. We hold no lock
 * that CUPTI could wait for, and call no CUPTI function while holding one.
 *
 * This file has the startup code and its entry points; cupti_replay.c feeds saved buffers through
 * the same path. */
#define _GNU_SOURCE
#include "collector.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_interest.h"
#include "cupti_kinds.h"
#include "cupti_modules.h"
#include "cupti_records.h"
#include "cupti_states.h"
#include "cupti_worker.h"
#include "engine_host.h"
#include "nvtx.h"
#include "nvtx_sources.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static void facts(void)
{
    char text[64];
    gpu_part_note(collector.part, "cupti.library", collector.cupti.path);
    snprintf(text, sizeof text, "%u", collector.cupti.version);
    gpu_part_note(collector.part, "cupti.version", text);
    snprintf(text, sizeof text, "%d", collector.cupti.driver);
    gpu_part_note(collector.part, "driver.cuda", text);
}

static int hear_of(int domain, uint32_t id)
{
    return collector.cupti.enable_callback(1, collector.subscriber, domain, id);
}

/* Choose the calls to be notified of. Any that CUPTI refuses is left out. */
static int choose_callbacks(void)
{
    int chosen = 0, refused = 0, noted = 0, result;
    for (int domain = DOMAIN_DRIVER; domain <= DOMAIN_RUNTIME; domain++) {
        int missing = 0;
        for (uint32_t id = 1; id < IDS_AT_MOST && missing < 64; id++) {
            const char *name = NULL;
            if (collector.cupti.callback_name(domain, id, &name) != 0 || name == NULL) {
                missing++;
                continue;
            }
            missing = 0;
            int interest = interest_in(domain, name);
            calls.interest[domain][id] = (uint8_t)interest;
            if (!interest)
                continue;
            if ((result = hear_of(domain, id)) != 0) {
                calls.interest[domain][id] = 0;
                refused = refused ? refused : result;
                if (!noted++)
                    collector_note("callbacks.missing", name, result);
                continue;
            }
            gpu_part_text(collector.part, GPU_CALL_NAME, (uint64_t)domain << 12 | id, name);
            chosen++;
        }
    }
    hear_of(DOMAIN_RESOURCE, RESOURCE_CONTEXT_CREATED);
    hear_of(DOMAIN_RESOURCE, RESOURCE_CONTEXT_DESTROY);
    const char *folder = collector.host->modules_folder;
    if (folder != NULL && modules_keep(folder, collector.host->modules_bytes) != 0)
        collector_note("modules", folder, errno);
    hear_of(DOMAIN_RESOURCE, RESOURCE_MODULE_LOADED);
    for (uint32_t id = STATE_FATAL; id <= STATE_WARNING; id++)
        hear_of(DOMAIN_STATE, id);
    return chosen ? 0 : refused ? refused : -1;
}

/* States may be reported during a flush, and on our own thread, too. */
static void on_any_callback(void *user, int domain, uint32_t id, const void *data)
{
    if (domain == DOMAIN_STATE)
        states_on_callback(id, data);
    else if (domain == DOMAIN_RESOURCE && id == RESOURCE_MODULE_LOADED)
        modules_on_loaded(data);
    else
        calls_on_callback(user, domain, id, data);
}

static void at_exit(void) { worker_end(1); }

/* A forked child cannot use its parent's CUDA. The buffers, files and locks are the parent's, and
 * nothing here touches them again. A child that is the first to use CUDA starts afresh. */
static void forked(void)
{
    if (collector.began == 0)
        return;
    __atomic_store_n(&calls.closed, 1, __ATOMIC_RELEASE);
    collector.began = -1;
}

static void give_back(const void *given)
{
    if (given == NULL)
        collector.cupti.unsubscribe(collector.subscriber);
}

/* `given`: a subscriber of CUPTI's that is there already; NULL: subscribe. */
static void begin(GpuHost *asking, void *given)
{
    char text[8192];
    int expected = 0, result;
    if (asking == NULL || asking->version != GPU_HOST_VERSION || !host_read(asking, enabled) ||
        !__atomic_compare_exchange_n(&collector.began, &expected, 2, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    collector.host = calls.host = asking;
    calls.begin_worker = worker_begin;
    calls.begin_unified_memory = kinds_begin_unified_memory;
    calls.context_ends = worker_context_ends;
    host_write(asking, tried, 1);
    engine_host_stay();
    if (collector_begin_sums(collector.host->run_folder) != 0)
        return;
    sums_begin_clock(&collector.sums);
    collector.part->start_ticks = collector.host->part_start();
    if (cupti_open(&collector.cupti, collector.host->libraries, text, sizeof text) != 0) {
        collector_problem("open", 0, text);
        facts();
        return;
    }
    facts();
    collector.subscriber = given;
    if (given == NULL &&
        (result = collector.cupti.subscribe(&collector.subscriber, on_any_callback, NULL)) != 0) {
        collector_problem("subscribe", result, collector_result(result));
        return;
    }
    if ((result = choose_callbacks()) != 0) {
        collector_problem("callbacks", result, collector_result(result));
        give_back(given);
        return;
    }
    worker_prepare();
    if ((result = collector.cupti.register_callbacks(buffers_requested, buffers_completed)) != 0 ||
        (result = kinds_enable()) != 0) {
        collector_problem("records", result, collector_result(result));
        give_back(given);
        return;
    }
    if (collector.host->save_folder != NULL)
        buffers_save(collector.host->save_folder);
    collector.sums.counters->state = GPU_RUNNING;
    collector.began = 1;
    host_write(asking, forked, forked);
    host_write(asking, snapshot, worker_snapshot);
    host_write(asking, lend, kinds_lend);
    host_write(asking, end, worker_end); /* written last: the others are requested after it */
    __atomic_store_n(&calls.closed, 0, __ATOMIC_RELEASE);
    atexit(at_exit); /* in case C code ends the process, not Python */
}

/* ---------------------------------------------------------------- entry points */

/* The driver calls this from the program's first cuInit. The program continues in any case: a
 * result other than 1 would make the driver complain. */
EXPORT int InitializeInjection(void)
{
    int saved = errno;
    begin(engine_host(), NULL);
    errno = saved;
    return 1;
}

/* NVTX calls this at the program's first range. 0: not injected, ranges do nothing. */
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    GpuHost *asking = engine_host();
    const NvtxCallbacks *callbacks = export_table != NULL ? export_table(1) : NULL;
    if (asking == NULL || callbacks == NULL || callbacks->size < sizeof *callbacks)
        return 0;
    engine_host_stay();
    nvtx_take(callbacks, asking);
    return 1;
}

/* The same where payloads have schemas, of which XLA's have source locations. */
EXPORT int InitializeInjectionNvtxExtension(NvtxExtension *extension)
{
    return engine_host() != NULL && nvtx_sources_take(extension);
}

/* The engine calls this when it finds an active driver that has not called us. */
EXPORT void taupy_gpu_begin(GpuHost *asking)
{
    int saved = errno;
    begin(asking, NULL);
    errno = saved;
}

/* The library that counts kernels calls this where counters are refused (gpu_counters.c). It passes
 * CUPTI's callbacks on to the returned function; NULL: the part says why that is not possible. */
EXPORT CollectorCallback *taupy_gpu_take(GpuHost *asking, void *subscriber)
{
    begin(asking, subscriber);
    return collector.began == 1 ? on_any_callback : NULL;
}
