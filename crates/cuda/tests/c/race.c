/* Two streams write and read one buffer without an event: the checkers report it. */
#include "cuda.h"
#include "vector.h"

int main(void) {
    CUcontext context;
    CUmodule module;
    CUfunction add;
    CUstream first, second;
    CUdeviceptr x, y;
    unsigned n = 64;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuModuleLoadData(&module, vector_ptx));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuStreamCreate(&first, 1));
    OK(cuStreamCreate(&second, 1));
    OK(cuMemAlloc_v2(&x, 256));
    OK(cuMemAlloc_v2(&y, 256));
    void *parameters[] = {&x, &x, &y, &n};
    OK(cuMemsetD32Async(x, 0, 64, first));
    OK(cuLaunchKernel(add, 1, 1, 1, 64, 1, 1, 0, second, parameters, NULL));
    OK(cuCtxSynchronize());
    return 0;
}
