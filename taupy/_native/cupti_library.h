/* Finding libcupti and looking up its functions by name: no CUDA headers, no link-time
 * dependency. */
#ifndef TAUPY_CUPTI_LIBRARY_H
#define TAUPY_CUPTI_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef void (*CallbackFunction)(void *user, int domain, uint32_t id, const void *data);
typedef void (*BufferRequested)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*BufferCompleted)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                size_t valid);

typedef struct Cupti {
    void *handle;
    char path[4096];
    uint32_t version; /* from cuptiGetVersion */
    int driver;       /* from cuDriverGetVersion: 13000 for 13.0; 0: unknown */
    int (*get_version)(uint32_t *);
    int (*subscribe)(void **, CallbackFunction, void *);
    int (*unsubscribe)(void *);
    int (*enable_callback)(uint32_t enable, void *subscriber, int domain, uint32_t id);
    int (*callback_name)(int domain, uint32_t id, const char **);
    int (*result_string)(int, const char **);
    int (*register_callbacks)(BufferRequested, BufferCompleted);
    int (*enable)(uint32_t kind);
    int (*disable)(uint32_t kind);
    int (*flush_all)(uint32_t flag);
    int (*next_record)(uint8_t *, size_t, void **);
    int (*dropped_records)(void *context, uint32_t stream, size_t *);
    int (*configure_unified_memory)(void *configuration, uint32_t count); /* or NULL */
    int (*device_of)(void *context, uint32_t *device);                    /* or NULL */
    /* of libcuda */
    int (*context_push)(void *);
    int (*context_pop)(void **);
    int (*context_synchronize)(void);
} Cupti;

/* Open libcupti: the one already in the process, else the first that works with the driver. Nonzero
 * if none was found; `problem` then lists what was tried. */
int cupti_open(Cupti *cupti, char **libraries, char *problem, size_t room);

#endif
