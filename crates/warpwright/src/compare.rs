//! A result held against its reference, element by element. NaN is wrong unless the reference has it.
//!
//! ```
//! use warpwright::compare::{Tolerance, compare};
//!
//! let expected = [0.5f64, 1.0, 1.5];
//! assert!(compare(&[0.5f32, 1.0, 1.5], &expected, Tolerance::EXACT).is_ok());
//! assert!(compare(&[0.5f32, 1.0, 1.5001], &expected, Tolerance::relative(1e-3)).is_ok());
//!
//! let error = compare(&[0.5, f32::NAN, 1.5], &expected, Tolerance::absolute(1e-3)).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "1 of 3 elements are wrong; the first, at [1], is NaN and should be 1 (tolerance 1e-3)",
//! );
//! ```
//!
//! `worst = worst.max((found - expected).abs())` is no comparison: [`f32::max`] drops NaN, so that a
//! result of NaN alone has the largest error 0.

use std::error::Error;
use std::fmt;

/// The largest allowed difference of an element `x` of the reference: `absolute + relative * |x|`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// The part that all elements share.
    pub absolute: f64,
    /// The part that grows with the element of the reference.
    pub relative: f64,
}

impl Tolerance {
    /// No difference is allowed.
    pub const EXACT: Self = Self { absolute: 0.0, relative: 0.0 };

    /// The same tolerance for every element.
    pub const fn absolute(absolute: f64) -> Self {
        Self { absolute, relative: 0.0 }
    }

    /// A fraction of the magnitude of the reference's element.
    pub const fn relative(relative: f64) -> Self {
        Self { absolute: 0.0, relative }
    }

    /// The largest allowed difference from `expected`.
    fn of(self, expected: f64) -> f64 {
        let scaled = self.relative * expected.abs();
        // An infinite element of the reference allows no other number.
        if scaled.is_finite() { self.absolute + scaled } else { self.absolute }
    }
}

/// A result that agrees with its reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// Elements compared: all of the result.
    pub elements: u64,
    /// The largest error as a fraction of its element's tolerance: 0 is exact, 1 the limit.
    pub worst: f64,
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

/// The reason that [`compare`] returns.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareError {
    /// The result and the reference have different lengths.
    Length {
        /// Elements of the result.
        found: usize,
        /// Elements of the reference.
        expected: usize,
    },
    /// Elements differ by more than their tolerance.
    Elements(Mismatch),
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "the result has {found} elements and its reference {expected}")
            }
            Self::Elements(mismatch) => mismatch.fmt(f),
        }
    }
}

impl Error for CompareError {}

/// Compares all elements of a result with the elements of its reference.
///
/// NaN agrees with NaN, and an infinity with the same infinity, only.
///
/// # Errors
/// [`CompareError::Length`] if the lengths differ, and [`CompareError::Elements`] if any element
/// differs from its reference by more than its tolerance.
pub fn compare<T, U>(found: &[T], expected: &[U], tolerance: Tolerance) -> Result<Agreement, CompareError>
where
    T: Copy + Into<f64>,
    U: Copy + Into<f64>,
{
    if found.len() != expected.len() {
        return Err(CompareError::Length { found: found.len(), expected: expected.len() });
    }
    let elements = found.iter().zip(expected).map(|(found, expected)| {
        let expected = (*expected).into();
        Compared { found: (*found).into(), expected, tolerance: tolerance.of(expected) }
    });
    compare_elements(elements, |index| vec![index as usize]).map_err(CompareError::Elements)
}

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

/// [`compare`] for elements with a tolerance each. `coordinates` of an element's index are for the
/// message.
///
/// # Errors
/// A [`Mismatch`] if any element differs from its reference by more than its tolerance.
pub fn compare_elements(
    elements: impl IntoIterator<Item = Compared>,
    coordinates: impl Fn(u64) -> Vec<usize>,
) -> Result<Agreement, Mismatch> {
    compare_each(&mut elements.into_iter(), &coordinates)
}

/// [`compare_elements`], compiled once for all callers.
fn compare_each(
    elements: &mut dyn Iterator<Item = Compared>,
    coordinates: &dyn Fn(u64) -> Vec<usize>,
) -> Result<Agreement, Mismatch> {
    let mut agreement = Agreement::default();
    let mut first: Option<(u64, Compared)> = None;
    let mut wrong = 0;
    for element in elements {
        let index = agreement.elements;
        agreement.elements += 1;
        let fraction = element.fraction_of_tolerance();
        if fraction <= 1.0 {
            agreement.worst = agreement.worst.max(fraction);
        } else {
            wrong += 1;
            first.get_or_insert((index, element));
        }
    }
    let elements = agreement.elements;
    first.map_or(Ok(agreement), |(index, Compared { found, expected, tolerance })| {
        Err(Mismatch { at: coordinates(index), found, expected, tolerance, wrong, elements })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_covers_every_element() {
        let element = |found, expected| Compared { found, expected, tolerance: 0.5 };
        let coordinates = |index: u64| vec![index as usize / 2, index as usize % 2];
        let close = [element(1.0, 1.25), element(f64::NAN, f64::NAN), element(f64::INFINITY, f64::INFINITY)];
        assert_eq!(compare_elements(close, coordinates), Ok(Agreement { elements: 3, worst: 0.5 }));
        let wrongs =
            [element(1.0, 1.6), element(f64::NAN, 1.0), element(1.0, f64::NAN), element(f64::INFINITY, 1.0)];
        for wrong in wrongs {
            let mismatch = compare_elements([close[0], close[1], close[0], wrong, wrong], coordinates)
                .expect_err("wrong");
            assert_eq!((mismatch.at, mismatch.wrong, mismatch.elements), (vec![1, 1], 2, 5));
        }
        let exact = [Compared { found: 1.0, expected: 1.0, tolerance: 0.0 }];
        assert!(compare_elements(exact, coordinates).is_ok());
        assert!(compare_elements([Compared { found: 1.5, ..exact[0] }], coordinates).is_err());
    }

    #[test]
    fn no_tolerance_allows_nan_infinity_or_another_length() {
        let wide = Tolerance { absolute: 1e300, relative: 1e300 };
        for wrong in [f32::NAN, f32::INFINITY] {
            assert!(compare(&[wrong], &[1.0f32], wide).is_err(), "{wrong}");
            assert!(compare(&[1.0f32], &[wrong], wide).is_err(), "{wrong}");
            assert!(compare(&[wrong], &[wrong], Tolerance::EXACT).is_ok(), "{wrong}");
        }
        assert!(compare(&[f32::INFINITY], &[f32::NEG_INFINITY], wide).is_err());
        let error = compare(&[1.0f32], &[1.0f32, 2.0], wide).unwrap_err();
        assert_eq!(error, CompareError::Length { found: 1, expected: 2 });
    }
}
