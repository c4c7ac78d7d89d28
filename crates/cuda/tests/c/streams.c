/* Streams are asynchronous: a kernel waits for another stream, and for the host; events order; graphs repeat. */
#include "cuda.h"
#include "vector.h"
#include <threads.h>

enum { N = 512 };
static int called;
static void callback(void *argument) { called += *(int *)argument; }

int main(void) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add, spin;
    CUstream first, second;
    CUevent start, end;
    CUdeviceptr x, y, flag;
    float *z, milliseconds;
    unsigned n = N;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate_v2(&context, 0, device));
    OK(cuModuleLoadData(&module, vector_ptx));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&spin, module, "spin"));
    OK(cuStreamCreate(&first, 1));
    OK(cuStreamCreate(&second, 1));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuMemAlloc_v2(&x, N * 4));
    OK(cuMemAlloc_v2(&y, N * 4));
    OK(cuMemAlloc_v2(&flag, 4));
    OK(cuMemHostAlloc((void **)&z, N * 4, 0));
    OK(cuMemsetD32_v2(flag, 0, 1));

    /* The kernel of the first stream ends when the second stream has set the flag. */
    void *wait[] = {&flag};
    OK(cuEventRecord(start, first));
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, first, wait, NULL));
    OK(cuEventRecord(end, first));
    EXPECT(600, cuStreamQuery(first));
    /* Nothing changes for a while: that is no deadlock yet. */
    thrd_sleep(&(struct timespec){0, 200000000}, NULL);
    OK(cuMemsetD32Async(flag, 1, 1, second));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    if (!(milliseconds > 0)) return puts("no time"), 1;

    /* It ends when the host sets a word of memory that both access. */
    *(volatile unsigned *)z = 0;
    void *mapped[] = {&z};
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, first, mapped, NULL));
    thrd_sleep(&(struct timespec){0, 100000000}, NULL);
    EXPECT(600, cuStreamQuery(first));
    *(volatile unsigned *)z = 1;
    OK(cuStreamSynchronize(first));

    /* Ones on one stream, twos on the other, their sum behind an event; a callback behind it. */
    int seven = 7;
    void *parameters[] = {&x, &y, &z, &n};
    OK(cuMemsetD32Async(x, 0x3f800000, N, first));
    OK(cuEventRecord(end, first));
    OK(cuMemsetD32Async(y, 0x40000000, N, second));
    OK(cuStreamWaitEvent(second, end, 0));
    OK(cuLaunchKernel(add, 4, 1, 1, 128, 1, 1, 0, second, parameters, NULL));
    OK(cuLaunchHostFunc(second, callback, &seven));
    OK(cuStreamSynchronize(second));
    if (z[N - 1] != 3 || called != 7) return printf("%f, %d\n", z[N - 1], called), 1;

    /* A graph: z = z + x, four times. */
    CUgraph graph;
    CUgraphExec executable;
    void *again[] = {&z, &x, &z, &n};
    OK(cuStreamBeginCapture_v2(first, 0));
    OK(cuLaunchKernel(add, 4, 1, 1, 128, 1, 1, 0, first, again, NULL));
    EXPECT(900, cuStreamSynchronize(first));
    OK(cuStreamEndCapture(first, &graph));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < 4; i++) OK(cuGraphLaunch(executable, first));
    OK(cuStreamSynchronize(first));
    printf("%.0f\n", z[0]);
    OK(cuMemFreeHost(z));
    OK(cuStreamDestroy_v2(first));
    EXPECT(400, cuStreamSynchronize(first));
    puts("done");
    return 0;
}
