/* The driver API from start to end: memory, a module, launches in the three ways that pass parameters, variables. */
#include "cuda.h"
#include "vector.h"

enum { N = 1000 };

int main(void) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add;
    CUdeviceptr x, y, z, launches;
    size_t bytes, free_before, free_after, total;
    static float host[N];
    int major, version;
    char name[64];

    EXPECT(3, cuDeviceGet(&device, 0));
    OK(cuInit(0));
    OK(cuDriverGetVersion(&version));
    OK(cuDeviceGet(&device, 0));
    EXPECT(101, cuDeviceGet(&device, 1));
    OK(cuDeviceGetName(name, sizeof name, device));
    OK(cuDeviceGetAttribute(&major, 75, device));
    printf("%s, compute capability %d, version %d\n", name, major, version);
    EXPECT(201, cuMemAlloc_v2(&x, 4));
    OK(cuCtxCreate_v2(&context, 0, device));
    EXPECT(218, cuModuleLoadData(&module, "this is no PTX"));
    OK(cuModuleLoadData(&module, vector_ptx));
    EXPECT(500, cuModuleGetFunction(&add, module, "subtract"));
    OK(cuModuleGetFunction(&add, module, "add"));
    CUfunction fault;
    int constant, local, none;
    OK(cuModuleGetFunction(&fault, module, "fault"));
    OK(cuFuncGetAttribute(&constant, 2, fault));
    OK(cuFuncGetAttribute(&local, 3, fault));
    OK(cuFuncGetAttribute(&none, 3, add));
    if (constant != 80 || local != 400 || none != 0) return printf("%d %d %d\n", constant, local, none), 1;
    OK(cuMemGetInfo_v2(&free_before, &total));
    OK(cuMemAlloc_v2(&x, sizeof host));
    OK(cuMemAlloc_v2(&y, sizeof host));
    OK(cuMemAllocManaged(&z, sizeof host, 1));
    OK(cuMemGetInfo_v2(&free_after, &total));
    printf("%zu bytes are allocated\n", free_before - free_after);
    for (int i = 0; i < N; i++) host[i] = (float)i;
    OK(cuMemcpyHtoD_v2(x, host, sizeof host));
    OK(cuMemsetD32_v2(y, 0x3f800000, N));
    unsigned n = N;
    void *parameters[] = {&x, &y, &z, &n};
    EXPECT(1, cuLaunchKernel(add, 8, 1, 1, 2048, 1, 1, 0, NULL, parameters, NULL));
    EXPECT(400, cuLaunchKernel((CUfunction)0x1234, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
    OK(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
    struct { CUdeviceptr x, y, z; unsigned n; } bank = {x, y, z, N};
    size_t bank_bytes = sizeof bank;
    void *extra[] = {(void *)1, &bank, (void *)2, &bank_bytes, NULL};
    OK(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    for (int i = 0; i < N; i++)
        if (((float *)z)[i] != (float)i + 1) return printf("element %d is wrong\n", i), 1;
    OK(cuModuleGetGlobal_v2(&launches, &bytes, module, "launches"));
    unsigned count;
    OK(cuMemcpyDtoH_v2(&count, launches, sizeof count));
    printf("%u launches, a variable of %zu bytes\n", count, bytes);
    EXPECT(1, cuMemcpyHtoD_v2(x, host, sizeof host + 4));
    OK(cuMemFree_v2(x));
    EXPECT(1, cuMemFree_v2(x));
    OK(cuModuleUnload(module));
    EXPECT(400, cuModuleUnload(module));
    OK(cuCtxDestroy_v2(context));
    puts("done");
    return 0;
}
