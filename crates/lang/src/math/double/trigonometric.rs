//! Sine, cosine and tangent of f64.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use super::nearest;
use crate::math::choice::unless;
use crate::math::polynomial::{either_polynomial, polynomial};
use crate::value::Reg;

/// pi/2 as the sum of three positive floats, of which the products of the first two with multiples
/// of the smaller arguments are exact.
const HALF_PI: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];

/// Arguments below it are reduced by subtracting multiples of pi/2.
const LARGE: f64 = 1_048_576.0;

/// `(sin(r) - r) / r^3` and `(cos(r) - 1) / r^2` in powers of r^2, for |r| up to pi/4.
const SINE: [f64; 7] = [
    -0.166_666_666_666_666_32,
    0.008_333_333_333_322_314,
    -0.000_198_412_698_297_251_24,
    2.755_731_366_203_632_4e-06,
    -2.505_075_326_192_270_2e-08,
    1.589_650_482_237_011_5e-10,
    0.0,
];
const COSINE: [f64; 7] = [
    -0.5,
    0.041_666_666_666_666_484,
    -0.001_388_888_888_886_366_2,
    2.480_158_728_487_814_4e-05,
    -2.755_731_330_420_816e-07,
    2.087_560_407_814_183_7e-09,
    -1.135_428_971_033_928_2e-11,
];

/// `(tan(r) - r) / r^3` in powers of r^2, for |r| up to pi/4.
const TANGENT: [f64; 14] = [
    0.333_333_333_333_326_93,
    0.133_333_333_334_253_18,
    0.053_968_253_921_808_76,
    0.021_869_489_720_159_622,
    0.008_863_217_664_912_64,
    0.003_592_302_069_189_169_5,
    0.001_454_681_972_082_269,
    0.000_595_373_459_392_140_5,
    0.000_221_498_690_242_693_47,
    0.000_138_286_622_889_990_13,
    -2.879_956_969_731_591_3e-05,
    9.161_255_237_600_148e-05,
    -4.601_405_420_929_516e-05,
    2.113_046_044_019_377_7e-05,
];

/// An angle `quadrant * pi/2 + r`, with |r| up to pi/4. Of the quadrant only the two lowest bits
/// count.
struct Angle {
    r: Reg<f64>,
    quadrant: Reg<u32>,
}

#[track_caller]
fn reduce(x: Reg<f64>) -> Angle {
    let (r, quadrant) = unless(x.abs().ge(LARGE), reduce_small(x), || reduce_large(x));
    Angle { r, quadrant }
}

#[track_caller]
fn reduce_small(x: Reg<f64>) -> (Reg<f64>, Reg<u32>) {
    let (multiple, integer) = nearest(x, FRAC_2_PI);
    let r = HALF_PI.iter().fold(x, |r, part| multiple.mul_add(-part, r));
    (r, integer.bit_cast())
}

/// 2/pi after the binary point, in words of 64 bits.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// The reduction of Payne and Hanek: of x * 2/pi, only the bits that the quadrant and the fraction
/// depend on are computed.
#[track_caller]
fn reduce_large(x: Reg<f64>) -> (Reg<f64>, Reg<u32>) {
    let pattern = x.bit_cast::<u64>();
    let mantissa = (pattern & 0x000f_ffff_ffff_ffff) | 0x0010_0000_0000_0000;
    // x = mantissa * 2^(e - 52). The bits of 2/pi before position e - 54 give multiples of 4. A
    // word of zeros comes first.
    let position = ((pattern >> 52) & 0x7ff).convert::<u32>() - (1023 - 10);
    let offset = position & 63;
    let mut words: Vec<Reg<u64>> =
        std::iter::once(&0).chain(&TWO_OVER_PI).map(|word| crate::value::constant(*word)).collect();
    // The four words from position / 64 on, by the bits of that number.
    for step in [16, 8, 4, 2, 1] {
        let skips = (position & (64 * step as u32)).ne(0);
        let last = words.len() - 1;
        words = (0..3 + step).map(|i| skips.select(words[last.min(i + step)], words[i])).collect();
    }
    // A shift by 64 gives zero.
    let window: Vec<Reg<u64>> =
        (0..3).map(|i| (words[i] << offset) | (words[i + 1] >> (64 - offset))).collect();
    let (low, carried) = (mantissa * window[1], mantissa.mul_hi(window[1]));
    let low_sum = low + mantissa.mul_hi(window[2]);
    let carry = low_sum.lt(low).select(1u64, 0u64);
    // The position in the turn, of which the two highest bits are the quadrant.
    let turn = mantissa * window[0] + carried + carry;
    let quadrant = ((turn + (1u64 << 61)) >> 62).convert::<u32>();
    let high = ((turn << 2) | (low_sum >> 62)).bit_cast::<i64>();
    let low = low_sum << 2;
    const UNIT: f64 = FRAC_PI_2 / 18_446_744_073_709_551_616.0;
    const WORD: f64 = 1.0 / 18_446_744_073_709_551_616.0;
    // The high part is exact where the low part counts: there it is small.
    let fraction = low.convert::<f64>().mul_add(WORD, high.convert::<f64>());
    let is_negative = x.lt(0.0);
    let r = fraction * UNIT;
    let r = x.mul_add(0.0, is_negative.select(-r, r));
    (r, is_negative.select(0u32 - quadrant, quadrant))
}

/// `base + base * s * polynomial`, with a polynomial that is negative.
#[track_caller]
fn below(base: Reg<f64>, s: Reg<f64>, polynomial: Reg<f64>) -> Reg<f64> {
    base.mul_add(s, 0.0).mul_add(polynomial, base)
}

#[track_caller]
fn with_sign(magnitude: Reg<f64>, quadrant: Reg<u32>) -> Reg<f64> {
    (magnitude.bit_cast::<u64>() ^ ((quadrant & 2).convert::<u64>() << 62)).bit_cast()
}

#[track_caller]
fn sine(angle: &Angle) -> Reg<f64> {
    let s = angle.r * angle.r;
    let is_odd = (angle.quadrant & 1).ne(0);
    let base = is_odd.select(1.0f64, angle.r);
    with_sign(below(base, s, either_polynomial(is_odd, s, &COSINE, &SINE)), angle.quadrant)
}

#[track_caller]
pub(crate) fn sin(x: Reg<f64>) -> Reg<f64> {
    sine(&reduce(x))
}

#[track_caller]
pub(crate) fn cos(x: Reg<f64>) -> Reg<f64> {
    let Angle { r, quadrant } = reduce(x);
    sine(&Angle { r, quadrant: quadrant + 1 })
}

#[track_caller]
pub(crate) fn sin_cos(x: Reg<f64>) -> (Reg<f64>, Reg<f64>) {
    let Angle { r, quadrant } = reduce(x);
    let s = r * r;
    let sine = below(r, s, polynomial(s, &SINE[..6]));
    let cosine = s.mul_add(polynomial(s, &COSINE), 1.0);
    let swaps = (quadrant & 1).ne(0);
    (with_sign(swaps.select(cosine, sine), quadrant), with_sign(swaps.select(sine, cosine), quadrant + 1))
}

#[track_caller]
pub(crate) fn tan(x: Reg<f64>) -> Reg<f64> {
    let Angle { r, quadrant } = reduce(x);
    let s = r * r;
    let tangent = (r * s).mul_add(polynomial(s, &TANGENT), r);
    (quadrant & 1).ne(0).select(-super::recip(tangent), tangent)
}
