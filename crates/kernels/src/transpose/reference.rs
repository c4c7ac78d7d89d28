//! The transpose on the host.

use rayon::prelude::*;

use crate::number::HostNumber;
use crate::registry::{Element, Result, Verified, Work, compare, together};

/// Compares every element of `b` with the one of `a`, an (m, n) matrix, that belongs there.
///
/// # Errors
/// An element differs.
pub fn verify<T: HostNumber>(a: &[T], (m, n): (u32, u32), b: &[T]) -> Result<Verified> {
    let (m, n) = (m as usize, n as usize);
    let rows = b.par_chunks(m.max(1)).enumerate().map(|(row, found)| {
        let elements = found.iter().enumerate().map(|(column, found)| Element {
            found: found.value(),
            expected: a[column * n + row].value(),
            tolerance: 0.0,
        });
        compare(elements, |column| vec![row, column as usize])
    });
    Ok(together(rows.collect::<Vec<_>>())?)
}

/// What a launch moves.
pub fn work<T>(elements: usize) -> Work {
    Work { operations: 0.0, bytes: (2 * elements * size_of::<T>()) as f64 }
}
