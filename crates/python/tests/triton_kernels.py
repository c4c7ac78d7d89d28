"""Triton's kernels of the tests: the six subjects of Triton's tutorials."""

import triton
import triton.language as tl


@triton.jit
def add(x_pointer, y_pointer, sum_pointer, length, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < length
    total = tl.load(x_pointer + offsets, mask=inside) + tl.load(y_pointer + offsets, mask=inside)
    tl.store(sum_pointer + offsets, total, mask=inside)


@triton.jit
def add_with_wrong_mask(x_pointer, y_pointer, sum_pointer, length, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets <= length
    total = tl.load(x_pointer + offsets, mask=inside) + tl.load(y_pointer + offsets, mask=inside)  # WRONG MASK
    tl.store(sum_pointer + offsets, total, mask=inside)


@triton.jit
def softmax(out_pointer, in_pointer, row_stride, rows, columns, COLUMNS: tl.constexpr, STAGES: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(in_pointer + row * row_stride + column, mask=column < columns, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out_pointer + row * columns + column, powers / tl.sum(powers, axis=0), mask=column < columns)


@triton.autotune(
    configs=[
        triton.Config({"M_TILE": 32, "N_TILE": 32, "K_TILE": 32, "GROUP": 4}, num_warps=4, num_stages=2),
        triton.Config({"M_TILE": 64, "N_TILE": 64, "K_TILE": 32, "GROUP": 4}, num_warps=4, num_stages=3),
    ],
    key=["m", "n", "k"],
)
@triton.heuristics({"EVEN_K": lambda arguments: arguments["k"] % arguments["K_TILE"] == 0})
@triton.jit
def matmul(
    a_pointer, b_pointer, c_pointer, m, n, k, a_stride, b_stride, c_stride,
    M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr, GROUP: tl.constexpr,
    EVEN_K: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(m, M_TILE), tl.cdiv(n, N_TILE)
    in_group = GROUP * tiles_n
    group = tl.program_id(0) // in_group
    height = min(tiles_m - group * GROUP, GROUP)
    tile_m = group * GROUP + (tl.program_id(0) % in_group) % height
    tile_n = (tl.program_id(0) % in_group) // height
    rows = tile_m * M_TILE + tl.arange(0, M_TILE)
    columns = tile_n * N_TILE + tl.arange(0, N_TILE)
    inner = tl.arange(0, K_TILE)
    a = a_pointer + (rows % m)[:, None] * a_stride + inner[None, :]
    b = b_pointer + inner[:, None] * b_stride + (columns % n)[None, :]
    total = tl.zeros((M_TILE, N_TILE), tl.float32)
    for step in range(tl.cdiv(k, K_TILE)):
        if EVEN_K:
            a_tile, b_tile = tl.load(a), tl.load(b)
        else:
            rest = k - step * K_TILE
            a_tile = tl.load(a, mask=inner[None, :] < rest, other=0.0)
            b_tile = tl.load(b, mask=inner[:, None] < rest, other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a += K_TILE
        b += K_TILE * b_stride
    if RELU:
        total = tl.maximum(total, 0.0)
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_pointer + rows[:, None] * c_stride + columns[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def dropout(x_pointer, out_pointer, length, probability, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + offsets, mask=offsets < length)
    kept = tl.rand(seed, offsets) > probability
    tl.store(out_pointer + offsets, tl.where(kept, x / (1 - probability), 0.0), mask=offsets < length)


@triton.jit
def layer_norm(x_pointer, y_pointer, w_pointer, b_pointer, mean_pointer, rstd_pointer, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x_pointer + row * stride + column, mask=column < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_pointer + row * stride + column, mask=column < n, other=0.0).to(tl.float32)
        distance = tl.where(column < n, x - mean, 0.0)
        squares += distance * distance
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + epsilon)
    tl.store(mean_pointer + row, mean)
    tl.store(rstd_pointer + row, rstd)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_pointer + row * stride + column, mask=column < n, other=0.0).to(tl.float32)
        w = tl.load(w_pointer + column, mask=column < n)
        b = tl.load(b_pointer + column, mask=column < n)
        tl.store(y_pointer + row * stride + column, (x - mean) * rstd * w + b, mask=column < n)


@triton.jit
def layer_norm_backward(
    dx_pointer, dy_pointer, dw_pointer, db_pointer, x_pointer, w_pointer, mean_pointer, rstd_pointer, lock_pointer,
    stride, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    x = tl.load(x_pointer + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_pointer + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_pointer + column, mask=inside, other=0.0).to(tl.float32)
    mean, rstd = tl.load(mean_pointer + row), tl.load(rstd_pointer + row)
    normal = tl.where(inside, (x - mean) * rstd, 0.0)
    scaled = tl.where(inside, w * dy, 0.0)
    projection = tl.sum(normal * scaled, axis=0) / n
    average = tl.sum(scaled, axis=0) / n
    tl.store(dx_pointer + row * stride + column, (scaled - (normal * projection + average)) * rstd, mask=inside)
    # Rows of one group add up their parts behind a lock.
    group = row % GROUPS
    lock, count = lock_pointer + group, lock_pointer + GROUPS + group
    dw_pointer += group * n + column
    db_pointer += group * n + column
    dw, db = dy * normal, dy
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        dw += tl.load(dw_pointer, mask=inside)
        db += tl.load(db_pointer, mask=inside)
    tl.store(dw_pointer, dw, mask=inside)
    tl.store(db_pointer, db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def layer_norm_sums(dw_pointer, db_pointer, dw_sum_pointer, db_sum_pointer, groups, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    dw = tl.zeros((ROWS, COLUMNS), tl.float32)
    db = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, groups, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row[:, None] < groups) & (column[None, :] < n)
        offsets = row[:, None] * n + column[None, :]
        dw += tl.load(dw_pointer + offsets, mask=inside, other=0.0)
        db += tl.load(db_pointer + offsets, mask=inside, other=0.0)
    tl.store(dw_sum_pointer + column, tl.sum(dw, axis=0), mask=column < n)
    tl.store(db_sum_pointer + column, tl.sum(db, axis=0), mask=column < n)


@triton.jit
def attention(
    q_map, k_map, v_map, out_map, lse_pointer, scale, sequence,
    HEAD: tl.constexpr, M_TILE: tl.constexpr, N_TILE: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * M_TILE
    base = tl.program_id(1) * sequence
    rows = first + tl.arange(0, M_TILE)
    q = q_map.load([base + first, 0])
    largest = tl.full([M_TILE], -float("inf"), tl.float32)
    total = tl.zeros([M_TILE], tl.float32)
    out = tl.zeros([M_TILE, HEAD], tl.float32)
    scale *= 1.44269504  # powers of two
    end = first + M_TILE if CAUSAL else sequence
    for start in range(0, end, N_TILE):
        k = k_map.load([base + start, 0])
        scores = tl.dot(q, k.T) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= start + tl.arange(0, N_TILE)[None, :], scores, -1.0e6)
        higher = tl.maximum(largest, tl.max(scores, axis=1))
        powers = tl.math.exp2(scores - higher[:, None])
        shrink = tl.math.exp2(largest - higher)
        total = total * shrink + tl.sum(powers, axis=1)
        v = v_map.load([base + start, 0])
        out = tl.dot(powers.to(tl.float16), v, out * shrink[:, None])
        largest = higher
    tl.store(lse_pointer + base + rows, largest + tl.math.log2(total))
    out_map.store([base + first, 0], (out / total[:, None]).to(tl.float16))


@triton.jit
def transpose_by_descriptor(in_pointer, out_pointer, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(in_pointer, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(out_pointer, [columns, rows], [rows, 1], [COLUMNS, ROWS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    target.store([column, row], source.load([row, column]).T)


@triton.jit
def row_sums(x_pointer, out_pointer, COLUMNS: tl.constexpr, BARRIER: tl.constexpr):
    # Each program reverses a row through a scratch row in global memory.
    column = tl.arange(0, COLUMNS)
    scratch = out_pointer + tl.program_id(0) * 2 * COLUMNS
    tl.store(scratch + column, tl.load(x_pointer + tl.program_id(0) * COLUMNS + column))
    if BARRIER:
        tl.debug_barrier()
    reversed = tl.load(scratch + COLUMNS - 1 - column)  # AFTER THE BARRIER
    tl.store(scratch + COLUMNS + column, reversed)


@triton.jit
def print_values(x_pointer, BLOCK: tl.constexpr):
    tl.device_print("value", tl.load(x_pointer + tl.arange(0, BLOCK)))


@triton.jit(debug=True)
def expect_small(x_pointer, BLOCK: tl.constexpr):
    tl.device_assert(tl.load(x_pointer + tl.arange(0, BLOCK)) < 5, "too large")  # ASSERTION


@triton.jit
def double(pointers, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(pointers[1] + offsets, 2 * tl.load(pointers[0] + offsets))
