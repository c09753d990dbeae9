/* See library.h. No Python here. */
#define _GNU_SOURCE
#include "library.h"
#include "sha256.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS (2 * SHA256_BYTES)
#define BYTES_AT_MOST (64 << 20)
#define NAMES_AT_MOST 8

/* Whether only the user or root can change the file. */
static int is_own(const struct stat *status)
{
    return S_ISREG(status->st_mode) && (status->st_uid == geteuid() || status->st_uid == 0) &&
           (status->st_mode & (S_IWGRP | S_IWOTH)) == 0 && status->st_size > 0 &&
           status->st_size <= BYTES_AT_MOST;
}

static int has_digest(int fd, size_t size, const char *digits)
{
    uint8_t digest[SHA256_BYTES];
    char found[DIGITS + 1];
    size_t got = 0;
    uint8_t *content = malloc(size);
    while (content != NULL && got < size) {
        ssize_t n = pread(fd, content + got, size - got, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    if (content != NULL)
        sha256(content, got, digest);
    free(content);
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(found + 2 * i, 3, "%02x", digest[i]);
    return content != NULL && got == size && memcmp(found, digits, DIGITS) == 0;
}

static void *library_open(const char *checked, const char **problem)
{
    static int count;
    char path[64] = "/proc/self/fd/";
    struct stat status;
    void *library = NULL;
    int saved = errno;
    if (strlen(checked) < DIGITS + 2 || count == NAMES_AT_MOST) {
        *problem = "it was not checked when the run was launched";
        return NULL;
    }
    int fd = open(checked + DIGITS + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        *problem = "its file can no longer be opened";
    else if (fstat(fd, &status) != 0 || !is_own(&status))
        *problem = "others can change its file";
    else if (!has_digest(fd, (size_t)status.st_size, checked))
        *problem = "its file has changed since the run was launched";
    else {
        /* The loader takes libraries with the same path for one: each gets a path of its own. */
        for (int i = 0; i < count; i++)
            strcat(path, "./");
        snprintf(path + strlen(path), 16, "%d", fd);
        count++;
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            *problem = dlerror();
    }
    if (fd >= 0)
        close(fd);
    errno = saved;
    return library;
}

void *library_entry(const char *checked, const char *entry, const char **problem)
{
    void *library = library_open(checked, problem);
    void *found = library != NULL ? dlsym(library, entry) : NULL;
    if (library != NULL && found == NULL)
        *problem = dlerror();
    return found;
}
