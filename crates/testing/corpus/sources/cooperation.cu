// Threads of a warp, a CTA and a grid working together: reductions, scans, histograms, sorts, compaction, look-back.

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

extern "C" __global__ void sum_shuffle(const float* __restrict__ x, float* out, int n) {
    __shared__ float partial[32];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += x[i];
    v = warp_sum(v);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        v = warp_sum(v);
        if (threadIdx.x == 0) atomicAdd(out, v);
    }
}

extern "C" __global__ void sum_tree(const int* __restrict__ x, long long* out, int n) {
    extern __shared__ long long tree[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    tree[t] = (i < n ? x[i] : 0) + (long long)(i + blockDim.x < n ? x[i + blockDim.x] : 0);
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) tree[t] += tree[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = tree[0];
}

// The CTA that arrives last adds up what the others left, after a fence.
__device__ unsigned arrived = 0;
extern "C" __global__ void sum_last_block(const double* __restrict__ x, volatile double* partial, double* out, int n) {
    __shared__ double s[256];
    __shared__ bool last;
    double v = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) v += x[i];
    s[threadIdx.x] = v;
    for (int d = 128; d > 0; d >>= 1) {
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < 32) {
        double t = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += 32) t += partial[i];
        for (int d = 16; d > 0; d >>= 1) t += __shfl_xor_sync(0xffffffffu, t, d);
        if (threadIdx.x == 0) *out = t;
    }
}

extern "C" __global__ void scan_block(const int* __restrict__ x, int* inclusive, int* exclusive, int n) {
    __shared__ int totals[32];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    int v = t < n ? x[t] : 0, own = v;
    for (int d = 1; d < 32; d <<= 1) {
        int up = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += up;
    }
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int w = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (int d = 1; d < 32; d <<= 1) {
            int up = __shfl_up_sync(0xffffffffu, w, d);
            if (lane >= d) w += up;
        }
        totals[lane] = w;
    }
    __syncthreads();
    if (warp > 0) v += totals[warp - 1];
    if (t < n) {
        inclusive[t] = v;
        exclusive[t] = v - own;
    }
}

// Blelloch's scan in shared memory, 2 elements a thread.
extern "C" __global__ void scan_blelloch(const unsigned* __restrict__ x, unsigned* out, int n) {
    extern __shared__ unsigned temp[];
    int t = threadIdx.x, m = blockDim.x * 2, offset = 1;
    temp[2 * t] = 2 * t < n ? x[2 * t] : 0;
    temp[2 * t + 1] = 2 * t + 1 < n ? x[2 * t + 1] : 0;
    for (int d = m >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) temp[m - 1] = 0;
    for (int d = 1; d < m; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            unsigned a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, s = temp[a];
            temp[a] = temp[b];
            temp[b] += s;
        }
    }
    __syncthreads();
    if (2 * t < n) out[2 * t] = temp[2 * t];
    if (2 * t + 1 < n) out[2 * t + 1] = temp[2 * t + 1];
}

// Single-pass scan: each CTA takes a ticket, publishes its total, and looks back over its predecessors, spinning.
__device__ unsigned ticket = 0;
extern "C" __global__ void scan_look_back(const unsigned* __restrict__ x, unsigned* out, unsigned long long* state, int n) {
    __shared__ unsigned tile, prefix, totals[8];
    if (threadIdx.x == 0) tile = atomicAdd(&ticket, 1u);
    __syncthreads();
    int i = tile * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned v = i < n ? x[i] : 0;
    for (int d = 1; d < 32; d <<= 1) {
        unsigned up = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += up;
    }
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    unsigned before = 0, total = 0;
    for (int w = 0; w < 8; w++) {
        if (w < warp) before += totals[w];
        total += totals[w];
    }
    v += before;
    if (threadIdx.x == 0) {
        volatile unsigned long long* s = state;
        unsigned sum = 0;
        if (tile == 0) {
            s[0] = (2ull << 32) | total;
        } else {
            s[tile] = (1ull << 32) | total;
            __threadfence();
            for (int p = tile - 1;;) {
                unsigned long long w = s[p];
                if ((w >> 32) == 0) continue;
                sum += (unsigned)w;
                if ((w >> 32) == 2) break;
                p--;
            }
            s[tile] = (2ull << 32) | (sum + total);
        }
        prefix = sum;
    }
    __syncthreads();
    if (i < n) out[i] = v + prefix;
}

extern "C" __global__ void histogram_shared(const unsigned char* __restrict__ x, unsigned* bins, int n) {
    __shared__ unsigned local[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (local[b]) atomicAdd(&bins[b], local[b]);
}

// One atomic for each distinct key of a warp.
extern "C" __global__ void histogram_match(const unsigned* __restrict__ keys, unsigned* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i >= n) return;
    unsigned key = keys[i], same = __match_any_sync(active, key);
    if (__ffs(same) - 1 == (threadIdx.x & 31)) atomicAdd(&bins[key], (unsigned)__popc(same));
}

extern "C" __global__ void bitonic(float* keys, unsigned short* values) {
    __shared__ float k[512];
    __shared__ unsigned short v[512];
    int t = threadIdx.x;
    k[t] = keys[t], k[t + 256] = keys[t + 256];
    v[t] = values[t], v[t + 256] = values[t + 256];
    for (int size = 2; size <= 512; size <<= 1)
        for (int stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            int a = 2 * t - (t & (stride - 1)), b = a + stride;
            bool up = (a & size) == 0;
            if ((k[a] > k[b]) == up) {
                float f = k[a]; k[a] = k[b]; k[b] = f;
                unsigned short s = v[a]; v[a] = v[b]; v[b] = s;
            }
        }
    __syncthreads();
    keys[t] = k[t], keys[t + 256] = k[t + 256];
    values[t] = v[t], values[t + 256] = v[t + 256];
}

// A stable split by one digit of 4 bits, in one CTA, with ballots: eight passes sort 32-bit keys.
extern "C" __global__ void radix_sort(unsigned* keys, int n) {
    __shared__ unsigned buffer[1024], counts[16][32], base[16];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    unsigned key = t < n ? keys[t] : 0xffffffffu;
    for (int shift = 0; shift < 32; shift += 4) {
        unsigned digit = key >> shift & 15, rank = 0;
        for (unsigned d = 0; d < 16; d++) {
            unsigned votes = __ballot_sync(0xffffffffu, digit == d);
            if (digit == d) rank = __popc(votes & ((1u << lane) - 1));
            if (lane == 0) counts[d][warp] = __popc(votes);
        }
        __syncthreads();
        if (t < 16) {
            unsigned sum = 0;
            for (int w = 0; w < blockDim.x / 32; w++) {
                unsigned c = counts[t][w];
                counts[t][w] = sum;
                sum += c;
            }
            base[t] = sum;
        }
        __syncthreads();
        if (t == 0) {
            unsigned sum = 0;
            for (int d = 0; d < 16; d++) {
                unsigned c = base[d];
                base[d] = sum;
                sum += c;
            }
        }
        __syncthreads();
        buffer[base[digit] + counts[digit][warp] + rank] = key;
        __syncthreads();
        key = buffer[t];
        __syncthreads();
    }
    if (t < n) keys[t] = key;
}

// Keeps what is positive, in order within a CTA; CTAs reserve room with one atomic, so the order of CTAs is their base.
extern "C" __global__ void compact(const int* __restrict__ x, int* out, unsigned* bases, unsigned* count, int n) {
    __shared__ unsigned warp_counts[8], start;
    int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    bool keep = i < n && x[i] > 0;
    unsigned votes = __ballot_sync(0xffffffffu, keep), rank = __popc(votes & ((1u << lane) - 1));
    if (lane == 0) warp_counts[warp] = __popc(votes);
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned total = 0;
        for (int w = 0; w < 8; w++) {
            unsigned c = warp_counts[w];
            warp_counts[w] = total;
            total += c;
        }
        atomicAdd(count, total);
        start = blockIdx.x * 256;
        bases[blockIdx.x] = total;
    }
    __syncthreads();
    if (keep) out[start + warp_counts[warp] + rank] = x[i];
}

extern "C" __global__ void votes(const int* __restrict__ x, unsigned* out) {
    int t = threadIdx.x, v = x[t], lane = t & 31;
    unsigned* o = out + t * 12;
    o[0] = __all_sync(0xffffffffu, v > -90);
    o[1] = __any_sync(0xffffffffu, v > 90);
    o[2] = __ballot_sync(0xffffffffu, v & 1);
    o[3] = __reduce_add_sync(0xffffffffu, v);
    o[4] = __reduce_min_sync(0xffffffffu, v);
    o[5] = __reduce_max_sync(0xffffffffu, (unsigned)v);
    o[6] = __reduce_xor_sync(0xffffffffu, (unsigned)v);
    int pred;
    o[7] = __match_all_sync(0xffffffffu, v >> 8, &pred);
    o[8] = pred;
    o[9] = __shfl_sync(0xffffffffu, v, t * 7 + 3, 8);
    o[10] = __shfl_up_sync(0xffffffffu, v, 3, 16);
    // Votes among a subset that diverged.
    if (lane % 3 == 0) o[11] = __reduce_or_sync(0x49249249u, 1u << lane) ^ 0x49249249u;
    else o[11] = __ballot_sync(~0x49249249u, lane & 1);
}

// Two halves of a CTA meet at barriers of their own: producers hand tiles to consumers over ids 1 and 2.
extern "C" __global__ void named_barriers(const int* __restrict__ x, int* out, int rounds) {
    __shared__ int tile[64];
    if (threadIdx.x < 64) {
        for (int r = 0; r < rounds; r++) {
            asm volatile("bar.sync 2, 128;" ::: "memory");
            tile[threadIdx.x] = x[r * 64 + threadIdx.x] * 3;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        }
    } else {
        int t = threadIdx.x - 64;
        for (int r = 0; r < rounds; r++) {
            asm volatile("bar.arrive 2, 128;" ::: "memory");
            asm volatile("barrier.sync 1, 128;" ::: "memory");
            out[r * 64 + t] = tile[63 - t] + r;
        }
    }
}

extern "C" __global__ void barrier_votes(const int* __restrict__ x, int* out) {
    int v = x[threadIdx.x];
    int count = __syncthreads_count(v > 0), all = __syncthreads_and(v > -100), any = __syncthreads_or(v > 99);
    out[threadIdx.x] = count * 4 + all * 2 + any;
}

// Threads beyond n leave before the barrier that the others go on to use (legal: a thread that exited counts as arrived).
extern "C" __global__ void early_return(const int* __restrict__ x, int* out, int n) {
    __shared__ int s[128];
    if ((int)threadIdx.x >= n) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[n - 1 - threadIdx.x];
}
