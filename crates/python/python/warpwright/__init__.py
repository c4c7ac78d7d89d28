"""Run, check and time GPU kernels without a GPU. `docs/python.md` of the repository describes the package."""

from __future__ import annotations

import importlib
from typing import Any

# The command imports this package, and needs nothing of it: names are imported when they are used.
_MODULES = {
    "_arguments": ("Scalar", "TensorMap"),
    "_device": ("Buffer", "Device", "Kernel", "Module", "SCHEDULES"),
    "_errors": (
        "ArgumentError",
        "DeviceError",
        "FaultError",
        "FindingsError",
        "HalfWrittenError",
        "LaunchError",
        "OutOfMemoryError",
        "PtxError",
        "ReadOnlyError",
        "RefusedError",
        "UnknownKernelError",
        "WarpwrightError",
        "WrongResultError",
    ),
    "_findings": ("Access", "Finding", "LaunchCounts", "LineStalls", "Prediction", "Report", "Source"),
    "_verbs": ("check", "report", "run", "time"),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_NAMES, "triton"])


def __getattr__(name: str) -> Any:
    if name == "triton":
        return importlib.import_module(".triton", __name__)
    module = _NAMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
