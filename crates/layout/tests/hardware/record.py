#!/usr/bin/env python3
"""Runs the cases that the test `write_cases` wrote, on the GPU, and writes what came out beside this file.

    python3 record.py FOLDER [OUT]

Needs Python 3.8 and the driver's libcuda.so.1, nothing else. Writes recorded.json (the device, the driver and, for each
case, where its bytes lie or why there are none) and recorded.bin (the output of each case, compressed by zlib). Cases run
in child processes; a case that fails is noted, and a new child goes on after it.
"""

import ctypes
import json
import os
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
DYNAMIC_SHARED_BYTES = 8
ELEMENT_TYPES = {8: 0, 16: 1, 32: 2, 64: 4}  # CU_TENSOR_MAP_DATA_TYPE_UINT8, 16, 32, 64


class CudaError(Exception):
    pass


def call(name, *arguments):
    status = getattr(CUDA, name)(*arguments)
    if status != 0:
        text = ctypes.c_char_p()
        CUDA.cuGetErrorName(status, ctypes.byref(text))
        raise CudaError(f"{name}: {(text.value or b'').decode()} ({status})")


def start():
    """Opens the driver; returns the device's description."""
    global CUDA
    CUDA = ctypes.CDLL("libcuda.so.1")
    call("cuInit", 0)
    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, 256, device)
    call("cuDriverGetVersion", ctypes.byref(version))
    return {"device": name.value.decode(), "driver_api": version.value}


def load(ptx):
    log = ctypes.create_string_buffer(4096)
    options = (ctypes.c_int * 2)(5, 6)  # the error log and its size
    values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
    module = ctypes.c_void_p()
    try:
        call("cuModuleLoadDataEx", ctypes.byref(module), ptx + b"\0", 2, options, values)
    except CudaError as error:
        raise CudaError(f"{error}: {log.value.decode(errors='replace').strip()[:500]}")
    return module


def tensor_map(description, address):
    """The 128 bytes of a tensor map, at an aligned address."""
    room = ctypes.create_string_buffer(256)
    at = (ctypes.addressof(room) + 63) & ~63
    if description:
        extents, box = description["extents"], description["box"]
        rank = len(extents)
        strides, bytes_below = [], description["element_bits"] // 8
        for extent in extents[:-1]:
            bytes_below *= extent
            strides.append(bytes_below)
        call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(at),
            ELEMENT_TYPES[description["element_bits"]],
            rank,
            address,
            (ctypes.c_uint64 * rank)(*extents),
            (ctypes.c_uint64 * max(rank - 1, 1))(*strides),
            (ctypes.c_uint32 * rank)(*box),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            0,
            description["swizzle"],
            0,
            0,
        )
    return room, at


def run(folder, case):
    """The output of one case."""
    with open(os.path.join(folder, case["file"] + ".ptx"), "rb") as file:
        module = load(file.read())
    with open(os.path.join(folder, case["file"] + ".in"), "rb") as file:
        given = file.read()
    function, source, target = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
    call("cuModuleGetFunction", ctypes.byref(function), module, b"run")
    size = ctypes.c_size_t(case["output_bytes"])
    call("cuMemAlloc_v2", ctypes.byref(source), ctypes.c_size_t(len(given)))
    call("cuMemAlloc_v2", ctypes.byref(target), size)
    call("cuMemcpyHtoD_v2", source, given, ctypes.c_size_t(len(given)))
    call("cuMemsetD8_v2", target, ctypes.c_ubyte(0), size)
    room, at = tensor_map(case["map"], source)
    call("cuFuncSetAttribute", function, DYNAMIC_SHARED_BYTES, case["shared_bytes"])
    arguments = (ctypes.c_void_p * 3)(ctypes.addressof(source), ctypes.addressof(target), at)
    call("cuLaunchKernel", function, 1, 1, 1, case["threads"], 1, 1, case["shared_bytes"], None, arguments, None)
    call("cuCtxSynchronize")
    output = ctypes.create_string_buffer(case["output_bytes"])
    call("cuMemcpyDtoH_v2", output, target, size)
    call("cuMemFree_v2", source)
    call("cuMemFree_v2", target)
    call("cuModuleUnload", module)
    return output.raw


def child(folder, first):
    """Runs the cases from number `first` on, until one fails. Each line of output is the record of one case."""
    with open(os.path.join(folder, "cases.json")) as file:
        cases = json.load(file)
    print(json.dumps(start()), flush=True)
    for number, case in enumerate(cases[first:], first):
        try:
            output = zlib.compress(run(folder, case), 9).hex()
            print(json.dumps({"number": number, "output": output}), flush=True)
        except CudaError as error:
            print(json.dumps({"number": number, "error": str(error)}), flush=True)
            return


def main(folder, out):
    with open(os.path.join(folder, "cases.json")) as file:
        cases = json.load(file)
    about, records, contents, first = {}, {}, b"", 0
    while first < len(cases):
        command = [sys.executable, os.path.abspath(__file__), "--child", folder, str(first)]
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
        lines = [json.loads(line) for line in process.stdout.splitlines()]
        if len(lines) < 2:
            raise SystemExit(f"record: case {first} cannot be run; is there a GPU and a driver here?")
        about = lines[0]
        for line in lines[1:]:
            case = cases[line["number"]]
            record = {"checksum": case["checksum"]}
            if "error" in line:
                record = {"error": line["error"]}
                print(f"{case['name']}: {line['error']}")
            else:
                output = bytes.fromhex(line["output"])
                record.update(offset=len(contents), length=len(output))
                contents += output
            records[case["name"]] = record
            first = line["number"] + 1
    with open(os.path.join(out, "recorded.bin"), "wb") as file:
        file.write(contents)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(record)}" for name, record in records.items())
    with open(os.path.join(out, "recorded.json"), "w") as file:
        file.write(f"{{\"about\": {json.dumps(about)},\n \"cases\": {{\n{lines}\n }}\n}}\n")
    print(f"{len(cases)} cases, {len(contents)} bytes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    elif len(sys.argv) in (2, 3):
        main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else HERE)
    else:
        raise SystemExit(__doc__)
