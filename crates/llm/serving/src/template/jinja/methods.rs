//! Methods of texts, lists and dictionaries. Those that would change a value are refused, as in jinja2's immutable
//! sandbox.

use super::callable::{Callable, Given};
use super::error::{Error, Result, fail};
use super::interpreter::Interpreter;
use super::value::{Items, Value};
use super::{format, write};

/// The arguments of a method of a text.
struct Arguments<'a> {
    method: &'a str,
    given: &'a Given,
}

impl<'a> Arguments<'a> {
    /// The argument at a position or of a name, unless it is none.
    fn argument(&self, position: usize, name: &str) -> Option<&'a Value> {
        let named = self.given.named.iter().find(|(found, _)| found == name).map(|(_, value)| value);
        self.given.positional.get(position).or(named).filter(|value| !matches!(value, Value::None))
    }

    fn text(&self, position: usize) -> Result<&'a str> {
        match self.given.positional.get(position) {
            Some(Value::Text(text)) => Ok(&text.text),
            Some(other) => fail(format!("`{}` needs a text, not {}", self.method, other.kind())),
            None => fail(format!("`{}` lacks an argument", self.method)),
        }
    }

    fn integer(&self, position: usize, name: &str, default: i128) -> Result<i128> {
        match self.argument(position, name) {
            None => Ok(default),
            Some(value) => {
                value.as_int().map_or_else(|| fail(format!("`{}` needs an integer", self.method)), Ok)
            }
        }
    }
}

impl Interpreter {
    pub(super) fn method(&mut self, value: &Value, name: &str, given: Given) -> Result<Value> {
        match value {
            Value::Text(text) => {
                let result = self.text_method(&text.text, name, given)?;
                if text.is_safe { safe(result) } else { Ok(result) }
            }
            Value::List(items) | Value::Tuple(items) => self.list_method(value, &items.items, name, &given),
            Value::Dict(dict) => {
                let view = |kind, items| {
                    Items::shared(items).map(|items| Value::View(kind, items)).map_err(Error::Failed)
                };
                self.spend(dict.map.len())?;
                match name {
                    "get" => {
                        let Some(key) = given.positional.first() else { return fail("`get` needs a key") };
                        let found = dict.map.get(&key.key().map_err(Error::Failed)?).cloned();
                        Ok(found.unwrap_or(given.positional.get(1).cloned().unwrap_or(Value::None)))
                    }
                    "keys" => view("dict_keys", dict.map.keys().map(|key| key.value()).collect()),
                    "values" => view("dict_values", dict.map.values().cloned().collect()),
                    "items" => {
                        let pairs = dict
                            .map
                            .iter()
                            .map(|(key, value)| Value::tuple(vec![key.value(), value.clone()]));
                        view(
                            "dict_items",
                            pairs.collect::<std::result::Result<_, _>>().map_err(Error::Failed)?,
                        )
                    }
                    "copy" => Ok(value.clone()),
                    _ => fail(format!("`{name}` would change a dictionary")),
                }
            }
            Value::Loop(of_loop) if name == "changed" => Ok(Value::Bool(of_loop.changed(given.positional))),
            Value::Loop(of_loop) => match given.positional.len() {
                0 => fail("`loop.cycle` needs values"),
                length => Ok(given.positional[of_loop.index % length].clone()),
            },
            Value::Float(number) => Ok(Value::Bool(number.fract() == 0.0)),
            Value::Callable(callable) => match &**callable {
                Callable::Cycler(items, at) => {
                    let item = items[at.get()].clone();
                    at.set(if name == "next" { (at.get() + 1) % items.len() } else { 0 });
                    Ok(if name == "next" { item } else { Value::None })
                }
                _ => fail(format!("a function has no method `{name}`")),
            },
            other => fail(format!("{} has no method `{name}`", other.kind())),
        }
    }

    fn list_method(&mut self, value: &Value, items: &[Value], name: &str, given: &Given) -> Result<Value> {
        self.spend(items.len())?;
        let wanted = given.positional.first();
        match (name, wanted) {
            ("copy", _) => Ok(value.clone()),
            ("count", Some(wanted)) => {
                Ok(Value::Int(items.iter().filter(|item| item.equals(wanted)).count() as i128))
            }
            ("index", Some(wanted)) => match items.iter().position(|item| item.equals(wanted)) {
                Some(index) => Ok(Value::Int(index as i128)),
                None => fail("the value is not in the list"),
            },
            _ => fail(format!("`{name}` would change a list, or lacks an argument")),
        }
    }

    fn text_method(&mut self, text: &str, name: &str, given: Given) -> Result<Value> {
        self.spend(text.len() / 16)?;
        self.cased(text, &Arguments { method: name, given: &given })
    }

    /// Methods that change the case of letters, and tests.
    fn cased(&mut self, text: &str, arguments: &Arguments) -> Result<Value> {
        let truth = |holds: bool| Ok(Value::Bool(holds));
        let all = |test: fn(char) -> bool| truth(!text.is_empty() && text.chars().all(test));
        match arguments.method {
            "upper" => self.made(text.to_uppercase()),
            "lower" => self.made(text.to_lowercase()),
            "casefold" => self.made(text.to_lowercase().replace('ß', "ss")),
            "capitalize" => self.made(capitalized(text)),
            "title" => self.made(titled(text)),
            "swapcase" => {
                let swapped = text.chars().map(|c| {
                    if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() }
                });
                self.made(swapped.collect())
            }
            "isdigit" | "isdecimal" | "isnumeric" => {
                all(|c| c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric()))
            }
            "isalpha" => all(char::is_alphabetic),
            "isalnum" => all(char::is_alphanumeric),
            "isspace" => all(is_space),
            "isascii" => truth(text.is_ascii()),
            "isprintable" => truth(text.chars().all(|c| !c.is_control())),
            "isupper" => truth(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)),
            "islower" => truth(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)),
            "istitle" => truth(text.chars().any(char::is_alphabetic) && titled(text) == text),
            "isidentifier" => {
                let begins = text.starts_with(|c: char| c == '_' || c.is_alphabetic());
                truth(begins && text.chars().all(|c| c == '_' || c.is_alphanumeric()))
            }
            _ => self.divided(text, arguments),
        }
    }

    /// Methods that take a text apart.
    fn divided(&mut self, text: &str, arguments: &Arguments) -> Result<Value> {
        let name = arguments.method;
        match arguments.method {
            "strip" | "lstrip" | "rstrip" => {
                let characters = match arguments.argument(0, "chars") {
                    None => None,
                    Some(_) => Some(arguments.text(0)?),
                };
                let strips = |c: char| characters.map_or(is_space(c), |characters| characters.contains(c));
                let mut kept = text;
                if name != "rstrip" {
                    kept = kept.trim_start_matches(strips);
                }
                if name != "lstrip" {
                    kept = kept.trim_end_matches(strips);
                }
                self.made(kept.to_owned())
            }
            "split" | "rsplit" => {
                let most = usize::try_from(arguments.integer(1, "maxsplit", -1)?).unwrap_or(usize::MAX);
                let parts = match arguments.argument(0, "sep") {
                    None => split_spaces(text, most, name == "rsplit"),
                    Some(Value::Text(separator)) if separator.text.is_empty() => {
                        return fail("a separator is empty");
                    }
                    Some(Value::Text(separator)) if name == "split" => text
                        .splitn(most.saturating_add(1), separator.text.as_ref())
                        .map(str::to_owned)
                        .collect(),
                    Some(Value::Text(separator)) => {
                        let parts = text.rsplitn(most.saturating_add(1), separator.text.as_ref());
                        let mut parts: Vec<String> = parts.map(str::to_owned).collect();
                        parts.reverse();
                        parts
                    }
                    Some(other) => return fail(format!("a separator is a text, not {}", other.kind())),
                };
                self.texts(parts)
            }
            "splitlines" => {
                let keeps = arguments.argument(0, "keepends").is_some_and(Value::is_true);
                self.texts(lines(text, keeps))
            }
            "partition" | "rpartition" => {
                let separator = arguments.text(0)?;
                if separator.is_empty() {
                    return fail("a separator is empty");
                }
                let found = if name == "partition" {
                    text.split_once(separator)
                } else {
                    text.rsplit_once(separator)
                };
                let parts = match (found, name) {
                    (Some((before, after)), _) => [before, separator, after],
                    (None, "partition") => [text, "", ""],
                    (None, _) => ["", "", text],
                };
                Value::tuple(parts.into_iter().map(Value::text).collect()).map_err(Error::Failed)
            }
            "removeprefix" => self.made(text.strip_prefix(arguments.text(0)?).unwrap_or(text).to_owned()),
            "removesuffix" => self.made(text.strip_suffix(arguments.text(0)?).unwrap_or(text).to_owned()),
            _ => self.searched(text, arguments),
        }
    }

    /// Methods that look for a part.
    fn searched(&mut self, text: &str, arguments: &Arguments) -> Result<Value> {
        let name = arguments.method;
        let truth = |holds: bool| Ok(Value::Bool(holds));
        match arguments.method {
            "startswith" | "endswith" => {
                let part = part(
                    text,
                    arguments.integer(1, "start", 0)?,
                    arguments.argument(2, "end").and_then(Value::as_int),
                );
                let Some(part) = part else { return truth(false) };
                let fits = |affix: &Value| match affix {
                    Value::Text(affix) if name == "startswith" => Ok(part.starts_with(affix.text.as_ref())),
                    Value::Text(affix) => Ok(part.ends_with(affix.text.as_ref())),
                    other => fail(format!("`{name}` needs a text, not {}", other.kind())),
                };
                match arguments.given.positional.first() {
                    Some(Value::Tuple(affixes)) => {
                        for affix in &affixes.items {
                            if fits(affix)? {
                                return truth(true);
                            }
                        }
                        truth(false)
                    }
                    Some(affix) => truth(fits(affix)?),
                    None => fail(format!("`{name}` lacks an argument")),
                }
            }
            "find" | "rfind" | "index" | "rindex" | "count" => {
                let wanted = arguments.text(0)?;
                let start = arguments.integer(1, "start", 0)?;
                let within = part(text, start, arguments.argument(2, "end").and_then(Value::as_int));
                if name == "count" {
                    let count = match (within, wanted.is_empty()) {
                        (None, _) => 0,
                        (Some(within), true) => within.chars().count() + 1,
                        (Some(within), false) => within.matches(wanted).count(),
                    };
                    return Ok(Value::Int(count as i128));
                }
                let is_last = name.starts_with('r');
                let found = within.and_then(|within| {
                    let at = if is_last { within.rfind(wanted) } else { within.find(wanted) }?;
                    let before = within.as_ptr() as usize - text.as_ptr() as usize + at;
                    Some(text[..before].chars().count() as i128)
                });
                match found {
                    Some(index) => Ok(Value::Int(index)),
                    None if name.ends_with("find") => Ok(Value::Int(-1)),
                    None => fail("the text is not in the other"),
                }
            }
            _ => self.filled(text, arguments),
        }
    }

    /// Methods that add to a text.
    fn filled(&mut self, text: &str, arguments: &Arguments) -> Result<Value> {
        match arguments.method {
            "join" => {
                let Some(items) = arguments.given.positional.first() else {
                    return fail("`join` needs a list");
                };
                let items = self.items(items)?;
                self.joined(&items, text, false)
            }
            "replace" => {
                let (old, new) = (arguments.text(0)?, arguments.text(1)?);
                let most = usize::try_from(arguments.integer(2, "count", -1)?).unwrap_or(usize::MAX);
                self.replaced(text, old, new, most)
            }
            "zfill" => {
                let width = usize::try_from(arguments.integer(0, "width", 0)?).unwrap_or(0);
                let missing = width.saturating_sub(text.chars().count());
                self.room(text.len().saturating_add(missing))?;
                let signed = usize::from(text.starts_with(['+', '-']));
                self.made(format!("{}{}{}", &text[..signed], "0".repeat(missing), &text[signed..]))
            }
            "center" | "ljust" | "rjust" => {
                let width = usize::try_from(arguments.integer(0, "width", 0)?).unwrap_or(0);
                let fill = match arguments.argument(1, "fillchar") {
                    None => ' ',
                    Some(_) => match arguments.text(1)?.chars().collect::<Vec<_>>()[..] {
                        [fill] => fill,
                        _ => return fail("a filling is one character"),
                    },
                };
                let missing = width.saturating_sub(text.chars().count());
                self.room(text.len().saturating_add(missing.saturating_mul(fill.len_utf8())))?;
                // Python's middle.
                let before = match arguments.method {
                    "ljust" => 0,
                    "rjust" => missing,
                    _ => missing / 2 + (missing & width & 1),
                };
                let fill = |number: usize| fill.to_string().repeat(number);
                self.made(fill(before) + text + &fill(missing - before))
            }
            "expandtabs" => {
                let size = usize::try_from(arguments.integer(0, "tabsize", 8)?).unwrap_or(0);
                self.expanded(text, size)
            }
            "format" => {
                let text = format::braces(self, text, arguments.given)?;
                self.made(text)
            }
            "format_map" => {
                let Some(Value::Dict(dict)) = arguments.given.positional.first() else {
                    return fail("`format_map` needs a dictionary");
                };
                let names = dict
                    .map
                    .iter()
                    .filter_map(|(key, value)| Some((key.value().as_text()?.to_string(), value.clone())));
                let given = Given { positional: Vec::new(), named: names.collect() };
                let text = format::braces(self, text, &given)?;
                self.made(text)
            }
            name => fail(format!("a text has no method `{name}`")),
        }
    }

    fn texts(&mut self, parts: Vec<String>) -> Result<Value> {
        self.spend(parts.len() + parts.iter().map(String::len).sum::<usize>() / 16)?;
        Value::list(parts.into_iter().map(Value::text).collect()).map_err(Error::Failed)
    }

    /// The items with a text between them. `converts` takes items that are no texts, as the filter does.
    pub(super) fn joined(&mut self, items: &[Value], separator: &str, converts: bool) -> Result<Value> {
        let mut out = String::new();
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(separator);
            }
            match item {
                Value::Text(text) => out.push_str(&text.text),
                other if converts => out.push_str(&write::string(self, other)?),
                other => return fail(format!("`join` needs texts, not {}", other.kind())),
            }
            self.spend(1)?;
            if out.len() > 1 << 16 {
                self.room(out.len() / 64)?;
            }
        }
        self.made(out)
    }

    pub(super) fn replaced(&mut self, text: &str, old: &str, new: &str, most: usize) -> Result<Value> {
        let count = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
        self.room(text.len().saturating_add(count.min(most).saturating_mul(new.len())))?;
        self.made(text.replacen(old, new, most))
    }

    fn expanded(&mut self, text: &str, size: usize) -> Result<Value> {
        self.room(text.len().saturating_add(text.matches('\t').count().saturating_mul(size)))?;
        let (mut out, mut column) = (String::new(), 0);
        for character in text.chars() {
            match character {
                '\t' => {
                    let spaces = size.saturating_sub(column % size.max(1));
                    out += &" ".repeat(spaces);
                    column += spaces;
                }
                _ => {
                    out.push(character);
                    column = if ['\n', '\r'].contains(&character) { 0 } else { column + 1 };
                }
            }
        }
        self.made(out)
    }
}

/// The texts of a method's result as Markup.
fn safe(result: Value) -> Result<Value> {
    let markup = |items: &Items| items.items.iter().cloned().map(safe).collect::<Result<Vec<_>>>();
    match &result {
        Value::Text(text) => Ok(Value::markup(text.text.clone())),
        Value::List(items) => Value::list(markup(items)?).map_err(Error::Failed),
        Value::Tuple(items) => Value::tuple(markup(items)?).map_err(Error::Failed),
        _ => Ok(result),
    }
}

/// What Python's `isspace` holds for white space.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

pub(super) fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &characters.as_str().to_lowercase()
}

fn titled(text: &str) -> String {
    let mut is_inside = false;
    let mut out = String::new();
    for character in text.chars() {
        if is_inside {
            out.extend(character.to_lowercase())
        } else {
            out.extend(character.to_uppercase())
        }
        is_inside = character.is_alphabetic();
    }
    out
}

/// The part of a text between two places in characters.
fn part(text: &str, start: i128, end: Option<i128>) -> Option<&str> {
    if start == 0 && end.is_none() {
        return Some(text);
    }
    let length = text.chars().count() as i128;
    let place = |index: i128| (if index < 0 { index + length } else { index }).clamp(0, length) as usize;
    let (from, to) = (place(start), end.map_or(length as usize, place));
    if start > length || from > to {
        return None;
    }
    let byte = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
    Some(&text[byte(from)..byte(to)])
}

/// Words between white space, at most this number and the rest.
fn split_spaces(text: &str, most: usize, from_end: bool) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = if from_end { text.trim_end_matches(is_space) } else { text.trim_start_matches(is_space) };
    while !rest.is_empty() {
        let at = if from_end { rest.rfind(is_space) } else { rest.find(is_space) };
        match at {
            Some(at) if parts.len() < most && from_end => {
                let width = rest[at..].chars().next().map_or(1, char::len_utf8);
                parts.push(rest[at + width..].to_owned());
                rest = rest[..at].trim_end_matches(is_space);
            }
            Some(at) if parts.len() < most => {
                parts.push(rest[..at].to_owned());
                rest = rest[at..].trim_start_matches(is_space);
            }
            _ => {
                // What is left keeps the white space at its other end if the limit ended the search.
                let is_cut = parts.len() >= most;
                let last = match (is_cut, from_end) {
                    (true, _) => rest,
                    (false, true) => rest.trim_start_matches(is_space),
                    (false, false) => rest.trim_end_matches(is_space),
                };
                parts.push(last.to_owned());
                break;
            }
        }
    }
    if from_end {
        parts.reverse();
    }
    parts
}

/// Lines, with or without what ends them.
fn lines(text: &str, keeps_ends: bool) -> Vec<String> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_end).unwrap_or(rest.len());
        let width = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(0, char::len_utf8)
        };
        lines.push(rest[..end + if keeps_ends { width } else { 0 }].to_owned());
        rest = &rest[end + width..];
    }
    lines
}
