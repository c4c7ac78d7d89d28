"""The command in the package, and the verbs on kernels of the library."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import warpwright as ww

COMMAND = [sys.executable, "-m", "warpwright"]


def command(*words):
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)


def test_the_command_has_the_program_s_statuses_and_streams():
    done = command("layout", "(8,4):(1,8)")
    assert (done.returncode, done.stderr) == (0, "") and "(_8,_4):(_1,_8)" in done.stdout
    refused = command("run", "gem")
    assert refused.returncode == 2 and "gemm" in refused.stderr and refused.stdout == ""
    assert command("--version").stdout.startswith("warpwright 0.1.0")


def test_the_first_result_comes_in_seconds():
    begin = time.monotonic()
    done = command("run", "gemm", "--device", "emu:h200")
    assert done.returncode == 0 and "agree with the reference" in done.stdout
    assert time.monotonic() - begin < 15


def test_ctrl_c_ends_the_command():
    words = ["run", "gemm", "--m=8192", "--n=8192", "--k=8192", "--device", "emu:h200"]
    running = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=20)
    assert running.returncode in (-signal.SIGINT, 130)


def test_the_import_is_quick():
    code = "import time; begin = time.perf_counter(); import warpwright._warpwright; print(time.perf_counter() - begin)"
    times = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(3)]
    assert min(times) < 0.2, times


def test_the_library_s_kernels_run_by_name():
    ran = ww.run("gemm", m=64, n=64, k=64, device="emu:h200")
    assert ran["status"] == "ok" and ran["elements"] == 64 * 64
    assert ww.check("transpose", m=64, n=64, schedule="eager") == []
    assert ww.time("transpose", m=64, n=64).microseconds > 0
    report = ww.report("transpose", m=64, n=64)
    assert report.kernels[0]["kernel"] in str(report)
    with pytest.raises(ww.RefusedError, match="unexpected argument '--mm'"):
        ww.run("gemm", mm=3)
    with pytest.raises(ww.RefusedError, match="gemm"):
        ww.run("gem")
    with pytest.raises(ww.ArgumentError, match="the name of a kernel of the library"):
        ww.check(np.zeros(3))


def test_ctrl_c_interrupts_a_verb():
    code = """
import warpwright as ww, signal
assert ww.check("transpose", m=64, n=64, schedule="eager") == []
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("ready", flush=True)
try:
    ww.run("gemm", m=8192, n=8192, k=8192, device="emu:h200")
except KeyboardInterrupt:
    print("interrupted")
"""
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=20)
    assert rest == "interrupted\n" and running.returncode == 0


def test_ctrl_c_interrupts_a_launch():
    code = """
import warpwright as ww, sys, time
sys.path.insert(0, {folder!r})
from kernels import ENDLESS
device = ww.Device("emu:h200")
endless = device.load(ENDLESS)["endless"]
print("ready", flush=True)
try:
    endless.launch(1, 32)
except KeyboardInterrupt:
    print("interrupted", flush=True)
endless = ww.Device("emu:h200", limit="1000").load(ENDLESS)["endless"]
try:
    endless.launch(1, 32)
except ww.FaultError as error:
    print(error.findings[0].code)
"""
    from pathlib import Path

    running = subprocess.Popen(
        [sys.executable, "-c", code.format(folder=str(Path(__file__).parent))], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=20)
    assert rest == "interrupted\nlimit\n" and running.returncode == 0
