//! Powers of f32.

use std::f32::consts::LOG2_E;

use super::{bits, exp2_normal, from_bits, reciprocal};
use crate::math::polynomial::polynomial;
use crate::value::Reg;

/// `(ln((2 + u) / (2 - u)) - u) / u^3` in powers of u^2, for u^2 up to 0.12: relative error of the
/// logarithm below 2^-29.
const LOGARITHM: [f32; 3] = [0.083_333_48, 0.012_492_704, 0.002_335_739_6];

const SQRT_HALF: u32 = 0x3f35_04f3;

/// A number as the sum of two floats, of which the second is small.
struct Pair {
    high: Reg<f32>,
    low: Reg<f32>,
}

/// `log2(t)` of a positive finite number, to about 32 bits.
#[track_caller]
fn log2(t: Reg<f32>) -> Pair {
    let is_small = t.lt(f32::MIN_POSITIVE);
    let t = is_small.select(t * 16_777_216.0, t);
    let offset = is_small.select(-24.0f32, 0.0f32);
    let shifted = (bits(t) - SQRT_HALF) & 0xff80_0000;
    let exponent = shifted.bit_cast::<i32>().convert::<f32>().mul_add(1.0 / 8_388_608.0, offset);
    let f = from_bits(bits(t) - shifted) - 1.0;
    // u = 2 f / (2 + f), and what its rounding lost.
    let inverse = reciprocal(f + 2.0);
    let u = (f + f) * inverse;
    let lost = (f - u) * 2.0;
    let u_low = u.mul_add(-f, lost) * inverse;
    let square = u * u;
    let rest = (square * polynomial(square, &LOGARITHM)).mul_add(u, u_low);
    const LOW: f32 = (std::f64::consts::LOG2_E - LOG2_E as f64) as f32;
    let product = u * LOG2_E;
    let error = u.mul_add(LOG2_E, -product);
    let small = rest.mul_add(LOG2_E, u.mul_add(LOW, error));
    let fraction = product + small;
    let fraction_low = small - (fraction - product);
    let high = exponent + fraction;
    Pair { high, low: (fraction - (high - exponent)) + fraction_low }
}

/// `2^(high + low)`.
#[track_caller]
fn exp2(power: &Pair) -> Reg<f32> {
    const TO_INTEGER: f32 = 12_582_912.0;
    let exponent = power
        .high
        .max_nan(-126.0)
        .min_nan(126.0)
        .add_with(TO_INTEGER, crate::conversion::Rounding::NearestEven);
    let fraction = (power.high - (exponent - TO_INTEGER)) + power.low;
    exp2_normal(fraction) * from_bits((bits(exponent) << 23) + 0x3f80_0000)
}

/// `t^y` of a positive finite number other than 1.
#[track_caller]
fn magnitude(t: Reg<f32>, y: Reg<f32>) -> Reg<f32> {
    let logarithm = log2(t);
    let product = y * logarithm.high;
    let error = y.mul_add(logarithm.high, -product);
    let low = y.mul_add(logarithm.low, error);
    // Past these the result is zero or infinite, and the product may be infinite.
    let is_extreme = product.abs().gt(300.0);
    exp2(&Pair { high: product.max_nan(-300.0).min_nan(300.0), low: is_extreme.select(0.0f32, low) })
}

#[track_caller]
pub(crate) fn powf(x: Reg<f32>, y: Reg<f32>) -> Reg<f32> {
    crate::math::powf::powf((x, y), magnitude, |x| x.bit_cast::<i32>().lt(0))
}
