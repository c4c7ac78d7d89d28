"""Mathematical functions."""

import math

import numpy as np

from harness import f32, given, made, program, s32


def each(f):
    def apply(v):
        try:
            return f(float(v))
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf
    return np.vectorize(apply, otypes=[np.float64])


def inverse_erf(v):
    x = np.zeros_like(v)
    erf = each(math.erf)
    for _ in range(60):
        x = x - (erf(x) - v) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return np.where(np.abs(v) < 1, x, np.nan)


def bessel(v):
    angle = (np.arange(4000) + 0.5) * (math.pi / 4000)
    return np.cos(v[:, None] * np.sin(angle)).mean(1)


def functions(v):
    """The references, in the order of the kernels; V in double."""
    with np.errstate(all="ignore"):
        return [
            np.exp(v), np.exp2(v), each(lambda a: 10.0 ** a)(v), np.expm1(v), np.log(v), np.log2(v), np.log10(v), np.log1p(v),
            np.sin(v), np.cos(v), np.tan(v), np.sinh(v), np.cosh(v), np.tanh(v), np.arcsin(v), np.arccos(v),
            np.arctan(v), np.arcsinh(v), np.arccosh(v), np.arctanh(v), each(math.erf)(v), each(math.erfc)(v), np.cbrt(v),
            np.sqrt(v), 1 / np.sqrt(v), 1 / v, each(math.gamma)(v), each(math.lgamma)(v), np.floor(v), np.ceil(v),
            np.rint(v), np.copysign(np.floor(np.abs(v) + 0.5), v), np.trunc(v), np.abs(v) ** 0.7, np.arctan2(v, 0.3), np.hypot(v, 3),
            np.fmod(v, 0.37), each(lambda a: math.remainder(a, 0.37))(v), v * 32, np.floor(np.log2(np.abs(v))), np.copysign(2, v),
            v * v - 1, np.maximum(v, 0.25), np.minimum(v, 0.25),
        ]


@program("functions", grid=2, block=64, variants=("sm_80",))
def functions_float(random):
    x = random.uniform(-4.5, 4.5, 100).astype(np.float32)
    v = x.astype(np.float64)
    with np.errstate(all="ignore"):
        out = functions(v)
        out[33], out[34] = np.abs(v) ** np.float64(np.float32(0.7)), np.arctan2(v, np.float64(np.float32(0.3)))
        step = np.float64(np.float32(0.37))
        out[36], out[37] = np.fmod(v, step), each(lambda a: math.remainder(a, step))(v)
        out += [np.where(v > 0.25, v - 0.25, 0), inverse_erf(v), 0.5 * each(math.erfc)(-v / math.sqrt(2)), np.sin(math.pi * v),
                np.cos(math.pi * v), bessel(v), v ** 3, np.nextafter(x, np.float32(10)).astype(np.float64)]
    return [given(x), made(np.stack(out).astype(np.float32), rtol=3e-4, atol=3e-5), s32(100)]


@program("functions", grid=1, block=64, variants=("sm_80",))
def functions_double(random):
    x = random.uniform(-4.5, 4.5, 60)
    return [given(x), made(np.stack(functions(x)), rtol=1e-13, atol=1e-14), s32(60)]


@program("functions", grid=1, block=64, variants=("sm_80",))
def large_arguments(random):
    x = (random.choice([-1, 1], 64) * 10 ** random.uniform(3, 37, 64)).astype(np.float32)
    y = random.choice([-1, 1], 64) * 10 ** random.uniform(5, 300, 64)
    v = x.astype(np.float64)
    return [given(x), given(y), made(np.sin(v).astype(np.float32), atol=3e-7), made(np.cos(v).astype(np.float32), atol=3e-7),
            made(np.sin(y), atol=4e-16), made(np.cos(y), atol=4e-16)]


@program("functions", grid=1, block=64, variants=("sm_80", "sm_80-fast"))
def intrinsics(random):
    x = random.uniform(0.1, 3.0, 60).astype(np.float32)
    v = x.astype(np.float64)
    out = [np.exp(v), np.log(v), np.log2(v), np.sin(v), np.cos(v), v ** 1.5, 1 / v, 1 / np.sqrt(v), np.minimum(v, 1), None, 10.0 ** v, np.sqrt(v)]
    out[9] = np.sin(v) / np.cos(v)
    return [given(x), made(np.stack(out).astype(np.float32), rtol=2e-5, atol=2e-6), s32(60)]


@program("functions", grid=2, block=64, variants=("sm_80",))
def roundings(random):
    def spread(low, high):
        return (random.standard_normal(100) * 2.0 ** random.integers(low, high, 100)).astype(np.float32)
    x, y = spread(-20, 20), np.abs(spread(-20, 20))
    a, b = x.astype(np.float64), y.astype(np.float64)

    def four(exact, error):
        """Nearest, toward zero, up, down of EXACT + ERROR (error: what is beyond double)."""
        near = exact.astype(np.float32)
        wide = near.astype(np.float64)
        above = (wide > exact) | ((wide == exact) & (error < 0))
        below = (wide < exact) | ((wide == exact) & (error > 0))
        up = np.where(below, np.nextafter(near, np.float32(np.inf)), near)
        down = np.where(above, np.nextafter(near, np.float32(-np.inf)), near)
        return [near, np.where(exact > 0, down, up), up, down]

    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)
    none = np.zeros(100)
    rows = four(total, lost) + four(a * b, none) + four(a / b, none) + four(np.sqrt(b), none) + four(1 / b, none)
    return [given(x), given(y), made(np.stack(rows).view(np.uint32)), s32(100)]


@program("functions", grid=2, block=64, variants=("sm_80",))
def conversions(random):
    x = np.concatenate([random.uniform(-120, 120, 90), [0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, np.nan, 1e20, -0.0]]).astype(np.float32)
    v = x.astype(np.float64)

    def integer(value, low, high):
        clean = np.clip(np.where(np.isnan(value), 0, value), low, high)
        return np.array([int(c) for c in clean], object)

    s32_of = lambda value: integer(value, -2**31, 2**31 - 1)
    wrap = lambda column: np.array([int(c) & 0xffffffff for c in column], np.uint32).view(np.int32)
    million = (x * np.float32(1e6)).astype(np.float64)
    clipped64 = lambda value, low, high: np.array([0 if math.isnan(c) else min(max(int(c), low), high) if math.isfinite(c) else high for c in value], object)
    s64_nan = lambda value, out: np.where(np.isnan(value), -2**63, out)
    s8 = np.array([((int(c) + 128) & 255) - 128 for c in s32_of(np.trunc(v))], object)
    u16 = np.array([int(c) & 0xffff for c in integer(np.trunc(v), 0, 2**32 - 1)], object)
    rows = [
        wrap(s32_of(np.rint(v))), wrap(s32_of(np.trunc(v))), wrap(s32_of(np.ceil(v))), wrap(s32_of(np.floor(v))),
        wrap(integer(np.rint(v), 0, 2**32 - 1)), wrap(s8), wrap(u16),
        wrap([int(c) >> 8 for c in s64_nan(v, clipped64(np.rint(million), -2**63, 2**63 - 1))]),
        wrap(np.where(np.isnan(v), 2**63, clipped64(np.trunc(million), 0, 2**64 - 1))),
        wrap(np.where(np.isnan(v), -2**31, s32_of(np.rint(v * 3)))),
        wrap(v.view(np.uint64) >> np.uint64(32)),
        np.array([float(c) for c in s64_nan(v, clipped64(np.trunc((x * np.float32(1e9)).astype(np.float64)), -2**63, 2**63 - 1))],
                 np.float64).astype(np.float32).view(np.int32),
    ]
    return [given(x), made(np.stack(rows)), s32(100)]


@program("functions", grid=7, block=96, variants=("sm_80", "sm_80-fast"))
def softmax(random):
    x = random.standard_normal((7, 301), np.float32) * 3
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return [given(x), made((e / e.sum(1, keepdims=True)).astype(np.float32), rtol=1e-4, atol=1e-7), s32(301)]


@program("functions", grid=5, block=32, variants=("sm_80",))
def layernorm(random):
    x, gain, shift = random.standard_normal((5, 200), np.float32), *random.standard_normal((2, 200), np.float32)
    v = x.astype(np.float64)
    out = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * gain + shift
    return [given(x), given(gain), given(shift), made(out.astype(np.float32), rtol=1e-4, atol=1e-4), s32(50)]


@program("functions", grid=2, block=128, variants=("sm_80",))
def gelu(random):
    x = random.standard_normal(200, np.float32) * 2
    v = x.astype(np.float64)
    exact = 0.5 * v * (1 + each(math.erf)(v * 0.70710678))
    tanh_form = 0.5 * v * (1 + np.tanh(0.79788456 * (v + 0.044715 * v ** 3)))
    return [given(x), made(exact.astype(np.float32), rtol=1e-5, atol=1e-6), made(tanh_form.astype(np.float32), rtol=1e-5, atol=1e-6), s32(200)]


@program("functions", grid=2, block=128, variants=("sm_80", "sm_80-fast"))
def black_scholes(random):
    s, k, t = random.uniform(5, 30, 200), random.uniform(5, 60, 200), random.uniform(0.25, 10, 200)
    s, k, t = (a.astype(np.float32) for a in (s, k, t))
    S, K, T, r, sigma = *(a.astype(np.float64) for a in (s, k, t)), 0.02, 0.3
    cdf = lambda d: 0.5 * each(math.erfc)(-d / math.sqrt(2))
    d1 = (np.log(S / K) + (r + sigma ** 2 / 2) * T) / (sigma * np.sqrt(T))
    d2 = d1 - sigma * np.sqrt(T)
    call = S * cdf(d1) - K * np.exp(-r * T) * cdf(d2)
    put = K * np.exp(-r * T) * cdf(-d2) - S * cdf(-d1)
    return [given(s), given(k), given(t), f32(r), f32(sigma), made(call.astype(np.float32), rtol=1e-3, atol=1e-4),
            made(put.astype(np.float32), rtol=1e-3, atol=1e-4), s32(200)]
