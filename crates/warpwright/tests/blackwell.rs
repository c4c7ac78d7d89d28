//! The example for Blackwell: right and clean at every schedule, and accepted by the assembler
//! where `WARPWRIGHT_PTXAS` names one.

#[path = "../examples/blackwell_gemm.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod example;

use warpwright::arch::Arch;
use warpwright::runtime::{Device, Schedule, Unit, ptx};
use warpwright_testing::ptxas::Assembler;

fn device(schedule: Schedule) -> Device {
    let device = Device::emulated(Arch::named("b200").expect("it is known"), schedule);
    device.and_then(|device| device.checked()).expect("an emulator checks")
}

#[test]
fn the_example_is_right_and_clean() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2)] {
        for shape in [(128, 128, 64), (128, 256, 576)] {
            let wrong = example::wrong_elements(&device(schedule), shape);
            assert_eq!(wrong.unwrap_or_else(|error| panic!("{schedule:?}:\n{error}")), 0, "{schedule:?}");
        }
    }
}

#[test]
fn the_operations_of_its_tensor_cores_are_counted() {
    let device = Device::emulated(Arch::named("b200").expect("it is known"), Schedule::Eager);
    let device = device.and_then(|device| device.counted()).expect("an emulator counts");
    let (m, n, k) = (128, 256, 192);
    assert_eq!(example::wrong_elements(&device, (m, n, k)).expect("it runs"), 0);
    let total = device.take_counters()[0].total();
    assert_eq!(total.operations.get(&Unit::TensorBf16), Some(&u64::from(2 * m * n * k)));
}

#[test]
fn the_assembler_accepts_the_example() {
    let Some(assembler) = Assembler::from_environment() else { return };
    let kernel = example::BlackwellGemm.run().expect("it is staged");
    let text = ptx(&kernel, device(Schedule::Eager).properties().capability).expect("it is verified");
    assembler.assemble("sm_100a", &text).expect("ptxas accepts the example");
}
