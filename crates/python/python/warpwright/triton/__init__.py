"""Triton's kernels on the emulator: run, check, time and count `@triton.jit` functions without a GPU.

Triton's own compiler makes the PTX. While a device is current (`with on("emu:h200", check=True):`), `kernel[grid](...)` runs
there, autotuned kernels and heuristics included. Arguments are NumPy arrays or tensors of the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

try:
    import triton
    from triton.backends import Backend as _BackendPair
    from triton.backends import backends as _backends
    from triton.runtime.jit import KernelInterface as _KernelInterface

    from ._arrays import Array, wrapped
    from ._driver import Backend, Driver, current
except ImportError as error:
    message = f"warpwright.triton needs Triton 3.9, and it cannot be imported ({error}); pip install 'triton==3.9.*'"
    raise ImportError(message) from error

from .._device import SCHEDULES, Device
from .._errors import ArgumentError, FindingsError
from .._findings import Finding, Prediction, Report

__all__ = ["Array", "check", "on", "report", "run", "time"]


@contextlib.contextmanager
def on(device: Device | str = "emu:h200", *, _keep: bool = False, **options: Any) -> Iterator[Device]:
    """Makes a device current for Triton: `kernel[grid](...)` runs there until the block ends.

    `device` is one that is open, or the name of one to open with `options` (`check`, `schedules`, `limit`, as of `Device`).
    """
    opened = device if isinstance(device, Device) else Device(device, **options)
    configuration = triton.runtime.driver
    before = configuration._active, _backends["nvidia"], _KernelInterface.__getitem__

    def launcher(kernel: Any, grid: Any) -> Callable[..., Any]:
        launch = before[2](kernel, grid)
        return lambda *arguments, **named: _call(launch, arguments, named)

    configuration._active = Driver(opened, _keep)
    _backends["nvidia"] = _BackendPair(compiler=Backend, driver=before[1].driver)
    _KernelInterface.__getitem__ = launcher
    try:
        yield opened
    finally:
        configuration._active, _backends["nvidia"], _KernelInterface.__getitem__ = before


def _call(launch: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    return launch(*map(wrapped, arguments), **{name: wrapped(value) for name, value in named.items()})


def run(launch: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """Runs `kernel[grid]` with arguments on the current device, or on a checked `emu:h200` where there is none."""
    if isinstance(triton.runtime.driver._active, Driver):
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
        kernels = list(current().kernels.values())
    if len(kernels) != 1:
        raise ArgumentError(f"the call launches {len(kernels)} kernels; report on one")
    return device.take_report(kernels[0].module, kernels[0].name)


def _name() -> str:
    """The name of the current device, or of the usual emulator."""
    driver = triton.runtime.driver._active
    is_emulated = isinstance(driver, Driver) and driver.device.is_emulated
    return driver.device.name if is_emulated else "emu:h200"
