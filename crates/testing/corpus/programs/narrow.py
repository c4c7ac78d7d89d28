"""Narrow floats and integers."""

import ml_dtypes
import numpy as np

from harness import given, made, program, s32

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def rounded(exact, dtype):
    return exact.astype(dtype)


@program("narrow", grid=2, block=128)
def half_arithmetic(random):
    x, y = (random.standard_normal((2, 200)) * 4).astype(np.float16)
    a, b = x.astype(np.float64), y.astype(np.float64)
    rows = [a + b, a - b, a * b, a / b, a * b + a, np.maximum(a, b), np.minimum(a, b), -a, np.abs(b), np.sqrt(np.abs(a)), np.exp(a),
            np.log(np.abs(b)), np.trunc((x * np.float16(10)).astype(np.float64)), np.clip(a + b, 0, 1)]
    return [given(x), given(y), made(np.stack(rows).astype(np.float16), rtol=1e-3), s32(200)]


@program("narrow", grid=1, block=128)
def half_pairs(random):
    x, y = random.standard_normal((2, 100, 2)).astype(np.float16)
    x[3, 1], y[5] = np.nan, x[5]
    a, b = x.astype(np.float64), y.astype(np.float64)
    first = (a * b + (x + y[:, ::-1]).astype(np.float64)).astype(np.float16)
    second = (np.fmax(a, b).astype(np.float16) * x[:, :1])
    less = (a < b)
    flags = ((a[:, 0] > b[:, 1]) * 1 | (a == a).all(1) * 2 | (a[:, 0] == b[:, 0]) * 4 | np.isnan(a[:, 1]) * 8).astype(np.uint32)
    flags |= np.where(less[:, 0], 0xffff0000, 0).astype(np.uint32)
    return [given(x), given(y), made(np.stack([first, second])), made(flags), s32(100)]


@program("narrow", grid=2, block=128)
def bfloat_arithmetic(random):
    x, y = (random.standard_normal((2, 200)) * 4).astype(BF16)
    a, b = x.astype(np.float64), y.astype(np.float64)
    rows = [a + b, a - b, a * b, a / b, a * b + a, np.maximum(a, b), np.minimum(a, b), -a, np.abs(b), np.sqrt(np.abs(a))]
    return [given(x), given(y), made(np.stack(rows).astype(np.float32).astype(BF16), rtol=8e-3), s32(200)]


@program("narrow", grid=1, block=32)
def bfloat_dot(random):
    x, y = random.standard_normal((2, 120, 2)).astype(BF16)
    total = (x.astype(np.float64) * y.astype(np.float64)).sum()
    return [given(x), given(y), made(np.array([total, total], np.float32), rtol=2e-2, atol=0.3), s32(120)]


def directed(x, dtype):
    """Nearest, toward zero, up and down of the f32 X in a 16-bit DTYPE."""
    near = x.astype(dtype)
    wide, v = near.astype(np.float64), x.astype(np.float64)
    bits = near.view(np.uint16).astype(np.int64)
    # Of two's order: the next value away from zero has the next bits.
    away = np.where(np.abs(wide) < np.abs(v), bits + 1, bits)
    toward = np.where(np.abs(wide) > np.abs(v), bits - 1, bits)
    up, down = np.where(v > 0, away, toward), np.where(v > 0, toward, away)
    return [near] + [row.astype(np.uint16).view(dtype) for row in (toward, up, down)]


@program("narrow", grid=1, block=128)
def half_conversions(random):
    x = (random.standard_normal(100) * 10.0 ** random.integers(-7, 2, 100)).astype(np.float32)
    halves, bfloats = directed(x, np.float16), directed(x, BF16)
    halves.append(np.trunc(x * np.float32(100)).astype(np.int32).astype(np.float16))
    halves.append((x.astype(np.float64) * 1.0001).astype(np.float16))
    h, b = halves[0].astype(np.float32), bfloats[0].astype(np.float32)
    s = [np.rint(h), np.trunc(h), np.floor(b)]
    return [given(x), made(np.stack(halves)), made(np.stack(bfloats)), made(np.stack([h, b])),
            made(np.stack(s).astype(np.int16)), s32(100)]


@program("narrow", grid=1, block=128)
def fp8_round_trip(random):
    x = (random.standard_normal(100) * 10.0 ** random.integers(-4, 3, 100)).astype(np.float32)
    four, five = np.clip(x, -448, 448).astype(E4M3), np.clip(x, -57344, 57344).astype(E5M2)
    f, v = four.astype(np.float32), five.astype(np.float32)
    return [given(x), made(four), made(five), made(np.stack([f, v, f - f[::-1]])), s32(100)]


@program("narrow", grid=1, block=128)
def dot_bytes(random):
    x, y = random.integers(-128, 128, (2, 100, 4), np.int8)
    dot = lambda a, b: (a.astype(np.int64) * b.astype(np.int64)).sum(1)
    pairs = x.view(np.int16).reshape(100, 2)
    rows = [dot(x, y) + 7, dot(x.view(np.uint8), y.view(np.uint8)) + 7, dot(pairs, y[:, :2]) - 3, dot(pairs, y[:, 2:]) - 3]
    return [given(x.view(np.int32)), given(y.view(np.int32)), made(np.stack(rows).astype(np.int32)), s32(100)]


@program("narrow", grid=1, block=128)
def packed_bytes(random):
    x, y = random.integers(0, 256, (2, 100, 4), np.uint8)
    x[7] = y[7]
    a, b = x.astype(np.int64), y.astype(np.int64)
    p, q = (m.view(np.int16).astype(np.int64) for m in (x, y))
    byte = lambda m: m.astype(np.uint8).view(np.uint32).ravel()
    half = lambda m: m.astype(np.int16).view(np.uint32).ravel()
    saturated = lambda m: np.clip(m, -2**15, 2**15 - 1)
    rows = [byte(a + b), byte(a - b), byte(np.minimum(a + b, 255)), half(saturated(p - q)), byte(np.maximum(a, b)), half(np.minimum(p, q)),
            byte((a + b + 1) >> 1), byte(np.abs(a - b)), byte(np.where(a > b, 255, 0)), half(p <= q), np.abs(a - b).sum(1).astype(np.uint32),
            half(np.abs(p))]
    return [given(x.view(np.uint32)), given(y.view(np.uint32)), made(np.stack(rows)), s32(100)]
