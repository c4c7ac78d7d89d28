// Tensor maps, bulk copies and clusters, written as the CUDA C++ programming guide and libcu++ have them.

#include <cuda/barrier>
#include <cuda/ptx>

namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;

struct alignas(64) TensorMap {
    unsigned long long words[16];
};

// Each block negates a tile of 16 x 32 of a matrix whose edges no tile divides.
extern "C" __global__ void tile_negate(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
    __shared__ alignas(128) float tile[16][32];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    const int at[2] = {(int)blockIdx.x * 32, (int)blockIdx.y * 16};
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &in, at, cuda::device::barrier_native_handle(bar));
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) tile[i / 32][i % 32] = -tile[i / 32][i % 32];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &out, at, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

// A ring of two stages: rows of 64 halves under the 128-byte swizzle, read back through the exchanged pieces and summed.
extern "C" __global__ void swizzled_sums(const __grid_constant__ TensorMap in, float* sums, int stages) {
    __shared__ alignas(1024) unsigned short ring[2][8][64];
    __shared__ barrier full[2];
    if (threadIdx.x == 0) {
        init(&full[0], 1);
        init(&full[1], 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    auto fill = [&](int stage) {
        const int at[3] = {0, stage * 8, (int)blockIdx.x};
        auto* handle = cuda::device::barrier_native_handle(full[stage % 2]);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, handle, sizeof(ring[0]));
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, ring[stage % 2], &in, at, handle);
    };
    if (threadIdx.x == 0) {
        fill(0);
        fill(1);
    }
    float sum = 0;
    for (int stage = 0; stage < stages; ++stage) {
        while (!ptx::mbarrier_try_wait_parity(cuda::device::barrier_native_handle(full[stage % 2]), (stage / 2) % 2)) {}
        for (int row = 0; row < 8; ++row) {
            int piece = threadIdx.x / 8 ^ row;
            sum += ring[stage % 2][row][piece * 8 + threadIdx.x % 8];
        }
        __syncthreads();
        if (threadIdx.x == 0 && stage + 2 < stages) fill(stage + 2);
    }
    sums[blockIdx.x * 64 + threadIdx.x] = sum;
}

// The first block of a cluster of four sends a tile to all; each adds its part to what is in the output.
extern "C" __global__ void __cluster_dims__(4, 1, 1) multicast_add(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
    __shared__ alignas(128) int tile[8][16];
    __shared__ unsigned long long bar;
    unsigned rank = ptx::get_sreg_cluster_ctarank();
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(tile));
    }
    __syncthreads();
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
    if (rank == 0 && threadIdx.x == 0) {
        const int at[2] = {0, (int)(blockIdx.x / 4) * 8};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &in, at, &bar, 0b1111);
    }
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    for (int i = threadIdx.x; i < 8 * 16; i += blockDim.x) (&tile[0][0])[i] *= rank + 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        const int at[2] = {0, (int)(blockIdx.x / 4) * 8};
        ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &out, at, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
}

// Plain bulk copies: in, doubled, out; and a sum of all blocks by reductions.
extern "C" __global__ void bulk_double(const float* x, float* y, unsigned* counts) {
    __shared__ alignas(16) float part[256];
    __shared__ alignas(16) unsigned ones[4];
    __shared__ barrier bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    if (threadIdx.x < 4) ones[threadIdx.x] = blockIdx.x + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::memcpy_async(part, x + blockIdx.x * 256, cuda::aligned_size_t<16>(sizeof(part)), bar);
    }
    bar.arrive_and_wait();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) part[i] *= 2;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + blockIdx.x * 256, part, sizeof(part));
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, counts, ones, sizeof(ones));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}

// A block changes a copy of a tensor map to a tensor of its own, and copies through it.
extern "C" __global__ void own_map(const __grid_constant__ TensorMap like, int* rows, TensorMap* maps, int* out) {
    __shared__ alignas(128) TensorMap copy;
    __shared__ alignas(128) int tile[4][32];
    __shared__ unsigned long long bar;
    TensorMap* mine = maps + 2 * blockIdx.x;
    if (threadIdx.x < 16) copy.words[threadIdx.x] = like.words[threadIdx.x];
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::tensormap_replace_global_address(ptx::space_shared, &copy, rows + blockIdx.x * 4 * 32);
        ptx::tensormap_replace_global_dim(ptx::space_shared, &copy, ptx::n32_t<1>(), 2 + blockIdx.x);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, mine, &copy, ptx::n32_t<128>());
    }
    ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, mine, ptx::n32_t<128>());
    if (threadIdx.x == 0) {
        const int at[2] = {0, 0};
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(tile));
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, mine, at, &bar);
    }
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    for (int i = threadIdx.x; i < 128; i += blockDim.x) out[blockIdx.x * 128 + i] = (&tile[0][0])[i];
}
