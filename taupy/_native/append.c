#include "append.h"
#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int file_may_have(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           limit.rlim_cur >= bytes;
}

static int write_whole(int file, const char *at, size_t size)
{
    while (size > 0) {
        ssize_t written = write(file, at, size);
        if (written < 0 && errno != EINTR)
            return -1;
        at += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

int append_whole(int file, const void *head, size_t head_size, const void *rest, size_t rest_size)
{
    struct stat status;
    if (fstat(file, &status) != 0 ||
        !file_may_have((uint64_t)status.st_size + head_size + rest_size))
        return -1;
    return write_whole(file, head, head_size) != 0 || write_whole(file, rest, rest_size) != 0;
}
