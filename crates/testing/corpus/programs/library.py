"""The parallel libraries that programs include."""

import numpy as np

from harness import given, made, program, updated


@program("library", grid=2, block=128)
def cub_block(random):
    x = random.integers(-2**31, 2**31, (2, 512), np.int32)
    sums = np.cumsum(x, 1, dtype=np.int32)
    return [given(x), made(np.sort(x, 1)), made(sums - x), made(sums[:, -1])]


@program("library", grid=1, block=128)
def cuda_atomics(random):
    x = random.integers(0, 2**32, 128, np.uint32)
    ticket = 12345
    for _ in range(128):
        ticket = ticket * 3 % 1000003
    counters = np.append(np.bincount(x & 3, minlength=4), x.max()).astype(np.uint32)
    return [given(x), updated(np.zeros(5, np.uint32), counters), updated(np.array([12345], np.uint64), np.array([ticket], np.uint64)),
            updated(np.zeros(1, np.float32), np.array([64], np.float32))]


@program("library", grid=1, block=128)
def cuda_barrier(random):
    x = random.integers(-1000, 1000, 128, np.int32)
    v = x
    for r in range(3):
        v = np.roll(v, -1) * 2 + r
    return [given(x), made(v.astype(np.int32))]


@program("library", grid=1, block=64)
def standard_complex(random):
    z = (random.standard_normal(64) + 1j * random.standard_normal(64)).astype(np.complex64)
    c = z.astype(np.complex128)
    out = np.stack([c * c + c / (2 - 1j), np.exp(c)], 1).astype(np.complex64)
    return [given(z.view(np.float32)), made(out.view(np.float32), rtol=1e-4, atol=1e-5)]
