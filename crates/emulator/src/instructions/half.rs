//! f16 and bf16 arithmetic, alone and in pairs (PTX ISA, "Half Precision Floating Point
//! Instructions").

use warpwright_ptx::syntax::{Instruction, Type};

use super::float;
use crate::decode::{DecodeError, Decoder, Words, unsupported};
use crate::lanes::{one, three, two};
use crate::numeric::format::Format;
use crate::numeric::{approximate, compare, half};

/// The format of a type, and whether it is a pair.
fn format(ty: Type) -> (Format, bool) {
    match ty {
        Type::F16 => (Format::F16, false),
        Type::F16x2 => (Format::F16, true),
        Type::Bf16 => (Format::BF16, false),
        _ => (Format::BF16, true),
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "add" | "sub" | "mul" => two_operands(d, i, w),
        "fma" => fused(d, i, w),
        "min" | "max" => extremum(d, i, w),
        "abs" | "neg" => sign(d, i, w),
        _ => Err(unsupported(i, w.ty()?)),
    }
}

fn map1(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    function: impl Fn(u16) -> u16 + Send + Sync + 'static,
) -> Result<(), DecodeError> {
    if format(ty).1 {
        d.scalar(i, ty, &[ty], one(move |a: u32| half::pair1(a, &function)))
    } else {
        d.scalar(i, ty, &[ty], one(function))
    }
}

fn map2(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    function: impl Fn(u16, u16) -> u16 + Send + Sync + 'static,
) -> Result<(), DecodeError> {
    if format(ty).1 {
        d.scalar(i, ty, &[ty; 2], two(move |a: u32, b: u32| half::pair2(a, b, &function)))
    } else {
        d.scalar(i, ty, &[ty; 2], two(function))
    }
}

fn map3(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    function: impl Fn(u16, u16, u16) -> u16 + Send + Sync + 'static,
) -> Result<(), DecodeError> {
    if format(ty).1 {
        d.scalar(i, ty, &[ty; 3], three(move |a: u32, b: u32, c: u32| half::pair3(a, b, c, &function)))
    } else {
        d.scalar(i, ty, &[ty; 3], three(function))
    }
}

fn two_operands(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = float::mode(w);
    let ty = w.ty()?;
    let (format, _) = format(ty);
    match i.opcode.base() {
        "add" => map2(d, i, ty, move |a, b| half::add(format, a, b, mode)),
        "sub" => map2(d, i, ty, move |a, b| half::sub(format, a, b, mode)),
        _ => map2(d, i, ty, move |a, b| half::mul(format, a, b, mode)),
    }
}

fn fused(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = float::mode(w);
    let out_of_bounds = w.take("oob");
    let ty = w.ty()?;
    let (format, _) = format(ty);
    if out_of_bounds {
        map3(d, i, ty, move |a, b, c| half::fma_out_of_bounds(format, a, b, c, mode))
    } else {
        map3(d, i, ty, move |a, b, c| half::fma(format, a, b, c, mode))
    }
}

fn extremum(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = float::extremum_mode(i, w);
    let ty = w.ty()?;
    let (format, _) = format(ty);
    let best = move |a: u16, b: u16| compare::extremum(format, a.into(), b.into(), mode) as u16;
    if ty == Type::F16 && float::is_move(i, mode) {
        return map2(d, i, ty, |a, _| a);
    }
    if i.operands.len() == 4 {
        return map3(d, i, ty, move |a, b, c| best(best(a, b), c));
    }
    map2(d, i, ty, best)
}

fn sign(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ftz = w.take("ftz");
    let ty = w.ty()?;
    let (format, _) = format(ty);
    if i.opcode.base() == "abs" {
        map1(d, i, ty, move |a| half::abs(format, a, ftz))
    } else {
        map1(d, i, ty, move |a| half::neg(format, a, ftz))
    }
}

/// `ex2` and `tanh`.
pub(super) fn approximation(
    d: Decoder<'_, '_, '_>,
    i: &Instruction,
    ty: Type,
    ftz: bool,
) -> Result<(), DecodeError> {
    let (format, _) = format(ty);
    if i.opcode.base() == "ex2" {
        map1(d, i, ty, move |a| approximate::ex2_half(format, a, ftz))
    } else {
        map1(d, i, ty, move |a| approximate::tanh_half(format, a))
    }
}
