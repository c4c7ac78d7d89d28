//! Results held against their references, element by element.

use std::error::Error;
use std::fmt;

use rayon::prelude::*;

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

/// A result that does not agree with its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The coordinates of the first wrong element.
    pub at: Vec<usize>,
    /// Its value.
    pub found: f64,
    /// Its value in the reference.
    pub expected: f64,
    /// Its tolerance.
    pub tolerance: f64,
    /// The number of wrong elements.
    pub wrong: u64,
    /// The number of elements.
    pub elements: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, found, expected, tolerance, wrong, elements } = self;
        write!(
            f,
            "{wrong} of {elements} elements are wrong; the first, at {at:?}, is {found} and should be {expected} (tolerance {tolerance:e})"
        )
    }
}

impl Error for Mismatch {}

/// One element of a result and of its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The value that the kernel computed.
    pub found: f64,
    /// The value of the reference.
    pub expected: f64,
    /// The largest allowed difference.
    pub tolerance: f64,
}

impl Compared {
    /// The error as a fraction of the tolerance; more than 1 is wrong.
    fn fraction_of_tolerance(&self) -> f64 {
        let Self { found, expected, tolerance } = *self;
        if found == expected || (found.is_nan() && expected.is_nan()) {
            return 0.0;
        }
        let fraction = (found - expected).abs() / tolerance;
        // A NaN or an infinity on one side only exceeds every tolerance.
        if fraction.is_finite() { fraction } else { f64::INFINITY }
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
    compare_each(&mut elements.into_iter(), &coordinates)
}

/// [`compare`], compiled once for all workloads.
fn compare_each(
    elements: &mut dyn Iterator<Item = Compared>,
    coordinates: &dyn Fn(u64) -> Vec<usize>,
) -> std::result::Result<Verified, Mismatch> {
    let mut verified = Verified::default();
    let mut first: Option<(u64, Compared)> = None;
    let mut wrong = 0;
    for element in elements {
        let index = verified.elements;
        verified.elements += 1;
        let fraction = element.fraction_of_tolerance();
        if fraction <= 1.0 {
            verified.worst = verified.worst.max(fraction);
        } else {
            wrong += 1;
            first.get_or_insert((index, element));
        }
    }
    let elements = verified.elements;
    first.map_or(Ok(verified), |(index, Compared { found, expected, tolerance })| {
        Err(Mismatch { at: coordinates(index), found, expected, tolerance, wrong, elements })
    })
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
    fn comparison_covers_every_element() {
        let element = |found, expected| Compared { found, expected, tolerance: 0.5 };
        let coordinates = |index: u64| vec![index as usize / 2, index as usize % 2];
        let close = [element(1.0, 1.25), element(f64::NAN, f64::NAN), element(f64::INFINITY, f64::INFINITY)];
        assert_eq!(compare(close, coordinates), Ok(Verified { elements: 3, worst: 0.5, finding: None }));
        let wrongs =
            [element(1.0, 1.6), element(f64::NAN, 1.0), element(1.0, f64::NAN), element(f64::INFINITY, 1.0)];
        for wrong in wrongs {
            let mismatch =
                compare([close[0], close[1], close[0], wrong, wrong], coordinates).expect_err("wrong");
            assert_eq!((mismatch.at, mismatch.wrong, mismatch.elements), (vec![1, 1], 2, 5));
        }
        let exact = [Compared { found: 1.0, expected: 1.0, tolerance: 0.0 }];
        assert!(compare(exact, coordinates).is_ok());
        assert!(compare([Compared { found: 1.5, ..exact[0] }], coordinates).is_err());
    }

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
