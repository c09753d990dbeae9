/* Preloaded: calls of taupy's fail now and then, and those of the program never do.
 *
 *     FAULT_CALLS=write,pwrite FAULT_EVERY=3 FAULT_ERRNO=28 FAULT_PREFIXES=/state:/work/taupy.db
 *
 * A call counts if it comes from taupy's compiled modules, or if its file's path begins with one
 * of the prefixes; in the process that stores a run, from its first such file on, every call of
 * Python's does. Every FAULT_EVERY-th of a process fails with FAULT_ERRNO. Nothing fails in
 * `taupy run` itself, which has not begun the program yet. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SITES 4096

static const char *calls, *prefixes;
static int every, number, in_storer;
static atomic_int counted, armed;
static _Atomic uintptr_t sites[SITES]; /* return addresses: odd if they are taupy's */

__attribute__((constructor)) static void begin(void)
{
    char line[1 << 14];
    int fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line);
    if (fd >= 0)
        close(fd);
    in_storer = n > 0 && memmem(line, (size_t)n, "commands.storer", 15) != NULL;
    if (!in_storer && getenv("TAUPY_BOOT") == NULL)
        return;
    prefixes = getenv("FAULT_PREFIXES");
    number = atoi(getenv("FAULT_ERRNO") ?: "5");
    every = atoi(getenv("FAULT_EVERY") ?: "0");
    calls = getenv("FAULT_CALLS"); /* last: until it is set nothing fails */
}

static int is_taupys(void *caller)
{
    _Atomic uintptr_t *site = &sites[((uintptr_t)caller >> 2) % SITES];
    uintptr_t known = atomic_load(site);
    Dl_info info;
    if (known >> 1 == (uintptr_t)caller)
        return known & 1;
    int ours = dladdr(caller, &info) != 0 && info.dli_fname != NULL &&
               strstr(info.dli_fname, "/taupy/_native/") != NULL;
    atomic_store(site, (uintptr_t)caller << 1 | (uintptr_t)ours);
    return ours;
}

static int is_below(const char *path)
{
    for (const char *one = prefixes; one != NULL && *one; one += strcspn(one, ":"), one += *one == ':')
        if (strncmp(path, one, strcspn(one, ":")) == 0)
            return 1;
    return 0;
}

static int is_among(const char *name)
{
    size_t n = strlen(name);
    for (const char *one = calls; *one; one += strcspn(one, ","), one += *one == ',')
        if (strcspn(one, ",") == n && strncmp(one, name, n) == 0)
            return 1;
    return 0;
}

/* Is the file of a descriptor, or a path relative to one, below a prefix? */
static int is_file_of_ours(int fd, const char *path)
{
    char link[64], folder[4096];
    if (path != NULL && (path[0] == '/' || fd == AT_FDCWD))
        return is_below(path);
    if (fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, folder, sizeof folder - 1);
    folder[n > 0 ? n : 0] = 0;
    return is_below(folder);
}

static int fails(const char *name, void *caller, int fd, const char *path)
{
    if (calls == NULL || every <= 0 || !is_among(name))
        return 0;
    int saved = errno, counts = is_taupys(caller);
    if (!counts && is_file_of_ours(fd, path))
        counts = armed = 1;
    counts |= in_storer && armed;
    errno = saved;
    return counts && (atomic_fetch_add(&counted, 1) + 1) % every == 0;
}

#define CALLER __builtin_return_address(0)
#define REAL(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define FAULTY(type, name, failed, fd, path, parameters, ...)                                      \
    type name parameters                                                                           \
    {                                                                                              \
        if (fails(#name, CALLER, fd, path))                                                        \
            return errno = number, (failed);                                                       \
        return REAL(name, __VA_ARGS__);                                                            \
    }
#define FAULTY_TELLING(name, fd, parameters, ...) /* they return the error's number */             \
    int name parameters                                                                            \
    {                                                                                              \
        return fails(#name, CALLER, fd, NULL) ? number : REAL(name, __VA_ARGS__);                  \
    }
#define FAULTY_OPEN(name)                                                                          \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                    \
        va_end(rest);                                                                              \
        if (fails(#name, CALLER, AT_FDCWD, path))                                                  \
            return errno = number, -1;                                                             \
        return REAL(name, path, flags, mode);                                                      \
    }
#define FAULTY_OPENAT(name)                                                                        \
    int name(int at, const char *path, int flags, ...)                                             \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                    \
        va_end(rest);                                                                              \
        if (fails(#name, CALLER, at, path))                                                        \
            return errno = number, -1;                                                             \
        return REAL(name, at, path, flags, mode);                                                  \
    }

FAULTY_OPEN(open)
FAULTY_OPEN(open64)
FAULTY_OPENAT(openat)
FAULTY_OPENAT(openat64)
FAULTY(ssize_t, read, -1, fd, NULL, (int fd, void *to, size_t n), fd, to, n)
FAULTY(ssize_t, pread, -1, fd, NULL, (int fd, void *to, size_t n, off_t at), fd, to, n, at)
FAULTY(ssize_t, pread64, -1, fd, NULL, (int fd, void *to, size_t n, off64_t at), fd, to, n, at)
FAULTY(ssize_t, write, -1, fd, NULL, (int fd, const void *from, size_t n), fd, from, n)
FAULTY(ssize_t, pwrite, -1, fd, NULL, (int fd, const void *from, size_t n, off_t at), fd, from, n, at)
FAULTY(ssize_t, pwrite64, -1, fd, NULL, (int fd, const void *from, size_t n, off64_t at), fd, from, n,
       at)
FAULTY(int, ftruncate, -1, fd, NULL, (int fd, off_t size), fd, size)
FAULTY(int, ftruncate64, -1, fd, NULL, (int fd, off64_t size), fd, size)
FAULTY(int, fallocate, -1, fd, NULL, (int fd, int mode, off_t at, off_t n), fd, mode, at, n)
FAULTY(int, fallocate64, -1, fd, NULL, (int fd, int mode, off64_t at, off64_t n), fd, mode, at, n)
FAULTY_TELLING(posix_fallocate, fd, (int fd, off_t at, off_t n), fd, at, n)
FAULTY_TELLING(posix_fallocate64, fd, (int fd, off64_t at, off64_t n), fd, at, n)
FAULTY(int, fsync, -1, fd, NULL, (int fd), fd)
FAULTY(int, fdatasync, -1, fd, NULL, (int fd), fd)
FAULTY(int, rename, -1, AT_FDCWD, to, (const char *from, const char *to), from, to)
FAULTY(int, renameat, -1, at, to, (int there, const char *from, int at, const char *to), there, from,
       at, to)
FAULTY(int, unlink, -1, AT_FDCWD, path, (const char *path), path)
FAULTY(int, unlinkat, -1, at, path, (int at, const char *path, int flags), at, path, flags)
FAULTY(void *, mmap, MAP_FAILED, fd, NULL,
       (void *at, size_t n, int protection, int flags, int fd, off_t from), at, n, protection, flags,
       fd, from)
FAULTY(void *, mmap64, MAP_FAILED, fd, NULL,
       (void *at, size_t n, int protection, int flags, int fd, off64_t from), at, n, protection, flags,
       fd, from)
FAULTY(int, madvise, -1, -1, NULL, (void *at, size_t n, int advice), at, n, advice)
FAULTY(pid_t, fork, -1, -1, NULL, (void))
FAULTY_TELLING(posix_spawn, -1,
               (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const *words, char *const *environment),
               pid, path, actions, attributes, words, environment)
FAULTY_TELLING(pthread_create, -1,
               (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *what),
               thread, attributes, run, what)

/* Memory: of the compiled modules only. Python itself ends when it has none. */

extern void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t n);

static int has_no_memory(void *caller)
{
    return calls != NULL && every > 0 && is_among("malloc") && is_taupys(caller) &&
           (atomic_fetch_add(&counted, 1) + 1) % every == 0;
}

void *malloc(size_t n)
{
    return has_no_memory(CALLER) ? errno = ENOMEM, (void *)NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return has_no_memory(CALLER) ? errno = ENOMEM, (void *)NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t n)
{
    return has_no_memory(CALLER) ? errno = ENOMEM, (void *)NULL : __libc_realloc(old, n);
}
