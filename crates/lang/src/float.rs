//! Floating-point operations beyond the operators: fused, rounded, approximate.

use crate::arithmetic::arithmetic_word;
use crate::conversion::Rounding;
use crate::element::{DeviceFloat, Float, Kind, Number, SignedNumber, bf16, bf16x2, f16, f16x2};
use crate::operation::{compute, compute_into, refuse};
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

/// A float with every rounding mode in hardware: `f32` and `f64`.
pub trait RoundedFloat: Float {}

impl RoundedFloat for f32 {}
impl RoundedFloat for f64 {}

/// How a float instruction rounds and clamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// The rounding.
    pub rounding: Rounding,
    /// Whether subnormals count as zero (`f32` only).
    pub flush_to_zero: bool,
    /// Whether the result is clamped to [0, 1] (`f32` only).
    pub saturate: bool,
}

impl From<Rounding> for Mode {
    fn from(rounding: Rounding) -> Self {
        Self { rounding, ..Self::default() }
    }
}

impl Mode {
    #[track_caller]
    fn words<T: Float>(self) -> String {
        if self.rounding == Rounding::NearestAway {
            refuse("arithmetic does not round halves away from zero; only conversion to tf32 does");
        }
        if T::BYTES == 8 && (self.flush_to_zero || self.saturate) {
            refuse("f64 arithmetic neither flushes subnormals nor saturates");
        }
        let flush = if self.flush_to_zero { ".ftz" } else { "" };
        let saturate = if self.saturate { ".sat" } else { "" };
        format!("{}{flush}{saturate}", self.rounding.word())
    }
}

impl<T: RoundedFloat> Reg<T> {
    /// `self + other` in a given mode.
    #[track_caller]
    pub fn add_with(self, other: impl Value<T>, mode: impl Into<Mode>) -> Self {
        let words = mode.into().words::<T>();
        compute(format!("add{words}.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// `self - other` in a given mode.
    #[track_caller]
    pub fn sub_with(self, other: impl Value<T>, mode: impl Into<Mode>) -> Self {
        let words = mode.into().words::<T>();
        compute(format!("sub{words}.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// `self * other` in a given mode.
    #[track_caller]
    pub fn mul_with(self, other: impl Value<T>, mode: impl Into<Mode>) -> Self {
        let words = mode.into().words::<T>();
        compute(format!("mul{words}.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// `self * factor + addend`, rounded once, in a given mode.
    #[track_caller]
    pub fn mul_add_with(self, factor: impl Value<T>, addend: impl Value<T>, mode: impl Into<Mode>) -> Self {
        let words = mode.into().words::<T>();
        compute(format!("fma{words}.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }

    /// `self / other` in a given mode.
    #[track_caller]
    pub fn div_with(self, other: impl Value<T>, mode: impl Into<Mode>) -> Self {
        let words = mode.into().words::<T>();
        compute(format!("div{words}.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// `1 / self`, to the nearest even.
    #[track_caller]
    pub fn rcp(self) -> Self {
        compute(format!("rcp.rn.{}", T::PTX), [Reg::operand(self)])
    }

    /// The value rounded to an integer in the direction of `rounding`, as a float.
    #[track_caller]
    pub fn round_with(self, rounding: Rounding) -> Self {
        let word = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => "rni",
            Rounding::Zero => "rzi",
            Rounding::Down => "rmi",
            Rounding::Up => "rpi",
        };
        compute(format!("cvt.{word}.{0}.{0}", T::PTX), [Reg::operand(self)])
    }
}

impl<T: DeviceFloat> Reg<T> {
    /// This magnitude with the sign of `sign`.
    #[track_caller]
    pub fn copysign(self, sign: impl Value<T>) -> Self {
        if T::BYTES == 2 {
            const SIGN: u16 = 1 << 15;
            let (magnitude, sign) = (self.bit_cast::<u16>(), sign.reg().bit_cast::<u16>());
            return ((magnitude & !SIGN) | (sign & SIGN)).bit_cast();
        }
        // PTX takes the sign from its first operand.
        compute(format!("copysign.{}", T::PTX), [sign.operand(), Reg::operand(self)])
    }
}

impl<T: Float> Reg<T> {
    /// `self * factor + addend`, rounded once.
    #[track_caller]
    pub fn mul_add(self, factor: impl Value<T>, addend: impl Value<T>) -> Self {
        compute(format!("fma.rn.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }

    /// Adds `a * b`, rounded once, to this variable.
    #[track_caller]
    pub fn fused_add_assign(&mut self, a: impl Value<T>, b: impl Value<T>) {
        let this = *self;
        compute_into(this, format!("fma.rn.{}", T::PTX), [a.operand(), b.operand(), Reg::operand(this)]);
    }

    /// The smaller of the two, NaN if either is NaN.
    #[track_caller]
    pub fn min_nan(self, other: impl Value<T>) -> Self {
        compute(format!("min.NaN.{}", T::PTX), [Reg::operand(self), other.operand()])
    }

    /// The larger of the two, NaN if either is NaN.
    #[track_caller]
    pub fn max_nan(self, other: impl Value<T>) -> Self {
        compute(format!("max.NaN.{}", T::PTX), [Reg::operand(self), other.operand()])
    }
}

impl<T: Number> Reg<T> {
    /// The smaller of the two; of a number and NaN, the number.
    #[track_caller]
    pub fn min(self, other: impl Value<T>) -> Self {
        compute(format!("min.{}", arithmetic_word::<T>()), [Reg::operand(self), other.operand()])
    }

    /// The larger of the two; of a number and NaN, the number.
    #[track_caller]
    pub fn max(self, other: impl Value<T>) -> Self {
        compute(format!("max.{}", arithmetic_word::<T>()), [Reg::operand(self), other.operand()])
    }

    /// The value, clamped to the bounds.
    #[track_caller]
    pub fn clamp(self, low: impl Value<T>, high: impl Value<T>) -> Self {
        self.max(low).min(high)
    }
}

impl<T: SignedNumber> Reg<T> {
    /// The magnitude.
    #[track_caller]
    pub fn abs(self) -> Self {
        let result = compute(format!("abs.{}", arithmetic_word::<T>()), [Reg::operand(self)]);
        if T::KIND == Kind::Signed {
            crate::arithmetic::renormalize(result);
        }
        result
    }
}

macro_rules! approximations {
    ($($(#[$doc:meta])* $name:ident $opcode:literal;)*) => {
        impl Reg<f32> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(self) -> Self {
                    compute($opcode, [Reg::operand(self)])
                }
            )*
        }
    };
}

approximations! {
    /// `2^self` to about 2 units in the last place: `ex2.approx`.
    ex2_approx "ex2.approx.f32";
    /// The logarithm to base 2, approximately: `lg2.approx`.
    lg2_approx "lg2.approx.f32";
    /// The sine, approximately: `sin.approx`.
    sin_approx "sin.approx.f32";
    /// The cosine, approximately: `cos.approx`.
    cos_approx "cos.approx.f32";
    /// The hyperbolic tangent to about 2^-11: `tanh.approx`.
    tanh_approx "tanh.approx.f32";
    /// The square root, approximately: `sqrt.approx`.
    sqrt_approx "sqrt.approx.f32";
    /// `1 / sqrt(self)`, approximately: `rsqrt.approx`.
    rsqrt_approx "rsqrt.approx.f32";
    /// `1 / self`, approximately: `rcp.approx`.
    rcp_approx "rcp.approx.f32";
}

/// A 16-bit float, or a pair of them, on which an operation works lane by lane.
pub trait HalfFloat: Float {
    /// Whether it is made of bf16.
    const IS_BFLOAT: bool;
}

impl HalfFloat for f16 {
    const IS_BFLOAT: bool = false;
}

impl HalfFloat for f16x2 {
    const IS_BFLOAT: bool = false;
}

impl HalfFloat for bf16 {
    const IS_BFLOAT: bool = true;
}

impl HalfFloat for bf16x2 {
    const IS_BFLOAT: bool = true;
}

impl<T: HalfFloat> Reg<T> {
    /// `self * factor + addend`, rounded once, and zero where that is negative or NaN: `fma.relu`.
    #[track_caller]
    pub fn mul_add_relu(self, factor: impl Value<T>, addend: impl Value<T>) -> Self {
        compute(format!("fma.rn.relu.{}", T::PTX), [Reg::operand(self), factor.operand(), addend.operand()])
    }

    /// `2^self`, approximately: `ex2.approx`. Of bf16, subnormals count as zero; sm_90.
    #[track_caller]
    pub fn ex2_approx(self) -> Self {
        if T::IS_BFLOAT {
            require(Feature::BfloatApproximations);
        }
        let flush = if T::IS_BFLOAT { ".ftz" } else { "" };
        compute(format!("ex2.approx{flush}.{}", T::PTX), [Reg::operand(self)])
    }

    /// The hyperbolic tangent, approximately: `tanh.approx`. Of bf16: sm_90.
    #[track_caller]
    pub fn tanh_approx(self) -> Self {
        if T::IS_BFLOAT {
            require(Feature::BfloatApproximations);
        }
        compute(format!("tanh.approx.{}", T::PTX), [Reg::operand(self)])
    }
}

impl Reg<f32> {
    /// The smallest of three by one instruction; of numbers and NaN, a number; sm_100.
    #[track_caller]
    pub fn min3(self, second: impl Value<f32>, third: impl Value<f32>) -> Self {
        require(Feature::ThreeInputMinimum);
        compute("min.f32", [Reg::operand(self), second.operand(), third.operand()])
    }

    /// The largest of three by one instruction; of numbers and NaN, a number; sm_100.
    #[track_caller]
    pub fn max3(self, second: impl Value<f32>, third: impl Value<f32>) -> Self {
        require(Feature::ThreeInputMinimum);
        compute("max.f32", [Reg::operand(self), second.operand(), third.operand()])
    }
}

impl Reg<f32> {
    /// `self / other` to 2 units in the last place: `div.approx`.
    #[track_caller]
    pub fn div_approx(self, other: impl Value<f32>) -> Self {
        compute("div.approx.f32", [Reg::operand(self), other.operand()])
    }

    /// `self / other` to 2 units in the last place, over the whole range: `div.full`.
    #[track_caller]
    pub fn div_full(self, other: impl Value<f32>) -> Self {
        compute("div.full.f32", [Reg::operand(self), other.operand()])
    }
}
