//! The numbers of inputs and references on the host, in every type that the kernels take.

use warpwright::lang::element::{bf16, f16};
use warpwright::runtime::Storable;

use crate::reference::{drawn, repeated};

/// A number on the host.
pub trait HostNumber: Storable {
    /// Half of the distance between neighbours at 1: the error of one rounding. 0 for integers.
    const ROUNDING: f64;
    /// The smallest positive number: where numbers are smaller, an error is a part of this. 0 for integers.
    const SMALLEST: f64;
    /// The nearest number of this type; integers wrap.
    fn nearest(value: f64) -> Self;
    /// The value exactly.
    fn value(self) -> f64;
    /// The sum, rounded once; integers wrap.
    fn sum(self, other: Self) -> Self;
    /// The product, rounded once; integers wrap.
    fn product(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($ty:ty, $digits:literal, $smallest:literal, |$from:ident| $nearest:expr, |$to:ident| $value:expr;)*) => {
        $(impl HostNumber for $ty {
            const ROUNDING: f64 = 1.0 / (1u64 << $digits) as f64;
            const SMALLEST: f64 = $smallest;

            fn nearest($from: f64) -> Self {
                $nearest
            }

            fn value(self) -> f64 {
                let $to = self;
                $value
            }

            // f64 has more than twice the digits of the narrower types, so that rounding twice is rounding once.
            fn sum(self, other: Self) -> Self {
                Self::nearest(self.value() + other.value())
            }

            fn product(self, other: Self) -> Self {
                Self::nearest(self.value() * other.value())
            }
        })*
    };
}

floats! {
    f64, 53, 5e-324, |from| from, |to| to;
    f32, 24, 1.4e-45, |from| from as f32, |to| f64::from(to);
    f16, 11, 5.96e-8, |from| f16::from_f64(from), |to| f64::from(to);
    bf16, 8, 9.2e-41, |from| bf16::from_f64(from), |to| f64::from(to);
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl HostNumber for $ty {
            const ROUNDING: f64 = 0.0;
            const SMALLEST: f64 = 0.0;

            fn nearest(value: f64) -> Self {
                value as i64 as Self
            }

            fn value(self) -> f64 {
                self as f64
            }

            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        })*
    };
}

integers! { u8 i8 u32 i32 }

/// What floats are made of, apart from numbers near 1.
const SPECIAL: [f64; 6] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-40, 3e38];

/// What inputs are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Normally distributed around 0.
    Normal,
    /// Among them NaN, infinities, negative zero, subnormal and huge numbers, one in a few hundred.
    Special,
    /// Around 1000, with the deviation of 1: sums of squares cancel.
    Offset,
}

impl Values {
    /// The words that options choose them by.
    pub const WORDS: &'static [&'static str] = &["normal", "special", "offset"];

    /// The values of that word.
    pub fn named(word: &str) -> Self {
        match word {
            "special" => Self::Special,
            "offset" => Self::Offset,
            _ => Self::Normal,
        }
    }

    /// `count` numbers from a seed, the same on every machine.
    pub fn numbers<T: HostNumber>(self, seed: u64, count: usize) -> Vec<T> {
        repeated(count, |count| self.made(seed, count))
    }

    fn made<T: HostNumber>(self, seed: u64, count: usize) -> Vec<T> {
        drawn(seed, count, T::nearest(0.0), |random, numbers| {
            let scale = if T::ROUNDING == 0.0 { 50.0 } else { 1.0 };
            let normal = random.normal(numbers.len());
            for (number, value) in numbers.iter_mut().zip(normal) {
                *number =
                    T::nearest(f64::from(value) * scale + if self == Self::Offset { 1000.0 } else { 0.0 });
            }
            if self == Self::Special {
                for number in &mut numbers[..] {
                    let draw = random.below(400);
                    if let Some(special) = SPECIAL.get(draw as usize) {
                        *number = T::nearest(*special);
                    }
                }
            }
        })
    }
}

/// Calls `$body` with `$ty` as the type of that name.
#[macro_export]
macro_rules! with_type {
    ($name:expr, [$($word:literal $of:ty),* $(,)?], $ty:ident => $body:expr) => {
        match $name {
            $($word => { type $ty = $of; $body })*
            other => Err(format!("there is no type {other} here").into()),
        }
    };
}

pub use with_type;
