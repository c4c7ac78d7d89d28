// The functions of CUDA's library in the loop of `xtask math speed`: prints 10^9 evaluations a second of each.
//
//     nvcc -O3 -arch=native -o libdevice libdevice.cu && ./libdevice > libdevice.txt
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr unsigned THREADS = 256, GRID = 132 * 8, ROUNDS = 4096, LAUNCHES = 21;

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t error = (call);                                              \
        if (error != cudaSuccess) {                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));       \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

template <typename Function>
__global__ void __launch_bounds__(THREADS) loop(float first, float step, unsigned rounds, float *sums) {
    unsigned thread = blockIdx.x * THREADS + threadIdx.x;
    float x = fmaf(float(thread), step, first);
    float sum[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            sum[k] = __fadd_rn(sum[k], Function()(x));
            x = __fadd_rn(x, step);
        }
    }
    sums[thread] = sum[0] + sum[1] + sum[2] + sum[3];
}

template <typename Function>
void time(const char *name, float low, float high, float *sums) {
    float step = (high - low) / (float(GRID * THREADS) + ROUNDS * 4.0f);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> milliseconds;
    for (unsigned launch = 0; launch <= LAUNCHES; ++launch) {
        CHECK(cudaEventRecord(begin));
        loop<Function><<<GRID, THREADS>>>(low, step, ROUNDS, sums);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float elapsed;
        CHECK(cudaEventElapsedTime(&elapsed, begin, end));
        if (launch > 0) milliseconds.push_back(elapsed);
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    double evaluations = double(GRID) * THREADS * ROUNDS * 4;
    printf("%s %.3f\n", name, evaluations / milliseconds[LAUNCHES / 2] / 1e6);
}

#define FUNCTIONS(X) \
    X(exp, -80.0f, 80.0f, expf(x)) \
    X(exp2, -100.0f, 100.0f, exp2f(x)) \
    X(exp10, -30.0f, 30.0f, exp10f(x)) \
    X(exp_m1, -4.0f, 4.0f, expm1f(x)) \
    X(ln, 0.001f, 1000.0f, logf(x)) \
    X(log2, 0.001f, 1000.0f, log2f(x)) \
    X(log10, 0.001f, 1000.0f, log10f(x)) \
    X(ln_1p, -0.9f, 10.0f, log1pf(x)) \
    X(sqrt, 0.001f, 1000.0f, sqrtf(x)) \
    X(rsqrt, 0.001f, 1000.0f, rsqrtf(x)) \
    X(cbrt, -100.0f, 100.0f, cbrtf(x)) \
    X(recip, 0.001f, 1000.0f, __frcp_rn(x)) \
    X(sin, -100.0f, 100.0f, sinf(x)) \
    X(cos, -100.0f, 100.0f, cosf(x)) \
    X(tan, -100.0f, 100.0f, tanf(x)) \
    X(asin, -1.0f, 1.0f, asinf(x)) \
    X(acos, -1.0f, 1.0f, acosf(x)) \
    X(atan, -10.0f, 10.0f, atanf(x)) \
    X(sinh, -10.0f, 10.0f, sinhf(x)) \
    X(cosh, -10.0f, 10.0f, coshf(x)) \
    X(tanh, -4.0f, 4.0f, tanhf(x)) \
    X(asinh, -100.0f, 100.0f, asinhf(x)) \
    X(acosh, 1.0f, 100.0f, acoshf(x)) \
    X(atanh, -0.99f, 0.99f, atanhf(x)) \
    X(erf, -3.0f, 3.0f, erff(x)) \
    X(erfc, -3.0f, 6.0f, erfcf(x)) \
    X(sigmoid, -10.0f, 10.0f, 1.0f / (1.0f + expf(-x))) \
    X(silu, -10.0f, 10.0f, x / (1.0f + expf(-x))) \
    X(gelu, -10.0f, 10.0f, x * normcdff(x)) \
    X(gelu_tanh, -10.0f, 10.0f, 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)))) \
    X(softplus, -10.0f, 10.0f, fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)))) \
    X(floor, -10.0f, 10.0f, floorf(x)) \
    X(ceil, -10.0f, 10.0f, ceilf(x)) \
    X(trunc, -10.0f, 10.0f, truncf(x)) \
    X(round, -10.0f, 10.0f, roundf(x)) \
    X(round_ties_even, -10.0f, 10.0f, rintf(x)) \
    X(fract, -10.0f, 10.0f, x - truncf(x)) \
    X(signum, -10.0f, 10.0f, isnan(x) ? x : copysignf(1.0f, x)) \
    X(to_degrees, -10.0f, 10.0f, x * 57.29577951f) \
    X(to_radians, -10.0f, 10.0f, x * 0.01745329252f) \
    X(tgamma, -5.0f, 30.0f, tgammaf(x)) \
    X(lgamma, -5.0f, 100.0f, lgammaf(x))

#define DEFINE(name, low, high, expression)                                      \
    struct name##_function {                                                     \
        __device__ float operator()(float x) const { return expression; }        \
    };
#define TIME(name, low, high, expression) time<name##_function>(#name, low, high, sums);

FUNCTIONS(DEFINE)

int main() {
    float *sums;
    CHECK(cudaMalloc(&sums, sizeof(float) * GRID * THREADS));
    FUNCTIONS(TIME)
    return 0;
}
