//! Elements for reductions and scans: random inputs of every type, and exact arithmetic to check
//! results by.

use warpwright::lang::element::{Element, bf16, f16};
use warpwright_harness::{Compared, HostNumber, Random, Work, data_types, generate, tiled};

use warpwright_kernels::monoid::Searchable;

data_types! {
    /// Types of elements that reductions, scans, selections and histograms take.
    pub enum ElementType by with_element_type { f32, f16, bf16, f64, i32, u32, i64, u64 }
}

/// The work of a kernel that reads each of `length` elements once.
pub fn work_of_one_read<T: Sampled>(length: usize) -> Work {
    Work { operations: length as f64, bytes: length as f64 * f64::from(T::BYTES) }
}

/// A type that is drawn at random, and computed with on the host so that its results are known
/// exactly, or far better than the device's.
pub trait Sampled: Searchable {
    /// What the host computes in: `f64` for floats, the type itself for integers.
    type Exact: Copy + PartialOrd + Send + Sync;
    /// The error of one rounding where the device adds, as a part of the result; 0 where it is
    /// exact.
    const STEP: f64;
    /// The error of the last rounding, to the type itself.
    const LAST: f64;
    /// The sum of nothing.
    const SUM_OF_NOTHING: Self::Exact;

    /// One element.
    fn draw(random: &mut Random) -> Self;
    /// The element, exactly.
    fn exact(self) -> Self::Exact;
    /// The nearest `f64`.
    fn as_f64(self) -> f64;
    /// The sum; integers wrap.
    fn add(a: Self::Exact, b: Self::Exact) -> Self::Exact;
    /// The magnitude.
    fn magnitude(self) -> f64;
    /// The number below which that part of those that are drawn lies, from 0 to 1.
    fn quantile(part: f64) -> Self;
    /// A result beside what it should be.
    fn compared(found: Self, expected: Self::Exact, tolerance: f64) -> Compared;

    /// `count` elements of a seed.
    fn draw_many(seed: u64, count: usize) -> Vec<Self> {
        tiled(count, |count| {
            generate(seed, count, Self::LEAST, |random, elements| elements.fill_with(|| Self::draw(random)))
        })
    }
}

macro_rules! floats {
    ($($ty:ty)*) => {
        $(impl Sampled for $ty {
            type Exact = f64;
            // f32 for the narrower types; the host's own sum of f64 rounds as often as the
            // device's.
            const STEP: f64 = if Self::BYTES == 8 { 2.0 * f64::ROUNDING } else { f32::ROUNDING };
            const LAST: f64 = if Self::BYTES == 2 { <$ty>::ROUNDING } else { 0.0 };
            const SUM_OF_NOTHING: f64 = 0.0;

            fn draw(random: &mut Random) -> Self {
                // Uniform between -1 and 1, in steps that f32 holds.
                Self::nearest(((random.bits() >> 40) as i64 - (1 << 23)) as f64 / (1u64 << 23) as f64)
            }

            fn exact(self) -> f64 {
                HostNumber::exact(self)
            }

            fn as_f64(self) -> f64 {
                HostNumber::exact(self)
            }

            fn add(a: f64, b: f64) -> f64 {
                a + b
            }

            fn magnitude(self) -> f64 {
                HostNumber::exact(self).abs()
            }

            fn quantile(part: f64) -> Self {
                Self::nearest(2.0 * part - 1.0)
            }

            fn compared(found: Self, expected: f64, tolerance: f64) -> Compared {
                let tolerance = tolerance + Self::LAST * expected.abs() + f64::MIN_POSITIVE;
                Compared { found: HostNumber::exact(found), expected, tolerance }
            }
        })*
    };
}

floats! { f32 f16 bf16 f64 }

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl Sampled for $ty {
            type Exact = $ty;
            const STEP: f64 = 0.0;
            const LAST: f64 = 0.0;
            const SUM_OF_NOTHING: $ty = 0;

            fn draw(random: &mut Random) -> Self {
                random.bits() as $ty
            }

            fn exact(self) -> $ty {
                self
            }

            fn as_f64(self) -> f64 {
                self as f64
            }

            fn add(a: $ty, b: $ty) -> $ty {
                a.wrapping_add(b)
            }

            fn magnitude(self) -> f64 {
                0.0
            }

            fn quantile(part: f64) -> Self {
                let (least, most) = (<$ty>::MIN as f64, <$ty>::MAX as f64);
                (least + part * (most - least)) as $ty
            }

            fn compared(found: Self, expected: $ty, _tolerance: f64) -> Compared {
                // Where f64 cannot tell the two apart, NaN agrees with neither.
                let alike = found != expected && found as f64 == expected as f64;
                let expected = if alike { f64::NAN } else { expected as f64 };
                Compared { found: found as f64, expected, tolerance: 0.0 }
            }
        })*
    };
}

integers! { i32 u32 i64 u64 }
