//! The share of a long list of cases that `cargo test` takes.

use std::{env, thread};

/// The variable that `cargo run -p xtask -- sweep` sets to `1`.
pub const SWEEP: &str = "WARPWRIGHT_SWEEP";

/// Every `n`th item, beginning with the first; every item in a sweep.
///
/// Tests of all configurations under the checkers take minutes: `cargo test` takes a fixed share of
/// them.
pub fn one_in<T>(n: usize, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let is_sweep = env::var(SWEEP).is_ok_and(|value| value == "1");
    items.into_iter().step_by(if is_sweep { 1 } else { n })
}

/// Runs `case` for each item in a thread of its own, so that a sweep uses every core.
pub fn in_threads<T: Send>(items: impl IntoIterator<Item = T>, case: impl Fn(T) + Sync) {
    let case = &case;
    thread::scope(|scope| {
        for item in items {
            scope.spawn(move || case(item));
        }
    });
}
