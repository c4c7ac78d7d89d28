"""The pytest plug-in: a checked device, and the report of what it finds."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ._device import Device


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpwright")
    group.addoption(
        "--warpwright-device", default="emu:h200", metavar="DEVICE", help="the emulated GPU of `emulated_device` [emu:h200]"
    )
    group.addoption(
        "--warpwright-schedules",
        default="eager,latest",
        metavar="LIST",
        help="the schedules that `emulated_device` runs each launch under [eager,latest]",
    )


@pytest.fixture(scope="session")
def emulated_device(request: pytest.FixtureRequest) -> Device:
    """An emulated GPU with all checkers on: a launch with findings fails the test, which shows the report."""
    from ._device import Device

    schedules = request.config.getoption("--warpwright-schedules").split(",")
    return Device(request.config.getoption("--warpwright-device"), check=True, schedules=schedules)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    outcome = yield
    from ._errors import FindingsError

    if call.excinfo is not None and isinstance(call.excinfo.value, FindingsError):
        report = outcome.get_result()
        entries = call.excinfo.traceback
        own = next((entry for entry in reversed(entries) if str(entry.path) == str(item.path)), entries[-1])
        report.longrepr = f"{own.path}:{own.lineno + 1}: {own.statement}\n\n{call.excinfo.value}"
