//! The form in which a model writes calls, as its chat template shows it.

use std::sync::{Arc, LazyLock};

/// Stands for the identifier of a call in the texts of a form. Mistral's templates want nine letters and digits.
pub(crate) const ID: &str = "q1W2e3R4t";

/// How calls are written.
#[derive(Clone, Debug, PartialEq)]
pub enum CallForm {
    /// Parameters as tags: Qwen 3.5, Qwen3-Coder, GLM 4.5, MiniMax M2 and Seed-OSS.
    Tags(TagForm),
    /// Arguments as a JSON object.
    Json(JsonForm),
    /// Arguments as those of a function of Python: Llama 4, LFM 2 and ToolACE.
    Python(PythonForm),
}

impl Default for CallForm {
    fn default() -> CallForm {
        QWEN.clone()
    }
}

/// The form of Qwen 3.5, which is read for every model.
pub(super) static QWEN: LazyLock<CallForm> = LazyLock::new(|| {
    let (open, close) = ("<tool_call>\n<function=", "</function>\n</tool_call>");
    let texts = [open, ">\n", "<parameter=", ">\n", "\n</parameter>\n", close];
    CallForm::Tags(TagForm::new(texts, Some(format!("{close}\n{open}"))))
});

/// `OPEN NAME NAME_CLOSE (PARAMETER NAME PARAMETER_CLOSE VALUE VALUE_CLOSE)* CLOSE`, where the values are texts or JSON
/// and the rest are texts. BETWEEN stands for the CLOSE of a call and the OPEN of the next.
#[derive(Clone, Debug, PartialEq)]
pub struct TagForm {
    pub(crate) open: String,
    pub(crate) name_close: String,
    pub(crate) parameter: String,
    pub(crate) parameter_close: String,
    pub(crate) value_close: String,
    /// `None` where an answer has one call at most.
    pub(crate) between: Option<String>,
    pub(crate) close: String,
    /// What the parser looks for.
    tags: Arc<Tags>,
}

/// The tags of a form, without white space around them. Models leave some of it out.
#[derive(Debug, PartialEq)]
pub(super) struct Tags {
    /// What tells that a call begins.
    mark: String,
    /// What stands before the name, after the mark. Empty where the name follows the mark (GLM 4.5).
    pub(super) function: String,
    /// What ends the name. Empty where white space or a tag does.
    pub(super) name_end: String,
    pub(super) parameter: String,
    /// What ends the name of a parameter.
    pub(super) parameter_end: String,
    /// What stands between that and the value. Empty in most forms.
    pub(super) value: String,
    pub(super) value_end: String,
    /// Whether values are lines of their own.
    pub(super) are_lines: bool,
    /// What ends the function, if it is not what ends the call.
    pub(super) function_end: String,
    pub(super) call_end: String,
}

/// A text of tags after its first tag, and the rest. A text without a whole tag is the rest.
fn first_tag(text: &str) -> (&str, &str) {
    let (tag, rest) = text.trim().split_at(text.trim().find('>').map_or(0, |at| at + 1));
    (tag, rest.trim())
}

impl TagForm {
    /// From the texts in their order, and what stands between two calls.
    pub(crate) fn new(texts: [&str; 6], between: Option<String>) -> TagForm {
        let [open, name_close, parameter, parameter_close, value_close, close] = texts;
        let (mark, function) = first_tag(open);
        let (parameter_end, value) = first_tag(parameter_close);
        let (function_end, call_end) = match first_tag(close) {
            (only, "") => ("", only),
            both => both,
        };
        let tags = Tags {
            mark: mark.to_owned(),
            function: function.to_owned(),
            name_end: name_close.trim().to_owned(),
            parameter: parameter.trim().to_owned(),
            parameter_end: parameter_end.to_owned(),
            value: value.to_owned(),
            value_end: value_close.trim().to_owned(),
            are_lines: parameter_close.ends_with('\n'),
            function_end: function_end.to_owned(),
            call_end: call_end.to_owned(),
        };
        let [open, name_close, parameter, parameter_close, value_close, close] = texts.map(str::to_owned);
        TagForm {
            open,
            name_close,
            parameter,
            parameter_close,
            value_close,
            between,
            close,
            tags: tags.into(),
        }
    }
}

/// `OPEN NAME MIDDLE ARGUMENTS (BETWEEN NAME MIDDLE ARGUMENTS)* CLOSE`, where the arguments are a JSON object and the
/// rest are texts.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonForm {
    pub(crate) open: String,
    pub(crate) middle: String,
    /// `None` where an answer has one call at most.
    pub(crate) between: Option<String>,
    pub(crate) close: String,
    /// Whether the name is a value of a JSON object, beside the arguments.
    is_object: bool,
    /// What tells that a call begins; empty if an answer that begins with an object is one.
    mark: String,
    /// What follows the last call.
    close_mark: String,
    /// What stands between calls, where no object begins there.
    next_mark: String,
    /// The name of texts, where they are written as calls are: `all` in Functionary 3.2, whose answers are
    /// `>>>NAME\nARGUMENTS` and `>>>all\nTEXT`.
    text: Option<String>,
}

impl JsonForm {
    pub(crate) fn new(open: String, middle: String, between: Option<String>, close: String) -> JsonForm {
        let object = open.find('{');
        let mark = match object {
            Some(at) => open[..at].trim().trim_end_matches('[').trim_end(),
            None => open.trim(),
        };
        let after_object =
            |text: &str| text[text.rfind(['}', ']']).map_or(0, |at| at + 1)..].trim().to_owned();
        let close_mark = if object.is_some() { after_object(&close) } else { close.trim().to_owned() };
        let next_mark = match &between {
            Some(between) if object.is_none() => between.trim().to_owned(),
            _ => String::new(),
        };
        JsonForm {
            mark: mark.to_owned(),
            close_mark,
            next_mark,
            is_object: object.is_some(),
            text: None,
            open,
            middle,
            between,
            close,
        }
    }

    /// With texts that have a name, too. The prompt may end with the mark before a name (`starts_open`).
    pub(crate) fn with_text(mut self, name: &str, starts_open: bool) -> JsonForm {
        self.mark.clone_from(&self.next_mark);
        self.open = if starts_open { String::new() } else { self.mark.clone() };
        self.text = Some(name.to_owned());
        self
    }

    /// Whether the arguments are an object of their own, after the name.
    pub(crate) fn has_bare_names(&self) -> bool {
        !self.is_object
    }

    /// The text between the name and the arguments, where the name is no value of an object: its beginning and its end.
    pub(super) fn middle_ends(&self) -> Option<(&str, &str)> {
        if self.text.is_some() {
            return Some((&self.middle, &self.middle));
        }
        let middle = self.middle.trim();
        let ends = middle.split_once(ID).unwrap_or((middle, middle));
        (!self.is_object && !ends.0.is_empty() && !ends.1.is_empty()).then_some(ends)
    }
}

/// `OPEN NAME(PARAMETER=VALUE, ..) (BETWEEN NAME(..))* CLOSE`, where the rest are texts. The calls are a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonForm {
    pub(crate) open: String,
    /// `None` where an answer has one call at most.
    pub(crate) between: Option<String>,
    pub(crate) close: String,
    /// What tells that a call begins; empty if an answer that begins with a list of calls is one.
    mark: String,
    /// What follows the list.
    close_mark: String,
    /// What stands between calls.
    next_mark: String,
}

impl PythonForm {
    pub(crate) fn new(open: String, between: Option<String>, close: String) -> PythonForm {
        PythonForm {
            mark: open.trim().trim_end_matches('[').trim_end().to_owned(),
            close_mark: close.trim().trim_start_matches(']').trim_start().to_owned(),
            next_mark: between.as_deref().unwrap_or_default().trim().to_owned(),
            open,
            between,
            close,
        }
    }
}

impl CallForm {
    /// The text that tells that a call begins, if it is not empty.
    pub(in crate::text) fn mark(&self) -> &str {
        match self {
            CallForm::Tags(form) => &form.tags.mark,
            CallForm::Json(form) => &form.mark,
            CallForm::Python(form) => &form.mark,
        }
    }

    /// Its tags, if it has some.
    pub(super) fn tags(&self) -> Option<&Arc<Tags>> {
        if let CallForm::Tags(form) = self { Some(&form.tags) } else { None }
    }

    /// What stands before the name of a function, where that is a tag: it tells that a call begins, too.
    pub(in crate::text) fn function(&self) -> &str {
        self.tags().map_or("", |tags| &tags.function)
    }

    /// What ends the name of a function after that tag.
    pub(in crate::text) fn name_end(&self) -> &str {
        self.tags().map_or("", |tags| &tags.name_end)
    }

    /// What stands before a text after the mark of a call, where texts have a name, too.
    pub(in crate::text) fn before_text(&self) -> Option<String> {
        match self {
            CallForm::Json(form) => form.text.as_ref().map(|name| format!("{name}{}", form.middle)),
            CallForm::Tags(_) | CallForm::Python(_) => None,
        }
    }

    /// Whether an answer that begins with an object or a list may be a call.
    pub(in crate::text) fn is_bare(&self) -> bool {
        self.mark().is_empty()
    }

    /// The text before a next call. May be empty.
    pub(in crate::text) fn next_mark(&self) -> &str {
        match self {
            CallForm::Tags(_) => "",
            CallForm::Json(form) => &form.next_mark,
            CallForm::Python(form) => &form.next_mark,
        }
    }

    /// Texts that end a call, or all of them. Each may be empty.
    pub(in crate::text) fn ends(&self) -> [&str; 2] {
        match self {
            CallForm::Tags(form) => [&form.tags.function_end, &form.tags.call_end],
            CallForm::Json(form) => ["", &form.close_mark],
            CallForm::Python(form) => ["", &form.close_mark],
        }
    }

    /// Whether a special token of this text is a part of the form.
    pub(in crate::text) fn has(&self, token: &str) -> bool {
        let (texts, between) = match self {
            CallForm::Tags(form) => {
                let texts =
                    [&form.open, &form.parameter, &form.parameter_close, &form.value_close, &form.close];
                (texts.to_vec(), &form.between)
            }
            CallForm::Json(form) => (vec![&form.open, &form.middle, &form.close], &form.between),
            CallForm::Python(form) => (vec![&form.open, &form.close], &form.between),
        };
        !token.is_empty() && texts.into_iter().chain(between).any(|text| text.contains(token))
    }
}
