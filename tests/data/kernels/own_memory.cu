// Values kept in local memory are each thread's own: an indexed array, or a spilled pointer.
// own_memory.cubin.xz is made by: nvcc -arch=sm_90 -cubin own_memory.cu (recorded with 13.0)

extern "C" __global__ void stack_branch(const int *idx, float *o, int n) {
  int v[64];
  for (int i = 0; i < 64; i++) v[i] = 0;
  for (int i = 0; i < n; i++) v[idx[i] & 63] = threadIdx.x * 7 + i;
  int t = v[n & 63];  // the same address in all threads, but not the same value
  if (t & 1) {
    for (int k = 0; k < n; k++) o[threadIdx.x] += 3.f;
  } else {
    o[threadIdx.x + 64] = 2.f;
  }
}

extern "C" __global__ void stack_index(const int *idx, float *o, int n) {
  int v[64];
  for (int i = 0; i < 64; i++) v[i] = 0;
  for (int i = 0; i < n; i++) v[idx[i] & 63] = threadIdx.x * 9 + i;
  o[v[n & 63]] = 1.f;  // neighbouring threads are 36 bytes apart, if n > 0
}

// The base pointer is spilled: the stores are 64 bytes apart.
extern "C" __global__ void __launch_bounds__(1024) spill_stride(const float *a, float *b) {
  float v[80];
#pragma unroll
  for (int i = 0; i < 80; i++) v[i] = a[threadIdx.x + i * 1024];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 3; k++) {
#pragma unroll
    for (int i = 0; i < 80; i++) v[i] = v[i] * v[(i * 7 + 3) % 80] + v[(i + 11) % 80];
  }
#pragma unroll
  for (int i = 0; i < 80; i++) b[threadIdx.x * 16 + i * 16384] = v[i];
}
