//! The functions as methods, for every float type.

use super::{double, single};
use crate::contraction::strict;
use crate::element::{Float, bf16, f16};
use crate::operation::on_behalf_of_author;
use crate::value::{Reg, Value};

/// Records a function: its instructions belong to the author's position, and are not contracted.
#[track_caller]
pub(super) fn evaluate<R>(function: impl FnOnce() -> R) -> R {
    on_behalf_of_author(|| strict(function))
}

/// `x^exponent` by squares and products.
#[track_caller]
fn repeated_product<T: MathFloat>(x: Reg<T>, exponent: i32, one: T) -> Reg<T> {
    let mut remaining = exponent.unsigned_abs();
    let (mut square, mut product) = (x, None);
    while remaining != 0 {
        if remaining & 1 == 1 {
            product = Some(product.map_or(square, |product: Reg<T>| product * square));
        }
        remaining >>= 1;
        if remaining != 0 {
            square = square * square;
        }
    }
    let product = product.unwrap_or_else(|| one.reg());
    if exponent < 0 { T::recip(product) } else { product }
}

macro_rules! functions {
    (
        one { $($(#[$doc:meta])* $name:ident;)* }
        two { $($(#[$doc2:meta])* $name2:ident($other:ident);)* }
    ) => {
        /// A float that has the mathematical functions.
        pub trait MathFloat: Float {
            $(#[doc(hidden)] fn $name(x: Reg<Self>) -> Reg<Self>;)*
            $(#[doc(hidden)] fn $name2(x: Reg<Self>, $other: Reg<Self>) -> Reg<Self>;)*
            #[doc(hidden)]
            fn powi(x: Reg<Self>, exponent: i32) -> Reg<Self>;
            #[doc(hidden)]
            fn sin_cos(x: Reg<Self>) -> (Reg<Self>, Reg<Self>);
        }

        impl<T: MathFloat> Reg<T> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(self) -> Self {
                    evaluate(|| T::$name(self))
                }
            )*
            $(
                $(#[$doc2])*
                #[track_caller]
                pub fn $name2(self, $other: impl Value<T>) -> Self {
                    evaluate(|| T::$name2(self, $other.reg()))
                }
            )*
            /// `self^exponent`, by repeated multiplication; of a negative exponent, the reciprocal.
            #[track_caller]
            pub fn powi(self, exponent: i32) -> Self {
                evaluate(|| T::powi(self, exponent))
            }

            /// The sine and the cosine.
            #[track_caller]
            pub fn sin_cos(self) -> (Self, Self) {
                evaluate(|| T::sin_cos(self))
            }
        }

        impl MathFloat for f32 {
            $(fn $name(x: Reg<f32>) -> Reg<f32> { single::$name(x) })*
            $(fn $name2(x: Reg<f32>, $other: Reg<f32>) -> Reg<f32> { single::$name2(x, $other) })*
            fn powi(x: Reg<f32>, exponent: i32) -> Reg<f32> { repeated_product(x, exponent, 1.0) }
            fn sin_cos(x: Reg<f32>) -> (Reg<f32>, Reg<f32>) { single::sin_cos(x) }
        }

        impl MathFloat for f64 {
            $(fn $name(x: Reg<f64>) -> Reg<f64> { double::$name(x) })*
            $(fn $name2(x: Reg<f64>, $other: Reg<f64>) -> Reg<f64> { double::$name2(x, $other) })*
            fn powi(x: Reg<f64>, exponent: i32) -> Reg<f64> { repeated_product(x, exponent, 1.0) }
            fn sin_cos(x: Reg<f64>) -> (Reg<f64>, Reg<f64>) { double::sin_cos(x) }
        }

        functions!(through_f32: f16 bf16; $($name)*; $($name2)*);
    };
    (through_f32: $first:ident $second:ident; $($name:ident)*; $($name2:ident)*) => {
        functions!(narrow: $first; $($name)*; $($name2)*);
        functions!(narrow: $second; $($name)*; $($name2)*);
    };
    (narrow: $ty:ident; $($name:ident)*; $($name2:ident)*) => {
        impl MathFloat for $ty {
            $(fn $name(x: Reg<$ty>) -> Reg<$ty> { single::$name(x.convert::<f32>()).convert() })*
            $(
                fn $name2(x: Reg<$ty>, y: Reg<$ty>) -> Reg<$ty> {
                    single::$name2(x.convert::<f32>(), y.convert::<f32>()).convert()
                }
            )*
            fn powi(x: Reg<$ty>, exponent: i32) -> Reg<$ty> {
                repeated_product(x.convert::<f32>(), exponent, 1.0).convert()
            }
            fn sin_cos(x: Reg<$ty>) -> (Reg<$ty>, Reg<$ty>) {
                let (sine, cosine) = single::sin_cos(x.convert());
                (sine.convert(), cosine.convert())
            }
        }
    };
}

functions! {
    one {
    /// `e^self`.
    exp;
    /// `2^self`.
    exp2;
    /// `10^self`.
    exp10;
    /// `e^self - 1`, accurate near zero too.
    exp_m1;
    /// The natural logarithm.
    ln;
    /// The logarithm to base 2.
    log2;
    /// The logarithm to base 10.
    log10;
    /// `ln(1 + self)`, accurate near zero too.
    ln_1p;
    /// The square root, to the nearest even.
    sqrt;
    /// `1 / sqrt(self)`.
    rsqrt;
    /// The cube root.
    cbrt;
    /// `1 / self`, to the nearest even.
    recip;
    /// The sine of an angle in radians.
    sin;
    /// The cosine of an angle in radians.
    cos;
    /// The tangent of an angle in radians.
    tan;
    /// The arcsine, in radians; NaN outside of [-1, 1].
    asin;
    /// The arccosine, in radians; NaN outside of [-1, 1].
    acos;
    /// The arctangent, in radians.
    atan;
    /// The hyperbolic sine.
    sinh;
    /// The hyperbolic cosine.
    cosh;
    /// The hyperbolic tangent.
    tanh;
    /// The inverse of the hyperbolic sine.
    asinh;
    /// The inverse of the hyperbolic cosine; NaN below 1.
    acosh;
    /// The inverse of the hyperbolic tangent; NaN outside of [-1, 1].
    atanh;
    /// The error function.
    erf;
    /// `1 - erf(self)`, accurate where that is small too.
    erfc;
    /// `1 / (1 + e^-self)`.
    sigmoid;
    /// `self * sigmoid(self)`.
    silu;
    /// `self * (1 + erf(self / sqrt(2))) / 2`.
    gelu;
    /// GELU by a hyperbolic tangent: `self * (1 + tanh(sqrt(2 / pi) * (self + 0.044715 * self^3)))
    /// / 2`.
    gelu_tanh;
    /// `ln(1 + e^self)`.
    softplus;
    /// The largest integer not above the value.
    floor;
    /// The smallest integer not below the value.
    ceil;
    /// The integer part.
    trunc;
    /// The nearest integer; halves go away from zero.
    round;
    /// The nearest integer; halves go to the even one.
    round_ties_even;
    /// The value less its integer part.
    fract;
    /// The angle of this many radians, in degrees.
    to_degrees;
    /// The angle of this many degrees, in radians.
    to_radians;
    }
    two {
    /// `self^exponent`.
    powf(exponent);
    /// The angle of the point (`x`, `self`) to the x axis, in radians, from -pi to pi.
    atan2(x);
    /// The length of the hypotenuse of a right triangle with these legs.
    hypot(other);
    /// `self - other` where that is positive, else 0; NaN if either is NaN.
    fdim(other);
    }
}

macro_rules! signum {
    ($($ty:ty: |$x:ident| $value:expr;)*) => {
        $(impl Reg<$ty> {
            /// 1 with the sign of the value; NaN of NaN.
            #[track_caller]
            pub fn signum(self) -> Self {
                let $x = self;
                evaluate(|| $value)
            }
        })*
    };
}

signum! {
    f32: |x| single::signum(x);
    f64: |x| double::signum(x);
    f16: |x| single::signum(x.convert::<f32>()).convert();
    bf16: |x| single::signum(x.convert::<f32>()).convert();
}

macro_rules! without_f64 {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl Reg<f32> {
            $($(#[$doc])* #[track_caller] pub fn $name(self) -> Self {
                evaluate(|| single::$name(self))
            })*
        }

        impl Reg<f16> {
            $($(#[$doc])* #[track_caller] pub fn $name(self) -> Self {
                evaluate(|| single::$name(self.convert()).convert())
            })*
        }

        impl Reg<bf16> {
            $($(#[$doc])* #[track_caller] pub fn $name(self) -> Self {
                evaluate(|| single::$name(self.convert()).convert())
            })*
        }
    };
}

without_f64! {
    /// The gamma function: of a positive integer, the factorial of the number before it. NaN of a
    /// negative integer. Computed in f64.
    tgamma;
    /// The natural logarithm of the magnitude of [`tgamma`](Self::tgamma). Computed in f64.
    lgamma;
}
