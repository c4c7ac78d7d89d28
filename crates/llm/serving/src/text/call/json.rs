//! Calls as JSON objects.

use super::super::Part;
use super::super::stop::overlap;
use super::tool::{CALL_END, Progress};

/// Reads `{"name": NAME, "arguments": ARGUMENTS}`. The arguments pass as they are, without the white space between
/// their tokens.
#[derive(Clone, Debug, Default)]
pub(in crate::text) struct JsonCall {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The key whose value is read.
    key: Option<String>,
    /// A key, or a value that is needed as a whole.
    raw: String,
    name: Option<String>,
    /// Arguments that wait for the name.
    arguments: String,
    has_arguments: bool,
    is_announced: bool,
    /// Whether the object is the arguments themselves.
    is_arguments: bool,
    ended: bool,
}

/// Keys of an object that is a call. An object that begins with another one is none.
const KEYS: [&str; 8] =
    ["name", "tool_name", "arguments", "parameters", "id", "type", "function", "tool_call_id"];

impl JsonCall {
    /// A call whose name is known, and whose arguments are the object that follows.
    pub(super) fn of_arguments() -> JsonCall {
        let key = Some("arguments".to_owned());
        JsonCall { depth: 1, key, is_announced: true, is_arguments: true, ..JsonCall::default() }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the first key is none of a call.
    pub(super) fn begins_otherwise(&self) -> bool {
        self.key.as_deref().is_some_and(|key| !KEYS.contains(&key))
    }

    /// Whether the object has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.ended
    }

    pub(super) fn advance(&mut self, text: &mut String, parts: &mut Vec<Part>) -> Progress {
        let (end, is_last) = match text.find(CALL_END) {
            Some(end) => (end, true),
            None => (text.len() - overlap(text, CALL_END), false),
        };
        let taken = self.push(&text[..end], parts);
        text.drain(..taken);
        if self.ended || is_last { Progress::Complete } else { Progress::Open }
    }

    /// Reads on, up to the end of the object. Returns the bytes that were read.
    pub(super) fn push(&mut self, text: &str, parts: &mut Vec<Part>) -> usize {
        let mut taken = 0;
        for character in text.chars() {
            if self.ended {
                break;
            }
            self.read(character);
            taken += character.len_utf8();
        }
        if let Some(name) = self.name.clone().filter(|_| !self.is_announced) {
            self.is_announced = true;
            parts.push(Part::Call(name));
        }
        if self.is_announced && !self.arguments.is_empty() {
            parts.push(Part::Arguments(std::mem::take(&mut self.arguments)));
        }
        taken
    }

    fn read(&mut self, character: char) {
        if self.in_string {
            self.keep(character);
            match character {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' => self.is_escaped = true,
                '"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match character {
            character if character.is_whitespace() => {}
            '"' => {
                self.in_string = true;
                self.keep(character);
            }
            '{' | '[' => {
                self.depth += 1;
                if self.depth > 1 {
                    self.keep(character);
                }
            }
            '}' | ']' if self.depth <= 1 => {
                self.end_value();
                if !self.has_arguments {
                    self.arguments.push_str("{}");
                }
                self.ended = true;
            }
            '}' | ']' => {
                self.keep(character);
                self.depth -= 1;
                self.ended = self.is_arguments && self.depth == 1;
            }
            ':' if self.depth == 1 && self.key.is_none() => {
                let key = std::mem::take(&mut self.raw);
                self.key = Some(serde_json::from_str(&key).unwrap_or(key));
            }
            ',' if self.depth == 1 => self.end_value(),
            character => self.keep(character),
        }
    }

    /// Whether the value belongs to the arguments.
    fn is_in_arguments(&self) -> bool {
        matches!(self.key.as_deref(), Some("arguments" | "parameters"))
    }

    fn keep(&mut self, character: char) {
        // An object or a list passes at once; a text or a number is needed as a whole.
        if self.is_in_arguments() && self.depth > 1 {
            self.has_arguments = true;
            self.arguments.push(character);
        } else {
            self.raw.push(character);
        }
    }

    fn end_value(&mut self) {
        let raw = std::mem::take(&mut self.raw);
        if self.is_in_arguments() && !self.has_arguments {
            // Some models write the arguments as text.
            self.has_arguments = true;
            self.arguments += &match serde_json::from_str(&raw) {
                Ok(serde_json::Value::String(text)) => text,
                Ok(serde_json::Value::Null) | Err(_) => "{}".to_owned(),
                Ok(_) => raw,
            };
        } else if matches!(self.key.as_deref(), Some("name" | "tool_name")) && self.name.is_none() {
            self.name = serde_json::from_str(&raw).ok();
        }
        self.key = None;
    }
}
