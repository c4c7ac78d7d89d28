"""Threads of a warp, a CTA and a grid working together."""

import numpy as np

from harness import given, made, program, s32, scratch, updated


@program("cooperation", grid=5, block=128)
def sum_shuffle(random):
    x = random.standard_normal(2000, np.float32)
    total = np.array([x.sum(dtype=np.float64)], np.float32)
    return [given(x), updated(np.zeros(1, np.float32), total, rtol=1e-4, atol=1e-3), s32(2000)]


@program("cooperation", grid=4, block=128, shared=1024)
def sum_tree(random):
    x = random.integers(-2**31, 2**31, 900, np.int32)
    padded = np.pad(x.astype(np.int64), (0, 124)).reshape(4, 256)
    return [given(x), made(padded.sum(1)), s32(900)]


@program("cooperation", grid=7, block=256)
def sum_last_block(random):
    x = random.standard_normal(3000)
    return [given(x), scratch((7,), "f64", "poison"), made(np.array([x.sum()]), rtol=1e-12, atol=1e-12), s32(3000)]


@program("cooperation", grid=1, block=512)
def scan_block(random):
    x = random.integers(-1000, 1000, 487, np.int32)
    inclusive = np.cumsum(x, dtype=np.int32)
    return [given(x), made(inclusive), made(inclusive - x), s32(487)]


@program("cooperation", grid=1, block=128, shared=1024)
def scan_blelloch(random):
    x = random.integers(0, 2**32, 251, np.uint32)
    return [given(x), made(np.cumsum(x, dtype=np.uint32) - x), s32(251)]


@program("cooperation", grid=9, block=256)
def scan_look_back(random):
    x = random.integers(0, 2**32, 2222, np.uint32)
    return [given(x), made(np.cumsum(x, dtype=np.uint32)), scratch((9,), "u64"), s32(2222)]


@program("cooperation", grid=3, block=160)
def histogram_shared(random):
    x = random.normal(128, 30, 4000).clip(0, 255).astype(np.uint8)
    return [given(x), updated(np.zeros(256, np.uint32), np.bincount(x, minlength=256).astype(np.uint32)), s32(4000)]


@program("cooperation", grid=6, block=96)
def histogram_match(random):
    x = random.integers(0, 12, 555, np.uint32)
    return [given(x), updated(np.zeros(12, np.uint32), np.bincount(x, minlength=12).astype(np.uint32)), s32(555)]


@program("cooperation", grid=1, block=256)
def bitonic(random):
    keys = random.standard_normal(512, np.float32)
    order = np.argsort(keys)
    return [updated(keys, keys[order]), updated(np.arange(512, dtype=np.uint16), order.astype(np.uint16))]


@program("cooperation", grid=1, block=1024)
def radix_sort(random):
    keys = random.integers(0, 2**32, 1001, np.uint32)
    return [updated(keys, np.sort(keys)), s32(1001)]


@program("cooperation", grid=4, block=256)
def compact(random):
    x = random.integers(-5, 6, 1000, np.int32)
    out, totals = np.full(1024, -7, np.int32), []
    for block in range(4):
        kept = x[256 * block:256 * block + 256]
        kept = kept[kept > 0]
        out[256 * block:256 * block + len(kept)] = kept
        totals.append(len(kept))
    return [given(x), updated(np.full(1024, -7, np.int32), out), made(np.array(totals, np.uint32)),
            updated(np.zeros(1, np.uint32), np.array([sum(totals)], np.uint32)), s32(1000)]


@program("cooperation", grid=1, block=64)
def votes(random):
    x = random.integers(-95, 96, 64, np.int32)
    x[32:] = 7 + (np.arange(32) % 4)
    out = np.zeros((64, 12), np.uint32)
    for warp in range(2):
        v, rows, lane = x[32 * warp:32 * warp + 32], slice(32 * warp, 32 * warp + 32), np.arange(32)
        bits = lambda p: np.uint32(sum(1 << i for i in range(32) if p[i]))
        out[rows, 0], out[rows, 1], out[rows, 2] = (v > -90).all(), (v > 90).any(), bits(v & 1)
        out[rows, 3], out[rows, 4] = np.uint32(v.sum() & 0xffffffff), v.min().view(np.uint32)
        out[rows, 5], out[rows, 6] = v.view(np.uint32).max(), np.bitwise_xor.reduce(v.view(np.uint32))
        same = (v >> 8 == v[0] >> 8).all()
        out[rows, 7], out[rows, 8] = 0xffffffff if same else 0, same
        out[rows, 9] = v[lane // 8 * 8 + (lane * 7 + 3) % 8].view(np.uint32)
        out[rows, 10] = v[np.where(lane % 16 >= 3, lane - 3, lane)].view(np.uint32)
        third = lane % 3 == 0
        out[rows, 11] = np.where(third, 0, bits(~third & (lane % 2 == 1)))
    return [given(x), made(out)]


@program("groups", grid=1, block=128, variants=("sm_90a",))
def tiles(random):
    x = random.standard_normal(128, np.float32)
    eights, warps = x.reshape(-1, 8).astype(np.float64), x.reshape(-1, 32)
    out = np.stack([np.repeat(eights.sum(1), 8), np.repeat(warps.max(1), 32), np.cumsum(eights, 1).ravel()], 1)
    positive = warps > 0
    ranks = np.where(positive, (np.cumsum(positive, 1) - 1) * 100 + positive.sum(1, keepdims=True), -1)
    return [given(x), made(out.astype(np.float32), rtol=1e-5, atol=1e-5), made(ranks.ravel().astype(np.int32))]


@program("cooperation", grid=1, block=128)
def named_barriers(random):
    x = random.integers(-1000, 1000, (5, 64), np.int32)
    return [given(x), made(x[:, ::-1] * np.int32(3) + np.arange(5, dtype=np.int32)[:, None]), s32(5)]


@program("cooperation", grid=1, block=96)
def barrier_votes(random):
    x = random.integers(-50, 100, 96, np.int32)
    out = int((x > 0).sum()) * 4 + int((x > -100).all()) * 2 + int((x > 99).any())
    return [given(x), made(np.full(96, out, np.int32))]


@program("cooperation", grid=1, block=128)
def early_return(random):
    x = random.integers(-50, 100, 75, np.int32)
    return [given(x), made(x[::-1]), s32(75)]
