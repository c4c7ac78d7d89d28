//! Arithmetic on pairs of f32 in a 64-bit register, the first in the lower half (PTX ISA, "add",
//! "sub", "mul", "fma" of `.f32x2`; sm_100).

use super::float;
use crate::decode::{Decoded, Decoder, Row};
use crate::lanes::{three, two};
use crate::numeric::single;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let mode = float::mode(i);
    let function = match i.base() {
        "add" => single::add,
        "sub" => single::sub,
        "mul" => single::mul,
        _ => {
            let fma = move |a: u64, b: u64, c: u64| {
                both(|half| single::fma((a >> half) as u32, (b >> half) as u32, (c >> half) as u32, mode))
            };
            return d.scalar(i, three(fma));
        }
    };
    let pair = move |a: u64, b: u64| both(|half| function((a >> half) as u32, (b >> half) as u32, mode));
    d.scalar(i, two(pair))
}

/// The two halves, by bit position.
#[inline(always)]
fn both(half: impl Fn(u32) -> u32) -> u64 {
    u64::from(half(0)) | u64::from(half(32)) << 32
}
