//! Rounding against an exact oracle: every finite f16 is a whole number of 2^-24, products are of
//! 2^-48, and 128-bit integers hold all of them, so that a result can be looked up in the sorted
//! list of all numbers.

use warpwright_emulator::numeric::format::Format;
use warpwright_emulator::numeric::{FloatMode, Rounding, half};

const MODES: [Rounding; 4] = [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up];

/// A finite f16 in units of 2^-48, from its bits alone.
fn units(bits: u16) -> i128 {
    let (exponent, fraction) = (i128::from(bits >> 10 & 31), i128::from(bits & 0x3ff));
    let significand = if exponent == 0 { fraction } else { fraction | 0x400 };
    let magnitude = significand << (exponent.max(1) - 1 + 24);
    if bits & 0x8000 != 0 { -magnitude } else { magnitude }
}

/// The f16 magnitudes, finite ones and the place where the next would be, in order.
fn magnitudes() -> Vec<i128> {
    (0..0x7c00).map(units).chain([1 << (16 + 48)]).collect()
}

/// The f16 that an exact value other than zero rounds to.
fn rounded(magnitudes: &[i128], exact: i128, rounding: Rounding) -> u16 {
    let (negative, magnitude) = (exact < 0, exact.abs());
    let below = magnitudes.partition_point(|&candidate| candidate <= magnitude) - 1;
    let sign = if negative { 0x8000 } else { 0 };
    if below + 1 == magnitudes.len() {
        let infinite = match rounding {
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
            _ => true,
        };
        return sign | if infinite { 0x7c00 } else { 0x7bff };
    }
    let (low, high) = (magnitude - magnitudes[below], magnitudes[below + 1] - magnitude);
    let up = low != 0
        && match rounding {
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
            _ => low > high || low == high && below % 2 == 1,
        };
    sign | (below + usize::from(up)) as u16
}

/// Finite f16 numbers from a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u16 {
        loop {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = (self.0 >> 40) as u16;
            if bits & 0x7c00 != 0x7c00 {
                return bits;
            }
        }
    }
}

#[test]
fn sums_products_and_fused_sums_of_f16_are_rounded_once_in_every_mode() {
    let magnitudes = magnitudes();
    let mut numbers = Numbers(1);
    for _ in 0..200_000 {
        let (a, b, c) = (numbers.next(), numbers.next(), numbers.next());
        let product = (units(a) >> 24) * (units(b) >> 24);
        for rounding in MODES {
            let mode = FloatMode::rounding(rounding);
            for (name, exact, got) in [
                ("add", units(a) + units(b), half::add(Format::F16, a, b, mode)),
                ("mul", product, half::mul(Format::F16, a, b, mode)),
                ("fma", product + units(c), half::fma(Format::F16, a, b, c, mode)),
            ] {
                if exact != 0 {
                    let expected = rounded(&magnitudes, exact, rounding);
                    assert_eq!(got, expected, "{name} {a:#06x} {b:#06x} {c:#06x} {rounding:?}");
                }
            }
        }
    }
}

#[test]
fn every_f16_survives_decoding_and_encoding() {
    for bits in (0..=u16::MAX).filter(|bits| bits & 0x7fff <= 0x7c00) {
        for rounding in MODES {
            let value = Format::F16.decode(bits.into());
            assert_eq!(Format::F16.encode(value, rounding, false), u32::from(bits));
        }
    }
}
