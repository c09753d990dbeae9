// Kernels with a fault, each with a twin that does what the advice on its code says.

constexpr int WIDTH = 128;

// The sum of each row of a table whose rows lie one after the other: neighbouring threads are 512
// bytes apart. The twin's table has columns that lie one after the other.
extern "C" __global__ void columns(const float *table, float *sums, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int column = 0; column < WIDTH; column++)
        sum += table[row * WIDTH + column];
    sums[row] = sum;
}

extern "C" __global__ void columns_mended(const float *table, float *sums, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int column = 0; column < WIDTH; column++)
        sum += table[column * rows + row];
    sums[row] = sum;
}

// Records of 16 numbers, of which each thread writes eight; the twin has an array for each field.
struct Record { float fields[16]; };

extern "C" __global__ void fields(Record *records, float value, int number)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int field = 0; field < 16; field += 2)
        records[i].fields[field] = value * field + i;
}

extern "C" __global__ void fields_mended(float *arrays, float value, int number)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int field = 0; field < 8; field++)
        arrays[field * number + i] = value * 2 * field + i;
}

// A tile whose columns are read by neighbouring threads, which all hit one bank; the twin's rows
// are padded.
template <typename T, int PITCH> __device__ void turn(const T *from, T *to, int rounds)
{
    __shared__ T tile[32][PITCH];
    int x = threadIdx.x, y = threadIdx.y, block = blockIdx.x * 1024;
    T sum = from[block + y * 32 + x];
    for (int round = 0; round < rounds; round++) {
        tile[y][x] = sum;
        __syncthreads();
        sum = 0;
        for (int column = 0; column < 32; column++)
            sum += tile[x][column];
        __syncthreads();
    }
    to[block + y * 32 + x] = sum;
}

extern "C" __global__ void turned(const float *from, float *to, int rounds)
{ turn<float, 32>(from, to, rounds); }
extern "C" __global__ void turned_mended(const float *from, float *to, int rounds)
{ turn<float, 33>(from, to, rounds); }
extern "C" __global__ void doubles(const double *from, double *to, int rounds)
{ turn<double, 32>(from, to, rounds); }
extern "C" __global__ void doubles_mended(const double *from, double *to, int rounds)
{ turn<double, 33>(from, to, rounds); }

// Polynomials whose live values do not fit into the registers that the bound leaves.
template <int LIVE> __device__ void polynomials(const float *x, float *y, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float values[LIVE];
#pragma unroll
    for (int k = 0; k < LIVE; k++)
        values[k] = x[i] + k;
    for (int round = 0; round < rounds; round++) {
        float seed = x[i + round];
#pragma unroll
        for (int k = 0; k < LIVE; k++)
            values[k] = values[k] * values[(k + 7) % LIVE] + seed;
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < LIVE; k++)
        sum += values[k];
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) unrolled(const float *x, float *y, int rounds)
{ polynomials<96>(x, y, rounds); }
extern "C" __global__ void __launch_bounds__(256) unrolled_mended(const float *x, float *y, int rounds)
{ polynomials<96>(x, y, rounds); }
extern "C" __global__ void __launch_bounds__(256, 6) bounded(const float *x, float *y, int rounds)
{ polynomials<64>(x, y, rounds); }
extern "C" __global__ void __launch_bounds__(256, 2) bounded_mended(const float *x, float *y, int rounds)
{ polynomials<64>(x, y, rounds); }
