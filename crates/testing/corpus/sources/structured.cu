// A GEMM in the manner of template libraries: everything the kernel is told comes in one structure by value, with tensor maps inside,
// and the cluster comes from the launch alone. D = alpha * A * B^T + beta * C, persistent, with roles for the warps.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

struct alignas(64) TensorMap {
    u64 words[16];
};

// n / divisor as a multiplication and a shift.
struct FastDivisor {
    int divisor;
    u32 multiplier, shift;
    __device__ void operator()(int& quotient, int& remainder, int n) const {
        quotient = divisor == 1 ? n : int(__umulhi(u32(n), multiplier) >> shift);
        remainder = n - quotient * divisor;
    }
};

__device__ __forceinline__ u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ bool elect_one() {
    u32 chosen = 0, leader = 0;
    asm volatile("{\n.reg .b32 who;\n.reg .pred mine;\nelect.sync who|mine, %2;\n@mine mov.s32 %1, 1;\nmov.s32 %0, who;\n}" : "+r"(leader), "+r"(chosen) : "r"(0xffffffff));
    return chosen != 0;
}

__device__ __forceinline__ int warp_number() { return __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0); }

__device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

struct ClusterBarrier {
    u64 word;
    __device__ void init(u32 count) const { asm volatile("mbarrier.init.shared::cta.b64 [%1], %0;" ::"r"(count), "r"(shared_address(this))); }
    __device__ void wait(u32 phase) const {
        // The hint is in nanoseconds; the barrier is tried again when it has passed.
        asm volatile(
            "{\n.reg .pred done;\nRETRY:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, %2;\n"
            "@done bra DONE;\nbra RETRY;\nDONE:\n}" ::"r"(shared_address(this)),
            "r"(phase), "r"(0x989680)
            : "memory");
    }
    __device__ bool test(u32 phase) const {
        u32 done;
        asm volatile("{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.b32 %0, 1, 0, done;\n}" : "=r"(done) : "r"(shared_address(this)), "r"(phase) : "memory");
        return done != 0;
    }
    __device__ void expect(u32 bytes) const { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], %0;" ::"r"(bytes), "r"(shared_address(this)) : "memory"); }
    __device__ void arrive() const { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory"); }
    __device__ void arrive(u32 cta, u32 does) const {
        asm volatile(
            "{\n.reg .pred does;\n.reg .b32 remote;\nsetp.eq.u32 does, %2, 1;\n"
            "@does mapa.shared::cluster.u32 remote, %0, %1;\n"
            "@does mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(this)),
            "r"(cta), "r"(does)
            : "memory");
    }
};

template <int STAGES>
struct PipelineState {
    int index = 0;
    u32 phase = 0;
    __device__ void operator++() {
        if (++index == STAGES) {
            index = 0;
            phase ^= 1;
        }
    }
};

// What a tensor copy is told beside its map.
struct CopyAtom {
    TensorMap map;
    u64 policy;
    int box_bytes;
};

__device__ __forceinline__ void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(u64(map)) : "memory"); }

__device__ __forceinline__ void load_box(const CopyAtom& atom, const ClusterBarrier& full, void* to, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)), "l"(u64(&atom.map)),
                 "r"(shared_address(&full)), "r"(x), "r"(y), "l"(atom.policy)
                 : "memory");
}

__device__ __forceinline__ void load_box_multicast(const CopyAtom& atom, const ClusterBarrier& full, u16 ctas, void* to, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%4, %5}], [%2], %3, %6;" ::"r"(shared_address(to)),
                 "l"(u64(&atom.map)), "r"(shared_address(&full)), "h"(ctas), "r"(x), "r"(y), "l"(atom.policy)
                 : "memory");
}

__device__ __forceinline__ void store_box(const CopyAtom& atom, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(u64(&atom.map)), "r"(shared_address(from)), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ u64 matrix_descriptor(const void* tile) {
    // 128-byte rows, swizzled over 8 of them: groups of 8 rows lie 1024 bytes apart.
    return u64((shared_address(tile) & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)

__device__ __forceinline__ void multiply(float (&d)[32], u64 a, u64 b, int scale_d) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, %35, %36, %37, %38;\n}"
        : SIXTEEN(d, 0), SIXTEEN(d, 16)
        : "l"(a), "l"(b), "r"(scale_d), "n"(1), "n"(1), "n"(0), "n"(0));
}

struct CooperativeGemm {
    static constexpr int M = 128, N = 64, K = 64, STAGES = 3, WARPGROUPS = 3;
    static constexpr int TILE_BARRIER = 3;

    struct Params {
        int mode;
        struct {
            int m, n, k, l;
        } shape;
        struct {
            CopyAtom a, b;
        } mainloop;
        struct {
            struct {
                float alpha, beta;
                const float *alpha_pointer, *beta_pointer;
            } thread;
            CopyAtom c, d;
        } epilogue;
        struct {
            FastDivisor tiles_along_n;
            u32 tiles;
        } scheduler;
        void* workspace;
    };

    struct SharedStorage {
        alignas(1024) u16 a[STAGES][M * K];
        alignas(1024) u16 b[STAGES][N * K];
        alignas(1024) u16 c[M * N];
        alignas(1024) u16 d[M * N];
        ClusterBarrier full[STAGES], empty[STAGES], c_full, c_empty;
    };

    __device__ void operator()(const Params& params, char* memory) const {
        // Dynamic shared memory may begin anywhere.
        u32 misaligned = shared_address(memory) % 1024;
        auto& shared = *reinterpret_cast<SharedStorage*>(memory + (1024 - misaligned) % 1024);
        int warp = warp_number(), warpgroup = warp / 4;
        u32 rank;
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));

        if (warp == 0 && elect_one()) {
            prefetch_map(&params.mainloop.a.map);
            prefetch_map(&params.mainloop.b.map);
            prefetch_map(&params.epilogue.c.map);
            prefetch_map(&params.epilogue.d.map);
        }
        if (warp == 0 && elect_one()) {
            for (int stage = 0; stage < STAGES; ++stage) {
                shared.full[stage].init(1);
                shared.empty[stage].init(2 * (WARPGROUPS - 1));
            }
            shared.c_full.init(1);
            shared.c_empty.init(128 * (WARPGROUPS - 1));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        cluster_arrive_relaxed();
        cluster_wait();

        int cluster = blockIdx.x / 2, clusters = gridDim.x / 2, steps = (params.shape.k + K - 1) / K;
        auto tile_of = [&](int linear, int& row, int& column) {
            params.scheduler.tiles_along_n(row, column, linear);
            row = (row * 2 + int(rank)) * M;
            column *= N;
        };

        if (warpgroup == 0) {
            asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(40));
            asm volatile("griddepcontrol.wait;" ::: "memory");
            int role = warp % 4;
            if (role == 0 && elect_one()) {
                PipelineState<STAGES> state;
                state.phase = 1;
                for (u32 tile = cluster; tile < params.scheduler.tiles; tile += clusters) {
                    int row, column;
                    tile_of(tile, row, column);
                    for (int step = 0; step < steps; ++step, ++state) {
                        shared.empty[state.index].wait(state.phase);
                        auto& full = shared.full[state.index];
                        full.expect(params.mainloop.a.box_bytes + 2 * params.mainloop.b.box_bytes);
                        load_box(params.mainloop.a, full, shared.a[state.index], step * K, row);
                        load_box_multicast(params.mainloop.b, full, 3, shared.b[state.index] + rank * (N / 2) * K, step * K, column + int(rank) * (N / 2));
                    }
                }
                // No CTA leaves while another may still signal it.
                for (int stage = 0; stage < STAGES; ++stage, ++state) shared.empty[state.index].wait(state.phase);
            } else if (role == 2 && params.epilogue.thread.beta != 0 && elect_one()) {
                u32 phase = 1;
                for (u32 tile = cluster; tile < params.scheduler.tiles; tile += clusters, phase ^= 1) {
                    int row, column;
                    tile_of(tile, row, column);
                    shared.c_empty.wait(phase);
                    shared.c_full.expect(params.epilogue.c.box_bytes);
                    load_box(params.epilogue.c, shared.c_full, shared.c, column, row);
                }
                shared.c_empty.wait(phase);
            }
            return;
        }

        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(232));
        float alpha = params.epilogue.thread.alpha_pointer ? *params.epilogue.thread.alpha_pointer : params.epilogue.thread.alpha;
        float beta = params.epilogue.thread.beta_pointer ? *params.epilogue.thread.beta_pointer : params.epilogue.thread.beta;
        int consumer = warpgroup - 1, thread = threadIdx.x % 128, lane = threadIdx.x % 32;
        PipelineState<STAGES> read, release;
        u32 c_phase = 0;
        for (u32 tile = cluster; tile < params.scheduler.tiles; tile += clusters) {
            int row, column;
            tile_of(tile, row, column);
            float sums[32];
            for (int step = 0; step < steps; ++step, ++read) {
                if (!shared.full[read.index].test(read.phase)) shared.full[read.index].wait(read.phase);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                u64 a = matrix_descriptor(shared.a[read.index] + consumer * 64 * K), b = matrix_descriptor(shared.b[read.index]);
                for (int k = 0; k < K / 16; ++k) multiply(sums, a + 2 * k, b + 2 * k, step + k > 0);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                if (step > 0) {
                    // The multiplication before this one has read its stage.
                    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(1) : "memory");
                    shared.empty[release.index].arrive(thread, thread < 2);
                    ++release;
                }
            }
            asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
            shared.empty[release.index].arrive(thread, thread < 2);
            ++release;

            if (beta != 0) {
                shared.c_full.wait(c_phase);
                c_phase ^= 1;
            }
            // The store before this one has read the tile; one thread knows, and tells the others.
            if (threadIdx.x == 128) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(0) : "memory");
            asm volatile("bar.sync %0, %1;" ::"n"(TILE_BARRIER), "n"(256) : "memory");
            int top = consumer * 64 + thread / 32 * 16;
            for (int i = 0; i < 4; ++i) {
                u32 packed[4];
                for (int j = 0; j < 4; ++j) {
                    float v[2];
                    for (int h = 0; h < 2; ++h) {
                        int r = top + lane / 4 + 8 * (j % 2), chunk = 2 * i + j / 2;
                        u16 c = beta != 0 ? shared.c[r * 64 + (chunk ^ r % 8) * 8 + lane % 4 * 2 + h] : u16(0);
                        v[h] = alpha * sums[8 * i + 2 * j + h] + beta * __uint_as_float(u32(c) << 16);
                    }
                    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed[j]) : "f"(v[1]), "f"(v[0]));
                }
                int r = top + lane % 16;
                u32 to = shared_address(shared.d) + r * 128 + ((2 * i + lane / 16) ^ (r % 8)) * 16;
                asm volatile("stmatrix.sync.aligned.x4.m8n8.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3]) : "memory");
            }
            if (beta != 0) shared.c_empty.arrive();
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            asm volatile("bar.sync %0, %1;" ::"n"(TILE_BARRIER), "n"(256) : "memory");
            if (threadIdx.x == 128) {
                store_box(params.epilogue.d, shared.d, column, row);
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
        }
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        if (threadIdx.x == 128) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(0) : "memory");
    }
};

template <class Operator>
__global__ void __launch_bounds__(128 * Operator::WARPGROUPS, 1) device_kernel(const __grid_constant__ typename Operator::Params params) {
    extern __shared__ char memory[];
    Operator()(params, memory);
}

// The launch describes the structure by its offsets.
static_assert(sizeof(CopyAtom) == 192 && alignof(CopyAtom) == 64);
static_assert(sizeof(CooperativeGemm::Params) == 960);

template __global__ void device_kernel<CooperativeGemm>(const __grid_constant__ CooperativeGemm::Params);
