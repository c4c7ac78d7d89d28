"""Kernels in Triton that are Hopper's own: wgmma, tensor maps, clusters, warp specialisation."""

import ml_dtypes
import numpy as np
import triton.language as tl

from harness import f32, given, made, s32, triton_program, updated

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
HOPPER = ("sm_90",)


def matrices(random, m, n, k, dtype, out, transposed=False, **tolerance):
    """A (m, k), B (k, n), or its transpose, and their product."""
    a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
    product = (a.astype(np.float64) @ b.astype(np.float64)).astype(out)
    return [given(a), given(b.T if transposed else b), made(product, **tolerance), s32(m), s32(n), s32(k)]


def grouped(bm, bn, bk, total="float32", transposed=False):
    """Constants of `grouped_matmul`; strides of one are among them, as the just-in-time compiler has it."""
    ones = ("a_column", "b_row" if transposed else "b_column")
    return {"BM": bm, "BN": bn, "BK": bk, "GROUP": 4, "SUM": getattr(tl, total)} | dict.fromkeys(ones, 1)


GROUPED = "*{0} *{0} *{1} i32 i32 i32 i32 i32"


@triton_program("grouped_matmul", GROUPED.format("fp16", "fp16"), grouped(128, 64, 32, "float16"), grid=2, variants=HOPPER)
def triton_wgmma_half_sums(random):
    return [*matrices(random, 128, 128, 64, np.float16, np.float16, rtol=1e-2, atol=1e-1), s32(64), s32(128)]


@triton_program("grouped_matmul", GROUPED.format("bf16", "bf16"), grouped(128, 128, 64, transposed=True), grid=4, warps=8, variants=HOPPER)
def triton_wgmma_bfloat(random):
    return [*matrices(random, 250, 200, 160, BF16, BF16, transposed=True, rtol=1e-2, atol=5e-2), s32(160), s32(160)]


@triton_program("grouped_matmul", GROUPED.format("fp8e4nv", "fp32"), grouped(64, 64, 64), grid=4, stages=2, variants=HOPPER)
def triton_wgmma_fp8(random):
    return [*matrices(random, 128, 128, 128, E4M3, np.float32, rtol=1e-2, atol=1e-2), s32(128), s32(128)]


def persistent(specialised, halves):
    return {"BM": 128 if specialised else 64, "BN": 128, "BK": 64, "CTAS": 2, "SPECIALISED": specialised, "HALVES": halves}


@triton_program("persistent_matmul", "*bf16 *bf16 *bf16 i32 i32 i32", persistent(False, True), grid=2, variants=HOPPER)
def triton_persistent(random):
    return matrices(random, 100, 256, 128, BF16, BF16, transposed=True, rtol=1e-2, atol=5e-2)


@triton_program("persistent_matmul", "*fp16 *fp16 *fp16 i32 i32 i32", persistent(True, False), grid=2, variants=HOPPER)
def triton_persistent_specialised(random):
    return matrices(random, 200, 256, 192, np.float16, np.float16, transposed=True, rtol=1e-2, atol=5e-2)


SPECIALISED = {"BM": 128, "BN": 128, "BK": 64, "SPECIALISED": True}


@triton_program("specialised_matmul", "*fp16 *fp16 *fp16 i32 i32 i32", SPECIALISED, grid=(1, 2), variants=HOPPER)
def triton_specialised(random):
    return matrices(random, 128, 256, 256, np.float16, np.float16, transposed=True, rtol=1e-2, atol=5e-2)


@triton_program("specialised_matmul", "*fp16 *fp16 *fp16 i32 i32 i32", SPECIALISED | {"SPECIALISED": False}, grid=(1, 2), variants=HOPPER, ctas=2)
def triton_cluster(random):
    return matrices(random, 128, 256, 128, np.float16, np.float16, transposed=True, rtol=1e-2, atol=5e-2)


def attention(random, heads, length, depth, causal):
    """Inputs, and in double precision: weights, output, and the binary logarithm of the sums."""
    q, k, v = (random.standard_normal((heads, length, depth)).astype(np.float16) for _ in range(3))
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / np.sqrt(depth)
    s = np.where(np.tri(length, dtype=bool), s, -np.inf) if causal else s
    largest = s.max(2, keepdims=True)
    e = np.exp(s - largest)
    total = e.sum(2, keepdims=True)
    return q, k, v, e / total, e / total @ v.astype(np.float64), ((largest + np.log(total)) / np.log(2))[..., 0]


def flash(random, heads, length, depth, causal):
    q, k, v, _, out, sums = attention(random, heads, length, depth, causal)
    return [given(q), given(k), given(v), made(out.astype(np.float16), rtol=1e-2, atol=5e-3), made(sums.astype(np.float32), rtol=1e-4, atol=1e-4),
            s32(length), f32(depth ** -0.5)]


FLASH = "*fp16 *fp16 *fp16 *fp16 *fp32 i32 fp32"


@triton_program("flash_attention", FLASH, {"BM": 64, "BN": 64, "D": 64, "CAUSAL": False}, grid=(2, 2), variants=HOPPER)
def triton_flash_attention(random):
    return flash(random, 2, 128, 64, False)


@triton_program("flash_attention", FLASH, {"BM": 128, "BN": 64, "D": 128, "CAUSAL": True}, grid=(2, 1), warps=8, stages=2, variants=HOPPER)
def triton_flash_attention_causal(random):
    return flash(random, 1, 256, 128, True)


@triton_program("attention_gradients", "*fp16 *fp16 *fp16 *fp16 *fp32 *fp32 *fp32 *fp32 *fp32 i32 fp32", {"BM": 64, "BN": 128, "D": 64},
                grid=(1, 2), warps=8, variants=HOPPER)
def triton_attention_gradients(random):
    q, k, v, p, out, sums = attention(random, 2, 128, 64, False)
    g = random.standard_normal(q.shape).astype(np.float16)
    wide_q, wide_k, wide_v, wide_g = (x.astype(np.float64) for x in (q, k, v, g))
    delta = (wide_g * out).sum(2)
    ds = p * (wide_g @ wide_v.transpose(0, 2, 1) - delta[..., None]) / 8
    near = {"rtol": 1e-2, "atol": 1e-2}
    return [given(q), given(k), given(v), given(g), given(sums.astype(np.float32)), given(delta.astype(np.float32)),
            updated(np.zeros(q.shape, np.float32), (ds @ wide_k).astype(np.float32), **near),
            made((ds.transpose(0, 2, 1) @ wide_q).astype(np.float32), **near),
            made((p.transpose(0, 2, 1) @ wide_g).astype(np.float32), **near), s32(128), f32(0.125)]


@triton_program("split_matmul", "*fp16 *fp16 *fp32 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 32, "PARTS": 4}, grid=(1, 1, 4), variants=HOPPER)
def triton_split(random):
    a, b, c, *sizes = matrices(random, 64, 64, 256, np.float16, np.float32)
    return [a, b, updated(np.zeros_like(c.after), c.after, rtol=1e-3, atol=1e-3), *sizes]


@triton_program("scaled_matmul", "*u8 *u8 *fp8e4nv *u8 *fp32", {"BM": 64, "BN": 64, "BK": 128}, grid=1, variants=HOPPER)
def triton_scaled(random):
    nibbles = random.integers(0, 16, (64, 128), np.uint8)
    halves = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([halves, -halves])[nibbles]
    b = random.standard_normal((128, 64)).astype(E4M3)
    scales = random.integers(122, 132, (2, 64, 4), np.uint8)
    a_scale, b_scale = np.repeat(2.0 ** (scales.astype(np.float64) - 127), 32, 2)
    c = (values * a_scale) @ (b.astype(np.float64) * b_scale.T)
    return [given(nibbles[:, ::2] | nibbles[:, 1::2] << 4), given(scales[0]), given(b), given(scales[1]), made(c.astype(np.float32), rtol=1e-2, atol=1.0)]
