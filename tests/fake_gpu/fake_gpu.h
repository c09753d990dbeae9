/* Between the two fakes: the "driver" tells the "profiling library" what happens. */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stddef.h>
#include <stdint.h>

typedef struct FakeHooks {
    void (*api)(int site, int domain, uint32_t id, const char *name, uint32_t correlation);
    void (*record)(const void *record, size_t size);
    void (*context)(int created, void *context);
    int (*size_of)(uint32_t kind);
    int (*wanted)(uint32_t kind);
} FakeHooks;

#endif
