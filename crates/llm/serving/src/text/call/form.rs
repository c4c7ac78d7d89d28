//! The form in which a model writes calls, as its chat template shows it.

/// Stands for the identifier of a call in the texts of a form. Mistral's templates want nine letters and digits.
pub(crate) const ID: &str = "q1W2e3R4t";

/// How calls are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CallForm {
    /// Parameters as tags, inside of `<tool_call>`: Qwen 3.5 and Qwen3-Coder.
    #[default]
    Tags,
    /// Arguments as a JSON object.
    Json(JsonForm),
    /// Arguments as those of a function of Python: Llama 4, LFM 2 and ToolACE.
    Python(PythonForm),
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
            CallForm::Tags => "",
            CallForm::Json(form) => &form.mark,
            CallForm::Python(form) => &form.mark,
        }
    }

    /// What stands before a text after the mark of a call, where texts have a name, too.
    pub(in crate::text) fn before_text(&self) -> Option<String> {
        match self {
            CallForm::Json(form) => form.text.as_ref().map(|name| format!("{name}{}", form.middle)),
            CallForm::Tags | CallForm::Python(_) => None,
        }
    }

    /// Whether an answer that begins with an object or a list may be a call.
    pub(in crate::text) fn is_bare(&self) -> bool {
        *self != CallForm::Tags && self.mark().is_empty()
    }

    /// What may follow a call: the text before the next one, and the text at the end. Both may be empty.
    pub(in crate::text) fn following(&self) -> [&str; 2] {
        match self {
            CallForm::Tags => ["", ""],
            CallForm::Json(form) => [&form.next_mark, &form.close_mark],
            CallForm::Python(form) => [&form.next_mark, &form.close_mark],
        }
    }

    /// Whether a special token of this text is a part of the form.
    pub(in crate::text) fn has(&self, token: &str) -> bool {
        let (texts, between) = match self {
            CallForm::Tags => return false,
            CallForm::Json(form) => (vec![&form.open, &form.middle, &form.close], &form.between),
            CallForm::Python(form) => (vec![&form.open, &form.close], &form.between),
        };
        !token.is_empty() && texts.into_iter().chain(between).any(|text| text.contains(token))
    }
}
