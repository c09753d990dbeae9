#include "count_image.h"
#include "append.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void keep(const CountContext *here, const char *what, const void *data, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld-%d.%s", counting_setup.save_folder, (long)getpid(),
             here->device, what);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    append_whole(file, data, size, NULL, 0);
    close(file);
}

static void keep_values(const CountContext *here, const double *values)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return;
    fprintf(stream, "%u %s %zu\n", counting_setup.cupti->version, here->chip, here->first_range);
    for (size_t i = 0; i < here->count; i++)
        fprintf(stream, "%s %.17g\n", here->names[i], values[i]);
    if (fclose(stream) == 0)
        keep(here, "values", text, size);
    free(text);
}

void count_image_keep(CountContext *here, const double *values)
{
    if (counting_setup.save_folder == NULL || here->is_kept)
        return;
    here->is_kept = 1;
    keep(here, "config", here->config, here->config_bytes);
    keep(here, "available", here->availability, here->availability_bytes);
    keep(here, "data", here->data, here->data_bytes);
    keep_values(here, values);
}
