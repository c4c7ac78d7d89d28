//! The ladder of Blackwell lessons: every step is correct at every kind of shape and schedule,
//! without findings, assembles without spills, and refuses unsupported shapes by name.

use std::marker::PhantomData;

use warpwright::arch::{Arch, Capability};
use warpwright::emulator::Schedule;
use warpwright::lang::element::bf16;
use warpwright::runtime::{Device, ptx};
use warpwright_harness::{DynWorkload, Prepared, Result, Setup};
use warpwright_lessons::blackwell::{
    core_matrices, launch_control, nvfp4, pair, persistent, scalar, specialized, stages, swizzled, tma_store,
};
use warpwright_lessons::error::LessonError;
use warpwright_testing::one_in;
use warpwright_testing::ptxas::Assembler;

use crate::named;

fn ladder() -> Box<dyn DynWorkload> {
    named("blackwell-ladder").workload()
}

fn steps() -> Vec<&'static str> {
    let specs = ladder().specs();
    specs.iter().find(|spec| spec.name == "step").expect("there are steps").choices()
}

/// The workload with these extents and further options.
fn with(
    mut workload: Box<dyn DynWorkload>,
    (m, n, k): (u32, u32, u32),
    more: &[(&str, &str)],
) -> Box<dyn DynWorkload> {
    let extents = [("m", m), ("n", n), ("k", k)].map(|(name, extent)| (name, extent.to_string()));
    let extents = extents.iter().map(|(name, extent)| (*name, extent.as_str()));
    for (name, value) in extents.chain(more.iter().copied()) {
        workload.set(name, value).expect("a value of the option");
    }
    workload
}

fn prepare(device: &Device, step: &str, shape: (u32, u32, u32), element: &str) -> Result<Box<dyn Prepared>> {
    with(ladder(), shape, &[("step", step), ("element", element)]).prepare(&Setup::new(device))
}

fn run(device: &Device, step: &str, shape: (u32, u32, u32), element: &str) {
    let workload = with(ladder(), shape, &[("step", step), ("element", element)]);
    launch(device, workload.as_ref());
}

/// Launches once and compares every element.
fn launch(device: &Device, workload: &dyn DynWorkload) {
    let name = || format!("{} {}on {}", workload.name(), workload.flags_without(""), device.name());
    let failed = |error| -> ! { panic!("{}: {error}", name()) };
    let mut prepared = workload.prepare(&Setup::new(device)).unwrap_or_else(|error| failed(error));
    let stream = device.stream().unwrap_or_else(|error| failed(error.into()));
    prepared.launch(&stream).unwrap_or_else(|error| failed(error));
    let verified = prepared.verify().unwrap_or_else(|error| failed(error));
    assert!(verified.elements > 0, "{}: nothing was compared", name());
}

fn device(schedule: Schedule) -> Device {
    Device::with_schedule("emu:b200", schedule).expect("emulators are always there")
}

const SCHEDULES: [Schedule; 3] = [Schedule::Eager, Schedule::Latest, Schedule::Random(5)];

/// One row; less than a tile; more k-blocks than stages, and a remainder in every direction.
const SHAPES: [(u32, u32, u32); 3] = [(1, 8, 8), (130, 264, 72), (64, 40, 520)];

/// A step's nearest shape: one step divides rows into spans.
fn supported(step: &str, (m, n, k): (u32, u32, u32)) -> (u32, u32, u32) {
    if step == "v2b" { (m, n, k.next_multiple_of(64)) } else { (m, n, k) }
}

#[test]
fn every_step_is_right_and_clean() {
    let cases = SCHEDULES.into_iter().flat_map(|schedule| SHAPES.map(|shape| (schedule, shape)));
    for ((schedule, shape), step) in
        one_in(5, cases.flat_map(|case| steps().into_iter().map(move |step| (case, step))))
    {
        let device = device(schedule).checked().expect("emulators can check");
        run(&device, step, supported(step, shape), "bf16");
    }
}

/// More tiles than pairs of SMs, so that persistent pairs alternate their accumulators.
#[test]
#[ignore = "seconds long: 300 tiles"]
fn steps_that_stay_walk_over_all_tiles() {
    let steps = steps();
    for step in steps.iter().skip_while(|step| **step != "v6") {
        run(&device(Schedule::Latest), step, (260, 38_400, 72), "bf16");
    }
}

#[test]
fn steps_multiply_f16() {
    one_in(5, steps()).for_each(|step| run(&device(Schedule::Eager), step, (40, 80, 64), "f16"));
}

#[test]
fn shapes_that_a_step_does_not_support_are_refused_by_name() {
    let refused = |step, shape| match prepare(&device(Schedule::Eager), step, shape, "bf16") {
        Ok(_) => panic!("{step} {shape:?} was taken"),
        Err(error) => match error.downcast_ref::<LessonError>() {
            Some(LessonError::NotMultiple { option, multiple, extent, .. }) => {
                (*option, *multiple, *extent, error.to_string())
            }
            _ => panic!("{error}"),
        },
    };
    for step in steps() {
        let (option, multiple, extent, _) = refused(step, (64, 63, 64));
        assert_eq!((option, multiple, extent), ("n", 8, 63));
        if step != "scalar" {
            let (option, _, extent, _) = refused(step, (64, 64, 12));
            assert_eq!((option, extent), ("k", 12));
        }
    }
    assert_eq!(
        refused("v2b", (64, 64, 72)).3,
        "step v2b divides rows of A and B into spans of 128 bytes: make --k a multiple of 64; 72 is not one"
    );
}

/// One tile and less, several k-blocks, and remainders in every direction.
#[test]
fn elements_of_4_bits_with_scales_multiply() {
    let shapes = [(40, 72, 96), (130, 264, 1312), (1, 8, 32), (256, 512, 512)];
    let cases = SCHEDULES.into_iter().flat_map(|schedule| shapes.map(|shape| (schedule, shape)));
    for (schedule, shape) in one_in(7, cases) {
        let device = device(schedule).checked().expect("emulators can check");
        launch(&device, with(named("blackwell-nvfp4").workload(), shape, &[]).as_ref());
    }
}

/// The PTX of every step for an architecture.
fn texts(capability: &'static Capability) -> Vec<(&'static str, String)> {
    let element = PhantomData::<bf16>;
    macro_rules! texts {
        ($($name:literal $kernel:expr;)*) => {
            vec![$(($name, ptx(&$kernel.run().expect("it is staged"), capability).expect("it is verified"))),*]
        };
    }
    texts! {
        "scalar" scalar::Scalar { element };
        "v1a" core_matrices::CoreMatrices { one_box: false, element };
        "v1b" core_matrices::CoreMatrices { one_box: true, element };
        "v2a" swizzled::Swizzled { one_box: false, element };
        "v2b" swizzled::Swizzled { one_box: true, element };
        "v3" stages::Staged { element };
        "v4" specialized::Specialized { element };
        "v5" pair::Pair { element };
        "v6" persistent::Persistent { group: 1, element };
        "grouped" persistent::Persistent { group: 8, element };
        "tma-store" tma_store::TmaStored { group: 8, element };
        "launch-control" launch_control::LaunchControlled { group: 8, element };
        "nvfp4" nvfp4::Nvfp4;
    }
}

#[test]
fn the_assembler_takes_every_step_without_spills() {
    let Some(assembler) = Assembler::from_environment() else { return };
    for arch in one_in(2, ["b200", "b300"]) {
        let capability = Arch::named(arch).expect("it is known").capability;
        let texts = texts(capability);
        assert_eq!(texts.len(), steps().len() + 1);
        for (step, text) in texts {
            let assembled = assembler.assemble_without_spills(capability.target, &text);
            assembled.unwrap_or_else(|error| panic!("{step} for {}: {error}", capability.target));
        }
    }
}

/// An SM of a B200 multiplies and adds 4096 pairs of bf16 a cycle (2.25 PFLOP/s, 148 SMs, 1.85 GHz); a pair's
/// multiplication takes the tensor cores of both of its SMs.
#[test]
fn every_step_keeps_the_tensor_cores_busy_for_its_operations() {
    let device = Device::named("emu:b200").and_then(Device::timed).expect("emulators are always there");
    let (m, n, k) = (256, 512, 512);
    for step in steps() {
        run(&device, step, (m, n, k), "bf16");
        let predictions = device.take_predictions();
        let [prediction] = predictions.as_slice() else { panic!("{step} is one launch") };
        let sms = f64::from(Setup::new(&device).sm_count());
        let busy = prediction.tensor_busy * prediction.cycles as f64 * sms;
        let expected = f64::from(m) * f64::from(n) * f64::from(k) / 4096.0;
        assert!((busy / expected - 1.0).abs() < 1e-3, "{step}: {busy} cycles of SMs, not {expected}");
    }
}
