"""Matrix products on ordinary arithmetic, and asynchronous copies."""

import numpy as np

from harness import given, made, program, s32


def product(random, m, n, k, dtype, **tolerance):
    if dtype == np.int32:
        a, b = random.integers(-2**31, 2**31, (m, k), dtype), random.integers(-2**31, 2**31, (k, n), dtype)
        c = a @ b
    else:
        a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
        c = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
    return [given(a), given(b), made(c, **tolerance), s32(m), s32(n), s32(k)]


@program("matrix", grid=(3, 5), block=(16, 8))
def matmul_naive(random):
    return product(random, 33, 45, 50, np.float32, rtol=1e-4, atol=1e-4)


@program("matrix", grid=(3, 3), block=(16, 16))
def matmul_tiled_float(random):
    return product(random, 33, 45, 50, np.float32, rtol=1e-4, atol=1e-4)


@program("matrix", grid=(3, 3), block=(8, 8))
def matmul_tiled_double(random):
    return product(random, 20, 23, 31, np.float64, rtol=1e-12, atol=1e-12)


@program("matrix", grid=(2, 2), block=(16, 16))
def matmul_tiled_int(random):
    return product(random, 20, 23, 31, np.int32)


@program("matrix", grid=(2, 3), block=64)
def matmul_async(random):
    return product(random, 96, 64, 80, np.float32, rtol=1e-4, atol=1e-4)


@program("matrix", grid=1, block=64, shared=7 * 256)
def copy_async_ragged(random):
    a = random.standard_normal((7, 51), np.float32)
    return [given(a), made(np.pad(a, ((0, 0), (0, 13)))[:, ::-1]), s32(7), s32(51)]


@program("matrix", grid=1, block=64)
def copy_async_mbarrier(random):
    a = random.integers(-2**31, 2**31, (3, 64, 4), np.int32)
    return [given(a), made(a[:, ::-1, ::-1])]
