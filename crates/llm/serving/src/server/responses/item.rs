//! The items of a response's output.

use serde_json::{Value, json};

use super::super::{App, name};
use crate::text::{Part, ToolCall};

/// An item: all consecutive text of one kind, or a call.
pub(super) struct Item {
    id: String,
    /// The identifier of a call.
    call_id: String,
    kind: Kind,
    /// Log-probabilities of the text.
    logprobs: Vec<Value>,
}

enum Kind {
    Content(String),
    Reasoning(String),
    Call(ToolCall),
}

impl Item {
    /// An item that begins with a part.
    pub(super) fn new(app: &App, part: Part) -> Item {
        let (prefix, kind) = match part {
            Part::Content(text) => ("msg_", Kind::Content(text)),
            Part::Reasoning(text) => ("rs_", Kind::Reasoning(text)),
            Part::Call(name) => ("fc_", Kind::Call(ToolCall { name, arguments: String::new() })),
            // A parser sends arguments after their call.
            Part::Arguments(arguments) => ("fc_", Kind::Call(ToolCall { name: String::new(), arguments })),
        };
        Item { id: name(prefix), call_id: app.call_id(), kind, logprobs: Vec::new() }
    }

    /// Appends a part, or returns it if it begins another item.
    pub(super) fn append(&mut self, part: Part) -> Result<(), Part> {
        match (&mut self.kind, part) {
            (Kind::Content(text), Part::Content(more))
            | (Kind::Reasoning(text), Part::Reasoning(more))
            | (Kind::Call(ToolCall { arguments: text, .. }), Part::Arguments(more)) => {
                text.push_str(&more);
                Ok(())
            }
            (_, part) => Err(part),
        }
    }

    /// The items of all parts of an answer, at least one.
    pub(super) fn all(app: &App, parts: Vec<Part>, logprobs: Vec<Value>) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        for part in parts {
            let rest = match items.last_mut() {
                Some(last) => last.append(part),
                None => Err(part),
            };
            items.extend(rest.err().map(|part| Item::new(app, part)));
        }
        if items.is_empty() {
            items.push(Item::new(app, Part::Content(String::new())));
        }
        // All text has them.
        if let Some(item) = items.iter_mut().rev().find(|item| item.is_text()) {
            item.logprobs = logprobs;
        }
        items
    }

    /// Whether it is text for the user.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Content(_))
    }

    /// Adds the log-probabilities of more text.
    pub(super) fn list(&mut self, logprobs: &[Value]) {
        self.logprobs.extend_from_slice(logprobs);
    }

    /// The log-probabilities of the text.
    pub(super) fn logprobs(&self) -> &[Value] {
        &self.logprobs
    }

    /// The name that events give.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The object before any content.
    pub(super) fn begun(&self) -> Value {
        match &self.kind {
            Kind::Call(call) => self.call("in_progress", &call.name, ""),
            _ => self.text("in_progress", json!([])),
        }
    }

    /// The object with its content.
    pub(super) fn object(&self, status: &str) -> Value {
        match &self.kind {
            Kind::Call(ToolCall { name, arguments }) => self.call(status, name, arguments),
            _ => self.text(status, json!([self.content().unwrap_or_default()])),
        }
    }

    /// The part with the text. A call has none.
    pub(super) fn content(&self) -> Option<Value> {
        match &self.kind {
            Kind::Content(text) => Some(json!({
                "type": "output_text", "text": text, "annotations": [], "logprobs": self.logprobs,
            })),
            Kind::Reasoning(text) => Some(json!({ "type": "reasoning_text", "text": text })),
            Kind::Call(_) => None,
        }
    }

    /// What the events of its text begin with, the key that holds the text, and the text.
    pub(super) fn event(&self) -> (&'static str, &'static str, &str) {
        match &self.kind {
            Kind::Content(text) => ("response.output_text", "text", text),
            Kind::Reasoning(text) => ("response.reasoning_text", "text", text),
            Kind::Call(call) => ("response.function_call_arguments", "arguments", &call.arguments),
        }
    }

    fn text(&self, status: &str, content: Value) -> Value {
        let mut object = json!({ "type": "message", "id": self.id, "status": status, "content": content });
        match self.kind {
            Kind::Reasoning(_) => {
                object["type"] = "reasoning".into();
                object["summary"] = json!([]);
            }
            _ => object["role"] = "assistant".into(),
        }
        object
    }

    fn call(&self, status: &str, name: &str, arguments: &str) -> Value {
        json!({
            "type": "function_call",
            "id": self.id,
            "call_id": self.call_id,
            "status": status,
            "name": name,
            "arguments": arguments,
        })
    }
}
