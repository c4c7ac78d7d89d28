"""Verbs of the command on kernels of the library: `run`, `check`, `report`, `time`."""

from __future__ import annotations

import json
from typing import Any

from ._errors import ArgumentError, FaultError, RefusedError, WarpwrightError, WrongResultError
from ._findings import Finding, Prediction, Report
from ._warpwright import answer


def run(kernel: str, **options: Any) -> dict[str, Any]:
    """Runs a kernel of the library and compares every element: `run("gemm", m=333, device="emu:h200")`. Options are the flags
    of `warpwright run KERNEL --help`. Returns `run` of docs/json.md."""
    return _answer("run", kernel, options)[0]


def check(kernel: str, **options: Any) -> list[Finding]:
    """What the checkers find in a kernel of the library. Options are the flags of `warpwright check KERNEL --help`."""
    return [Finding._of(value) for value in _answer("check", kernel, options)[0]["findings"]]


def report(kernel: str, **options: Any) -> Report:
    """What a kernel of the library does by line. Options are the flags of `warpwright report KERNEL --help`."""
    value, text = _answer("report", kernel, options)
    return Report(json.dumps(value), text)


def time(kernel: str, **options: Any) -> Prediction:
    """The predicted time of a kernel of the library. Options are the flags of `warpwright time KERNEL --help`."""
    value, text = _answer("time", kernel, options)
    return Prediction(json.dumps(value), text)


def _answer(verb: str, kernel: str, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    if not isinstance(kernel, str):
        raise ArgumentError(f"`{verb}` takes the name of a kernel of the library; a loaded kernel has `kernel.{verb}(...)`")
    words = ["warpwright", verb, kernel]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not False and value is not None:
            words.append(f"{flag}={value}")
    status, text, shown = answer(words)
    value = json.loads(text)
    if status == 0 or (verb == "check" and status == 1):
        return value, shown
    errors: dict[int, type[WarpwrightError]] = {1: WrongResultError, 2: RefusedError, 3: FaultError}
    raise errors.get(status, WarpwrightError)((value or {}).get("message", f"the command ends with status {status}"))
