//! Video instructions: integers in the bytes and halves of a word (PTX ISA, "Scalar Video
//! Instructions" and "SIMD Video Instructions").
//!
//! Each instruction extracts parts of its sources, widens them, combines them, and merges the
//! result with the third source. One description covers the family; compilers' byte intrinsics use
//! it.

use warpwright_ptx::syntax::{Operand, Type};

use crate::decode::{DecodeError, Decoded, Decoder, File, Row};
use crate::lanes::{Operands, three};

/// The operation on each pair of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Add,
    Subtract,
    Average,
    AbsoluteDifference,
    Minimum,
    Maximum,
    ShiftLeft { wrap: bool },
    ShiftRight { wrap: bool },
    MultiplyAdd { plus_one: bool, scale: u32 },
    Compare(Comparison),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The operation on the result and the third source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    /// The result alone, or inserted among the third source's other parts.
    Merge,
    Add,
    Minimum,
    Maximum,
}

/// A part of a word: `bits` wide, `index` parts up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    bits: u32,
    index: u32,
}

impl Part {
    const WHOLE: Self = Self { bits: 32, index: 0 };

    fn of(self, word: u64, signed: bool) -> i64 {
        let raw = word >> (self.bits * self.index);
        let shift = 64 - self.bits;
        if signed { ((raw << shift) as i64) >> shift } else { ((raw << shift) >> shift) as i64 }
    }

    fn put(self, value: i64, word: u32) -> u32 {
        let mask = (((1u64 << self.bits) - 1) as u32) << (self.bits * self.index);
        (word & !mask) | (((value as u64) << (self.bits * self.index)) as u32 & mask)
    }
}

/// One video instruction. `a`, `b` and `d` list parts, as many as the instruction works on at once.
#[derive(Clone, Copy, Debug)]
struct Video {
    combine: Combine,
    finish: Finish,
    saturate: bool,
    signed: bool,
    a_signed: bool,
    b_signed: bool,
    count: usize,
    a: [Part; 4],
    b: [Part; 4],
    d: [Part; 4],
    /// Which of the results are kept.
    kept: [bool; 4],
    /// The parts of the SIMD forms count through both sources, those of the scalar forms through
    /// their own.
    pairs: bool,
}

impl Video {
    fn apply(&self, a: u32, b: u32, c: u32) -> u32 {
        let both = u64::from(b) << 32 | u64::from(a);
        let (from_a, from_b) = if self.pairs { (both, both) } else { (u64::from(a), u64::from(b)) };
        let mut merged = c;
        let mut sum = c;
        for part in (0..self.count).filter(|part| self.kept[*part]) {
            let x = self.a[part].of(from_a, self.a_signed);
            let y = self.b[part].of(from_b, self.b_signed);
            let result = self.limited(self.combined(x, y, c), self.d[part].bits);
            merged = self.d[part].put(result, merged);
            sum = self.finished(result, sum);
        }
        if self.finish == Finish::Merge { merged } else { sum }
    }

    fn combined(&self, x: i64, y: i64, c: u32) -> i64 {
        let amount = |wrap: bool| if wrap { y & 31 } else { y.clamp(0, 32) };
        match self.combine {
            Combine::Add => x + y,
            Combine::Subtract => x - y,
            Combine::Average => (x + y + i64::from(x + y >= 0)) >> 1,
            Combine::AbsoluteDifference => (x - y).abs(),
            Combine::Minimum => x.min(y),
            Combine::Maximum => x.max(y),
            Combine::ShiftLeft { wrap } => x << amount(wrap),
            Combine::ShiftRight { wrap } => x >> amount(wrap),
            Combine::MultiplyAdd { plus_one, scale } => {
                // The third source is signed even if all types are unsigned (measured on H200).
                x.wrapping_mul(y).wrapping_add(i64::from(c as i32)).wrapping_add(i64::from(plus_one)) >> scale
            }
            Combine::Compare(comparison) => i64::from(match comparison {
                Comparison::Equal => x == y,
                Comparison::NotEqual => x != y,
                Comparison::Less => x < y,
                Comparison::LessOrEqual => x <= y,
                Comparison::Greater => x > y,
                Comparison::GreaterOrEqual => x >= y,
            }),
        }
    }

    /// Clamped to the result's width if it saturates.
    fn limited(&self, value: i64, bits: u32) -> i64 {
        let unsigned = !(self.signed || self.a_signed || self.b_signed);
        match (self.saturate, self.signed) {
            (false, _) => value,
            // Three deviations of the driver's sequences from PTX (measured on H200): this sum
            // wraps, and a negative number inserted into a byte or a half becomes the largest one,
            // as does a negative unsigned `vmad`.
            (true, false) if matches!(self.combine, Combine::MultiplyAdd { .. }) => {
                (value as u64).min(u64::from(u32::MAX)) as i64
            }
            (true, _) if self.combine == Combine::Add && self.finish == Finish::Add && unsigned => value,
            (true, true) if self.count == 1 && bits < 32 => {
                i64::from(value as u32).min((1 << (bits - 1)) - 1)
            }
            (true, true) => value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (true, false) => value.clamp(0, (1 << bits) - 1),
        }
    }

    fn finished(&self, result: i64, c: u32) -> u32 {
        // The driver's sequences compare 64 bits: those of the result, or the sign of a sum of 32
        // (ptxas 13.0's code; measured on H100).
        let wide = match self.combine {
            Combine::Add | Combine::Subtract => i64::from(result as i32),
            _ => result,
        };
        match (self.finish, self.signed) {
            (Finish::Merge | Finish::Add, _) => c.wrapping_add(result as u32),
            (Finish::Minimum, true) => wide.min(i64::from(c as i32)) as u32,
            (Finish::Minimum, false) => (wide as u64).min(u64::from(c)) as u32,
            (Finish::Maximum, true) => wide.max(i64::from(c as i32)) as u32,
            (Finish::Maximum, false) => (wide as u64).max(u64::from(c)) as u32,
        }
    }
}

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let base = i.base();
    let (name, count) = match base.as_bytes().last() {
        Some(b'2') => (&base[..base.len() - 1], 2),
        Some(b'4') => (&base[..base.len() - 1], 4),
        _ => (base, 1),
    };
    let combine = combination(name, i)?;
    // A comparison's result is one or zero, of the first source's type.
    let types: Vec<Type> = i.types().collect();
    let (Some(&result), [.., a_type, b_type]) = (types.first(), &types[..]) else {
        return Err(i.names_no("types of its operands"));
    };
    let finish = i.choose(&[("add", Finish::Add), ("min", Finish::Minimum), ("max", Finish::Maximum)]);
    let mut video = Video {
        combine,
        finish: finish.unwrap_or(Finish::Merge),
        saturate: i.has("sat"),
        signed: result == Type::S32,
        a_signed: *a_type == Type::S32,
        b_signed: *b_type == Type::S32,
        count,
        a: [Part::WHOLE; 4],
        b: [Part::WHOLE; 4],
        d: [Part::WHOLE; 4],
        kept: [true; 4],
        pairs: count > 1,
    };
    let (destination, to) = selected(i.operand(0)?);
    let (a, from_a) = selected(i.operand(1)?);
    let (b, from_b) = selected(i.operand(2)?);
    if count == 1 {
        let merges = finish.is_none() && name != "vmad" && i.operands.len() == 4;
        if to.is_some() && !merges {
            return Err(DecodeError::new(
                "A part of the destination needs the register that it is merged into as the last operand, and \
                 excludes a second operation.",
            ));
        }
        video.a[0] = scalar_part(from_a)?;
        video.b[0] = scalar_part(from_b)?;
        video.d[0] = scalar_part(to)?;
    } else {
        let bits = 32 / count as u32;
        video.a = simd_parts(from_a, bits, 0)?;
        video.b = simd_parts(from_b, bits, count as u32)?;
        video.d = simd_parts(None, bits, 0)?;
        if let Some(word) = to {
            let named = digits(word)?;
            video.kept = std::array::from_fn(|part| named.contains(&(part as u32)));
        }
    }
    let slots = Operands {
        c: if i.operands.len() > 3 { d.source_at(i, 3)? } else { d.bits(0, File::Word) },
        d: d.destination(&destination, Type::B32)?,
        a: d.source(&a, Type::B32)?,
        b: d.source(&b, Type::B32)?,
        ..Operands::default()
    };
    d.plain_lanes(slots, three(move |a: u32, b: u32, c: u32| video.apply(a, b, c)))
}

fn combination(name: &str, i: &Row<'_>) -> Result<Combine, DecodeError> {
    let comparisons = [
        ("eq", Comparison::Equal),
        ("ne", Comparison::NotEqual),
        ("lt", Comparison::Less),
        ("le", Comparison::LessOrEqual),
        ("gt", Comparison::Greater),
        ("ge", Comparison::GreaterOrEqual),
    ];
    Ok(match name {
        "vadd" => Combine::Add,
        "vsub" => Combine::Subtract,
        "vavrg" => Combine::Average,
        "vabsdiff" => Combine::AbsoluteDifference,
        "vmin" => Combine::Minimum,
        "vmax" => Combine::Maximum,
        "vshl" => Combine::ShiftLeft { wrap: i.has("wrap") },
        "vshr" => Combine::ShiftRight { wrap: i.has("wrap") },
        "vmad" => Combine::MultiplyAdd {
            plus_one: i.has("po"),
            scale: i.choose(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0),
        },
        "vset" => Combine::Compare(i.must("comparison", &comparisons)?),
        _ => return Err(i.unsupported()),
    })
}

/// An operand without its selector, and the selector: `%r1.b3210` is `%r1` and `b3210`.
fn selected(operand: &Operand) -> (Operand, Option<&str>) {
    if let Operand::Name(name) = operand
        && let Some((register, selector)) = name.rsplit_once('.')
        && matches!(selector.as_bytes(), [b'b' | b'h', rest @ ..] if rest.iter().all(u8::is_ascii_digit))
    {
        return (Operand::Name(register.to_owned()), Some(selector));
    }
    (operand.clone(), None)
}

/// The numbers of a selector, the lowest part's first.
fn digits(selector: &str) -> Result<Vec<u32>, DecodeError> {
    let numbers: Option<Vec<u32>> = selector[1..].chars().rev().map(|digit| digit.to_digit(8)).collect();
    numbers.ok_or_else(|| DecodeError::new(format!("`.{selector}` selects no parts of a word.")))
}

/// The part that a scalar instruction's selector names.
fn scalar_part(selector: Option<&str>) -> Result<Part, DecodeError> {
    let Some(selector) = selector else { return Ok(Part::WHOLE) };
    let bits = if selector.starts_with('b') { 8 } else { 16 };
    match digits(selector)?[..] {
        [index] if index < 32 / bits => Ok(Part { bits, index }),
        _ => Err(DecodeError::new(format!("`.{selector}` selects no part of a word."))),
    }
}

/// The parts that a SIMD instruction's selector names, or the word's own, which begin at `first`.
fn simd_parts(selector: Option<&str>, bits: u32, first: u32) -> Result<[Part; 4], DecodeError> {
    let count = (32 / bits) as usize;
    let named = match selector {
        Some(word) => digits(word)?,
        None => (first..first + count as u32).collect(),
    };
    if named.len() != count || named.iter().any(|index| *index >= 64 / bits) {
        return Err(DecodeError::new(format!(
            "`.{}` selects no parts of two words.",
            selector.unwrap_or("")
        )));
    }
    Ok(std::array::from_fn(|part| Part { bits, index: *named.get(part).unwrap_or(&0) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(combine: Combine, finish: Finish, saturate: bool) -> Video {
        Video {
            combine,
            finish,
            saturate,
            signed: false,
            a_signed: false,
            b_signed: false,
            count: 4,
            a: simd_parts(None, 8, 0).expect("the word's own parts"),
            b: simd_parts(None, 8, 4).expect("the other word's parts"),
            d: simd_parts(None, 8, 0).expect("the word's own parts"),
            kept: [true; 4],
            pairs: true,
        }
    }

    #[test]
    fn bytes_are_combined_each_by_itself() {
        let (a, b) = (0x01ff_8000u32, 0x0201_7f05u32);
        let difference = bytes(Combine::AbsoluteDifference, Finish::Merge, false);
        assert_eq!(difference.apply(a, b, 0), 0x01fe_0105);
        let sum = bytes(Combine::AbsoluteDifference, Finish::Add, false);
        assert_eq!(sum.apply(a, b, 7), 7 + 1 + 0xfe + 1 + 5);
        assert_eq!(bytes(Combine::Add, Finish::Merge, true).apply(a, b, 0), 0x03ff_ff05);
        assert_eq!(bytes(Combine::Subtract, Finish::Merge, true).apply(a, b, 0), 0x00fe_0100);
        assert_eq!(bytes(Combine::Average, Finish::Merge, false).apply(a, b, 0), 0x0280_8003);
    }

    #[test]
    fn selectors_reach_into_both_words() {
        let swapped = Video {
            a: simd_parts(Some("b0123"), 8, 0).expect("a selector"),
            b: simd_parts(Some("b4444"), 8, 4).expect("a selector"),
            ..bytes(Combine::Add, Finish::Merge, false)
        };
        assert_eq!(swapped.apply(0x0403_0201, 0x10, 0), 0x1112_1314);
        assert!(simd_parts(Some("b012"), 8, 0).is_err());
        assert!(scalar_part(Some("h2")).is_err());
    }

    #[test]
    fn a_masked_result_keeps_the_other_parts_of_the_third_source() {
        let masked =
            Video { kept: [false, true, false, true], ..bytes(Combine::Maximum, Finish::Merge, false) };
        assert_eq!(masked.apply(0x0102_0304, 0x0401_0501, 0xaaaa_aaaa), 0x04aa_05aa);
    }

    /// What an H100 gives (driver 580.159.04): a negative sum is the larger, whatever its bits.
    #[test]
    fn the_second_operation_compares_64_bits() {
        let scalar = |combine, finish, signed| Video {
            signed,
            a_signed: true,
            b_signed: true,
            count: 1,
            a: [Part::WHOLE; 4],
            b: [Part::WHOLE; 4],
            d: [Part::WHOLE; 4],
            pairs: false,
            ..bytes(combine, finish, false)
        };
        let (minus, large) = (-0x3aa9i32 as u32, 0xffff_e321);
        let of = |combine, finish, signed| scalar(combine, finish, signed).apply(minus, 0, large);
        for combine in [Combine::Add, Combine::Subtract, Combine::Minimum] {
            assert_eq!(of(combine, Finish::Maximum, false), minus, "{combine:?}");
            assert_eq!(of(combine, Finish::Minimum, false), large, "{combine:?}");
            assert_eq!(of(combine, Finish::Maximum, true), large, "{combine:?}");
        }
        // A sum keeps 32 bits, a difference's magnitude all.
        let edges = |combine, finish| scalar(combine, finish, true).apply(i32::MIN as u32, 1, 5);
        assert_eq!(edges(Combine::AbsoluteDifference, Finish::Maximum), 0x8000_0001);
        assert_eq!(edges(Combine::Subtract, Finish::Maximum), i32::MAX as u32);
    }
}
