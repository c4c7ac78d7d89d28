"""Kernels in Triton."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + c, mask=c < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * columns + c, e / tl.sum(e, 0), mask=c < columns)


@triton.jit
def layernorm(x, gain, shift, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * columns + c, mask=c < columns, other=0.0).to(tl.float32)
        total += v
        square += v * v
    mean = tl.sum(total, 0) / columns
    scale = tl.rsqrt(tl.sum(square, 0) / columns - mean * mean + epsilon)
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = c < columns
        v = tl.load(x + row * columns + c, mask=mask).to(tl.float32)
        r = (v - mean) * scale * tl.load(gain + c, mask=mask) + tl.load(shift + c, mask=mask)
        tl.store(out + row * columns + c, r, mask=mask)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for start in range(0, k, BK):
        at = start + inner
        ta = tl.load(a + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0)
        tb = tl.load(b + at[:, None] * n + columns[None, :], mask=(at[:, None] < k) & (columns[None, :] < n), other=0)
        acc = tl.dot(ta, tb, acc, input_precision=PRECISION, out_dtype=acc.dtype)
    tl.store(c + rows[:, None] * n + columns[None, :], acc.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def reduce(x, sums, largest, places, columns, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    v = tl.load(x + r[:, None] * columns + c[None, :], mask=c[None, :] < columns, other=-1e9)
    tl.store(sums + r, tl.sum(tl.where(c[None, :] < columns, v, 0.0), 1))
    tl.store(largest + r, tl.max(v, 1))
    tl.store(places + r, tl.argmax(v, 1))


@triton.jit
def multiply_add(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def scan(x, gate, sums, linear, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    v = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(v, 1))
    _, h = tl.associative_scan((tl.load(gate + at), v), 1, multiply_add)
    tl.store(linear + at, h)


@triton.jit
def atomics(x, total, largest, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask=mask, other=0)
    tl.atomic_add(total, tl.sum(v.to(tl.float32), 0))
    tl.atomic_max(largest, tl.max(tl.where(mask, v, -2147483648), 0))
    tl.atomic_add(bins + (v & 7), 1, mask=mask)


@triton.jit
def lock_step(lock, value, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    at = value + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at, volatile=True) * 2 + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def gather_rows(table, index, out, columns, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    which = tl.load(index + r)
    c = tl.arange(0, BN)
    v = tl.load(table + which[:, None] * columns + c[None, :], mask=c[None, :] < columns)
    tl.store(out + r[:, None] * columns + c[None, :], v, mask=c[None, :] < columns)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, tl.load(x + i, mask=i < n) / (1 - p), 0.0), mask=i < n)


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = tl.program_id(1) * length * D
    tq = tl.load(q + base + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        columns = start + tl.arange(0, BN)
        tk = tl.load(k + base + columns[None, :] * D + d[:, None], mask=columns[None, :] < length, other=0.0)
        s = tl.dot(tq, tk) * scale
        s = tl.where((columns[None, :] <= rows[:, None]) & (columns[None, :] < length), s, -float("inf"))
        now = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2((s - now[:, None]) * 1.4426950408889634)
        fade = tl.exp2((largest - now) * 1.4426950408889634)
        total = total * fade + tl.sum(p, 1)
        tv = tl.load(v + base + columns[:, None] * D + d[None, :], mask=columns[:, None] < length, other=0.0)
        acc = tl.dot(p.to(tv.dtype), tv, acc * fade[:, None])
        largest = now
    tl.store(out + base + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < length)


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr, BINS: tl.constexpr):
    h = tl.histogram(tl.load(x + tl.arange(0, BLOCK)), BINS)
    tl.store(out + tl.arange(0, BINS), h)


@triton.jit
def sort(x, out, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), 1))


@triton.jit
def transpose(x, out, m, n, BM: tl.constexpr, BN: tl.constexpr):
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + r[:, None] * n + c[None, :], mask=(r[:, None] < m) & (c[None, :] < n))
    tl.store(out + c[:, None] * m + r[None, :], tl.trans(v), mask=(c[:, None] < n) & (r[None, :] < m))


@triton.jit
def functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask=mask, other=1.0)
    tl.store(out + i, tl.sin(v), mask=mask)
    tl.store(out + n + i, tl.log(tl.abs(v)), mask=mask)
    tl.store(out + 2 * n + i, tl.sigmoid(v), mask=mask)
    tl.store(out + 3 * n + i, tl.erf(v), mask=mask)
    tl.store(out + 4 * n + i, tl.sqrt_rn(tl.abs(v)), mask=mask)
    tl.store(out + 5 * n + i, tl.div_rn(1.0, v), mask=mask)
    tl.store(out + 6 * n + i, libdevice.tanh(v), mask=mask)
    tl.store(out + 7 * n + i, libdevice.pow(tl.abs(v), 1.7), mask=mask)
    tl.store(out + 8 * n + i, tl.floor(v * 10) + tl.ceil(v), mask=mask)


@triton.jit
def casts(x, half, bfloat, wide, byte, fp8, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask=mask)
    tl.store(half + i, v.to(tl.float16), mask=mask)
    tl.store(bfloat + i, v.to(tl.bfloat16), mask=mask)
    tl.store(wide + i, (v * 1000).to(tl.int64) // 7, mask=mask)
    tl.store(byte + i, (v * 10).to(tl.int32).to(tl.int8), mask=mask)
    tl.store(fp8 + i, v.to(tl.float8e5), mask=mask)


@triton.jit
def descriptor_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ta = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    tb = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    tc = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, k, BK):
        acc = tl.dot(ta.load([row, at]), tb.load([column, at]).T, acc)
    tc.store([row, column], acc.to(c.dtype.element_ty))


@triton.jit
def descriptor_twice(x, y, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    tile = x.load([row, column])
    y.store([row, column], tile + tile)


@triton.jit
def descriptor_sums(x, sums, m, n, BM: tl.constexpr, BN: tl.constexpr):
    tx = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    ts = tl.make_tensor_descriptor(sums, shape=[BM, n], strides=[n, 1], block_shape=[BM, BN])
    column = tl.program_id(1) * BN
    ts.atomic_add([0, column], tx.load([tl.program_id(0) * BM, column]))


@triton.jit
def grouped_matmul(a, b, c, m, n, k, a_row, a_column, b_row, b_column, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                   GROUP: tl.constexpr, SUM: tl.constexpr):
    # Tiles in groups of rows, for the cache; operands by their strides.
    pid = tl.program_id(0)
    across = tl.cdiv(n, BN)
    first = pid // (GROUP * across) * GROUP
    size = min(tl.cdiv(m, BM) - first, GROUP)
    row, column = first + pid % (GROUP * across) % size, pid % (GROUP * across) // size
    rows, columns, inner = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=SUM)
    for at in range(0, k, BK):
        left = inner[None, :] + at < k
        x = tl.load(a + (rows[:, None] % m) * a_row + (at + inner[None, :]) * a_column, mask=left, other=0.0)
        y = tl.load(b + (at + inner[:, None]) * b_row + (columns[None, :] % n) * b_column, mask=inner[:, None] + at < k, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=SUM)
    tl.store(c + rows[:, None] * n + columns[None, :], acc.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def persistent_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CTAS: tl.constexpr,
                      SPECIALISED: tl.constexpr, HALVES: tl.constexpr):
    # As many CTAs as there are multiprocessors, tile after tile.
    across = tl.cdiv(n, BN)
    ta = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    tb = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    tc = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN // 2 if HALVES else BN])
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * across, CTAS, flatten=not SPECIALISED, warp_specialize=SPECIALISED):
        row, column = tile // across * BM, tile % across * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for at in range(0, k, BK):
            acc = tl.dot(ta.load([row, at]), tb.load([column, at]).T, acc)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1)))
            tc.store([row, column], left.to(c.dtype.element_ty))
            tc.store([row, column + BN // 2], right.to(c.dtype.element_ty))
        else:
            tc.store([row, column], acc.to(c.dtype.element_ty))


@triton.jit
def specialised_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISED: tl.constexpr):
    ta = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    tb = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    tc = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for at in tl.range(0, tl.cdiv(k, BK), warp_specialize=SPECIALISED):
        acc = tl.dot(ta.load([row, at * BK]), tb.load([column, at * BK]).T, acc)
    tc.store([row, column], acc.to(c.dtype.element_ty))


@triton.jit
def flash_attention(q, k, v, out, sums, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    tile, head = tl.program_id(0), tl.program_id(1)
    total = tl.num_programs(1) * length
    tq = tl.make_tensor_descriptor(q, shape=[total, D], strides=[D, 1], block_shape=[BM, D])
    tk = tl.make_tensor_descriptor(k, shape=[total, D], strides=[D, 1], block_shape=[BN, D])
    tv = tl.make_tensor_descriptor(v, shape=[total, D], strides=[D, 1], block_shape=[BN, D])
    to = tl.make_tensor_descriptor(out, shape=[total, D], strides=[D, 1], block_shape=[BM, D])
    rows = tile * BM + tl.arange(0, BM)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    x = tq.load([head * length + tile * BM, 0])
    for at in range(0, (tile + 1) * BM if CAUSAL else length, BN):
        s = tl.dot(x, tk.load([head * length + at, 0]).T) * (scale * 1.4426950408889634)
        if CAUSAL:
            s = tl.where(rows[:, None] >= at + tl.arange(0, BN)[None, :], s, -1.0e6)
        now = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        fade = tl.exp2(largest - now)
        acc = tl.dot(p.to(v.dtype.element_ty), tv.load([head * length + at, 0]), acc * fade[:, None])
        weight = weight * fade + tl.sum(p, 1)
        largest = now
    tl.store(sums + head * length + rows, largest + tl.log2(weight))
    to.store([head * length + tile * BM, 0], (acc / weight[:, None]).to(out.dtype.element_ty))


@triton.jit
def attention_gradients(q, k, v, g, sums, delta, dq, dk, dv, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    base, d = tl.program_id(1) * length * D, tl.arange(0, D)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    tk = tl.load(k + base + columns[:, None] * D + d[None, :])
    tv = tl.load(v + base + columns[:, None] * D + d[None, :])
    gk, gv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for at in range(0, length, BM):
        rows = at + tl.arange(0, BM)
        tq = tl.load(q + base + rows[:, None] * D + d[None, :])
        tg = tl.load(g + base + rows[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(tq, tl.trans(tk)) * (scale * 1.4426950408889634) - tl.load(sums + tl.program_id(1) * length + rows)[:, None])
        gv += tl.dot(tl.trans(p).to(tl.float16), tg)
        ds = p * (tl.dot(tg, tl.trans(tv)) - tl.load(delta + tl.program_id(1) * length + rows)[:, None]) * scale
        gk += tl.dot(tl.trans(ds.to(tl.float16)), tq)
        tl.atomic_add(dq + base + rows[:, None] * D + d[None, :], tl.dot(ds.to(tl.float16), tk), sem="relaxed")
    tl.store(dk + base + columns[:, None] * D + d[None, :], gk)
    tl.store(dv + base + columns[:, None] * D + d[None, :], gv)


@triton.jit
def split_matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(tl.program_id(2) * BK, k, BK * PARTS):
        inner = at + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0.0)
        acc = tl.dot(x, tl.load(b + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0.0), acc)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def scaled_matmul(a, a_scale, b, b_scale, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # A of 4-bit floats, two a byte; B of e4m3; a scale for every 32 elements.
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    pairs, groups = tl.arange(0, BK // 2), tl.arange(0, BK // 32)
    x = tl.load(a + rows[:, None] * (BK // 2) + pairs[None, :])
    y = tl.load(b + inner[:, None] * BN + columns[None, :])
    sx = tl.load(a_scale + rows[:, None] * (BK // 32) + groups[None, :])
    sy = tl.load(b_scale + columns[:, None] * (BK // 32) + groups[None, :])
    tl.store(c + rows[:, None] * BN + columns[None, :], tl.dot_scaled(x, sx, "e2m1", y, sy, "e4m3"))
