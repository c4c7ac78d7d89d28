//! `tojson`: Python's `json.dumps` with the options that transformers passes on.

use super::callable::Given;
use super::error::{Error, Result};
use super::interpreter::Interpreter;
use super::value::{Key, Value};
use super::write;

/// How JSON is written.
struct Style {
    is_ascii: bool,
    /// The text of one level.
    indent: Option<String>,
    item: String,
    key: String,
    sorts: bool,
}

/// Writes a value.
pub(super) fn dumps(run: &mut Interpreter, value: &Value, mut given: Given) -> Result<Value> {
    let fail = |message: &str| Err(Error::Failed(message.to_owned()));
    let mut argument =
        |position, name| given.take(position, name).filter(|value| !matches!(value, Value::None));
    let is_ascii = argument(0, "ensure_ascii").is_some_and(|value| value.is_true());
    let indent = match argument(1, "indent") {
        None => None,
        Some(Value::Text(text)) => Some(text.text.to_string()),
        Some(value) => match value.as_int() {
            Some(number) => {
                let spaces = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
                run.room(spaces)?;
                Some(" ".repeat(spaces))
            }
            None => return fail("`indent` is a number or a text"),
        },
    };
    let (mut item, mut key) = ((if indent.is_some() { "," } else { ", " }).to_owned(), ": ".to_owned());
    if let Some(separators) = argument(2, "separators") {
        match &run.items(&separators)?[..] {
            [Value::Text(of_items), Value::Text(of_keys)] => {
                (item, key) = (of_items.text.to_string(), of_keys.text.to_string());
            }
            _ => return fail("`separators` are two texts"),
        }
    }
    let sorts = argument(3, "sort_keys").is_some_and(|value| value.is_true());
    let known = ["ensure_ascii", "indent", "separators", "sort_keys"];
    if let Some((name, _)) = given.named.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(Error::Failed(format!("`tojson` has no argument `{name}`")));
    }
    let style = Style { is_ascii, indent, item, key, sorts };
    let mut out = String::new();
    style.write(run, value, 0, &mut out)?;
    run.made(out)
}

impl Style {
    fn write(&self, run: &mut Interpreter, value: &Value, level: usize, out: &mut String) -> Result<()> {
        run.spend(1)?;
        match value {
            Value::None => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Int(number) => out.push_str(&number.to_string()),
            Value::Float(number) => out.push_str(&number_text(*number)),
            Value::Text(text) => self.text(run, &text.text, out)?,
            Value::List(items) | Value::Tuple(items) => {
                out.push('[');
                for (i, item) in items.items.iter().enumerate() {
                    self.begin(run, i, level + 1, out)?;
                    self.write(run, item, level + 1, out)?;
                }
                self.end(run, items.items.is_empty(), level, out)?;
                out.push(']');
            }
            Value::Dict(dict) => {
                let mut entries: Vec<(&Key, &Value)> = dict.map.iter().collect();
                if self.sorts {
                    let mut wrong = None;
                    entries.sort_by(|(a, _), (b, _)| {
                        let order = super::operators::order(&a.value(), &b.value());
                        order
                            .unwrap_or_else(|error| {
                                wrong = Some(error);
                                None
                            })
                            .unwrap_or(std::cmp::Ordering::Equal)
                    });
                    if let Some(error) = wrong {
                        return Err(error);
                    }
                }
                out.push('{');
                for (i, (key, value)) in entries.into_iter().enumerate() {
                    self.begin(run, i, level + 1, out)?;
                    let key = match key {
                        Key::Text(text) => text.to_string(),
                        Key::None => "null".to_owned(),
                        Key::Bool(value) => value.to_string(),
                        Key::Int(number) => number.to_string(),
                        Key::Float(bits) => number_text(f64::from_bits(*bits)),
                        Key::Tuple(_) => return Err(Error::Failed("a tuple is no key of JSON".to_owned())),
                    };
                    self.text(run, &key, out)?;
                    out.push_str(&self.key);
                    self.write(run, value, level + 1, out)?;
                }
                self.end(run, dict.map.is_empty(), level, out)?;
                out.push('}');
            }
            other => return Err(Error::Failed(format!("{} is no JSON", other.kind()))),
        }
        Ok(())
    }

    /// What comes before the item of this number.
    fn begin(&self, run: &mut Interpreter, number: usize, level: usize, out: &mut String) -> Result<()> {
        if number > 0 {
            out.push_str(&self.item);
        }
        self.line(run, level, out)
    }

    /// What comes before the closing bracket.
    fn end(&self, run: &mut Interpreter, is_empty: bool, level: usize, out: &mut String) -> Result<()> {
        if is_empty { Ok(()) } else { self.line(run, level, out) }
    }

    fn line(&self, run: &mut Interpreter, level: usize, out: &mut String) -> Result<()> {
        if let Some(indent) = &self.indent {
            run.room(out.len().saturating_add(indent.len().saturating_mul(level)))?;
            out.push('\n');
            out.push_str(&indent.repeat(level));
        } else {
            run.spend(1)?;
        }
        Ok(())
    }

    fn text(&self, run: &mut Interpreter, text: &str, out: &mut String) -> Result<()> {
        run.spend(text.len() / 8)?;
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", character as u32)),
                _ if self.is_ascii && character > '\x7e' => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => out.push(character),
            }
        }
        out.push('"');
        Ok(())
    }
}

/// A number as `json.dumps` writes it.
fn number_text(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => write::float(number),
    }
}
