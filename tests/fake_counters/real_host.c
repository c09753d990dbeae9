/* The collector's own way to a configuration, through NVIDIA's library, with no GPU.
 * Arguments: libcupti, libnvperf_host. Prints chip, metrics kept, passes. */
#include "../../taupy/_native/gpu_counters.c"

int main(int count, char **arguments)
{
    static const char *const chips[] = {"TU102", "GA100", "GH100"};
    static const char *const wanted[] = {
        "smsp__inst_executed.sum", "smsp__warps_launched.sum", "bogus__metric.sum",
        "gpu__time_duration.sum",  "dram__bytes_read.sum",     "sm__cycles_elapsed.max"};
    output = stdout;
    if (count < 3 || dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL) == NULL)
        return 2;
    cupti.handle = dlopen(arguments[1], RTLD_NOW);
    if (cupti.handle == NULL || range_functions(&range, cupti.handle) != NULL)
        return 3;
    for (int i = 0; i < 3; i++) {
        static const char *names[6];
        Context here = {.names = names, .count = 6};
        memcpy(names, wanted, sizeof names);
        int code = add_metrics(&here, chips[i], NULL);
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
