// Kernels whose instructions can be counted by hand. `expected.py` says what each must have and
// why; `compile.py` makes the cubins from this file with NVRTC.

#define GLOBAL extern "C" __global__ void

// --- what moves, and how wide ---------------------------------------------------------------

GLOBAL saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

GLOBAL daxpy(double *y, const double *x, double a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + y[i];
}

GLOBAL haxpy(unsigned *y, const unsigned *x, unsigned a) {  // two halves in a word
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(x[i]), "r"(y[i]));
    y[i] = r;
}

GLOBAL copy16(float4 *y, const float4 *x) { y[threadIdx.x] = x[threadIdx.x]; }
GLOBAL copy8(float2 *y, const float2 *x) { y[threadIdx.x] = x[threadIdx.x]; }
GLOBAL copy1(char *y, const char *x) { y[threadIdx.x] = x[threadIdx.x]; }

// --- how neighbours' addresses lie ----------------------------------------------------------

GLOBAL every_second(float *y, const float *x) { y[threadIdx.x] = x[threadIdx.x * 2]; }
GLOBAL column(float *y, const float *x, int n) { y[threadIdx.x] = x[threadIdx.x * n]; }
GLOBAL broadcast(float *y, const float *x) { y[threadIdx.x] = x[blockIdx.x]; }
GLOBAL gather(float *y, const float *x, const int *at) { y[threadIdx.x] = x[at[threadIdx.x]]; }

GLOBAL reversed(float *y, const float *x) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[255 - threadIdx.x];
}

GLOBAL bank_pairs(float *y, const float *x) {
    __shared__ float tile[512];
    tile[threadIdx.x * 2] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

GLOBAL one_bank(float *y, const float *x) {
    __shared__ float tile[32 * 32];
    tile[threadIdx.x * 32] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

// --- loops ------------------------------------------------------------------------------------

GLOBAL one_loop(float *y, const float *x, int n) {
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++) sum += x[j * 256 + threadIdx.x];
    y[threadIdx.x] = sum;
}

GLOBAL two_loops(float *y, const float *x, int n, int m) {
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++)
#pragma unroll 1
        for (int k = 0; k < m; k++) sum = sum * x[k * 256 + threadIdx.x] + y[j];
    y[threadIdx.x] = sum;
}

GLOBAL three_loops(float *y, const float *x, int n, int m, int l) {
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++)
#pragma unroll 1
        for (int k = 0; k < m; k++)
#pragma unroll 1
            for (int i = 0; i < l; i++) sum += x[(j + k + i) * 256 + threadIdx.x];
    y[threadIdx.x] = sum;
}

GLOBAL unrolled_in_loop(float *y, const float *x, int n) {
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sum += x[(j * 4 + k) * 256 + threadIdx.x];
    y[threadIdx.x] = sum;
}

GLOBAL unrolled(float *y, const float *x) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) sum = sum * x[k * 256 + threadIdx.x] + 1.0f;
    y[threadIdx.x] = sum;
}

GLOBAL barriers_in_loop(float *y, const float *x, int n) {
    __shared__ float tile[256];
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++) {
        tile[threadIdx.x] = x[j * 256 + threadIdx.x];
        __syncthreads();
        sum += tile[255 - threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

// --- registers and the stack ------------------------------------------------------------------

#define MANY_REGISTERS                                                                            \
    float a[100];                                                                                 \
    _Pragma("unroll") for (int i = 0; i < 100; i++) a[i] = x[i * n];                              \
    _Pragma("unroll 1") for (int j = 0; j < n; j++)                                               \
        _Pragma("unroll") for (int i = 0; i < 100; i++) a[i] = a[i] * a[(i + 1) % 100] + a[(i + 37) % 100]; \
    _Pragma("unroll") for (int i = 0; i < 100; i++) x[i] = a[i];

GLOBAL __maxnreg__(32) spilling(float *x, int n) { MANY_REGISTERS }
GLOBAL not_spilling(float *x, int n) { MANY_REGISTERS }

GLOBAL local_array(int *x, int n) {
    int a[64];
#pragma unroll 1
    for (int i = 0; i < n; i++) a[x[i] & 63] = i;
    x[threadIdx.x] = a[x[threadIdx.x] & 63];
}

// --- control ----------------------------------------------------------------------------------

GLOBAL divergent(float *y, int n) {
    if (threadIdx.x & 1) {
#pragma unroll 1
        for (int j = 0; j < n; j++) y[j * 64] = j;
    }
}

GLOBAL uniform(float *y, int n, int m) {
    if (m > 7) {
#pragma unroll 1
        for (int j = 0; j < n; j++) y[j * 64 + threadIdx.x] = j;
    }
}

__device__ __noinline__ float other(float a, float b) { return a * b + 1.0f / a; }
GLOBAL calling(float *y) { y[threadIdx.x] = other(y[threadIdx.x], y[threadIdx.x + 32]); }

GLOBAL atomics(int *x, int *y) {
    __shared__ int sum;
    atomicAdd(&sum, x[threadIdx.x]);
    __syncthreads();
    atomicAdd(y + threadIdx.x, sum);
}

GLOBAL shuffles(float *y) {
    float sum = y[threadIdx.x];
#pragma unroll
    for (int by = 16; by; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
    y[threadIdx.x] = sum;
}

GLOBAL special(float *y) { y[threadIdx.x] = __sinf(y[threadIdx.x]) + __cosf(y[threadIdx.x]); }
GLOBAL converting(double *y, const int *x) { y[threadIdx.x] = x[threadIdx.x]; }

__constant__ float table[64];
GLOBAL constants(float *y, const int *x) { y[threadIdx.x] = table[x[threadIdx.x]]; }

// --- tensor cores -----------------------------------------------------------------------------

GLOBAL mma_f16(float *d, const unsigned *a) {
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a[0]), "r"(a[1]), "r"(a[2]));
    d[threadIdx.x] = c0 + c1 + c2 + c3;
}

GLOBAL mma_s8(int *d, const unsigned *a) {
    int c0 = 0, c1 = 0;
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1},{%2},{%3},{%0,%1};"
                 : "+r"(c0), "+r"(c1) : "r"(a[0]), "r"(a[1]));
    d[threadIdx.x] = c0 + c1;
}

#if __CUDA_ARCH__ >= 800
#define MMA_16(NAME, SHAPE)                                                                       \
    GLOBAL NAME(float *d, const unsigned *a) {                                                    \
        float c0 = 0, c1 = 0, c2 = 0, c3 = 0;                                                     \
        asm volatile("mma.sync.aligned." SHAPE " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));         \
        d[threadIdx.x] = c0 + c1 + c2 + c3;                                                       \
    }
MMA_16(mma_f16_deep, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_16(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_16(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")

GLOBAL mma_f64(double *d, const double *a) {
    double c0 = 0, c1 = 0;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                 : "+d"(c0), "+d"(c1) : "d"(a[0]), "d"(a[1]));
    d[threadIdx.x] = c0 + c1;
}
#endif

#if __CUDA_ARCH__ >= 890
MMA_16(mma_fp8, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
#endif
