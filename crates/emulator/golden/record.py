#!/usr/bin/env python3
"""Runs every golden case on the GPU and writes what came out.

    python3 record.py CASES [--device N] [--jobs N] [--out FOLDER] [--results NAME] [PATTERN ...]

CASES is the folder that the test `golden::write_cases` wrote.

Needs Python 3.8 and the driver's libcuda.so.1, nothing else. Writes results.json (the device, the driver and, for
each case, where its bytes lie or why there are none) and results.bin (the saved buffers of all cases, each case
compressed by zlib). The record is in parts, so that one can be made anew without the others:

    python3 record.py CASES --results wgmma 'wgmma*'     # results.wgmma.json, results.wgmma.bin

A case that fails or hangs is noted and the run goes on: cases run in child processes, and one is started anew after
a failure that leaves its context unusable. Most of the time goes to the driver's assembler, so several run at once.
"""

import argparse
import concurrent.futures
import ctypes
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
HANG_SECONDS = 30


class CudaError(Exception):
    pass


class Driver:
    """The few driver calls that loading and launching a module takes."""

    def __init__(self, ordinal):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.device = device
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'').decode()} ({status})")

    def describe(self):
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self.device)
        version, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, self.device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, self.device)
        return {
            "device": name.value.decode(),
            "compute_capability": f"{major.value}.{minor.value}",
            "driver_api": version.value,
        }

    def load(self, ptx):
        """Loads PTX text; what the assembler says is part of the error."""
        log = ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(5, 6)  # the error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
        module = ctypes.c_void_p()
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ptx, 2, options, values)
        except CudaError as error:
            raise CudaError(f"{error}: {log.value.decode(errors='replace').strip()[:500]}")
        return module

    def allocate(self, contents):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(len(contents), 16)))
        self.call("cuMemcpyHtoD_v2", pointer, contents, ctypes.c_size_t(len(contents)))
        return pointer

    def read(self, pointer, size):
        contents = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", contents, pointer, ctypes.c_size_t(size))
        return contents.raw

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)

    def run(self, module, entry, grid, block, dynamic_shared, pointers):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        addresses = (ctypes.c_void_p * max(len(pointers), 1))(*[ctypes.addressof(p) for p in pointers])
        self.call("cuLaunchKernel", function, *grid, *block, dynamic_shared, None, addresses, None)
        self.call("cuCtxSynchronize")


def npy(path):
    """The elements of a NumPy file (version 1)."""
    with open(path, "rb") as file:
        contents = file.read()
    return contents[10 + int.from_bytes(contents[8:10], "little"):]


def read_case(path):
    """The launch, the PTX, the contents of its buffers, and the checksum that ties a record to all of them."""
    folder = os.path.dirname(path)
    with open(path, "rb") as file:
        text = file.read()
    launch = json.loads(text)
    with open(os.path.join(folder, launch["ptx"]), "rb") as file:
        ptx = file.read()
    checksum = zlib.crc32(text, zlib.crc32(ptx))
    buffers = []
    for argument in launch["args"]:
        buffer = argument["buffer"]
        size = BYTES[buffer["dtype"]] * buffer["shape"][0]
        if buffer["init"] == "zero":
            contents = bytes(size)
        else:
            contents = npy(os.path.join(folder, buffer["init"]["npy"]))
            checksum = zlib.crc32(contents, checksum)
        if len(contents) != size:
            raise ValueError(f"the input has {len(contents)} bytes, not {size}")
        buffers.append((contents, "save" in buffer))
    return launch, ptx, buffers, checksum


def run_case(driver, path):
    """The saved buffers of one case, end to end."""
    launch, ptx, buffers, checksum = read_case(path)
    module = driver.load(ptx + b"\0")
    pointers = [driver.allocate(contents) for contents, _ in buffers]
    driver.run(module, launch["entry"], launch["grid"], launch["block"], launch.get("dynamic_shared_bytes", 0), pointers)
    outputs = b"".join(
        driver.read(pointer, len(contents)) for pointer, (contents, saved) in zip(pointers, buffers) if saved
    )
    for pointer in pointers:
        driver.free(pointer)
    driver.call("cuModuleUnload", module)
    return outputs, checksum


def child(ordinal, cases, folder, names):
    """Runs cases until one leaves the context unusable. Each line of output is the record of one case."""
    driver = Driver(ordinal)
    print(json.dumps({"about": driver.describe()}), flush=True)
    for name in names:
        print(json.dumps({"start": name}), flush=True)
        record = {"case": name}
        try:
            outputs, checksum = run_case(driver, os.path.join(cases, name + ".json"))
            with open(os.path.join(folder, name.replace("/", "_")), "wb") as file:
                file.write(outputs)
            record.update(checksum=checksum, bytes=len(outputs))
        except (CudaError, OSError, ValueError, KeyError) as error:
            record["error"] = str(error)
        print(json.dumps(record), flush=True)
        if "error" in record:
            try:
                driver.call("cuCtxSynchronize")
            except CudaError:
                return


def run_children(ordinal, cases, folder, names):
    """The record of every case, from as many children as it takes."""
    about, records, pending = {}, {}, list(names)
    while pending:
        command = [sys.executable, os.path.abspath(__file__), cases, "--child", folder, "--device", str(ordinal), *pending]
        before = len(records)
        started = None
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        watch = Watchdog(process)
        for line in process.stdout:
            message = json.loads(line)
            watch.touch()
            about = message.get("about", about)
            started = message.get("start", started)
            if "case" in message:
                records[message.pop("case")] = message
        process.wait()
        watch.stop()
        if started is not None and started not in records:
            records[started] = {"error": f"the process ended, status {process.returncode} (hung or crashed)"}
        if len(records) == before:
            raise SystemExit("record: no case can be run; is there a GPU and a driver here?")
        pending = [name for name in pending if name not in records]
    return about, records


def run_all(ordinal, jobs, cases, folder, names):
    """The records of all cases, from several children at once."""
    shares = [share for share in (names[job::jobs] for job in range(jobs)) if share]
    about, records = {}, {}
    with concurrent.futures.ThreadPoolExecutor(max(len(shares), 1)) as pool:
        for about, part in pool.map(lambda share: run_children(ordinal, cases, folder, share), shares):
            records.update(part)
    return about, records


class Watchdog:
    """Ends a child that has said nothing for a while."""

    def __init__(self, process):
        self.process, self.timer = process, None
        self.touch()

    def touch(self):
        self.stop()
        self.timer = threading.Timer(HANG_SECONDS, self.process.kill)
        self.timer.daemon = True
        self.timer.start()

    def stop(self):
        if self.timer:
            self.timer.cancel()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("cases", help="the folder of the cases")
    arguments.add_argument("patterns", nargs="*", help="only cases whose FAMILY/NAME matches")
    arguments.add_argument("--device", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=8)
    arguments.add_argument("--out", default=HERE)
    arguments.add_argument("--results", help="a part of the record of its own: results.NAME.json and results.NAME.bin")
    arguments.add_argument("--check", action="store_true", help="read every case, run none")
    arguments.add_argument("--child", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.child:
        return child(options.device, options.cases, options.child, options.patterns)

    names = sorted(
        os.path.join(family, file[:-5])
        for family in os.listdir(options.cases)
        if os.path.isdir(os.path.join(options.cases, family))
        for file in os.listdir(os.path.join(options.cases, family))
        if file.endswith(".json")
    )
    if options.patterns:
        names = [name for name in names if any(fnmatch.fnmatch(name, p) for p in options.patterns)]
    if options.check:
        for name in names:
            read_case(os.path.join(options.cases, name + ".json"))
        print(f"{len(names)} cases can be read")
        return
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        about, records = run_all(options.device, options.jobs, options.cases, folder, names)
        offset, lines = 0, []
        os.makedirs(options.out, exist_ok=True)
        stem = os.path.join(options.out, f"results.{options.results}" if options.results else "results")
        with open(stem + ".bin", "wb") as results:
            for name in names:
                record = records[name]
                if "error" not in record:
                    with open(os.path.join(folder, name.replace("/", "_")), "rb") as file:
                        stored = zlib.compress(file.read(), 9)
                    results.write(stored)
                    record = {"offset": offset, "stored": len(stored), **record}
                    offset += len(stored)
                lines.append(f"  {json.dumps(name)}: {json.dumps(record)}")
    with open(stem + ".json", "w") as index:
        index.write('{"about": %s,\n "cases": {\n%s\n}}\n' % (json.dumps(about), ",\n".join(lines)))
    failures = {name: record["error"] for name, record in records.items() if "error" in record}
    for name, error in sorted(failures.items()):
        print(f"{name}: {error}", file=sys.stderr)
    print(f"{len(names) - len(failures)} of {len(names)} cases, {offset} bytes, {time.time() - began:.1f} s, {about}")


if __name__ == "__main__":
    main()
