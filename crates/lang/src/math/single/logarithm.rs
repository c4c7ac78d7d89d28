//! Logarithms of f32.

use std::f32::consts::FRAC_1_SQRT_2;
use std::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E};

use super::{bits, from_bits, log2_normal};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(ln(1 + f) - f) / f^2` for 1 + f from sqrt(1/2) to sqrt(2): relative error of `ln(1 + f)` below
/// 2^-27.
const LN_1P: [f32; 9] = [
    -0.5,
    0.333_333_3,
    -0.250_008_23,
    0.200_012_55,
    -0.166_233_3,
    0.142_011_84,
    -0.131_599_13,
    0.127_651_84,
    -0.076_394_28,
];

/// `ln(1 + f)` for 1 + f from sqrt(1/2) to sqrt(2).
#[track_caller]
fn ln_1p_fraction(f: Reg<f32>) -> Reg<f32> {
    (f * f).mul_add(polynomial(f, &LN_1P), f)
}

/// A number `2^exponent * (1 + f)`, with `1 + f` between sqrt(1/2) and sqrt(2).
struct Split {
    f: Reg<f32>,
    exponent: Reg<f32>,
    /// The number, or if it is subnormal, a multiple of it.
    scaled: Reg<f32>,
}

const SQRT_HALF: u32 = FRAC_1_SQRT_2.to_bits();
const EXPONENT_MASK: u32 = 0xff80_0000;
const EXPONENT_STEP: f32 = 1.0 / 8_388_608.0;

#[track_caller]
fn split(x: Reg<f32>) -> Split {
    // Subnormals are scaled to normal numbers.
    let is_small = x.lt(f32::MIN_POSITIVE);
    let scaled = is_small.select(x * 8_388_608.0, x);
    let offset = is_small.select(-23.0f32, 0.0f32);
    let exponent = (bits(scaled) - SQRT_HALF) & EXPONENT_MASK;
    let f = from_bits(bits(scaled) - exponent) - 1.0;
    Split { f, exponent: exponent.bit_cast::<i32>().convert::<f32>().mul_add(EXPONENT_STEP, offset), scaled }
}

/// `finite`, or where `x` is zero, negative, infinite or NaN, the logarithm of that.
#[track_caller]
fn with_special(x: Reg<f32>, finite: Reg<f32>) -> Reg<f32> {
    // 1 to the last finite number are the patterns of positive finite numbers. The approximation
    // is exact at the others.
    (bits(x) - 1).ge(f32::MAX.to_bits()).select(log2_normal(x), finite)
}

#[track_caller]
pub(crate) fn ln(x: Reg<f32>) -> Reg<f32> {
    let Split { f, exponent, scaled } = split(x);
    with_special(scaled, exponent.mul_add(LN_2 as f32, ln_1p_fraction(f)))
}

/// `log_b(1 + f)` less `f * (of_e as f32)`, where `of_e` is `log_b(e)`.
#[track_caller]
fn rest_to_base(f: Reg<f32>, of_e: f64) -> Reg<f32> {
    let coefficients = LN_1P.map(|coefficient| (f64::from(coefficient) * of_e) as f32);
    f * f.mul_add(polynomial(f, &coefficients), (of_e - f64::from(of_e as f32)) as f32)
}

#[track_caller]
pub(crate) fn log2(x: Reg<f32>) -> Reg<f32> {
    let Split { f, exponent, scaled } = split(x);
    with_special(scaled, exponent + f.mul_add(LOG2_E as f32, rest_to_base(f, LOG2_E)))
}

#[track_caller]
pub(crate) fn log10(x: Reg<f32>) -> Reg<f32> {
    const LOG10_2_LOW: f32 = (LOG10_2 - LOG10_2 as f32 as f64) as f32;
    let Split { f, exponent, scaled } = split(x);
    let low = exponent.mul_add(LOG10_2_LOW, rest_to_base(f, LOG10_E));
    with_special(scaled, exponent.mul_add(LOG10_2 as f32, f.mul_add(LOG10_E as f32, low)))
}

/// `1 + x = 2^exponent * (1 + f)`, with `1 + f` between sqrt(1/2) and sqrt(2).
struct SplitSum {
    x: Reg<f32>,
    /// `-exponent`, in the exponent's bits.
    minus_exponent: Reg<u32>,
}

impl SplitSum {
    #[track_caller]
    fn new(x: Reg<f32>) -> Self {
        const LARGEST: u32 = SQRT_HALF + !EXPONENT_MASK;
        Self { x, minus_exponent: (LARGEST - bits(x + 1.0)) & EXPONENT_MASK }
    }

    /// `value * 2^-exponent`, of a power of two.
    #[track_caller]
    fn scaled(&self, value: f32) -> Reg<f32> {
        from_bits(self.minus_exponent + value.to_bits())
    }

    /// `ln(1 + x)`, where `scale` is `2^-exponent`.
    #[track_caller]
    fn logarithm(&self, scale: Reg<f32>, one_less_scale: Reg<f32>) -> Reg<f32> {
        // f without the rounding of 1 + x; mostly exact. The signs keep an x of -0.
        let f = self.x.mul_add(scale, -one_less_scale);
        let minus_exponent = self.minus_exponent.bit_cast::<i32>().convert::<f32>();
        minus_exponent.mul_add(-(LN_2 as f32) * EXPONENT_STEP, ln_1p_fraction(f))
    }
}

/// `ln(1 + x)` of a number above -1 and below 2^126.
#[track_caller]
pub(super) fn ln_1p_moderate(x: Reg<f32>) -> Reg<f32> {
    let split = SplitSum::new(x);
    let scale = split.scaled(1.0);
    split.logarithm(scale, 1.0 - scale)
}

/// `ln(1 + x)` of a number above -1, infinity apart.
#[track_caller]
pub(super) fn ln_1p_finite(x: Reg<f32>) -> Reg<f32> {
    let split = SplitSum::new(x);
    // The scale of the largest numbers, 2^-128, is subnormal.
    let fourfold = split.scaled(4.0);
    split.logarithm(fourfold * 0.25, fourfold.mul_add(-0.25, 1.0))
}

#[track_caller]
pub(crate) fn ln_1p(x: Reg<f32>) -> Reg<f32> {
    with_special(x + 1.0, ln_1p_finite(x))
}
