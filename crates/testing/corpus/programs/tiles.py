"""Kernels in Triton."""

import math

import ml_dtypes
import numpy as np

from harness import descriptor, f32, given, made, s32, triton_program, updated
from programs.integers import M32

BF16, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2


@triton_program("add", "*fp32 *fp32 *fp32 i32", {"BLOCK": 256}, grid=4)
def triton_add(random):
    x, y = random.standard_normal((2, 1008), np.float32)
    return [given(x), given(y), made(x + y), s32(1008)]


@triton_program("softmax", "*fp32 *fp32 i32 i32", {"BLOCK": 512}, grid=5)
def triton_softmax(random):
    x = random.standard_normal((5, 320), np.float32)
    v = x[:, :300].astype(np.float64)
    e = np.exp(v - v.max(1, keepdims=True))
    return [given(x), made((e / e.sum(1, keepdims=True)).astype(np.float32), rtol=1e-5, atol=1e-8), s32(300), s32(320)]


@triton_program("layernorm", "*fp16 *fp32 *fp32 *fp16 i32 fp32", {"BLOCK": 128}, grid=4)
def triton_layernorm(random):
    x = random.standard_normal((4, 300)).astype(np.float16)
    gain, shift = random.standard_normal((2, 300), np.float32)
    v = x.astype(np.float64)
    out = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * gain + shift
    return [given(x), given(gain), given(shift), made(out.astype(np.float16), rtol=2e-3, atol=2e-3), s32(300), f32(1e-5)]


def product(random, m, n, k, dtype, out, **tolerance):
    if dtype == np.int8:
        a, b = random.integers(-128, 128, (m, k), dtype), random.integers(-128, 128, (k, n), dtype)
        c = a.astype(np.int64) @ b.astype(np.int64)
    else:
        a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
        c = a.astype(np.float64) @ b.astype(np.float64)
    return [given(a), given(b), made(c.astype(out), **tolerance), s32(m), s32(n), s32(k)]


TILE = {"BM": 32, "BN": 64, "BK": 32, "PRECISION": "tf32"}


@triton_program("matmul", "*fp16 *fp16 *fp32 i32 i32 i32", TILE, grid=(2, 2), stages=3, variants=("sm_80",))
def triton_matmul_half(random):
    return product(random, 64, 96, 112, np.float16, np.float32, rtol=1e-4, atol=1e-3)


@triton_program("matmul", "*bf16 *bf16 *bf16 i32 i32 i32", TILE, grid=(2, 2), stages=4, variants=("sm_80",), aligned=False)
def triton_matmul_bfloat(random):
    return product(random, 45, 77, 99, BF16, BF16, rtol=1e-2, atol=1e-2)


@triton_program("matmul", "*fp32 *fp32 *fp32 i32 i32 i32", TILE, grid=(2, 2), stages=2, variants=("sm_80",))
def triton_matmul_tf32(random):
    return product(random, 64, 96, 80, np.float32, np.float32, rtol=1e-2, atol=3e-2)


@triton_program("matmul", "*fp32 *fp32 *fp32 i32 i32 i32", TILE | {"PRECISION": "ieee"}, grid=(2, 2), variants=("sm_80", "sm_90"))
def triton_matmul_ieee(random):
    return product(random, 64, 96, 48, np.float32, np.float32, rtol=1e-4, atol=1e-4)


@triton_program("matmul", "*i8 *i8 *i32 i32 i32 i32", TILE, grid=(2, 2), stages=3, variants=("sm_80",))
def triton_matmul_bytes(random):
    return product(random, 64, 96, 128, np.int8, np.int32)


@triton_program("reduce", "*fp32 *fp32 *fp32 *i32 i32", {"BM": 16, "BN": 128}, grid=3)
def triton_reduce(random):
    x = random.standard_normal((48, 100), np.float32)
    return [given(x), made(x.sum(1, dtype=np.float64).astype(np.float32), rtol=1e-5, atol=1e-5), made(x.max(1)),
            made(x.argmax(1).astype(np.int32)), s32(100)]


@triton_program("scan", "*fp32 *fp32 *fp32 *fp32", {"BM": 4, "BN": 256}, grid=1)
def triton_scan(random):
    x, gate = random.standard_normal((4, 256), np.float32), random.random((4, 256), np.float32)
    h, linear = np.zeros(4), []
    for t in range(256):
        h = h * gate[:, t] + x[:, t]
        linear.append(h)
    return [given(x), given(gate), made(np.cumsum(x, 1, dtype=np.float64).astype(np.float32), rtol=1e-4, atol=1e-4),
            made(np.stack(linear, 1).astype(np.float32), rtol=1e-4, atol=1e-4)]


@triton_program("atomics", "*i32 *fp32 *i32 *i32 i32", {"BLOCK": 128}, grid=4)
def triton_atomics(random):
    x = random.integers(-1000, 1000, 500, np.int32)
    return [given(x), updated(np.zeros(1, np.float32), np.array([x.sum()], np.float32)),
            updated(np.full(1, -2**31, np.int32), x.max(keepdims=True)),
            updated(np.zeros(8, np.int32), np.bincount(x & 7, minlength=8).astype(np.int32)), s32(500)]


@triton_program("lock_step", "*i32 *i32", {"BLOCK": 128}, grid=5)
def triton_lock_step(random):
    x = random.integers(-1000, 1000, 128, np.int32)
    return [updated(np.zeros(1, np.int32), np.zeros(1, np.int32)), updated(x, x * 32 + 31)]


@triton_program("gather_rows", "*bf16 *i64 *bf16 i32", {"BM": 8, "BN": 64}, grid=4)
def triton_gather_rows(random):
    table, index = random.standard_normal((20, 48)).astype(BF16), random.integers(0, 20, 32, np.int64)
    return [given(table), given(index), made(table[index]), s32(48)]


@triton_program("dropout", "*fp32 *fp32 i32 fp32 i32", {"BLOCK": 256}, grid=3)
def triton_dropout(random):
    x, kept = random.standard_normal(700, np.float32), []
    for i in range(700):
        c, k = [i, 0, 0, 0], [1234, 0]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & M32, p >> 32 ^ c[3] ^ k[1], p & M32]
            k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
        signed = c[0] - 2**32 if c[0] >> 31 else c[0]
        kept.append((-signed - 1 if signed < 0 else signed) * 4.6566127342e-10 > 0.3)
    return [given(x), made(np.where(kept, x / np.float32(0.7), 0).astype(np.float32), rtol=1e-6), s32(700), f32(0.3), s32(1234)]


@triton_program("attention", "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"BM": 32, "BN": 32, "D": 64}, grid=(3, 2), stages=2, variants=("sm_80",))
def triton_attention(random):
    q, k, v = (random.standard_normal((2, 80, 64)).astype(np.float16) for _ in range(3))
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
    s = np.where(np.tri(80, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(2, keepdims=True))
    out = (p / p.sum(2, keepdims=True)) @ v.astype(np.float64)
    return [given(q), given(k), given(v), made(out.astype(np.float16), rtol=5e-3, atol=5e-3), s32(80), f32(0.125)]


@triton_program("histogram", "*i32 *i32", {"BLOCK": 1024, "BINS": 16}, grid=1)
def triton_histogram(random):
    x = random.integers(0, 16, 1024, np.int32)
    return [given(x), made(np.bincount(x, minlength=16).astype(np.int32))]


@triton_program("sort", "*fp32 *fp32", {"BM": 2, "BN": 128}, grid=1)
def triton_sort(random):
    x = random.standard_normal((2, 128), np.float32)
    return [given(x), made(np.sort(x, 1))]


@triton_program("transpose", "*fp16 *fp16 i32 i32", {"BM": 32, "BN": 32}, grid=(2, 3))
def triton_transpose(random):
    x = random.standard_normal((50, 70)).astype(np.float16)
    return [given(x), made(np.ascontiguousarray(x.T)), s32(50), s32(70)]


@triton_program("functions", "*fp32 *fp32 i32", {"BLOCK": 128}, grid=1)
def triton_functions(random):
    x = random.uniform(-4, 4, 100).astype(np.float32)
    v = x.astype(np.float64)
    rows = [np.sin(v), np.log(np.abs(v)), 1 / (1 + np.exp(-v)), np.array([math.erf(a) for a in v]), np.sqrt(np.abs(v)), 1 / v, np.tanh(v),
            np.abs(v) ** np.float64(np.float32(1.7)), np.floor((x * np.float32(10)).astype(np.float64)) + np.ceil(v)]
    return [given(x), made(np.stack(rows).astype(np.float32), rtol=2e-5, atol=2e-6), s32(100)]


@triton_program("casts", "*fp32 *fp16 *bf16 *i64 *i8 *fp8e5 i32", {"BLOCK": 128}, grid=2)
def triton_casts(random):
    x = (random.standard_normal(200) * 5).astype(np.float32)
    thousand = np.trunc((x * np.float32(1000)).astype(np.float64)).astype(np.int64)
    sevenths = np.where(thousand < 0, -(-thousand // 7), thousand // 7)
    tens = np.trunc((x * np.float32(10)).astype(np.float64)).astype(np.int32).astype(np.int8)
    return [given(x), made(x.astype(np.float16)), made(x.astype(BF16)), made(sevenths), made(tens), made(x.astype(E5M2)), s32(200)]


HOPPER = ("sm_90",)


def transposed_product(random, m, n, k, dtype):
    a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((n, k)).astype(dtype)
    c = (a.astype(np.float64) @ b.astype(np.float64).T).astype(dtype)
    return [given(a), given(b), made(c, rtol=1e-2, atol=2e-2), s32(m), s32(n), s32(k)]


@triton_program("descriptor_matmul", "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 64}, grid=(2, 2), variants=HOPPER)
def triton_descriptor_matmul(random):
    return transposed_product(random, 100, 72, 160, np.float16)


@triton_program("descriptor_matmul", "*bf16 *bf16 *bf16 i32 i32 i32", {"BM": 128, "BN": 32, "BK": 32}, grid=(1, 3), warps=8, stages=4,
                variants=HOPPER)
def triton_descriptor_matmul_wide(random):
    return transposed_product(random, 120, 88, 96, BF16)


@triton_program("descriptor_twice", "tensordesc<fp32[16,32]> tensordesc<fp32[16,32]>", {"BM": 16, "BN": 32}, grid=(3, 4), variants=HOPPER)
def triton_descriptor_twice(random):
    x = random.standard_normal((45, 100), np.float32)
    return [*descriptor(10, x.shape, [16, 32]), *descriptor(11, x.shape, [16, 32]), given(x), made(2 * x)]


@triton_program("descriptor_sums", "*i32 *i32 i32 i32", {"BM": 8, "BN": 32}, grid=(5, 2), variants=HOPPER)
def triton_descriptor_sums(random):
    x = random.integers(-1000, 1000, (40, 60), np.int32)
    return [given(x), updated(np.zeros((8, 60), np.int32), x.reshape(5, 8, 60).sum(0, dtype=np.int32)), s32(40), s32(60)]
