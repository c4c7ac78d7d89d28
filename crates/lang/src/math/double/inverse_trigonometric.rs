//! Inverse trigonometric functions of f64.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(asin(x) - x) / x^3` in powers of x^2, for |x| up to 0.5.
const ASIN: [f64; 12] = [
    0.166_666_666_666_653_83,
    0.075_000_000_003_430_63,
    0.044_642_856_823_468_77,
    0.030_381_959_331_739_466,
    0.022_371_753_513_793_023,
    0.017_359_771_220_552_07,
    0.013_884_597_584_393_327,
    0.012_173_283_978_102_57,
    0.006_510_836_872_494_252,
    0.019_573_943_230_604_82,
    -0.016_294_121_498_217_136,
    0.031_958_992_524_386_734,
];

/// `(atan(x) - x) / x^3` in powers of x^2, for |x| up to tan(pi/8).
const ATAN: [f64; 11] = [
    -0.333_333_333_333_331_87,
    0.199_999_999_999_497_27,
    -0.142_857_142_797_886_44,
    0.111_111_107_622_276_7,
    -0.090_908_971_258_249_16,
    0.076_920_486_334_301_03,
    -0.066_629_688_821_593_67,
    0.058_468_823_731_051_583,
    -0.050_346_706_547_190_596,
    0.037_944_552_305_599_955,
    -0.017_773_488_147_546_302,
];

/// What pi/2 has beyond its float.
const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;

/// The arcsine of |x|, or where that is above 1/2, half of the angle to pi/2; and whether it is.
#[track_caller]
fn half_angle(x: Reg<f64>) -> (Reg<f64>, Reg<bool>) {
    let t = x.abs();
    let is_far = t.gt(0.5);
    let s = is_far.select(t.mul_add(-0.5, 0.5), x * x);
    let base = is_far.select(s.sqrt(), t);
    ((base * s).mul_add(polynomial(s, &ASIN), base), is_far)
}

#[track_caller]
pub(crate) fn asin(x: Reg<f64>) -> Reg<f64> {
    let (angle, is_far) = half_angle(x);
    let far = angle.mul_add(-2.0, FRAC_PI_2_LOW) + FRAC_PI_2;
    is_far.select(far, angle).copysign(x)
}

#[track_caller]
pub(crate) fn acos(x: Reg<f64>) -> Reg<f64> {
    let (angle, is_far) = half_angle(x);
    let signed = angle.copysign(x);
    let near = (FRAC_PI_2_LOW - signed) + FRAC_PI_2;
    let doubled = signed + signed;
    let far = x.lt(0.0).select((doubled + 2.0 * FRAC_PI_2_LOW) + PI, doubled);
    is_far.select(far, near)
}

/// The arctangent of `numerator / denominator`; neither is negative.
#[track_caller]
fn angle(numerator: Reg<f64>, denominator: Reg<f64>) -> Reg<f64> {
    // Above tan(3 pi/8) the angle to pi/2, above tan(pi/8) that to pi/4.
    const TAN_PI_8: f64 = 0.414_213_562_373_095_03;
    let is_steep = numerator.gt(denominator * (2.0 + TAN_PI_8));
    let is_middle = !is_steep & numerator.gt(denominator * TAN_PI_8);
    let above = is_steep.select(-denominator, is_middle.select(numerator - denominator, numerator));
    let below = is_steep.select(numerator, is_middle.select(numerator + denominator, denominator));
    let slope = above / below;
    let offset = is_steep.select(FRAC_PI_2, is_middle.select(FRAC_PI_4, 0.0f64));
    let offset_low = is_steep.select(FRAC_PI_2_LOW, is_middle.select(FRAC_PI_2_LOW / 2.0, 0.0f64));
    let s = slope * slope;
    let correction = (slope * s).mul_add(polynomial(s, &ATAN), offset_low);
    offset + (slope + correction)
}

#[track_caller]
pub(crate) fn atan(x: Reg<f64>) -> Reg<f64> {
    let t = x.abs();
    let near = angle(t, crate::value::constant(1.0f64));
    t.eq(f64::INFINITY).select(FRAC_PI_2, near).copysign(x)
}

#[track_caller]
pub(crate) fn atan2(y: Reg<f64>, x: Reg<f64>) -> Reg<f64> {
    let (height, width) = (y.abs(), x.abs());
    // Scaled, sums and products of the sides neither overflow nor underflow. Two infinities are the
    // sides of a square; two zeros have the angle 0 to the x axis.
    let longest = height.max(width);
    let factor =
        longest.gt(1.0e300).select(2f64.powi(-64), longest.lt(1.0e-200).select(2f64.powi(200), 1.0f64));
    let (height_scaled, width_scaled) = (height * factor, width * factor);
    let is_equal = height.eq(width);
    let one = crate::value::constant(1.0f64);
    let numerator = is_equal.select(longest.gt(0.0).select(1.0f64, 0.0f64), height_scaled);
    let denominator = is_equal.select(one, width_scaled);
    let angle = angle(numerator, denominator);
    let is_unequal_infinity = longest.eq(f64::INFINITY) & !is_equal & !(y + x).is_nan();
    let limit = height.gt(width).select(FRAC_PI_2, 0.0f64);
    let angle = is_unequal_infinity.select(limit, angle);
    let is_left = x.bit_cast::<i64>().lt(0);
    is_left.select(PI - (angle - 2.0 * FRAC_PI_2_LOW), angle).copysign(y)
}
