//! The checkers report no findings in the lessons: every kernel, at shapes that are no multiple of
//! a tile, under every schedule.

use warpwright::emulator::Schedule;

use crate::SUITE;
use crate::walk::{MANY_SHAPES, SHAPES, walk_choices, walk_choices_at_shapes_in_turn, walk_shapes};

#[test]
fn every_lesson_checks_clean_at_every_schedule() {
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(3)];
    walk_shapes(&SUITE, 5, SHAPES, &["emu:h200"], &schedules);
}

#[test]
fn every_choice_checks_clean() {
    walk_choices(&SUITE, 5, (SHAPES, 1), &["emu:h200"], &[Schedule::Random(5)]);
    walk_choices(&SUITE, 9, (SHAPES, 3), &["emu:a100"], &[Schedule::Latest]);
}

#[test]
#[ignore = "minutes long: many shapes, seeds and architectures"]
fn every_lesson_checks_clean_at_many_shapes() {
    let seeds = (11..15).map(Schedule::Random);
    let schedules: Vec<_> = [Schedule::Eager, Schedule::Latest].into_iter().chain(seeds).collect();
    walk_shapes(&SUITE, 1, MANY_SHAPES, &["emu:a100", "emu:h200"], &schedules);
}

#[test]
#[ignore = "minutes long: every choice, on every architecture"]
fn every_choice_checks_clean_at_a_shape_of_many() {
    let schedules = [Schedule::Latest, Schedule::Random(17)];
    walk_choices_at_shapes_in_turn(&SUITE, MANY_SHAPES, &["emu:a100", "emu:h200"], &schedules);
}
