"""Read-modify-write, locks, fences and flags."""

import ml_dtypes
import numpy as np

from harness import ALL, given, made, program, s32, scratch, updated


@program("atomics", grid=3, block=128)
def atomic_integers(random):
    x = random.integers(-2**31, 2**31, 300, np.int32)
    u, w = x.view(np.uint32), x.astype(np.int64).view(np.uint64) * np.uint64(0x100000001)
    before = np.zeros(1, [(n, np.int32) for n in "add min max and or xor".split()]
                      + [(n, np.uint32) for n in "umin umax inc dec sub pad".split()]
                      + [(n, np.uint64) for n in "add64 min64 max64 and64".split()] + [("smax64", np.int64)])
    before["min"], before["max"], before["and"] = 2**31 - 1, -2**31, -1
    before["umin"], before["min64"], before["and64"], before["smax64"] = 2**32 - 1, 2**64 - 1, 2**64 - 1, -2**63
    after = before.copy()
    after["add"], after["min"], after["max"] = x.sum(dtype=np.int32), x.min(), x.max()
    after["and"], after["or"] = np.bitwise_and.reduce(x | 0xf0), np.bitwise_or.reduce(x & 0xff00ff)
    after["xor"], after["umin"], after["umax"] = np.bitwise_xor.reduce(x), u.min(), u.max()
    inc = dec = 0
    for _ in range(300):
        inc = 0 if inc >= 36 else inc + 1
        dec = 40 if dec == 0 or dec > 40 else dec - 1
    after["inc"], after["dec"], after["sub"] = inc, dec, 2**32 - 1500
    after["add64"], after["min64"], after["max64"] = w.sum(dtype=np.uint64), w.min(), w.max()
    after["and64"] = np.bitwise_and.reduce(w | np.uint64(0xff0000ff0000ff00))
    after["smax64"] = int(x.max()) << 20
    return [given(x), updated(before.view(np.uint32), after.view(np.uint32)), s32(300)]


@program("atomics", grid=2, block=96)
def atomic_floats(random):
    x = random.standard_normal(180, np.float32)
    total = x.sum(dtype=np.float64)
    pair = lambda a, b, t: np.array([a, b], t)
    return [given(x), updated(np.zeros(1, np.float32), np.array([total], np.float32), rtol=1e-5, atol=1e-5),
            updated(np.zeros(1), np.array([total]), rtol=1e-12, atol=1e-12),
            updated(pair(0, 0, np.float16), pair(180, 360, np.float16)),
            updated(pair(0, 0, ml_dtypes.bfloat16), pair(90, -180, ml_dtypes.bfloat16)),
            updated(np.zeros(1, np.float16), np.array([45], np.float16)), s32(180)]


@program("atomics", grid=2, block=128, variants=ALL)
def atomic_loops(random):
    x = random.standard_normal(250, np.float32)
    counters = np.zeros(8, np.uint8)
    counters[:7] = np.bincount(np.arange(250) % 7)
    return [given(x), updated(np.full(1, -np.inf, np.float32), x.max(keepdims=True)), updated(np.zeros(8, np.uint8), counters),
            s32(250)]


@program("atomics", grid=1, block=1)
def atomic_exchange(random):
    return [updated(np.array([9], np.uint64), np.array([1], np.uint64)), made(np.array([9], np.uint64)),
            updated(np.array([65534, 7], np.uint16), np.array([1, 7], np.uint16))]


@program("atomics", grid=2, block=64, variants=ALL)
def spin_lock(random):
    return [updated(np.zeros(1, np.int32), np.array([128], np.int32)), scratch((128,), "s32", "poison")]


@program("atomics", grid=2, block=128)
def flags(random):
    return [updated(np.zeros(3, np.int32), np.ones(3, np.int32)), scratch((3,), "s32", "poison"),
            made(np.array([41, 42, 43], np.int32))]


@program("atomics", grid=6, block=64)
def grid_barrier(random):
    a = random.integers(-100, 100, 384, np.int32)
    odd = np.roll(a, -1) + np.roll(a, 1)
    even = a
    for step in range(2, 6):
        source = odd if step % 2 == 0 else even
        result = np.roll(source, -1) + np.roll(source, 1)
        odd, even = (odd, result) if step % 2 == 0 else (result, even)
    return [updated(np.zeros(1, np.uint32), np.array([30], np.uint32)), updated(a, even), made(odd), s32(5)]


@program("atomics", grid=2, block=64)
def acquire_release(random):
    squares = np.arange(64, dtype=np.uint32) ** 2
    out = np.append(squares + np.uint32(1), np.uint32(squares.sum()))
    return [updated(np.zeros(1, np.uint32), np.ones(1, np.uint32)), made(squares),
            updated(np.zeros(65, np.uint32), out.astype(np.uint32))]


@program("atomics", grid=1, block=96)
def atomic_shared(random):
    x = random.integers(0, 1000, 96, np.int32)
    out = [x.sum(), x.min(), x.max(), np.bitwise_or.reduce(x), 48, x.sum(), x.sum() + 1, x[1::2].sum(), x[::2].sum()]
    before = np.zeros(9, np.int64)
    return [given(x), updated(before, np.array(out, np.int64))]
