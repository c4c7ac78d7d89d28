//! Sine, cosine and tangent of f32.

use std::f32::consts::FRAC_2_PI;

use super::{bits, from_bits, odd_above, odd_below, reciprocal};
use crate::math::choice::unless;
use crate::math::polynomial::{either_polynomial, polynomial};
use crate::value::Reg;

/// pi/2 as the sum of three floats, all positive: a zero keeps its sign when a multiple of zero is
/// subtracted.
const HALF_PI: [f32; 3] = {
    // The bits of pi/2 beyond those of an f64.
    const REST: f64 = 6.123_233_995_736_766e-17;
    let high = truncated(std::f64::consts::FRAC_PI_2);
    let middle = truncated(std::f64::consts::FRAC_PI_2 - high as f64);
    [high, middle, (std::f64::consts::FRAC_PI_2 - high as f64 - middle as f64 + REST) as f32]
};

/// A positive number rounded down.
const fn truncated(x: f64) -> f32 {
    let nearest = x as f32;
    if nearest as f64 > x { f32::from_bits(nearest.to_bits() - 1) } else { nearest }
}

/// Arguments below it are reduced by subtracting multiples of pi/2.
const LARGE: f32 = 65_536.0;

/// Adding it rounds to an integer, whose low bits are those of the sum.
const TO_INTEGER: f32 = 12_582_912.0;

/// `(sin(r) - r) / r^3` and `(cos(r) - 1) / r^2` in powers of r^2, for |r| up to pi/4: relative
/// error below 2^-28.
const SINE: [f32; 4] = [-0.166_666_55, 0.008_332_19, -0.000_195_184_05, 0.0];
const COSINE: [f32; 4] = [-0.5, 0.041_666_646, -0.001_388_730_1, 0.000_024_430_67];

/// `(tan(r) - r) / r^3` in powers of r^2, for |r| up to pi/4: relative error below 2^-25.
const TANGENT: [f32; 6] =
    [0.333_331_38, 0.133_392_56, 0.053_376_313, 0.024_546_692, 0.002_943_917_9, 0.009_484_13];

/// An angle `quadrant * pi/2 + r`, with |r| up to pi/4. Of the quadrant only the two lowest bits
/// count.
struct Angle {
    r: Reg<f32>,
    quadrant: Reg<u32>,
}

#[track_caller]
fn reduce(x: Reg<f32>) -> Angle {
    let (r, quadrant) = unless(x.abs().ge(LARGE), reduce_small(x), || reduce_large(x));
    Angle { r, quadrant }
}

#[track_caller]
fn reduce_small(x: Reg<f32>) -> (Reg<f32>, Reg<u32>) {
    let shifted = x.mul_add(FRAC_2_PI, TO_INTEGER);
    let multiple = shifted + -TO_INTEGER;
    let r = HALF_PI.iter().fold(x, |r, part| multiple.mul_add(-part, r));
    (r, bits(shifted))
}

/// 2/pi after the binary point, in words of 32 bits.
const TWO_OVER_PI: [u32; 7] =
    [0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// The reduction of Payne and Hanek: of x * 2/pi, only the bits that the quadrant and the fraction
/// depend on are computed.
#[track_caller]
fn reduce_large(x: Reg<f32>) -> (Reg<f32>, Reg<u32>) {
    let pattern = bits(x);
    let mantissa = (pattern & 0x007f_ffff) | 0x0080_0000;
    // x = mantissa * 2^(e - 23). The bits of 2/pi before position e - 25 give multiples of 4. A
    // word of zeros comes first.
    let position = ((pattern >> 23) & 0xff) - (127 - 7);
    let offset = position & 31;
    let mut words: Vec<Reg<u32>> =
        std::iter::once(&0).chain(&TWO_OVER_PI).map(|word| crate::value::constant(*word)).collect();
    // The four words from position / 32 on, by the bits of that number.
    for step in [4, 2, 1] {
        let skips = (position & (32 * step as u32)).ne(0);
        let last = words.len() - 1;
        words = (0..3 + step).map(|i| skips.select(words[last.min(i + step)], words[i])).collect();
    }
    let window: Vec<Reg<u32>> = (0..3).map(|i| words[i + 1].funnel_left(words[i], offset)).collect();
    let low = mantissa.mul_wide(window[2]) >> 32;
    let middle = mantissa.mul_wide(window[1]) + low;
    let high = (mantissa * window[0]).convert::<u64>() << 32;
    // The position in the turn, of which the two highest bits are the quadrant.
    let turn = high + middle;
    // Rounded to the nearest quadrant; the rest has a sign.
    let quadrant = ((turn + (1u64 << 61)) >> 62).convert::<u32>();
    let fraction = (turn << 2).bit_cast::<i64>();
    const UNIT: f64 = std::f64::consts::FRAC_PI_2 / 18_446_744_073_709_551_616.0;
    let r = (fraction.convert::<f64>() * UNIT).convert::<f32>();
    // A negative x has the negative angle. Infinity and NaN become NaN.
    let is_negative = x.lt(0.0);
    let r = x.mul_add(0.0, is_negative.select(-r, r));
    (r, is_negative.select(0u32 - quadrant, quadrant))
}

/// The sine of an angle.
#[track_caller]
fn sine(angle: &Angle) -> Reg<f32> {
    let s = angle.r * angle.r;
    let is_odd = (angle.quadrant & 1).ne(0);
    let base = is_odd.select(1.0f32, angle.r);
    let magnitude = odd_below(base, s, either_polynomial(is_odd, s, &COSINE, &SINE));
    from_bits(bits(magnitude) ^ ((angle.quadrant & 2) << 30))
}

#[track_caller]
pub(crate) fn sin(x: Reg<f32>) -> Reg<f32> {
    sine(&reduce(x))
}

#[track_caller]
pub(crate) fn cos(x: Reg<f32>) -> Reg<f32> {
    let Angle { r, quadrant } = reduce(x);
    sine(&Angle { r, quadrant: quadrant + 1 })
}

#[track_caller]
pub(crate) fn sin_cos(x: Reg<f32>) -> (Reg<f32>, Reg<f32>) {
    let Angle { r, quadrant } = reduce(x);
    let s = r * r;
    let sine = odd_below(r, s, polynomial(s, &SINE[..3]));
    let cosine = s.mul_add(polynomial(s, &COSINE), 1.0);
    let swaps = (quadrant & 1).ne(0);
    let signed =
        |magnitude: Reg<f32>, quadrant: Reg<u32>| from_bits(bits(magnitude) ^ ((quadrant & 2) << 30));
    (signed(swaps.select(cosine, sine), quadrant), signed(swaps.select(sine, cosine), quadrant + 1))
}

#[track_caller]
pub(crate) fn tan(x: Reg<f32>) -> Reg<f32> {
    let Angle { r, quadrant } = reduce(x);
    let s = r * r;
    let tangent = odd_above(r, s, polynomial(s, &TANGENT));
    (quadrant & 1).ne(0).select(-reciprocal(tangent), tangent)
}
