"""Instructions that programs reach for by name."""

import numpy as np

from harness import given, made, program, s32


# `min.xorsign.abs.f32` exists from sm_86 on.
VARIANTS = ("sm_86", "sm_90a")


@program("assembly", variants=VARIANTS, grid=1, block=64)
def cache_hints(random):
    x, v = random.standard_normal(64, np.float32), random.standard_normal((64, 4), np.float32)
    out = np.concatenate([x.astype(np.float64) * 22 + v.sum(1, dtype=np.float64), x])
    return [given(x), given(v), made(out.astype(np.float32), rtol=1e-5, atol=1e-5)]


@program("assembly", variants=VARIANTS, grid=1, block=32)
def packed_functions(random):
    x = random.uniform(-3, 3, (32, 2)).astype(np.float16)
    v = x.astype(np.float64)
    one = np.array([1, np.nan], np.float16)
    constant = lambda low, high, dtype: np.repeat(np.array([[low, high]], dtype), 32, 0)
    rows = [np.exp2(v).astype(np.float16), np.tanh(v).astype(np.float16), np.maximum(v * v + v, 0).astype(np.float16),
            np.maximum(x, one), np.abs(x), -x, constant(0, 1.5, np.float16)]
    last = constant(0xc000, 0x3fc0, np.uint16).view(np.float16)
    return [given(x.view(np.uint32)), made(np.stack([*rows, last], 1).astype(np.float16), rtol=2e-3, atol=1e-7)]


@program("assembly", variants=VARIANTS, grid=1, block=32)
def odd_floats(random):
    x = (random.standard_normal(32) * 2).astype(np.float32)
    x[3], x[4], x[5] = np.nan, 1e-40, np.inf
    v = x.astype(np.float64)
    lanes = np.arange(32)
    with np.errstate(all="ignore"):
        smallest = np.where(np.isnan(v), 1, np.fmin(np.abs(v), 1))
        crossed = np.where(np.isnan(v), -1.0, -np.copysign(smallest, v))
        bits = x.view(np.uint32)
        tf32 = np.where(np.isfinite(x), (bits + np.uint32(0x1000)) & np.uint32(0xffffe000), bits).astype(np.uint32).view(np.float32)
        product = np.nan_to_num(np.clip(np.where(np.abs(v) < 1e-38, 0, v) ** 2 + 0.25, 0, 1), nan=0.0)
        normal = np.isfinite(v) & (np.abs(v) > 1.2e-38)
        rows = [np.maximum(v, 0.5), crossed, np.tanh(v), tf32, product, normal, np.copysign(3.0, v) * 0 + np.copysign(3.0, v),
                np.where(lanes >= 5, v, 3.1415927410125732)]
    return [given(x), made(np.stack(rows, 1).astype(np.float32), rtol=1e-3, atol=1e-38)]


def nibbles(words, signed):
    parts = (words[..., None] >> (np.arange(8, dtype=np.uint32) * 4)).astype(np.int64) & 15
    return np.where(signed & (parts > 7), parts - 16, parts)


@program("assembly", variants=VARIANTS, grid=1, block=32)
def mma_integers(random):
    a, b = random.integers(0, 2**32, (4, 32), np.uint32), random.integers(0, 2**32, (2, 32), np.uint32)
    group, member = np.arange(32) // 4, np.arange(32) % 4

    def matrix(words, expand, halves):
        """Rows by K: lane (group, member) holds the member's stretch of row GROUP."""
        wide = expand(words).reshape(-1, 8, 4 * expand(words).shape[-1]) if words.ndim > 1 else expand(words).reshape(1, 8, -1)
        return [wide[list(part)].transpose(1, 0, 2).reshape(8, -1) for part in halves]

    bits = lambda w: (w[..., None] >> np.arange(32, dtype=np.uint32)).astype(np.int64) & 1
    signed_bytes = lambda w: np.ascontiguousarray(w).view(np.int8).reshape(*w.shape, 4).astype(np.int64)

    def sixteen(expand_a, expand_b, start):
        low, high = matrix(a, expand_a, [(0, 2), (1, 3)])
        (columns,) = matrix(b, expand_b, [(0, 1)])
        return np.concatenate([low, high]) @ columns.T + start

    start = np.array([[1, 2]] * 8 + [[3, 4]] * 8)[:, np.arange(8) % 2]
    d = sixteen(lambda w: nibbles(w, True), lambda w: nibbles(w, False), start)
    e = sixteen(bits, bits, 0)
    (row,), (column,) = matrix(a[0], signed_bytes, [(0,)]), matrix(b[0], signed_bytes, [(0,)])
    f = row @ column.T
    (row,), (column,) = matrix(a[0], lambda w: nibbles(w, False), [(0,)]), matrix(b[0], lambda w: nibbles(w, True), [(0,)])
    g = row @ column.T + np.array([5, 6])[np.arange(8) % 2]
    out = []
    for lane in range(32):
        r, c = group[lane], member[lane] * 2
        out.append([d[r, c], d[r, c + 1], d[r + 8, c], d[r + 8, c + 1], e[r, c], e[r, c + 1], e[r + 8, c], e[r + 8, c + 1],
                    f[r, c], f[r, c + 1], g[r, c], g[r, c + 1]])
    return [given(a), given(b), made(np.array(out, np.int32))]


@program("assembly", variants=VARIANTS, grid=1, block=4)
def copies(random):
    x = random.integers(0, 128, (4, 37), np.int8)
    out = np.full((4, 64), 7, np.int8)
    out[:, 3:40] = x
    return [given(x), made(out), s32(37)]
