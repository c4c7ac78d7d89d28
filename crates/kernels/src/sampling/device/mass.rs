//! Keys, which order logits as integers; masses, which are their probabilities as integers; and
//! random numbers.

use warpwright::prelude::*;

use crate::sampling::reference::{KEY_STEPS, MULTIPLIERS, POWER_OF_TWO, ROUNDS};

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
    /// The highest key of the row, and its logit.
    pub(super) top: Reg<u32>,
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
        let distance = (logit_of(key) - self.maximum) * self.scale;
        // A difference of infinities is NaN, of which `max` makes -64.
        key.eq(self.top).select(0f32, distance.max(-64f32))
    }

    /// floor(2^40 e^((logit - maximum) / temperature)), nearly.
    #[track_caller]
    pub(super) fn of(&self, key: Reg<u32>) -> Reg<u64> {
        let exponent = self.exponent(key);
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

/// 64 random bits: two words of Philox4x32-10.
#[track_caller]
pub(super) fn random_bits(seed: [Reg<u32>; 2], position: [Reg<u32>; 2]) -> Reg<u64> {
    let mut key = seed;
    let mut counter = [position[0], position[1], constant(0), constant(0)];
    for _ in 0..ROUNDS {
        let product = |word: Reg<u32>, multiplier: u32| (word * multiplier, word.mul_hi(multiplier));
        let (low0, high0) = product(counter[0], MULTIPLIERS[0]);
        let (low1, high1) = product(counter[2], MULTIPLIERS[1]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0] + KEY_STEPS[0], key[1] + KEY_STEPS[1]];
    }
    (counter[1].convert::<u64>() << 32u32) | counter[0].convert::<u64>()
}
