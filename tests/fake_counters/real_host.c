/* The collector's own way to a configuration, through NVIDIA's library, with no GPU.
 * Arguments: libcupti, libnvperf_host, the file of lines. Prints chip, metrics kept, passes. */
#define _GNU_SOURCE
#include "count_context.h"
#include "count_file.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
    static const char *const chips[] = {"TU102", "GA100", "GH100"};
    static const char *const wanted[] = {
        "smsp__inst_executed.sum", "smsp__warps_launched.sum", "bogus__metric.sum",
        "gpu__time_duration.sum",  "dram__bytes_read.sum",     "sm__cycles_elapsed.max"};
    static RangeProfiler range;
    static Cupti cupti; /* of no version: the sizes of CUPTI 12.6 */
    if (count < 4 || dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL) == NULL ||
        count_file_open(arguments[3]) != 0)
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL || range_functions(&range, library) != NULL)
        return 3;
    counting_setup = (Counting){.range = &range, .cupti = &cupti};
    for (int i = 0; i < 3; i++) {
        static const char *names[6];
        CountContext here = {.names = names, .count = 6};
        memcpy(names, wanted, sizeof names);
        int code = count_add_metrics(&here, chips[i], NULL);
        PImageSize size = FILLED(PImageSize, bytes, .host = here.host);
        code |= range.image_size(&size);
        here.config = calloc(1, size.bytes);
        PImage image = FILLED(PImage, image, .host = here.host, .bytes = size.bytes,
                              .image = here.config);
        code |= range.image(&image);
        PPasses passes = FILLED(PPasses, passes, .bytes = size.bytes, .image = here.config);
        code |= range.passes(&passes);
        printf("%s %d %zu %zu\n", chips[i], code, here.count, passes.passes);
    }
    return 0;
}
