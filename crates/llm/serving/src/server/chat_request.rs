//! The fields of a conversation, and the answers that they begin.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::App;
use super::answer::Answer;
use super::encode::{Client, encode};
use super::error::ApiError;
use super::fields::SamplingFields;
use super::generate::Generate;
use crate::guide::tool_calls;
use crate::template::Conversation;
use crate::text::{ParserOptions, Tool};

/// The fields of a conversation.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub(super) struct ChatFields {
    /// The messages, the oldest first: `{"role": "user", "content": "Hello"}`.
    pub(super) messages: Vec<Map<String, Value>>,
    /// The most tokens of the answer. Left out, as many as the model's files
    /// recommend, else what the prompt leaves of the context.
    pub(super) max_completion_tokens: Option<u32>,
    /// The old name of `max_completion_tokens`.
    pub(super) max_tokens: Option<u32>,
    /// Whether log-probabilities are listed.
    pub(super) logprobs: Option<bool>,
    /// The number of alternatives beside each.
    pub(super) top_logprobs: Option<u32>,
    /// The functions that the model may call.
    pub(super) tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or a function.
    pub(super) tool_choice: Option<Value>,
    /// Whether one answer may have several calls. True if left out.
    pub(super) parallel_tool_calls: Option<bool>,
    /// Variables of the chat template, such as `{"enable_thinking": false}`.
    pub(super) chat_template_kwargs: Option<Map<String, Value>>,
    /// Whether the prompt ends where the assistant begins. True if left out.
    pub(super) add_generation_prompt: Option<bool>,
    /// Whether the last message is the beginning of the answer.
    pub(super) continue_final_message: Option<bool>,
    /// Whether reasoning is in the answer. True if left out.
    pub(super) include_reasoning: Option<bool>,
}

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// What the model may do with its tools.
enum ToolChoice {
    None,
    Auto,
    /// One of these has to be called.
    Required(Vec<Tool>),
    /// This one has to be called, once.
    Named(Tool),
}

impl ChatFields {
    /// The prompt.
    pub(super) fn prompt(&self, app: &App) -> Result<String, ApiError> {
        let continues = self.continue_final_message.unwrap_or(false);
        let conversation = Conversation {
            messages: self.checked_messages()?,
            tools: if matches!(self.choice()?, ToolChoice::None) {
                vec![]
            } else {
                self.tools.clone().unwrap_or_default()
            },
            add_generation_prompt: self.add_generation_prompt.unwrap_or(true) && !continues,
            continue_final_message: continues,
            variables: self.chat_template_kwargs.clone().unwrap_or_default(),
        };
        Ok(app.model.template.render(&conversation)?)
    }

    /// The messages, with contents as text and roles that templates know.
    fn checked_messages(&self) -> Result<Vec<Value>, ApiError> {
        let wrong = |i: usize, what: &str| {
            Err(ApiError::invalid(None, format!("Message {i} {what}.")).at(&format!("messages[{i}]")))
        };
        if self.messages.is_empty() {
            return Err(ApiError::invalid("messages", "`messages` is empty."));
        }
        let mut messages = Vec::new();
        for (i, message) in self.messages.iter().enumerate() {
            let mut message = message.clone();
            match message.get("role").and_then(Value::as_str) {
                Some("developer") => drop(message.insert("role".to_owned(), "system".into())),
                Some(role) if ROLES.contains(&role) => {}
                _ => return wrong(i, &format!("has no role out of {}", ROLES.join(", "))),
            }
            let content = match message.get("content") {
                None | Some(Value::Null) if message["role"] == "assistant" => Some(String::new()),
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Array(parts)) => parts.iter().map(|part| part["text"].as_str()).collect(),
                _ => return wrong(i, "has no content"),
            };
            let Some(content) = content else {
                return wrong(i, "has a part that is not text: this model reads text only");
            };
            message.insert("content".to_owned(), content.into());
            messages.push(Value::Object(message));
        }
        Ok(messages)
    }

    fn tools(&self) -> Result<Vec<Tool>, ApiError> {
        let tools = self.tools.iter().flatten().enumerate();
        tools
            .map(|(i, tool)| {
                let function = &tool["function"];
                let name = function["name"].as_str().filter(|name| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
                });
                let Some(name) = name else {
                    let message =
                        format!("Tool {i} has no function with a name of letters, digits, `_`, `-` and `.`.");
                    return Err(ApiError::invalid(None, message).at(&format!("tools[{i}]")));
                };
                Ok(Tool { name: name.to_owned(), parameters: function["parameters"].clone() })
            })
            .collect()
    }

    fn choice(&self) -> Result<ToolChoice, ApiError> {
        let tools = self.tools()?;
        let wrong = |message: &str| Err(ApiError::invalid("tool_choice", message));
        match &self.tool_choice {
            Some(Value::String(choice)) if choice == "none" => Ok(ToolChoice::None),
            Some(Value::String(choice)) if choice == "required" => match tools.is_empty() {
                true => wrong("`tool_choice` is required, but there are no tools."),
                false => Ok(ToolChoice::Required(tools)),
            },
            None | Some(Value::Null) if tools.is_empty() => Ok(ToolChoice::None),
            None | Some(Value::Null) => Ok(ToolChoice::Auto),
            Some(Value::String(choice)) if choice == "auto" => {
                Ok(if tools.is_empty() { ToolChoice::None } else { ToolChoice::Auto })
            }
            Some(named) => {
                let name =
                    named.pointer("/function/name").or_else(|| named.get("name")).and_then(Value::as_str);
                match tools.into_iter().find(|tool| Some(tool.name.as_str()) == name) {
                    Some(tool) => Ok(ToolChoice::Named(tool)),
                    None => wrong("`tool_choice` is none, auto, required, or the name of one of the tools."),
                }
            }
        }
    }

    /// The number of alternatives to list, if log-probabilities are wanted.
    fn log_probabilities(&self, app: &App) -> Result<Option<u32>, ApiError> {
        app.check_alternatives("top_logprobs", self.top_logprobs)?;
        match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (true, top) => Ok(Some(top.unwrap_or(0))),
            (false, None | Some(0)) => Ok(None),
            (false, Some(_)) => Err(ApiError::invalid("top_logprobs", "`top_logprobs` needs `logprobs`.")),
        }
    }

    /// Begins the answers. Returns them and the tokens of the prompt.
    pub(super) fn start(
        &self,
        app: &Arc<App>,
        sampling: &SamplingFields,
        client: &Client,
    ) -> Result<(Vec<Answer>, usize), ApiError> {
        sampling.check(app)?;
        let prompt = self.prompt(app)?;
        let thinks = app.model.thinks();
        let starts_in_reasoning = thinks && prompt.trim_end().ends_with("<think>");
        let choice = self.choice()?;
        let one_call = matches!(choice, ToolChoice::Named(_)) || self.parallel_tool_calls == Some(false);
        let grammar = match (&choice, sampling.grammar()?) {
            (ToolChoice::Required(tools), None) => Some(("tools", tool_calls(tools, !one_call))),
            (ToolChoice::Named(tool), None) => Some(("tools", tool_calls(std::slice::from_ref(tool), false))),
            (ToolChoice::Required(_) | ToolChoice::Named(_), Some(_)) => {
                let message =
                    "`tool_choice` and `response_format` both say what the answer has to be: give one.";
                return Err(ApiError::invalid("tool_choice", message));
            }
            (_, grammar) => grammar,
        };
        let tools = match choice {
            ToolChoice::None => vec![],
            ToolChoice::Auto | ToolChoice::Required(_) | ToolChoice::Named(_) => self.tools()?,
        };
        let generate = Generate {
            prompt: encode(app, &prompt, false, app.service.limits().context, client)?,
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            log_probabilities: self.log_probabilities(app)?,
            prompt_log_probabilities: None,
            grammar,
            parser: ParserOptions { starts_in_reasoning, reasoning: thinks, tools },
            one_call,
        };
        if generate.max_tokens == Some(0) {
            let message = "The answer may have no token: allow at least 1.";
            return Err(ApiError::invalid("max_completion_tokens", message));
        }
        Ok((generate.start(app, sampling)?, generate.prompt.len()))
    }
}
