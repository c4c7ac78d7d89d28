// The parallel libraries that programs include: CUB's block and warp algorithms, libcu++'s atomics and barriers.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/tuple>

extern "C" __global__ void cub_block(const int* in, int* sorted, int* scanned, int* total) {
    using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    using Scan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_RAKING>;
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } shared;
    int keys[4], sums[4];
    Load(shared.load).Load(in + blockIdx.x * 512, keys);
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(keys, sums);
    __syncthreads();
    Store(shared.store).Store(scanned + blockIdx.x * 512, sums);
    __syncthreads();
    int sum = Reduce(shared.reduce).Sum(keys);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
    __syncthreads();
    Sort(shared.sort).Sort(keys);
    __syncthreads();
    Store(shared.store).Store(sorted + blockIdx.x * 512, keys);
}

extern "C" __global__ void cuda_atomics(const unsigned* x, unsigned* counters, unsigned long long* ticket, float* sum) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(counters[x[threadIdx.x] & 3]);
    counter.fetch_add(1, cuda::memory_order_relaxed);
    cuda::atomic_ref<unsigned, cuda::thread_scope_block> largest(counters[4]);
    largest.fetch_max(x[threadIdx.x], cuda::memory_order_acq_rel);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> t(*ticket);
    unsigned long long seen = t.load(cuda::memory_order_acquire);
    while (!t.compare_exchange_weak(seen, seen * 3 % 1000003, cuda::memory_order_acq_rel)) {
    }
    cuda::atomic_ref<float> f(*sum);
    f.fetch_add(0.5f, cuda::memory_order_seq_cst);
}

extern "C" __global__ void cuda_barrier(const int* x, int* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int tile[128];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    int v = x[threadIdx.x];
    for (int r = 0; r < 3; r++) {
        tile[threadIdx.x] = v;
        bar.arrive_and_wait();
        v = tile[(threadIdx.x + 1) % 128] * 2 + r;
        auto token = bar.arrive();
        bar.wait(cuda::std::move(token));
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void standard_complex(const float2* z, float2* out) {
    cuda::std::complex<float> c(z[threadIdx.x].x, z[threadIdx.x].y);
    cuda::std::array<cuda::std::complex<float>, 3> parts = {c * c, c / cuda::std::complex<float>(2, -1), cuda::std::exp(c)};
    auto [a, b] = cuda::std::make_tuple(parts[0] + parts[1], parts[2]);
    out[2 * threadIdx.x] = make_float2(a.real(), a.imag());
    out[2 * threadIdx.x + 1] = make_float2(b.real(), b.imag());
}
