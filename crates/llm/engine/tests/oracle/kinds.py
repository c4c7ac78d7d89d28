"""Writes ../fixtures/kinds.gguf: random blocks of each kind, and the numbers that they stand for.

    pip install gguf;  python kinds.py        gguf 0.19

A tensor `KIND` has two rows of 256 elements of the kind, `KIND.numbers` the same in f32, dequantised by the
package, in NumPy.
"""

import pathlib

import gguf
import numpy
from gguf import GGMLQuantizationType as Kind

generator = numpy.random.default_rng(1)
writer = gguf.GGUFWriter(pathlib.Path(__file__).parent.parent / "fixtures/kinds.gguf", "llama")
# Where the f16 factors of a block are; the other bytes may be anything.
FACTORS = {
    Kind.Q8_0: [0],
    Kind.Q4_0: [0],
    Kind.Q4_1: [0, 2],
    Kind.Q5_0: [0],
    Kind.Q5_1: [0, 2],
    Kind.Q2_K: [80, 82],
    Kind.Q3_K: [108],
    Kind.Q4_K: [0, 2],
    Kind.Q5_K: [0, 2],
    Kind.Q6_K: [208],
    Kind.IQ4_NL: [0],
    Kind.IQ4_XS: [0],
    Kind.MXFP4: [],
}


def blocks(kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = generator.integers(0, 256, (512 // elements, size), dtype=numpy.uint8)
    if kind == Kind.MXFP4:
        blocks[:, 0] = generator.integers(0, 250, len(blocks))
    for at in FACTORS[kind]:
        factors = (generator.standard_normal(len(blocks)) / 16).astype(numpy.float16)
        blocks[:, at : at + 2] = factors[:, None].view(numpy.uint8)
    return blocks.reshape(2, -1)


def stored(kind):
    numbers = generator.standard_normal((2, 256)).astype(numpy.float32)
    return numbers if kind == Kind.F32 else gguf.quants.quantize(numbers, kind)


for kind in [Kind.F32, Kind.F16, Kind.BF16, *FACTORS]:
    data = blocks(kind) if kind in FACTORS else stored(kind)
    numbers = gguf.quants.dequantize(data, kind).astype(numpy.float32)
    assert numpy.isfinite(numbers).all() and numbers.shape == (2, 256)
    writer.add_tensor(kind.name.lower(), data, raw_dtype=kind)
    writer.add_tensor(f"{kind.name.lower()}.numbers", numbers)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
