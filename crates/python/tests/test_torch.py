"""Operators of PyTorch on tensors of the host, beside PyTorch's own in float32."""

import numpy as np
import pytest
import warpwright as ww

torch = pytest.importorskip("torch")
wt = pytest.importorskip("warpwright.torch")
functional = torch.nn.functional


@pytest.fixture(autouse=True, scope="module")
def device():
    return wt.emulate("emu:h200", check=True)


def numbers(*shape, dtype=torch.bfloat16, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def both(operation, reference, *tensors, tolerance=0.02):
    """Compares results and gradients of two functions of tensors."""
    ours = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    theirs = [tensor.float() if tensor.is_floating_point() else tensor for tensor in tensors]
    theirs = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in theirs]
    y, expected = operation(*ours), reference(*theirs)
    weights = numbers(*y.shape, dtype=torch.float32, seed=1)
    (y.float() * weights).sum().backward()
    (expected * weights).sum().backward()
    close(y, expected, tolerance)
    for mine, other in zip(ours, theirs):
        if mine.requires_grad:
            assert mine.grad.dtype == mine.dtype
            close(mine.grad, other.grad, 2 * tolerance)


def close(given, expected, tolerance):
    difference = (given.detach().float() - expected.detach()).abs()
    bound = tolerance * (expected.detach().abs() + expected.detach().abs().mean())
    # NaN is no result.
    assert bool((difference <= bound).all()), f"differs by {difference.max()}"


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
@pytest.mark.parametrize("bias", [None, torch.float32, torch.bfloat16])
def test_linear(activation, bias):
    def reference(x, weight, bias=None):
        y = functional.linear(x, weight, bias)
        known = {"none": lambda y: y, "gelu": lambda y: functional.gelu(y, approximate="tanh")}
        return known[activation](y) if activation in known else getattr(functional, activation)(y)

    tensors = [numbers(2, 9, 64), numbers(48, 64)] + ([] if bias is None else [numbers(48, dtype=bias)])
    both(lambda *tensors: wt.linear(*tensors, activation=activation), reference, *tensors)
    with torch.no_grad():
        close(wt.linear(*tensors, activation=activation), reference(*(t.float() for t in tensors)), 0.02)


def test_products_of_matrices_of_any_layout():
    a, b = numbers(3, 40, 24), numbers(3, 24, 56)
    both(wt.matmul, torch.matmul, a, b)
    both(lambda a, b: wt.matmul(a.mT, b.mT), lambda a, b: a.mT @ b.mT, numbers(24, 40), numbers(56, 24))
    both(lambda a, b: wt.matmul(a[:, ::2], b), lambda a, b: a[:, ::2] @ b, numbers(40, 48), numbers(24, 56))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows(dtype):
    x = numbers(3, 5, 40, dtype=dtype)
    weight, bias = numbers(40, dtype=dtype, seed=2), numbers(40, dtype=dtype, seed=3)
    both(wt.softmax, lambda x: x.softmax(-1), x)
    both(wt.log_softmax, lambda x: x.log_softmax(-1), x)
    both(wt.rms_norm, lambda x, w: functional.rms_norm(x, (40,), w, 1e-6), x, weight)
    zero_centred = lambda x, w: wt.rms_norm(x, w, 1e-6, zero_centred=True)
    both(zero_centred, lambda x, w: functional.rms_norm(x, (40,), 1 + w, 1e-6), x, weight)
    added = lambda x, r, w: torch.cat(wt.add_rms_norm(x, r, w))
    both(added, lambda x, r, w: torch.cat((x + r, functional.rms_norm(x + r, (40,), w, 1e-6))), x, x.roll(1, -1), weight)
    both(wt.layer_norm, lambda x, w, b: functional.layer_norm(x, (40,), w, b), x, weight, bias)
    both(wt.swiglu, lambda g, v: functional.silu(g) * v, x, numbers(3, 5, 40, dtype=dtype, seed=4))
    both(wt.softmax, lambda x: x.softmax(-1), x.mT)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction):
    target = torch.tensor([0, 7, -100, 39, 12])

    def reference(logits):
        return functional.cross_entropy(logits, target, reduction=reduction)

    both(lambda logits: wt.cross_entropy(logits, target, reduction), reference, numbers(5, 40), tolerance=0.03)


def attended(q, k, v, mask):
    heads, kv_heads = q.shape[2], k.shape[2]
    k, v = (matrix.repeat_interleave(heads // kv_heads, 2) for matrix in (k, v))
    by_heads = [matrix.transpose(1, 2) for matrix in (q, k, v)]
    return functional.scaled_dot_product_attention(*by_heads, attn_mask=mask).transpose(1, 2)


@pytest.mark.parametrize(
    ("options", "bounds"), [({}, (None, None)), ({"causal": True}, (None, 0)), ({"window": (16, 4)}, (16, 4))]
)
def test_attention(options, bounds):
    q, k, v = numbers(2, 70, 4, 64), numbers(2, 90, 2, 64, seed=1), numbers(2, 90, 2, 64, seed=2)
    distance = torch.arange(90)[None] - torch.arange(70)[:, None] - 20
    left, right = (10**6 if bound is None else bound for bound in bounds)
    mask = (distance >= -left) & (distance <= right)
    both(lambda *qkv: wt.attention(*qkv, **options), lambda *qkv: attended(*qkv, mask), q, k, v, tolerance=0.03)
    # Heads of a fused projection, and heads before rows.
    with torch.no_grad():
        fused = numbers(2, 70, 3 * 4 * 64).view(2, 70, 3, 4, 64)
        close(wt.attention(*fused.unbind(2)), attended(*fused.float().unbind(2), None), 0.03)
        by_heads = [numbers(2, 4, 70, 64, seed=seed).transpose(1, 2) for seed in range(3)]
        close(wt.attention(*by_heads), attended(*(matrix.float() for matrix in by_heads), None), 0.03)


def test_operators_are_registered_as_pytorch_expects():
    x, weight = numbers(4, 40, dtype=torch.float32), numbers(40, dtype=torch.float32)
    with_gradients = [tensor.clone().requires_grad_() for tensor in (x, weight)]
    torch.library.opcheck(torch.ops.warpwright.rms_norm.default, (*with_gradients, 1e-6, False))
    torch.library.opcheck(torch.ops.warpwright.softmax.default, (with_gradients[0],))
    a, b = numbers(16, 32).requires_grad_(), numbers(32, 24).requires_grad_()
    torch.library.opcheck(torch.ops.warpwright.matmul.default, (a, b))
    q = numbers(1, 64, 2, 64).requires_grad_()
    tests = ("test_schema", "test_faketensor")
    arguments = (q, q, q, None, None, 0.0, 0.0, -1, 0)
    torch.library.opcheck(torch.ops.warpwright.attention.default, arguments, test_utils=tests)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: wt.softmax(numbers(4, 8).to(torch.int32)),
            r"softmax: x has elements of int32; pass float32, bfloat16 or float16",
        ),
        (lambda: wt.rms_norm(numbers(4, 8), numbers(9)), r"rms_norm: weight has the shape \[9\]; pass \[8\]"),
        (lambda: wt.rms_norm(numbers(4, 8), numbers(8).half()), r"rms_norm: weight has elements of float16; pass bfloat16"),
        (lambda: wt.matmul(numbers(4, 8), numbers(9, 8)), r"gemm: b has 9 rows, and a has 8 columns"),
        (lambda: wt.matmul(numbers(4, 8), numbers(8, 8).half()), r"gemm: b has elements of float16, and a of bfloat16"),
        (lambda: wt.attention(*[numbers(1, 64, 2, 64).float()] * 3), r"attention: q has elements of float32; pass bfloat16 or"),
        (lambda: wt.swiglu(numbers(4, 8)[1:, 1:], numbers(3, 7)[0]), r"swiglu: value has the shape \[7\]; pass \[3, 7\]"),
        (lambda: wt.cross_entropy(numbers(4, 8), torch.zeros(4)), r"cross_entropy: target has elements of float32; pass int64"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ww.ArgumentError, match=message):
        call()


def test_operations_take_tensors_of_any_library():
    operation = {row.name: row for row in ww._warpwright.operations()}["softmax"]
    x, y = np.ones((2, 4), np.float32), np.empty((2, 4), np.float32)
    operation(x, y)
    np.testing.assert_array_equal(y, np.full((2, 4), 0.25))
    with pytest.raises(ww.ArgumentError, match="softmax: y shares memory with x; pass a tensor of its own"):
        operation(x, x)
    with pytest.raises(ww.ArgumentError, match="softmax: x takes a tensor, not `int`"):
        operation(1, y)
    with pytest.raises(ww.ArgumentError, match=r"softmax: it has 1 arguments, and takes 2: x, y"):
        operation(x)


def test_functions_of_tvm_ffi():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    module = tvm_ffi.load_module(ww._warpwright.__file__)
    x = numbers(4, 40, dtype=torch.float32)
    y = torch.empty_like(x)
    module.softmax(x, y)
    close(y, x.softmax(-1), 1e-5)
    a, b, c = numbers(16, 32), numbers(24, 32), torch.empty(16, 24)
    module.gemm(a, b.t(), None, c, 1.0, 0.0, 0)
    close(c, a.float() @ b.float().t(), 1e-5)
    with pytest.raises(ValueError, match=r"softmax: y has the shape \[4\]; pass \[4, 40\]"):
        module.softmax(x, y[:, 0].contiguous())
    with pytest.raises(TypeError, match="softmax: argument 1 is no tensor, number or None"):
        module.softmax(x, "y")
