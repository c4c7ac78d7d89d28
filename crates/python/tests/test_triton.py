"""Triton's tutorials on the emulator, checked: right, clean, and mistakes at the Python line."""

import inspect

import ml_dtypes
import numpy as np
import pytest

triton = pytest.importorskip("triton")

import triton_kernels as kernels  # noqa: E402
import warpwright as ww  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

rng = np.random.default_rng(1)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape, dtype=np.float32).astype(dtype)


@pytest.fixture(autouse=True)
def on_a_checked_device():
    with ww.triton.on("emu:h200", check=True, schedules=["eager", "latest"]) as device:
        yield device


def line_of(kernel, remark):
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(number for number, line in enumerate(lines) if remark in line)


def test_1_vector_add():
    x, y = normal(1000), normal(1000)
    total = np.empty_like(x)
    kernels.add[lambda options: (triton.cdiv(1000, options["BLOCK"]),)](x, y, total, 1000, BLOCK=256)
    np.testing.assert_array_equal(total, x + y)


def test_2_softmax():
    x = normal(40, 100)
    y = np.zeros((40, 77), np.float32)
    view = x[:, :77]
    kernels.softmax[(8,)](y, view, x.shape[1], 40, 77, COLUMNS=128, STAGES=2, num_warps=4)
    powers = np.exp(view - view.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 96, 64), (70, 33, 50)])
def test_3_matmul_is_autotuned_by_predicted_times(m, n, k):
    a, b = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16)
    c = np.zeros((m, n), np.float16)
    kernels.matmul[lambda options: (triton.cdiv(m, options["M_TILE"]) * triton.cdiv(n, options["N_TILE"]),)](
        a, b, c, m, n, k, k, n, n, RELU=True
    )
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(c, expected, atol=2e-2, rtol=2e-3)
    assert kernels.matmul.best_config.kwargs["M_TILE"] in (32, 64)


def test_4_dropout():
    x = normal(1000)
    first, second, other = (np.zeros_like(x) for _ in range(3))
    for out, seed in ((first, 123), (second, 123), (other, 124)):
        kernels.dropout[(4,)](x, out, 1000, 0.25, seed, BLOCK=256)
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
    kept = first != 0
    np.testing.assert_allclose(first[kept], x[kept] / 0.75, rtol=1e-6)
    assert 0.68 < kept.mean() < 0.82


def test_5_layer_norm():
    rows, n = 12, 200
    x, w, b, dy = normal(rows, n), normal(n), normal(n), normal(rows, n)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    kernels.layer_norm[(rows,)](x, y, w, b, mean, rstd, n, n, 1e-5, BLOCK=128)
    expected_rstd = 1 / np.sqrt(x.var(axis=1) + 1e-5)
    normal_x = (x - x.mean(axis=1, keepdims=True)) * expected_rstd[:, None]
    np.testing.assert_allclose(y, normal_x * w + b, atol=1e-5)
    groups = 4
    dx = np.zeros_like(x)
    parts = np.zeros((2, groups, n), np.float32)
    locks = np.zeros(2 * groups, np.int32)
    kernels.layer_norm_backward[(rows,)](
        dx, dy, parts[0], parts[1], x, w, mean, rstd, locks, n, n, GROUPS=groups, BLOCK=256, num_warps=4
    )
    dw, db = np.zeros(n, np.float32), np.zeros(n, np.float32)
    kernels.layer_norm_sums[(triton.cdiv(n, 128),)](parts[0], parts[1], dw, db, groups, n, ROWS=4, COLUMNS=128)
    scaled = dy * w
    projection = (normal_x * scaled).mean(axis=1, keepdims=True)
    expected = (scaled - normal_x * projection - scaled.mean(axis=1, keepdims=True)) * expected_rstd[:, None]
    np.testing.assert_allclose(dx, expected, atol=1e-5)
    np.testing.assert_allclose(dw, (dy * normal_x).sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(db, dy.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_6_attention(causal):
    heads, sequence, size = 2, 128, 64
    q, k, v = (normal(heads * sequence, size, dtype=np.float16) for _ in range(3))
    out, lse = np.zeros_like(q), np.zeros(heads * sequence, np.float32)
    maps = [TensorDescriptor.from_tensor(ww.triton.Array(each), [64, size]) for each in (q, k, v, out)]
    kernels.attention[(sequence // 64, heads)](
        *maps, lse, 0.125, sequence, HEAD=size, M_TILE=64, N_TILE=64, CAUSAL=causal, num_warps=4
    )
    per_head = (heads, sequence, size)
    q, k, v = (each.astype(np.float32).reshape(per_head) for each in (q, k, v))
    scores = q @ k.swapaxes(1, 2) * 0.125
    if causal:
        scores = np.where(np.tri(sequence, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = powers / powers.sum(axis=2, keepdims=True) @ v
    np.testing.assert_allclose(out.reshape(per_head), expected, atol=4e-3)


def test_descriptors_of_the_device_have_global_scratch():
    x = normal(64, 96, dtype=np.float16)
    y = np.zeros((96, 64), np.float16)
    kernels.transpose_by_descriptor[(2, 3)](x, y, 64, 96, ROWS=32, COLUMNS=32)
    np.testing.assert_array_equal(y, x.T)


def test_clusters_and_launch_hooks():
    seen = []
    hook = lambda metadata: seen.append(metadata.get()["name"])  # noqa: E731
    triton.knobs.runtime.launch_enter_hook.add(hook)
    try:
        x = normal(1024)
        total = np.zeros_like(x)
        kernels.add[(1,)](x, x, total, 1024, BLOCK=1024, num_ctas=2, num_warps=4)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(hook)
    np.testing.assert_array_equal(total, 2 * x)
    assert seen == ["add"]


def test_tuples_and_narrow_types():
    x = np.arange(8).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    kernels.double[(1,)]((x, y), BLOCK=8)
    np.testing.assert_array_equal(y, 2 * x)


class Tensor:
    """A tensor of the host as PyTorch has them."""

    def __init__(self, array):
        self.data_ptr, self.dtype = lambda: array.ctypes.data, "torch.float32"
        self.dlpack = array

    def __dlpack_device__(self):
        return self.dlpack.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.dlpack.__dlpack__(**options)


def test_tensors_of_other_libraries():
    x, total = normal(100), np.zeros(100, np.float32)
    kernels.add[(1,)](Tensor(x), Tensor(x), Tensor(total), 100, BLOCK=128)
    np.testing.assert_array_equal(total, 2 * x)


def test_prints_and_assertions_of_kernels(capsys):
    x = np.arange(8, dtype=np.float32)
    kernels.print_values[(1,)](x, BLOCK=8)
    assert "pid (0, 0, 0) idx (7) value: 7.000000" in capsys.readouterr().out
    with pytest.raises(ww.FaultError, match="assertion failed: too large") as caught:
        kernels.expect_small[(1,)](x, BLOCK=8)
    assert caught.value.findings[0].lines[0] == line_of(kernels.expect_small, "ASSERTION")


@pytest.mark.parametrize("name", ["emu:a100", "emu:rtx5090", "emu:b200"])
def test_attention_on_other_gpus(name):
    # On Blackwell, the checkers find the same in all of Triton's kernels with tensor memory: docs/checking.md.
    with ww.triton.on(name, check=name != "emu:b200"):
        test_6_attention(causal=True)


def test_a_wrong_mask_is_found_at_its_line():
    x, y, total = normal(1000), normal(1000), np.zeros(1000, np.float32)
    with pytest.raises(ww.FaultError) as caught:
        kernels.add_with_wrong_mask[(4,)](x, y, total, 1000, BLOCK=256)
    access = caught.value.findings[0].accesses[0]
    assert access.file.endswith("triton_kernels.py")
    assert access.line == line_of(kernels.add_with_wrong_mask, "WRONG MASK")


def test_a_missing_barrier_is_found_at_its_line():
    x = normal(4, 256)
    out = np.zeros((4, 2, 256), np.float32)
    kernels.row_sums[(4,)](x, out, COLUMNS=256, BARRIER=True, num_warps=4)
    np.testing.assert_array_equal(out[:, 1], x[:, ::-1])
    findings = ww.triton.check(kernels.row_sums[(4,)], x, out, COLUMNS=256, BARRIER=False, num_warps=4)
    assert findings[0].code == "race"
    assert line_of(kernels.row_sums, "AFTER THE BARRIER") in findings[0].lines


def test_a_barrier_removed_from_the_ptx_is_found_at_its_line():
    x, y = normal(8, 128), np.zeros((8, 128), np.float32)
    compiled = ww.triton.run(kernels.softmax[(8,)], y, x, 128, 8, 128, COLUMNS=128, STAGES=1, num_warps=4)
    ptx = compiled.asm["ptx"].decode()
    barrier = "bar.sync \t0;"
    assert barrier in ptx
    device = ww.Device("emu:h200")
    found = []
    for position in [at for at in range(len(ptx)) if ptx.startswith(barrier, at)]:
        kernel = device.load(ptx[:position] + ptx[position + len(barrier) :])["softmax"]
        names = {"pointers": [y, x], "scalars": [np.int32(8)]}
        count = len(kernel.parameters)
        arguments = [*names["pointers"], *names["scalars"] * (count - 4), None, None]
        found += kernel.check(8, 128, *arguments, shared=compiled.metadata.shared, schedules="eager")
    lines = {line for finding in found for line in finding.lines}
    assert {finding.code for finding in found} == {"race"}
    assert lines & {line_of(kernels.softmax, "tl.max"), line_of(kernels.softmax, "tl.sum")}


def test_times_and_reports_of_a_launch():
    x, total = normal(4096), np.zeros(4096, np.float32)
    launch = kernels.add[(16,)]
    prediction = ww.triton.time(launch, x, x, total, 4096, BLOCK=256)
    assert 0.5 < prediction.microseconds < 20
    report = ww.triton.report(launch, x, x, total, 4096, BLOCK=256)
    assert any(line["counts"]["file"].endswith("triton_kernels.py") for line in report.lines if line["counts"]["file"])
    assert not total.any()


def test_misuse_names_the_cause():
    x = normal(16)
    add = kernels.add[(1,)]
    cases = [
        (lambda: add(x, x, BLOCK=16), TypeError, "missing .*argument"),
        (lambda: add(x, x, x, 16, BLOCK=16, BANK=3), KeyError, "BANK"),
        (lambda: add(np.array([None]), x, x, 16, BLOCK=16), ww.ArgumentError, "an array of Python objects"),
        (lambda: add([1.0], x, x, 16, BLOCK=16), Exception, "list|type"),
        (lambda: add(x, x, x, 16, BLOCK=1 << 21), Exception, "exceeds|maximum"),
        (lambda: ww.triton.on("emu:zzz").__enter__(), ww.DeviceError, "unknown device `emu:zzz`"),
        (lambda: ww.triton.Array("x"), ww.ArgumentError, "a str is no array"),
        (lambda: ww.triton.check(add, x, x, x, 16, BLOCK=16, schedules="soon"), ww.ArgumentError, "the schedule is"),
        (lambda: kernels.add[(0x7FFFFFFF, 0x7FFFFFFF)](x, x, x, 16, BLOCK=16), ww.LaunchError, "grid's y extent"),
    ]
    for misuse, error, words in cases:
        with pytest.raises(error, match=words):
            misuse()
    add(x, x, np.zeros_like(x), 16, BLOCK=16)


def test_outside_of_a_device_the_call_says_so():
    import subprocess
    import sys

    code = "import triton, triton_kernels as k, numpy as n; x = n.zeros(4, n.float32); k.add[(1,)](x, x, x, 4, BLOCK=4)"
    from pathlib import Path

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert ran.returncode == 1 and "active drivers" in ran.stderr
