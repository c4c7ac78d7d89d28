//! Python's two ways to format: `'%s' % value`, and `'{}'.format(value)`.

use super::callable::Given;
use super::error::{Result, fail};
use super::interpreter::Interpreter;
use super::value::Value;
use super::{attributes, write};

/// How a value is written.
#[derive(Clone, Debug, Default)]
struct Form {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    is_alternate: bool,
    has_zeros: bool,
    groups: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// A number at the beginning of a text, and the rest. Numbers too large for a text become one that is refused later.
fn number(text: &str) -> (Option<usize>, &str) {
    let length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(length);
    ((!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX)), rest)
}

/// `text % value`. `is_safe` escapes what is put into Markup.
pub(super) fn printf(run: &mut Interpreter, text: &str, value: &Value, is_safe: bool) -> Result<String> {
    let mut positional = match value {
        Value::Tuple(items) => items.items.clone().into_iter(),
        other => vec![other.clone()].into_iter(),
    };
    // What has items counts as a mapping, but tuples.
    let is_mapping = matches!(value, Value::Dict(_) | Value::List(_) | Value::Undefined);
    let mut used_names = false;
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut named = None;
        if let Some(after) = rest.strip_prefix('(') {
            let Some((name, after)) = after.split_once(')') else { return fail("a format has no `)`") };
            let Value::Dict(dict) = value else { return fail("a format with names needs a dictionary") };
            let Some(found) = dict.get(name) else {
                return fail(format!("the format's `{name}` is missing"));
            };
            (named, rest, used_names) = (Some(found.clone()), after, true);
        }
        let mut form = Form::default();
        loop {
            match rest.chars().next() {
                Some('-') => form.align = Some('<'),
                Some('0') => form.has_zeros = true,
                Some('#') => form.is_alternate = true,
                Some(sign @ '+') => form.sign = Some(sign),
                Some(' ') => form.sign = form.sign.or(Some(' ')),
                _ => break,
            }
            rest = &rest[1..];
        }
        let mut next = || positional.next().map_or_else(|| fail("a format has too few values"), Ok);
        let mut star = |rest: &mut &str| -> Result<Option<i128>> {
            let Some(after) = rest.strip_prefix('*') else { return Ok(None) };
            *rest = after;
            next()?.as_int().map_or_else(|| fail("`*` needs an integer"), |number| Ok(Some(number)))
        };
        let width = match star(&mut rest)? {
            Some(width) => {
                if width < 0 {
                    form.align = Some('<');
                }
                Some(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX))
            }
            None => {
                let (width, after) = number(rest);
                rest = after;
                width
            }
        };
        form.width = width.unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            form.precision = match star(&mut rest)? {
                Some(precision) => Some(usize::try_from(precision.max(0)).unwrap_or(usize::MAX)),
                None => {
                    let (precision, after) = number(rest);
                    rest = after;
                    Some(precision.unwrap_or(0))
                }
            };
        }
        rest = rest.trim_start_matches(['h', 'l', 'L']);
        let Some(kind) = rest.chars().next() else { return fail("a format is incomplete") };
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match named {
            Some(value) => value,
            None if used_names => return fail("a format has too few values"),
            None => next()?,
        };
        let written = converted(run, value, kind, &mut form, is_safe)?;
        let is_number = !matches!(kind, 's' | 'r' | 'a' | 'c');
        padded(run, &written, &form, is_number, '>', &mut out)?;
    }
    out.push_str(rest);
    run.room(out.len())?;
    if !used_names && !is_mapping && positional.next().is_some() {
        return fail("a format has too many values");
    }
    Ok(out)
}

/// A value as a conversion of `printf` writes it, without its padding.
fn converted(
    run: &mut Interpreter,
    value: Value,
    kind: char,
    form: &mut Form,
    is_safe: bool,
) -> Result<String> {
    Ok(match kind {
        's' | 'r' | 'a' => {
            let value = if is_safe { write::escape(run, &value)? } else { value };
            let mut text = String::new();
            match kind {
                's' => text = write::string(run, &value)?,
                _ => write::repr(run, &value, &mut text)?,
            }
            if let Some(precision) = form.precision {
                text = text.chars().take(precision).collect();
            }
            form.has_zeros = false;
            text
        }
        'c' => match (value.as_int(), value.as_text()) {
            (Some(code), _) => match u32::try_from(code).ok().and_then(char::from_u32) {
                Some(character) => character.to_string(),
                None => return fail("a character does not exist"),
            },
            (None, Some(text)) if text.chars().count() == 1 => text.to_string(),
            _ => return fail("`%c` needs a character"),
        },
        'd' | 'i' | 'u' => {
            let whole = match (&value, value.as_int()) {
                (_, Some(number)) => number,
                (Value::Float(number), _) if number.is_finite() => number.trunc() as i128,
                _ => return fail(format!("`%d` needs a number, not {}", value.kind())),
            };
            let digits = whole.unsigned_abs().to_string();
            run.room(form.precision.unwrap_or(0))?;
            let zeros = "0".repeat(form.precision.unwrap_or(0).saturating_sub(digits.len()));
            sign(whole < 0, form.sign) + &zeros + &digits
        }
        'x' | 'X' | 'o' => {
            let Some(whole) = value.as_int() else { return fail(format!("`%{kind}` needs an integer")) };
            sign(whole < 0, form.sign) + &digits(whole.unsigned_abs(), kind, form.is_alternate)
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            let Some(number) = value.as_float() else {
                return fail(format!("`%{kind}` needs a number, not {}", value.kind()));
            };
            decimal(run, number, kind, form)?
        }
        _ => return fail(format!("there is no format `%{kind}`")),
    })
}

/// `text.format(..)`.
pub(super) fn braces(run: &mut Interpreter, text: &str, given: &Given) -> Result<String> {
    let mut automatic = 0;
    fields(run, text, given, &mut automatic, 2)
}

fn fields(
    run: &mut Interpreter,
    text: &str,
    given: &Given,
    automatic: &mut usize,
    depth: u32,
) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        if brace == "}" || depth == 0 {
            return fail("a format has a `}` without `{`");
        }
        let mut open = 1;
        let end = rest.find(|c| {
            open += i32::from(c == '{') - i32::from(c == '}');
            open == 0
        });
        let Some(end) = end else { return fail("a format has no `}`") };
        let (field, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        let (field, form) = field.split_once(':').unwrap_or((field, ""));
        let (path, conversion) = field.split_once('!').unwrap_or((field, ""));
        let value = argument(path, given, automatic)?;
        let form = fields(run, form, given, automatic, depth - 1)?;
        let value = match conversion {
            "" => value,
            "s" => Value::text(write::string(run, &value)?),
            "r" | "a" => {
                let mut text = String::new();
                write::repr(run, &value, &mut text)?;
                Value::text(text)
            }
            _ => return fail(format!("there is no conversion `!{conversion}`")),
        };
        formatted(run, &value, &form, &mut out)?;
    }
    out.push_str(rest);
    run.room(out.len())?;
    Ok(out)
}

/// The argument of a field such as `0`, `name` or `name.key[1]`.
fn argument(path: &str, given: &Given, automatic: &mut usize) -> Result<Value> {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, mut rest) = path.split_at(end);
    let value = match (name.is_empty(), name.parse::<usize>()) {
        (true, _) => {
            *automatic += 1;
            given.positional.get(*automatic - 1)
        }
        (false, Ok(index)) => given.positional.get(index),
        (false, Err(_)) => given.named.iter().find(|(found, _)| found == name).map(|(_, value)| value),
    };
    let Some(value) = value else { return fail(format!("the format's `{name}` is missing")) };
    let mut value = value.clone();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            value = attributes::attribute(&value, &after[..end])?;
            rest = &after[end..];
        } else {
            let Some((key, after)) = rest[1..].split_once(']') else { return fail("a format has no `]`") };
            let key = key.parse().map_or_else(|_| Value::text(key), Value::Int);
            value = attributes::item(&value, &key)?;
            rest = after;
        }
    }
    Ok(value)
}

/// Writes a value in a form such as `>8.2f`.
fn formatted(run: &mut Interpreter, value: &Value, text: &str, out: &mut String) -> Result<()> {
    if text.is_empty() {
        let text = write::string(run, value)?;
        out.push_str(&text);
        return Ok(());
    }
    let form = form(text)?;
    let wrong = || fail(format!("{} has no form `{text}`", value.kind()));
    let (written, is_number) = match (value, form.kind) {
        (Value::Text(text), None | Some('s')) if form.groups.is_none() && form.sign.is_none() => {
            let text = match form.precision {
                Some(precision) => text.text.chars().take(precision).collect(),
                None => text.text.to_string(),
            };
            (text, false)
        }
        (Value::Float(number), kind) => (decimal(run, *number, kind.unwrap_or('r'), &form)?, true),
        (_, kind) => match (value.as_int(), kind) {
            (Some(number), None | Some('d' | 'n')) => (
                sign(number < 0, form.sign) + &grouped(&number.unsigned_abs().to_string(), form.groups),
                true,
            ),
            (Some(number), Some(kind @ ('x' | 'X' | 'o' | 'b'))) => {
                (sign(number < 0, form.sign) + &digits(number.unsigned_abs(), kind, form.is_alternate), true)
            }
            (Some(number), Some('c')) => match u32::try_from(number).ok().and_then(char::from_u32) {
                Some(character) => (character.to_string(), true),
                None => return wrong(),
            },
            (Some(number), Some(kind)) => (decimal(run, number as f64, kind, &form)?, true),
            (None, _) => return wrong(),
        },
    };
    let align = if is_number { '>' } else { '<' };
    padded(run, &written, &form, is_number, align, out)
}

/// Reads `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
fn form(text: &str) -> Result<Form> {
    let mut form = Form::default();
    let mut characters = text.chars();
    let (first, second) = (characters.next(), characters.next());
    let is_align = |c: Option<char>| c.is_some_and(|c| ['<', '>', '^', '='].contains(&c));
    let mut rest = text;
    if is_align(second) {
        (form.fill, form.align) = (first, second);
        rest = characters.as_str();
    } else if is_align(first) {
        form.align = first;
        rest = &text[1..];
    }
    if let Some(sign) = rest.chars().next().filter(|c| ['+', '-', ' '].contains(c)) {
        form.sign = Some(sign).filter(|sign| *sign != '-');
        rest = &rest[1..];
    }
    if let Some(after) = rest.strip_prefix('#') {
        (form.is_alternate, rest) = (true, after);
    }
    if let Some(after) = rest.strip_prefix('0') {
        (form.has_zeros, rest) = (form.align.is_none(), after);
    }
    let (width, after) = number(rest);
    (form.width, rest) = (width.unwrap_or(0), after);
    if let Some(group) = rest.chars().next().filter(|c| [',', '_'].contains(c)) {
        (form.groups, rest) = (Some(group), &rest[1..]);
    }
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = number(after);
        (form.precision, rest) = (Some(precision.unwrap_or(0)), after);
    }
    form.kind = rest.chars().next();
    if rest.chars().count() > 1 { fail(format!("there is no form `{text}`")) } else { Ok(form) }
}

fn sign(is_negative: bool, sign: Option<char>) -> String {
    if is_negative { "-".to_owned() } else { sign.map(String::from).unwrap_or_default() }
}

fn digits(number: u128, kind: char, is_alternate: bool) -> String {
    match (kind, is_alternate) {
        ('x', false) => format!("{number:x}"),
        ('x', true) => format!("{number:#x}"),
        ('X', false) => format!("{number:X}"),
        ('X', true) => format!("0X{number:X}"),
        ('o', false) => format!("{number:o}"),
        ('o', true) => format!("{number:#o}"),
        (_, false) => format!("{number:b}"),
        (_, true) => format!("{number:#b}"),
    }
}

/// Thousands apart from each other.
fn grouped(digits: &str, separator: Option<char>) -> String {
    let Some(separator) = separator else { return digits.to_owned() };
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

/// A number with a fraction or an exponent.
fn decimal(run: &mut Interpreter, number: f64, kind: char, form: &Form) -> Result<String> {
    if !number.is_finite() {
        return Ok(sign(number < 0.0, form.sign) + write::float(number.abs()).as_str());
    }
    // What Rust formats at most.
    let precision = form.precision.unwrap_or(6);
    run.room(precision)?;
    if precision > u16::MAX.into() {
        return fail("a format has too many digits");
    }
    let size = number.abs();
    let exponent = |text: String| match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) =
                exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    };
    let general = |precision: usize| {
        let precision = precision.max(1);
        let scientific = format!("{size:.*e}", precision - 1);
        let power: i32 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
        let trim = |text: String| match text.contains('.') && !form.is_alternate {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
        if power < -4 || power >= precision as i32 {
            let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            exponent(format!("{}e{power}", trim(digits.to_owned())))
        } else {
            trim(format!("{size:.*}", usize::try_from(precision as i32 - 1 - power).unwrap_or(0)))
        }
    };
    let text = match kind {
        'e' => exponent(format!("{size:.precision$e}")),
        'E' => exponent(format!("{size:.precision$e}")).to_uppercase(),
        'f' | 'F' => {
            let text = format!("{size:.precision$}");
            let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
            let whole = grouped(whole, form.groups);
            fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"))
        }
        'g' => general(precision),
        'G' => general(precision).to_uppercase(),
        '%' => format!("{:.precision$}%", size * 100.0),
        'r' | 'n' => match form.precision {
            None => write::float(size),
            Some(precision) => {
                let text = general(precision);
                if text.contains(['.', 'e']) { text } else { text + ".0" }
            }
        },
        _ => return fail(format!("a number has no form `{kind}`")),
    };
    Ok(sign(number.is_sign_negative(), form.sign) + &text)
}

/// Writes a text at its width.
fn padded(
    run: &mut Interpreter,
    text: &str,
    form: &Form,
    is_number: bool,
    align: char,
    out: &mut String,
) -> Result<()> {
    let missing = form.width.saturating_sub(text.chars().count());
    run.room(out.len().saturating_add(text.len()).saturating_add(missing))?;
    let has_zeros = form.has_zeros && form.align.is_none();
    let fill = form.fill.unwrap_or(if has_zeros && is_number { '0' } else { ' ' });
    let fill = |number: usize| fill.to_string().repeat(number);
    let align = form.align.unwrap_or(if has_zeros && is_number { '=' } else { align });
    match align {
        '<' => *out += &(text.to_owned() + &fill(missing)),
        '^' => *out += &(fill(missing / 2) + text + &fill(missing - missing / 2)),
        '=' => {
            let signed = usize::from(text.starts_with(['-', '+', ' ']));
            *out += &(text[..signed].to_owned() + &fill(missing) + &text[signed..]);
        }
        _ => *out += &(fill(missing) + text),
    }
    Ok(())
}
