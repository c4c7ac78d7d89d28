//! `ptx!`: one instruction, written out.

use warpwright_ir::{Instruction, Location, Operand, Register, Statement};

use crate::element::Element;
use crate::operation::here;
use crate::pointer::Pointer;
use crate::recorder;
use crate::space::Space;
use crate::value::{Reg, Value};

/// What `ptx!` may write: a fresh register of some type.
#[diagnostic::on_unimplemented(
    message = "an instruction cannot write a `{Self}`",
    label = "write `out Reg<T>`, with the type of the register"
)]
pub trait Output {
    /// A register that nothing has written.
    fn fresh() -> Self;
    /// It, as an operand.
    fn operand(&self) -> Operand;
}

impl<T: Element> Output for Reg<T> {
    #[track_caller]
    fn fresh() -> Self {
        recorder::with(|recorder| Reg::from_register(recorder.fresh(T::CLASS)))
    }

    fn operand(&self) -> Operand {
        Reg::operand(*self)
    }
}

/// What `ptx!` may read.
#[diagnostic::on_unimplemented(
    message = "an instruction cannot read a `{Self}`",
    label = "an operand is a device value, a pointer or a number"
)]
pub trait Input {
    /// It, as an operand.
    fn operand(self) -> Operand;
}

impl<T: Element> Input for Reg<T> {
    fn operand(self) -> Operand {
        Reg::operand(self)
    }
}

impl<T: Element, S: Space> Input for Pointer<T, S> {
    #[track_caller]
    fn operand(self) -> Operand {
        Reg::operand(self.address())
    }
}

macro_rules! literals {
    ($($ty:ty)*) => {
        $(impl Input for $ty {
            #[track_caller]
            fn operand(self) -> Operand {
                Value::<$ty>::operand(self)
            }
        })*
    };
}

literals! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 }

/// Records the instruction `text`, in which `{name}` stands for an operand; outputs are marked.
#[track_caller]
pub fn record_instruction<const N: usize>(text: &str, operands: [(&str, bool, Operand); N]) {
    let location = here();
    match read(text, &operands, location) {
        Ok(instruction) => recorder::with(|recorder| recorder.push(Statement::Instruction(instruction))),
        Err(message) => recorder::with(|recorder| recorder.error(location, message)),
    }
}

type Named<'text> = (&'text str, bool, Operand);

fn read(text: &str, named: &[Named<'_>], location: Location) -> Result<Instruction, String> {
    let text = text.trim().trim_end_matches(';').trim();
    let (guard, text) = match text.strip_prefix('@') {
        Some(guarded) => {
            let (guard, rest) =
                guarded.split_once(char::is_whitespace).ok_or("a guard precedes an opcode")?;
            let (wanted, name) = guard.strip_prefix('!').map_or((true, guard), |name| (false, name));
            (Some((register(name, named)?, wanted)), rest.trim_start())
        }
        None => (None, text),
    };
    let (opcode, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let parts = split(rest);
    let operands = parts.iter().map(|part| operand(part, named)).collect::<Result<Vec<_>, _>>()?;
    let writes = |part: &&str| {
        named.iter().any(|(name, is_output, _)| *is_output && part.contains(&format!("{{{name}}}")))
    };
    let destinations = parts.iter().take_while(|part| writes(part)).count();
    Ok(Instruction { guard, opcode: opcode.to_owned().into(), destinations, operands, location })
}

/// The parts between commas that are in no brackets or braces.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn lookup<'named>(text: &str, named: &'named [Named<'_>]) -> Option<&'named Operand> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    named.iter().find(|(known, ..)| *known == name).map(|(_, _, operand)| operand)
}

fn register(text: &str, named: &[Named<'_>]) -> Result<Register, String> {
    match lookup(text.trim(), named) {
        Some(Operand::Register(register)) => Ok(*register),
        _ => Err(format!("`{text}` is not a register of this instruction")),
    }
}

fn operand(text: &str, named: &[Named<'_>]) -> Result<Operand, String> {
    if let Some(operand) = lookup(text, named) {
        return Ok(operand.clone());
    }
    if let Some((first, second)) = text.split_once('|') {
        return Ok(Operand::Pair(register(first, named)?, register(second, named)?));
    }
    if let Some(negated) = text.strip_prefix('!') {
        return Ok(Operand::Not(register(negated, named)?));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address(inner, named);
    }
    if let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        let parts = split(inner).into_iter().map(|part| operand(part, named));
        return Ok(Operand::Vector(parts.collect::<Result<_, _>>()?));
    }
    if text == "_" {
        return Ok(Operand::Sink);
    }
    if text.starts_with('%') {
        return Ok(Operand::Special(text.to_owned().into()));
    }
    number(text).ok_or_else(|| {
        format!("`{text}` is not an operand: write `{{name}}`, a literal, an address or a special register")
    })
}

fn address(text: &str, named: &[Named<'_>]) -> Result<Operand, String> {
    let parts = split(text);
    let (base, rest) = parts.split_first().ok_or("an address is `[{base}]` or `[{base} + bytes]`")?;
    let (base, offset) = match base.split_once('+') {
        Some((base, offset)) => {
            (base.trim(), offset.trim().parse::<i64>().map_err(|_| format!("`{offset}` is not an offset"))?)
        }
        None => (base.trim(), 0),
    };
    let rest = rest.iter().map(|part| operand(part, named)).collect::<Result<_, _>>()?;
    Ok(Operand::Address { base: Box::new(operand(base, named)?), offset, rest })
}

fn number(text: &str) -> Option<Operand> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if let Some(bits) = digits.strip_prefix("0f").or(digits.strip_prefix("0F")) {
        return u32::from_str_radix(bits, 16).ok().map(Operand::F32);
    }
    if let Some(bits) = digits.strip_prefix("0d").or(digits.strip_prefix("0D")) {
        return u64::from_str_radix(bits, 16).ok().map(Operand::F64);
    }
    let value = match digits.strip_prefix("0x") {
        Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(Operand::Integer(if negative { -value } else { value }))
}
