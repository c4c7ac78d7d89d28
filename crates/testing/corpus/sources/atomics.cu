// Read-modify-write of every type, scope and strength, compare-and-swap loops, locks, fences.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Integers {
    int add, min, max, and_, or_, xor_;
    unsigned umin, umax, inc, dec, sub;
    unsigned long long add64, min64, max64, and64;
    long long smax64;
};

extern "C" __global__ void atomic_integers(const int* __restrict__ x, Integers* o, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i];
    atomicAdd(&o->add, v), atomicMin(&o->min, v), atomicMax(&o->max, v);
    atomicAnd(&o->and_, v | 0xf0), atomicOr(&o->or_, v & 0xff00ff), atomicXor(&o->xor_, v);
    atomicMin(&o->umin, (unsigned)v), atomicMax(&o->umax, (unsigned)v);
    atomicInc(&o->inc, 36), atomicDec(&o->dec, 40), atomicSub(&o->sub, 5u);
    unsigned long long w = (unsigned long long)v * 0x100000001ull;
    atomicAdd(&o->add64, w), atomicMin(&o->min64, w), atomicMax(&o->max64, w), atomicAnd(&o->and64, w | 0xff0000ff0000ff00ull);
    atomicMax(&o->smax64, (long long)v << 20);
}

extern "C" __global__ void atomic_floats(const float* __restrict__ x, float* f, double* d, __half2* h, __nv_bfloat162* b, __half* h1, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(f, x[i]);
    atomicAdd_system(d, (double)x[i]);
    atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
    atomicAdd(b, __floats2bfloat162_rn(0.5f, -1.0f));
    atomicAdd(h1, __float2half(0.25f));
}

// Maximum of floats by compare-and-swap on their bits, and a byte-wide counter inside words.
extern "C" __global__ void atomic_loops(const float* __restrict__ x, float* largest, unsigned char* counters, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned* bits = (unsigned*)largest;
    unsigned old = *bits, assumed;
    do {
        assumed = old;
        if (__uint_as_float(assumed) >= x[i]) break;
        old = atomicCAS(bits, assumed, __float_as_uint(x[i]));
    } while (assumed != old);
    unsigned which = i % 7;
    unsigned* word = (unsigned*)(counters + (which & ~3u));
    unsigned shift = (which & 3) * 8, seen = *word, want;
    do {
        want = seen;
        unsigned byte = (want >> shift & 0xff) + 1;
        seen = atomicCAS(word, want, (want & ~(0xffu << shift)) | (byte & 0xff) << shift);
    } while (seen != want);
}

extern "C" __global__ void atomic_exchange(unsigned long long* chain, unsigned long long* left, unsigned short* half_word) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    left[i] = atomicExch(chain, (unsigned long long)i + 1);
    unsigned short seen = *half_word, want;
    do {
        want = seen;
        seen = atomicCAS(half_word, want, (unsigned short)(want + 3));
    } while (seen != want);
}

// A lock that the lanes of one warp contend for: the lane that holds it must run on while the others spin.
__device__ int lock = 0;
extern "C" __global__ void spin_lock(volatile int* counter, int* order) {
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    __threadfence();
    int c = *counter;
    order[c] = blockIdx.x * blockDim.x + threadIdx.x;
    *counter = c + 1;
    __threadfence();
    atomicExch(&lock, 0);
}

// One thread waits for a flag that another thread of its own warp sets, then one of another warp, then one of another CTA.
extern "C" __global__ void flags(volatile int* flag, int* data, int* out) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (blockIdx.x == 0) {
        if (warp == 0 && lane == 0) {
            while (flag[0] == 0) __nanosleep(20);
            __threadfence();
            out[0] = data[0];
        } else if (warp == 0 && lane == 31) {
            data[0] = 41;
            __threadfence();
            flag[0] = 1;
        } else if (warp == 1 && lane == 5) {
            while (flag[1] == 0) {
            }
            __threadfence_block();
            out[1] = data[1];
        } else if (warp == 2 && lane == 9) {
            data[1] = 42;
            __threadfence_block();
            flag[1] = 1;
        } else if (warp == 3 && lane == 0) {
            while (flag[2] == 0) {
            }
            __threadfence_system();
            out[2] = data[2];
        }
    } else if (threadIdx.x == 77) {
        data[2] = 43;
        __threadfence_system();
        flag[2] = 1;
    }
}

// A barrier over the whole grid, by hand, several times: every CTA must be resident.
extern "C" __global__ void grid_barrier(unsigned* gate, int* a, int* b, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = blockDim.x * gridDim.x;
    for (int r = 0; r < rounds; r++) {
        b[i] = a[(i + 1) % n] + a[(i + n - 1) % n];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(gate, 1u);
            while (*(volatile unsigned*)gate < (r + 1) * gridDim.x) {
            }
            __threadfence();
        }
        __syncthreads();
        int* t = a;
        a = b;
        b = t;
    }
}

// Acquire and release as the memory model spells them, through inline assembly.
extern "C" __global__ void acquire_release(unsigned* flag, unsigned* data, unsigned* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x * threadIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1u) : "memory");
    } else {
        if (threadIdx.x == 0) {
            unsigned v;
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
            while (v == 0);
        }
        __syncthreads();
        unsigned v;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(data + threadIdx.x) : "memory");
        out[threadIdx.x] = v + 1;
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(out + 64), "r"(v) : "memory");
    }
}

extern "C" __global__ void atomic_shared(const int* __restrict__ x, long long* out) {
    __shared__ int s[4];
    __shared__ float f;
    __shared__ double d;
    __shared__ unsigned long long w;
    if (threadIdx.x == 0) {
        s[0] = 0, s[1] = 0x7fffffff, s[2] = -0x7fffffff, s[3] = 0;
        f = 0, d = 0, w = 1;
    }
    __syncthreads();
    int v = x[threadIdx.x];
    atomicAdd(&s[0], v), atomicMin(&s[1], v), atomicMax(&s[2], v), atomicOr(&s[3], v);
    atomicAdd(&f, 0.5f), atomicAdd(&d, (double)v), atomicAdd(&w, (unsigned long long)v);
    // The same through a generic pointer that may be either space.
    __shared__ int either;
    if (threadIdx.x == 0) either = 0;
    __syncthreads();
    int* p = threadIdx.x & 1 ? &either : (int*)&out[8];
    atomicAdd_block(p, v);
    __syncthreads();
    if (threadIdx.x < 4) out[threadIdx.x] = s[threadIdx.x];
    if (threadIdx.x == 4) out[4] = (long long)f, out[5] = (long long)d, out[6] = w, out[7] = either;
}
