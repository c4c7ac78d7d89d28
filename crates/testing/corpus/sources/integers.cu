// Integers: wide division, 128 bits, bits, hashes, ciphers, random numbers.

extern "C" __global__ void divide(const long long* __restrict__ x, const long long* __restrict__ y, long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long a = x[i], b = y[i];
    unsigned long long u = a, v = b;
    int s = (int)a, t = (int)b | 1;
    out[i] = a / b, out[n + i] = a % b, out[2 * n + i] = u / v, out[3 * n + i] = u % v;
    out[4 * n + i] = s / t, out[5 * n + i] = s % t, out[6 * n + i] = (unsigned)s / (unsigned)t, out[7 * n + i] = a / 1000003;
    out[8 * n + i] = (short)a / (short)(b | 1), out[9 * n + i] = u % 10;
}

extern "C" __global__ void wide_128(const unsigned long long* __restrict__ x, const unsigned long long* __restrict__ y, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned __int128 a = (unsigned __int128)x[i] << 64 | y[i], b = (unsigned __int128)(y[i] >> 3) << 64 | x[i];
    unsigned __int128 r[6] = {a + b, a - b, a * b, a / (b >> 20 | 1), a % (b >> 50 | 1), a << (x[i] & 127) ^ b >> (y[i] & 127)};
    __int128 s = (__int128)(long long)x[i] * (long long)y[i];
#pragma unroll
    for (int k = 0; k < 6; k++) out[(2 * k) * n + i] = (unsigned long long)r[k], out[(2 * k + 1) * n + i] = (unsigned long long)(r[k] >> 64);
    out[12 * n + i] = (unsigned long long)(s >> 64);
    out[13 * n + i] = __umul64hi(x[i], y[i]) + __mul64hi((long long)x[i], (long long)y[i]);
}

extern "C" __global__ void bits(const unsigned* __restrict__ x, const unsigned* __restrict__ y, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = y[i];
    unsigned long long w = (unsigned long long)a << 32 | b;
    unsigned r[20] = {(unsigned)__popc(a), (unsigned)__clz(a >> (b & 31)), (unsigned)__ffs(a << (b & 31)), __brev(a), __byte_perm(a, b, b & 0x7777),
                      __funnelshift_l(a, b, b), __funnelshift_rc(a, b, b & 63), (unsigned)__popcll(w), (unsigned)__clzll(w >> (b & 63)),
                      (unsigned)__ffsll(w << (a & 63)), (unsigned)(__brevll(w) >> 13), (unsigned)__mulhi((int)a, (int)b), __umulhi(a, b),
                      (unsigned)__mul24((int)a, (int)b), __umul24(a, b), __usad(a, b, 9), (unsigned)__hadd((int)a, (int)b), __urhadd(a, b),
                      (a & b) ^ (~a | (b >> 3)), (unsigned)((int)a >> (b & 31))};
#pragma unroll
    for (int k = 0; k < 20; k++) out[k * n + i] = r[k];
    unsigned f, g, l;
    asm("bfe.s32 %0, %1, %2, 9;" : "=r"(f) : "r"(a), "r"(b & 31));
    asm("bfi.b32 %0, %1, %2, %3, 7;" : "=r"(g) : "r"(a), "r"(b), "r"(a & 31));
    asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(l) : "r"(a), "r"(b), "r"(i));
    out[20 * n + i] = f, out[21 * n + i] = g, out[22 * n + i] = l;
}

// Carry chains by hand: 256-bit addition, and a 64x64 product from 32-bit parts.
extern "C" __global__ void carries(const unsigned* __restrict__ x, const unsigned* __restrict__ y, unsigned* sum, unsigned* product) {
    const unsigned *a = x + threadIdx.x * 8, *b = y + threadIdx.x * 8;
    unsigned* s = sum + threadIdx.x * 9;
    unsigned r[9];
    asm("add.cc.u32 %0, %9, %17;\n addc.cc.u32 %1, %10, %18;\n addc.cc.u32 %2, %11, %19;\n addc.cc.u32 %3, %12, %20;\n"
        "addc.cc.u32 %4, %13, %21;\n addc.cc.u32 %5, %14, %22;\n addc.cc.u32 %6, %15, %23;\n addc.cc.u32 %7, %16, %24;\n addc.u32 %8, 0, 0;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    for (int k = 0; k < 9; k++) s[k] = r[k];
    unsigned p0, p1, p2, p3;
    asm("mul.lo.u32 %0, %4, %6;\n mul.hi.u32 %1, %4, %6;\n mad.lo.cc.u32 %1, %4, %7, %1;\n madc.hi.u32 %2, %4, %7, 0;\n"
        "mad.lo.cc.u32 %1, %5, %6, %1;\n madc.hi.cc.u32 %2, %5, %6, %2;\n addc.u32 %3, 0, 0;\n mad.lo.cc.u32 %2, %5, %7, %2;\n madc.hi.u32 %3, %5, %7, %3;"
        : "=&r"(p0), "=&r"(p1), "=&r"(p2), "=&r"(p3) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
    unsigned* p = product + threadIdx.x * 4;
    p[0] = p0, p[1] = p1, p[2] = p2, p[3] = p3;
}

__device__ unsigned crc_table[256];
extern "C" __global__ void crc32(const unsigned char* __restrict__ text, unsigned* out, int length) {
    unsigned c = threadIdx.x;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
    crc_table[threadIdx.x] = c;
    __syncthreads();
    if (threadIdx.x >= 16) return;
    unsigned crc = ~0u;
    for (int i = 0; i < length; i++) crc = crc_table[(crc ^ text[threadIdx.x * length + i]) & 255] ^ crc >> 8;
    out[threadIdx.x] = ~crc;
}

__constant__ unsigned sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
__device__ __forceinline__ unsigned rotate(unsigned x, int n) { return x >> n | x << (32 - n); }
// One message of up to 55 bytes a thread.
extern "C" __global__ void sha256(const unsigned char* __restrict__ text, unsigned char* digest, int length) {
    unsigned w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char* m = text + threadIdx.x * length;
    for (int i = 0; i < 16; i++) {
        unsigned v = 0;
        for (int b = 0; b < 4; b++) {
            int at = i * 4 + b;
            v = v << 8 | (at < length ? m[at] : at == length ? 0x80 : 0);
        }
        w[i] = v;
    }
    w[15] = length * 8;
    for (int i = 16; i < 64; i++) {
        unsigned s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3, s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    unsigned a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
    for (int i = 0; i < 64; i++) {
        unsigned t1 = k + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + sha_k[i] + w[i];
        unsigned t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        k = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    unsigned r[8] = {a, b, c, d, e, f, g, k};
    for (int i = 0; i < 32; i++) digest[threadIdx.x * 32 + i] = (r[i / 4] + h[i / 4]) >> (24 - i % 4 * 8);
}

// The AES substitution computed, kept in shared memory, and a block run through ten rounds of a simplified cipher.
extern "C" __global__ void substitute(unsigned char* state, const unsigned char* __restrict__ key, int rounds) {
    __shared__ unsigned char box[256];
    unsigned char x = threadIdx.x, inverse = 0;
    if (x)
        for (int c = 1; c < 256 && !inverse; c++) {
            unsigned p = 0, a = x, b = c;
            for (int i = 0; i < 8; i++) {
                if (b & 1) p ^= a;
                a = a << 1 ^ (a & 0x80 ? 0x11b : 0);
                b >>= 1;
            }
            if (p == 1) inverse = c;
        }
    unsigned s = inverse;
    box[x] = s ^ (s << 1 | s >> 7) ^ (s << 2 | s >> 6) ^ (s << 3 | s >> 5) ^ (s << 4 | s >> 4) ^ 0x63;
    __syncthreads();
    int block = threadIdx.x / 16 * 16, at = threadIdx.x % 16;
    for (int r = 0; r < rounds; r++) {
        unsigned char from = state[block + (at * 5) % 16];
        unsigned char next = box[from ^ key[(at + r) % 16]];
        __syncwarp();
        unsigned neighbour = __shfl_xor_sync(0xffffffffu, next, 1);
        state[block + at] = next ^ (neighbour << 1) ^ (neighbour & 0x80 ? 0x1b : 0);
        __syncwarp();
    }
}

// Philox 4x32-10.
extern "C" __global__ void philox(uint4* out, float* uniform, unsigned seed0, unsigned seed1, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 c = make_uint4(i, 0, 42, 7);
    unsigned k0 = seed0, k1 = seed1;
#pragma unroll
    for (int r = 0; r < 10; r++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[i] = c;
    uniform[i] = c.x * 2.3283064e-10f;
}

// Steps of the Collatz sequence: loops of very different lengths in one warp.
extern "C" __global__ void collatz(unsigned* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = i + 1;
    unsigned s = 0;
    while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        s++;
    }
    steps[i] = s;
}
