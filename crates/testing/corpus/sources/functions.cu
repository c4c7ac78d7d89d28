// The mathematical functions of libdevice: long code, slow paths, tables, local arrays.

#define FLOATS(F)                                                                                                                  \
    F(0, expf(v)) F(1, exp2f(v)) F(2, exp10f(v)) F(3, expm1f(v)) F(4, logf(v)) F(5, log2f(v)) F(6, log10f(v)) F(7, log1pf(v))       \
    F(8, sinf(v)) F(9, cosf(v)) F(10, tanf(v)) F(11, sinhf(v)) F(12, coshf(v)) F(13, tanhf(v)) F(14, asinf(v)) F(15, acosf(v))      \
    F(16, atanf(v)) F(17, asinhf(v)) F(18, acoshf(v)) F(19, atanhf(v)) F(20, erff(v)) F(21, erfcf(v)) F(22, cbrtf(v))               \
    F(23, sqrtf(v)) F(24, rsqrtf(v)) F(25, 1.0f / v) F(26, tgammaf(v)) F(27, lgammaf(v)) F(28, floorf(v)) F(29, ceilf(v))           \
    F(30, rintf(v)) F(31, roundf(v)) F(32, truncf(v)) F(33, powf(fabsf(v), 0.7f)) F(34, atan2f(v, 0.3f)) F(35, hypotf(v, 3.0f))     \
    F(36, fmodf(v, 0.37f)) F(37, remainderf(v, 0.37f)) F(38, ldexpf(v, 5)) F(39, (float)ilogbf(v)) F(40, copysignf(2.0f, v))        \
    F(41, fmaf(v, v, -1.0f)) F(42, fmaxf(v, 0.25f)) F(43, fminf(v, 0.25f)) F(44, fdimf(v, 0.25f)) F(45, erfinvf(v)) F(46, normcdff(v))  \
    F(47, sinpif(v)) F(48, cospif(v)) F(49, j0f(v)) F(50, powf(v, 3.0f)) F(51, nextafterf(v, 10.0f))

extern "C" __global__ void functions_float(const float* __restrict__ x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
#define PUT(K, E) out[K * n + i] = E;
    FLOATS(PUT)
#undef PUT
}

#define DOUBLES(F)                                                                                                                 \
    F(0, exp(v)) F(1, exp2(v)) F(2, exp10(v)) F(3, expm1(v)) F(4, log(v)) F(5, log2(v)) F(6, log10(v)) F(7, log1p(v))               \
    F(8, sin(v)) F(9, cos(v)) F(10, tan(v)) F(11, sinh(v)) F(12, cosh(v)) F(13, tanh(v)) F(14, asin(v)) F(15, acos(v))              \
    F(16, atan(v)) F(17, asinh(v)) F(18, acosh(v)) F(19, atanh(v)) F(20, erf(v)) F(21, erfc(v)) F(22, cbrt(v))                      \
    F(23, sqrt(v)) F(24, rsqrt(v)) F(25, 1.0 / v) F(26, tgamma(v)) F(27, lgamma(v)) F(28, floor(v)) F(29, ceil(v))                  \
    F(30, rint(v)) F(31, round(v)) F(32, trunc(v)) F(33, pow(fabs(v), 0.7)) F(34, atan2(v, 0.3)) F(35, hypot(v, 3.0))               \
    F(36, fmod(v, 0.37)) F(37, remainder(v, 0.37)) F(38, ldexp(v, 5)) F(39, (double)ilogb(v)) F(40, copysign(2.0, v))               \
    F(41, fma(v, v, -1.0)) F(42, fmax(v, 0.25)) F(43, fmin(v, 0.25))

extern "C" __global__ void functions_double(const double* __restrict__ x, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = x[i];
#define PUT(K, E) out[K * n + i] = E;
    DOUBLES(PUT)
#undef PUT
}

// Arguments so large that reducing them takes the table of 2/pi and a local array.
extern "C" __global__ void large_arguments(const float* __restrict__ x, const double* __restrict__ y, float* s, float* c, double* ds, double* dc) {
    int i = threadIdx.x;
    sincosf(x[i], &s[i], &c[i]);
    sincos(y[i], &ds[i], &dc[i]);
}

// The fast approximations by name.
extern "C" __global__ void intrinsics(const float* __restrict__ x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    float r[12] = {__expf(v), __logf(v), __log2f(v), __sinf(v), __cosf(v), __powf(v, 1.5f), __fdividef(1.0f, v), __frsqrt_rn(v),
                   __saturatef(v), __tanf(v), __exp10f(v), __fsqrt_rn(v)};
#pragma unroll
    for (int k = 0; k < 12; k++) out[k * n + i] = r[k];
}

// Every rounding mode of the basic operations, in both widths.
extern "C" __global__ void roundings(const float* __restrict__ x, const float* __restrict__ y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i];
    float r[20] = {__fadd_rn(a, b), __fadd_rz(a, b), __fadd_ru(a, b), __fadd_rd(a, b), __fmul_rn(a, b), __fmul_rz(a, b), __fmul_ru(a, b),
                   __fmul_rd(a, b), __fdiv_rn(a, b), __fdiv_rz(a, b), __fdiv_ru(a, b), __fdiv_rd(a, b), __fsqrt_rn(b), __fsqrt_rz(b),
                   __fsqrt_ru(b), __fsqrt_rd(b), __frcp_rn(b), __frcp_rz(b), __frcp_ru(b), __frcp_rd(b)};
#pragma unroll
    for (int k = 0; k < 20; k++) out[k * n + i] = __float_as_uint(r[k]);
}

extern "C" __global__ void conversions(const float* __restrict__ x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    int r[12] = {__float2int_rn(v), __float2int_rz(v), __float2int_ru(v), __float2int_rd(v), (int)__float2uint_rn(v), (int)(signed char)v,
                 (int)(unsigned short)v, (int)(__float2ll_rn(v * 1e6f) >> 8), (int)(unsigned)(__float2ull_rz(v * 1e6f)), __double2int_rn((double)v * 3),
                 __double2hiint((double)v), (int)__float_as_uint((float)(long long)(v * 1e9f))};
#pragma unroll
    for (int k = 0; k < 12; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void softmax(const float* __restrict__ x, float* out, int columns) {
    __shared__ float red[32];
    const float* row = x + blockIdx.x * columns;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    float m = __int_as_float(0xff800000);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) m = fmaxf(m, row[c]);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (lane == 0) red[warp] = m;
    __syncthreads();
    m = red[0];
    for (int w = 1; w < warps; w++) m = fmaxf(m, red[w]);
    __syncthreads();
    float s = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) s += __expf(row[c] - m);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (lane == 0) red[warp] = s;
    __syncthreads();
    s = 0;
    for (int w = 0; w < warps; w++) s += red[w];
    for (int c = threadIdx.x; c < columns; c += blockDim.x) out[blockIdx.x * columns + c] = __expf(row[c] - m) / s;
}

// Welford's mean and variance merged through shuffles, then the affine part with float4.
extern "C" __global__ void layernorm(const float4* __restrict__ x, const float4* __restrict__ gain, const float4* __restrict__ shift, float4* out, int quads) {
    const float4* row = x + blockIdx.x * quads;
    float count = 0, mean = 0, m2 = 0;
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = row[q];
        float e[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            count += 1;
            float d = e[k] - mean;
            mean += d / count;
            m2 += d * (e[k] - mean);
        }
    }
    for (int d = 16; d; d >>= 1) {
        float oc = __shfl_xor_sync(~0u, count, d), om = __shfl_xor_sync(~0u, mean, d), o2 = __shfl_xor_sync(~0u, m2, d);
        float total = count + oc, delta = om - mean;
        if (total > 0) {
            mean = mean + delta * oc / total;
            m2 = m2 + o2 + delta * delta * count * oc / total;
        }
        count = total;
        mean = __shfl_sync(~0u, mean, threadIdx.x & ~d);
        m2 = __shfl_sync(~0u, m2, threadIdx.x & ~d);
    }
    float scale = rsqrtf(m2 / count + 1e-5f);
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = row[q], g = __ldg(&gain[q]), s = __ldg(&shift[q]);
        out[blockIdx.x * quads + q] = make_float4((v.x - mean) * scale * g.x + s.x, (v.y - mean) * scale * g.y + s.y,
                                                  (v.z - mean) * scale * g.z + s.z, (v.w - mean) * scale * g.w + s.w);
    }
}

extern "C" __global__ void gelu(const float* __restrict__ x, float* exact, float* tanh_form, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    exact[i] = 0.5f * v * (1 + erff(v * 0.70710678f));
    tanh_form[i] = 0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

extern "C" __global__ void black_scholes(const float* s, const float* k, const float* t, float r, float sigma, float* call, float* put, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float root = sqrtf(t[i]), d1 = (logf(s[i] / k[i]) + (r + 0.5f * sigma * sigma) * t[i]) / (sigma * root), d2 = d1 - sigma * root;
    float discount = expf(-r * t[i]);
    call[i] = s[i] * normcdff(d1) - k[i] * discount * normcdff(d2);
    put[i] = k[i] * discount * normcdff(-d2) - s[i] * normcdff(-d1);
}
