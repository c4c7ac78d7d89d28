//! The ladder of Hopper lessons: every step is correct at every kind of shape and schedule, without
//! findings, and each step refuses unsupported shapes by name.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_harness::{DynWorkload, Prepared, Result, Setup};
use warpwright_lessons::error::LessonError;
use warpwright_testing::one_in;

use crate::named;

fn ladder() -> Box<dyn DynWorkload> {
    named("hopper-ladder").workload()
}

fn steps() -> Vec<&'static str> {
    let specs = ladder().specs();
    specs.iter().find(|spec| spec.name == "step").expect("there are steps").choices()
}

fn workload(step: &str, (m, n, k): (u32, u32, u32), output: &str) -> Box<dyn DynWorkload> {
    let mut workload = ladder();
    let extents = [("m", m), ("n", n), ("k", k)].map(|(name, extent)| (name, extent.to_string()));
    let given = extents.iter().map(|(name, extent)| (*name, extent.as_str()));
    for (name, value) in given.chain([("step", step), ("output", output)]) {
        workload.set(name, value).expect("a value of the option");
    }
    workload
}

fn prepare(device: &Device, step: &str, shape: (u32, u32, u32), output: &str) -> Result<Box<dyn Prepared>> {
    workload(step, shape, output).prepare(&Setup::new(device))
}

fn run(device: &Device, step: &str, shape: (u32, u32, u32), output: &str) {
    let failed = |error| -> ! { panic!("{step} {shape:?} {output} on {}: {error}", device.name()) };
    let mut prepared = prepare(device, step, shape, output).unwrap_or_else(|error| failed(error));
    let stream = device.stream().unwrap_or_else(|error| failed(error.into()));
    prepared.launch(&stream).unwrap_or_else(|error| failed(error));
    let verified = prepared.verify().unwrap_or_else(|error| failed(error));
    assert!(verified.elements > 0, "{step} {shape:?}: nothing was compared");
}

/// One element; less than a tile; tiles and a remainder; more k-blocks than stages; a remainder
/// along k.
const SHAPES: [(u32, u32, u32); 5] =
    [(1, 8, 8), (63, 40, 72), (130, 264, 64), (200, 304, 456), (64, 520, 640)];

fn on_schedules(check: impl Fn(&Device)) {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(5)] {
        check(&Device::with_schedule("emu:h200", schedule).expect("emulators are always there"));
    }
}

#[test]
fn every_step_is_right_at_every_schedule() {
    on_schedules(|device| {
        let cases = SHAPES.into_iter().flat_map(|shape| steps().into_iter().map(move |step| (step, shape)));
        one_in(3, cases).for_each(|(step, shape)| run(device, step, shape, "bf16"));
    });
}

#[test]
fn steps_that_store_from_registers_take_any_columns_and_f32() {
    on_schedules(|device| {
        for step in steps().iter().take_while(|step| **step != "tma-store") {
            run(device, step, (65, 77, 136), "f32");
            run(device, step, (1, 1, 8), "bf16");
        }
    });
}

/// More tiles than SMs, so that persistent CTAs process several tiles and pingpong consumers
/// alternate.
#[test]
fn steps_that_stay_walk_over_all_tiles() {
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    let steps = steps();
    let staying = steps.iter().skip_while(|step| **step != "persistent-by-rows");
    one_in(2, staying).for_each(|step| run(&device, step, (260, 13_000, 72), "bf16"));
}

#[test]
fn the_checkers_find_nothing() {
    on_schedules(|device| {
        let device = device.clone().checked().expect("emulators can check");
        one_in(3, steps()).for_each(|step| run(&device, step, (130, 304, 456), "bf16"));
    });
}

#[test]
fn shapes_that_tma_cannot_take_are_refused_by_name() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let refused = |step, shape, output| match prepare(&device, step, shape, output) {
        Ok(_) => panic!("{step} {shape:?} was taken"),
        Err(error) => error.downcast_ref::<LessonError>().cloned().unwrap_or_else(|| panic!("{error}")),
    };
    for step in steps() {
        let expected =
            LessonError::RowsOf16Bytes { matrix: "A and B", option: "k", extent: 12, element_bytes: 2 };
        assert_eq!(refused(step, (64, 64, 12), "bf16"), expected);
    }
    for step in ["tma-store", "pingpong"] {
        let expected = LessonError::RowsOf16Bytes { matrix: "C", option: "n", extent: 63, element_bytes: 2 };
        assert_eq!(refused(step, (64, 63, 64), "bf16"), expected);
        assert_eq!(refused(step, (64, 64, 64), "f32"), LessonError::StoresPairs { step: step.to_owned() });
    }
    let message = LessonError::RowsOf16Bytes { matrix: "C", option: "n", extent: 63, element_bytes: 2 };
    assert!(message.to_string().ends_with("make --n a multiple of 8"), "{message}");
}

#[test]
fn problems_beyond_the_memory_are_refused_before_it_is_allocated() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let shape = (1 << 30, 1 << 30, 8);
    let Err(error) = prepare(&device, "one-tile", shape, "bf16") else { panic!("{shape:?} was taken") };
    let message = error.to_string();
    assert!(message.contains("do not fit into the memory of emu:h200"), "{message}");
}

#[test]
fn the_ladder_begins_where_something_is_multiplied() {
    let ladder = ladder().ladder().expect("it has one");
    assert_eq!(ladder.steps, &steps()[1..]);
    assert_eq!((ladder.steps[0], ladder.steps.last().copied()), ("one-tile", Some("gemm")));
}
