"""Operations of the kernel library on PyTorch's tensors, as operators of PyTorch with gradients.

On a GPU they run in the current stream. Tensors of the host are computed by an emulated GPU: `emulate` chooses it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import peek_interpreter_stack
from torch.compiler import is_compiling
from torch.nn import Parameter

from . import _warpwright
from ._device import Device

__all__ = [
    "add_rms_norm",
    "attention",
    "cross_entropy",
    "emulate",
    "layer_norm",
    "linear",
    "log_softmax",
    "matmul",
    "release_workspaces",
    "rms_norm",
    "softmax",
    "swiglu",
]

(
    _GEMM,
    _LINEAR,
    _SOFTMAX,
    _LOG_SOFTMAX,
    _RMS_NORM,
    _ADD_RMS_NORM,
    _LAYER_NORM,
    _CROSS_ENTROPY,
    _SWIGLU,
    _ATTENTION,
    _ATTENTION_GRADIENTS,
) = _warpwright.operations()
_ACTIVATIONS = ("none", "relu", "gelu", "silu")

_library = torch.library.Library("warpwright", "DEF")


def emulate(device: str | Device = "emu:h200", *, check: bool = False) -> Device:
    """Computes on tensors of the host with an emulated GPU, and with `check` under all checkers: an operation that has
    findings raises `FindingsError`."""
    opened = Device(device, check=check) if isinstance(device, str) else device
    _warpwright.emulate(opened._native)
    return opened


def release_workspaces() -> None:
    """Frees the memory that operations in captured streams use. Call it when their CUDA graphs are not replayed any more;
    otherwise it is kept until the process ends."""
    _warpwright.release_captured()


def _define(schema, fake, backward=None, setup_context=None):
    """Makes the decorated function an operator of PyTorch: `fake` gives shapes, for `torch.compile`.

    A call that only the gradients concern, or nothing, goes past PyTorch's dispatcher, which takes longer than the launch.
    """

    def decorate(function):
        name = schema.split("(")[0]
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order))
        _library.impl(name, function, "CPU")
        _library.impl(name, _on_its_gpu(function), "CUDA")
        torch.library.register_fake(f"warpwright::{name}", fake, lib=_library)
        recorded = None
        if backward is not None:
            torch.library.register_autograd(f"warpwright::{name}", backward, setup_context=setup_context, lib=_library)
            recorded = _recorded(name, _on_device(function), backward, setup_context)
        operator, directly = getattr(torch.ops.warpwright, name).default, _on_device(function)

        def call(*arguments):
            if is_compiling() or torch._C._len_torch_dispatch_stack() or peek_interpreter_stack() is not None:
                return operator(*arguments)
            records = False
            for argument in arguments:
                kind = type(argument)
                if kind is Tensor or kind is Parameter:
                    records = records or argument.requires_grad
                elif isinstance(argument, Tensor):
                    return operator(*arguments)
            if records and recorded is not None and torch.is_grad_enabled():
                return recorded(*arguments)
            return directly(*arguments)

        return call

    return decorate


def _recorded(name, function, backward, setup_context):
    """The function with its gradients. A `setup_context` of the class itself would cost 20 us a call."""

    def forward(ctx, *inputs):
        output = function(*inputs)
        setup_context(ctx, inputs, output)
        return output

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    recorded: Any = type(name, (torch.autograd.Function,), methods)
    return recorded.apply


def _on_device(function):
    """The function for tensors of the host and of a GPU."""
    on_its_gpu = _on_its_gpu(function)

    def on_device(first, *arguments):
        return on_its_gpu(first, *arguments) if first.is_cuda else function(first, *arguments)

    return on_device


def _on_its_gpu(function):
    """Makes the GPU of the first tensor the current one, as operators of PyTorch do."""

    def on_its_gpu(first, *arguments):
        if first.get_device() == torch._C._cuda_getDevice():
            return function(first, *arguments)
        with torch.cuda.device(first.device):
            return function(first, *arguments)

    return on_its_gpu


# Products of matrices


def _keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _matrix(matrix):
    """A matrix of which one axis is contiguous, without gaps."""
    *_, of_row, of_column = matrix.stride()
    *_, rows, columns = matrix.shape
    if (of_column == 1 and of_row == columns) or (of_row == 1 and of_column == rows):
        return matrix
    return matrix.contiguous()


def _matmul_backward(ctx, d_c):
    a, b = ctx.saved_tensors
    d_a = _matmul(d_c, b.mT) if ctx.needs_input_grad[0] else None
    return d_a, _matmul(a.mT, d_c) if ctx.needs_input_grad[1] else None


@_define(
    "matmul(Tensor a, Tensor b) -> Tensor",
    lambda a, b: a.new_empty((*a.shape[:-1], b.shape[-1])),
    _matmul_backward,
    _keep_inputs,
)
def _matmul(a, b):
    c = torch.empty((*a.shape[:-1], b.shape[-1]), dtype=a.dtype, device=a.device)
    _GEMM(_matrix(a), _matrix(b), None, c, 1.0, 0.0, 0)
    return c


def _linear_backward(ctx, d_y):
    x, weight, bias = ctx.saved_tensors
    needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
    rows = d_y.flatten(0, -2)
    d_x = _matmul(rows, weight).view(x.shape) if needs_x else None
    d_weight = _matmul(rows.mT, x.flatten(0, -2)) if needs_weight else None
    d_bias = rows.sum(0, dtype=torch.float32).to(bias.dtype) if needs_bias else None
    return d_x, d_weight, d_bias, None


def _keep_linear(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])


@_define(
    "linear(Tensor x, Tensor weight, Tensor? bias, int activation) -> Tensor",
    lambda x, weight, bias, activation: x.new_empty((*x.shape[:-1], weight.shape[0])),
    _linear_backward,
    _keep_linear,
)
def _linear(x, weight, bias, activation):
    y = torch.empty((*x.shape[:-1], weight.shape[0]), dtype=x.dtype, device=x.device)
    if bias is not None and bias.dtype != torch.float32:
        bias = bias.float()
    _LINEAR(x.contiguous(), weight.contiguous(), bias, y, activation)
    return y


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices, or of two batches of them, in the type of `a`, accumulated in float32."""
    return _matmul(a, b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """`activation(x @ weight.T + bias)` in one kernel: `"none"`, `"relu"`, `"gelu"` (its tanh approximation) or `"silu"`.

    With gradients, an activation is an operation of its own, since its input is kept.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"`activation` is {activation!r}; pass one of {', '.join(map(repr, _ACTIVATIONS))}")
    keeps = (
        activation != "none"
        and torch.is_grad_enabled()
        and any(tensor is not None and tensor.requires_grad for tensor in (x, weight, bias))
    )
    y = _linear(x, weight, bias, 0 if keeps else _ACTIVATIONS.index(activation))
    if not keeps:
        return y
    functional = torch.nn.functional
    return functional.gelu(y, approximate="tanh") if activation == "gelu" else getattr(functional, activation)(y)


# Operations on rows


def _keep_output(ctx, inputs, output):
    ctx.save_for_backward(output)


def _softmax_backward(ctx, d_y):
    (y,) = ctx.saved_tensors
    of_y, of_d_y = y.float(), d_y.float()
    return (of_y * (of_d_y - (of_y * of_d_y).sum(-1, keepdim=True))).to(d_y.dtype)


def _log_softmax_backward(ctx, d_y):
    (y,) = ctx.saved_tensors
    of_d_y = d_y.float()
    return (of_d_y - y.float().exp() * of_d_y.sum(-1, keepdim=True)).to(d_y.dtype)


def _like(x, *_):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@_define("softmax(Tensor x) -> Tensor", _like, _softmax_backward, _keep_output)
def _softmax(x):
    y = _like(x)
    _SOFTMAX(x.contiguous(), y)
    return y


@_define("log_softmax(Tensor x) -> Tensor", _like, _log_softmax_backward, _keep_output)
def _log_softmax(x):
    y = _like(x)
    _LOG_SOFTMAX(x.contiguous(), y)
    return y


def softmax(x: Tensor) -> Tensor:
    """The softmax of each row, along the last axis."""
    return _softmax(x)


def log_softmax(x: Tensor) -> Tensor:
    """The natural logarithm of the softmax of each row, along the last axis."""
    return _log_softmax(x)


def _rms_norm_gradients(x, weight, d_y, epsilon, zero_centred):
    columns = x.shape[-1]
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    root = torch.rsqrt(norm * norm / columns + epsilon)
    gain = weight + 1 if zero_centred else weight
    if x.is_cuda:
        backward = torch.ops.aten._fused_rms_norm_backward.default
        return backward(d_y.contiguous(), x.contiguous(), [columns], root, gain, [True, True])
    # PyTorch has that kernel for GPUs only.
    normalized, of_d_y = x.float() * root, d_y.float()
    scaled = of_d_y * gain.float()
    d_x = root * (scaled - normalized * (scaled * normalized).mean(-1, keepdim=True))
    d_weight = (of_d_y * normalized).flatten(0, -2).sum(0)
    return d_x.to(x.dtype), d_weight.to(weight.dtype)


def _rms_norm_backward(ctx, d_y):
    return *_rms_norm_gradients(*ctx.saved_tensors, d_y, *ctx.numbers), None, None


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
    _RMS_NORM(x.contiguous(), weight, y, epsilon, zero_centred)
    return y


def rms_norm(x: Tensor, weight: Tensor, epsilon: float = 1e-6, *, zero_centred: bool = False) -> Tensor:
    """RMSNorm along the last axis, times `weight`, or `1 + weight` with `zero_centred`."""
    return _rms_norm(x, weight, epsilon, zero_centred)


def _add_rms_norm_backward(ctx, d_sum, d_y):
    d_x, d_weight = _rms_norm_gradients(*ctx.saved_tensors, d_y, *ctx.numbers)
    d_x = d_x + d_sum
    return d_x, d_x, d_weight, None, None


def _keep_add_rms_norm(ctx, inputs, output):
    _, _, weight, epsilon, zero_centred = inputs
    ctx.save_for_backward(output[0], weight)
    ctx.numbers = (epsilon, zero_centred)


@_define(
    "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float epsilon, bool zero_centred) -> (Tensor, Tensor)",
    lambda x, *_: (_like(x), _like(x)),
    _add_rms_norm_backward,
    _keep_add_rms_norm,
)
def _add_rms_norm(x, residual, weight, epsilon, zero_centred):
    total, y = _like(x), _like(x)
    _ADD_RMS_NORM(x.contiguous(), residual.contiguous(), weight, total, y, epsilon, zero_centred)
    return total, y


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, epsilon: float = 1e-6, *, zero_centred: bool = False
) -> tuple[Tensor, Tensor]:
    """`x + residual`, and its RMSNorm as `rms_norm` computes it, in one pass over memory."""
    return _add_rms_norm(x, residual, weight, epsilon, zero_centred)


def _layer_norm_backward(ctx, d_y):
    x, weight, bias = ctx.saved_tensors
    of_row, aten = [x.shape[-1]], torch.ops.aten
    x = x.contiguous()
    _, mean, root = aten.native_layer_norm.default(x, of_row, weight, bias, ctx.epsilon)
    needs = list(ctx.needs_input_grad[:3])
    backward = aten.native_layer_norm_backward.default
    return *backward(d_y.contiguous(), x, of_row, mean, root, weight, bias, needs), None


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
    _LAYER_NORM(x.contiguous(), weight, bias, y, epsilon)
    return y


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
    """LayerNorm along the last axis."""
    return _layer_norm(x, weight, bias, epsilon)


def _cross_entropy_backward(ctx, d_losses):
    logits, target = ctx.saved_tensors
    counted = target != -100
    gradient = _softmax(logits)
    ones = torch.ones((), dtype=gradient.dtype, device=gradient.device).expand(target.shape[0], 1)
    gradient.scatter_add_(1, target.where(counted, 0)[:, None], -ones)
    return gradient.mul_((d_losses * counted).to(gradient.dtype)[:, None]), None


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
    _CROSS_ENTROPY(logits.contiguous(), target.contiguous(), losses)
    return losses


def cross_entropy(logits: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The cross-entropy of rows of logits with their targets; -100 is ignored. `reduction` is `"mean"`, over the targets
    that count, `"sum"` or `"none"`."""
    losses = _cross_entropy(logits, target)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.sum() / (target != -100).sum()
    raise ValueError(f"`reduction` is {reduction!r}; pass 'mean', 'sum' or 'none'")


def _swiglu_backward(ctx, d_y):
    gate, value = ctx.saved_tensors
    d_gate = torch.ops.aten.silu_backward.default(d_y * value, gate)
    return d_gate, d_y * torch.nn.functional.silu(gate)


@_define(
    "swiglu(Tensor gate, Tensor value) -> Tensor",
    _like,
    _swiglu_backward,
    _keep_inputs,
)
def _swiglu(gate, value):
    y = _like(gate)
    _SWIGLU(gate.contiguous(), value.contiguous(), y)
    return y


def swiglu(gate: Tensor, value: Tensor) -> Tensor:
    """`silu(gate) * value`."""
    return _swiglu(gate, value)


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
    gradients = _attention_gradients(q, k, v, o, lse, d_o, slopes, *ctx.numbers, deterministic)
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
    _ATTENTION(q, k, v, o, lse, slopes, sinks, scale, softcap, left, right)
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
    _ATTENTION_GRADIENTS(q, k, v, o, lse, d_o, *gradients, slopes, *numbers)
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
    return _attention(q, k, v, slopes, sinks, scale, softcap, left, right)[0]
