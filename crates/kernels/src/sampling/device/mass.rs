//! Keys, which order logits as integers; masses, which are their probabilities as integers; and
//! random numbers.

use warpwright::prelude::*;

use crate::sampling::reference::{KEY_STEPS, LEAST_SCALE, MULTIPLIERS, POWER_OF_TWO, RELATIVE_POWER, ROUNDS};

/// The key of minus infinity. Those of numbers are above, and 0 is no logit's.
pub(super) const NEGATIVE_INFINITY: u32 = 0x007f_ffff;
/// The key of infinity. That of NaN is above: an addition makes it positive.
pub(super) const INFINITY: u32 = 0xff80_0000;

/// 1.5 2^23: a number up to 2^22 is rounded to an integer, ties to even, where it is added.
const ROUNDING: f32 = (3u32 << 22) as f32;

/// The key of a logit: the higher the logit, the higher the key. Zeros of both signs have one key.
#[track_caller]
pub(crate) fn key_of(logit: Reg<f32>) -> Reg<u32> {
    let bits: Reg<u32> = (logit + 0.0f32).to_bits();
    let sign: Reg<u32> = (bits.bit_cast::<i32>() >> 31u32).bit_cast();
    bits ^ (sign | (1u32 << 31))
}

/// The logit of a key.
#[track_caller]
pub(crate) fn logit_of(key: Reg<u32>) -> Reg<f32> {
    let sign: Reg<u32> = (key.bit_cast::<i32>() >> 31u32).bit_cast();
    Reg::<f32>::from_bits(key ^ (!sign | (1u32 << 31)))
}

/// What gives masses to keys.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Masses {
    /// The highest logit of the row.
    pub(super) maximum: Reg<f32>,
    /// log2(e) over the temperature.
    pub(super) scale: Reg<f32>,
    /// Smaller masses are 0.
    pub(super) least: Reg<u64>,
}

impl Masses {
    /// The binary logarithm of a key's probability relative to that of the highest, from -64 on. A higher
    /// key has no lower one.
    #[track_caller]
    pub(super) fn exponent(&self, key: Reg<u32>) -> Reg<f32> {
        self.exponent_of(logit_of(key))
    }

    /// The same of a logit.
    #[track_caller]
    fn exponent_of(&self, logit: Reg<f32>) -> Reg<f32> {
        let distance = (logit - self.maximum) * self.scale;
        // A difference of infinities is NaN, of which `max` makes -64.
        logit.eq(self.maximum).select(0f32, distance.max(-64f32))
    }

    /// floor(2^40 e^((logit - maximum) / temperature)), nearly.
    #[track_caller]
    pub(super) fn of(&self, key: Reg<u32>) -> Reg<u64> {
        self.of_logit(logit_of(key))
    }

    /// The mass of a logit.
    #[track_caller]
    pub(super) fn of_logit(&self, logit: Reg<f32>) -> Reg<u64> {
        let exponent = self.exponent_of(logit);
        // Rounded to an integer, which is in the low bits of the sum: conversions have a quarter of the
        // throughput of additions.
        let sum = exponent + ROUNDING;
        let part = exponent - (sum - ROUNDING);
        let mut power = constant(POWER_OF_TWO[0]);
        for coefficient in &POWER_OF_TWO[1..] {
            power = power.mul_add(part, *coefficient);
        }
        let mantissa = (power * (1u32 << 23) as f32).convert::<u32>();
        let mass = (mantissa.convert::<u64>() << 17u32) >> (ROUNDING.to_bits() - sum.to_bits());
        mass.ge(self.least).select(mass, 0u64)
    }
}

/// What gives masses to the logits of a segment, relative to the highest of them: 2^22.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct RelativeMasses {
    /// Makes a 32nd of a binary logarithm of a distance from the highest logit.
    factor: Reg<f32>,
}

impl RelativeMasses {
    /// `scale` is log2(e) over the temperature.
    #[track_caller]
    pub(super) fn new(scale: Reg<f32>) -> Self {
        Self { factor: scale.max(LEAST_SCALE) * (-1.0 / 32.0) }
    }

    /// The sum of the masses of logits.
    #[track_caller]
    pub(super) fn sum(&self, logits: &[Reg<f32>], maximum: Reg<f32>) -> Reg<u32> {
        /// Its neighbors are integers, which are in the low bits of a sum.
        const INTEGERS: f32 = (1u32 << 23) as f32;
        let clamped = Mode { saturate: true, ..Mode::default() };
        let bits = logits.iter().map(|logit| {
            // A difference of infinities is NaN, of which the clamp to [0, 1] makes 0.
            let distance = (*logit - maximum).mul_with(self.factor, clamped);
            let whole = distance.mul_add(-32f32, ROUNDING);
            let part = distance.mul_add(-32f32, ROUNDING - whole);
            let mut power = constant(RELATIVE_POWER[0]);
            for coefficient in &RELATIVE_POWER[1..] {
                power = power.mul_add(part, *coefficient);
            }
            let power = power.to_bits() + (whole.to_bits() << 23u32);
            (Reg::<f32>::from_bits(power) + INTEGERS).to_bits()
        });
        let sum = bits.reduce(|sum, bits| sum + bits).expect("a vector has elements");
        sum - INTEGERS.to_bits().wrapping_mul(logits.len() as u32)
    }
}

/// 64 random bits: two words of Philox4x32-10, and then the other two.
#[track_caller]
pub(super) fn random_bits(seed: [Reg<u32>; 2], position: [Reg<u32>; 2]) -> [Reg<u64>; 2] {
    let mut key = seed;
    let mut counter = [position[0], position[1], constant(0), constant(0)];
    for _ in 0..ROUNDS {
        let product = |word: Reg<u32>, multiplier: u32| (word * multiplier, word.mul_hi(multiplier));
        let (low0, high0) = product(counter[0], MULTIPLIERS[0]);
        let (low1, high1) = product(counter[2], MULTIPLIERS[1]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0] + KEY_STEPS[0], key[1] + KEY_STEPS[1]];
    }
    [0, 2].map(|at| (counter[at + 1].convert::<u64>() << 32u32) | counter[at].convert::<u64>())
}
