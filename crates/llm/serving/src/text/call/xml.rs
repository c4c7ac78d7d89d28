//! Calls as tags.

use serde_json::Value;

use super::super::Part;
use super::super::stop::overlap;
use super::json::JsonCall;
use super::tool::{CALL_END, FUNCTION, Progress, Tool, is_text};

pub(in crate::text) const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";
/// The longest name that a tag may have. Longer text is none.
const LONGEST_NAME: usize = 256;

/// Reads `<function=NAME><parameter=NAME>VALUE</parameter></function>`.
#[derive(Clone, Debug)]
pub(in crate::text) struct XmlCall {
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
    /// Takes the tag with the name off `text`. `None` if more text is needed, `Some(None)` if there is no such tag.
    pub(super) fn open(text: &mut String, tools: &[Tool], parts: &mut Vec<Part>) -> Option<Option<XmlCall>> {
        let after = text.trim_start().strip_prefix(FUNCTION)?;
        let name = after.split('>').next().unwrap_or_default();
        if name.len() > LONGEST_NAME || name.contains(['<', '\n']) {
            return Some(None);
        }
        let rest = after.get(name.len() + 1..)?;
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Some(None);
        }
        *text = rest.to_owned();
        let parameters = tools.iter().find(|tool| tool.name == name).map(|tool| tool.parameters.clone());
        parts.push(Part::Call(name));
        Some(Some(XmlCall {
            parameters: parameters.unwrap_or_default(),
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
        let is_end = begun.starts_with(FUNCTION_END);
        // Some calls lack the tag of their function's end.
        if is_end || begun.starts_with(CALL_END) {
            *arguments += if self.count == 0 { "{}" } else { "}" };
            *text = begun[if is_end { FUNCTION_END.len() } else { 0 }..].to_owned();
            return Some(Progress::Complete);
        }
        if let Some(after) = begun.strip_prefix(PARAMETER) {
            let Some((name, rest)) = after.split_once('>') else { return Some(Progress::Open) };
            let name = name.trim().to_owned();
            let schema = &self.parameters["properties"][&name];
            let kind = if is_text(schema) { Kind::NewText } else { Kind::Value };
            let rest = rest.to_owned();
            *text = rest;
            self.parameter = Some(Parameter { name, kind });
            return None;
        }
        if [FUNCTION_END, PARAMETER, CALL_END].iter().any(|tag| tag.starts_with(begun)) {
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
        let end = text.find(PARAMETER_END);
        if end.is_none() && parameter.kind == Kind::Value {
            self.parameter = Some(parameter);
            return Some(Progress::Open);
        }
        // One line break on each side belongs to the form.
        let keep = || overlap(text, PARAMETER_END).max(overlap(text, "\n</parameter>"));
        let until = end.unwrap_or_else(|| text.len() - keep());
        let mut value = &text[..until];
        if parameter.kind != Kind::Text && !value.is_empty() {
            value = value.strip_prefix('\n').unwrap_or(value);
        }
        if end.is_some() {
            value = value.strip_suffix('\n').unwrap_or(value);
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
                text.drain(..end + PARAMETER_END.len());
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
