// The GPU's micro-kernels. Compiled at run time for the GPU that is there; no header is
// needed. `impossible` is never true, but the compiler cannot know: results are "used".

typedef unsigned int u32;
typedef unsigned long long u64;

#define EIGHT(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

// ---------------------------------------------------------------- fused multiply-add
// Eight chains a thread; 16 steps of each in one round: 128 FMA a thread and round. The factors are
// not constants for the compiler: with constants it uses one of the two pipes of 16-bit operations.

#define FMA_KERNEL(name, T, start, step)                                                \
    extern "C" __global__ void name(void *out, int rounds, int impossible) {            \
        T a[8], x = start(0.9999f), y = start(1e-4f);                                    \
        if (impossible) { x = start(0.5f * rounds); y = start(0.25f * rounds); }         \
        for (int i = 0; i < 8; i++) a[i] = start(0.5f + 0.001f * (threadIdx.x + i));     \
        _Pragma("unroll 1") for (int r = 0; r < rounds; r++)                            \
            _Pragma("unroll") for (int s = 0; s < 16; s++)                              \
                _Pragma("unroll") for (int i = 0; i < 8; i++) { step }                  \
        if (impossible)                                                                 \
            for (int i = 0; i < 8; i++) ((T *)out)[threadIdx.x * 8 + i] = a[i];          \
    }

__device__ double as_f64(float v) { return v; }
__device__ float as_f32(float v) { return v; }
__device__ u32 as_f16x2(float v) {
    u32 r;
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(r) : "f"(v));
    return r;
}
FMA_KERNEL(fma_fp64, double, as_f64, a[i] = a[i] * x + y;)
FMA_KERNEL(fma_fp32, float, as_f32, a[i] = a[i] * x + y;)
FMA_KERNEL(fma_fp16, u32, as_f16x2,
           asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a[i]) : "r"(x), "r"(y));)
#if __CUDA_ARCH__ >= 800
__device__ u32 as_bf16x2(float v) {
    u32 r;
    asm("{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(r) : "f"(v));
    return r;
}
FMA_KERNEL(fma_bf16, u32, as_bf16x2,
           asm volatile("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(a[i]) : "r"(x), "r"(y));)
#endif

// --------------------------------------------------------------------- tensor cores
// Eight independent accumulators a warp; 4 steps of each in one round: 32 MMA.

#define MMA_KERNEL(name, C, N, start, step)                                             \
    extern "C" __global__ void name(void *out, int rounds, int impossible) {            \
        C c[8][N];                                                                      \
        for (int i = 0; i < 8; i++) for (int j = 0; j < N; j++) c[i][j] = 0;             \
        u32 a0 = start, a1 = start, a2 = start, a3 = start, b0 = start, b1 = start;     \
        double d0 = 1.0, d1 = 0.5;                                                      \
        if (impossible) { a0 = rounds; b1 = rounds; d0 = rounds; d1 = rounds; }          \
        _Pragma("unroll 1") for (int r = 0; r < rounds; r++)                            \
            _Pragma("unroll") for (int s = 0; s < 4; s++)                               \
                _Pragma("unroll") for (int i = 0; i < 8; i++) { step }                  \
        if (impossible)                                                                 \
            for (int i = 0; i < 8; i++)                                                 \
                for (int j = 0; j < N; j++)                                             \
                    ((C *)out)[(threadIdx.x * 8 + i) * N + j] = c[i][j] + (C)(d0 + d1);  \
    }

#define MMA_16816(kind)                                                                 \
    asm volatile("mma.sync.aligned." kind                                               \
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"               \
                 : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])           \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));

#define ONES_F16 0x3c003c00u
#define ONES_BF16 0x3f803f80u
#define ONES_F32 0x3f800000u
#define ONES_INT8 0x01010101u
#define ONES_E4M3 0x38383838u

// Hopper and the data center's Blackwell have no such instruction: NVRTC puts others in its place,
// and takes all of them out of the loop.
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
MMA_KERNEL(mma_fp8, float, 4, ONES_E4M3, MMA_16816("m16n8k32.row.col.f32.e4m3.e4m3.f32"))
#endif
#if __CUDA_ARCH__ >= 800
MMA_KERNEL(mma_fp16, float, 4, ONES_F16, MMA_16816("m16n8k16.row.col.f32.f16.f16.f32"))
MMA_KERNEL(mma_bf16, float, 4, ONES_BF16, MMA_16816("m16n8k16.row.col.f32.bf16.bf16.f32"))
MMA_KERNEL(mma_tf32, float, 4, ONES_F32, MMA_16816("m16n8k8.row.col.f32.tf32.tf32.f32"))
MMA_KERNEL(mma_int8, int, 4, ONES_INT8,
           asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
                        " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                        : "+r"(c[i][0]), "+r"(c[i][1]), "+r"(c[i][2]), "+r"(c[i][3])
                        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));)
#if __CUDA_ARCH__ >= 900 // the smaller one leaves every other slot empty there
MMA_KERNEL(mma_fp64, double, 4, 0,
           asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"
                        " {%0,%1,%2,%3}, {%4,%5,%4,%5,%4,%5,%4,%5}, {%4,%5,%4,%5}, {%0,%1,%2,%3};"
                        : "+d"(c[i][0]), "+d"(c[i][1]), "+d"(c[i][2]), "+d"(c[i][3])
                        : "d"(d0), "d"(d1));)
#else
MMA_KERNEL(mma_fp64, double, 2, 0,
           asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
                        " {%0,%1}, {%2}, {%3}, {%0,%1};"
                        : "+d"(c[i][0]), "+d"(c[i][1]) : "d"(d0), "d"(d1));)
#endif
#elif __CUDA_ARCH__ >= 750
MMA_KERNEL(mma_fp16, float, 4, ONES_F16,
           asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
                        " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                        : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
                        : "r"(a0), "r"(a1), "r"(b0));)
MMA_KERNEL(mma_int8, int, 2, ONES_INT8,
           asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"
                        " {%0,%1}, {%2}, {%3}, {%0,%1};"
                        : "+r"(c[i][0]), "+r"(c[i][1]) : "r"(a0), "r"(b0));)
#elif __CUDA_ARCH__ >= 700
MMA_KERNEL(mma_fp16, float, 8, ONES_F16,
           asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
                        " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11},"
                        " {%0,%1,%2,%3,%4,%5,%6,%7};"
                        : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]),
                          "+f"(c[i][4]), "+f"(c[i][5]), "+f"(c[i][6]), "+f"(c[i][7])
                        : "r"(a0), "r"(a1), "r"(b0), "r"(b1));)
#endif

// -------------------------------------------------------------------------- memory
// 16 bytes a thread and access, in strides of the grid; `bytes` of each array, `rounds` times.
// Four accesses are under way at once where that many are left. `.cg` keeps out of L1.

#define LOAD(how, v, p)                                                                 \
    asm volatile("ld.global" how ".v4.u32 {%0,%1,%2,%3}, [%4];"                         \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p))
#define STORE(p, v)                                                                     \
    asm volatile("st.global.cg.v4.u32 [%0], {%1,%2,%3,%4};"                             \
                 :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory")
#define MEMORY_KERNEL(name)                                                             \
    extern "C" __global__ void __launch_bounds__(256, 8) name(                          \
        uint4 *a, uint4 *b, uint4 *c, u64 bytes, int rounds, int impossible)
#define EACH(n, DO)                                                                     \
    _Pragma("unroll 1") for (int r = 0; r < rounds; r++) {                              \
        u32 i = blockIdx.x * blockDim.x + threadIdx.x;                                  \
        _Pragma("unroll 1") for (; i + (n - 1) * stride < count; i += n * stride) DO(n)  \
        _Pragma("unroll 1") for (; i < count; i += stride) DO(1)                        \
    }
#define UNROLLED(n) _Pragma("unroll") for (int k = 0; k < n; k++)

#define GRID u32 count = bytes / 16, stride = gridDim.x * blockDim.x

#define READ(n) {                                                                       \
    uint4 v[n];                                                                         \
    UNROLLED(n) LOAD(".cg", v[k], a + i + k * stride);                                  \
    UNROLLED(n) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w; }
MEMORY_KERNEL(read_global) {
    GRID;
    u32 sum = 0;
    EACH(4, READ)
    if (impossible && sum == 1234567) b[threadIdx.x].x = sum;
}

#define WRITE(n) { UNROLLED(n) STORE(a + i + k * stride, v); }
MEMORY_KERNEL(write_global) {
    GRID;
    uint4 v = make_uint4(rounds, 1, 2, 3);
    EACH(4, WRITE)
}

#define COPY(n) {                                                                       \
    uint4 v[n];                                                                         \
    UNROLLED(n) LOAD(".cg", v[k], a + i + k * stride);                                  \
    UNROLLED(n) STORE(b + i + k * stride, v[k]); }
MEMORY_KERNEL(copy_global) {
    GRID;
    EACH(4, COPY)
}

#define SCALED(f) __float_as_uint(__uint_as_float(v[k].f) + 3.0f * __uint_as_float(w[k].f))
#define TRIAD(n) {                                                                      \
    uint4 v[n], w[n];                                                                   \
    UNROLLED(n) { LOAD(".cg", v[k], a + i + k * stride); LOAD(".cg", w[k], b + i + k * stride); } \
    UNROLLED(n) {                                                                       \
        v[k] = make_uint4(SCALED(x), SCALED(y), SCALED(z), SCALED(w));                  \
        STORE(c + i + k * stride, v[k]);                                                \
    } }
MEMORY_KERNEL(triad_global) {
    GRID;
    EACH(2, TRIAD)
}

// Each block of 256 reads its own `bytes`, some 16 KiB, again and again: they lie in its L1.
MEMORY_KERNEL(read_l1) {
    u32 sum = 0, count = bytes / 16;
    const uint4 *own = a + blockIdx.x * count + threadIdx.x;
    _Pragma("unroll 1") for (int r = 0; r < rounds; r++)
        _Pragma("unroll 1") for (u32 i = 0; i < count; i += 1024) {
            uint4 v[4];
            UNROLLED(4) LOAD("", v[k], own + i + k * 256);
            UNROLLED(4) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
        }
    if (impossible && sum == 1234567) b[threadIdx.x].x = sum;
}

// 32 KiB of shared memory a block; half of it is copied to the other half.
#define SHARED_WORDS 2048
extern "C" __global__ void read_shared(uint4 *a, uint4 *b, uint4 *c, u64 bytes, int rounds,
                                       int impossible) {
    __shared__ uint4 own[SHARED_WORDS];
    for (u32 i = threadIdx.x; i < SHARED_WORDS; i += blockDim.x) own[i] = make_uint4(i, 1, 2, 3);
    __syncthreads();
    volatile uint4 *there = own;
    u32 sum = 0;
    u32 at = (u32)__cvta_generic_to_shared((void *)own);
    for (int r = 0; r < rounds; r++)
        _Pragma("unroll 4") for (u32 i = threadIdx.x; i < SHARED_WORDS; i += blockDim.x) {
            uint4 v;
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at + i * 16));
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
    if (impossible && sum == 1234567) b[threadIdx.x].x = sum + there[0].x;
}

extern "C" __global__ void copy_shared(uint4 *a, uint4 *b, uint4 *c, u64 bytes, int rounds,
                                       int impossible) {
    __shared__ uint4 own[SHARED_WORDS];
    for (u32 i = threadIdx.x; i < SHARED_WORDS; i += blockDim.x) own[i] = make_uint4(i, 1, 2, 3);
    __syncthreads();
    u32 at = (u32)__cvta_generic_to_shared((void *)own);
    for (int r = 0; r < rounds; r++)
        _Pragma("unroll 4") for (u32 i = threadIdx.x; i < SHARED_WORDS / 2; i += blockDim.x) {
            uint4 v;
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at + i * 16));
            asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};"
                         :: "r"(at + (SHARED_WORDS / 2 + i) * 16), "r"(v.x), "r"(v.y),
                            "r"(v.z), "r"(v.w) : "memory");
        }
    if (impossible) b[threadIdx.x] = own[threadIdx.x];
}

// ------------------------------------------------------------- clock and launch cost

// Clocks of one multiprocessor over nanoseconds of the GPU's own timer.
extern "C" __global__ void clock_rate(u64 *out, u64 nanoseconds) {
    u64 t0, t1, c0, c1;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
    c0 = clock64();
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
    } while (t1 - t0 < nanoseconds);
    c1 = clock64();
    out[0] = c1 - c0;
    out[1] = t1 - t0;
}

extern "C" __global__ void empty(void) {}
