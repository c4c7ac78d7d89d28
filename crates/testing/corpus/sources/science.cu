// Small numerical programs whole: transforms, factorisations, particles, paths.

// Radix-2 transform of 256 complex points in shared memory, bit-reversed on the way in.
extern "C" __global__ void fft(const float2* __restrict__ in, float2* out) {
    __shared__ float2 s[256];
    int t = threadIdx.x;
    s[__brev(t) >> 24] = in[blockIdx.x * 256 + t];
    s[__brev(t + 128) >> 24] = in[blockIdx.x * 256 + t + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int k = t % half, i = (t / half) * half * 2 + k;
        float c, n;
        sincospif(-(float)k / half, &n, &c);
        float2 a = s[i], b = s[i + half], w = make_float2(b.x * c - b.y * n, b.x * n + b.y * c);
        s[i] = make_float2(a.x + w.x, a.y + w.y);
        s[i + half] = make_float2(a.x - w.x, a.y - w.y);
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = s[t];
    out[blockIdx.x * 256 + t + 128] = s[t + 128];
}

extern "C" __global__ void cholesky(const double* __restrict__ a, double* l, int n) {
    extern __shared__ double m[];
    const double* source = a + blockIdx.x * n * n;
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) m[i] = source[i];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (threadIdx.x == 0) m[k * n + k] = sqrt(m[k * n + k]);
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) m[i * n + k] /= m[k * n + k];
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x)
            for (int j = k + 1; j <= i; j++) m[i * n + j] -= m[i * n + k] * m[j * n + k];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) l[blockIdx.x * n * n + i] = i % n <= i / n ? m[i] : 0.0;
}

// Solves one system a warp by elimination with partial pivoting; the row of the largest pivot by shuffles.
extern "C" __global__ void solve(const float* __restrict__ a, const float* __restrict__ b, float* x) {
    float row[17];
    int lane = threadIdx.x, r = lane % 16;
    for (int k = 0; k < 16; k++) row[k] = a[blockIdx.x * 256 + r * 16 + k];
    row[16] = b[blockIdx.x * 16 + r];
    bool used = false;
    int mine = -1;
#pragma unroll
    for (int k = 0; k < 16; k++) {
        float best = used || lane >= 16 ? -1.0f : fabsf(row[k]);
        int where = lane;
        for (int d = 16; d; d >>= 1) {
            float other = __shfl_xor_sync(~0u, best, d);
            int at = __shfl_xor_sync(~0u, where, d);
            if (other > best || (other == best && at < where)) best = other, where = at;
        }
        if (lane == where) used = true, mine = k;
        float pivot = __shfl_sync(~0u, row[k], where), factor = lane == where ? 0.0f : row[k] / pivot;
#pragma unroll
        for (int j = 0; j < 17; j++) row[j] -= factor * __shfl_sync(~0u, row[j], where);
    }
#pragma unroll
    for (int k = 0; k < 16; k++)
        if (mine == k && lane < 16) x[blockIdx.x * 16 + k] = row[16] / row[k];
}

extern "C" __global__ void n_body(const float4* __restrict__ bodies, float3* force, int n) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 f = make_float3(0, 0, 0);
    for (int t = 0; t < n; t += 64) {
        tile[threadIdx.x] = t + threadIdx.x < n ? bodies[t + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 64; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = tile[j].w * inverse * inverse * inverse;
            f.x += dx * s, f.y += dy * s, f.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) force[i] = f;
}

// Every pair's shortest path over a small graph, one CTA.
extern "C" __global__ void floyd_warshall(int* d, int n) {
    for (int k = 0; k < n; k++) {
        for (int e = threadIdx.x; e < n * n; e += blockDim.x) {
            int through = d[e / n * n + k] + d[k * n + e % n];
            if (through < d[e]) d[e] = through;
        }
        __syncthreads();
    }
}

// Breadth-first levels over a graph in compressed rows, a CTA, frontier queues in shared memory.
extern "C" __global__ void breadth_first(const int* __restrict__ rows, const int* __restrict__ columns, int* level, int n) {
    __shared__ int queue[2][256], size[2];
    if (threadIdx.x == 0) {
        queue[0][0] = 0, size[0] = 1, size[1] = 0;
        level[0] = 0;
    }
    __syncthreads();
    for (int depth = 1, from = 0; size[from] > 0; depth++, from ^= 1) {
        for (int q = threadIdx.x; q < size[from]; q += blockDim.x) {
            int v = queue[from][q];
            for (int e = rows[v]; e < rows[v + 1]; e++)
                if (atomicCAS(&level[columns[e]], -1, depth) == -1) queue[from ^ 1][atomicAdd(&size[from ^ 1], 1)] = columns[e];
        }
        __syncthreads();
        if (threadIdx.x == 0) size[from] = 0;
        __syncthreads();
    }
}

// Edit distance by anti-diagonals; the row before in registers, exchanged by shuffles.
extern "C" __global__ void edit_distance(const unsigned char* __restrict__ a, const unsigned char* __restrict__ b, int* out, int n) {
    extern __shared__ int rows[];
    int *before = rows, *last = rows + n + 1, *now = rows + 2 * (n + 1);
    for (int s = 0; s <= 2 * n; s++) {
        for (int i = threadIdx.x; i <= n; i += blockDim.x) {
            int j = s - i;
            if (j < 0 || j > n) continue;
            if (i == 0 || j == 0) now[i] = i + j;
            else now[i] = min(min(last[i - 1], last[i]) + 1, before[i - 1] + (a[i - 1] != b[j - 1]));
        }
        __syncthreads();
        int* t = before;
        before = last, last = now, now = t;
    }
    if (threadIdx.x == 0) *out = last[n];
}

// Sparse matrix times vector, a warp a row.
extern "C" __global__ void sparse(const int* __restrict__ rows, const int* __restrict__ columns, const double* __restrict__ values, const double* __restrict__ x, double* y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= n) return;
    double sum = 0;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * __ldg(&x[columns[e]]);
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

// Pi by throwing darts with a xorshift of each thread's own.
extern "C" __global__ void monte_carlo(unsigned long long* hits, int throws) {
    unsigned long long s = 88172645463325252ull + (blockIdx.x * blockDim.x + threadIdx.x) * 0x9E3779B97F4A7C15ull;
    unsigned count = 0;
    for (int i = 0; i < throws; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        unsigned x = (unsigned)(s >> 11) & 0xffff, y = (unsigned)(s >> 40) & 0xffff;
        count += (unsigned long long)x * x + (unsigned long long)y * y < 0x100000000ull;
    }
    for (int d = 16; d; d >>= 1) count += __shfl_xor_sync(~0u, count, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(hits, (unsigned long long)count);
}

// Tiled convolution with the taps in constant memory and a separable pair of passes through shared memory.
__constant__ float taps[7] = {0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f};
extern "C" __global__ void blur(const float* __restrict__ in, float* out, int rows, int columns) {
    __shared__ float tile[22][22], half[22][16];
    int x0 = blockIdx.x * 16, y0 = blockIdx.y * 16;
    for (int i = threadIdx.x; i < 22 * 22; i += blockDim.x) {
        int y = y0 + i / 22 - 3, x = x0 + i % 22 - 3;
        tile[i / 22][i % 22] = y >= 0 && y < rows && x >= 0 && x < columns ? in[y * columns + x] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 22 * 16; i += blockDim.x) {
        float s = 0;
#pragma unroll
        for (int k = 0; k < 7; k++) s += taps[k] * tile[i / 16][i % 16 + k];
        half[i / 16][i % 16] = s;
    }
    __syncthreads();
    int y = threadIdx.x / 16, x = threadIdx.x % 16;
    float s = 0;
#pragma unroll
    for (int k = 0; k < 7; k++) s += taps[k] * half[y + k][x];
    if (y0 + y < rows && x0 + x < columns) out[(y0 + y) * columns + x0 + x] = s;
}
