//! f32 arithmetic with operands of f16 or bf16 (PTX ISA, "Mixed Precision Floating Point
//! Instructions"; sm_100).

use warpwright_ptx::syntax::Type;

use super::float;
use crate::decode::{Decoded, Decoder, Row};
use crate::lanes::{three, two};
use crate::numeric::format::Format;
use crate::numeric::single;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let mode = float::mode(i);
    let format = if i.two_types()?.1 == Type::F16 { Format::F16 } else { Format::BF16 };
    // Every f16 and bf16 is an f32.
    let widen = move |bits: u16| (format.decode(bits.into()) as f32).to_bits();
    match i.base() {
        "add" => d.scalar(i, two(move |a: u16, c: u32| single::add(widen(a), c, mode))),
        "sub" => d.scalar(i, two(move |a: u16, c: u32| single::sub(widen(a), c, mode))),
        "fma" => d.scalar(i, three(move |a: u16, b: u16, c: u32| single::fma(widen(a), widen(b), c, mode))),
        _ => Err(i.unsupported()),
    }
}
