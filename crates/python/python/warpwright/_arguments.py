"""Arguments of launches: Python's values as what the native module takes."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._errors import ArgumentError
from ._warpwright import Buffer as _Buffer
from ._warpwright import HostArray

# Name, bytes, and kind of a parameter, as the native module describes it.
Parameter = tuple[str, int, str]

_INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
_FLOATS = {4: ("float32", "<f"), 8: ("float64", "<d")}


class Scalar:
    """A scalar of a type that the host has no value of: `Scalar("bfloat16", 1.5)`, or its bits as bytes."""

    def __init__(self, dtype: str, value: float | int | bytes) -> None:
        from ._warpwright import element_type

        known = element_type(dtype)
        if known is None:
            raise ArgumentError(f"there is no element type {dtype!r}; use a name of NumPy or PTX, such as `float32`")
        self.dtype, size = known
        self.bytes = value if isinstance(value, bytes) else _element(dtype, self.dtype, size, value)
        if len(self.bytes) != size:
            raise ArgumentError(f"a {dtype} has {size} bytes, not {len(self.bytes)}")

    def __repr__(self) -> str:
        return f"Scalar({self.dtype!r}, {self.bytes!r})"


def _element(name: str, dtype: str, size: int, value: float | int) -> bytes:
    """The bytes of a number."""
    if dtype == "bf16":
        return _bfloat16(float(value))
    formats = {"f16": "<e", "f32": "<f", "f64": "<d", "bool": "<?"}
    if dtype in formats:
        try:
            return struct.pack(formats[dtype], value)
        except (OverflowError, struct.error) as error:
            raise ArgumentError(f"{value!r} is no {name}: {error}") from None
    if dtype[0] in "iu" and isinstance(value, int):
        try:
            return value.to_bytes(size, "little", signed=dtype[0] == "i")
        except OverflowError:
            raise ArgumentError(f"{value} is out of the range of {name}") from None
    raise ArgumentError(f"{value!r} cannot be converted to {name}; pass its bits as bytes")


def _bfloat16(value: float) -> bytes:
    """The nearest bfloat16, ties to even."""
    bits = int(np.float32(value).view(np.uint32))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return b"\xc0\x7f"
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).to_bytes(2, "little")


@dataclass(frozen=True)
class TensorMap:
    """A tensor map (`CUtensorMap`) of an array or a buffer, as a kernel takes it by value. Axes are in the order of the
    driver: the contiguous one first. `docs/tensor-maps.md` describes the fields."""

    array: Any
    dtype: str
    dims: Sequence[int]
    box: Sequence[int]
    strides_bytes: Sequence[int] | None = None
    swizzle: str = "none"
    oob_fill: str = "zero"
    element_strides: Sequence[int] | None = None
    interleave: str = "none"
    l2_promotion: str = "none"
    offset_bytes: int = 0

    def _description(self) -> str:
        fields = {
            "dtype": self.dtype,
            "dims": list(map(int, self.dims)),
            "box": list(map(int, self.box)),
            "swizzle": self.swizzle,
            "oob_fill": self.oob_fill,
            "interleave": self.interleave,
            "l2_promotion": self.l2_promotion,
            "offset_bytes": self.offset_bytes,
        }
        for name in ("strides_bytes", "element_strides"):
            if getattr(self, name) is not None:
                fields[name] = list(map(int, getattr(self, name)))
        return json.dumps(fields)


def extents(what: str, value: Any) -> tuple[int, int, int]:
    """One to three extents; those left out are 1."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(items) <= 3:
        raise ArgumentError(f"`{what}` has {len(items)} extents; give one to three")
    numbers = []
    for item in items:
        try:
            number = item.__index__()
        except AttributeError:
            raise ArgumentError(f"`{what}` is {value!r}; give integers") from None
        if not 0 <= number < 1 << 32:
            raise ArgumentError(f"`{what}` has an extent of {number}; give integers from 1 to 2^32 - 1")
        numbers.append(number)
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def convert(kernel: str, parameters: list[Parameter] | None, arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a launch, each for its parameter."""
    if parameters is not None and len(parameters) != len(arguments):
        described = ", ".join(_describe(parameter) for parameter in parameters) or "it takes none"
        raise ArgumentError(
            f"kernel `{kernel}` takes {len(parameters)} arguments, and the launch passes {len(arguments)}: {described}"
        )
    converted = []
    for position, argument in enumerate(arguments):
        parameter = parameters[position] if parameters is not None else None
        try:
            converted.append(_convert(parameter, argument))
        except ArgumentError as error:
            place = f" (parameter {_describe(parameter)})" if parameter else ""
            raise ArgumentError(f"argument {position} of kernel `{kernel}`{place}: {error}") from None
    return converted


def _describe(parameter: Parameter) -> str:
    name, size, kind = parameter
    kinds = {
        "pointer": "is a pointer",
        "structure": f"is a structure of {size} bytes",
        "float": f"is a {size}-byte float",
        "bits": f"is {size} bytes",
        "integer": "is an 8-byte integer or a pointer" if size == 8 else f"is a {size}-byte integer",
    }
    return f"`{name}` {kinds[kind]}"


def _convert(parameter: Parameter | None, argument: Any) -> Any:
    buffer = getattr(argument, "_native", None)
    if isinstance(buffer, _Buffer):
        _expect_pointer(parameter, argument)
        return buffer
    if isinstance(argument, (Scalar, np.generic)):
        return _typed(parameter, argument)
    if isinstance(argument, (bool, int, float)):
        return _untyped(parameter, argument)
    if argument is None:
        _expect_pointer(parameter, argument)
        return ("uint64", bytes(8))
    if isinstance(argument, (bytes, bytearray)):
        return _structure(parameter, bytes(argument))
    if isinstance(argument, TensorMap):
        if parameter and parameter[1] != 128:
            raise ArgumentError("the launch passes a tensor map, which has 128 bytes")
        memory = getattr(argument.array, "_native", None)
        memory = memory if isinstance(memory, _Buffer) else HostArray(argument.array)
        return (memory, argument._description())
    array = HostArray(argument)
    _expect_pointer(parameter, argument)
    return array


def _expect_pointer(parameter: Parameter | None, argument: Any) -> None:
    if parameter and (parameter[1] != 8 or parameter[2] in ("float", "structure")):
        kind = type(argument).__name__
        raise ArgumentError(f"the launch passes a {kind}, whose address has 8 bytes; pass a scalar")


def _structure(parameter: Parameter | None, argument: bytes) -> bytes:
    if parameter and parameter[1] != len(argument):
        raise ArgumentError(f"the launch passes a structure of {len(argument)} bytes")
    return argument


def _typed(parameter: Parameter | None, argument: Any) -> Any:
    if isinstance(argument, Scalar):
        dtype, value = argument.dtype, argument.bytes
    else:
        dtype, value = argument.dtype.name, argument.tobytes()
    if parameter is None:
        return (dtype, value)
    _, size, kind = parameter
    is_float = "float" in dtype or dtype in ("f16", "f32", "f64", "bf16")
    if len(value) != size:
        raise ArgumentError(f"the launch passes a {dtype} of {len(value)} bytes")
    if kind == "pointer" and is_float or kind == "integer" and is_float and size >= 4 or kind == "float" and not is_float:
        raise ArgumentError(f"the launch passes a {dtype}")
    return (dtype, value)


def _untyped(parameter: Parameter | None, argument: bool | int | float) -> Any:
    if parameter is None:
        raise ArgumentError("only the driver can read this PTX, so pass scalars with a type, such as `numpy.int32(1)`")
    _, size, kind = parameter
    if isinstance(argument, float):
        if kind in ("integer", "pointer", "structure"):
            raise ArgumentError(f"the launch passes the float {argument!r}; pass an integer, or a NumPy scalar")
        if size not in _FLOATS:
            raise ArgumentError(
                f'a float of {size} bytes has several types; pass `numpy.float16(...)` or `Scalar("bfloat16", ...)`'
            )
        dtype, form = _FLOATS[size]
        try:
            return (dtype, struct.pack(form, argument))
        except OverflowError:
            raise ArgumentError(f"{argument!r} is out of the range of {dtype}") from None
    if kind == "float":
        return _untyped(parameter, float(argument))
    if size not in _INTEGERS:
        raise ArgumentError(f"the launch passes the integer {argument}; pass {size} bytes")
    number = int(argument)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise ArgumentError(f"the integer {number} does not fit into {size} bytes")
    return (_INTEGERS[size], (number & (1 << 8 * size) - 1).to_bytes(size, "little"))
