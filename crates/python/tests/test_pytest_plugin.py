"""The pytest plug-in."""

PTX_FILE = """
import numpy as np
import sys
sys.path.insert(0, {folder!r})
from kernels import HAND_OVER, RACE

def test_clean(emulated_device):
    assert emulated_device.is_checked
    emulated_device.load(HAND_OVER)["hand_over"].launch(1, 64, np.ones(32, np.uint32), np.ones(32, np.uint32))

def test_race(emulated_device):
    emulated_device.load(RACE)["hand_over"].launch(1, 64, np.ones(32, np.uint32), np.ones(32, np.uint32))

def test_device(emulated_device):
    assert emulated_device.name == {device!r}
"""


def test_a_failure_shows_the_report_and_the_line_of_the_test(pytester):
    from pathlib import Path

    pytester.makepyfile(PTX_FILE.format(folder=str(Path(__file__).parent), device="emu:a100"))
    result = pytester.runpytest("--warpwright-device=emu:a100", "--warpwright-schedules=latest")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*.py:11:*hand_over*", "error?race?: nothing orders a write and a read*", "*write by warp 0*", "*help: *"]
    )
