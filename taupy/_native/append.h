/* Append-only files, written without stdio buffering: a forked child would flush its parent's
 * buffer into the same file. */
#ifndef TAUPY_APPEND_H
#define TAUPY_APPEND_H

#include <stddef.h>
#include <stdint.h>

/* Whether a file may have this many bytes. Growing beyond the limit would raise SIGXFSZ in the
 * program. */
int file_may_have(uint64_t bytes);

/* Write both pieces in sequence, retrying after signals. Nonzero if they could not be written; if a
 * file size limit is the cause, nothing of them was. */
int append_whole(int file, const void *head, size_t head_size, const void *rest, size_t rest_size);

#endif
