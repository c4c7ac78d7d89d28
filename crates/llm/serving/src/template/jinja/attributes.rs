//! Attributes and items, as Python has them.

use std::rc::Rc;

use super::callable::Callable;
use super::error::{Result, fail};
use super::value::Value;

const OF_TEXTS: [&str; 43] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
];
const OF_LISTS: [&str; 11] =
    ["append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"];
const OF_DICTS: [&str; 9] =
    ["clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update"];

/// Whether a value has a method of this name.
fn has(value: &Value, name: &str) -> bool {
    match value {
        Value::Text(_) => OF_TEXTS.contains(&name) || name == "zfill",
        Value::List(_) => OF_LISTS.contains(&name),
        Value::Tuple(_) => ["count", "index"].contains(&name),
        Value::Dict(_) => OF_DICTS.contains(&name) || name == "values",
        Value::Loop(_) => ["cycle", "changed"].contains(&name),
        Value::Float(_) => name == "is_integer",
        Value::Callable(callable) => {
            matches!(**callable, Callable::Cycler(..)) && ["next", "reset"].contains(&name)
        }
        _ => false,
    }
}

/// `value.name`: a method, or else an item.
pub(super) fn attribute(value: &Value, name: &str) -> Result<Value> {
    if matches!(value, Value::Undefined) {
        return fail(format!("`.{name}` is asked of a value that is undefined"));
    }
    if let Some(found) = own_attribute(value, name)? {
        return Ok(found);
    }
    Ok(match value {
        Value::Dict(dict) => dict.get(name).cloned().unwrap_or(Value::Undefined),
        _ => Value::Undefined,
    })
}

/// A method or a field.
fn own_attribute(value: &Value, name: &str) -> Result<Option<Value>> {
    if has(value, name) {
        return Ok(Some(Value::Callable(Rc::new(Callable::Method(value.clone(), name.to_owned())))));
    }
    Ok(match value {
        Value::Namespace(namespace) => {
            Some(namespace.map.borrow().get(name).cloned().unwrap_or(Value::Undefined))
        }
        Value::Loop(of_loop) => of_loop.attribute(name),
        Value::Callable(callable) => match (&**callable, name) {
            (Callable::Macro(definition, _), "name") => Some(Value::text(definition.name.as_str())),
            (Callable::Cycler(items, at), "current") => items.get(at.get()).cloned(),
            _ => None,
        },
        _ => None,
    })
}

/// `value[key]`: an item, or else an attribute.
pub(super) fn item(value: &Value, key: &Value) -> Result<Value> {
    let found = match value {
        Value::Undefined => return fail("an item is asked of a value that is undefined"),
        Value::Dict(dict) => key.key().ok().and_then(|key| dict.map.get(&key).cloned()),
        Value::List(items) | Value::Tuple(items) => {
            key.as_int().and_then(|index| Some(items.items[position(index, items.items.len())?].clone()))
        }
        Value::Text(text) => key.as_int().and_then(|index| {
            let position = if text.text.is_ascii() {
                position(index, text.text.len())
            } else {
                position(index, text.text.chars().count())
            };
            text.text.chars().nth(position?).map(|character| Value::text(character.to_string()))
        }),
        _ => None,
    };
    match (found, key.as_text()) {
        (Some(found), _) => Ok(found),
        (None, Some(name)) => Ok(own_attribute(value, name)?.unwrap_or(Value::Undefined)),
        (None, None) => Ok(Value::Undefined),
    }
}

/// The place of an index that may count from the end.
fn position(index: i128, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i128 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// The value at a path such as `function.name` or `0`, which filters take as `attribute`.
pub(super) fn at_path(value: &Value, path: &Value) -> Result<Value> {
    let Some(text) = path.as_text() else { return item(value, path) };
    let mut value = value.clone();
    for part in text.split('.') {
        let key = part.parse().map_or_else(|_| Value::text(part), Value::Int);
        value = item(&value, &key)?;
    }
    Ok(value)
}
