"""Integers, bits, hashes, ciphers, random numbers."""

import hashlib
import zlib

import numpy as np

from harness import given, made, program, s32, u32, updated

M32, M64, M128 = 2**32 - 1, 2**64 - 1, 2**128 - 1


def signed(value, width):
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def quotient(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def table(rows, dtype):
    """ROWS of Python integers for each element, kept to the width of DTYPE, one output row for each."""
    mask = (1 << np.dtype(dtype).itemsize * 8) - 1
    unsigned = np.array([[int(v) & mask for v in row] for row in rows], f"u{np.dtype(dtype).itemsize}")
    return np.ascontiguousarray(unsigned.T).view(dtype)


@program("integers", grid=2, block=64)
def divide(random):
    x = random.integers(-2**63, 2**63, 100, np.int64) >> random.integers(0, 50, 100)
    y = random.integers(-2**63, 2**63, 100, np.int64) >> random.integers(0, 62, 100)
    y[y == 0] = 3
    rows = []
    for a, b in zip(map(int, x), map(int, y)):
        s, t = signed(a, 32), signed(b | 1, 32)
        p, q = signed(a, 16), signed(b | 1, 16)
        rows.append([quotient(a, b), a - quotient(a, b) * b, (a & M64) // (b & M64), (a & M64) % (b & M64), quotient(s, t),
                     s - quotient(s, t) * t, (s & M32) // (t & M32), quotient(a, 1000003), quotient(p, q), (a & M64) % 10])
    return [given(x), given(y), made(table(rows, np.int64)), s32(100)]


@program("integers", grid=1, block=64)
def wide_128(random):
    x, y = random.integers(0, 2**64, (2, 50), np.uint64)
    rows = []
    for p, q in zip(map(int, x), map(int, y)):
        a, b = p << 64 | q, (q >> 3) << 64 | p
        wide = [a + b, a - b, a * b, a // (b >> 20 | 1), a % (b >> 50 | 1), ((a << (p & 127)) & M128) ^ (b >> (q & 127))]
        product = signed(p, 64) * signed(q, 64)
        rows.append([part for w in wide for part in (w & M64, (w & M128) >> 64)] + [product >> 64, (p * q >> 64) + (product >> 64)])
    return [given(x), given(y), made(table(rows, np.uint64)), s32(50)]


def first_set(v):
    return (v & -v).bit_length()


@program("integers", grid=2, block=64)
def bits(random):
    x, y = random.integers(0, 2**32, (2, 100), np.uint32)
    x[0], y[1], x[2] = 0, 0, M32
    rows = []
    for i, (a, b) in enumerate(zip(map(int, x), map(int, y))):
        w, s, t = a << 32 | b, signed(a, 32), signed(b, 32)
        reverse = lambda v, n: int(f"{v:0{n}b}"[::-1], 2)
        both, selector = b << 32 | a, b & 0x7777
        shift = min(b & 63, 32)
        start = b & 31
        field = (s >> start) & 0x1ff
        field = signed(field, 9)
        if start + 9 > 32:
            field = s >> start
        at = a & 31
        mask = (((1 << 7) - 1) << at) & M32
        rows.append([
            a.bit_count(), 32 - (a >> (b & 31)).bit_length(), first_set((a << (b & 31)) & M32), reverse(a, 32),
            sum((both >> 8 * (selector >> 4 * j & 7) & 255) << 8 * j for j in range(4)),
            (both << (b & 31)) >> 32, both >> shift, w.bit_count(), 64 - (w >> (b & 63)).bit_length(), first_set((w << (a & 63)) & M64),
            reverse(w, 64) >> 13, s * t >> 32, a * b >> 32, signed(a, 24) * signed(b, 24), (a & 0xffffff) * (b & 0xffffff), abs(a - b) + 9,
            (s + t) >> 1, (a + b + 1) >> 1, (a & b) ^ (~a | (b >> 3)), s >> (b & 31),
            field, (b & ~mask) | ((a << at) & mask), (a & b) | (~a & i),
        ])
    return [given(x), given(y), made(table(rows, np.uint32)), s32(100)]


@program("integers", grid=1, block=32)
def carries(random):
    x, y = random.integers(0, 2**32, (2, 32, 8), np.uint32)
    x[0], y[0] = M32, M32
    x[1], y[1] = M32, 0
    y[1, 0] = 1
    number = lambda row: sum(int(w) << 32 * k for k, w in enumerate(row))
    words = lambda v, n: [v >> 32 * k & M32 for k in range(n)]
    total = np.array([words(number(a) + number(b), 9) for a, b in zip(x, y)], np.uint32)
    product = np.array([words(number(a[:2]) * number(b[:2]), 4) for a, b in zip(x, y)], np.uint32)
    return [given(x), given(y), made(total), made(product)]


@program("integers", grid=1, block=256)
def crc32(random):
    text = random.integers(0, 256, (16, 61), np.uint8)
    return [given(text), made(np.array([zlib.crc32(row.tobytes()) for row in text], np.uint32)), s32(61)]


@program("integers", grid=1, block=32, variants=("sm_80", "sm_90a", "sm_80-debug"))
def sha256(random):
    text = random.integers(0, 256, (32, 47), np.uint8)
    digest = np.stack([np.frombuffer(hashlib.sha256(row.tobytes()).digest(), np.uint8) for row in text])
    return [given(text), made(digest), s32(47)]


@program("integers", grid=1, block=256)
def substitute(random):
    state, key = random.integers(0, 256, (16, 16), np.uint8), random.integers(0, 256, 16, np.uint8)

    def times(a, b):
        p = 0
        while b:
            if b & 1:
                p ^= a
            a = a << 1 ^ (0x11b if a & 0x80 else 0)
            b >>= 1
        return p

    box = []
    for x in range(256):
        s = next((c for c in range(1, 256) if times(x, c) == 1), 0)
        box.append((s ^ (s << 1 | s >> 7) ^ (s << 2 | s >> 6) ^ (s << 3 | s >> 5) ^ (s << 4 | s >> 4) ^ 0x63) & 255)
    box, after, at = np.array(box, np.uint8), state.copy(), np.arange(16)
    for r in range(10):
        after = box[after[:, at * 5 % 16] ^ key[(at + r) % 16]]
        neighbour = after[:, at ^ 1].astype(np.int32)
        after = ((after ^ (neighbour << 1) ^ np.where(neighbour & 0x80, 0x1b, 0)) & 255).astype(np.uint8)
    return [updated(state, after), given(key), s32(10)]


@program("integers", grid=2, block=64)
def philox(random):
    out = []
    for i in range(100):
        c, k = [i, 0, 42, 7], [0xdeadbeef, 0x12345678]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & M32, p >> 32 ^ c[3] ^ k[1], p & M32]
            k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
        out.append(c)
    out = np.array(out, np.uint32)
    uniform = out[:, 0].astype(np.float32) * np.float32(2.3283064e-10)
    return [made(out), made(uniform), u32(0xdeadbeef), u32(0x12345678), s32(100)]


@program("integers", grid=2, block=128)
def collatz(random):
    steps = []
    for v in range(1, 201):
        s = 0
        while v != 1:
            v, s = (3 * v + 1 if v & 1 else v // 2), s + 1
        steps.append(s)
    return [made(np.array(steps, np.uint32)), s32(200)]
