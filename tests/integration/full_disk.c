/* Preloaded: from the moment that the file $FULL_MARK exists, files whose paths begin with one of
 * $FULL_PREFIXES (with colons in between) have no room to grow or to be written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_full(int fd)
{
    char link[64], path[4096], prefixes[4096];
    const char *mark = getenv("FULL_MARK"), *list = getenv("FULL_PREFIXES");
    int saved = errno, full = 0;
    if (mark == NULL || list == NULL || access(mark, F_OK) != 0) {
        errno = saved;
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    snprintf(prefixes, sizeof prefixes, "%s", list);
    for (char *at, *one = strtok_r(prefixes, ":", &at); one != NULL; one = strtok_r(NULL, ":", &at))
        full |= strncmp(path, one, strlen(one)) == 0;
    errno = saved;
    return full;
}

#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define NO_ROOM return errno = ENOSPC, -1

int posix_fallocate(int fd, off_t at, off_t n)
{
    return is_full(fd) ? ENOSPC : REAL(posix_fallocate, fd, at, n);
}

int posix_fallocate64(int fd, off64_t at, off64_t n)
{
    return is_full(fd) ? ENOSPC : REAL(posix_fallocate64, fd, at, n);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (is_full(fd))
        NO_ROOM;
    return REAL(write, fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    if (is_full(fd))
        NO_ROOM;
    return REAL(pwrite, fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    if (is_full(fd))
        NO_ROOM;
    return REAL(pwrite64, fd, data, n, at);
}
