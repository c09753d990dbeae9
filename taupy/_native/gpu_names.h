/* Kernels' names, each once in the part, and found by CUPTI's pointers to them. */
#ifndef TAUPY_GPU_NAMES_H
#define TAUPY_GPU_NAMES_H

#include "gpu_part.h"

typedef struct Name {
    const char *pointer; /* CUPTI's own */
    uint64_t hash;
    uint32_t id;
    char *text;
} Name;

typedef struct KernelNames {
    PartHeader *part;
    Name *by_pointer; /* a hash table */
    uint64_t mask, count;
    Name *texts; /* another, by text */
    uint64_t texts_mask, texts_count;
    uint32_t next; /* from 1: 0 is no name */
} KernelNames;

/* Not 0: there is no memory. */
int kernel_names_begin(KernelNames *names, PartHeader *part);

/* The id of the text behind a pointer; 0: it has none, or there is no room for it. */
uint32_t kernel_name(KernelNames *names, const char *pointer);

#endif
