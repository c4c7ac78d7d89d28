//! f32 and f64 arithmetic (PTX ISA, "Floating Point Instructions").

use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::lanes::{one, three, two};
use crate::numeric::compare::{self, Class, ExtremumMode};
use crate::numeric::format::Format;
use crate::numeric::single::{canonical, flush};
use crate::numeric::{FloatMode, Rounding, approximate, double, single};

/// The modifiers of an arithmetic instruction.
pub(super) fn mode(i: &Row<'_>) -> FloatMode {
    let roundings =
        [("rn", Rounding::NearestEven), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];
    FloatMode {
        rounding: i.choose(&roundings).unwrap_or_default(),
        flush: i.has("ftz"),
        saturate: i.has("sat"),
        relu: i.has("relu"),
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    match i.ty()? {
        Type::F64 => double(d, i),
        _ => single(d, i),
    }
}

fn double(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (mode, approximates, maximum) = (mode(i), i.has("approx"), i.base() == "max");
    match i.base() {
        "add" => d.vector(i, two(move |a: u64, b: u64| double::add(a, b, mode))),
        "sub" => d.vector(i, two(move |a: u64, b: u64| double::sub(a, b, mode))),
        "mul" => d.vector(i, two(move |a: u64, b: u64| double::mul(a, b, mode))),
        "fma" | "mad" => d.vector(i, three(move |a: u64, b: u64, c: u64| double::fma(a, b, c, mode))),
        "div" => d.scalar(i, two(move |a: u64, b: u64| double::div(a, b, mode))),
        "rcp" if approximates => d.scalar(i, one(approximate::rcp_f64)),
        "rcp" => d.scalar(i, one(move |a: u64| double::rcp(a, mode))),
        "sqrt" => d.scalar(i, one(move |a: u64| double::sqrt(a, mode))),
        "rsqrt" => d.scalar(i, one(move |a: u64| approximate::rsqrt_f64(a, mode.flush))),
        "min" | "max" if is_move(i, extremum_mode(i)) => d.scalar(i, two(|a: u64, _: u64| a)),
        "min" | "max" => d.scalar(i, two(move |a: u64, b: u64| compare::extremum_f64(a, b, maximum))),
        "abs" => d.vector(i, one(compare::abs_f64)),
        "neg" => d.vector(i, one(compare::neg_f64)),
        "copysign" => d.vector(i, two(compare::copysign_f64)),
        "testp" => {
            let class = tested(i)?;
            d.scalar(i, one(move |a: u64| class.test_f64(a)))
        }
        _ => Err(i.unsupported()),
    }
}

fn single(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let (mode, approximates) = (mode(i), i.has("approx"));
    let ftz = mode.flush;
    match i.base() {
        "add" | "sub" | "mul" | "fma" | "mad" => sums_and_products(d, i, mode),
        "div" if approximates => d.vector(i, two(move |a: u32, b: u32| approximate::div(a, b, ftz))),
        "div" if i.has("full") => d.vector(i, two(move |a: u32, b: u32| approximate::div_full(a, b, ftz))),
        "div" => d.vector(i, two(move |a: u32, b: u32| single::div(a, b, mode))),
        "rcp" if approximates => d.vector(i, one(move |a: u32| approximate::rcp(a, ftz))),
        "rcp" => d.scalar(i, one(move |a: u32| single::rcp(a, mode))),
        "sqrt" if approximates => d.vector(i, one(move |a: u32| approximate::sqrt(a, ftz))),
        "sqrt" => d.scalar(i, one(move |a: u32| single::sqrt(a, mode))),
        "rsqrt" => d.vector(i, one(move |a: u32| approximate::rsqrt(a, ftz))),
        "sin" => d.scalar(i, one(move |a: u32| approximate::sin(a, ftz))),
        "cos" => d.scalar(i, one(move |a: u32| approximate::cos(a, ftz))),
        "lg2" => d.scalar(i, one(move |a: u32| approximate::lg2(a, ftz))),
        "ex2" => d.scalar(i, one(move |a: u32| approximate::ex2(a, ftz))),
        "tanh" => d.scalar(i, one(approximate::tanh)),
        "min" | "max" => extremum(d, i),
        "abs" => d.vector(i, one(move |a: u32| compare::abs_f32(a, ftz))),
        "neg" => d.vector(i, one(move |a: u32| compare::neg_f32(a, ftz))),
        "copysign" => d.vector(i, two(compare::copysign_f32)),
        "testp" => {
            let class = tested(i)?;
            d.scalar(i, one(move |a: u32| class.test_f32(a)))
        }
        _ => Err(i.unsupported()),
    }
}

/// The hot modes of f32 are loops of their own.
fn sums_and_products(d: Decoder<'_, '_, '_>, i: &Row<'_>, mode: FloatMode) -> Decoded {
    let is_plain = mode == FloatMode { flush: mode.flush, ..FloatMode::NEAREST };
    match (i.base(), is_plain, mode.flush) {
        ("add", true, false) => d.vector(i, two(|a: f32, b: f32| canonical(a + b))),
        ("sub", true, false) => d.vector(i, two(|a: f32, b: f32| canonical(a - b))),
        ("mul", true, false) => d.vector(i, two(|a: f32, b: f32| canonical(a * b))),
        ("add", true, true) => d.vector(i, two(|a: u32, b: u32| flush(canonical(number(a) + number(b))))),
        ("sub", true, true) => d.vector(i, two(|a: u32, b: u32| flush(canonical(number(a) - number(b))))),
        ("mul", true, true) => d.vector(i, two(single::mul_flushed)),
        ("add", ..) => d.scalar(i, two(move |a: u32, b: u32| single::add(a, b, mode))),
        ("sub", ..) => d.scalar(i, two(move |a: u32, b: u32| single::sub(a, b, mode))),
        ("mul", ..) => d.scalar(i, two(move |a: u32, b: u32| single::mul(a, b, mode))),
        (_, true, false) => d.vector(i, three(|a: f32, b: f32, c: f32| canonical(a.mul_add(b, c)))),
        (_, true, true) => d.vector(i, three(single::fma_flushed)),
        _ => d.scalar(i, three(move |a: u32, b: u32, c: u32| single::fma(a, b, c, mode))),
    }
}

/// An operand of an `.ftz` instruction.
#[inline(always)]
fn number(bits: u32) -> f32 {
    f32::from_bits(flush(bits))
}

fn extremum(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let mode = extremum_mode(i);
    if is_move(i, mode) {
        return d.vector(i, two(|a: u32, _: u32| a));
    }
    if i.operands.len() == 3 {
        return d.vector(i, two(move |a: u32, b: u32| compare::extremum(Format::F32, a, b, mode)));
    }
    // Of three operands `.abs` is not `.xorsign.abs`: the result is one of the magnitudes.
    let kept = if i.has("abs") && !mode.xor_sign { i32::MAX as u32 } else { u32::MAX };
    d.vector(
        i,
        three(move |a: u32, b: u32, c: u32| {
            let first = compare::extremum(Format::F32, a & kept, b & kept, mode);
            compare::extremum(Format::F32, first, c & kept, mode)
        }),
    )
}

/// Whether ptxas makes a move of `min` or `max`: of a register with itself, which keeps a NaN as it is.
/// It does so for f32, f64 and f16.
pub(super) fn is_move(i: &Row<'_>, mode: ExtremumMode) -> bool {
    let is_plain = mode == ExtremumMode { maximum: mode.maximum, ..ExtremumMode::default() };
    is_plain && matches!(i.operands.as_slice(), [_, Operand::Name(a), Operand::Name(b)] if a == b)
}

/// The modifiers of `min` and `max`.
pub(super) fn extremum_mode(i: &Row<'_>) -> ExtremumMode {
    ExtremumMode {
        maximum: i.base() == "max",
        flush: i.has("ftz"),
        nan: i.has("NaN"),
        xor_sign: i.has("xorsign"),
    }
}

/// The class of numbers that `testp` tests for.
fn tested(i: &Row<'_>) -> Result<Class, DecodeError> {
    i.must(
        "class of numbers",
        &[
            ("finite", Class::Finite),
            ("infinite", Class::Infinite),
            ("number", Class::Number),
            ("notanumber", Class::NotANumber),
            ("normal", Class::Normal),
            ("subnormal", Class::Subnormal),
        ],
    )
}
