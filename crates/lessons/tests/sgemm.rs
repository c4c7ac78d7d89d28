//! Every step of SGEMM: every element right at shapes that fill tiles and at shapes that do not,
//! and nothing found by the checkers.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_harness::Setup;
use warpwright_testing::one_in;

use crate::named;
use crate::walk::{emulators, run_product};

fn steps() -> Vec<&'static str> {
    named("sgemm-ladder").workload().ladder().expect("SGEMM has a ladder").steps
}

fn run(device: &Device, shape: (u32, u32, u32), others: &[(&str, &str)]) {
    run_product(named("sgemm-ladder").workload(), device, shape, others);
}

/// Whether a step can do a shape on a device: TMA has its own needs.
fn can(device: &Device, step: &str, (_, n, k): (u32, u32, u32)) -> bool {
    step != "tma" || device.name() == "emu:h200" && n.is_multiple_of(4) && k.is_multiple_of(4)
}

#[test]
fn every_step_is_right_at_every_shape() {
    let shapes = [
        (1, 1, 1),
        (1, 4, 4),
        (2, 3, 5),
        (31, 33, 17),
        (64, 64, 64),
        (128, 128, 16),
        (129, 132, 20),
        (1, 300, 40),
        (300, 1, 40),
        (5, 8, 516),
        (130, 136, 1),
    ];
    for device in emulators(&[Schedule::Eager]) {
        for step in steps() {
            for shape in shapes.into_iter().filter(|shape| can(&device, step, *shape)) {
                run(&device, shape, &[("step", step)]);
            }
        }
    }
}

#[test]
fn every_step_is_right_where_no_extent_is_even() {
    for device in emulators(&[Schedule::Eager]) {
        for step in ["coalesced", "vectorized", "warp-tile", "double-buffered"] {
            run(&device, (333, 517, 129), &[("step", step), ("alpha", "1.5"), ("beta", "-0.5")]);
        }
    }
    let h200 = Device::named("emu:h200").expect("emulators are always there");
    run(&h200, (333, 516, 132), &[("step", "tma"), ("alpha", "1.5"), ("beta", "-0.5")]);
}

#[test]
fn the_checkers_find_nothing_in_any_step() {
    for device in emulators(&[Schedule::Eager, Schedule::Latest, Schedule::Random(6)]) {
        let checked = device.checked().expect("emulators check");
        let shapes = [(66, 70, 35), (132, 136, 72)];
        let cases = steps().into_iter().flat_map(|step| shapes.map(|shape| (step, shape)));
        for (step, shape) in one_in(5, cases) {
            if can(&checked, step, shape) {
                run(&checked, shape, &[("step", step)]);
            }
        }
    }
}

#[test]
fn bank_conflicts_are_those_that_the_steps_state() {
    let device = Device::named("emu:h200").expect("it is there").counted().expect("emulators count");
    let kernel = named("sgemm-ladder").workload();
    let conflicts = |step: &str| {
        let mut options = kernel.clone();
        for (name, value) in [("m", "128"), ("n", "256"), ("k", "64"), ("step", step)] {
            options.set(name, value).expect("a value");
        }
        let mut prepared = options.prepare(&Setup::new(&device)).expect("it is ready");
        device.take_counters();
        prepared.launch(&device.stream().expect("a stream")).expect("it runs");
        device.take_counters().iter().map(|launch| launch.total().counts.shared.conflicts()).sum::<u64>()
    };
    for step in ["naive", "coalesced", "shared", "column", "warp-tile", "double-buffered", "tma"] {
        assert_eq!(conflicts(step), 0, "{step}");
    }
    // Two CTAs of 8 warps, 64 k, 8 loads: 16 lanes 8 columns apart are in 4 banks, which makes 4
    // passes of one; the 2 rows of a warp are 64 words apart, in one bank.
    assert_eq!(conflicts("coalesced-copies"), 2 * 8 * 64 * 8 * (3 + 1));
    // Four slices: 8 stores of A at which 4 lanes meet in a bank, 3 passes more each; and 32 loads
    // of B, of which each quarter of a warp takes 2 passes for 8 vectors 32 bytes apart.
    assert_eq!(conflicts("vectorized"), 2 * 8 * 4 * (8 * 3 + 32 * 4));
}
