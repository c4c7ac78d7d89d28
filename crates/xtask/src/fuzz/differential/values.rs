//! Random numbers of every class: small and moderate ones, edges, and any bits.

use warpwright_harness::Random;

use super::super::mutate::one;
use super::forms::Class;

/// The bits of an f32.
pub(super) fn single(random: &mut Random) -> u32 {
    float(random, 8, 23) as u32
}

/// The bits of an f64.
pub(super) fn double(random: &mut Random) -> u64 {
    float(random, 11, 52)
}

/// The bits of an f16 or a bf16.
pub(super) fn half(random: &mut Random) -> u16 {
    let (exponent, fraction) = *one(random, &[(5, 10), (8, 7)]);
    float(random, exponent, fraction) as u16
}

fn float(random: &mut Random, exponent_bits: u32, fraction_bits: u32) -> u64 {
    let width = 1 + exponent_bits + fraction_bits;
    let any = random.bits() >> (64 - width);
    let sign = any >> (width - 1) << (width - 1);
    let infinity = ((1u64 << exponent_bits) - 1) << fraction_bits;
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    match random.below(8) {
        0 | 1 => any,
        // Moderate, of few bits or of all.
        2..5 => {
            let exponent = bias - 8 + random.below(24).min(2 * bias);
            let fraction = any & ((1 << fraction_bits) - 1);
            let dropped = if random.below(2) == 0 { 0 } else { random.below(u64::from(fraction_bits)) };
            sign | exponent << fraction_bits | fraction >> dropped << dropped
        }
        5 => sign | random.below(1 << fraction_bits.min(20)),
        _ => {
            let quiet = 1u64 << (fraction_bits - 1);
            let least = 1u64 << fraction_bits;
            let edges = [
                0,
                1,
                least - 1,
                least,
                least + 1,
                bias << fraction_bits,
                infinity - 1,
                infinity,
                infinity | quiet,
                infinity | quiet | 5,
                infinity | 3,
                infinity | (least - 1),
            ];
            sign | *one(random, &edges)
        }
    }
}

fn integer(random: &mut Random, bits: u32) -> u64 {
    let all = u64::MAX >> (64 - bits);
    match random.below(6) {
        0 | 1 => random.bits() & all,
        2 => random.below(64),
        3 => all >> random.below(u64::from(bits)),
        4 => (1 << random.below(u64::from(bits))) & all,
        _ => 0u64.wrapping_sub(random.below(64)) & all,
    }
}

/// The bits of a register of a class.
pub(super) fn of(random: &mut Random, class: Class) -> u64 {
    match class {
        Class::Word | Class::Amount | Class::Table => integer(random, 32),
        Class::Single => single(random).into(),
        Class::Pair => u64::from(half(random)) << 16 | u64::from(half(random)),
        Class::Short => integer(random, 16),
        Class::Half => half(random).into(),
        Class::Long => integer(random, 64),
        Class::Double => double(random),
        Class::Predicate => random.below(2),
    }
}
