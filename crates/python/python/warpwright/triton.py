"""Triton's kernels on the emulator: run, check, time and count `@triton.jit` functions without a GPU.

Triton's own compiler makes the PTX. While a device is current (`with on("emu:h200", check=True):`), `kernel[grid](...)` runs
there, autotuned kernels and heuristics included. Arguments are NumPy arrays or tensors of the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

try:
    import triton
    from triton.backends import Backend, backends
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase, decompose_descriptor, expand_signature, wrap_handle_tensordesc_impl
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime import _allocation
    from triton.runtime.jit import KernelInterface
except ImportError as error:
    raise ImportError(f"warpwright.triton needs Triton 3.9, and it cannot be imported ({error}); pip install 'triton==3.9.*'") from error

from ._arguments import Scalar, TensorMap
from ._device import SCHEDULES, Device, Kernel
from ._errors import ArgumentError, DeviceError, FindingsError
from ._findings import Finding, Prediction, Report
from ._warpwright import HostArray

__all__ = ["Array", "check", "on", "report", "run", "time"]

# `CUtensorMapDataType`, and the same of Triton's compiler, which has float32 with flush in the place of float64.
_MAP_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz")
_MAP_TYPES_OF_COMPILER = (*_MAP_TYPES[:8], "f32.ftz", "f64", "bf16")
_SWIZZLES = ("none", "32B", "64B", "128B")
_SCALARS = {
    "i1": "int8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u1": "uint8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32", "fp64": "float64",
}  # fmt: skip
# What Triton calls registers of a thread: the compiler of the GPU decides, and the emulator has none.
_REGISTERS = 32


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
        """The strides in elements, or that of an axis."""
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
        """Overwrites the elements with those of another array."""
        self.array[...] = other.array
        return self


def _wrapped(argument: Any) -> Any:
    """The argument as Triton takes it: NumPy arrays as `Array`."""
    if isinstance(argument, np.ndarray):
        return Array(argument)
    if isinstance(argument, np.generic):
        return argument.item()
    if type(argument) is tuple:
        return tuple(map(_wrapped, argument))
    return argument


class _Backend(CUDABackend):  # type: ignore[misc]
    """Triton's compiler as far as PTX."""

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = "ptx"

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        super().add_stages(stages, options, language)
        to_ptx = stages.pop("ptx")
        del stages["cubin"]
        stages["ptx"] = lambda source, metadata: to_ptx(source, metadata).encode()

    def hash(self) -> str:
        return f"warpwright-ptx-{self.target.arch}"


class _Utilities:
    """What Triton asks of a driver beside launches."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver

    def get_device_properties(self, _device: Any) -> dict[str, int]:
        properties = self._driver.device.properties
        return {
            "max_shared_mem": properties["shared_bytes_per_cta"],
            "max_num_regs": properties["registers_per_sm"],
            "multiprocessor_count": properties["sm_count"],
            "warpSize": 32,
            "sm_clock_rate": properties["boost_mhz"] * 1000,
        }

    def load_binary(self, name: str, ptx: bytes, _shared: int, _device: Any) -> tuple[Any, ...]:
        function = (name, ptx.decode())
        kernel = self._driver.kernel(function)
        # No module: there is nothing to unload.
        return None, function, _REGISTERS, 0, kernel._native.attributes()[2]

    def unload_module(self, _module: Any) -> None:
        pass


class _Launcher:
    """Launches a compiled kernel on the current device."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._metadata = metadata
        maps = getattr(metadata, "tensordesc_meta", None)
        self._types = expand_signature(source.signature.values(), maps, "nvTmaDesc")
        self._launch = wrap_handle_tensordesc_impl(self._flat, source.signature, maps, _descriptor)

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, *rest: Any) -> None:
        launch_metadata, enter, leave, *arguments = rest
        if x * y * z == 0:
            return
        if enter is not None:
            enter(launch_metadata)
        self._launch(x, y, z, function, arguments)
        if leave is not None:
            leave(launch_metadata)

    def _flat(self, x: int, y: int, z: int, function: Any, arguments: Sequence[Any]) -> None:
        driver, metadata = _current(), self._metadata
        values = [_value(kind, value) for kind, value in _flattened(self._types, arguments)]
        ctas = x * y * z * metadata.num_ctas
        allocator = _allocation._allocator.get()
        own = isinstance(allocator, _allocation.NullAllocator)
        scratch = (metadata.global_scratch_size, metadata.global_scratch_align, None if own else allocator)
        profile = (metadata.profile_scratch_size, metadata.profile_scratch_align, None)
        values.extend(_scratch(ctas * size, align, allocate) for size, align, allocate in (scratch, profile))
        driver.launch(
            function,
            (x * metadata.num_ctas, y, z),
            32 * metadata.num_warps,
            values,
            shared=metadata.shared,
            cluster=metadata.num_ctas,
            cooperative=bool(metadata.launch_cooperative_grid),
            overlapping=bool(metadata.launch_pdl),
        )


def _flattened(types: Any, values: Any) -> Iterator[tuple[str, Any]]:
    """The arguments that the kernel has parameters for, each with its type."""
    for kind, value in zip(types, values, strict=True):
        if isinstance(kind, tuple):
            yield from _flattened(kind, value)
        elif kind != "constexpr":
            yield kind, value


def _value(kind: str, value: Any) -> Any:
    """An argument for a parameter of a type."""
    if kind == "nvTmaDesc":
        return value
    if kind.startswith("*"):
        return _pointer(value)
    return Scalar(_SCALARS[kind], int(value) if kind[0] in "iu" else float(value))


def _pointer(value: Any) -> Any:
    """The memory of an argument that is a pointer."""
    if value is None or isinstance(value, HostArray):
        return value
    if isinstance(value, int):
        return Scalar("uint64", value)
    if isinstance(value, Array):
        return value.array
    base = getattr(value, "base", None)  # `triton.reinterpret`
    return _pointer(base) if base is not None and not hasattr(value, "__dlpack__") else value


def _scratch(size: int, align: int, allocate: Any) -> Any:
    """Memory that a kernel needs beside its arguments; nothing has written it."""
    if size == 0:
        return None
    if allocate is not None:
        return _pointer(_wrapped(allocate(size, align, 0)))
    memory = np.full(size + align, 0xFF, np.uint8)
    start = -memory.ctypes.data % align
    return memory[start : start + size]


def _descriptor(descriptor: Any, metadata: dict[str, Any] | None, _: Any) -> list[Any]:
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
        _pointer(_wrapped(descriptor.base)),
        "b4x16_p64" if metadata["fp4_padded"] else element,
        dims=dims[::-1],
        box=metadata["block_size"][::-1],
        strides_bytes=[stride * size for stride in descriptor.strides[-2::-1]],
        swizzle=_SWIZZLES[metadata["swizzle"]],
        oob_fill="nan" if descriptor.padding == "nan" else "zero",
    )
    return [tensor_map, *descriptor.shape, *descriptor.strides]


class _Driver(DriverBase):  # type: ignore[misc]
    """The driver of a device of ours."""

    def __init__(self, device: Device, keep: bool) -> None:
        super().__init__()
        self.device = device
        self.keep = keep
        self.kernels: dict[tuple[str, str], Kernel] = {}
        self.utils = _Utilities(self)
        self.launcher_cls = _Launcher

    def kernel(self, function: tuple[str, str]) -> Kernel:
        """A compiled kernel, loaded on the device."""
        if function not in self.kernels:
            name, ptx = function
            self.kernels[function] = self.device.load(ptx)[name]
        return self.kernels[function]

    def launch(self, function: tuple[str, str], grid: Any, block: int, values: list[Any], **shape: Any) -> None:
        from ._device import _shape

        self.kernel(function)._run(_shape(grid, block, **shape), values, self.keep)

    @classmethod
    def is_active(cls) -> bool:
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        major, minor = self.device.properties["compute_capability"]
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_current_device(self) -> str:
        return f"warpwright {self.device.properties['target']}"

    def set_current_device(self, _device: Any) -> None:
        pass

    def get_current_stream(self, _device: Any) -> int:
        return 0

    def get_device_capability(self, _device: Any = None) -> tuple[int, int]:
        return self.device.properties["compute_capability"]  # type: ignore[no-any-return]

    def get_active_torch_device(self) -> Any:
        import torch  # type: ignore[import-not-found]

        return torch.device("cpu")

    def assemble_tensormap_to_arg(self, _tensormaps: Any, arguments: Any) -> Any:
        return arguments

    def get_benchmarker(self) -> Callable[..., Any]:
        return self._predict

    def _predict(self, call: Callable[[], Any], quantiles: Sequence[float] | None = None, **_: Any) -> Any:
        """The predicted milliseconds of a call, for the autotuner."""
        with on(self.device.name, time=True, _keep=True) as device:
            call()
        milliseconds = device.take_prediction().microseconds / 1000
        return milliseconds if quantiles is None else [milliseconds] * len(quantiles)


def _current() -> _Driver:
    driver = triton.runtime.driver._active
    if not isinstance(driver, _Driver):
        raise DeviceError("no device of warpwright is current; launch inside `with warpwright.triton.on(...):`")
    return driver


@contextlib.contextmanager
def on(device: Device | str = "emu:h200", *, _keep: bool = False, **options: Any) -> Iterator[Device]:
    """Makes a device current for Triton: `kernel[grid](...)` runs there until the block ends.

    `device` is one that is open, or the name of one to open with `options` (`check`, `schedules`, `limit`, as of `Device`).
    """
    opened = device if isinstance(device, Device) else Device(device, **options)
    configuration = triton.runtime.driver
    before = configuration._active, backends["nvidia"], KernelInterface.__getitem__

    def launcher(kernel: Any, grid: Any) -> Callable[..., Any]:
        launch = before[2](kernel, grid)
        return lambda *arguments, **named: _call(launch, arguments, named)

    configuration._active = _Driver(opened, _keep)
    backends["nvidia"] = Backend(compiler=_Backend, driver=before[1].driver)
    KernelInterface.__getitem__ = launcher
    try:
        yield opened
    finally:
        configuration._active, backends["nvidia"], KernelInterface.__getitem__ = before


def _call(launch: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    return launch(*map(_wrapped, arguments), **{name: _wrapped(value) for name, value in named.items()})


def run(launch: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """Runs `kernel[grid]` with arguments on the current device, or on a checked `emu:h200` where there is none."""
    if isinstance(triton.runtime.driver._active, _Driver):
        return _call(launch, arguments, named)
    with on("emu:h200", check=True):
        return _call(launch, arguments, named)


def check(
    launch: Callable[..., Any],
    /,
    *arguments: Any,
    schedules: Sequence[str] = SCHEDULES,
    **named: Any,
) -> list[Finding]:
    """What the checkers find in `kernel[grid]` with arguments, under each schedule. Arguments stay as they are."""
    try:
        with on(_name(), check=True, schedules=schedules, _keep=True):
            _call(launch, arguments, named)
    except FindingsError as error:
        return error.findings
    return []


def time(launch: Callable[..., Any], /, *arguments: Any, **named: Any) -> Prediction:
    """The predicted time of `kernel[grid]` with arguments. Arguments stay as they are."""
    with on(_name(), time=True, _keep=True) as device:
        _call(launch, arguments, named)
    return device.take_prediction("launches")


def report(launch: Callable[..., Any], /, *arguments: Any, **named: Any) -> Report:
    """What `kernel[grid]` with arguments does by line. Arguments stay as they are."""
    with on(_name(), count=True, _keep=True) as device:
        _call(launch, arguments, named)
        kernels = list(_current().kernels.values())
    if len(kernels) != 1:
        raise ArgumentError(f"the call launches {len(kernels)} kernels; report on one")
    return device.take_report(kernels[0].module, kernels[0].name)


def _name() -> str:
    """The name of the current device, or of the usual emulator."""
    driver = triton.runtime.driver._active
    is_emulated = isinstance(driver, _Driver) and driver.device.is_emulated
    return driver.device.name if is_emulated else "emu:h200"
