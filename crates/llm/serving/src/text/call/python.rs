//! Calls as Python writes them.

use serde_json::{Map, Value};

use super::super::Part;
use super::tool::{Progress, Tool};

/// Reads the arguments of `NAME(PARAMETER=LITERAL, ..)`, which follow the parenthesis.
#[derive(Clone, Debug)]
pub(in crate::text) struct PythonCall {
    /// The schema of the parameters.
    parameters: Value,
    /// Arguments that have been passed.
    count: usize,
}

/// How deep literals are nested at most.
const DEEPEST: usize = 64;

impl PythonCall {
    /// Takes the name and the parenthesis off `text`, which may begin with the bracket of a list. Without a mark before
    /// it (`is_bare`), a call has the name of a tool. `None` if more text is needed, `Some(None)` if there is no call.
    pub(super) fn open(
        text: &mut String,
        tools: &[Tool],
        is_bare: bool,
        parts: &mut Vec<Part>,
    ) -> Option<Option<Self>> {
        let begun = text.trim_start();
        let begun = begun.strip_prefix('[').map_or(begun, str::trim_start);
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let end = begun.find(|c| !is_of_name(c));
        let name = &begun[..end.unwrap_or(begun.len())];
        let Some(end) = end else {
            let may_be = !is_bare || tools.iter().any(|tool| tool.name.starts_with(name));
            return if may_be { None } else { Some(None) };
        };
        let tool = tools.iter().find(|tool| tool.name == name);
        if name.is_empty() || !begun[end..].starts_with('(') || (is_bare && tool.is_none()) {
            return Some(None);
        }
        parts.push(Part::Call(name.to_owned()));
        let parameters = tool.map(|tool| tool.parameters.clone()).unwrap_or_default();
        *text = begun[end + 1..].to_owned();
        Some(Some(Self { parameters, count: 0 }))
    }

    pub(super) fn advance(&mut self, text: &mut String, parts: &mut Vec<Part>) -> Progress {
        let mut arguments = String::new();
        let mut progress = Progress::Open;
        while let Some((end, is_last)) = end_of_argument(text) {
            self.add(&text[..end], &mut arguments);
            text.drain(..=end);
            if is_last {
                arguments += if self.count == 0 { "{}" } else { "}" };
                progress = Progress::Complete;
                break;
            }
        }
        if !arguments.is_empty() {
            parts.push(Part::Arguments(arguments));
        }
        progress
    }

    /// Adds an argument. One without a name is that of the next parameter.
    fn add(&mut self, argument: &str, arguments: &mut String) {
        let argument = argument.trim();
        if argument.is_empty() {
            return;
        }
        let named = argument.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let (name, value) = match named.filter(|(name, _)| is_name(name)) {
            Some((name, value)) => (name.to_owned(), value),
            None => {
                let parameter = self.parameters["properties"].as_object();
                let parameter = parameter.and_then(|all| all.keys().nth(self.count).cloned());
                (parameter.unwrap_or_else(|| self.count.to_string()), argument)
            }
        };
        let mut rest = value;
        let read = literal(&mut rest, 0).filter(|_| rest.trim().is_empty());
        arguments.push(if self.count == 0 { '{' } else { ',' });
        *arguments += &Value::String(name).to_string();
        arguments.push(':');
        // Anything else than a literal is kept as text.
        *arguments += &read.unwrap_or_else(|| value.into()).to_string();
        self.count += 1;
    }
}

/// Where the comma after the next argument is, or the parenthesis after the last one.
fn end_of_argument(text: &str) -> Option<(usize, bool)> {
    let (mut depth, mut quote, mut is_escaped) = (0usize, None, false);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(end), _) if character == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')') if depth == 0 => return Some((at, true)),
            (None, ',') if depth == 0 => return Some((at, false)),
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

/// Takes a literal of Python or JSON off the text.
fn literal(text: &mut &str, depth: usize) -> Option<Value> {
    *text = text.trim_start();
    match text.chars().next().filter(|_| depth < DEEPEST)? {
        quote @ ('"' | '\'') => string(text, quote).map(Value::String),
        '[' => items(text, ']', |text| literal(text, depth + 1)).map(Value::Array),
        '(' => items(text, ')', |text| literal(text, depth + 1)).map(Value::Array),
        '{' => {
            let entry = |text: &mut &str| {
                let key = literal(text, depth + 1)?;
                *text = text.trim_start().strip_prefix(':')?;
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                Some((key, literal(text, depth + 1)?))
            };
            Some(Value::Object(items(text, '}', entry)?.into_iter().collect::<Map<_, _>>()))
        }
        _ => {
            let end = text.find(|c: char| c.is_whitespace() || ",:)]}".contains(c)).unwrap_or(text.len());
            let (word, rest) = text.split_at(end);
            *text = rest;
            match word {
                "True" => Some(Value::Bool(true)),
                "False" => Some(Value::Bool(false)),
                "None" => Some(Value::Null),
                _ => serde_json::from_str(word).ok(),
            }
        }
    }
}

/// Takes items in brackets off the text, the last of which may have a comma after it.
fn items<T>(text: &mut &str, end: char, item: impl Fn(&mut &str) -> Option<T>) -> Option<Vec<T>> {
    *text = &text[1..];
    let mut all = Vec::new();
    loop {
        *text = text.trim_start();
        if let Some(rest) = text.strip_prefix(end) {
            *text = rest;
            return Some(all);
        }
        all.push(item(text)?);
        *text = text.trim_start();
        match text.strip_prefix(',') {
            Some(rest) => *text = rest,
            None if text.starts_with(end) => {}
            None => return None,
        }
    }
}

/// Takes a text in quotes off the text.
fn string(text: &mut &str, quote: char) -> Option<String> {
    let (mut read, mut characters) = (String::new(), text.char_indices().skip(1));
    while let Some((at, character)) = characters.next() {
        if character == quote {
            *text = &text[at + 1..];
            return Some(read);
        }
        if character != '\\' {
            read.push(character);
            continue;
        }
        let digits = match characters.next()?.1 {
            'x' => 2,
            'u' => 4,
            other => {
                match other {
                    'n' => read.push('\n'),
                    't' => read.push('\t'),
                    'r' => read.push('\r'),
                    '\\' | '\'' | '"' | '/' => read.push(other),
                    _ => read.extend(['\\', other]),
                }
                continue;
            }
        };
        let code: String = characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
        read.push(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32)?);
    }
    None
}
