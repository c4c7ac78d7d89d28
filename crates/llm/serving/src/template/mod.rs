//! Chat templates: Jinja as Hugging Face's tokenizers render it.

mod jinja;
mod probe;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::text::CallForm;
use jinja::Template;
use probe::{CallIds, Probe};

/// A chat template.
pub struct ChatTemplate {
    /// `None` for a model that brings none.
    template: Option<Template>,
    /// Another one for conversations with tools.
    with_tools: Option<Template>,
    bos: String,
    eos: String,
    form: Arc<CallForm>,
    ids: CallIds,
    /// Whether it takes the arguments of calls as text, as the API has them, and not as a mapping.
    takes_text: bool,
    separator: String,
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
    /// The template took more steps than a run may.
    #[error("the chat template takes too long on the conversation")]
    TooLong,
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

/// Texts of a content are lines of their own where the template takes no lists, as in vLLM and llama.cpp.
const SEPARATOR: &str = "\n";

/// The stack of a run: trees are walked by recursion.
const STACK: usize = 64 << 20;

impl ChatTemplate {
    /// From the source and the texts of the model's first and last token.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, TemplateError> {
        let template = Template::new(source).map_err(|error| TemplateError::Syntax(error.to_string()))?;
        let mut template = ChatTemplate { template: Some(template), ..ChatTemplate::missing(bos, eos) };
        template.learn();
        Ok(template)
    }

    /// For a model that brings no template: conversations are refused until one is given.
    pub fn missing(bos: &str, eos: &str) -> ChatTemplate {
        ChatTemplate {
            template: None,
            with_tools: None,
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            form: Arc::default(),
            ids: CallIds::default(),
            takes_text: false,
            separator: SEPARATOR.to_owned(),
        }
    }

    /// With another source for conversations that have tools.
    pub fn with_tool_source(mut self, source: &str) -> Result<ChatTemplate, TemplateError> {
        let template = Template::new(source).map_err(|error| TemplateError::Syntax(error.to_string()))?;
        self.with_tools = Some(template);
        self.learn();
        Ok(self)
    }

    /// Looks what the template expects and writes.
    fn learn(&mut self) {
        self.ids = CallIds::default();
        let mut probe = Probe::of(self);
        if probe.form.is_none() {
            self.takes_text = true;
            let of_text = Probe::of(self);
            self.takes_text = of_text.form.is_some();
            if self.takes_text {
                probe = of_text;
            }
        }
        let Probe { form, ids, separator } = probe;
        (self.form, self.ids) = (form.unwrap_or_default().into(), ids);
        self.separator = separator.unwrap_or_else(|| SEPARATOR.to_owned());
    }

    /// Another source for the same model.
    pub fn with_source(&self, source: &str) -> Result<ChatTemplate, TemplateError> {
        ChatTemplate::new(source, &self.bos, &self.eos)
    }

    /// Whether the model brings none.
    pub fn is_missing(&self) -> bool {
        self.template.is_none()
    }

    /// How the model writes calls.
    pub fn calls(&self) -> &Arc<CallForm> {
        &self.form
    }

    /// Whether identifiers of calls have nine letters and digits.
    pub fn has_short_ids(&self) -> bool {
        self.ids == CallIds::Nine
    }

    /// What stands between the texts of one content.
    pub fn separator(&self) -> &str {
        &self.separator
    }

    /// The prompt of a conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<String, TemplateError> {
        let of_tools = self.with_tools.as_ref().filter(|_| !conversation.tools.is_empty());
        let Some(template) = of_tools.or(self.template.as_ref()) else { return Err(TemplateError::Missing) };
        let of_template = |message| with_arguments(message, self.takes_text);
        let mut messages: Vec<Value> = conversation.messages.iter().map(of_template).collect();
        if self.ids == CallIds::Named {
            name_ids(&mut messages);
        }
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
                jinja::Error::TooLong => TemplateError::TooLong,
            })
        })?;
        if conversation.continue_final_message { cut_after_last(text, &messages) } else { Ok(text) }
    }
}

/// Most templates read the arguments of tool calls as a mapping; the API has them as text, which some take.
fn with_arguments(message: &Value, as_text: bool) -> Value {
    let mut message = message.clone();
    let calls = message.get_mut("tool_calls").and_then(|calls| calls.as_array_mut());
    for call in calls.into_iter().flatten() {
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        match arguments.as_str() {
            Some(text) if !as_text => *arguments = serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            None if as_text => *arguments = arguments.to_string().into(),
            _ => {}
        }
    }
    message
}

/// Gives calls and their results the identifiers that have the name of the function and count all calls.
fn name_ids(messages: &mut [Value]) {
    let (mut names, mut number) = (HashMap::new(), 0);
    for message in messages {
        for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(name) = call["function"]["name"].as_str() else { continue };
            let id = CallIds::named(name, number);
            number += 1;
            names.insert(call["id"].to_string(), id.clone());
            call["id"] = id.into();
        }
        if let Some(id) = message.get_mut("tool_call_id")
            && let Some(named) = names.get(&id.to_string())
        {
            *id = named.as_str().into();
        }
    }
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
