/* Memory accessed page after page is cheaper in huge pages: fewer page faults and better TLB
 * coverage. */
#ifndef TAUPY_PAGES_H
#define TAUPY_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define LARGE_PAGE (2u << 20)

/* Request huge pages if the memory or mapped file is large enough for one. */
static inline void pages_large(void *memory, uint64_t size)
{
    int saved = errno;
    if (size >= LARGE_PAGE)
        madvise(memory, size, MADV_HUGEPAGE);
    errno = saved;
}

#endif
