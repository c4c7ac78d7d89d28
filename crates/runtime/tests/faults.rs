//! The state after a kernel fails. A GPU's context does not survive a fault, so these tests run in
//! a process of their own.

use warpwright_runtime::{Device, Error, Function, Launch};

const FAULT: &str = include_str!("ptx/fault.ptx");
const VECTOR: &str = include_str!("ptx/vector.ptx");

fn kernel(device: &Device, text: &str, name: &str) -> Function {
    device.load_ptx(text).expect("the module loads").function(name).expect("the kernel is there")
}

#[test]
fn after_a_fault_the_emulator_goes_on_and_half_written_buffers_say_so() {
    let device = Device::named("emu:h200").expect("the emulator always starts");
    let stream = device.stream().expect("a stream");
    let mut given = device.buffer_from(&[5u32; 4]).expect("it fits");
    let exposed = device.buffer_from(&[6u32; 4]).expect("it fits");
    let other = device.buffer_from(&[7u32; 4]).expect("it fits");
    let _ = exposed.address();

    let stray = kernel(&device, FAULT, "stray");
    let fault = stray.launch(&stream, Launch::new(1, 1), (&mut given,)).expect_err("it writes to nowhere");
    let Error::Fault { .. } = &fault else { panic!("{fault}") };
    assert!(fault.to_string().contains("stray"), "{fault}");

    let marked = |error: Error| match error {
        Error::HalfWritten { kernel } => assert_eq!(kernel, "stray"),
        other => panic!("{other}"),
    };
    marked(given.to_vec().expect_err("half-written"));
    marked(exposed.to_vec().expect_err("the kernel could have had its address"));
    assert_eq!(other.to_vec().expect("the kernel could not reach it"), [7; 4]);

    let add_table = kernel(&device, VECTOR, "add_table");
    marked(add_table.launch(&stream, Launch::new(1, 4), (&mut given,)).expect_err("half-written"));
    let mut host = device.host_buffer::<u32>(4).expect("it fits");
    marked(stream.copy_to_host(&mut host, &given).expect_err("half-written"));

    given.write_at(0, &[1]).expect("writable");
    marked(given.to_vec().expect_err("only in part overwritten"));
    given.copy_from(&[1; 4]).expect("writable");
    add_table.launch(&stream, Launch::new(1, 4), (&mut given,)).expect("the device goes on");
    assert_eq!(given.to_vec().expect("overwritten"), [11, 21, 31, 41]);
}

#[test]
fn after_a_fault_a_gpu_is_lost_and_every_call_says_so() {
    let Some(device) = warpwright_testing::gpu(Device::named("cuda:0")) else { return };
    let stream = device.stream().expect("a stream");
    let mut out = device.buffer_from(&[5u32; 4]).expect("it fits");
    let stray = kernel(&device, FAULT, "stray");
    stray.launch(&stream, Launch::new(1, 1), (&mut out,)).expect("the fault shows later");
    let lost = |error: Error| {
        let message = error.to_string();
        assert!(matches!(error, Error::DeviceLost { .. }), "{message}");
        assert!(message.contains("`stray`") && message.contains("emu:h200"), "{message}");
    };
    lost(stream.synchronize().expect_err("the kernel failed"));
    lost(out.to_vec().expect_err("the context is lost"));
    lost(device.zeros::<u32>(1).expect_err("the context is lost"));
    lost(device.load_ptx(VECTOR).expect_err("the context is lost"));
}
