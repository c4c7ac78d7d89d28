"""The exceptions of the package. Their messages say what is wrong, where, and what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._findings import Finding


class WarpwrightError(RuntimeError):
    """An error of warpwright."""


class DeviceError(WarpwrightError):
    """The device is unknown, cannot be opened, or cannot do what was asked."""


class OutOfMemoryError(WarpwrightError, MemoryError):
    """The device, or the host that emulates it, has too little memory."""


class PtxError(WarpwrightError, ValueError):
    """The PTX is invalid, or the device cannot run it."""


class UnknownKernelError(WarpwrightError, KeyError):
    """The module, or the library, has no kernel of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class ArgumentError(WarpwrightError, TypeError):
    """An argument fits no parameter, or is nothing that a kernel takes."""


class ReadOnlyError(ArgumentError):
    """A kernel wrote an array that is read-only. The array keeps its elements."""


class LaunchError(WarpwrightError, ValueError):
    """The device or the kernel does not allow the shape of the launch."""


class HalfWrittenError(WarpwrightError):
    """A kernel that could write the buffer has failed. Overwrite the buffer before its next use."""


class RefusedError(WarpwrightError, ValueError):
    """The command refuses its options, or the machine lacks what is needed."""


class WrongResultError(WarpwrightError):
    """A kernel of the library computed a result that differs from its reference."""


class FindingsError(WarpwrightError):
    """Checkers found something in a launch that ran to its end. The message is the report."""

    def __init__(self, message: str, findings: str = "[]") -> None:
        super().__init__(message)
        self._json: str = findings

    @property
    def findings(self) -> list[Finding]:
        """What was found, causes first."""
        from ._findings import Finding

        return [Finding._of(value) for value in json.loads(self._json)]

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self._json)


class FaultError(FindingsError):
    """The emulator stopped a kernel: an invalid address, a deadlock, a limit. The last launch left its arrays half-written."""
