/* CUPTI's buffers: given to it, queued where it hands them over, read by one thread of ours. */
#ifndef TAUPY_CUPTI_BUFFERS_H
#define TAUPY_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

/* Before anything else: what is called, from any thread, where CUPTI has handed one over. */
void buffers_begin(void (*handed_over)(void));

/* Callbacks of CUPTI's. */
void buffers_requested(uint8_t **buffer, size_t *size, size_t *max_records);
void buffers_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* All that has been handed over is summed up. By one thread at a time. */
void buffers_drain(void);

/* How often one was asked of us or handed to us. */
uint64_t buffers_moves(void);

/* From now on they are kept in this folder, too, as they come. */
void buffers_save(const char *folder);

#endif
