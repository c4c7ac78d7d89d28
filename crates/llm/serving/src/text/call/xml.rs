//! Calls as tags.

use std::sync::Arc;

use serde_json::Value;

use super::super::Part;
use super::super::stop::overlap;
use super::form::Tags;
use super::json::JsonCall;
use super::tool::{Progress, Tool, is_text};
use super::{Call, Opening};

/// The longest name that a tag may have. Longer text is none.
const LONGEST_NAME: usize = 256;

/// Reads a call in tags, such as `<function=NAME><parameter=NAME>VALUE</parameter></function>`.
#[derive(Clone, Debug)]
pub(in crate::text) struct XmlCall {
    tags: Arc<Tags>,
    /// The schema of the parameters.
    parameters: Value,
    /// The parameter whose value is read.
    parameter: Option<Parameter>,
    /// Parameters that have begun.
    count: usize,
    /// The arguments, where they are an object: Llama 3 and Functionary.
    whole: Option<Box<JsonCall>>,
}

#[derive(Clone, Debug)]
struct Parameter {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Text that has not begun.
    NewText,
    /// Text, which passes as it comes.
    Text,
    /// A value that is needed as a whole.
    Value,
}

impl XmlCall {
    /// Takes the name and the tag before it off `text`. A name without a tag is that of a tool.
    pub(super) fn open(
        text: &mut String,
        tags: &Arc<Tags>,
        tools: &[Tool],
        parts: &mut Vec<Part>,
    ) -> Opening {
        let begun = text.trim_start();
        let Some(after) = begun.strip_prefix(tags.function.as_str()) else {
            return if tags.function.starts_with(begun) { Opening::Unknown } else { Opening::None };
        };
        let after = after.trim_start();
        let end = match tags.name_end.as_str() {
            "" => after.find(|c: char| c.is_whitespace() || c == '<'),
            end => after.find(end),
        };
        let name = after[..end.unwrap_or(after.len())].trim();
        if name.len() > LONGEST_NAME || name.contains(['<', '\n']) {
            return Opening::None;
        }
        let tool = tools.iter().find(|tool| tool.name == name);
        let is_named = !tags.function.is_empty();
        let Some(end) = end else {
            let may_be = is_named || tools.iter().any(|tool| tool.name.starts_with(name));
            return if may_be { Opening::Unknown } else { Opening::None };
        };
        if name.is_empty() || !(is_named || tool.is_some()) {
            return Opening::None;
        }
        parts.push(Part::Call(name.to_owned()));
        let parameters = tool.map(|tool| tool.parameters.clone()).unwrap_or_default();
        *text = after[end + tags.name_end.len()..].to_owned();
        Opening::Call(Call::Xml(XmlCall {
            tags: tags.clone(),
            parameters,
            parameter: None,
            count: 0,
            whole: None,
        }))
    }

    pub(super) fn advance(&mut self, text: &mut String, parts: &mut Vec<Part>) -> Progress {
        let mut arguments = String::new();
        let progress = loop {
            if let Some(call) = &mut self.whole {
                return call.advance(text, parts);
            }
            let step = match self.parameter.take() {
                Some(parameter) => self.value(parameter, text, &mut arguments),
                None => self.tag(text, &mut arguments),
            };
            if let Some(progress) = step {
                break progress;
            }
        };
        if !arguments.is_empty() {
            parts.push(Part::Arguments(arguments));
        }
        progress
    }

    /// Reads the tag of a parameter or of the end. `None` if there may be more to read.
    fn tag(&mut self, text: &mut String, arguments: &mut String) -> Option<Progress> {
        let begun = text.trim_start();
        if begun.starts_with('{') && self.count == 0 {
            self.whole = Some(Box::new(JsonCall::of_arguments()));
            return None;
        }
        let tags = self.tags.clone();
        let is_end = !tags.function_end.is_empty() && begun.starts_with(&tags.function_end);
        // Some calls lack the tag of their function's end.
        if is_end || begun.starts_with(&tags.call_end) {
            *arguments += if self.count == 0 { "{}" } else { "}" };
            *text = begun[if is_end { tags.function_end.len() } else { 0 }..].to_owned();
            return Some(Progress::Complete);
        }
        if let Some(after) = begun.strip_prefix(tags.parameter.as_str()) {
            let Some((name, rest)) = after.split_once(&tags.parameter_end) else {
                return Some(Progress::Open);
            };
            let before_value = if tags.value.is_empty() { rest } else { rest.trim_start() };
            let Some(rest) = before_value.strip_prefix(tags.value.as_str()) else {
                if tags.value.starts_with(before_value) {
                    return Some(Progress::Open);
                }
                // A parameter without a value is none.
                *text = rest.to_owned();
                return None;
            };
            let name = name.trim().to_owned();
            let schema = &self.parameters["properties"][&name];
            let kind = if is_text(schema) { Kind::NewText } else { Kind::Value };
            *text = rest.to_owned();
            self.parameter = Some(Parameter { name, kind });
            return None;
        }
        let mut all = [&tags.function_end, &tags.parameter, &tags.call_end].into_iter();
        if all.any(|tag| tag.starts_with(begun)) {
            return Some(Progress::Open);
        }
        // Text between tags means nothing.
        let mut tags = begun.char_indices().skip(1).filter(|(_, character)| *character == '<');
        *text = tags.next().map_or(String::new(), |(at, _)| begun[at..].to_owned());
        None
    }

    /// Reads a value. `None` if it has ended.
    fn value(
        &mut self,
        mut parameter: Parameter,
        text: &mut String,
        arguments: &mut String,
    ) -> Option<Progress> {
        let tag = self.tags.value_end.clone();
        let end = text.find(&tag);
        if end.is_none() && parameter.kind == Kind::Value {
            self.parameter = Some(parameter);
            return Some(Progress::Open);
        }
        // One line break on each side belongs to a form that has values on lines of their own.
        let line = if self.tags.are_lines { "\n" } else { "" };
        let keep = || overlap(text, &tag).max(overlap(text, &format!("{line}{tag}")));
        let until = end.unwrap_or_else(|| text.len() - keep());
        let mut value = &text[..until];
        if parameter.kind != Kind::Text && !value.is_empty() {
            value = value.strip_prefix(line).unwrap_or(value);
        }
        if end.is_some() {
            value = value.strip_suffix(line).unwrap_or(value);
        }
        if parameter.kind != Kind::Text && (end.is_some() || until > 0) {
            arguments.push(if self.count == 0 { '{' } else { ',' });
            *arguments += &Value::String(parameter.name.clone()).to_string();
            arguments.push(':');
            self.count += 1;
        }
        match parameter.kind {
            Kind::Value => *arguments += &typed(value).to_string(),
            Kind::NewText | Kind::Text => {
                let quoted = Value::String(value.to_owned()).to_string();
                if parameter.kind == Kind::NewText && (end.is_some() || until > 0) {
                    arguments.push('"');
                    parameter.kind = Kind::Text;
                }
                *arguments += &quoted[1..quoted.len() - 1];
                if end.is_some() {
                    arguments.push('"');
                }
            }
        }
        match end {
            Some(end) => {
                text.drain(..end + tag.len());
                None
            }
            None => {
                text.drain(..until);
                self.parameter = Some(parameter);
                Some(Progress::Open)
            }
        }
    }
}

/// The value that a parameter's text stands for if its schema allows more than text: JSON if it is JSON.
fn typed(text: &str) -> Value {
    let trimmed = text.trim();
    match trimmed {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        "None" => Value::Null,
        _ => serde_json::from_str(trimmed).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}
