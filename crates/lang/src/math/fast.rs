//! Approximations by the special function units: `fast::exp(x)`.
//!
//! One to four instructions each. Their errors are the instructions' (PTX ISA, the `.approx`
//! forms), multiplied where a function scales its argument or its result. A subnormal argument or
//! result may count as zero.

use std::f32::consts::{LN_2, LOG2_10, LOG2_E, LOG10_2};

use crate::contraction::strict;
use crate::operation::{compute, on_behalf_of_author};
use crate::value::{Reg, Value};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($x:ident) $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name($x: Reg<f32>) -> Reg<f32> {
                on_behalf_of_author(|| strict(|| $body))
            }
        )*
    };
}

/// An instruction of the special function units, on numbers that are not subnormal.
#[track_caller]
fn approximate(opcode: &'static str, x: Reg<f32>) -> Reg<f32> {
    compute(opcode, [x.operand()])
}

functions! {
    /// `2^x`: relative error below 2^-22.
    exp2(x) approximate("ex2.approx.ftz.f32", x);
    /// `e^x`: relative error below `2^-22 + |x| 2^-23`.
    exp(x) approximate("ex2.approx.ftz.f32", x * LOG2_E);
    /// `10^x`: relative error below `2^-22 + |x| 2^-21`.
    exp10(x) approximate("ex2.approx.ftz.f32", x * LOG2_10);
    /// The logarithm to base 2: absolute error below 2^-22 for x between 1/2 and 2, else relative
    /// error below 2^-22.
    log2(x) approximate("lg2.approx.ftz.f32", x);
    /// The natural logarithm: as [`log2`].
    ln(x) approximate("lg2.approx.ftz.f32", x) * LN_2;
    /// The logarithm to base 10: as [`log2`].
    log10(x) approximate("lg2.approx.ftz.f32", x) * LOG10_2;
    /// The sine: absolute error below 2^-20 for |x| up to pi, larger beyond.
    sin(x) approximate("sin.approx.ftz.f32", x);
    /// The cosine: absolute error below 2^-20 for |x| up to pi, larger beyond.
    cos(x) approximate("cos.approx.ftz.f32", x);
    /// The tangent, as the quotient of [`sin`] and [`cos`].
    tan(x) sin(x) * recip(cos(x));
    /// The hyperbolic tangent: relative error below 2^-10.
    tanh(x) x.tanh_approx();
    /// `1 / x`: error of 1 ulp.
    recip(x) approximate("rcp.approx.ftz.f32", x);
    /// The square root: relative error below 2^-22.
    sqrt(x) approximate("sqrt.approx.ftz.f32", x);
    /// `1 / sqrt(x)`: relative error below 2^-22.
    rsqrt(x) approximate("rsqrt.approx.ftz.f32", x);
    /// `1 / (1 + e^-x)`, by [`tanh`]: absolute error below 2^-11.
    sigmoid(x) (x * 0.5).tanh_approx().mul_add(0.5, 0.5);
    /// `x * sigmoid(x)`, by [`tanh`]: absolute error below `|x| 2^-11`.
    silu(x) {
        let half = x * 0.5;
        half.mul_add(half.tanh_approx(), half)
    };
    /// GELU by a hyperbolic tangent, by [`tanh`]: absolute error below `|x| 2^-11`.
    gelu_tanh(x) {
        // sqrt(2 / pi)
        const SLOPE: f32 = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
        let half = x * 0.5;
        let inner = x * (x * x).mul_add(SLOPE * 0.044_715, SLOPE);
        half.mul_add(inner.tanh_approx(), half)
    };
}

/// `x^y` of a positive number: relative error below `2^-22 + |y| max(1, |log2(x)|) 2^-22`.
#[track_caller]
pub fn powf(x: Reg<f32>, y: impl Value<f32>) -> Reg<f32> {
    on_behalf_of_author(|| strict(|| exp2(log2(x) * y.reg())))
}

/// `x / y`: error of 2 ulp where the divisor is between 2^-126 and 2^126.
#[track_caller]
pub fn div(x: Reg<f32>, y: impl Value<f32>) -> Reg<f32> {
    on_behalf_of_author(|| compute("div.approx.ftz.f32", [x.operand(), y.operand()]))
}
