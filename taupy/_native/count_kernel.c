#define _GNU_SOURCE
#include "count_kernel.h"
#include "count_file.h"
#include "launch_parameters.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Key *keys[4096];

enum LaunchKind launch_kind(const char *function)
{
    const char *plain = function + strspn(function, "_");
    plain += strncmp(plain, "cuda", 4) == 0 ? 4 : 2;
    if (strncmp(plain, "GraphLaunch", 11) == 0)
        return GRAPH;
    if (strncmp(plain, "LaunchCooperative", 17) == 0)
        return COOPERATIVE;
    if (strncmp(plain, "LaunchKernelEx", 14) == 0)
        return LAUNCH_BY_CONFIG;
    return strncmp(plain, "LaunchKernel", 12) == 0 ? LAUNCH : NO_LAUNCH;
}

static LaunchShape shape_of(const uint32_t *grid, const uint32_t *block, void *stream)
{
    LaunchShape shape = {.stream = stream};
    memcpy(shape.grid, grid, sizeof shape.grid);
    memcpy(shape.block, block, sizeof shape.block);
    return shape;
}

static int is_cooperative(const LaunchConfig *config)
{
    int found = 0;
    for (uint32_t i = 0; config->attributes != NULL && i < config->attribute_count; i++)
        if (config->attributes[i].id == ATTRIBUTE_COOPERATIVE)
            found = config->attributes[i].cooperative;
    return found;
}

static LaunchShape shape_by_config(const ConfigLaunch *launch)
{
    const LaunchConfig *config = launch->config;
    LaunchShape shape = {0};
    if (config != NULL) {
        shape = shape_of(config->grid, config->block, config->stream);
        shape.cooperative = is_cooperative(config);
    }
    return shape;
}

LaunchShape launch_shape(enum LaunchKind kind, int domain, const void *parameters)
{
    const DriverLaunch *driver = parameters;
    const RuntimeLaunch *runtime = parameters;
    if (parameters == NULL)
        return (LaunchShape){0};
    if (kind == LAUNCH_BY_CONFIG)
        return shape_by_config(parameters);
    if (domain != DOMAIN_DRIVER)
        return shape_of(runtime->grid, runtime->block, runtime->stream);
    return shape_of(driver->grid, driver->block, driver->stream);
}

int communicates(const char *kernel)
{
    static const char *const parts[] = {
        "nccl", "nvshmem", "mscclpp",
        "cross_device_reduce",                              /* vLLM, SGLang */
        "one_shot_all_reduce", "two_shot_all_reduce",       /* torch's symmetric memory */
        "multimem_", "symm_mem", "barrier_kernel", "put_signal", "wait_signal",
        "oneShotAllReduce", "twoShotAllReduce", "lamport", "allreduce_fusion", "allReduceFusion",
        "userbuffers", "pushrecv", "pushsend",              /* TensorRT-LLM, Transformer Engine */
        "deep_ep", "internode", "intranode",                /* DeepEP */
        "all_reduce_kernel", "allreduce_kernel", "all_gather_kernel", "reduce_scatter_kernel",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(kernel, parts[i]) != NULL)
            return 1;
    return 0;
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9E3779B97F4A7C15ull;
}

Key *key_of(const char *kernel, uint64_t node, int device, const LaunchShape *shape)
{
    uint64_t hash = mixed(mixed(0, node), (uint64_t)device);
    for (const char *c = kernel; *c; c++)
        hash = mixed(hash, (unsigned char)*c);
    for (int i = 0; i < 3; i++)
        hash = mixed(mixed(hash, shape->grid[i]), shape->block[i]);
    hash ^= hash >> 29;
    Key **slot = &keys[hash % (sizeof keys / sizeof *keys)];
    for (Key *key = *slot; key != NULL; key = key->next)
        if (key->hash == hash && key->node == node && key->device == device &&
            memcmp(key->grid, shape->grid, sizeof key->grid) == 0 &&
            memcmp(key->block, shape->block, sizeof key->block) == 0 &&
            strcmp(key->kernel, kernel) == 0)
            return key;
    Key *key = calloc(1, sizeof *key);
    if (key == NULL || (key->kernel = strdup(kernel)) == NULL) {
        free(key);
        return NULL;
    }
    key->hash = hash;
    key->node = node;
    key->device = device;
    memcpy(key->grid, shape->grid, sizeof key->grid);
    memcpy(key->block, shape->block, sizeof key->block);
    key->next = *slot;
    return *slot = key;
}

char *key_text(const char *what, const Key *key)
{
    char *text = NULL;
    int size = asprintf(&text, "%s\t%d\t%llx\t%u,%u,%u\t%u,%u,%u\t%s", what, key->device,
                        (unsigned long long)key->node, key->grid[0], key->grid[1], key->grid[2],
                        key->block[0], key->block[1], key->block[2], key->kernel);
    return size < 0 ? NULL : text;
}

void keys_write(void)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (Key *key = keys[i]; key != NULL; key = key->next) {
            char *text = key_text("seen", key);
            if (text != NULL)
                count_file_line("%s\t%llu", text,
                                (unsigned long long)(key->tried + key->passed_over));
            free(text);
        }
}
