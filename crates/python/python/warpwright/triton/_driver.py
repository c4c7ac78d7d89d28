"""Triton's compiler as far as PTX, and a driver of Triton that launches on a device of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase, expand_signature, wrap_handle_tensordesc_impl
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime import _allocation

from .._arguments import Scalar
from .._device import Device, Kernel, _shape
from .._errors import DeviceError
from ._arrays import arguments_of_descriptor, pointer, scratch

_SCALARS = {
    "i1": "int8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u1": "uint8", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32", "fp64": "float64",
}  # fmt: skip
# What Triton calls registers of a thread: the compiler of the GPU decides, and the emulator has none.
_REGISTERS = 32


class Backend(CUDABackend):  # type: ignore[misc]
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


class Utilities:
    """What Triton asks of a driver beside launches."""

    def __init__(self, driver: Driver) -> None:
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


class Launcher:
    """Launches a compiled kernel on the current device."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._metadata = metadata
        maps = getattr(metadata, "tensordesc_meta", None)
        self._types = expand_signature(source.signature.values(), maps, "nvTmaDesc")
        self._launch = wrap_handle_tensordesc_impl(self._flat, source.signature, maps, arguments_of_descriptor)

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
        driver, metadata = current(), self._metadata
        values = [_value(kind, value) for kind, value in _flattened(self._types, arguments)]
        ctas = x * y * z * metadata.num_ctas
        allocator = _allocation._allocator.get()
        own = isinstance(allocator, _allocation.NullAllocator)
        extra = (metadata.global_scratch_size, metadata.global_scratch_align, None if own else allocator)
        profile = (metadata.profile_scratch_size, metadata.profile_scratch_align, None)
        values.extend(scratch(ctas * size, align, allocate) for size, align, allocate in (extra, profile))
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
        return pointer(value)
    return Scalar(_SCALARS[kind], int(value) if kind[0] in "iu" else float(value))


class Driver(DriverBase):  # type: ignore[misc]
    """The driver of a device of ours."""

    def __init__(self, device: Device, keep: bool) -> None:
        super().__init__()
        self.device = device
        self.keep = keep
        self.kernels: dict[tuple[str, str], Kernel] = {}
        self.utils = Utilities(self)
        self.launcher_cls = Launcher

    def kernel(self, function: tuple[str, str]) -> Kernel:
        """A compiled kernel, loaded on the device."""
        if function not in self.kernels:
            name, ptx = function
            self.kernels[function] = self.device.load(ptx)[name]
        return self.kernels[function]

    def launch(self, function: tuple[str, str], grid: Any, block: int, values: list[Any], **shape: Any) -> None:
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
        configuration, device = triton.runtime.driver, Device(self.device.name, time=True)
        configuration._active = Driver(device, True)
        try:
            call()
        finally:
            configuration._active = self
        milliseconds = device.take_prediction().microseconds / 1000
        return milliseconds if quantiles is None else [milliseconds] * len(quantiles)


def current() -> Driver:
    driver = triton.runtime.driver._active
    if not isinstance(driver, Driver):
        raise DeviceError("no device of warpwright is current; launch inside `with warpwright.triton.on(...):`")
    return driver
