/* Recording BLAS operations at the call path of the call; see operations.h. */
#define _GNU_SOURCE
#include "operations.h"
#include "events.h"
#include "process.h"
#include "step_metrics.h"
#include "thread.h"
#include <dlfcn.h>
#include <stdio.h>

#define OPERATION_PLACES 64

typedef struct OperationPlace {
    const Node *node;
    uint64_t generation;
    int precision;
    SampleRecord *flop, *bytes;
} OperationPlace;

/* A thread's most recently used places; separate memory, allocated on first use. */
static __thread OperationPlace *operation_places __attribute__((tls_model("initial-exec")));
static double operations_unowned; /* flop by threads that run no Python */
static void (**operations_teller)(int, double, double);

static OperationPlace *operation_place(Thread *thread, Node *node, int precision)
{
    uint64_t hash = ((uint64_t)node >> 6) * 0x9E3779B97F4A7C15ull >> 40;
    if (operation_places == NULL &&
        (operation_places = calloc(OPERATION_PLACES, sizeof *operation_places)) == NULL)
        return NULL;
    OperationPlace *place = &operation_places[(hash + (uint64_t)precision) % OPERATION_PLACES];
    if (place->node == node && place->generation == generation && place->precision == precision)
        return place;
    PyGILState_STATE state = PyGILState_Ensure();
    Node *at = node->parent == NULL ? NULL : node;
    const char *name = precision == 32 ? "flop_fp32" : "flop_fp64";
    SampleRecord *flop = sample_record(name, "flop", thread, at);
    SampleRecord *bytes = flop ? sample_record("bytes_dram", "B", thread, at) : NULL;
    if (bytes == NULL)
        part->calls_over_limit++;
    PyGILState_Release(state);
    if (bytes == NULL)
        return NULL;
    *place = (OperationPlace){node, generation, precision, flop, bytes};
    return place;
}

static void operations_note(int precision, double flop, double bytes)
{
    Thread *thread = thread_mine();
    if (!active || part == NULL)
        return;
    if (thread == NULL) {
        operations_unowned += flop; /* only used in a note: races may lose some */
        return;
    }
    step_work_add(precision == 32 ? WORK_FP32 : WORK_FP64, flop);
    step_work_add(WORK_BYTES, bytes);
    OperationPlace *place = operation_place(thread, visible(thread), precision);
    if (place != NULL) {
        sample_add(place->flop, flop);
        sample_add(place->bytes, bytes);
    }
}

int operations_start(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    operations_teller = handle ? dlsym(handle, "taupy_blas_note") : NULL;
    if (operations_teller == NULL)
        return -1;
    operations_unowned = 0;
    *operations_teller = operations_note;
    return 0;
}

void operations_stop(void)
{
    if (operations_teller != NULL)
        *operations_teller = NULL;
}

static void operations_finish(int ends)
{
    char text[64];
    if (ends && operations_unowned > 0) {
        snprintf(text, sizeof text, "%.0f", operations_unowned);
        metadata_write("taupy.operations.unowned", text);
    }
}

static void on_thread_end(Thread *thread)
{
    (void)thread;
    free(operation_places);
    operation_places = NULL;
}

Listener operations_listener = {.on_thread_end = on_thread_end, .on_finish = operations_finish};
