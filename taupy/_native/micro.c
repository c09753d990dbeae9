/* Micro-kernels: the highest rates at which this processor can compute and move data.
 *
 * measure(kernel, cpus, bytes, seconds, windows, patience) runs one kernel on some CPUs in short
 * windows and returns the rate of each window: taking the best of many short windows stays correct
 * on a machine shared with others. Which rates matter, and what they mean, is decided in Python
 * (taupy/ert). No Python object is touched while threads run. */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAS(feature) __builtin_cpu_supports(feature)
#define TARGET(features) __attribute__((target(features)))
#define REGISTER "+v"
#define REGISTER_SMALL "+x"
#elif defined(__aarch64__)
#define HAS(feature) 1
#define TARGET(features)
#define REGISTER "+w"
#define REGISTER_SMALL "+w"
#else
#error "the micro-kernels know x86-64 and AArch64"
#endif

#define MOST_THREADS 1024

typedef struct {
    char *first, *second, *third; /* arrays of `bytes` each; compute kernels have none */
    long bytes;
    long repeats;
} Work;

typedef double (*Kernel)(Work *work); /* returns operations done, or bytes moved */

/* -------------------------------------------------------------- floating point
 * Twelve independent chains, kept in registers, hide the latency on any current processor;
 * an array would be spilled to memory. The empty asm keeps the compiler from folding steps. */

#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define MAKE(i) T a##i = x + (E)(i);
#define FMA_STEP(i) a##i = a##i * x + y;
#define ADD_STEP(i) a##i = a##i + y;
#define KEEP(constraint)                                                                    \
    __asm__ volatile(""                                                                     \
                     : constraint(a0), constraint(a1), constraint(a2), constraint(a3),       \
                       constraint(a4), constraint(a5), constraint(a6), constraint(a7),       \
                       constraint(a8), constraint(a9), constraint(a10), constraint(a11));

#define COMPUTE(name, features, element, vector, lanes, step, operations, constraint)        \
    TARGET(features) static double name(Work *work) {                                       \
        typedef element E;                                                                  \
        typedef vector T;                                                                   \
        T x = (T){0} + (E)0.9999, y = (T){0} + (E)1e-4;                                      \
        TWELVE(MAKE)                                                                        \
        for (long n = work->repeats; n > 0; n--) {                                          \
            TWELVE(step) KEEP(constraint) TWELVE(step) KEEP(constraint)                      \
        }                                                                                   \
        return (double)work->repeats * 24 * (lanes) * (operations);                         \
    }

#define SCALAR(name, features, E_, step, operations)                                         \
    TARGET(features) static double name(Work *work) {                                       \
        typedef E_ E;                                                                       \
        typedef E_ T;                                                                       \
        T x = (E)0.9999, y = (E)1e-4;                                                       \
        TWELVE(MAKE)                                                                        \
        for (long n = work->repeats; n > 0; n--) {                                          \
            TWELVE(step) KEEP(REGISTER_SMALL) TWELVE(step) KEEP(REGISTER_SMALL)              \
        }                                                                                   \
        return (double)work->repeats * 24 * (operations);                                   \
    }

typedef double d2 __attribute__((vector_size(16)));
typedef float f4 __attribute__((vector_size(16)));
#if defined(__x86_64__)
typedef double d4 __attribute__((vector_size(32)));
typedef float f8 __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));
typedef float f16 __attribute__((vector_size(64)));
#define WITH_FMA "fma"
#define PLAIN "sse2"
COMPUTE(fma_fp64_512, "avx512f", double, d8, 8, FMA_STEP, 2, REGISTER)
COMPUTE(fma_fp32_512, "avx512f", float, f16, 16, FMA_STEP, 2, REGISTER)
COMPUTE(add_fp64_512, "avx512f", double, d8, 8, ADD_STEP, 1, REGISTER)
COMPUTE(add_fp32_512, "avx512f", float, f16, 16, ADD_STEP, 1, REGISTER)
COMPUTE(fma_fp64_256, "avx2,fma", double, d4, 4, FMA_STEP, 2, REGISTER_SMALL)
COMPUTE(fma_fp32_256, "avx2,fma", float, f8, 8, FMA_STEP, 2, REGISTER_SMALL)
COMPUTE(add_fp64_256, "avx2", double, d4, 4, ADD_STEP, 1, REGISTER_SMALL)
COMPUTE(add_fp32_256, "avx2", float, f8, 8, ADD_STEP, 1, REGISTER_SMALL)
#else
#define WITH_FMA ""
#define PLAIN ""
#endif
COMPUTE(fma_fp64_128, WITH_FMA, double, d2, 2, FMA_STEP, 2, REGISTER_SMALL)
COMPUTE(fma_fp32_128, WITH_FMA, float, f4, 4, FMA_STEP, 2, REGISTER_SMALL)
SCALAR(fma_fp64_scalar, WITH_FMA, double, FMA_STEP, 2)
SCALAR(fma_fp32_scalar, WITH_FMA, float, FMA_STEP, 2)

/* ------------------------------------------------- narrow types, summed in 32 bits */

#if defined(__x86_64__) && defined(__GNUC__) && (__GNUC__ >= 10 || defined(__clang__))
#define HAS_NARROW 1
#define MAKE_WIDE(i) __m512 a##i = _mm512_setzero_ps();
#define MAKE_INT(i) __m512i a##i = _mm512_setzero_si512();
#define BF16_STEP(i) a##i = _mm512_dpbf16_ps(a##i, x, x);
#define INT8_STEP(i) a##i = _mm512_dpbusd_epi32(a##i, x, x);

TARGET("avx512f,avx512bf16") static double dot_bf16_512(Work *work) {
    __m512bh x = _mm512_cvtne2ps_pbh(_mm512_setzero_ps(), _mm512_setzero_ps());
    TWELVE(MAKE_WIDE)
    for (long n = work->repeats; n > 0; n--) {
        TWELVE(BF16_STEP) KEEP(REGISTER) TWELVE(BF16_STEP) KEEP(REGISTER)
    }
    return (double)work->repeats * 24 * 64;
}

TARGET("avx512f,avx512vnni") static double dot_int8_512(Work *work) {
    __m512i x = _mm512_set1_epi8(1);
    TWELVE(MAKE_INT)
    for (long n = work->repeats; n > 0; n--) {
        TWELVE(INT8_STEP) KEEP(REGISTER) TWELVE(INT8_STEP) KEEP(REGISTER)
    }
    return (double)work->repeats * 24 * 128;
}
#endif

/* ---------------------------------------------------------------------- memory
 * Uses the widest vectors available; the asm on each value keeps the compiler from turning
 * loops into calls of memset and memcpy, which move data differently. */

#define HELD(value, constraint) __asm__ volatile("" : constraint(value));
#define DONE __asm__ volatile("" ::: "memory");

#define MEMORY(suffix, features, vector, constraint)                                         \
    TARGET(features) static double read_##suffix(Work *work) {                              \
        long count = work->bytes / (long)sizeof(vector);                                    \
        for (long n = work->repeats; n > 0; n--) {                                          \
            vector *p = (vector *)work->first;                                              \
            vector a = {0}, b = {0}, c = {0}, d = {0};                                      \
            for (long i = 0; i < count; i += 4) {                                           \
                a |= p[i], b |= p[i + 1], c |= p[i + 2], d |= p[i + 3];                      \
            }                                                                               \
            HELD(a, constraint) HELD(b, constraint) HELD(c, constraint) HELD(d, constraint)  \
            DONE                                                                            \
        }                                                                                   \
        return (double)work->bytes * work->repeats;                                         \
    }                                                                                       \
    TARGET(features) static double write_##suffix(Work *work) {                             \
        long count = work->bytes / (long)sizeof(vector);                                    \
        for (long n = work->repeats; n > 0; n--) {                                          \
            vector *p = (vector *)work->first;                                              \
            vector a = {0};                                                                 \
            HELD(a, constraint)                                                             \
            for (long i = 0; i < count; i += 4) {                                           \
                p[i] = a, p[i + 1] = a, p[i + 2] = a, p[i + 3] = a;                          \
            }                                                                               \
            DONE                                                                            \
        }                                                                                   \
        return (double)work->bytes * work->repeats;                                         \
    }                                                                                       \
    TARGET(features) static double copy_##suffix(Work *work) {                              \
        long count = work->bytes / (long)sizeof(vector);                                    \
        for (long n = work->repeats; n > 0; n--) {                                          \
            vector *p = (vector *)work->first, *q = (vector *)work->second;                 \
            for (long i = 0; i < count; i += 2) {                                           \
                vector a = p[i], b = p[i + 1];                                              \
                HELD(a, constraint) HELD(b, constraint)                                     \
                q[i] = a, q[i + 1] = b;                                                     \
            }                                                                               \
            DONE                                                                            \
        }                                                                                   \
        return 2.0 * work->bytes * work->repeats;                                           \
    }

#define TRIAD(suffix, features, vector, constraint)                                          \
    TARGET(features) static double triad_##suffix(Work *work) {                             \
        long count = work->bytes / (long)sizeof(vector);                                    \
        for (long n = work->repeats; n > 0; n--) {                                          \
            vector *p = (vector *)work->first, *q = (vector *)work->second;                 \
            vector *r = (vector *)work->third, x = (vector){0} + 3.0;                        \
            for (long i = 0; i < count; i += 2) {                                           \
                vector a = p[i] + x * q[i], b = p[i + 1] + x * q[i + 1];                     \
                HELD(a, constraint) HELD(b, constraint)                                     \
                r[i] = a, r[i + 1] = b;                                                     \
            }                                                                               \
            DONE                                                                            \
        }                                                                                   \
        return 3.0 * work->bytes * work->repeats;                                           \
    }

typedef int64_t i2 __attribute__((vector_size(16)));
MEMORY(128, PLAIN, i2, REGISTER_SMALL)
TRIAD(128, PLAIN, d2, REGISTER_SMALL)
#if defined(__x86_64__)
typedef int64_t i4 __attribute__((vector_size(32)));
typedef int64_t i8 __attribute__((vector_size(64)));
MEMORY(256, "avx2", i4, REGISTER_SMALL)
TRIAD(256, "avx2,fma", d4, REGISTER_SMALL)
MEMORY(512, "avx512f", i8, REGISTER)
TRIAD(512, "avx512f", d8, REGISTER)

/* Non-temporal stores: the target cache line is not read first. */
TARGET("avx2") static double stream_256(Work *work) {
    long count = work->bytes / 32;
    for (long n = work->repeats; n > 0; n--) {
        __m256i *p = (__m256i *)work->first, *q = (__m256i *)work->second;
        for (long i = 0; i < count; i += 2) {
            _mm256_stream_si256(q + i, p[i]);
            _mm256_stream_si256(q + i + 1, p[i + 1]);
        }
        _mm_sfence();
    }
    return 2.0 * work->bytes * work->repeats;
}
#endif

/* A chain of dependent integer additions: one cycle each on every processor. */
static double chain(Work *work) {
    uint64_t a = 1;
    for (long n = work->repeats; n > 0; n--) {
#define STEP __asm__ volatile(ADD : "+r"(a));
#if defined(__x86_64__)
#define ADD "add $1, %0"
#else
#define ADD "add %0, %0, #1"
#endif
        STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
        STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
        STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
        STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
    }
    return (double)work->repeats * 64;
}

/* ---------------------------------------------------------------- available kernels */

enum { ALWAYS, FMA, AVX2, AVX2_FMA, AVX512, BF16, VNNI };

static int is_there(int need) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    switch (need) {
    case FMA: return HAS("fma");
    case AVX2: return HAS("avx2");
    case AVX2_FMA: return HAS("avx2") && HAS("fma");
    case AVX512: return HAS("avx512f");
#ifdef HAS_NARROW
    case BF16: return HAS("avx512bf16");
    case VNNI: return HAS("avx512vnni");
#endif
    default: return need == ALWAYS;
    }
#else
    return need == ALWAYS || need == FMA;
#endif
}

/* `arrays`: number of arrays used. Names are "pattern element width". */
static const struct {
    const char *name;
    Kernel kernel;
    int need, arrays;
} kernels[] = {
    {"chain int64 scalar", chain, ALWAYS, 0},
    {"fma fp64 scalar", fma_fp64_scalar, FMA, 0},
    {"fma fp32 scalar", fma_fp32_scalar, FMA, 0},
    {"fma fp64 128", fma_fp64_128, FMA, 0},
    {"fma fp32 128", fma_fp32_128, FMA, 0},
#if defined(__x86_64__)
    {"fma fp64 256", fma_fp64_256, AVX2_FMA, 0},
    {"fma fp32 256", fma_fp32_256, AVX2_FMA, 0},
    {"add fp64 256", add_fp64_256, AVX2, 0},
    {"add fp32 256", add_fp32_256, AVX2, 0},
    {"fma fp64 512", fma_fp64_512, AVX512, 0},
    {"fma fp32 512", fma_fp32_512, AVX512, 0},
    {"add fp64 512", add_fp64_512, AVX512, 0},
    {"add fp32 512", add_fp32_512, AVX512, 0},
#endif
#ifdef HAS_NARROW
    {"dot bf16 512", dot_bf16_512, BF16, 0},
    {"dot int8 512", dot_int8_512, VNNI, 0},
#endif
    {"read bytes 128", read_128, ALWAYS, 1},
    {"write bytes 128", write_128, ALWAYS, 1},
    {"copy bytes 128", copy_128, ALWAYS, 2},
    {"triad bytes 128", triad_128, ALWAYS, 3},
#if defined(__x86_64__)
    {"read bytes 256", read_256, AVX2, 1},
    {"write bytes 256", write_256, AVX2, 1},
    {"copy bytes 256", copy_256, AVX2, 2},
    {"stream bytes 256", stream_256, AVX2, 2},
    {"triad bytes 256", triad_256, AVX2_FMA, 3},
    {"read bytes 512", read_512, AVX512, 1},
    {"write bytes 512", write_512, AVX512, 1},
    {"copy bytes 512", copy_512, AVX512, 2},
    {"triad bytes 512", triad_512, AVX512, 3},
#endif
};
#define KERNELS (int)(sizeof kernels / sizeof *kernels)

/* ------------------------------------------------------------------- measuring */

typedef struct {
    Kernel kernel;
    int arrays, threads, windows, patience, done;
    long bytes, repeats;
    double seconds;
    pthread_barrier_t together;
    double *rates; /* one per window */
    int failed;    /* out of memory */
} Run;

typedef struct {
    Run *run;
    int index, cpu;
    Work work;
    double amount, started, ended;
    struct Seat *others;
} Seat;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *make_array(long bytes) {
    const long huge = 2 << 20;
    long size = (bytes + 2 * huge - 1) & -huge;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 1, size);
    return memory;
}

static void drop_array(char *memory, long bytes) {
    const long huge = 2 << 20;
    if (memory)
        munmap(memory, (bytes + 2 * huge - 1) & -huge);
}

/* Number of repetitions that fills a window, determined on one thread. */
static long fitting_repeats(Kernel kernel, Work *work, double seconds) {
    for (work->repeats = 1;; work->repeats *= 2) {
        double start = now();
        kernel(work);
        double took = now() - start;
        if (took > seconds / 4 || work->repeats > (1L << 50)) {
            long fits = (long)((double)work->repeats * seconds / took);
            return fits < 1 ? 1 : fits;
        }
    }
}

/* One rate for all threads' windows: the total work, from the first start to the last end. */
static void note_window(Run *run, Seat *seats, int window, double *best, int *since) {
    double amount = 0, first = seats[0].started, last = seats[0].ended;
    for (int i = 0; i < run->threads; i++) {
        amount += seats[i].amount;
        first = seats[i].started < first ? seats[i].started : first;
        last = seats[i].ended > last ? seats[i].ended : last;
    }
    double rate = run->rates[window] = amount / (last - first);
    run->done = window + 1;
    *since = rate > *best * 1.001 ? 0 : *since + 1;
    *best = rate > *best ? rate : *best;
}

static void *take_part(void *argument) {
    Seat *seat = argument;
    Run *run = seat->run;
    Seat *seats = (Seat *)seat->others;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(seat->cpu, &only);
    sched_setaffinity(0, sizeof only, &only); /* without permission, run unpinned */
    Work *work = &seat->work;
    work->bytes = run->bytes;
    char **arrays[] = {&work->first, &work->second, &work->third};
    for (int i = 0; i < run->arrays; i++)
        if (!(*arrays[i] = make_array(run->bytes)))
            __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&run->together);
    if (!__atomic_load_n(&run->failed, __ATOMIC_RELAXED)) {
        if (seat->index == 0)
            run->repeats = fitting_repeats(run->kernel, work, run->seconds);
        pthread_barrier_wait(&run->together);
        work->repeats = run->repeats;
        double best = 0;
        int since = 0;
        for (int window = 0; window < run->windows; window++) {
            pthread_barrier_wait(&run->together);
            seat->started = now();
            seat->amount = run->kernel(work);
            seat->ended = now();
            pthread_barrier_wait(&run->together);
            if (seat->index == 0) {
                note_window(run, seats, window, &best, &since);
                if (since >= run->patience)
                    run->windows = 0; /* read by all threads after the next barrier */
            }
            pthread_barrier_wait(&run->together);
        }
    }
    for (int i = 0; i < run->arrays; i++)
        drop_array(*arrays[i], run->bytes);
    return NULL;
}

static PyObject *measure(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *cpus;
    Run run = {0};
    if (!PyArg_ParseTuple(args, "sO!ldii", &name, &PyTuple_Type, &cpus, &run.bytes, &run.seconds,
                          &run.windows, &run.patience))
        return NULL;
    int which = 0;
    while (which < KERNELS && strcmp(kernels[which].name, name))
        which++;
    if (which == KERNELS || !is_there(kernels[which].need))
        return PyErr_Format(PyExc_ValueError, "this processor has no kernel '%s'", name);
    run.kernel = kernels[which].kernel;
    run.arrays = kernels[which].arrays;
    run.threads = (int)PyTuple_GET_SIZE(cpus);
    if (run.threads < 1 || run.threads > MOST_THREADS || run.windows < 1 || run.seconds <= 0)
        return PyErr_Format(PyExc_ValueError, "1 to %d CPUs, 1 window or more", MOST_THREADS);
    run.bytes &= -256L; /* loops process 256 bytes at a time */
    if (run.arrays && run.bytes < 256)
        return PyErr_Format(PyExc_ValueError, "a working set of 256 bytes or more");
    Seat *seats = calloc(run.threads, sizeof *seats);
    pthread_t *threads = calloc(run.threads, sizeof *threads);
    run.rates = calloc(run.windows, sizeof *run.rates);
    PyObject *result = NULL;
    if (!seats || !threads || !run.rates) {
        PyErr_NoMemory();
        goto end;
    }
    for (int i = 0; i < run.threads; i++) {
        seats[i].run = &run, seats[i].index = i, seats[i].others = (struct Seat *)seats;
        seats[i].cpu = (int)PyLong_AsLong(PyTuple_GET_ITEM(cpus, i));
        if (PyErr_Occurred())
            goto end;
        if (seats[i].cpu < 0 || seats[i].cpu >= CPU_SETSIZE) {
            PyErr_Format(PyExc_ValueError, "there is no CPU %d", seats[i].cpu);
            goto end;
        }
    }
    int begun = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_barrier_init(&run.together, NULL, run.threads);
    while (begun < run.threads &&
           !pthread_create(&threads[begun], NULL, take_part, &seats[begun]))
        begun++;
    if (begun == run.threads) {
        for (int i = 0; i < begun; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&run.together);
    }
    Py_END_ALLOW_THREADS
    if (begun < run.threads) {
        /* The threads that wait for the missing ones never end: do not free their memory. */
        PyErr_Format(PyExc_OSError, "only %d of %d threads could be started", begun, run.threads);
        return NULL;
    }
    if (run.failed) {
        PyErr_Format(PyExc_MemoryError, "no memory for %d times %ld bytes",
                     run.threads * run.arrays, run.bytes);
        goto end;
    }
    result = PyList_New(run.done);
    for (int i = 0; result && i < run.done; i++) {
        PyObject *rate = PyFloat_FromDouble(run.rates[i]);
        if (!rate)
            Py_CLEAR(result);
        else
            PyList_SET_ITEM(result, i, rate);
    }
end:
    free(seats);
    free(threads);
    free(run.rates);
    return result;
}

static PyObject *list_kernels(PyObject *module, PyObject *unused) {
    PyObject *result = PyList_New(0);
    for (int i = 0; result && i < KERNELS; i++) {
        if (!is_there(kernels[i].need))
            continue;
        PyObject *name = PyUnicode_FromString(kernels[i].name);
        if (!name || PyList_Append(result, name))
            Py_CLEAR(result);
        Py_XDECREF(name);
    }
    return result;
}

/* Launch one kernel (one block of one thread) repeatedly through the CUDA driver API. In C, because
 * a call through ctypes takes as long as a launch. */
static PyObject *launches(PyObject *module, PyObject *args) {
    unsigned long long launch_at, wait_at, record_at, kernel, stream, begin, end;
    int count, status = 0;
    if (!PyArg_ParseTuple(args, "KKKKKKKi", &launch_at, &wait_at, &record_at, &kernel, &stream,
                          &begin, &end, &count))
        return NULL;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **) = (void *)launch_at;
    int (*wait)(void *) = (void *)wait_at;
    int (*record)(void *, void *) = (void *)record_at;
    struct timespec from, to;
    Py_BEGIN_ALLOW_THREADS
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (record)
        status = record((void *)begin, (void *)stream);
    for (int i = 0; i < count && !status; i++)
        status = launch((void *)kernel, 1, 1, 1, 1, 1, 1, 0, (void *)stream, NULL, NULL);
    if (record && !status)
        status = record((void *)end, (void *)stream);
    if (!status)
        status = wait((void *)stream);
    clock_gettime(CLOCK_MONOTONIC, &to);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("id", status,
                         (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
}

static PyMethodDef methods[] = {
    {"launches", launches, METH_VARARGS,
     "launches(launch, wait, record, kernel, stream, begin, end, count)\n--\n\n"
     "Launch a kernel without arguments so often, then wait: (status, seconds)."},
    {"measure", measure, METH_VARARGS,
     "measure(kernel, cpus, bytes, seconds, windows, patience)\n--\n\n"
     "Rates of a kernel, one a window: operations or bytes a second, all CPUs together.\n\n"
     "kernel: one of kernels(). cpus: one thread is pinned to each. bytes: of each array of\n"
     "each thread. seconds: length of a window. windows: at most so many; patience: stop\n"
     "after so many without a better one."},
    {"kernels", list_kernels, METH_NOARGS,
     "kernels()\n--\n\nNames of the kernels that this processor can run."},
    {0},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "taupy._native.micro",
    .m_doc = "Micro-kernels: how fast this processor computes and moves bytes, at most.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_micro(void) { return PyModuleDef_Init(&definition); }
