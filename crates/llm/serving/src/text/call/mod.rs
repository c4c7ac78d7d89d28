//! Tool calls in the forms that models write, read while they are written.

mod form;
mod json;
mod python;
mod tool;
mod xml;

use super::Part;
pub(crate) use form::ID;
pub use form::{CallForm, JsonForm, PythonForm, TagForm};
use json::JsonCall;
use python::PythonCall;
pub(crate) use tool::is_text;
pub(super) use tool::{CALL, CALL_END, FUNCTION, FUNCTION_END, Progress};
pub use tool::{Tool, ToolCall};
use xml::XmlCall;

/// A call that is being written.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Json(JsonCall),
    Python(PythonCall),
    Xml(XmlCall),
}

/// Whether text begins a call.
pub(super) enum Opening {
    /// More text is needed.
    Unknown,
    /// It does not.
    None,
    /// It does.
    Call(Call),
}

impl Call {
    /// Takes the beginning of a call off `text`, which follows `<tool_call>` or the form's own mark. The call has the tags
    /// of the form or of Qwen 3.5, `<function=NAME><parameter=NAME>VALUE</parameter></function>`, or it is JSON as Qwen 2.5
    /// and 3 write it, `{"name": NAME, "arguments": {}}`, which may be in a list. Other forms have their arguments alone as
    /// JSON, or are calls of Python.
    pub(super) fn open(
        text: &mut String,
        tools: &[Tool],
        (form, is_bare): (&CallForm, bool),
        parts: &mut Vec<Part>,
    ) -> Opening {
        if text.trim_start().is_empty() {
            return Opening::Unknown;
        }
        for tags in form.tags().into_iter().chain(form::QWEN.tags()) {
            match XmlCall::open(text, tags, tools, parts) {
                Opening::None => {}
                opening => return opening,
            }
        }
        let begun = text.trim_start();
        let in_list = begun.strip_prefix('[').map_or(begun, str::trim_start);
        if in_list.is_empty() {
            return Opening::Unknown;
        }
        if !in_list.starts_with('{') {
            if let CallForm::Python(_) = form {
                return match PythonCall::open(text, tools, is_bare, parts) {
                    Some(Some(call)) => Opening::Call(Call::Python(call)),
                    Some(None) => Opening::None,
                    None => Opening::Unknown,
                };
            }
            let names_texts = form.before_text().is_some();
            if is_bare && !names_texts {
                return Opening::None;
            }
            return Call::open_named(text, (form, names_texts), tools, parts);
        }
        // Whether an object is a call shows when it has a name.
        let skipped = text.len() - in_list.len();
        let (end, complete) = match text.find(CALL_END) {
            Some(end) => (end, true),
            None => (text.len() - super::stop::overlap(text, CALL_END), false),
        };
        let mut call = JsonCall::default();
        let mut read = Vec::new();
        let taken = call.push(&text[skipped..end], &mut read);
        let is_call = |name: &str| !is_bare || tools.iter().any(|tool| tool.name == name);
        match (call.name(), complete || call.is_complete() || (is_bare && call.begins_otherwise())) {
            (Some(name), _) if is_call(name) => {
                parts.append(&mut read);
                text.drain(..skipped + taken);
                Opening::Call(Call::Json(call))
            }
            (None, false) => Opening::Unknown,
            _ => Opening::None,
        }
    }

    /// Takes the name and what follows it off `text`, in a form that has the arguments alone as JSON. It is the name of a
    /// tool where anything else may follow the mark (`is_of_tool`).
    fn open_named(
        text: &mut String,
        (form, is_of_tool): (&CallForm, bool),
        tools: &[Tool],
        parts: &mut Vec<Part>,
    ) -> Opening {
        let CallForm::Json(form) = form else { return Opening::None };
        let Some((first, last)) = form.middle_ends() else { return Opening::None };
        let end = text.find(first);
        let name = text[..end.unwrap_or(text.len() - super::stop::overlap(text, first))].trim().to_owned();
        if name.chars().any(char::is_whitespace) || (end.is_some() && name.is_empty()) {
            return Opening::None;
        }
        let may_be =
            |tool: &Tool| if end.is_some() { tool.name == name } else { tool.name.starts_with(&name) };
        if is_of_tool && !tools.iter().any(may_be) {
            return Opening::None;
        }
        let Some(at) = end.and(text.find(last)) else { return Opening::Unknown };
        text.drain(..at + last.len());
        parts.push(Part::Call(name));
        Opening::Call(Call::Json(JsonCall::of_arguments()))
    }

    /// Takes what belongs to the call off `text`, and adds the arguments that it has.
    pub(super) fn advance(&mut self, text: &mut String, parts: &mut Vec<Part>) -> Progress {
        match self {
            Call::Json(call) => call.advance(text, parts),
            Call::Python(call) => call.advance(text, parts),
            Call::Xml(call) => call.advance(text, parts),
        }
    }
}
