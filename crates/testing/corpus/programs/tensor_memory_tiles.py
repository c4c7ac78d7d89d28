"""Kernels in Triton for Blackwell: its tensor cores and tensor memory (tcgen05), and arithmetic on pairs of f32.

Triton writes no `tcgen05.fence`, leaves the constant of matrix descriptors zero, and gives `tcgen05.commit` a shared address where a generic
one belongs; its kernels run.
"""

import ml_dtypes
import numpy as np

from harness import s32, triton_program
from programs.tiles import transposed_product, triton_attention
from programs.warpgroup_tiles import FLASH, GROUPED, SPECIALISED, flash, grouped, matrices, triton_scaled

E4M3 = ml_dtypes.float8_e4m3fn
BLACKWELL = ("sm_100",)


@triton_program("descriptor_matmul", "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 64}, grid=(2, 2), variants=BLACKWELL)
def triton_tensor_memory_half(random):
    return transposed_product(random, 100, 72, 160, np.float16)


@triton_program("grouped_matmul", GROUPED.format("fp8e4nv", "fp32"), grouped(64, 64, 64), grid=4, stages=2, variants=BLACKWELL)
def triton_tensor_memory_fp8(random):
    return [*matrices(random, 128, 128, 128, E4M3, np.float32, rtol=1e-2, atol=1e-2), s32(128), s32(128)]


@triton_program("specialised_matmul", "*fp16 *fp16 *fp16 i32 i32 i32", SPECIALISED, grid=(1, 2), variants=BLACKWELL)
def triton_tensor_memory_specialised(random):
    return matrices(random, 128, 256, 256, np.float16, np.float16, transposed=True, rtol=1e-2, atol=5e-2)


@triton_program("flash_attention", FLASH, {"BM": 128, "BN": 64, "D": 64, "CAUSAL": True}, grid=(2, 1), stages=2, variants=BLACKWELL)
def triton_tensor_memory_attention(random):
    return flash(random, 1, 256, 64, True)


@triton_program("scaled_matmul", "*u8 *u8 *fp8e4nv *u8 *fp32", {"BM": 64, "BN": 64, "BK": 128}, grid=1, variants=BLACKWELL)
def triton_tensor_memory_scaled(random):
    return triton_scaled(random)


@triton_program("attention", "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"BM": 32, "BN": 32, "D": 64}, grid=(3, 2), stages=2, variants=BLACKWELL)
def triton_pairs_of_singles(random):
    return triton_attention(random)
