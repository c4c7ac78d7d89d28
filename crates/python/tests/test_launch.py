"""Launches on arrays of the host and on buffers."""

import os

import ml_dtypes
import numpy as np
import pytest
import warpwright as ww
from kernels import AXPY, HAND_OVER, HEADER, KINDS, RACE


@pytest.fixture(params=["eager", ("eager", "latest", "random:7")])
def device(request):
    return ww.Device("emu:h200", check=True, schedules=request.param)


def test_a_kernel_computes_on_numpy_arrays(device):
    axpy = device.load(AXPY)["axpy"]
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    total = np.empty_like(x)
    counts = axpy.launch(8, 128, 2.0, x, y, total, 1000)
    np.testing.assert_array_equal(total, 2 * x + 1)
    assert counts.warp_instructions > 32 * 4
    assert list(device.load(AXPY)) == ["axpy"]


def test_a_path_is_loaded(device, tmp_path):
    (tmp_path / "axpy.ptx").write_text(AXPY)
    assert "axpy" in device.load(tmp_path / "axpy.ptx")
    assert "axpy" in device.load(str(tmp_path / "axpy.ptx"))


def test_views_that_share_memory_are_one(device):
    axpy = device.load(AXPY)["axpy"]
    whole = np.arange(96, dtype=np.float32)
    axpy.launch(1, 32, 1.0, whole[:32], whole[16:48], whole[64:], 32)
    np.testing.assert_array_equal(whole[64:], np.arange(32) + np.arange(16, 48))
    np.testing.assert_array_equal(whole[:64], np.arange(64))


def test_a_read_only_array_is_an_input(device):
    axpy = device.load(AXPY)["axpy"]
    x, total = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    x.flags.writeable = False
    axpy.launch(1, 32, 1.0, x, x, total, 32)
    np.testing.assert_array_equal(total, 2 * x)
    with pytest.raises(ww.ReadOnlyError, match="kernel `axpy` wrote an array that is read-only"):
        axpy.launch(1, 32, 1.0, total, total, x, 32)
    np.testing.assert_array_equal(x, np.arange(32))


def test_negative_strides_begin_at_their_first_element(device):
    ptx = AXPY.replace("add.u64 %rd4, %rd0, %rd3", "sub.u64 %rd4, %rd0, %rd3")
    axpy = device.load(ptx)["axpy"]
    x, zero, total = np.arange(32, dtype=np.float32)[::-1], np.zeros(32, np.float32), np.zeros(32, np.float32)
    axpy.launch(1, 32, 1.0, x, zero, total, 32)
    np.testing.assert_array_equal(total, x)


class ByDlpack:
    """A tensor of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_a_tensor_of_another_library_is_used_in_place(device):
    axpy = device.load(AXPY)["axpy"]
    x = np.arange(32, dtype=np.float32)
    total = np.zeros(32, np.float32)
    axpy.launch(1, 32, 1.0, ByDlpack(x), x, ByDlpack(total), 32)
    np.testing.assert_array_equal(total, 2 * x)


class ByOldDlpack(ByDlpack):
    """A tensor whose capsule cannot say whether it is read-only."""

    def __dlpack__(self):
        return self.array.__dlpack__()


def test_a_tensor_of_dlpack_before_version_1_is_read_only(device):
    axpy = device.load(AXPY)["axpy"]
    x, total = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    axpy.launch(1, 32, 1.0, ByOldDlpack(x), x, total, 32)
    np.testing.assert_array_equal(total, 2 * x)
    with pytest.raises(ww.ReadOnlyError):
        axpy.launch(1, 32, 1.0, x, x, ByOldDlpack(np.zeros(32, np.float32)), 32)


def test_types_that_numpy_lacks_keep_their_bits(device):
    copy = HAND_OVER
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        x = np.arange(128 // np.dtype(dtype).itemsize).astype(dtype)
        y = np.zeros_like(x)
        device.load(copy)["hand_over"].launch(1, 64, x, y)
        np.testing.assert_array_equal(x, y)


def test_scalars_follow_the_parameters(device):
    kinds = device.load(KINDS)["kinds"]
    out = np.zeros(6, np.uint32)
    kinds.launch(1, 1, out, -3, 0.5, np.float16(1.5), bytes(8) + b"\x07\0\0\0" + bytes(4))
    assert out[0] == 2**32 - 3 and out[2:4].view(np.float64)[0] == 0.5
    assert out[4] == 0x3E00 and out[5] == 7
    kinds.launch(1, 1, out, np.int32(1), np.float64("nan"), ww.Scalar("bfloat16", 1.5), bytes(16))
    assert out[0] == 1 and np.isnan(out[2:4].view(np.float64)[0]) and out[4] == 0x3FC0
    kinds.launch(1, 1, out, True, 2, ml_dtypes.bfloat16(1.5), bytes(16))
    assert out[2:4].view(np.float64)[0] == 2 and out[4] == 0x3FC0


def test_buffers_stay_on_the_device(device):
    axpy = device.load(AXPY)["axpy"]
    x, total = device.array(np.ones(64, np.float32)), device.empty(64)
    axpy.launch(1, 64, 1.0, x, x, total, 64)
    axpy.launch(1, 64, 1.0, x, total, total, 64)
    np.testing.assert_array_equal(total.numpy(), np.full(64, 3, np.float32))
    with pytest.raises(ww.FindingsError, match="uninitialized"):
        device.empty(64).numpy()


def test_a_race_is_found_with_both_accesses(device):
    x, y = np.ones(32, np.uint32), np.zeros(32, np.uint32)
    device.load(HAND_OVER)["hand_over"].launch(1, 64, x, y)
    with pytest.raises(ww.FindingsError, match=r"error\[race\]: nothing orders a write and a read") as caught:
        device.load(RACE)["hand_over"].launch(1, 64, x, y)
    (finding,) = caught.value.findings
    assert (finding.code, finding.kernel) == ("race", "hand_over")
    read, written = finding.accesses
    assert "read by warp 1" in read.text and "write by warp 0" in written.text
    assert read.ptx.startswith("ld.shared") and written.ptx.startswith("st.shared")
    assert finding.schedules[0] == "eager" and finding.json["code"] == "race"


def test_a_fault_says_where_and_the_device_goes_on(device):
    axpy = device.load(AXPY)["axpy"]
    x, total = np.ones(32, np.float32), np.zeros(32, np.float32)
    with pytest.raises(ww.FaultError) as caught:
        axpy.launch(1, 64, 1.0, x, x, total, 64)
    (finding,) = caught.value.findings
    assert finding.code == "out-of-bounds" and finding.accesses[0].ptx.startswith("ld.global")
    axpy.launch(1, 32, 1.0, x, x, total, 32)
    np.testing.assert_array_equal(total, 2 * x)


def test_a_kernel_prints_to_standard_output(device, capsys):
    ptx = (
        HEADER
        + """
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[7] = {104, 101, 108, 108, 111, 10, 0};
.visible .entry hello()
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<1>;
    mov.u64 %rd0, text;
    cvta.global.u64 %rd0, %rd0;
    mov.u64 %rd1, 0;
    {
    .param .b64 format;
    st.param.b64 [format], %rd0;
    .param .b64 values;
    st.param.b64 [values], %rd1;
    .param .b32 result;
    call.uni (result), vprintf, (format, values);
    ld.param.b32 %r0, [result];
    }
    ret;
}
"""
    )
    device.load(ptx)["hello"].launch(1, 1)
    assert capsys.readouterr().out.startswith("hello\n")


def test_a_gpu_computes_the_same():
    try:
        device = ww.Device("cuda:0")
    except ww.DeviceError as error:
        if os.environ.get("WARPWRIGHT_REQUIRE_GPU"):
            raise
        pytest.skip(str(error))
    axpy = device.load(AXPY)["axpy"]
    whole = np.arange(96, dtype=np.float32)
    axpy.launch(1, 32, 1.0, whole[1:33], whole[16:48], whole[64:], 32)
    np.testing.assert_array_equal(whole[64:], np.arange(1, 33) + np.arange(16, 48))
    buffer = device.array(np.ones(32, np.float32))
    axpy.launch(1, 32, 1.0, buffer, buffer, buffer, 32)
    np.testing.assert_array_equal(buffer.numpy(), 2)
    assert device.load(RACE)["hand_over"].check(1, 64, np.ones(32, np.uint32), np.ones(32, np.uint32))[0].code == "race"


def test_the_verbs_of_a_kernel_leave_its_arguments():
    device = ww.Device("emu:h200")
    axpy = device.load(AXPY)["axpy"]
    x, total = device.array(np.ones(4096, np.float32)), np.zeros(4096, np.float32)
    assert axpy.check(32, 128, 1.0, x, x, total, 4096) == []
    prediction = axpy.time(32, 128, 1.0, x, x, total, 4096)
    assert 0.5 < prediction.microseconds < 20 and prediction.cycles > 100
    assert prediction.lines[0].cycles >= prediction.lines[-1].cycles and "axpy: " in str(prediction)
    report = axpy.report(32, 128, 1.0, x, x, total, 4096)
    loads = [line for line in report.lines if line["counts"]["counts"]["global_loads"]["requests"]]
    assert len(loads) == 2 and "axpy" in str(report)
    assert not total.any()
    (finding,) = device.load(RACE)["hand_over"].check(1, 64, np.ones(32, np.uint32), np.ones(32, np.uint32))
    assert finding.schedules == ww.SCHEDULES
