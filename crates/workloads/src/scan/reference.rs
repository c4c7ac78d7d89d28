//! The scan on the host, and the tolerance that a result is held to.

use rayon::prelude::*;
use warpwright_harness::{Result, Verified, Work, compare, compare_parts};

use crate::sample::Sampled;
use warpwright_kernels::scan::single_pass::ScanKind;

/// The scan on the host: how two elements combine, and the identity.
#[derive(Clone, Copy)]
pub struct Reference<T: Sampled> {
    identity: T::Exact,
    combine: fn(T::Exact, T::Exact) -> T::Exact,
}

impl<T: Sampled> Reference<T> {
    /// The scan of sums.
    pub fn sums() -> Self {
        Self { identity: T::SUM_OF_NOTHING, combine: T::add }
    }

    /// The scan of minima.
    pub fn smallest() -> Self {
        Self { identity: Sampled::exact(T::MOST), combine: |a, b| if b < a { b } else { a } }
    }

    /// The scan of maxima.
    pub fn largest() -> Self {
        Self { identity: Sampled::exact(T::LEAST), combine: |a, b| if b > a { b } else { a } }
    }

    /// Compares a scan with the reference, to `steps` roundings of the sum of the magnitudes.
    ///
    /// # Errors
    /// An element is outside the tolerance.
    pub fn verify(&self, kind: ScanKind, input: &[T], found: &[T], steps: f64) -> Result<Verified> {
        // Pieces are combined first, so that all host threads compare at once.
        const PIECE: usize = 1 << 20;
        let (identity, combine) = (self.identity, self.combine);
        let with = |(state, magnitude): (T::Exact, f64), element: &T| {
            (combine(state, element.exact()), magnitude + element.magnitude())
        };
        let pieces: Vec<_> =
            input.par_chunks(PIECE).map(|piece| piece.iter().fold((identity, 0.0), with)).collect();
        let mut before = (identity, 0.0);
        let befores: Vec<_> = pieces
            .into_iter()
            .map(|(state, magnitude)| {
                let here = before;
                before = (combine(before.0, state), before.1 + magnitude);
                here
            })
            .collect();
        Ok(compare_parts(befores.len(), &|piece| {
            let mut so_far = befores[piece];
            let first = piece * PIECE;
            let piece = first..(first + PIECE).min(input.len());
            let elements = found[piece.clone()].iter().zip(&input[piece]).map(|(found, element)| {
                let (before, _) = so_far;
                so_far = with(so_far, element);
                let expected = if kind == ScanKind::Inclusive { so_far.0 } else { before };
                T::compared(*found, expected, steps * T::STEP * so_far.1)
            });
            compare(elements, |index| vec![first + index as usize])
        })?)
    }
}

/// The work of a scan: each element is read once and written once.
pub fn work<T: Sampled>(length: usize) -> Work {
    Work { operations: length as f64, bytes: 2.0 * length as f64 * f64::from(T::BYTES) }
}
