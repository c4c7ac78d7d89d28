"""Arrays and tensor descriptors of the host, as Triton takes tensors and as kernels take memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from triton.backends.driver import decompose_descriptor

from .._arguments import Scalar, TensorMap
from .._errors import ArgumentError
from .._warpwright import HostArray

# `CUtensorMapDataType`, and the same of Triton's compiler, which has float32 with flush in the place of float64.
_MAP_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz")
_MAP_TYPES_OF_COMPILER = (*_MAP_TYPES[:8], "f32.ftz", "f64", "bf16")
_SWIZZLES = ("none", "32B", "64B", "128B")


class _ElementType:
    """An element type as Triton reads it of a tensor: by its name."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.itemsize = itemsize
        self.is_floating_point = "float" in name
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        return str(other).split(".")[-1] == self._name

    def __hash__(self) -> int:
        return hash(self._name)


class Array:
    """An array of the host as Triton takes tensors: with `data_ptr`, `dtype`, `shape` and `stride`. NumPy arrays are wrapped when
    they are passed; `Array` is for those inside a `TensorDescriptor`."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._host = HostArray(array)
        self.dtype = _ElementType(self._host.dtype, self._host.item_bytes)
        self.shape = tuple(self._host.shape)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._host.address

    def stride(self, axis: int | None = None) -> Any:
        """The strides in elements, or the stride of an axis."""
        return tuple(self._host.strides) if axis is None else self._host.strides[axis]

    def size(self, axis: int | None = None) -> Any:
        """The shape, or an extent."""
        return self.shape if axis is None else self.shape[axis]

    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._host.item_bytes

    # The autotuner resets and restores arguments with these.
    def zero_(self) -> Array:
        """Sets all elements to zero."""
        self.array[...] = 0
        return self

    def clone(self) -> Array:
        """A copy."""
        return Array(np.array(self.array))

    def copy_(self, other: Array) -> Array:
        """Overwrites the elements with the elements of another array."""
        self.array[...] = other.array
        return self


def wrapped(argument: Any) -> Any:
    """The argument as Triton takes it: NumPy arrays as `Array`."""
    if isinstance(argument, np.ndarray):
        return Array(argument)
    if isinstance(argument, np.generic):
        return argument.item()
    if type(argument) is tuple:
        return tuple(map(wrapped, argument))
    return argument


def pointer(value: Any) -> Any:
    """The memory of an argument that is a pointer."""
    if value is None or isinstance(value, HostArray):
        return value
    if isinstance(value, int):
        return Scalar("uint64", value)
    if isinstance(value, Array):
        return value.array
    base = getattr(value, "base", None)  # `triton.reinterpret`
    return pointer(base) if base is not None and not hasattr(value, "__dlpack__") else value


def scratch(size: int, align: int, allocate: Any) -> Any:
    """Memory that a kernel needs beside its arguments; nothing has written it."""
    if size == 0:
        return None
    if allocate is not None:
        return pointer(wrapped(allocate(size, align, 0)))
    memory = np.full(size + align, 0xFF, np.uint8)
    start = -memory.ctypes.data % align
    return memory[start : start + size]


def arguments_of_descriptor(descriptor: Any, metadata: dict[str, Any] | None, _: Any) -> list[Any]:
    """The arguments for a tensor descriptor that the host makes."""
    if metadata is None:
        return decompose_descriptor(descriptor)  # type: ignore[no-any-return]
    if metadata.get("is_im2col"):
        raise ArgumentError("a tensor descriptor with im2col addresses; pass one with tiles")
    dims = list(descriptor.shape)
    if metadata["fp4_padded"]:
        dims[-1] *= 2
    element = "tf32" if descriptor.round_f32_to_tf32 else _MAP_TYPES_OF_COMPILER[metadata["elem_type"]]
    size = metadata["elem_size"]
    tensor_map = TensorMap(
        pointer(wrapped(descriptor.base)),
        "b4x16_p64" if metadata["fp4_padded"] else element,
        dims=dims[::-1],
        box=metadata["block_size"][::-1],
        strides_bytes=[stride * size for stride in descriptor.strides[-2::-1]],
        swizzle=_SWIZZLES[metadata["swizzle"]],
        oob_fill="nan" if descriptor.padding == "nan" else "zero",
    )
    return [tensor_map, *descriptor.shape, *descriptor.strides]
