/* CUPTI's buffers: provided on request, queued when CUPTI hands them over, read by a thread of
 * ours. */
#ifndef TAUPY_CUPTI_BUFFERS_H
#define TAUPY_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Call first. `handed_over` is called, on any thread, when CUPTI has handed over a buffer. */
void buffers_begin(void (*handed_over)(void));

/* CUPTI's callbacks. */
void buffers_requested(uint8_t **buffer, size_t *size, size_t *max_records);
void buffers_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* Sum up everything handed over so far. One thread at a time. */
void buffers_drain(void);

/* Number of buffers requested plus handed over so far. */
uint64_t buffers_moves(void);

/* From now on, also save buffers to this folder as they arrive. */
void buffers_save(const char *folder);

#endif
