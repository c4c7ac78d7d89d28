// Instructions that programs reach for by name: cache hints, odd shapes of mma, packed functions, parts of barriers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void cache_hints(const float* x, const float4* v, float* out) {
    int t = threadIdx.x;
    float s = __ldg(x + t) + __ldcg(x + t) * 2 + __ldca(x + t) * 3 + __ldcs(x + t) * 4 + __ldlu(x + t) * 5 + __ldcv(x + t) * 6;
    float a, b, c, d;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(v + t));
    float e;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(e) : "l"(x + t), "l"(policy));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x + t));
    __stcs(out + t, s + a + b + c + d + e);
    __stwt(out + 64 + t, e);
}

extern "C" __global__ void packed_functions(const unsigned* x, unsigned* out) {
    unsigned v = x[threadIdx.x], r[8];
    asm("ex2.approx.f16x2 %0, %1;" : "=r"(r[0]) : "r"(v));
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(r[1]) : "r"(v));
    asm("fma.rn.relu.f16x2 %0, %1, %1, %1;" : "=r"(r[2]) : "r"(v));
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r[3]) : "r"(v), "r"(0x7e003c00));
    asm("abs.f16x2 %0, %1;" : "=r"(r[4]) : "r"(v));
    asm("neg.f16x2 %0, %1;" : "=r"(r[5]) : "r"(v));
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r[6]) : "f"(1.5f), "f"(-2.0f));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r[7]) : "f"(1.5f), "f"(-2.0f));
    for (int k = 0; k < 8; k++) out[threadIdx.x * 8 + k] = r[k];
}

extern "C" __global__ void odd_floats(const float* x, float* out) {
    float v = x[threadIdx.x], r[8];
    unsigned t;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r[0]) : "f"(v), "f"(0.5f));
    asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(r[1]) : "f"(v), "f"(-1.0f));
    asm("tanh.approx.f32 %0, %1;" : "=f"(r[2]) : "f"(v));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(v));
    r[3] = __uint_as_float(t);
    asm("fma.rz.ftz.sat.f32 %0, %1, %1, %2;" : "=f"(r[4]) : "f"(v), "f"(0.25f));
    asm("{.reg .pred p; testp.normal.f32 p, %1; selp.f32 %0, 1.0, 0.0, p;}" : "=f"(r[5]) : "f"(v));
    asm("copysign.f32 %0, %1, %2;" : "=f"(r[6]) : "f"(v), "f"(3.0f));
    asm("{.reg .f32 t; mov.f32 t, 0f40490FDB; slct.f32.s32 %0, %1, t, %2;}" : "=f"(r[7]) : "f"(v), "r"((int)threadIdx.x - 5));
    for (int k = 0; k < 8; k++) out[threadIdx.x * 8 + k] = r[k];
}

// Integer shapes of mma: 4-bit m16n8k64 and m8n8k32, bits m16n8k256, bytes m8n8k16, saturating.
extern "C" __global__ void mma_integers(const unsigned* a, const unsigned* b, int* out) {
    int t = threadIdx.x;
    unsigned a0 = a[t], a1 = a[32 + t], a2 = a[64 + t], a3 = a[96 + t], b0 = b[t], b1 = b[32 + t];
    int d[4] = {1, 2, 3, 4}, e[4] = {}, f[2] = {}, g[2] = {5, 6};
    asm("mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(f[0]), "+r"(f[1]) : "r"(a0), "r"(b0));
    asm("mma.sync.aligned.m8n8k32.row.col.s32.u4.s4.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(g[0]), "+r"(g[1]) : "r"(a0), "r"(b0));
    int* o = out + t * 12;
    for (int k = 0; k < 4; k++) o[k] = d[k], o[4 + k] = e[k];
    o[8] = f[0], o[9] = f[1], o[10] = g[0], o[11] = g[1];
}

extern "C" __global__ void copies(const char* from, char* to, int n) {
    __shared__ char s[256];
    char l[64];
    memset(l, 7, 64);
    memcpy(s + threadIdx.x * 64, from + threadIdx.x * n, n);
    memcpy(l + 3, s + threadIdx.x * 64, n);
    memcpy(to + threadIdx.x * 64, l, 64);
}
