"""One thread an element."""

import numpy as np

from harness import ALL, DEBUG, f32, f64, given, made, program, s32, u64, updated


@program("elementwise", grid=4, block=256, variants=ALL)
def saxpy(random):
    x, y = random.standard_normal((2, 1000), np.float32)
    return [f32(1.5), given(x), updated(y, (np.float64(1.5) * x + y).astype(np.float32), rtol=1e-6, atol=1e-6), s32(1000)]


@program("elementwise", grid=2, block=96)
def saxpy_grid_stride(random):
    x, y = random.standard_normal((2, 777))
    return [f64(-0.3), given(x), updated(y, y - 0.3 * x, rtol=1e-14, atol=1e-15), u64(777)]


@program("elementwise", grid=3, block=128)
def grey(random):
    image = random.integers(0, 256, (300, 4), np.uint8)
    wide = image.astype(np.int32)
    level = (wide[:, 0] * 77 + wide[:, 1] * 150 + wide[:, 2] * 29) >> 8
    return [given(image), made(level.astype(np.uint8)), made(image.astype(np.float32) / np.float32(255)), s32(300)]


@program("elementwise", grid=(3, 5), block=(16, 8))
def transpose_naive(random):
    a = random.integers(-2**31, 2**31, (37, 41), np.int32)
    return [given(a), made(a.T), s32(37), s32(41)]


@program("elementwise", grid=(2, 3), block=(32, 8), variants=ALL)
def transpose_tiled(random):
    a = random.standard_normal((70, 45), np.float32)
    return [given(a), made(a.T), s32(70), s32(45)]


@program("elementwise", grid=(3, 2), block=(16, 16))
def stencil(random):
    a = random.standard_normal((29, 40), np.float32)
    edge = np.pad(a, 1, mode="edge").astype(np.float64)
    weight = np.full((3, 3), 0.0625)
    weight[1, 1] = 0.5
    out = sum(weight[dy, dx] * edge[dy:dy + 29, dx:dx + 40] for dy in range(3) for dx in range(3))
    return [given(a), made(out.astype(np.float32), rtol=1e-5, atol=1e-6), s32(29), s32(40)]


@program("elementwise", grid=(3, 3), block=(16, 16), variants=DEBUG)
def life(random):
    a = random.integers(0, 2, (45, 37), np.uint8)
    count = sum(np.roll(a, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - a
    return [given(a), made(((count == 3) | ((count == 2) & (a == 1))).astype(np.uint8)), s32(45), s32(37)]


@program("elementwise", grid=(2, 4), block=(32, 8))
def mandelbrot(random):
    width, height, x0, y0, step, limit = 60, 31, np.float32(-2.1), np.float32(-1.2), np.float32(0.05), 60
    cx = x0 + np.arange(width, dtype=np.float32)[None, :] * step + np.zeros((height, 1), np.float32)
    cy = y0 + np.arange(height, dtype=np.float32)[:, None] * step + np.zeros((1, width), np.float32)
    x, y = np.zeros_like(cx), np.zeros_like(cx)
    count, alive = np.zeros((height, width), np.int32), np.ones((height, width), bool)
    for _ in range(limit):
        xx, yy = x * x, y * y
        alive &= ~(xx + yy > 4)
        y = np.where(alive, np.float32(2) * x * y + cy, y)
        x = np.where(alive, xx - yy + cx, x)
        count += alive
    return [made(count), s32(width), s32(height), f32(x0), f32(y0), f32(step), s32(limit)]
