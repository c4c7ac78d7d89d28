//! `vprintf` and `__assertfail`.

use std::fmt::Write;

use warpwright_events::{FaultKind, LANES, lanes};

use super::passed::{argument, set_result};
use crate::execution::effect::{Effect, Execution};
use crate::launch::failure::Failure;
use crate::memory::Space;
use crate::operation::call::Passed;

pub(super) struct Print {
    pub(super) format: Passed,
    pub(super) values: Passed,
    pub(super) result: Option<Passed>,
}

impl Effect for Print {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        for lane in lanes(mask) {
            let format = string(execution, lane, argument(execution, lane, self.format))?;
            let values = argument(execution, lane, self.values);
            let (text, conversions) = formatted(execution, lane, &format, values)?;
            execution.block.output.push_str(&text);
            set_result(execution, lane, self.result, conversions.into());
        }
        Ok(())
    }
}

pub(super) struct AssertionFailure {
    pub(super) message: Passed,
    pub(super) file: Passed,
    pub(super) line: Passed,
    pub(super) function: Passed,
}

impl Effect for AssertionFailure {
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        let lane = mask.trailing_zeros() as usize;
        let mut text = |passed| {
            let address = argument(execution, lane, passed);
            string(execution, lane, address).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        let (message, file, function) = (text(self.message)?, text(self.file)?, text(self.function)?);
        let line = argument(execution, lane, self.line) as u32;
        let [width, height, _] = execution.launch.block;
        let thread = execution.actor(mask).warp * LANES as u32 + lane as u32;
        let thread = [thread % width, thread / width % height, thread / (width * height)];
        let indices = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        let (block, thread) = (indices(execution.block.index), indices(thread));
        Err(Failure::new(FaultKind::Assertion, mask, format!("assertion failed: {message}"))
            .note(format!("in `{function}`, {file}:{line}: thread {thread} of block {block}")))
    }
}

/// Reads bytes at a generic address of a lane.
fn read(
    execution: &mut Execution<'_>,
    lane: usize,
    address: u64,
    bytes: &mut [u8],
) -> Result<(), Box<Failure>> {
    let read = match Space::of(address) {
        (Space::Local, offset) => execution.local.read(lane, offset, bytes),
        (Space::Global | Space::Constant, address) => execution.launch.memory.read(address, bytes).ok(),
        (Space::ClusterShared, shared) => {
            let source = execution.block.shared.locate(shared, shared + bytes.len() as u64);
            // SAFETY: `locate` gave a pointer to that many bytes of shared memory.
            source.map(|source| unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) })
        }
        _ => None,
    };
    read.ok_or_else(|| {
        Failure::new(
            FaultKind::OutOfBounds,
            1 << lane,
            format!("An argument of printf or assert is at {address:#x}, where nothing is allocated."),
        )
    })
}

/// The bytes of a C string.
fn string(execution: &mut Execution<'_>, lane: usize, address: u64) -> Result<Vec<u8>, Box<Failure>> {
    let mut text = Vec::new();
    loop {
        let mut byte = [0];
        read(execution, lane, address + text.len() as u64, &mut byte)?;
        if byte[0] == 0 {
            return Ok(text);
        }
        text.push(byte[0]);
    }
}

/// A conversion specification of C's printf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Specification {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    /// Bytes of an integer: 1, 2, 4 or 8.
    bytes: u32,
    conversion: u8,
}

/// The values of a printf, one after another, each at a multiple of its size.
struct Values {
    address: u64,
    offset: u64,
}

impl Values {
    fn next(&mut self, execution: &mut Execution<'_>, lane: usize, size: u64) -> Result<u64, Box<Failure>> {
        self.offset = self.offset.next_multiple_of(size);
        let mut bytes = [0; 8];
        read(execution, lane, self.address + self.offset, &mut bytes[..size as usize])?;
        self.offset += size;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Formats as C does: returns the text and the number of conversions.
fn formatted(
    execution: &mut Execution<'_>,
    lane: usize,
    format: &[u8],
    address: u64,
) -> Result<(String, u32), Box<Failure>> {
    let mut values = Values { address, offset: 0 };
    let mut text = String::new();
    let mut conversions = 0;
    let mut rest = format;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            let end = rest.iter().position(|&byte| byte == b'%').unwrap_or(rest.len());
            text.push_str(&String::from_utf8_lossy(&[&[byte], &rest[..end]].concat()));
            rest = &rest[end..];
            continue;
        }
        let mut specification = Specification { bytes: 4, ..Specification::default() };
        rest = specification.flags(rest);
        rest = number(rest, &mut specification.width, &mut values, execution, lane)?;
        if let Some(after) = rest.strip_prefix(b".") {
            specification.precision = Some(0);
            rest = number(after, &mut specification.precision, &mut values, execution, lane)?;
        }
        rest = specification.length(rest);
        let Some((&conversion, after)) = rest.split_first() else { break };
        rest = after;
        specification.conversion = conversion;
        if conversion == b'%' {
            text.push('%');
            continue;
        }
        conversions += 1;
        let piece = specification.convert(&mut values, execution, lane)?;
        text.push_str(&piece);
    }
    Ok((text, conversions))
}

/// Reads digits, or takes the next value for `*`.
fn number<'f>(
    mut rest: &'f [u8],
    into: &mut Option<usize>,
    values: &mut Values,
    execution: &mut Execution<'_>,
    lane: usize,
) -> Result<&'f [u8], Box<Failure>> {
    if let Some(after) = rest.strip_prefix(b"*") {
        *into = usize::try_from(values.next(execution, lane, 4)? as i32).ok();
        return Ok(after);
    }
    while let Some((digit @ b'0'..=b'9', after)) = rest.split_first() {
        *into = Some((into.unwrap_or(0) * 10 + usize::from(digit - b'0')).min(4096));
        rest = after;
    }
    Ok(rest)
}

impl Specification {
    fn flags<'f>(&mut self, mut rest: &'f [u8]) -> &'f [u8] {
        while let Some((flag, after)) = rest.split_first() {
            match flag {
                b'-' => self.left = true,
                b'+' => self.plus = true,
                b' ' => self.space = true,
                b'#' => self.alternate = true,
                b'0' => self.zero = true,
                _ => break,
            }
            rest = after;
        }
        rest
    }

    fn length<'f>(&mut self, mut rest: &'f [u8]) -> &'f [u8] {
        while let Some((letter, after)) = rest.split_first() {
            self.bytes = match letter {
                b'h' if self.bytes == 2 => 1,
                b'h' => 2,
                b'l' | b'j' | b'z' | b't' | b'L' => 8,
                _ => break,
            };
            rest = after;
        }
        rest
    }

    fn convert(
        &self,
        values: &mut Values,
        execution: &mut Execution<'_>,
        lane: usize,
    ) -> Result<String, Box<Failure>> {
        let size = if self.bytes == 8 { 8 } else { 4 };
        let shift = 64 - 8 * self.bytes;
        Ok(match self.conversion {
            b'd' | b'i' => {
                let value = (values.next(execution, lane, size)? << shift) as i64 >> shift;
                self.integer(value.unsigned_abs().to_string(), value < 0, "")
            }
            b'u' => {
                self.integer((values.next(execution, lane, size)? << shift >> shift).to_string(), false, "")
            }
            b'o' => self.integer(
                format!("{:o}", values.next(execution, lane, size)? << shift >> shift),
                false,
                "0",
            ),
            b'x' => self.integer(
                format!("{:x}", values.next(execution, lane, size)? << shift >> shift),
                false,
                "0x",
            ),
            b'X' => self.integer(
                format!("{:X}", values.next(execution, lane, size)? << shift >> shift),
                false,
                "0X",
            ),
            b'p' => self.pad(format!("{:#x}", values.next(execution, lane, 8)?)),
            b'c' => {
                let value = values.next(execution, lane, 4)? as u8;
                self.pad(char::from(value).to_string())
            }
            b's' => {
                let address = values.next(execution, lane, 8)?;
                let mut bytes = string(execution, lane, address)?;
                bytes.truncate(self.precision.unwrap_or(usize::MAX));
                self.pad(String::from_utf8_lossy(&bytes).into_owned())
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                self.float(f64::from_bits(values.next(execution, lane, 8)?))
            }
            other => format!("%{}", char::from(other)),
        })
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, digits: String, negative: bool, prefix: &str) -> String {
        let digits = match self.precision {
            Some(0) if digits == "0" => String::new(),
            Some(precision) => format!("{digits:0>precision$}"),
            None => digits,
        };
        let sign = if matches!(self.conversion, b'd' | b'i') { self.sign(negative) } else { "" };
        let prefix = if self.alternate && digits != "0" { prefix } else { "" };
        self.pad_number(sign, prefix, &digits, self.zero && self.precision.is_none())
    }

    fn float(&self, value: f64) -> String {
        let upper = self.conversion.is_ascii_uppercase();
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        let body = if magnitude.is_nan() {
            "nan".to_owned()
        } else if magnitude.is_infinite() {
            "inf".to_owned()
        } else {
            let precision = self.precision.unwrap_or(6);
            match self.conversion.to_ascii_lowercase() {
                b'f' => format!("{magnitude:.precision$}"),
                b'e' => exponential(magnitude, precision),
                b'a' => hexadecimal(magnitude, self.precision),
                _ => general(magnitude, precision.max(1), self.alternate),
            }
        };
        let body = if upper { body.to_uppercase() } else { body };
        self.pad_number(sign, "", &body, self.zero && magnitude.is_finite())
    }

    fn pad_number(&self, sign: &str, prefix: &str, digits: &str, zeros: bool) -> String {
        let length = sign.len() + prefix.len() + digits.len();
        let fill = self.width.unwrap_or(0).saturating_sub(length);
        if zeros && !self.left {
            return format!("{sign}{prefix}{}{digits}", "0".repeat(fill));
        }
        self.pad(format!("{sign}{prefix}{digits}"))
    }

    fn pad(&self, text: String) -> String {
        let width = self.width.unwrap_or(0);
        if self.left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

/// `d.dddde±dd`
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `%g`: the shorter of the two, without trailing zeros.
fn general(value: f64, precision: usize, keep_zeros: bool) -> String {
    let rounded = format!("{value:.*e}", precision - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trim = |text: String| {
        if keep_zeros || !text.contains('.') {
            text
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if exponent < -4 || exponent >= precision as i32 {
        let text = exponential(value, precision - 1);
        let (digits, tail) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{tail}", trim(digits.to_owned()));
    }
    trim(format!("{value:.*}", (precision as i32 - 1 - exponent) as usize))
}

/// `%a`: hexadecimal digits and a binary exponent.
fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let bits = value.to_bits();
    let (mut exponent, mut fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let mut lead = u64::from(exponent != 0);
    if exponent == 0 && fraction == 0 {
        exponent = 0;
    } else {
        exponent = exponent.max(1) - 1023;
    }
    let mut digits = format!("{fraction:013x}");
    match precision {
        Some(precision) if precision < 13 => {
            let drop = 4 * (13 - precision as u32);
            let whole = lead << 52 | fraction;
            let half = 1u64 << (drop - 1);
            let odd = whole >> drop & 1;
            let rounded = (whole + half - 1 + odd) >> drop << drop;
            (lead, fraction) = (rounded >> 52, rounded & ((1 << 52) - 1));
            digits = format!("{fraction:013x}");
            digits.truncate(precision);
        }
        Some(precision) => digits = format!("{digits:0<precision$}"),
        None => digits.truncate(digits.trim_end_matches('0').len()),
    }
    let mut text = format!("0x{lead}");
    if !digits.is_empty() {
        text.push('.');
        text.push_str(&digits);
    }
    let _ = write!(text, "p{exponent:+}");
    text
}
