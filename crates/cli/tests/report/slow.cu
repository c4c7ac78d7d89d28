// Everything that is slow without being wrong, in one kernel. slow.ptx is it, by hand.
__global__ void slow(const float *in, float *out) {
    __shared__ float tile[64];
    unsigned i = threadIdx.x;
    tile[2 * i] = in[8 * i];
    __syncthreads();
    __syncthreads();
    if (i % 4 == 0)
        out[i] = tile[62 - 2 * i] * 2.0f;
    float2 pair = {in[2 * i], in[2 * i + 1]};
    atomicAdd(&out[32], pair.x + pair.y);
}
