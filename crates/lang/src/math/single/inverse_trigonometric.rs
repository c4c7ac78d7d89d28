//! Inverse trigonometric functions of f32.

use std::f32::consts::{FRAC_PI_2, PI};

use super::{odd_below, reciprocal, square_root};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// The sine of nearly 1/2: from there on, half of the angle to pi/2 is below 1/2, where floats are
/// denser.
const FAR: f32 = 0.5405;

/// `(asin(x) - x) / x^3` in powers of x^2, for |x| up to `FAR`: relative error below 2^-26.
const ASIN: [f32; 5] = [0.166_668_83, 0.074_899_24, 0.046_145_458, 0.020_878_146, 0.047_679_644];

/// `(atan(x) - x) / x^3` in powers of x^2, for |x| up to 1: relative error below 2^-25.
const ATAN: [f32; 8] = [
    -0.333_331_53,
    0.199_937_67,
    -0.142_110_08,
    0.106_658_21,
    -0.075_517_6,
    0.043_204_706,
    -0.016_361_842,
    0.002_918_631_8,
];

/// The parts of pi/2 and pi beyond their floats.
const FRAC_PI_2_LOW: f32 = (std::f64::consts::FRAC_PI_2 - FRAC_PI_2 as f64) as f32;

/// The arcsine of |x|, or where that is above `FAR`, half of the angle to pi/2: the sum of `base`
/// and `cube * polynomial`.
struct HalfAngle {
    is_far: Reg<bool>,
    base: Reg<f32>,
    cube: Reg<f32>,
    polynomial: Reg<f32>,
}

#[track_caller]
fn half_angle(x: Reg<f32>) -> HalfAngle {
    let t = x.abs();
    let is_far = t.gt(FAR);
    // asin(t) = pi/2 - 2 asin(sqrt((1 - t) / 2))
    let s = is_far.select(t.mul_add(-0.5, 0.5), x * x);
    let base = is_far.select(square_root(s), t);
    HalfAngle { is_far, base, cube: base * s, polynomial: polynomial(s, &ASIN) }
}

#[track_caller]
pub(crate) fn asin(x: Reg<f32>) -> Reg<f32> {
    let HalfAngle { is_far, base, cube, polynomial } = half_angle(x);
    // Twice the offset is what pi/2 has beyond its float.
    let offset = is_far.select(FRAC_PI_2_LOW * -0.5, 0.0f32);
    let angle = base + cube.mul_add(polynomial, offset);
    let far = angle.mul_add(-2.0, FRAC_PI_2);
    is_far.select(far, angle).copysign(x)
}

#[track_caller]
pub(crate) fn acos(x: Reg<f32>) -> Reg<f32> {
    let HalfAngle { is_far, base, cube, polynomial } = half_angle(x);
    let angle = cube.mul_add(polynomial, base);
    // Near: pi/2 - asin(x). Far: 2 angle, or pi - 2 angle for a negative number.
    let signed = angle.copysign(x);
    let near = (FRAC_PI_2_LOW - signed) + FRAC_PI_2;
    let doubled = signed + signed;
    let far = x.lt(0.0).select(doubled + PI, doubled);
    is_far.select(far, near)
}

#[track_caller]
pub(crate) fn atan(x: Reg<f32>) -> Reg<f32> {
    let t = x.abs();
    let is_steep = t.gt(1.0);
    let slope = is_steep.select(reciprocal(t), t);
    let s = slope * slope;
    let angle = odd_below(slope, s, polynomial(s, &ATAN));
    is_steep.select(FRAC_PI_2 - angle, angle).copysign(x)
}

#[track_caller]
pub(crate) fn atan2(y: Reg<f32>, x: Reg<f32>) -> Reg<f32> {
    let (height, width) = (y.abs(), x.abs());
    let (longer, shorter) = (height.max_nan(width), height.min_nan(width));
    // Two infinities are the sides of a square; two zeros have the angle 0 to the x axis.
    let quotient = crate::operation::compute::<f32, 2>("div.rn.f32", [shorter.operand(), longer.operand()]);
    let equal = longer.gt(0.0).select(1.0f32, 0.0f32);
    let slope = shorter.eq(longer).select(equal, quotient);
    let s = slope * slope;
    let angle = odd_below(slope, s, polynomial(s, &ATAN));
    let angle = height.gt(width).select(FRAC_PI_2 - angle, angle);
    // The sign of a zero counts too.
    let is_left = x.bit_cast::<i32>().lt(0);
    is_left.select(PI - angle, angle).copysign(y)
}
