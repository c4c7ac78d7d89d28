//! The gamma function of f32 and its logarithm, computed in f64: the logarithm is zero at numbers
//! that f32 does not have.

use crate::math::double::{exp, ln, recip};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `ln(gamma(y)) / ((y - 1) (y - 2))` in powers of `y - 1.625`, for y from 1 to 2.25: relative error
/// below 2^-37.
const NEAR: [f64; 15] = [
    0.465_809_637_361_966_8,
    -0.131_578_991_330_823_01,
    0.052_579_426_336_492_98,
    -0.024_194_432_276_064_378,
    0.011_991_909_829_296_859,
    -0.006_215_563_538_001_808,
    0.003_317_393_760_087_077_6,
    -0.001_805_713_508_011_131,
    0.000_998_068_623_498_132_4,
    -0.000_567_144_739_613_479_8,
    0.000_321_837_917_531_722_6,
    -0.000_153_281_240_924_680_36,
    8.448_849_732_851_693e-05,
    -9.929_342_831_539_847e-05,
    5.969_486_421_564_174e-05,
];

/// `z (ln(gamma(z)) - (z - 1/2) (ln(z) - 1) - CONSTANT)` in powers of `1 / z^2`, for z from 6.25 on:
/// absolute error of the logarithm below 2^-68.
const FAR: [f64; 9] = [
    0.083_333_333_333_333_33,
    -0.002_777_777_777_777_660_4,
    0.000_793_650_793_525_532_3,
    -0.000_595_238_043_722_61,
    0.000_841_740_169_451_773_3,
    -0.001_916_272_373_389_557_5,
    0.006_321_977_861_796_874,
    -0.025_785_972_574_521_553,
    0.084_281_631_890_654_71,
];

/// `(ln(2 pi) - 1) / 2`
const CONSTANT: f64 = 0.418_938_533_204_672_7;

/// `sin(pi r) / (pi r)` in powers of r^2, for |r| up to 1/2: relative error below 2^-71.
const SINE: [f64; 10] = [
    1.0,
    -1.644_934_066_848_226_4,
    0.811_742_425_283_353_6,
    -0.190_751_824_122_082_36,
    0.026_147_847_817_607_844,
    -0.002_346_081_034_768_453,
    0.000_148_428_786_887_570_85,
    -6.975_839_587_832_169e-06,
    2.530_072_217_889_028e-07,
    -7.090_796_048_678_869e-09,
];

/// `ln(|gamma(x)|)`, except of minus infinity.
#[track_caller]
fn logarithm(x: Reg<f64>) -> Reg<f64> {
    let t = x.abs();
    // gamma(t) is e^sum / divisor: below 1 and from 2.25 to 6.25, sum is that of a larger number.
    let (is_small, is_near, is_middle) = (t.lt(1.0), t.lt(2.25), t.lt(6.25));
    let y = is_small.select(t + 1.0, t);
    // The sum with +0 makes a product of -0 positive.
    let near = ((y - 1.0) * (y - 2.0)).mul_add(polynomial(y - 1.625, &NEAR), 0.0);
    let z = is_middle.select(t + 4.0, t);
    let inverse = recip(z);
    let rest = polynomial(inverse * inverse, &FAR).mul_add(inverse, CONSTANT);
    let far = (z - 0.5).mul_add(ln(z) - 1.0, rest);
    let product = t * (t + 1.0) * (t + 2.0) * (t + 3.0);
    let divisor = is_near.select(is_small.select(t, 1.0), is_middle.select(product, 1.0));
    let sum = is_near.select(near, far);
    // gamma(x) gamma(-x) is -pi / (x sin(pi x)).
    let r = x - x.round_ties_even();
    let sine = r.abs() * polynomial(r * r, &SINE);
    let is_negative = x.lt(0.0);
    let divisor = is_negative.select(t * sine / divisor, divisor);
    is_negative.select(-sum, sum) - ln(divisor)
}

#[track_caller]
pub(crate) fn lgamma(x: Reg<f32>) -> Reg<f32> {
    let t = x.abs();
    // Infinity and NaN are their own results.
    t.lt(f32::INFINITY).select(logarithm(x.convert()).convert(), t)
}

#[track_caller]
pub(crate) fn tgamma(x: Reg<f32>) -> Reg<f32> {
    let magnitude: Reg<f32> = exp(logarithm(x.convert())).convert();
    let floor = x.floor();
    // Between negative integers the sign alternates.
    let is_odd = (floor * 0.5).fract().ne(0.0);
    let of_negative = is_odd.select(-magnitude, magnitude);
    // At the negative integers the sign is undefined; at zero it is that of the zero.
    let of_negative = x.eq(floor).select(f32::NAN, of_negative);
    x.lt(0.0).select(of_negative, magnitude.copysign(x))
}
