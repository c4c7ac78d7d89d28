//! Values as text: Python's `str` and `repr`.

use super::error::{Error, Result};
use super::interpreter::Interpreter;
use super::value::{Key, Value};

/// `str(value)`. The text of a text is itself.
pub(super) fn string(run: &mut Interpreter, value: &Value) -> Result<String> {
    match value {
        Value::Undefined => Ok(String::new()),
        Value::Text(text) => {
            run.room(text.text.len())?;
            Ok(text.text.as_ref().to_owned())
        }
        other => {
            let mut text = String::new();
            repr(run, other, &mut text)?;
            Ok(text)
        }
    }
}

/// `repr(value)`.
pub(super) fn repr(run: &mut Interpreter, value: &Value, out: &mut String) -> Result<()> {
    run.spend(1)?;
    match value {
        Value::Undefined => out.push_str("Undefined"),
        Value::None => out.push_str("None"),
        Value::Bool(value) => out.push_str(if *value { "True" } else { "False" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&float(*number)),
        Value::Text(text) => {
            run.room(out.len() + text.text.len())?;
            let is_safe = text.is_safe;
            if is_safe {
                out.push_str("Markup(");
            }
            quoted(&text.text, out);
            if is_safe {
                out.push(')');
            }
        }
        Value::List(items) => row(run, &items.items, ("[", "]"), out)?,
        Value::Tuple(items) => {
            let end = if items.items.len() == 1 { ",)" } else { ")" };
            row(run, &items.items, ("(", end), out)?;
        }
        Value::View(kind, items) => {
            out.push_str(kind);
            row(run, &items.items, ("([", "])"), out)?;
        }
        Value::Dict(dict) => {
            out.push('{');
            for (i, (key, value)) in dict.map.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr_key(run, key, out)?;
                out.push_str(": ");
                repr(run, value, out)?;
            }
            out.push('}');
        }
        Value::Namespace(namespace) => {
            out.push_str("<Namespace {");
            for (i, (name, value)) in namespace.map.borrow().iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                quoted(name, out);
                out.push_str(": ");
                // A namespace can hold itself.
                if let Value::Namespace(_) = value { out.push_str("...") } else { repr(run, value, out)? }
            }
            out.push_str("}>");
        }
        // Their texts have addresses in Python.
        other => return Err(Error::Failed(format!("{} has no text", other.kind()))),
    }
    Ok(())
}

fn repr_key(run: &mut Interpreter, key: &Key, out: &mut String) -> Result<()> {
    repr(run, &key.value(), out)
}

fn row(run: &mut Interpreter, items: &[Value], (begin, end): (&str, &str), out: &mut String) -> Result<()> {
    out.push_str(begin);
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        repr(run, item, out)?;
    }
    out.push_str(end);
    Ok(())
}

/// A text in the quotes that Python chooses.
fn quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', character]),
            '\0'..='\x1f' | '\x7f'..='\u{a0}' | '\u{ad}' => {
                out.push_str(&format!("\\x{:02x}", character as u32))
            }
            // Python escapes characters that it takes for unprintable: other spaces, formats and private characters.
            '\u{1680}'
            | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}'
            | '\u{205f}'..='\u{206f}'
            | '\u{3000}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", character as u32));
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}

/// The shortest text that gives the number again, as Python writes it.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let text = format!("{number}");
        return if text.contains('.') { text } else { text + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The text with HTML's special characters escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}

/// A value as Markup.
pub(super) fn escape(run: &mut Interpreter, value: &Value) -> Result<Value> {
    match value {
        Value::Text(text) if text.is_safe => Ok(value.clone()),
        other => {
            let text = string(run, other)?;
            let text = escaped(&text);
            run.room(text.len())?;
            Ok(Value::markup(text))
        }
    }
}
