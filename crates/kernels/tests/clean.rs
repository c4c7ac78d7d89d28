//! The checkers find nothing in the library: every kernel, at shapes that fill no tile, at every
//! schedule.
//!
//! The walk finds shapes by the names of options, and takes every choice of a kernel in turn.
//! `cargo run -p xtask -- sweep clean` takes many more shapes, seeds and architectures.

use warpwright::emulator::Schedule;
use warpwright_testing::one_in;

use crate::SUITE;
use crate::walk::{
    MANY_SHAPES, SHAPES, Walk, has, walk_choices, walk_choices_at_shapes_in_turn, walk_shapes,
};

#[test]
fn every_kernel_checks_clean_at_every_schedule() {
    walk_shapes(&SUITE, 5, SHAPES, &["emu:h200"], &[Schedule::Eager, Schedule::Latest, Schedule::Random(3)]);
}

#[test]
fn every_choice_checks_clean() {
    walk_choices(&SUITE, 5, (SHAPES, 1), &["emu:h200"], &[Schedule::Random(5)]);
    walk_choices(&SUITE, 9, (SHAPES, 3), &["emu:a100"], &[Schedule::Latest]);
    walk_choices(&SUITE, 13, (SHAPES, 2), &["emu:b200"], &[Schedule::Random(6)]);
}

/// Persistent clusters, at every schedule of copies and of messages between CTAs.
#[test]
fn pipelined_rows_check_clean() {
    let mut walk = Walk::new(&SUITE);
    for kernel in SUITE.kernels {
        for (scheduler, stages) in [
            ("persistent", "auto"),
            ("pipelined", "1"),
            ("pipelined", "2"),
            ("staggered", "3"),
            ("staggered", "4"),
        ] {
            if !has(kernel, "scheduler") {
                continue;
            }
            let mut workload = kernel.workload();
            let settings =
                [("rows", "13"), ("columns", "1032"), ("threads", "64"), ("ctas", "3"), ("clusters", "2")];
            for (name, value) in settings.iter().chain(&[("scheduler", scheduler), ("stages", stages)]) {
                workload.set(name, value).expect("an option of rows");
            }
            for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(23), Schedule::Random(24)] {
                walk.step(&*workload, "emu:h200", schedule);
            }
        }
    }
    assert_eq!(walk.finish(), 6 * 5 * 4);
}

/// Rows that the whole grid shares, with partial results in global memory: enough rows for each
/// stage to be used again.
#[test]
fn rows_shared_by_the_grid_check_clean() {
    let mut cases = Vec::new();
    for kernel in SUITE.kernels.iter().filter(|kernel| has(kernel, "scheduler")) {
        for (threads, rows) in [("32", "37"), ("64", "71"), ("512", "13")] {
            let mut workload = kernel.workload();
            let settings = [
                ("columns", "4000"),
                ("ctas", "32"),
                ("scheduler", "grid"),
                ("threads", threads),
                ("rows", rows),
            ];
            for (name, value) in settings {
                workload.set(name, value).expect("an option of rows");
            }
            cases.extend(
                [Schedule::Latest, Schedule::Random(29)].map(|schedule| (workload.clone(), schedule)),
            );
        }
    }
    let (mut walk, cases) = (Walk::new(&SUITE), one_in(13, cases).collect::<Vec<_>>());
    cases.iter().for_each(|(workload, schedule)| walk.step(&**workload, "emu:h200", *schedule));
    assert_eq!(walk.finish(), cases.len());
}

#[test]
#[ignore = "minutes long: many shapes, seeds and architectures"]
fn every_kernel_checks_clean_at_many_shapes() {
    let seeds = (11..15).map(Schedule::Random);
    let schedules: Vec<_> = [Schedule::Eager, Schedule::Latest].into_iter().chain(seeds).collect();
    walk_shapes(&SUITE, 1, MANY_SHAPES, &["emu:a100", "emu:h200", "emu:b200"], &schedules);
}

#[test]
#[ignore = "minutes long: every choice, on every architecture"]
fn every_choice_checks_clean_at_a_shape_of_many() {
    let schedules = [Schedule::Latest, Schedule::Random(17)];
    walk_choices_at_shapes_in_turn(&SUITE, MANY_SHAPES, &["emu:a100", "emu:h200", "emu:b200"], &schedules);
}
