"""A GEMM that is told everything in one structure, as template libraries pass it."""

import ml_dtypes
import numpy as np

from harness import Pointer, Struct, TensorMap, f32, given, made, program, s32, u32, u64

BF16 = ml_dtypes.bfloat16
ENTRY = "_Z13device_kernelI15CooperativeGemmEvNT_6ParamsE"
# What the tensor copies of inputs say to L2: fetched last, and evicted first.
EVICT_LAST, EVICT_FIRST = 0x14F0000000000000, 0x12F0000000000000
# Three stages of A and B, C and D, ten barriers, and up to a multiple of 1024 bytes lost before them.
SHARED = 3 * (128 * 64 + 64 * 64) * 2 + 2 * 128 * 64 * 2 + 64 + 1024


def divisor(number):
    """The multiplier and shift by which a division by that number is done."""
    shift = (number - 1).bit_length() - 1
    return [s32(number), u32(-(-2 ** (32 + shift) // number)), u32(shift)] if number > 1 else [s32(1), u32(0), u32(0)]


def launch(random, m, n, k, alpha, beta, pointers=False):
    a, b, c = (random.standard_normal(shape).astype(BF16) for shape in [(m, k), (n, k), (m, n)])
    wanted = (alpha * (a.astype(np.float64) @ b.astype(np.float64).T) + beta * c.astype(np.float64)).astype(BF16)
    along_n, pairs = -(-n // 64), -(-m // 256)
    box = lambda place, rows: TensorMap(place, box=[64, rows], swizzle="128B")
    fields = {
        0: s32(1), 4: s32(m), 8: s32(n), 12: s32(k), 16: s32(1),
        64: box(1, 128), 192: u64(EVICT_FIRST), 200: s32(128 * 64 * 2),
        256: box(2, 32), 384: u64(EVICT_LAST), 392: s32(32 * 64 * 2),
        448: f32(7 if pointers else alpha), 452: f32(beta),
        512: box(3, 128), 640: u64(EVICT_FIRST), 648: s32(128 * 64 * 2),
        704: box(4, 128), 832: u64(EVICT_FIRST), 840: s32(128 * 64 * 2),
        **dict(zip((896, 900, 904), divisor(along_n))), 908: u32(along_n * pairs),
    }
    buffers = [given(a), given(b), given(c), made(wanted, rtol=1e-2, atol=2e-2)]
    if pointers:
        fields |= {456: Pointer(5), 464: Pointer(6)}
        buffers += [given(np.array([value], np.float32)) for value in (alpha, beta)]
    return [Struct(960, fields), *buffers]


@program("structured", grid=4, block=384, entry=ENTRY, shared=SHARED, variants=("sm_90a",), cluster=2)
def structured_gemm(random):
    return launch(random, 512, 192, 192, 0.5, 2)


@program("structured", grid=2, block=384, entry=ENTRY, shared=SHARED, variants=("sm_90a",), cluster=2)
def structured_gemm_ragged(random):
    """Rows, columns and depth that no tile divides; alpha and beta by pointers."""
    return launch(random, 200, 72, 328, -1.25, 1, pointers=True)


@program("structured", grid=2, block=384, entry=ENTRY, shared=SHARED, variants=("sm_90a",), cluster=2)
def structured_gemm_no_source(random):
    return launch(random, 136, 64, 64, 1, 0)
