// One thread an element: plain loads and stores, vector types, strides and transposed copies.

extern "C" __global__ void saxpy(float a, const float* __restrict__ x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void saxpy_grid_stride(double a, const double* __restrict__ x, double* y, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)blockDim.x * gridDim.x) y[i] += a * x[i];
}



// uchar4 and float4 in one kernel: an image to grey levels and to its float planes.
extern "C" __global__ void grey(const uchar4* __restrict__ image, unsigned char* level, float4* planes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = image[i];
    level[i] = (unsigned char)((p.x * 77 + p.y * 150 + p.z * 29) >> 8);
    planes[i] = make_float4(p.x / 255.0f, p.y / 255.0f, p.z / 255.0f, p.w / 255.0f);
}

extern "C" __global__ void transpose_naive(const int* __restrict__ in, int* out, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < columns) out[c * rows + r] = in[r * columns + c];
}

extern "C" __global__ void transpose_tiled(const float* __restrict__ in, float* out, int rows, int columns) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y) {
        int r = blockIdx.y * 32 + j;
        if (r < rows && c < columns) tile[j][threadIdx.x] = in[r * columns + c];
    }
    __syncthreads();
    int r = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y) {
        int cc = blockIdx.x * 32 + j;
        if (r < rows && cc < columns) out[cc * rows + r] = tile[threadIdx.x][j];
    }
}

// Nine-point stencil with clamped edges and a haloed shared tile.
extern "C" __global__ void stencil(const float* __restrict__ in, float* out, int rows, int columns) {
    __shared__ float tile[18][18];
    int x0 = blockIdx.x * 16 - 1, y0 = blockIdx.y * 16 - 1;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
        int y = min(max(y0 + i / 18, 0), rows - 1), x = min(max(x0 + i % 18, 0), columns - 1);
        tile[i / 18][i % 18] = in[y * columns + x];
    }
    __syncthreads();
    int x = x0 + 1 + threadIdx.x, y = y0 + 1 + threadIdx.y;
    if (x >= columns || y >= rows) return;
    float sum = 0;
#pragma unroll
    for (int dy = 0; dy < 3; dy++)
#pragma unroll
        for (int dx = 0; dx < 3; dx++) sum += tile[threadIdx.y + dy][threadIdx.x + dx] * (dy == 1 && dx == 1 ? 0.5f : 0.0625f);
    out[y * columns + x] = sum;
}

// Conway's game on a torus, bytes.
extern "C" __global__ void life(const unsigned char* __restrict__ in, unsigned char* out, int rows, int columns) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;
    int count = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy) count += in[((y + dy + rows) % rows) * columns + (x + dx + columns) % columns];
    out[y * columns + x] = count == 3 || (count == 2 && in[y * columns + x]);
}

// Iteration counts of z*z + c: an integer output that floating-point rounding decides.
extern "C" __global__ void mandelbrot(int* out, int width, int height, float x0, float y0, float step, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float cx = __fadd_rn(x0, __fmul_rn(px, step)), cy = __fadd_rn(y0, __fmul_rn(py, step)), x = 0, y = 0;
    int i = 0;
    while (i < limit) {
        float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.0f) break;
        y = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, x), y), cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
        i++;
    }
    out[py * width + px] = i;
}
