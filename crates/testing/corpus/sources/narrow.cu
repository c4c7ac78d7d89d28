// Narrow floats and integers: half, bfloat16, fp8, packed pairs, bytes in words.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void half_arithmetic(const __half* __restrict__ x, const __half* __restrict__ y, __half* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half a = x[i], b = y[i];
    __half r[14] = {a + b, a - b, a * b, a / b, __hfma(a, b, a), __hmax(a, b), __hmin(a, b), -a, __habs(b), hsqrt(__habs(a)), hexp(a), hlog(__habs(b)),
                    htrunc(a * __float2half(10.0f)), __hadd_sat(a, b)};
#pragma unroll
    for (int k = 0; k < 14; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void half_pairs(const __half2* __restrict__ x, const __half2* __restrict__ y, __half2* out, unsigned* flags, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half2 a = x[i], b = y[i];
    out[i] = __hfma2(a, b, __hadd2(a, __lowhigh2highlow(b)));
    out[n + i] = __hmul2(__hmax2(a, b), __half2half2(__low2half(a)));
    flags[i] = (__hgt(__low2half(a), __high2half(b)) ? 1 : 0) | (__hbeq2(a, a) ? 2 : 0) | (__heq(__low2half(a), __low2half(b)) ? 4 : 0) |
               (__hisnan(__high2half(a)) ? 8 : 0) | __hlt2_mask(a, b) << 16;
}

extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ y, __nv_bfloat16* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat16 a = x[i], b = y[i];
    __nv_bfloat16 r[10] = {a + b, a - b, a * b, a / b, __hfma(a, b, a), __hmax(a, b), __hmin(a, b), -a, __habs(b), hsqrt(__habs(a))};
#pragma unroll
    for (int k = 0; k < 10; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void bfloat_dot(const __nv_bfloat162* __restrict__ x, const __nv_bfloat162* __restrict__ y, float* out, int n) {
    float sum = 0;
    __nv_bfloat162 packed = __float2bfloat162_rn(0);
    for (int i = threadIdx.x; i < n; i += 32) {
        float2 a = __bfloat1622float2(x[i]), b = __bfloat1622float2(y[i]);
        sum += a.x * b.x + a.y * b.y;
        packed = __hfma2(x[i], y[i], packed);
    }
    for (int d = 16; d; d >>= 1) {
        sum += __shfl_xor_sync(~0u, sum, d);
        packed = __hadd2(packed, __shfl_xor_sync(~0u, packed, d));
    }
    if (threadIdx.x == 0) out[0] = sum, out[1] = __low2float(packed) + __high2float(packed);
}

// Every conversion between f32 and the 16-bit formats, integers included.
extern "C" __global__ void half_conversions(const float* __restrict__ x, __half* h, __nv_bfloat16* b, float* back, short* s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    h[i] = __float2half_rn(v), h[n + i] = __float2half_rz(v), h[2 * n + i] = __float2half_ru(v), h[3 * n + i] = __float2half_rd(v);
    h[4 * n + i] = __int2half_rn((int)(v * 100)), h[5 * n + i] = __double2half((double)v * 1.0001);
    b[i] = __float2bfloat16_rn(v), b[n + i] = __float2bfloat16_rz(v), b[2 * n + i] = __float2bfloat16_ru(v), b[3 * n + i] = __float2bfloat16_rd(v);
    back[i] = __half2float(h[i]), back[n + i] = __bfloat162float(b[i]);
    s[i] = __half2short_rn(h[i]), s[n + i] = (short)__half2int_rz(h[i]), s[2 * n + i] = (short)__bfloat162int_rd(b[i]);
}

extern "C" __global__ void fp8_round_trip(const float* __restrict__ x, __nv_fp8_e4m3* e4, __nv_fp8_e5m2* e5, float* back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    e4[i] = __nv_fp8_e4m3(x[i]);
    e5[i] = __nv_fp8_e5m2(x[i]);
    back[i] = (float)e4[i];
    back[n + i] = (float)e5[i];
    float2 pair = make_float2(x[i], x[n - 1 - i]);
    __nv_fp8x2_e4m3 packed(pair);
    float2 both = (float2)packed;
    back[2 * n + i] = both.x - both.y;
}

extern "C" __global__ void dot_bytes(const int* __restrict__ x, const int* __restrict__ y, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __dp4a(x[i], y[i], 7);
    out[n + i] = (int)__dp4a((unsigned)x[i], (unsigned)y[i], 7u);
    out[2 * n + i] = __dp2a_lo(x[i], y[i], -3);
    out[3 * n + i] = __dp2a_hi(x[i], y[i], -3);
}

// The SIMD-in-a-word intrinsics.
extern "C" __global__ void packed_bytes(const unsigned* __restrict__ x, const unsigned* __restrict__ y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = y[i];
    unsigned r[12] = {__vadd4(a, b), __vsub4(a, b), __vaddus4(a, b), __vsubss2(a, b), __vmaxu4(a, b), __vmins2(a, b), __vavgu4(a, b), __vabsdiffu4(a, b),
                      __vcmpgtu4(a, b), __vsetles2(a, b), __vsadu4(a, b), __vabs2(a)};
#pragma unroll
    for (int k = 0; k < 12; k++) out[k * n + i] = r[k];
}
