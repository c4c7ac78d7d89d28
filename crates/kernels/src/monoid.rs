//! What reductions and scans combine by: an associative operation with an identity.
//!
//! A [`Monoid`] is build-time configuration: its methods stage the few instructions that combine
//! two values, inside whatever kernel needs them. What is combined, the state, may be any device
//! value: a register, a tuple, or a struct of one's own.
//!
//! ```
//! use warpwright::prelude::*;
//! use warpwright::runtime::Device;
//! use warpwright_kernels::monoid::Monoid;
//! use warpwright_kernels::operations::Operations;
//!
//! /// The range of some numbers: the largest less the smallest.
//! #[derive(Clone, Copy, PartialEq, Eq, Hash)]
//! struct Range;
//!
//! #[derive(Clone, Copy, DeviceValue)]
//! struct Ends {
//!     least: Reg<f32>,
//!     most: Reg<f32>,
//! }
//!
//! impl Monoid<f32> for Range {
//!     type State = Ends;
//!     type Output = f32;
//!     const COMMUTES: bool = true;
//!
//!     fn identity(&self) -> Ends {
//!         Ends { least: constant(f32::INFINITY), most: constant(f32::NEG_INFINITY) }
//!     }
//!     fn lift(&self, element: Reg<f32>, _index: Reg<u64>) -> Ends {
//!         Ends { least: element, most: element }
//!     }
//!     fn combine(&self, earlier: Ends, later: Ends) -> Ends {
//!         Ends { least: earlier.least.min(later.least), most: earlier.most.max(later.most) }
//!     }
//!     fn lower(&self, state: Ends) -> Reg<f32> {
//!         state.most - state.least
//!     }
//! }
//!
//! # let device = Device::named("emu:h200")?;
//! # let (operations, stream) = (Operations::new(&device), device.stream()?);
//! let numbers = device.buffer_from(&[3.0f32, -1.0, 4.0])?;
//! assert_eq!(operations.reduce(&stream, &numbers, Range)?.to_vec()?, [5.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::hash::Hash;

use warpwright::lang::staging::Yields;
use warpwright::prelude::*;
use warpwright::runtime::Storable;

/// An associative operation with an identity, on elements of type `T`.
pub trait Monoid<T: Element>: Copy + Eq + Hash + Send + Sync + 'static {
    /// What is combined.
    type State: DeviceValue + Copy + Yields<Self::State>;
    /// What a result is in memory.
    type Output: Storable;
    /// Whether `combine(a, b)` is `combine(b, a)`. Where it is not, elements are combined in their
    /// order.
    const COMMUTES: bool;

    /// What changes nothing when it is combined with.
    fn identity(&self) -> Self::State;

    /// One element as a state; `index` is its place in the buffer.
    fn lift(&self, element: Reg<T>, index: Reg<u64>) -> Self::State;

    /// The two together, `earlier` standing before `later`.
    fn combine(&self, earlier: Self::State, later: Self::State) -> Self::State;

    /// A state as a result.
    fn lower(&self, state: Self::State) -> Reg<Self::Output>;

    /// `state` with one more element that stands after all that are in it.
    fn accumulate(&self, state: Self::State, element: Reg<T>, index: Reg<u64>) -> Self::State {
        self.combine(state, self.lift(element, index))
    }

    /// `state` with a run of elements more, the first of them at `index`.
    fn accumulate_run(&self, state: Self::State, run: &[Reg<T>], index: Reg<u64>) -> Self::State {
        let one = |(state, offset), element: &Reg<T>| {
            (self.accumulate(state, *element, index + offset), offset + 1)
        };
        run.iter().fold((state, 0u64), one).0
    }
}

/// A monoid whose state and results are elements: what can be combined in place.
pub trait InPlace<T: Element>: Monoid<T, State = Reg<T>, Output = T> {}

impl<T: Element, M: Monoid<T, State = Reg<T>, Output = T>> InPlace<T> for M {}

/// The sum. 16-bit floats add in `f32` and are rounded once, at the end; integers wrap.
///
/// Of floats the identity is -0, as in Rust's own `sum`: -0 + x is x whatever x is, while 0 + -0 is
/// 0. So the sum of nothing, and the first result of an exclusive scan, are -0, which equals 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sum;

/// The product. 16-bit floats multiply in `f32` and are rounded once, at the end; integers wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product;

/// The smallest; NaN if any is NaN. -0 is below +0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Min;

/// The largest; NaN if any is NaN. +0 is above -0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Max;

/// The index of the first largest element; a NaN is larger than all numbers, and -0 equals +0. Of
/// no elements, `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgMax;

/// The index of the first smallest element; a NaN is smaller than all numbers, and -0 equals +0. Of
/// no elements, `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgMin;

/// A monoid whose state is one register of type `$state`, and whose elements and results convert to
/// it and from it.
macro_rules! arithmetic {
    ($($monoid:ident $element:ty as $state:ty, $identity:expr, $combine:expr;)*) => {
        $(impl Monoid<$element> for $monoid {
            type State = Reg<$state>;
            type Output = $element;
            const COMMUTES: bool = true;

            fn identity(&self) -> Reg<$state> {
                constant($identity)
            }

            fn lift(&self, element: Reg<$element>, _index: Reg<u64>) -> Reg<$state> {
                element.convert()
            }

            fn combine(&self, earlier: Reg<$state>, later: Reg<$state>) -> Reg<$state> {
                let combine: fn(Reg<$state>, Reg<$state>) -> Reg<$state> = $combine;
                combine(earlier, later)
            }

            fn lower(&self, state: Reg<$state>) -> Reg<$element> {
                state.convert()
            }
        })*
    };
}

/// Sums and products: what they are computed in, and their identities.
macro_rules! sums_and_products {
    ($($element:ty as $state:ty, $nothing:expr, $one:expr;)*) => {
        arithmetic! { $(
            Sum $element as $state, $nothing, |a, b| a + b;
            Product $element as $state, $one, |a, b| a * b;
        )* }
    };
}

sums_and_products! {
    f16 as f32, -0.0, 1.0;
    bf16 as f32, -0.0, 1.0;
    f32 as f32, -0.0, 1.0;
    f64 as f64, -0.0, 1.0;
    i32 as i32, 0, 1;
    u32 as u32, 0, 1;
    i64 as i64, 0, 1;
    u64 as u64, 0, 1;
}

/// Smallest and largest: how two are compared.
macro_rules! extremes {
    ($($element:ty, $min:expr, $max:expr;)*) => {
        arithmetic! { $(
            Min $element as $element, <$element as Searchable>::MOST, $min;
            Max $element as $element, <$element as Searchable>::LEAST, $max;
        )* }
    };
}

extremes! {
    f16, |a, b| a.min_nan(b), |a, b| a.max_nan(b);
    bf16, |a, b| a.min_nan(b), |a, b| a.max_nan(b);
    f32, |a, b| a.min_nan(b), |a, b| a.max_nan(b);
    // PTX has no `min.NaN.f64`.
    f64, |a, b| nan_or(a, b, a.min(b)), |a, b| nan_or(a, b, a.max(b));
    i32, |a, b| a.min(b), |a, b| a.max(b);
    u32, |a, b| a.min(b), |a, b| a.max(b);
    i64, |a, b| a.min(b), |a, b| a.max(b);
    u64, |a, b| a.min(b), |a, b| a.max(b);
}

/// Whichever of `a` and `b` is NaN, or else `number`.
fn nan_or(a: Reg<f64>, b: Reg<f64>, number: Reg<f64>) -> Reg<f64> {
    a.is_nan().select(a, b.is_nan().select(b, number))
}

/// An element and where it was found.
#[derive(Clone, Copy, DeviceValue)]
pub struct Found<T: Element> {
    /// The element.
    pub value: Reg<T>,
    /// Its place in the buffer; `u64::MAX` for none.
    pub index: Reg<u64>,
}

/// A type whose extremes can be looked for.
pub trait Searchable: Ordered + Storable {
    /// What no element is above.
    const MOST: Self;
    /// What no element is below.
    const LEAST: Self;
}

macro_rules! searchable {
    ($($ty:ty: $least:expr, $most:expr;)*) => {
        $(impl Searchable for $ty {
            const MOST: Self = $most;
            const LEAST: Self = $least;
        })*
    };
}

searchable! {
    f16: f16::NEG_INFINITY, f16::INFINITY;
    bf16: bf16::NEG_INFINITY, bf16::INFINITY;
    f32: f32::NEG_INFINITY, f32::INFINITY;
    f64: f64::NEG_INFINITY, f64::INFINITY;
    i32: i32::MIN, i32::MAX;
    u32: u32::MIN, u32::MAX;
    i64: i64::MIN, i64::MAX;
    u64: u64::MIN, u64::MAX;
}

/// The better of two finds, `beats` telling whether one number is strictly better than another: NaN
/// is better than any, and of equals the one that stands first.
fn better<T: Searchable>(one: Found<T>, other: Found<T>, beats: Comparison<T>) -> Found<T> {
    let (one_is_nan, other_is_nan) = (one.value.ne(one.value), other.value.ne(other.value));
    let equal = one.value.eq(other.value) | (one_is_nan & other_is_nan);
    let wins =
        beats(other.value, one.value) | (other_is_nan & !one_is_nan) | (equal & other.index.lt(one.index));
    select_value(wins, other, one)
}

/// [`better`] of a find and a run that stands after it, `yields` telling whether one number is at
/// most as good as another. Inside the run a place is a number known at build time, so four
/// instructions an element are enough.
fn best_of_run<T: Searchable>(
    before: Found<T>,
    run: &[Reg<T>],
    index: Reg<u64>,
    yields: Comparison<T>,
) -> Found<T> {
    // What is not at most as good is better, or one of the two is NaN; the first NaN stays.
    let wins = |value: Reg<T>, over: Reg<T>| !yields(value, over) & over.eq(over);
    let (mut best, mut place) = (run[0], constant(0u32));
    for (offset, value) in run.iter().enumerate().skip(1) {
        let wins = wins(*value, best);
        (best, place) = (wins.select(*value, best), wins.select(offset as u32, place));
    }
    let found = Found { value: best, index: index + place.convert::<u64>() };
    select_value(wins(best, before.value) | before.index.eq(u64::MAX), found, before)
}

/// A comparison of two numbers.
type Comparison<T> = fn(Reg<T>, Reg<T>) -> Reg<bool>;

macro_rules! searches {
    ($($monoid:ident, $worst:ident, $beats:ident, $yields:ident;)*) => {
        $(impl<T: Searchable> Monoid<T> for $monoid {
            type State = Found<T>;
            type Output = u64;
            const COMMUTES: bool = true;

            fn identity(&self) -> Found<T> {
                Found { value: constant(T::$worst), index: constant(u64::MAX) }
            }

            fn lift(&self, element: Reg<T>, index: Reg<u64>) -> Found<T> {
                Found { value: element, index }
            }

            fn combine(&self, earlier: Found<T>, later: Found<T>) -> Found<T> {
                better(earlier, later, |a, b| a.$beats(b))
            }

            fn lower(&self, state: Found<T>) -> Reg<u64> {
                state.index
            }

            fn accumulate_run(&self, state: Found<T>, run: &[Reg<T>], index: Reg<u64>) -> Found<T> {
                best_of_run(state, run, index, |a, b| a.$yields(b))
            }
        })*
    };
}

searches! {
    ArgMax, LEAST, gt, le;
    ArgMin, MOST, lt, ge;
}
