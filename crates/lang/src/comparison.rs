//! Comparisons, selection, and classification of floats. The comparison operators of attributed
//! code call these.

use warpwright_ir::Operand;

use crate::arithmetic::{arithmetic_word, widen_half};
use crate::element::{DeviceFloat, Element, Float, Kind, Ordered};
use crate::operation::compute;
use crate::operators::is_predicate;
use crate::value::{Reg, Value};

/// Records `setp.CMP`. bf16 compares as f32, exactly: `setp.bf16` would need sm_90.
#[track_caller]
fn compare<T: Element>(comparison: &str, a: Operand, b: Operand) -> Reg<bool> {
    if T::PTX == "bf16" {
        let (a, b) = (widen_half("bf16", a), widen_half("bf16", b));
        return compute(format!("setp.{comparison}.f32"), [a.operand(), b.operand()]);
    }
    compute(format!("setp.{comparison}.{}", arithmetic_word::<T>()), [a, b])
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Value<T>) -> Reg<bool> {
                compare::<T>($word, Reg::operand(*self), other.operand())
            }
        )*
    };
}

// By reference, as the methods of `PartialOrd` and `PartialEq` are: of a reference to a device value,
// the compiler would prefer those, which never apply.
impl<T: Ordered> Reg<T> {
    comparisons! {
        /// `self < other`; false if either is NaN.
        lt "lt";
        /// `self <= other`; false if either is NaN.
        le "le";
        /// `self > other`; false if either is NaN.
        gt "gt";
        /// `self >= other`; false if either is NaN.
        ge "ge";
    }
}

/// A type whose values can be equal: predicates, integers and floats.
pub trait Equatable: Element {}

impl Equatable for bool {}
impl<T: Ordered> Equatable for T {}

/// Records `a == b` or `a != b`. PTX: `ne` is false on NaN, `neu` is Rust's `!=`.
#[track_caller]
fn equate<T: Equatable>(equal: bool, a: Operand, b: Operand) -> Reg<bool> {
    if T::PTX == "pred" {
        let different = compute("xor.pred", [a, b]);
        return if equal { !different } else { different };
    }
    let comparison = match (equal, T::KIND) {
        (true, _) => "eq",
        (false, Kind::Float) => "neu",
        (false, _) => "ne",
    };
    compare::<T>(comparison, a, b)
}

impl<T: Equatable> Reg<T> {
    /// `self == other`; false if either is NaN.
    #[track_caller]
    pub fn eq(&self, other: impl Value<T>) -> Reg<bool> {
        equate::<T>(true, Reg::operand(*self), other.operand())
    }

    /// `self != other`; true if either is NaN.
    #[track_caller]
    pub fn ne(&self, other: impl Value<T>) -> Reg<bool> {
        equate::<T>(false, Reg::operand(*self), other.operand())
    }
}

impl Reg<bool> {
    /// `yes` where this is true and `no` elsewhere; both are computed.
    #[track_caller]
    pub fn select<T: Element>(self, yes: impl Value<T>, no: impl Value<T>) -> Reg<T> {
        if is_predicate::<T>() {
            let yes = compute::<bool, 2>("and.pred", [self.operand(), yes.operand()]);
            let no = compute::<bool, 2>("and.pred", [(!self).operand(), no.operand()]);
            return compute("or.pred", [yes.operand(), no.operand()]);
        }
        let word = crate::value::move_word::<T>();
        compute(format!("selp.{word}"), [yes.operand(), no.operand(), self.operand()])
    }

    /// 1 where this is true and 0 elsewhere.
    #[track_caller]
    pub fn to_u32(self) -> Reg<u32> {
        self.select(1u32, 0u32)
    }
}

/// The classes of floats that `testp` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatClass {
    /// Neither infinite nor NaN.
    Finite,
    /// Positive or negative infinity.
    Infinite,
    /// A number, infinities included.
    Number,
    /// Not a number.
    NotANumber,
    /// Neither zero, subnormal, infinite nor NaN.
    Normal,
    /// Subnormal; zero counts as subnormal here (PTX ISA, `testp`).
    Subnormal,
}

/// `testp`, of f32 or f64.
#[track_caller]
fn test<T: Float>(value: Reg<T>, class: FloatClass) -> Reg<bool> {
    let word = match class {
        FloatClass::Finite => "finite",
        FloatClass::Infinite => "infinite",
        FloatClass::Number => "number",
        FloatClass::NotANumber => "notanumber",
        FloatClass::Normal => "normal",
        FloatClass::Subnormal => "subnormal",
    };
    compute(format!("testp.{word}.{}", T::PTX), [value.operand()])
}

impl<T: TestableFloat> Reg<T> {
    /// Whether the value is of `class`: `testp`.
    #[track_caller]
    pub fn is(self, class: FloatClass) -> Reg<bool> {
        test(self, class)
    }
}

/// [`test`] for a class that 16-bit floats are of as f32 too: any but normal and subnormal.
#[track_caller]
fn test_wide<T: DeviceFloat>(value: Reg<T>, class: FloatClass) -> Reg<bool> {
    if T::BYTES == 2 { test(value.convert::<f32>(), class) } else { test(value, class) }
}

impl<T: DeviceFloat> Reg<T> {
    /// Whether the value is NaN.
    #[track_caller]
    pub fn is_nan(self) -> Reg<bool> {
        test_wide(self, FloatClass::NotANumber)
    }

    /// Whether the value is neither infinite nor NaN.
    #[track_caller]
    pub fn is_finite(self) -> Reg<bool> {
        test_wide(self, FloatClass::Finite)
    }

    /// Whether the value is infinite.
    #[track_caller]
    pub fn is_infinite(self) -> Reg<bool> {
        test_wide(self, FloatClass::Infinite)
    }
}

/// A float that `testp` takes.
pub trait TestableFloat: Float {}

impl TestableFloat for f32 {}
impl TestableFloat for f64 {}
