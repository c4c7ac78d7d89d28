//! Functions that every template has.

use std::cell::Cell;
use std::rc::Rc;

use indexmap::IndexMap;

use super::callable::{Callable, Given};
use super::error::{Error, Result, fail};
use super::interpreter::Interpreter;
use super::value::{Key, Value};
use super::write;

const GLOBALS: [&str; 7] =
    ["range", "dict", "namespace", "cycler", "joiner", "raise_exception", "strftime_now"];

/// The most numbers of a `range` in jinja2's sandbox.
const LONGEST_RANGE: i128 = 100_000;

/// The function of this name, or nothing.
pub(super) fn global(name: &str) -> Value {
    match GLOBALS.into_iter().find(|global| *global == name) {
        Some(name) => Value::Callable(Rc::new(Callable::Global(name))),
        None => Value::Undefined,
    }
}

impl Interpreter {
    pub(super) fn function(&mut self, name: &str, mut given: Given) -> Result<Value> {
        match name {
            "range" => self.range(&given.positional),
            "namespace" => {
                let mut map = IndexMap::new();
                for (key, value) in self.entries(given)? {
                    let Key::Text(name) = key else { return fail("an attribute of a namespace is a text") };
                    map.insert(name.as_ref().to_owned(), value);
                }
                Value::namespace(map).map_err(Error::Failed)
            }
            "dict" => Value::dict(self.entries(given)?).map_err(Error::Failed),
            "cycler" if !given.positional.is_empty() => {
                Ok(Value::Callable(Rc::new(Callable::Cycler(given.positional, Cell::new(0)))))
            }
            "joiner" => {
                let text = given.take(0, "sep").unwrap_or(Value::text(", "));
                Ok(Value::Callable(Rc::new(Callable::Joiner(text, Cell::new(false)))))
            }
            "raise_exception" => {
                let message = given.take(0, "message");
                let Some(message) = message else { return fail("`raise_exception` needs a message") };
                Err(Error::Raised(write::string(self, &message)?))
            }
            "strftime_now" => {
                let format = given.take(0, "format");
                let Some(format) = format.as_ref().and_then(Value::as_text) else {
                    return fail("`strftime_now` needs a format");
                };
                let mut text = String::new();
                let now = chrono::Utc::now();
                match std::fmt::Write::write_fmt(&mut text, format_args!("{}", now.format(format))) {
                    Ok(()) => self.made(text),
                    Err(_) => fail(format!("there is no time format `{format}`")),
                }
            }
            _ => fail(format!("`{name}` cannot be called so")),
        }
    }

    /// What `dict(..)` takes: a dictionary or pairs, and names.
    fn entries(&mut self, given: Given) -> Result<IndexMap<Key, Value>> {
        let mut map = IndexMap::new();
        match given.positional.first() {
            None => {}
            Some(Value::Dict(dict)) => map.extend(dict.map.clone()),
            Some(pairs) => {
                for pair in self.items(pairs)? {
                    let pair = self.items(&pair)?;
                    let [key, value] = &pair[..] else { return fail("a dictionary is made of pairs") };
                    map.insert(key.key().map_err(Error::Failed)?, value.clone());
                }
            }
        }
        map.extend(given.named.into_iter().map(|(name, value)| (Key::Text(name.into()), value)));
        self.spend(map.len())?;
        Ok(map)
    }

    fn range(&mut self, given: &[Value]) -> Result<Value> {
        let numbers: Option<Vec<i128>> = given.iter().map(Value::as_int).collect();
        let (start, end, step) = match numbers.as_deref() {
            Some([end]) => (0, *end, 1),
            Some([start, end]) => (*start, *end, 1),
            Some([start, end, step]) if *step != 0 => (*start, *end, *step),
            _ => return fail("`range` needs one to three integers"),
        };
        let distance = if step > 0 { end.saturating_sub(start) } else { start.saturating_sub(end) };
        let length = distance.max(0).saturating_add(step.saturating_abs() - 1) / step.saturating_abs();
        if length > LONGEST_RANGE {
            return fail(format!("a range has more than {LONGEST_RANGE} numbers"));
        }
        self.spend(length as usize)?;
        Value::list((0..length).map(|index| Value::Int(start + index * step)).collect())
            .map_err(Error::Failed)
    }
}
