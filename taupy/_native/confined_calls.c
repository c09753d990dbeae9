/* See confined_calls.h.
 *
 * A library calls prctl and syscall through its table of imported functions, where we put our own.
 * ctypes and cffi look functions up by name instead, with their own import of dlsym. */
#define _GNU_SOURCE
#include "confined_calls.h"
#include "confined.h"
#include "counters.h"
#include "gpu.h"
#include "guard.h"
#include "line_thread.h"
#include "listeners.h"
#include "metrics.h"
#include "process.h"
#include "thread.h"
#include "wrap.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#if defined(__x86_64__)
#define IS_IMPORT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_IMPORT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_IMPORT(type) 0
#endif
#define IMPORTS_AT_MOST 65536 /* larger libraries, as PyTorch's, are left alone */

/* ---------------------------------------------------------------- before */

/* Have room for what will be counted when no file can be opened any more. */
static void rooms_make(void)
{
    int saved = errno;
    if (is_measured() && part != NULL && !is_filtered())
        part_prepare(part);
    errno = saved;
}

static atomic_int is_stopped; /* what calls on the kernel for each call */
static int counts_stopped[3]; /* then; with the GIL */

enum Told { NOT_TOLD, TOLD, STOPPED };

/* This thread, which may have released the GIL, is about to give up new privileges, which comes
 * before a filter, or (`is_now`) to install one. */
static enum Told filter_begins(int is_now)
{
    enum Told told = is_now ? TOLD : NOT_TOLD;
    int saved = errno;
    if (is_now && !is_filtered()) {
        guard_end();
        line_thread_end();
    }
    if (!is_measured() || part == NULL)
        return NOT_TOLD;
    if (!is_filtered() && python_is_there() && PyGILState_GetThisThreadState() != NULL) {
        PyGILState_STATE state = PyGILState_Ensure();
        part_prepare(part);
        TELL(on_finish, 0);
        if (is_now && !atomic_exchange(&is_stopped, 1)) {
            gpu_end_released(0); /* what the GPU has done so far is in its part */
            counts_stopped[0] = metric_count;
            counts_stopped[1] = call_metrics;
            counts_stopped[2] = counter_event_count;
            metric_count = call_metrics = counter_event_count = 0;
            told = STOPPED;
        }
        PyGILState_Release(state);
    }
    if (is_now)
        filter_begin();
    errno = saved;
    return told;
}

static int (*stop_recording)(uint64_t state);

/* The kernel is about to take the clock from this thread: reading it would end the program. */
static void clock_ends(void)
{
    int saved = errno;
    if (is_measured() && part != NULL && PyGILState_GetThisThreadState() != NULL) {
        PyGILState_STATE state = PyGILState_Ensure();
        metadata_write("taupy.health.left", "the program had given up reading clocks (strict seccomp,"
                                            " PR_SET_TSC): nothing was counted from then on");
        if (stop_recording(PART_RUNNING) != 0)
            PyErr_Clear();
        PyGILState_Release(state);
    }
    errno = saved;
}

static void filter_ends(enum Told told, long result)
{
    int saved = errno;
    if (told == NOT_TOLD || result != -1)
        return;
    filter_fail();
    line_thread_begin();
    if (told == STOPPED) {
        PyGILState_STATE state = PyGILState_Ensure();
        metric_count = counts_stopped[0];
        call_metrics = counts_stopped[1];
        counter_event_count = counts_stopped[2];
        atomic_store(&is_stopped, 0);
        PyGILState_Release(state);
    }
    errno = saved;
}

/* ---------------------------------------------------------------- ours */

/* Without a program, the question is whether this kernel has filters. */
static int may_install(int is_strict, unsigned long program) { return is_strict || program != 0; }

static int our_prctl(int what, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    int installs = what == PR_SET_SECCOMP && may_install(a == SECCOMP_MODE_STRICT, b);
    int is_meant = installs || what == PR_SET_NO_NEW_PRIVS;
    if ((installs && a == SECCOMP_MODE_STRICT) || (what == PR_SET_TSC && a == PR_TSC_SIGSEGV))
        clock_ends();
    enum Told told = is_meant ? filter_begins(installs) : NOT_TOLD;
    int result = prctl(what, a, b, c, d);
    filter_ends(told, result);
    return result;
}

static long our_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_prctl)
        return our_prctl((int)a, (unsigned long)b, (unsigned long)c, (unsigned long)d,
                         (unsigned long)e);
    int installs = number == SYS_seccomp &&
                   (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER) &&
                   may_install(a == SECCOMP_SET_MODE_STRICT, (unsigned long)c);
    int is_meant = installs || number == SYS_landlock_restrict_self;
    if (installs && a == SECCOMP_SET_MODE_STRICT)
        clock_ends();
    enum Told told = is_meant ? filter_begins(1) : NOT_TOLD;
    long result = syscall(number, a, b, c, d, e, f);
    filter_ends(told, result);
    return result;
}

static void *ours(const void *function)
{
    return function == (void *)prctl       ? (void *)our_prctl
           : function == (void *)syscall   ? (void *)our_syscall
           : function == (void *)sigaction ? (void *)guard_sigaction
                                           : NULL;
}

static void libraries_look(void);

/* The real one takes the calling library from the return address, so it is called last. */
static void *our_dlsym(void *handle, const char *name)
{
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT)
        return dlsym(handle, name);
    libraries_look();
    void *function = dlsym(handle, name), *replacement = function ? ours(function) : NULL;
    return replacement != NULL ? replacement : function;
}

/* ---------------------------------------------------------------- import tables */

typedef struct Library {
    const char *name, *strings;
    const ElfW(Sym) *symbols;
    uintptr_t base, constant_from, constant_to; /* read-only once it is loaded */
    int takes_names; /* ctypes' or cffi's, or Python itself */
} Library;

static void replace(const Library *library, void **slot, void *replacement)
{
    uintptr_t at = (uintptr_t)slot, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    int is_constant = at >= library->constant_from && at < library->constant_to;
    size_t size = at + sizeof *slot - page;
    if (is_constant && mprotect((void *)page, size, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, replacement, __ATOMIC_RELEASE);
    if (is_constant)
        mprotect((void *)page, size, PROT_READ);
}

static void imports_look(const Library *library, const ElfW(Rela) *imports, size_t count)
{
    for (size_t i = 0; imports != NULL && count <= IMPORTS_AT_MOST && i < count; i++) {
        if (!IS_IMPORT(ELF64_R_TYPE(imports[i].r_info)))
            continue;
        const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(imports[i].r_info)];
        const char *name = library->strings + symbol->st_name;
        void *replacement = strcmp(name, "prctl") == 0       ? (void *)our_prctl
                            : strcmp(name, "syscall") == 0   ? (void *)our_syscall
                            : strcmp(name, "sigaction") == 0 ? (void *)guard_sigaction
                            : library->takes_names && strcmp(name, "dlsym") == 0
                                ? (void *)our_dlsym
                                : NULL;
        if (replacement != NULL && symbol->st_shndx == SHN_UNDEF)
            replace(library, (void **)(library->base + imports[i].r_offset), replacement);
    }
}

static struct {
    size_t seen, number;        /* libraries that were looked at, in order of loading; the present */
    unsigned long long adds, subs; /* how many were loaded and unloaded by then */
} loaded;

static int library_look(struct dl_phdr_info *info, size_t size, void *own)
{
    Library library = {.name = info->dlpi_name, .base = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Rela) *late = NULL, *early_ones = NULL;
    size_t late_bytes = 0, early_bytes = 0, relative = 0;
    (void)size;
    if (loaded.number++ < loaded.seen)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t at = library.base + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)at;
        else if (segment->p_type == PT_GNU_RELRO) {
            library.constant_from = at;
            library.constant_to = at + segment->p_memsz;
        } else if (segment->p_type == PT_LOAD && (uintptr_t)own >= at &&
                   (uintptr_t)own < at + segment->p_memsz)
            return 0; /* this one */
    }
    const char *slash = strrchr(library.name, '/'), *file = slash != NULL ? slash + 1 : library.name;
    if (strncmp(file, "libc.", 5) == 0 || strncmp(file, "ld-", 3) == 0 ||
        strncmp(file, "linux-vdso", 10) == 0)
        return 0;
    library.takes_names = loaded.number == 1 || strncmp(file, "_ctypes.", 8) == 0 ||
                          strncmp(file, "_cffi_backend.", 14) == 0 ||
                          strncmp(file, "libpython", 9) == 0;
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        /* glibc has added the base to addresses in the table, musl has not. */
        uintptr_t address = dynamic->d_un.d_ptr;
        if (address < library.base)
            address += library.base;
        switch (dynamic->d_tag) {
        case DT_SYMTAB: library.symbols = (const ElfW(Sym) *)address; break;
        case DT_STRTAB: library.strings = (const char *)address; break;
        case DT_JMPREL: late = (const ElfW(Rela) *)address; break;
        case DT_PLTRELSZ: late_bytes = dynamic->d_un.d_val; break;
        case DT_RELA: early_ones = (const ElfW(Rela) *)address; break;
        case DT_RELASZ: early_bytes = dynamic->d_un.d_val; break;
        case DT_RELACOUNT: relative = dynamic->d_un.d_val; break;
        default: break;
        }
    }
    if (library.symbols == NULL || library.strings == NULL)
        return 0;
    size_t count = early_bytes / sizeof *early_ones;
    imports_look(&library, late, late_bytes / sizeof *late);
    if (early_ones != NULL && relative < count)
        imports_look(&library, early_ones + relative, count - relative);
    return 0;
}

static int counts_read(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    int is_new = info->dlpi_adds != loaded.adds || info->dlpi_subs != loaded.subs;
    if (info->dlpi_subs != loaded.subs)
        loaded.seen = 0;
    loaded.adds = info->dlpi_adds;
    loaded.subs = info->dlpi_subs;
    return is_new ? 2 : 1;
}

/* Look at the libraries that were loaded since the last time. */
static void libraries_look(void)
{
    static int own;
    int saved = errno;
    if (active && run_folder != NULL && dl_iterate_phdr(counts_read, NULL) == 2 && !is_filtered()) {
        loaded.number = 0;
        dl_iterate_phdr(library_look, &own);
        loaded.seen = loaded.number;
    }
    errno = saved;
}

/* ---------------------------------------------------------------- functions of modules */

static PyCFunction real_create;

static PyObject *wrapped_create(PyObject *imp, PyObject *const *args, Py_ssize_t n)
{
    PyObject *module =
        ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t))(void *)real_create)(imp, args, n);
    libraries_look();
    return module;
}

#define CHANGES(NAME, FLAGS)                                                                       \
    static PyCFunction real_##NAME;                                                                \
    static PyObject *wrapped_##NAME(PyObject *module, PyObject *const *args, Py_ssize_t n,         \
                                    PyObject *names)                                               \
    {                                                                                              \
        rooms_make();                                                                              \
        return ((PyObject * (*)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *))(void *)    \
                    real_##NAME)(module, args, n, names);                                          \
    }
#define FAST METH_FASTCALL
#define EACH_CHANGE(DO)                                                                            \
    DO(chroot, FAST | METH_KEYWORDS)                                                               \
    DO(unshare, FAST | METH_KEYWORDS)                                                              \
    DO(setns, FAST | METH_KEYWORDS)                                                                \
    DO(setuid, METH_O)                                                                             \
    DO(setgid, METH_O)                                                                             \
    DO(seteuid, METH_O)                                                                            \
    DO(setegid, METH_O)                                                                            \
    DO(setgroups, METH_O)                                                                          \
    DO(initgroups, FAST)                                                                           \
    DO(setreuid, FAST)                                                                             \
    DO(setregid, FAST)                                                                             \
    DO(setresuid, FAST)                                                                            \
    DO(setresgid, FAST)
EACH_CHANGE(CHANGES)

void calls_watch(int (*stop)(uint64_t state))
{
    stop_recording = stop;
    PyObject *posix = PyImport_ImportModule("posix"), *imp = PyImport_ImportModule("_imp");
#define WRAP(NAME, FLAGS) wrap(posix, #NAME, &real_##NAME, (void *)wrapped_##NAME, FLAGS);
    if (posix != NULL) {
        EACH_CHANGE(WRAP)
    }
    if (imp != NULL)
        wrap(imp, "create_dynamic", &real_create, (void *)wrapped_create, METH_FASTCALL);
    Py_XDECREF(posix);
    Py_XDECREF(imp);
    PyErr_Clear();
    libraries_look();
}
