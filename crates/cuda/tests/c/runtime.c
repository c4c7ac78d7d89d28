/* The runtime API as nvcc's host code uses it: a fat binary with plain PTX is registered before main. */
#include "cuda.h"
#include "vector.h"

typedef struct { unsigned x, y, z; } dim3;
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaUnregisterFatBinary(void **);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaMallocHost(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, int);
cudaError_t cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
cudaError_t cudaMemset(void *, int, size_t);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaDeviceReset(void);
const char *cudaGetErrorName(cudaError_t);

enum { N = 256 };
static int launches;
static void add(void) {}
static void fault(void) {}
static void other(void) {}

static void launch(void (*kernel)(void), unsigned block, void **parameters) {
    __cudaPushCallConfiguration((dim3){N / block ? N / block : 1, 1, 1}, (dim3){block, 1, 1}, 0, NULL);
    dim3 grid, threads;
    size_t shared;
    cudaStream_t stream;
    OK(__cudaPopCallConfiguration(&grid, &threads, &shared, &stream));
    cudaLaunchKernel((void *)kernel, grid, threads, parameters, shared, stream);
}

int main(void) {
    /* The container: a header, the header of an entry, the PTX. */
    static struct {
        uint32_t magic; uint16_t version, header; uint64_t bytes;
        uint16_t kind, one; uint32_t entry_header; uint64_t entry_bytes; uint32_t packed, options; uint16_t minor, major;
        uint32_t arch, name, name_bytes; uint64_t flags, zero, plain;
        char text[sizeof vector_ptx];
    } container = {0xba55ed50, 1, 16, 0, 1, 0x101, 64, sizeof vector_ptx, 0, 0, 0, 7, 80, 0, 0, 0, 0, 0, {0}};
    container.bytes = 64 + sizeof vector_ptx;
    memcpy(container.text, vector_ptx, sizeof vector_ptx);
    struct { uint32_t magic, version; void *data, *file; } wrapper = {0x466243b1, 1, &container, NULL};
    void **binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(binary, (void *)add, "add", "add", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(binary, (void *)fault, "fault", "fault", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(binary, (char *)&launches, "launches", "launches", 0, 4, 0, 0);

    float *x, *z, *host;
    unsigned n = N;
    OK(cudaMalloc((void **)&x, N * 4));
    OK(cudaMalloc((void **)&z, N * 4));
    OK(cudaMallocHost((void **)&host, N * 4));
    for (int i = 0; i < N; i++) host[i] = (float)i;
    OK(cudaMemcpy(x, host, N * 4, 1));
    void *parameters[] = {&x, &x, &z, &n};
    launch(add, 64, parameters);
    OK(cudaGetLastError());
    OK(cudaMemcpy(host, z, N * 4, 2));
    for (int i = 0; i < N; i++)
        if (host[i] != 2.0f * (float)i) return printf("element %d is wrong\n", i), 1;
    int count;
    OK(cudaMemcpyFromSymbol(&count, &launches, 4, 0, 2));
    printf("%d launch\n", count);
    launch(add, 2048, parameters);
    EXPECT(9, cudaPeekAtLastError());
    EXPECT(9, cudaGetLastError());
    OK(cudaGetLastError());
    launch(other, 64, parameters);
    EXPECT(98, cudaGetLastError());
    /* A fault stays until the device is reset. */
    void *nowhere[] = {&host}, *address = NULL;
    nowhere[0] = &address;
    launch(fault, 1, nowhere);
    EXPECT(700, cudaDeviceSynchronize());
    EXPECT(700, cudaMalloc((void **)&x, 4));
    EXPECT(700, cudaGetLastError());
    puts(cudaGetErrorName(700));
    OK(cudaDeviceReset());
    OK(cudaMalloc((void **)&x, 4));
    OK(cudaFree(x));
    __cudaUnregisterFatBinary(binary);
    return 0;
}
