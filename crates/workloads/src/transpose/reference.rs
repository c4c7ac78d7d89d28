//! The transpose on the host.

use warpwright_harness::{Compared, HostNumber, Result, Verified, Work, compare, compare_parts};

/// Compares every element of `b` with the one of `a`, an (m, n) matrix, that belongs there.
///
/// # Errors
/// An element differs.
pub fn verify<T: HostNumber>(a: &[T], (m, n): (u32, u32), b: &[T]) -> Result<Verified> {
    let (m, n) = (m as usize, n as usize);
    Ok(compare_parts(if m == 0 { 0 } else { n }, &|row| {
        let found = &b[row * m..][..m];
        let elements = found.iter().enumerate().map(|(column, found)| Compared {
            found: found.exact(),
            expected: a[column * n + row].exact(),
            tolerance: 0.0,
        });
        compare(elements, |column| vec![row, column as usize])
    })?)
}

/// The work of transposing an (m, n) matrix.
pub fn work<T>(m: u32, n: u32) -> Work {
    let elements = f64::from(m) * f64::from(n);
    Work { operations: 0.0, bytes: 2.0 * elements * size_of::<T>() as f64 }
}
