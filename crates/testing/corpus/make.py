"""Compiles the sources with NVRTC and Triton, and writes each program's launch, inputs and expected outputs into a folder.

    cargo run -p warpwright-testing -- extract FOLDER
    python make.py FOLDER [PROGRAM ...]
    cargo run -p warpwright-testing -- pack FOLDER

The compilers are NVRTC 13.0.88 (`nvidia-cuda-nvrtc`; `NVRTC` in the environment names the shared library) with the headers of
`nvidia-cuda-runtime==13.0.96`, `nvidia-cuda-crt==13.0.88` and `nvidia-cuda-cccl==13.0.85`, and Triton 3.5.1. None of them
needs a GPU. References are NumPy's (`numpy`, `ml_dtypes`).

    ptx/SOURCE.VARIANT.ptx         the compiler's text of one source for one target and one set of options
    cases/PROGRAM/LAUNCH.json      what `warpwright exec` runs
    cases/PROGRAM/EXPECTED.json    for each saved buffer: the file it must equal, its type, and the tolerance;
                                   and the other texts (targets, options) to which the same launch applies
    cases/PROGRAM/*.npy            the inputs and the expected outputs
"""

import ctypes
import importlib
import os
import pathlib
import sys

import harness


def main(out, wanted):
    for module in sorted(harness.HERE.glob("programs/*.py")):
        importlib.import_module(f"programs.{module.stem}")
    nvrtc = ctypes.CDLL(os.environ.get("NVRTC", "libnvrtc.so.13"))
    kernels = importlib.import_module("sources.kernels")
    compiled = set()
    for item in harness.PROGRAMS:
        if wanted and item.name not in wanted:
            continue
        for variant in item.variants:
            if (item.source, variant) not in compiled:
                compiled.add((item.source, variant))
                text = out / "ptx" / f"{item.source}.{variant}.ptx"
                text.parent.mkdir(parents=True, exist_ok=True)
                if item.tiles:
                    ptx, threads, shared, item.scratch = harness.compile_triton(kernels, item, variant)
                    item.block = (threads, 1, 1)
                    item.shared = max(item.shared, shared)
                else:
                    ptx = harness.compile_cuda(nvrtc, harness.HERE / "sources" / f"{item.source}.cu", variant)
                text.write_text(ptx)
        folder = out / "cases" / item.name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        harness.write_launch(folder, item)
        print(item.name, *item.variants)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), set(sys.argv[2:]))
