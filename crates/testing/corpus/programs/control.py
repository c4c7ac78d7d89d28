"""Control flow, calls and storage."""

import numpy as np

from harness import ALL, Bytes, given, made, program, s32, updated


@program("control", grid=2, block=128, variants=ALL)
def jump_table(random):
    op, x = random.integers(0, 13, 200, np.int32), random.integers(-30000, 30000, 200, np.int32)

    def apply(op, v):
        c_mod = abs(v) % 17 * (1 if v >= 0 else -1)
        results = {0: v + 1, 1: v * v, 2: v >> 3, 3: -v, 4: c_mod, 5: v ^ 0x5a5a, 6: v.bit_count() if v > 0 else 0,
                   7: 32 - (v & 0xffffffff).bit_length(), 8: v - 9, 9: v - 9, 11: abs(v)}
        return results.get(op, -1)

    out = [apply(int(o), int(v)) for o, v in zip(op, x)]
    return [given(op), given(x), made(np.array(out, np.int32)), s32(200)]


@program("control", grid=2, block=64, variants=ALL)
def function_pointers(random):
    x, which = random.standard_normal(100, np.float32), random.integers(0, 4, 100, np.int32)
    functions = [lambda v: v * v, lambda v: v * np.float32(0.5), lambda v: -v, lambda v: v + np.float32(3)]
    out = [functions[w](functions[(w + 1) & 3](v)) for v, w in zip(x, which)]
    return [given(x), given(which), made(np.array(out, np.float32), rtol=1e-6), s32(100)]


@program("control", grid=1, block=64, variants=ALL)
def virtual_functions(random):
    x = random.standard_normal(64, np.float32)
    out = np.where(np.arange(64) % 3, 3 * x * x, x * 2 + 4)
    return [given(x), made(out.astype(np.float32), rtol=1e-6, atol=1e-6)]


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m, n):
    return n + 1 if m == 0 else ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


@program("control", grid=1, block=40, variants=ALL)
def recursion(random):
    out = [[fibonacci(t % 13), ackermann(t % 3, t % 4)] for t in range(40)]
    return [made(np.array(out, np.int32))]


@program("control", grid=1, block=40, variants=ALL)
def sort_rows(random):
    rows = random.integers(-2**15, 2**15, (40, 24), np.int16)
    return [updated(rows, np.sort(rows, 1))]


RECORD = np.dtype({"names": ["weight", "key", "tag", "pair"], "formats": ["f8", "i4", "6i1", "3i2"],
                   "offsets": [0, 8, 12, 18], "itemsize": 24})


@program("control", grid=1, block=32, variants=ALL)
def structs(random):
    a = np.zeros(21, RECORD)
    a["weight"], a["key"] = random.standard_normal(20 + 1), random.integers(-50, 50, 21)
    a["tag"], a["pair"] = random.integers(-128, 128, (21, 6)), random.integers(-2**15, 2**15, (21, 3))
    value, a = a[20:], a[:20]

    def merge(a, b):
        r = np.zeros(20, RECORD)
        r["weight"], r["key"] = a["weight"] + b["weight"], a["key"] * b["key"]
        for i in range(6):
            r["tag"][:, i] = a["tag"][:, i] if i & 1 else b["tag"][:, 5 - i]
        r["pair"][:, 0], r["pair"][:, 1] = a["pair"][:, 1], b["pair"][:, 0]
        r["pair"][:, 2] = a["pair"][:, 2] - b["pair"][:, 2]
        return r

    out = merge(merge(a, np.roll(a, -1)), np.repeat(value, 20))
    return [given(a.view(np.uint8)), made(out.view(np.uint8)), Bytes(value.tobytes()), s32(20)]


@program("control", grid=1, block=96, variants=ALL)
def storage(random):
    x = random.standard_normal(96, np.float32)
    weights = np.array([0.5, -1, 2, 0.25, 3, -0.125, 1.5, 4])
    i = np.arange(96)
    out = sum(weights[(k + i) & 7] * x[(i * 8 + k) % 96] for k in range(8))
    text = np.frombuffer(b"warps of lanes"[::-1], np.uint8)
    counts = [i[i % 4 == k].sum() for k in range(4)]
    return [given(x), made(out.astype(np.float32), rtol=1e-5, atol=1e-5), made(text), made(np.array([1.0, 3, 5, 2, 4, 6])),
            made(np.array(counts, np.int32))]


@program("control", grid=1, block=64, variants=ALL)
def local_arrays(random):
    x = random.integers(0, 2**32, 64, np.uint32) >> random.integers(0, 28, 64).astype(np.uint32)
    out = []
    for t, v in enumerate(map(int, x)):
        stack, histogram = [], [0] * 8
        while v:
            stack.append(v & 3)
            histogram[v & 7] += 1
            v >>= 2
        r = packed = 0
        for s in reversed(stack):
            r = (r * 5 + s) & 0xffffffff
        for i in range(8):
            packed = packed * 17 + histogram[(i + t) & 7]
        out.append([r, packed & 0xffffffff])
    return [given(x), made(np.array(out, np.uint32))]


@program("control", grid=1, block=32, variants=ALL)
def templates(random):
    z = random.standard_normal(32) + 1j * random.standard_normal(32)
    out = sum((k + 1 - 1j * k) * z ** k for k in range(6))
    return [given(z.view(np.float64)), made(out.view(np.float64), rtol=1e-11, atol=1e-11)]


@program("control", grid=1, block=32, variants=ALL)
def prints(random):
    x = random.standard_normal(5, np.float32)
    return [given(x), made(np.full(5, 8, np.int32)), s32(5)]


@program("control", grid=1, block=64, shared=101 * 14, variants=ALL)
def dynamic_shared(random):
    x = random.standard_normal(101)
    return [given(x), made(x[np.arange(101) * 7 % 101] * 2), s32(101)]


@program("control", grid=(2, 3, 2), block=70, variants=ALL)
def clocks(random):
    return [made(np.full(12, 70 * 2001, np.uint32))]


@program("control", grid=1, block=96, variants=ALL)
def divergence(random):
    x = random.integers(0, 60, 96, np.int32)

    def walk(v):
        r = 0
        for i in range(v):
            if i % 3 == 2:
                continue
            for j in range(i, 21, 2):
                if (j ^ v) & 4:
                    r += j
                    if r > 1000:
                        return r
                else:
                    r ^= 1
        return r + 10000

    r = np.array([walk(int(v)) for v in x], np.int32)
    lanes = np.arange(96)
    first = np.array([next(r[l] for l in range(t // 32 * 32, 96) if x[l] % 4 == x[t] % 4) for t in range(96)])
    return [given(x), made((r * 3 + r[lanes ^ 1] + first).astype(np.int32))]
