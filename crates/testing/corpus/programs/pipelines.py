"""libcu++'s pipelines, and a reduction in one pass."""

import numpy as np

from harness import given, made, program, s32, scratch

HOPPER = ("sm_90a",)


@program("pipelines", grid=6, block=128, variants=HOPPER)
def fence_reduction(random):
    x = random.integers(0, 9, 3000).astype(np.float32)
    return [given(x), scratch((6,), "f32", "poison"), made(np.array([x.sum()], np.float32)), s32(3000)]


@program("pipelines", grid=2, block=256, variants=HOPPER)
def pipelined(random):
    x = random.integers(0, 999, (5, 2, 256), np.int32)
    return [given(x), made(2 * x[:, :, ::-1]), s32(5)]


@program("pipelines", grid=1, block=128, variants=HOPPER)
def pipeline_roles(random):
    x = random.integers(0, 999, (7, 96), np.int32)
    return [given(x), made(x[:, ::-1]), s32(7)]
