"""Tensor cores."""

import ml_dtypes
import numpy as np

from harness import given, made, program, s32

BF16 = ml_dtypes.bfloat16


def wmma(random, m, n, k, dtype, by_column, out, **tolerance):
    if np.dtype(dtype).kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
        a, b = random.integers(low, high, (m, k), dtype), random.integers(low, high, (k, n), dtype)
        c = (a.astype(np.int64) @ b.astype(np.int64)).astype(out)
    else:
        a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
        c = (a.astype(np.float64) @ b.astype(np.float64)).astype(out)
    return [given(a), given(b.T if by_column else b), made(c, **tolerance), s32(n), s32(k)]


@program("wmma", grid=(3, 2), block=32)
def wmma_half(random):
    return wmma(random, 32, 48, 64, np.float16, True, np.float32, rtol=1e-4, atol=1e-4)


@program("wmma", grid=(2, 3), block=32)
def wmma_half_wide(random):
    return wmma(random, 24, 64, 32, np.float16, False, np.float32, rtol=1e-4, atol=1e-4)


@program("wmma", grid=(3, 2), block=32)
def wmma_half_tall(random):
    return wmma(random, 64, 24, 32, np.float16, True, np.float16, rtol=2e-2, atol=3e-2)


@program("wmma", grid=(2, 2), block=32)
def wmma_bfloat(random):
    return wmma(random, 32, 32, 48, BF16, False, np.float32, rtol=1e-4, atol=1e-4)


@program("wmma", grid=(2, 2), block=32)
def wmma_tf32(random):
    return wmma(random, 32, 32, 40, np.float32, True, np.float32, rtol=1e-2, atol=1e-2)


@program("wmma", grid=(2, 2), block=32)
def wmma_signed(random):
    return wmma(random, 32, 32, 48, np.int8, True, np.int32)


@program("wmma", grid=(2, 2), block=32)
def wmma_unsigned(random):
    return wmma(random, 64, 16, 48, np.uint8, False, np.int32)


@program("wmma", grid=(2, 2), block=32)
def wmma_double(random):
    return wmma(random, 16, 16, 20, np.float64, True, np.float64, rtol=1e-13, atol=1e-13)


@program("wmma", grid=1, block=32)
def wmma_nibbles(random):
    a, b = random.integers(-8, 8, (8, 32)), random.integers(-8, 8, (32, 8))
    pack = lambda m: ((m & 15).reshape(-1, 8).astype(np.uint64) << (np.arange(8, dtype=np.uint64) * 4)).sum(1).astype(np.uint32)
    return [given(pack(a).view(np.int32)), given(pack(b.T).view(np.int32)), made((a @ b + 5).T.astype(np.int32))]


@program("wmma", grid=1, block=32)
def wmma_bits(random):
    a, b = random.integers(0, 2, (2, 8, 128), np.uint8)
    pack = lambda m: np.packbits(m, axis=1, bitorder="little").view(np.uint32)
    a_, b_ = a.astype(np.int32), b.astype(np.int32)
    xor, both = (a_[:, None, :] ^ b_[None]).sum(2), (a_[:, None, :] & b_[None]).sum(2)
    return [given(pack(a)), given(pack(b)), made((xor * 1000 + both).astype(np.int32))]


@program("mma", grid=(2, 3), block=32)
def mma_ldmatrix(random):
    a, b = random.standard_normal((48, 80)).astype(BF16), random.standard_normal((80, 32)).astype(BF16)
    c = a.astype(np.float64) @ b.astype(np.float64)
    return [given(a), given(b), made(c.astype(np.float32), rtol=1e-4, atol=1e-4), s32(80)]


START = np.array([[1, 2]] * 8 + [[3, 4]] * 8)[:, np.arange(8) % 2]


def mma(random, k, dtype, keep=lambda x: x):
    a, b = random.standard_normal((16, k)).astype(dtype), random.standard_normal((k, 8)).astype(dtype)
    c = keep(a).astype(np.float64) @ keep(b).astype(np.float64) + START
    return [given(a), given(b.T), made(c.astype(np.float32), rtol=1e-5, atol=1e-5)]


@program("mma", grid=1, block=32)
def mma_half_k16(random):
    return mma(random, 16, np.float16)


@program("mma", grid=1, block=32)
def mma_half_k8(random):
    return mma(random, 8, np.float16)


@program("mma", grid=1, block=32)
def mma_tf32_k8(random):
    # The tensor cores read 19 bits of an f32: the rest is cut off.
    return mma(random, 8, np.float32, lambda x: (x.view(np.uint32) & np.uint32(0xffffe000)).view(np.float32))


@program("mma", grid=1, block=32)
def mma_half_accumulator(random):
    a, b = random.standard_normal((16, 16)).astype(np.float16), random.standard_normal((16, 8)).astype(np.float16)
    c = a.astype(np.float64) @ b.astype(np.float64) + np.repeat([[1.0], [-2.0]], 8, 0)
    return [given(a), given(b.T), made(c.astype(np.float16), rtol=2e-3, atol=1e-2)]


@program("mma", grid=1, block=32)
def mma_signed_k32(random):
    a, b = random.integers(-128, 128, (16, 32), np.int8), random.integers(0, 256, (32, 8), np.uint8)
    start = np.array([[100, 200]] * 8 + [[-300, 400]] * 8)[:, np.arange(8) % 2]
    return [given(a), given(b.T), made((a.astype(np.int64) @ b.astype(np.int64) + start).astype(np.int32))]


@program("mma", grid=1, block=32)
def mma_double(random):
    a, b = random.standard_normal((8, 4)), random.standard_normal((4, 8))
    return [given(a), given(b.T), made(a @ b + np.array([0.5, -0.5] * 4), rtol=1e-14, atol=1e-14)]


@program("mma", grid=1, block=32)
def mma_sparse(random):
    kept = np.sort(np.argsort(random.random((16, 8, 4)), 2)[:, :, :2], 2)
    values = random.standard_normal((16, 8, 2)).astype(np.float16)
    dense = np.zeros((16, 8, 4), np.float64)
    np.put_along_axis(dense, kept, values.astype(np.float64), 2)
    b = random.standard_normal((32, 8)).astype(np.float16)
    # Selector 0: of each four lanes the first holds row `group` (its half of the groups), the second the row eight below.
    nibbles = (kept[:, :, 0] | kept[:, :, 1] << 2).astype(np.uint32)
    positions = np.zeros(32, np.uint32)
    for group in range(8):
        for half in range(2):
            low = sum(int(nibbles[group, half * 4 + j]) << 4 * j for j in range(4))
            high = sum(int(nibbles[group + 8, half * 4 + j]) << 4 * j for j in range(4))
            positions[group * 4 + half] = low | high << 16
    c = dense.reshape(16, 32) @ b.astype(np.float64)
    return [given(values.reshape(16, 16)), given(positions), given(b.T), made(c.astype(np.float32), rtol=1e-5, atol=1e-5)]


@program("mma", grid=1, block=32)
def move_matrix(random):
    m = random.integers(0, 2**16, (8, 8), np.uint16)
    return [given(m.view(np.uint32)), made(np.ascontiguousarray(m.T).view(np.uint32))]
