//! The error function and its complement, of f64.

use super::exponential::exp_of_sum;
use super::recip;
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `erf(x) / x - 1` in powers of x^2, for |x| up to 1.
const NEAR: [f64; 13] = [
    0.128_379_167_095_512_6,
    -0.376_126_389_031_837_5,
    0.112_837_916_709_548_62,
    -0.026_866_170_645_073_607,
    0.005_223_977_624_786_498,
    -0.000_854_832_697_901_797_9,
    0.000_120_553_310_457_301_4,
    -1.492_559_369_708_835_2e-05,
    1.646_097_559_341_112_4e-06,
    -1.635_005_231_510_834_3e-07,
    1.465_804_908_095_231_4e-08,
    -1.136_627_785_775_997_8e-09,
    5.946_235_610_998_36e-11,
];

/// `erfc(t) e^(t^2) / w` in powers of `w - 1/2`, where `w = 1 / (1 + t / 2)`, for t from 0.8 to 28.
const TAIL: [f64; 20] = [
    0.510_791_352_621_011_5,
    0.687_160_684_413_810_8,
    0.558_944_185_112_148_7,
    0.145_768_926_027_388_95,
    -0.172_085_295_131_165_24,
    -0.103_666_961_085_695_9,
    0.098_899_588_161_179_27,
    0.053_586_952_797_087_445,
    -0.084_873_570_485_217_47,
    -0.008_799_691_695_872_877,
    0.073_974_846_759_883_1,
    -0.034_935_950_168_553_49,
    -0.044_522_685_211_475_36,
    0.065_161_049_027_957_51,
    -0.009_521_322_830_458_095,
    -0.048_872_704_229_400_57,
    0.090_569_023_880_396_74,
    -0.034_538_788_326_211_18,
    -0.284_061_126_120_647_27,
    -0.175_068_749_947_168_37,
];

/// `erfc(t)` for t from 0.8, where `t^2 = square + rest`.
#[track_caller]
pub(super) fn complement(t: Reg<f64>, square: Reg<f64>, rest: Reg<f64>) -> Reg<f64> {
    let w = recip(t.mul_add(0.5, 1.0));
    // Halves of the power, so that only the last product may be subnormal.
    let root = exp_of_sum(square * -0.5, rest * -0.5);
    polynomial(w - 0.5, &TAIL) * w * root * root
}

/// `erfc(t)` of a number that is not negative.
#[track_caller]
fn far(t: Reg<f64>) -> Reg<f64> {
    // Past 27.3 the complement is zero.
    let t = t.gt(28.0).select(28.0f64, t);
    let square = t * t;
    complement(t, square, t.mul_add(t, -square))
}

#[track_caller]
pub(crate) fn erf(x: Reg<f64>) -> Reg<f64> {
    let t = x.abs();
    let near = x.mul_add(polynomial(x * x, &NEAR), x);
    t.lt(1.0).select(near, (1.0 - far(t)).copysign(x))
}

#[track_caller]
pub(crate) fn erfc(x: Reg<f64>) -> Reg<f64> {
    let t = x.abs();
    let near = 1.0 - x.mul_add(polynomial(x * x, &NEAR), x);
    let far = far(t);
    let far = x.lt(0.0).select(2.0 - far, far);
    t.lt(0.8).select(near, far)
}
