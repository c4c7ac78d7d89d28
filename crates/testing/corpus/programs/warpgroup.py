"""Hopper's tensor cores from CUDA C++."""

import ml_dtypes
import numpy as np

from harness import TensorMap, f32, given, made, program, s32

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
HOPPER = ("sm_90a",)


def tiles(place, box):
    return TensorMap(place, box=box, swizzle="128B")


def operands(random, m, n, k, dtype=BF16):
    """A (m, k), B transposed (n, k), and their product in double precision."""
    a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((n, k)).astype(dtype)
    return a, b, a.astype(np.float64) @ b.astype(np.float64).T


@program("warpgroup", grid=(2, 3), block=128, variants=HOPPER)
def gemm_simple(random):
    a, b, c = operands(random, 192, 128, 320)
    return [tiles(5, [64, 64]), tiles(6, [64, 64]), made(c.astype(np.float32), rtol=1e-4, atol=1e-3), s32(128), s32(320), given(a), given(b)]


@program("warpgroup", grid=3, block=384, variants=HOPPER, shared=3 * 32768 + 48)
def gemm_queue(random):
    a, b, c = operands(random, 256, 256, 320)
    return [tiles(6, [64, 128]), tiles(7, [64, 128]), made(c.astype(BF16), rtol=1e-2, atol=1e-2), s32(256), s32(256), s32(320), given(a), given(b)]


@program("warpgroup", grid=(4, 2), block=256, variants=HOPPER, shared=2 * 16384 + 8192 + 32, cluster=2)
def gemm_cluster(random):
    a, b, c = operands(random, 256, 128, 256)
    return [tiles(4, [64, 64]), tiles(5, [64, 32]), tiles(6, [64, 64]), s32(256), given(a), given(b), made(c.astype(BF16), rtol=1e-2, atol=1e-2)]


@program("warpgroup", grid=(2, 2), block=256, variants=HOPPER, shared=4 * (16384 + 256) + 64)
def gemm_fp8_blocks(random):
    m, n, k = 128, 128, 768
    a, b = random.standard_normal((m, k)).astype(E4M3), random.standard_normal((n, k)).astype(E4M3)
    scale_a, scale_b = random.random((k // 128, m), np.float32), random.random((n // 64, k // 128), np.float32)
    c = sum(scale_a[i][:, None] * np.repeat(scale_b[:, i], 64) * (a[:, i * 128:][:, :128].astype(np.float64) @ b[:, i * 128:][:, :128].astype(np.float64).T)
            for i in range(k // 128))
    return [tiles(8, [128, 64]), tiles(9, [128, 64]), given(scale_a), given(scale_b), made(c.astype(np.float32), rtol=1e-2, atol=2e-2),
            s32(m), s32(n), s32(k), given(a), given(b)]


@program("warpgroup", grid=2, block=128, variants=HOPPER, shared=5 * 8192 + 40, entry="attention")
def warpgroup_attention(random):
    q, k, v = random.standard_normal((128, 64)).astype(BF16), *random.standard_normal((2, 256, 64)).astype(BF16)
    s = q.astype(np.float64) @ k.astype(np.float64).T / 8
    p = np.exp(s - s.max(1, keepdims=True))
    out = p / p.sum(1, keepdims=True) @ v.astype(np.float64)
    box = [64, 64]
    return [tiles(6, box), tiles(7, box), tiles(8, box), made(out.astype(BF16), rtol=2e-2, atol=1e-2), s32(256), f32(0.125 * 1.4426950408889634),
            given(q), given(k), given(v)]
