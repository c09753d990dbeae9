/* The loops of known_work.h. */
#include "known_work.h"

#if defined(__x86_64__)
#define KNOWN_LOOP(count, one, ...)                                                                \
    __asm__ volatile("1:\n\t" one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7)              \
                     "decq %0\n\tjnz 1b"                                                           \
                     : "+r"(count)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",  \
                       "xmm7", "memory")
#define ONE_ADD(n) "addsd %%xmm" #n ", %%xmm" #n "\n\t"
#define ONE_FMA256(n) "vfmadd231pd %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n\t"
#define ONE_FMA512(n) "vfmadd231pd %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"

/* Operands are zero: other values would become denormal or infinite, and slow. */
static void known_scalar(uint64_t count)
{
    __asm__ volatile("xorps %%xmm0, %%xmm0\n\txorps %%xmm1, %%xmm1\n\txorps %%xmm2, %%xmm2\n\t"
                     "xorps %%xmm3, %%xmm3\n\txorps %%xmm4, %%xmm4\n\txorps %%xmm5, %%xmm5\n\t"
                     "xorps %%xmm6, %%xmm6\n\txorps %%xmm7, %%xmm7" ::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
    KNOWN_LOOP(count, ONE_ADD);
}

static void known_fma256(uint64_t count)
{
    __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    KNOWN_LOOP(count, ONE_FMA256);
    __asm__ volatile("vzeroupper");
}

static void known_fma512(uint64_t count)
{
    __asm__ volatile("vzeroall" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    KNOWN_LOOP(count, ONE_FMA512);
    __asm__ volatile("vzeroupper");
}

/* 64-byte lines from memory: written, then flushed from all caches. */
void known_lines_prepare(char *memory, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        memory[i * 64] = (char)i;
        __asm__ volatile("clflush (%0)" ::"r"(memory + i * 64) : "memory");
    }
    __asm__ volatile("mfence" ::: "memory");
}

int known_work_possible(enum KnownWork work)
{
    if (work == WORK_FMA256)
        return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
    if (work == WORK_FMA512)
        return __builtin_cpu_supports("avx512f");
    return 1;
}
#else
static void known_scalar(uint64_t count) { (void)count; }
static void known_fma256(uint64_t count) { (void)count; }
static void known_fma512(uint64_t count) { (void)count; }
void known_lines_prepare(char *memory, uint64_t count) { (void)memory, (void)count; }
int known_work_possible(enum KnownWork work)
{
    return work == WORK_NONE || work == WORK_PAGES;
}
#endif

void known_work(enum KnownWork work, uint64_t count, volatile char *memory)
{
    if (work == WORK_SCALAR)
        known_scalar(count);
    else if (work == WORK_FMA256)
        known_fma256(count);
    else if (work == WORK_FMA512)
        known_fma512(count);
    else if (work == WORK_LINES)
        for (uint64_t i = 0; i < count; i++)
            (void)memory[i * 64];
    else if (work == WORK_PAGES)
        for (uint64_t i = 0; i < count; i++)
            memory[i * 4096] = 1;
}
