// Matrix products on ordinary arithmetic: naive, tiled, and double-buffered through asynchronous copies.
#include <cuda_pipeline.h>

extern "C" __global__ void matmul_naive(const float* a, const float* b, float* c, int m, int n, int k) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}

template <typename T, int TILE>
__device__ void tiled(const T* __restrict__ a, const T* __restrict__ b, T* c, int m, int n, int k) {
    __shared__ T as[TILE][TILE], bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    T sum = 0;
    for (int t = 0; t < k; t += TILE) {
        as[ty][tx] = row < m && t + tx < k ? a[row * k + t + tx] : T(0);
        bs[ty][tx] = t + ty < k && col < n ? b[(t + ty) * n + col] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++) sum += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
extern "C" __global__ void matmul_tiled_float(const float* a, const float* b, float* c, int m, int n, int k) { tiled<float, 16>(a, b, c, m, n, k); }
extern "C" __global__ void matmul_tiled_double(const double* a, const double* b, double* c, int m, int n, int k) { tiled<double, 8>(a, b, c, m, n, k); }
extern "C" __global__ void matmul_tiled_int(const int* a, const int* b, int* c, int m, int n, int k) { tiled<int, 16>(a, b, c, m, n, k); }

// 32x32 tile, 64 threads of 4x4 outputs, two stages filled by 16-byte asynchronous copies.
extern "C" __global__ void matmul_async(const float* __restrict__ a, const float* __restrict__ b, float* c, int m, int n, int k) {
    __shared__ __align__(16) float as[2][32][16], bs[2][16][32];
    int t = threadIdx.x, row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    auto fill = [&](int stage, int k0) {
        for (int i = t; i < 128; i += 64) {
            int r = i / 4, q = i % 4 * 4;
            __pipeline_memcpy_async(&as[stage][r][q], &a[(row0 + r) * k + k0 + q], 16);
            r = i / 8, q = i % 8 * 4;
            __pipeline_memcpy_async(&bs[stage][r][q], &b[(k0 + r) * n + col0 + q], 16);
        }
        __pipeline_commit();
    };
    float acc[4][4] = {};
    int tr = t / 8 * 4, tc = t % 8 * 4;
    fill(0, 0);
    for (int k0 = 0, stage = 0; k0 < k; k0 += 16, stage ^= 1) {
        if (k0 + 16 < k) {
            fill(stage ^ 1, k0 + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float4 bv = *(float4*)&bs[stage][i][tc];
#pragma unroll
            for (int r = 0; r < 4; r++) {
                float av = as[stage][tr + r][i];
                acc[r][0] += av * bv.x, acc[r][1] += av * bv.y, acc[r][2] += av * bv.z, acc[r][3] += av * bv.w;
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; r++) *(float4*)&c[(row0 + tr + r) * n + col0 + tc] = make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
}

// cp.async in all its sizes, with zero fill where the row ends, groups of several depths, and the mbarrier way of waiting.
extern "C" __global__ void copy_async_ragged(const float* __restrict__ in, float* out, int rows, int columns) {
    extern __shared__ __align__(16) float rows_in_flight[];
    int t = threadIdx.x;
    for (int r = 0; r < rows; r++) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&rows_in_flight[r * 64 + t]);
        int bytes = t < columns ? 4 : 0;
        const float* from = &in[r * columns + (t < columns ? t : 0)];
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int r = 0; r < rows; r++) {
        if (r + 2 < rows) asm volatile("cp.async.wait_group 2;" ::: "memory");
        else asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        out[r * 64 + t] = rows_in_flight[r * 64 + 63 - t];
    }
}

extern "C" __global__ void copy_async_mbarrier(const int4* __restrict__ in, int4* out) {
    __shared__ int4 buffer[64];
    __shared__ unsigned long long barrier;
    unsigned mbar = (unsigned)__cvta_generic_to_shared(&barrier), t = threadIdx.x;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(mbar), "r"(64));
    __syncthreads();
    for (int phase = 0; phase < 3; phase++) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&buffer[t]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + phase * 64 + t) : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(mbar) : "memory");
        asm volatile("{\n .reg .pred done;\nwait:\n mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n @!done bra wait;\n}" ::"r"(mbar), "r"(phase & 1)
                     : "memory");
        int4 v = buffer[63 - t];
        out[phase * 64 + t] = make_int4(v.w, v.z, v.y, v.x);
        __syncthreads();
    }
}
