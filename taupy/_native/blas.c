/* A BLAS between a program and its real BLAS, which derives the operations of a call from its
 * shape.
 *
 * Loaded with RTLD_GLOBAL before NumPy, so that this library's functions are found first. Each
 * reports to `taupy_blas_note` the operations and the minimum number of bytes moved (each operand
 * read once, each result written once), then calls the function its caller would have had without
 * us: the one the caller's own library resolves. Only shapes are inspected, never data. A BLAS
 * function that calls another one counts once. */
#define _GNU_SOURCE
#include <Python.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* precision: 32 or 64, the bits of a real number. Set by the engine while it records. */
EXPORT void (*taupy_blas_note)(int precision, double flop, double bytes);

static __thread int inside;

typedef struct {
    void *caller, *function;
} Known;

#define KNOWN 4

/* The function the caller's library would have called; the program cannot continue without it. */
static void *real_function(Known *known, void *caller, const char *name)
{
    for (int i = 0; i < KNOWN; i++) {
        void *there = __atomic_load_n(&known[i].caller, __ATOMIC_ACQUIRE);
        if (there == caller)
            return known[i].function;
    }
    Dl_info library;
    void *handle = NULL, *function = NULL;
    if (dladdr(caller, &library) && library.dli_fname != NULL)
        handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL) {
        function = dlsym(handle, name);
        dlclose(handle);
    }
    if (function == NULL) /* called by the main program, or from JIT-compiled code */
        function = dlsym(RTLD_NEXT, name);
    if (function == NULL) {
        fprintf(stderr, "taupy: %s is called, and no library has it\n", name);
        abort();
    }
    static int lock;
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        ;
    for (int i = 0; i < KNOWN; i++)
        if (known[i].caller == NULL) {
            known[i].function = function;
            __atomic_store_n(&known[i].caller, caller, __ATOMIC_RELEASE);
            break;
        }
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    return function;
}

static void note(int precision, double flop, double bytes)
{
    void (*told)(int, double, double) = __atomic_load_n(&taupy_blas_note, __ATOMIC_RELAXED);
    if (told != NULL && inside == 1)
        told(precision, flop, bytes);
}

#define REAL(name, type)                                                                           \
    static Known known[KNOWN];                                                                     \
    type real = (type)real_function(known, __builtin_return_address(0), name)

/* Results are written, and also read first unless beta is 0. */
#define TIMES(beta) ((beta) == 0 ? 1.0 : 2.0)
#define TIMES_COMPLEX(T, beta) (((const T *)(beta))[0] == 0 && ((const T *)(beta))[1] == 0 ? 1.0 : 2.0)

/* Arguments of one naming variant: INT has the width that variant uses. */

#define GEMM(NAME, INT, SCALAR, BITS, SIZE, PER, AGAIN)                                             \
    typedef void (*NAME##_t)(int, int, int, INT, INT, INT, SCALAR, const void *, INT, const void *, \
                             INT, SCALAR, void *, INT);                                            \
    EXPORT void NAME(int order, int ta, int tb, INT m, INT n, INT k, SCALAR alpha, const void *a,   \
                     INT lda, const void *b, INT ldb, SCALAR beta, void *c, INT ldc)                \
    {                                                                                              \
        REAL(#NAME, NAME##_t);                                                                     \
        inside++;                                                                                  \
        note(BITS, PER * (double)m * n * k,                                                        \
             SIZE * ((double)m * k + (double)k * n + AGAIN * (double)m * n));                      \
        real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                         \
        inside--;                                                                                  \
    }

#define GEMV(NAME, INT, SCALAR, BITS, SIZE, PER, AGAIN)                                             \
    typedef void (*NAME##_t)(int, int, INT, INT, SCALAR, const void *, INT, const void *, INT,      \
                             SCALAR, void *, INT);                                                 \
    EXPORT void NAME(int order, int t, INT m, INT n, SCALAR alpha, const void *a, INT lda,          \
                     const void *x, INT incx, SCALAR beta, void *y, INT incy)                      \
    {                                                                                              \
        REAL(#NAME, NAME##_t);                                                                     \
        inside++;                                                                                  \
        note(BITS, PER * (double)m * n,                                                            \
             SIZE * ((double)m * n + (t == 111 ? n + AGAIN * m : m + AGAIN * n)));                 \
        real(order, t, m, n, alpha, a, lda, x, incx, beta, y, incy);                               \
        inside--;                                                                                  \
    }

#define SYRK(NAME, INT, SCALAR, BITS, SIZE, PER, AGAIN)                                             \
    typedef void (*NAME##_t)(int, int, int, INT, INT, SCALAR, const void *, INT, SCALAR, void *,    \
                             INT);                                                                 \
    EXPORT void NAME(int order, int uplo, int t, INT n, INT k, SCALAR alpha, const void *a,         \
                     INT lda, SCALAR beta, void *c, INT ldc)                                       \
    {                                                                                              \
        REAL(#NAME, NAME##_t);                                                                     \
        inside++;                                                                                  \
        note(BITS, PER * (double)n * (n + 1) / 2 * k,                                              \
             SIZE * ((double)n * k + AGAIN * (double)n * (n + 1) / 2));                            \
        real(order, uplo, t, n, k, alpha, a, lda, beta, c, ldc);                                   \
        inside--;                                                                                  \
    }

#define DOT(NAME, INT, TYPE, BITS)                                                                 \
    typedef TYPE (*NAME##_t)(INT, const void *, INT, const void *, INT);                           \
    EXPORT TYPE NAME(INT n, const void *x, INT incx, const void *y, INT incy)                      \
    {                                                                                              \
        REAL(#NAME, NAME##_t);                                                                     \
        inside++;                                                                                  \
        note(BITS, 2.0 * n, 2.0 * sizeof(TYPE) * n);                                               \
        TYPE result = real(n, x, incx, y, incy);                                                   \
        inside--;                                                                                  \
        return result;                                                                             \
    }

#define AXPY(NAME, INT, SCALAR, BITS, SIZE, PER)                                                    \
    typedef void (*NAME##_t)(INT, SCALAR, const void *, INT, void *, INT);                         \
    EXPORT void NAME(INT n, SCALAR alpha, const void *x, INT incx, void *y, INT incy)              \
    {                                                                                              \
        REAL(#NAME, NAME##_t);                                                                     \
        inside++;                                                                                  \
        note(BITS, PER * (double)n, SIZE * 3.0 * n);                                               \
        real(n, alpha, x, incx, y, incy);                                                          \
        inside--;                                                                                  \
    }

/* Fortran interface: everything by reference; string lengths come last. */
#define F_GEMM(NAME, INT, T, BITS, SIZE, PER, AGAIN)                                                \
    typedef void (*NAME##_t)(const char *, const char *, const INT *, const INT *, const INT *,     \
                             const T *, const void *, const INT *, const void *, const INT *,      \
                             const T *, void *, const INT *, size_t, size_t);                      \
    EXPORT void NAME(const char *ta, const char *tb, const INT *m, const INT *n, const INT *k,      \
                     const T *alpha, const void *a, const INT *lda, const void *b, const INT *ldb,  \
                     const T *beta, void *c, const INT *ldc)                                       \
    {                                                                                              \
        REAL(#NAME, NAME##_t);                                                                     \
        inside++;                                                                                  \
        note(BITS, PER * (double)*m * *n * *k,                                                     \
             SIZE * ((double)*m * *k + (double)*k * *n + AGAIN * (double)*m * *n));                \
        real(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, 1, 1);                          \
        inside--;                                                                                  \
    }

#define C_SPELLING(PREFIX, SUFFIX, INT)                                                            \
    GEMM(PREFIX##cblas_sgemm##SUFFIX, INT, float, 32, 4, 2.0, TIMES(beta))                         \
    GEMM(PREFIX##cblas_dgemm##SUFFIX, INT, double, 64, 8, 2.0, TIMES(beta))                        \
    GEMM(PREFIX##cblas_cgemm##SUFFIX, INT, const void *, 32, 8, 8.0, TIMES_COMPLEX(float, beta))   \
    GEMM(PREFIX##cblas_zgemm##SUFFIX, INT, const void *, 64, 16, 8.0, TIMES_COMPLEX(double, beta)) \
    GEMV(PREFIX##cblas_sgemv##SUFFIX, INT, float, 32, 4, 2.0, TIMES(beta))                         \
    GEMV(PREFIX##cblas_dgemv##SUFFIX, INT, double, 64, 8, 2.0, TIMES(beta))                        \
    GEMV(PREFIX##cblas_cgemv##SUFFIX, INT, const void *, 32, 8, 8.0, TIMES_COMPLEX(float, beta))   \
    GEMV(PREFIX##cblas_zgemv##SUFFIX, INT, const void *, 64, 16, 8.0, TIMES_COMPLEX(double, beta)) \
    SYRK(PREFIX##cblas_ssyrk##SUFFIX, INT, float, 32, 4, 2.0, TIMES(beta))                         \
    SYRK(PREFIX##cblas_dsyrk##SUFFIX, INT, double, 64, 8, 2.0, TIMES(beta))                        \
    SYRK(PREFIX##cblas_csyrk##SUFFIX, INT, const void *, 32, 8, 8.0, TIMES_COMPLEX(float, beta))   \
    SYRK(PREFIX##cblas_zsyrk##SUFFIX, INT, const void *, 64, 16, 8.0, TIMES_COMPLEX(double, beta)) \
    DOT(PREFIX##cblas_sdot##SUFFIX, INT, float, 32)                                                \
    DOT(PREFIX##cblas_ddot##SUFFIX, INT, double, 64)                                               \
    AXPY(PREFIX##cblas_saxpy##SUFFIX, INT, float, 32, 4, 2.0)                                      \
    AXPY(PREFIX##cblas_daxpy##SUFFIX, INT, double, 64, 8, 2.0)                                     \
    AXPY(PREFIX##cblas_caxpy##SUFFIX, INT, const void *, 32, 8, 8.0)                               \
    AXPY(PREFIX##cblas_zaxpy##SUFFIX, INT, const void *, 64, 16, 8.0)

#define FORTRAN_SPELLING(PREFIX, SUFFIX, INT)                                                       \
    F_GEMM(PREFIX##sgemm##SUFFIX, INT, float, 32, 4, 2.0, TIMES(*beta))                            \
    F_GEMM(PREFIX##dgemm##SUFFIX, INT, double, 64, 8, 2.0, TIMES(*beta))                           \
    F_GEMM(PREFIX##cgemm##SUFFIX, INT, float, 32, 8, 8.0, TIMES_COMPLEX(float, beta))              \
    F_GEMM(PREFIX##zgemm##SUFFIX, INT, double, 64, 16, 8.0, TIMES_COMPLEX(double, beta))

C_SPELLING(, , int32_t)
C_SPELLING(, 64_, int64_t)
C_SPELLING(scipy_, , int32_t)
C_SPELLING(scipy_, 64_, int64_t)
FORTRAN_SPELLING(, _, int32_t)
FORTRAN_SPELLING(, _64_, int64_t)
FORTRAN_SPELLING(scipy_, _, int32_t)
FORTRAN_SPELLING(scipy_, _64_, int64_t)

/* Built like an extension module, but opened as a plain library. */
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "taupy._native.blas",
    .m_doc = "BLAS between a program and its BLAS; opened by the engine, not imported.",
};

PyMODINIT_FUNC PyInit_blas(void) { return PyModuleDef_Init(&definition); }
