#define _GNU_SOURCE
#include "count_config.h"
#include "count_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Counting counting_setup;
static int initialized; /* cuptiProfilerInitialize was called */

void count_problem(const char *step, int code)
{
    const char *name = NULL;
    if (count_has_given_up())
        return; /* already reported */
    if (code != 0 && counting_setup.cupti->result_string != NULL)
        counting_setup.cupti->result_string(code, &name);
    count_file_line("error\t%s\t%d\t%s", step, code, name != NULL ? name : "");
}

/* The metrics of a chip, from the launcher's file. Its lines: "chip NAME METRIC METRIC ...". */
static const char **metrics_of(const char *chip, size_t *count)
{
    char path[4096], *line = NULL, *rest, *word;
    size_t room = 0;
    const char **names = calloc(METRICS_AT_MOST, sizeof *names);
    snprintf(path, sizeof path, "%s/gpu.counters", counting_setup.run_folder);
    FILE *file = fopen(path, "re");
    *count = 0;
    while (file != NULL && names != NULL && getline(&line, &room, file) > 0) {
        word = strtok_r(line, " \n", &rest);
        if (word == NULL || strcmp(word, "chip") != 0)
            continue;
        word = strtok_r(NULL, " \n", &rest);
        if (word == NULL || strcmp(word, chip) != 0)
            continue;
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL && *count < METRICS_AT_MOST)
            names[(*count)++] = strdup(word);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return names;
}

static void host_close(CountContext *here)
{
    PProfiler old = FILLED(PProfiler, profiler, .profiler = here->host);
    if (here->host != NULL)
        RANGE(host_deinitialize, old);
    here->host = NULL;
}

static int host_open(CountContext *here, const char *chip, const uint8_t *availability)
{
    PHostInitialize initialize =
        FILLED_FOR(counting_setup.cupti->version, PHostInitialize, host, METRIC_SET_SINCE,
                   metric_set, .type = RANGE_PROFILER, .chip = chip, .availability = availability);
    host_close(here);
    int code = RANGE(host_initialize, initialize);
    here->host = code == 0 ? initialize.host : NULL;
    return code;
}

static int host_add(CountContext *here, size_t first, size_t count)
{
    PAddMetrics add = FILLED(PAddMetrics, count, .host = here->host, .names = &here->names[first],
                             .count = count);
    return RANGE(add_metrics, add);
}

int count_add_metrics(CountContext *here, const char *chip, const uint8_t *availability)
{
    size_t kept = 0;
    int code = host_open(here, chip, availability);
    if (code != 0 || (code = host_add(here, 0, here->count)) == 0)
        return code;
    for (size_t i = 0; i < here->count; i++) {
        if ((code = host_open(here, chip, availability)) != 0)
            return code;
        if (host_add(here, i, 1) == 0)
            here->names[kept++] = here->names[i];
        else
            count_file_text("missing", here->names[i], "");
    }
    here->count = kept;
    if ((code = host_open(here, chip, availability)) != 0)
        return code;
    return kept ? host_add(here, 0, kept) : 1;
}

int config_clear(CountContext *here)
{
    PDataInitialize data = FILLED(PDataInitialize, data, .profiler = here->profiler,
                                  .bytes = here->data_bytes, .data = here->data);
    return RANGE(data_initialize, data);
}

int config_set(CountContext *here, int range, int replay)
{
    PSetConfig config = FILLED(
        PSetConfig, target_level, .profiler = here->profiler, .config_bytes = here->config_bytes,
        .config = here->config, .data_bytes = here->data_bytes, .data = here->data,
        .range = range, .replay = replay, .ranges = RANGES_AT_MOST, .levels = 1, .least_level = 1,
        .target_level = 1);
    here->has_config = 0;
    TRY("counter data", config_clear(here));
    TRY("set configuration", RANGE(set_config, config));
    here->has_config = 1;
    return 0;
}

static int enable(CountContext *here)
{
    PEnable enable = FILLED_FOR(counting_setup.cupti->version, PEnable, profiler,
                                CACHE_CONTROL_SINCE, cache_control, .context = here->context,
                                .cache_control = CACHES_LEFT_ALONE);
    if (here->profiler != NULL)
        return 0;
    TRY("enable", RANGE(enable, enable));
    here->profiler = enable.profiler;
    return 0;
}

int config_make(CountContext *here)
{
    TRY("metrics", count_add_metrics(here, here->chip, here->availability));
    PImageSize size = FILLED(PImageSize, bytes, .host = here->host);
    TRY("configuration", RANGE(image_size, size));
    here->config_bytes = size.bytes;
    free(here->config);
    here->config = calloc(1, size.bytes);
    PImage image = FILLED(PImage, image, .host = here->host, .bytes = size.bytes,
                          .image = here->config);
    TRY("configuration", here->config == NULL ? 8 : RANGE(image, image));
    PPasses passes = FILLED(PPasses, passes, .bytes = here->config_bytes, .image = here->config);
    TRY("passes", RANGE(passes, passes));
    if (enable(here) != 0)
        return -1;
    PDataSize data = FILLED(PDataSize, bytes, .profiler = here->profiler, .names = here->names,
                            .count = here->count, .ranges = RANGES_AT_MOST,
                            .nodes = RANGES_AT_MOST);
    TRY("counter data", RANGE(data_size, data));
    here->data_bytes = data.bytes;
    free(here->data);
    here->data = calloc(1, data.bytes);
    TRY("counter data", here->data == NULL ? 8 : 0);
    if (!counting_setup.by_region && config_set(here, AUTO_RANGE, KERNEL_REPLAY) != 0)
        return -1;
    char *names = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&names, &length);
    for (size_t i = 0; text != NULL && i < here->count; i++)
        fprintf(text, "\t%s", here->names[i]);
    if (text != NULL && fclose(text) == 0)
        count_file_line("device\t%d\t%s\t%zu%s", here->device, here->chip, passes.passes, names);
    free(names);
    return 0;
}

int config_leave_out_sass(CountContext *here)
{
    size_t kept = 0;
    if (here->reduced)
        return 0;
    here->reduced = 1;
    for (size_t i = 0; i < here->count; i++)
        if (strstr(here->names[i], "__sass_") == NULL)
            here->names[kept++] = here->names[i];
    if (kept == 0 || kept == here->count)
        return 0;
    count_file_text("reduced", here->chip, "");
    here->count = kept;
    return 1;
}

static void note_support(CountContext *here)
{
    PSupported supported = FILLED_FOR(counting_setup.cupti->version, PSupported, api, SKU_SINCE,
                                      sku, .device = here->device, .api = RANGE_PROFILING);
    char text[128];
    if (RANGE(supported, supported) != 0 || supported.supported == IS_SUPPORTED)
        return;
    snprintf(text, sizeof text, "vgpu %d confidential %d cmp %d wsl %d sli %d sku %d",
             supported.vgpu, supported.confidential, supported.cmp, supported.wsl, supported.sli,
             supported.sku);
    count_file_text("unsupported", here->chip, text);
}

static int find_chip(CountContext *here)
{
    PChipName chip = FILLED(PChipName, name, .device = (size_t)here->device);
    TRY("chip name", RANGE(chip_name, chip));
    here->names = metrics_of(chip.name, &here->count);
    here->chip = strdup(chip.name);
    TRY("chip name", here->names == NULL || here->chip == NULL ? 8 : 0);
    note_support(here);
    return 0;
}

static int find_availability(CountContext *here)
{
    PAvailability available = FILLED_FOR(counting_setup.cupti->version, PAvailability, image,
                                         DEVICE_LEVEL_SINCE, device_level,
                                         .context = here->context);
    TRY("availability", RANGE(availability, available));
    uint8_t *image = calloc(1, available.size_of_image);
    TRY("availability", image == NULL ? 8 : 0);
    available.image = image;
    if ((here->code = RANGE(availability, available)) != 0) {
        here->step = "availability";
        free(image);
        return -1;
    }
    here->availability = image;
    here->availability_bytes = available.size_of_image;
    return 0;
}

int config_prepare(CountContext *here)
{
    PInitialize initialize = FILLED(PInitialize, reserved, .reserved = NULL);
    if (!initialized) /* not while the driver loads this library: it is not ready yet */
        TRY("initialize", RANGE(initialize, initialize));
    initialized = 1;
    if (here->chip == NULL && find_chip(here) != 0)
        return -1;
    if (here->count == 0) {
        here->step = NULL;
        return -1;
    }
    if (here->availability == NULL && find_availability(here) != 0)
        return -1;
    return config_make(here);
}
