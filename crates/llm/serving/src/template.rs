//! Chat templates: Jinja as Hugging Face's tokenizers render it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde_json::ser::Formatter;

/// A chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

/// A template is wrong, or refuses a conversation.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is no Jinja.
    #[error("the chat template does not compile: {0}")]
    Syntax(String),
    /// The template called `raise_exception`.
    #[error("the chat template refuses the conversation: {0}")]
    Refused(String),
    /// The template failed.
    #[error("the chat template fails on the conversation: {0}")]
    Render(String),
}

/// What a template renders.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The messages, as in the API.
    pub messages: Vec<serde_json::Value>,
    /// The tools, as in the API.
    pub tools: Vec<serde_json::Value>,
    /// Whether the prompt ends where the assistant begins to speak.
    pub add_generation_prompt: bool,
    /// Whether the last message is the beginning of the answer.
    pub continue_final_message: bool,
    /// Further variables, such as `enable_thinking`.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

/// The name of the only template.
const CHAT: &str = "chat";

impl ChatTemplate {
    /// From the source and the texts of the model's first and last token.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, TemplateError> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|error| TemplateError::Syntax(error.to_string()))?);
        environment.set_recursion_limit(64);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", to_json);
        let syntax = |error: Error| TemplateError::Syntax(error.to_string());
        environment.add_template_owned(CHAT, source.to_owned()).map_err(syntax)?;
        Ok(ChatTemplate { environment, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// The template for models that bring none: ChatML, with the tools and the reasoning of Qwen.
    pub fn chat_ml() -> ChatTemplate {
        ChatTemplate::new(include_str!("chat_ml.jinja"), "", "<|im_end|>")
            .unwrap_or_else(|error| unreachable!("the built-in template: {error}"))
    }

    /// The prompt of a conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<String, TemplateError> {
        let template = self.environment.get_template(CHAT).map_err(failed)?;
        let messages: Vec<serde_json::Value> =
            conversation.messages.iter().map(with_parsed_arguments).collect();
        let tools = (!conversation.tools.is_empty()).then_some(&conversation.tools);
        let fixed = context! {
            messages => Value::from(Serde(&messages)),
            tools => tools.map(|tools| Value::from(Serde(tools))),
            add_generation_prompt => conversation.add_generation_prompt,
            bos_token => self.bos.clone(),
            eos_token => self.eos.clone(),
        };
        let variables = Value::from(Serde(&conversation.variables));
        let text = template.render(context! { ..fixed, ..variables }).map_err(failed)?;
        if conversation.continue_final_message { cut_after_last(text, &messages) } else { Ok(text) }
    }
}

/// Templates read the arguments of tool calls as a mapping; the API has them as text.
fn with_parsed_arguments(message: &serde_json::Value) -> serde_json::Value {
    let mut message = message.clone();
    let calls = message.get_mut("tool_calls").and_then(|calls| calls.as_array_mut());
    for call in calls.into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && let Some(parsed) = arguments.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *arguments = parsed;
        }
    }
    message
}

/// The text up to the end of the last message's content: what the template writes after it would
/// end the message.
fn cut_after_last(mut text: String, messages: &[serde_json::Value]) -> Result<String, TemplateError> {
    let content = messages.last().and_then(|message| message["content"].as_str()).unwrap_or_default().trim();
    match text.rfind(content) {
        Some(start) => {
            text.truncate(start + content.len());
            Ok(text)
        }
        None => Err(TemplateError::Refused(
            "it changes the content of the last message, so that message cannot be continued".to_owned(),
        )),
    }
}

/// The mark of an error that the template itself raised.
const RAISED: &str = "raised: ";

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{message}")))
}

fn failed(error: Error) -> TemplateError {
    match error.detail().and_then(|detail| detail.strip_prefix(RAISED)) {
        Some(message) => TemplateError::Refused(message.to_owned()),
        None => TemplateError::Render(error.to_string()),
    }
}

fn strftime_now(format: &str) -> Result<String, Error> {
    use std::fmt::Write;
    let mut text = String::new();
    write!(text, "{}", chrono::Utc::now().format(format))
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, format!("no such time format: {format}")))?;
    Ok(text)
}

/// JSON as Python's `json.dumps(ensure_ascii=False)` writes it.
fn to_json(value: &Value, options: minijinja::value::Kwargs) -> Result<Value, Error> {
    let wrong = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let mut bytes = Vec::new();
    // Other arguments of `json.dumps` change nothing that a chat template needs.
    let indent: Option<usize> = options.get("indent").ok().flatten();
    match indent {
        Some(indent) => {
            let spaces = " ".repeat(indent.min(16));
            let pretty = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            serde::Serialize::serialize(
                value,
                &mut serde_json::Serializer::with_formatter(&mut bytes, pretty),
            )
        }
        None => serde::Serialize::serialize(
            value,
            &mut serde_json::Serializer::with_formatter(&mut bytes, Python),
        ),
    }
    .map_err(wrong)?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Python's separators: a space after each comma and colon.
struct Python;

impl Formatter for Python {
    fn begin_array_value<W: std::io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: std::io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: std::io::Write + ?Sized>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}
