/* Memory that is used page after page costs less in large pages: fewer faults, and more of it
 * within reach of the processor's own table of pages. */
#ifndef TAUPY_PAGES_H
#define TAUPY_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define LARGE_PAGE (2u << 20)

/* Ask for large pages where memory, or a mapped file, is large enough for one. */
static inline void pages_large(void *memory, uint64_t size)
{
    int saved = errno;
    if (size >= LARGE_PAGE)
        madvise(memory, size, MADV_HUGEPAGE);
    errno = saved;
}

#endif
