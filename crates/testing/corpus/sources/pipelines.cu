// libcu++'s pipelines, which end by invalidating their barriers, and NVIDIA's reduction in one pass.
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

// A sum in one pass: plain partial sums, a fence before the ticket and none after it; the last block counts anew.
__device__ unsigned int retired = 0;
extern "C" __global__ void fence_reduction(const float* in, float* parts, float* out, int n) {
    __shared__ float sums[128];
    __shared__ bool is_last;
    auto block = cg::this_thread_block();
    auto total = [&](float sum) {
        sums[threadIdx.x] = sum;
        block.sync();
        for (int half = 64; half > 0; half >>= 1) {
            if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
            block.sync();
        }
        return sums[0];
    };
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    sum = total(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    __threadfence();
    if (threadIdx.x == 0) is_last = atomicInc(&retired, gridDim.x) == gridDim.x - 1;
    block.sync();
    if (!is_last) return;
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += parts[i];
    sum = total(sum);
    if (threadIdx.x == 0) {
        out[0] = sum;
        retired = 0;
    }
}

// libcu++'s pipeline of a block, three stages deep.
extern "C" __global__ void pipelined(const int* in, int* out, int batches) {
    constexpr int stages = 3;
    __shared__ int staged[stages][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    auto at = [&](int batch) { return (batch * gridDim.x + blockIdx.x) * 256; };
    for (int done = 0, fetched = 0; done < batches; ++done) {
        for (; fetched < batches && fetched < done + stages; ++fetched) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, staged[fetched % stages], in + at(fetched), sizeof(int) * 256, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        out[at(done) + threadIdx.x] = 2 * staged[done % stages][255 - threadIdx.x];
        pipeline.consumer_release();
    }
}

// The same with a warp that produces and three that consume.
extern "C" __global__ void pipeline_roles(const int* in, int* out, int batches) {
    constexpr int stages = 2;
    __shared__ int staged[stages][96];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipeline = cuda::make_pipeline(cg::this_thread_block(), &state, role);
    for (int batch = 0; batch < batches; batch++) {
        int* stage = staged[batch % stages];
        if (role == cuda::pipeline_role::producer) {
            pipeline.producer_acquire();
            for (int i = threadIdx.x; i < 96; i += 32) cuda::memcpy_async(stage + i, in + batch * 96 + i, sizeof(int), pipeline);
            pipeline.producer_commit();
        } else {
            pipeline.consumer_wait();
            out[batch * 96 + threadIdx.x - 32] = stage[127 - threadIdx.x];
            pipeline.consumer_release();
        }
    }
}
