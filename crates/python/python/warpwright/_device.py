"""Devices, modules, kernels and device memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _warpwright
from ._arguments import Parameter, TensorMap, convert, extents
from ._errors import ArgumentError, FindingsError, PtxError, WarpwrightError
from ._findings import Finding, LaunchCounts, Prediction, Report

SCHEDULES = ("eager", "latest", "random:1", "random:2", "random:3", "random:4")
"""The schedules that `warpwright check` runs."""

Extents = int | Sequence[int]


class Device:
    """A GPU (`cuda:0`), or an emulated one (`emu:h200`; `auto` is the first GPU, or an emulated H200).

    `check` runs launches under all checkers: one with findings raises `FindingsError`. Each launch runs under every one of
    `schedules`, the orders in which an emulator completes asynchronous work: `eager`, `latest`, `random:SEED`. Arrays get the
    results of the first. `time` and `count` keep what `take_prediction` and `take_report` return. `limit` stops a launch after a
    time (`60s`) or a number of warp instructions (`1000000`).
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        check: bool = False,
        schedules: str | Sequence[str] = ("eager",),
        time: bool = False,
        count: bool = False,
        limit: str | int | None = None,
    ) -> None:
        name = name or os.environ.get("WARPWRIGHT_DEVICE") or "auto"
        named = [schedules] if isinstance(schedules, str) else list(schedules)
        text = None if limit is None else str(limit)
        self._native = _warpwright.Device(
            name, check=bool(check), schedules=named, count=bool(count), time=bool(time), limit=text
        )

    @property
    def name(self) -> str:
        """The name that selects it."""
        return self._native.name

    @property
    def is_emulated(self) -> bool:
        """Whether it is the emulator."""
        return self._native.is_emulated

    @property
    def is_checked(self) -> bool:
        """Whether launches run under the checkers."""
        return self._native.is_checked

    @property
    def properties(self) -> dict[str, Any]:
        """Product, PTX target, number of SMs, bytes of memory, boost clock in MHz, compute capability, registers of an SM,
        bytes of shared memory and threads of a CTA."""
        product, target, sm_count, memory, mhz = self._native.properties()
        registers, shared, threads, capability = self._native.limits()
        return {
            "product": product,
            "target": target,
            "sm_count": sm_count,
            "global_bytes": memory,
            "boost_mhz": mhz,
            "compute_capability": capability,
            "registers_per_sm": registers,
            "shared_bytes_per_cta": shared,
            "threads_per_cta": threads,
        }

    def load(self, ptx: str | os.PathLike[str]) -> Module:
        """Loads PTX: the text, or the path of a file."""
        return Module(self, _ptx_text(ptx))

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32) -> Buffer:
        """A buffer of undefined elements. On a checked device, a read of one that nothing has written is a finding."""
        return Buffer(self, shape, dtype)

    def array(self, array: Any) -> Buffer:
        """A buffer with a copy of an array of the host."""
        source = np.ascontiguousarray(array)
        buffer = Buffer(self, source.shape, source.dtype)
        buffer.copy_from(source)
        return buffer

    def take_prediction(self, name: str = "launches") -> Prediction:
        """The predicted times of the launches since the previous call, of a device with `time=True`."""
        return Prediction(*self._native.take_times(name))

    def take_report(self, module: Module, name: str = "launches") -> Report:
        """What the launches of a module's kernels since the previous call did, of a device with `count=True`."""
        return Report(*self._native.take_report(name, module._native))

    def __repr__(self) -> str:
        return f"Device({self.name!r}{', check=True' if self.is_checked else ''})"


class Buffer:
    """Elements in device memory, for arrays that several launches use."""

    def __init__(self, device: Device, shape: int | Sequence[int], dtype: npt.DTypeLike) -> None:
        self.device = device
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
        self.dtype = np.dtype(dtype)
        if any(extent < 0 for extent in self.shape):
            raise ArgumentError(f"the shape {self.shape} has a negative extent")
        count = 1
        for extent in self.shape:
            count *= extent
        bytes = count * self.dtype.itemsize
        if bytes >= 1 << 64:
            raise ArgumentError(f"the shape {self.shape} has more bytes than there are addresses")
        self._native = device._native.empty(bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return self._native.nbytes

    def copy_from(self, array: Any) -> None:
        """Overwrites all elements with the elements of an array of the same shape and type."""
        source = np.ascontiguousarray(array)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise ArgumentError(
                f"the array has shape {source.shape} and type {source.dtype}, and the buffer {self.shape} and {self.dtype}"
            )
        self._native.write(_warpwright.HostArray(source))

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements on the host."""
        array = np.empty(self.shape, self.dtype)
        self._native.read(_warpwright.HostArray(array), self.dtype.name)
        return array

    def free(self) -> None:
        """Frees the memory. Later uses of the buffer raise an error."""
        self._native.free()

    def __repr__(self) -> str:
        return f"Buffer({self.shape}, {self.dtype}, {self.device.name})"


class Module(Mapping[str, "Kernel"]):
    """Loaded PTX: its kernels by name."""

    def __init__(self, device: Device, ptx: str) -> None:
        self.device = device
        self._native = device._native.load(ptx)

    @property
    def ptx(self) -> str:
        """The text that was loaded."""
        return self._native.ptx

    def __getitem__(self, name: str) -> Kernel:
        return Kernel(self, self._native.kernel(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.kernels)

    def __len__(self) -> int:
        return len(self._native.kernels)

    def __repr__(self) -> str:
        return f"Module({', '.join(self)})"


class Kernel:
    """A kernel of a module."""

    def __init__(self, module: Module, native: _warpwright.Kernel) -> None:
        self.module = module
        self._native = native

    @property
    def name(self) -> str:
        """Its name in the PTX."""
        return self._native.name

    @property
    def device(self) -> Device:
        """The device it is loaded on."""
        return self.module.device

    @property
    def parameters(self) -> list[Parameter] | None:
        """Name, bytes and kind of each parameter: `integer`, `float`, `pointer`, `bits` or `structure`. None where only the
        driver can read the PTX."""
        return self._native.parameters

    def launch(
        self,
        grid: Extents,
        block: Extents,
        *arguments: Any,
        shared: int = 0,
        cluster: Extents = 1,
        cooperative: bool = False,
        overlapping: bool = False,
    ) -> LaunchCounts:
        """Runs the kernel and waits for its end.

        `grid` and `block` have one to three extents, `shared` is dynamic shared memory of a CTA in bytes. An argument is an
        array or a tensor of the host, a `Buffer`, a scalar (a NumPy scalar, a `Scalar`, or a Python number where the PTX
        states the type of the parameter), `None` for a null pointer, `bytes` for a structure, or a `TensorMap`. Arrays are
        used in place where the device can, and are copied otherwise; strides are the kernel's business.

        Raises `ArgumentError`, `LaunchError`, `FindingsError` (of a checked device), `FaultError`.
        """
        shape = _shape(grid, block, cluster, shared, cooperative, overlapping)
        return self._run(shape, arguments, False)

    def _run(self, shape: Any, arguments: Sequence[Any], keep: bool) -> LaunchCounts:
        converted = convert(self.name, self.parameters, arguments)
        return LaunchCounts(*self._native.launch(shape, converted, keep))

    def check(
        self,
        grid: Extents,
        block: Extents,
        *arguments: Any,
        schedules: str | Sequence[str] = SCHEDULES,
        limit: str | int | None = None,
        **shape: Any,
    ) -> list[Finding]:
        """What the checkers find in a launch, under each schedule. Arguments stay as they are."""
        try:
            self._elsewhere(grid, block, arguments, shape, check=True, schedules=schedules, limit=limit)
        except FindingsError as error:
            return error.findings
        return []

    def time(self, grid: Extents, block: Extents, *arguments: Any, **shape: Any) -> Prediction:
        """The predicted time of a launch on the GPU, and what its warps wait for. Arguments stay as they are."""
        kernel = self._elsewhere(grid, block, arguments, shape, time=True)
        return kernel.device.take_prediction(self.name)

    def report(self, grid: Extents, block: Extents, *arguments: Any, **shape: Any) -> Report:
        """What a launch does by line: conflicts, sectors, idle lanes. Arguments stay as they are."""
        kernel = self._elsewhere(grid, block, arguments, shape, count=True)
        return kernel.device.take_report(kernel.module, self.name)

    def _elsewhere(
        self, grid: Extents, block: Extents, arguments: Sequence[Any], shape: dict[str, Any], **options: Any
    ) -> Kernel:
        """Runs a launch on a device of its own that checks, counts or times it. Returns the kernel there."""
        name = self.device.name if self.device.is_emulated else "emu:h200"
        kernel = Device(name, **options).load(self.module.ptx)[self.name]
        whole = _shape(grid, block, **{"cluster": 1, "shared": 0, "cooperative": False, "overlapping": False} | shape)
        kernel._run(whole, [_on_host(argument) for argument in arguments], True)
        return kernel

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {self.device.name})"


def _on_host(argument: Any) -> Any:
    """A buffer's elements on the host, so that another device can have them."""
    if isinstance(argument, Buffer):
        return argument.numpy()
    if isinstance(argument, TensorMap) and isinstance(argument.array, Buffer):
        fields = {name: getattr(argument, name) for name in argument.__dataclass_fields__}
        return TensorMap(**fields | {"array": argument.array.numpy()})
    return argument


def _shape(grid: Extents, block: Extents, cluster: Extents, shared: int, cooperative: bool, overlapping: bool) -> tuple[Any, ...]:
    if not isinstance(shared, (int, np.integer)) or not 0 <= shared < 1 << 32:
        raise ArgumentError(f"`shared` is {shared!r}; give a number of bytes")
    extended = (extents("grid", grid), extents("block", block), extents("cluster", cluster))
    return (*extended, int(shared), bool(cooperative), bool(overlapping))


def _ptx_text(ptx: str | os.PathLike[str]) -> str:
    if isinstance(ptx, str) and ("\n" in ptx or ".version" in ptx):
        return ptx
    if not isinstance(ptx, (str, os.PathLike)):
        raise ArgumentError(f"PTX is a {type(ptx).__name__}; pass its text, or the path of a file")
    try:
        return Path(ptx).read_text()
    except UnicodeDecodeError:
        raise PtxError(f"{ptx} is not a text file; a cubin cannot be emulated, PTX can") from None
    except OSError as error:
        raise WarpwrightError(f"{ptx} cannot be read: {error.strerror}") from error
