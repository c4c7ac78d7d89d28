//! Chat templates: Jinja as Hugging Face's tokenizers render it.

mod jinja;

use serde_json::{Map, Value, json};

use jinja::Template;

/// A chat template.
pub struct ChatTemplate {
    /// `None` for a model that brings none.
    template: Option<Template>,
    bos: String,
    eos: String,
}

/// A template is wrong, or refuses a conversation.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The model brings none.
    #[error(
        "the model brings no chat template: start with --chat-template FILE, or with --chat-template chatml"
    )]
    Missing,
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
    pub messages: Vec<Value>,
    /// The tools, as in the API.
    pub tools: Vec<Value>,
    /// Whether the prompt ends where the assistant begins to speak.
    pub add_generation_prompt: bool,
    /// Whether the last message is the beginning of the answer.
    pub continue_final_message: bool,
    /// Further variables, such as `enable_thinking`.
    pub variables: Map<String, Value>,
}

/// The source of ChatML, with the tools and the reasoning of Qwen.
pub const CHAT_ML: &str = include_str!("chat_ml.jinja");

/// The stack of a run: trees are walked by recursion.
const STACK: usize = 64 << 20;

impl ChatTemplate {
    /// From the source and the texts of the model's first and last token.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, TemplateError> {
        let template = Template::new(source).map_err(|error| TemplateError::Syntax(error.to_string()))?;
        Ok(ChatTemplate { template: Some(template), bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// For a model that brings no template: conversations are refused until one is given.
    pub fn missing(bos: &str, eos: &str) -> ChatTemplate {
        ChatTemplate { template: None, bos: bos.to_owned(), eos: eos.to_owned() }
    }

    /// Another source for the same model.
    pub fn with_source(&self, source: &str) -> Result<ChatTemplate, TemplateError> {
        ChatTemplate::new(source, &self.bos, &self.eos)
    }

    /// Whether the model brings none.
    pub fn is_missing(&self) -> bool {
        self.template.is_none()
    }

    /// The prompt of a conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<String, TemplateError> {
        let Some(template) = &self.template else { return Err(TemplateError::Missing) };
        let messages: Vec<Value> = conversation.messages.iter().map(with_parsed_arguments).collect();
        let tools =
            if conversation.tools.is_empty() { Value::Null } else { conversation.tools.clone().into() };
        let mut variables = Map::from_iter([
            ("bos_token".to_owned(), self.bos.as_str().into()),
            ("eos_token".to_owned(), self.eos.as_str().into()),
            ("documents".to_owned(), Value::Null),
        ]);
        variables.extend(conversation.variables.clone());
        variables.insert("messages".to_owned(), json!(messages));
        variables.insert("tools".to_owned(), tools);
        variables.insert("add_generation_prompt".to_owned(), conversation.add_generation_prompt.into());
        let bytes = variables.values().map(|value| value.to_string().len()).sum();
        let text = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let run = thread.spawn_scoped(scope, || template.render(&variables, bytes));
            let run = run.map_err(|error| TemplateError::Render(error.to_string()))?;
            let text = run.join().map_err(|_| TemplateError::Render("its thread has panicked".to_owned()))?;
            text.map_err(|error| match error {
                jinja::Error::Raised(message) => TemplateError::Refused(message),
                jinja::Error::Failed(message) => TemplateError::Render(message),
            })
        })?;
        if conversation.continue_final_message { cut_after_last(text, &messages) } else { Ok(text) }
    }
}

/// Templates read the arguments of tool calls as a mapping; the API has them as text.
fn with_parsed_arguments(message: &Value) -> Value {
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
fn cut_after_last(mut text: String, messages: &[Value]) -> Result<String, TemplateError> {
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
