//! Filters: what may follow `|`.

mod items;

use super::callable::Given;
use super::error::{Error, Result, fail};
use super::interpreter::Interpreter;
use super::methods::{capitalized, is_space};
use super::value::Value;
use super::{attributes, format, json, write};

/// All filters.
pub(super) const NAMES: [&str; 47] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
];

fn list(items: Vec<Value>) -> Result<Value> {
    Value::list(items).map_err(Error::Failed)
}

impl Interpreter {
    pub(super) fn filter(&mut self, name: &str, value: Value, mut given: Given) -> Result<Value> {
        match name {
            "tojson" => json::dumps(self, &value, given),
            "default" | "d" => {
                let is_wide = given.take(1, "boolean").is_some_and(|value| value.is_true());
                let is_missing = matches!(value, Value::Undefined) || (is_wide && !value.is_true());
                Ok(if is_missing { given.take(0, "default_value").unwrap_or(Value::text("")) } else { value })
            }
            "attr" => match given.positional.first().and_then(Value::as_text) {
                // Items do not count.
                Some(_) if matches!(value, Value::Dict(_)) => Ok(Value::Undefined),
                Some(name) => attributes::attribute(&value, name),
                None => fail("`attr` needs a name"),
            },
            "abs" => match (&value, value.as_int()) {
                (_, Some(number)) => Ok(Value::Int(number.abs())),
                (Value::Float(number), _) => Ok(Value::Float(number.abs())),
                _ => fail(format!("{} has no size", value.kind())),
            },
            "int" => self.integer(&value, given),
            "float" => {
                let default = given.take(0, "default").unwrap_or(Value::Float(0.0));
                Ok(match &value {
                    Value::Text(text) => parsed_float(&text.text).map_or(default, Value::Float),
                    Value::Undefined => return fail("an undefined value is no number"),
                    other => other.as_float().map_or(default, Value::Float),
                })
            }
            "round" => self.rounded(&value, given),
            _ => self.text_filter(name, value, given),
        }
    }

    /// Filters that give a text, or read one.
    fn text_filter(&mut self, name: &str, value: Value, mut given: Given) -> Result<Value> {
        match name {
            "trim" => {
                let text = self.text_of(&value)?;
                let characters = given.take(0, "chars").filter(|value| !matches!(value, Value::None));
                let characters = characters.map(|value| self.text_of(&value)).transpose()?;
                let strips =
                    |c: char| characters.as_ref().map_or(is_space(c), |characters| characters.contains(c));
                self.made(text.trim_matches(strips).to_owned())
            }
            "upper" => {
                let text = self.text_of(&value)?.to_uppercase();
                self.made(text)
            }
            "lower" => {
                let text = self.text_of(&value)?.to_lowercase();
                self.made(text)
            }
            "capitalize" => {
                let text = capitalized(&self.text_of(&value)?);
                self.made(text)
            }
            "title" => {
                let text = self.text_of(&value)?;
                self.made(titled(&text))
            }
            "string" => match value {
                Value::Text(_) => Ok(value),
                other => {
                    let text = self.text_of(&other)?;
                    self.made(text)
                }
            },
            "replace" => {
                let text = self.text_of(&value)?;
                let (Some(old), Some(new)) = (given.take(0, "old"), given.take(1, "new")) else {
                    return fail("`replace` needs two texts");
                };
                let (old, new) = (self.text_of(&old)?, self.text_of(&new)?);
                let most = given.take(2, "count").and_then(|count| count.as_int()).unwrap_or(-1);
                self.replaced(&text, &old, &new, usize::try_from(most).unwrap_or(usize::MAX))
            }
            "format" => self.formatted(&value, given),
            "center" => {
                let width = given.take(0, "width").unwrap_or(Value::Int(80));
                let text = self.text_of(&value)?;
                self.method(
                    &Value::text(text),
                    "center",
                    Given { positional: vec![width], ..Given::default() },
                )
            }
            "indent" => self.indented(&value, given),
            "wordcount" => {
                let text = self.text_of(&value)?;
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                Ok(Value::Int(
                    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).count() as i128
                ))
            }
            "striptags" => {
                let text = self.text_of(&value)?;
                let parts = text.split('<').enumerate().map(|(i, part)| match (i, part.split_once('>')) {
                    (0, _) => part,
                    (_, Some((_, after))) => after,
                    (_, None) => part,
                });
                let text: String = parts.collect();
                self.made(text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            "urlencode" => {
                let Value::Text(text) = &value else {
                    return fail(format!("{} cannot be encoded", value.kind()));
                };
                let text = text.text.clone();
                self.room(text.len() * 3)?;
                let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-~/".contains(&byte);
                let encoded = text.bytes().map(|byte| {
                    if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
                });
                self.made(encoded.collect())
            }
            "escape" | "e" => write::escape(self, &value),
            "forceescape" => {
                let text = self.text_of(&value)?;
                write::escape(self, &Value::text(text))
            }
            "safe" => {
                let text = self.text_of(&value)?;
                Ok(Value::markup(text))
            }
            _ => self.item_filter(name, value, given),
        }
    }

    fn formatted(&mut self, value: &Value, given: Given) -> Result<Value> {
        let text = self.text_of(value)?;
        let arguments = match given.named.is_empty() {
            true => Value::tuple(given.positional).map_err(Error::Failed)?,
            false => {
                let entries = given
                    .named
                    .into_iter()
                    .map(|(name, value)| (super::value::Key::Text(name.into()), value));
                Value::dict(entries.collect()).map_err(Error::Failed)?
            }
        };
        let text = format::printf(self, &text, &arguments, false)?;
        self.made(text)
    }

    fn text_of(&mut self, value: &Value) -> Result<String> {
        write::string(self, value)
    }

    fn indented(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let indent = match given.take(0, "width") {
            Some(Value::Text(text)) => text.text.to_string(),
            width => {
                let width = width.map_or(Some(4), |width| width.as_int());
                let Some(width) = width else { return fail("`indent` needs a number or a text") };
                let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
                self.room(width)?;
                " ".repeat(width)
            }
        };
        let is_first = given.take(1, "first").is_some_and(|value| value.is_true());
        let is_blank = given.take(2, "blank").is_some_and(|value| value.is_true());
        let Value::Text(text) = value else { return fail(format!("{} cannot be indented", value.kind())) };
        let text = text.text.to_string() + "\n";
        let count = text.matches('\n').count();
        self.room(text.len().saturating_add(count.saturating_mul(indent.len())))?;
        let lines = text.lines().enumerate().map(|(i, line)| {
            let is_indented = if i == 0 { is_first } else { is_blank || !line.is_empty() };
            if is_indented { indent.clone() + line } else { line.to_owned() }
        });
        self.made(lines.collect::<Vec<_>>().join("\n"))
    }

    fn integer(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let default = given.take(0, "default").unwrap_or(Value::Int(0));
        let base = given.take(1, "base").and_then(|base| base.as_int()).unwrap_or(10);
        let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base)).unwrap_or(10);
        let of_float = |number: f64| number.is_finite().then(|| Value::Int(number.trunc() as i128));
        Ok(match value {
            Value::Text(text) => {
                let digits = text.text.trim().replace('_', "");
                let prefix = match base {
                    16 => digits.strip_prefix("0x"),
                    8 => digits.strip_prefix("0o"),
                    2 => digits.strip_prefix("0b"),
                    _ => None,
                };
                match i128::from_str_radix(prefix.unwrap_or(&digits), base) {
                    Ok(number) => Value::Int(number),
                    Err(_) => parsed_float(&text.text).and_then(of_float).unwrap_or(default),
                }
            }
            Value::Float(number) => of_float(*number).unwrap_or(default),
            Value::Undefined => return fail("an undefined value is no number"),
            other => other.as_int().map_or(default, Value::Int),
        })
    }

    fn rounded(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let Some(number) = value.as_float() else {
            return fail(format!("{} cannot be rounded", value.kind()));
        };
        let precision = given.take(0, "precision").and_then(|value| value.as_int()).unwrap_or(0);
        let Ok(precision) = i32::try_from(precision) else { return fail("a precision is too large") };
        let method = given.take(1, "method").unwrap_or(Value::text("common"));
        let method = self.text_of(&method)?;
        let factor = 10f64.powi(precision);
        match method.as_str() {
            "common" => match (value.as_int(), usize::try_from(precision)) {
                (Some(number), Ok(_)) => Ok(Value::Int(number)),
                // Rust rounds the exact value of decimal digits to even, as Python does.
                (_, Ok(digits)) => {
                    let text = format!("{number:.*}", digits.min(400));
                    Ok(Value::Float(text.parse().unwrap_or(number)))
                }
                _ => Ok(Value::Float((number * factor).round_ties_even() / factor)),
            },
            // Python's `ceil` is an integer, which has no negative zero.
            "ceil" => Ok(Value::Float(((number * factor).ceil() + 0.0) / factor)),
            "floor" => Ok(Value::Float((number * factor).floor() / factor)),
            _ => fail("`round` knows common, ceil and floor"),
        }
    }
}

fn parsed_float(text: &str) -> Option<f64> {
    text.trim().replace('_', "").parse().ok()
}

/// jinja2's own `title`, whose words begin after white space, `-` and brackets.
fn titled(text: &str) -> String {
    let mut is_inside = false;
    let mut out = String::new();
    for character in text.chars() {
        let is_border = is_space(character) || "-({[<".contains(character);
        if is_inside && !is_border {
            out.extend(character.to_lowercase())
        } else {
            out.extend(character.to_uppercase())
        }
        is_inside = !is_border;
    }
    out
}
