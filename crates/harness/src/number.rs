//! Numbers of inputs and references on the host.

use warpwright::lang::element::{bf16, e4m3, e5m2, f16, tf32};
use warpwright::runtime::Storable;

use crate::random::{generate, tiled};

/// A number on the host.
pub trait HostNumber: Storable {
    /// The relative error of one rounding: half the distance between neighbors at 1. 0 for
    /// integers.
    const ROUNDING: f64;
    /// The smallest positive number, the absolute error near 0. 0 for integers.
    const SMALLEST: f64;
    /// The nearest number of this type; integers wrap.
    fn nearest(value: f64) -> Self;
    /// The value exactly.
    fn exact(self) -> f64;
    /// The sum, rounded once; integers wrap.
    fn sum(self, other: Self) -> Self;
    /// The product, rounded once; integers wrap.
    fn product(self, other: Self) -> Self;

    /// The nearest number of this type.
    fn round(value: f32) -> Self {
        Self::nearest(f64::from(value))
    }
}

macro_rules! floats {
    ($($ty:ty, $digits:literal, $smallest:literal, |$from:ident| $nearest:expr, |$to:ident| $exact:expr;)*) => {
        $(impl HostNumber for $ty {
            const ROUNDING: f64 = 1.0 / (1u64 << $digits) as f64;
            const SMALLEST: f64 = $smallest;

            fn nearest($from: f64) -> Self {
                $nearest
            }

            fn exact(self) -> f64 {
                let $to = self;
                $exact
            }

            // f64 has more than twice the digits of the narrower types, so that rounding twice is
            // rounding once.
            fn sum(self, other: Self) -> Self {
                Self::nearest(self.exact() + other.exact())
            }

            fn product(self, other: Self) -> Self {
                Self::nearest(self.exact() * other.exact())
            }
        })*
    };
}

floats! {
    f64, 53, 5e-324, |from| from, |to| to;
    f32, 24, 1.4e-45, |from| from as f32, |to| f64::from(to);
    tf32, 11, 1.2e-41, |from| nearest_tf32(from as f32), |to| f64::from(to.0);
    f16, 11, 5.96e-8, |from| f16::from_f64(from), |to| f64::from(to);
    bf16, 8, 9.2e-41, |from| bf16::from_f64(from), |to| f64::from(to);
    e4m3, 4, 1.96e-3, |from| e4m3::from_f64(from), |to| to.to_f64();
    e5m2, 3, 1.53e-5, |from| e5m2::from_f64(from), |to| to.to_f64();
}

/// Adds half of the distance between neighbors to the magnitude and clears the 13 bits that are
/// not read.
fn nearest_tf32(value: f32) -> tf32 {
    tf32(f32::from_bits((value.to_bits() + 0x1000) & !0x1fff))
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl HostNumber for $ty {
            const ROUNDING: f64 = 0.0;
            const SMALLEST: f64 = 0.0;

            fn nearest(value: f64) -> Self {
                value as i64 as Self
            }

            fn exact(self) -> f64 {
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

/// The special values of floats.
const SPECIAL: [f64; 6] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e-40, 3e38];

/// The distribution of random inputs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Values {
    /// Normal with mean 0 and standard deviation 1; of integers, 50.
    #[default]
    Normal,
    /// Normal, with a NaN, infinity, negative zero, subnormal or huge number every few hundred
    /// elements.
    Special,
    /// Normal with mean 1000 and standard deviation 1: sums of squares cancel.
    Offset,
}

impl Values {
    /// `count` numbers from a seed, the same on every machine.
    pub fn numbers<T: HostNumber>(self, seed: u64, count: usize) -> Vec<T> {
        tiled(count, |count| self.made(seed, count))
    }

    fn made<T: HostNumber>(self, seed: u64, count: usize) -> Vec<T> {
        generate(seed, count, T::nearest(0.0), |random, numbers| {
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

/// Declares an enum of element types for an option, and a macro that dispatches on it:
///
/// ```
/// use warpwright_harness::{OptionValue, data_types};
///
/// data_types! {
///     /// Types that the kernel reads.
///     enum InputType by with_input_type { f32, f16, bf16 }
/// }
///
/// let ty = InputType::parse("f16")?;
/// assert_eq!(with_input_type!(ty, T => size_of::<T>()), 2);
/// assert_eq!(InputType::default(), InputType::f32);
/// # Ok::<(), String>(())
/// ```
///
/// The first type is the default. The types are those of [`types`](crate::types). The enum must be
/// in scope where the macro is used.
#[macro_export]
macro_rules! data_types {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident by $with:ident { $($types:ident),+ $(,)? }) => {
        $crate::data_types! { @($) $(#[$meta])* $visibility enum $name by $with { $($types),+ } }
    };
    (@($dollar:tt) $(#[$meta:meta])* $visibility:vis enum $name:ident by $with:ident { $first:ident $(, $rest:ident)* }) => {
        $(#[$meta])*
        #[allow(non_camel_case_types, missing_docs)] // A variant is the name of its type.
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash,
            $crate::strum::Display, $crate::strum::EnumMessage, $crate::strum::IntoStaticStr, $crate::strum::VariantArray,
        )]
        #[strum(crate = "warpwright_harness::strum")]
        $visibility enum $name {
            #[default]
            $first,
            $($rest,)*
        }

        /// Evaluates an expression with `T` as the type of a value of the enum.
        #[allow(unused_macros)]
        macro_rules! $with {
            ($dollar value:expr, $dollar T:ident => $dollar body:expr) => {
                match $dollar value {
                    $name::$first => {
                        type $dollar T = $crate::types::$first;
                        $dollar body
                    }
                    $($name::$rest => {
                        type $dollar T = $crate::types::$rest;
                        $dollar body
                    })*
                }
            };
        }
        #[allow(unused_imports)]
        pub(crate) use $with;
    };
}
