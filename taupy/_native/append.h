/* Files that only grow, written without a buffer of the C library: a forked child would flush its
 * parent's into the same file. */
#ifndef TAUPY_APPEND_H
#define TAUPY_APPEND_H

#include <stddef.h>
#include <stdint.h>

/* May a file have so many bytes? To let it grow beyond would raise SIGXFSZ in the program. */
int file_may_have(uint64_t bytes);

/* Both pieces, one after the other, past signals. Not 0: they could not be written; where the size
 * of files is limited, nothing of them. */
int append_whole(int file, const void *head, size_t head_size, const void *rest, size_t rest_size);

#endif
