// Tensor cores by hand: mma.sync, ldmatrix, movmatrix.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// m16n8k16 on operands that ldmatrix brings from a padded shared tile; B transposed on the way.
extern "C" __global__ void mma_ldmatrix(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k) {
    __shared__ __align__(16) __nv_bfloat16 sa[16][24], sb[16][24];
    int lane = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 16, n = gridDim.x * 16;
    float acc[2][4] = {};
    for (int k0 = 0; k0 < k; k0 += 16) {
        for (int i = lane; i < 256; i += 32) {
            sa[i / 16][i % 16] = a[(row0 + i / 16) * k + k0 + i % 16];
            sb[i / 16][i % 16] = b[(k0 + i / 16) * n + col0 + i % 16];
        }
        __syncwarp();
        unsigned ra[4], rb[4];
        unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8]);
        unsigned pb = (unsigned)__cvta_generic_to_shared(&sb[lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(rb[0]), "=r"(rb[1]), "=r"(rb[2]), "=r"(rb[3]) : "r"(pb));
        for (int h = 0; h < 2; h++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(acc[h][0]), "+f"(acc[h][1]), "+f"(acc[h][2]), "+f"(acc[h][3])
                         : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[2 * h]), "r"(rb[2 * h + 1]));
        __syncwarp();
    }
    for (int h = 0; h < 2; h++)
        for (int e = 0; e < 4; e++) c[(row0 + lane / 4 + e / 2 * 8) * n + col0 + h * 8 + lane % 4 * 2 + e % 2] = acc[h][e];
}

// The remaining shapes, straight from global memory by the fragment layouts of the PTX manual. A is 16xK, B is Kx8 (column-major).
template <int K, int BYTES> struct Operands {
    unsigned a[4], b[2];
    __device__ Operands(const unsigned char* pa, const unsigned char* pb) {
        int group = threadIdx.x / 4, member = threadIdx.x % 4;
        for (int r = 0; r < 4; r++)
            a[r] = r * 16 < K * BYTES * 2 ? *(const unsigned*)(pa + (group + r % 2 * 8) * K * BYTES + member * 4 + r / 2 * 16) : 0;
        for (int r = 0; r < 2; r++) b[r] = r * 16 < K * BYTES ? *(const unsigned*)(pb + group * K * BYTES + member * 4 + r * 16) : 0;
    }
};
template <typename T> __device__ void put(T* c, const T* d) {
    for (int e = 0; e < 4; e++) c[(threadIdx.x / 4 + e / 2 * 8) * 8 + threadIdx.x % 4 * 2 + e % 2] = d[e];
}
#define MMA_FLOAT(NAME, K, BYTES, SHAPE, TYPE)                                                                                        \
    extern "C" __global__ void NAME(const unsigned char* a, const unsigned char* b, float* c) {                                       \
        Operands<K, BYTES> o(a, b);                                                                                                   \
        float d[4] = {1, 2, 3, 4};                                                                                                    \
        if (K * BYTES == 32)                                                                                                          \
            asm("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"  \
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                                      \
                : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]), "r"(o.b[1]));                                      \
        put(c, d);                                                                                                                    \
    }
MMA_FLOAT(mma_half_k16, 16, 2, "m16n8k16", "f16")
MMA_FLOAT(mma_tf32_k8, 8, 4, "m16n8k8", "tf32")

extern "C" __global__ void mma_half_k8(const unsigned char* a, const unsigned char* b, float* c) {
    Operands<8, 2> o(a, b);
    float d[4] = {1, 2, 3, 4};
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(o.a[0]), "r"(o.a[1]), "r"(o.b[0]));
    put(c, d);
}
extern "C" __global__ void mma_half_accumulator(const unsigned char* a, const unsigned char* b, __half* c) {
    Operands<16, 2> o(a, b);
    unsigned d[2] = {0x3c003c00, 0xc000c000};
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]), "r"(o.b[1]));
    ((unsigned*)c)[(threadIdx.x / 4) * 4 + threadIdx.x % 4] = d[0];
    ((unsigned*)c)[(threadIdx.x / 4 + 8) * 4 + threadIdx.x % 4] = d[1];
}
extern "C" __global__ void mma_signed_k32(const unsigned char* a, const unsigned char* b, int* c) {
    Operands<32, 1> o(a, b);
    int d[4] = {100, 200, -300, 400};
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(o.a[0]), "r"(o.a[1]), "r"(o.a[2]), "r"(o.a[3]), "r"(o.b[0]), "r"(o.b[1]));
    put(c, d);
}
extern "C" __global__ void mma_double(const double* a, const double* b, double* c) {
    double d[2] = {0.5, -0.5};
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1]) : "d"(a[threadIdx.x]), "d"(b[threadIdx.x]));
    c[threadIdx.x * 2] = d[0], c[threadIdx.x * 2 + 1] = d[1];
}

// 2:4 sparse A (16x32, kept 16x16 with 2-bit positions) times dense B (32x8).
extern "C" __global__ void mma_sparse(const unsigned char* a, const unsigned* positions, const unsigned char* b, float* c) {
    Operands<16, 2> oa(a, b);
    unsigned rb[4];
    for (int r = 0; r < 4; r++) rb[r] = *(const unsigned*)(b + threadIdx.x / 4 * 64 + threadIdx.x % 4 * 4 + r * 16);
    float d[4] = {};
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(oa.a[0]), "r"(oa.a[1]), "r"(oa.a[2]), "r"(oa.a[3]), "r"(rb[0]), "r"(rb[1]), "r"(rb[2]), "r"(rb[3]), "r"(positions[threadIdx.x]));
    put(c, d);
}

extern "C" __global__ void move_matrix(const unsigned* in, unsigned* out) {
    unsigned v;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(in[threadIdx.x]));
    out[threadIdx.x] = v;
}
