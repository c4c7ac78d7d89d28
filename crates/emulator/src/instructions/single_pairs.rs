//! Arithmetic on pairs of f32 in a 64-bit register, the first in the lower half (PTX ISA, "add",
//! "sub", "mul", "fma" of `.f32x2`; sm_100).

use warpwright_ptx::syntax::{Instruction, Type};

use super::float;
use crate::decode::{DecodeError, Decoder, Words};
use crate::lanes::{three, two};
use crate::numeric::{FloatMode, single};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = float::mode(w);
    w.take("f32x2");
    match i.opcode.base() {
        "add" => two_operands(d, i, mode, single::add),
        "sub" => two_operands(d, i, mode, single::sub),
        "mul" => two_operands(d, i, mode, single::mul),
        "fma" => {
            let fma = move |a: u64, b: u64, c: u64| {
                both(|half| single::fma((a >> half) as u32, (b >> half) as u32, (c >> half) as u32, mode))
            };
            d.scalar(i, Type::B64, &[Type::B64; 3], three(fma))
        }
        base => Err(DecodeError::new(format!("`{base}` does not exist for the type .f32x2."))),
    }
}

fn two_operands(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    mode: FloatMode,
    function: fn(u32, u32, FloatMode) -> u32,
) -> Result<(), DecodeError> {
    let pair = move |a: u64, b: u64| both(|half| function((a >> half) as u32, (b >> half) as u32, mode));
    d.scalar(i, Type::B64, &[Type::B64; 2], two(pair))
}

/// The two halves, by bit position.
#[inline(always)]
fn both(half: impl Fn(u32) -> u32) -> u64 {
    u64::from(half(0)) | u64::from(half(32)) << 32
}
