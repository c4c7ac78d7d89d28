#!/usr/bin/env python3
"""Runs every copy of cases.json, whose kernels are in kernels.json, on the GPU and writes what it changed in memory.

    python3 record.py CASES [--out FOLDER]

CASES is the folder that the test `tensor_copies::golden::write_cases` wrote.

Needs Python 3.8 and the driver's libcuda.so.1, nothing else. Writes results.json (the device, and for each case its
outcome: ok, refused by the driver, or a fault) and results.bin (for each case that is ok, the bytes of tensor and buffer
before, xor'ed with those after, compressed). A fault ends the process's context, so that the cases run in children.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import threading
import time
import zlib

HANG_SECONDS = 8
HERE = os.path.dirname(os.path.abspath(__file__))


class CudaError(Exception):
    pass


def generated(seed, length):
    """The bytes that the replay makes too."""
    out = bytearray(length)
    for index in range(length):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        out[index] = seed >> 24
    return bytes(out)


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'').decode()}")

    def describe(self):
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {"device": name.value.decode(), "driver_api": version.value}

    def allocate(self, contents):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(len(contents), 16)))
        self.call("cuMemcpyHtoD_v2", pointer, contents, ctypes.c_size_t(len(contents)))
        return pointer

    def read(self, pointer, size):
        contents = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", contents, pointer, ctypes.c_size_t(size))
        return contents.raw

    def encode(self, case, address):
        """The 128 bytes of the tensor map; None if the driver refuses it."""
        rank = len(case["extents"])
        raw = ctypes.create_string_buffer(192)
        aligned = (ctypes.addressof(raw) + 63) & ~63
        extents = (ctypes.c_uint64 * rank)(*case["extents"])
        strides = (ctypes.c_uint64 * max(rank - 1, 1))(*case["strides"])
        steps = (ctypes.c_uint32 * rank)(*case["element_strides"])
        start = (ctypes.c_void_p(aligned), case["element"], rank, ctypes.c_void_p(address), extents, strides)
        end = (steps, case["interleave"], case["swizzle"], case["l2_promotion"], case["fill"])
        access = case["access"]
        if "box" in access:
            box = (ctypes.c_uint32 * rank)(*access["box"])
            status = self.cuda.cuTensorMapEncodeTiled(*start, box, *end)
        else:
            lower = (ctypes.c_int * len(access["lower"]))(*access["lower"])
            upper = (ctypes.c_int * len(access["upper"]))(*access["upper"])
            status = self.cuda.cuTensorMapEncodeIm2col(*start, lower, upper, access["channels"], access["pixels"], *end)
        return None if status else ctypes.string_at(aligned, 128)

    def run(self, case, ptx):
        before = generated(1, case["bytes"]), generated(2, case["tile"])
        tensor, buffer = self.allocate(before[0]), self.allocate(before[1])
        map_bytes = self.encode(case, tensor.value + case["offset"])
        if map_bytes is None:
            return "refused", b""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx.encode() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"copy")
        held = ctypes.create_string_buffer(256)
        parameter = (ctypes.addressof(held) + 63) & ~63
        ctypes.memmove(parameter, map_bytes, 128)
        at = ctypes.create_string_buffer(bytes(case["at"]), 48)
        pointers = (ctypes.c_void_p * 3)(parameter, ctypes.addressof(at), ctypes.addressof(buffer))
        self.call("cuLaunchKernel", function, case["ctas"], 1, 1, 128, 1, 1, 0, None, pointers, None)
        self.call("cuCtxSynchronize")
        after = self.read(tensor, case["bytes"]) + self.read(buffer, case["tile"])
        for pointer in (tensor, buffer):
            self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)
        return "ok", bytes(a ^ b for a, b in zip(before[0] + before[1], after))


def child(cases, first):
    """Runs the cases from one on, until a fault. Each line of output is a record."""
    driver = Driver()
    print(json.dumps({"about": driver.describe()}), flush=True)
    with open(os.path.join(cases, "cases.json")) as file:
        lines = file.read().splitlines()
    with open(os.path.join(cases, "kernels.json")) as file:
        kernels = json.load(file)
    for index in range(first, len(lines)):
        case = json.loads(lines[index])
        ptx = kernels[case["kernel"]]
        record = {"name": case["name"], "checksum": zlib.crc32((lines[index] + ptx).encode())}
        print(json.dumps({"begin": record}), flush=True)
        try:
            status, changed = driver.run(case, ptx)
            print(json.dumps({**record, "status": status, "changed": zlib.compress(changed, 9).hex()}), flush=True)
        except CudaError as error:
            print(json.dumps({**record, "status": str(error)}), flush=True)
            return


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("cases", help="the folder of the cases")
    arguments.add_argument("--out", default=HERE)
    arguments.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.child is not None:
        return child(options.cases, options.child)
    began = time.time()
    cases = options.cases
    with open(os.path.join(cases, "cases.json")) as file:
        total = len(file.read().splitlines())
    records, about, stored = {}, {}, bytearray()
    def write():
        os.makedirs(options.out, exist_ok=True)
        with open(os.path.join(options.out, "results.bin"), "wb") as file:
            file.write(stored)
        lines = [f"  {json.dumps(name)}: {json.dumps(record)}" for name, record in records.items()]
        with open(os.path.join(options.out, "results.json"), "w") as file:
            file.write('{"about": %s,\n "cases": {\n%s\n}}\n' % (json.dumps(about), ",\n".join(lines)))

    while len(records) < total:
        command = [sys.executable, os.path.abspath(__file__), cases, "--child", str(len(records))]
        begun = None
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        watch = threading.Timer(HANG_SECONDS, process.kill)
        watch.start()
        for line in process.stdout:
            watch.cancel()
            watch = threading.Timer(HANG_SECONDS, process.kill)
            watch.start()
            message = json.loads(line)
            about = message.get("about", about)
            begun = message.get("begin", begun)
            if "status" in message:
                packed = bytes.fromhex(message.pop("changed", ""))
                if message["status"] == "ok":
                    message.update(offset=len(stored), stored=len(packed))
                    stored += packed
                records[message.pop("name")] = message
        watch.cancel()
        process.wait()
        write()
        if begun is None:
            raise SystemExit("record: no case can be run; is there a GPU and a driver here?")
        if begun["name"] not in records:
            records[begun["name"]] = {"checksum": begun["checksum"], "status": "the process ended"}
    write()
    for name, record in records.items():
        if record["status"] != "ok":
            print(f"{name}: {record['status']}")
    print(f"{len(records)} cases, {len(stored)} bytes, {time.time() - began:.1f} s, {about}")


if __name__ == "__main__":
    main()
