#define _GNU_SOURCE
#include "count_region.h"
#include "count_context.h"
#include "count_file.h"
#include "count_watch.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static const GpuHost *host;
static int closed = 1;
static CountContext *region_here; /* context of the region being counted */
static pthread_t region_thread;
static int region_depth; /* open regions on that thread */
static int (*context_current)(void **), (*context_synchronize)(void);

/* Wait for all launched work. It may depend on launches of other threads in their regions, so they
 * get the launch right meanwhile, and see that this region is in progress. 0: nothing is being
 * counted now. */
static int finish_launched(void)
{
    if (context_synchronize != NULL) {
        count_give();
        context_synchronize();
        while (!count_take())
            ;
    }
    return !closed;
}

static void region_begins(void)
{
    void *context = NULL;
    if (context_current == NULL || context_current(&context) != 0)
        return; /* this thread has not launched anything yet */
    CountContext *here = count_context(context);
    if (here == NULL || !count_context_is_ready(here))
        return;
    if (!finish_launched()) /* earlier launches do not belong to the region */
        return;
    if (count_region_start(here) != 0) {
        count_context_give_up(here);
        return;
    }
    PPush push = FILLED(PPush, name, .profiler = here->profiler, .name = "region");
    int code = RANGE(push, push);
    if (code != 0)
        count_problem("push", code);
    else
        region_here = here;
}

static void region_ends(CountContext *here)
{
    double values[METRICS_AT_MOST];
    char text[96];
    if (!finish_launched())
        return;
    PProfiler pop = FILLED(PProfiler, profiler, .profiler = here->profiler);
    int code = RANGE(pop, pop);
    if (code != 0)
        count_problem("pop", code);
    int result = code != 0 ? -1 : count_stop(here, 0, values);
    snprintf(text, sizeof text, "region\t%d\t%llx", here->device,
             (unsigned long long)host->place().launch);
    if (result == COUNTED)
        count_write_values(text, here, values);
    else if (result == NOT_CLEAN)
        count_file_line("region doubtful");
    else
        count_context_give_up(here);
}

/* Of nested regions, count the outermost; of regions on several threads, the first. */
static void region(int begins)
{
    if (closed || !count_take())
        return;
    if (region_depth == 0 && begins) {
        region_thread = pthread_self();
        region_depth = 1;
        region_begins();
    } else if (region_depth != 0 && pthread_equal(region_thread, pthread_self())) {
        if (!begins && region_depth == 1 && region_here != NULL)
            region_ends(region_here);
        region_depth += begins ? 1 : -1;
        if (region_depth == 0)
            region_here = NULL;
    }
    count_give();
}

void count_regions_begin(GpuHost *asking, void *driver)
{
    if (driver != NULL) {
        *(void **)&context_current = dlsym(driver, "cuCtxGetCurrent");
        *(void **)&context_synchronize = dlsym(driver, "cuCtxSynchronize");
    }
    host = asking;
    closed = 0;
    host_write(asking, region, region);
}

void count_regions_end(void) { closed = 1; }
