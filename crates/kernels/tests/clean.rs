//! The checkers find nothing in the library: every kernel, at shapes that fill no tile, at every schedule.
//!
//! The walk over the registry needs no list of kernels: shapes are told by the names of options, and every choice of a kernel is
//! taken in turn. `cargo test -p warpwright-kernels --test it clean -- --ignored` takes many more shapes, seeds and architectures.

use warpwright::emulator::Schedule;
use warpwright_kernels::registry::{self, Options};

use crate::walk::{MANY_SHAPES, SHAPES, Walk, walk_choices, walk_shapes};

#[test]
fn every_kernel_checks_clean_at_every_schedule() {
    walk_shapes(
        registry::all(),
        SHAPES,
        &["emu:h200"],
        &[Schedule::Eager, Schedule::Latest, Schedule::Random(3)],
    );
}

#[test]
fn every_choice_checks_clean() {
    walk_choices(registry::all(), SHAPES, 1, &["emu:h200"], &[Schedule::Random(5)]);
    walk_choices(registry::all(), SHAPES, 3, &["emu:a100"], &[Schedule::Latest]);
}

/// Clusters that go from row to row, at every schedule of copies and of messages between CTAs.
#[test]
fn rows_in_rings_check_clean() {
    let mut walk = Walk::default();
    for kernel in registry::all() {
        let has = |name| kernel.options().iter().any(|spec| spec.name == name);
        for (turnover, stages) in
            [("stay", "0"), ("ring", "1"), ("ring", "2"), ("stagger", "3"), ("stagger", "4")]
        {
            if !has("turnover") {
                continue;
            }
            let mut options = Options::defaults(kernel.options());
            let settings =
                [("rows", "13"), ("columns", "1032"), ("threads", "64"), ("ctas", "3"), ("clusters", "2")];
            for (name, value) in settings.iter().chain(&[("turnover", turnover), ("stages", stages)]) {
                options.set(name, value).expect("an option of rows");
            }
            for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(23), Schedule::Random(24)] {
                walk.step(*kernel, &options, "emu:h200", schedule);
            }
        }
    }
    assert_eq!(walk.ran + walk.failures.len(), 6 * 5 * 4, "a kernel refused");
    walk.finish();
}

/// Rows that the whole grid shares, and words between its CTAs in global memory: enough rows for each place to be used again.
#[test]
fn spread_rows_check_clean() {
    let mut walk = Walk::default();
    for kernel in registry::all() {
        if !kernel.options().iter().any(|spec| spec.name == "turnover") {
            continue;
        }
        for (threads, rows) in [("32", "37"), ("64", "71"), ("512", "13")] {
            let mut options = Options::defaults(kernel.options());
            let settings = [
                ("columns", "4000"),
                ("ctas", "32"),
                ("turnover", "spread"),
                ("threads", threads),
                ("rows", rows),
            ];
            for (name, value) in settings {
                options.set(name, value).expect("an option of rows");
            }
            for schedule in [Schedule::Latest, Schedule::Random(29)] {
                walk.step(*kernel, &options, "emu:h200", schedule);
            }
        }
    }
    assert_eq!(walk.ran + walk.failures.len(), 6 * 3 * 2, "a kernel refused");
    walk.finish();
}

#[test]
#[ignore = "minutes long: many shapes, seeds and architectures"]
fn every_kernel_checks_clean_at_many_shapes() {
    let seeds = (11..15).map(Schedule::Random);
    let schedules: Vec<_> = [Schedule::Eager, Schedule::Latest].into_iter().chain(seeds).collect();
    walk_shapes(registry::all(), MANY_SHAPES, &["emu:a100", "emu:h200"], &schedules);
}

#[test]
#[ignore = "minutes long: every choice at many shapes"]
fn every_choice_checks_clean_at_many_shapes() {
    for index in 0..MANY_SHAPES[0].1.len() {
        walk_choices(
            registry::all(),
            MANY_SHAPES,
            index,
            &["emu:a100", "emu:h200"],
            &[Schedule::Latest, Schedule::Random(17)],
        );
    }
}
