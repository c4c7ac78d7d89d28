// Control flow, calls and storage: jump tables, function pointers, recursion, structs, local arrays, constants, globals.

extern "C" __global__ void jump_table(const int* __restrict__ op, const int* __restrict__ x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], r;
    switch (op[i]) {
    case 0: r = v + 1; break;
    case 1: r = v * v; break;
    case 2: r = v >> 3; break;
    case 3: r = -v; break;
    case 4: r = v % 17; break;
    case 5: r = v ^ 0x5a5a; break;
    case 6: for (r = 0; v > 0; v >>= 1) r += v & 1; break;
    case 7: r = __clz(v); break;
    case 8: r = v * 3; // falls through
    case 9: r = v - 9; break;
    case 11: r = abs(v); break;
    default: r = -1;
    }
    out[i] = r;
}

typedef float (*Unary)(float);
__device__ float square(float x) { return x * x; }
__device__ float half_of(float x) { return x * 0.5f; }
__device__ float negate(float x) { return -x; }
__device__ float shifted(float x) { return x + 3.0f; }
__device__ Unary table_of_functions[4] = {square, half_of, negate, shifted};
extern "C" __global__ void function_pointers(const float* __restrict__ x, const int* __restrict__ which, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table_of_functions[which[i]](table_of_functions[(which[i] + 1) & 3](x[i]));
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int sides() const { return 0; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area() const override { return 3.0f * r * r; }
};
struct Box : Shape {
    float a, b;
    __device__ Box(float a, float b) : a(a), b(b) {}
    __device__ float area() const override { return a * b; }
    __device__ int sides() const override { return 4; }
};
extern "C" __global__ void virtual_functions(const float* __restrict__ x, float* out) {
    Circle c(x[threadIdx.x]);
    Box b(x[threadIdx.x], 2.0f);
    const Shape* s = threadIdx.x % 3 ? (const Shape*)&c : (const Shape*)&b;
    out[threadIdx.x] = s->area() + s->sides();
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
extern "C" __global__ void recursion(int* out) {
    out[2 * threadIdx.x] = fibonacci(threadIdx.x % 13);
    out[2 * threadIdx.x + 1] = ackermann(threadIdx.x % 3, threadIdx.x % 4);
}

// Quicksort of a thread's own row by recursion over a local array.
__device__ __noinline__ void quicksort(short* a, int low, int high) {
    while (low < high) {
        short pivot = a[(low + high) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (a[i] < pivot) i++;
            while (a[j] > pivot) j--;
            if (i <= j) {
                short t = a[i];
                a[i++] = a[j];
                a[j--] = t;
            }
        }
        if (j - low < high - i) {
            quicksort(a, low, j);
            low = i;
        } else {
            quicksort(a, i, high);
            high = j;
        }
    }
}
extern "C" __global__ void sort_rows(short* rows) {
    short a[24];
    for (int i = 0; i < 24; i++) a[i] = rows[threadIdx.x * 24 + i];
    quicksort(a, 0, 23);
    for (int i = 0; i < 24; i++) rows[threadIdx.x * 24 + i] = a[i];
}

struct Record {
    double weight;
    int key;
    char tag[6];
    short pair[3];
};
__device__ __noinline__ Record merge(Record a, const Record& b) {
    Record r;
    r.weight = a.weight + b.weight;
    r.key = a.key * b.key;
    for (int i = 0; i < 6; i++) r.tag[i] = i & 1 ? a.tag[i] : b.tag[5 - i];
    r.pair[0] = a.pair[1], r.pair[1] = b.pair[0], r.pair[2] = a.pair[2] - b.pair[2];
    return r;
}
extern "C" __global__ void structs(const Record* a, Record* out, Record by_value, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = merge(merge(a[i], a[(i + 1) % n]), by_value);
}

__constant__ float weights[8] = {0.5f, -1.0f, 2.0f, 0.25f, 3.0f, -0.125f, 1.5f, 4.0f};
__constant__ char message[] = "warps of lanes";
__device__ double coefficients[3][2] = {{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}};
__device__ const int* pointer_to_table;
__device__ int counters[4];
extern "C" __global__ void storage(const float* __restrict__ x, float* out, char* text, double* doubles, int* counts) {
    int i = threadIdx.x;
    float s = 0;
    for (int k = 0; k < 8; k++) s += weights[(k + i) & 7] * x[(i * 8 + k) % 96];
    out[i] = s;
    if (i < 14) text[i] = message[13 - i];
    if (i < 6) doubles[i] = coefficients[i % 3][i / 3];
    atomicAdd(&counters[i & 3], i);
    if (i == 0) pointer_to_table = counters;
    __syncthreads();
    if (i < 4) counts[i] = pointer_to_table[i];
}

// An array in local memory that the index picks at run time, and a stack by hand.
extern "C" __global__ void local_arrays(const unsigned* __restrict__ x, unsigned* out) {
    unsigned stack[16], histogram[8] = {};
    int top = 0;
    unsigned v = x[threadIdx.x];
    while (v) {
        stack[top++] = v & 3;
        histogram[v & 7]++;
        v >>= 2;
    }
    unsigned r = 0;
    while (top) r = r * 5 + stack[--top];
    unsigned long long packed = 0;
    for (int i = 0; i < 8; i++) packed = packed * 17 + histogram[(i + threadIdx.x) & 7];
    out[2 * threadIdx.x] = r;
    out[2 * threadIdx.x + 1] = (unsigned)packed;
}

template <int N, typename F> __device__ void repeat(F f) {
    if constexpr (N > 0) {
        repeat<N - 1>(f);
        f(N - 1);
    }
}
template <typename T> struct Complex {
    T re, im;
    __device__ Complex operator*(Complex o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
    __device__ Complex operator+(Complex o) const { return {re + o.re, im + o.im}; }
};
extern "C" __global__ void templates(const Complex<double>* __restrict__ z, Complex<double>* out) {
    Complex<double> v = z[threadIdx.x], sum = {0, 0}, power = {1, 0};
    repeat<6>([&](int k) {
        sum = sum + power * Complex<double>{double(k + 1), -double(k)};
        power = power * v;
    });
    out[threadIdx.x] = sum;
}

extern "C" __global__ void prints(const float* __restrict__ x, int* out, int n) {
    int i = threadIdx.x;
    assert(i < 1000);
    if (i < n) {
        int written = printf("lane %d of %s: %.3f %5u|%-4d|%x %c %lld %%\n", i, "prints", x[i], 7u * i, -i, i * 255, 'a' + i, 1ll << (30 + i));
        out[i] = written;
    }
    if (i == 0) printf("end\n");
}

// The heap in shared memory: sizes that the launch decides, carved into several arrays.
extern "C" __global__ void dynamic_shared(const double* __restrict__ x, double* out, int n) {
    extern __shared__ __align__(16) unsigned char heap[];
    double* values = (double*)heap;
    int* order = (int*)(values + n);
    unsigned short* small = (unsigned short*)(order + n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        values[i] = x[i];
        order[i] = (i * 7) % n;
        small[i] = i;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = values[order[small[i]]] * 2;
}

extern "C" __global__ void clocks(unsigned* out) {
    long long start = clock64();
    unsigned c = clock(), g;
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(g));
    unsigned warp, warps, mask, smid, nsmid;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(smid));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(nsmid));
    __nanosleep(100);
    bool fine = clock64() >= start && smid < nsmid && mask == (1u << g) - 1 && (c | 1) && t != 0 && threadIdx.x % 32 == g;
    out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = 0;
    __syncthreads();
    atomicAdd(&out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], fine + gridDim.x * 1000);
}

// Nested divergence: loops with breaks and continues whose trip counts differ by lane, with shuffles among those that remain.
extern "C" __global__ void divergence(const int* __restrict__ x, int* out) {
    int v = x[threadIdx.x], r = 0;
    for (int i = 0; i < v; i++) {
        if (i % 3 == 2) continue;
        for (int j = i;; j += 2) {
            if (j > 20) break;
            if ((j ^ v) & 4) {
                r += j;
                if (r > 1000) goto done;
            } else {
                r ^= 1;
            }
        }
    }
    r += 10000;
done:
    __syncwarp();
    int partner = __shfl_xor_sync(0xffffffffu, r, 1);
    unsigned mask = __match_any_sync(0xffffffffu, v & 3);
    int leader = __ffs(mask) - 1, first = __shfl_sync(mask, r, leader);
    out[threadIdx.x] = r * 3 + partner + first;
}
