//! The functions as methods, for every float type.

use super::single;
use crate::element::{Float, bf16, f16};
use crate::operation::on_behalf_of_author;
use crate::value::{Reg, Value};

macro_rules! functions {
    (
        one { $($(#[$doc:meta])* $name:ident;)* }
        two { $($(#[$doc2:meta])* $name2:ident($other:ident);)* }
    ) => {
        /// A float that has the mathematical functions: `f16`, `bf16` and `f32`.
        pub trait MathFloat: Float {
            $(#[doc(hidden)] fn $name(x: Reg<Self>) -> Reg<Self>;)*
            $(#[doc(hidden)] fn $name2(x: Reg<Self>, $other: Reg<Self>) -> Reg<Self>;)*
            #[doc(hidden)]
            fn sin_cos(x: Reg<Self>) -> (Reg<Self>, Reg<Self>);
        }

        impl<T: MathFloat> Reg<T> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(self) -> Self {
                    on_behalf_of_author(|| T::$name(self))
                }
            )*
            $(
                $(#[$doc2])*
                #[track_caller]
                pub fn $name2(self, $other: impl Value<T>) -> Self {
                    on_behalf_of_author(|| T::$name2(self, $other.reg()))
                }
            )*
            /// The sine and the cosine.
            #[track_caller]
            pub fn sin_cos(self) -> (Self, Self) {
                on_behalf_of_author(|| T::sin_cos(self))
            }
        }

        impl MathFloat for f32 {
            $(fn $name(x: Reg<f32>) -> Reg<f32> { single::$name(x) })*
            $(fn $name2(x: Reg<f32>, $other: Reg<f32>) -> Reg<f32> { single::$name2(x, $other) })*
            fn sin_cos(x: Reg<f32>) -> (Reg<f32>, Reg<f32>) { single::sin_cos(x) }
        }

        functions!(through_f32: f16 bf16; $($name)*; $($name2)*);
    };
    (through_f32: $first:ident $second:ident; $($name:ident)*; $($name2:ident)*) => {
        functions!(narrow: $first; $($name)*; $($name2)*);
        functions!(narrow: $second; $($name)*; $($name2)*);
    };
    (narrow: $ty:ident; $($name:ident)*; $($name2:ident)*) => {
        impl MathFloat for $ty {
            $(fn $name(x: Reg<$ty>) -> Reg<$ty> { single::$name(x.convert()).convert() })*
            $(
                fn $name2(x: Reg<$ty>, y: Reg<$ty>) -> Reg<$ty> {
                    single::$name2(x.convert(), y.convert()).convert()
                }
            )*
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
    /// GELU by a hyperbolic tangent: `self * (1 + tanh(sqrt(2 / pi) * (self + 0.044715 * self^3))) / 2`.
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
    }
    two {
    /// `self^exponent`.
    powf(exponent);
    /// The angle of the point (`x`, `self`) to the x axis, in radians, from -pi to pi.
    atan2(x);
    /// The length of the hypotenuse of a right triangle with these legs.
    hypot(other);
    }
}
