"""Misuse: each case is an error that names the cause, and the process goes on."""

import os
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
import warpwright as ww
from kernels import AXPY, ENDLESS, HEADER, KINDS, RACE

MAP = HEADER.replace("sm_80", "sm_90") + ".visible .entry mapped(.param .align 64 .b8 map[128])\n{\n    ret;\n}\n"
DEADLOCK = (
    HEADER.replace("sm_80", "sm_90")
    + """
.visible .entry stuck()
{
    .shared .align 8 .b64 barrier;
    .reg .pred %p<1>;
    .reg .b64 %rd<1>;
    mbarrier.init.shared.b64 [barrier], 2;
    mbarrier.arrive.shared.b64 %rd0, [barrier];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p0, [barrier], 0;
    @!%p0 bra WAIT;
    ret;
}
"""
)


class Tools:
    """What the cases use; kernels are loaded once."""

    def __init__(self):
        self.device = ww.Device("emu:h200")
        self.other = ww.Device("emu:h200")
        self.modules = {}
        self.x = np.ones(32, np.float32)

    def kernel(self, ptx, name):
        return self.modules.setdefault(name, self.device.load(ptx))[name]

    def axpy(self, *arguments, grid=1, block=32, **shape):
        return self.kernel(AXPY, "axpy").launch(grid, block, *arguments, **shape)

    def shaped(self, **shape):
        return self.axpy(1.0, self.x, self.x, self.x.copy(), 32, **shape)

    def kinds(self, *, count=1, scale=1.0, half=np.float16(1), pair=bytes(16), out=None):
        out = np.zeros(6, np.uint32) if out is None else out
        return self.kernel(KINDS, "kinds").launch(1, 1, out, count, scale, half, pair)

    def mapped(self, array=None, **fields):
        array = np.zeros((64, 64), np.float32) if array is None else array
        fields = {"dtype": "f32", "dims": [64, 64], "strides_bytes": [256], "box": [32, 32]} | fields
        return self.kernel(MAP, "mapped").launch(1, 32, ww.TensorMap(array, **fields))

    def half_written(self):
        buffer = self.device.array(self.x)
        with pytest.raises(ww.FaultError):
            self.axpy(1.0, self.x, self.x, buffer, 64, block=64)
        return buffer

    def freed(self):
        buffer = self.device.array(self.x)
        buffer.free()
        buffer.free()
        return buffer


class Dlpack:
    """A tensor of another library."""

    def __init__(self, device=(1, 0), capsule=None):
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


CASES = [
    # Devices.
    (lambda t: ww.Device("emu:h2000"), ww.DeviceError, "unknown device `emu:h2000`; use `auto`"),
    (lambda t: ww.Device("gpu:0"), ww.DeviceError, "unknown device `gpu:0`"),
    (lambda t: ww.Device("emu:"), ww.DeviceError, "unknown device `emu:`"),
    (lambda t: ww.Device("cuda:x"), ww.DeviceError, "unknown device `cuda:x`"),
    (lambda t: ww.Device("cuda:99"), ww.DeviceError, "no GPU is available|does not exist"),
    (lambda t: ww.Device("cuda:99", check=True), ww.DeviceError, "no GPU is available|does not exist"),
    (lambda t: ww.Device(7), TypeError, "name"),
    (lambda t: ww.Device("emu:h200", schedules=[]), ww.ArgumentError, "`schedules` is empty"),
    (lambda t: ww.Device("emu:h200", schedules="soon"), ww.ArgumentError, 'the schedule is "soon": expected `eager`'),
    (lambda t: ww.Device("emu:h200", schedules=["random:x"]), ww.ArgumentError, "`random:SEED` with an integer"),
    (lambda t: ww.Device("emu:h200", schedules=["latest", "latest"]), ww.ArgumentError, "is named twice"),
    (lambda t: ww.Device("emu:h200", schedules=[1]), TypeError, "schedules"),
    (lambda t: ww.Device("emu:h200", limit="soon"), ww.ArgumentError, '`limit` is "soon": expected a time such as `60s`'),
    (lambda t: ww.Device("emu:h200", limit=0), ww.ArgumentError, "more than 0"),
    (lambda t: ww.Device("emu:h200", limit=-1), ww.ArgumentError, '`limit` is "-1"'),
    # PTX.
    (lambda t: t.device.load("nothing.ptx"), ww.WarpwrightError, "nothing.ptx cannot be read: No such file"),
    (lambda t: t.device.load("/"), ww.WarpwrightError, "/ cannot be read: Is a directory"),
    (lambda t: t.device.load("/bin/true"), ww.PtxError, "is not a text file; a cubin cannot be emulated"),
    (lambda t: t.device.load(5), ww.ArgumentError, "PTX is a int; pass its text, or the path of a file"),
    (lambda t: t.device.load(None), ww.ArgumentError, "PTX is a NoneType"),
    (lambda t: t.device.load(b".version 8.0"), ww.ArgumentError, "PTX is a bytes"),
    (lambda t: t.device.load("hello\nworld"), ww.PtxError, "invalid PTX"),
    (lambda t: t.device.load(AXPY.replace("ld.param.f32 %f0", "ld.param.f32 %f99")), ww.PtxError, "%f99"),
    (lambda t: t.device.load(AXPY.replace("fma.rn", "fmx.rn")), ww.PtxError, "fmx"),
    (lambda t: t.device.load(AXPY.replace("sm_80", "sm_100a")), ww.PtxError, "sm_100a"),
    (lambda t: t.device.load(AXPY)["axpi"], ww.UnknownKernelError, "has no kernel `axpi`; its kernels are `axpy`"),
    (lambda t: t.device.load(AXPY)["axpi"], KeyError, "axpi"),
    (lambda t: t.device.load(AXPY)[3], TypeError, "name"),
    # Numbers of arguments.
    (lambda t: t.axpy(), ww.ArgumentError, "takes 5 arguments, and the launch passes 0: `a` is a 4-byte float"),
    (lambda t: t.axpy(1.0, t.x), ww.ArgumentError, "takes 5 arguments, and the launch passes 2"),
    (lambda t: t.axpy(*[1] * 6), ww.ArgumentError, "takes 5 arguments, and the launch passes 6"),
    (lambda t: t.kernel(ENDLESS, "endless").launch(1, 1, 3), ww.ArgumentError, "passes 1: it takes none"),
    # Arguments of the wrong kind.
    (lambda t: t.axpy(t.x, t.x, t.x, t.x, 32), ww.ArgumentError, r"argument 0 of kernel `axpy` \(parameter `a` is a 4-byte float\)"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, t.x), ww.ArgumentError, "`length` is a 4-byte integer.*passes a ndarray"),
    (lambda t: t.axpy(1.0, "x", t.x, t.x, 32), ww.ArgumentError, r"argument 1 .*a str is no array"),
    (lambda t: t.axpy(1.0, [1.0] * 32, t.x, t.x, 32), ww.ArgumentError, "a list is no array; pass a NumPy array"),
    (lambda t: t.axpy(1.0, {}, t.x, t.x, 32), ww.ArgumentError, "a dict is no array"),
    (lambda t: t.axpy(1.0, memoryview(t.x), t.x, t.x, 32), ww.ArgumentError, "a memoryview is no array"),
    (lambda t: t.axpy(1.0, 1.5, t.x, t.x, 32), ww.ArgumentError, "`x` is an 8-byte integer or a pointer.*the float 1.5"),
    (lambda t: t.axpy(1.0, np.float64(1), t.x, t.x, 32), ww.ArgumentError, "`x` is .*passes a float64"),
    (lambda t: t.axpy(1.0, np.array([None] * 32), t.x, t.x, 32), ww.ArgumentError, "an array of Python objects"),
    (lambda t: t.axpy(1.0, t.x.astype(">f4"), t.x, t.x, 32), ww.ArgumentError, "big-endian elements"),
    (lambda t: t.axpy(1j, t.x, t.x, t.x, 32), ww.ArgumentError, "a complex is no array"),
    (lambda t: t.axpy(1.0, b"12345", t.x, t.x, 32), ww.ArgumentError, "a structure of 5 bytes"),
    (lambda t: t.axpy(None, t.x, t.x, t.x, 32), ww.ArgumentError, "`a` is a 4-byte float.*passes a NoneType"),
    (lambda t: t.axpy(1.0, ww, t.x, t.x, 32), ww.ArgumentError, "a module is no array"),
    # Scalars of the wrong type or size.
    (lambda t: t.axpy(np.float64(1), t.x, t.x, t.x, 32), ww.ArgumentError, "`a` is a 4-byte float.*a float64 of 8 bytes"),
    (lambda t: t.axpy(np.int32(1), t.x, t.x, t.x, 32), ww.ArgumentError, "`a` is a 4-byte float.*passes a int32"),
    (lambda t: t.axpy(ml_dtypes.bfloat16(1), t.x, t.x, t.x, 32), ww.ArgumentError, "a bfloat16 of 2 bytes"),
    (lambda t: t.axpy(1e300, t.x, t.x, t.x, 32), ww.ArgumentError, "1e\\+300 is out of the range of float32"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, 32.0), ww.ArgumentError, "`length` is a 4-byte integer.*the float 32.0"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, np.int64(32)), ww.ArgumentError, "a int64 of 8 bytes"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, np.float32(32)), ww.ArgumentError, "`length` .*passes a float32"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, float("nan")), ww.ArgumentError, "the float nan; pass an integer"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, 2**32), ww.ArgumentError, "4294967296 does not fit into 4 bytes"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, -(2**31) - 1), ww.ArgumentError, "does not fit into 4 bytes"),
    (lambda t: t.axpy(1.0, 2**64, t.x, t.x, 32), ww.ArgumentError, "does not fit into 8 bytes"),
    (lambda t: t.axpy(1.0, t.x, t.x, t.x, np.array(32)), ww.ArgumentError, "`length` .*passes a ndarray"),
    (lambda t: t.kinds(half=1.5), ww.ArgumentError, "`half` is 2 bytes.*several types; pass `numpy.float16"),
    (lambda t: t.kinds(half=np.float32(1.5)), ww.ArgumentError, "`half` is 2 bytes.*a float32 of 4 bytes"),
    (lambda t: t.kinds(half=70000), ww.ArgumentError, "70000 does not fit into 2 bytes"),
    (lambda t: t.kinds(scale=np.float32(1)), ww.ArgumentError, "`scale` is a 8-byte float.*a float32 of 4 bytes"),
    (lambda t: t.kinds(scale="1"), ww.ArgumentError, "`scale` .*a str is no array"),
    (lambda t: t.kinds(pair=bytes(15)), ww.ArgumentError, "`pair` is a structure of 16 bytes.*of 15 bytes"),
    (lambda t: t.kinds(pair=7), ww.ArgumentError, "`pair` .*the integer 7; pass 16 bytes"),
    (lambda t: t.kinds(pair=t.x), ww.ArgumentError, "`pair` is a structure"),
    (lambda t: t.kinds(out=1.0), ww.ArgumentError, "`out` is a pointer.*the float 1.0"),
    (lambda t: t.kinds(out=np.float64(1)), ww.ArgumentError, "`out` is a pointer.*passes a float64"),
    (lambda t: ww.Scalar("float33", 1), ww.ArgumentError, "no element type 'float33'"),
    (lambda t: ww.Scalar("int8", 300), ww.ArgumentError, "300 is out of the range of int8"),
    (lambda t: ww.Scalar("uint8", -1), ww.ArgumentError, "-1 is out of the range of uint8"),
    (lambda t: ww.Scalar("float16", 1e9), ww.ArgumentError, "is no float16"),
    (lambda t: ww.Scalar("float32", "one"), ww.ArgumentError, "'one' is no float32"),
    (lambda t: ww.Scalar("int32", 1.5), ww.ArgumentError, "1.5 cannot be converted to int32"),
    (lambda t: ww.Scalar("float8_e4m3fn", 1.0), ww.ArgumentError, "pass its bits as bytes"),
    (lambda t: ww.Scalar("int32", bytes(3)), ww.ArgumentError, "a int32 has 4 bytes, not 3"),
    # Tensors of other libraries.
    (lambda t: t.axpy(1.0, Dlpack((2, 0)), t.x, t.x, 32), ww.ArgumentError, "this Dlpack is in the memory of a GPU"),
    (lambda t: t.axpy(1.0, Dlpack((8, 0)), t.x, t.x, 32), ww.ArgumentError, "on a device of DLPack's kind 8"),
    (lambda t: t.axpy(1.0, Dlpack(capsule=3), t.x, t.x, 32), AttributeError, "`__dlpack__` returns no capsule"),
    (lambda t: t.axpy(1.0, Dlpack(capsule=BufferError("needs a copy")), t.x, t.x, 32), BufferError, "needs a copy"),
    (lambda t: t.axpy(1.0, Dlpack(device=5), t.x, t.x, 32), TypeError, "tuple"),
    # Shapes.
    (lambda t: t.shaped(grid=0), ww.LaunchError, "the grid's x extent is 0"),
    (lambda t: t.shaped(grid=-1), ww.ArgumentError, "`grid` has an extent of -1"),
    (lambda t: t.shaped(grid=2**33), ww.ArgumentError, "`grid` has an extent of 8589934592"),
    (lambda t: t.shaped(grid=2**31), ww.LaunchError, "the grid's x extent is 2147483648"),
    (lambda t: t.shaped(grid=(1, 65536)), ww.LaunchError, "the grid's y extent is 65536"),
    (lambda t: t.shaped(grid=(1, 2, 3, 4)), ww.ArgumentError, "`grid` has 4 extents; give one to three"),
    (lambda t: t.shaped(grid=()), ww.ArgumentError, "`grid` has 0 extents"),
    (lambda t: t.shaped(grid="1"), ww.ArgumentError, "`grid` is '1'; give integers"),
    (lambda t: t.shaped(grid=1.5), ww.ArgumentError, "`grid` is 1.5; give integers"),
    (lambda t: t.shaped(grid=None), ww.ArgumentError, "`grid` is None; give integers"),
    (lambda t: t.shaped(block=0), ww.LaunchError, "the block's x extent is 0"),
    (lambda t: t.shaped(block=1025), ww.LaunchError, "1025"),
    (lambda t: t.shaped(block=(1024, 2)), ww.LaunchError, "2048 threads"),
    (lambda t: t.shaped(block=(1, 1, 65)), ww.LaunchError, "the block's z extent is 65"),
    (lambda t: t.shaped(cluster=17), ww.LaunchError, "the cluster's x extent is 17"),
    (lambda t: t.shaped(grid=3, cluster=2), ww.LaunchError, "not a multiple of the cluster's, 2"),
    (lambda t: t.shaped(shared=2**20), ww.LaunchError, "dynamic shared memory"),
    (lambda t: t.shaped(shared=-1), ww.ArgumentError, "`shared` is -1; give a number of bytes"),
    (lambda t: t.shaped(shared="1"), ww.ArgumentError, "`shared` is '1'"),
    (lambda t: t.shaped(grid=100000, cooperative=True), ww.LaunchError, "a cooperative grid of 100000 CTAs exceeds"),
    (lambda t: t.shaped(bank=3), TypeError, "bank"),
    # Memory.
    (lambda t: t.device.empty(1 << 50), ww.OutOfMemoryError, "do not fit into the memory of emu:h200"),
    (lambda t: t.device.empty(1 << 50), MemoryError, "emu:h200"),
    (lambda t: t.device.empty(1 << 70), ww.ArgumentError, "more bytes than there are addresses"),
    (lambda t: t.device.empty(-1), ww.ArgumentError, "a negative extent"),
    (lambda t: t.device.empty((2, -3)), ww.ArgumentError, r"the shape \(2, -3\) has a negative extent"),
    (lambda t: t.device.empty(4, "float33"), TypeError, "float33"),
    (lambda t: t.device.array(t.x).copy_from(t.x[:3]), ww.ArgumentError, r"the array has shape \(3,\)"),
    (lambda t: t.device.array(t.x).copy_from(t.x.astype(int)), ww.ArgumentError, "type int64, and the buffer .* float32"),
    (lambda t: t.freed().numpy(), ww.WarpwrightError, "the buffer was freed"),
    (lambda t: t.freed().copy_from(t.x), ww.WarpwrightError, "the buffer was freed"),
    (lambda t: t.axpy(1.0, t.freed(), t.x, t.x, 32), ww.WarpwrightError, "the buffer was freed"),
    (lambda t: t.axpy(1.0, t.other.array(t.x), t.x, t.x, 32), ww.DeviceError, "belongs to another device"),
    (lambda t: t.half_written().numpy(), ww.HalfWrittenError, "kernel `axpy` could write it and failed"),
    (lambda t: t.axpy(1.0, t.half_written(), t.x, t.x.copy(), 32), ww.HalfWrittenError, "may be half-written"),
    (lambda t: t.axpy(1.0, t.x, t.x, read_only(t.x), 32), ww.ReadOnlyError, "wrote an array that is read-only"),
    (lambda t: t.axpy(1.0, t.device.array(t.x), t.x, t.x, t.device.array(t.x)), ww.ArgumentError, "`length` .*a Buffer"),
    # Tensor maps.
    (lambda t: t.mapped(dtype="float33"), ww.ArgumentError, "no element type `float33`"),
    (lambda t: t.mapped(swizzle="96B"), ww.ArgumentError, "unknown value `96B`; expected one of none, 32B"),
    (lambda t: t.mapped(box=[300, 1]), ww.ArgumentError, "box"),
    (lambda t: t.mapped(strides_bytes=[100]), ww.ArgumentError, "multiple of 16"),
    (lambda t: t.mapped(dims=[64, 65]), ww.ArgumentError, "ends 16640 bytes after the start"),
    (lambda t: t.mapped(array=np.zeros(0)), ww.ArgumentError, "a tensor map of an array without elements"),
    (lambda t: t.mapped(array="x"), ww.ArgumentError, "a str is no array"),
    (lambda t: t.axpy(1.0, ww.TensorMap(t.x, "f32", [32], [32]), t.x, t.x, 3), ww.ArgumentError, "a tensor map, which has 128"),
    # Faults.
    (lambda t: t.axpy(1.0, None, t.x, t.x.copy(), 32), ww.FaultError, "null|address 0x0"),
    (lambda t: t.axpy(1.0, 64, t.x, t.x.copy(), 32), ww.FaultError, "address 0x40"),
    (lambda t: t.axpy(1.0, t.x.view(np.uint8)[2:], t.x, t.x.copy(), 8), ww.FaultError, "misaligned|aligned"),
    (lambda t: t.axpy(1.0, np.zeros(0, np.float32), t.x, t.x.copy(), 32), ww.FaultError, "address"),
    (lambda t: t.axpy(1.0, t.x[:16].copy(), t.x, t.x.copy(), 32), ww.FaultError, "out-of-bounds"),
    (lambda t: t.kernel(DEADLOCK, "stuck").launch(1, 1), ww.FaultError, "deadlock"),
    (lambda t: ww.Device("emu:h200", limit=1000).load(ENDLESS)["endless"].launch(2**31 - 1, 32), ww.FaultError, "limit"),
    (lambda t: ww.Device("emu:h200", limit="50ms").load(ENDLESS)["endless"].launch(1, 32), ww.FaultError, "0.05 s"),
    # The verbs of a kernel, and the verbs of the command.
    (lambda t: t.kernel(RACE, "hand_over").check(1, 64, t.x, t.x, schedules="soon"), ww.ArgumentError, "the schedule is"),
    (lambda t: t.kernel(RACE, "hand_over").check(1, 64, t.x), ww.ArgumentError, "takes 2 arguments"),
    (lambda t: t.kernel(RACE, "hand_over").time(0, 64, t.x, t.x), ww.LaunchError, "grid's x extent is 0"),
    (lambda t: t.kernel(RACE, "hand_over").report(1, 64, t.x, 1.0), ww.ArgumentError, "argument 1"),
    (lambda t: t.kernel(RACE, "hand_over").check(1, 64, t.x, t.x, bank=1), TypeError, "bank"),
    (lambda t: ww.run("gem"), ww.RefusedError, "gemm"),
    (lambda t: ww.run("gemm", m=-1), ww.RefusedError, "'-1' for '--m"),
    (lambda t: ww.run("gemm", device="emu:zzz"), ww.RefusedError, "unknown device `emu:zzz`"),
    (lambda t: ww.time("gemm", lines="x"), ww.RefusedError, "'x' for '--lines"),
    (lambda t: ww.report(3), ww.ArgumentError, "`report` takes the name of a kernel"),
    (lambda t: ww.check("missing.json"), ww.RefusedError, "missing.json cannot be read"),
    (lambda t: ww.rum, AttributeError, "no attribute 'rum'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tools():
    return Tools()


@pytest.mark.parametrize("case", range(len(CASES)))
def test_misuse_is_an_error_that_names_the_cause(case, tools):
    misuse, error, words = CASES[case]
    with pytest.raises(error, match=words):
        misuse(tools)
    total = np.zeros(32, np.float32)
    tools.axpy(2.0, np.ones(32, np.float32), np.ones(32, np.float32), total, 32)
    np.testing.assert_array_equal(total, 3)


def test_there_are_a_hundred():
    assert len(CASES) >= 100


def test_special_numbers_are_passed(tools):
    for number in (float("nan"), float("inf"), -0.0, 1e-45, np.float32("nan")):
        total = np.zeros(1, np.float32)
        tools.axpy(number, np.ones(1, np.float32), np.zeros(1, np.float32), total, 1)
        np.testing.assert_array_equal(total, np.float32(number))


def test_what_a_kernel_needs_outlives_the_names(tools):
    device = ww.Device("emu:h200")
    module = device.load(AXPY)
    kernel, buffer = module["axpy"], device.array(np.ones(32, np.float32))
    del device, module
    kernel.launch(1, 32, 1.0, buffer, buffer, buffer, 32)
    np.testing.assert_array_equal(buffer.numpy(), 2)


def test_threads_launch_at_the_same_time(tools):
    wrong = []

    def work(number):
        x, total = np.full(1000, number, np.float32), np.zeros(1000, np.float32)
        for _ in range(5):
            tools.axpy(2.0, x, x, total, 1000, grid=8, block=128)
            if (total != 3 * number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_to_open_a_device(tools):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            tools.axpy(1.0, tools.x, tools.x, tools.x, 32)
        except ww.DeviceError as error:
            os.write(writer, str(error).encode())
        device = ww.Device("emu:h200")
        total = np.zeros(32, np.float32)
        device.load(AXPY)["axpy"].launch(1, 32, 1.0, tools.x, tools.x, total, 32)
        os._exit(0 if (total == 2).all() else 1)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert b"was opened before this process forked" in os.read(reader, 1000)


def test_findings_are_pickled(tools):
    with pytest.raises(ww.FindingsError) as caught:
        ww.Device("emu:h200", check=True).load(RACE)["hand_over"].launch(1, 64, tools.x, tools.x.copy())
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.findings == caught.value.findings and str(again) == str(caught.value)
