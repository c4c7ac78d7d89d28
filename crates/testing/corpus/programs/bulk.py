"""Tensor maps, bulk copies and clusters."""

import numpy as np

from harness import TensorMap, given, made, program, s32, scratch, updated

HOPPER = ("sm_90a",)


@program("bulk", grid=(4, 3), block=64, variants=HOPPER)
def tile_negate(random):
    x = random.standard_normal((37, 100), np.float32)
    return [TensorMap(2, box=[32, 16]), TensorMap(3, box=[32, 16]), given(x), made(-x)]


@program("bulk", grid=3, block=64, variants=HOPPER)
def swizzled_sums(random):
    x = random.integers(0, 1000, (3, 40, 64), np.uint16)
    sums = x.astype(np.float32).sum(1)
    return [TensorMap(3, box=[64, 8, 1], swizzle="128B"), made(sums), s32(5), given(x)]


@program("bulk", grid=8, block=32, variants=HOPPER, cluster=4)
def multicast_add(random):
    x, y = random.integers(-99, 99, (2, 16, 16), np.int32)
    return [TensorMap(2, box=[16, 8]), TensorMap(3, box=[16, 8]), given(x), updated(y, y + 10 * x)]


@program("bulk", grid=5, block=64, variants=HOPPER)
def bulk_double(random):
    x = random.standard_normal(5 * 256, np.float32)
    counts = np.arange(4, dtype=np.uint32)
    return [given(x), made(2 * x), updated(counts, counts * 6 + 10)]


@program("bulk", grid=2, block=64, variants=HOPPER)
def own_map(random):
    x = random.integers(0, 2**31, (2, 4, 32), np.int32)
    rows = np.array([[2], [3]]) > np.arange(4)
    return [TensorMap(4, box=[32, 4]), given(x), scratch((512,), "u8"), made(np.where(rows[..., None], x, 0).astype(np.int32)),
            given(np.zeros((4, 32), np.int32))]
