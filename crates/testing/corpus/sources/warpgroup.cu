// GEMM and attention on Hopper's tensor cores, with tensor maps, mbarriers, roles and clusters in inline assembly.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void barrier_init(u64* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count));
}

__device__ __forceinline__ void barrier_expect(u64* bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u64* bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0], 1;" ::"r"(shared_address(bar)) : "memory");
}

// Arrives at the same barrier of another CTA of the cluster.
__device__ __forceinline__ void barrier_arrive(u64* bar, u32 rank) {
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote], 1;\n}" ::"r"(shared_address(bar)),
        "r"(rank)
        : "memory");
}

__device__ __forceinline__ void barrier_wait(u64* bar, int parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over;\n"
        "bra again;\n"
        "over:\n}" ::"r"(shared_address(bar)),
        "r"(parity)
        : "memory");
}

__device__ __forceinline__ void load_tile(void* to, const TensorMap* map, u64* bar, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
                 "l"(map), "r"(shared_address(bar)), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void load_tile(void* to, const TensorMap* map, u64* bar, int x, int y, unsigned short ctas) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(
            shared_address(to)),
        "l"(map), "r"(shared_address(bar)), "r"(x), "r"(y), "h"(ctas)
        : "memory");
}

__device__ __forceinline__ void store_tile(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(shared_address(from)), "r"(x), "r"(y)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Rows of 128 bytes, 128-byte swizzle, eight rows 1024 bytes apart.
__device__ __forceinline__ u64 descriptor(const void* tile) {
    u64 at = shared_address(tile);
    return (at & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>
__device__ __forceinline__ void multiply_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)

// 64 x 64 += (64 x 16) * (64 x 16)^T
__device__ __forceinline__ void multiply_64(float (&d)[32], u64 a, u64 b, int accumulates = 1) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}"
        : SIXTEEN(d, 0), SIXTEEN(d, 16)
        : "l"(a), "l"(b), "r"(accumulates));
}

// A in registers; B with its other axis contiguous.
__device__ __forceinline__ void multiply_64_registers(float (&d)[32], const u32 (&a)[4], u64 b) {
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n}"
        : SIXTEEN(d, 0), SIXTEEN(d, 16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// 64 x 128 += (64 x 16) * (128 x 16)^T
__device__ __forceinline__ void multiply_128(float (&d)[64], u64 a, u64 b) {
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;\n}"
        : SIXTEEN(d, 0), SIXTEEN(d, 16), SIXTEEN(d, 32), SIXTEEN(d, 48)
        : "l"(a), "l"(b));
}

// 64 x 64 += (64 x 32) * (64 x 32)^T of e4m3
__device__ __forceinline__ void multiply_fp8(float (&d)[32], u64 a, u64 b, int accumulates) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1;\n}"
        : SIXTEEN(d, 0), SIXTEEN(d, 16)
        : "l"(a), "l"(b), "r"(accumulates));
}

extern __shared__ __align__(1024) unsigned char dynamic[];

// One warpgroup does everything, tile after tile, with a wait for each.
extern "C" __global__ void __launch_bounds__(128) gemm_simple(const __grid_constant__ TensorMap ma, const __grid_constant__ TensorMap mb, float* c, int n, int k) {
    __shared__ alignas(1024) __nv_bfloat16 a[64 * 64], b[64 * 64];
    __shared__ alignas(8) u64 bar;
    if (threadIdx.x == 0) {
        barrier_init(&bar, 1);
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    float d[32] = {};
    for (int at = 0, parity = 0; at < k; at += 64, parity ^= 1) {
        if (threadIdx.x == 0) {
            barrier_expect(&bar, sizeof(a) + sizeof(b));
            load_tile(a, &ma, &bar, at, blockIdx.y * 64);
            load_tile(b, &mb, &bar, at, blockIdx.x * 64);
        }
        barrier_wait(&bar, parity);
        multiply_fence();
        for (int step = 0; step < 4; ++step) multiply_64(d, descriptor(a + 16 * step), descriptor(b + 16 * step));
        multiply_commit();
        multiply_wait<0>();
        __syncthreads();
    }
    int row = blockIdx.y * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = blockIdx.x * 64 + threadIdx.x % 4 * 2;
    for (int i = 0; i < 8; ++i)
        for (int h = 0; h < 2; ++h) *(float2*)&c[(row + 8 * h) * n + column + 8 * i] = make_float2(d[4 * i + 2 * h], d[4 * i + 2 * h + 1]);
}

// A queue of tiles between a producing warpgroup and two that multiply, which keep one multiply under way.
template <int DEPTH>
struct Queue {
    __nv_bfloat16 a[DEPTH][128 * 64], b[DEPTH][128 * 64];
    u64 full[DEPTH], empty[DEPTH];
};

extern "C" __global__ void __launch_bounds__(384) gemm_queue(const __grid_constant__ TensorMap ma, const __grid_constant__ TensorMap mb, __nv_bfloat16* c, int m, int n, int k) {
    constexpr int DEPTH = 3;
    auto& q = *(Queue<DEPTH>*)dynamic;
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < DEPTH; ++i) {
            barrier_init(&q.full[i], 1);
            barrier_init(&q.empty[i], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int tiles = (m / 128) * (n / 128), steps = k / 64;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int slot = 0, phase = 1;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(&q.empty[slot], phase);
                    barrier_expect(&q.full[slot], sizeof(q.a[0]) + sizeof(q.b[0]));
                    load_tile(q.a[slot], &ma, &q.full[slot], step * 64, tile / (n / 128) * 128);
                    load_tile(q.b[slot], &mb, &q.full[slot], step * 64, tile % (n / 128) * 128);
                    if (++slot == DEPTH) slot = 0, phase ^= 1;
                }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int slot = 0, phase = 0, last = -1;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            float d[64] = {};
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&q.full[slot], phase);
                multiply_fence();
                for (int i = 0; i < 4; ++i) multiply_128(d, descriptor(q.a[slot] + (group - 1) * 64 * 64 + 16 * i), descriptor(q.b[slot] + 16 * i));
                multiply_commit();
                multiply_wait<1>();
                if (last >= 0 && threadIdx.x % 128 == 0) barrier_arrive(&q.empty[last]);
                last = slot;
                if (++slot == DEPTH) slot = 0, phase ^= 1;
            }
            multiply_wait<0>();
            if (threadIdx.x % 128 == 0) barrier_arrive(&q.empty[last]);
            last = -1;
            int row = tile / (n / 128) * 128 + (group - 1) * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
            int column = tile % (n / 128) * 128 + threadIdx.x % 4 * 2;
            for (int i = 0; i < 16; ++i)
                for (int h = 0; h < 2; ++h)
                    *(__nv_bfloat162*)&c[(row + 8 * h) * n + column + 8 * i] = __floats2bfloat162_rn(d[4 * i + 2 * h], d[4 * i + 2 * h + 1]);
        }
    }
}

// Two CTAs share B by multicast, each half; C goes out by stmatrix and a tensor map.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
    gemm_cluster(const __grid_constant__ TensorMap ma, const __grid_constant__ TensorMap mb, const __grid_constant__ TensorMap mc, int k) {
    constexpr int DEPTH = 2;
    struct Store {
        __nv_bfloat16 a[DEPTH][64 * 64], b[DEPTH][64 * 64], c[64 * 64];
        u64 full[DEPTH], empty[DEPTH];
    };
    auto& s = *(Store*)dynamic;
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int i = 0; i < DEPTH; ++i) {
            barrier_init(&s.full[i], 1);
            barrier_init(&s.empty[i], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    int row = blockIdx.x * 64, column = blockIdx.y * 64;
    if (threadIdx.x >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x < 160) {
            u32 elected;
            asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
            if (elected) {
                for (int step = 0; step < k / 64; ++step) {
                    int slot = step % DEPTH;
                    barrier_wait(&s.empty[slot], step / DEPTH % 2 ^ 1);
                    barrier_expect(&s.full[slot], sizeof(s.a[0]) + sizeof(s.b[0]));
                    load_tile(s.a[slot], &ma, &s.full[slot], step * 64, row);
                    load_tile(s.b[slot] + rank * 32 * 64, &mb, &s.full[slot], step * 64, column + rank * 32, 3);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        float d[32];
        for (int step = 0; step < k / 64; ++step) {
            int slot = step % DEPTH;
            barrier_wait(&s.full[slot], step / DEPTH % 2);
            multiply_fence();
            for (int i = 0; i < 4; ++i) multiply_64(d, descriptor(s.a[slot] + 16 * i), descriptor(s.b[slot] + 16 * i), step + i > 0);
            multiply_commit();
            multiply_wait<0>();
            if (threadIdx.x < 2) barrier_arrive(&s.empty[slot], threadIdx.x);
        }
        // Sixteen rows of each warp, sixteen columns at a time, pieces of 16 bytes exchanged as the swizzle does.
        int lane = threadIdx.x % 32, r = threadIdx.x / 32 * 16 + lane % 16;
        for (int i = 0; i < 4; ++i) {
            u32 p[4];
            for (int j = 0; j < 4; ++j) {
                __nv_bfloat162 pair = __floats2bfloat162_rn(d[8 * i + 2 * j], d[8 * i + 2 * j + 1]);
                p[j] = *(u32*)&pair;
            }
            u32 to = shared_address(s.c) + r * 128 + ((2 * i + lane / 16 ^ r % 8) * 16);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync 1, 128;" ::: "memory");
        if (threadIdx.x == 0) {
            store_tile(&mc, s.c, column, row);
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Blocks of 128 of the depth have scales of their own, which are applied outside the tensor cores.
extern "C" __global__ void __launch_bounds__(256) gemm_fp8_blocks(const __grid_constant__ TensorMap ma, const __grid_constant__ TensorMap mb, const float* scale_a,
                                                                  const float* scale_b, float* c, int m, int n, int k) {
    constexpr int DEPTH = 4;
    struct Store {
        unsigned char a[DEPTH][64 * 128], b[DEPTH][64 * 128];
        float scales[DEPTH][64];
        u64 full[DEPTH], empty[DEPTH];
    };
    auto& s = *(Store*)dynamic;
    if (threadIdx.x == 0) {
        for (int i = 0; i < DEPTH; ++i) {
            barrier_init(&s.full[i], 1);
            barrier_init(&s.empty[i], 128);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int row = blockIdx.y * 64, column = blockIdx.x * 64, blocks = k / 128;
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) {
            for (int block = 0; block < blocks; ++block) {
                int slot = block % DEPTH;
                barrier_wait(&s.empty[slot], block / DEPTH % 2 ^ 1);
                load_tile(s.a[slot], &ma, &s.full[slot], block * 128, row);
                load_tile(s.b[slot], &mb, &s.full[slot], block * 128, column);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(shared_address(s.scales[slot])),
                             "l"(scale_a + block * m + row), "r"(shared_address(&s.full[slot]))
                             : "memory");
                barrier_expect(&s.full[slot], sizeof(s.a[0]) + sizeof(s.b[0]) + sizeof(s.scales[0]));
            }
        }
        return;
    }
    int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    float total[32] = {};
    for (int block = 0; block < blocks; ++block) {
        int slot = block % DEPTH;
        float d[32];
        float of_b = __ldg(&scale_b[column / 64 * blocks + block]);
        barrier_wait(&s.full[slot], block / DEPTH % 2);
        float above = s.scales[slot][r] * of_b, below = s.scales[slot][r + 8] * of_b;
        multiply_fence();
        for (int i = 0; i < 4; ++i) multiply_fp8(d, descriptor(s.a[slot] + 32 * i), descriptor(s.b[slot] + 32 * i), i);
        multiply_commit();
        multiply_wait<0>();
        barrier_arrive(&s.empty[slot]);
        for (int i = 0; i < 32; ++i) total[i] += (i % 4 < 2 ? above : below) * d[i];
    }
    for (int i = 0; i < 32; ++i) c[(row + r + i % 4 / 2 * 8) * n + column + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = total[i];
}

// Attention: scores stay in registers, become weights there, and are A of the second product.
extern "C" __global__ void __launch_bounds__(128) attention(const __grid_constant__ TensorMap mq, const __grid_constant__ TensorMap mk, const __grid_constant__ TensorMap mv,
                                                            __nv_bfloat16* out, int length, float scale) {
    struct Store {
        __nv_bfloat16 q[64 * 64], k[2][64 * 64], v[2][64 * 64];
        u64 ready, keys[2], values[2];
    };
    auto& s = *(Store*)dynamic;
    if (threadIdx.x == 0) {
        barrier_init(&s.ready, 1);
        for (int i = 0; i < 2; ++i) {
            barrier_init(&s.keys[i], 1);
            barrier_init(&s.values[i], 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    auto fill = [&](int block) {
        int slot = block % 2;
        barrier_expect(&s.keys[slot], sizeof(s.k[0]));
        load_tile(s.k[slot], &mk, &s.keys[slot], 0, block * 64);
        barrier_expect(&s.values[slot], sizeof(s.v[0]));
        load_tile(s.v[slot], &mv, &s.values[slot], 0, block * 64);
    };
    if (threadIdx.x == 0) {
        barrier_expect(&s.ready, sizeof(s.q));
        load_tile(s.q, &mq, &s.ready, 0, blockIdx.x * 64);
        fill(0);
    }
    float o[32] = {}, largest[2] = {-1e30f, -1e30f}, weight[2] = {};
    barrier_wait(&s.ready, 0);
    for (int block = 0; block < length / 64; ++block) {
        int slot = block % 2, parity = block / 2 % 2;
        if (threadIdx.x == 0 && block + 1 < length / 64) fill(block + 1);
        float p[32];
        barrier_wait(&s.keys[slot], parity);
        multiply_fence();
        for (int i = 0; i < 4; ++i) multiply_64(p, descriptor(s.q + 16 * i), descriptor(s.k[slot] + 16 * i), i);
        multiply_commit();
        multiply_wait<0>();
        for (int h = 0; h < 2; ++h) {
            float now = largest[h];
            for (int i = 0; i < 8; ++i) now = fmaxf(now, fmaxf(p[4 * i + 2 * h], p[4 * i + 2 * h + 1]) * scale);
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            float fade = exp2f(largest[h] - now);
            weight[h] *= fade;
            largest[h] = now;
            for (int i = 0; i < 8; ++i)
                for (int j = 2 * h; j < 2 * h + 2; ++j) {
                    p[4 * i + j] = exp2f(p[4 * i + j] * scale - now);
                    weight[h] += p[4 * i + j];
                    o[4 * i + j] *= fade;
                }
        }
        barrier_wait(&s.values[slot], parity);
        u32 a[4][4];
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) {
                __nv_bfloat162 pair = __floats2bfloat162_rn(p[8 * i + 2 * j], p[8 * i + 2 * j + 1]);
                a[i][j] = *(u32*)&pair;
            }
        multiply_fence();
        for (int i = 0; i < 4; ++i) multiply_64_registers(o, a[i], descriptor(s.v[slot] + 16 * 64 * i));
        multiply_commit();
        multiply_wait<0>();
        __syncthreads();
    }
    for (int h = 0; h < 2; ++h) {
        weight[h] += __shfl_xor_sync(~0u, weight[h], 1);
        weight[h] += __shfl_xor_sync(~0u, weight[h], 2);
        __nv_bfloat16* to = out + (blockIdx.x * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * h) * 64 + threadIdx.x % 4 * 2;
        for (int i = 0; i < 8; ++i) *(__nv_bfloat162*)&to[8 * i] = __floats2bfloat162_rn(o[4 * i + 2 * h] / weight[h], o[4 * i + 2 * h + 1] / weight[h]);
    }
}
