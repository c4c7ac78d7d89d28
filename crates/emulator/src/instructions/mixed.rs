//! f32 arithmetic with operands of f16 or bf16 (PTX ISA, "Mixed Precision Floating Point
//! Instructions"; sm_100).

use warpwright_ptx::syntax::{Instruction, Type};

use super::float;
use crate::decode::{DecodeError, Decoder, Words};
use crate::lanes::{three, two};
use crate::numeric::format::Format;
use crate::numeric::{FloatMode, single};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = float::mode(w);
    w.take("f32");
    let ty = w.ty()?;
    let format = if ty == Type::F16 { Format::F16 } else { Format::BF16 };
    // Every f16 and bf16 is an f32.
    let widen = move |bits: u16| (format.decode(bits.into()) as f32).to_bits();
    let two_operands = |d: Decoder<'_, '_, '_>, function: fn(u32, u32, FloatMode) -> u32| {
        let operation = two(move |a: u16, c: u32| function(widen(a), c, mode));
        d.scalar(i, Type::F32, &[ty, Type::F32], operation)
    };
    match i.opcode.base() {
        "add" => two_operands(d, single::add),
        "sub" => two_operands(d, single::sub),
        "fma" => {
            let fma = move |a: u16, b: u16, c: u32| single::fma(widen(a), widen(b), c, mode);
            d.scalar(i, Type::F32, &[ty, ty, Type::F32], three(fma))
        }
        base => Err(DecodeError::new(format!("`{base}` has no operands of another type than its result's."))),
    }
}
