// Tensor cores through the warp matrix interface, in every type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <typename A, typename B> constexpr bool same = false;
template <typename A> constexpr bool same<A, A> = true;

// One warp a 16x16 tile of C (or the shape's own), A row-major, B column- or row-major, K any multiple of the shape's.
template <typename In, typename Memory, typename Acc, int M, int N, int K, typename LayoutB>
__device__ void wmma_product(const Memory* a, const Memory* b, Acc* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, M, N, K, In, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, In, LayoutB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::fill_fragment(fc, Acc(0));
    int row = blockIdx.y * M, col = blockIdx.x * N;
    constexpr bool by_column = same<LayoutB, wmma::col_major>;
    for (int i = 0; i < k; i += K) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, by_column ? b + col * k + i : b + i * n + col, by_column ? k : n);
        if constexpr (same<In, wmma::precision::tf32>) {
            for (int e = 0; e < fa.num_elements; e++) fa.x[e] = wmma::__float_to_tf32(fa.x[e]);
            for (int e = 0; e < fb.num_elements; e++) fb.x[e] = wmma::__float_to_tf32(fb.x[e]);
        }
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * n + col, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_half(const __half* a, const __half* b, float* c, int n, int k) { wmma_product<__half, __half, float, 16, 16, 16, wmma::col_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_half_wide(const __half* a, const __half* b, float* c, int n, int k) { wmma_product<__half, __half, float, 8, 32, 16, wmma::row_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_half_tall(const __half* a, const __half* b, __half* c, int n, int k) { wmma_product<__half, __half, __half, 32, 8, 16, wmma::col_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_bfloat(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) { wmma_product<__nv_bfloat16, __nv_bfloat16, float, 16, 16, 16, wmma::row_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_tf32(const float* a, const float* b, float* c, int n, int k) { wmma_product<wmma::precision::tf32, float, float, 16, 16, 8, wmma::col_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_signed(const signed char* a, const signed char* b, int* c, int n, int k) { wmma_product<signed char, signed char, int, 16, 16, 16, wmma::col_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_unsigned(const unsigned char* a, const unsigned char* b, int* c, int n, int k) { wmma_product<unsigned char, unsigned char, int, 32, 8, 16, wmma::row_major>(a, b, c, n, k); }
extern "C" __global__ void wmma_double(const double* a, const double* b, double* c, int n, int k) { wmma_product<double, double, double, 8, 8, 4, wmma::col_major>(a, b, c, n, k); }

extern "C" __global__ void wmma_nibbles(const int* a, const int* b, int* c) {
    using namespace wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::s4, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::s4, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
    wmma::fill_fragment(fc, 5);
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_col_major);
}

extern "C" __global__ void wmma_bits(const unsigned* a, const unsigned* b, int* c) {
    using namespace wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc, fd;
    wmma::fill_fragment(fc, 0);
    wmma::fill_fragment(fd, 0);
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpXOR);
    wmma::bmma_sync(fd, fa, fb, fd, bmmaBitOpAND);
    for (int e = 0; e < fc.num_elements; e++) fc.x[e] = fc.x[e] * 1000 + fd.x[e];
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}
