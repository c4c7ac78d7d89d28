//! Literals and constant expressions (PTX ISA, "Constants" and "Constant Expressions").

use super::Parser;
use super::cursor::Parsed;
use crate::syntax::Number;

/// An intermediate value of a constant expression.
#[derive(Clone, Copy)]
pub(super) enum Constant {
    Signed(i64),
    Unsigned(u64),
    F32(u32),
    F64(f64),
}

impl From<Constant> for Number {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Signed(value) => Self::Integer(value),
            Constant::Unsigned(value) => Self::Integer(value as i64),
            Constant::F32(bits) => Self::F32(bits),
            Constant::F64(value) => Self::F64(value.to_bits()),
        }
    }
}

/// Binary operators by the length of their spelling, longest first, each with how tightly it binds.
const OPERATORS: [(&str, u8); 18] = [
    ("<<", 8),
    (">>", 8),
    ("<=", 7),
    (">=", 7),
    ("==", 6),
    ("!=", 6),
    ("&&", 2),
    ("||", 1),
    ("*", 10),
    ("/", 10),
    ("%", 10),
    ("+", 9),
    ("-", 9),
    ("<", 7),
    (">", 7),
    ("&", 5),
    ("^", 4),
    ("|", 3),
];

impl Parser<'_> {
    /// A constant expression, evaluated.
    pub(super) fn constant(&mut self) -> Parsed<Number> {
        if let Some(value) = self.plain_decimal() {
            return Ok(Number::Integer(value));
        }
        Ok(self.conditional()?.into())
    }

    /// A constant expression that has to be an integer.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<i64> {
        let mark = self.cursor.mark();
        match self.constant()? {
            Number::Integer(value) => Ok(value),
            _ => self.cursor.error_at(mark, what),
        }
    }

    /// A count or size: an integer that fits `u32`.
    pub(super) fn count(&mut self, what: &str) -> Parsed<u32> {
        let mark = self.cursor.mark();
        let value = self.integer(what)?;
        match u32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => self.cursor.error_at(mark, what),
        }
    }

    /// The common case, without building an expression: a single decimal before a delimiter.
    fn plain_decimal(&mut self) -> Option<i64> {
        let mark = self.cursor.mark();
        let negative = self.cursor.take(b'-');
        if !self.cursor.peek().is_ascii_digit()
            || (self.cursor.peek() == b'0' && self.cursor.peek_at(1).is_ascii_alphanumeric())
        {
            self.cursor.return_to(mark);
            return None;
        }
        let text = self.cursor.number_text();
        // `>` ends a count as in `%r<10>`, unless another operand follows it as in `7>3`.
        let after = self.cursor.peek_at(1);
        let delimited = match self.cursor.peek() {
            b',' | b';' | b']' | b'}' => true,
            b'>' => !(after.is_ascii_alphanumeric() || b">=(-~!".contains(&after)),
            _ => false,
        };
        match text.parse::<i64>() {
            Ok(value) if delimited => Some(if negative { -value } else { value }),
            _ => {
                self.cursor.return_to(mark);
                None
            }
        }
    }

    fn conditional(&mut self) -> Parsed<Constant> {
        let condition = self.binary(1)?;
        if !self.cursor.take(b'?') {
            return Ok(condition);
        }
        self.descend()?;
        let then = self.conditional()?;
        self.cursor.expect(b':', "between the two values of `?`")?;
        let otherwise = self.conditional()?;
        self.ascend();
        let (then, otherwise) = match (then, otherwise) {
            (Constant::Unsigned(a), Constant::Signed(b)) => {
                (Constant::Unsigned(a), Constant::Unsigned(b as u64))
            }
            (Constant::Signed(a), Constant::Unsigned(b)) => {
                (Constant::Unsigned(a as u64), Constant::Unsigned(b))
            }
            same => same,
        };
        Ok(if is_true(condition) { then } else { otherwise })
    }

    /// Operators that bind at least as tightly as `tightness`.
    fn binary(&mut self, tightness: u8) -> Parsed<Constant> {
        let mut left = self.unary()?;
        while let Some((operator, binds)) = self.operator(tightness) {
            let mark = self.cursor.mark();
            self.cursor.take_symbol(operator);
            let right = self.binary_operand(binds)?;
            left = match apply(operator, left, right) {
                Some(value) => value,
                None => return self.cursor.error_at(mark, format!("operands that `{operator}` can take")),
            };
        }
        Ok(left)
    }

    fn binary_operand(&mut self, binds: u8) -> Parsed<Constant> {
        self.descend()?;
        let value = self.binary(binds + 1)?;
        self.ascend();
        Ok(value)
    }

    fn operator(&self, tightness: u8) -> Option<(&'static str, u8)> {
        let next = [self.cursor.peek(), self.cursor.peek_at(1)];
        let spelled = OPERATORS.iter().find(|(spelling, _)| next.starts_with(spelling.as_bytes()));
        spelled.copied().filter(|(_, binds)| *binds >= tightness)
    }

    fn unary(&mut self) -> Parsed<Constant> {
        self.descend()?;
        let mark = self.cursor.mark();
        let value = match self.cursor.peek() {
            b'-' => {
                self.cursor.take(b'-');
                match self.unary()? {
                    Constant::Signed(value) => Constant::Signed(value.wrapping_neg()),
                    Constant::Unsigned(value) => Constant::Unsigned(value.wrapping_neg()),
                    Constant::F64(value) => Constant::F64(-value),
                    Constant::F32(_) => {
                        return self.cursor.error_at(mark, "no sign before a number given as bits");
                    }
                }
            }
            b'+' => {
                self.cursor.take(b'+');
                self.unary()?
            }
            b'~' => {
                self.cursor.take(b'~');
                match self.unary()? {
                    Constant::Signed(value) => Constant::Signed(!value),
                    Constant::Unsigned(value) => Constant::Unsigned(!value),
                    _ => return self.cursor.error_at(mark, "an integer after `~`"),
                }
            }
            b'!' => {
                self.cursor.take(b'!');
                Constant::Signed(i64::from(!is_true(self.unary()?)))
            }
            b'(' => self.parenthesized()?,
            b'W' => self.warp_size()?,
            _ => self.literal()?,
        };
        self.ascend();
        Ok(value)
    }

    /// `( expression )`, or a cast: `(.u64) expression`.
    fn parenthesized(&mut self) -> Parsed<Constant> {
        self.cursor.expect(b'(', "")?;
        let mark = self.cursor.mark();
        let Some(cast) = self.cursor.directive() else {
            let value = self.conditional()?;
            self.cursor.expect(b')', "to close the parenthesis")?;
            return Ok(value);
        };
        self.cursor.expect(b')', "after the type of a cast")?;
        match (cast, self.unary()?) {
            ("s64", Constant::Unsigned(value)) => Ok(Constant::Signed(value as i64)),
            ("u64", Constant::Signed(value)) => Ok(Constant::Unsigned(value as u64)),
            ("s64", Constant::F64(value)) => Ok(Constant::Signed(value as i64)),
            ("u64", Constant::F64(value)) => Ok(Constant::Unsigned(value as u64)),
            ("s64" | "u64", value) => Ok(value),
            ("f64", Constant::Signed(value)) => Ok(Constant::F64(value as f64)),
            ("f64", Constant::Unsigned(value)) => Ok(Constant::F64(value as f64)),
            ("f64", value) => Ok(value),
            _ => self.cursor.error_at(mark, "`.s64`, `.u64` or `.f64` in a cast"),
        }
    }

    /// `WARP_SZ`, the one named constant.
    fn warp_size(&mut self) -> Parsed<Constant> {
        let mark = self.cursor.mark();
        match self.cursor.word() {
            Some("WARP_SZ") => Ok(Constant::Signed(32)),
            _ => self.cursor.error_at(mark, "a number"),
        }
    }

    fn literal(&mut self) -> Parsed<Constant> {
        if !self.cursor.peek().is_ascii_digit() && self.cursor.peek() != b'.' {
            return self.cursor.error("a number");
        }
        let mark = self.cursor.mark();
        let text = self.cursor.number_text();
        match literal_value(text) {
            Some(value) => Ok(value),
            None => self.cursor.error_at(mark, "a number that PTX can write"),
        }
    }
}

/// The value of a literal: `12`, `12U`, `0x1F`, `017`, `0b11`, `0f3F800000`, `0d3FF0000000000000`,
/// `1.5`, `1e-3`.
fn literal_value(text: &str) -> Option<Constant> {
    let prefix = text.get(..2).unwrap_or("");
    match prefix {
        "0f" | "0F" => return hexadecimal_bits(&text[2..], 8).map(|bits| Constant::F32(bits as u32)),
        "0d" | "0D" => {
            return hexadecimal_bits(&text[2..], 16).map(|bits| Constant::F64(f64::from_bits(bits)));
        }
        _ => {}
    }
    let digits = text.strip_suffix('U').unwrap_or(text);
    let (radix, digits_of_radix) = match prefix {
        "0x" | "0X" => (16, &digits[2..]),
        "0b" | "0B" => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits_of_radix.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && let Ok(value) = u64::from_str_radix(digits_of_radix, radix)
    {
        let is_unsigned = digits.len() != text.len() || i64::try_from(value).is_err();
        return Some(if is_unsigned { Constant::Unsigned(value) } else { Constant::Signed(value as i64) });
    }
    let is_decimal_float =
        text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    let has_float_mark = text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    let value: f64 = text.parse().ok().filter(|_| is_decimal_float && has_float_mark)?;
    value.is_finite().then_some(Constant::F64(value))
}

fn hexadecimal_bits(digits: &str, length: usize) -> Option<u64> {
    let well_formed = digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if well_formed { u64::from_str_radix(digits, 16).ok() } else { None }
}

fn is_true(constant: Constant) -> bool {
    match constant {
        Constant::Signed(value) => value != 0,
        Constant::Unsigned(value) => value != 0,
        Constant::F32(bits) => f32::from_bits(bits) != 0.0,
        Constant::F64(value) => value != 0.0,
    }
}

fn apply(operator: &str, left: Constant, right: Constant) -> Option<Constant> {
    use Constant::{F32, F64, Signed, Unsigned};
    if matches!(operator, "&&" | "||") {
        let value =
            if operator == "&&" { is_true(left) && is_true(right) } else { is_true(left) || is_true(right) };
        return Some(Signed(i64::from(value)));
    }
    match (left, right) {
        (F32(_), _) | (_, F32(_)) => None,
        (F64(a), F64(b)) => apply_float(operator, a, b),
        (F64(a), Signed(b)) => apply_float(operator, a, b as f64),
        (F64(a), Unsigned(b)) => apply_float(operator, a, b as f64),
        (Signed(a), F64(b)) => apply_float(operator, a as f64, b),
        (Unsigned(a), F64(b)) => apply_float(operator, a as f64, b),
        // The type of a shift is its left operand's; all else is unsigned if either side is.
        (Signed(a), Unsigned(b)) if matches!(operator, "<<" | ">>") => apply_signed(operator, a, b as i64),
        (Signed(a), Signed(b)) => apply_signed(operator, a, b),
        (Signed(a), Unsigned(b)) => apply_unsigned(operator, a as u64, b),
        (Unsigned(a), Signed(b)) => apply_unsigned(operator, a, b as u64),
        (Unsigned(a), Unsigned(b)) => apply_unsigned(operator, a, b),
    }
}

fn apply_signed(operator: &str, a: i64, b: i64) -> Option<Constant> {
    Some(Constant::Signed(match operator {
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        "%" => a.checked_rem(b)?,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "<<" => u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0),
        ">>" => a >> b.clamp(0, 63),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "&" => a & b,
        "^" => a ^ b,
        "|" => a | b,
        _ => return None,
    }))
}

fn apply_unsigned(operator: &str, a: u64, b: u64) -> Option<Constant> {
    Some(Constant::Unsigned(match operator {
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        "%" => a.checked_rem(b)?,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "<<" => u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0),
        ">>" => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0),
        "&" => a & b,
        "^" => a ^ b,
        "|" => a | b,
        _ => return compare(operator, a, b),
    }))
}

fn apply_float(operator: &str, a: f64, b: f64) -> Option<Constant> {
    Some(Constant::F64(match operator {
        "*" => a * b,
        "/" => a / b,
        "+" => a + b,
        "-" => a - b,
        _ => return compare(operator, a, b),
    }))
}

fn compare<T: PartialOrd>(operator: &str, a: T, b: T) -> Option<Constant> {
    let holds = match operator {
        "<" => a < b,
        ">" => a > b,
        "<=" => a <= b,
        ">=" => a >= b,
        "==" => a == b,
        "!=" => a != b,
        _ => return None,
    };
    Some(Constant::Signed(i64::from(holds)))
}
