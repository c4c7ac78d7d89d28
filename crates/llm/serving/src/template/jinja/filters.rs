//! Filters: what may follow `|`.

use std::cmp::Ordering;

use indexmap::IndexMap;

use super::interpreter::{Given, Interpreter};
use super::methods::{at_path, capitalized, is_space};
use super::syntax::Binary;
use super::value::Value;
use super::{Error, Result, format, json, operators, write};

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

fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Failed(message.into()))
}

fn list(items: Vec<Value>) -> Result<Value> {
    Value::list(items).map_err(Error::Failed)
}

impl Interpreter {
    pub(super) fn filter(&mut self, name: &str, value: Value, mut given: Given) -> Result<Value> {
        match name {
            "tojson" => json::dumps(self, &value, given),
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
            "format" => {
                let text = self.text_of(&value)?;
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
            "escape" | "e" => operators::escape(self, &value),
            "forceescape" => {
                let text = self.text_of(&value)?;
                operators::escape(self, &Value::text(text))
            }
            "safe" => {
                let text = self.text_of(&value)?;
                Ok(Value::markup(text))
            }
            "default" | "d" => {
                let is_wide = given.take(1, "boolean").is_some_and(|value| value.is_true());
                let is_missing = matches!(value, Value::Undefined) || (is_wide && !value.is_true());
                Ok(if is_missing { given.take(0, "default_value").unwrap_or(Value::text("")) } else { value })
            }
            "attr" => match given.positional.first().and_then(Value::as_text) {
                // Items do not count.
                Some(_) if matches!(value, Value::Dict(_)) => Ok(Value::Undefined),
                Some(name) => operators::attribute(&value, name),
                None => fail("`attr` needs a name"),
            },
            "length" | "count" => match &value {
                Value::Text(text) => Ok(Value::Int(text.text.chars().count() as i128)),
                Value::List(items) | Value::Tuple(items) | Value::View(_, items) => {
                    Ok(Value::Int(items.items.len() as i128))
                }
                Value::Dict(dict) => Ok(Value::Int(dict.map.len() as i128)),
                Value::Undefined => Ok(Value::Int(0)),
                other => fail(format!("{} has no length", other.kind())),
            },
            "list" => list(self.items(&value)?),
            "first" => match &value {
                Value::Generator(items) => Ok(items.borrow_mut().pop_front().unwrap_or(Value::Undefined)),
                _ => Ok(self.items(&value)?.into_iter().next().unwrap_or(Value::Undefined)),
            },
            "last" => match &value {
                Value::Generator(_) => fail("a generator has no end to begin at"),
                _ => Ok(self.items(&value)?.into_iter().next_back().unwrap_or(Value::Undefined)),
            },
            "reverse" => match &value {
                Value::Text(text) => {
                    let text = text.text.chars().rev().collect();
                    self.made(text)
                }
                Value::Generator(_) => list(self.items(&value)?.into_iter().rev().collect()),
                _ => Ok(Value::generator(self.items(&value)?.into_iter().rev())),
            },
            "join" => {
                let separator = given.take(0, "d").unwrap_or(Value::text(""));
                let separator = self.text_of(&separator)?;
                let items = self.items(&value)?;
                let items = match given.take(1, "attribute").filter(|path| !matches!(path, Value::None)) {
                    Some(path) => items.iter().map(|item| at_path(item, &path)).collect::<Result<_>>()?,
                    None => items,
                };
                self.joined(&items, &separator, true)
            }
            "items" => match &value {
                Value::Undefined => Ok(Value::generator([])),
                Value::Dict(_) => {
                    let view = self.method(&value, "items", Given::default())?;
                    Ok(Value::generator(self.items(&view)?))
                }
                other => fail(format!("{} has no items", other.kind())),
            },
            "dictsort" => self.dictionary_sorted(&value, given),
            "sort" => {
                let keys = Keys::new(&mut given, (1, 2));
                let is_reversed = given.take(0, "reverse").is_some_and(|value| value.is_true());
                let items = self.items(&value)?;
                list(self.sorted(items, &keys, is_reversed)?)
            }
            "unique" => {
                let keys = Keys::new(&mut given, (0, 1));
                let mut seen = IndexMap::new();
                for item in self.items(&value)? {
                    let key = keys.of(self, &item)?.key().map_err(Error::Failed)?;
                    seen.entry(key).or_insert(item);
                }
                Ok(Value::generator(seen.into_values()))
            }
            "min" | "max" => {
                let keys = Keys::new(&mut given, (0, 1));
                let mut best: Option<(Value, Value)> = None;
                for item in self.items(&value)? {
                    let key = keys.of(self, &item)?;
                    let wanted = if name == "min" { Ordering::Less } else { Ordering::Greater };
                    let is_better = match &best {
                        Some((best, _)) => operators::order(&key, best)? == Some(wanted),
                        None => true,
                    };
                    if is_better {
                        best = Some((key, item));
                    }
                }
                Ok(best.map_or(Value::Undefined, |(_, item)| item))
            }
            "sum" => {
                let path = given.take(0, "attribute").filter(|path| !matches!(path, Value::None));
                let mut sum = given.take(1, "start").unwrap_or(Value::Int(0));
                for item in self.items(&value)? {
                    let item = path.as_ref().map_or(Ok(item.clone()), |path| at_path(&item, path))?;
                    sum = operators::binary(self, Binary::Add, &sum, &item)?;
                }
                Ok(sum)
            }
            "groupby" => {
                let Some(path) = given.take(0, "attribute") else {
                    return fail("`groupby` needs an attribute");
                };
                let default = given.take(1, "default").filter(|value| !matches!(value, Value::None));
                let keys = Keys { path: Some(path), folds_case: true, default, is_row: false };
                let items = self.items(&value)?;
                let sorted = self.sorted(items, &keys, false)?;
                let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
                for item in sorted {
                    let key = keys.of(self, &item)?;
                    match groups.last_mut() {
                        Some((last, _, group)) if last.equals(&key) => group.push(item),
                        _ => {
                            let plain = Keys { folds_case: false, ..keys.clone() }.of(self, &item)?;
                            groups.push((key, plain, vec![item]));
                        }
                    }
                }
                let pairs = groups
                    .into_iter()
                    .map(|(_, key, group)| Value::tuple(vec![key, list(group)?]).map_err(Error::Failed));
                list(pairs.collect::<Result<_>>()?)
            }
            "batch" | "slice" => self.parts(name, &value, given),
            "map" => self.mapped(&value, given),
            "select" | "reject" => {
                let mut kept = Vec::new();
                for item in self.items_if_true(&value)? {
                    if self.passes(&item, &given.positional)? == (name == "select") {
                        kept.push(item);
                    }
                }
                Ok(Value::generator(kept))
            }
            "selectattr" | "rejectattr" => {
                let Some((path, test)) = given.positional.split_first() else {
                    return fail(format!("`{name}` needs a name"));
                };
                let mut kept = Vec::new();
                for item in self.items_if_true(&value)? {
                    let found = at_path(&item, path)?;
                    if self.passes(&found, test)? == (name == "selectattr") {
                        kept.push(item);
                    }
                }
                Ok(Value::generator(kept))
            }
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
            _ => fail(format!("there is no filter `{name}`")),
        }
    }

    fn text_of(&mut self, value: &Value) -> Result<String> {
        write::string(self, value)
    }

    fn passes(&mut self, value: &Value, test: &[Value]) -> Result<bool> {
        let Some((name, arguments)) = test.split_first() else { return Ok(value.is_true()) };
        let Some(name) = name.as_text() else { return fail("a test has a name") };
        self.spend(1)?;
        self.test(name, value, Given { positional: arguments.to_vec(), named: Vec::new() })
    }

    /// The items of a value, none of one that is not true: so `map` and `select` read them.
    fn items_if_true(&mut self, value: &Value) -> Result<Vec<Value>> {
        if value.is_true() { self.items(value) } else { Ok(Vec::new()) }
    }

    fn mapped(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let items = self.items_if_true(value)?;
        let named = |given: &Given, name: &str| {
            given.named.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
        };
        let mut mapped = Vec::new();
        if given.positional.is_empty()
            && let Some(path) = named(&given, "attribute")
        {
            let default = named(&given, "default");
            for item in items {
                let found = at_path(&item, &path)?;
                mapped.push(match (found, &default) {
                    (Value::Undefined, Some(default)) => default.clone(),
                    (found, _) => found,
                });
            }
            return Ok(Value::generator(mapped));
        }
        if given.positional.is_empty() {
            return fail("`map` needs a filter or an attribute");
        }
        let filter = given.positional.remove(0);
        let Some(filter) = filter.as_text() else { return fail("a filter has a name") };
        for item in items {
            self.spend(1)?;
            let given = Given { positional: given.positional.clone(), named: given.named.clone() };
            mapped.push(self.filter(filter, item, given)?);
        }
        Ok(Value::generator(mapped))
    }

    fn sorted(&mut self, items: Vec<Value>, keys: &Keys, is_reversed: bool) -> Result<Vec<Value>> {
        let keyed = items.into_iter().map(|item| {
            let key = keys.of(self, &item)?;
            Ok((if keys.is_row { list(vec![key])? } else { key }, item))
        });
        let mut keyed = keyed.collect::<Result<Vec<_>>>()?;
        self.spend(keyed.len() * 8)?;
        let mut wrong = None;
        let mut order = |a: &Value, b: &Value| match operators::order(a, b) {
            Ok(order) => order.unwrap_or(Ordering::Equal),
            Err(error) => {
                wrong = Some(error);
                Ordering::Equal
            }
        };
        if is_reversed {
            keyed.sort_by(|(a, _), (b, _)| order(b, a));
        } else {
            keyed.sort_by(|(a, _), (b, _)| order(a, b));
        }
        match wrong {
            Some(error) => Err(error),
            None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
        }
    }

    fn dictionary_sorted(&mut self, value: &Value, mut given: Given) -> Result<Value> {
        let Value::Dict(_) = value else { return fail(format!("{} is no dictionary", value.kind())) };
        let is_exact = given.take(0, "case_sensitive").is_some_and(|value| value.is_true());
        let by =
            match given.take(1, "by").as_ref().and_then(Value::as_text).map(|by| by.to_string()).as_deref() {
                None | Some("key") => 0,
                Some("value") => 1,
                Some(_) => return fail("`dictsort` sorts by `key` or `value`"),
            };
        let is_reversed = given.take(2, "reverse").is_some_and(|value| value.is_true());
        let view = self.method(value, "items", Given::default())?;
        let keys = Keys { path: Some(Value::Int(by)), folds_case: !is_exact, default: None, is_row: false };
        let items = self.items(&view)?;
        list(self.sorted(items, &keys, is_reversed)?)
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

    fn parts(&mut self, name: &str, value: &Value, mut given: Given) -> Result<Value> {
        let number = given.take(0, if name == "batch" { "linecount" } else { "slices" });
        let number =
            number.and_then(|number| usize::try_from(number.as_int()?).ok()).filter(|number| *number > 0);
        let Some(number) = number else { return fail(format!("`{name}` needs a number")) };
        let fill = given.take(1, "fill_with").filter(|value| !matches!(value, Value::None));
        let items = self.items(value)?;
        let mut parts = Vec::new();
        if name == "batch" {
            for part in items.chunks(number) {
                let mut part = part.to_vec();
                if let Some(fill) = &fill {
                    self.spend(number)?;
                    part.resize(number, fill.clone());
                }
                parts.push(list(part)?);
            }
        } else {
            self.spend(number)?;
            let (each, longer) = (items.len() / number, items.len() % number);
            let mut rest = &items[..];
            for index in 0..number {
                let (part, after) = rest.split_at(each + usize::from(index < longer));
                rest = after;
                let mut part = part.to_vec();
                if index >= longer && longer > 0 {
                    part.extend(fill.clone());
                }
                parts.push(list(part)?);
            }
        }
        Ok(Value::generator(parts))
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

/// What values are sorted and compared by.
#[derive(Clone)]
struct Keys {
    path: Option<Value>,
    folds_case: bool,
    default: Option<Value>,
    /// Whether keys are compared as rows, in which equal ones need no order.
    is_row: bool,
}

impl Keys {
    /// From `case_sensitive` and `attribute` at these positions.
    fn new(given: &mut Given, (case, attribute): (usize, usize)) -> Keys {
        let is_exact = given.take(case, "case_sensitive").is_some_and(|value| value.is_true());
        let path = given.take(attribute, "attribute").filter(|path| !matches!(path, Value::None));
        Keys { path, folds_case: !is_exact, default: None, is_row: true }
    }

    fn of(&self, run: &mut Interpreter, item: &Value) -> Result<Value> {
        run.spend(1)?;
        // Several paths with commas make a row of keys.
        if let Some(paths) = self.path.as_ref().and_then(Value::as_text).filter(|paths| paths.contains(',')) {
            let keys = paths
                .split(',')
                .map(|path| Keys { path: Some(Value::text(path)), ..self.clone() }.of(run, item));
            return list(keys.collect::<Result<_>>()?);
        }
        let mut key = self.path.as_ref().map_or(Ok(item.clone()), |path| at_path(item, path))?;
        if let (Value::Undefined, Some(default)) = (&key, &self.default) {
            key = default.clone();
        }
        Ok(match &key {
            Value::Text(text) if self.folds_case => Value::text(text.text.to_lowercase()),
            _ => key,
        })
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
