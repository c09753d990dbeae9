/* End of Python, end of the process, then running the storer. */
#define _GNU_SOURCE
#include "exit.h"
#include "confined.h"
#include "exit_row.h"
#include "gpu.h"
#include "listeners.h"
#include "process.h"
#include "thread.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the program waits for the storer: some seconds of its processor time, and more of time in
 * all on a busy machine, beside what storing takes for each MiB. Whoever is killed then leaves the run
 * where it is: the watch, or the next command, stores it. */
#define STORER_CPU_S 10
#define STORER_CPU_S_PER_MIB 4
#define STORER_BUSY 8
#define LOOK_MS 20
#define STDERR_OF_STORER 3 /* commands/storer.py; what else is printed there goes nowhere */
#define LACKING 77          /* its exit code then, see store() */

pid_t root_pid;
char **storer_argv, **storer_env;
static struct stat first_stderr;
static int has_first_stderr;

void stderr_keep(int quiet) { has_first_stderr = !quiet && fstat(2, &first_stderr) == 0; }

/* Lift the program's resource limits, which should not apply to the storer. */
static void limits_lift(void)
{
    static const int limits[] = {RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_CPU,
                                 RLIMIT_NPROC};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i], &limit) == 0) {
            limit.rlim_cur = limit.rlim_max;
            setrlimit(limits[i], &limit);
        }
    }
}

/* Set up the storer's files. It does not use a stderr that the program has replaced. */
static void files_set(posix_spawn_file_actions_t *actions)
{
    struct stat now;
    if (has_first_stderr && fstat(2, &now) == 0 && now.st_dev == first_stderr.st_dev &&
        now.st_ino == first_stderr.st_ino)
        posix_spawn_file_actions_adddup2(actions, 2, STDERR_OF_STORER);
    else
        posix_spawn_file_actions_addopen(actions, STDERR_OF_STORER, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
}

/* What the run folder holds, in MiB; a file of holes has what lies between them. */
static int64_t run_mib(void)
{
    int64_t bytes = 0;
    DIR *folder = run_folder != NULL ? opendir(run_folder) : NULL;
    const struct dirent *entry;
    struct stat status;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            bytes += 512 * (int64_t)status.st_blocks;
    if (folder != NULL)
        closedir(folder);
    return bytes >> 20;
}

/* Wait for the storer, whose signals are blocked here, but not for ever: one that lacks memory may
 * never end. A SIGCHLD that is taken would stop a program that has asked to be traced
 * (PTRACE_TRACEME), until a tracer lets it go on. No clock is asked: the program may have its own.
 * Returns its exit code, -1 if it has none. */
static int storer_wait(pid_t child)
{
    const struct timespec pause = {0, LOOK_MS * 1000000};
    int64_t cpu_s = STORER_CPU_S + STORER_CPU_S_PER_MIB * run_mib();
    clockid_t clock;
    struct timespec spent = {0};
    sigset_t ends;
    int status = -1;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    int has_clock = clock_getcpuclockid(child, &clock) == 0;
    for (int64_t looks = 0; waitpid(child, &status, WNOHANG) == 0; looks++) {
        if (looks * LOOK_MS > cpu_s * STORER_BUSY * 1000 ||
            (has_clock && syscall(SYS_clock_gettime, clock, &spent) == 0 && spent.tv_sec > cpu_s)) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            break;
        }
        sigtimedwait(&ends, NULL, &pause);
    }
    sigtimedwait(&ends, NULL, &(struct timespec){0});
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* From the program's end on, its exit code stands: a timer of its own, or a signal of others, no
 * longer ends it. All threads are concerned, and `kept` is not: the program ends itself by it. */
static void signals_end(int kept)
{
    struct sigaction action;
    for (int number = 1; number < NSIG; number++) {
        switch (number) {
        case SIGKILL: case SIGSTOP: case SIGTSTP: case SIGTTIN: case SIGTTOU: /* it can go on */
        case SIGCHLD: case SIGCONT: case SIGURG: case SIGWINCH:               /* do nothing */
        case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL: case SIGTRAP: case SIGABRT: case SIGSYS:
            continue; /* it does them itself */
        default:
            if (number != kept && sigaction(number, NULL, &action) == 0 &&
                action.sa_handler == SIG_DFL)
                signal(number, SIG_IGN);
        }
    }
}

void exit_begins(int by_signal)
{
    if (is_measured() && !waiting && !is_filtered())
        signals_end(by_signal);
}

void fold(void)
{
    if (is_measured() && !waiting && part != NULL && root_pid != 0 && !part->helper && !is_filtered() &&
        root_pid != getpid() && confinement() == NULL)
        part_fold(part);
}

/* Whether the program has left this variable as it was, or extended it. */
static int is_left(const char *variable)
{
    const char *value = strchr(variable, '=');
    size_t size = value != NULL ? (size_t)(value - variable) + 1 : 0;
    for (char **now = environ; size && now != NULL && *now != NULL; now++)
        if (strncmp(*now, variable, size) == 0)
            return strstr(*now + size, value + 1) != NULL;
    return 0;
}

/* The environment at the start without what the program has removed or replaced since. Returns NULL
 * if memory runs out. */
static char **environment_kept(void)
{
    size_t count = 0, kept = 0;
    while (storer_env != NULL && storer_env[count] != NULL)
        count++;
    char **environment = calloc(count + 1, sizeof *environment);
    for (size_t i = 0; environment != NULL && i < count; i++)
        if (is_left(storer_env[i]))
            environment[kept++] = storer_env[i];
    return environment;
}

/* Whether the program has given up rights; the part of the run's own process then says so. */
static int is_left_to_others(void)
{
    const char *why = confinement();
    char text[256];
    if (why == NULL)
        return 0;
    snprintf(text, sizeof text, "the program could not have its run stored itself: %s%s", why,
             is_filtered() ? "; memory, processor time and counters were read until then" : "");
    if (part != NULL)
        metadata_write("taupy.health.left", text);
    return 1;
}

int store(void)
{
    if (part != NULL && (int64_t)root_pid != part->pid)
        return 0; /* a forked child */
    if (!is_measured() || storer_argv == NULL || root_pid == 0 || is_left_to_others() ||
        root_pid != getpid()) /* last: a filter may kill who asks */
        return 0;
    root_pid = 0; /* only once */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all, before;
    struct sigaction ends = {.sa_handler = SIG_DFL}, theirs;
    pid_t child;
    int code = -1, has_theirs;
    char **environment = environment_kept();
    if (posix_spawn_file_actions_init(&actions) != 0)
        return 0;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return 0;
    }
    files_set(&actions);
    limits_lift();
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    /* With SIGCHLD ignored, the kernel would tell no exit code. */
    has_theirs = sigaction(SIGCHLD, &ends, &theirs) == 0;
    /* SIGSTOP and SIGKILL are unaffected; a Ctrl-C reaches us once everything is stored. */
    if (posix_spawn(&child, storer_argv[0], &actions, &attributes, storer_argv, environment) == 0)
        code = storer_wait(child);
    if (has_theirs)
        sigaction(SIGCHLD, &theirs, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    return code == LACKING;
}

static void note_cpu_times(void)
{
    pthread_mutex_lock(&ended_lock); /* threads that have not ended by now wait for us */
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        clockid_t clock;
        if (!thread_is_over(thread) && pthread_getcpuclockid(thread->pthread, &clock) == 0)
            thread->cpu_ns = clock_ns(clock);
    }
    pthread_mutex_unlock(&ended_lock);
}

/* The most memory since the interpreter began: the kernel's ru_maxrss is also that of what was in
 * this process before, such as the launcher. Without /proc, that is all there is. */
static long peak_resident_kib(const struct rusage *usage)
{
    char status[2048];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return usage->ru_maxrss;
    ssize_t size = read(file, status, sizeof status - 1);
    close(file);
    status[size > 0 ? size : 0] = 0;
    const char *peak = strstr(status, "VmHWM:");
    long kib = peak != NULL ? strtol(peak + strlen("VmHWM:"), NULL, 10) : 0;
    return kib > 0 ? kib : usage->ru_maxrss;
}

static void note_usage(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    part->cpu_user_ns = usage.ru_utime.tv_sec * 1000000000LL + usage.ru_utime.tv_usec * 1000;
    part->cpu_system_ns = usage.ru_stime.tv_sec * 1000000000LL + usage.ru_stime.tv_usec * 1000;
    part->peak_resident_kib = peak_resident_kib(&usage);
    part->minor_faults = usage.ru_minflt;
    part->major_faults = usage.ru_majflt;
    part->voluntary_switches = usage.ru_nvcsw;
    part->involuntary_switches = usage.ru_nivcsw;
}

static int python_is_over; /* the interpreter has been finalized */

void finish(int has_status, int64_t status, uint64_t state)
{
    if (!is_measured() || waiting)
        return;
    if (part == NULL && thread_new() == NULL) /* a forked child that has recorded nothing */
        return;
    if (part->state == PART_RUNNING) {
        TELL(on_finish, 1);
        if (!is_filtered()) {
            note_cpu_times();
            note_usage();
        }
        ClockPair now = clock_pair();
        part->end_ticks = now.ticks;
        part_moment(now.ticks); /* a daemon thread may be ending at the same time */
        part->end_ns = now.ns;
        if (python_is_over)
            threads_end(now.ticks);
    }
    if (has_status) {
        part->exit_status = status;
        part->has_exit_status = 1;
    }
    part->state = state;
    part_save(part);
}

static int interrupt_held; /* SIGINT is blocked between Python's end and exit() */

/* Called as the last step of Py_FinalizeEx. After an unhandled KeyboardInterrupt, the interpreter
 * then kills itself with SIGINT, so exit() is never reached. Block the signal until the run is
 * stored; it then kills the process as usual. */
static void python_ended(void)
{
    if (!process_ends())
        return;
    exit_begins(0);
    exit_row_end();
    gpu_end(1);
    gpu_note();
    python_is_over = 1;
    finish(0, 0, PART_ENDED);
    if (!is_filtered() && root_pid == getpid()) {
        sigset_t interrupt, before;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        if (pthread_sigmask(SIG_BLOCK, &interrupt, &before) == 0)
            interrupt_held = !sigismember(&before, SIGINT);
    }
}

static void process_exits(int status, void *unused)
{
    (void)unused;
    sigset_t pending;
    int is_lacking = 0;
    int interrupted = interrupt_held && sigpending(&pending) == 0 && sigismember(&pending, SIGINT);
    if (process_ends()) {
        exit_begins(interrupted ? SIGINT : 0);
        gpu_end(1);
        finish(1, interrupted ? -SIGINT : status & 0xff, PART_ENDED);
        fold();
        is_lacking = store();
    }
    if (interrupt_held) {
        sigset_t interrupt;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        interrupt_held = 0;
        pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    }
    if (is_lacking && (status & 0xff) == 0)
        exit(EXIT_FAILURE); /* with glibc, the handlers that are left are called with this one */
}

void exit_watch(void)
{
    Py_AtExit(python_ended);
    on_exit(process_exits, NULL);
}
