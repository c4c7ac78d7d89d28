//! Inputs and references on the host.

use rayon::prelude::*;
use warpwright::lang::element::{bf16, e4m3, e5m2, f16, tf32};

/// Numbers from a seed: the same on every machine.
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// 64 random bits: splitmix64.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number below `limit`, nearly uniform.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit
    }

    /// A number in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// `count` numbers of the normal distribution: Box and Muller's pairs.
    pub fn normal(&mut self, count: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(count + 1);
        while values.len() < count {
            let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
            values.push((radius * angle.cos()) as f32);
            values.push((radius * angle.sin()) as f32);
        }
        values.truncate(count);
        values
    }
}

/// `count` of what `make` makes so many of. Of very many only the first are made, and these repeated: a prime number of them, so that no
/// two rows, tiles or lanes of a large problem have the same ones, and large problems need not wait for the host.
pub fn repeated<T: Copy>(count: usize, make: impl FnOnce(usize) -> Vec<T>) -> Vec<T> {
    /// The largest prime number below 2^24.
    const MADE: usize = (1 << 24) - 3;
    let made = make(count.min(MADE));
    if made.len() == count {
        return made;
    }
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        all.extend_from_slice(&made[..made.len().min(count - all.len())]);
    }
    all
}

/// What is random is made in pieces of this many, each of a seed of its own, so that all host threads make some.
const PIECE: usize = 1 << 16;

/// `count` elements, which `fill` makes a piece at a time of a sequence of numbers: the same for the same seed on every machine.
pub fn drawn<T: Copy + Send>(
    seed: u64,
    count: usize,
    nothing: T,
    fill: impl Fn(&mut Random, &mut [T]) + Sync,
) -> Vec<T> {
    let mut elements = vec![nothing; count];
    elements.par_chunks_mut(PIECE).enumerate().for_each(|(piece, elements)| {
        fill(&mut Random::new(seed.wrapping_add((piece as u64).rotate_left(40))), elements);
    });
    elements
}

/// `count` numbers of the normal distribution, each made into a `T`, by all host threads: the same for the same seed on every machine.
pub fn normal<T: Send + Sync>(seed: u64, count: usize, of: impl Fn(f32) -> T + Sync) -> Vec<T> {
    let pieces = (0..count.div_ceil(PIECE)).into_par_iter().flat_map_iter(|piece| {
        let mut random = Random::new(Random::new(seed).0 ^ piece as u64);
        random.normal(PIECE.min(count - piece * PIECE)).into_iter().map(&of)
    });
    pieces.collect()
}

/// A float that `f32` holds, to and from it.
pub trait Rounded: Copy {
    /// Half of the distance between neighbours at 1: the error of one rounding.
    const ROUNDING: f64;
    /// The nearest value.
    fn round(value: f32) -> Self;
    /// The value exactly.
    fn exact(self) -> f64;
}

impl Rounded for f32 {
    const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
    fn round(value: f32) -> Self {
        value
    }
    fn exact(self) -> f64 {
        f64::from(self)
    }
}

impl Rounded for f16 {
    const ROUNDING: f64 = 1.0 / (1u64 << 11) as f64;
    fn round(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn exact(self) -> f64 {
        f64::from(self)
    }
}

impl Rounded for bf16 {
    const ROUNDING: f64 = 1.0 / (1u64 << 8) as f64;
    fn round(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn exact(self) -> f64 {
        f64::from(self)
    }
}

impl Rounded for tf32 {
    const ROUNDING: f64 = 1.0 / (1u64 << 11) as f64;
    fn round(value: f32) -> Self {
        // Half of the distance between neighbours is added to the magnitude, and the 13 bits that are not read are dropped.
        tf32(f32::from_bits((value.to_bits() + 0x1000) & !0x1fff))
    }
    fn exact(self) -> f64 {
        f64::from(self.0)
    }
}

impl Rounded for e4m3 {
    const ROUNDING: f64 = 1.0 / (1u64 << 4) as f64;
    fn round(value: f32) -> Self {
        e4m3::from_f32(value)
    }
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

impl Rounded for e5m2 {
    const ROUNDING: f64 = 1.0 / (1u64 << 3) as f64;
    fn round(value: f32) -> Self {
        e5m2::from_f32(value)
    }
    fn exact(self) -> f64 {
        self.to_f64()
    }
}

/// A strided factor: element (row, column) at `row * row_stride + column * column_stride`.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    /// The elements.
    pub values: &'a [f64],
    /// Elements from row to row.
    pub row_stride: usize,
    /// Elements from column to column.
    pub column_stride: usize,
}

/// Rows of a product that one host thread computes at a time.
const STRIP: usize = 64;

/// A·B in f64, row-major: (m, k) times (k, n).
pub fn product((m, n, k): (usize, usize, usize), a: Strided<'_>, b: Strided<'_>) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    let last = |(rows, columns): (usize, usize), it: &Strided<'_>| {
        (rows - 1) * it.row_stride + (columns - 1) * it.column_stride
    };
    if m * n * k == 0 {
        return c;
    }
    assert!(last((m, k), &a) < a.values.len() && last((k, n), &b) < b.values.len(), "factors are whole");
    c.par_chunks_mut(STRIP * n).enumerate().for_each(|(strip, c)| {
        let a_rows = &a.values[strip * STRIP * a.row_stride..];
        // SAFETY: the assertion above keeps every element read inside its slice: the strip's rows are those of A from its first on, and
        // as many as C's chunk has, which is dense.
        unsafe {
            matrixmultiply::dgemm(
                c.len() / n,
                k,
                n,
                1.0,
                a_rows.as_ptr(),
                a.row_stride as isize,
                a.column_stride as isize,
                b.values.as_ptr(),
                b.row_stride as isize,
                b.column_stride as isize,
                0.0,
                c.as_mut_ptr(),
                n as isize,
                1,
            );
        }
    });
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_numbers_are_fewer_ones_again_and_again() {
        let made = |count| repeated(count, |count| (0..count as u32).collect::<Vec<_>>());
        assert_eq!(made(5), [0, 1, 2, 3, 4]);
        let many = made((1 << 25) + 1);
        assert_eq!(many.len(), (1 << 25) + 1);
        assert_eq!(many[(1 << 24) - 4..][..3], [(1 << 24) - 4, 0, 1]);
        assert_eq!(many[1 << 25], 6);
    }
}
