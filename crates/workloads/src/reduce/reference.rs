//! The reduction on the host, and the tolerance that a result is held to.

use rayon::prelude::*;
use warpwright_harness::Compared;

use crate::sample::Sampled;

/// The exact sum, and that of the magnitudes.
fn sum<T: Sampled>(input: &[T]) -> (T::Exact, f64) {
    let nothing = || (T::SUM_OF_NOTHING, 0.0);
    input
        .par_iter()
        .map(|element| (element.exact(), element.magnitude()))
        .reduce(nothing, |a, b| (T::add(a.0, b.0), a.1 + b.1))
}

/// A sum beside the exact one, to `steps` roundings of the sum of the magnitudes.
pub fn check_sum<T: Sampled>(found: T, input: &[T], steps: u64) -> Compared {
    let (exact, magnitude) = sum(input);
    T::compared(found, exact, steps as f64 * T::STEP * magnitude)
}

/// The first element that no other is better than, and its place.
fn best<T: Sampled>(input: &[T], is_better: fn(T::Exact, T::Exact) -> bool) -> Option<(usize, T::Exact)> {
    input.par_iter().map(|element| element.exact()).enumerate().reduce_with(|a, b| {
        // Of equals, whichever stands first.
        let earlier = if a.0 < b.0 { a } else { b };
        let later = if a.0 < b.0 { b } else { a };
        if is_better(later.1, earlier.1) { later } else { earlier }
    })
}

/// An extreme beside the exact one; `none` is that of no elements.
pub(super) fn check_extreme<T: Sampled>(
    found: T,
    input: &[T],
    is_better: fn(T::Exact, T::Exact) -> bool,
    none: T,
) -> Compared {
    T::compared(found, best(input, is_better).map_or(none.exact(), |(_, extreme)| extreme), 0.0)
}

/// The index of an extreme beside the right one.
pub(super) fn check_index<T: Sampled>(
    found: u64,
    input: &[T],
    is_better: fn(T::Exact, T::Exact) -> bool,
) -> Compared {
    u64::compared(found, best(input, is_better).map_or(u64::MAX, |(index, _)| index as u64), 0.0)
}
