"""Operations of the kernel library on PyTorch's tensors, as operators of PyTorch with gradients.

On a GPU they run in the current stream. Tensors of the host are computed by an emulated GPU: `emulate` chooses it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import _warpwright
from ._device import Device

__all__ = [
    "attention",
    "cross_entropy",
    "emulate",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "rms_norm",
    "softmax",
    "swiglu",
]

_OPERATIONS = {operation.name: operation for operation in _warpwright.operations()}
_ACTIVATIONS = ("none", "relu", "gelu", "silu")

_library = torch.library.Library("warpwright", "DEF")


def emulate(device: str | Device = "emu:h200", *, check: bool = False) -> Device:
    """Computes on tensors of the host with an emulated GPU, and with `check` under all checkers: an operation that has
    findings raises `FindingsError`."""
    opened = Device(device, check=check) if isinstance(device, str) else device
    _warpwright.emulate(opened._native)
    return opened


def _define(schema, fake, backward=None, setup_context=None):
    """Registers the decorated function as an operator of PyTorch: `fake` gives shapes, for `torch.compile`."""

    def decorate(function):
        name = f"warpwright::{schema.split('(')[0]}"
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
        _library.impl(name, function, "CPU")
        _library.impl(name, _on_its_gpu(function), "CUDA")
        torch.library.register_fake(name, fake, lib=_library)
        if backward is not None:
            torch.library.register_autograd(name, backward, setup_context=setup_context, lib=_library)
        return function

    return decorate


def _on_its_gpu(function):
    """Makes the GPU of the first tensor the current one, as operators of PyTorch do."""

    def on_its_gpu(first, *arguments):
        if first.get_device() == torch._C._cuda_getDevice():
            return function(first, *arguments)
        with torch.cuda.device(first.device):
            return function(first, *arguments)

    return on_its_gpu


# Products of matrices


def _matmul_fake(a, b, bias, activation):
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


def _matmul_backward(ctx, d_c):
    a, b, bias = ctx.saved_tensors
    needs_a, needs_b, needs_bias, _ = ctx.needs_input_grad
    matmul = torch.ops.warpwright.matmul.default
    d_a = matmul(d_c, b.mT, None, 0) if needs_a else None
    d_b = matmul(a.mT, d_c, None, 0) if needs_b else None
    d_bias = d_c.sum(tuple(range(d_c.dim() - 1)), dtype=torch.float32).to(bias.dtype) if needs_bias else None
    return d_a, d_b, d_bias, None


def _keep_matmul(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])


@_define("matmul(Tensor a, Tensor b, Tensor? bias, int activation) -> Tensor", _matmul_fake, _matmul_backward, _keep_matmul)
def _matmul(a, b, bias, activation):
    c = torch.empty((*a.shape[:-1], b.shape[-1]), dtype=a.dtype, device=a.device)
    if bias is not None and bias.dtype != torch.float32:
        bias = bias.float()
    _OPERATIONS["gemm"](_matrix(a), _matrix(b), bias, c, 1.0, 0.0, activation)
    return c


def _matrix(matrix):
    """A matrix of which one axis is contiguous, without gaps."""
    if matrix.is_contiguous() or matrix.mT.is_contiguous():
        return matrix
    return matrix.contiguous()


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices, or of two batches of them, in the type of `a`, accumulated in float32."""
    return torch.ops.warpwright.matmul.default(a, b, None, 0)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """`activation(x @ weight.T + bias)` in one kernel: `"none"`, `"relu"`, `"gelu"` (its tanh approximation) or `"silu"`.

    With gradients, an activation is an operation of its own, since its input is kept.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"`activation` is {activation!r}; pass one of {', '.join(map(repr, _ACTIVATIONS))}")
    keeps = activation != "none" and torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (x, weight, bias)
    )
    index = 0 if keeps else _ACTIVATIONS.index(activation)
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    y = torch.ops.warpwright.matmul.default(rows, weight.t(), bias, index)
    y = y if x.dim() == 2 else y.view(*x.shape[:-1], weight.shape[0])
    if not keeps:
        return y
    functional = torch.nn.functional
    return functional.gelu(y, approximate="tanh") if activation == "gelu" else getattr(functional, activation)(y)


# Operations on rows


def _softmax_backward(ctx, d_y):
    (y,) = ctx.saved_tensors
    of_y, of_d_y = y.float(), d_y.float()
    return (of_y * (of_d_y - (of_y * of_d_y).sum(-1, keepdim=True))).to(d_y.dtype)


def _log_softmax_backward(ctx, d_y):
    (y,) = ctx.saved_tensors
    of_d_y = d_y.float()
    return (of_d_y - y.float().exp() * of_d_y.sum(-1, keepdim=True)).to(d_y.dtype)


def _keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _keep_output(ctx, inputs, output):
    ctx.save_for_backward(output)


def _like(x, *_):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@_define("softmax(Tensor x) -> Tensor", _like, _softmax_backward, _keep_output)
def _softmax(x):
    y = _like(x)
    _OPERATIONS["softmax"](x.contiguous(), y)
    return y


@_define("log_softmax(Tensor x) -> Tensor", _like, _log_softmax_backward, _keep_output)
def _log_softmax(x):
    y = _like(x)
    _OPERATIONS["log_softmax"](x.contiguous(), y)
    return y


def softmax(x: Tensor) -> Tensor:
    """The softmax of each row, along the last axis."""
    return torch.ops.warpwright.softmax.default(x)


def log_softmax(x: Tensor) -> Tensor:
    """The natural logarithm of the softmax of each row, along the last axis."""
    return torch.ops.warpwright.log_softmax.default(x)


def _rms_norm_backward(ctx, d_y):
    x, weight = ctx.saved_tensors
    epsilon, zero_centred = ctx.numbers
    of_x, of_d_y, gain = x.float(), d_y.float(), weight.float() + zero_centred
    root = torch.rsqrt(of_x.square().mean(-1, keepdim=True) + epsilon)
    normalized, scaled = of_x * root, of_d_y * gain
    d_x = root * (scaled - normalized * (scaled * normalized).mean(-1, keepdim=True))
    d_weight = (of_d_y * normalized).flatten(0, -2).sum(0)
    return d_x.to(x.dtype), d_weight.to(weight.dtype), None, None


def _keep_rms_norm(ctx, inputs, output):
    x, weight, epsilon, zero_centred = inputs
    ctx.save_for_backward(x, weight)
    ctx.numbers = (epsilon, zero_centred)


@_define(
    "rms_norm(Tensor x, Tensor weight, float epsilon, bool zero_centred) -> Tensor",
    _like,
    _rms_norm_backward,
    _keep_rms_norm,
)
def _rms_norm(x, weight, epsilon, zero_centred):
    y = _like(x)
    _OPERATIONS["rms_norm"](x.contiguous(), weight, y, epsilon, zero_centred)
    return y


def rms_norm(x: Tensor, weight: Tensor, epsilon: float = 1e-6, *, zero_centred: bool = False) -> Tensor:
    """RMSNorm along the last axis, times `weight`, or `1 + weight` with `zero_centred`."""
    return torch.ops.warpwright.rms_norm.default(x, weight, epsilon, zero_centred)


def _layer_norm_backward(ctx, d_y):
    x, weight, bias = ctx.saved_tensors
    of_x, of_d_y = x.float(), d_y.float()
    variance, mean = torch.var_mean(of_x, -1, correction=0, keepdim=True)
    root = torch.rsqrt(variance + ctx.epsilon)
    normalized, scaled = (of_x - mean) * root, of_d_y * weight.float()
    both = scaled.mean(-1, keepdim=True) + normalized * (scaled * normalized).mean(-1, keepdim=True)
    d_x = root * (scaled - both)
    d_weight, d_bias = (of_d_y * normalized).flatten(0, -2).sum(0), of_d_y.flatten(0, -2).sum(0)
    return d_x.to(x.dtype), d_weight.to(weight.dtype), d_bias.to(bias.dtype), None


def _keep_layer_norm(ctx, inputs, output):
    x, weight, bias, epsilon = inputs
    ctx.save_for_backward(x, weight, bias)
    ctx.epsilon = epsilon


@_define(
    "layer_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> Tensor",
    _like,
    _layer_norm_backward,
    _keep_layer_norm,
)
def _layer_norm(x, weight, bias, epsilon):
    y = _like(x)
    _OPERATIONS["layer_norm"](x.contiguous(), weight, bias, y, epsilon)
    return y


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """LayerNorm along the last axis."""
    return torch.ops.warpwright.layer_norm.default(x, weight, bias, epsilon)


def _cross_entropy_backward(ctx, d_losses):
    logits, target = ctx.saved_tensors
    counted = target != -100
    gradient = torch.ops.warpwright.softmax.default(logits)
    ones = torch.ones((), dtype=gradient.dtype, device=gradient.device).expand(target.shape[0], 1)
    gradient = gradient.scatter_add(1, target.where(counted, 0)[:, None], -ones)
    return gradient * (d_losses * counted).to(gradient.dtype)[:, None], None


def _cross_entropy_fake(logits, target):
    return logits.new_empty(target.shape, dtype=torch.float32)


@_define(
    "cross_entropy(Tensor logits, Tensor target) -> Tensor",
    _cross_entropy_fake,
    _cross_entropy_backward,
    _keep_inputs,
)
def _cross_entropy(logits, target):
    losses = torch.empty(target.shape, dtype=torch.float32, device=logits.device)
    _OPERATIONS["cross_entropy"](logits.contiguous(), target.contiguous(), losses)
    return losses


def cross_entropy(logits: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The cross-entropy of rows of logits with their targets; -100 is ignored. `reduction` is `"mean"`, over the targets
    that count, `"sum"` or `"none"`."""
    losses = torch.ops.warpwright.cross_entropy.default(logits, target)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.sum() / (target != -100).sum()
    raise ValueError(f"`reduction` is {reduction!r}; pass 'mean', 'sum' or 'none'")


def _swiglu_backward(ctx, d_y):
    gate, value = ctx.saved_tensors
    of_gate, of_d_y = gate.float(), d_y.float()
    sigmoid = torch.sigmoid(of_gate)
    silu = of_gate * sigmoid
    d_gate = of_d_y * value.float() * (sigmoid + silu * (1 - sigmoid))
    return d_gate.to(gate.dtype), (of_d_y * silu).to(value.dtype)


@_define(
    "swiglu(Tensor gate, Tensor value) -> Tensor",
    _like,
    _swiglu_backward,
    _keep_inputs,
)
def _swiglu(gate, value):
    y = _like(gate)
    _OPERATIONS["swiglu"](gate.contiguous(), value.contiguous(), y)
    return y


def swiglu(gate: Tensor, value: Tensor) -> Tensor:
    """`silu(gate) * value`."""
    return torch.ops.warpwright.swiglu.default(gate, value)


# Attention


def _attention_fake(q, k, v, slopes, sinks, scale, softcap, left, right):
    batch, queries, heads, _ = q.shape
    o = q.new_empty((batch, queries, heads, v.shape[-1]))
    return o, q.new_empty((batch, heads, queries), dtype=torch.float32)


def _keep_attention(ctx, inputs, output):
    q, k, v, slopes, sinks, *ctx.numbers = inputs
    ctx.save_for_backward(q, k, v, *output, slopes)
    ctx.has_sinks = sinks is not None
    ctx.set_materialize_grads(False)


def _attention_backward(ctx, d_o, d_lse):
    if d_lse is not None or ctx.has_sinks:
        raise NotImplementedError("attention has no gradients through its logarithms, and none with sinks")
    nothing = (None,) * 6
    if d_o is None:
        return None, None, None, *nothing
    q, k, v, o, lse, slopes = ctx.saved_tensors
    deterministic = torch.are_deterministic_algorithms_enabled()
    gradients = torch.ops.warpwright.attention_gradients.default(
        q, k, v, o, lse, d_o, slopes, *ctx.numbers, deterministic
    )
    return *gradients, *nothing


@_define(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? slopes, Tensor? sinks, float scale, float softcap, int left, int right)"
    " -> (Tensor, Tensor)",
    _attention_fake,
    _attention_backward,
    _keep_attention,
)
def _attention(q, k, v, slopes, sinks, scale, softcap, left, right):
    o, lse = _attention_fake(q, k, v, slopes, sinks, scale, softcap, left, right)
    q, k, v = (_heads(matrix) for matrix in (q, k, v))
    _OPERATIONS["attention"](q, k, v, o, lse, slopes, sinks, scale, softcap, left, right)
    return o, lse


def _heads(matrix):
    """Heads whose elements are neighbors, and begin at multiples of 16 bytes."""
    whole = 16 // matrix.element_size()
    if matrix.stride(-1) == 1 and all(stride % whole == 0 for stride in matrix.stride()[:-1]):
        return matrix
    return matrix.contiguous()


def _gradients_fake(q, k, v, *_):
    return tuple(torch.empty_like(matrix, memory_format=torch.contiguous_format) for matrix in (q, k, v))


@_define(
    "attention_gradients(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor d_o, Tensor? slopes, float scale,"
    " float softcap, int left, int right, bool deterministic) -> (Tensor, Tensor, Tensor)",
    _gradients_fake,
)
def _attention_gradients(q, k, v, o, lse, d_o, slopes, scale, softcap, left, right, deterministic):
    gradients = _gradients_fake(q, k, v)
    q, k, v, o, d_o = (matrix.contiguous() for matrix in (q, k, v, o, d_o))
    numbers = (scale, softcap, left, right, deterministic)
    _OPERATIONS["attention_gradients"](q, k, v, o, lse, d_o, *gradients, slopes, *numbers)
    return gradients


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    slopes: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """`softmax(scale * q @ k.T) @ v` of each head: `q` (batch, queries, heads, d), `k` and `v` (batch, keys, kv_heads, d),
    float16 or bfloat16.

    The last query is at the last key. With `causal` a query sees the keys up to its own; with `window` so many before and
    behind it, `None` for all. `softcap` bounds the scores, `slopes` are those of ALiBi, `sinks` the ones of each head.
    """
    left, right = window or (None, None)
    left, right = (-1 if bound is None else bound for bound in (left, 0 if causal else right))
    scale = 0.0 if scale is None else scale
    return torch.ops.warpwright.attention.default(q, k, v, slopes, sinks, scale, softcap, left, right)[0]
