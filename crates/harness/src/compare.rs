//! Results held against their references, element by element.

use rayon::prelude::*;
use warpwright::compare::{Agreement, compare_elements};
pub use warpwright::compare::{Compared, Mismatch};

use crate::error::Result;
use crate::number::HostNumber;

/// A result that agrees with its reference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verified {
    /// Elements compared: all of the result.
    pub elements: u64,
    /// The largest error as a fraction of its element's tolerance: 0 is exact, 1 the limit.
    pub worst: f64,
    /// What the kernel found out, as a sentence without its full stop, where the kernel is run for
    /// it.
    pub finding: Option<String>,
}

impl From<Agreement> for Verified {
    fn from(Agreement { elements, worst }: Agreement) -> Self {
        Self { elements, worst, finding: None }
    }
}

/// Compares a result with its reference. NaN agrees with NaN only. `coordinates` of an element's
/// index are for the message.
///
/// # Errors
/// A [`Mismatch`] if any element differs from its reference by more than its tolerance.
pub fn compare(
    elements: impl IntoIterator<Item = Compared>,
    coordinates: impl Fn(u64) -> Vec<usize>,
) -> std::result::Result<Verified, Mismatch> {
    compare_elements(elements, coordinates).map(Verified::from)
}

/// [`compare`]s elements with one coordinate, on all host threads.
///
/// # Errors
/// A [`Mismatch`] if any element is wrong.
pub fn compare_parallel(
    length: usize,
    element: impl Fn(usize) -> Compared + Sync,
) -> std::result::Result<Verified, Mismatch> {
    const CHUNK: usize = 1 << 20;
    compare_parts(length.div_ceil(CHUNK), &|chunk| {
        let first = chunk * CHUNK;
        let indices = first..length.min(first + CHUNK);
        compare(indices.map(&element), |index| vec![first + index as usize])
    })
}

/// Compares the parts 0 to `count` of a result, each by `part`, on all host threads.
///
/// `part` is a trait object so that this is compiled once for all workloads.
///
/// # Errors
/// A [`Mismatch`] if any part has one.
pub fn compare_parts(
    count: usize,
    part: &(dyn Fn(usize) -> std::result::Result<Verified, Mismatch> + Sync),
) -> std::result::Result<Verified, Mismatch> {
    merge((0..count).into_par_iter().map(part).collect::<Vec<_>>())
}

/// Compares each element with the value of its index, which it must equal.
///
/// # Errors
/// A [`Mismatch`] if any element is wrong.
pub fn exactly<T: HostNumber>(found: &[T], expected: impl Fn(usize) -> f64 + Sync) -> Result<Verified> {
    let element =
        |index: usize| Compared { found: found[index].exact(), expected: expected(index), tolerance: 0.0 };
    Ok(compare_parallel(found.len(), element)?)
}

/// The comparison of a result from those of its parts: the first mismatch, and the number of all
/// wrong elements.
///
/// # Errors
/// A [`Mismatch`] if any part has one.
pub fn merge(
    parts: impl IntoIterator<Item = std::result::Result<Verified, Mismatch>>,
) -> std::result::Result<Verified, Mismatch> {
    let mut all = Verified::default();
    let mut first: Option<Mismatch> = None;
    let mut wrong = 0;
    for part in parts {
        match part {
            Ok(verified) => {
                all.elements += verified.elements;
                all.worst = all.worst.max(verified.worst);
                all.finding = verified.finding.or(all.finding);
            }
            Err(mismatch) => {
                all.elements += mismatch.elements;
                wrong += mismatch.wrong;
                first.get_or_insert(mismatch);
            }
        }
    }
    let elements = all.elements;
    first.map_or(Ok(all), |first| Err(Mismatch { wrong, elements, ..first }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_element_of_all_chunks_is_named() {
        let length = (1 << 20) + 7;
        let element = |wrong: usize| {
            move |index: usize| Compared {
                found: f64::from(u8::from(index >= wrong)),
                expected: 0.0,
                tolerance: 0.0,
            }
        };
        assert_eq!(
            compare_parallel(length, element(length)),
            Ok(Verified { elements: length as u64, worst: 0.0, finding: None })
        );
        let mismatch = compare_parallel(length, element(length - 2)).expect_err("wrong");
        assert_eq!((mismatch.at, mismatch.wrong, mismatch.elements), (vec![length - 2], 2, length as u64));
    }
}
