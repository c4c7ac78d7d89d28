"""What a program of the corpus is, how it is compiled, and how its launch is written down.

A program is a Python function that makes inputs from a seeded generator and computes the outputs with NumPy;
`@program` says which source it belongs to, which kernel, and which launch. `make.py` walks all of them.
"""

import ctypes
import dataclasses
import json
import pathlib
import re
import site

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).parent
NVRTC = "13.0.88"
TRITON = "3.5.1"

# Types that NumPy has no name for travel as their unsigned bits.
NAMED = {
    "bf16": (np.uint16, ml_dtypes.bfloat16),
    "e4m3": (np.uint8, ml_dtypes.float8_e4m3fn),
    "e5m2": (np.uint8, ml_dtypes.float8_e5m2),
}
NUMPY = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}


def dtype_name(array):
    for name, (_, named) in NAMED.items():
        if array.dtype == named:
            return name
    for name, plain in NUMPY.items():
        if array.dtype == plain:
            return name
    raise TypeError(f"no name for {array.dtype}")


def to_bits(array):
    name = dtype_name(array)
    return array.view(NAMED[name][0]) if name in NAMED else array


@dataclasses.dataclass
class Buffer:
    """A buffer argument: what it holds before, and what it must hold after (None: not looked at)."""
    before: np.ndarray | str
    after: np.ndarray | None = None
    rtol: float = 0.0
    atol: float = 0.0
    shape: tuple = ()
    dtype: str = ""


def given(array):
    """An input that the kernel only reads."""
    return Buffer(np.ascontiguousarray(array))


def updated(array, expected, rtol=0.0, atol=0.0):
    """A buffer that the kernel reads and writes."""
    return Buffer(np.ascontiguousarray(array), np.ascontiguousarray(expected), rtol, atol)


def made(expected, rtol=0.0, atol=0.0, init="poison"):
    """An output that the kernel writes whole."""
    return Buffer(init, np.ascontiguousarray(expected), rtol, atol)


def scratch(shape, dtype, init="zero"):
    """Memory that the kernel needs and nobody looks at."""
    return Buffer(init, shape=shape, dtype=dtype)


@dataclasses.dataclass
class Scalar:
    """A scalar argument."""
    dtype: str
    value: object


def s32(value):
    return Scalar("s32", int(value))


def u32(value):
    return Scalar("u32", int(value))


def u64(value):
    return Scalar("u64", int(value))


def f32(value):
    return Scalar("f32", float(np.float32(value)))


def f64(value):
    return Scalar("f64", float(value))


@dataclasses.dataclass
class Bytes:
    """An argument passed by value as bytes: a struct."""
    data: bytes


@dataclasses.dataclass
class TensorMap:
    """A tensor map over a buffer among the arguments, by its place; the box is in the driver's order, the fastest axis first."""
    buffer: int
    box: list
    swizzle: str = "none"


@dataclasses.dataclass
class Pointer:
    """In a structure: the address of a buffer among the arguments, by its place."""
    buffer: int


@dataclasses.dataclass
class Struct:
    """A structure by value: its size, and scalars, bytes, pointers and tensor maps by their offsets."""
    size: int
    fields: dict


@dataclasses.dataclass
class Program:
    name: str
    source: str
    entry: str
    grid: tuple
    block: tuple
    shared: int
    variants: tuple
    arguments: object
    tiles: object = None
    cluster: int = 1
    # Bytes of scratch memory that a Triton kernel's CTA takes.
    scratch: int = 0


PROGRAMS = []
DEFAULT = ("sm_80",)
BOTH = ("sm_80", "sm_90a")
DEBUG = ("sm_80", "sm_80-debug")
ALL = ("sm_80", "sm_90a", "sm_80-debug", "sm_80-lineinfo")


def triple(extent):
    extent = (extent,) if isinstance(extent, int) else tuple(extent)
    return extent + (1,) * (3 - len(extent))


def program(source, grid, block, entry=None, shared=0, variants=BOTH, cluster=1):
    """Registers a program: SOURCE (without its suffix), its kernel (the function's name unless said), and its launch."""
    def register(function):
        name = function.__name__
        PROGRAMS.append(Program(name, source, entry or name, triple(grid), triple(block), shared, variants, function,
                                cluster=cluster))
        return function
    return register


# ---------------------------------------------------------------------------------------------------------------------
# CUDA C++ through NVRTC


def nvrtc_options(variant):
    arch, _, how = variant.partition("-")
    options = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", "--std=c++17", "-default-device", "--device-int128"]
    options += {"": [], "debug": ["-G"], "lineinfo": ["-lineinfo"], "fast": ["--use_fast_math"]}[how]
    for root in site.getsitepackages():
        include = pathlib.Path(root) / "nvidia/cu13/include"
        options += [f"-I{include}", f"-I{include / 'cccl'}"]
    return options


def compile_cuda(nvrtc, path, variant):
    text = path.read_bytes()
    handle = ctypes.c_void_p()

    def check(code):
        if code:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(handle, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(handle, log)
            raise RuntimeError(f"{path.name} ({variant}): {log.value.decode()}")

    check(nvrtc.nvrtcCreateProgram(ctypes.byref(handle), text, path.name.encode(), 0, None, None))
    options = [option.encode() for option in nvrtc_options(variant)]
    check(nvrtc.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options)))
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetPTXSize(handle, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetPTX(handle, ptx))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(handle))
    return clean(ptx.value.decode())


def clean(text):
    """The compiler's text with the places where it was made (a path of this machine) cut down to file names."""
    for root in site.getsitepackages():
        text = text.replace(str(pathlib.Path(root)) + "/", "").replace(str(HERE) + "/", "")
    return text.rstrip("\0\n") + "\n"


# ---------------------------------------------------------------------------------------------------------------------
# Triton


@dataclasses.dataclass
class Tiles:
    """How a Triton kernel is specialised."""
    signature: str
    constants: dict
    warps: int
    stages: int
    aligned: bool
    # CTAs of a cluster that share a program's tiles.
    ctas: int


def triton_program(kernel, signature, constants, grid, warps=4, stages=3, variants=("sm_80", "sm_90"), aligned=True,
                   ctas=1):
    """Registers a kernel of `sources/kernels.py`: the types of its arguments, and its compile-time constants."""
    def register(function):
        name = function.__name__
        tiles = Tiles(signature, constants, warps, stages, aligned, ctas)
        x, y, z = triple(grid)
        PROGRAMS.append(Program(name, name, kernel, (x * ctas, y, z), (32 * warps, 1, 1), 0, variants, function, tiles, ctas))
        return function
    return register


def compile_triton(kernels, item, variant):
    """The text, and what a launch must give: threads (warp specialisation adds some), bytes of shared memory, and of
    scratch memory for each CTA."""
    import triton
    from triton.backends.compiler import GPUTarget

    function, tiles = getattr(kernels, item.entry), item.tiles
    types = tiles.signature.split()
    names = [name for name in function.arg_names if name not in tiles.constants]
    signature = dict(zip(names, types)) | {name: "constexpr" for name in tiles.constants}
    constants = {(function.arg_names.index(name),): value for name, value in tiles.constants.items()}
    # As the just-in-time compiler does: buffers are aligned, and so are sizes that happen to be multiples of 16.
    values = [argument.value if isinstance(argument, Scalar) else 0 for argument in item.arguments(seeded(item))]
    # A host's descriptor is several arguments, so that places and names do not correspond.
    attributes = {(function.arg_names.index(names[at]),): [["tt.divisibility", 16]] for at, value in enumerate(values[:len(types)])
                  if tiles.aligned and "tensordesc" not in tiles.signature and types[at] != "fp32" and value % 16 == 0}
    source = triton.compiler.ASTSource(function, signature, constants, attributes)
    target = GPUTarget("cuda", int(variant.removeprefix("sm_")), 32)
    options = {"num_warps": tiles.warps, "num_stages": tiles.stages, "num_ctas": tiles.ctas}
    done = triton.compile(source, target=target, options=options)
    text = clean(done.asm["ptx"])
    threads = int(re.search(r"\.reqntid (\d+)", text).group(1))
    return text, threads, done.metadata.shared, done.metadata.global_scratch_size


def descriptor(place, shape, box):
    """What a Triton kernel takes for a descriptor that the host made: the map, the shape, the strides in elements."""
    strides = [int(np.prod(shape[axis + 1:])) for axis in range(len(shape))]
    return [TensorMap(place, box[::-1], "128B"), *map(s32, shape), *map(u64, strides)]


# ---------------------------------------------------------------------------------------------------------------------
# The launch, in the format of `warpwright exec`, and what is expected of it


def seeded(item):
    return np.random.default_rng(list(item.name.encode()))


def write_launch(folder, item):
    arguments, expectations = [], {}
    values = item.arguments(seeded(item))
    for index, argument in enumerate(values):
        match argument:
            case TensorMap(place, box, swizzle):
                arguments.append({"tensor_map": tensor_map(place, values[place], box, swizzle)})
            case Scalar(dtype, value):
                arguments.append({"scalar": {"dtype": dtype, "value": value}})
            case Bytes(data):
                arguments.append({"bytes": data.hex()})
            case Struct(size, fields):
                fields = [{"offset": offset} | field(values, value) for offset, value in fields.items()]
                arguments.append({"struct": {"bytes": size, "fields": fields}})
            case Buffer():
                arguments.append({"buffer": buffer(folder, index, argument, expectations)})
    if item.tiles:
        # Triton's kernels take two more pointers, to scratch memory, of which most use none.
        none = {"scalar": {"dtype": "u64", "value": 0}}
        bytes_ = item.scratch * int(np.prod(item.grid))
        arguments += [{"buffer": {"dtype": "u8", "shape": [bytes_], "init": "zero"}} if bytes_ else none, none]
    texts = [f"../../ptx/{item.source}.{variant}.ptx" for variant in item.variants]
    fields = {
        "ptx": texts[0], "entry": item.entry, "grid": item.grid, "block": item.block, "cluster": triple(item.cluster),
        "dynamic_shared_bytes": item.shared, "args": arguments,
    }
    (folder / "LAUNCH.json").write_text(lines(fields))
    (folder / "EXPECTED.json").write_text(lines({"also": texts[1:], "buffers": expectations}))


def field(values, value):
    match value:
        case TensorMap(place, box, swizzle):
            return {"tensor_map": tensor_map(place, values[place], box, swizzle)}
        case Scalar(dtype, value):
            return {"scalar": {"dtype": dtype, "value": value}}
        case Pointer(place):
            return {"pointer": place}
        case Bytes(data):
            return {"bytes": data.hex()}


def tensor_map(place, argument, box, swizzle):
    array = argument.after if argument.after is not None else argument.before
    strides = list(np.ascontiguousarray(array).strides[-2::-1]) if array.ndim > 1 else []
    return {
        "buffer": place, "dtype": dtype_name(array), "dims": array.shape[::-1], "strides_bytes": strides, "box": box,
        "element_strides": [1] * array.ndim, "swizzle": swizzle, "interleave": "none", "l2_promotion": "128B",
        "oob_fill": "zero",
    }


def buffer(folder, index, argument, expectations):
    model = argument.after if argument.after is not None else argument.before
    entry = {"dtype": argument.dtype, "shape": argument.shape}
    if not isinstance(model, str):
        entry = {"dtype": dtype_name(model), "shape": model.shape}
    if isinstance(argument.before, str):
        entry["init"] = argument.before
    else:
        np.save(folder / f"given{index}.npy", to_bits(argument.before))
        entry["init"] = {"npy": f"given{index}.npy"}
    if argument.after is not None:
        np.save(folder / f"expected{index}.npy", to_bits(argument.after))
        entry["save"] = f"saved{index}.npy"
        expectations[entry["save"]] = {
            "equals": f"expected{index}.npy", "dtype": entry["dtype"], "rtol": argument.rtol, "atol": argument.atol,
        }
    return entry


def lines(fields):
    """JSON with a line for each field, and for each item of a field that holds several things."""
    def shown(value):
        if isinstance(value, dict):
            return "{\n" + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list) and value and not isinstance(value[0], int):
            return "[\n" + ",\n".join(f"    {json.dumps(v)}" for v in value) + "]"
        return json.dumps(value)
    return "{" + ",\n ".join(f"{json.dumps(name)}: {shown(value)}" for name, value in fields.items()) + "}\n"
