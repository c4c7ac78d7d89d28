// Tiles of a warp through cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const float* __restrict__ x, float* out, int* ranks) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    float v = x[block.thread_rank()];
    float s = cg::reduce(eight, v, cg::plus<float>());
    float m = cg::reduce(warp, v, cg::greater<float>());
    float p = cg::inclusive_scan(eight, v, cg::plus<float>());
    int t = block.thread_rank();
    out[3 * t] = s, out[3 * t + 1] = m, out[3 * t + 2] = p;
    if (v > 0) {
        auto some = cg::coalesced_threads();
        ranks[t] = some.thread_rank() * 100 + some.size();
    } else {
        ranks[t] = -1;
    }
    block.sync();
}
