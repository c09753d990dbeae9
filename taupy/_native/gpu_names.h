/* Kernel names, each stored once in the part, and looked up by CUPTI's pointers to them. */
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
    Name *texts; /* another hash table, by text */
    uint64_t texts_mask, texts_count;
    uint32_t next; /* ids start at 1: 0 means no name */
} KernelNames;

/* Nonzero if memory runs out. */
int kernel_names_begin(KernelNames *names, PartHeader *part);

/* The id of the string at a pointer; 0 if there is none, or no room for it. */
uint32_t kernel_name(KernelNames *names, const char *pointer);

#endif
