//! f32 and f64 arithmetic (PTX ISA, "Floating Point Instructions").

use warpwright_ptx::syntax::{Instruction, Operand, Type};

use crate::decode::{DecodeError, Decoder, Words, unsupported};
use crate::lanes::{one, three, two};
use crate::numeric::compare::{self, Class, ExtremumMode};
use crate::numeric::format::Format;
use crate::numeric::single::{canonical, flush};
use crate::numeric::{FloatMode, Rounding, approximate, double, single};

/// The modifiers of an arithmetic instruction.
pub(super) fn mode(w: &mut Words<'_>) -> FloatMode {
    let rounding = w
        .choose(&[
            ("rn", Rounding::NearestEven),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ])
        .unwrap_or_default();
    FloatMode { rounding, flush: w.take("ftz"), saturate: w.take("sat"), relu: w.take("relu") }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    match i.opcode.base() {
        "add" | "sub" | "mul" => two_operands(d, i, w),
        "fma" | "mad" => fused(d, i, w),
        "div" => quotient(d, i, w),
        "min" | "max" => extremum(d, i, w),
        "abs" | "neg" => sign(d, i, w),
        "copysign" => match w.ty()? {
            Type::F32 => d.vector(i, Type::F32, &[Type::F32; 2], two(compare::copysign_f32)),
            Type::F64 => d.vector(i, Type::F64, &[Type::F64; 2], two(compare::copysign_f64)),
            ty => Err(unsupported(i, ty)),
        },
        "testp" => test(d, i, w),
        "rcp" | "sqrt" => root(d, i, w),
        _ => approximation(d, i, w),
    }
}

fn two_operands(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = mode(w);
    let ty = w.ty()?;
    let types = [ty, ty];
    let base = i.opcode.base();
    if ty == Type::F64 {
        return match base {
            "add" => d.vector(i, ty, &types, two(move |a: u64, b: u64| double::add(a, b, mode))),
            "sub" => d.vector(i, ty, &types, two(move |a: u64, b: u64| double::sub(a, b, mode))),
            _ => d.vector(i, ty, &types, two(move |a: u64, b: u64| double::mul(a, b, mode))),
        };
    }
    let narrow = w.optional_ty();
    if ty != Type::F32 || narrow.is_some() {
        return Err(unsupported(i, narrow.unwrap_or(ty)));
    }
    let plain = FloatMode { flush: mode.flush, ..FloatMode::NEAREST };
    match (base, mode == plain, mode.flush) {
        ("add", true, false) => d.vector(i, ty, &types, two(|a: f32, b: f32| canonical(a + b))),
        ("sub", true, false) => d.vector(i, ty, &types, two(|a: f32, b: f32| canonical(a - b))),
        ("mul", true, false) => d.vector(i, ty, &types, two(|a: f32, b: f32| canonical(a * b))),
        ("add", true, true) => {
            d.vector(i, ty, &types, two(|a: u32, b: u32| flush(canonical(number(a) + number(b)))))
        }
        ("sub", true, true) => {
            d.vector(i, ty, &types, two(|a: u32, b: u32| flush(canonical(number(a) - number(b)))))
        }
        ("mul", true, true) => d.vector(i, ty, &types, two(single::mul_flushed)),
        ("add", ..) => d.scalar(i, ty, &types, two(move |a: u32, b: u32| single::add(a, b, mode))),
        ("sub", ..) => d.scalar(i, ty, &types, two(move |a: u32, b: u32| single::sub(a, b, mode))),
        _ => d.scalar(i, ty, &types, two(move |a: u32, b: u32| single::mul(a, b, mode))),
    }
}

/// An operand of an `.ftz` instruction.
#[inline(always)]
fn number(bits: u32) -> f32 {
    f32::from_bits(flush(bits))
}

fn fused(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = mode(w);
    let ty = w.ty()?;
    let types = [ty; 3];
    let plain = FloatMode { flush: mode.flush, ..FloatMode::NEAREST };
    match (ty, mode == plain, mode.flush) {
        (Type::F64, ..) => {
            d.vector(i, ty, &types, three(move |a: u64, b: u64, c: u64| double::fma(a, b, c, mode)))
        }
        (Type::F32, true, false) => {
            d.vector(i, ty, &types, three(|a: f32, b: f32, c: f32| canonical(a.mul_add(b, c))))
        }
        (Type::F32, true, true) => d.vector(i, ty, &types, three(single::fma_flushed)),
        (Type::F32, ..) => {
            d.scalar(i, ty, &types, three(move |a: u32, b: u32, c: u32| single::fma(a, b, c, mode)))
        }
        _ => Err(unsupported(i, ty)),
    }
}

fn quotient(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let (approximate, full) = (w.take("approx"), w.take("full"));
    let mode = mode(w);
    let ty = w.ty()?;
    let types = [ty, ty];
    let ftz = mode.flush;
    match (ty, approximate, full) {
        (Type::F32, true, _) => {
            d.vector(i, ty, &types, two(move |a: u32, b: u32| approximate::div(a, b, ftz)))
        }
        (Type::F32, _, true) => {
            d.vector(i, ty, &types, two(move |a: u32, b: u32| approximate::div_full(a, b, ftz)))
        }
        (Type::F32, ..) => d.vector(i, ty, &types, two(move |a: u32, b: u32| single::div(a, b, mode))),
        (Type::F64, ..) => d.scalar(i, ty, &types, two(move |a: u64, b: u64| double::div(a, b, mode))),
        _ => Err(unsupported(i, ty)),
    }
}

/// `rcp` and `sqrt`: exact in a rounding mode, or approximate.
fn root(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let approx = w.take("approx");
    let mode = mode(w);
    let ty = w.ty()?;
    let ftz = mode.flush;
    match (i.opcode.base(), ty, approx) {
        ("rcp", Type::F32, true) => d.vector(i, ty, &[ty], one(move |a: u32| approximate::rcp(a, ftz))),
        ("rcp", Type::F32, false) => d.scalar(i, ty, &[ty], one(move |a: u32| single::rcp(a, mode))),
        ("rcp", Type::F64, true) => d.scalar(i, ty, &[ty], one(approximate::rcp_f64)),
        ("rcp", Type::F64, false) => d.scalar(i, ty, &[ty], one(move |a: u64| double::rcp(a, mode))),
        ("sqrt", Type::F32, true) => d.vector(i, ty, &[ty], one(move |a: u32| approximate::sqrt(a, ftz))),
        ("sqrt", Type::F32, false) => d.scalar(i, ty, &[ty], one(move |a: u32| single::sqrt(a, mode))),
        ("sqrt", Type::F64, false) => d.scalar(i, ty, &[ty], one(move |a: u64| double::sqrt(a, mode))),
        _ => Err(unsupported(i, ty)),
    }
}

fn approximation(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    w.take("approx");
    let ftz = w.take("ftz");
    let ty = w.ty()?;
    match (i.opcode.base(), ty) {
        ("rsqrt", Type::F32) => d.vector(i, ty, &[ty], one(move |a: u32| approximate::rsqrt(a, ftz))),
        ("rsqrt", Type::F64) => d.scalar(i, ty, &[ty], one(move |a: u64| approximate::rsqrt_f64(a, ftz))),
        ("sin", Type::F32) => d.scalar(i, ty, &[ty], one(move |a: u32| approximate::sin(a, ftz))),
        ("cos", Type::F32) => d.scalar(i, ty, &[ty], one(move |a: u32| approximate::cos(a, ftz))),
        ("lg2", Type::F32) => d.scalar(i, ty, &[ty], one(move |a: u32| approximate::lg2(a, ftz))),
        ("ex2", Type::F32) => d.scalar(i, ty, &[ty], one(move |a: u32| approximate::ex2(a, ftz))),
        ("tanh", Type::F32) => d.scalar(i, ty, &[ty], one(approximate::tanh)),
        ("ex2" | "tanh", Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) => {
            super::half::approximation(d, i, ty, ftz)
        }
        _ => Err(unsupported(i, ty)),
    }
}

fn extremum(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let mode = extremum_mode(i, w);
    let ty = w.ty()?;
    // Of three operands `.abs` is not `.xorsign.abs`: the result is one of the magnitudes.
    let kept = if i.opcode.has("abs") && !mode.xor_sign { i32::MAX as u32 } else { u32::MAX };
    match (ty, i.operands.len()) {
        (Type::F32, _) if is_move(i, mode) => d.vector(i, ty, &[ty; 2], two(|a: u32, _: u32| a)),
        (Type::F64, _) if is_move(i, mode) => d.scalar(i, ty, &[ty; 2], two(|a: u64, _: u64| a)),
        (Type::F64, _) => {
            let maximum = mode.maximum;
            d.scalar(i, ty, &[ty; 2], two(move |a: u64, b: u64| compare::extremum_f64(a, b, maximum)))
        }
        (Type::F32, 4) => d.vector(
            i,
            ty,
            &[ty; 3],
            three(move |a: u32, b: u32, c: u32| {
                let first = compare::extremum(Format::F32, a & kept, b & kept, mode);
                compare::extremum(Format::F32, first, c & kept, mode)
            }),
        ),
        (Type::F32, _) => {
            d.vector(i, ty, &[ty; 2], two(move |a: u32, b: u32| compare::extremum(Format::F32, a, b, mode)))
        }
        _ => Err(unsupported(i, ty)),
    }
}

/// Whether ptxas makes a move of `min` or `max`: of a register with itself, which keeps a NaN as it is.
/// It does so for f32, f64 and f16.
pub(super) fn is_move(i: &Instruction, mode: ExtremumMode) -> bool {
    let is_plain = mode == ExtremumMode { maximum: mode.maximum, ..ExtremumMode::default() };
    is_plain && matches!(i.operands.as_slice(), [_, Operand::Name(a), Operand::Name(b)] if a == b)
}

/// The modifiers of `min` and `max`.
pub(super) fn extremum_mode(i: &Instruction, w: &mut Words<'_>) -> ExtremumMode {
    let xor_sign = w.take("xorsign");
    w.take("abs");
    ExtremumMode { maximum: i.opcode.base() == "max", flush: w.take("ftz"), nan: w.take("NaN"), xor_sign }
}

fn sign(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let ftz = w.take("ftz");
    let ty = w.ty()?;
    match (i.opcode.base(), ty) {
        ("abs", Type::F32) => d.vector(i, ty, &[ty], one(move |a: u32| compare::abs_f32(a, ftz))),
        ("neg", Type::F32) => d.vector(i, ty, &[ty], one(move |a: u32| compare::neg_f32(a, ftz))),
        ("abs", Type::F64) => d.vector(i, ty, &[ty], one(compare::abs_f64)),
        ("neg", Type::F64) => d.vector(i, ty, &[ty], one(compare::neg_f64)),
        _ => Err(unsupported(i, ty)),
    }
}

fn test(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    let class = w.choose(&[
        ("finite", Class::Finite),
        ("infinite", Class::Infinite),
        ("number", Class::Number),
        ("notanumber", Class::NotANumber),
        ("normal", Class::Normal),
        ("subnormal", Class::Subnormal),
    ]);
    let class =
        class.ok_or_else(|| DecodeError::unsupported("`testp` names no class of numbers.".to_owned()))?;
    match w.ty()? {
        Type::F32 => d.scalar(i, Type::Pred, &[Type::F32], one(move |a: u32| class.test_f32(a))),
        Type::F64 => d.scalar(i, Type::Pred, &[Type::F64], one(move |a: u64| class.test_f64(a))),
        ty => Err(unsupported(i, ty)),
    }
}
